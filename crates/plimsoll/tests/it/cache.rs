//! Provider caches: unchanged prefixes, positions of breakpoints, and cache hits.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use plimsoll::cache::{Breakpoint, CachePlan, Fingerprint};
use plimsoll::log::ReasoningPart;
use plimsoll::policy::CachePolicy;
use plimsoll::{
    Block, CharCounter, Log, Message, Millis, Part, PartBody, Policy, ToolState, Window, WindowRole,
};
use plimsoll_testkit::{History, histories};
use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

fn policy() -> CachePolicy {
    Policy::default().cache.clone()
}

fn window(log: &[Message]) -> Window {
    Window::of(log, &Policy::default())
}

/// The blocks of a window in the order in which they are sent, each with its role, and its position.
fn sent(window: &Window) -> Vec<(String, Breakpoint)> {
    let system = |at: &usize| window.messages[*at].role == WindowRole::System;
    let (first, rest): (Vec<usize>, Vec<usize>) = (0..window.messages.len()).partition(system);
    let blocks = first.into_iter().chain(rest).flat_map(|message| {
        let shown = &window.messages[message];
        shown.blocks.iter().enumerate().map(move |(block, shown_block)| {
            let mut json = serde_json::to_value(shown_block).unwrap();
            // Neither of these is sent.
            for key in ["part", "cleared"] {
                json.as_object_mut().unwrap().shift_remove(key);
            }
            (format!("{:?}{}{json}", shown.role, block == 0), Breakpoint { message, block })
        })
    });
    blocks.collect()
}

/// Anthropic's rule: an entry is written at each breakpoint for everything before it. Each breakpoint looks for an
/// entry at its own position and at the nineteen before it.
#[derive(Default)]
struct Provider {
    entries: BTreeSet<u64>,
}

impl Provider {
    /// Returns the number of blocks read from the cache.
    fn send(&mut self, window: &Window, breakpoints: &[Breakpoint]) -> usize {
        let mut beginning = DefaultHasher::new();
        let mut entry_after = vec![0];
        let mut places = Vec::new();
        for (block, place) in sent(window) {
            block.hash(&mut beginning);
            entry_after.push(beginning.finish());
            places.push(place);
        }
        let marked: Vec<usize> =
            breakpoints.iter().map(|at| places.iter().position(|place| place == at).unwrap() + 1).collect();
        let looked_at = marked.iter().flat_map(|end| (end.saturating_sub(19).max(1))..=*end);
        let read = looked_at.filter(|end| self.entries.contains(&entry_after[*end])).max().unwrap_or(0);
        self.entries.extend(marked.iter().map(|end| entry_after[*end]));
        read
    }
}

/// A turn of the model with a thought and parallel calls, all answered.
fn step(turn: usize, calls: usize) -> Message {
    let id = |part: &str| format!("a{turn}.{part}");
    let thought = PartBody::Reasoning(ReasoningPart { text: format!("thought {turn}").into() });
    let mut parts = vec![
        Part::new(id("r").as_str().into(), thought),
        Part::text(id("t").as_str().into(), format!("step {turn}")),
    ];
    for call in 0..calls {
        let state = ToolState::completed(json!({ "n": call }), format!("{turn}/{call} ").repeat(40));
        parts.push(Part::tool(id(&call.to_string()).as_str().into(), id(&call.to_string()), "read", state));
    }
    Message::assistant(format!("a{turn}").as_str().into(), parts)
}

#[test]
fn fingerprints_compare_only_what_is_sent() {
    let log = History::new().user("hello").think("hm", "hi").tool("read", "contents").messages();
    let then = Fingerprint::of(&window(&log), &policy());
    let unchanged = |log: &[Message]| {
        let prefix = window(log).unchanged_since(&then, &policy());
        (prefix.messages, prefix.blocks)
    };
    assert_eq!(unchanged(&log), (4, 5));
    // Other ids, same content.
    let mut renamed = log.clone();
    for (at, message) in renamed.iter_mut().enumerate() {
        message.info.id = format!("other_{at}").as_str().into();
        message.parts.iter_mut().for_each(|part| part.id = format!("{}x", part.id).as_str().into());
    }
    assert_eq!(unchanged(&renamed), (4, 5));
    // Another word, role, call id, signature or file: each is detected.
    let changed = |change: &dyn Fn(&mut Vec<Message>)| {
        let mut log = log.clone();
        change(&mut log);
        unchanged(&log)
    };
    assert_eq!(changed(&|log| log[0] = Message::user("m0".into(), "m0.0".into(), "hullo")), (0, 0));
    assert_eq!(changed(&|log| log[0].info.role = Some(plimsoll::Role::System)), (0, 0));
    let signed = json!({ "anthropic": { "signature": "x" } });
    assert_eq!(changed(&|log| drop(log[1].parts[0].extra.insert("metadata".into(), signed.clone()))), (1, 1));
    let tool = |log: &mut Vec<Message>, change: &dyn Fn(&mut plimsoll::log::ToolPart)| {
        if let PartBody::Tool(tool) = &mut log[2].parts[0].body {
            change(tool);
        }
    };
    assert_eq!(changed(&|log| tool(log, &|tool| tool.call_id = "call_9".into())), (2, 3));
    let pixel = json!({ "mime": "image/png", "url": "data:image/png;base64,AAAA" });
    assert_eq!(
        changed(&|log| tool(log, &|tool| tool.state.attachments = vec![pixel.clone()].into())),
        (3, 4)
    );
    // A cleared output is a change.
    assert_eq!(changed(&|log| tool(log, &|tool| tool.state.time.compacted = Some(Millis(1)))), (3, 4));
}

/// Texts cache their hash until they grow.
#[test]
fn a_text_that_grew_has_another_hash() {
    let mut log = Log::new();
    let parts = vec![Part::text("t".into(), "The te")];
    log.append(Message { parts: parts.into(), ..Message::begun("a".into(), Millis(1)) }).unwrap();
    let then = Fingerprint::of(&window(&log), &policy());
    log.extend(&"t".into(), "sts pass").unwrap();
    // The opening that the window supplies is the same.
    assert_eq!(window(&log).unchanged_since(&then, &policy()).blocks, 1);
}

#[test]
fn a_fingerprint_is_small_and_survives_json() {
    let log =
        History::new().user("hello").think("hm", "hi").tool("read", "contents".repeat(9_000)).messages();
    let plan = CachePlan::new(&window(&log), &log, None, 0, &policy());
    let json = serde_json::to_string(&plan.fingerprint).unwrap();
    assert!(json.len() < 150, "{json}");
    assert_eq!(serde_json::from_str::<Fingerprint>(&json).unwrap(), plan.fingerprint);
    let stable = json!({ "messages": ["a45ac038202f735e"], "kept": [1] });
    let one = CachePlan::new(&window(&log[..1]), &log[..1], None, 0, &policy()).fingerprint;
    assert_eq!(serde_json::to_value(&one).unwrap(), stable, "stored fingerprints must stay comparable");
    for wrong in
        [r#"{"messages":["12"]}"#, r#"{"messages":["zzzzzzzzzzzzzzzz"]}"#, r#"{"messages":["éééééééé"]}"#]
    {
        assert!(serde_json::from_str::<Fingerprint>(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn unfinished_and_open_content_is_not_stable() {
    let stable = |log: &[Message]| {
        let shown = window(log);
        let plan = CachePlan::new(&shown, log, None, 0, &policy());
        (plan.stable.messages, plan.stable.blocks, plan.breakpoints.last().copied())
    };
    let at = |message, block| Some(Breakpoint { message, block });
    let history = || History::new().user("go").tool("read", "a").user("and now");
    assert_eq!(stable(&history().messages()), (4, 4, at(3, 0)));
    // Being written: it has a creation time but no end.
    let written = history().say("I will").change(|message| message.info.finish = None).messages();
    assert_eq!(stable(&written), (4, 4, at(3, 0)));
    // Imported without times: considered finished.
    let imported = history().say("I did").change(|m| (m.info.finish, m.info.time) = (None, None)).messages();
    assert_eq!(stable(&imported), (5, 5, at(4, 0)));
    // Calls without results, in both forms.
    let open = history().tool_state("bash", ToolState::pending(json!({}))).messages();
    assert_eq!(stable(&open), (4, 4, at(3, 0)));
    assert_eq!(stable(&history().call("c", "bash").messages()), (4, 4, at(3, 0)));
    assert_eq!(stable(&history().call("c", "bash").result("c", "done").messages()), (6, 6, at(5, 0)));
    // The user has sent a message meanwhile, but the model has not continued yet.
    let queued = history().tool_state("bash", ToolState::pending(json!({}))).user("wait").messages();
    assert_eq!(stable(&queued), (4, 4, at(3, 0)));
    // An old call that was never answered is final.
    let old = history().tool_state("bash", ToolState::pending(json!({}))).user("go on").say("yes").messages();
    assert_eq!(stable(&old), (8, 8, at(7, 0)));
    // An empty log.
    assert_eq!(stable(&[]), (0, 0, None));
}

/// A later system message is sent before everything else and changes the beginning.
#[test]
fn a_late_system_message_changes_the_beginning_if_providers_send_it_first() {
    let before = History::new().user("hello").say("hi").messages();
    let log = History::new().user("hello").say("hi").raw(json!({
        "info": { "id": "s", "role": "system" }, "parts": [{ "id": "s.0", "type": "text", "text": "be brief" }]
    }));
    let log = log.messages();
    for (system_first, unchanged) in [(true, 0), (false, 2)] {
        let policy = CachePolicy { system_first, ..policy() };
        let then = Fingerprint::of(&window(&before), &policy);
        assert_eq!(window(&log).unchanged_since(&then, &policy).blocks, unchanged);
    }
}

#[test]
fn a_thought_gets_no_breakpoint() {
    let bodies = |turn: usize| {
        (1..=10usize).map(move |n| match n {
            10 => PartBody::Reasoning(ReasoningPart { text: format!("thought {turn}").into() }),
            _ => Part::text("x".into(), format!("text {turn}.{n}")).body,
        })
    };
    let named = |(at, body)| Part::new(format!("p{at}").as_str().into(), body);
    let parts: Vec<Part> = (0..10).flat_map(bodies).enumerate().map(named).collect();
    // Ten texts of the user, then ninety blocks of the model of which the 20th, 30th, … 100th is a thought.
    let mut user = Message::user("u".into(), "u".into(), "");
    user.parts = parts[..9].to_vec().into();
    user.parts.push(Part::text("u.9".into(), "and this"));
    let log = vec![user, Message::assistant("a".into(), parts[10..].to_vec())];
    let plan = CachePlan::new(&window(&log), &log, None, 0, &policy());
    assert_eq!(plan.stable.blocks, 100);
    let places: Vec<usize> = plan.breakpoints.iter().map(|at| at.message * 10 + at.block + 1).collect();
    assert_eq!(places, [41, 61, 81, 99]);
}

/// Bursts of parallel calls, with more blocks than a provider looks back.
#[rstest]
#[case::small_steps(1, 0.94)]
#[case::bursts(16, 0.94)]
#[case::great_bursts(60, 0.94)]
fn a_session_of_sixty_steps_is_mostly_read_from_the_cache(#[case] burst: usize, #[case] least: f64) {
    let (policy, counter) = (policy(), CharCounter::default());
    let share = |plan: &mut dyn FnMut(&Window, &[Message]) -> Vec<Breakpoint>| {
        let mut provider = Provider::default();
        let mut log = Log::new();
        let (mut read, mut sent_tokens) = (0, 0);
        for turn in 0..60 {
            if turn % 10 == 0 {
                let id = format!("u{turn}");
                log.append(Message::user(id.as_str().into(), id.as_str().into(), "and then?")).unwrap();
            }
            let shown = window(&log);
            let hit = provider.send(&shown, &plan(&shown, &log));
            let prefix = |blocks| plimsoll::cache::Prefix { messages: 0, blocks };
            read += shown.prefix_tokens(prefix(hit), &policy, &counter).0;
            sent_tokens += shown.prefix_tokens(prefix(usize::MAX), &policy, &counter).0;
            log.append(step(turn, if turn % 7 == 3 { burst } else { 2 })).unwrap();
        }
        read as f64 / sent_tokens as f64
    };
    let mut last: Option<Fingerprint> = None;
    let ours = share(&mut |shown, log| {
        // System prompt and tools have one breakpoint each.
        let plan = CachePlan::new(shown, log, last.as_ref(), 2, &policy);
        last = Some(plan.fingerprint);
        plan.breakpoints
    });
    let one_at_the_end = share(&mut |shown, _| {
        let message = shown.messages.len() - 1;
        vec![Breakpoint { message, block: shown.messages[message].blocks.len() - 1 }]
    });
    println!(
        "bursts of {burst}: read {ours:.3} of what is sent, {one_at_the_end:.3} with one breakpoint at the end"
    );
    assert!(ours >= least && ours >= one_at_the_end, "{ours} against {one_at_the_end}");
}

/// A prune changes the middle of the window. Everything before it is still read from the cache.
#[test]
fn content_before_a_change_is_read_from_the_cache() {
    let policy = policy();
    let mut log = Log::new();
    log.append(Message::user("u".into(), "u.0".into(), "go")).unwrap();
    let (mut provider, mut last) = (Provider::default(), None::<Fingerprint>);
    let mut send = |log: &Log| {
        let shown = window(log);
        let plan = CachePlan::new(&shown, log, last.as_ref(), 2, &policy);
        let read = provider.send(&shown, &plan.breakpoints);
        last = Some(plan.fingerprint.clone());
        (read, plan)
    };
    for turn in 0..40 {
        send(&log);
        log.append(step(turn, 1)).unwrap();
    }
    let (read, plan) = send(&log);
    assert_eq!((read, plan.stable.blocks), (157, 161), "four blocks a step, and the prompt");
    // The result of the 21st step, block 84 and more than any look-back before the end, is cleared.
    log.mark(&"a20.0".into(), plimsoll::log::Effect::clear(), &"rcp_1".into(), Millis(5)).unwrap();
    let (read, plan) = send(&log);
    assert_eq!(plan.unchanged.blocks, 84);
    assert!(read > 84 - 20, "{read} blocks of 84 that are unchanged");
}

fn any_policy() -> impl Strategy<Value = (CachePolicy, u64)> {
    (0u64..6, 1u64..30, any::<bool>(), 0u64..4).prop_map(
        |(max_breakpoints, look_back, system_first, reserved)| {
            (
                CachePolicy {
                    max_breakpoints,
                    look_back,
                    system_first,
                    ..plimsoll::Policy::default().cache.clone()
                },
                reserved,
            )
        },
    )
}

proptest! {
    /// Of three windows, the first and the third share at least what both share with the second.
    #[test]
    fn properties_unchanged_is_monotone(
        messages in histories(25),
        cuts in (0usize..60, 0usize..60),
        cleared in any::<prop::sample::Index>(),
    ) {
        let policy = policy();
        let mut log = Log::from_messages(messages);
        let cut = |at: usize| window(&log[..at % (log.len() + 1)]);
        let (one, two) = (cut(cuts.0), cut(cuts.1));
        let parts: Vec<_> = log.iter().flat_map(|m| &m.parts).map(|part| part.id.clone()).collect();
        if !parts.is_empty() {
            let _ = log.mark(cleared.get(&parts), plimsoll::log::Effect::clear(), &"rcp_1".into(), Millis(1));
        }
        let three = window(&log);
        let prints = [&one, &two, &three].map(|window| Fingerprint::of(window, &policy));
        let shared = |a: usize, b: usize| prints[a].shared_with(&prints[b]);
        prop_assert!(shared(2, 0).blocks >= shared(2, 1).blocks.min(shared(1, 0).blocks));
        prop_assert_eq!(shared(0, 2), shared(2, 0));
        // It is the longest beginning that is sent the same, and no hash hides a difference.
        let (then, now) = (sent(&one), sent(&three));
        let same = then.iter().zip(&now).take_while(|(then, now)| then.0 == now.0).count();
        prop_assert_eq!(shared(2, 0).blocks, same);
        let whole = shared(2, 2);
        prop_assert_eq!((whole.messages, whole.blocks), (three.messages.len(), now.len()));
    }

    #[test]
    fn properties_breakpoints_are_few_ascending_and_in_reach(
        messages in histories(40),
        before in 0usize..60,
        (policy, reserved) in any_policy(),
    ) {
        let log = Log::from_messages(messages);
        let earlier = &log[..before % (log.len() + 1)];
        let first = CachePlan::new(&window(earlier), earlier, None, reserved, &policy);
        let shown = window(&log);
        for sent_before in [None, Some(&first.fingerprint)] {
            let plan = CachePlan::new(&shown, &log, sent_before, reserved, &policy);
            prop_assert_eq!(&CachePlan::new(&shown, &log, sent_before, reserved, &policy), &plan);
            let slots = policy.max_breakpoints.saturating_sub(reserved) as usize;
            prop_assert!(plan.breakpoints.len() <= slots);
            // In the order in which they are sent.
            let order = sent_places(&shown, &policy);
            let places: Vec<usize> =
                plan.breakpoints.iter().map(|at| order.iter().position(|place| place == at).unwrap() + 1).collect();
            prop_assert!(places.windows(2).all(|pair| pair[0] < pair[1]), "{places:?}");
            let is_bare = |at: &Breakpoint| takes_no_mark(&shown, at);
            prop_assert!(!plan.breakpoints.iter().any(is_bare));
            // The last is on the newest stable message that takes a mark.
            prop_assert!(plan.stable.blocks <= order.len());
            let newest = order[..plan.stable.blocks].iter().rev().find(|at| !is_bare(at)).map(|at| at.message);
            let newest = newest.filter(|_| slots > 0);
            prop_assert_eq!(plan.breakpoints.last().map(|at| at.message), newest);
            // No two are further apart than the look-back, except for the oldest if no breakpoints are left. If some
            // are left,
    // everything up to the beginning is covered.
            let look_back = policy.look_back as usize;
            let far: Vec<usize> =
                (1..places.len()).filter(|at| places[*at] - places[*at - 1] > look_back).collect();
            // Only a stretch full of thoughts and similar blocks has nothing to mark.
            let marks: Vec<bool> = order.iter().map(|at| !is_bare(at)).collect();
            let blocked = marks.windows(look_back).any(|stretch| stretch.iter().all(|can_mark| !can_mark));
            if !blocked {
                prop_assert!(far.is_empty() || (far == [1] && places.len() == slots), "{places:?}");
                if places.len() < slots && !places.is_empty() {
                    prop_assert!(places[0] <= look_back, "{places:?}");
                }
            }
        }
    }
}

proptest! {
    // Fewer cases than other properties, because every prefix of a history is sent and serialised.
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 8, ..ProptestConfig::default() })]

    /// A request finds everything that was stable in the previous one, if none of that has changed: with two
    /// breakpoints for any number of added blocks, with one if no more were added than the look-back.
    #[test]
    fn properties_the_next_request_finds_what_was_stable(
        messages in histories(40),
        bursts in prop::collection::vec(0usize..50, 0..3),
        reserved in 0u64..4,
    ) {
        let mut messages = messages;
        messages.extend(bursts.iter().enumerate().map(|(at, calls)| step(at, *calls)));
        let log = Log::from_messages(messages);
        let policy = policy();
        let mut provider = Provider::default();
        let mut last: Option<CachePlan> = None;
        let mut pivot = None;
        for end in 0..=log.len() {
            let shown = window(&log[..end]);
            let plan = CachePlan::new(&shown, &log[..end], last.as_ref().map(|plan| &plan.fingerprint), reserved, &policy);
            let read = provider.send(&shown, &plan.breakpoints);
            if let Some(last) = &last {
                let kept = last.fingerprint.clone();
                let stable = last.stable.blocks;
                // A result without an id answers the oldest open call, however old, so stable content changes.
                if shown.pivot == pivot && !answers_by_age(&log[..end]) && policy_keeps_order(&shown) {
                    prop_assert!(plan.unchanged.blocks >= stable, "{:?} of {stable}", plan.unchanged);
                }
                let added = sent(&shown).len().saturating_sub(stable);
                let one_reaches = reserved < 3 || (reserved == 3 && added < 20);
                if plan.unchanged.blocks >= stable && one_reaches && last.breakpoints.last().is_some() {
                    let end = markable_end(&shown, stable);
                    prop_assert!(read >= end, "{read} of {end} ({stable}) with {kept:?}");
                }
            }
            pivot = shown.pivot.clone();
            last = Some(plan);
        }
    }
}

/// The positions of all blocks in the order in which they are sent.
fn sent_places(window: &Window, policy: &CachePolicy) -> Vec<Breakpoint> {
    if policy.system_first {
        return sent(window).into_iter().map(|(_, place)| place).collect();
    }
    let messages = window.messages.iter().enumerate();
    messages
        .flat_map(|(message, m)| (0..m.blocks.len()).map(move |block| Breakpoint { message, block }))
        .collect()
}

/// Whether a block is a thought or a provider block, which cannot be marked.
fn takes_no_mark(window: &Window, at: &Breakpoint) -> bool {
    matches!(window.messages[at.message].blocks[at.block], Block::Reasoning { .. } | Block::Provider { .. })
}

/// The last block up to `blocks` that can be marked. Blocks that cannot be marked are cached with the following ones.
fn markable_end(window: &Window, blocks: usize) -> usize {
    let places = sent(window);
    places[..blocks].iter().rposition(|(_, place)| !takes_no_mark(window, place)).map_or(0, |at| at + 1)
}

fn answers_by_age(log: &[Message]) -> bool {
    let parts = log.iter().flat_map(|message| &message.parts);
    parts
        .into_iter()
        .any(|part| matches!(&part.body, PartBody::ToolResult(result) if result.call_id.is_empty()))
}

/// Whether no system message follows others: it would be sent first and change the beginning.
fn policy_keeps_order(window: &Window) -> bool {
    window.messages.iter().map(|message| message.role != WindowRole::System).is_sorted()
}

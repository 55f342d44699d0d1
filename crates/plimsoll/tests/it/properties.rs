//! Invariants over generated histories. `just properties` runs them a hundred thousand times.

use plimsoll::compact::{CompactionContext, FitResult, Ladder, Outcome, Reply, Step, Summariser, Trigger};
use plimsoll::edit::{self, Edit};
use plimsoll::fork::{Child, fork, fork_for};
use plimsoll::pin::{self, PinTarget};
use plimsoll::{
    Block, CharCounter, Chars, Counter, ForkRules, Limits, Load, Log, Message, Millis, Plan, Policy, Preset,
    RequestOverhead, Tokens, Usage, Window, WindowRole, prune, request_tokens,
};
use plimsoll_testkit::{histories, ids, renamed};
use proptest::prelude::*;

/// An unreliable model.
#[derive(Clone, Copy, Debug)]
enum Model {
    Absent,
    Good,
    Empty,
    Huge,
    Failing,
    WantsTools,
}

fn models() -> impl Strategy<Value = Model> {
    prop::sample::select(vec![
        Model::Absent,
        Model::Good,
        Model::Empty,
        Model::Huge,
        Model::Failing,
        Model::WantsTools,
    ])
}

fn presets() -> impl Strategy<Value = Preset> {
    prop::sample::select(Preset::ALL.to_vec())
}

impl Model {
    fn answer(self) -> Result<Reply, String> {
        match self {
            Model::Good => Ok(Reply::finished("## Goal\n- go on")),
            Model::Empty => Ok(Reply::finished("  ")),
            Model::Huge => Ok(Reply::finished("word ".repeat(100_000))),
            Model::WantsTools => Ok(Reply { tool_calls: vec!["bash".into()], ..Reply::finished("x") }),
            Model::Failing | Model::Absent => Err("no".into()),
        }
    }
}

fn reduce(log: &mut Log, policy: &Policy, limits: Limits, model: Model) -> (Outcome, usize) {
    climb(log, policy, limits, model, Trigger::Auto, RequestOverhead::default())
}

/// Pins something, if it can be pinned.
fn pinned(
    log: &mut Log,
    target: &PinTarget,
    policy: &Policy,
    limits: Limits,
    names: &mut plimsoll::Ids,
) -> Option<plimsoll::Receipt> {
    let plan = pin::plan(log, target, policy, Some(limits), &policy.count).ok()?;
    let weigh =
        |log: &Log| request_tokens(&Window::of(log, policy), RequestOverhead::default(), &policy.count);
    Some(plan.apply(log, names, Millis(9_000_000), policy, weigh).unwrap())
}

/// Edits something, if it can be edited.
fn edited(log: &mut Log, edit: &Edit, names: &mut plimsoll::Ids) -> Option<plimsoll::Receipt> {
    let plan = edit::plan(log, edit).ok()?;
    Some(plan.apply(log, names, Millis(9_000_000), &Policy::default(), |_| Tokens(1)).unwrap())
}

/// Whether a message has calls or results without an id, which are matched by position.
fn has_unnamed_calls(message: &Message) -> bool {
    message.parts.iter().any(|part| match &part.body {
        plimsoll::PartBody::ToolCall(call) => call.call_id.is_empty(),
        plimsoll::PartBody::ToolResult(result) => result.call_id.is_empty(),
        _ => false,
    })
}

fn climb(
    log: &mut Log,
    policy: &Policy,
    limits: Limits,
    model: Model,
    trigger: Trigger,
    fixed: RequestOverhead,
) -> (Outcome, usize) {
    climb_named(log, policy, limits, model, trigger, fixed, 0)
}

fn climb_named(
    log: &mut Log,
    policy: &Policy,
    limits: Limits,
    model: Model,
    trigger: Trigger,
    fixed: RequestOverhead,
    number: usize,
) -> (Outcome, usize) {
    let mut ids = ids_of(number);
    let summariser = (!matches!(model, Model::Absent)).then(|| Summariser::named("summariser", limits));
    let context = CompactionContext {
        summariser,
        trigger,
        fixed,
        ..CompactionContext::new(policy, limits, Millis(9_000_000))
    };
    let mut ladder = Ladder::new(log.clone(), context);
    let mut asked = 0;
    loop {
        match ladder.climb(&mut ids).unwrap() {
            Step::Ask(request) => {
                let line = policy.overflow.line(limits).unwrap();
                assert!(!line.is_over(request.tokens), "a summary request over the summariser's own line");
                asked += 1;
                assert!(asked <= 10_000, "the ladder does not end");
                ladder.answer(model.answer(), &mut ids).unwrap();
            }
            Step::Done(outcome) => {
                outcome.reduction.commit(log).unwrap();
                return (outcome, asked);
            }
        }
    }
}

/// The content of the log, without marks of reductions.
fn content(messages: &[Message]) -> Vec<Message> {
    let mut messages = messages.to_vec();
    for part in messages.iter_mut().flat_map(|message| &mut message.parts) {
        *part = part.clone().without_marks();
    }
    messages
}

/// The blocks of the window with their roles, the unit that provider caches compare.
fn blocks(window: &Window) -> Vec<(WindowRole, Block)> {
    let messages = window.messages.iter();
    messages.flat_map(|message| message.blocks.iter().map(|block| (message.role, block.clone()))).collect()
}

fn has_open_calls(window: &Window) -> bool {
    let blocks = window.messages.iter().flat_map(|message| &message.blocks);
    blocks
        .into_iter()
        .any(|block| matches!(block, Block::Result { text, .. } if text.contains("interrupted")))
}

/// All text of a window.
fn said(window: &Window) -> String {
    let blocks = window.messages.iter().flat_map(|message| &message.blocks);
    let texts = blocks.filter_map(|block| match block {
        Block::Text { text, .. } | Block::Reasoning { text, .. } | Block::Result { text, .. } => {
            Some(text.as_str())
        }
        Block::Call { .. } | Block::Provider { .. } | Block::File { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// The blocks of messages for which `is_wanted` returns true.
fn shown_of(window: &Window, is_wanted: impl Fn(&str) -> bool) -> Vec<Block> {
    let wanted = window
        .messages
        .iter()
        .filter(|message| message.message.as_ref().is_some_and(|id| is_wanted(id.as_str())));
    wanted.flat_map(|message| message.blocks.clone()).collect()
}

/// Identifiers that differ from climb to climb.
fn ids_of(climb: usize) -> plimsoll::Ids {
    let mut names = ids();
    for _ in 0..climb * 200 {
        let _ = names.message(Millis(9_000_000));
    }
    names
}

/// An event in a session.
#[derive(Clone, Debug)]
enum Event {
    Append(Vec<Message>),
    Climb(Model, Trigger),
    Undo(usize),
    PinMessage(usize),
    PinWords(usize),
    Edit(usize, String),
    Remove(usize, bool),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let trigger = prop::sample::select(vec![Trigger::Auto, Trigger::Manual, Trigger::Refused]);
    let event = prop_oneof![
        3 => histories(8).prop_map(Event::Append),
        4 => (models(), trigger).prop_map(|(model, trigger)| Event::Climb(model, trigger)),
        2 => any::<usize>().prop_map(Event::Undo),
        1 => any::<usize>().prop_map(Event::PinMessage),
        2 => any::<usize>().prop_map(Event::PinWords),
        1 => (any::<usize>(), "[a-z ]{1,60}").prop_map(|(which, text)| Event::Edit(which, text)),
        2 => (any::<usize>(), any::<bool>()).prop_map(|(which, whole)| Event::Remove(which, whole)),
    ];
    prop::collection::vec(event, 1..12)
}

proptest! {
    #[test]
    fn properties_undo_in_any_order_restores(
        messages in histories(20),
        more in histories(10),
        model in models(),
        preset in presets(),
        context in 2_000u64..30_000,
        order in any::<u64>(),
    ) {
        let policy = preset.policy();
        let limits = Limits::new(context, context / 8);
        let mut log = Log::from_messages(messages);
        let mut plain = log.messages().to_vec();
        let first = climb(&mut log, &policy, limits, model, Trigger::Refused, RequestOverhead::default()).0;
        for message in renamed(more, "x") {
            log.append(message.clone()).unwrap();
            plain.push(message);
        }
        let second = climb_named(&mut log, &policy, limits, model, Trigger::Refused, RequestOverhead::default(), 1).0;
        let mut receipts = [first.reduction.receipts, second.reduction.receipts].concat();
        let mut ids = ids_of(2);
        let mut draw = order;
        while !receipts.is_empty() {
            draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let receipt = receipts.swap_remove((draw >> 33) as usize % receipts.len());
            receipt.undo(&mut log, &mut ids, Millis(9_900_000)).unwrap();
            prop_assert!(receipt.undo(&mut log, &mut ids, Millis(9_900_000)).is_err(), "undone twice");
            prop_assert_eq!(Window::of(&log, &policy).check(), Ok(()));
        }
        // The log is as if nothing had been reduced.
        prop_assert_eq!(said(&Window::of(&log, &policy)), said(&Window::of(&plain, &policy)));
    }

    #[test]
    fn properties_a_climb_on_a_snapshot_hides_nothing_that_was_appended_since(
        messages in histories(20),
        meanwhile in histories(8),
        model in models(),
        preset in presets(),
        context in 2_000u64..30_000,
    ) {
        let policy = preset.policy();
        let limits = Limits::new(context, context / 8);
        let mut log = Log::from_messages(messages);
        let snapshot = log.clone();
        // Foreign pivots are separate plans.
        let plain = |message: &Message| message.marker().is_none() && !message.info.summary && !has_unnamed_calls(message);
        for message in renamed(meanwhile, "late_").into_iter().filter(plain) {
            log.append(message).unwrap();
        }
        let late = |id: &str| id.starts_with("late_");
        let before = shown_of(&Window::of(&log, &policy), late);
        let summariser = Some(Summariser::named("summariser", limits));
        let context = CompactionContext { summariser, trigger: Trigger::Refused, ..CompactionContext::new(&policy, limits, Millis(9_000_000)) };
        let mut ladder = Ladder::new(snapshot, context);
        let mut names = ids();
        let outcome = loop {
            match ladder.climb(&mut names).unwrap() {
                Step::Ask(_) => ladder.answer(model.answer(), &mut names).unwrap(),
                Step::Done(outcome) => break outcome,
            }
        };
        outcome.reduction.commit(&mut log).unwrap();
        let window = Window::of(&log, &policy);
        prop_assert_eq!(window.check(), Ok(()));
        let after = shown_of(&window, late);
        // Call ids are renumbered if an older call with the same id is no longer in view.
        let texts = |blocks: &[Block]| -> Vec<String> {
            blocks.iter().map(|block| match block {
                Block::Text { text, .. } | Block::Result { text, .. } | Block::Reasoning { text, .. } => text.to_string(),
                Block::Call { tool, .. } => tool.clone(),
                Block::Provider { value, .. } => value.json().to_string(),
                Block::File { .. } => "file".to_owned(),
            }).collect()
        };
        prop_assert_eq!(texts(&after), texts(&before));
    }

    #[test]
    fn properties_any_mix_of_events_leaves_a_legal_window_with_every_pin(
        start in histories(10),
        events in events(),
        context in 6_000u64..40_000,
    ) {
        let policy = Policy::default();
        let limits = Limits::new(context, context / 8);
        let line = policy.overflow.line(limits).unwrap();
        let mut log = Log::from_messages(start);
        let mut receipts = Vec::new();
        for (at, event) in events.into_iter().enumerate() {
            let mut names = ids_of(at + 1);
            match event {
                Event::Append(messages) => {
                    renamed(messages, &format!("e{at}_")).into_iter().for_each(|message| log.append(message).unwrap());
                }
                Event::Climb(model, trigger) => {
                    let outcome = climb_named(&mut log, &policy, limits, model, trigger, RequestOverhead::default(), at + 1).0;
                    if outcome.verdict == FitResult::Fits {
                        let load = request_tokens(&Window::of(&log, &policy), RequestOverhead::default(), &policy.count);
                        prop_assert!(!line.is_over(load), "{load} over {line:?}: {outcome:?}");
                    } else {
                        prop_assert!(trigger == Trigger::Refused, "{}", outcome.verdict);
                    }
                    // Pins yield only to a provider that rejects the rest.
                    let unpinned = outcome.reduction.receipts.iter().any(|receipt| receipt.to_string().contains("unpin"));
                    prop_assert!(!unpinned || trigger == Trigger::Refused);
                    receipts.extend(outcome.reduction.receipts);
                }
                Event::Undo(which) if !receipts.is_empty() => {
                    let receipt: plimsoll::Receipt = receipts.swap_remove(which % receipts.len());
                    receipt.undo(&mut log, &mut names, Millis(9_900_000)).unwrap();
                }
                Event::PinMessage(which) if !log.is_empty() => {
                    let target = PinTarget::Message(log[which % log.len()].info.id.clone());
                    receipts.extend(pinned(&mut log, &target, &policy, limits, &mut names));
                }
                Event::PinWords(which) if !log.is_empty() => {
                    let text = log[which % log.len()].text();
                    let words: String = text.chars().skip(which % 7).take(40).collect();
                    receipts.extend(pinned(&mut log, &PinTarget::Words(words), &policy, limits, &mut names));
                }
                Event::Edit(which, text) if !log.is_empty() => {
                    let parts = log[which % log.len()].parts.first();
                    let edit = parts.map(|part| Edit::Text(part.id.clone(), text.into()));
                    receipts.extend(edit.and_then(|edit| edited(&mut log, &edit, &mut names)));
                }
                Event::Remove(which, whole) if !log.is_empty() => {
                    let message = &log[which % log.len()];
                    let edit = match message.parts.first() {
                        Some(part) if !whole => Edit::RemovePart(part.id.clone()),
                        _ => Edit::RemoveMessage(message.info.id.clone()),
                    };
                    receipts.extend(edited(&mut log, &edit, &mut names));
                }
                _ => {}
            }
            let window = Window::of(&log, &policy);
            prop_assert_eq!(window.check(), Ok(()));
            let text = said(&window);
            for (message, _, pin) in plimsoll::log::pins(&log) {
                prop_assert!(text.contains(pin.as_str()), "{} is out of view: {pin:?}", message.info.id);
            }
        }
    }

    #[test]
    fn properties_every_window_is_legal_and_deterministic(messages in histories(25), preset in presets()) {
        let policy = preset.policy();
        let window = Window::of(&messages, &policy);
        prop_assert_eq!(window.check(), Ok(()));
        prop_assert_eq!(&Window::of(&messages, &policy), &window);
        let log = Log::from_messages(messages);
        prop_assert_eq!(Window::of(&log, &policy).check(), Ok(()));
    }

    #[test]
    fn properties_the_ladder_ends_under_the_line_and_loses_nothing(
        messages in histories(25),
        model in models(),
        context in prop_oneof![1 => 1_000u64..4_000, 3 => 4_000u64..40_000],
        trigger in prop::sample::select(vec![Trigger::Auto, Trigger::Manual, Trigger::Refused]),
        usage in prop::option::of(0.1f64..1.0),
    ) {
        let policy = Policy::default();
        let limits = Limits::new(context, context / 8);
        let mut messages = messages;
        // Usage below the estimate, as with vocabularies with long tokens, and above.
        if let Some(share) = usage {
            let estimate = request_tokens(&Window::of(&messages, &policy), RequestOverhead::default(), &policy.count);
            let newest = messages.iter_mut().rev().find(|message| message.is_assistant());
            if let Some(newest) = newest {
                let input = Tokens((estimate.0 as f64 * share) as u64);
                newest.info.tokens = Some(Usage::new(input, Tokens(5)));
            }
        }
        let mut log = Log::from_messages(messages);
        let before = content(&log);
        let (outcome, _) = climb(&mut log, &policy, limits, model, trigger, RequestOverhead::default());
        // Nothing is lost: everything is still in its place.
        prop_assert_eq!(&content(&log)[..before.len()], &before[..]);
        let window = Window::of(&log, &policy);
        prop_assert_eq!(window.check(), Ok(()));
        let line = policy.overflow.line(limits).unwrap();
        let load = match usage {
            Some(_) => Load::of(&log, &policy, RequestOverhead::default(), &policy.count).tokens,
            None => request_tokens(&window, RequestOverhead::default(), &policy.count),
        };
        match outcome.verdict {
            FitResult::Fits => prop_assert!(!line.is_over(load), "{load} over {line:?}"),
            // A provider that rejects almost empty requests cannot be satisfied.
            FitResult::TooHeavy { .. } => {
                prop_assert!(trigger == Trigger::Refused && load < Tokens(300), "{load}: {outcome:?}");
            }
            FitResult::StillOver => prop_assert!(false, "{outcome:?}"),
        }
        for receipt in &outcome.reduction.receipts {
            prop_assert!(receipt.after < receipt.before, "{receipt}");
            prop_assert!(!receipt.handles.is_empty());
        }
        if outcome.verdict == FitResult::Fits {
            // A manual climb does not look for savings under the line; the next automatic one may find some.
            if trigger != Trigger::Auto {
                let (next, _) = reduce(&mut log, &policy, limits, model);
                prop_assert_eq!(next.verdict, FitResult::Fits);
            }
            // Idempotent: a second climb of the same kind finds nothing to do.
            let again = log.clone();
            let (second, asked) = reduce(&mut log, &policy, limits, model);
            prop_assert_eq!((second.reduction.receipts.len(), asked), (0, 0));
            prop_assert_eq!(log, again);
        }
    }

    /// Figures of a broken provider: a window that fits without them fits with them.
    #[test]
    fn properties_no_usage_however_large_keeps_a_window_from_fitting(
        messages in histories(25),
        model in models(),
        context in 4_000u64..40_000,
        trigger in prop::sample::select(vec![Trigger::Auto, Trigger::Manual]),
        figures in prop::array::uniform4(prop::sample::select(vec![0, 1, 60_000_000, u64::MAX / 2, u64::MAX - 1, u64::MAX])),
        total in prop::option::of(prop::sample::select(vec![60_000_000, u64::MAX - 1, u64::MAX])),
    ) {
        let policy = Policy::default();
        let limits = Limits::new(context, context / 8);
        let mut messages = messages;
        for message in messages.iter_mut().filter(|message| message.is_assistant()) {
            let [input, output, cache_read, cache_write] = figures.map(Tokens);
            let mut usage = Usage::new(input, output);
            (usage.cache_read, usage.cache_write, usage.total) = (cache_read, cache_write, total.map(Tokens));
            message.info.tokens = Some(usage);
        }
        let mut log = Log::from_messages(messages);
        let (outcome, asked) = climb(&mut log, &policy, limits, model, trigger, RequestOverhead::default());
        prop_assert_eq!(outcome.verdict, FitResult::Fits);
        prop_assert!(asked <= 200);
        prop_assert_eq!(Window::of(&log, &policy).check(), Ok(()));
    }

    #[test]
    fn properties_every_preset_ends_and_leaves_a_legal_window(
        messages in histories(25),
        model in models(),
        preset in presets(),
        trigger in prop::sample::select(vec![Trigger::Auto, Trigger::Manual, Trigger::Refused]),
        context in 2_000u64..40_000,
        system in 0u64..2_000,
    ) {
        let policy = preset.policy();
        let mut log = Log::from_messages(messages);
        let before = content(&log);
        let shown = Window::of(&log, &policy);
        let fixed = RequestOverhead { system: Tokens(system), tools: Tokens(0) };
        let limits = Limits::new(context, context / 8);
        let (outcome, asked) = climb(&mut log, &policy, limits, model, trigger, fixed);
        prop_assert_eq!(&content(&log)[..before.len()], &before[..]);
        prop_assert_eq!(Window::of(&log, &policy).check(), Ok(()));
        prop_assert!(outcome.after <= outcome.before, "{outcome:?}");
        prop_assert!(outcome.reduction.receipts.iter().all(|receipt| receipt.after < receipt.before), "{outcome:?}");
        prop_assert_eq!(log.len(), before.len() + outcome.reduction.appended.len());
        prop_assert!(asked <= 200);
        // After undoing in reverse order, everything is in the window again.
        let mut ids = ids();
        for receipt in outcome.reduction.receipts.iter().rev() {
            receipt.undo(&mut log, &mut ids, Millis(9_900_000)).unwrap();
        }
        let again = Window::of(&log, &policy);
        prop_assert_eq!(&again.messages[..shown.messages.len()], &shown.messages[..]);
    }

    #[test]
    fn properties_appending_never_changes_the_window_before_it(messages in histories(25), preset in presets()) {
        let policy = preset.policy();
        let messages = Log::from_messages(messages);
        let mut shown = Vec::new();
        let mut pivot = None;
        for end in 0..=messages.len() {
            let window = Window::of(&messages[..end], &policy);
            let now = blocks(&window);
            // Except for a new pivot, and an open call, which gets a temporary result.
            if window.pivot == pivot && end > 0 {
                prop_assert!(now.starts_with(&shown), "message {}:\n{:#?}\n{:#?}", end - 1, shown, now);
            }
            if has_open_calls(&window) {
                break;
            }
            (shown, pivot) = (now, window.pivot);
        }
    }

    #[test]
    fn properties_pruning_is_idempotent_and_only_clears(messages in histories(40), preset in presets()) {
        let small = serde_json::json!({
            "preset": preset.name(),
            "prune": { "enabled": true, "protectTokens": 500, "minTokens": 100, "gateShare": null, "gateHeadroom": null },
        });
        let policy = Policy::from_value(small).unwrap();
        let mut log = Log::from_messages(messages);
        let before = content(&log);
        let plan = prune::plan(&log, &policy, None);
        prop_assert!(plan.items.is_empty() || plan.freed_tokens > Tokens(100));
        let freed: Tokens = plan.items.iter().map(|item| item.tokens).sum();
        prop_assert_eq!(freed, plan.freed_tokens);
        Plan::Prune(plan.clone()).mark(&mut log, &"rcp_1".into(), Millis(9_000_000)).unwrap();
        prop_assert_eq!(content(&log), before);
        let second = prune::plan(&log, &policy, None);
        for item in &second.items {
            prop_assert!(plan.items.iter().all(|known| known.part != item.part), "cleared twice");
        }
        if preset != Preset::Openfork {
            prop_assert!(second.items.is_empty());
        }
    }

    #[test]
    fn properties_a_fork_stays_within_its_budget(messages in histories(40), budget in 1_000u64..60_000) {
        let policy = Policy::from_value(serde_json::json!({ "fork": { "charBudget": budget, "noRemoval": budget / 2 } })).unwrap();
        let before = messages.clone();
        let digest = fork(&messages, &policy.fork);
        prop_assert_eq!(&messages, &before);
        prop_assert!(digest.stats.total_chars <= Chars(budget));
        prop_assert_eq!(digest.stats.total_chars, Chars::of(&digest.context));
        prop_assert!(digest.stats.head_tail_applied <= digest.stats.truncated_results);
        prop_assert_eq!(&fork(&messages, &policy.fork), &digest);
        // A history of only failed summaries makes an empty digest.
        let said = plimsoll::fork::slice(&messages).messages.len();
        let stats = &digest.stats;
        prop_assert_eq!(stats.final_count + stats.removed_messages, said);
        prop_assert_eq!(stats.final_count + stats.removed_messages + stats.left_out_messages, messages.len());
        let by = &stats.truncated_by;
        prop_assert_eq!(by.tier1 + by.tier2 + by.tier3 + by.budget, stats.truncated_results);
        prop_assert!(stats.truncated_results <= stats.tier_distribution.total());
        let said = digest.context.strip_prefix("<inherited_context>");
        let said = said.and_then(|text| text.strip_suffix("\n</inherited_context>"));
        prop_assert_eq!(said.is_none(), stats.final_count == 0);
        prop_assert_eq!(said.is_none(), digest.context.is_empty());
        // No content ends the block.
        let said = said.unwrap_or_default().to_lowercase();
        prop_assert!(!said.contains("</inherited_context") && !said.contains("<inherited_context"));
    }

    #[test]
    fn properties_a_fork_that_stops_early_equals_the_full_one(
        messages in histories(60),
        preset in presets(),
        budget in 1_000u64..60_000,
        no_removal in 0u64..100,
        words in prop::option::of(0u64..5_000),
        newest in prop::option::of(0u64..20_000),
    ) {
        let mut spec = preset.policy().into_spec();
        // With the document's rules, the whole history is always read.
        spec.fork.rules = ForkRules::Fitted;
        spec.fork.char_budget = Chars(budget);
        spec.fork.no_removal = Chars(budget * no_removal / 100);
        spec.fork.words_room = words.map(Chars);
        spec.fork.newest_room = newest.map(Chars);
        let policy = Policy::new(spec).unwrap();
        let digest = fork(&messages, &policy.fork);
        // The whole history, stage by stage.
        let slice = plimsoll::fork::slice(&messages);
        let tiered = plimsoll::fork::cut_by_age(&slice.messages, &policy.fork);
        let whole = plimsoll::fork::fit(&tiered.messages, slice.pinned(), &policy.fork);
        let stats = &digest.stats;
        prop_assert_eq!(&digest.context, &whole.text);
        prop_assert_eq!(
            (stats.final_count, stats.removed_messages, stats.kept_words, stats.shortened_messages),
            (whole.count, whole.removed, whole.words, whole.shortened)
        );
        prop_assert_eq!(stats.total_chars, whole.chars);
        prop_assert_eq!(&stats.tier_distribution, &whole.results.distribution);
        prop_assert_eq!(stats.truncated_results, whole.results.truncated());
        prop_assert_eq!(stats.head_tail_applied, whole.results.head_tail);
    }

    #[test]
    fn properties_a_fork_fits_its_child(
        messages in histories(40),
        preset in presets(),
        room in 800u64..20_000,
        system in 0u64..5_000,
        per_token in 1u64..6,
    ) {
        let mut spec = preset.policy().into_spec();
        spec.fork.rules = ForkRules::Fitted;
        let policy = Policy::new(spec).unwrap();
        let counter = CharCounter { chars_per_token: per_token, ..CharCounter::default() };
        let fixed = RequestOverhead { system: Tokens(system), tools: Tokens(0) };
        // A window that leaves exactly this room in addition to the fixed part, whatever the preset's reserve.
        let wanted = (room * 4).div_ceil(per_token) + system + 100;
        let fits = |context: u64| policy.overflow.line(Limits::new(context, 0)).unwrap().at.0 >= wanted;
        let context = (1..200u64).map(|n| n * 1_000).find(|context| fits(*context)).unwrap();
        let child = Child { limits: Limits::new(context, 0), fixed, task: "do it" };
        let digest = fork_for(&messages, &policy, &child, &counter).unwrap();
        if let Some(message) = digest.message() {
            let line = policy.overflow.line(child.limits).unwrap();
            let load = fixed.total() + counter.count(&message) + counter.count("do it") + Tokens(8);
            prop_assert!(!line.is_over(load), "{load} over {line:?}");
            let free = line.room() - fixed.total();
            prop_assert!((load - fixed.total()).0 as f64 <= free.0 as f64 * 0.6 + 20.0, "no room for its work");
        }
        prop_assert_eq!(digest.stats.total_chars, Chars::of(&digest.context));
        let stats = &digest.stats;
        prop_assert_eq!(stats.final_count + stats.removed_messages + stats.left_out_messages, messages.len());
        prop_assert!(stats.head_tail_applied <= stats.truncated_results);
        prop_assert_eq!(&fork_for(&messages, &policy, &child, &counter).unwrap(), &digest);
    }

    #[test]
    fn properties_messages_survive_json(messages in histories(25)) {
        let json = serde_json::to_string(&messages).unwrap();
        prop_assert_eq!(Message::read_all(&json).unwrap(), messages);
    }
}

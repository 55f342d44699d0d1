//! The engine in a running agent. Each test reproduces a reported fault.

use std::sync::Arc;

use plimsoll::compact::{
    CompactionContext, FitResult, Ladder, Outcome, Rejection, Reply, Step, Summariser, SummaryForm,
    SummaryRequest, Trigger,
};
use plimsoll::log::{ReasoningPart, Time};
use plimsoll::{
    Block, CharCounter, Counter, Limits, Load, Log, Message, Millis, Part, PartBody, Plan, Policy, Preset,
    Receipt, Reduction, RequestOverhead, Role, Text, Tokens, ToolState, Usage, Window, WindowRole, prune,
    request_tokens,
};
use plimsoll_testkit::{History, ids};
use rstest::rstest;
use serde_json::json;

const NOW: Millis = Millis(1_794_775_451_033);

fn tokens(count: usize) -> String {
    "abcd".repeat(count)
}

fn size(log: &Log, policy: &Policy) -> Tokens {
    request_tokens(&Window::of(log, policy), RequestOverhead::default(), &policy.count)
}

/// Climbs with a model that answers with `reply`, and commits.
fn climb(
    log: &mut Log,
    context: CompactionContext,
    mut model: impl FnMut(&SummaryRequest) -> Result<Reply, String>,
) -> (Outcome, Vec<SummaryRequest>) {
    let mut ids = ids();
    // Ids must not repeat from climb to climb.
    for _ in 0..log.len() {
        let _ = ids.message(context.now);
    }
    let mut ladder = Ladder::new(log.clone(), context);
    let mut requests = Vec::new();
    loop {
        match ladder.climb(&mut ids).unwrap() {
            Step::Ask(request) => {
                ladder.answer(model(&request), &mut ids).unwrap();
                requests.push(request);
            }
            Step::Done(outcome) => {
                outcome.reduction.commit(log).unwrap();
                let window = Window::of(log, &Policy::default());
                window.check().unwrap();
                return (outcome, requests);
            }
        }
    }
}

fn climb_without_model(log: &mut Log, context: u64, output: u64, trigger: Trigger) -> Outcome {
    let context = CompactionContext::new(Policy::default(), Limits::new(context, output), NOW);
    climb(log, CompactionContext { trigger, ..context }, |_| Err("there is no model".into())).0
}

fn shown(log: &Log) -> String {
    serde_json::to_string(&Window::of(log, &Policy::default())).unwrap()
}

// 1. Cache writes count.

fn cold_cache() -> (Log, Usage) {
    let usage: Message = serde_json::from_value(json!({ "info": { "role": "assistant",
        "tokens": { "input": 3, "output": 200, "cache": { "read": 0, "write": 176_500 } } }, "parts": [] }))
    .unwrap();
    let usage = usage.info.tokens.clone().unwrap();
    let log = History::new()
        .user(tokens(175_700))
        .tools(&[("read", "x".repeat(51_200)), ("read", "y".repeat(51_200))])
        .usage(usage.clone())
        .log();
    (log, usage)
}

#[test]
fn p1_a_response_that_wrote_the_cache_counts_in_full() {
    let (mut log, _) = cold_cache();
    let policy = Policy::default();
    let load = Load::of(&log, &policy, RequestOverhead::default(), &policy.count);
    assert_eq!(load.usage_of, Some("m1".into()));
    assert_eq!(load.tokens, Tokens(3 + 176_500 + 200 + 2 * 12_800 + 4));
    let limits = Limits::new(200_000, 8_000);
    assert!(policy.overflow.line(limits).unwrap().is_over(load.tokens));
    let (outcome, _) = climb(&mut log, CompactionContext::new(&policy, limits, NOW), |_| Err("no".into()));
    assert!(!outcome.reduction.receipts.is_empty(), "it was taken to fit");
    assert!(outcome.after <= Tokens(192_000), "{}", outcome.after);
}

#[test]
fn p1_presets_that_follow_a_document_keep_its_sum() {
    let (_, usage) = cold_cache();
    assert_eq!(Preset::Opencode.policy().overflow.load(&usage), Tokens(203));
    assert_eq!(Policy::default().overflow.load(&usage), Tokens(176_703));
}

/// A counter that counts twice as many tokens.
struct Double;

impl Counter for Double {
    fn name(&self) -> &'static str {
        "double"
    }
    fn count(&self, text: &str) -> Tokens {
        Tokens(CharCounter::default().count(text).0 * 2)
    }
}

#[rstest]
#[case(Preset::Plimsoll, true)]
#[case(Preset::Openfork, false)]
fn p1_a_documents_gate_keeps_the_documents_counter(#[case] preset: Preset, #[case] asks_ours: bool) {
    let limits = Limits::new(128_000, 8_000);
    let mut log = (0..35).fold(History::new(), |h, n| h.user(format!("q{n}")).say(tokens(2_000))).log();
    let context = CompactionContext {
        counter: Arc::new(Double),
        ..CompactionContext::new(preset.policy(), limits, NOW)
    };
    let (outcome, _) = climb(&mut log, context, |_| Ok(Reply::finished("## short")));
    assert_eq!(outcome.before > Tokens(120_000), asks_ours, "{}", outcome.before);
    assert_eq!(outcome.reduction.is_empty(), !asks_ours);
}

// 2. It always converges.

fn parallel(calls: usize) -> History {
    let calls: Vec<(&str, String)> = (0..calls).map(|n| ("read", format!("{n} {}", tokens(90)))).collect();
    History::new().user("read them all").tools(&calls)
}

#[rstest]
#[case(Trigger::Auto)]
#[case(Trigger::Refused)]
#[case(Trigger::Manual)]
fn p2_four_hundred_parallel_calls_end_under_the_line(#[case] trigger: Trigger) {
    let policy = Policy::default();
    let mut log = parallel(400).log();
    let outcome = climb_without_model(&mut log, 32_000, 4_000, trigger);
    assert_eq!(outcome.verdict, FitResult::Fits, "{}", outcome.verdict);
    assert!(size(&log, &policy) <= Tokens(28_000));
    let text = shown(&log);
    assert!(text.contains("parts of this message left out to fit; recall m1"), "{}", &text[..400]);
    assert!(text.contains("399 abcd"), "the newest call is spared longest");
    log.append(Message::user("n1".into(), "n1.0".into(), "and now?")).unwrap();
    assert_eq!(climb_without_model(&mut log, 32_000, 4_000, trigger).verdict, FitResult::Fits);
}

#[rstest]
#[case(Trigger::Auto)]
#[case(Trigger::Refused)]
fn p2_three_hundred_system_messages_end_under_the_line(#[case] trigger: Trigger) {
    let policy = Policy::default();
    let mut messages = Vec::new();
    for n in 0..300 {
        let mut message = Message::user(
            format!("s{n}").as_str().into(),
            format!("s{n}.0").as_str().into(),
            format!("rule {n} {}", tokens(97)),
        );
        message.info.role = Some(Role::System);
        messages.push(message);
    }
    messages.extend(History::new().user("go").say("ok").user("on").messages());
    let mut log = Log::from_messages(messages);
    let outcome = climb_without_model(&mut log, 32_000, 4_000, trigger);
    assert_eq!(outcome.verdict, FitResult::Fits, "{}", outcome.verdict);
    assert!(size(&log, &policy) <= Tokens(28_000));
    let text = shown(&log);
    assert!(
        text.contains("rule 0 ") && text.contains("rule 299 "),
        "the first and the newest are spared longest"
    );
}

#[test]
fn p2_a_giant_signed_thought_goes_with_the_last_of_its_calls() {
    let mut log = History::new().user("begin").log();
    let thought = PartBody::Reasoning(ReasoningPart { text: tokens(5_600).into() });
    let mut thought = Part::new("p1".into(), thought);
    thought.extra.insert("metadata".into(), json!({ "anthropic": { "signature": "c2ln" } }));
    let call = |id: &str, call: &str| {
        Part::tool(id.into(), call, "read", ToolState::completed(json!({ "path": "a.rs" }), "short"))
    };
    let parts = vec![thought, Part::text("p2".into(), "I look."), call("p3", "call_1"), call("p4", "call_2")];
    log.append(Message::assistant("a1".into(), parts)).unwrap();
    log.append(Message::user("u2".into(), "p5".into(), "go on")).unwrap();
    let outcome = climb_without_model(&mut log, 1_000, 125, Trigger::Auto);
    assert_eq!(outcome.verdict, FitResult::Fits, "{}", outcome.verdict);
    assert!(size(&log, &Policy::default()) <= Tokens(875));
    Window::of(&log, &Policy::default()).check().unwrap();
    assert!(shown(&log).contains("go on"));
}

#[test]
fn p2_the_cause_of_an_overflow_is_named() {
    let mut log = History::new().user("u").say("a").user("on").log();
    let fixed = RequestOverhead { system: Tokens(10), tools: Tokens(40_000) };
    let context = CompactionContext {
        fixed,
        ..CompactionContext::new(Policy::default(), Limits::new(32_000, 4_000), NOW)
    };
    let (outcome, _) = climb(&mut log, context, |_| Err("no".into()));
    let message = outcome.verdict.to_string();
    assert!(
        message.contains("the tools 40,000 tokens") && message.contains("offer fewer tools"),
        "{message}"
    );
    assert!(!message.contains("shorten the system prompt"), "{message}");
}

#[test]
fn p2_many_unanswered_prompts_end_under_the_line() {
    let mut log = (0..200).fold(History::new(), |h, n| h.user(format!("wish {n} {}", tokens(300)))).log();
    let outcome = climb_without_model(&mut log, 32_000, 4_000, Trigger::Auto);
    assert_eq!(outcome.verdict, FitResult::Fits);
    assert!(shown(&log).contains("wish 199 "));
}

// 3. The user's words in the current turn stay.

fn rules() -> String {
    (0..200).map(|n| format!("Rule {n}: never do thing number {n} in the {n}th file.\n")).collect()
}

fn long_turn(steps: usize) -> Log {
    let start = History::new().user("hello").say("hi").user(rules());
    (0..steps).fold(start, |h, n| h.tool("read", format!("{n} {}", tokens(1_500)))).log()
}

#[test]
fn p3_a_compaction_in_the_middle_of_a_turn_keeps_the_complete_prompt() {
    let policy = Policy::default();
    let mut log = long_turn(30);
    let outcome = climb_without_model(&mut log, 32_000, 4_000, Trigger::Auto);
    assert_eq!(outcome.verdict, FitResult::Fits);
    let window = Window::of(&log, &policy);
    let users: Vec<&plimsoll::WindowMessage> =
        window.messages.iter().filter(|message| message.role == WindowRole::User).collect();
    let texts: Vec<String> =
        users.iter().map(|message| serde_json::to_string(&message.blocks).unwrap()).collect();
    let last = texts.iter().rposition(|text| !text.contains("Continue if you have next steps")).unwrap();
    let seen = (0..200).filter(|n| texts[last].contains(&format!("Rule {n}: "))).count();
    assert_eq!(seen, 200, "every rule is in the last words of the user");

    // A second compaction in the same turn keeps it too.
    for n in 0..30 {
        let read = ToolState::completed(json!({ "path": n }), tokens(1_500));
        let id = format!("x{n}");
        let part = Part::tool(format!("x{n}.0").as_str().into(), format!("call_x{n}"), "read", read);
        log.append(Message::assistant(id.as_str().into(), vec![part])).unwrap();
    }
    let outcome = climb_without_model(&mut log, 32_000, 4_000, Trigger::Auto);
    assert_eq!(outcome.verdict, FitResult::Fits);
    assert!(!outcome.reduction.is_empty());
    let text = shown(&log);
    assert_eq!((0..200).filter(|n| text.contains(&format!("Rule {n}: "))).count(), 200);
}

#[test]
fn p3_a_prompt_over_its_share_is_cut_and_restored_by_undo() {
    let policy = Policy::default();
    let giant = format!("START {} END", tokens(20_000));
    let start = History::new().user("hello").say("hi").user(giant.as_str());
    let mut log = (0..10).fold(start, |h, n| h.tool("read", format!("{n} {}", tokens(1_500)))).log();
    let outcome = climb_without_model(&mut log, 32_000, 4_000, Trigger::Auto);
    assert_eq!(outcome.verdict, FitResult::Fits);
    let text = shown(&log);
    assert!(text.contains("START ") && text.contains(" END") && text.contains("...[truncated "));
    let mut ids = ids();
    for receipt in &outcome.reduction.receipts {
        receipt.undo(&mut log, &mut ids, NOW).unwrap();
    }
    assert!(shown(&log).contains(&giant));
    assert!(size(&log, &policy) > Tokens(30_000));
}

// 4. The newest results are cut, not cleared.

#[rstest]
#[case(32_000, 4_000, 2)]
#[case(16_000, 3_712, 1)]
fn p4_newest_results_share_the_room(#[case] context: u64, #[case] output: u64, #[case] files: usize) {
    let policy = Policy::default();
    let file = |n: usize| format!("START{n} {} END{n}", "x".repeat(50_000));
    let calls: Vec<(&str, String)> = (0..files).map(|n| ("read", file(n))).collect();
    let mut log = History::new().user(format!("look at them {}", tokens(6_000 / files))).tools(&calls).log();
    let line = Policy::default().overflow.line(Limits::new(context, output)).unwrap().at;
    let outcome = climb_without_model(&mut log, context, output, Trigger::Auto);
    assert_eq!(outcome.verdict, FitResult::Fits);
    let text = shown(&log);
    for n in 0..files {
        assert!(text.contains(&format!("START{n} ")) && text.contains(&format!(" END{n}")), "file {n}");
    }
    assert!(!text.contains("content cleared"));
    let now = size(&log, &policy);
    assert!(now.0 * 100 > line.0 * 90, "{now} of {line}: the room is used");
}

// 5. Undo in any order.

fn two_compactions() -> (Log, Log, Vec<Receipt>) {
    let big = format!("START {} END", "x".repeat(100_000));
    let start = History::new().user("one").say(tokens(3_000)).user("two").tool("read", big);
    let mut log = start.log();
    let original = log.clone();
    let first = climb_without_model(&mut log, 16_000, 2_000, Trigger::Auto);
    let more = History::new().user("three").say(tokens(9_000)).user("four").say("b").messages();
    for (at, mut message) in more.into_iter().enumerate() {
        message.info.id = format!("n{at}").as_str().into();
        message.parts[0].id = format!("n{at}.0").as_str().into();
        log.append(message).unwrap();
    }
    let second = climb_without_model(&mut log, 12_000, 2_000, Trigger::Auto);
    let receipts = first.reduction.receipts.into_iter().chain(second.reduction.receipts).collect();
    (original, log, receipts)
}

#[test]
fn p5_receipts_are_undone_in_any_order() {
    let (original, log, receipts) = two_compactions();
    assert!(receipts.len() >= 2, "{receipts:?}");
    let policy = Policy::default();
    let mut orders: Vec<Vec<usize>> =
        vec![(0..receipts.len()).collect(), (0..receipts.len()).rev().collect()];
    orders.push((0..receipts.len()).map(|n| (n + 1) % receipts.len()).collect());
    for order in orders {
        let (mut log, mut ids) = (log.clone(), ids());
        for place in &order {
            receipts[*place].undo(&mut log, &mut ids, NOW).unwrap();
            let again = receipts[*place].undo(&mut log, &mut ids, NOW).unwrap_err();
            assert!(again.to_string().contains("was already undone"), "{again}");
        }
        let window = Window::of(&log, &policy);
        let before = Window::of(&original, &policy);
        assert_eq!(window.messages[..before.messages.len()], before.messages[..], "{order:?}");
        assert!(!shown(&log).contains("[truncated"), "nothing stays cut");
        assert!(!shown(&log).contains("Continue if you have next steps"), "no message to continue is left");
    }
}

#[test]
fn p5_an_undone_compaction_does_not_change_pruning() {
    // Under `opencode` a prune stops at any message that is marked as a summary, also at one that was undone.
    let policy = Policy::default();
    let start = (0..12).fold(History::new(), |h, n| h.user(format!("q{n}")).tool("read", tokens(7_000)));
    let mut log = start.user("last").tool("read", tokens(50)).log();
    let before = prune::plan(&log, &policy, None);
    let limits = Limits::new(100_000, 8_000);
    let context = CompactionContext {
        trigger: Trigger::Refused,
        summariser: Some(Summariser::named("s", limits)),
        ..CompactionContext::new(Preset::Opencode118.policy(), limits, NOW)
    };
    let (outcome, _) = climb(&mut log, context, |_| Ok(Reply::finished("## Goal\na summary")));
    let [receipt] = &outcome.reduction.receipts[..] else { panic!("{:?}", outcome.reduction.receipts) };
    assert!(matches!(receipt.plan, Plan::Compact(_)) && log.last().unwrap().is_continue());
    receipt.undo(&mut log, &mut ids(), NOW).unwrap();
    assert_eq!(prune::plan(&log, &policy, None), before);
}

// 6. Signed thinking stays with its calls.

fn thought(text: &str) -> PartBody {
    PartBody::Reasoning(ReasoningPart { text: text.into() })
}

fn signed(id: &str, text: &str) -> Part {
    let mut part = Part::new(id.into(), thought(text));
    part.extra.insert("metadata".into(), json!({ "anthropic": { "signature": format!("sig-{id}") } }));
    part
}

fn read_call(id: &str, output: String) -> Part {
    Part::tool(id.into(), format!("call-{id}"), "read", ToolState::completed(json!({ "path": id }), output))
}

#[test]
fn p6_an_answer_is_replayed_unchanged() {
    let parts = vec![
        signed("t", "think"),
        Part::text("a".into(), "first"),
        read_call("c1", "one".into()),
        Part::text("b".into(), "then"),
        read_call("c2", "two".into()),
    ];
    let log = [Message::user("u".into(), "u.0".into(), "go"), Message::assistant("m".into(), parts)];
    let window = Window::of(&log, &Policy::default());
    window.check().unwrap();
    assert_eq!(window.messages.len(), 3, "one answer, one message, its results after it");
    assert!(matches!(window.messages[1].blocks[0], Block::Reasoning { .. }));
    assert_eq!((window.messages[1].blocks.len(), window.messages[2].blocks.len()), (5, 2));
}

#[test]
fn p6_trimming_a_step_never_drops_the_thought_of_its_calls() {
    let parts =
        vec![signed("t", &tokens(2_000)), read_call("c1", tokens(9_000)), read_call("c2", tokens(9_000))];
    let messages = History::new().user("one").say(tokens(9_000)).user("go").messages();
    let mut log = Log::from_messages(messages);
    log.append(Message::assistant("s".into(), parts)).unwrap();
    let outcome = climb_without_model(&mut log, 16_000, 2_000, Trigger::Auto);
    assert_eq!(outcome.verdict, FitResult::Fits);
    assert!(shown(&log).contains("sig-t") && shown(&log).contains("call-c2"));
}

#[test]
fn p6_a_window_that_lost_a_signed_thought_is_illegal() {
    let parts = vec![signed("t", "think"), read_call("c1", "one".into())];
    let log = [Message::user("u".into(), "u.0".into(), "go"), Message::assistant("m".into(), parts)];
    let mut window = Window::of(&log, &Policy::default());
    let kept = window.messages[1].blocks.clone();
    window.messages[1].blocks.remove(0);
    assert_eq!(
        window.check().unwrap_err().rule,
        "signed reasoning must be sent back with the calls that it led to"
    );
    window.messages[1].blocks = kept.into_iter().rev().collect();
    assert_eq!(
        window.check().unwrap_err().rule,
        "the reasoning of a message that calls tools must come first"
    );
}

// 7. Order, not clocks.

#[test]
fn p7_a_clock_that_jumps_back_does_not_make_stale_usage_count_again() {
    // By the clock the cache is cold as well, but only the line matters here.
    let policy = Policy::from_json(r#"{ "thrift": "off" }"#).unwrap();
    let usage = Usage::new(Tokens(190_000), Tokens(500));
    let old = (0..4).fold(History::new().user("u"), |h, _| h.tool("read", tokens(37_000)));
    let mut log = old.user("a").say("b").usage(usage).user("c").log();
    let answered = log[6].info.time.as_ref().unwrap().completed.unwrap();
    let limits = Limits::new(200_000, 8_000);
    // The prune happens after the answer, by a clock that says it happened a millisecond before.
    let early = Millis(answered.0 - 1);
    let mut ladder = Ladder::new(
        log.clone(),
        CompactionContext { trigger: Trigger::Refused, ..CompactionContext::new(&policy, limits, early) },
    );
    let mut names = ids();
    let Step::Done(outcome) = ladder.climb(&mut names).unwrap() else { panic!("no model is there") };
    outcome.reduction.commit(&mut log).unwrap();
    let load = Load::of(&log, &policy, RequestOverhead::default(), &policy.count);
    assert_eq!(load.usage_of, None, "the usage is of a window that is gone");
    let before = log.clone();
    let context = CompactionContext::new(&policy, limits, NOW);
    let (outcome, _) = climb(&mut log, context, |_| Err("there is no model".into()));
    assert!(outcome.reduction.is_empty(), "{:?}", outcome.reduction.receipts);
    assert_eq!(log, before);
}

// 8. The guide's rule, and failed summaries.

#[test]
fn p8_the_guide_compacts_a_long_turn_that_a_short_one_precedes() {
    let policy = Preset::Openfork.policy();
    let short = History::new().user("hello").say("hi").user("now do all of it");
    // No output is long enough for the guide's prune.
    let mut log = (0..260).fold(short, |history, _| history.tool("read", tokens(495))).log();
    let limits = Limits::new(128_000, 16_384);
    let before = size(&log, &policy);
    assert!(before > Tokens(128_000), "{before}");
    let summariser = Some(Summariser::named("s", Limits::new(200_000, 8_000)));
    let context = CompactionContext { summariser, ..CompactionContext::new(&policy, limits, NOW) };
    let (outcome, requests) = climb(&mut log, context, |_| Ok(Reply::finished("## Goal\nAll of it.")));
    assert_eq!((outcome.verdict, requests.len()), (FitResult::Fits, 1));
    let plans = outcome.reduction.receipts.iter();
    let taken: Vec<u64> = plans
        .filter_map(|receipt| match &receipt.plan {
            Plan::Compact(plan) => Some(plan.messages),
            _ => None,
        })
        .collect();
    // Half of the window is 64,000 tokens: of 260 messages of 500 tokens each, the older half has to be removed.
    assert!(taken.len() == 1 && (125..140).contains(&taken[0]), "{taken:?}");
    assert!(size(&log, &policy) <= Tokens(66_000), "{}", size(&log, &policy));
}

#[rstest]
#[case::no_older_pivot(false)]
#[case::an_older_pivot(true)]
fn p8_a_fork_leaves_out_failed_summaries(#[case] older: bool) {
    let mut history = History::new().user("build it").say("done");
    if older {
        history = history.marker().summary("It was built.").user("and test it").say("tested");
    }
    let log = history.marker().unfinished_summary("HALF A SUM").user("go on").log();
    let digest = plimsoll::fork::fork(&log, &Policy::default().fork);
    assert!(!digest.context.contains("HALF A SUM"), "{}", digest.context);
    assert!(digest.context.contains("go on"), "{}", digest.context);
    assert_eq!(digest.context.contains("done"), !older, "{}", digest.context);
}

// 9. Summary requests fit the summariser, as measured by usage.

#[test]
fn p9_requests_fit_according_to_usage() {
    let policy = Policy::default();
    // The provider counts four times as many tokens as the estimate of four chars per token.
    let log = (0..20).fold(History::new(), |h, n| h.user(format!("q{n}")).say(tokens(2_000)));
    let mut log = log.usage(Usage::new(Tokens(160_000), Tokens(8_000))).user("go on").log();
    let limits = Limits::new(170_000, 8_000);
    let summariser = Some(Summariser::named("small", Limits::new(32_000, 4_000)));
    let (_, requests) = climb(
        &mut log,
        CompactionContext { summariser, ..CompactionContext::new(&policy, limits, NOW) },
        |_| Ok(Reply::finished("## short")),
    );
    assert!(requests.len() > 3, "{}", requests.len());
    for request in requests {
        let estimate = CharCounter::default().count(request.prompt()).0;
        assert!(estimate * 4 < 28_000, "{} real tokens for a model of 32,000", estimate * 4);
        assert!(request.tokens <= Tokens(28_000) && request.tokens.0 >= estimate * 3);
        assert_eq!(request.model.as_deref(), Some("small"));
    }
}

#[test]
fn p9_a_request_that_cannot_save_anything_is_not_made() {
    let policy = Policy::default();
    let limits = Limits::new(16_000, 2_000);
    let context = CompactionContext {
        summariser: Some(Summariser::own(limits)),
        ..CompactionContext::new(&policy, limits, NOW)
    };
    // Two tiny messages, then one giant prompt: a summary could save nothing.
    let mut log = History::new().user("a").say("b").user(tokens(40_000)).log();
    let (outcome, requests) = climb(&mut log, context, |_| Ok(Reply::finished("## x")));
    assert_eq!((requests.len(), outcome.breaker.failures, outcome.rejections.len()), (0, 0, 0));
    assert_eq!(outcome.verdict, FitResult::Fits);
}

#[test]
fn p9_a_summary_that_does_not_help_is_rejected() {
    let policy = Policy::default();
    let limits = Limits::new(20_000, 4_000);
    let log = (0..20).fold(History::new(), |h, n| h.user(format!("q{n}")).say(tokens(1_000))).log();
    for answer in ["word ".repeat(40_000), String::new()] {
        let summariser = Some(Summariser::named("s", limits));
        let context = CompactionContext { summariser, ..CompactionContext::new(&policy, limits, NOW) };
        let usage = Usage::new(Tokens(9_000), Tokens(700));
        let (outcome, requests) = climb(&mut log.clone(), context, |_| {
            Ok(Reply { usage: Some(usage.clone()), ..Reply::finished(answer.clone()) })
        });
        assert_eq!(outcome.rejections.len(), requests.len(), "{:?}", outcome.rejections);
        assert_eq!(outcome.usage.len(), requests.len(), "usage of all calls is reported");
        assert_eq!(outcome.verdict, FitResult::Fits);
    }
}

// 10. Hosts.

#[test]
fn a_ladder_is_send_and_sync() {
    fn is_send<T: Send>() {}
    fn is_sync<T: Sync>() {}
    is_send::<Ladder>();
    is_send::<CompactionContext>();
    is_sync::<CompactionContext>();
    is_send::<Box<dyn Counter>>();
    is_sync::<Box<dyn Counter>>();
    is_send::<Outcome>();
    is_send::<Reduction>();
    is_send::<Window>();
    is_sync::<Log>();
}

#[test]
fn r160_a_climb_is_committed_onto_a_log_that_has_grown() {
    let limits = Limits::new(20_000, 4_000);
    let mut log = (0..20).fold(History::new(), |h, n| h.user(format!("q{n}")).say(tokens(1_000))).log();
    let mut open = Message::assistant(
        "open".into(),
        vec![Part::tool(
            "open.0".into(),
            "call_open",
            "bash",
            ToolState::pending(json!({ "command": "make" })),
        )],
    );
    open.info.finish = None;
    open.info.time = Some(Time { created: Some(NOW), ..Time::default() });
    log.append(open).unwrap();
    for scope in ["tail", "all"] {
        let policy = Policy::from_value(json!({ "compact": { "scope": scope } })).unwrap();
        let mut log = log.clone();
        let mut names = ids();
        let summariser = Some(Summariser::named("s", Limits::new(200_000, 8_000)));
        let context = CompactionContext {
            trigger: Trigger::Manual,
            summariser,
            ..CompactionContext::new(&policy, limits, NOW)
        };
        let mut ladder = Ladder::new(log.clone(), context);
        let Step::Ask(_) = ladder.climb(&mut names).unwrap() else { panic!("a summary is due") };
        // While the model writes the summary, the call is answered and the user continues.
        let answer = ToolState::completed(json!({ "command": "make" }), "BUILT AT LAST");
        log.advance(Part::tool("open.0".into(), "call_open", "bash", answer)).unwrap();
        log.append(Message::user("late".into(), "late.0".into(), "WHAT I FORGOT TO SAY")).unwrap();
        ladder.answer(Ok(Reply::finished("## Goal\nGo on.")), &mut names).unwrap();
        let Step::Done(outcome) = ladder.climb(&mut names).unwrap() else { panic!("asked twice") };
        outcome.reduction.commit(&mut log).unwrap();
        let text = serde_json::to_string(&Window::of(&log, &policy)).unwrap();
        assert!(text.contains("BUILT AT LAST") && text.contains("WHAT I FORGOT TO SAY"), "{scope}: {text}");
        assert!(text.contains("## Goal") && !text.contains("q3\""), "{scope}");
        Window::of(&log, &policy).check().unwrap();
    }
}

#[test]
fn a_summary_request_on_the_sessions_own_model_is_appended_to_its_window() {
    let policy = Policy::default();
    let limits = Limits::new(40_000, 8_000);
    let log = (0..32).fold(History::new(), |h, n| h.user(format!("q{n}")).tool("read", tokens(1_000))).log();
    let sent = Window::of(&log, &policy);
    let ask = |summariser: Summariser, trigger, policy: &Policy| {
        let context = CompactionContext::new(policy, limits, NOW);
        let context = CompactionContext { summariser: Some(summariser), trigger, ..context };
        let mut requests = climb(&mut log.clone(), context, |_| Ok(Reply::finished("## Goal\na summary"))).1;
        requests.remove(0)
    };
    let request = ask(Summariser::own(limits), Trigger::Auto, &policy);
    let SummaryForm::Appended { window, prompt } = &request.form else { panic!("{:?}", request.form) };
    assert_eq!(*window, sent, "the prefix is what was last sent, without this climb's marks");
    assert!(prompt.contains("do not call any tool") && prompt.contains("material to be summarised"));
    assert!(prompt.contains("never repeat passwords"));
    assert!(request.tokens + request.max_tokens <= limits.context && request.tokens > Tokens(31_000));

    // Another model, a rejected request, a window that is too small, or the policy: separate.
    let separate = |request: SummaryRequest| matches!(request.form, SummaryForm::Separate { .. });
    assert!(separate(ask(Summariser::named("other", limits), Trigger::Auto, &policy)));
    assert!(separate(ask(Summariser::own(limits), Trigger::Refused, &policy)));
    assert!(separate(ask(Summariser::own(Limits::new(33_000, 8_000)), Trigger::Auto, &policy)));
    let plain = Policy::from_value(json!({ "compact": { "request": "separate" } })).unwrap();
    assert!(separate(ask(Summariser::own(limits), Trigger::Auto, &plain)));
}

#[test]
fn a_model_that_calls_tools_is_asked_again_in_the_separate_form() {
    let policy = Policy::default();
    let limits = Limits::new(40_000, 8_000);
    let mut log = (0..32).fold(History::new(), |h, n| h.user(format!("q{n}")).say(tokens(1_020))).log();
    let context = CompactionContext {
        summariser: Some(Summariser::own(limits)),
        ..CompactionContext::new(&policy, limits, NOW)
    };
    let mut asked = 0;
    let (outcome, requests) = climb(&mut log, context, |_| {
        asked += 1;
        let calls = if asked == 1 { vec!["bash".into()] } else { Vec::new() };
        Ok(Reply { tool_calls: calls, ..Reply::finished("## Goal\na summary") })
    });
    assert!(matches!(requests[0].form, SummaryForm::Appended { .. }));
    assert!(matches!(requests[1].form, SummaryForm::Separate { .. }));
    assert_eq!(outcome.rejections, [Rejection::ToolCall("bash".into())]);
    assert!(Text::from(shown(&log)).contains("a summary"));
}

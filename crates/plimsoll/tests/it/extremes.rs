//! Extreme numbers: every number of a policy, of a model's limits and of a session's usage is either rejected with a
//! clear message or works, without an overflow or a giant allocation.

use plimsoll::cache::CachePlan;
use plimsoll::compact::{CompactionContext, Ladder, Reply, Step, Summariser, Trigger, extract};
use plimsoll::fork::{Child, fork, fork_for};
use plimsoll::pin::{self, PinTarget};
use plimsoll::prune::Pressure;
use plimsoll::recall::{Lookup, RecallContent, RecallQuery};
use plimsoll::receipt::Stamp;
use plimsoll::truncate::{self, Address, Spill};
use plimsoll::{
    Chars, Limits, Load, Log, Message, Millis, Plan, Policy, PolicyError, PolicySpec, Preset,
    RequestOverhead, Tokens, Usage, Window, prune,
};
use plimsoll_testkit::{History, ids};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Extreme numbers.
fn extremes() -> Vec<Value> {
    let whole = [0, 1, u64::from(u32::MAX), i64::MAX as u64, u64::MAX];
    let floats = [0.0, f64::MIN_POSITIVE, 1e-9, 1.0, 1.0 + 1e-9, f64::MAX];
    whole.into_iter().map(Value::from).chain(floats.into_iter().map(Value::from)).collect()
}

/// The paths of all numbers in a policy, and of fields that may be numbers.
fn places(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            map.iter().for_each(|(key, value)| places(value, &format!("{path}/{key}"), found));
        }
        Value::Number(_) | Value::Null => found.push(path.to_owned()),
        _ => {}
    }
}

/// A session that uses every rung: long outputs, parallel calls, thoughts, files, a pivot, unusual characters.
fn session(usage: Usage, at: u64) -> Vec<Message> {
    let long = "word 🚢 é\n".repeat(400);
    let history = History::new()
        .user("Never touch the tests. ".repeat(30))
        .think("hm ".repeat(200), "I look.")
        .tool("read", long.clone())
        .tool("bash", format!("{long}\nerror: it failed"))
        .marker_with_tail("m2")
        .summary("We looked. ".repeat(20))
        .user("go on")
        .tools(&[("read", long.clone()), ("grep", "x".repeat(3_000)), ("skill", long.clone())])
        .call("c", "list")
        .result("c", "a b c")
        .user("and now?")
        .tool("bash", long)
        .say("Done. ".repeat(100))
        .usage(usage)
        .raw(json!({
            "info": { "id": "marked", "role": "assistant", "finish": "stop", "time": { "created": u64::MAX } },
            "parts": [
                { "id": "cut", "type": "text", "text": "x".repeat(900),
                    "plimsoll": { "cut": { "keep": u64::MAX, "at": u64::MAX }, "lifted": u64::MAX } },
                { "id": "short", "type": "text", "text": "x".repeat(900), "plimsoll": { "cut": { "keep": 0, "at": 0 } } },
                { "id": "cleared", "type": "tool", "callID": "d", "tool": "read", "state": { "status": "completed",
                    "input": {}, "output": "gone", "time": { "start": 0, "end": u64::MAX, "compacted": u64::MAX } } },
            ]
        }))
        .raw(json!({
            "info": { "id": "aside", "role": "user", "time": { "created": u64::MAX } },
            "parts": [{ "id": "marker", "type": "compaction", "compactedMessages": u64::MAX,
                "compactedTokens": u64::MAX, "setAside": u64::MAX, "summary": "once" }]
        }))
        .user("next");
    let mut messages = history.messages();
    for time in messages.iter_mut().filter_map(|message| message.info.time.as_mut()) {
        time.created = time.created.map(|created| Millis(created.0.saturating_add(at)));
        time.completed = time.completed.map(|completed| Millis(completed.0.saturating_add(at)));
    }
    messages
}

fn limits() -> [Limits; 6] {
    [
        Limits::default(),
        Limits::new(1, 1),
        Limits::new(4_000, 500),
        Limits::new(4_000, u64::MAX),
        Limits::new(u64::MAX, u64::MAX).with_input(u64::MAX),
        Limits::new(i64::MAX as u64, 1).with_input(1),
    ]
}

/// Runs everything that the engine does with a policy.
fn exercise(policy: &Policy, messages: &[Message], limits: Limits) {
    let window = Window::of(messages, policy);
    window.check().unwrap();
    let load = Load::of(messages, policy, RequestOverhead::default(), &policy.count);
    let _ = (policy.overflow.line(limits), policy.overflow.reserve(limits), load.tokens);
    let _ = CompactionContext::new(policy, limits, Millis(u64::MAX)).weigh(messages);

    let mut log = Log::from_messages(messages.to_vec());
    let plan = prune::plan(&log, policy, Some(Pressure { load: load.tokens, limits }));
    let stamp = Stamp { ids: &mut ids(), now: Millis(u64::MAX), policy, reason: "a test" };
    let weigh = |log: &Log| {
        plimsoll::request_tokens(&Window::of(log, policy), RequestOverhead::default(), &policy.count)
    };
    let _ = Plan::Prune(plan).apply(&mut log, stamp, weigh).unwrap();
    Window::of(&log, policy).check().unwrap();

    for (trigger, with_model) in [(Trigger::Auto, true), (Trigger::Manual, false), (Trigger::Manual, true)] {
        let mut log = Log::from_messages(messages.to_vec());
        let target = PinTarget::Words("Never touch the tests.".into());
        if let Ok(plan) = pin::plan(&log, &target, policy, Some(limits), &policy.count) {
            plan.apply(&mut log, &mut ids(), Millis(u64::MAX), policy, weigh).unwrap();
        }
        let mut ids = ids();
        let summariser = with_model.then(|| Summariser::named("summariser", limits));
        let context = CompactionContext {
            summariser,
            trigger,
            ..CompactionContext::new(policy, limits, Millis(u64::MAX))
        };
        let mut ladder = Ladder::new(log.clone(), context);
        let mut asked = 0;
        let outcome = loop {
            match ladder.climb(&mut ids).unwrap() {
                Step::Done(outcome) => break outcome,
                Step::Ask(request) => {
                    asked += 1;
                    assert!(asked < 1_000, "the ladder does not end");
                    let _ = request.tokens;
                    let words = if asked % 2 == 0 { "## Goal\n- go on" } else { "" };
                    ladder.answer(Ok(Reply::finished(words)), &mut ids).unwrap();
                }
            }
        };
        outcome.reduction.commit(&mut log).unwrap();
        let window = Window::of(&log, policy);
        window.check().unwrap();
        for reserved in [0, u64::MAX] {
            let plan = CachePlan::new(&window, &log, None, reserved, &policy.cache);
            let _ = CachePlan::new(&window, &log, Some(&plan.fingerprint), reserved, &policy.cache);
        }
    }

    let child = Child {
        limits,
        fixed: RequestOverhead { system: Tokens(9), tools: Tokens(u64::MAX) },
        task: "do it",
    };
    let _ = fork_for(messages, policy, &child, &policy.count);
    let child = Child { fixed: RequestOverhead::default(), ..child };
    if let Ok(digest) = fork_for(messages, policy, &child, &policy.count) {
        let _ = digest.message();
    }
    let digest = fork(messages, &policy.fork);
    assert!(digest.stats.total_chars <= policy.fork.char_budget);
    let head: Vec<&Message> = messages.iter().collect();
    let _ = extract(&head, None, policy.compact.extractive_tokens, &policy.summary, &policy.count);
}

fn exercise_recall(policy: &Policy) {
    let numbers = [None, Some(0), Some(1), Some(u64::MAX)];
    let found = Lookup::Found(RecallContent::new("prt_1", "output of bash", "one two\n".repeat(300)));
    for number in numbers {
        for search in [None, Some("two".to_owned())] {
            let query = RecallQuery {
                from: number,
                to: number,
                offset: number,
                limit: number,
                search,
                ..RecallQuery::of("prt_1")
            };
            let _ = query.answer(&found, &policy.recall);
        }
    }
}

fn exercise_truncation(policy: &Policy) {
    let long_line = "é".repeat(10_000);
    for output in ["", "one line", "a\nb\nc\n", &"many lines of words\n".repeat(3_000), &long_line] {
        for tool in ["bash", "read", "never-heard-of"] {
            let plan = truncate::plan(output.as_bytes(), tool, policy);
            let places = [Address::Path("spill/x".into()), Address::Handle("spill_1".into())];
            let saved = places.map(Spill::Saved);
            for spill in saved.into_iter().chain([Spill::Off, Spill::Failed("no room".into())]) {
                let _ = plan.render(&spill);
            }
        }
    }
}

/// Changes one value of a policy. The error is the reason for which it is invalid.
fn changed(spec: &Value, place: &str, value: &Value) -> Result<Policy, String> {
    let mut spec = spec.clone();
    *spec.pointer_mut(place).unwrap() = value.clone();
    let spec: PolicySpec = serde_json::from_value(spec).map_err(|error| error.to_string())?;
    Policy::new(spec).map_err(|error| {
        let last = place.rsplit('/').next().unwrap();
        let PolicyError::Field { field, why } = &error else { panic!("{place}: {error}") };
        assert!(
            !why.is_empty() && (error.to_string().contains(last) || field.contains('.')),
            "{place}: {error}"
        );
        error.to_string()
    })
}

#[test]
fn every_number_of_a_policy_at_an_extreme_is_rejected_or_works() {
    let messages = session(Usage::new(Tokens(3_000), Tokens(200)), 0);
    let (mut worked, mut refused, mut failed) = (0, 0, Vec::new());
    for preset in Preset::ALL {
        let mut spec = serde_json::to_value(preset.policy()).unwrap();
        spec["overflow"]["models"] = json!({ "m": { "context": 9, "input": 9, "output": 9 } });
        let mut found = Vec::new();
        places(&spec, "", &mut found);
        assert!(found.len() > 40, "{found:?}");
        for place in found {
            // The other presets have the same fields with other values, so fewer tries are enough.
            let few =
                |value: &Value| [json!(0), json!(u64::MAX), json!(1.0), json!(f64::MAX)].contains(value);
            for value in extremes().into_iter().filter(|value| preset == Preset::Plimsoll || few(value)) {
                match changed(&spec, &place, &value) {
                    Err(_) => refused += 1,
                    Ok(policy) => {
                        worked += 1;
                        exercise_single_values(&policy, &place);
                        // Running everything is slow, so the model without limits is tried only with values that could
                        // overflow
                        // together with it.
                        let is_huge = preset == Preset::Plimsoll && few(&value);
                        let mut models = vec![Limits::new(4_000, 500)];
                        models.extend(is_huge.then(|| Limits::new(u64::MAX, u64::MAX)));
                        for limits in models {
                            let done = std::panic::catch_unwind(|| exercise(&policy, &messages, limits));
                            if done.is_err() {
                                failed.push(format!("{preset}: {place} as {value} with {limits:?}"));
                            }
                        }
                    }
                }
            }
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(worked > 300 && refused > 300, "{worked} worked, {refused} were refused");
}

fn exercise_single_values(policy: &Policy, place: &str) {
    if place.starts_with("/recall") {
        let done = std::panic::catch_unwind(|| exercise_recall(policy));
        assert!(done.is_ok(), "{place}");
    }
    if place.starts_with("/truncate") {
        let done = std::panic::catch_unwind(|| exercise_truncation(policy));
        assert!(done.is_ok(), "{place}");
    }
}

/// Sets all numbers of a section at once, if they are valid.
#[test]
fn all_numbers_of_a_policy_at_extremes_are_rejected_or_work() {
    let messages = session(Usage::new(Tokens(3_000), Tokens(200)), 0);
    for preset in Preset::ALL {
        let spec = serde_json::to_value(preset.policy()).unwrap();
        for value in [json!(0), json!(1), json!(i64::MAX as u64), json!(u64::MAX), json!(1.0), json!(1e-9)] {
            let mut found = Vec::new();
            places(&spec, "", &mut found);
            // An invalid number keeps its value, so that the others can be tried together.
            let mut all = spec.clone();
            for place in found {
                let mut next = all.clone();
                *next.pointer_mut(&place).unwrap() = value.clone();
                let policy = serde_json::from_value::<PolicySpec>(next.clone()).ok().map(Policy::new);
                if let Some(Ok(_)) = policy {
                    all = next;
                }
            }
            let policy: Policy = serde_json::from_value(all).unwrap();
            exercise_truncation(&policy);
            for limits in limits() {
                let done = std::panic::catch_unwind(|| exercise(&policy, &messages, limits));
                assert!(done.is_ok(), "{preset} with {value} everywhere and {limits:?}");
            }
        }
    }
}

proptest! {
    // Fewer cases than other properties, because each runs everything.
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 4, ..ProptestConfig::default() })]

    /// Many numbers at different extremes. Those that are invalid with the others keep their value.
    #[test]
    fn properties_policies_of_extremes_work(
        preset in prop::sample::select(Preset::ALL.to_vec()),
        choices in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..60),
        limits in prop::sample::select(limits().to_vec()),
        usage in prop::sample::select(vec![0, 1, 3_000, i64::MAX as u64, u64::MAX]),
    ) {
        let mut spec = serde_json::to_value(preset.policy()).unwrap();
        let (values, mut found) = (extremes(), Vec::new());
        places(&spec, "", &mut found);
        for (place, value) in choices {
            let (place, value) = (place.get(&found), value.get(&values));
            if changed(&spec, place, value).is_ok() {
                *spec.pointer_mut(place).unwrap() = value.clone();
            }
        }
        let policy: Policy = serde_json::from_value(spec.clone()).unwrap();
        let messages = session(Usage::new(Tokens(usage), Tokens(usage)), usage);
        exercise_truncation(&policy);
        exercise_recall(&policy);
        exercise(&policy, &messages, limits);
    }
}

#[test]
fn usage_and_times_at_their_extremes_work() {
    let most = Tokens(u64::MAX);
    let mut all = Usage::new(most, most);
    (all.total, all.reasoning, all.cache_read, all.cache_write) = (Some(most), most, most, most);
    for usage in [all, Usage::new(Tokens(1), most), Usage::new(Tokens(i64::MAX as u64), Tokens(1))] {
        for at in [0, u64::MAX] {
            let messages = session(usage.clone(), at);
            for preset in Preset::ALL {
                for limits in limits() {
                    exercise(&preset.policy(), &messages, limits);
                }
            }
        }
    }
}

#[test]
fn counts_and_shares_at_their_extremes() {
    use plimsoll::{CharCounter, Rounding};
    for rounding in [Rounding::Ceil, Rounding::Round, Rounding::Floor] {
        for per in [1, 2, 4, u64::MAX] {
            for chars in [0, 1, u64::MAX - 1, u64::MAX] {
                let tokens = CharCounter { chars_per_token: per, rounding, ..CharCounter::default() }
                    .of_chars(Chars(chars));
                assert!(tokens.0 <= chars, "{chars} chars are {tokens} tokens at {per} by {rounding:?}");
            }
        }
    }
    for number in [0, 1, (1 << 53) + 1, i64::MAX as u64, u64::MAX] {
        for share in [1e-9, 0.1, 0.5, 0.999_999, 1.0] {
            assert!(Tokens(number).share(share) <= Tokens(number), "{number} * {share}");
            assert!(Chars(number).share(share) <= Chars(number), "{number} * {share}");
        }
        assert_eq!(Tokens(number).share(1.0), Tokens(number));
    }
}

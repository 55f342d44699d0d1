//! A range of messages replaced by a summary, in the middle of a window.

use plimsoll::compact::{Measured, RangeError, RangeSelection, extract, select_range};
use plimsoll::fork::{Child, Identity, InheritedHistory, Parent, Point, fork};
use plimsoll::plan::{Handle, SummaryOrigin};
use plimsoll::receipt::Stamp;
use plimsoll::{
    Limits, Log, Message, Millis, Plan, Policy, Preset, Receipt, RequestOverhead, Text, Tokens, VisibleRange,
    Window, WindowMessage, prune, request_tokens,
};
use plimsoll_testkit::{History, histories, ids};
use proptest::prelude::*;

fn weigh(log: &Log, policy: &Policy) -> Tokens {
    request_tokens(&Window::of(log, policy), RequestOverhead::default(), &policy.count)
}

fn select(log: &Log, from: &str, to: &str) -> Result<RangeSelection, RangeError> {
    let policy = Policy::default();
    select_range(log, (from, to), &policy, &policy.count)
}

/// Replaces a range with a summary.
fn apply(log: &mut Log, range: &RangeSelection, policy: &Policy) -> Option<Receipt> {
    let summary = Text::from("They looked around.");
    let plan =
        range.plan(log, &summary, (SummaryOrigin::ByModel, 1), (policy, Tokens(100_000)), &policy.count);
    let stamp = Stamp { ids: &mut ids(), now: Millis(9), policy, reason: "requested by the user" };
    Plan::Range(plan).apply(log, stamp, |log| weigh(log, policy)).unwrap()
}

fn turns(count: usize) -> Log {
    let turn = |history: History, number: usize| {
        let output = format!("output {number} {}", "word ".repeat(400));
        history.user(format!("Prompt {number}")).tool("read", output).say(format!("Answer {number}"))
    };
    (0..count).fold(History::new(), turn).log()
}

fn id(log: &Log, place: usize) -> String {
    log[place].info.id.to_string()
}

/// The messages of a window outside the range.
fn around<'w>(window: &'w Window, range: &RangeSelection) -> Vec<&'w WindowMessage> {
    let is_outside =
        |message: &&WindowMessage| message.place.is_none_or(|place| !range.places.contains(&place));
    window.messages.iter().filter(is_outside).collect()
}

#[test]
fn a_summary_replaces_the_range_and_the_rest_is_unchanged() {
    let mut log = turns(4);
    let policy = Policy::default();
    let before = Window::of(&log, &policy);
    let range = select(&log, &id(&log, 3), &id(&log, 8)).unwrap();
    assert_eq!(range.places, [3, 4, 5, 6, 7, 8]);
    let receipt = apply(&mut log, &range, &policy).unwrap();
    assert!(receipt.after < receipt.before);
    assert_eq!(receipt.handles, [Handle::Messages(log[3].info.id.clone(), log[8].info.id.clone())]);
    let window = Window::of(&log, &policy);
    window.check().unwrap();
    assert_eq!(around(&window, &range), around(&before, &range));
    let text = serde_json::to_string(&window.messages).unwrap();
    assert!(text.contains("They looked around.") && !text.contains("output 1") && !text.contains("left out"));
    // It is between the answer before and the prompt after.
    let at = |needle: &str| text.find(needle).unwrap_or_else(|| panic!("{needle} in {text}"));
    assert!(at("Answer 0") < at("They looked around.") && at("They looked around.") < at("Prompt 3"));
    // Undo restores everything.
    receipt.undo(&mut log, &mut ids(), Millis(10)).unwrap();
    assert_eq!(Window::of(&log, &policy), before);
    assert!(receipt.undo(&mut log, &mut ids(), Millis(11)).is_err());
}

#[test]
fn a_range_may_begin_and_end_inside_a_turn_and_ranges_can_be_undone_in_any_order() {
    let mut log = turns(3);
    let policy = Policy::default();
    let before = Window::of(&log, &policy);
    // The call and the answer of the first turn, then everything up to the second.
    let inner = select(&log, &id(&log, 1), &id(&log, 2)).unwrap();
    let first = apply(&mut log, &inner, &policy).unwrap();
    let with_inner = Window::of(&log, &policy);
    with_inner.check().unwrap();
    assert!(with_inner.messages.len() < before.messages.len());
    let outer = select(&log, &id(&log, 0), &id(&log, 4)).unwrap();
    // The summariser gets the summary instead of the first turn.
    let limits = Limits::new(100_000, 0);
    let job = outer.job(&log, &policy, Measured { limits, counter: &policy.count, factor: 1.0 }).unwrap();
    let request = job.request(0, None, Measured { limits, counter: &policy.count, factor: 1.0 }).unwrap();
    assert!(request.prompt().contains("They looked around.") && !request.prompt().contains("output 0"));
    let second = apply(&mut log, &outer, &policy).unwrap();
    Window::of(&log, &policy).check().unwrap();
    first.undo(&mut log, &mut ids(), Millis(10)).unwrap();
    Window::of(&log, &policy).check().unwrap();
    second.undo(&mut log, &mut ids(), Millis(11)).unwrap();
    assert_eq!(Window::of(&log, &policy), before);
}

#[test]
fn calls_stay_with_results_and_unanswered_prompts_stay() {
    let log =
        History::new().user("Look").call("c1", "read").result("c1", "found").say("Done").user("Next").log();
    let torn = select(&log, &id(&log, 1), &id(&log, 1)).unwrap_err();
    let nearest = RangeError::Torn {
        from: log[1].info.id.clone(),
        to: log[1].info.id.clone(),
        nearest_from: log[1].info.id.clone(),
        nearest_to: log[2].info.id.clone(),
    };
    assert_eq!(torn, nearest);
    assert!(torn.to_string().contains("would separate a call from its result"));
    assert!(select(&log, &id(&log, 1), &id(&log, 2)).is_ok());
    assert_eq!(select(&log, &id(&log, 1), &id(&log, 4)), Err(RangeError::Waiting(log[4].info.id.clone())));
    assert!(matches!(select(&log, &id(&log, 3), &id(&log, 0)), Err(RangeError::Reversed { .. })));
    assert!(matches!(select(&log, "nothing", &id(&log, 0)), Err(RangeError::Unknown(_))));
    assert!(matches!(select(&log, "", &id(&log, 0)), Err(RangeError::Unknown(_) | RangeError::Ambiguous(_))));
}

#[test]
fn a_range_can_be_summarised_without_a_model_and_compacted_later() {
    let mut log = turns(6);
    let policy = Policy::default();
    let range = select(&log, &id(&log, 3), &id(&log, 8)).unwrap();
    let summary = range.extract(&log, &policy, &policy.count);
    let plan = range.plan(
        &log,
        &summary,
        (SummaryOrigin::WithoutModel, 0),
        (&policy, Tokens(100_000)),
        &policy.count,
    );
    assert!(plan.text.contains(summary.trim()));
    let json = serde_json::to_string(&Plan::Range(plan.clone())).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&json).unwrap(), Plan::Range(plan));
    apply(&mut log, &range, &policy).unwrap();
    // A log with such marks survives a round trip.
    let written = serde_json::to_value(log.messages()).unwrap();
    let read = Log::from_messages(serde_json::from_value::<Vec<plimsoll::Message>>(written).unwrap());
    assert_eq!(Window::of(&read, &policy), Window::of(&log, &policy));
}

#[test]
fn a_child_gets_the_summary_instead_of_the_range() {
    let mut log = turns(5);
    let policy = Policy::default();
    let whole = fork(&log, &policy.fork);
    let range = select(&log, &id(&log, 3), &id(&log, 8)).unwrap();
    let receipt = apply(&mut log, &range, &policy).unwrap();
    let check = |text: &str| {
        for shown in ["Prompt 0", "output 0", "Answer 0", "They looked around.", "Prompt 3", "output 4"] {
            assert_eq!(text.matches(shown).count(), 1, "{shown} in {text}");
        }
        for hidden in ["Prompt 1", "output 1", "Answer 1", "Prompt 2", "output 2", "Answer 2"] {
            assert!(!text.contains(hidden), "{hidden} in {text}");
        }
        let at = |needle: &str| text.find(needle).unwrap();
        assert!(at("Answer 0") < at("They looked around.") && at("They looked around.") < at("Prompt 3"));
    };
    for preset in Preset::ALL {
        let digest = fork(&log, &preset.policy().fork);
        check(&digest.context);
        // A replaced message does not leave an empty entry, and its result is not numbered.
        assert_eq!((digest.stats.left_out_messages, digest.stats.final_count), (5, 10), "{}", digest.context);
        assert_eq!(digest.stats.tier_distribution.total(), 3);
    }
    let identity = Identity { model: "m".into(), system: "s".into(), tools: "t".into() };
    let parent = Parent { messages: &log, policy: &policy, point: Point::Newest, identity: &identity };
    let child =
        Child { limits: Limits::new(200_000, 8_000), fixed: RequestOverhead::default(), task: "Go on." };
    let history = InheritedHistory::of(&parent, &child, &mut ids(), Millis(10), &policy.count).unwrap();
    check(&serde_json::to_string(&history.window.messages).unwrap());
    check(&parent.digest(&child, &policy.count).unwrap().context);
    receipt.undo(&mut log, &mut ids(), Millis(11)).unwrap();
    assert_eq!(fork(&log, &policy.fork), whole);
}

#[test]
fn outputs_in_a_replaced_range_are_neither_protected_nor_pruned() {
    let mut log = turns(6);
    let prune = serde_json::json!({ "protectTokens": 600, "minTokens": 0 });
    let policy = Policy::from_value(serde_json::json!({ "prune": prune })).unwrap();
    let pruned = |log: &Log| -> Vec<usize> {
        let items = prune::plan(log, &policy, None).items;
        items.iter().map(|item| log.place(&item.message).unwrap()).collect()
    };
    let before = pruned(&log);
    assert_eq!(before, [7, 4, 1], "all but the last two turns, and what is protected of the others");
    let range = select(&log, &id(&log, 6), &id(&log, 11)).unwrap();
    apply(&mut log, &range, &policy).unwrap();
    // The protected output was replaced by the summary, so the next older one is protected instead.
    assert_eq!(pruned(&log), [1]);
}

#[test]
fn a_written_summary_of_a_range_stays_in_an_extractive_summary() {
    let mut log = turns(6);
    let policy = Policy::default();
    let range = select(&log, &id(&log, 3), &id(&log, 8)).unwrap();
    apply(&mut log, &range, &policy).unwrap();
    let history: Vec<&Message> = log.iter().collect();
    let summary = extract(&history, None, Tokens(4_000), &policy.summary, &policy.count);
    assert_eq!(summary.matches("They looked around.").count(), 1, "{summary}");
}

proptest! {

    #[test]
    fn properties_any_range_leaves_a_legal_window_and_the_rest_unchanged(
        messages in histories(24),
        ends in (0.0..1.0_f64, 0.0..1.0_f64),
    ) {
        let mut log = Log::from_messages(messages);
        let policy = Policy::default();
        let places = VisibleRange::of(&log).places;
        prop_assume!(!places.is_empty());
        let place = |share: f64| places[(share * places.len() as f64) as usize];
        let (from, to) = (id(&log, place(ends.0.min(ends.1))), id(&log, place(ends.0.max(ends.1))));
        let Ok(range) = select(&log, &from, &to) else { return Ok(()) };
        let before = Window::of(&log, &policy);
        match apply(&mut log, &range, &policy) {
            None => prop_assert_eq!(Window::of(&log, &policy), before),
            Some(receipt) => {
                let window = Window::of(&log, &policy);
                prop_assert!(window.check().is_ok(), "{:?}", window.check());
                prop_assert!(receipt.after < receipt.before);
                let content = |window: &Window| -> Vec<WindowMessage> {
                    around(window, &range).into_iter().filter(|message| message.place.is_some()).cloned().collect()
                };
                prop_assert_eq!(content(&window), content(&before));
                receipt.undo(&mut log, &mut ids(), Millis(10)).unwrap();
                prop_assert_eq!(Window::of(&log, &policy), before);
            }
        }
    }
}

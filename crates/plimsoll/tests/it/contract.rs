//! Pins and the contract.

use plimsoll::compact::{
    CONTRACT_HEADING, CompactionContext, ContractFate, ContractItem, ContractKind, ContractTerms, Ladder,
    Outcome, Reply, Step, Summariser, Trigger, complete_summary,
};
use plimsoll::pin::{self, PinError, PinTarget};
use plimsoll::{
    CharCounter, Ids, Limits, Log, Message, Millis, Plan, Policy, Receipt, RequestOverhead, Text, Tokens,
    ToolState, Window, request_tokens,
};
use plimsoll_testkit::{History, ids};
use serde_json::json;

const NOW: Millis = Millis(1_794_775_451_033);

fn tokens(count: usize) -> String {
    "abcd".repeat(count)
}

fn shown(log: &Log) -> String {
    let window = Window::of(log, &Policy::default());
    window.check().unwrap();
    serde_json::to_string(&window).unwrap()
}

fn pin(log: &mut Log, target: &PinTarget, names: &mut Ids) -> Result<Receipt, PinError> {
    let policy = Policy::default();
    let limits = Some(Limits::new(32_000, 4_000));
    let plan = pin::plan(log, target, &policy, limits, &policy.count)?;
    let weigh =
        |log: &Log| request_tokens(&Window::of(log, &policy), RequestOverhead::default(), &policy.count);
    Ok(plan.apply(log, names, NOW, &policy, weigh).unwrap())
}

fn compact(log: &mut Log, names: &mut Ids, summary: &str) -> Outcome {
    let limits = Limits::new(32_000, 4_000);
    let summariser = Some(Summariser::named("s", Limits::new(200_000, 8_000)));
    let context = CompactionContext {
        trigger: Trigger::Manual,
        summariser,
        ..CompactionContext::new(Policy::default(), limits, NOW)
    };
    let mut ladder = Ladder::new(log.clone(), context);
    loop {
        match ladder.climb(names).unwrap() {
            Step::Ask(_) => ladder.answer(Ok(Reply::finished(summary)), names).unwrap(),
            Step::Done(outcome) => {
                outcome.reduction.commit(log).unwrap();
                return outcome;
            }
        }
    }
}

fn more(log: &mut Log, names: &mut Ids, turns: usize) {
    for turn in 0..turns {
        log.append(Message::user(names.message(NOW), names.part(NOW), format!("next {turn}"))).unwrap();
        let text = plimsoll::Part::text(names.part(NOW), tokens(2_000));
        log.append(Message::assistant(names.message(NOW), vec![text])).unwrap();
    }
}

#[test]
fn a_pin_is_verbatim_in_the_window_after_many_compactions() {
    let mut names = ids();
    let rule = "Never touch the migrations.\n  Not even the old ones.";
    let mut log = History::new().user(format!("Port it. {rule} Thanks.")).say("ok").log();
    let receipt = pin(&mut log, &PinTarget::Words(rule.into()), &mut names).unwrap();
    for _ in 0..4 {
        more(&mut log, &mut names, 6);
        compact(&mut log, &mut names, "## Goal\nSomething else entirely.");
        assert!(shown(&log).contains("Never touch the migrations.\\n  Not even the old ones."));
        assert_eq!(shown(&log).matches("Never touch the migrations.\\n").count(), 1, "once is enough");
    }
    receipt.undo(&mut log, &mut names, NOW).unwrap();
    assert!(!shown(&log).contains("Not even the old ones."), "unpinned");
    assert!(receipt.undo(&mut log, &mut names, NOW).is_err());
}

#[test]
fn a_pin_survives_clearing_and_cutting_in_place() {
    let mut names = ids();
    let output = format!("{}\nTHE PORT IS 8443\n{}", tokens(9_000), tokens(9_000));
    let mut log = History::new().user("find it").tool("read", output).user("go").say("ok").log();
    pin(&mut log, &PinTarget::Words("THE PORT IS 8443".into()), &mut names).unwrap();
    for effect in [
        plimsoll::log::Effect::Cut(plimsoll::Chars(400)),
        plimsoll::log::Effect::clear(),
        plimsoll::log::Effect::Hide,
    ] {
        let mut log = log.clone();
        log.mark(&"m1.0".into(), effect, &"rcp_x".into(), NOW).unwrap();
        assert!(shown(&log).contains("THE PORT IS 8443"));
    }
}

#[test]
fn a_pin_beyond_the_budget_is_rejected_with_figures() {
    let mut names = ids();
    let mut log = History::new().user(tokens(3_000)).say(tokens(2_000)).log();
    pin(&mut log, &PinTarget::Message("m0".into()), &mut names).unwrap();
    let before = log.clone();
    let error = pin(&mut log, &PinTarget::Part("m1.0".into()), &mut names).unwrap_err();
    assert_eq!(
        error,
        PinError::OverBudget { wanted: Tokens(2_000), pinned: Tokens(3_000), budget: Tokens(4_000) }
    );
    assert!(
        error.to_string().contains("pinning 2,000 tokens would exceed the pin budget: 3,000 of 4,000"),
        "{error}"
    );
    assert_eq!(log, before);
    assert_eq!(pin(&mut log, &PinTarget::Message("m0".into()), &mut names).unwrap_err(), PinError::Pinned);
    assert!(matches!(pin(&mut log, &PinTarget::Words(" ".into()), &mut names), Err(PinError::Empty(_))));
    assert!(matches!(pin(&mut log, &PinTarget::Message("no".into()), &mut names), Err(PinError::Log(_))));
}

fn work() -> Vec<Message> {
    let failed = |command: &str| {
        let mut state = ToolState::completed(json!({ "command": command }), "error: test failed");
        state.extra.insert("metadata".into(), json!({ "exit": 101 }));
        state
    };
    History::new()
        .user("Port the parser. Never touch the tests. Always run the linter before a commit.")
        .tool_with("write", json!({ "filePath": "src/parser.rs" }), "ok")
        .tool_state("bash", failed("cargo test --lib"))
        .tool_with(
            "todowrite",
            json!({ "todos": [
            { "content": "handle unicode escapes", "status": "in_progress" },
            { "content": "read the spec", "status": "completed" } ] }),
            "ok",
        )
        .say("The parser is ported.")
        .messages()
}

fn completed(summary: &str, budget: u64, carried: &[ContractItem]) -> (Text, Vec<ContractItem>) {
    let messages = work();
    let replaced: Vec<&Message> = messages.iter().collect();
    let terms = ContractTerms {
        messages: &messages,
        replaced: &replaced,
        in_view: &[],
        carried,
        budget: Tokens(budget),
    };
    complete_summary(&Text::from(summary), &terms, &Policy::default(), &CharCounter::default())
}

fn fate(items: &[ContractItem], text: &str) -> ContractFate {
    items.iter().find(|item| item.text.contains(text)).unwrap_or_else(|| panic!("{text}: {items:?}")).fate
}

#[test]
fn a_summary_is_completed_with_missing_items() {
    let (text, items) =
        completed("## Goal\nPort it. Never touch the tests. `src/parser.rs` is new.", 1_000, &[]);
    assert_eq!(fate(&items, "Never touch the tests"), ContractFate::Found);
    assert_eq!(fate(&items, "src/parser.rs"), ContractFate::Found);
    assert_eq!(fate(&items, "Always run the linter"), ContractFate::Added);
    assert_eq!(fate(&items, "handle unicode escapes"), ContractFate::Added);
    assert!(
        items.iter().any(|item| item.kind == ContractKind::Error && item.text.contains("cargo test")),
        "{items:?}"
    );
    assert!(!items.iter().any(|item| item.text.contains("read the spec")), "what is done is done");
    assert!(
        text.contains(CONTRACT_HEADING) && text.contains("- Always run the linter before a commit."),
        "{text}"
    );
    // Completing it again changes nothing.
    let (again, _) = completed(&text, 1_000, &[]);
    assert_eq!(again, text);
}

#[test]
fn items_that_do_not_fit_are_listed_with_their_source() {
    let (text, items) = completed("short", 1, &[]);
    assert_eq!(text.as_str(), "short");
    assert!(
        items.iter().all(|item| item.fate == ContractFate::LeftOut && item.source.is_some()),
        "{items:?}"
    );
}

#[test]
fn instructions_are_carried_from_pivot_to_pivot() {
    let mut names = ids();
    let mut log = Log::from_messages(work());
    for _ in 0..3 {
        more(&mut log, &mut names, 6);
        let outcome = compact(&mut log, &mut names, "## Goal\nGo on with it.");
        let Plan::Compact(plan) = &outcome.reduction.receipts[0].plan else { panic!("{outcome:?}") };
        assert!(plan.contract.iter().any(|item| item.text.contains("Never touch the tests")));
        let text = shown(&log);
        assert!(text.contains("Never touch the tests") && text.contains("Always run the linter"), "{text}");
    }
    let detail = compact_detail(&mut log, &mut names);
    assert!(detail.contains("contract"), "{detail}");
}

fn compact_detail(log: &mut Log, names: &mut Ids) -> String {
    more(log, names, 6);
    compact(log, names, "## Goal\nGo on.").reduction.receipts[0].detail()
}

mod every_item {
    //! The contract as a property: whatever is reduced and undone, instructions, todos, changed files and failures are
    //! in the window, or a receipt names them with a handle.

    use plimsoll::compact::{CompactionContext, Ladder, Reply, Step, Summariser, Trigger};
    use plimsoll::{Handle, Limits, Log, Millis, Plan, Policy, Receipt};
    use plimsoll_testkit::{History, ids, renamed};
    use proptest::prelude::*;
    use serde_json::json;

    use super::{shown, tokens};

    #[derive(Clone, Debug)]
    enum Event {
        /// A turn: instructions, todos, changes, failures, and the length of the answer.
        Turn {
            rule: bool,
            todo: bool,
            edit: bool,
            failure: bool,
            size: usize,
        },
        /// A climb with the model's answer.
        Climb(&'static str, Trigger),
        Undo(usize),
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        let turn = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), 1usize..4_000)
            .prop_map(|(rule, todo, edit, failure, size)| Event::Turn { rule, todo, edit, failure, size });
        let triggers = prop::sample::select(vec![Trigger::Auto, Trigger::Manual, Trigger::Refused]);
        let models = prop::sample::select(vec!["", "## Goal\nGo on.", "no"]);
        let event = prop_oneof![
            5 => turn,
            3 => (models, triggers).prop_map(|(model, trigger)| Event::Climb(model, trigger)),
            1 => any::<usize>().prop_map(Event::Undo),
        ];
        prop::collection::vec(event, 2..16)
    }

    /// An expected item: a unique word, and the message that has it.
    struct Owed {
        word: String,
        message: String,
        /// Only the newest item of a kind is expected: a newer todo list, or a newer run of the same program, replaces
        /// it.
        replaces: Option<&'static str>,
    }

    fn turn(at: usize, event: &Event, owed: &mut Vec<Owed>) -> Log {
        let Event::Turn { rule, todo, edit, failure, size } = event else { return Log::new() };
        let name = |message: usize| format!("e{at}_m{message}");
        let mut history = History::new();
        let said =
            if *rule { format!(" Never touch the file rule{at}.rs, not even once.") } else { String::new() };
        history = history.user(format!("Go on with step {at}.{said}"));
        if *rule {
            owed.push(Owed { word: format!("rule{at}.rs"), message: name(0), replaces: None });
        }
        let mut message = 1;
        if *edit {
            let input = json!({ "filePath": format!("src/changed{at}.rs"), "content": "x" });
            history = history.tool_with("write", input, "ok");
            owed.push(Owed { word: format!("changed{at}.rs"), message: name(message), replaces: None });
            message += 1;
        }
        if *failure {
            let input = json!({ "command": format!("cargo test --test failing{at}") });
            let mut state = plimsoll::ToolState::completed(input, "error: test failed");
            state.extra.insert("metadata".into(), json!({ "exit": 101 }));
            history = history.tool_state("bash", state);
            owed.retain(|owed| owed.replaces != Some("run"));
            owed.push(Owed { word: format!("failing{at}"), message: name(message), replaces: Some("run") });
            message += 1;
        }
        if *todo {
            let item = json!({ "content": format!("write the chapter todo{at}"), "status": "pending" });
            history = history.tool_with("todowrite", json!({ "todos": [item] }), "ok");
            owed.retain(|owed| owed.replaces != Some("todo"));
            owed.push(Owed { word: format!("todo{at}"), message: name(message), replaces: Some("todo") });
        }
        Log::from_messages(renamed(history.say(tokens(*size)).messages(), &format!("e{at}_")))
    }

    fn climb(log: &mut Log, limits: Limits, model: &str, trigger: Trigger, number: usize) -> Vec<Receipt> {
        let mut names = ids();
        (0..number * 200).for_each(|_| drop(names.message(Millis(9_000_000))));
        let summariser = (!model.is_empty()).then(|| Summariser::named("s", limits));
        let now = Millis(9_000_000);
        let context = CompactionContext {
            summariser,
            trigger,
            ..CompactionContext::new(Policy::default(), limits, now)
        };
        let mut ladder = Ladder::new(log.clone(), context);
        loop {
            match ladder.climb(&mut names).unwrap() {
                Step::Ask(_) => {
                    let reply = if model == "no" { Err("no".into()) } else { Ok(Reply::finished(model)) };
                    ladder.answer(reply, &mut names).unwrap();
                }
                Step::Done(outcome) => {
                    outcome.reduction.commit(log).unwrap();
                    return outcome.reduction.receipts;
                }
            }
        }
    }

    /// Whether a receipt names an expected item: in its contract, or by the handle of a part that it cut or cleared.
    fn is_named(owed: &Owed, log: &Log, receipts: &[Receipt]) -> bool {
        let in_contract = |receipt: &Receipt| match &receipt.plan {
            Plan::Compact(plan) => {
                plan.contract.iter().any(|item| item.text.contains(&owed.word) && item.source.is_some())
            }
            _ => false,
        };
        let message = log.iter().find(|message| message.info.id.as_str() == owed.message);
        let of_its_parts = |handle: &Handle| match (handle, message) {
            (Handle::Part(id), Some(message)) => message.parts.iter().any(|part| part.id == *id),
            _ => false,
        };
        receipts.iter().any(|receipt| in_contract(receipt) || receipt.handles.iter().any(of_its_parts))
    }

    proptest! {
        #[test]
        fn properties_every_contract_item_is_in_the_window_or_named(
            events in events(),
            context in 4_000u64..30_000,
        ) {
            let limits = Limits::new(context, context / 8);
            let (mut log, mut owed, mut receipts) = (Log::new(), Vec::new(), Vec::<Receipt>::new());
            let mut standing = 0;
            for (at, event) in events.iter().enumerate() {
                match event {
                    Event::Turn { .. } => {
                        let turn = turn(at, event, &mut owed);
                        turn.iter().for_each(|message| log.append(message.clone()).unwrap());
                    }
                    Event::Climb(model, trigger) => {
                        let made = climb(&mut log, limits, model, *trigger, at + 1);
                        standing += made.len();
                        receipts.splice(..0, made);
                    }
                    Event::Undo(which) if standing > 0 => {
                        // Undone receipts are kept at the end of the list.
                        standing -= 1;
                        receipts.swap(which % (standing + 1), standing);
                        let receipt = receipts[standing].clone();
                        let mut names = ids();
                        (0..(at + 1) * 200).for_each(|_| drop(names.message(Millis(9_000_000))));
                        receipt.undo(&mut log, &mut names, Millis(9_900_000)).unwrap();
                    }
                    Event::Undo(_) => {}
                }
                let text = shown(&log);
                for owed in &owed {
                    prop_assert!(
                        text.contains(&owed.word) || is_named(owed, &log, &receipts),
                        "{} of {} is neither in view nor named after {event:?}: {:?}",
                        owed.word,
                        owed.message,
                        receipts.iter().map(Receipt::detail).collect::<Vec<_>>()
                    );
                }
            }
        }
    }
}

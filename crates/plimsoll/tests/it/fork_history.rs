//! A child that begins with its parent's window: the same bytes, with all calls answered, followed by the task.

use plimsoll::fork::{
    Child, Identity, Inheritance, InheritedHistory, LAUNCHED, NoHistory, NoRoom, PARENTS_CALL, Parent, Point,
    inherit,
};
use plimsoll::log::{ReasoningPart, ToolCallPart};
use plimsoll::window::INTERRUPTED;
use plimsoll::{
    Block, CharCounter, Limits, Message, Millis, Part, PartBody, PartId, Policy, Preset, RequestOverhead,
    Tokens, ToolState, ToolStatus, Window, WindowMessage, WindowRole,
};
use plimsoll_testkit::{History, histories, ids};
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

const NOW: Millis = Millis(1_794_775_451_033);

fn child() -> Child<'static> {
    Child { limits: Limits::new(200_000, 8_000), fixed: RequestOverhead::default(), task: "Count the tests." }
}

fn agent() -> Identity {
    Identity { model: "claude".into(), system: "be good".into(), tools: "read, task".into() }
}

fn running(input: Value) -> ToolState {
    ToolState { status: ToolStatus::Running, ..ToolState::pending(input) }
}

fn call(id: &str, tool: &str, state: ToolState) -> Part {
    Part::tool(PartId::new(id), format!("call_{id}"), tool, state)
}

/// A step that launches a child with the call `launch`, together with a finished and an unfinished call.
fn launching() -> Message {
    let mut thought =
        Part::new("thought".into(), PartBody::Reasoning(ReasoningPart { text: "Let me delegate.".into() }));
    thought.extra.insert("metadata".into(), json!({ "signature": "sig" }));
    let parts = vec![
        thought,
        Part::text("said".into(), "I will start a helper."),
        call("done", "read", ToolState::completed(json!({ "path": "a.rs" }), "fn a() {}")),
        call("launch", "task", running(json!({ "prompt": "Count the tests.", "b": 1 }))),
        call("open", "bash", running(json!({ "command": "make" }))),
    ];
    let mut message = Message::assistant("launching".into(), parts);
    message.info.finish = None;
    message
}

fn with_launch(history: History) -> Vec<Message> {
    let mut messages = history.messages();
    messages.push(launching());
    messages
}

fn fork_at(messages: &[Message], policy: &Policy, point: Point<'_>) -> Result<InheritedHistory, NoHistory> {
    let identity = agent();
    let parent = Parent { messages, policy, point, identity: &identity };
    InheritedHistory::of(&parent, &child(), &mut ids(), NOW, &CharCounter::default())
}

fn launch() -> PartId {
    PartId::new("launch")
}

fn results(message: &WindowMessage) -> Vec<(&str, &str, bool)> {
    let results = message.blocks.iter().filter_map(|block| match block {
        Block::Result { id, text, is_error, .. } => Some((id.as_str(), text.as_str(), *is_error)),
        _ => None,
    });
    results.collect()
}

/// A message as the provider receives it, without our ids.
fn bytes(message: &WindowMessage) -> String {
    let mut json = serde_json::to_value(message).unwrap();
    json["message"] = Value::Null;
    for block in json["blocks"].as_array_mut().unwrap() {
        block["part"] = Value::Null;
    }
    json.to_string()
}

fn all_bytes(messages: &[WindowMessage]) -> Vec<String> {
    messages.iter().map(bytes).collect()
}

/// Checks that the child's window is the one over its log, and begins with the parent's last request.
fn holds_together(messages: &[Message], policy: &Policy, history: &InheritedHistory) {
    let log: Vec<Message> = messages[..history.shared].iter().chain(&history.seeds).cloned().collect();
    assert_eq!(Window::of(&log, policy), history.window);
    assert_eq!(history.window.check(), Ok(()));
    let parents = Window::of(messages, policy);
    assert_eq!(
        all_bytes(&history.window.messages[..history.sent]),
        all_bytes(&parents.messages[..history.sent])
    );
    let last = history.window.messages.last().unwrap();
    assert_eq!(last.role, WindowRole::User);
    let Block::Text { text, .. } = &last.blocks[0] else { panic!("{last:?}") };
    assert!(
        text.ends_with("<task>\nCount the tests.\n</task>") && text.contains("inherited from the parent")
    );
}

#[test]
fn a_child_begins_with_its_parents_last_request_and_ends_with_its_task() {
    let policy = Policy::default();
    let before =
        History::new().user("Build it.").tool("read", "contents").say("Done.").user("And the tests?");
    let sent = Window::of(&before.clone().messages(), &policy);
    let messages = with_launch(before);
    let launch = launch();
    let history = fork_at(&messages, &policy, Point::Call(&launch)).unwrap();
    holds_together(&messages, &policy, &history);
    assert_eq!(history.window.messages[..history.sent], sent.messages);
    let [step, answers, _task] = &history.window.messages[history.sent..] else { panic!() };
    // The step is the parent's own, thought and signature first.
    let parents = &Window::of(&messages, &policy).messages[history.sent];
    assert_eq!(bytes(step), bytes(parents));
    assert!(matches!(&step.blocks[0], Block::Reasoning { metadata: Some(m), .. } if m["signature"] == "sig"));
    assert_eq!(
        results(answers),
        [
            ("call_done", "fn a() {}", false),
            ("call_launch", LAUNCHED, false),
            ("call_open", PARENTS_CALL, false)
        ]
    );
}

#[test]
fn a_childs_messages_have_new_ids_and_the_parents_are_unchanged() {
    let policy = Policy::default();
    let messages = with_launch(History::new().user("go"));
    let before = messages.clone();
    let launch = launch();
    let history = fork_at(&messages, &policy, Point::Call(&launch)).unwrap();
    assert_eq!(messages, before);
    assert_eq!((history.shared, history.seeds.len()), (1, 2));
    for seed in &history.seeds {
        assert!(seed.info.id.as_str().starts_with("msg_1e0f40599"));
        assert!(seed.parts.iter().all(|part| part.id.as_str().starts_with("prt_1e0f40599")));
    }
    assert_eq!(history.seeds[0].info.finish.as_deref(), Some("tool-calls"));
    assert_eq!(history.seeds[0].parts.len(), messages[1].parts.len());
}

/// A call that was sent as interrupted stays so. Only the launching step gets other answers.
#[test]
fn an_older_call_without_a_result_is_sent_unchanged() {
    let policy = Policy::default();
    let interrupted = History::new().user("go").tool_state("bash", running(json!({}))).user("go on");
    let messages = with_launch(interrupted);
    let launch = launch();
    let history = fork_at(&messages, &policy, Point::Call(&launch)).unwrap();
    holds_together(&messages, &policy, &history);
    assert_eq!(results(&history.window.messages[2])[0].1, INTERRUPTED);
}

#[rstest]
#[case(Preset::Plimsoll)]
#[case(Preset::Opencode)]
#[case(Preset::Openfork)]
fn a_parent_that_was_compacted_is_inherited_with_its_summary_and_tail(#[case] preset: Preset) {
    let policy = preset.policy();
    let history = History::new().user("old").say("older answer").user("tail").tool("read", "x").cleared();
    let messages = with_launch(history.marker_with_tail("m2").summary("SUM").user("next"));
    let launch = launch();
    let history = fork_at(&messages, &policy, Point::Call(&launch)).unwrap();
    holds_together(&messages, &policy, &history);
    let text = all_bytes(&history.window.messages).join("\n");
    assert!(text.contains("SUM") && text.contains("tail") && !text.contains("older answer"));
}

/// A message may contain several steps. Those before the launching one were sent with the parent's last request.
#[test]
fn earlier_steps_of_the_launching_message_are_part_of_what_was_sent() {
    let policy = Policy::default();
    let mut messages = with_launch(History::new().user("go"));
    let mut launching = messages.pop().unwrap();
    let earlier = vec![
        call("first", "read", ToolState::completed(json!({}), "one")),
        call("lost", "bash", running(json!({}))),
        Part::new("next".into(), PartBody::Other("step-start".into())),
        Part::text("between".into(), "Next."),
    ];
    launching.parts.splice(0..1, earlier);
    messages.push(launching);
    let launch = launch();
    let history = fork_at(&messages, &policy, Point::Call(&launch)).unwrap();
    holds_together(&messages, &policy, &history);
    // The user, the first step and its results.
    assert_eq!(history.sent, 3);
    assert_eq!(results(&history.window.messages[2])[1].1, INTERRUPTED);
}

#[test]
fn messages_after_the_launching_step_are_not_inherited() {
    let policy = Policy::default();
    let mut messages = with_launch(History::new().user("go"));
    messages[1].parts.push(Part::text("same".into(), "SAME STEP"));
    messages[1].parts.push(Part::new("next".into(), PartBody::Other("step-start".into())));
    messages[1].parts.push(Part::text("later".into(), "LATER STEP"));
    messages.extend(History::new().user("LATER MESSAGE").messages());
    let launch = launch();
    let history = fork_at(&messages, &policy, Point::Call(&launch)).unwrap();
    holds_together(&messages, &policy, &history);
    let text = all_bytes(&history.window.messages).join("\n");
    assert!(text.contains("SAME STEP") && !text.contains("LATER"), "{text}");
}

#[test]
fn a_call_whose_result_would_be_a_separate_part_is_closed_too() {
    let policy = Policy::default();
    let separate = |id: &str| {
        let call = ToolCallPart::new("same", "task", json!({ "z": 1, "a": 2 }));
        Part::new(PartId::new(id), PartBody::ToolCall(call))
    };
    // An older call of the same id has never been answered.
    let messages = [
        Message::user("u".into(), "u.0".into(), "go"),
        Message::assistant("a".into(), vec![separate("old")]),
        Message::user("v".into(), "v.0".into(), "again"),
        Message::assistant("b".into(), vec![separate("launch"), separate("sibling")]),
    ];
    let launch = launch();
    let history = fork_at(&messages, &policy, Point::Call(&launch)).unwrap();
    holds_together(&messages, &policy, &history);
    assert_eq!(results(&history.window.messages[2])[0].1, INTERRUPTED);
    let texts: Vec<&str> = results(&history.window.messages[5]).iter().map(|result| result.1).collect();
    assert_eq!(texts, [LAUNCHED, PARENTS_CALL]);
    assert_eq!(bytes(&history.window.messages[4]), bytes(&Window::of(&messages, &policy).messages[4]));
}

#[test]
fn without_a_launching_call_all_of_the_history_is_inherited() {
    let policy = Policy::default();
    let messages = History::new().user("go").tool("read", "x").say("Done.").messages();
    let history = fork_at(&messages, &policy, Point::Newest).unwrap();
    holds_together(&messages, &policy, &history);
    assert_eq!((history.shared, history.seeds.len()), (3, 1));
    assert_eq!(history.window.messages[..history.sent], Window::of(&messages, &policy).messages);
    // Open calls of the newest step are answered as the parent's.
    let messages = with_launch(History::new().user("go"));
    let history = fork_at(&messages, &policy, Point::Newest).unwrap();
    holds_together(&messages, &policy, &history);
    let texts: Vec<&str> = results(&history.window.messages[2]).iter().map(|result| result.1).collect();
    assert_eq!(texts, ["fn a() {}", PARENTS_CALL, PARENTS_CALL]);
}

/// The host may already have answered the launching call for the parent. The child must not see that answer.
#[test]
fn a_launching_call_that_was_already_answered_gets_the_childs_answer() {
    let policy = Policy::default();
    let mut messages = with_launch(History::new().user("go"));
    let state = ToolState::completed(json!({ "prompt": "x" }), "Task launched; you can continue working.");
    messages[1].parts[3] = call("launch", "task", state);
    let launch = launch();
    let history = fork_at(&messages, &policy, Point::Call(&launch)).unwrap();
    holds_together(&messages, &policy, &history);
    assert_eq!(results(&history.window.messages[2])[1].1, LAUNCHED);
}

#[test]
fn reasons_against_inheriting_are_reported() {
    let policy = Policy::default();
    let unknown = PartId::new("nowhere");
    let messages = with_launch(History::new().user("go"));
    let error = fork_at(&messages, &policy, Point::Call(&unknown)).unwrap_err();
    assert_eq!(error.to_string(), "the launching call `nowhere` is not in the parent's window");
    assert_eq!(fork_at(&[], &policy, Point::Newest).unwrap_err(), NoHistory::Empty);
    // An answer that failed is not in the window.
    let mut failed = messages.clone();
    failed[1].info.error = Some(json!({ "name": "APIError" }));
    let launch = launch();
    assert!(matches!(fork_at(&failed, &policy, Point::Call(&launch)), Err(NoHistory::UnknownCall(_))));
    // Neither is one that a summary replaced.
    let mut compacted = messages;
    compacted.extend(History::new().marker().summary("s").messages());
    let history = fork_at(&compacted, &policy, Point::Call(&launch)).unwrap();
    assert!(!all_bytes(&history.window.messages).join("").contains("What did we do"), "the point is older");
}

#[test]
fn a_history_that_leaves_no_room_to_work_is_too_large() {
    let policy = Policy::default();
    let messages = with_launch(History::new().user("x".repeat(40_000)));
    let identity = agent();
    let launch = launch();
    let parent =
        Parent { messages: &messages, policy: &policy, point: Point::Call(&launch), identity: &identity };
    let fork = |context: u64, system: u64| {
        let fixed = RequestOverhead { system: Tokens(system), tools: Tokens(0) };
        let child = Child { limits: Limits::new(context, 4_000), fixed, ..child() };
        InheritedHistory::of(&parent, &child, &mut ids(), NOW, &policy.count)
    };
    let tokens = fork(20_000, 0).unwrap().tokens;
    assert!((10_100..10_400).contains(&tokens.0), "{tokens}");
    // Four fifths of the line of 12,000.
    let error = fork(16_000, 0).unwrap_err();
    assert_eq!(error, NoHistory::TooLarge { tokens, room: Tokens(9_600) });
    assert!(matches!(fork(20_000, 5_000).unwrap_err(), NoHistory::TooLarge { .. }));
    assert!(fork(0, 0).is_ok(), "the window is unknown");
}

/// Counts like the policy, and records how much text was counted.
struct Tally<'a> {
    counter: &'a CharCounter,
    chars: std::sync::atomic::AtomicU64,
}

impl plimsoll::Counter for Tally<'_> {
    fn name(&self) -> &'static str {
        "tally"
    }

    fn count(&self, text: &str) -> Tokens {
        self.chars.fetch_add(text.len() as u64, std::sync::atomic::Ordering::Relaxed);
        self.counter.count(text)
    }
}

/// A session that was never compacted, as an import: prompts and answers, results among them.
fn long(messages: usize) -> Vec<Message> {
    let message = |n: usize| {
        let (id, part) = (format!("m{n}"), format!("p{n}"));
        let words = Part::text(part.as_str().into(), "word ".repeat(80));
        match n % 3 {
            0 => Message::user(id.as_str().into(), part.as_str().into(), "word ".repeat(80)),
            1 => {
                let state = ToolState::completed(json!({ "path": "a.rs" }), "line\n".repeat(80));
                Message::assistant(id.as_str().into(), vec![call(&part, "read", state)])
            }
            _ => Message::assistant(id.as_str().into(), vec![words]),
        }
    };
    (0..messages).map(message).collect()
}

/// Like [`long`], with a summary that replaces the first ten messages.
fn long_after_a_summary(messages: usize) -> Vec<Message> {
    let mut all = long(messages);
    let marker = plimsoll::log::CompactionPart { auto: Some(true), ..Default::default() };
    all[10].info.role = Some(plimsoll::Role::User);
    all[10].parts = vec![Part::new("prt_marker".into(), PartBody::Compaction(marker))].into();
    let asked = all[10].info.id.clone();
    let summary = &mut all[11];
    summary.info.role = Some(plimsoll::Role::Assistant);
    summary.parts = vec![Part::text("prt_summary".into(), "## Goal\nReach Bergen.")].into();
    (summary.info.summary, summary.info.parent_id) = (true, Some(asked));
    summary.info.finish = Some("stop".into());
    assert!(plimsoll::Pivot::newest(&all).is_some());
    all
}

#[rstest]
#[case::never_summarised(long)]
#[case::after_a_summary(long_after_a_summary)]
fn a_history_that_is_far_too_large_is_rejected_by_its_newest_messages(
    #[case] made: fn(usize) -> Vec<Message>,
) {
    let (policy, identity) = (Policy::default(), agent());
    let weighed = |size: usize| {
        let messages = made(size);
        let parent =
            Parent { messages: &messages, policy: &policy, point: Point::Newest, identity: &identity };
        let counter = Tally { counter: &policy.count, chars: Default::default() };
        let error = InheritedHistory::of(&parent, &child(), &mut ids(), NOW, &counter).unwrap_err();
        let NoHistory::TooLarge { tokens, room } = error else { panic!("{error}") };
        assert!(tokens > room && tokens < room + room + room, "{tokens} of {room}");
        counter.chars.into_inner()
    };
    assert_eq!(weighed(6_000), weighed(30_000), "what lies further back is not looked at");
}

#[test]
fn the_early_check_decides_like_the_full_weight() {
    let (policy, identity) = (Policy::default(), agent());
    let mut verdicts = Vec::new();
    for size in (300..1_900).step_by(97).chain([2_200, 2_600]) {
        let messages = long(size);
        let parent =
            Parent { messages: &messages, policy: &policy, point: Point::Newest, identity: &identity };
        let fork = |limits| {
            let child = Child { limits, ..child() };
            InheritedHistory::of(&parent, &child, &mut ids(), NOW, &policy.count)
        };
        // Nothing is too large for an unknown window.
        let whole = fork(Limits::new(0, 0)).unwrap().tokens;
        let (limited, room) = (fork(child().limits), Tokens(192_000 * 8 / 10));
        assert_eq!(limited.is_err(), whole > room, "{size} messages, {whole} of {room}: {limited:?}");
        verdicts.push(limited.is_ok());
    }
    assert!(verdicts[0] && !verdicts[verdicts.len() - 1], "on both sides: {verdicts:?}");
}

mod deciding {
    use super::*;

    fn decide(child_is: &Identity, context: u64) -> Result<Inheritance, NoRoom> {
        let policy = Policy::default();
        let messages = with_launch(History::new().user("x".repeat(40_000)));
        let (identity, launch) = (agent(), launch());
        let point = Point::Call(&launch);
        let parent = Parent { messages: &messages, policy: &policy, point, identity: &identity };
        let child = Child { limits: Limits::new(context, 4_000), ..child() };
        inherit(&parent, &child, child_is, &mut ids(), NOW, &policy.count)
    }

    #[test]
    fn the_same_agent_inherits_the_history() {
        let Inheritance::History(history) = decide(&agent(), 200_000).unwrap() else { panic!() };
        assert_eq!(history.sent, 1);
    }

    #[rstest]
    #[case(Identity { model: "gpt".into(), ..agent() }, "the child runs on `gpt`, its parent on `claude`")]
    #[case(Identity { system: "be bad".into(), ..agent() }, "the child's system prompt differs from its parent's")]
    #[case(Identity { tools: "read".into(), ..agent() }, "the child's tools differ from its parent's")]
    fn another_agent_gets_a_digest(#[case] child_is: Identity, #[case] reason: &str) {
        let Inheritance::Digest { digest, why } = decide(&child_is, 200_000).unwrap() else { panic!() };
        assert_eq!(why.to_string(), reason);
        assert!(digest.context.contains("I will start a helper."), "what was said before the call");
        let newest = digest.context.rsplit("I will start a helper.").next().unwrap();
        // A finished call is in the digest; the launching call and an unfinished one are not.
        assert_eq!(
            newest,
            "\n[Tool: read] {\"path\":\"a.rs\"}\n[Tool result]\nfn a() {}\n</inherited_context>"
        );
    }

    #[test]
    fn a_child_with_too_little_room_gets_a_digest_that_fits() {
        let Inheritance::Digest { digest, why } = decide(&agent(), 8_000).unwrap() else { panic!() };
        let message = why.to_string();
        assert!(message.starts_with("the parent's window and the task have at least 10,"), "{message}");
        assert!(message.ends_with(" tokens, but a child may start with 3,200"), "{message}");
        assert!(digest.stats.total_chars.0 < 8_000);
        assert!(decide(&agent(), 400).is_err(), "not even a digest fits");
    }
}

proptest! {
    #[test]
    fn properties_a_child_begins_with_its_parents_last_request(
        messages in histories(25),
        preset in prop::sample::select(Preset::ALL.to_vec()),
    ) {
        let policy = preset.policy();
        let sent = Window::of(&messages, &policy);
        let mut messages = messages;
        messages.push(launching());
        let launch = launch();
        let identity = agent();
        let parent = Parent { messages: &messages, policy: &policy, point: Point::Call(&launch), identity: &identity };
        let child = Child { limits: Limits::default(), ..child() };
        let history = InheritedHistory::of(&parent, &child, &mut ids(), NOW, &policy.count).unwrap();
        holds_together(&messages, &policy, &history);
        // The same messages, or nothing was sent yet and the window gets its own opening.
        prop_assert_eq!(&history.window.messages[..sent.messages.len()], &sent.messages[..]);
        let launched = &history.window.messages[history.window.messages.len() - 2];
        prop_assert_eq!(results(launched)[1].1, LAUNCHED);
    }

    /// Any call of any history launches a child, or none does.
    #[test]
    fn properties_every_fork_point_makes_a_legal_child_or_reports_a_reason(
        messages in histories(25),
        preset in prop::sample::select(Preset::ALL.to_vec()),
        index in any::<prop::sample::Index>(),
    ) {
        let policy = preset.policy();
        let parts: Vec<PartId> = messages.iter().flat_map(|m| &m.parts).map(|part| part.id.clone()).collect();
        let call = (!parts.is_empty()).then(|| index.get(&parts).clone());
        for point in [Some(Point::Newest), call.as_ref().map(Point::Call)].into_iter().flatten() {
            match fork_at(&messages, &policy, point) {
                Ok(history) => {
                    let until = messages.len().min(history.shared + 1);
                    holds_together(&messages[..until], &policy, &history);
                }
                Err(NoHistory::UnknownCall(_) | NoHistory::TooLarge { .. }) => {}
                Err(NoHistory::Empty) => prop_assert!(Window::of(&messages, &policy).messages.is_empty()),
                Err(why) => prop_assert!(false, "{why}"),
            }
        }
    }
}

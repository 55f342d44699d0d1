//! The tools as called by a model, with the exact results.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};

use plimsoll::{Message, Part, SessionId};
use plimsoll_agent::tasks::{TaskLimits, TaskStatus, toast_text};
use plimsoll_store::TaskMove;
use plimsoll_testkit::server::{Captured, Fault, Gate, ModelServer, Reply};
use serde_json::{Value, json};

use super::support::{TaskDock, injected_messages};
use crate::support::{Dock, run};

/// A tool and its input. `ID` in the input is the ID that the first call returned, and `BEGIN` its prefix.
type Call = (&'static str, Value);

fn launch(prompt: &str) -> Call {
    ("background_task", json!({ "description": "Sound it", "prompt": prompt, "agent": "helper" }))
}

fn resume(id: &str, prompt: &str) -> Call {
    ("background_task", json!({ "resume": id, "prompt": prompt, "agent": "", "description": "" }))
}

fn on(tool: &'static str, id: &str) -> Call {
    (tool, json!({ "task_id": id }))
}

fn wait(id: &str) -> Call {
    ("background_output", json!({ "task_id": id, "block": true, "timeout": 30 }))
}

fn is_parent(request: &Captured) -> bool {
    request.messages.first().is_some_and(|message| message.text() == "Go")
}

/// A parent that makes the calls of a stage one after another, a stage for each `Go`; `child` answers for its tasks.
/// `before` is called before each call, with its number.
fn calling(
    stages: Vec<Vec<Call>>,
    child: impl Fn(&Captured) -> Reply + Send + Sync + 'static,
    before: impl Fn(usize) + Send + Sync + 'static,
) -> ModelServer {
    ModelServer::answering(move |request: &Captured| {
        if !is_parent(request) {
            return child(request);
        }
        let made = request.call_ids().len();
        let output = request.messages.iter().filter(|message| message.text() == "Go").count();
        let calls: Vec<&Call> = stages.iter().take(output).flatten().collect();
        let Some((tool, input)) = calls.get(made) else { return Reply::new().text("That is all.") };
        before(made);
        let id = request.result("call_0").and_then(|said| said.split('`').nth(1)).unwrap_or_default();
        let begin: String = id.chars().take(3).collect();
        let input = input.to_string().replace("\"ID\"", &format!("\"{id}\""));
        let input = serde_json::from_str(&input.replace("\"BEGIN\"", &format!("\"{begin}\""))).unwrap();
        Reply::new().call(format!("call_{made}"), *tool, input)
    })
    .unwrap()
}

/// Returns the calls of the parent and their results.
fn answered(dock: &TaskDock) -> String {
    let requests = dock.dock.server.requests();
    let last = requests.iter().rev().find(|request| is_parent(request)).unwrap();
    let id = last.result("call_0").and_then(|said| said.split('`').nth(1)).unwrap_or("(none)");
    let mut text = String::new();
    for part in last.parts() {
        if let plimsoll_testkit::server::CapturedPart::Call { id, tool, input, .. } = part {
            let answer = last.result(id).unwrap_or("(not answered)");
            writeln!(text, ">>> {tool} {input}\n{answer}\n").unwrap();
        }
    }
    text.replace(id, "41e08091")
}

fn answer(dock: &TaskDock, call: usize) -> String {
    let requests = dock.dock.server.requests();
    let last = requests.iter().rev().find(|request| is_parent(request)).unwrap();
    last.result(&format!("call_{call}")).unwrap().to_owned()
}

macro_rules! assert_answers {
    ($dock:expr) => {
        insta::with_settings!({filters => vec![
            (r"\b\d+s\b", "0s"),
            (r"\[(msg|prt)_\w+\]", "[${1}_…]"),
            (r"\bses_\w+", "ses_…"),
        ]}, {
            insta::assert_snapshot!(answered($dock));
        });
    };
}

#[tokio::test]
async fn rejected_calls_get_these_messages_and_create_nothing() {
    let calls = vec![
        (
            "background_task",
            json!({ "description": "d", "prompt": "p", "agent": "helper", "fork": true, "resume": "xyz" }),
        ),
        ("background_task", json!({ "description": "d", "prompt": "p", "agent": "  " })),
        ("background_task", json!({ "description": "d", "prompt": "p", "agent": "nobody" })),
        ("background_task", json!({ "description": "", "prompt": " ", "agent": "", "resume": "xyz" })),
        resume("xyz", "Go on"),
        ("background_task", json!({ "description": "d", "prompt": "p", "agent": "", "resume": "xyz" })),
        on("background_output", "xyz"),
        on("background_cancel", "xyz"),
        ("background_steer", json!({ "task_id": "xyz", "message": "Mind the rocks" })),
        ("background_list", json!({})),
        ("background_list", json!({ "status": "Running" })),
        ("background_clear", json!({})),
    ];
    let dock = TaskDock::new(calling(vec![calls], |_| Reply::new().text("Done."), |_| {}));
    let mut talk = dock.begin().await;
    run(&mut talk, "Go").await;
    assert_answers!(&dock);
    assert!(dock.board.tasks(None).await.unwrap().is_empty());
    assert_eq!(dock.dock.archive.store().sessions(&Default::default()).unwrap().len(), 1);
}

#[tokio::test]
async fn a_tasks_life_by_the_calls_of_a_model() {
    let ignored =
        json!({ "resume": "ID", "prompt": "And the channel?", "agent": "helper", "description": "Other" });
    let calls = vec![
        launch("How deep is it?"),
        wait("ID"),
        ("background_list", json!({})),
        on("background_cancel", "ID"),
        ("background_steer", json!({ "task_id": "ID", "message": "Too late" })),
        ("background_task", ignored),
        wait("ID"),
        resume("ID", "And the quay?"),
        wait("ID"),
        ("background_output", json!({ "task_id": "ID", "full_session": true })),
        ("background_list", json!({ "status": "COMPLETED" })),
        ("background_list", json!({ "status": "error" })),
        ("background_clear", json!({})),
        ("background_list", json!({})),
        ("background_clear", json!({})),
    ];
    let child = |request: &Captured| Reply::new().text(format!("I heard: {}", request.last_user_text()));
    let dock = TaskDock::new(calling(vec![calls], child, |_| {}));
    let mut talk = dock.begin().await;
    run(&mut talk, "Go").await;
    assert_answers!(&dock);
    assert_eq!(
        injected_messages(&dock, talk.session()),
        Vec::<String>::new(),
        "each end was reported by a call"
    );
}

#[tokio::test]
async fn calls_show_steer_resume_and_cancel_a_running_task() {
    let gate = Gate::new();
    let (held, reached) = (gate.clone(), gate.clone());
    let calls = vec![
        launch("How deep is it?"),
        ("background_list", json!({ "status": "running" })),
        on("background_output", "ID"),
        // A timeout returns the status and is not an error.
        ("background_output", json!({ "task_id": "ID", "block": true, "timeout": 0 })),
        ("background_output", json!({ "task_id": "ID", "full_session": true })),
        ("background_steer", json!({ "task_id": "ID", "message": "Mind the rocks" })),
        resume("ID", "And the channel?"),
        resume("ID", "And the quay?"),
        on("background_cancel", "ID"),
        on("background_output", "ID"),
        ("background_output", json!({ "task_id": "ID", "full_session": true })),
    ];
    let child = move |_: &Captured| Reply::new().text("Nine metres.").gate(0, &held);
    let before = move |made| assert!(made == 0 || reached.wait_reached());
    let dock = TaskDock::new(calling(vec![calls], child, before));
    let mut talk = dock.begin().await;
    run(&mut talk, "Go").await;
    gate.release();
    assert_answers!(&dock);
    assert_eq!(
        injected_messages(&dock, talk.session()),
        Vec::<String>::new(),
        "the cancel itself has reported it"
    );
}

#[tokio::test]
async fn r70_a_resumed_task_is_among_the_running_ones_wherever_they_are_shown() {
    let gate = Gate::new();
    let (held, reached) = (gate.clone(), gate.clone());
    let calls = vec![
        launch("One"),
        wait("ID"),
        resume("ID", "Two"),
        ("background_list", json!({ "status": "running" })),
        ("background_list", json!({ "status": "resumed" })),
        ("background_list", json!({ "status": "completed" })),
        on("background_output", "ID"),
        on("background_cancel", "ID"),
    ];
    let child = move |request: &Captured| match request.last_user_text().as_str() {
        "One" => Reply::new().text("First."),
        _ => Reply::new().text("Second.").gate(0, &held),
    };
    let seen = gate.clone();
    let before = move |made| assert!(made < 3 || reached.wait_reached());
    let dock = TaskDock::new(calling(vec![calls], child, before));
    let mut talk = dock.begin().await;
    let board = std::sync::Arc::clone(&dock.board);
    let toast = tokio::spawn(async move {
        seen.reached().await;
        toast_text(&board.tasks(None).await.unwrap(), board.now())
    });
    run(&mut talk, "Go").await;
    gate.release();
    for call in [3, 4] {
        let list = answer(&dock, call);
        assert!(list.contains("(resumed)`") && list.contains("| ↻ resumed |"), "{list}");
        assert!(list.contains("**Total: 1** | ⏳ 1 running | ✓ 0 completed"), "{list}");
    }
    assert_eq!(answer(&dock, 5), "No background tasks found with status \"completed\".");
    assert!(answer(&dock, 6).starts_with("# ↻ Task Status"), "{}", answer(&dock, 6));
    assert!(
        answer(&dock, 7).starts_with("⊘ **Task cancelled**"),
        "as active as any other: {}",
        answer(&dock, 7)
    );
    let (title, lines) = toast.await.unwrap();
    assert_eq!(title, "⛭ Background tasks");
    assert!(lines.contains("0/1 agents (0%)"), "{lines}");
}

#[tokio::test]
async fn full_session_includes_the_status_so_no_note_is_needed() {
    let calls = vec![
        launch("How deep is it?"),
        // Waits until the end, without a note about it.
        ("background_output", json!({ "task_id": "ID", "block": true, "full_session": true })),
    ];
    let child = |_: &Captured| Reply::failing(Fault::status(400));
    let dock = TaskDock::new(calling(vec![calls], child, |_| {}));
    let mut talk = dock.begin().await;
    run(&mut talk, "Go").await;
    let task = dock.board.tasks(None).await.unwrap().remove(0);
    assert_eq!(task.status, TaskStatus::Error);
    let (answer, error) = (answer(&dock, 1), task.data.error.unwrap());
    assert!(answer.contains("user: How deep is it?"), "{answer}");
    assert!(answer.contains("Status: ✗ error") && answer.contains(error.lines().next().unwrap()), "{answer}");
    assert_eq!(injected_messages(&dock, talk.session()), Vec::<String>::new());
}

/// Adds messages to an ended session, like a user who chats with the task.
async fn add_messages(dock: &TaskDock, session: &SessionId, messages: Vec<Message>) {
    let mut talk = dock.dock.agent.open(session).await.unwrap();
    for message in messages {
        talk.session_mut().append(message).await.unwrap();
    }
    talk.close().await.unwrap();
}

#[tokio::test]
async fn of_a_long_session_the_newest_hundred_messages_are_shown_and_those_after_a_known_one() {
    let read = |more: Value| {
        let mut input = json!({ "task_id": "ID", "full_session": true });
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ("background_output", input)
    };
    let stages = vec![
        vec![launch("Count"), wait("ID")],
        vec![
            read(json!({})),
            read(json!({ "message_limit": 3 })),
            read(json!({ "message_limit": 5_000 })),
            read(json!({ "since_message_id": "msg_zz0095" })),
            read(json!({ "since_message_id": "msg_zz0550", "message_limit": 2 })),
            read(json!({ "since_message_id": "msg_zz9999" })),
            read(json!({ "since_message_id": "msg_zz0599" })),
        ],
    ];
    let dock = TaskDock::new(calling(stages, |_| Reply::new().text("Done."), |_| {}));
    let mut talk = dock.begin().await;
    run(&mut talk, "Go").await;
    let task = dock.board.tasks(None).await.unwrap().remove(0);
    // A hundred messages with text, followed by five hundred without visible content.
    let message = |n: usize| {
        let text = if (100..598).contains(&n) { String::new() } else { format!("number {n}") };
        let (id, part) = (format!("msg_zz{n:04}"), format!("prt_zz{n:04}"));
        Message::assistant(id.as_str().into(), vec![Part::text(part.as_str().into(), text)])
    };
    add_messages(&dock, &task.id, (0..600).map(message).collect()).await;
    run(&mut talk, "Go").await;
    let shown = |call: usize| {
        let answer = answer(&dock, call);
        let lines = answer.lines().filter(|line| line.starts_with('[') && line.contains("assistant: number"));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<usize>().unwrap()).collect::<Vec<_>>()
    };
    let newest: Vec<usize> = (2..100).chain([598, 599]).collect();
    assert_eq!(shown(2), newest, "the newest hundred, however far back they are");
    assert!(answer(&dock, 2).starts_with("(Older messages are left out."), "{}", answer(&dock, 2));
    assert_eq!(shown(3), [99, 598, 599]);
    assert_eq!(shown(4), newest, "at most a hundred");
    assert_eq!(shown(5), [96, 97, 98, 99, 598, 599], "it is found however far back it is");
    let after = |call: usize| answer(&dock, call).split_once("\n---\n\n").unwrap().1.to_owned();
    assert!(after(5).starts_with("[msg_zz0096]"), "nothing is left out: {}", answer(&dock, 5));
    assert!(!answer(&dock, 5).contains("Older messages"), "{}", answer(&dock, 5));
    assert_eq!(shown(6), [598, 599]);
    assert_eq!(shown(7), newest, "one that is not known: as without");
    assert_eq!(after(8), "No messages available for this task.");
}

#[tokio::test]
async fn reasoning_and_results_are_shown_on_request() {
    let stages = vec![vec![
        launch("Count"),
        wait("ID"),
        ("background_output", json!({ "task_id": "ID", "full_session": true })),
        (
            "background_output",
            json!({ "task_id": "ID", "full_session": "true", "include_thinking": true, "include_tool_results": true }),
        ),
    ]];
    let child = |request: &Captured| match request.call_ids().len() {
        0 => Reply::new().thinking("Where is it?").call("call_1", "read", json!({ "path": "chart.txt" })),
        _ => Reply::new().text("Nine fathoms."),
    };
    let dock = TaskDock::new(calling(stages, child, |_| {}));
    dock.dock.write("chart.txt", "rocks at nine fathoms\n");
    let mut talk = dock.begin().await;
    run(&mut talk, "Go").await;
    let (plain, whole) = (answer(&dock, 2), answer(&dock, 3));
    assert!(
        plain.contains("\"tool\": \"read\"")
            && !plain.contains("rocks at")
            && !plain.contains("Where is it?")
    );
    assert!(
        whole.contains("\nthinking:\nWhere is it?") && whole.contains("rocks at nine fathoms"),
        "{whole}"
    );
}

#[tokio::test]
async fn a_session_that_was_deleted_leaves_its_result_and_no_messages() {
    let stages = vec![
        vec![launch("Count"), wait("ID")],
        vec![
            on("background_output", "ID"),
            ("background_output", json!({ "task_id": "ID", "full_session": true })),
            resume("ID", "Go on"),
        ],
    ];
    let dock = TaskDock::new(calling(stages, |_| Reply::new().text("Nine ships."), |_| {}));
    let mut talk = dock.begin().await;
    run(&mut talk, "Go").await;
    let task = dock.board.tasks(None).await.unwrap().remove(0);
    dock.ended(&task.id).await;
    let store = dock.dock.archive.store();
    let lease = store.lease(&task.id, "the test", std::time::Duration::from_secs(5)).unwrap();
    store.remove(&lease.claim(), plimsoll::Millis(2)).unwrap();
    run(&mut talk, "Go").await;
    assert_answers!(&dock);
    let same = dock.board.task(&task.id).await.unwrap();
    assert_eq!(
        (same.status, same.run()),
        (TaskStatus::Completed, 1),
        "a resume that cannot be leaves no trace"
    );
}

#[tokio::test]
async fn an_id_that_names_several_tasks_is_answered_with_all_of_them() {
    let calls = vec![
        launch("One"),
        launch("Two"),
        on("background_output", "BEGIN"),
        on("background_cancel", "BEGIN"),
    ];
    let dock = TaskDock::new(calling(vec![calls], |_| Reply::new().text("Done."), |_| {}));
    let mut talk = dock.begin().await;
    run(&mut talk, "Go").await;
    for call in [2, 3] {
        let answer = answer(&dock, call);
        assert!(answer.contains("` is ambiguous. It could be: `"), "{answer}");
        assert_eq!(answer.matches("(Sound it)").count(), 2, "{answer}");
    }
}

#[tokio::test]
async fn a_record_that_cannot_be_read_any_more_is_an_error_of_the_call() {
    let gate = Gate::new();
    let (held, waits) = (gate.clone(), std::sync::Arc::new(AtomicUsize::new(0)));
    let counted = std::sync::Arc::clone(&waits);
    let calls = vec![launch("Count"), wait("ID")];
    let child = move |_: &Captured| Reply::new().text("Done.").gate(0, &held);
    let before = move |made| counted.store(made, Ordering::SeqCst);
    let dock = TaskDock::with(Dock::new(calling(vec![calls], child, before)), TaskLimits::default(), None);
    let mut agent = dock.agent.clone();
    agent.profile.awaits_tasks = false;
    let mut talk = agent.begin("").await.unwrap();
    let spoil = async {
        gate.reached().await;
        while waits.load(Ordering::SeqCst) < 1 {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        let task = dock.board.tasks(None).await.unwrap().remove(0);
        let step = TaskMove { from: "running".into(), to: "moored".into(), ..TaskMove::default() };
        dock.dock.archive.store().move_task(task.id.as_str(), step, plimsoll::Millis(1)).unwrap();
    };
    tokio::join!(run(&mut talk, "Go"), spoil);
    gate.release();
    assert_answers!(&dock);
}

#[tokio::test]
async fn a_session_that_cannot_be_made_is_a_launch_that_failed() {
    let dock = TaskDock::new(ModelServer::start().unwrap());
    let talk = dock.begin().await;
    let mut caller = dock.caller(&talk);
    caller.session = SessionId::new("ses_gone");
    let error = dock.board.launch(&caller, super::support::launch("Count")).await.unwrap_err();
    insta::assert_snapshot!(format!("Failed to launch background task: {error}"));
    assert!(dock.board.tasks(None).await.unwrap().is_empty());
    assert_eq!(dock.board.active_here(), 0);
}

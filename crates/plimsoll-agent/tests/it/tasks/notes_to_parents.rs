//! Notes to a parent in special cases: long sessions, limits, following resumes, summaries.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_agent::RunEnd;
use plimsoll_agent::tasks::{Launch, Speaker, TaskBoard, TaskLimits, TaskStatus};
use plimsoll_config::AgentFork;
use plimsoll_store::TaskMove;
use plimsoll_testkit::server::{Captured, Gate, ModelServer, Reply};
use rstest::rstest;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::support::{Crew, TaskDock, injected_messages, is_child, launch, task_call};
use crate::support::{Dock, SUMMARY, is_summary, lines, run};

/// A forked task has inherited more than an output can contain, and its run counts as reported.
#[rstest]
#[case::digest(AgentFork::Digest, "helper")]
#[case::history(AgentFork::History, "build")]
#[tokio::test]
async fn full_session_of_a_fork_shows_its_status_and_work_without_inherited_context(
    #[case] way: AgentFork,
    #[case] agent: &'static str,
) {
    let server = ModelServer::answering(move |request: &Captured| {
        if is_child(request, "Sound it") {
            return Reply::new().text("Nine metres.");
        }
        let id = request.result("call_2").and_then(|said| said.split('`').nth(1)).unwrap_or_default();
        match request.call_ids().len() {
            0 => Reply::new().call("call_1", "read", json!({ "path": "big.txt" })),
            1 => {
                let input =
                    json!({ "description": "Depth", "prompt": "Sound it", "agent": agent, "fork": true });
                Reply::new().call("call_2", "background_task", input)
            }
            2 => {
                let input = json!({ "task_id": id, "block": true, "full_session": true });
                Reply::new().call("call_3", "background_output", input)
            }
            _ => Reply::new().text("Nine, then."),
        }
    })
    .unwrap();
    let plain = Dock::new(server);
    plain.write("big.txt", &lines(900));
    let dock = TaskDock::with(plain, TaskLimits::default(), Some(way));
    let mut talk = dock.begin().await;
    run(&mut talk, "How deep is it?").await;
    let last =
        dock.dock.server.requests().into_iter().rfind(|request| !is_child(request, "Sound it")).unwrap();
    let answer = last.result("call_3").unwrap();
    assert!(answer.starts_with("Status: ✓ completed ("), "{answer}");
    assert!(answer.contains("\nInherited context, not shown: "), "{answer}");
    assert!(
        answer.contains("<task>\nSound it\n</task>") && answer.contains("assistant: Nine metres."),
        "{answer}"
    );
    assert!(answer.len() < 2_000 && !answer.contains("How deep is it?"), "{answer}");
    assert_eq!(injected_messages(&dock, talk.session()), Vec::<String>::new(), "it was reported before");
}

/// A model that launches a task whenever one has ended, and no person who says anything.
#[rstest]
#[case::tokens(true)]
#[case::steps(false)]
#[tokio::test]
async fn answers_to_notes_count_towards_the_limits_of_the_users_turn(#[case] by_tokens: bool) {
    let server = ModelServer::answering(|request: &Captured| {
        if is_child(request, "Work") {
            return Reply::new().text("Done.");
        }
        let last = request.messages.last().map(|message| message.text()).unwrap_or_default();
        match ["Go", "And now?", "Task Progress"].iter().any(|words| last.contains(words)) {
            true => task_call(&format!("call_{}", request.call_ids().len()), "Work", false),
            false => Reply::new().text("I am waiting."),
        }
    })
    .unwrap();
    let dock = TaskDock::new(server);
    let mut agent = dock.agent.clone();
    agent.profile.awaits_tasks = false;
    match by_tokens {
        true => agent.profile.limits.tokens = Some(60_000),
        false => agent.profile.limits.steps = 9,
    }
    let never = CancellationToken::new();
    let mut talk = agent.begin("").await.unwrap();
    talk.run("Go", &never).await.unwrap();
    let mut end = None;
    for _ in 0..60 {
        for task in dock.board.tasks(Some(talk.session())).await.unwrap() {
            dock.ended(&task.id).await;
        }
        match talk.answer_notes(&never).await.unwrap() {
            Some(report) if matches!(report.end, RunEnd::Finished { .. }) => {}
            other => {
                end = other.map(|report| report.end);
                break;
            }
        }
    }
    assert_eq!(end, Some(if by_tokens { RunEnd::Tokens } else { RunEnd::Steps }));
    for task in dock.board.tasks(Some(talk.session())).await.unwrap() {
        dock.ended(&task.id).await;
    }
    let before = dock.dock.server.received();
    let more = talk.answer_notes(&never).await.unwrap().map(|report| report.end);
    assert!(!matches!(more, Some(RunEnd::Finished { .. })), "{more:?}");
    assert_eq!(dock.dock.server.received(), before, "nothing is asked any more");
    // A prompt of the user begins a turn with new limits.
    let report = talk.run("And now?", &never).await.unwrap();
    assert!(matches!(report.end, RunEnd::Finished { .. }), "{report:?}");
}

#[tokio::test]
async fn active_tasks_are_listed_once_after_a_summary() {
    let gate = Gate::new();
    let held = gate.clone();
    let server = ModelServer::answering(move |request: &Captured| match request.last_user_text().as_str() {
        _ if is_summary(request) => Reply::new().text(SUMMARY),
        _ if is_child(request, "Work") => Reply::new().text("Done.").gate(0, &held),
        "Launch it" if request.call_ids().is_empty() => task_call("call_1", "Work", false),
        _ => Reply::new().text("I see."),
    })
    .unwrap();
    let dock = TaskDock::new(server);
    let mut agent = dock.agent.clone();
    agent.profile.awaits_tasks = false;
    let never = CancellationToken::new();
    let mut talk = agent.begin("").await.unwrap();
    talk.run("Launch it", &never).await.unwrap();
    for n in 0..3 {
        talk.run(&format!("Turn {n}: {}", lines(60)), &never).await.unwrap();
    }
    let receipts = talk.compact(&never).await.unwrap();
    assert!(!receipts.is_empty());
    talk.run("What is at work?", &never).await.unwrap();
    let task = dock.board.tasks(None).await.unwrap().remove(0);
    let short = &task.id.as_str()[4..12];
    let words = format!("- `{short}` (About Work): running for ");
    let last = dock.dock.server.last().unwrap();
    assert!(last.contains("still running"), "{last:?}");
    assert!(last.contains(&words), "{last:?}");
    talk.run("And now?", &never).await.unwrap();
    let log = dock.dock.log(talk.session());
    let named = log.iter().filter(|message| {
        message
            .parts
            .iter()
            .any(|part| part.extra.get("metadata").is_some_and(|of| of.get("tasksAfter").is_some()))
    });
    assert_eq!(named.count(), 1);
    gate.release();
    dock.ended(&task.id).await;
}

/// The task's paths and rules are for its own directory.
#[tokio::test]
async fn a_queued_resume_starts_only_in_the_directory_of_its_task() {
    let dock = TaskDock::new(ModelServer::answering(|_: &Captured| Reply::new().text("Done.")).unwrap());
    let talk = dock.begin().await;
    let task = dock.launch(&talk, "Work").await;
    dock.ended(&task.id).await;
    let store = dock.dock.archive.store();
    let mut data = store.task(task.id.as_str()).unwrap().data;
    data["pending"] = "Go on".into();
    let step = TaskMove {
        from: "completed".into(),
        to: "completed".into(),
        data: Some(data),
        ..TaskMove::default()
    };
    store.move_task(task.id.as_str(), step, plimsoll::Millis(1)).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let board = |directory: &std::path::Path| {
        let mut agent = dock.dock.agent.clone();
        agent.directory = directory.to_owned();
        let crew = Arc::new(Crew::of(&agent));
        TaskBoard::new(Arc::clone(&dock.dock.archive), crew, TaskLimits::default(), "another")
    };
    let there = board(elsewhere.path());
    there.supervise(talk.session()).await.unwrap();
    let waits = there.task(&task.id).await.unwrap();
    assert_eq!((waits.run(), waits.data.pending.as_deref()), (1, Some("Go on")));
    let here = board(&dock.dock.agent.directory);
    here.supervise(talk.session()).await.unwrap();
    assert_eq!(here.task(&task.id).await.unwrap().run(), 2);
    let ended = here.wait(&task.id, Duration::from_secs(20), &CancellationToken::new()).await.unwrap();
    assert_eq!(ended.status, TaskStatus::Completed);
    here.close(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn unread_messages_of_the_user_are_not_reported_as_the_parents() {
    let gate = Gate::new();
    let held = gate.clone();
    let server = ModelServer::answering(move |request: &Captured| match request.last_user_text().as_str() {
        "Work" => Reply::new().call("call_1", "list", json!({})).gate(0, &held),
        _ => Reply::new().text("Done."),
    })
    .unwrap();
    let limits = TaskLimits { steps: Some(1), ..TaskLimits::default() };
    let dock = TaskDock::with(Dock::new(server), limits, None);
    let mut talk = dock.begin().await;
    let new = Launch { ..launch("Work") };
    let task = dock.board.launch(&dock.caller(&talk), new).await.unwrap();
    gate.reached().await;
    dock.board.steer(&task.id, "Be quick", Speaker::User).await.unwrap();
    dock.board.steer(&task.id, "Mind the rocks", Speaker::Parent).await.unwrap();
    gate.release();
    let ended = dock.ended(&task.id).await;
    let run = &ended.data.runs[0];
    assert_eq!(
        (&run.unread[..], &run.unread_of_user[..]),
        (&["Mind the rocks".to_owned()][..], &["Be quick".to_owned()][..])
    );
    assert!(talk.take_notes().await.unwrap());
    let log = dock.dock.log(talk.session());
    let parts = log.last().unwrap().parts.iter().filter_map(|part| match &part.body {
        plimsoll::PartBody::Text(text) => Some(text.text.to_string()),
        _ => None,
    });
    let hint: String = parts.collect();
    assert!(hint.contains("before it read your message: Mind the rocks"), "{hint}");
    assert!(hint.contains("before it read the user's message: Be quick"), "{hint}");
}

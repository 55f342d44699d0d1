//! Life cycles of tasks: launched, reported, waited for, cancelled, resumed, steered.

use std::time::Duration;

use plimsoll_agent::RunEnd;
use plimsoll_agent::tasks::{ResumeOutcome, Speaker, TaskError, TaskLimits, TaskStatus, short_id};
use plimsoll_store::TaskMove;
use plimsoll_testkit::server::{Captured, Gate, ModelServer, Reply};
use serde_json::json;

use super::support::{TaskDock, injected_messages, is_child, launch, task_call};
use crate::support::{Dock, run};

#[tokio::test]
async fn r59_r60_r66_a_task_runs_concurrently_and_its_parent_is_notified_once() {
    let dock = TaskDock::new(
        ModelServer::answering(|request: &Captured| {
            if is_child(request, "Count the ships") {
                return Reply::new().text("Nine ships.");
            }
            match request.call_ids().len() {
                0 => task_call("call_1", "Count the ships", false),
                _ if request.contains("Task Progress: 1/1") => Reply::new().text("Nine, then."),
                _ => Reply::new().text("I am waiting."),
            }
        })
        .unwrap(),
    );
    let mut talk = dock.begin().await;
    let report = run(&mut talk, "How many ships, and a secret word: barnacle").await;
    assert_eq!(report.text, "Nine, then.");
    assert!(matches!(report.end, RunEnd::Finished { .. }));
    let tasks = dock.board.tasks(Some(talk.session())).await.unwrap();
    assert_eq!(tasks.len(), 1);
    assert_eq!((tasks[0].status, tasks[0].is_forked()), (TaskStatus::Completed, false));
    assert_eq!(serde_json::to_value(&tasks[0]).unwrap()["isForked"], false);
    assert_eq!(tasks[0].data.result.as_deref(), Some("Nine ships."));
    let session = dock.dock.archive.store().session(&tasks[0].id).unwrap();
    assert_eq!(session.title, "Background: About Count the ships");
    let childs: Vec<Captured> = dock
        .dock
        .server
        .requests()
        .into_iter()
        .filter(|request| is_child(request, "Count the ships"))
        .collect();
    assert_eq!(childs.len(), 1);
    assert!(!childs[0].contains("barnacle"), "without fork nothing of the parent reaches the child");
    assert_eq!(childs[0].messages.len(), 1);
    assert!(childs[0].tools.iter().all(|tool| !tool.starts_with("background_")), "{:?}", childs[0].tools);
    assert_eq!(injected_messages(&dock, talk.session()).len(), 1);
}

#[tokio::test]
async fn r79_the_tool_returns_at_once_and_r80_progress_is_visible() {
    let (first, gate) = (Gate::new(), Gate::new());
    let (held_first, held) = (first.clone(), gate.clone());
    let dock = TaskDock::new(
        ModelServer::answering(move |request: &Captured| match request.call_ids().len() {
            0 => Reply::new().call("call_1", "list", json!({})).gate(0, &held_first),
            _ => Reply::new().text("Done.").gate(0, &held),
        })
        .unwrap(),
    );
    let talk = dock.begin().await;
    // It returns although the task gets no answer yet.
    let task = dock.launch(&talk, "Look around").await;
    assert!(task.status.is_active());
    assert!(dock.board.task(&task.id).await.unwrap().data.progress.tools.is_empty());
    first.release();
    gate.reached().await;
    let running = dock.board.task(&task.id).await.unwrap();
    assert_eq!(running.status, TaskStatus::Running);
    assert_eq!(running.data.progress.tools.get("list"), Some(&1));
    gate.release();
    let ended = dock.ended(&task.id).await;
    assert_eq!(ended.data.progress.steps, 2);
    assert!(ended.data.progress.usage.total() > 0);
}

#[tokio::test]
async fn a_few_work_at_once_and_the_others_wait_in_order() {
    let gate = Gate::new();
    let held = gate.clone();
    let server =
        ModelServer::answering(move |_: &Captured| Reply::new().text("Done.").gate(0, &held)).unwrap();
    let limits = TaskLimits { at_once: 2, ..TaskLimits::default() };
    let dock = TaskDock::with(Dock::new(server), limits, None);
    let talk = dock.begin().await;
    let mut ids = Vec::new();
    for n in 0..5 {
        ids.push(dock.launch(&talk, &format!("Task {n}")).await.id);
    }
    gate.reached().await;
    dock.reaches(&ids[1], TaskStatus::Running).await;
    let statuses = async || {
        let tasks = dock.board.tasks(None).await.unwrap();
        tasks.into_iter().map(|task| task.status).collect::<Vec<_>>()
    };
    use TaskStatus::{Queued, Running};
    assert_eq!(statuses().await, [Running, Running, Queued, Queued, Queued]);
    while dock.dock.server.received() < 2 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    gate.release();
    for id in &ids {
        assert_eq!(dock.ended(id).await.status, TaskStatus::Completed);
    }
}

/// Start times are too coarse to show an order. The order of requests shows it, if one task runs at a time.
#[tokio::test]
async fn waiting_tasks_get_slots_in_launch_order() {
    let gate = Gate::new();
    let held = gate.clone();
    let server =
        ModelServer::answering(move |_: &Captured| Reply::new().text("Done.").gate(0, &held)).unwrap();
    let limits = TaskLimits { at_once: 1, ..TaskLimits::default() };
    let dock = TaskDock::with(Dock::new(server), limits, None);
    let talk = dock.begin().await;
    let prompts: Vec<String> = (0..6).map(|n| format!("Task {n}")).collect();
    let mut ids = Vec::new();
    for prompt in &prompts {
        ids.push(dock.launch(&talk, prompt).await.id);
    }
    gate.reached().await;
    gate.release();
    for id in &ids {
        dock.ended(id).await;
    }
    let asked: Vec<String> = dock.dock.server.requests().iter().map(Captured::last_user_text).collect();
    assert_eq!(asked, prompts);
}

/// IDs begin with the time. The short ID from a launch must stay valid when more tasks follow.
#[tokio::test]
async fn a_short_id_stays_unambiguous_after_later_launches() {
    let gate = Gate::new();
    let held = gate.clone();
    let server =
        ModelServer::answering(move |_: &Captured| Reply::new().text("Done.").gate(0, &held)).unwrap();
    let dock = TaskDock::with(Dock::new(server), TaskLimits { at_once: 1, ..TaskLimits::default() }, None);
    let (one, other) = (dock.begin().await, dock.begin().await);
    let mut output = Vec::new();
    for n in 0..20 {
        // Two sessions of one process launch at the same time.
        let (first, second) = (format!("Task {n}a"), format!("Task {n}b"));
        let launched = tokio::join!(dock.launch(&one, &first), dock.launch(&other, &second));
        output.extend([launched.0.id, launched.1.id].map(|id| (short_id(&id, []), id)));
    }
    for (short, id) in &output {
        assert_eq!(short.len(), 8);
        let found = dock.board.find(None, short).await;
        assert_eq!(found.map(|task| task.id).map_err(|error| error.to_string()), Ok(id.clone()));
    }
    dock.board.close(Duration::from_secs(20)).await;
}

#[tokio::test]
async fn cancelling_ends_the_running_command_and_is_reported() {
    let server = ModelServer::answering(|_: &Captured| {
        // The process is not a direct child. Two mechanisms end it: its group, and the sweep after that. Each has its
        // own test, `all_processes_of_a_group_end_with_it` and `processes` of `plimsoll-sandbox`. This test checks that
        // a cancelled task uses either.
        let command = "sleep 60 & echo $! > pid; wait";
        Reply::new().call("call_1", "bash", json!({ "command": command }))
    })
    .unwrap();
    let dock = TaskDock::with(Dock::new(server).allow("all"), TaskLimits::default(), None);
    let talk = dock.begin().await;
    let task = dock.launch(&talk, "Sleep").await;
    let file = dock.project().join("pid");
    while std::fs::read_to_string(&file).map(|text| text.trim().is_empty()).unwrap_or(true) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let pid: i32 = std::fs::read_to_string(&file).unwrap().trim().parse().unwrap();
    let cancelled = dock.board.cancel(&task.id).await.unwrap();
    assert_eq!(cancelled.status, TaskStatus::Cancelled);
    dock.ended(&task.id).await;
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    for _ in 0..500 {
        if rustix::process::test_kill_process(pid).is_err() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(rustix::process::test_kill_process(pid).is_err(), "the command still runs");
    let again = dock.board.cancel(&task.id).await.unwrap_err();
    assert!(matches!(again, TaskError::NotRunning { status: TaskStatus::Cancelled }));
    let mut talk = talk;
    assert!(talk.take_notes().await.unwrap());
    assert!(
        injected_messages(&dock, talk.session())[0].starts_with("⊘ **Agent \"About Sleep\" cancelled after")
    );
}

#[tokio::test]
async fn r78_a_task_is_resumed_from_every_end_in_its_own_session() {
    let server = ModelServer::answering(|request: &Captured| {
        Reply::new().text(format!("I heard: {}", request.last_user_text()))
    })
    .unwrap();
    let dock = TaskDock::new(server);
    let talk = dock.begin().await;
    let task = dock.launch(&talk, "One").await;
    dock.ended(&task.id).await;
    let sessions = || dock.dock.archive.store().sessions(&Default::default()).unwrap().len();
    let before = sessions();
    let caller = dock.caller(&talk);
    let resumed = dock.board.resume(Some(&caller), &task.id, "Two").await.unwrap();
    let ResumeOutcome::Begun(resumed) = resumed else { panic!("{resumed:?}") };
    assert_eq!(resumed.status, TaskStatus::Resumed);
    assert!(resumed.status.is_active(), "r70");
    let ended = dock.ended(&task.id).await;
    assert_eq!((ended.status, ended.resumes()), (TaskStatus::Completed, 1));
    assert_eq!(ended.data.result.as_deref(), Some("I heard: Two"));
    assert_eq!(sessions(), before);
    let last = dock.dock.server.last().unwrap();
    assert!(last.contains("One") && last.contains("I heard: One") && last.contains("Two"));
    assert!(last.tools.iter().all(|tool| !tool.starts_with("background_")), "also after a resume");
    for (at, end) in ["error", "cancelled", "interrupted"].into_iter().enumerate() {
        let step = TaskMove { from: "completed".into(), to: end.into(), ..TaskMove::default() };
        dock.dock.archive.store().move_task(task.id.as_str(), step, plimsoll::Millis(1)).unwrap();
        let again = dock.board.resume(Some(&caller), &task.id, &format!("After {end}")).await.unwrap();
        assert!(matches!(again, ResumeOutcome::Begun(_)), "{again:?}");
        let ended = dock.ended(&task.id).await;
        assert_eq!((ended.status, ended.resumes()), (TaskStatus::Completed, at as u32 + 2));
        assert_eq!(ended.data.result, Some(format!("I heard: After {end}")));
    }
    assert_eq!(sessions(), before);
}

#[tokio::test]
async fn one_resume_is_queued_and_starts_and_a_second_is_rejected() {
    let gate = Gate::new();
    let held = gate.clone();
    let server = ModelServer::answering(move |request: &Captured| {
        Reply::new().text(format!("I heard: {}", request.last_user_text())).gate(0, &held)
    })
    .unwrap();
    let dock = TaskDock::new(server);
    let mut talk = dock.begin().await;
    let task = dock.launch(&talk, "One").await;
    gate.reached().await;
    let caller = dock.caller(&talk);
    let queued = dock.board.resume(Some(&caller), &task.id, "Two").await.unwrap();
    assert!(matches!(queued, ResumeOutcome::Queued(_)));
    let refused = dock.board.resume(Some(&caller), &task.id, "Three").await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "Task already has a pending resume queued. Wait for current execution to complete."
    );
    let stored = dock.dock.archive.store().task(task.id.as_str()).unwrap();
    assert_eq!(stored.data["pending"], "Two", "it survives the process");
    gate.release();
    while dock.board.task(&task.id).await.unwrap().run() < 2 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let ended = dock.ended(&task.id).await;
    assert_eq!((ended.status, ended.run()), (TaskStatus::Completed, 2));
    assert_eq!(ended.data.result.as_deref(), Some("I heard: Two"));
    assert!(talk.take_notes().await.unwrap());
    let output = injected_messages(&dock, talk.session());
    assert_eq!(output.len(), 1, "both ends in one message: {output:?}");
    assert!(output[0].contains("finished in") && output[0].contains("Resume #1 completed in"), "{output:?}");
}

#[tokio::test]
async fn one_of_two_concurrent_resumes_begins_and_the_other_is_queued() {
    let gate = Gate::new();
    let held = gate.clone();
    let server = ModelServer::answering(move |request: &Captured| {
        let text = request.last_user_text();
        let reply = Reply::new().text(format!("I heard: {text}"));
        if text == "One" { reply } else { reply.gate(0, &held) }
    })
    .unwrap();
    let dock = TaskDock::new(server);
    let talk = dock.begin().await;
    let task = dock.launch(&talk, "One").await;
    dock.ended(&task.id).await;
    let caller = dock.caller(&talk);
    // The one that is queued does not wait for the other, whose run cannot end yet.
    let (two, three) = tokio::join!(
        dock.board.resume(Some(&caller), &task.id, "Two"),
        dock.board.resume(Some(&caller), &task.id, "Three"),
    );
    let outcomes = [two.unwrap(), three.unwrap()];
    let queued = outcomes.iter().filter(|outcome| matches!(outcome, ResumeOutcome::Queued(_))).count();
    assert_eq!(queued, 1, "{outcomes:?}");
    gate.release();
    while dock.board.task(&task.id).await.unwrap().run() < 3 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let ended = dock.ended(&task.id).await;
    assert_eq!((ended.status, ended.run()), (TaskStatus::Completed, 3));
    assert!(
        ended.data.runs.iter().all(|run| run.end == Some(TaskStatus::Completed)),
        "{:?}",
        ended.data.runs
    );
}

#[tokio::test]
async fn a_steering_message_reaches_a_running_task_before_its_next_request() {
    let gate = Gate::new();
    let held = gate.clone();
    let server = ModelServer::answering(move |request: &Captured| match request.call_ids().len() {
        0 => Reply::new().call("call_1", "list", json!({})).gate(0, &held),
        _ => Reply::new().text("Done."),
    })
    .unwrap();
    let dock = TaskDock::new(server);
    let talk = dock.begin().await;
    let task = dock.launch(&talk, "Work").await;
    gate.reached().await;
    dock.board.steer(&task.id, "Mind the rocks", Speaker::Parent).await.unwrap();
    gate.release();
    let ended = dock.ended(&task.id).await;
    assert_eq!(ended.status, TaskStatus::Completed);
    assert_eq!(dock.dock.server.last().unwrap().last_user_text(), "Mind the rocks");
    let late = dock.board.steer(&task.id, "Too late", Speaker::Parent).await.unwrap_err();
    assert!(late.to_string().starts_with("Cannot steer task"), "{late}");
}

#[tokio::test]
async fn messages_during_the_last_answer_are_answered_too() {
    let gate = Gate::new();
    let held = gate.clone();
    let server = ModelServer::answering(move |request: &Captured| match request.last_user_text().as_str() {
        "Work" => Reply::new().text("Done.").gate(0, &held),
        other => Reply::new().text(format!("I heard: {other}")),
    })
    .unwrap();
    let dock = TaskDock::new(server);
    let talk = dock.begin().await;
    let task = dock.launch(&talk, "Work").await;
    gate.reached().await;
    dock.board.steer(&task.id, "One more thing", Speaker::Parent).await.unwrap();
    gate.release();
    let ended = dock.ended(&task.id).await;
    assert_eq!(ended.data.result.as_deref(), Some("I heard: One more thing"));
}

#[tokio::test]
async fn a_parent_that_waits_for_the_output_gets_no_note() {
    // A task that ends before its parent's next request would be reported with that request.
    let gate = Gate::new();
    let dock = TaskDock::new(
        ModelServer::answering(move |request: &Captured| {
            if is_child(request, "Count") {
                return Reply::new().text("Nine ships.").gate(0, &gate);
            }
            match request.call_ids().len() {
                0 => task_call("call_1", "Count", false),
                1 => {
                    gate.release();
                    let said = request.result("call_1").unwrap();
                    let id = said.split('`').nth(1).unwrap();
                    let input = json!({ "task_id": id, "block": true });
                    Reply::new().call("call_2", "background_output", input)
                }
                _ => Reply::new().text("Nine, then."),
            }
        })
        .unwrap(),
    );
    let mut talk = dock.begin().await;
    let report = run(&mut talk, "How many ships?").await;
    assert_eq!(report.text, "Nine, then.");
    let last = dock.dock.server.last().unwrap();
    assert!(last.result("call_2").unwrap().ends_with("Nine ships."));
    assert_eq!(injected_messages(&dock, talk.session()), Vec::<String>::new());
    assert!(!talk.take_notes().await.unwrap());
    assert!(dock.dock.archive.store().notes(talk.session(), 0).unwrap().is_empty());
}

#[tokio::test]
async fn a_task_that_is_too_deep_or_has_no_agent_is_refused() {
    let limits = TaskLimits { depth: 0, ..TaskLimits::default() };
    let dock = TaskDock::with(Dock::new(ModelServer::start().unwrap()), limits, None);
    let talk = dock.begin().await;
    let refused = dock.board.launch(&dock.caller(&talk), launch("Work")).await.unwrap_err();
    assert!(refused.to_string().contains("nested 0 deep"), "{refused}");
    assert_eq!(dock.board.tasks(None).await.unwrap().len(), 0);
}

#[tokio::test]
async fn limits_of_steps_and_time_end_a_task_with_a_reason() {
    let server = ModelServer::answering(|request: &Captured| {
        let n = request.call_ids().len();
        Reply::new().text("Still at it.").call(format!("call_{n}"), "list", json!({ "path": "." }))
    })
    .unwrap();
    let limits = TaskLimits { steps: Some(2), ..TaskLimits::default() };
    let dock = TaskDock::with(Dock::new(server), limits, None);
    let talk = dock.begin().await;
    let task = dock.launch(&talk, "Work").await;
    let ended = dock.ended(&task.id).await;
    assert_eq!(ended.status, TaskStatus::Error);
    assert_eq!(ended.data.error.as_deref(), Some("Step limit of 2 reached."));
    assert_eq!(ended.data.result.as_deref(), Some("Still at it."), "what it said is kept");
    let gate = Gate::new();
    let held = gate.clone();
    let server =
        ModelServer::answering(move |_: &Captured| Reply::new().text("Done.").gate(0, &held)).unwrap();
    let limits = TaskLimits { time: Some(Duration::from_millis(100)), ..TaskLimits::default() };
    let dock = TaskDock::with(Dock::new(server), limits, None);
    let talk = dock.begin().await;
    let task = dock.launch(&talk, "Work").await;
    let ended = dock.ended(&task.id).await;
    assert_eq!(ended.status, TaskStatus::Error);
    assert_eq!(ended.data.error.as_deref(), Some("Time limit of 0s reached."));
}

/// A task that never ends, under these limits.
async fn endless(limits: TaskLimits, is_priced: bool) -> (TaskDock, plimsoll_agent::Conversation) {
    let server = ModelServer::answering(|request: &Captured| {
        let n = request.call_ids().len();
        Reply::new().text("Still at it.").call(format!("call_{n}"), "list", json!({ "path": "." }))
    })
    .unwrap();
    let mut dock = Dock::new(server);
    if is_priced {
        let table = plimsoll_tokens::ModelTable::default();
        dock.agent.model.price = table.find("claude-sonnet-4-6").unwrap().price;
    } else {
        dock.agent.model.price = None;
    }
    let dock = TaskDock::with(dock, limits, None);
    let talk = dock.begin().await;
    (dock, talk)
}

#[tokio::test]
async fn a_limit_of_tokens_ends_a_task() {
    let limits = TaskLimits { tokens: Some(1), ..TaskLimits::default() };
    let (dock, talk) = endless(limits, false).await;
    let task = dock.launch(&talk, "Work").await;
    let ended = dock.ended(&task.id).await;
    assert_eq!(ended.status, TaskStatus::Error);
    assert_eq!(ended.data.error.as_deref(), Some("Token budget of 1 exhausted."));
    assert_eq!(ended.data.progress.steps, 1);
}

#[tokio::test]
async fn a_limit_of_cost_ends_a_task() {
    let limits = TaskLimits { cost: Some(0.000_001), ..TaskLimits::default() };
    let (dock, talk) = endless(limits, true).await;
    let task = dock.launch(&talk, "Work").await;
    let ended = dock.ended(&task.id).await;
    assert_eq!(ended.status, TaskStatus::Error);
    assert_eq!(ended.data.error.as_deref(), Some("Cost limit of 0.000001 dollars reached."));
    assert_eq!(ended.data.progress.steps, 1);
}

#[tokio::test]
async fn an_unenforceable_cost_limit_is_rejected_and_nothing_is_created() {
    let limits = TaskLimits { cost: Some(2.0), ..TaskLimits::default() };
    let (dock, talk) = endless(limits, false).await;
    let refused = dock.board.launch(&dock.caller(&talk), launch("Work")).await.unwrap_err();
    assert!(refused.to_string().starts_with("the price of `anthropic/scripted` is unknown"), "{refused}");
    assert!(dock.board.tasks(None).await.unwrap().is_empty());
    assert_eq!(dock.dock.archive.store().sessions(&Default::default()).unwrap().len(), 1);
}

//! Context of forked tasks, in the requests that the model receives.

use std::sync::Arc;

use plimsoll::fork::TASK_INTRODUCTION;
use plimsoll::{Counter, Message, SessionId};
use plimsoll_agent::RunEnd;
use plimsoll_agent::tasks::{ForkFigures, ForkWay, Launch, Task, TaskLimits, TaskStatus};
use plimsoll_config::AgentFork;
use plimsoll_providers::Wire;
use plimsoll_session::Counting;
use plimsoll_testkit::server::{Captured, CapturedPart, ModelServer, Reply};
use rstest::rstest;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::support::{TaskDock, is_child, launch, task_call};
use crate::support::{CancellingCounter, Dock, lines, run};

/// A parent that reads a file, launches a fork and waits; the child repeats its prompt.
fn forking(request: &Captured) -> Reply {
    if is_child(request, "Weigh the anchor") {
        return Reply::new().text("It is heavy.");
    }
    match request.call_ids().len() {
        0 => Reply::new().text("Let me look.").call("call_1", "read", json!({ "path": "chart.txt" })),
        1 => Reply::new().text("I will hand this on.").call(
            "call_2",
            "background_task",
            json!({ "description": "Weigh it", "prompt": "Weigh the anchor", "agent": "build", "fork": true }),
        ),
        _ => Reply::new().text("Good."),
    }
}

async fn forked(dock: &TaskDock) -> (SessionId, Task, Vec<Captured>) {
    dock.dock.write("chart.txt", "rocks at nine fathoms\n");
    let mut talk = dock.begin().await;
    run(&mut talk, "Sail to Bergen").await;
    let tasks = dock.board.tasks(Some(talk.session())).await.unwrap();
    let requests = dock.dock.server.requests();
    let childs = requests.into_iter().filter(|request| is_child(request, "Weigh the anchor")).collect();
    (talk.session().clone(), tasks[0].clone(), childs)
}

#[tokio::test]
async fn r63_r65_r67_a_fork_has_its_parents_context_in_one_message_and_its_task_last() {
    let dock = TaskDock::new(ModelServer::answering(forking).unwrap());
    let (_, task, childs) = forked(&dock).await;
    assert_eq!(childs.len(), 1, "the context itself is not answered");
    let log = dock.dock.log(&task.id);
    assert_eq!(log.len(), 3, "context, task, answer");
    let context = log[0].text();
    assert!(context.starts_with("You are working with forked context from a parent agent session.\n"));
    assert!(
        context
            .contains("\n\n<inherited_context>\nUser:\nSail to Bergen\nAgent:\nLet me look.\n[Tool: read]")
    );
    assert!(context.contains("rocks at nine fathoms"));
    assert!(!context.contains("background_task"), "the launching call is not part of it");
    assert!(
        context.contains("I will hand this on.\n</inherited_context>"),
        "what was said before the call is"
    );
    assert_eq!(log[1].text(), format!("{TASK_INTRODUCTION}\n\n<task>\nWeigh the anchor\n</task>"));
    let receipt = task.data.fork.clone().unwrap();
    assert_eq!((receipt.way, receipt.why, receipt.warning), (ForkWay::Digest, None, None));
    assert!(receipt.tokens.unwrap() > 50 && !task.data.fork.as_ref().unwrap().was_cut());
    assert_eq!(receipt.stats.unwrap().final_count, 3);
    let session = dock.dock.archive.store().session(&task.id).unwrap();
    assert_eq!(session.title, "Background (forked): Weigh it");
    let stored = dock.dock.archive.store().task(task.id.as_str()).unwrap();
    assert_eq!(stored.data["fork"]["way"], "digest", "r67: stored and reloaded");
    let reloaded = plimsoll_agent::tasks::Task::try_from(stored).unwrap();
    assert_eq!(serde_json::to_value(reloaded).unwrap()["isForked"], true);
}

#[tokio::test]
async fn r3_r10_r71_a_fork_asks_no_model_and_does_not_change_its_parent() {
    let dock = TaskDock::new(ModelServer::start().unwrap());
    dock.dock.server.push_all([Reply::new().text("Aye.")]);
    let mut talk = dock.begin().await;
    run(&mut talk, "Sail to Bergen").await;
    let state = |dock: &TaskDock| {
        let store = dock.dock.archive.store();
        (format!("{:?}", dock.dock.log(talk.session())), store.session(talk.session()).unwrap().messages)
    };
    let before = state(&dock);
    let received = dock.dock.server.received();
    dock.dock.server.push_all([Reply::new().text("Done.")]);
    let new = plimsoll_agent::tasks::Launch { fork: true, ..launch("Weigh the anchor") };
    let task = dock.board.launch(&dock.caller(&talk), new).await.unwrap();
    assert_eq!(state(&dock), before);
    dock.ended(&task.id).await;
    assert_eq!(dock.dock.server.received(), received + 1, "one request, for the task itself");
    assert_eq!(state(&dock), before);
}

#[tokio::test]
async fn r39_r72_a_parent_without_history_still_launches_and_nothing_is_injected() {
    let dock = TaskDock::new(ModelServer::answering(|_: &Captured| Reply::new().text("Done.")).unwrap());
    let talk = dock.begin().await;
    let new = plimsoll_agent::tasks::Launch { fork: true, ..launch("Weigh the anchor") };
    let task = dock.board.launch(&dock.caller(&talk), new).await.unwrap();
    let ended = dock.ended(&task.id).await;
    assert_eq!(ended.status, TaskStatus::Completed);
    assert_eq!(ended.data.fork.unwrap().way, ForkWay::Nothing);
    let log = dock.dock.log(&task.id);
    assert_eq!(log[0].text(), "Weigh the anchor");
    assert_eq!(log.len(), 2);
}

#[test]
fn r50_r64_the_schema_has_no_argument_for_truncation_or_another_session() {
    let dock = TaskDock::new(ModelServer::start().unwrap());
    let specs = dock.agent.profile.tools.specs();
    let spec = specs.iter().find(|spec| spec.name == "background_task").unwrap();
    let names: Vec<&String> = spec.schema["properties"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["description", "prompt", "agent", "fork", "resume", "model"]);
    assert_eq!(spec.schema["required"], json!(["description", "prompt", "agent"]));
    assert_eq!(spec.schema["additionalProperties"], false);
}

#[tokio::test]
async fn r61_fork_with_resume_is_rejected_and_nothing_is_created() {
    let dock = TaskDock::new(
        ModelServer::answering(|request: &Captured| match request.call_ids().len() {
            0 => {
                let mut input = super::support::task_input("Go on", true);
                input["resume"] = Value::from("41e08091");
                Reply::new().call("call_1", "background_task", input)
            }
            _ => Reply::new().text("I see."),
        })
        .unwrap(),
    );
    let mut talk = dock.begin().await;
    run(&mut talk, "Both at once").await;
    assert_eq!(
        dock.dock.server.last().unwrap().result("call_1"),
        Some(
            "Cannot use fork and resume together. Use fork for new tasks with context, resume for continuing existing \
             tasks."
        )
    );
    assert!(dock.board.tasks(None).await.unwrap().is_empty());
    assert_eq!(dock.dock.archive.store().sessions(&Default::default()).unwrap().len(), 1);
}

#[tokio::test]
async fn r74_a_parent_that_cannot_be_read_is_reported_and_the_task_runs_without() {
    let server = ModelServer::answering(|_: &Captured| Reply::new().text("Done.")).unwrap();
    let mut dock = Dock::new(server);
    // No digest fits a window that the system prompt fills.
    dock.agent.model.limits = Some(plimsoll::Limits::new(1_000, 500));
    let dock = TaskDock::with(dock, TaskLimits::default(), None);
    let mut talk = dock.begin().await;
    talk.session_mut().prompt(lines(200)).await.unwrap();
    let new = plimsoll_agent::tasks::Launch { fork: true, ..launch("Weigh the anchor") };
    let task = dock.board.launch(&dock.caller(&talk), new).await.unwrap();
    let receipt = task.data.fork.clone().unwrap();
    assert_eq!(receipt.way, ForkWay::Nothing);
    let warning = receipt.warning.unwrap();
    assert!(
        warning.starts_with("The parent's context could not be read, and the task runs without it: "),
        "{warning}"
    );
    let view = plimsoll_agent::tasks::TaskView { task: &task, siblings: &[], now: plimsoll::Millis(0) };
    assert!(view.launched().ends_with(&format!("\n\nWarning: {warning}")));
    dock.board.cancel(&task.id).await.ok();
    assert_eq!(dock.dock.log(&task.id)[0].text(), "Weigh the anchor");
}

#[rstest]
#[tokio::test]
async fn a_history_fork_begins_with_the_parents_last_request_byte_for_byte(
    #[values(Wire::Anthropic, Wire::Chat, Wire::Responses)] wire: Wire,
) {
    let server = ModelServer::builder().answering(forking).cache_minimum(64).start().unwrap();
    let dock = TaskDock::with(Dock::on(wire, server), TaskLimits::default(), Some(AgentFork::History));
    dock.dock.write("big.txt", &lines(60));
    let (parent, task, childs) = forked(&dock).await;
    let receipt = task.data.fork.clone().unwrap();
    assert_eq!((receipt.way, receipt.why.as_deref()), (ForkWay::History, None));
    assert_eq!(task.data.cache_key.as_deref(), Some(parent.as_str()));
    let requests = dock.dock.server.requests();
    // The request that led to the launching answer is the parent's last one at that time.
    let last = requests.iter().find(|request| request.call_ids() == ["call_1"]).unwrap();
    let child = &childs[0];
    let field = match wire {
        Wire::Responses => "input",
        Wire::Anthropic | Wire::Chat => "messages",
    };
    let list = |request: &Captured| request.body[field].as_array().unwrap().clone();
    let (sent, inherited) = (list(last), list(child));
    assert!(inherited.len() > sent.len());
    for (place, (one, other)) in sent.iter().zip(&inherited).enumerate() {
        assert_eq!(unmarked(one), unmarked(other), "message {place}");
    }
    // Compares bytes: parsed values would hide another order of keys or another escape of a char, either of which
    // invalidates a provider's cache. The list of messages must begin with the same bytes, except for cache marks and
    // the end.
    let listed = |request: &Captured| {
        let key = format!("\"{field}\":[");
        let bytes = unmarked_bytes(&request.raw);
        let from = bytes.find(&key).unwrap_or_else(|| panic!("no `{field}` in {bytes}")) + key.len();
        bytes[from..].to_owned()
    };
    let (mine, theirs) = (listed(child), listed(last));
    let shared = mine.bytes().zip(theirs.bytes()).take_while(|(one, other)| one == other).count();
    let rest = &theirs[shared..];
    assert!(
        rest.starts_with(']'),
        "the parent's list continues with `{}`, the child's with `{}`",
        &rest[..rest.len().min(80)],
        &mine[shared..mine.len().min(shared + 80)]
    );
    for name in ["system", "tools", "instructions", "model", "prompt_cache_key", "tool_choice"] {
        assert_eq!(last.body.get(name), child.body.get(name), "{name}");
    }
    assert!(child.cache.read > 0, "{:?}", child.cache);
    // The parent may have continued first, with its own result for the launching call.
    let missed =
        child.cache.missed_at.as_deref().map(|at| at.split(['[', ']']).nth(1).unwrap().parse().unwrap());
    assert!(
        missed.is_none_or(|at: usize| at > sent.len()),
        "nothing before the fork point differs: {missed:?}"
    );
    assert!(child.tools.contains(&"background_task".to_owned()));
    assert!(child.last_user_text().ends_with("<task>\nWeigh the anchor\n</task>"));
    assert!(child.result("call_2").unwrap().starts_with("[Forked: you are the session"));
    assert_eq!(dock.dock.archive.store().session(&task.id).unwrap().forked_from.unwrap().session, parent);
}

#[tokio::test]
async fn a_history_fork_starts_the_servers_of_its_parent_for_itself_and_declares_the_same() {
    let mut dock = Dock::new(ModelServer::answering(forking).unwrap());
    dock.write("big.txt", &lines(60));
    dock.agent.mcp = std::sync::Arc::new([("fake".to_owned(), crate::mcp::fake::local("well", &[]))].into());
    let dock = TaskDock::with(dock, TaskLimits::default(), Some(AgentFork::History));
    let (_, task, childs) = forked(&dock).await;
    assert_eq!(task.data.fork.unwrap().way, ForkWay::History);
    let requests = dock.dock.server.requests();
    assert!(childs[0].tools.contains(&"fake_echo".to_owned()), "{:?}", childs[0].tools);
    assert_eq!(requests[0].body["tools"], childs[0].body["tools"]);
}

/// Returns the bytes of a body without cache marks, which move with the newest message.
fn unmarked_bytes(raw: &str) -> String {
    raw.replace(",\"cache_control\":{\"type\":\"ephemeral\"}", "")
        .replace("\"cache_control\":{\"type\":\"ephemeral\"},", "")
}

/// Removes cache marks, which move with the newest message.
fn unmarked(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(key, _)| *key != "cache_control");
            Value::Object(kept.map(|(key, value)| (key.clone(), unmarked(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(unmarked).collect()),
        other => other.clone(),
    }
}

#[tokio::test]
async fn in_a_history_fork_the_task_tools_are_offered_and_refused() {
    let server = ModelServer::answering(|request: &Captured| {
        if is_child(request, "Weigh the anchor") && !request.call_ids().contains(&"call_9") {
            return task_call("call_9", "And another", false);
        }
        forking(request)
    })
    .unwrap();
    let dock = TaskDock::with(Dock::new(server), TaskLimits::default(), Some(AgentFork::History));
    let (_, task, childs) = forked(&dock).await;
    assert_eq!(task.status, TaskStatus::Completed);
    assert!(
        childs[1].result("call_9").unwrap().starts_with("Rejected: this session is itself a background task")
    );
    assert_eq!(dock.board.tasks(None).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_history_for_another_agent_is_a_digest_and_the_receipt_says_why() {
    let server = ModelServer::answering(|request: &Captured| match request.call_ids().len() {
        _ if is_child(request, "Weigh it") => Reply::new().text("Heavy."),
        0 => task_call("call_1", "Weigh it", true),
        _ => Reply::new().text("Good."),
    })
    .unwrap();
    let dock = TaskDock::with(Dock::new(server), TaskLimits::default(), Some(AgentFork::History));
    let mut talk = dock.begin().await;
    run(&mut talk, "Sail to Bergen").await;
    let task = &dock.board.tasks(None).await.unwrap()[0];
    let receipt = task.data.fork.clone().unwrap();
    assert_eq!(receipt.way, ForkWay::Digest);
    assert_eq!(receipt.why.as_deref(), Some("the task runs as agent `helper`, its parent as `build`"));
    let childs = dock.dock.server.requests().into_iter().filter(|request| is_child(request, "Weigh it"));
    assert!(childs.into_iter().all(|request| !request.tools.contains(&"background_task".to_owned())));
}

#[tokio::test]
async fn r73_messages_without_parts_or_role_do_not_break_a_fork() {
    let dock = TaskDock::new(ModelServer::answering(|_: &Captured| Reply::new().text("Done.")).unwrap());
    let mut talk = dock.begin().await;
    let odd = r#"[{"info":{"id":"msg_0odd1"},"parts":[{"id":"prt_0odd1","type":"text","text":"adrift"}]},
                  {"info":{"id":"msg_0odd2","role":"user"}}]"#;
    for message in Message::read_all(odd).unwrap() {
        talk.session_mut().append(message).await.unwrap();
    }
    let new = plimsoll_agent::tasks::Launch { fork: true, ..launch("Weigh the anchor") };
    let task = dock.board.launch(&dock.caller(&talk), new).await.unwrap();
    dock.ended(&task.id).await;
    assert!(dock.dock.log(&task.id)[0].text().contains("Unknown:\nadrift"));
}

#[tokio::test]
async fn a_child_has_no_more_permission_than_its_parent() {
    let server = ModelServer::answering(|request: &Captured| {
        let child = is_child(request, "Do it");
        match (child, request.call_ids().len()) {
            (true, 0) => Reply::new().call("call_1", "bash", json!({ "command": "touch made" })),
            (false, 0) => task_call("call_1", "Do it", false),
            _ => Reply::new().text("So be it."),
        }
    })
    .unwrap();
    // The roster's agents may do anything; the parent may not run commands.
    let dock = TaskDock::with(Dock::new(server).allow("all"), TaskLimits::default(), None);
    let mut agent = dock.agent.clone();
    let mut deny = plimsoll_agent::parse_allow("bash", None).unwrap();
    deny.action = plimsoll_config::Action::Deny;
    agent.profile.permissions.rules.push(deny);
    let mut talk = agent.begin("").await.unwrap();
    run(&mut talk, "Make it").await;
    let childs: Vec<Captured> =
        dock.dock.server.requests().into_iter().filter(|request| is_child(request, "Do it")).collect();
    assert!(childs[1].result("call_1").unwrap().starts_with("Denied:"));
    assert!(!dock.project().join("made").exists());
    let is_result = |part: &CapturedPart| matches!(part, CapturedPart::Result { is_error: true, .. });
    assert!(childs[1].parts().any(is_result));
}

#[test]
fn forks_are_counted_by_kind_with_size_and_cuts() {
    use metrics_util::debugging::{DebugValue, DebuggingRecorder};
    use plimsoll_agent::metrics as names;
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let tasks = metrics::with_local_recorder(&recorder, || {
        runtime.block_on(async {
            let server = ModelServer::answering(|_: &Captured| Reply::new().text("Done.")).unwrap();
            let dock = TaskDock::new(server);
            let mut talk = dock.begin().await;
            let fork = |agent: &str, way| Launch {
                fork: true,
                agent: agent.into(),
                way: Some(way),
                ..launch("Weigh the anchor")
            };
            let caller = dock.caller(&talk);
            talk.session_mut().prompt("Sail to Bergen").await.unwrap();
            dock.board.launch(&caller, launch("Weigh the anchor")).await.unwrap();
            dock.board.launch(&caller, fork("helper", AgentFork::Digest)).await.unwrap();
            dock.board.launch(&caller, fork("build", AgentFork::History)).await.unwrap();
            talk.session_mut().prompt(lines(900)).await.unwrap();
            dock.board.launch(&caller, fork("helper", AgentFork::Digest)).await.unwrap();
            dock.board.tasks(None).await.unwrap()
        })
    });
    let receipts: Vec<_> = tasks.iter().filter_map(|task| task.data.fork.clone()).collect();
    let cut: Vec<(ForkWay, bool)> = receipts.iter().map(|fork| (fork.way, fork.cut)).collect();
    use ForkWay::{Digest, History};
    assert_eq!(cut, [(Digest, false), (History, false), (Digest, true)]);
    let mut counted: Vec<(String, String, Vec<f64>)> = Vec::new();
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        let name = key.key().name().to_owned();
        let values = match value {
            DebugValue::Counter(count) => vec![count as f64],
            DebugValue::Histogram(values) => values.into_iter().map(|value| value.into_inner()).collect(),
            DebugValue::Gauge(_) => continue,
        };
        if [names::FORKS, names::FORKS_CUT, names::FORK_TOKENS].contains(&name.as_str()) {
            let way = key.key().labels().next().unwrap().value().to_owned();
            counted.push((name, way, values));
        }
    }
    counted.sort_by(|one, other| (&one.0, &one.1).cmp(&(&other.0, &other.1)));
    let tokens = |way: ForkWay| -> Vec<f64> {
        let of_way = receipts.iter().filter(|fork| fork.way == way);
        of_way.map(|fork| fork.tokens.unwrap() as f64).collect()
    };
    let entry = |name: &str, way: &str, values: Vec<f64>| (name.to_owned(), way.to_owned(), values);
    assert_eq!(
        counted,
        [
            entry(names::FORK_TOKENS, "digest", tokens(Digest)),
            entry(names::FORK_TOKENS, "history", tokens(History)),
            entry(names::FORKS_CUT, "digest", vec![1.0]),
            entry(names::FORKS, "digest", vec![2.0]),
            entry(names::FORKS, "history", vec![1.0]),
        ]
    );
    let figures = ForkFigures::of(&tasks);
    let (sum, largest) = (tokens(Digest).iter().chain(&tokens(History)).sum::<f64>(), tokens(Digest)[1]);
    let counts = [figures.forks, figures.digests, figures.histories, figures.without, figures.cut];
    assert_eq!(counts.map(|count| count as u64), [3, 2, 1, 0, 1]);
    assert_eq!((figures.tokens, figures.largest), (sum as u64, largest as u64));
}

/// The digest of a long session took a while, during which Ctrl-C had no effect.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_launch_is_cancelled_while_its_digest_is_made() {
    let mut plain = Dock::new(ModelServer::answering(forking).unwrap());
    let cancel = CancellationToken::new();
    let counter = CancellingCounter::at(&cancel, |text| text.contains("<inherited_context>"));
    plain.agent.counting = Counting::Fixed(Arc::clone(&counter) as Arc<dyn Counter>);
    let dock = TaskDock::with(plain, TaskLimits::default(), None);
    dock.dock.write("chart.txt", "rocks at nine fathoms\n");
    let mut talk = dock.begin().await;
    let report = talk.run("Sail to Bergen", &cancel).await.unwrap();
    assert_eq!(report.end, RunEnd::Cancelled);
    assert_eq!(counter.counted_after(), 0, "texts were counted after that");
    assert!(dock.board.tasks(None).await.unwrap().is_empty(), "no task was made");
    assert_eq!(dock.board.active_here(), 0);
    // The call has a result, and the session continues.
    let report = run(&mut talk, "Without help, then").await;
    assert_eq!(report.text, "Good.");
}

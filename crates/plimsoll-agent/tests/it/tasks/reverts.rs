//! Reverting changes of tasks together with those of their parents.

use plimsoll_agent::tasks::{ResumeOutcome, TaskLimits};
use plimsoll_agent::{RevertAction, RevertError, RevertReport, RevertTarget, plan_revert};
use plimsoll_testkit::server::{Captured, CapturedPart, Gate, ModelServer, Reply};
use serde_json::{Value, json};

use super::support::{TaskDock, launch};
use crate::support::{Dock, run};

fn write(path: &str, content: &str) -> (&'static str, Value) {
    ("write", json!({ "path": path, "content": content }))
}

fn edit(path: &str, old: &str, new: &str) -> (&'static str, Value) {
    ("edit", json!({ "path": path, "old": old, "new": new }))
}

fn read(path: &str) -> (&'static str, Value) {
    ("read", json!({ "path": path }))
}

fn delegate(prompt: &str, agent: &str) -> (&'static str, Value) {
    ("background_task", json!({ "description": format!("About {prompt}"), "prompt": prompt, "agent": agent }))
}

fn bash(command: &str) -> (&'static str, Value) {
    ("bash", json!({ "command": command }))
}

type Script = Vec<(&'static str, Value)>;

/// A model that makes the calls of a script, one per answer, for the session with its prompt. The newest prompt of a
/// session counts.
fn scripted(scripts: Vec<(&'static str, Script)>, held: Option<(&'static str, Gate)>) -> ModelServer {
    ModelServer::answering(move |request: &Captured| {
        let users = request.messages.iter().enumerate().filter(|(_, message)| message.role == "user");
        let is_asked = |text: &str, prompt: &str| text == prompt || text.starts_with(&format!("{prompt}\n"));
        let mut found = None;
        for (place, message) in users {
            let text = message.text();
            found =
                scripts.iter().find(|(prompt, _)| is_asked(&text, prompt)).map(|it| (place, it)).or(found);
        }
        let Some((place, (prompt, script))) = found else { return Reply::new().text("Noted.") };
        let parts = request.messages[place..].iter().flat_map(|message| &message.parts);
        let made = parts.filter(|part| matches!(part, CapturedPart::Call { .. })).count();
        let reply = match script.get(made) {
            Some((tool, input)) => {
                // The ID of the task is known after the launch.
                let shown = request.messages[place..].iter().flat_map(|message| &message.parts);
                let mut ids = shown.filter_map(|part| match part {
                    CapturedPart::Result { text, .. } => text.split("Task ID: ").nth(1),
                    _ => None,
                });
                let id = ids.next_back().and_then(|text| text.split('`').nth(1)).unwrap_or_default();
                let input: Value = serde_json::from_str(&input.to_string().replace("THE_TASK", id)).unwrap();
                Reply::new().call(format!("call_{}_{made}", prompt.replace(' ', "_")), *tool, input)
            }
            None => Reply::new().text("Done."),
        };
        match &held {
            Some((waiting, gate)) if waiting == prompt && made == 0 => reply.gate(0, gate),
            _ => reply,
        }
    })
    .unwrap()
}

fn dock(server: ModelServer) -> TaskDock {
    let dock = Dock::new(server).allow("write").allow("edit").allow("bash");
    TaskDock::with(dock, TaskLimits { depth: 3, ..TaskLimits::default() }, None)
}

fn actions(report: &RevertReport) -> Vec<String> {
    let file = |file: &plimsoll_agent::RevertedFile| {
        let name = file.path.file_name().unwrap().to_string_lossy();
        match &file.problem {
            Some(problem) => format!("{:?} {name}: {problem}", file.action),
            None => format!("{:?} {name}", file.action),
        }
    };
    report.files.iter().map(file).collect()
}

/// Parent, child and grandchild change one file in sequence; all changes belong to the turn that launched them.
#[tokio::test]
async fn changes_of_nested_tasks_are_reverted_with_the_launching_turn() {
    let output = ("background_output", json!({ "task_id": "THE_TASK", "block": true }));
    let dock = dock(scripted(
        vec![
            ("Begin", vec![write("a.txt", "one\n")]),
            (
                "Delegate",
                vec![
                    delegate("Child", "boss"),
                    output.clone(),
                    read("a.txt"),
                    edit("a.txt", "three", "four"),
                ],
            ),
            (
                "Child",
                vec![read("a.txt"), edit("a.txt", "one", "two"), delegate("Grandchild", "helper"), output],
            ),
            (
                "Grandchild",
                vec![
                    read("a.txt"),
                    edit("a.txt", "two", "three"),
                    write("deep/new.txt", "x"),
                    bash("echo hi"),
                ],
            ),
        ],
        None,
    ));
    let mut talk = dock.begin().await;
    run(&mut talk, "Begin").await;
    run(&mut talk, "Delegate").await;
    let project = &dock.dock;
    assert_eq!(project.content("a.txt").unwrap(), "four\n");
    assert_eq!(project.content("deep/new.txt").unwrap(), "x");
    let plan = talk.plan_revert(None).await.unwrap();
    assert_eq!((plan.turn, actions(&plan)), (2, vec!["Restored a.txt".into(), "Removed new.txt".into()]));
    let child = dock.board.tasks(Some(talk.session())).await.unwrap().remove(0);
    let grandchild = dock.board.tasks(Some(&child.id)).await.unwrap().remove(0);
    let named: Vec<_> = plan.tasks.iter().map(|task| (&task.id, task.turn, task.is_active)).collect();
    assert_eq!(named.len(), 2);
    assert!(named.contains(&(&child.id, 2, false)) && named.contains(&(&grandchild.id, 2, false)));
    let uncovered: Vec<_> =
        plan.uncovered.iter().map(|call| (call.turn, call.tool.as_str(), call.task.as_ref())).collect();
    assert_eq!(uncovered, [(2, "bash", Some(&grandchild.id))]);

    let report = talk.revert(None).await.unwrap();
    assert_eq!(actions(&report), actions(&plan));
    assert_eq!(project.content("a.txt").unwrap(), "one\n", "the oldest content of all that changed it");
    assert!(!project.project().join("deep").exists());
    talk.undo_revert().await.unwrap();
    assert_eq!(project.content("a.txt").unwrap(), "four\n");
    assert_eq!(project.content("deep/new.txt").unwrap(), "x");
    // Going back further, the child's own revert has nothing to do.
    assert_eq!(talk.revert(Some(1)).await.unwrap().turn, 1);
    assert_eq!(project.content("a.txt"), None);
    let of_child = plan_revert(&project.archive, &child.id, RevertTarget::Turn(1)).unwrap();
    assert!(!of_child.changes(), "{:?}", actions(&of_child));
}

#[tokio::test]
async fn a_turn_in_which_only_a_task_changed_files_is_the_last_that_changed_some() {
    let dock = dock(scripted(
        vec![
            ("Begin", vec![write("a.txt", "one\n")]),
            ("Delegate", vec![delegate("Child", "helper")]),
            ("Child", vec![write("b.txt", "by the child\n")]),
        ],
        None,
    ));
    let mut talk = dock.begin().await;
    for prompt in ["Begin", "Delegate", "Just talk"] {
        run(&mut talk, prompt).await;
    }
    let report = talk.revert(None).await.unwrap();
    assert_eq!((report.turn, actions(&report)), (2, vec!["Removed b.txt".into()]));
    assert_eq!(talk.revert(None).await.unwrap().turn, 1);
    assert!(matches!(talk.revert(None).await, Err(RevertError::Nothing)));
}

/// A task of an early turn changes a file after a later turn did: each belongs to its turn, and they are ordered by
/// time.
#[tokio::test]
async fn changes_of_a_task_are_ordered_by_time_and_belong_to_the_turn_that_launched_it() {
    let gate = Gate::new();
    let mut dock = dock(scripted(
        vec![
            ("Child", vec![read("a.txt"), edit("a.txt", "two", "three"), write("c.txt", "child\n")]),
            ("Begin", vec![write("a.txt", "one\n")]),
            ("Go on", vec![edit("a.txt", "one", "two")]),
        ],
        Some(("Child", gate.clone())),
    ));
    dock.agent.profile.awaits_tasks = false;
    let mut talk = dock.begin().await;
    run(&mut talk, "Begin").await;
    let task = dock.launch(&talk, "Child").await;
    gate.reached().await;
    run(&mut talk, "Go on").await;
    // Nothing is reverted while the task may change more; a turn that it does not belong to can be.
    let plan = talk.plan_revert(Some(1)).await.unwrap();
    assert!(plan.tasks[0].is_active);
    let refused = talk.revert(Some(1)).await;
    assert!(
        matches!(&refused, Err(RevertError::TasksAtWork(tasks)) if tasks[0].id == task.id),
        "{refused:?}"
    );
    assert_eq!(dock.dock.content("a.txt").unwrap(), "two\n");
    gate.release();
    dock.ended(&task.id).await;
    assert_eq!(dock.dock.content("a.txt").unwrap(), "three\n");
    let report = talk.revert(Some(2)).await.unwrap();
    assert_eq!(actions(&report), ["Left a.txt: it was changed by another program since"]);
    assert!(report.tasks.is_empty());
    let report = talk.revert(Some(1)).await.unwrap();
    assert_eq!(actions(&report), ["Removed a.txt", "Removed c.txt"]);
}

#[tokio::test]
async fn a_run_that_was_resumed_belongs_to_the_turn_that_resumed_it() {
    let dock = dock(scripted(
        vec![("Child", vec![write("a.txt", "one\n")]), ("More", vec![edit("a.txt", "one", "two")])],
        None,
    ));
    let mut talk = dock.begin().await;
    run(&mut talk, "First").await;
    let task = dock.launch(&talk, "Child").await;
    dock.ended(&task.id).await;
    run(&mut talk, "Second").await;
    let resumed = dock.board.resume(Some(&dock.caller(&talk)), &task.id, "More").await.unwrap();
    assert!(matches!(resumed, ResumeOutcome::Begun(_)));
    dock.ended(&task.id).await;
    assert_eq!(dock.dock.content("a.txt").unwrap(), "two\n");
    let report = talk.revert(None).await.unwrap();
    assert_eq!((report.turn, actions(&report)), (2, vec!["Restored a.txt".into()]));
    assert_eq!(dock.dock.content("a.txt").unwrap(), "one\n");
    assert_eq!(talk.revert(None).await.unwrap().files[0].action, RevertAction::Removed);
}

#[tokio::test]
async fn a_task_whose_session_is_gone_is_named() {
    let dock = dock(scripted(vec![("Child", vec![write("a.txt", "one\n")])], None));
    let mut talk = dock.begin().await;
    run(&mut talk, "First").await;
    let task = dock.board.launch(&dock.caller(&talk), launch("Child")).await.unwrap();
    dock.ended(&task.id).await;
    let store = dock.dock.archive.store();
    let lease = store.lease(&task.id, "test", std::time::Duration::from_secs(60)).unwrap();
    dock.dock.archive.remove(&lease.claim(), plimsoll::Millis(1)).unwrap();
    let plan = talk.plan_revert(Some(1)).await.unwrap();
    assert_eq!(actions(&plan), [""; 0]);
    assert!(plan.tasks.iter().any(|gone| gone.id == task.id && gone.is_gone), "{:?}", plan.tasks);
}

/// A session that continues another has its turns, and what their tasks did.
#[tokio::test]
async fn a_fork_can_revert_changes_of_tasks_from_shared_turns() {
    let dock = dock(scripted(vec![("Child", vec![write("a.txt", "one\n")])], None));
    let mut talk = dock.begin().await;
    run(&mut talk, "First").await;
    let task = dock.launch(&talk, "Child").await;
    dock.ended(&task.id).await;
    let fork = talk.branch("fork").await.unwrap();
    // The parent continues; this does not belong to the fork. Milliseconds show which came first.
    tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    let later = dock.launch(&talk, "Child again").await;
    dock.ended(&later.id).await;
    let plan = plan_revert(&dock.dock.archive, &fork, RevertTarget::Turn(1)).unwrap();
    assert_eq!(actions(&plan), ["Removed a.txt"]);
    assert_eq!(plan.tasks.len(), 1);
}

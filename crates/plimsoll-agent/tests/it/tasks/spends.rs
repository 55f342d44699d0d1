//! Spending of tasks is charged to the runs that launched them, and their limits apply.

use std::sync::Arc;
use std::time::Duration;

use plimsoll::{SessionId, Tokens, Usage};
use plimsoll_agent::tasks::{
    Launch, ResumeOutcome, Task, TaskBoard, TaskData, TaskError, TaskLimits, TaskStatus, spend_below,
};
use plimsoll_agent::{Agent, RunEnd};
use plimsoll_testkit::server::{Captured, Gate, ModelServer, Reply};
use rstest::rstest;
use serde_json::json;

use super::support::{Crew, TaskDock, is_child, launch, task_call};
use crate::support::{Dock, run};

/// Tokens of each answer of a parent, and of its tasks.
const PARENTS: u64 = 10;
const CHILDS: u64 = 400;

fn priced(mut dock: Dock) -> Dock {
    let table = plimsoll_tokens::ModelTable::default();
    dock.agent.model.price = table.find("claude-sonnet-4-6").unwrap().price;
    dock
}

/// Usage of this many tokens in total; an answer has at least one.
fn usage(tokens: u64) -> Usage {
    Usage::new(Tokens(tokens - 1), Tokens(1))
}

fn charged(reply: Reply, tokens: u64) -> Reply {
    reply.usage(usage(tokens))
}

/// A parent that launches one task and waits for it in `background_output`; the task never ends.
fn waiting(request: &Captured) -> Reply {
    let made = request.call_ids().len();
    if is_child(request, "Work") {
        let input = json!({ "path": ".", "limit": made + 1 });
        return charged(
            Reply::new().text("Still at it.").call(format!("call_{made}"), "list", input),
            CHILDS,
        );
    }
    let id = request.result("call_0").and_then(|said| said.split('`').nth(1)).unwrap_or_default();
    let wait = json!({ "task_id": id, "block": true, "timeout": 60 });
    match made {
        0 => charged(task_call("call_0", "Work", false), PARENTS),
        1 => charged(Reply::new().call("call_1", "background_output", wait), PARENTS),
        _ => charged(Reply::new().text("It is done."), PARENTS),
    }
}

/// Cost of this many answers of a task, in dollars.
fn dollars(agent: &Agent, answers: f64) -> f64 {
    answers * agent.model.cost(&usage(CHILDS)).unwrap()
}

#[rstest]
#[case::tokens(true)]
#[case::cost(false)]
#[tokio::test]
async fn a_task_ends_with_the_limit_of_the_run_that_launched_it_and_so_does_that_run(
    #[case] by_tokens: bool,
) {
    let dock = TaskDock::with(
        priced(Dock::new(ModelServer::answering(waiting).unwrap())),
        TaskLimits::default(),
        None,
    );
    let mut agent = dock.agent.clone();
    let (tokens, cost) = (1_000, dollars(&agent, 2.5));
    match by_tokens {
        true => agent.profile.limits.tokens = Some(tokens),
        false => agent.profile.limits.cost = Some(cost),
    }
    let mut talk = agent.begin("").await.unwrap();
    let report = run(&mut talk, "Go").await;
    assert_eq!(report.end, if by_tokens { RunEnd::Tokens } else { RunEnd::Cost });
    assert_eq!(report.usage.total(), 2 * PARENTS, "only its own");
    assert_eq!(report.tasks.usage.total(), 3 * CHILDS, "the third answer reaches it");
    assert!((report.tasks.cost - dollars(&agent, 3.0)).abs() < 1e-9, "{:?}", report.tasks);
    let task = dock.board.tasks(Some(talk.session())).await.unwrap().remove(0);
    assert_eq!((task.status, task.data.progress.steps), (TaskStatus::Error, 3));
    let expected = match by_tokens {
        true => "Token budget of 1000 of the run that launched it exhausted.".to_owned(),
        false => format!("Cost limit of {cost} dollars of the run that launched it reached."),
    };
    assert_eq!(task.data.error, Some(expected));
    assert_eq!(task.data.result.as_deref(), Some("Still at it."), "what it said is kept");
}

#[tokio::test]
async fn a_task_is_charged_what_its_own_tasks_spend_and_theirs() {
    let boss = |id: &str, prompt: &str| {
        let input = json!({ "description": prompt, "prompt": prompt, "agent": "boss" });
        charged(Reply::new().call(id, "background_task", input), PARENTS)
    };
    let server = ModelServer::answering(move |request: &Captured| {
        let is_first = request.call_ids().is_empty();
        match () {
            () if is_child(request, "Inner") => charged(Reply::new().text("Inner done."), 2_000),
            () if is_child(request, "Middle") && is_first => boss("call_2", "Inner"),
            () if is_child(request, "Middle") => charged(Reply::new().text("Middle waits."), PARENTS),
            () if is_first => boss("call_1", "Middle"),
            () => charged(Reply::new().text("Outer waits."), PARENTS),
        }
    })
    .unwrap();
    let limits = TaskLimits { depth: 3, tokens: Some(1_000), ..TaskLimits::default() };
    let dock = TaskDock::with(Dock::new(server), limits, None);
    let talk = dock.begin().await;
    let new = Launch { agent: "boss".into(), ..launch("Outer") };
    let outer = dock.board.launch(&dock.caller(&talk), new).await.unwrap();
    let ended = dock.ended(&outer.id).await;
    assert_eq!(ended.status, TaskStatus::Error, "{:?}", ended.data.result);
    assert_eq!(ended.data.error.as_deref(), Some("Token budget of 1000 exhausted."), "its own limit");
    let all = dock.board.tasks(None).await.unwrap();
    let of = |prompt: &str| all.iter().find(|task| task.data.prompt == prompt).unwrap();
    assert_eq!(of("Inner").status, TaskStatus::Completed, "a limit is held before a request");
    assert_eq!(of("Middle").status, TaskStatus::Error);
    assert_eq!(spend_below(&of("Middle").id, &all).usage.total(), 2_000);
    let middles = of("Middle").data.progress.usage.total();
    assert_eq!(spend_below(&outer.id, &all).usage.total(), 2_000 + middles);
    assert_eq!(spend_below(&of("Inner").id, &all).usage.total(), 0);
}

#[tokio::test]
async fn a_task_whose_price_is_not_known_is_refused_under_a_parents_limit_of_cost() {
    let server = ModelServer::answering(|request: &Captured| match request.call_ids().len() {
        0 => task_call("call_0", "Work", false),
        _ => Reply::new().text("A pity."),
    })
    .unwrap();
    let mut dock = Dock::new(server);
    dock.agent.model.price = None;
    let dock = TaskDock::with(dock, TaskLimits::default(), None);
    let mut agent = dock.agent.clone();
    agent.profile.limits.cost = Some(2.0);
    let mut talk = agent.begin("").await.unwrap();
    run(&mut talk, "Go").await;
    let output = dock.dock.server.last().unwrap().result("call_0").unwrap().to_owned();
    let words = "Failed to launch background task: the price of `anthropic/scripted` is unknown, so the limit of 2 dollars \
                 cannot be enforced.";
    assert!(output.starts_with(words), "{output}");
    assert!(dock.board.tasks(None).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_resume_whose_price_is_not_known_is_refused_under_a_limit_of_cost() {
    let mut dock = Dock::new(ModelServer::answering(|_: &Captured| Reply::new().text("Done.")).unwrap());
    dock.agent.model.price = None;
    let dock = TaskDock::with(dock, TaskLimits::default(), None);
    let talk = dock.begin().await;
    let task = dock.launch(&talk, "Work").await;
    dock.ended(&task.id).await;
    // The limit was set later, in the configuration of another process.
    let limits = TaskLimits { cost: Some(2.0), ..TaskLimits::default() };
    let crew = Arc::new(Crew::of(&dock.dock.agent));
    let later = TaskBoard::new(Arc::clone(&dock.dock.archive), crew, limits, "a later process");
    for caller in [Some(&dock.caller(&talk)), None] {
        let refused = later.resume(caller, &task.id, "Go on").await.unwrap_err();
        assert!(matches!(refused, TaskError::NoPrice { .. }), "{refused}");
    }
    let same = later.task(&task.id).await.unwrap();
    assert_eq!((same.status, same.run()), (TaskStatus::Completed, 1), "nothing has changed");
    assert_eq!(dock.dock.server.received(), 1);
}

#[tokio::test]
async fn a_resume_with_an_unknown_price_is_not_queued_under_a_cost_limit() {
    let gate = Gate::new();
    let held = gate.clone();
    let server =
        ModelServer::answering(move |_: &Captured| Reply::new().text("Done.").gate(0, &held)).unwrap();
    let mut dock = Dock::new(server);
    dock.agent.model.price = None;
    let dock = TaskDock::with(dock, TaskLimits::default(), None);
    let talk = dock.begin().await;
    let task = dock.launch(&talk, "Work").await;
    gate.reached().await;
    let limits = TaskLimits { cost: Some(2.0), ..TaskLimits::default() };
    let crew = Arc::new(Crew::of(&dock.dock.agent));
    let later = TaskBoard::new(Arc::clone(&dock.dock.archive), crew, limits, "a later process");
    for caller in [Some(&dock.caller(&talk)), None] {
        let refused = later.resume(caller, &task.id, "Go on").await.unwrap_err();
        assert!(matches!(refused, TaskError::NoPrice { .. }), "{refused}");
    }
    assert_eq!(later.task(&task.id).await.unwrap().data.pending, None);
    let queued = dock.board.resume(None, &task.id, "Go on").await.unwrap();
    assert!(matches!(queued, ResumeOutcome::Queued(_)), "no limit, no price needed: {queued:?}");
    // The process with the limit finds it queued after the other has exited, and leaves it.
    dock.board.close(Duration::from_secs(20)).await;
    gate.release();
    later.supervise(talk.session()).await.unwrap();
    let waits = later.task(&task.id).await.unwrap();
    assert_eq!((waits.status, waits.data.pending.as_deref()), (TaskStatus::Interrupted, Some("Go on")));
    assert_eq!(dock.dock.server.received(), 1);
}

#[test]
fn a_record_that_names_itself_as_its_parent_is_counted_once() {
    let task = |id: &str, parent: &str| {
        let mut data = TaskData::default();
        data.progress.cost = 1.0;
        Task::new(SessionId::new(id), SessionId::new(parent), data, "the test", plimsoll::Millis(1))
    };
    let all = [task("ses_a", "ses_a"), task("ses_b", "ses_a"), task("ses_a", "ses_b")];
    assert_eq!(spend_below(&SessionId::new("ses_a"), &all).cost, 1.0);
    assert!(spend_below(&SessionId::new("ses_c"), &all).is_none());
}

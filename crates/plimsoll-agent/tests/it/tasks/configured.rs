//! Tasks of configured agents, launched by a model.

use std::sync::Arc;

use plimsoll::Policy;
use plimsoll_agent::Agent;
use plimsoll_agent::tasks::{ConfiguredRoster, ForkWay, TaskBoard, TaskLimits, TaskStatus};
use plimsoll_testkit::server::{Captured, ModelServer, Reply};
use serde_json::{Value, json};

use super::support::is_child;
use crate::agents::Place;
use crate::support::run;

const TASK: &str = "Weigh the anchor";

/// A parent that launches one task with this input and waits; the task answers at once.
fn launching(input: Value) -> ModelServer {
    let answer = move |request: &Captured| {
        if is_child(request, TASK) {
            return Reply::new().text("It is heavy.");
        }
        let made = request.call_ids().len();
        match made {
            0 => Reply::new().text("I will hand this on.").call("call_1", "background_task", input.clone()),
            _ => Reply::new().text("Good."),
        }
    };
    ModelServer::builder().answering(answer).cache_minimum(64).start().unwrap()
}

fn input(agent: &str, fork: bool) -> Value {
    json!({ "description": "Weigh it", "prompt": TASK, "agent": agent, "fork": fork })
}

/// A configured agent, with the board that `plimsoll run` would give it.
fn configured(place: &Place, name: &str) -> (Agent, Arc<TaskBoard>) {
    let agent = place.agent(name);
    let run = Arc::new(place.config(&place.project));
    let roster = ConfiguredRoster {
        archive: Arc::clone(&agent.archive),
        policy: Policy::default(),
        run: Arc::clone(&run),
        allow: Vec::new(),
        directory: place.project.clone(),
        home: Some(place.home.clone()),
        asker: None,
        events: Arc::clone(&agent.events),
    };
    let archive = Arc::clone(&agent.archive);
    let board = TaskBoard::new(archive, Arc::new(roster), TaskLimits::from(&run.tasks), "the test");
    let mut agent = agent.with_tasks(&board);
    agent.profile.awaits_tasks = true;
    (agent, board)
}

/// Returns the list of agents in a request.
fn offered(request: &Captured) -> String {
    let tools = request.body["tools"].as_array().unwrap();
    let tool = tools.iter().find(|tool| tool["name"] == "background_task").unwrap();
    tool["input_schema"]["properties"]["agent"]["description"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_model_can_name_its_own_agent_if_a_fork_inherits_the_history() {
    let place = Place::with(launching(input("build", true)));
    place.write(".config/plimsoll/config.toml", "[agents.build]\nfork = \"history\"\n");
    place.write("repository/AGENTS.md", &crate::support::lines(20));
    let (agent, board) = configured(&place, "build");
    let mut talk = agent.begin("").await.unwrap();
    run(&mut talk, "Sail to Bergen").await;
    let requests = place.server.requests();
    insta::assert_snapshot!(offered(&requests[0]));
    let tasks = board.tasks(Some(talk.session())).await.unwrap();
    assert_eq!(tasks.len(), 1, "{:?}", place.server.last().unwrap().result("call_1"));
    let task = tasks[0].clone();
    assert_eq!(task.status, TaskStatus::Completed, "{:?}", task.data.error);
    let receipt = task.data.fork.unwrap();
    assert_eq!((receipt.way, receipt.why), (ForkWay::History, None));
    let child = requests.iter().find(|request| is_child(request, TASK)).unwrap();
    assert_eq!(child.messages[0].text(), "Sail to Bergen", "the conversation itself, and no digest of it");
    assert_eq!((&child.system, &child.body["tools"]), (&requests[0].system, &requests[0].body["tools"]));
    assert!(child.cache.read > 0, "{:?}", child.cache);
}

#[tokio::test]
async fn an_agent_is_offered_itself_only_if_it_inherits_or_may_delegate_to_itself() {
    let offers_build = async |config: &str| {
        let place = Place::with(launching(input("general", false)));
        place.write(".config/plimsoll/config.toml", config);
        let (agent, _board) = configured(&place, "build");
        run(&mut agent.begin("").await.unwrap(), "Sail to Bergen").await;
        let requests = place.server.requests();
        assert!(
            requests.iter().any(|request| is_child(request, TASK)),
            "on the model that only the parent names"
        );
        let offered = offered(&requests[0]);
        assert!(offered.contains("\n- explore: ") && !offered.contains("\n- plan: "), "{offered}");
        offered.contains("\n- build: ")
    };
    assert!(!offers_build("").await);
    assert!(!offers_build("[agents.build]\nfork = \"digest\"\n[tasks]\nfork = \"history\"\n").await);
    assert!(offers_build("[tasks]\nfork = \"history\"\n").await);
    assert!(offers_build("[agents.build]\ntools = { \"background_*\" = true }\n").await);
}

#[tokio::test]
async fn a_model_is_named_as_a_model_would_and_the_task_runs_on_it() {
    let mut named = input("general", false);
    named["model"] = " anthropic/claude-haiku-4-5 ".into();
    let place = Place::with(launching(named));
    let (agent, board) = configured(&place, "build");
    let mut talk = agent.begin("").await.unwrap();
    run(&mut talk, "Sail to Bergen").await;
    let requests = place.server.requests();
    let child = requests.iter().find(|request| is_child(request, TASK)).unwrap();
    assert_eq!((requests[0].model.as_str(), child.model.as_str()), ("claude-sonnet-4-6", "claude-haiku-4-5"));
    let task = board.tasks(None).await.unwrap().remove(0);
    assert_eq!(task.data.model, "anthropic/claude-haiku-4-5");
}

#[tokio::test]
async fn launching_is_checked_against_rules_for_the_agent_in_opencodes_form() {
    for (permission, is_launched) in [
        ("\"deny\"", false),
        (r#"{ "*": "deny", "explore": "allow" }"#, true),
        (r#"{ "*": "allow", "explore": "deny" }"#, false),
    ] {
        let place = Place::with(launching(input("explore", false)));
        let file = format!(r#"{{ "permission": {{ "task": {permission} }} }}"#);
        place.write(".config/opencode/opencode.json", &file);
        let (agent, board) = configured(&place, "build");
        let mut talk = agent.begin("").await.unwrap();
        run(&mut talk, "Sail to Bergen").await;
        let tasks = board.tasks(Some(talk.session())).await.unwrap();
        assert_eq!(tasks.len(), usize::from(is_launched), "{permission}");
    }
}

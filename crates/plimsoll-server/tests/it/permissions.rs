//! Permission questions.

use std::time::Duration;

use plimsoll_testkit::server::Reply;
use serde_json::{Value, json};

use crate::support::{TestServer, prompt, text_of};

fn bash() -> Reply {
    Reply::new().call(
        "call_1",
        "bash",
        json!({ "command": "echo harbour > asked.txt", "description": "write" }),
    )
}

async fn asked(server: &TestServer, reply: Value) -> (Value, Vec<Value>) {
    let id = server.session().await;
    let mut events = server.events("/event").await;
    server.model.push(bash());
    let path = format!("/session/{id}/message");
    let answering = async {
        let seen = events.until_type("permission.asked").await;
        let question = seen.last().unwrap()["properties"].clone();
        assert_eq!(question["sessionID"], json!(id));
        let listed = server.get("/permission").await.ok();
        assert_eq!(listed, json!([question]));
        let below = server.root.join("below").display().to_string();
        let other = [("x-opencode-directory", below.as_str())];
        assert_eq!(server.send("GET", "/permission", &other, "").await.ok(), json!([]));
        let place = format!("/permission/{}/reply", question["id"].as_str().unwrap());
        assert_eq!(server.send("POST", &place, &other, &reply.to_string()).await.status, 404);
        assert_eq!(server.post(&place, reply.clone()).await.ok(), json!(true));
        assert_eq!(server.post(&place, reply.clone()).await.status, 404, "it is answered once");
        question
    };
    let (answer, question) = tokio::join!(server.post(&path, prompt("go")), answering);
    answer.ok();
    let list = server.get(&path).await.ok();
    (question, list.as_array().unwrap().clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_is_allowed_lets_the_call_run() {
    let server = TestServer::start().await;
    let (question, list) = asked(&server, json!({ "reply": "once" })).await;
    assert_eq!((&question["permission"], &question["tool"]["callID"]), (&json!("bash"), &json!("call_1")));
    assert_eq!(question["tool"]["messageID"], list[1]["info"]["id"]);
    assert!(question["patterns"][0].as_str().unwrap().contains("echo harbour"), "{question}");
    let call = list[1]["parts"].as_array().unwrap().iter().find(|part| part["type"] == "tool").unwrap();
    assert_eq!(call["state"]["status"], "completed", "{call}");
    assert!(server.root.join("asked.txt").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_is_rejected_refuses_the_call_with_the_users_words() {
    let server = TestServer::start().await;
    let (_, list) = asked(&server, json!({ "reply": "reject", "message": "not in this harbour" })).await;
    let call = list[1]["parts"].as_array().unwrap().iter().find(|part| part["type"] == "tool").unwrap();
    assert_eq!(call["state"]["status"], "error");
    assert!(call["state"]["error"].as_str().unwrap().contains("not in this harbour"), "{call}");
    assert!(!server.root.join("asked.txt").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_without_an_answer_is_denied() {
    let server = TestServer::with(|options| options.permission_timeout = Duration::from_millis(200)).await;
    let id = server.session().await;
    server.model.push(bash());
    let answer = server.post(&format!("/session/{id}/message"), prompt("go")).await.ok();
    assert!(!text_of(&answer).is_empty());
    assert!(!server.root.join("asked.txt").exists());
    assert_eq!(server.get("/permission").await.ok(), json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn permanent_permissions_survive_the_release_of_the_session() {
    let server = TestServer::start().await;
    let (_, list) = asked(&server, json!({ "reply": "always" })).await;
    let id = list[0]["info"]["sessionID"].as_str().unwrap().to_owned();
    // Longer than an idle session is kept open in these tests.
    tokio::time::sleep(Duration::from_millis(700)).await;
    server.model.push(bash());
    server.post(&format!("/session/{id}/message"), prompt("again")).await.ok();
    let list = server.get(&format!("/session/{id}/message")).await.ok();
    let calls = list.as_array().unwrap().iter().flat_map(|message| message["parts"].as_array().unwrap());
    let completed = calls.filter(|part| part["state"]["status"] == "completed");
    assert_eq!(completed.count(), 2, "{list:#}");
}

/// Lets the model call `bash` in a session, and returns the state of the call.
async fn call(server: &TestServer, id: &str, command: &str) -> Value {
    let input = json!({ "command": command, "description": "run" });
    server.model.push(Reply::new().call("call_1", "bash", input));
    server.prompt(id, "go").await;
    let list = server.get(&format!("/session/{id}/message")).await.ok();
    let parts = list.as_array().unwrap().iter().flat_map(|message| message["parts"].as_array().unwrap());
    parts.rev().find(|part| part["type"] == "tool").unwrap()["state"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_of_a_session_restrict_it_and_its_forks() {
    let server = TestServer::with(|options| options.agent.allow = vec!["all".to_owned()]).await;
    let rules = json!([
        { "permission": "question", "pattern": "*", "action": "deny" },
        { "permission": "bash", "pattern": "echo secret*", "action": "deny" },
    ]);
    let created = server.post("/session", json!({ "permission": rules })).await.ok();
    assert_eq!(created["permission"], rules);
    let id = created["id"].as_str().unwrap().to_owned();
    assert_eq!(call(&server, &id, "echo open").await["status"], "completed");
    let denied = call(&server, &id, "echo secret").await;
    assert_eq!(denied["status"], "error", "{denied}");
    let fork = server.post(&format!("/session/{id}/fork"), json!({})).await.ok();
    assert_eq!(fork["permission"], rules);
    let denied = call(&server, fork["id"].as_str().unwrap(), "echo secret").await;
    assert_eq!(denied["status"], "error", "{denied}");
    // Rules that are added later apply from the next prompt on.
    let more = json!({ "permission": [{ "permission": "bash", "pattern": "*", "action": "deny" }] });
    let changed = server.send("PATCH", &format!("/session/{id}"), &[], &more.to_string()).await.ok();
    assert_eq!(changed["permission"].as_array().unwrap().len(), 3);
    assert_eq!(call(&server, &id, "echo open").await["status"], "error");
    let other = server.session().await;
    assert_eq!(call(&server, &other, "echo secret").await["status"], "completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_of_a_session_never_allow_what_the_project_does_not() {
    let server = TestServer::start().await;
    let folder = server.home().join(".config/plimsoll");
    std::fs::create_dir_all(&folder).unwrap();
    let rules = json!([{ "permission": "*", "pattern": "*", "action": "allow" }]);
    let id = server.post("/session", json!({ "permission": rules })).await.ok()["id"].clone();
    let id = id.as_str().unwrap();
    let mut events = server.events("/event").await;
    server.model.push(bash());
    let accepted = server.post(&format!("/session/{id}/prompt_async"), prompt("go")).await;
    assert_eq!(accepted.status, 204);
    let seen = events.until_type("permission.asked").await;
    let question = seen.last().unwrap()["properties"]["id"].as_str().unwrap().to_owned();
    server.post(&format!("/permission/{question}/reply"), json!({ "reply": "reject" })).await.ok();
    events.until_type("session.idle").await;
    assert!(!server.root.join("asked.txt").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_of_a_session_restrict_its_tasks_also_when_they_are_resumed() {
    let server = TestServer::with(|options| options.agent.allow = vec!["all".to_owned()]).await;
    let rules = json!([{ "permission": "bash", "pattern": "*", "action": "deny" }]);
    let id = server.post("/session", json!({ "permission": rules })).await.ok()["id"].clone();
    let id = id.as_str().unwrap().to_owned();
    let mut events = server.events("/event").await;
    let launch = json!({ "description": "look", "prompt": "look", "agent": "general" });
    server.model.push(Reply::new().call("call_1", "background_task", launch));
    server.prompt(&id, "launch it").await;
    events.until(|event| event["properties"]["title"] == "Background task completed: look").await;
    let children = server.get(&format!("/session/{id}/children")).await.ok();
    let task = children[0]["id"].as_str().unwrap().to_owned();
    // The parent answers the end of the task with another request.
    let until_answered = async || {
        let begun = std::time::Instant::now();
        while server.get("/session/status").await.ok() != json!({}) {
            assert!(begun.elapsed() < crate::support::PATIENCE);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    until_answered().await;
    server.model.push(bash());
    let resume = format!("/plimsoll/tasks/{task}/resume");
    server.post(&resume, json!({ "prompt": "write" })).await.ok();
    events.until(|event| event["properties"]["title"] == "Background task completed: look").await;
    assert!(!server.root.join("asked.txt").exists(), "a task is restricted like its parent");
}

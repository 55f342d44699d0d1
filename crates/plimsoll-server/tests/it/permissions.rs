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

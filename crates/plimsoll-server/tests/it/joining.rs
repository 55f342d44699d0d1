//! Requests to a session while it runs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_testkit::server::{Captured, Gate, Reply};
use serde_json::{Value, json};

use crate::support::{PATIENCE, TestServer, echo, prompt, text_of};

async fn list(server: &TestServer, id: &str) -> Vec<Value> {
    server.get(&format!("/session/{id}/message")).await.ok().as_array().unwrap().clone()
}

fn silent(text: &str) -> Value {
    let mut body = prompt(text);
    body["noReply"] = json!(true);
    body
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_is_a_run_that_prompts_join() {
    let server = TestServer::start().await;
    let (id, gate) = (server.session().await, Gate::new());
    for number in 0..6 {
        server.prompt(&id, &format!("{number} {}", "the depth of the harbour ".repeat(400))).await;
    }
    server.model.push(Reply::new().text("## Objective\n- measure the harbour").gate(0, &gate));
    let path = format!("/session/{id}/message");
    let choice = json!({ "providerID": "openai-chat", "modelID": "scripted" });
    let summarize = format!("/session/{id}/summarize");
    let compacting = server.post(&summarize, choice);
    let joining = async {
        gate.reached().await;
        assert_eq!(server.get("/session/status").await.ok(), json!({ id.clone(): { "type": "busy" } }));
        let begun = Instant::now();
        let stored = server.post(&path, silent("a note")).await.ok();
        assert_eq!(stored["info"]["role"], "user");
        let accepted = server.post(&format!("/session/{id}/prompt_async"), prompt("meanwhile")).await;
        assert_eq!(accepted.status, 204);
        let renamed = server.send("PATCH", &format!("/session/{id}"), &[], r#"{"title":"new"}"#).await;
        assert_eq!(renamed.ok()["title"], "new");
        assert!(begun.elapsed() < Duration::from_secs(5), "nothing waits for the summary");
        let answered = server.post(&path, prompt("and now"));
        let released = async {
            let begun = Instant::now();
            while list(&server, &id).await.iter().all(|message| text_of(message) != "and now") {
                assert!(begun.elapsed() < PATIENCE);
            }
            gate.release();
        };
        tokio::join!(answered, released).0
    };
    let (compacted, answered) = tokio::join!(compacting, joining);
    assert_eq!(compacted.ok(), json!(true));
    assert!(text_of(&answered.ok()).starts_with("echo: "), "{answered:?}");
    let all = list(&server, &id).await;
    assert!(all.iter().any(|message| message["info"]["summary"] == true), "{all:#?}");
    for text in ["a note", "meanwhile", "and now"] {
        assert_eq!(all.iter().filter(|message| text_of(message) == text).count(), 1, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_without_reply_that_joins_a_run_asks_no_model() {
    let server = TestServer::start().await;
    let (id, gate) = (server.session().await, Gate::new());
    server.model.push(Reply::new().text("the answer").gate(0, &gate));
    let path = format!("/session/{id}/message");
    let running = server.post(&path, prompt("go"));
    let joining = async {
        gate.reached().await;
        server.post(&path, silent("a note")).await.ok();
        gate.release();
    };
    let (answer, ()) = tokio::join!(running, joining);
    assert_eq!(text_of(&answer.ok()), "the answer");
    let texts: Vec<String> = list(&server, &id).await.iter().map(text_of).collect();
    assert_eq!(texts, ["go", "the answer", "a note"]);
    assert_eq!(server.model.received(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_aborted_compaction_answers_and_stores_what_joined() {
    let server = TestServer::start().await;
    let (id, gate) = (server.session().await, Gate::new());
    for number in 0..6 {
        server.prompt(&id, &format!("{number} {}", "the depth of the harbour ".repeat(400))).await;
    }
    server.model.push(Reply::new().text("## Objective\n- never").gate(0, &gate));
    let choice = json!({ "providerID": "openai-chat", "modelID": "scripted" });
    let summarize = format!("/session/{id}/summarize");
    let compacting = server.post(&summarize, choice);
    let aborting = async {
        gate.reached().await;
        server.post(&format!("/session/{id}/message"), silent("a note")).await.ok();
        assert_eq!(server.post(&format!("/session/{id}/abort"), json!({})).await.ok(), json!(true));
    };
    let (compacted, ()) = tokio::join!(compacting, aborting);
    gate.release();
    compacted.ok();
    let all = list(&server, &id).await;
    assert!(all.iter().all(|message| message["info"]["summary"] != true));
    assert_eq!(text_of(all.last().unwrap()), "a note");
}

/// A server with a background task whose answer waits for the gate.
async fn with_task(gate: &Arc<Gate>) -> (TestServer, String) {
    let held = Arc::clone(gate);
    let answer = move |captured: &Captured| match captured.last_user_text().contains("look around") {
        true => Reply::new().text("looked").gate(0, &held),
        false => echo(captured),
    };
    let server = TestServer::answering(answer, |_| {}).await;
    let id = server.session().await;
    let launch = json!({ "description": "watch", "prompt": "look around", "agent": "explore" });
    server.model.push(Reply::new().call("call_1", "background_task", launch));
    server.post(&format!("/session/{id}/message"), prompt("launch it")).await.ok();
    gate.reached().await;
    let children = server.get(&format!("/session/{id}/children")).await.ok();
    (server, children[0]["id"].as_str().unwrap().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_to_a_running_task_joins_the_task() {
    let gate = Arc::new(Gate::new());
    let (server, task) = with_task(&gate).await;
    let path = format!("/session/{task}/message");
    let stored = server.post(&path, silent("a note")).await.ok();
    assert_eq!((&stored["info"]["role"], text_of(&stored)), (&json!("user"), "a note".to_owned()));
    let answering = server.post(&path, prompt("and the quay"));
    let releasing = async {
        let begun = Instant::now();
        while list(&server, &task).await.iter().all(|message| text_of(message) != "and the quay") {
            assert!(begun.elapsed() < PATIENCE);
        }
        gate.release();
    };
    let (answered, ()) = tokio::join!(answering, releasing);
    assert!(text_of(&answered.ok()).contains("and the quay"), "{answered:?}");
    let all = list(&server, &task).await;
    for text in ["a note", "and the quay"] {
        assert_eq!(all.iter().filter(|message| text_of(message) == text).count(), 1, "{text}: {all:#?}");
    }
    assert_eq!(server.get("/session/status").await.status, 200);
}

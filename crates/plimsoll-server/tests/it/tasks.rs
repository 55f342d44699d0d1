//! Background tasks.

use plimsoll_testkit::server::{Gate, Reply};
use serde_json::{Value, json};

use crate::support::{TestServer, prompt, text_of};

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_a_child_session_with_toasts_and_its_parent_answers_its_end() {
    let server = TestServer::start().await;
    let mut events = server.events("/event").await;
    let id = server.session().await;
    let launch = json!({ "description": "look around", "prompt": "look", "agent": "explore" });
    server.model.push(Reply::new().call("call_1", "background_task", launch));
    server.post(&format!("/session/{id}/message"), prompt("launch it")).await.ok();
    let toasts = |seen: &[Value]| {
        let toasts = seen.iter().filter(|event| event["type"] == "tui.toast.show");
        toasts.map(|event| event["properties"]["title"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let mut seen = Vec::new();
    while toasts(&seen).len() < 2 {
        seen.extend(events.until_type("tui.toast.show").await);
    }
    assert_eq!(toasts(&seen), ["Background task running", "Background task completed: look around"]);
    let children = server.get(&format!("/session/{id}/children")).await.ok();
    assert_eq!(children.as_array().unwrap().len(), 1);
    assert_eq!(children[0]["parentID"], json!(id));
    let list = server.get(&format!("/session/{id}/message")).await.ok();
    let call = list[1]["parts"].as_array().unwrap().iter().find(|part| part["type"] == "tool").unwrap();
    assert_eq!(
        (&call["tool"], &call["state"]["metadata"]["sessionId"]),
        (&json!("task"), &children[0]["id"])
    );
    // The parent is notified, and answers without a prompt.
    let is_reported = |event: &Value| {
        event["type"] == "message.part.updated"
            && event["properties"]["part"].to_string().contains("look around")
            && event["properties"]["part"]["type"] == "text"
            && event["properties"]["sessionID"] == json!(id)
    };
    if !seen.iter().any(is_reported) {
        events.until(is_reported).await;
    }
    let begun = std::time::Instant::now();
    loop {
        let list = server.get(&format!("/session/{id}/message")).await.ok();
        let last = list.as_array().unwrap().last().unwrap().clone();
        if last["info"]["role"] == "assistant" && text_of(&last).contains("look around") {
            break;
        }
        assert!(begun.elapsed() < crate::support::PATIENCE, "{list:#}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    // It is resumed over HTTP, which is shown as well.
    let task = children[0]["id"].as_str().unwrap();
    let resumed =
        server.post(&format!("/plimsoll/tasks/{task}/resume"), json!({ "prompt": "look again" })).await;
    assert_eq!(resumed.status, 200, "{resumed:?}");
    let mut seen = Vec::new();
    while toasts(&seen).len() < 2 {
        seen.extend(events.until_type("tui.toast.show").await);
    }
    assert_eq!(toasts(&seen), ["Background task resumed", "Background task completed: look around"]);
    assert_eq!(server.get("/plimsoll/tasks").await.ok().as_array().unwrap().len(), 1);
    let late = server.post(&format!("/plimsoll/tasks/{task}/steer"), json!({ "prompt": "faster" })).await;
    assert_eq!(late.status, 409, "{late:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_with_a_running_task_is_removed_with_it() {
    let server = TestServer::start().await;
    let (id, gate) = (server.session().await, Gate::new());
    let launch = json!({ "description": "look around", "prompt": "look", "agent": "explore" });
    server.model.push(Reply::new().call("call_1", "background_task", launch));
    // Whichever request comes first waits; the other one is answered at once.
    server.model.push(Reply::new().text("never to be finished").gate(0, &gate));
    let accepted = server.post(&format!("/session/{id}/prompt_async"), prompt("launch it")).await;
    assert_eq!(accepted.status, 204);
    gate.reached().await;
    let children = server.get(&format!("/session/{id}/children")).await.ok();
    assert_eq!(children.as_array().unwrap().len(), 1);
    let removed = server.send("DELETE", &format!("/session/{id}"), &[], "").await;
    assert_eq!((removed.status, removed.json()), (200, json!(true)), "{removed:?}");
    gate.release();
    for session in [&json!(id), &children[0]["id"]] {
        assert_eq!(server.get(&format!("/session/{}", session.as_str().unwrap())).await.status, 404);
    }
    assert_eq!(server.get("/session/status").await.ok(), json!({}));
}

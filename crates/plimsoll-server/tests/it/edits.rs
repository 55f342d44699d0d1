//! Parts and messages that a client changes or removes.

use plimsoll_testkit::server::Reply;
use serde_json::{Value, json};

use crate::support::{TestServer, prompt, text_of};

async fn list(server: &TestServer, id: &str) -> Vec<Value> {
    server.get(&format!("/session/{id}/message")).await.ok().as_array().unwrap().clone()
}

fn place(message: &Value, part: &Value) -> String {
    let [session, id] = ["sessionID", "id"].map(|field| message["info"][field].as_str().unwrap());
    format!("/session/{session}/message/{id}/part/{}", part["id"].as_str().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_text_is_shown_and_sent_and_undone_by_its_receipt() {
    let server = TestServer::start().await;
    let id = server.session().await;
    server.prompt(&id, "the first word").await;
    let mut events = server.events("/event").await;
    let message = list(&server, &id).await.remove(0);
    let mut part = message["parts"][0].clone();
    let path = place(&message, &part);
    part["text"] = json!("the last word");
    let changed = server.send("PATCH", &path, &[], &part.to_string()).await.ok();
    assert_eq!(changed, part);
    assert_eq!(server.send("PATCH", &path, &[], &part.to_string()).await.ok(), part, "again");
    events.until(|event| event["properties"]["part"] == part).await;
    assert_eq!(text_of(&list(&server, &id).await[0]), "the last word");
    server.prompt(&id, "and now").await;
    let asked = server.model.last().unwrap();
    assert!(asked.contains("the last word") && !asked.contains("the first word\""), "{}", asked.outline());
    let stored = server
        .archive()
        .store()
        .message(&id.as_str().into(), &message["info"]["id"].as_str().unwrap().into());
    assert!(stored.unwrap().text().contains("the first word"), "the log keeps the original");
    let receipts = server.get(&format!("/plimsoll/session/{id}/receipts")).await.ok();
    let receipts = receipts.as_array().unwrap();
    assert_eq!(receipts.len(), 1, "{receipts:#?}");
    let undo = json!({ "receipt": receipts[0]["id"] });
    server.post(&format!("/plimsoll/session/{id}/undo"), undo).await.ok();
    assert_eq!(text_of(&list(&server, &id).await[0]), "the first word");
    let restored = |event: &Value| event["properties"]["part"]["text"] == "the first word";
    events.until(restored).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_call_leaves_the_conversation_legal() {
    let server = TestServer::with(|options| options.agent.allow = vec!["all".to_owned()]).await;
    let id = server.session().await;
    let command = json!({ "command": "echo a-secret", "description": "print" });
    server.model.push(Reply::new().text("running").call("call_1", "bash", command));
    server.post(&format!("/session/{id}/message"), prompt("print")).await.ok();
    let mut events = server.events("/event").await;
    let all = list(&server, &id).await;
    let call = all[1]["parts"].as_array().unwrap().iter().find(|part| part["type"] == "tool").unwrap();
    let path = place(&all[1], call);
    assert_eq!(server.send("DELETE", &path, &[], "").await.ok(), json!(true));
    assert_eq!(server.send("DELETE", &path, &[], "").await.status, 404, "it is gone");
    let seen = events.until_type("message.part.removed").await;
    let gone = &seen.last().unwrap()["properties"];
    assert_eq!((&gone["messageID"], &gone["partID"]), (&all[1]["info"]["id"], &call["id"]));
    let left = list(&server, &id).await;
    assert!(left[1]["parts"].as_array().unwrap().iter().all(|part| part["type"] != "tool"));
    server.prompt(&id, "go on").await;
    assert!(!server.model.last().unwrap().contains("a-secret"));
    server.model.assert_legal();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_message_is_gone_for_clients_and_for_the_model() {
    let server = TestServer::start().await;
    let id = server.session().await;
    server.prompt(&id, "a secret").await;
    let mut events = server.events("/event").await;
    let all = list(&server, &id).await;
    for message in &all {
        let path = format!("/session/{id}/message/{}", message["info"]["id"].as_str().unwrap());
        assert_eq!(server.send("DELETE", &path, &[], "").await.ok(), json!(true));
        assert_eq!(server.get(&path).await.status, 404);
        assert_eq!(server.send("DELETE", &path, &[], "").await.status, 404);
        let seen = events.until_type("message.removed").await;
        assert_eq!(seen.last().unwrap()["properties"]["messageID"], message["info"]["id"]);
    }
    assert_eq!(list(&server, &id).await, Vec::<Value>::new());
    assert_eq!(server.get(&format!("/session/{id}/message?limit=1")).await.ok(), json!([]));
    server.prompt(&id, "go on").await;
    assert!(!server.model.last().unwrap().contains("a secret"));
    server.model.assert_legal();
}

#[tokio::test(flavor = "multi_thread")]
async fn edits_that_cannot_be_made_are_refused() {
    let server = TestServer::start().await;
    let (id, other) = (server.session().await, server.session().await);
    server.prompt(&id, "hello").await;
    let message = list(&server, &id).await.remove(0);
    let part = message["parts"][0].clone();
    let path = place(&message, &part);
    let with = |field: &str, value: Value| {
        let mut part = part.clone();
        part[field] = value;
        part.to_string()
    };
    for (expected, body) in [
        (400, with("text", json!(""))),
        (400, with("id", json!("prt_other"))),
        (400, with("messageID", json!("msg_other"))),
        (400, "{}".to_owned()),
        (501, with("type", json!("reasoning"))),
        (501, with("ignored", json!(true))),
    ] {
        let refused = server.send("PATCH", &path, &[], &body).await;
        assert_eq!(refused.status, expected, "{body}: {refused:?}");
    }
    let part_path = path.rsplit_once('/').unwrap().0;
    assert_eq!(server.send("DELETE", &format!("{part_path}/prt_none"), &[], "").await.status, 404);
    let foreign = path.replace(&id, &other);
    assert_eq!(server.send("DELETE", &foreign, &[], "").await.status, 404, "of another session");
    let below = server.root.join("below").display().to_string();
    let elsewhere = [("x-opencode-directory", below.as_str())];
    assert_eq!(server.send("DELETE", &path, &elsewhere, "").await.status, 404, "of another directory");
    assert_eq!(list(&server, &id).await[0], message);
}

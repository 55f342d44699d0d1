//! Reverts as clients see them.

use plimsoll_testkit::server::{Gate, Reply};
use serde_json::{Value, json};

use crate::support::{TestServer, prompt, text_of};

async fn list(server: &TestServer, id: &str) -> Vec<Value> {
    server.get(&format!("/session/{id}/message")).await.ok().as_array().unwrap().clone()
}

/// Ids of the prompts.
async fn prompts(server: &TestServer, id: &str) -> Vec<Value> {
    let list = list(server, id).await.into_iter();
    let users =
        list.filter(|message| message["info"]["role"] == "user" && !text_of(message).starts_with('['));
    users.map(|message| message["info"]["id"].clone()).collect()
}

async fn revert(server: &TestServer, id: &str, message: &Value) -> Value {
    server.post(&format!("/session/{id}/revert"), json!({ "messageID": message })).await.ok()
}

async fn writer() -> TestServer {
    TestServer::with(|options| options.agent.allow = vec!["all".to_owned()]).await
}

async fn write(server: &TestServer, id: &str, text: &str) {
    let input = json!({ "filePath": server.root.join("a.txt").display().to_string(), "content": text });
    server.model.push(Reply::new().call("c1", "write", input));
    server.prompt(id, &format!("write {text}")).await;
    assert_eq!(content(server).as_deref(), Some(text));
}

fn content(server: &TestServer) -> Option<String> {
    std::fs::read_to_string(server.root.join("a.txt")).ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revert_is_shown_until_it_is_taken_back() {
    let server = writer().await;
    let id = server.session().await;
    write(&server, &id, "one").await;
    let mut events = server.events("/event").await;
    let asked = prompts(&server, &id).await;
    let shown = json!({ "messageID": asked[0] });
    assert_eq!(revert(&server, &id, &asked[0]).await["revert"], shown);
    assert_eq!(content(&server), None);
    events.until(|event| event["properties"]["info"]["revert"] == shown).await;
    assert_eq!(server.get(&format!("/session/{id}")).await.ok()["revert"], shown);
    assert_eq!(server.get("/session").await.ok()[0]["revert"], shown);
    assert!(list(&server, &id).await.len() > 2, "the client hides the messages");
    let back = server.post(&format!("/session/{id}/unrevert"), json!({})).await.ok();
    assert_eq!(back.get("revert"), None);
    assert_eq!(content(&server).as_deref(), Some("one"));
    let of_session = |event: &Value| event["type"] == "session.updated";
    events.until(|event| of_session(event) && event["properties"]["info"].get("revert").is_none()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reverts_move_back_and_forth_like_undo_and_redo() {
    let server = writer().await;
    let id = server.session().await;
    for text in ["one", "two"] {
        write(&server, &id, text).await;
    }
    server.prompt(&id, "only words").await;
    let asked = prompts(&server, &id).await;
    // Undo three times, then redo.
    for (place, expected) in
        [(2, Some("two")), (1, Some("one")), (0, None), (1, Some("one")), (2, Some("two"))]
    {
        let session = revert(&server, &id, &asked[place]).await;
        assert_eq!(session["revert"]["messageID"], asked[place]);
        assert_eq!(content(&server).as_deref(), expected, "before prompt {place}");
    }
    let back = server.post(&format!("/session/{id}/unrevert"), json!({})).await.ok();
    assert_eq!((back.get("revert"), content(&server).as_deref()), (None, Some("two")));
    let again = server.post(&format!("/session/{id}/unrevert"), json!({})).await.ok();
    assert_eq!(
        (again.get("revert"), content(&server).as_deref()),
        (None, Some("two")),
        "nothing is left to take back"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_an_answer_reverts_its_whole_turn() {
    let server = TestServer::start().await;
    let id = server.session().await;
    server.prompt(&id, "first").await;
    server.prompt(&id, "second").await;
    let all = list(&server, &id).await;
    assert_eq!(
        revert(&server, &id, &all[3]["info"]["id"]).await["revert"]["messageID"],
        all[2]["info"]["id"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_prompt_removes_what_was_reverted() {
    let server = writer().await;
    let id = server.session().await;
    server.prompt(&id, "keep this").await;
    write(&server, &id, "a-secret").await;
    server.prompt(&id, "more of it").await;
    let before = list(&server, &id).await;
    let asked = prompts(&server, &id).await;
    revert(&server, &id, &asked[1]).await;
    let mut events = server.events("/event").await;
    assert_eq!(server.prompt(&id, "another way").await, "echo: another way");
    let seen = events.until_type("session.idle").await;
    let removed = |event: &&Value| event["type"] == "message.removed";
    let removed: Vec<&Value> =
        seen.iter().filter(removed).map(|event| &event["properties"]["messageID"]).collect();
    let expected: Vec<&Value> = before[2..].iter().map(|message| &message["info"]["id"]).collect();
    assert_eq!(removed, expected);
    assert_eq!(server.get(&format!("/session/{id}")).await.ok().get("revert"), None);
    let texts: Vec<String> = list(&server, &id).await.iter().map(text_of).collect();
    assert_eq!(texts.first().map(String::as_str), Some("keep this"));
    assert!(!texts.concat().contains("more of it"), "{texts:?}");
    let request = server.model.last().unwrap();
    assert!(!request.contains("more of it") && request.contains("keep this"), "{}", request.outline());
    server.model.assert_legal();
    // The log has all of it, and one receipt brings it back.
    let receipts = server.get(&format!("/plimsoll/session/{id}/receipts")).await.ok();
    let receipts = receipts.as_array().unwrap();
    assert_eq!(receipts.len(), 1, "{receipts:#?}");
    server.post(&format!("/plimsoll/session/{id}/undo"), json!({ "receipt": receipts[0]["id"] })).await.ok();
    let texts: Vec<String> = list(&server, &id).await.iter().map(text_of).collect();
    assert!(texts.concat().contains("more of it"), "{texts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_can_be_aborted_and_reverted_at_once() {
    let server = TestServer::start().await;
    let (id, gate) = (server.session().await, Gate::new());
    server.model.push(Reply::new().text("never to be finished").piece_size(Some(4)).gate(2, &gate));
    assert_eq!(server.post(&format!("/session/{id}/prompt_async"), prompt("go")).await.status, 204);
    gate.reached().await;
    let asked = prompts(&server, &id).await;
    server.post(&format!("/session/{id}/abort"), json!({})).await.ok();
    assert_eq!(revert(&server, &id, &asked[0]).await["revert"]["messageID"], asked[0]);
    gate.release();
    assert_eq!(server.prompt(&id, "again").await, "echo: again");
    server.model.assert_legal();
}

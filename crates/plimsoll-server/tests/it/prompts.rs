//! Prompts and runs.

use std::time::{Duration, Instant};

use plimsoll_testkit::server::{Fault, Gate, Reply};
use serde_json::json;

use crate::support::{PATIENCE, TestServer, prompt, text_of};

async fn texts(server: &TestServer, id: &str) -> Vec<String> {
    let list = server.get(&format!("/session/{id}/message")).await.ok();
    list.as_array().unwrap().iter().map(text_of).collect()
}

async fn until_idle(server: &TestServer) {
    let begun = Instant::now();
    while server.get("/session/status").await.ok() != json!({}) {
        assert!(begun.elapsed() < PATIENCE, "the run ends");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_is_answered_with_the_message_that_ends_the_run() {
    let server = TestServer::start().await;
    let id = server.session().await;
    let answer = server.post(&format!("/session/{id}/message"), prompt("hello")).await.ok();
    assert_eq!(text_of(&answer), "echo: hello");
    let info = &answer["info"];
    assert_eq!(
        (&info["role"], &info["sessionID"], &info["finish"]),
        (&json!("assistant"), &json!(id), &json!("stop"))
    );
    assert_eq!((&info["providerID"], &info["modelID"]), (&json!("openai-chat"), &json!("scripted")));
    let list = server.get(&format!("/session/{id}/message")).await.ok();
    assert_eq!(list[0]["info"]["id"], info["parentID"]);
    assert_eq!(list[0]["info"]["model"], json!({ "providerID": "openai-chat", "modelID": "scripted" }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_without_reply_is_stored_and_asks_no_model() {
    let server = TestServer::start().await;
    let id = server.session().await;
    let body =
        json!({ "noReply": true, "messageID": "msg_zzz", "parts": [{ "type": "text", "text": "a note" }] });
    let stored = server.post(&format!("/session/{id}/message"), body).await.ok();
    assert_eq!((&stored["info"]["role"], &stored["info"]["id"]), (&json!("user"), &json!("msg_zzz")));
    assert_eq!(server.model.received(), 0);
    assert_eq!(server.prompt(&id, "and now").await, "echo: and now");
    assert!(server.model.last().unwrap().contains("a note"), "the model reads the note");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_asynchronous_prompt_is_answered_at_once() {
    let server = TestServer::start().await;
    let (id, gate) = (server.session().await, Gate::new());
    server.model.push(Reply::new().text("late").gate(0, &gate));
    let accepted = server.post(&format!("/session/{id}/prompt_async"), prompt("go")).await;
    assert_eq!((accepted.status, accepted.body.as_str()), (204, ""));
    gate.reached().await;
    assert_eq!(server.get("/session/status").await.ok(), json!({ id.clone(): { "type": "busy" } }));
    gate.release();
    until_idle(&server).await;
    assert_eq!(texts(&server, &id).await, ["go", "late"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_to_a_busy_session_joins_its_run() {
    let server = TestServer::start().await;
    let (id, gate) = (server.session().await, Gate::new());
    server.model.push(Reply::new().text("first answer").gate(0, &gate));
    let path = format!("/session/{id}/message");
    let first = server.post(&path, prompt("first"));
    let second = async {
        gate.reached().await;
        let joining = server.post(&path, prompt("second"));
        let released = async {
            // It is shown before the run takes it in.
            let begun = Instant::now();
            while !texts(&server, &id).await.contains(&"second".to_owned()) {
                assert!(begun.elapsed() < PATIENCE);
            }
            gate.release();
        };
        tokio::join!(joining, released).0
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!(first.ok(), second.ok(), "both get the message that ends the run");
    assert_eq!(text_of(&first.ok()), "echo: second");
    assert_eq!(texts(&server, &id).await, ["first", "first answer", "second", "echo: second"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_can_be_continued_after_a_run_was_aborted() {
    let server = TestServer::start().await;
    let (id, gate) = (server.session().await, Gate::new());
    server.model.push(Reply::new().text("never to be finished").gate(2, &gate));
    let path = format!("/session/{id}/message");
    let running = server.post(&path, prompt("go"));
    let aborting = async {
        gate.reached().await;
        assert_eq!(server.post(&format!("/session/{id}/abort"), json!({})).await.ok(), json!(true));
    };
    let (answer, ()) = tokio::join!(running, aborting);
    gate.release();
    assert!([200, 409].contains(&answer.status), "{answer:?}");
    until_idle(&server).await;
    assert_eq!(server.prompt(&id, "again").await, "echo: again");
    assert_eq!(
        server.post(&format!("/session/{id}/abort"), json!({})).await.ok(),
        json!(true),
        "nothing to abort"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_can_be_continued_after_its_provider_failed() {
    let server = TestServer::start().await;
    let id = server.session().await;
    let mut events = server.events("/event").await;
    server.model.push(Reply::failing(Fault::status(401)));
    let failed = server.post(&format!("/session/{id}/message"), prompt("go")).await;
    assert_eq!((failed.status, &failed.json()["name"]), (502, &json!("ProviderAuthError")), "{failed:?}");
    let seen = events.until_type("session.error").await;
    assert_eq!(seen.last().unwrap()["properties"]["sessionID"], json!(id));
    assert_eq!(server.prompt(&id, "again").await, "echo: again");
}

#[tokio::test(flavor = "multi_thread")]
async fn summarize_adds_a_marker_and_a_summary() {
    let server = TestServer::start().await;
    let id = server.session().await;
    for number in 0..6 {
        server.prompt(&id, &format!("{number} {}", "the depth of the harbour ".repeat(400))).await;
    }
    server.model.push(Reply::new().text("## Objective\n- measure the harbour"));
    let body = json!({ "providerID": "openai-chat", "modelID": "scripted" });
    assert_eq!(server.post(&format!("/session/{id}/summarize"), body).await.ok(), json!(true));
    let list = server.get(&format!("/session/{id}/message")).await.ok();
    let list = list.as_array().unwrap();
    let marker = list.iter().find(|message| message["parts"][0]["type"] == "compaction").expect("a marker");
    assert_eq!((&marker["info"]["role"], &marker["parts"][0]["auto"]), (&json!("user"), &json!(false)));
    let summary = list.iter().find(|message| message["info"]["summary"] == true).expect("a summary");
    assert_eq!(summary["info"]["mode"], "compaction");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revert_restores_files_and_can_be_taken_back() {
    let server = TestServer::with(|options| options.agent.allow = vec!["all".to_owned()]).await;
    let (id, file) = (server.session().await, server.root.join("a.txt"));
    let write = json!({ "path": file.display().to_string(), "content": "new" });
    server.model.push(Reply::new().call("c1", "write", write));
    server.prompt(&id, "write").await;
    assert_eq!(std::fs::read_to_string(&file).unwrap_or_default(), "new");
    let list = server.get(&format!("/session/{id}/message")).await.ok();
    let message = json!({ "messageID": list[0]["info"]["id"] });
    assert_eq!(server.post(&format!("/session/{id}/revert"), message).await.ok()["id"], json!(id));
    assert!(!file.exists());
    assert_eq!(server.post(&format!("/session/{id}/unrevert"), json!({})).await.ok()["id"], json!(id));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "new");
    assert_eq!(
        server.post(&format!("/session/{id}/revert"), json!({ "messageID": "msg_none" })).await.status,
        404
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_session_is_released_and_a_leased_one_is_reported_as_busy() {
    let server = TestServer::start().await;
    let id = server.session().await;
    server.prompt(&id, "hello").await;
    let (archive, session) = (server.archive(), plimsoll::SessionId::new(id.clone()));
    let minute = Duration::from_secs(60);
    let begun = Instant::now();
    let lease = loop {
        match archive.store().lease(&session, "another process", minute) {
            Ok(lease) => break lease,
            Err(_) => assert!(begun.elapsed() < PATIENCE, "it is released"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let busy = server.post(&format!("/session/{id}/message"), prompt("x")).await;
    assert_eq!((busy.status, &busy.json()["_tag"]), (409, &json!("SessionBusyError")));
    archive.store().release(&lease).unwrap();
    assert_eq!(server.prompt(&id, "now").await, "echo: now");
}

#[tokio::test(flavor = "multi_thread")]
async fn draining_ends_runs_and_releases_sessions() {
    let mut server = TestServer::start().await;
    let (id, gate) = (server.session().await, Gate::new());
    server.model.push(Reply::new().text("never to be finished").piece_size(Some(4)).gate(4, &gate));
    let accepted = server.post(&format!("/session/{id}/prompt_async"), prompt("go")).await;
    assert_eq!(accepted.status, 204);
    gate.reached().await;
    let begun = Instant::now();
    while !texts(&server, &id).await.iter().any(|text| text.starts_with("neve")) {
        assert!(begun.elapsed() < PATIENCE, "the answer begins");
    }
    let begun = Instant::now();
    server.stop().await;
    gate.release();
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    let (archive, session) = (server.archive(), plimsoll::SessionId::new(id));
    archive.store().lease(&session, "the next process", Duration::from_secs(1)).unwrap();
    let page = archive.store().page(&session, &plimsoll_store::PageRequest::default()).unwrap();
    assert!(page.messages.iter().all(|message| !message.is_open()), "nothing is left half done");
    let interrupted = page.messages.iter().find(|message| message.is_assistant()).expect("an answer");
    assert!(interrupted.info.error.is_some(), "it is marked as interrupted: {interrupted:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_chooses_model_system_prompt_and_tools() {
    let server = TestServer::start().await;
    let id = server.session().await;
    let body = json!({
        "model": { "providerID": "openai-chat", "modelID": "other" },
        "system": "Speak like a pilot.",
        "tools": { "bash": false },
        "parts": [{ "type": "text", "text": "hello" }],
    });
    let answer = server.post(&format!("/session/{id}/message"), body).await.ok();
    assert_eq!(answer["info"]["modelID"], "other");
    assert!(server.model.last().unwrap().contains("Speak like a pilot."));
    let bad = json!({ "model": { "providerID": "none", "modelID": "x" }, "parts": [{ "type": "text", "text": "x" }] });
    assert_eq!(server.post(&format!("/session/{id}/message"), bad).await.status, 400);
    let attached = server.root.join("notes.txt");
    std::fs::write(&attached, "nine metres").unwrap();
    let url = format!("file://{}", attached.display());
    let body = json!({ "parts": [
        { "type": "text", "text": "look" }, { "type": "file", "mime": "text/plain", "url": url } ] });
    server.post(&format!("/session/{id}/message"), body).await.ok();
    assert!(server.model.last().unwrap().contains("nine metres"));
}

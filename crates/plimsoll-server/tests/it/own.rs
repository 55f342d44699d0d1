//! The API under `/plimsoll/`.

use plimsoll_testkit::server::Reply;
use serde_json::json;

use crate::support::{TestServer, prompt};

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_in_prometheus_text_format() {
    let server = TestServer::start().await;
    let answer = server.get("/plimsoll/metrics").await;
    assert_eq!(answer.status, 200);
    assert!(answer.header("content-type").unwrap().starts_with("text/plain; version=0.0.4"));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_of_the_document_exists() {
    let server = TestServer::start().await;
    let id = server.session().await;
    server.prompt(&id, "hello").await;
    let document = server.get("/plimsoll/openapi.json").await.ok();
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.len() > 10);
    for (path, methods) in paths {
        for (method, operation) in methods.as_object().unwrap() {
            let answer = server.send(&method.to_uppercase(), &path.replace("{id}", &id), &[], "").await;
            // The session of the test is not a task.
            let is_task = path.starts_with("/plimsoll/tasks/") && answer.status == 404;
            let is_refused = operation.get("requestBody").is_some() && answer.status == 400;
            let is_answered = answer.status == 200 || is_refused || is_task;
            assert!(is_answered, "{method} {path}: {answer:?}");
            let other = server.root.join("below").display().to_string();
            if path.contains("{id}") {
                let body = json!({ "what": "hello", "receipt": "rcp_1" }).to_string();
                let other = [("x-opencode-directory", other.as_str())];
                let refused =
                    server.send(&method.to_uppercase(), &path.replace("{id}", &id), &other, &body).await;
                assert!([400, 404].contains(&refused.status), "{method} {path}: {refused:?}");
            }
        }
    }
    assert!(
        document["components"]["schemas"]["PruneRequest"]["properties"]["tools"].is_object(),
        "{document}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prune_has_a_receipt_which_is_undone() {
    let server = TestServer::with(|options| options.agent.allow = vec!["all".to_owned()]).await;
    let id = server.session().await;
    let command = json!({ "command": "seq 1 2000", "description": "count" });
    server.model.push(Reply::new().call("call_1", "bash", command));
    server.post(&format!("/session/{id}/message"), prompt("count")).await.ok();
    server.prompt(&id, "thanks").await;
    let place = |what: &str| format!("/plimsoll/session/{id}/{what}");
    let before = server.get(&place("load")).await.ok();
    let receipt = server.post(&place("prune"), json!({ "tools": ["bash"] })).await.ok();
    let receipt_id = receipt["id"].as_str().expect("a receipt");
    assert!(receipt["after"].as_u64() < receipt["before"].as_u64(), "{receipt}");
    let message = server.get(&format!("/session/{id}/message")).await.ok();
    assert!(message.to_string().contains("1999"), "the log keeps the output");
    let all = server.get(&place("receipts")).await.ok();
    assert!(all.as_array().unwrap().iter().any(|known| known["id"] == receipt["id"]));
    let handle = receipt["handles"][0].as_str().map(str::to_owned);
    if let Some(handle) = handle {
        let recalled = server.post(&place("recall"), json!({ "handle": handle })).await.ok();
        assert!(recalled["text"].as_str().unwrap().contains("17"), "{recalled}");
    }
    server.post(&place("undo"), json!({ "receipt": receipt_id })).await.ok();
    assert_eq!(server.post(&place("undo"), json!({ "receipt": receipt_id })).await.status, 409);
    let after = server.get(&place("load")).await.ok();
    assert_eq!(after["load"]["tokens"], before["load"]["tokens"]);
    let pinned = server.post(&place("pins"), json!({ "what": "thanks" })).await.ok();
    assert!(pinned["id"].is_string());
    assert_eq!(server.get(&place("pins")).await.ok()["pins"].as_array().unwrap().len(), 1);
    assert!(server.get(&place("window")).await.ok().is_object());
    assert!(server.get(&place("plan")).await.ok()["prune"].is_object());
}

//! The API under `/plimsoll/`.

use plimsoll_testkit::server::Reply;
use serde_json::{Value, json};

use crate::support::{TestServer, prompt};

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(name, value)| (name, without_nulls(value))).collect())
        }
        Value::Array(values) => values.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

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
    assert!(paths.len() > 20);
    let named =
        |path: &str| path.replace("{id}", &id).replace("{tool}", "codex").replace("{receipt}", "rcp_0");
    for (path, methods) in paths {
        for (method, operation) in methods.as_object().unwrap() {
            let answer = server.send(&method.to_uppercase(), &named(path), &[], "").await;
            // The session of the test is neither a task nor of another tool, and it has no such receipt.
            let is_missing =
                ["/plimsoll/tasks/", "/plimsoll/others/"].iter().any(|begin| path.starts_with(begin));
            let is_missing = (is_missing || path.contains("{receipt}")) && answer.status == 404;
            let is_refused = operation.get("requestBody").is_some() && answer.status == 400;
            let is_answered = answer.status == 200 || is_refused || is_missing;
            assert!(is_answered, "{method} {path}: {answer:?}");
            let described = &operation["responses"][answer.status.to_string()];
            assert!(described.is_object(), "{method} {path} does not describe {}", answer.status);
            let content = described["content"].as_object().unwrap();
            if let Some(shape) = content.get("application/json") {
                let mut schema = shape["schema"].clone();
                schema["components"] = document["components"].clone();
                let validator = jsonschema::validator_for(&schema).unwrap();
                // OpenAPI 3.0 has `nullable`, which JSON Schema does not know.
                let value = without_nulls(answer.json());
                let wrong = validator.iter_errors(&value).filter(|_| !value.is_null());
                let wrong: Vec<String> = wrong.map(|error| error.to_string()).collect();
                assert!(wrong.is_empty(), "{method} {path}: {wrong:?}: {answer:?}");
            }
            assert!(
                answer.body.contains("does not exist") != is_answered || answer.status == 404,
                "{answer:?}"
            );
            let other = server.root.join("below").display().to_string();
            if path.contains("{id}") {
                // Bodies that would do something in the session's own directory.
                let body = match path.rsplit('/').next() {
                    Some("undo") => json!({ "receipt": "rcp_1" }),
                    Some("recall") => json!({ "search": "hello" }),
                    Some("pins") => json!({ "what": "hello" }),
                    Some("apply") => json!({ "id": "prune_1" }),
                    Some("resume" | "steer") => json!({ "prompt": "hello" }),
                    _ => json!({}),
                };
                let body = if method == "get" { String::new() } else { body.to_string() };
                let other = [("x-opencode-directory", other.as_str())];
                let refused = server.send(&method.to_uppercase(), &named(path), &other, &body).await;
                assert_eq!(refused.status, 404, "{method} {path}: {refused:?}");
            }
        }
    }
    assert!(
        document["components"]["schemas"]["PruneRequest"]["properties"]["tools"].is_object(),
        "{document}"
    );
}

/// A server with a session in which `seq` has printed two long outputs.
async fn counted() -> (TestServer, String) {
    let server = TestServer::with(|options| options.agent.allow = vec!["all".to_owned()]).await;
    let id = server.session().await;
    for call in ["call_1", "call_2"] {
        let command = json!({ "command": "seq 1 2000", "description": "count" });
        server.model.push(Reply::new().call(call, "bash", command));
        server.prompt(&id, "count").await;
    }
    server.prompt(&id, "thanks").await;
    (server, id)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_is_applied_as_it_was_shown_or_not_at_all() {
    let (server, id) = counted().await;
    let place = |what: &str| format!("/plimsoll/session/{id}/{what}");
    let choice = json!({ "tools": ["bash"] });
    let plan = server.post(&place("plan"), choice.clone()).await.ok();
    assert_eq!(plan["items"].as_array().unwrap().len(), 2, "{plan}");
    assert!(plan["items"][0]["about"].as_str().unwrap().contains("seq"), "{plan}");
    assert!(plan["after"].as_u64() < plan["before"].as_u64(), "{plan}");
    let freed: u64 =
        plan["items"].as_array().unwrap().iter().map(|item| item["tokens"].as_u64().unwrap()).sum();
    assert_eq!(freed, plan["before"].as_u64().unwrap() - plan["after"].as_u64().unwrap(), "{plan}");
    let again = server.post(&place("plan"), choice.clone()).await.ok();
    assert_eq!(again["id"], plan["id"], "looking changes nothing");
    server.prompt(&id, "one more").await;
    let apply = json!({ "id": plan["id"], "choice": choice });
    let refused = server.post(&place("apply"), apply).await;
    assert_eq!(refused.status, 409, "{refused:?}");
    assert!(
        server
            .get(&place("receipts"))
            .await
            .ok()
            .as_array()
            .unwrap()
            .iter()
            .all(|one| one["plan"]["kind"] != "prune")
    );

    let plan = server.post(&place("plan"), choice.clone()).await.ok();
    let other = json!({ "id": plan["id"], "choice": { "tools": ["bash"], "keep": 1 } });
    assert_eq!(server.post(&place("apply"), other).await.status, 409, "another choice");
    let applied = server.post(&place("apply"), json!({ "id": plan["id"], "choice": choice })).await.ok();
    let receipt = &applied["receipts"][0];
    assert_eq!(receipt["handles"].as_array().unwrap().len(), 2, "{applied}");
    assert_eq!(receipt["after"], plan["after"], "{applied} {plan}");
    let contents = server.get(&place("contents")).await.ok();
    assert_eq!(contents["pruned"].as_array().unwrap().len(), 2, "{contents}");
    let twice = server.post(&place("apply"), json!({ "id": plan["id"], "choice": choice })).await;
    assert_eq!(twice.status, 409, "{twice:?}");
    server.post(&place("undo"), json!({ "receipt": receipt["id"] })).await.ok();
    let receipts = server.get(&place("receipts")).await.ok();
    let undone = receipts.as_array().unwrap().iter().find(|one| one["id"] == receipt["id"]).unwrap();
    assert_eq!((&undone["canUndo"], undone["undoneBy"].is_string()), (&json!(false), true), "{undone}");
    assert_eq!(server.get(&place("contents")).await.ok()["pruned"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_is_applied_as_it_was_shown() {
    let (server, id) = counted().await;
    let place = |what: &str| format!("/plimsoll/session/{id}/{what}");
    let plans = server.get(&place("plan")).await.ok()["plans"].clone();
    let compact = plans.as_array().unwrap().iter().find(|plan| plan["kind"] == "compact").unwrap().clone();
    assert!(compact["messages"].as_u64().unwrap() > 0, "{compact}");
    let stale = json!({ "id": "compact_0123" });
    assert_eq!(server.post(&place("apply"), stale).await.status, 409);
    let applied = server.post(&place("apply"), json!({ "id": compact["id"] })).await.ok();
    assert_eq!(applied["receipts"][0]["plan"]["messages"], compact["messages"], "{applied}");
    let contents = server.get(&place("contents")).await.ok();
    assert_eq!(contents["compacted"][0]["firstTurn"], json!(1), "{contents}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pins_are_released_by_their_receipt() {
    let (server, id) = counted().await;
    let place = |what: &str| format!("/plimsoll/session/{id}/{what}");
    let pinned = server.post(&place("pins"), json!({ "what": "thanks" })).await.ok();
    let contents = server.get(&place("contents")).await.ok();
    assert_eq!(contents["pinned"][0]["text"], json!("thanks"), "{contents}");
    let receipt = pinned["id"].as_str().unwrap();
    server.send("DELETE", &place(&format!("pins/{receipt}")), &[], "").await.ok();
    assert_eq!(server.get(&place("pins")).await.ok()["pins"], json!([]));
    let again = server.send("DELETE", &place(&format!("pins/{receipt}")), &[], "").await;
    assert_eq!(again.status, 409, "{again:?}");
    let prune = server.post(&place("prune"), json!({ "tools": ["bash"] })).await.ok();
    let prune = prune["id"].as_str().unwrap();
    let other = server.send("DELETE", &place(&format!("pins/{prune}")), &[], "").await;
    assert_eq!(other.status, 404, "{other:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_another_process_runs_can_be_looked_at() {
    let (server, id) = counted().await;
    // The server has released it.
    tokio::time::sleep(std::time::Duration::from_millis(800)).await;
    let archive = server.archive();
    let session = plimsoll_session::Session::builder(archive).session(id.as_str()).open().await.unwrap();
    let place = |what: &str| format!("/plimsoll/session/{id}/{what}");
    for view in ["window", "load", "plan", "history", "contents", "receipts", "pins"] {
        server.get(&place(view)).await.ok();
    }
    let found = server.post(&place("recall"), json!({ "search": "1999" })).await;
    assert_eq!(found.status, 200, "{found:?}");
    assert_eq!(server.get(&place("")[..place("").len() - 1]).await.ok()["state"], "elsewhere");
    assert_eq!(server.post(&place("pins"), json!({ "what": "thanks" })).await.status, 409);
    session.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_can_be_looked_at_and_reduced_without_a_model() {
    let server = TestServer::with(|options| options.agent.flags.model = None).await;
    let archive = server.archive();
    let directory = Some(server.root.display().to_string());
    let new = plimsoll_session::NewSession { directory, ..plimsoll_session::NewSession::default() };
    let mut session = plimsoll_session::Session::builder(archive).new_session(new).open().await.unwrap();
    for turn in 1..=6 {
        session.prompt(format!("turn {turn}: {}", "words ".repeat(2000))).await.unwrap();
        let part = plimsoll::Part::text(format!("prt_{turn}").as_str().into(), "answer ".repeat(9000));
        let answer = plimsoll::Message::assistant(format!("msg_{turn}").as_str().into(), vec![part]);
        session.append(answer).await.unwrap();
    }
    let id = session.id().to_string();
    session.close().await.unwrap();
    let place = |what: &str| format!("/plimsoll/session/{id}/{what}");
    let window = server.get(&place("window")).await.ok();
    assert!(window["window"].as_u64().unwrap() > 5_000, "{window}");
    let history = server.get(&place("history")).await.ok();
    assert_eq!(history["turns"].as_array().unwrap().len(), 6, "{history}");
    let pinned = server.post(&place("pins"), json!({ "what": "turn 3:" })).await.ok();
    server.post(&place("undo"), json!({ "receipt": pinned["id"] })).await.ok();
    let reduced = server.post(&place("compact"), json!({})).await.ok();
    assert_eq!(reduced["reduced"], json!(true));
    let contents = server.get(&place("contents")).await.ok();
    assert_eq!(contents["compacted"].as_array().unwrap().len(), 1, "{contents}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sessions_of_a_directory_are_a_tree_with_figures() {
    let server = TestServer::start().await;
    let id = server.session().await;
    server.prompt(&id, "hello").await;
    let child = server.post("/session", json!({ "title": "child", "parentID": id })).await.ok();
    let tree = server.get("/plimsoll/sessions").await.ok();
    let find = |wanted: &serde_json::Value| {
        let sessions = tree["sessions"].as_array().unwrap();
        sessions
            .iter()
            .find(|one| one["id"] == *wanted)
            .unwrap_or_else(|| panic!("{wanted} in {tree}"))
            .clone()
    };
    assert_eq!(find(&child["id"])["parent"], json!(id));
    let parent = find(&json!(id));
    assert_eq!((&parent["messages"], &parent["tool"]), (&json!(2), &json!("plimsoll")));
    assert!(parent["window"].as_u64().unwrap() > 0 && parent["line"].as_u64().unwrap() > 0, "{parent}");
    let below = server.root.join("below").display().to_string();
    let other = server.send("GET", "/plimsoll/sessions", &[("x-opencode-directory", &below)], "").await.ok();
    assert_eq!(other["sessions"], json!([]));
    server.prompt(&id, "more").await;
    let tree = server.get("/plimsoll/sessions").await.ok();
    let grown = tree["sessions"].as_array().unwrap().iter().find(|one| one["id"] == json!(id)).unwrap();
    assert_eq!(grown["messages"], json!(4), "{tree}");
    let overview = server.get(&format!("/plimsoll/session/{id}")).await.ok();
    assert_eq!(overview["figures"]["messages"], json!(4));
    assert!(overview["cache"]["until"].as_u64() > overview["cache"]["used"].as_u64(), "{overview}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_other_tools_are_shown_and_imported_on_request() {
    let server = TestServer::start().await;
    let root = server.root.display().to_string();
    let uuid = "7f3b1c9a-2222-4333-8444-555566667777";
    let write = |directory: &str, id: &str| {
        let dir = server.home().join(".claude/projects").join(directory.replace('/', "-"));
        std::fs::create_dir_all(&dir).unwrap();
        let line = |kind: &str, uuid: &str, parent: serde_json::Value, message: serde_json::Value| {
            json!({ "type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": id, "cwd": directory,
                "timestamp": "2026-01-02T03:04:05.000Z", "version": "2.0.0", "message": message })
            .to_string()
        };
        let lines = [
            line("user", "u-1", json!(null), json!({ "role": "user", "content": "where is the line" })),
            line(
                "assistant",
                "a-1",
                json!("u-1"),
                json!({ "role": "assistant", "id": "msg_1", "model": "claude-sonnet-4-5",
                "content": [{ "type": "text", "text": "at the hull" }], "usage": { "input_tokens": 1200, "output_tokens": 7,
                "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0 } }),
            ),
        ];
        std::fs::write(dir.join(format!("{id}.jsonl")), lines.join("\n") + "\n").unwrap();
    };
    write(&root, uuid);
    write("/elsewhere", "7f3b1c9a-9999-4333-8444-555566667777");
    let others = server.get("/plimsoll/others").await.ok();
    assert_eq!(others["sessions"].as_array().unwrap().len(), 1, "{others}");
    let one = &others["sessions"][0];
    assert_eq!(
        (&one["tool"], &one["id"], &one["isStored"]),
        (&json!("claude-code"), &json!(uuid), &json!(false))
    );
    assert_eq!(one["window"], json!(1207), "{one}");
    let shown = server.get(&format!("/plimsoll/others/claude-code/{uuid}")).await.ok();
    assert_eq!(shown["window"]["window"], json!(1207), "{shown}");
    for foreign in [
        "claude-code/7f3b1c9a-9999-4333-8444-555566667777",
        "codex/x",
        "plimsoll/ses_1",
        "claude-code/7f3b1c9a",
    ] {
        assert_eq!(server.get(&format!("/plimsoll/others/{foreign}")).await.status, 404, "{foreign}");
        let (tool, session) = foreign.split_once('/').unwrap();
        let import = json!({ "tool": tool, "session": session });
        assert_eq!(server.post("/plimsoll/import", import).await.status, 404, "{foreign}");
    }
    assert_eq!(server.get("/plimsoll/sessions").await.ok()["sessions"], json!([]), "looking imports nothing");
    let imported =
        server.post("/plimsoll/import", json!({ "tool": "claude-code", "session": uuid })).await.ok();
    let tree = server.get("/plimsoll/sessions").await.ok();
    assert_eq!(
        (&tree["sessions"][0]["id"], &tree["sessions"][0]["importedFrom"]),
        (&imported["id"], &json!("claude-code"))
    );
    let place = format!("/plimsoll/session/{}/", imported["id"].as_str().unwrap());
    assert_eq!(server.get(&format!("{place}window")).await.ok()["messages"], json!(2));
    server.post(&format!("{place}pins"), json!({ "what": "at the hull" })).await.ok();
    // It keeps its id, which OpenCode's routes accept because it is stored.
    assert_eq!(imported["id"], json!(uuid));
    assert_eq!(server.get(&format!("/session/{uuid}")).await.ok()["id"], json!(uuid));
    let messages = server.get(&format!("/session/{uuid}/message")).await.ok();
    assert_eq!(messages.as_array().unwrap().len(), 2, "{messages}");
    assert_eq!(server.prompt(uuid, "and now?").await, "echo: and now?");
    let unknown = server.get("/session/7f3b1c9a-9999-4333-8444-555566667777").await;
    assert_eq!(unknown.status, 400, "{unknown:?}");
    assert_eq!(server.send("DELETE", &format!("/session/{uuid}"), &[], "").await.ok(), json!(true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_replayed_under_named_policies() {
    let (server, id) = counted().await;
    let place = |query: &str| format!("/plimsoll/session/{id}/replay?{query}");
    let replay = server.get(&place("policies=none,plimsoll&context=200000")).await.ok();
    let policies = replay["sessions"][0]["policies"].as_array().unwrap();
    assert_eq!(
        policies.iter().map(|one| one["policy"].clone()).collect::<Vec<_>>(),
        [json!("none"), json!("plimsoll")]
    );
    assert_eq!(server.get(&place("policies=unknown-policy")).await.status, 400);
    assert_eq!(server.get(&place("policies=..%2Fsecret.toml")).await.status, 400, "no file is read");
    assert_eq!(server.get(&place("context=many")).await.status, 400);
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

#[tokio::test(flavor = "multi_thread")]
async fn other_methods_are_refused_with_those_that_are_allowed() {
    let server = TestServer::start().await;
    let refused = server.send("TRACE", "/plimsoll/session/ses_1/pins", &[], "").await;
    assert_eq!(
        (refused.status, refused.header("allow").unwrap().as_str()),
        (405, "GET, POST"),
        "{refused:?}"
    );
    assert_eq!(server.post("/plimsoll/none", json!({})).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_task_can_be_looked_at() {
    let server = TestServer::start().await;
    let id = server.session().await;
    let launch = json!({ "description": "look around", "prompt": "look", "agent": "explore" });
    server.model.push(Reply::new().call("call_1", "background_task", launch));
    // The parent's answer and the task's, in either order. Neither ends before the test does.
    let gate = plimsoll_testkit::server::Gate::default();
    for _ in 0..2 {
        server.model.push(Reply::new().text("slowly, slowly").piece_size(Some(2)).gate(3, &gate));
    }
    server.post(&format!("/session/{id}/prompt_async"), prompt("launch it")).await;
    let begun = std::time::Instant::now();
    let task = loop {
        let tasks = server.get("/plimsoll/tasks").await.ok();
        if let Some(task) = tasks.as_array().unwrap().iter().find(|task| task["status"] == "running") {
            break task.clone();
        }
        assert!(begun.elapsed() < crate::support::PATIENCE, "{tasks}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    let task = task["id"].as_str().unwrap();
    for view in ["window", "load", "plan", "history", "contents", "receipts", "pins"] {
        for session in [task, &id] {
            server.get(&format!("/plimsoll/session/{session}/{view}")).await.ok();
        }
    }
    let pin = server.post(&format!("/plimsoll/session/{task}/pins"), json!({ "what": "look" })).await;
    assert_eq!(pin.status, 409, "{pin:?}");
    gate.release();
}

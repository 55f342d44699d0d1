//! Sessions and messages.

use serde_json::{Value, json};

use crate::support::{TestServer, prompt, text_of};

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_created_listed_renamed_and_removed() {
    let server = TestServer::start().await;
    let created = server.send("POST", "/session", &[], "").await.ok();
    let id = created["id"].as_str().unwrap();
    assert!(id.starts_with("ses_") && created["title"].as_str().unwrap().starts_with("New session - "));
    assert_eq!(created["directory"], json!(server.root.display().to_string()));
    for field in ["slug", "projectID", "version", "time", "cost", "tokens", "path"] {
        assert!(created.get(field).is_some(), "{field}");
    }
    let renamed = server.send("PATCH", &format!("/session/{id}"), &[], r#"{"title":"harbour"}"#).await.ok();
    assert_eq!(renamed["title"], "harbour");
    let second = server.session().await;
    let titles = async |query: &str| {
        let list = server.get(&format!("/session{query}")).await.ok();
        list.as_array()
            .unwrap()
            .iter()
            .map(|session| session["title"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(titles("").await, ["test", "harbour"], "the last written to first");
    assert_eq!(titles("?limit=1").await, ["test"]);
    assert_eq!(titles("?search=HARB").await, ["harbour"]);
    assert_eq!(titles("?start=99999999999999").await, Vec::<String>::new());
    assert_eq!(server.send("DELETE", &format!("/session/{second}"), &[], "").await.ok(), json!(true));
    assert_eq!(server.get(&format!("/session/{second}")).await.status, 404);
    assert_eq!(titles("").await, ["harbour"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn children_have_a_parent_and_forks_share_messages() {
    let server = TestServer::start().await;
    let id = server.session().await;
    let child = server.post("/session", json!({ "parentID": id })).await.ok();
    assert_eq!(child["parentID"], json!(id));
    let children = server.get(&format!("/session/{id}/children")).await.ok();
    assert_eq!(children.as_array().unwrap().len(), 1);
    server.prompt(&id, "one").await;
    server.prompt(&id, "two").await;
    let whole = server.send("POST", &format!("/session/{id}/fork"), &[], "").await.ok();
    assert_eq!((whole.get("parentID"), &whole["title"]), (None, &json!("test (fork #1)")));
    let messages = async |id: &Value| {
        let path = format!("/session/{}/message", id.as_str().unwrap());
        server.get(&path).await.ok().as_array().unwrap().clone()
    };
    assert_eq!(messages(&whole["id"]).await.len(), 4);
    let all = messages(&json!(id)).await;
    let upto = &all[2]["info"]["id"];
    let part = server.post(&format!("/session/{id}/fork"), json!({ "messageID": upto })).await.ok();
    assert_eq!(messages(&part["id"]).await.len(), 2, "those before the message");
    let first = &all[0]["info"]["id"];
    let none = server.post(&format!("/session/{id}/fork"), json!({ "messageID": first })).await.ok();
    assert_eq!(messages(&none["id"]).await.len(), 0);
    assert_eq!(server.prompt(part["id"].as_str().unwrap(), "three").await, "echo: three");
    assert_eq!(messages(&json!(id)).await.len(), 4, "the original is unchanged");
    assert_eq!(server.get(&format!("/session/{id}/children")).await.ok().as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_read_in_pages_from_the_newest_back() {
    let server = TestServer::start().await;
    let id = server.session().await;
    for number in 0..5 {
        let mut note = prompt(&format!("note {number}"));
        note["noReply"] = json!(true);
        server.post(&format!("/session/{id}/message"), note).await.ok();
    }
    let path = format!("/session/{id}/message");
    let texts = |list: &Value| list.as_array().unwrap().iter().map(text_of).collect::<Vec<_>>();
    let all = server.get(&path).await;
    assert_eq!(texts(&all.ok()), ["note 0", "note 1", "note 2", "note 3", "note 4"]);
    assert_eq!(all.header("x-next-cursor"), None);
    let newest = server.get(&format!("{path}?limit=2")).await;
    assert_eq!(texts(&newest.ok()), ["note 3", "note 4"]);
    let cursor = newest.header("x-next-cursor").unwrap();
    assert!(newest.header("link").unwrap().contains(&format!("before={cursor}>; rel=\"next\"")));
    let before = server.get(&format!("{path}?limit=2&before={cursor}")).await;
    assert_eq!(texts(&before.ok()), ["note 1", "note 2"]);
    let cursor = before.header("x-next-cursor").unwrap();
    let last = server.get(&format!("{path}?limit=2&before={cursor}")).await;
    assert_eq!(texts(&last.ok()), ["note 0"]);
    assert_eq!(last.header("x-next-cursor"), None);
    assert_eq!(server.get(&format!("{path}?before={cursor}")).await.status, 400, "a cursor needs a limit");
    assert_eq!(server.get(&format!("{path}?limit=1&before=none")).await.status, 400);
    let one = all.json()[2]["info"]["id"].as_str().unwrap().to_owned();
    assert_eq!(text_of(&server.get(&format!("{path}/{one}")).await.ok()), "note 2");
    assert_eq!(server.get(&format!("{path}/msg_none")).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn unsupported_fields_are_rejected() {
    let server = TestServer::start().await;
    assert_eq!(server.post("/session", json!({ "workspaceID": "workspace_1" })).await.status, 501);
    let unknown = json!([{ "permission": "bash", "pattern": "*", "action": "perhaps" }]);
    assert_eq!(server.post("/session", json!({ "permission": unknown })).await.status, 400);
    let id = server.session().await;
    for body in [
        json!({ "parts": [{ "type": "subtask", "prompt": "p", "description": "d", "agent": "a" }] }),
        json!({ "parts": [{ "type": "text", "text": "x" }], "format": { "type": "json_schema", "schema": {} } }),
    ] {
        assert_eq!(server.post(&format!("/session/{id}/message"), body).await.status, 501);
    }
    let outside = json!({ "parts": [{ "type": "file", "mime": "text/plain", "url": "file:///etc/passwd" }] });
    assert_eq!(server.post(&format!("/session/{id}/message"), outside).await.status, 400);
    assert_eq!(server.post(&format!("/session/{id}/message"), json!({ "parts": [] })).await.status, 400);
    assert_eq!(server.get(&format!("/session/{id}/message")).await.ok(), json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_and_the_time_of_archiving_are_stored_with_the_session() {
    let server = TestServer::start().await;
    let created = server.post("/session", json!({ "metadata": { "ticket": 7 } })).await.ok();
    assert_eq!(created["metadata"], json!({ "ticket": 7 }));
    let path = format!("/session/{}", created["id"].as_str().unwrap());
    let mut events = server.events("/event").await;
    let change = r#"{"metadata":{"ticket":8},"time":{"archived":1794775451033}}"#;
    let changed = server.send("PATCH", &path, &[], change).await.ok();
    assert_eq!(
        (&changed["metadata"]["ticket"], &changed["time"]["archived"]),
        (&json!(8), &json!(1_794_775_451_033_u64))
    );
    events.until(|event| event["properties"]["info"]["metadata"]["ticket"] == 8).await;
    let renamed = server.send("PATCH", &path, &[], r#"{"title":"renamed"}"#).await.ok();
    assert_eq!((&renamed["title"], &renamed["metadata"]["ticket"]), (&json!("renamed"), &json!(8)));
    let large = json!({ "metadata": { "text": "x".repeat(70_000) } }).to_string();
    assert_eq!(server.send("PATCH", &path, &[], &large).await.status, 400);
    assert_eq!(server.get(&path).await.ok()["metadata"]["ticket"], 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_that_the_terminal_ui_reads_at_its_start_is_answered() {
    let server = TestServer::start().await;
    let project = server.get("/project/current").await.ok();
    let project = project["id"].as_str().unwrap();
    for path in [
        "/path",
        "/project/current",
        "/experimental/capabilities",
        "/config/providers",
        "/provider",
        "/experimental/console",
        "/config",
        "/agent",
        &format!("/project/{project}/directories"),
        "/session?start=1&path=",
        "/api/command",
        "/api/provider",
        "/api/integration",
        "/api/skill",
        "/api/reference",
        "/api/model",
        "/api/agent",
        "/api/location",
        "/command",
        "/lsp",
        "/experimental/resource",
        "/mcp",
        "/formatter",
        "/session/status",
        "/provider/auth",
        "/vcs",
        "/experimental/workspace",
        "/experimental/workspace/status",
        "/permission",
        "/question",
        "/skill",
        "/project",
        "/global/health",
        "/api/health",
    ] {
        server.get(path).await.ok();
    }
    let providers = server.get("/config/providers").await.ok();
    let ours =
        providers["providers"].as_array().unwrap().iter().find(|provider| provider["id"] == "openai-chat");
    let model = &ours.unwrap()["models"]["scripted"];
    assert_eq!(model["providerID"], "openai-chat", "{providers}");
    assert_eq!(providers["default"]["openai-chat"], "scripted");
    assert_eq!(server.get("/config").await.ok()["model"], "openai-chat/scripted");
    let all = format!("{}{}", server.get("/provider").await.body, server.get("/config").await.body);
    assert!(!all.contains(&server.model.url()) && !all.contains("\"key\""), "no addresses or keys: {all}");
    let agents = server.get("/agent").await.ok();
    let names: Vec<&str> =
        agents.as_array().unwrap().iter().filter_map(|agent| agent["name"].as_str()).collect();
    assert!(names.contains(&"build") && names.contains(&"plan"), "{names:?}");
}

//! Every operation of OpenCode's API: implemented or refused, and what is answered has the shape that its clients expect.
//!
//! `opencode.json` states the interface: for each operation the shapes of its answers by status, or `null` if it is not
//! implemented here. `tools/compat/schema.py` writes it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use plimsoll_testkit::server::{Fault, Reply};
use serde_json::{Map, Value, json};

use crate::support::{Answer, EventStream, TestServer, prompt};

static INTERFACE: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("opencode.json")).unwrap());

fn operations() -> &'static Map<String, Value> {
    INTERFACE["operations"].as_object().unwrap()
}

/// Differences between a value and a schema; empty if it has that shape.
fn misfits(schema: &Value, value: &Value) -> Vec<String> {
    let mut whole = schema.clone();
    whole["components"] = INTERFACE["components"].clone();
    let validator = jsonschema::validator_for(&whole).unwrap();
    let errors = validator.iter_errors(value);
    errors.map(|error| format!("{} at {}", error, error.instance_path())).collect()
}

/// Sends requests, and checks what is answered.
struct Client<'s> {
    server: &'s TestServer,
    /// Operations that were answered with success.
    answered: BTreeSet<String>,
    wrong: Vec<String>,
}

impl Client<'_> {
    /// Sends a request of an operation, with values for the places in its path.
    async fn send(&mut self, operation: &str, values: &[&str], query: &str, body: &Value) -> Answer {
        let answers = operations().get(operation).unwrap_or_else(|| panic!("no operation {operation}"));
        let (method, template) = operation.split_once(' ').unwrap();
        let mut values = values.iter();
        let segments = template.split('/').map(|segment| match segment.starts_with('{') {
            true => values.next().copied().unwrap_or("none"),
            false => segment,
        });
        let path = format!("{}{query}", segments.collect::<Vec<_>>().join("/"));
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let answer = self.server.send(&method.to_uppercase(), &path, &[], &body).await;
        let wrong = check(operation, answers, &answer);
        self.wrong.extend(
            wrong.map(|wrong| format!("{operation} ({path}) {}: {wrong}\n  {}", answer.status, answer.body)),
        );
        if answer.status < 300 {
            self.answered.insert(operation.to_owned());
        }
        answer
    }

    async fn ok(&mut self, operation: &str, values: &[&str], body: Value) -> Value {
        let answer = self.send(operation, values, "", &body).await;
        assert!(answer.status < 300, "{operation}: {answer:?}");
        if answer.body.is_empty() { Value::Null } else { answer.json() }
    }
}

fn check(operation: &str, answers: &Value, answer: &Answer) -> Option<String> {
    if answers.is_null() {
        return (answer.status != 501).then(|| "is not implemented, but not refused".to_owned());
    }
    let status = answer.status.to_string();
    // Of something that does not exist, also where the document forgets it.
    let missing = json!({ "$ref": "#/components/schemas/NotFoundError" });
    let known = answers.get(&status).or_else(|| (answer.status == 404).then_some(&missing));
    let Some(schema) = known else { return Some("unexpected status".to_owned()) };
    if schema.is_null() {
        return (!answer.body.is_empty()).then(|| "there should be no body".to_owned());
    }
    let value = answer.json();
    let mut schemas = vec![schema.clone()];
    if answer.status == 400 {
        // What the reference answers to a body or a parameter that it cannot read, whatever its document says.
        schemas.push(json!({ "$ref": "#/components/schemas/BadRequestError" }));
    }
    let tried: Vec<Vec<String>> = schemas.iter().map(|schema| misfits(schema, &value)).collect();
    let is_right = tried.iter().any(Vec::is_empty);
    (!is_right).then(|| format!("{operation}: {}", tried.concat().join("; ")))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_operation_is_implemented_or_refused() {
    let server = TestServer::start().await;
    assert_eq!(operations().len(), 188);
    let mut client = Client { server: &server, answered: BTreeSet::new(), wrong: Vec::new() };
    for (operation, answers) in operations() {
        if operation.ends_with("/event") && !answers.is_null() {
            continue;
        }
        let values = ["ses_none", "msg_none", "prt_none"];
        let body = if operation.starts_with("get") { Value::Null } else { json!({}) };
        client.send(operation, &values, "", &body).await;
    }
    assert!(client.wrong.is_empty(), "{}", client.wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_implemented_answer_and_event_has_its_shape() {
    let server = TestServer::prepared(|root, home| {
        let skill = root.join(".plimsoll/skills/tide");
        std::fs::create_dir_all(&skill).unwrap();
        std::fs::write(skill.join("SKILL.md"), "---\nname: tide\ndescription: Reads tables.\n---\nText.\n")
            .unwrap();
        let commands = home.join(".config/opencode/command");
        std::fs::create_dir_all(&commands).unwrap();
        let command =
            "---\ndescription: Greets.\nmodel: openai-chat/scripted\nsubtask: false\n---\nGreet $1.\n";
        std::fs::write(commands.join("greet.md"), command).unwrap();
    });
    let server = server.await;
    let mut events = server.events("/event").await;
    let mut global = server.events("/global/event").await;
    let mut client = Client { server: &server, answered: BTreeSet::new(), wrong: Vec::new() };
    for operation in operations().keys() {
        let is_plain =
            operation.starts_with("get") && !operation.contains('{') && !operation.ends_with("/event");
        if is_plain && !operations()[operation].is_null() {
            client.ok(operation, &[], Value::Null).await;
        }
    }
    let project = client.ok("get /project/current", &[], Value::Null).await;
    client.ok("get /project/{projectID}/directories", &[project["id"].as_str().unwrap()], Value::Null).await;
    let id = sessions(&mut client).await;
    permissions(&mut client, &id).await;
    edits(&mut client, &id).await;
    errors(&mut client, &id).await;
    client.ok("delete /session/{sessionID}", &[&id], Value::Null).await;
    let missing: Vec<&String> = operations()
        .iter()
        .filter(|(operation, answers)| !answers.is_null() && !operation.ends_with("/event"))
        .map(|(operation, _)| operation)
        .filter(|operation| !client.answered.contains(*operation))
        .collect();
    assert!(missing.is_empty(), "never answered with success: {missing:?}");
    let mut wrong = std::mem::take(&mut client.wrong);
    let wanted =
        |event: &Value| event["type"] == "session.deleted" && event["properties"]["sessionID"] == json!(id);
    wrong.extend(event_misfits(&mut events, wanted, |event| event.clone()).await);
    let of_payload = |event: &Value| wanted(&event["payload"]);
    wrong.extend(event_misfits(&mut global, of_payload, |event| event["payload"].clone()).await);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Sessions, prompts, and a background task. Returns a session with messages.
async fn sessions(client: &mut Client<'_>) -> String {
    let created = client.ok("post /session", &[], json!({ "title": "shapes", "agent": "build" })).await;
    let id = created["id"].as_str().unwrap().to_owned();
    let model = &client.server.model;
    model.push(Reply::new().thinking("hm").text("a long answer in pieces").piece_size(Some(3)));
    client.ok("post /session/{sessionID}/message", &[&id], prompt("hello")).await;
    let todos = json!({ "todos": [{ "content": "look", "status": "pending" }] });
    let launch = json!({ "description": "look around", "prompt": "look", "agent": "explore" });
    model.push(Reply::new().call("call_1", "todo", todos).call("call_2", "background_task", launch));
    client.ok("post /session/{sessionID}/message", &[&id], prompt("launch it")).await;
    let note = json!({ "noReply": true, "parts": [
        { "type": "text", "text": "see" },
        { "type": "file", "mime": "image/png", "filename": "a.png", "url": "data:image/png;base64,iVBORw0KGgo=" },
    ] });
    // The document forgets that a prompt without reply is answered with itself.
    let stored = client.server.post(&format!("/session/{id}/message"), note).await.ok();
    let schema = json!({ "properties": {
        "info": { "$ref": "#/components/schemas/UserMessage" },
        "parts": { "items": { "$ref": "#/components/schemas/Part" } },
    } });
    client.wrong.extend(misfits(&schema, &stored));
    let mut idle = client.server.events("/event").await;
    client.ok("post /session/{sessionID}/prompt_async", &[&id], prompt("again")).await;
    let is_idle =
        |event: &Value| event["type"] == "session.idle" && event["properties"]["sessionID"] == json!(id);
    idle.until(is_idle).await;
    let command = json!({ "command": "greet", "arguments": "the crew" });
    client.ok("post /session/{sessionID}/command", &[&id], command).await;
    let patch = json!({
        "title": "renamed",
        "metadata": { "ticket": 7 },
        "permission": [{ "permission": "question", "pattern": "*", "action": "deny" }],
        "time": { "archived": 1_794_775_451_033_u64 },
    });
    client.ok("patch /session/{sessionID}", &[&id], patch).await;
    for number in 0..6 {
        let text = format!("{number} {}", "the depth of the harbour ".repeat(400));
        client.ok("post /session/{sessionID}/message", &[&id], prompt(&text)).await;
    }
    client.server.model.push(Reply::new().text("## Objective\n- measure the harbour"));
    let choice = json!({ "providerID": "openai-chat", "modelID": "scripted" });
    client.ok("post /session/{sessionID}/summarize", &[&id], choice).await;
    for operation in ["", "/children", "/todo", "/diff", "/message"] {
        let shown = client.ok(&format!("get /session/{{sessionID}}{operation}"), &[&id], Value::Null).await;
        assert!(!shown.is_null());
    }
    let list = client.server.get(&format!("/session/{id}/message")).await.ok();
    let marker = list.as_array().unwrap().iter().find(|message| message["parts"][0]["type"] == "compaction");
    let marker = marker.expect("a marker")["info"]["id"].as_str().unwrap().to_owned();
    client.ok("get /session/{sessionID}/message/{messageID}", &[&id, &marker], Value::Null).await;
    client.send("get /session/{sessionID}/message", &[&id], "?limit=2", &Value::Null).await;
    client.ok("get /session", &[], Value::Null).await;
    let fork = client.ok("post /session/{sessionID}/fork", &[&id], json!({})).await;
    client.ok("delete /session/{sessionID}", &[fork["id"].as_str().unwrap()], Value::Null).await;
    client.ok("post /session/{sessionID}/abort", &[&id], json!({})).await;
    id
}

/// Questions, answered in both ways, and a file that a revert restores.
async fn permissions(client: &mut Client<'_>, id: &str) {
    for (number, operation) in
        ["post /permission/{requestID}/reply", "post /session/{sessionID}/permissions/{permissionID}"]
            .into_iter()
            .enumerate()
    {
        let mut events = client.server.events("/event").await;
        let input = json!({ "filePath": format!("file-{number}.txt"), "content": "text\n" });
        client.server.model.push(Reply::new().call("call_w", "write", input));
        client.ok("post /session/{sessionID}/prompt_async", &[id], prompt("write")).await;
        let seen = events.until_type("permission.asked").await;
        let question = seen.last().unwrap()["properties"]["id"].as_str().unwrap().to_owned();
        client.ok("get /permission", &[], Value::Null).await;
        client.ok("get /session/status", &[], Value::Null).await;
        match number {
            0 => client.ok(operation, &[&question], json!({ "reply": "once" })).await,
            _ => client.ok(operation, &[id, &question], json!({ "response": "reject" })).await,
        };
        events.until_type("session.idle").await;
        let again = json!({ "reply": "once", "response": "once" });
        let values = [&question[..], &question[..]];
        let values = if number == 0 { &values[..1] } else { &[id, &question][..] };
        assert_eq!(client.send(operation, values, "", &again).await.status, 404);
    }
    let list = client.server.get(&format!("/session/{id}/message")).await.ok();
    let mut prompts = list.as_array().unwrap().iter().filter(|message| message["info"]["role"] == "user");
    let newest = prompts.next_back().unwrap()["info"]["id"].clone();
    client.ok("post /session/{sessionID}/revert", &[id], json!({ "messageID": newest })).await;
    client.ok("post /session/{sessionID}/unrevert", &[id], json!({})).await;
}

async fn edits(client: &mut Client<'_>, id: &str) {
    client.ok("post /session/{sessionID}/message", &[id], prompt("to be edited")).await;
    let list = client.server.get(&format!("/session/{id}/message")).await.ok();
    let list = list.as_array().unwrap();
    let asked = list.iter().rev().find(|message| message["info"]["role"] == "user").unwrap();
    let answer = list.last().unwrap();
    let mut part = asked["parts"][0].clone();
    part["text"] = json!("edited");
    let [asked, answered] = [asked, answer].map(|message| message["info"]["id"].as_str().unwrap());
    let of_part = "/session/{sessionID}/message/{messageID}/part/{partID}";
    let part_id = part["id"].as_str().unwrap().to_owned();
    client.ok(&format!("patch {of_part}"), &[id, asked, &part_id], part.clone()).await;
    client.ok(&format!("delete {of_part}"), &[id, asked, &part_id], Value::Null).await;
    client.ok("delete /session/{sessionID}/message/{messageID}", &[id, answered], Value::Null).await;
    client.ok("get /session/{sessionID}/message", &[id], Value::Null).await;
}

/// Requests that are refused, and an answer that failed.
async fn errors(client: &mut Client<'_>, id: &str) {
    let wrong = [
        ("post /session", vec![], "", json!({ "title": 5 })),
        ("post /session", vec![], "", json!([])),
        ("get /session", vec![], "?limit=x", Value::Null),
        ("get /session", vec![], "?directory=relative", Value::Null),
        ("get /session/{sessionID}", vec!["none"], "", Value::Null),
        ("get /session/{sessionID}", vec!["ses_%ff"], "", Value::Null),
        ("get /session/{sessionID}/message", vec![id], "?limit=-1", Value::Null),
        ("get /session/{sessionID}/message", vec![id], "?before=x&limit=1", Value::Null),
        ("post /session/{sessionID}/message", vec![id], "", json!({ "parts": "x" })),
        ("post /session/{sessionID}/message", vec![id], "", json!({ "parts": [{ "type": "unknown" }] })),
        ("post /session/{sessionID}/prompt_async", vec![id], "", json!({ "parts": [] })),
        ("post /session/{sessionID}/summarize", vec![id], "", json!({})),
        ("post /session/{sessionID}/revert", vec![id], "", json!({ "messageID": 1 })),
        ("post /permission/{requestID}/reply", vec!["per_1"], "", json!({ "reply": "perhaps" })),
    ];
    for (operation, values, query, body) in wrong {
        let answer = client.send(operation, &values, query, &body).await;
        assert_eq!(answer.status, 400, "{operation} {values:?} {query} {body}: {answer:?}");
    }
    // The errors of runs have statuses that the document does not list; their shape is that of the event.
    for status in [401, 400] {
        client.server.model.push(Reply::failing(Fault::status(status)));
        let failed = client.server.post(&format!("/session/{id}/message"), prompt("fail")).await;
        let event =
            json!({ "id": "evt_1", "type": "session.error", "properties": { "error": failed.json() } });
        let misfits = misfits(&event_schema("session.error"), &event);
        client
            .wrong
            .extend(misfits.into_iter().map(|misfit| format!("error of a run: {misfit}: {failed:?}")));
    }
    client.ok("get /session/{sessionID}/message", &[id], Value::Null).await;
    // A session that another process runs.
    let held = client.server.session().await;
    let archive = client.server.archive();
    let lease =
        archive.store().lease(&held.as_str().into(), "another process", std::time::Duration::from_secs(60));
    let lease = lease.unwrap();
    let message = json!({ "messageID": "msg_1" });
    let busy = client.send("post /session/{sessionID}/revert", &[&held], "", &message).await;
    assert_eq!(busy.status, 404, "{busy:?}");
    let busy = client.send("post /session/{sessionID}/unrevert", &[&held], "", &json!({})).await;
    assert_eq!(busy.status, 409, "{busy:?}");
    archive.store().release(&lease).unwrap();
}

fn event_schema(kind: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{}", INTERFACE["events"][kind].as_str().unwrap_or("none")) })
}

/// Checks the events up to the last one, and that every kind was among them.
async fn event_misfits(
    events: &mut EventStream,
    is_last: impl Fn(&Value) -> bool,
    event_of: impl Fn(&Value) -> Value,
) -> Vec<String> {
    let seen = events.until(is_last).await;
    let (mut kinds, mut wrong) = (BTreeMap::new(), Vec::new());
    for event in seen.iter().map(event_of) {
        let kind = event["type"].as_str().unwrap().to_owned();
        *kinds.entry(kind.clone()).or_insert(0) += 1;
        // The document does not have it, but the reference sends it.
        if kind == "server.heartbeat" {
            continue;
        }
        if INTERFACE["events"].get(&kind).is_none() {
            wrong.push(format!("unknown event {kind}"));
            continue;
        }
        let mut event = event;
        if kind == "tui.toast.show" {
            // Its schema is that of a request body too, and has no id; on the stream every event has one.
            event.as_object_mut().unwrap().remove("id");
        }
        let misfits = misfits(&event_schema(&kind), &event);
        wrong.extend(misfits.into_iter().map(|misfit| format!("event {kind}: {misfit}: {event}")));
    }
    // It is sent when changes are missing.
    let expected =
        INTERFACE["events"].as_object().unwrap().keys().filter(|kind| *kind != "server.instance.disposed");
    wrong.extend(
        expected.filter(|kind| !kinds.contains_key(*kind)).map(|kind| format!("no event {kind} was seen")),
    );
    wrong
}

//! Sessions, messages and parts as OpenCode's clients expect them.
//!
//! The log already has OpenCode's message shape. This module adds the fields that OpenCode's schema requires and that a session
//! of Plimsoll may lack.

use std::path::Path;
use std::sync::Arc;

use plimsoll::log::TextPart;
use plimsoll::{Info, Message, MessageId, Millis, Part, PartBody, PartId, SessionId};
use plimsoll_agent::{DEFAULT_AGENT, TodoItem};
use plimsoll_store::Session;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::app::project::Project;
use crate::app::settings;

/// Version reported to clients. Some compare it with their own.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Fields of assistant messages. As those of user messages and of a compaction's marker below, they are an allowlist: the log
/// has more fields, and clients with strict schemas reject these.
const ASSISTANT_FIELDS: [&str; 17] = [
    "id",
    "sessionID",
    "role",
    "time",
    "error",
    "parentID",
    "modelID",
    "providerID",
    "mode",
    "agent",
    "path",
    "summary",
    "cost",
    "tokens",
    "structured",
    "variant",
    "finish",
];
const USER_FIELDS: [&str; 9] =
    ["id", "sessionID", "role", "time", "format", "agent", "model", "system", "tools"];
const COMPACTION_FIELDS: [&str; 7] =
    ["id", "sessionID", "messageID", "type", "auto", "overflow", "tail_start_id"];

/// The directory whose sessions are shown, and its configuration if it is open.
pub(crate) struct Scene {
    pub(crate) directory: String,
    project: Option<Arc<Project>>,
}

impl Scene {
    pub(crate) fn of_project(project: &Arc<Project>) -> Scene {
        Scene { directory: project.name.clone(), project: Some(Arc::clone(project)) }
    }

    /// Creates the scene of a directory. Blocks.
    pub(crate) fn of(app: &App, directory: &str) -> Scene {
        let project = app.open_project_blocking(directory);
        Scene { directory: directory.to_owned(), project }
    }

    /// Creates the scenes of all open directories. Blocks.
    pub(crate) fn all(app: &App) -> Vec<Scene> {
        app.projects_blocking().iter().map(Scene::of_project).collect()
    }

    fn project_id(&self) -> String {
        match &self.project {
            Some(project) => project.id.clone(),
            None => project_id(Path::new(&self.directory)),
        }
    }

    /// Converts a session.
    pub(crate) fn session(&self, session: &Session) -> Value {
        let Session { id, parent, title, agent, model, usage, cost, created, updated, .. } = session;
        let mut shown = json!({
            "id": id,
            "slug": slug(id),
            "projectID": self.project_id(),
            "directory": self.directory,
            "path": "",
            "summary": { "additions": 0, "deletions": 0, "files": 0 },
            "cost": cost,
            "tokens": {
                "input": usage.input,
                "output": usage.output,
                "reasoning": usage.reasoning,
                "cache": { "read": usage.cache_read, "write": usage.cache_write },
            },
            "title": title_of(title, parent.is_some(), *created),
            "version": VERSION,
            "time": { "created": created, "updated": updated },
        });
        if let Some(parent) = parent {
            shown["parentID"] = json!(parent);
        }
        if let Some(agent) = agent {
            shown["agent"] = json!(agent);
        }
        let provider = model.as_ref().and_then(|model| self.project.as_ref()?.provider_of(model));
        if let (Some(model), Some(provider)) = (model, provider) {
            shown["model"] = json!({ "id": model, "providerID": provider });
        }
        if !session.settings.is_empty() {
            settings::show(session, &mut shown);
        }
        shown
    }

    /// Writes messages with their parts as a list in JSON. Each is written before the next one is shaped, so that a long session is
    /// not held in a third form.
    pub(crate) fn list(
        &self,
        session: &SessionId,
        messages: &[Message],
    ) -> Result<Vec<u8>, serde_json::Error> {
        let mut list = vec![b'['];
        for (index, message) in messages.iter().enumerate() {
            list.extend_from_slice(if index == 0 { b"{\"info\":" } else { b",{\"info\":" });
            serde_json::to_writer(&mut list, &self.info(session, message))?;
            list.extend_from_slice(b",\"parts\":[");
            let begin = list.len();
            for part in &message.parts {
                let before = list.len();
                if before > begin {
                    list.push(b',');
                }
                if let Some(text) = PlainText::of(session, &message.info, part) {
                    serde_json::to_writer(&mut list, &text)?;
                } else if let Some(part) = self.part(session, &message.info, part) {
                    serde_json::to_writer(&mut list, &part)?;
                } else {
                    list.truncate(before);
                }
            }
            list.extend_from_slice(b"]}");
        }
        list.push(b']');
        Ok(list)
    }

    /// Converts a message with its parts.
    pub(crate) fn message(&self, session: &SessionId, message: &Message) -> Value {
        let parts = message.parts.iter().filter_map(|part| self.part(session, &message.info, part));
        // Not `json!`, which copies values.
        let mut shown = Map::new();
        shown.insert("info".to_owned(), self.info(session, message));
        shown.insert("parts".to_owned(), Value::Array(parts.collect()));
        Value::Object(shown)
    }

    /// Converts a message without its parts.
    pub(crate) fn info(&self, session: &SessionId, message: &Message) -> Value {
        let mut shown = message.info.to_json();
        shown.insert("sessionID".into(), json!(session));
        let time = shown.entry("time").or_insert_with(|| json!({}));
        if let Some(time) = time.as_object_mut() {
            time.entry("created").or_insert(json!(0));
        }
        let (provider, model) = self.model();
        let agent = shown.entry("agent").or_insert_with(|| json!(self.agent()));
        if message.is_assistant() {
            let agent = agent.clone();
            let place = || json!({ "cwd": self.directory, "root": self.directory });
            shown.entry("mode").or_insert(agent);
            shown.entry("providerID").or_insert_with(|| json!(provider));
            shown.entry("modelID").or_insert_with(|| json!(model));
            // Clients require a parent, which an imported answer may not have.
            shown.entry("parentID").or_insert_with(|| json!(message.info.id));
            shown.entry("path").or_insert_with(place);
            shown.entry("cost").or_insert(json!(0));
            let tokens = shown.entry("tokens").or_insert_with(|| json!({ "input": 0, "output": 0 }));
            if let Some(tokens) = tokens.as_object_mut() {
                tokens.entry("reasoning").or_insert(json!(0));
                tokens.entry("cache").or_insert_with(|| json!({ "read": 0, "write": 0 }));
            }
            if let Some(error) = shown.get("error").filter(|error| !error.is_object()).cloned() {
                let message = error.as_str().map_or_else(|| error.to_string(), str::to_owned);
                shown.insert(
                    "error".into(),
                    json!({ "name": "UnknownError", "data": { "message": message } }),
                );
            }
            shown.retain(|field, _| ASSISTANT_FIELDS.contains(&field.as_str()));
        } else {
            shown.entry("model").or_insert_with(|| json!({ "providerID": provider, "modelID": model }));
            if let Some(time) = shown.get_mut("time").and_then(Value::as_object_mut) {
                time.retain(|field, _| field == "created");
            }
            shown.retain(|field, _| USER_FIELDS.contains(&field.as_str()));
        }
        Value::Object(shown)
    }

    /// Converts a part; `None` if clients have no such kind of part.
    pub(crate) fn part(&self, session: &SessionId, info: &Info, part: &Part) -> Option<Value> {
        let created = info.time.as_ref().and_then(|time| time.created).unwrap_or_default();
        let end = info.time.as_ref().and_then(|time| time.completed);
        self.shown_part(session, &info.id, part, created, end)
    }

    /// Converts a part of a message of which only the id is known.
    pub(crate) fn part_of(&self, session: &SessionId, message: &MessageId, part: &Part) -> Option<Value> {
        self.shown_part(session, message, part, Millis(0), None)
    }

    fn shown_part(
        &self,
        session: &SessionId,
        message: &MessageId,
        part: &Part,
        created: Millis,
        end: Option<Millis>,
    ) -> Option<Value> {
        const KNOWN: [&str; 7] =
            ["step-start", "step-finish", "snapshot", "patch", "agent", "retry", "subtask"];
        match &part.body {
            PartBody::Other(kind) if !KNOWN.contains(&kind.as_str()) => return None,
            PartBody::Bare(_) | PartBody::ToolCall(_) | PartBody::ToolResult(_) => return None,
            _ if part.is_removed() => return None,
            _ => {}
        }
        let Value::Object(mut shown) = part.to_json() else { return None };
        shown.insert("sessionID".into(), json!(session));
        shown.insert("messageID".into(), json!(message));
        // Marks are internal. Of their effects, clients only get a text that the user changed.
        shown.remove("plimsoll");
        if let Some(text) = part.edited() {
            shown.insert("text".into(), json!(text));
        }
        match &part.body {
            // `opencode run` prints a text once it has an end.
            PartBody::Text(_) if end.is_some() => {
                shown.entry("time").or_insert(json!({ "start": created, "end": end }));
            }
            PartBody::Reasoning(_) => {
                let mut time = json!({ "start": created });
                if let Some(end) = end {
                    time["end"] = json!(end);
                }
                shown.entry("time").or_insert(time);
            }
            PartBody::Compaction(_) => {
                shown.entry("auto").or_insert(json!(true));
                shown.retain(|field, _| COMPACTION_FIELDS.contains(&field.as_str()));
            }
            PartBody::File(_) => {
                shown.entry("mime").or_insert(json!("application/octet-stream"));
                shown.entry("url").or_insert(json!(""));
            }
            PartBody::Tool(call) => {
                let state = shown.entry("state").or_insert_with(|| json!({ "status": "pending" }));
                if let Some(state) = state.as_object_mut() {
                    complete_state(state, &call.tool);
                }
                show_task_call(&mut shown);
            }
            _ => {}
        }
        Some(Value::Object(shown))
    }

    /// Returns the agent for messages that name none.
    fn agent(&self) -> &str {
        let configured = self.project.as_ref().and_then(|project| project.setup.run.default_agent.as_deref());
        configured.unwrap_or(DEFAULT_AGENT)
    }

    /// Returns provider and model for messages that name none.
    fn model(&self) -> (&str, &str) {
        let default = self.project.as_ref().and_then(|project| project.default_model());
        default.unwrap_or(("unknown", "unknown"))
    }
}

/// A text part without marks or fields of its source, as most are: written without a copy.
#[derive(Serialize)]
struct PlainText<'a> {
    id: &'a PartId,
    #[serde(rename = "type")]
    kind: &'static str,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    synthetic: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ignored: Option<bool>,
    #[serde(rename = "sessionID")]
    session: &'a SessionId,
    #[serde(rename = "messageID")]
    message: &'a MessageId,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<TextTime>,
}

#[derive(Serialize)]
struct TextTime {
    start: Millis,
    end: Millis,
}

impl<'a> PlainText<'a> {
    /// Returns `None` if the part is shown in another way.
    fn of(session: &'a SessionId, info: &'a Info, part: &'a Part) -> Option<PlainText<'a>> {
        let Part { id, body: PartBody::Text(TextPart { text, synthetic, ignored }), marks, extra } = part
        else {
            return None;
        };
        let is_plain = !id.is_empty() && marks.is_empty() && extra.is_empty();
        is_plain.then(|| PlainText {
            id,
            kind: "text",
            text: text.as_str(),
            synthetic: *synthetic,
            ignored: *ignored,
            session,
            message: &info.id,
            time: info.time.as_ref().and_then(|time| {
                Some(TextTime { start: time.created.unwrap_or_default(), end: time.completed? })
            }),
        })
    }
}

/// Whether the user removed all parts of a message.
pub(crate) fn is_removed(message: &Message) -> bool {
    !message.parts.is_empty() && message.parts.iter().all(Part::is_removed)
}

/// Adds the fields that clients require for each state of a call.
fn complete_state(state: &mut Map<String, Value>, tool: &str) {
    let input = state.entry("input").or_insert_with(|| json!({}));
    if !input.is_object() {
        *input = json!({});
    }
    let title = ["description", "filePath", "path", "pattern", "command", "url"]
        .iter()
        .find_map(|field| input.get(field)?.as_str())
        .unwrap_or(tool)
        .to_owned();
    match state.get("status").and_then(Value::as_str) {
        Some("pending") => {
            state.entry("raw").or_insert(json!(""));
        }
        Some("completed") => {
            let output = state.entry("output").or_insert(json!("")).clone();
            state.entry("title").or_insert(json!(title));
            let metadata = state.entry("metadata").or_insert_with(|| json!({}));
            if let (Some(metadata), "bash") = (metadata.as_object_mut(), tool) {
                metadata.entry("output").or_insert(output);
            }
            add_times(state);
        }
        Some("error") => {
            state.entry("error").or_insert(json!(""));
            add_times(state);
        }
        _ => {
            state.insert("status".into(), json!("running"));
            state.entry("time").or_insert(json!({ "start": 0 }));
        }
    }
}

fn add_times(state: &mut Map<String, Value>) {
    let time = state.entry("time").or_insert_with(|| json!({}));
    if let Some(time) = time.as_object_mut() {
        let end = time.get("end").or_else(|| time.get("start")).cloned().unwrap_or(json!(0));
        time.entry("start").or_insert(end.clone());
        time.entry("end").or_insert(end);
    }
}

/// Shows the launch of a background task as a call of OpenCode's `task` tool, so that its clients open the child session
/// from it.
fn show_task_call(part: &mut Map<String, Value>) {
    if part.get("tool").and_then(Value::as_str) != Some("background_task") {
        return;
    }
    let Some(state) = part.get_mut("state").and_then(Value::as_object_mut) else { return };
    if let Some(input) = state.get_mut("input").and_then(Value::as_object_mut) {
        let agent = input.get("agent").cloned().unwrap_or_else(|| json!("general"));
        input.entry("subagent_type").or_insert(agent);
        input.entry("background").or_insert(json!(true));
    }
    if let Some(metadata) = state.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.entry("background").or_insert(json!(true));
    }
    part.insert("tool".into(), json!("task"));
}

/// Converts a to-do list.
pub(crate) fn todos(items: &[TodoItem]) -> Value {
    let shown = items
        .iter()
        .map(|item| json!({ "content": item.content, "status": item.status, "priority": "medium" }));
    Value::Array(shown.collect())
}

/// Returns the id of a directory's project.
pub(crate) fn project_id(directory: &Path) -> String {
    blake3::hash(directory.display().to_string().as_bytes()).to_hex()[..40].to_owned()
}

/// Returns a session's title. An untitled session is named by its creation time, as in OpenCode.
fn title_of(title: &str, is_child: bool, created: Millis) -> String {
    if !title.trim().is_empty() {
        return title.to_owned();
    }
    let kind = if is_child { "Child session" } else { "New session" };
    let time =
        i64::try_from(created.0).ok().and_then(|millis| jiff::Timestamp::from_millisecond(millis).ok());
    let time = time.map(|time| time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()).unwrap_or_default();
    format!("{kind} - {time}")
}

/// Returns words for a session that are easier to distinguish than ids.
fn slug(id: &SessionId) -> String {
    const FIRST: [&str; 8] = ["calm", "brisk", "deep", "fair", "bold", "clear", "still", "swift"];
    const SECOND: [&str; 8] = ["harbour", "tide", "anchor", "beacon", "current", "keel", "shoal", "strait"];
    let hash = *blake3::hash(id.as_str().as_bytes()).as_bytes();
    format!("{}-{}", FIRST[usize::from(hash[0] % 8)], SECOND[usize::from(hash[1] % 8)])
}

#[cfg(test)]
mod tests {
    use plimsoll::{Message, Millis, SessionId};
    use plimsoll_store::Session;
    use serde_json::{Value, json};

    use super::Scene;

    fn scene() -> Scene {
        Scene { directory: "/project".to_owned(), project: None }
    }

    fn message(value: &Value) -> Value {
        let log = json!([value]).to_string();
        let messages = Message::read_all(&log).unwrap();
        scene().message(&SessionId::new("ses_1"), &messages[0])
    }

    #[test]
    fn an_assistant_message_has_all_required_fields() {
        let shown = message(&json!({
            "info": { "id": "msg_1", "role": "assistant", "time": { "created": 5 } },
            "parts": [
                { "id": "prt_1", "type": "reasoning", "text": "hm" },
                { "id": "prt_2", "type": "tool", "callID": "c", "tool": "bash",
                  "state": { "status": "completed", "input": { "command": "ls" }, "output": "a" } },
                { "id": "prt_3", "type": "provider-block", "block": {} },
            ],
        }));
        let info = &shown["info"];
        for field in
            ["sessionID", "parentID", "modelID", "providerID", "mode", "agent", "path", "cost", "tokens"]
        {
            assert!(info.get(field).is_some(), "{field}: {info}");
        }
        assert_eq!(info["tokens"]["cache"], json!({ "read": 0, "write": 0 }));
        let parts = shown["parts"].as_array().unwrap();
        assert_eq!(parts.len(), 2, "parts that clients do not know are left out: {parts:?}");
        assert_eq!(parts[0]["time"]["start"], 5);
        assert_eq!(parts[1]["state"]["title"], "ls");
        assert_eq!(parts[1]["state"]["metadata"]["output"], "a");
        assert_eq!(parts[1]["messageID"], "msg_1");
    }

    #[test]
    fn a_list_is_written_as_its_messages_are_shown() {
        let log = json!([
            { "info": { "id": "msg_1", "role": "user", "time": { "created": 5 } }, "parts": [
                { "id": "prt_1", "type": "text", "text": "a \"quoted\" line\nand \u{e9}" },
                { "id": "prt_2", "type": "text", "text": "hidden", "synthetic": true, "ignored": false },
                { "id": "prt_3", "type": "text", "text": "more", "time": { "start": 1 } },
                { "type": "text", "text": "without an id" },
            ] },
            { "info": { "id": "msg_2", "role": "assistant" }, "parts": [
                { "id": "prt_4", "type": "provider-block", "block": {} },
                { "id": "prt_5", "type": "reasoning", "text": "hm" },
                { "id": "prt_6", "type": "provider-block", "block": {} },
                { "id": "prt_7", "type": "text", "text": "" },
            ] },
            { "info": { "id": "msg_3", "role": "assistant" }, "parts": [] },
        ]);
        let messages = Message::read_all(&log.to_string()).unwrap();
        let session = SessionId::new("ses_1");
        for count in 0..=messages.len() {
            let shown = messages[..count].iter().map(|message| scene().message(&session, message));
            let list = scene().list(&session, &messages[..count]).unwrap();
            assert_eq!(String::from_utf8(list).unwrap(), Value::Array(shown.collect()).to_string());
        }
    }

    #[test]
    fn the_launch_of_a_task_names_its_session() {
        let shown = message(&json!({
            "info": { "id": "msg_1", "role": "assistant" },
            "parts": [{ "id": "prt_1", "type": "tool", "callID": "c", "tool": "background_task", "state": {
                "status": "completed", "input": { "description": "look", "prompt": "p", "agent": "explore" },
                "output": "launched", "metadata": { "sessionId": "ses_abcDEF1" } } }],
        }));
        let part = &shown["parts"][0];
        assert_eq!(part["tool"], "task");
        assert_eq!(part["state"]["metadata"]["sessionId"], "ses_abcDEF1");
        assert_eq!(part["state"]["input"]["subagent_type"], "explore");
    }

    #[test]
    fn a_session_without_a_title_is_named_by_its_time() {
        let mut session = Session::default();
        session.created = Millis(1_794_775_451_033);
        assert_eq!(scene().session(&session)["title"], "New session - 2026-11-15T20:44:11.033Z");
        let mut child = session;
        child.parent = Some(SessionId::new("ses_0"));
        assert_eq!(scene().session(&child)["title"], "Child session - 2026-11-15T20:44:11.033Z");
        assert_eq!(scene().session(&child)["parentID"], "ses_0");
    }
}

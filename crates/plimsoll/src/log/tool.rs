//! Tool calls and their results, in both shapes that systems write: one part with a state, or a call and a
//! result that are parts of their own.

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::fields::{At, Reader, ShapeError, put};
use super::ids::Millis;
use crate::chars::{Chars, Text};

/// A call of a tool, and what has come of it so far.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolPart {
    /// The model's name for this call.
    pub call_id: String,
    /// The tool's name.
    pub tool: String,
    /// How far the call has got.
    pub state: ToolState,
}

/// The state of a tool call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolState {
    /// How far it has got.
    pub status: ToolStatus,
    /// What the tool was given.
    pub input: Option<Input>,
    /// What it answered.
    pub output: Option<Text>,
    /// What went wrong.
    pub error: Option<Text>,
    /// When it started, ended, and was cleared from the window.
    pub time: ToolTime,
    /// Files that came with the answer; shared, because they can be large.
    pub attachments: Arc<Vec<Value>>,
    /// Everything else the source wrote.
    pub extra: Map<String, Value>,
}

/// How far a tool call has got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolStatus {
    /// The model has asked; nothing has started.
    Pending,
    /// The tool is at work, or was when the process died.
    Running,
    /// It answered.
    Completed,
    /// It failed.
    Error,
    /// A status not known here.
    Other(String),
}

/// The times of a tool call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolTime {
    /// Start.
    pub start: Option<Millis>,
    /// End.
    pub end: Option<Millis>,
    /// The mark of a prune: since when the window shows a placeholder instead of the output.
    pub compacted: Option<Millis>,
    /// Whether the source wrote a `time` at all.
    present: bool,
    extra: Map<String, Value>,
}

/// A tool call without its result.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCallPart {
    /// The model's name for this call.
    pub call_id: String,
    /// The tool's name.
    pub tool: String,
    /// What the tool was given.
    pub input: Option<Input>,
    kind: String,
}

/// A tool result without its call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolResultPart {
    /// The call it answers; empty where the source does not say.
    pub call_id: String,
    /// The tool's name, where the source says.
    pub tool: Option<String>,
    /// What the tool answered.
    pub text: Text,
    /// Whether the answer is an error.
    pub is_error: Option<bool>,
    /// The mark of a prune.
    pub compacted: Option<Millis>,
    keys: ResultKeys,
}

/// The field names a separate result used, so that it is written back as it came.
#[derive(Clone, Debug, PartialEq)]
struct ResultKeys {
    kind: String,
    call: Option<&'static str>,
    tool: Option<&'static str>,
    text: Option<&'static str>,
    error: Option<&'static str>,
}

/// What a tool was given: any JSON, with its compact text made once.
#[derive(Clone)]
pub struct Input(Arc<InputInner>);

struct InputInner {
    value: Value,
    json: OnceLock<Text>,
}

impl Input {
    /// A stand-in that has the length of an input but not its content; see [`Text::outline`].
    pub fn outline(chars: Chars) -> Input {
        let json = OnceLock::from(Text::outline(chars, false));
        Input(Arc::new(InputInner { value: Value::Object(Map::new()), json }))
    }

    /// The value itself.
    pub fn value(&self) -> &Value {
        &self.0.value
    }

    /// The value as compact JSON, keys in the order they came.
    pub fn json(&self) -> &Text {
        self.0.json.get_or_init(|| Text::from(self.0.value.to_string()))
    }
}

impl From<Value> for Input {
    fn from(value: Value) -> Input {
        Input(Arc::new(InputInner { value, json: OnceLock::new() }))
    }
}

impl PartialEq for Input {
    fn eq(&self, other: &Input) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.value() == other.value()
    }
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.value())
    }
}

impl Serialize for Input {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Input {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Input, D::Error> {
        Value::deserialize(deserializer).map(Input::from)
    }
}

impl ToolState {
    /// A call that has been asked for and not started.
    pub fn pending(input: impl Into<Input>) -> ToolState {
        ToolState {
            status: ToolStatus::Pending,
            input: Some(input.into()),
            output: None,
            error: None,
            time: ToolTime::default(),
            attachments: Arc::default(),
            extra: Map::new(),
        }
    }

    /// A call that was answered.
    pub fn completed(input: impl Into<Input>, output: impl Into<Text>) -> ToolState {
        ToolState { status: ToolStatus::Completed, output: Some(output.into()), ..ToolState::pending(input) }
    }

    /// A call that failed.
    pub fn failed(input: impl Into<Input>, error: impl Into<Text>) -> ToolState {
        ToolState { status: ToolStatus::Error, error: Some(error.into()), ..ToolState::pending(input) }
    }

    /// Output of a completed call or error text of a failed one; nothing while it runs.
    pub fn result(&self) -> Option<&Text> {
        match self.status {
            ToolStatus::Completed => self.output.as_ref(),
            ToolStatus::Error => self.error.as_ref().or(self.output.as_ref()),
            _ => None,
        }
    }

    fn read(value: Value, at: &At) -> Result<ToolState, ShapeError> {
        let mut state = ToolState {
            status: ToolStatus::Other(String::new()),
            input: None,
            output: None,
            error: None,
            time: ToolTime::default(),
            attachments: Arc::default(),
            extra: Map::new(),
        };
        for (key, value) in at.object(value)? {
            let at = &At::Key(at, &key);
            match key.as_str() {
                "status" => state.status = ToolStatus::read(at.string(value)?),
                "input" => state.input = Some(value.into()),
                "output" => state.output = Some(at.text(value)?),
                "error" => state.error = Some(at.text(value)?),
                // An empty list stays among the other fields, so that it is written back.
                "attachments" if value != json!([]) => state.attachments = Arc::new(at.array(value)?),
                "time" => state.time = ToolTime::read(value, at)?,
                _ => {
                    state.extra.insert(key, value);
                }
            }
        }
        Ok(state)
    }

    pub(super) fn write(&self) -> Value {
        let mut map = Map::new();
        if let Some(status) = self.status.name() {
            map.insert("status".into(), status.into());
        }
        put(&mut map, "input", self.input.as_ref().map(|input| input.value().clone()));
        put(&mut map, "output", self.output.as_ref().map(|text| text.as_str().into()));
        put(&mut map, "error", self.error.as_ref().map(|text| text.as_str().into()));
        put(&mut map, "time", self.time.write());
        if !self.attachments.is_empty() {
            map.insert("attachments".into(), Value::Array(self.attachments.to_vec()));
        }
        map.extend(self.extra.clone());
        Value::Object(map)
    }
}

impl ToolStatus {
    fn read(status: String) -> ToolStatus {
        match status.as_str() {
            "pending" => ToolStatus::Pending,
            "running" => ToolStatus::Running,
            "completed" => ToolStatus::Completed,
            "error" => ToolStatus::Error,
            _ => ToolStatus::Other(status),
        }
    }

    fn name(&self) -> Option<&str> {
        match self {
            ToolStatus::Pending => Some("pending"),
            ToolStatus::Running => Some("running"),
            ToolStatus::Completed => Some("completed"),
            ToolStatus::Error => Some("error"),
            ToolStatus::Other(name) if name.is_empty() => None,
            ToolStatus::Other(name) => Some(name),
        }
    }

    /// Whether nothing more will come of the call.
    pub fn is_final(&self) -> bool {
        matches!(self, ToolStatus::Completed | ToolStatus::Error)
    }
}

impl ToolTime {
    /// The times of a call that ran from `start` to `end`.
    pub fn ran(start: Millis, end: Millis) -> ToolTime {
        ToolTime { start: Some(start), end: Some(end), present: true, ..ToolTime::default() }
    }

    fn read(value: Value, at: &At) -> Result<ToolTime, ShapeError> {
        let mut time = ToolTime { present: true, ..ToolTime::default() };
        for (key, value) in at.object(value)? {
            let at = &At::Key(at, &key);
            match key.as_str() {
                "start" => time.start = Some(Millis(at.whole(&value)?)),
                "end" => time.end = Some(Millis(at.whole(&value)?)),
                "compacted" => time.compacted = Some(Millis(at.whole(&value)?)),
                _ => {
                    time.extra.insert(key, value);
                }
            }
        }
        Ok(time)
    }

    fn write(&self) -> Option<Value> {
        let mut map = Map::new();
        put(&mut map, "start", self.start.map(|at| at.0.into()));
        put(&mut map, "end", self.end.map(|at| at.0.into()));
        put(&mut map, "compacted", self.compacted.map(|at| at.0.into()));
        map.extend(self.extra.clone());
        (self.present || !map.is_empty()).then_some(Value::Object(map))
    }
}

impl ToolCallPart {
    /// A call whose result comes in a part of its own.
    pub fn new(call_id: impl Into<String>, tool: impl Into<String>, input: impl Into<Input>) -> ToolCallPart {
        ToolCallPart {
            call_id: call_id.into(),
            tool: tool.into(),
            input: Some(input.into()),
            kind: "tool_call".into(),
        }
    }

    pub(super) fn write(&self, map: &mut Map<String, Value>) {
        let (id, name) = if self.kind == "tool_use" { ("id", "name") } else { ("callID", "tool") };
        map.insert("type".into(), self.kind.as_str().into());
        if !self.call_id.is_empty() {
            map.insert(id.into(), self.call_id.as_str().into());
        }
        map.insert(name.into(), self.tool.as_str().into());
        put(map, "input", self.input.as_ref().map(|input| input.value().clone()));
    }
}

impl ToolResultPart {
    /// A result that answers the call named `call_id`.
    pub fn new(call_id: impl Into<String>, text: impl Into<Text>) -> ToolResultPart {
        ToolResultPart {
            call_id: call_id.into(),
            tool: None,
            text: text.into(),
            is_error: None,
            compacted: None,
            keys: ResultKeys {
                kind: "tool_result".into(),
                call: Some("callID"),
                tool: None,
                text: Some("text"),
                error: None,
            },
        }
    }

    pub(super) fn write(&self, map: &mut Map<String, Value>) {
        let keys = &self.keys;
        map.insert("type".into(), keys.kind.as_str().into());
        if let Some(key) = keys.call {
            map.insert(key.into(), self.call_id.as_str().into());
        }
        put(map, keys.tool.unwrap_or("tool"), self.tool.as_deref().map(Value::from));
        // Text that came in some other form stands untouched among the other fields.
        if let Some(key) = keys.text {
            map.insert(key.into(), self.text.as_str().into());
        }
        put(map, keys.error.unwrap_or("isError"), self.is_error.map(Value::from));
        put(map, "time", self.compacted.map(|at| json!({ "compacted": at.0 })));
    }
}

impl Reader<'_> {
    pub(super) fn tool(&mut self) -> Result<ToolPart, ShapeError> {
        Ok(ToolPart {
            call_id: self.string("callID")?.unwrap_or_default(),
            tool: self.string("tool")?.unwrap_or_default(),
            state: self
                .take("state", |at, value| ToolState::read(value, at))?
                .ok_or_else(|| self.at.error("a tool part needs a `state`"))?,
        })
    }

    pub(super) fn call(&mut self, kind: &str) -> Result<ToolCallPart, ShapeError> {
        let (call_id, _) =
            if kind == "tool_use" { self.string_of(&["id"])? } else { self.string_of(&["callID"])? };
        let (tool, _) =
            if kind == "tool_use" { self.string_of(&["name"])? } else { self.string_of(&["tool"])? };
        let input = self.take("input", |_, value| Ok(Input::from(value)))?;
        Ok(ToolCallPart {
            call_id: call_id.unwrap_or_default(),
            tool: tool.unwrap_or_default(),
            input,
            kind: kind.into(),
        })
    }

    pub(super) fn result(&mut self, kind: &str) -> Result<ToolResultPart, ShapeError> {
        let (call_id, call) = self.string_of(&["callID", "tool_use_id", "tool_call_id", "toolUseId"])?;
        let (tool, tool_key) = self.string_of(&["tool", "name"])?;
        let (text, text_key) = self.string_of(&["text", "content", "output"])?;
        let text = match text {
            Some(text) => Text::from(text),
            None => Text::from(joined_content(self.map.get("content"))),
        };
        let error = ["isError", "is_error"].into_iter().find(|key| self.map.contains_key(*key));
        let is_error = match error {
            Some(key) => self.boolean(key)?,
            None => None,
        };
        let compacted = match self.map.get("time").and_then(|time| time.get("compacted")) {
            Some(mark) => Some(Millis(At::Key(&At::Key(self.at, "time"), "compacted").whole(mark)?)),
            None => None,
        };
        if compacted.is_some() {
            self.map.shift_remove("time");
        }
        let keys = ResultKeys { kind: kind.into(), call, tool: tool_key, text: text_key, error };
        Ok(ToolResultPart { call_id: call_id.unwrap_or_default(), tool, text, is_error, compacted, keys })
    }
}

/// The texts of content given as a list of blocks.
fn joined_content(content: Option<&Value>) -> String {
    let blocks = content.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let texts: Vec<&str> = blocks.iter().filter_map(|block| block.get("text")?.as_str()).collect();
    texts.join("\n")
}

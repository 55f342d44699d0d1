//! Tool calls and their results, in both shapes in use: one part with a state, or a call and a
//! result that are separate parts.

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::depth::flatten_deep;
use super::extra::Extra;
use super::fields::{At, Notes, Reader, array, keep, name, object, put, set_apart, string, whole};
use super::ids::Millis;
use crate::chars::{Chars, Text};

/// A tool call with its state.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolPart {
    /// The model's id for this call.
    pub call_id: String,
    /// The tool's name.
    pub tool: String,
    /// The state of the call.
    pub state: ToolState,
}

/// The state of a tool call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolState {
    /// The status.
    pub status: ToolStatus,
    /// The input.
    pub input: Option<Input>,
    /// The output.
    pub output: Option<Text>,
    /// The error text.
    pub error: Option<Text>,
    /// When it started, ended, and was cleared from the window.
    pub time: ToolTime,
    /// Files returned with the output; shared, because they can be large.
    pub attachments: Arc<Vec<Value>>,
    /// All other fields of the source.
    pub extra: Extra,
}

/// Status of a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolStatus {
    /// Requested, not started.
    Pending,
    /// Running, or was when the process ended.
    Running,
    /// Completed.
    Completed,
    /// Failed.
    Error,
    /// An unknown status.
    Other(String),
}

/// The times of a tool call.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ToolTime {
    /// Start.
    pub start: Option<Millis>,
    /// End.
    pub end: Option<Millis>,
    /// When the output was cleared; since then the window shows a placeholder.
    pub compacted: Option<Millis>,
    /// Whether the source has a `time` field.
    present: bool,
    extra: Extra,
}

/// A tool call without its result.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCallPart {
    /// The model's id for this call.
    pub call_id: String,
    /// The tool's name.
    pub tool: String,
    /// The input.
    pub input: Option<Input>,
    kind: String,
}

/// A tool result without its call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolResultPart {
    /// The id of the call; empty if the source has none.
    pub call_id: String,
    /// The tool's name, if the source has it.
    pub tool: Option<String>,
    /// The output.
    pub text: Text,
    /// Whether the output is an error.
    pub is_error: Option<bool>,
    /// When it was cleared.
    pub compacted: Option<Millis>,
    keys: ResultKeys,
    /// The other times, if the source keeps `compacted` among them.
    times: Extra,
}

/// Field names that a separate result used, so that it is written back unchanged.
#[derive(Clone, Debug, PartialEq)]
struct ResultKeys {
    kind: String,
    call: Option<&'static str>,
    tool: Option<&'static str>,
    text: Option<&'static str>,
    error: Option<&'static str>,
}

/// The input of a tool: any JSON, with its compact text computed once. JSON that is nested too deeply becomes a string, see
/// [`flatten_deep`].
#[derive(Clone)]
pub struct Input(Arc<InputInner>);

struct InputInner {
    value: Value,
    json: OnceLock<Text>,
}

impl Input {
    /// Creates a stand-in with the length of an input but not its content; see [`Text::outline`].
    pub fn outline(chars: Chars) -> Input {
        let json = OnceLock::from(Text::outline(chars, false));
        Input(Arc::new(InputInner { value: Value::Object(Map::new()), json }))
    }

    /// Returns the value.
    pub fn value(&self) -> &Value {
        &self.0.value
    }

    /// Returns the value as compact JSON, with keys in their original order.
    pub fn json(&self) -> &Text {
        self.0.json.get_or_init(|| Text::from(self.0.value.to_string()))
    }
}

impl From<Value> for Input {
    fn from(value: Value) -> Input {
        Input(Arc::new(InputInner { value: flatten_deep(value), json: OnceLock::new() }))
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
    /// The state of a call that has not started.
    pub fn pending(input: impl Into<Input>) -> ToolState {
        ToolState {
            status: ToolStatus::Pending,
            input: Some(input.into()),
            output: None,
            error: None,
            time: ToolTime::default(),
            attachments: Arc::default(),
            extra: Extra::default(),
        }
    }

    /// The state of a completed call.
    pub fn completed(input: impl Into<Input>, output: impl Into<Text>) -> ToolState {
        ToolState { status: ToolStatus::Completed, output: Some(output.into()), ..ToolState::pending(input) }
    }

    /// The state of a failed call.
    pub fn failed(input: impl Into<Input>, error: impl Into<Text>) -> ToolState {
        ToolState { status: ToolStatus::Error, error: Some(error.into()), ..ToolState::pending(input) }
    }

    /// Returns the output of a completed call or the error text of a failed one; `None` while it runs.
    pub fn result(&self) -> Option<&Text> {
        match self.status {
            ToolStatus::Completed => self.output.as_ref(),
            ToolStatus::Error => self.error.as_ref().or(self.output.as_ref()),
            _ => None,
        }
    }

    /// An unknown state.
    fn unknown() -> ToolState {
        ToolState {
            status: ToolStatus::Other(String::new()),
            input: None,
            output: None,
            error: None,
            time: ToolTime::default(),
            attachments: Arc::default(),
            extra: Extra::default(),
        }
    }

    fn read(map: Map<String, Value>, at: &At, notes: &mut Notes) -> ToolState {
        let mut state = ToolState::unknown();
        for (key, value) in map {
            let at = &At::Key(at, &key);
            let read = match key.as_str() {
                "status" => name(value).map(|status| state.status = ToolStatus::read(status)),
                "output" => string(value).map(|text| state.output = Some(text.into())),
                "error" => string(value).map(|text| state.error = Some(text.into())),
                // An empty list stays among the other fields, so that it is written back.
                "attachments" if value != json!([]) => {
                    array(value).map(|files| state.attachments = Arc::new(files))
                }
                "time" => object(value).map(|time| state.time = ToolTime::read(time, at, notes)),
                "input" => {
                    state.input = Some(value.into());
                    continue;
                }
                _ => {
                    state.extra.insert(key, value);
                    continue;
                }
            };
            set_apart(read, &key, at, &mut state.extra, notes);
        }
        state
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
        keep(&mut map, &self.extra, &[]);
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

    /// Returns whether the call has completed or failed.
    pub fn is_final(&self) -> bool {
        matches!(self, ToolStatus::Completed | ToolStatus::Error)
    }
}

impl ToolTime {
    /// The times of a call that began at `start` and has not ended.
    pub fn started(start: Millis) -> ToolTime {
        ToolTime { start: Some(start), present: true, ..ToolTime::default() }
    }

    /// The times of a call that ran from `start` to `end`.
    pub fn ran(start: Millis, end: Millis) -> ToolTime {
        ToolTime { start: Some(start), end: Some(end), present: true, ..ToolTime::default() }
    }

    fn read(map: Map<String, Value>, at: &At, notes: &mut Notes) -> ToolTime {
        let mut time = ToolTime { present: true, ..ToolTime::default() };
        for (key, value) in map {
            let field = match key.as_str() {
                "start" => &mut time.start,
                "end" => &mut time.end,
                "compacted" => &mut time.compacted,
                _ => {
                    time.extra.insert(key, value);
                    continue;
                }
            };
            let (number, read) = whole(value);
            *field = number.map(Millis);
            set_apart(read, &key, &At::Key(at, &key), &mut time.extra, notes);
        }
        time
    }

    fn write(&self) -> Option<Value> {
        let mut map = Map::new();
        put(&mut map, "start", self.start.map(|at| at.0.into()));
        put(&mut map, "end", self.end.map(|at| at.0.into()));
        put(&mut map, "compacted", self.compacted.map(|at| at.0.into()));
        keep(&mut map, &self.extra, &["compacted"]);
        (self.present || !map.is_empty()).then_some(Value::Object(map))
    }
}

impl ToolCallPart {
    /// Creates a call whose result is a separate part.
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
    /// Creates the result of the call `call_id`.
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
            times: Extra::default(),
        }
    }

    pub(super) fn write(&self, map: &mut Map<String, Value>) {
        let keys = &self.keys;
        map.insert("type".into(), keys.kind.as_str().into());
        if let Some(key) = keys.call {
            map.insert(key.into(), self.call_id.as_str().into());
        }
        put(map, keys.tool.unwrap_or("tool"), self.tool.as_deref().map(Value::from));
        // Text in another form stays unchanged among the other fields.
        if let Some(key) = keys.text {
            map.insert(key.into(), self.text.as_str().into());
        }
        put(map, keys.error.unwrap_or("isError"), self.is_error.map(Value::from));
        let mut times = Map::new();
        put(&mut times, "compacted", self.compacted.map(|at| at.0.into()));
        keep(&mut times, &self.times, &["compacted"]);
        put(map, "time", (!times.is_empty()).then_some(Value::Object(times)));
    }
}

impl Reader<'_> {
    pub(super) fn tool(&mut self) -> ToolPart {
        let (call_id, tool) = (self.string("callID"), self.string("tool"));
        let state = match self.map.get("state") {
            // An empty one stays among the other fields, so that it is written back.
            Some(Value::Object(state)) if state.is_empty() => None,
            Some(Value::Object(_)) => self.object("state", |_| true),
            Some(_) => {
                self.wrong("state", "an object");
                None
            }
            None => {
                self.notes.wrong(self.at.error("a tool part needs a `state`"));
                None
            }
        };
        let read = |state| ToolState::read(state, &At::Key(self.at, "state"), self.notes);
        let state = state.map_or_else(ToolState::unknown, read);
        ToolPart { call_id: call_id.unwrap_or_default(), tool: tool.unwrap_or_default(), state }
    }

    pub(super) fn call(&mut self, kind: &str) -> ToolCallPart {
        let (id, name) = if kind == "tool_use" { ("id", "name") } else { ("callID", "tool") };
        let (call_id, tool) = (self.name(id), self.string(name));
        let input = self.map.shift_remove("input").map(Input::from);
        ToolCallPart {
            call_id: call_id.unwrap_or_default(),
            tool: tool.unwrap_or_default(),
            input,
            kind: kind.into(),
        }
    }

    pub(super) fn result(&mut self, kind: &str) -> ToolResultPart {
        let (call_id, call) = self.named(&["callID", "tool_use_id", "tool_call_id", "toolUseId"]);
        let (tool, tool_key) = self.named(&["tool", "name"]);
        let (text, text_key) = self.string_of(&["text", "content", "output"]);
        let text = match text {
            Some(text) => Text::from(text),
            None => {
                let is_list = self.map.get("content").is_some_and(Value::is_array);
                let keys = ["text", "content", "output"].into_iter().filter(|_| !is_list);
                keys.for_each(|key| self.wrong(key, "a string"));
                Text::from(joined_content(self.map.get("content")))
            }
        };
        let error = ["isError", "is_error"].into_iter().find(|key| self.map.contains_key(*key));
        let is_error = error.and_then(|key| self.boolean(key));
        let (compacted, times) = self.mark_among_times();
        let keys = ResultKeys { kind: kind.into(), call, tool: tool_key, text: text_key, error };
        let call_id = call_id.unwrap_or_default();
        ToolResultPart { call_id, tool, text, is_error, compacted, keys, times: times.into() }
    }

    /// The name under the first of several keys that has one; all other present keys are wrong.
    fn named(&mut self, keys: &[&'static str]) -> (Option<String>, Option<&'static str>) {
        let found = self.string_of(keys);
        if found.0.is_none() {
            keys.iter().for_each(|key| self.wrong(key, "a string"));
        }
        found
    }

    /// The mark of a prune in the field `time`, and the other times in it. A `time` without the mark is not changed.
    fn mark_among_times(&mut self) -> (Option<Millis>, Map<String, Value>) {
        let Some(time) = self.object("time", |time| time.get("compacted").is_some()) else {
            return (None, Map::new());
        };
        let ToolTime { start, end, compacted, extra, .. } =
            ToolTime::read(time, &At::Key(self.at, "time"), self.notes);
        let mut times = Map::new();
        put(&mut times, "start", start.map(|at| at.0.into()));
        put(&mut times, "end", end.map(|at| at.0.into()));
        keep(&mut times, &extra, &[]);
        (compacted, times)
    }
}

/// The texts of content given as a list of blocks.
fn joined_content(content: Option<&Value>) -> String {
    let blocks = content.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let texts: Vec<&str> = blocks.iter().filter_map(|block| block.get("text")?.as_str()).collect();
    texts.join("\n")
}

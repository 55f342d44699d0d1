//! Parts: the pieces of a message.
//!
//! Only what the engine needs is typed. All other fields, and parts of unknown kinds, are kept and
//! written back unchanged.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::contract::ContractItem;
use super::extra::Extra;
use super::fields::{At, Notes, Reader, keep, put};
use super::ids::{MessageId, Millis, PartId};
use super::marks::{LogPosition, Mark};
use super::tool::{ToolCallPart, ToolPart, ToolResultPart, ToolState};
use crate::chars::Text;

/// Piece of a message.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// The id; empty if the source has none.
    pub id: PartId,
    /// The content.
    pub body: PartBody,
    /// Marks of reductions, oldest first.
    pub marks: Vec<Mark>,
    /// All other fields of the source.
    pub extra: Extra,
}

/// Content of a part, by kind.
#[derive(Clone, Debug, PartialEq)]
pub enum PartBody {
    /// Text.
    Text(TextPart),
    /// Reasoning.
    Reasoning(ReasoningPart),
    /// A tool call together with its result.
    Tool(ToolPart),
    /// A tool call without a result, which is a later [`ToolResultPart`].
    ToolCall(ToolCallPart),
    /// A tool result without its call.
    ToolResult(ToolResultPart),
    /// An attached file.
    File(FilePart),
    /// The marker of a compaction: the user message of a pivot.
    Compaction(CompactionPart),
    /// Any other kind, by its name; the name is empty if the source has none.
    Other(String),
    /// A value that is not an object, unchanged. The window does not show it.
    Bare(Value),
}

/// Text of the user or the model.
#[derive(Clone, Debug, PartialEq)]
pub struct TextPart {
    /// The text.
    pub text: Text,
    /// Whether the host wrote it, and not the user or the model.
    pub synthetic: Option<bool>,
    /// Whether it is shown to the user only, not to the model.
    pub ignored: Option<bool>,
}

/// Reasoning of the model before it answered.
#[derive(Clone, Debug, PartialEq)]
pub struct ReasoningPart {
    /// The reasoning, as far as the provider returns it.
    pub text: Text,
}

/// An attached file.
#[derive(Clone, Debug, PartialEq)]
pub struct FilePart {
    /// The media type.
    pub mime: Option<String>,
    /// The name.
    pub filename: Option<String>,
    /// The URL; may be a `data:` URL, which can be large.
    pub url: Option<Text>,
}

/// The marker of a compaction, with its figures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CompactionPart {
    /// Whether it was automatic, and not requested by the user.
    pub auto: Option<bool>,
    /// The first message of the tail, which stays in the window verbatim after the summary.
    pub tail_start: Option<MessageId>,
    /// Number of messages that the summary replaced.
    pub messages: Option<u64>,
    /// Tokens of those messages.
    pub tokens: Option<u64>,
    /// Whether the summary was made without a model.
    pub extractive: Option<bool>,
    /// The prompt that was being worked on, kept in the window between summary and tail.
    pub prompt: Option<MessageId>,
    /// Items for which the summary was checked. The next summary is checked for the instructions again.
    pub contract: Vec<ContractItem>,
    /// When this pivot was undone.
    pub set_aside: Option<LogPosition>,
    /// Summary text inside the marker, as in some imported logs.
    pub summary: Option<Text>,
}

impl Part {
    /// Creates a part.
    pub fn new(id: PartId, body: PartBody) -> Part {
        Part { id, body, marks: Vec::new(), extra: Extra::default() }
    }

    /// Creates a text part.
    pub fn text(id: PartId, text: impl Into<Text>) -> Part {
        let text = TextPart { text: text.into(), synthetic: None, ignored: None };
        Part::new(id, PartBody::Text(text))
    }

    /// Creates a tool call with a state.
    pub fn tool(id: PartId, call_id: impl Into<String>, tool: impl Into<String>, state: ToolState) -> Part {
        Part::new(id, PartBody::Tool(ToolPart { call_id: call_id.into(), tool: tool.into(), state }))
    }

    /// Returns the tool call, if the part is one.
    pub fn as_tool(&self) -> Option<&ToolPart> {
        match &self.body {
            PartBody::Tool(tool) => Some(tool),
            _ => None,
        }
    }

    /// Marks this text as a command that the user ran outside the conversation, with its output.
    pub fn set_user_command(&mut self, command: &str) {
        self.extra.insert("metadata".into(), json!({ "plimsoll": { "command": command } }));
    }

    /// Returns whether this is a command that the user ran outside the conversation, and not a message of the user.
    pub fn is_user_command(&self) -> bool {
        /// Claude Code's tags around a command typed after `!` and its output.
        const TAGS: [&str; 3] = ["<bash-input>", "<bash-stdout>", "<bash-stderr>"];
        let PartBody::Text(text) = &self.body else { return false };
        let is_flagged = || self.extra.get("metadata")?.get("plimsoll")?.get("command")?.as_str();
        is_flagged().is_some() || TAGS.iter().any(|tag| text.text.trim_start().starts_with(tag))
    }

    /// Returns the compaction marker, if the part is one.
    pub fn as_compaction(&self) -> Option<&CompactionPart> {
        match &self.body {
            PartBody::Compaction(marker) => Some(marker),
            _ => None,
        }
    }

    /// Reads a part from a value at `at`. Wrong values are kept and noted.
    pub fn read(value: Value, at: &At, notes: &mut Notes) -> Part {
        let mut map = match value {
            Value::Object(map) => map,
            other => {
                notes.wrong(at.expected("an object", &other));
                return Part::new(PartId::default(), PartBody::Bare(other));
            }
        };
        // The kind decides how the other fields are read, so it is read first, wherever it is.
        let kind = match map.get("type") {
            Some(Value::String(kind)) => kind.clone(),
            Some(_) => {
                notes.wrong(At::Key(at, "type").error("the kind of a part must be a string"));
                String::new()
            }
            None => {
                notes.wrong(at.error("a part needs a `type`"));
                String::new()
            }
        };
        let kind_is_use = kind == "tool_use";
        let mut reader = Reader { at, map: &mut map, notes };
        let body = match kind.as_str() {
            "text" => PartBody::Text(TextPart {
                text: reader.text("text").unwrap_or_default(),
                synthetic: reader.boolean("synthetic"),
                ignored: reader.boolean("ignored"),
            }),
            "reasoning" => {
                PartBody::Reasoning(ReasoningPart { text: reader.text("text").unwrap_or_default() })
            }
            "tool" => PartBody::Tool(reader.tool()),
            "tool_call" | "tool_use" => PartBody::ToolCall(reader.call(&kind)),
            "tool_result" => PartBody::ToolResult(reader.result(&kind)),
            "file" => PartBody::File(FilePart {
                mime: reader.string("mime"),
                filename: reader.string("filename"),
                url: reader.text("url"),
            }),
            "compaction" => PartBody::Compaction(reader.compaction()),
            _ => PartBody::Other(kind),
        };
        // In a `tool_use` it is the id of the call.
        let id = if kind_is_use { None } else { reader.name("id") };
        let id = PartId::new(id.unwrap_or_default());
        let marks = reader.marks();
        // An unknown kind keeps its `type` among the other fields: it may be missing altogether.
        if !matches!(body, PartBody::Other(_)) {
            map.shift_remove("type");
        }
        Part { id, body, marks, extra: map.into() }
    }

    /// Returns the part as JSON, as it is serialised.
    pub fn to_json(&self) -> Value {
        let mut map = Map::new();
        if !self.id.is_empty() {
            map.insert("id".into(), self.id.as_str().into());
        }
        match &self.body {
            PartBody::Text(text) => {
                map.insert("type".into(), "text".into());
                map.insert("text".into(), text.text.as_str().into());
                put(&mut map, "synthetic", text.synthetic.map(Value::from));
                put(&mut map, "ignored", text.ignored.map(Value::from));
            }
            PartBody::Reasoning(reasoning) => {
                map.insert("type".into(), "reasoning".into());
                map.insert("text".into(), reasoning.text.as_str().into());
            }
            PartBody::Tool(tool) => {
                map.insert("type".into(), "tool".into());
                map.insert("callID".into(), tool.call_id.as_str().into());
                map.insert("tool".into(), tool.tool.as_str().into());
                let state = tool.state.write();
                put(&mut map, "state", Some(state).filter(|state| *state != json!({})));
            }
            PartBody::ToolCall(call) => call.write(&mut map),
            PartBody::ToolResult(result) => result.write(&mut map),
            PartBody::File(file) => {
                map.insert("type".into(), "file".into());
                put(&mut map, "mime", file.mime.as_deref().map(Value::from));
                put(&mut map, "filename", file.filename.as_deref().map(Value::from));
                put(&mut map, "url", file.url.as_ref().map(|url| url.as_str().into()));
            }
            PartBody::Compaction(marker) => marker.write(&mut map),
            PartBody::Other(_) => {}
            PartBody::Bare(value) => return value.clone(),
        }
        put(&mut map, "plimsoll", self.write_marks());
        let marks: &[&str] = if self.as_compaction().is_some() { &["setAside"] } else { &[] };
        keep(&mut map, &self.extra, marks);
        Value::Object(map)
    }
}

impl CompactionPart {
    fn write(&self, map: &mut Map<String, Value>) {
        map.insert("type".into(), "compaction".into());
        put(map, "auto", self.auto.map(Value::from));
        put(map, "tail_start_id", self.tail_start.as_ref().map(|id| id.as_str().into()));
        put(map, "compactedMessages", self.messages.map(Value::from));
        put(map, "compactedTokens", self.tokens.map(Value::from));
        put(map, "extractive", self.extractive.map(Value::from));
        put(map, "promptID", self.prompt.as_ref().map(|id| id.as_str().into()));
        let contract = (!self.contract.is_empty()).then(|| json!(self.contract));
        put(map, "contract", contract);
        put(map, "setAside", self.set_aside.as_ref().map(|moment| moment.at.0.into()));
        let after = self.set_aside.as_ref().and_then(|moment| moment.after.as_ref());
        put(map, "setAsideAfter", after.map(|id| id.as_str().into()));
        put(map, "summary", self.summary.as_ref().map(|text| text.as_str().into()));
    }
}

impl Reader<'_> {
    fn compaction(&mut self) -> CompactionPart {
        CompactionPart {
            auto: self.boolean("auto"),
            tail_start: self.string("tail_start_id").map(MessageId::new),
            messages: self.whole("compactedMessages"),
            tokens: self.whole("compactedTokens"),
            extractive: self.boolean("extractive"),
            prompt: self.string("promptID").map(MessageId::new),
            set_aside: self.whole("setAside").map(|at| {
                let after = self.string("setAsideAfter").map(MessageId::new);
                LogPosition { at: Millis(at), after }
            }),
            contract: self.contract(),
            summary: self.text("summary"),
        }
    }

    /// Reads the contract if all of it is valid; otherwise it stays in `extra`.
    fn contract(&mut self) -> Vec<ContractItem> {
        let items = self.map.get("contract").cloned().map(serde_json::from_value::<Vec<ContractItem>>);
        match items {
            Some(Ok(items)) if !items.is_empty() => {
                self.map.shift_remove("contract");
                items
            }
            _ => Vec::new(),
        }
    }
}

impl Serialize for Part {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_json().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Part, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Ok(Part::read(value, &At::Root, &mut Notes::default()))
    }
}

//! Parts: the pieces a message is made of.
//!
//! Only what the engine needs is typed. Every other field, and every part of a kind not known here, is kept as
//! it came and written back as it came.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::fields::{At, Notes, Reader, ShapeError, keep, put};
use super::ids::{MessageId, Millis, PartId};
use super::tool::{ToolCallPart, ToolPart, ToolResultPart, ToolState};
use crate::chars::{Chars, Text};

/// One piece of a message.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Names the part; empty where the source gave none.
    pub id: PartId,
    /// What it is.
    pub body: PartBody,
    /// Mark of the last rung of the ladder: the window shows only this much of the part.
    pub cut: Option<Cut>,
    /// When a mark was last lifted from the part; figures of windows from before no longer hold.
    pub lifted: Option<Millis>,
    /// Everything else the source wrote.
    pub extra: Map<String, Value>,
}

/// The kinds of parts the engine looks into.
#[derive(Clone, Debug, PartialEq)]
pub enum PartBody {
    /// What was said.
    Text(TextPart),
    /// What was thought.
    Reasoning(ReasoningPart),
    /// A tool call together with its result.
    Tool(ToolPart),
    /// A tool call alone; its result is a [`ToolResultPart`] further on.
    ToolCall(ToolCallPart),
    /// A tool result alone.
    ToolResult(ToolResultPart),
    /// An attached file.
    File(FilePart),
    /// The marker of a compaction: the user's half of a pivot.
    Compaction(CompactionPart),
    /// Any other kind, by its name; the name is empty where the source gave none.
    Other(String),
    /// No object at all, as it came. No model is shown it.
    Bare(Value),
}

/// What was said, by the user or the model.
#[derive(Clone, Debug, PartialEq)]
pub struct TextPart {
    /// The words.
    pub text: Text,
    /// Written by the host rather than by a person or a model.
    pub synthetic: Option<bool>,
    /// Shown to people, not to the model.
    pub ignored: Option<bool>,
}

/// What the model thought before it answered.
#[derive(Clone, Debug, PartialEq)]
pub struct ReasoningPart {
    /// The thoughts, as far as the provider shows them.
    pub text: Text,
}

/// A file shown to the model.
#[derive(Clone, Debug, PartialEq)]
pub struct FilePart {
    /// Its media type.
    pub mime: Option<String>,
    /// Its name.
    pub filename: Option<String>,
    /// Where it is; may be a `data:` address, which can be large.
    pub url: Option<Text>,
}

/// The marker of a compaction, with what there is to say about it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CompactionPart {
    /// Whether the engine decided on it rather than a person.
    pub auto: Option<bool>,
    /// The first message that stays in the window word for word behind the summary.
    pub tail_start: Option<MessageId>,
    /// How many messages the summary replaced.
    pub messages: Option<u64>,
    /// How many tokens they took.
    pub tokens: Option<u64>,
    /// The summary was made without a model.
    pub extractive: Option<bool>,
    /// The mark of an undo: since when this pivot no longer counts.
    pub set_aside: Option<Millis>,
    /// Summary text inside the marker itself, as some imported logs have it.
    pub summary: Option<Text>,
}

/// The mark that cuts a part in the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// How many chars the window shows of each long text in the part.
    pub keep: Chars,
    /// When it was decided.
    pub at: Millis,
}

impl Cut {
    /// Less than this leaves no room for the marker that tells of the cut.
    pub const LEAST: Chars = Chars(100);

    /// What is shown, also where a mark from outside asks for less than can be.
    pub(crate) fn keep(self) -> Chars {
        self.keep.max(Cut::LEAST)
    }
}

impl Part {
    /// A part with nothing but an identifier and a body.
    pub fn new(id: PartId, body: PartBody) -> Part {
        Part { id, body, cut: None, lifted: None, extra: Map::new() }
    }

    /// A piece of text.
    pub fn text(id: PartId, text: impl Into<Text>) -> Part {
        let text = TextPart { text: text.into(), synthetic: None, ignored: None };
        Part::new(id, PartBody::Text(text))
    }

    /// A tool call in some state.
    pub fn tool(id: PartId, call_id: impl Into<String>, tool: impl Into<String>, state: ToolState) -> Part {
        Part::new(id, PartBody::Tool(ToolPart { call_id: call_id.into(), tool: tool.into(), state }))
    }

    /// The tool call in this part, if it is one.
    pub fn as_tool(&self) -> Option<&ToolPart> {
        match &self.body {
            PartBody::Tool(tool) => Some(tool),
            _ => None,
        }
    }

    /// The compaction marker in this part, if it is one.
    pub fn as_compaction(&self) -> Option<&CompactionPart> {
        match &self.body {
            PartBody::Compaction(marker) => Some(marker),
            _ => None,
        }
    }

    /// Since when the window shows a placeholder instead of this part's result.
    pub fn cleared(&self) -> Option<Millis> {
        match &self.body {
            PartBody::Tool(tool) => tool.state.time.compacted,
            PartBody::ToolResult(result) => result.compacted,
            _ => None,
        }
    }

    /// Set or lift the mark of a prune. Only tool results can be cleared; for others it says no.
    pub(crate) fn set_cleared(&mut self, mark: Option<Millis>) -> bool {
        match &mut self.body {
            PartBody::Tool(tool) => tool.state.time.compacted = mark,
            PartBody::ToolResult(result) => result.compacted = mark,
            _ => return false,
        }
        true
    }

    /// Read a part from a value that stands at `at`; what is not as it should be is kept and noted.
    pub fn read(value: Value, at: &At, notes: &mut Notes) -> Part {
        let mut map = match value {
            Value::Object(map) => map,
            other => {
                notes.wrong(at.expected("an object", &other));
                return Part::new(PartId::default(), PartBody::Bare(other));
            }
        };
        // The kind decides how the other fields are read, so it is looked at first wherever it stands.
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
        // Of a `tool_use` it names the call.
        let id = if kind_is_use { None } else { reader.name("id") };
        let id = PartId::new(id.unwrap_or_default());
        let (cut, lifted) = reader.marks().unwrap_or_else(|wrong| {
            reader.notes.wrong(wrong);
            Default::default()
        });
        // An unknown kind keeps its `type` among the other fields: it may be missing altogether.
        if !matches!(body, PartBody::Other(_)) {
            map.shift_remove("type");
        }
        Part { id, body, cut, lifted, extra: map }
    }

    pub(crate) fn write(&self) -> Value {
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
        let mut marks = Map::new();
        put(&mut marks, "cut", self.cut.map(|cut| json!({ "keep": cut.keep.0, "at": cut.at.0 })));
        put(&mut marks, "lifted", self.lifted.map(|at| at.0.into()));
        if !marks.is_empty() {
            map.insert("plimsoll".into(), Value::Object(marks));
        }
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
        put(map, "setAside", self.set_aside.map(|at| at.0.into()));
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
            set_aside: self.whole("setAside").map(Millis),
            summary: self.text("summary"),
        }
    }

    /// Our own marks. A field of that name in which there is none of them is somebody else's and stays.
    fn marks(&mut self) -> Result<(Option<Cut>, Option<Millis>), ShapeError> {
        let ours = self.map.get("plimsoll").cloned().unwrap_or_default();
        let at = &At::Key(self.at, "plimsoll");
        let cut = match ours.get("cut") {
            Some(cut) => {
                let at = &At::Key(at, "cut");
                let number = |key: &str| At::Key(at, key).whole(cut.get(key).unwrap_or(&Value::Null));
                Some(Cut { keep: Chars(number("keep")?), at: Millis(number("at")?) })
            }
            None => None,
        };
        let lifted = match ours.get("lifted") {
            Some(lifted) => Some(Millis(At::Key(at, "lifted").whole(lifted)?)),
            None => None,
        };
        if cut.is_some() || lifted.is_some() {
            self.map.shift_remove("plimsoll");
        }
        Ok((cut, lifted))
    }
}

impl Serialize for Part {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.write().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Part, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Ok(Part::read(value, &At::Root, &mut Notes::default()))
    }
}

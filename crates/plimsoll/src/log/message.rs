//! Messages, in OpenCode's shape: `{ "info": { … }, "parts": [ … ] }`.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Number, Value, json};

use super::fields::{At, ShapeError};
use super::ids::{MessageId, Millis, PartId, SessionId};
use super::part::{CompactionPart, Part, PartBody};
use crate::chars::Text;
use crate::count::Tokens;

/// One message of a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message {
    /// Who said it, when, under which circumstances.
    pub info: Info,
    /// What was said and done.
    pub parts: Vec<Part>,
    /// Fields beside `info` and `parts`.
    pub extra: Map<String, Value>,
}

/// Everything about a message but its content.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Info {
    /// Names the message; empty where the source gave none.
    pub id: MessageId,
    /// The session it belongs to.
    pub session_id: Option<SessionId>,
    /// Who speaks; nothing where the source does not say.
    pub role: Option<Role>,
    /// When it was begun and finished. Imported messages may have no times at all.
    pub time: Option<Time>,
    /// The message it answers.
    pub parent_id: Option<MessageId>,
    /// The agent at work.
    pub agent: Option<String>,
    /// The agent's mode; `compaction` for summaries.
    pub mode: Option<String>,
    /// The model that spoke, as `modelID` of an assistant message.
    pub model_id: Option<String>,
    /// Whether this is a summary that can take the place of older messages.
    pub summary: bool,
    /// Why the model stopped; nothing while it speaks.
    pub finish: Option<String>,
    /// What went wrong.
    pub error: Option<Value>,
    /// What the provider charged for it.
    pub tokens: Option<Usage>,
    /// What it cost.
    pub cost: Option<Number>,
    /// Everything else the source wrote.
    pub extra: Map<String, Value>,
}

/// Who speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// The person, or whoever stands in for one.
    User,
    /// The model.
    Assistant,
    /// The host.
    System,
    /// A role not known here.
    Other(String),
}

/// When a message was begun and finished.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Time {
    /// Begun.
    pub created: Option<Millis>,
    /// Finished.
    pub completed: Option<Millis>,
    /// Everything else the source wrote.
    pub extra: Map<String, Value>,
}

/// The tokens of one model call, as the provider reported them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    /// The provider's own sum, where there is one.
    pub total: Option<Tokens>,
    /// Input that was neither read from nor written to the cache.
    pub input: Tokens,
    /// Answer without reasoning.
    pub output: Tokens,
    /// Reasoning.
    pub reasoning: Tokens,
    /// Input read from the prompt cache.
    pub cache_read: Tokens,
    /// Input written to the prompt cache.
    pub cache_write: Tokens,
    keys: UsageKeys,
    extra: Map<String, Value>,
}

/// Which of the optional fields were there, so that they are written back and no others.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct UsageKeys {
    reasoning: bool,
    cache: bool,
}

impl Message {
    /// A user's message with one text.
    pub fn user(id: MessageId, part: PartId, text: impl Into<Text>) -> Message {
        let info = Info { id, role: Some(Role::User), ..Info::default() };
        Message { info, parts: vec![Part::text(part, text)], extra: Map::new() }
    }

    /// A finished answer of the model, made of `parts`.
    pub fn assistant(id: MessageId, parts: Vec<Part>) -> Message {
        let info = Info { id, role: Some(Role::Assistant), finish: Some("stop".into()), ..Info::default() };
        Message { info, parts, extra: Map::new() }
    }

    /// The same message, begun at `created`.
    pub fn at(mut self, created: Millis) -> Message {
        self.info.time.get_or_insert_default().created = Some(created);
        self
    }

    /// Whether a user speaks.
    pub fn is_user(&self) -> bool {
        self.info.role == Some(Role::User)
    }

    /// Whether the model speaks.
    pub fn is_assistant(&self) -> bool {
        self.info.role == Some(Role::Assistant)
    }

    /// The compaction marker, if this message carries one.
    pub fn marker(&self) -> Option<&CompactionPart> {
        self.parts.iter().find_map(Part::as_compaction)
    }

    /// Whether the user speaks, rather than a message that brings back tool results. Hosts add reminders to
    /// those, so a text beside a result makes no turn.
    pub fn is_turn(&self) -> bool {
        let is_result = |part: &Part| matches!(part.body, PartBody::ToolResult(_));
        self.is_user() && !self.parts.iter().any(is_result) && !self.is_left_out()
    }

    /// Whether reductions or their undoing took the whole message out of view: all its parts are hidden, or it is
    /// the marker of a compaction that was undone.
    fn is_left_out(&self) -> bool {
        let hidden = !self.parts.is_empty() && self.parts.iter().all(Part::is_hidden);
        hidden || self.marker().is_some_and(|marker| marker.set_aside.is_some())
    }

    /// Whether a person asks for something here: a turn starts, and not by a host's word to go on.
    pub fn is_prompt(&self) -> bool {
        self.starts_turn() && !self.is_continue()
    }

    /// Whether more may still come: the answer is being written, or a call waits for its result.
    pub fn is_open(&self) -> bool {
        let waits = |part: &Part| part.as_tool().is_some_and(|tool| !tool.state.status.is_final());
        let info = &self.info;
        let unfinished = info.finish.is_none() && info.error.is_none() && info.time.is_some();
        self.is_assistant() && (unfinished || self.parts.iter().any(waits))
    }

    /// Whether this is the word to go on that a host adds after an automatic compaction.
    pub fn is_continue(&self) -> bool {
        let is_flagged = |part: &Part| part.extra.get("metadata")?.get("compaction_continue")?.as_bool();
        self.is_user() && self.parts.iter().any(|part| is_flagged(part) == Some(true))
    }

    /// Whether a person's turn starts here: the user speaks, and it is no compaction marker.
    pub fn starts_turn(&self) -> bool {
        self.is_turn() && self.marker().is_none()
    }

    /// All its visible text, joined by newlines.
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self
            .parts
            .iter()
            .filter_map(|part| match &part.body {
                PartBody::Text(text) if text.ignored != Some(true) => Some(text.text.as_str()),
                _ => None,
            })
            .collect();
        texts.join("\n")
    }

    /// Whether this is a summary that was written to its end: `summary`, finished, without error, with words.
    ///
    /// Imported messages that carry no times at all say nothing about finishing and count as finished; a
    /// message being written always has a time.
    pub fn is_finished_summary(&self) -> bool {
        let finished = match &self.info.finish {
            Some(reason) => reason != "error",
            None => self.info.time.is_none(),
        };
        self.is_assistant()
            && self.info.summary
            && self.info.error.is_none()
            && finished
            && self.parts.iter().any(|part| match &part.body {
                PartBody::Text(text) => !text.text.trim().is_empty(),
                _ => false,
            })
    }

    /// The names of other messages in this one.
    pub(super) fn references(&mut self) -> impl Iterator<Item = &mut MessageId> {
        let markers = self.parts.iter_mut().filter_map(|part| match &mut part.body {
            PartBody::Compaction(marker) => {
                Some(marker.tail_start.as_mut().into_iter().chain(&mut marker.prompt))
            }
            _ => None,
        });
        self.info.parent_id.as_mut().into_iter().chain(markers.flatten())
    }

    /// Read messages from a JSON array, or from an object that has one under `messages` (an export).
    pub fn read_all(json: &str) -> Result<Vec<Message>, ReadError> {
        let value: Value = serde_json::from_str(json)?;
        let list = match value {
            Value::Object(mut export) if export.contains_key("messages") => {
                export.remove("messages").unwrap_or_default()
            }
            other => other,
        };
        let items = At::Root.array(list)?;
        let read = |(index, item)| Message::read(item, &At::Index(&At::Root, index));
        Ok(items.into_iter().enumerate().map(read).collect::<Result<_, _>>()?)
    }

    pub(crate) fn read(value: Value, at: &At) -> Result<Message, ShapeError> {
        let mut message = Message::default();
        for (key, value) in at.object(value)? {
            let at = &At::Key(at, &key);
            match key.as_str() {
                "info" => message.info = Info::read(value, at)?,
                "parts" => {
                    let parts = at.array(value)?.into_iter().enumerate();
                    let parts = parts.map(|(index, part)| Part::read(part, &At::Index(at, index)));
                    message.parts = parts.collect::<Result<_, _>>()?;
                }
                _ => {
                    message.extra.insert(key, value);
                }
            }
        }
        Ok(message)
    }
}

/// Why a list of messages could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It is not JSON.
    #[error("not valid JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// It is JSON of another shape.
    #[error("not a list of messages: {0}")]
    Shape(#[from] ShapeError),
}

impl Info {
    fn read(value: Value, at: &At) -> Result<Info, ShapeError> {
        let mut info = Info::default();
        for (key, value) in at.object(value)? {
            let at = &At::Key(at, &key);
            match key.as_str() {
                "id" => info.id = MessageId::new(at.string(value)?),
                "sessionID" => info.session_id = Some(SessionId::new(at.string(value)?)),
                "role" => info.role = Some(Role::read(at.string(value)?)),
                "time" => info.time = Some(Time::read(value, at)?),
                "parentID" => info.parent_id = Some(MessageId::new(at.string(value)?)),
                "agent" => info.agent = Some(at.string(value)?),
                "mode" => info.mode = Some(at.string(value)?),
                "modelID" => info.model_id = Some(at.string(value)?),
                "finish" => info.finish = Some(at.string(value)?),
                "tokens" => info.tokens = Some(Usage::read(value, at)?),
                "cost" => info.cost = Some(at.number(value)?),
                "error" if !value.is_null() => info.error = Some(value),
                // On a user's message `summary` is an object about file changes, which means something else.
                "summary" if value == Value::Bool(true) => info.summary = true,
                _ => {
                    info.extra.insert(key, value);
                }
            }
        }
        Ok(info)
    }

    fn write(&self) -> Value {
        let mut map = Map::new();
        let mut put = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                map.insert(key.into(), value);
            }
        };
        put("id", (!self.id.is_empty()).then(|| self.id.as_str().into()));
        put("sessionID", self.session_id.as_ref().map(|id| id.as_str().into()));
        put("role", self.role.as_ref().map(|role| role.name().into()));
        put("time", self.time.as_ref().map(Time::write));
        put("parentID", self.parent_id.as_ref().map(|id| id.as_str().into()));
        put("modelID", self.model_id.as_deref().map(Value::from));
        put("mode", self.mode.as_deref().map(Value::from));
        put("agent", self.agent.as_deref().map(Value::from));
        put("summary", self.summary.then_some(Value::Bool(true)));
        put("cost", self.cost.clone().map(Value::Number));
        put("tokens", self.tokens.as_ref().map(Usage::write));
        put("finish", self.finish.as_deref().map(Value::from));
        put("error", self.error.clone());
        map.extend(self.extra.clone());
        Value::Object(map)
    }
}

impl Role {
    fn read(role: String) -> Role {
        match role.as_str() {
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "system" => Role::System,
            _ => Role::Other(role),
        }
    }

    /// The role's name, as it is written in JSON.
    pub fn name(&self) -> &str {
        match self {
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::System => "system",
            Role::Other(name) => name,
        }
    }
}

impl Time {
    fn read(value: Value, at: &At) -> Result<Time, ShapeError> {
        let mut time = Time::default();
        for (key, value) in at.object(value)? {
            let at = &At::Key(at, &key);
            match key.as_str() {
                "created" => time.created = Some(Millis(at.whole(&value)?)),
                "completed" => time.completed = Some(Millis(at.whole(&value)?)),
                _ => {
                    time.extra.insert(key, value);
                }
            }
        }
        Ok(time)
    }

    fn write(&self) -> Value {
        let mut map = Map::new();
        if let Some(created) = self.created {
            map.insert("created".into(), created.0.into());
        }
        if let Some(completed) = self.completed {
            map.insert("completed".into(), completed.0.into());
        }
        map.extend(self.extra.clone());
        Value::Object(map)
    }
}

impl Usage {
    /// The usage of a call without cache and reasoning.
    pub fn new(input: Tokens, output: Tokens) -> Usage {
        Usage { input, output, ..Usage::default() }
    }

    fn read(value: Value, at: &At) -> Result<Usage, ShapeError> {
        let mut usage = Usage::default();
        for (key, value) in at.object(value)? {
            let at = &At::Key(at, &key);
            match key.as_str() {
                "total" => usage.total = Some(Tokens(at.whole(&value)?)),
                "input" => usage.input = Tokens(at.whole(&value)?),
                "output" => usage.output = Tokens(at.whole(&value)?),
                "reasoning" => {
                    usage.reasoning = Tokens(at.whole(&value)?);
                    usage.keys.reasoning = true;
                }
                "cache" => {
                    let cache = at.object(value)?;
                    let part = |name: &str| match cache.get(name) {
                        Some(number) => At::Key(at, name).whole(number).map(Tokens),
                        None => Ok(Tokens::ZERO),
                    };
                    (usage.cache_read, usage.cache_write) = (part("read")?, part("write")?);
                    usage.keys.cache = true;
                }
                _ => {
                    usage.extra.insert(key, value);
                }
            }
        }
        Ok(usage)
    }

    fn write(&self) -> Value {
        let mut map = Map::new();
        if let Some(total) = self.total {
            map.insert("total".into(), total.0.into());
        }
        map.insert("input".into(), self.input.0.into());
        map.insert("output".into(), self.output.0.into());
        if self.keys.reasoning || self.reasoning > Tokens::ZERO {
            map.insert("reasoning".into(), self.reasoning.0.into());
        }
        if self.keys.cache || self.cache_read + self.cache_write > Tokens::ZERO {
            let cache = json!({ "read": self.cache_read.0, "write": self.cache_write.0 });
            map.insert("cache".into(), cache);
        }
        map.extend(self.extra.clone());
        Value::Object(map)
    }
}

impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let parts: Vec<Value> = self.parts.iter().map(Part::write).collect();
        let mut map = Map::new();
        map.insert("info".into(), self.info.write());
        map.insert("parts".into(), Value::Array(parts));
        map.extend(self.extra.clone());
        map.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Message, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Message::read(value, &At::Root).map_err(serde::de::Error::custom)
    }
}

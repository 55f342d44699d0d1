//! Messages, in OpenCode's shape: `{ "info": { … }, "parts": [ … ] }`.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Number, Value, json};

use super::extra::Extra;
use super::fields::{
    At, Notes, ShapeError, array, keep, name, number, object, put, set_apart, string, whole,
};
use super::ids::{MessageId, Millis, PartId, SessionId};
use super::part::{CompactionPart, Part, PartBody};
use super::shared::Shared;
use crate::chars::Text;
use crate::tokens::Tokens;

/// Message of a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message {
    /// Metadata: role, times, model, usage.
    pub info: Shared<Info>,
    /// The content.
    pub parts: Shared<Vec<Part>>,
    /// Fields other than `info` and `parts`.
    pub extra: Extra,
}

/// Metadata of a message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Info {
    /// The id; empty if the source has none.
    pub id: MessageId,
    /// The session it belongs to.
    pub session_id: Option<SessionId>,
    /// The role; `None` if the source has none.
    pub role: Option<Role>,
    /// When it began and finished. Imported messages may have no times.
    pub time: Option<Time>,
    /// The message it answers.
    pub parent_id: Option<MessageId>,
    /// The agent's name.
    pub agent: Option<String>,
    /// The agent's mode; `compaction` for summaries.
    pub mode: Option<String>,
    /// The model that answered, as `modelID` of an assistant message.
    pub model_id: Option<String>,
    /// Whether this is a summary that can take the place of older messages.
    pub summary: bool,
    /// Why the model stopped; `None` while it answers.
    pub finish: Option<String>,
    /// The error of a failed answer.
    pub error: Option<Value>,
    /// Usage reported by the provider.
    pub tokens: Option<Usage>,
    /// The cost.
    pub cost: Option<Number>,
    /// All other fields of the source.
    pub extra: Extra,
}

/// Role of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// The user, or a program in the user's role.
    User,
    /// The model.
    Assistant,
    /// The host.
    System,
    /// An unknown role.
    Other(String),
}

/// When a message began and finished.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Time {
    /// Start.
    pub created: Option<Millis>,
    /// End.
    pub completed: Option<Millis>,
    /// All other fields of the source.
    pub extra: Extra,
}

/// The tokens of one model call, as the provider reported them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    /// The provider's own total, if it reports one.
    pub total: Option<Tokens>,
    /// Input that was neither read from nor written to the cache.
    pub input: Tokens,
    /// Output without reasoning.
    pub output: Tokens,
    /// Reasoning.
    pub reasoning: Tokens,
    /// Input read from the prompt cache.
    pub cache_read: Tokens,
    /// Input written to the prompt cache.
    pub cache_write: Tokens,
    /// The part of `cache_write` that is cached for an hour, at a higher price, instead of a few minutes.
    pub cache_write_hour: Tokens,
    keys: UsageKeys,
    extra: Extra,
}

/// The usage of two calls together. A total that only one of them reports is dropped.
impl std::ops::Add for Usage {
    type Output = Usage;

    fn add(self, other: Usage) -> Usage {
        Usage {
            total: self.total.zip(other.total).map(|(one, two)| one + two),
            input: self.input + other.input,
            output: self.output + other.output,
            reasoning: self.reasoning + other.reasoning,
            cache_read: self.cache_read + other.cache_read,
            cache_write: self.cache_write + other.cache_write,
            cache_write_hour: self.cache_write_hour + other.cache_write_hour,
            keys: UsageKeys {
                reasoning: self.keys.reasoning || other.keys.reasoning,
                cache: self.keys.cache || other.keys.cache,
            },
            extra: Extra::default(),
        }
    }
}

/// Which optional fields were present, so that exactly those are written back.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct UsageKeys {
    reasoning: bool,
    cache: bool,
}

impl Message {
    /// Creates a user message with one text.
    pub fn user(id: MessageId, part: PartId, text: impl Into<Text>) -> Message {
        let info = Info { id, role: Some(Role::User), ..Info::default() };
        Message { info: info.into(), parts: vec![Part::text(part, text)].into(), extra: Extra::default() }
    }

    /// Creates the request to continue that a host adds after an automatic compaction or an interrupted turn. It is not the
    /// user's own message; see [`is_continue`](Message::is_continue).
    pub fn continuation(id: MessageId, part: PartId, text: &str) -> Message {
        let mut message = Message::user(id, part, text);
        for part in &mut message.parts {
            if let PartBody::Text(text) = &mut part.body {
                text.synthetic = Some(true);
            }
            part.extra.insert("metadata".into(), json!({ "compaction_continue": true }));
        }
        message
    }

    /// Creates a notice of the host to the model about something outside the conversation, such as files that the
    /// user reverted. It does not start a turn; see [`is_notice`](Message::is_notice).
    pub fn notice(id: MessageId, part: PartId, text: impl Into<Text>) -> Message {
        let mut message = Message::user(id, part, text);
        for part in &mut message.parts {
            if let PartBody::Text(text) = &mut part.body {
                text.synthetic = Some(true);
            }
            part.extra.insert("metadata".into(), json!({ "plimsoll": { "notice": true } }));
        }
        message
    }

    /// Creates a finished answer of the model.
    pub fn assistant(id: MessageId, parts: Vec<Part>) -> Message {
        let info = Info { id, role: Some(Role::Assistant), finish: Some("stop".into()), ..Info::default() };
        Message { info: info.into(), parts: parts.into(), extra: Extra::default() }
    }

    /// Creates an answer of the model that begins `now`. It is filled by [`Log::append_part`](super::Log::append_part) and
    /// [`Log::extend`](super::Log::extend) and ended by [`Log::record`](super::Log::record).
    pub fn begun(id: MessageId, now: Millis) -> Message {
        let info = Info { id, role: Some(Role::Assistant), ..Info::default() };
        Message { info: info.into(), ..Message::default() }.at(now)
    }

    /// Marks the answer as requested by this host, with its own system prompt and tools.
    pub fn asked_here(mut self) -> Message {
        let metadata = self.info.extra.entry("metadata").or_insert_with(|| json!({}));
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("plimsoll".to_owned(), json!({ "asked": true }));
        }
        self
    }

    /// Returns whether this host requested the answer. Imported messages have no such mark.
    pub fn is_asked_here(&self) -> bool {
        let metadata = self.info.extra.get("metadata");
        metadata.is_some_and(|metadata| metadata["plimsoll"]["asked"] == true)
    }

    /// Sets the time at which the message began.
    pub fn at(mut self, created: Millis) -> Message {
        self.info.time.get_or_insert_default().created = Some(created);
        self
    }

    /// Returns whether the role is `user`.
    pub fn is_user(&self) -> bool {
        self.info.role == Some(Role::User)
    }

    /// Returns whether the role is `assistant`.
    pub fn is_assistant(&self) -> bool {
        self.info.role == Some(Role::Assistant)
    }

    /// Returns whether the message ended, successfully or not: no parts are added and no text grows. Calls that are
    /// still open may be answered, because tools run after the model stopped.
    pub fn is_finished(&self) -> bool {
        self.info.finish.is_some() || self.info.error.is_some()
    }

    /// Returns the compaction marker, if the message has one.
    pub fn marker(&self) -> Option<&CompactionPart> {
        self.parts.iter().find_map(Part::as_compaction)
    }

    /// Returns whether this is a message of the user and not one that carries tool results. Hosts add reminders to
    /// those, so a text next to a result does not start a turn.
    pub fn is_turn(&self) -> bool {
        self.is_spoken_by_user() && !self.is_left_out()
    }

    fn is_spoken_by_user(&self) -> bool {
        let is_result = |part: &Part| matches!(part.body, PartBody::ToolResult(_));
        self.is_user() && !self.parts.iter().any(is_result)
    }

    /// Returns whether the whole message is out of view: all its parts are hidden, or it is
    /// the marker of a compaction that was undone.
    fn is_left_out(&self) -> bool {
        let hidden = !self.parts.is_empty() && self.parts.iter().all(Part::is_hidden);
        hidden || self.marker().is_some_and(|marker| marker.set_aside.is_some())
    }

    /// Returns whether this is a prompt of the user: it starts a turn and is not a host's request to continue.
    pub fn is_prompt(&self) -> bool {
        self.is_question() && !self.is_left_out()
    }

    /// Like [`Message::is_prompt`], also for hidden messages: which question an answer
    /// belongs to does not depend on what the window shows.
    pub fn is_question(&self) -> bool {
        self.is_spoken_by_user() && self.marker().is_none() && !self.is_continue() && !self.is_notice()
    }

    /// Returns whether the message can still change: the answer is being written, or a call has no result yet.
    pub fn is_open(&self) -> bool {
        let waits = |part: &Part| part.as_tool().is_some_and(|tool| !tool.state.status.is_final());
        let info = &self.info;
        let unfinished = info.finish.is_none() && info.error.is_none() && info.time.is_some();
        self.is_assistant() && (unfinished || self.parts.iter().any(waits))
    }

    /// Returns whether this is a host's request to continue.
    pub fn is_continue(&self) -> bool {
        let is_flagged = |part: &Part| part.extra.get("metadata")?.get("compaction_continue")?.as_bool();
        self.is_user() && self.parts.iter().any(|part| is_flagged(part) == Some(true))
    }

    /// Returns whether this is a notice of the host about something outside the conversation.
    pub fn is_notice(&self) -> bool {
        let is_flagged = |part: &Part| part.extra.get("metadata")?.get("plimsoll")?.get("notice")?.as_bool();
        self.is_user() && self.parts.iter().any(|part| is_flagged(part) == Some(true))
    }

    /// Returns whether a turn of the user starts here: a user message that is not a compaction marker.
    pub fn starts_turn(&self) -> bool {
        self.is_turn() && self.marker().is_none()
    }

    /// Returns the visible text, joined by newlines.
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

    /// Returns whether this is a complete summary: `summary` is set, it is finished, has no error and is not empty.
    ///
    /// Imported messages without any times count as finished; a
    /// message that is being written always has a time.
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

    /// Returns the ids of other messages that this one refers to.
    pub(super) fn references(&mut self) -> impl Iterator<Item = &mut MessageId> {
        let markers = self.parts.iter_mut().filter_map(|part| match &mut part.body {
            PartBody::Compaction(marker) => {
                Some(marker.tail_start.as_mut().into_iter().chain(&mut marker.prompt))
            }
            _ => None,
        });
        self.info.parent_id.as_mut().into_iter().chain(markers.flatten())
    }

    /// Reads messages from a JSON array, or from an object with one under `messages` (an export).
    ///
    /// Reading is lenient: a field with a wrong value is empty, and the value
    /// stays in `extra` and is written back. [`read_noted`](Message::read_noted) reports such values,
    /// [`read_strict`](Message::read_strict) rejects them.
    ///
    /// ```
    /// use plimsoll::{Message, Millis};
    /// let json = r#"[{"info":{"role":"user","finish":null,"time":{"created":7.25}},"parts":[]}]"#;
    /// let (messages, notes) = Message::read_noted(json)?;
    /// assert_eq!(messages[0].info.time.as_ref().unwrap().created, Some(Millis(7)));
    /// assert_eq!(serde_json::to_string(&messages)?.len(), json.len()); // null and 7.25 are written back
    /// assert_eq!(
    ///     notes.first()[1].to_string(),
    ///     "[0].info.time.created: expected a whole number of zero or more, found 7.25; kept unchanged"
    /// );
    /// assert!(Message::read_strict(json).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_all(json: &str) -> Result<Vec<Message>, ReadError> {
        Message::read_noted(json).map(|(messages, _)| messages)
    }

    /// Like [`read_all`](Message::read_all), with a note for every wrong value.
    ///
    /// Returns an error if the text is not JSON, not a list of messages, or has a message that is not an object.
    pub fn read_noted(json: &str) -> Result<(Vec<Message>, Notes), ReadError> {
        let value: Value = serde_json::from_str(json)?;
        let list = match value {
            Value::Object(mut export) if export.contains_key("messages") => {
                export.remove("messages").unwrap_or_default()
            }
            other => other,
        };
        let items = At::Root.array(list)?;
        let mut notes = Notes::default();
        let mut messages = Vec::with_capacity(items.len());
        for (index, item) in items.into_iter().enumerate() {
            messages.push(Message::read(item, &At::Index(&At::Root, index), &mut notes)?);
        }
        Ok((messages, notes))
    }

    /// Like [`read_all`](Message::read_all), but returns an error for the first wrong value.
    pub fn read_strict(json: &str) -> Result<Vec<Message>, ReadError> {
        let (messages, notes) = Message::read_noted(json)?;
        notes.refuse()?;
        Ok(messages)
    }

    /// Reads a message from a value at `at`. Wrong values are kept and noted. A value that
    /// is not an object is an error.
    pub fn read(value: Value, at: &At, notes: &mut Notes) -> Result<Message, ShapeError> {
        let mut message = Message::default();
        for (key, value) in at.object(value)? {
            let at = &At::Key(at, &key);
            let read = match key.as_str() {
                "info" => object(value).map(|info| message.info = Info::read(info, at, notes).into()),
                "parts" => array(value).map(|parts| {
                    let parts = parts.into_iter().enumerate();
                    let parts = parts.map(|(index, part)| Part::read(part, &At::Index(at, index), notes));
                    message.parts = parts.collect();
                }),
                _ => {
                    message.extra.insert(key, value);
                    continue;
                }
            };
            set_apart(read, &key, at, &mut message.extra, notes);
        }
        Ok(message)
    }
}

/// Error while reading a list of messages.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// Not JSON.
    #[error("not valid JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// JSON of another shape.
    #[error("not a list of messages: {0}")]
    Shape(#[from] ShapeError),
}

impl Info {
    fn read(map: Map<String, Value>, at: &At, notes: &mut Notes) -> Info {
        let mut info = Info::default();
        for (key, value) in map {
            let at = &At::Key(at, &key);
            let read = match key.as_str() {
                "id" => name(value).map(|id| info.id = MessageId::new(id)),
                "sessionID" => string(value).map(|id| info.session_id = Some(SessionId::new(id))),
                "role" => string(value).map(|role| info.role = Some(Role::read(role))),
                "time" => object(value).map(|time| info.time = Some(Time::read(time, at, notes))),
                "parentID" => string(value).map(|id| info.parent_id = Some(MessageId::new(id))),
                "agent" => string(value).map(|agent| info.agent = Some(agent)),
                "mode" => string(value).map(|mode| info.mode = Some(mode)),
                "modelID" => string(value).map(|model| info.model_id = Some(model)),
                "finish" => string(value).map(|finish| info.finish = Some(finish)),
                "tokens" => object(value).map(|usage| info.tokens = Some(Usage::read(usage, at, notes))),
                "cost" => number(value).map(|cost| info.cost = Some(cost)),
                // An error may have any shape.
                "error" if !value.is_null() => {
                    info.error = Some(value);
                    continue;
                }
                // On a user's message `summary` is an object about file changes, which means something else.
                "summary" if value == Value::Bool(true) => {
                    info.summary = true;
                    continue;
                }
                _ => {
                    info.extra.insert(key, value);
                    continue;
                }
            };
            set_apart(read, &key, at, &mut info.extra, notes);
        }
        info
    }

    /// Returns the metadata as JSON, as it is serialised with its message.
    pub fn to_json(&self) -> Map<String, Value> {
        let mut map = Map::new();
        let mut put = |key: &str, value: Option<Value>| put(&mut map, key, value);
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
        keep(&mut map, &self.extra, &[]);
        map
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

    /// Returns the name in JSON.
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
    fn read(map: Map<String, Value>, at: &At, notes: &mut Notes) -> Time {
        let mut time = Time::default();
        for (key, value) in map {
            let field = match key.as_str() {
                "created" => &mut time.created,
                "completed" => &mut time.completed,
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

    fn write(&self) -> Value {
        let mut map = Map::new();
        put(&mut map, "created", self.created.map(|at| at.0.into()));
        put(&mut map, "completed", self.completed.map(|at| at.0.into()));
        keep(&mut map, &self.extra, &[]);
        Value::Object(map)
    }
}

impl Usage {
    /// Creates the usage of a call without cache and reasoning.
    pub fn new(input: Tokens, output: Tokens) -> Usage {
        Usage { input, output, ..Usage::default() }
    }

    fn read(map: Map<String, Value>, at: &At, notes: &mut Notes) -> Usage {
        let mut usage = Usage::default();
        for (key, value) in map {
            let at = &At::Key(at, &key);
            let read = match key.as_str() {
                "cache" => object(value).map(|cache| usage.read_cache(cache, at, notes)),
                "total" | "input" | "output" | "reasoning" => {
                    let (number, read) = whole(value);
                    let tokens = Tokens(number.unwrap_or(0));
                    match key.as_str() {
                        "total" => usage.total = number.map(Tokens),
                        "input" => usage.input = tokens,
                        "output" => usage.output = tokens,
                        _ => (usage.reasoning, usage.keys.reasoning) = (tokens, number.is_some()),
                    }
                    read
                }
                _ => {
                    usage.extra.insert(key, value);
                    continue;
                }
            };
            set_apart(read, &key, at, &mut usage.extra, notes);
        }
        usage
    }

    fn read_cache(&mut self, map: Map<String, Value>, at: &At, notes: &mut Notes) {
        self.keys.cache = true;
        let mut extra = Extra::default();
        for (key, value) in map {
            let field = match key.as_str() {
                "read" => &mut self.cache_read,
                "write" => &mut self.cache_write,
                "writeHour" => &mut self.cache_write_hour,
                _ => {
                    extra.insert(key, value);
                    continue;
                }
            };
            let (number, read) = whole(value);
            *field = Tokens(number.unwrap_or(0));
            set_apart(read, &key, &At::Key(at, &key), &mut extra, notes);
        }
        if !extra.is_empty() {
            self.extra.insert("cache".into(), Value::Object(extra.into()));
        }
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
            let mut cache = json!({ "read": self.cache_read.0, "write": self.cache_write.0 });
            if self.cache_write_hour > Tokens::ZERO {
                cache["writeHour"] = self.cache_write_hour.0.into();
            }
            map.insert("cache".into(), cache);
        }
        keep(&mut map, &self.extra, &[]);
        Value::Object(map)
    }
}

impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let parts: Vec<Value> = self.parts.iter().map(Part::to_json).collect();
        let mut map = Map::new();
        map.insert("info".into(), Value::Object(self.info.to_json()));
        map.insert("parts".into(), Value::Array(parts));
        keep(&mut map, &self.extra, &[]);
        map.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Message, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Message::read(value, &At::Root, &mut Notes::default()).map_err(serde::de::Error::custom)
    }
}

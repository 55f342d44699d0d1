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
use crate::count::Tokens;

/// One message of a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message {
    /// Who said it, when, under which circumstances.
    pub info: Shared<Info>,
    /// What was said and done.
    pub parts: Shared<Vec<Part>>,
    /// Fields beside `info` and `parts`.
    pub extra: Extra,
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
    pub extra: Extra,
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
    pub extra: Extra,
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
    /// What of `cache_write` was written for an hour, at a higher price, instead of the usual few minutes.
    pub cache_write_hour: Tokens,
    keys: UsageKeys,
    extra: Extra,
}

/// The usage of two calls together. What only one of them has beside its figures is left out.
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
        Message { info: info.into(), parts: vec![Part::text(part, text)].into(), extra: Extra::default() }
    }

    /// The word to go on that a host adds after an automatic compaction, or when a turn was interrupted. It is not the
    /// user's: [`is_continue`](Message::is_continue) knows it.
    pub fn go_on(id: MessageId, part: PartId, text: &str) -> Message {
        let mut message = Message::user(id, part, text);
        for part in &mut message.parts {
            if let PartBody::Text(text) = &mut part.body {
                text.synthetic = Some(true);
            }
            part.extra.insert("metadata".into(), json!({ "compaction_continue": true }));
        }
        message
    }

    /// Words of the host to the model about something that happened outside of the conversation, such as files that a
    /// person has put back. They open no turn: [`is_notice`](Message::is_notice) knows them.
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

    /// A finished answer of the model, made of `parts`.
    pub fn assistant(id: MessageId, parts: Vec<Part>) -> Message {
        let info = Info { id, role: Some(Role::Assistant), finish: Some("stop".into()), ..Info::default() };
        Message { info: info.into(), parts: parts.into(), extra: Extra::default() }
    }

    /// An answer of the model that begins `now`, to be filled by [`Log::append_part`](super::Log::append_part) and
    /// [`Log::extend`](super::Log::extend) and ended by [`Log::record`](super::Log::record).
    pub fn begun(id: MessageId, now: Millis) -> Message {
        let info = Info { id, role: Some(Role::Assistant), ..Info::default() };
        Message { info: info.into(), ..Message::default() }.at(now)
    }

    /// The same answer, marked as one that this host has asked for with its own system prompt and tools.
    pub fn asked_here(mut self) -> Message {
        let metadata = self.info.extra.entry("metadata").or_insert_with(|| json!({}));
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("plimsoll".to_owned(), json!({ "asked": true }));
        }
        self
    }

    /// Whether this host has asked for the answer. What was imported has no such mark.
    pub fn is_asked_here(&self) -> bool {
        let metadata = self.info.extra.get("metadata");
        metadata.is_some_and(|metadata| metadata["plimsoll"]["asked"] == true)
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

    /// Whether it has come to its end, well or not: no more parts are added, and no text grows. Calls that are
    /// still open may be answered, because tools work after the model has stopped.
    pub fn is_finished(&self) -> bool {
        self.info.finish.is_some() || self.info.error.is_some()
    }

    /// The compaction marker, if this message carries one.
    pub fn marker(&self) -> Option<&CompactionPart> {
        self.parts.iter().find_map(Part::as_compaction)
    }

    /// Whether the user speaks, rather than a message that brings back tool results. Hosts add reminders to
    /// those, so a text beside a result makes no turn.
    pub fn is_turn(&self) -> bool {
        self.is_spoken_by_user() && !self.is_left_out()
    }

    fn is_spoken_by_user(&self) -> bool {
        let is_result = |part: &Part| matches!(part.body, PartBody::ToolResult(_));
        self.is_user() && !self.parts.iter().any(is_result)
    }

    /// Whether reductions or their undoing took the whole message out of view: all its parts are hidden, or it is
    /// the marker of a compaction that was undone.
    fn is_left_out(&self) -> bool {
        let hidden = !self.parts.is_empty() && self.parts.iter().all(Part::is_hidden);
        hidden || self.marker().is_some_and(|marker| marker.set_aside.is_some())
    }

    /// Whether a person asks for something here: a turn starts, and not by a host's word to go on.
    pub fn is_prompt(&self) -> bool {
        self.is_question() && !self.is_left_out()
    }

    /// Like [`Message::is_prompt`], also for a message that was left out of the window: which question an answer
    /// belongs to does not depend on what is shown.
    pub fn is_question(&self) -> bool {
        self.is_spoken_by_user() && self.marker().is_none() && !self.is_continue() && !self.is_notice()
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

    /// Whether these are words of the host about something that happened outside of the conversation.
    pub fn is_notice(&self) -> bool {
        let is_flagged = |part: &Part| part.extra.get("metadata")?.get("plimsoll")?.get("notice")?.as_bool();
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
    ///
    /// One bad value does not cost the rest: a field whose value is not what it should be is empty, and the value
    /// stays in `extra`, from where it is written back. [`read_noted`](Message::read_noted) tells of such values,
    /// [`read_strict`](Message::read_strict) refuses them.
    ///
    /// ```
    /// use plimsoll::{Message, Millis};
    /// let json = r#"[{"info":{"role":"user","finish":null,"time":{"created":7.25}},"parts":[]}]"#;
    /// let (messages, notes) = Message::read_noted(json)?;
    /// assert_eq!(messages[0].info.time.as_ref().unwrap().created, Some(Millis(7)));
    /// assert_eq!(serde_json::to_string(&messages)?.len(), json.len()); // null and 7.25 are written back
    /// assert_eq!(
    ///     notes.first()[1].to_string(),
    ///     "[0].info.time.created: expected a whole number of zero or more, found 7.25; kept as it is"
    /// );
    /// assert!(Message::read_strict(json).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_all(json: &str) -> Result<Vec<Message>, ReadError> {
        Message::read_noted(json).map(|(messages, _)| messages)
    }

    /// Like [`read_all`](Message::read_all), with a note for every value that is not what it should be.
    ///
    /// It is still an error if the text is no JSON, not a list of messages, or has a message that is no object.
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

    /// Like [`read_all`](Message::read_all), but the first value that is not what it should be is an error.
    pub fn read_strict(json: &str) -> Result<Vec<Message>, ReadError> {
        let (messages, notes) = Message::read_noted(json)?;
        notes.refuse()?;
        Ok(messages)
    }

    /// Read a message from a value that stands at `at`; what is not as it should be is kept and noted. A value that
    /// is no object is no message.
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
                // Whatever went wrong can be told in any shape.
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

    fn write(&self) -> Value {
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
    /// The usage of a call without cache and reasoning.
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
        let parts: Vec<Value> = self.parts.iter().map(Part::write).collect();
        let mut map = Map::new();
        map.insert("info".into(), self.info.write());
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

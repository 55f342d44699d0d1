//! A builder for histories.

use plimsoll::log::{CompactionPart, ReasoningPart, Time, ToolCallPart, ToolResultPart, ToolTime};
use plimsoll::{Ids, Info, Log, Message, MessageId, Millis, Part, PartBody, PartId, Role, ToolState, Usage};
use serde_json::{Value, json};

/// Ids from a fixed seed, the same in every run.
pub fn ids() -> Ids {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    Ids::new(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    })
}

/// A builder of a history. The ids of messages are `m0`, `m1`, …, those of parts `m0.0`, `m0.1`, …
#[derive(Clone, Debug, Default)]
pub struct History {
    messages: Vec<Message>,
}

impl History {
    /// Creates an empty history.
    pub fn new() -> History {
        History::default()
    }

    fn next_id(&self) -> MessageId {
        MessageId::new(format!("m{}", self.messages.len()))
    }

    fn push(mut self, role: Role, parts: Vec<PartBody>) -> History {
        let id = self.next_id();
        let named = parts.into_iter().enumerate();
        let parts = named.map(|(at, body)| Part::new(PartId::new(format!("{id}.{at}")), body)).collect();
        let finish = (role == Role::Assistant).then(|| "stop".to_owned());
        let created = Millis(1_000 * (self.messages.len() as u64 + 1));
        let time = Time { created: Some(created), ..Time::default() };
        let info = Info { id, role: Some(role), finish, time: Some(time), ..Info::default() };
        self.messages.push(Message { info: info.into(), parts, ..Message::default() });
        self
    }

    /// Adds a prompt of the user.
    pub fn user(self, text: impl Into<String>) -> History {
        self.push(Role::User, vec![text_body(text)])
    }

    /// Adds a text of the model.
    pub fn say(self, text: impl Into<String>) -> History {
        self.push(Role::Assistant, vec![text_body(text)])
    }

    /// Adds a thought and a text of the model.
    pub fn think(self, thought: impl Into<String>, text: impl Into<String>) -> History {
        let thought = PartBody::Reasoning(ReasoningPart { text: thought.into().into() });
        self.push(Role::Assistant, vec![thought, text_body(text)])
    }

    /// Adds a tool call with its output.
    pub fn tool(self, tool: &str, output: impl Into<String>) -> History {
        self.tool_with(tool, json!({ "arg": "x" }), output)
    }

    /// Like [`tool`](History::tool), with an input.
    pub fn tool_with(self, tool: &str, input: Value, output: impl Into<String>) -> History {
        self.tool_state(tool, ToolState::completed(input, output.into()))
    }

    /// Adds parallel tool calls with their outputs.
    pub fn tools(self, calls: &[(&str, String)]) -> History {
        let at = self.messages.len();
        let parts = calls.iter().enumerate().map(|(index, (tool, output))| {
            let state = completed(json!({ "n": index }), output.clone());
            tool_body(format!("call_{at}_{index}"), tool, state)
        });
        let parts = parts.collect();
        self.push(Role::Assistant, parts)
    }

    /// Adds a tool call with a given state.
    pub fn tool_state(self, tool: &str, state: ToolState) -> History {
        let call = format!("call_{}", self.messages.len());
        let mut state = state;
        state.time = ToolTime::ran(Millis(10), Millis(20));
        self.push(Role::Assistant, vec![tool_body(call, tool, state)])
    }

    /// Adds a tool call whose result is a separate part.
    pub fn call(self, call_id: &str, tool: &str) -> History {
        let call = ToolCallPart::new(call_id, tool, json!({ "arg": 1 }));
        self.push(Role::Assistant, vec![PartBody::ToolCall(call)])
    }

    /// Adds a result as a separate part, in a user message.
    pub fn result(self, call_id: &str, text: &str) -> History {
        let result = ToolResultPart::new(call_id, text);
        self.push(Role::User, vec![PartBody::ToolResult(result)])
    }

    /// Adds a message from JSON.
    pub fn raw(mut self, message: Value) -> History {
        self.messages.push(serde_json::from_value(message).unwrap_or_default());
        self
    }

    /// Adds a compaction marker.
    pub fn marker(self) -> History {
        self.push(Role::User, vec![PartBody::Compaction(CompactionPart::default())])
    }

    /// Adds a compaction marker that keeps a tail from the message with this id.
    pub fn marker_with_tail(self, start: &str) -> History {
        let tail_start = Some(MessageId::new(start));
        self.push(
            Role::User,
            vec![PartBody::Compaction(CompactionPart { tail_start, ..CompactionPart::default() })],
        )
    }

    /// Adds the summary that answers the newest marker.
    pub fn summary(self, text: impl Into<String>) -> History {
        let marker = self.messages.iter().rev().find(|message| message.marker().is_some());
        let parent = marker.map(|message| message.info.id.clone());
        self.say(text).change(|message| {
            message.info.summary = true;
            message.info.parent_id = parent;
        })
    }

    /// Adds a summary that is still being written.
    pub fn unfinished_summary(self, text: impl Into<String>) -> History {
        self.summary(text).change(|message| message.info.finish = None)
    }

    /// Sets the usage of the newest message.
    pub fn usage(self, usage: Usage) -> History {
        self.change(|message| {
            message.info.tokens = Some(usage);
            let time = message.info.time.get_or_insert_default();
            time.completed = time.created;
        })
    }

    /// Clears the tool results of the newest message.
    pub fn cleared(self) -> History {
        self.change(|message| {
            for part in &mut message.parts {
                if let PartBody::Tool(tool) = &mut part.body {
                    tool.state.time.compacted = Some(Millis(99));
                }
            }
        })
    }

    /// Changes the newest message.
    pub fn change(mut self, change: impl FnOnce(&mut Message)) -> History {
        if let Some(message) = self.messages.last_mut() {
            change(message);
        }
        self
    }

    /// Returns the messages.
    pub fn messages(self) -> Vec<Message> {
        self.messages
    }

    /// Returns the messages as a log.
    pub fn log(self) -> Log {
        Log::from_messages(self.messages)
    }
}

fn text_body(text: impl Into<String>) -> PartBody {
    Part::text(PartId::default(), text.into()).body
}

fn tool_body(call: String, tool: &str, state: ToolState) -> PartBody {
    Part::tool(PartId::default(), call, tool, state).body
}

fn completed(input: Value, output: String) -> ToolState {
    let mut state = ToolState::completed(input, output);
    state.time = ToolTime::ran(Millis(10), Millis(20));
    state
}

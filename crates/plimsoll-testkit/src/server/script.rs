//! Replies in JSON, for the command.

use std::sync::Mutex;
use std::time::Duration;

use plimsoll::{Tokens, Usage};
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use super::captured::Captured;
use super::fault::Fault;
use super::reply::{Finish, Reply};

/// Help text about the format of scripts.
pub const SCRIPT_HELP: &str = r#"A script is a JSON list of replies, used in order:

  [
    "a reply with only text",
    {
      "parts": [
        { "thinking": "Two files to read." },
        { "text": "I read both." },
        { "call": { "id": "call_1", "tool": "read", "input": { "path": "a" } } }
      ],
      "usage": { "input": 100, "output": 20, "reasoning": 5, "cache_read": 0, "cache_write": 0 },
      "finish": "stop",
      "piece_size": 24,
      "pause_ms": 0,
      "faults": [ { "cut": { "after": 3 } } ],
      "repeat": true
    }
  ]

All fields are optional. `"usage": "none"` reports no usage; without the field, the server counts. `finish` is `stop`,
`calls`, `length`, `filter` or the provider's own word. Other parts are `{ "hidden_thinking": true }` and
`{ "block": { … } }`, which is sent unchanged. A call may have `"arguments"`, a string that need not be JSON, instead of
`input`. A reply with `"repeat": true` is used for all further requests. After the last reply, the server answers 500.

Faults: { "status": { "status": 429, "headers": [["retry-after", "2"]], "body": { … } } },
{ "overflow": { "window": 8192, "shape": "llama_cpp" } }, "hang_up", "no_answer", "not_a_stream",
{ "error_event": { "after": 3, "error": "overloaded" } } (or "server", "rate_limit", "overflow"),
{ "cut": { "after": 3 } }, { "end_early": { "after": 3 } }, { "silence": { "after": 3 } },
{ "slow_bytes": { "bytes": 5, "pause_ms": 20 } }, { "broken_json": { "at": 3 } },
{ "huge_event": { "at": 3, "bytes": 40000000 } }. Events are counted from zero."#;

/// Invalid script.
#[derive(Debug, Error)]
pub enum ScriptError {
    /// Not JSON in the expected format.
    #[error("invalid script: {0}")]
    Json(#[from] serde_json::Error),
}

/// Replies in order. A reply with `repeat` is used for all further requests.
#[derive(Debug)]
pub struct Script {
    replies: Mutex<Replies>,
}

#[derive(Debug)]
struct Replies {
    left: std::vec::IntoIter<(Reply, bool)>,
    repeated: Option<Reply>,
}

impl Script {
    /// Parses a script. [`SCRIPT_HELP`] describes the format.
    pub fn parse(json: &str) -> Result<Script, ScriptError> {
        let written: Vec<WrittenReply> = serde_json::from_str(json)?;
        let replies: Vec<(Reply, bool)> = written.into_iter().map(WrittenReply::into_reply).collect();
        Ok(Script { replies: Mutex::new(Replies { left: replies.into_iter(), repeated: None }) })
    }

    /// The next reply.
    pub fn next_reply(&self) -> Option<Reply> {
        let mut replies = self.replies.lock().ok()?;
        if let Some(repeated) = &replies.repeated {
            return Some(repeated.clone());
        }
        let (reply, repeats) = replies.left.next()?;
        if repeats {
            replies.repeated = Some(reply.clone());
        }
        Some(reply)
    }

    /// The next reply, or status 500 after the last one.
    pub fn answer(&self, _: &Captured) -> Reply {
        self.next_reply().unwrap_or_else(|| Reply::failing(Fault::status(500)))
    }
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum WrittenReply {
    Text(String),
    Reply(Box<Fields>),
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Fields {
    parts: Vec<WrittenPart>,
    usage: Option<WrittenUsage>,
    finish: Option<String>,
    piece_size: Option<usize>,
    pause_ms: u64,
    faults: Vec<Fault>,
    repeat: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WrittenPart {
    Thinking(String),
    HiddenThinking(bool),
    Text(String),
    Call {
        id: String,
        tool: String,
        #[serde(default)]
        input: Value,
        arguments: Option<String>,
    },
    Block(Value),
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum WrittenUsage {
    Counts(WrittenCounts),
    Word(UsageWord),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum UsageWord {
    None,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct WrittenCounts {
    input: u64,
    output: u64,
    reasoning: u64,
    cache_read: u64,
    cache_write: u64,
}

impl WrittenReply {
    fn into_reply(self) -> (Reply, bool) {
        let fields = match self {
            WrittenReply::Text(text) => return (Reply::new().text(text), false),
            WrittenReply::Reply(fields) => fields,
        };
        let mut reply = Reply::new().pause(Duration::from_millis(fields.pause_ms));
        for part in fields.parts {
            reply = match part {
                WrittenPart::Thinking(thought) => reply.thinking(thought),
                WrittenPart::HiddenThinking(true) => reply.hidden_thinking(),
                WrittenPart::HiddenThinking(false) => reply,
                WrittenPart::Text(text) => reply.text(text),
                WrittenPart::Call { id, tool, arguments: Some(arguments), .. } => {
                    reply.call_with_arguments(id, tool, arguments)
                }
                WrittenPart::Call { id, tool, input, arguments: None } => reply.call(id, tool, input),
                WrittenPart::Block(block) => reply.block(block),
            };
        }
        reply = match fields.usage {
            None => reply,
            Some(WrittenUsage::Word(UsageWord::None)) => reply.without_usage(),
            Some(WrittenUsage::Counts(counts)) => reply.usage(counts.into_usage()),
        };
        if let Some(finish) = fields.finish {
            reply = reply.finish(match finish.as_str() {
                "stop" => Finish::Stop,
                "calls" => Finish::Calls,
                "length" => Finish::Length,
                "filter" => Finish::Filter,
                _ => Finish::Other(finish),
            });
        }
        if fields.piece_size.is_some() {
            reply = reply.piece_size(fields.piece_size);
        }
        (fields.faults.into_iter().fold(reply, Reply::fault), fields.repeat)
    }
}

impl WrittenCounts {
    fn into_usage(self) -> Usage {
        let mut usage = Usage::new(Tokens(self.input), Tokens(self.output));
        usage.reasoning = Tokens(self.reasoning);
        usage.cache_read = Tokens(self.cache_read);
        usage.cache_write = Tokens(self.cache_write);
        usage
    }
}

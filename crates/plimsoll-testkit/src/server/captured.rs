//! Requests as the server received them.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use plimsoll_providers::Wire;
use serde_json::Value;

use super::cache::CacheReport;
use super::flatten;
use super::gate::PATIENCE;

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Captured {
    /// The wire format.
    pub wire: Wire,
    /// The path it was posted to.
    pub path: String,
    /// Its headers in lower case; values that hold keys are redacted.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub body: Value,
    /// Its body as it came, byte for byte.
    pub raw: String,
    /// The model it asks for.
    pub model: String,
    /// The system prompt; its pieces are joined by an empty line.
    pub system: String,
    /// The names of the tools it offers.
    pub tools: Vec<String>,
    /// The conversation, the same on all wires.
    pub messages: Vec<CapturedMessage>,
    /// Its size: bytes over four.
    pub tokens: u64,
    /// What the prompt cache did for it.
    pub cache: CacheReport,
    /// What is illegal in it.
    pub problems: Vec<String>,
    pub(crate) progress: Arc<Mutex<Progress>>,
}

/// A message of a captured request. Consecutive items of the model, and consecutive results, are one message.
#[derive(Clone, Debug, PartialEq)]
pub struct CapturedMessage {
    /// `system`, `user`, `assistant` or `tool`.
    pub role: String,
    /// What it holds.
    pub parts: Vec<CapturedPart>,
}

/// A part of a captured message.
#[derive(Clone, Debug, PartialEq)]
pub enum CapturedPart {
    /// Words.
    Text(String),
    /// A thought, with its signature or its encrypted content.
    Thinking {
        /// What is shown of it.
        text: String,
        /// What it is recognised by; empty where there is nothing.
        signature: String,
    },
    /// A call.
    Call {
        /// Its id.
        id: String,
        /// The tool.
        tool: String,
        /// Its input.
        input: Value,
    },
    /// The result of a call.
    Result {
        /// The call's id.
        id: String,
        /// The words in it.
        text: String,
        /// Whether the tool failed; only Anthropic's wire tells.
        is_error: bool,
    },
    /// Anything else: an image, a document, a block of the provider.
    Other {
        /// Its type.
        kind: String,
        /// As it came.
        value: Value,
    },
}

/// How far an answer has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Events that were sent.
    pub events: usize,
    /// How it ended, once it has.
    pub end: Option<AnswerEnd>,
}

/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerEnd {
    /// Everything was sent, a fault included.
    Sent,
    /// The client closed the connection before that.
    HungUp,
}

impl Captured {
    /// How far its answer has come, now.
    pub fn progress(&self) -> Progress {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wait until its answer has ended, for a minute at most; how it ended. The client may have read the last event
    /// before the server knows that it was sent.
    pub fn wait_end(&self) -> Option<AnswerEnd> {
        let begun = Instant::now();
        while self.progress().end.is_none() && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.progress().end
    }

    /// Every text, call, result and thought of the conversation in order.
    pub fn parts(&self) -> impl Iterator<Item = &CapturedPart> {
        self.messages.iter().flat_map(|message| &message.parts)
    }

    /// The words of the newest message of the user; empty if there is none.
    pub fn last_user_text(&self) -> String {
        let newest = self.messages.iter().rev().find(|message| message.role == "user");
        newest.map(CapturedMessage::text).unwrap_or_default()
    }

    /// The ids of all calls in the conversation.
    pub fn call_ids(&self) -> Vec<&str> {
        let calls = self.parts().filter_map(|part| match part {
            CapturedPart::Call { id, .. } => Some(id.as_str()),
            _ => None,
        });
        calls.collect()
    }

    /// The words of a call's result.
    pub fn result(&self, call: &str) -> Option<&str> {
        self.parts().find_map(|part| match part {
            CapturedPart::Result { id, text, .. } if id == call => Some(text.as_str()),
            _ => None,
        })
    }

    /// Whether a text occurs anywhere in system prompt and conversation.
    pub fn contains(&self, text: &str) -> bool {
        self.system.contains(text)
            || self.parts().any(|part| match part {
                CapturedPart::Text(own) | CapturedPart::Thinking { text: own, .. } => own.contains(text),
                CapturedPart::Result { text: own, .. } => own.contains(text),
                CapturedPart::Call { input: value, .. } | CapturedPart::Other { value, .. } => {
                    value.to_string().contains(text)
                }
            })
    }

    /// The shape of the request in a few lines, for snapshots:
    ///
    /// ```text
    /// system: 12 chars
    /// tools: bash, read
    /// user: text (2 chars) "go"
    /// assistant: thinking (9 chars), call bash call_1 (14 chars)
    /// tool: result call_1 (300 chars)
    /// ```
    pub fn outline(&self) -> String {
        let mut lines = String::new();
        if !self.system.is_empty() {
            let _ = writeln!(lines, "system: {} chars", characters(&self.system));
        }
        if !self.tools.is_empty() {
            let _ = writeln!(lines, "tools: {}", self.tools.join(", "));
        }
        for message in &self.messages {
            let parts: Vec<String> = message.parts.iter().map(CapturedPart::outline).collect();
            let _ = writeln!(lines, "{}: {}", message.role, parts.join(", "));
        }
        lines
    }

    pub(crate) fn new(wire: Wire, path: &str, headers: Vec<(String, String)>, body: Value) -> Captured {
        let flat = flatten::flatten(wire, &body);
        Captured {
            wire,
            path: path.to_owned(),
            headers,
            model: body.get("model").and_then(Value::as_str).unwrap_or_default().to_owned(),
            system: flat.system,
            tools: flat.tools,
            messages: flat.messages,
            body,
            raw: String::new(),
            tokens: 0,
            cache: CacheReport::default(),
            problems: Vec::new(),
            progress: Arc::default(),
        }
    }
}

impl CapturedMessage {
    /// The words of the message.
    pub fn text(&self) -> String {
        let words = |part: &CapturedPart| match part {
            CapturedPart::Text(text) => Some(text.clone()),
            _ => None,
        };
        self.parts.iter().filter_map(words).collect::<Vec<_>>().join("\n")
    }
}

/// How many characters of a text are shown in an outline.
const SHOWN: usize = 40;

impl CapturedPart {
    fn outline(&self) -> String {
        match self {
            CapturedPart::Text(text) => {
                format!("text ({} chars) {:?}", characters(text), beginning(text))
            }
            CapturedPart::Thinking { text, signature } => {
                let unsigned = if signature.is_empty() { " unsigned" } else { "" };
                format!("thinking ({} chars){unsigned}", characters(text))
            }
            CapturedPart::Call { id, tool, input } => {
                format!("call {tool} {id} ({} chars)", characters(&input.to_string()))
            }
            CapturedPart::Result { id, text, is_error } => {
                let failed = if *is_error { " failed" } else { "" };
                format!("result {id}{failed} ({} chars)", characters(text))
            }
            CapturedPart::Other { kind, .. } => kind.clone(),
        }
    }
}

fn characters(text: &str) -> usize {
    text.chars().count()
}

fn beginning(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

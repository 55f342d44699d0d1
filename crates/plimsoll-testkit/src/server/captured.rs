//! Captured requests.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use plimsoll_providers::Wire;
use serde_json::Value;

use super::cache::CacheReport;
use super::flatten;
use super::gate::PATIENCE;

/// A received request.
#[derive(Clone, Debug)]
pub struct Captured {
    /// The wire format.
    pub wire: Wire,
    /// Path of the URL.
    pub path: String,
    /// Headers, with lower-case names. Values of keys are redacted.
    pub headers: Vec<(String, String)>,
    /// Parsed body.
    pub body: Value,
    /// Body, byte for byte.
    pub raw: String,
    /// The requested model.
    pub model: String,
    /// The system prompt, its pieces joined by empty lines.
    pub system: String,
    /// Names of the offered tools.
    pub tools: Vec<String>,
    /// The conversation, in the same form for all wire formats.
    pub messages: Vec<CapturedMessage>,
    /// Size: a quarter of the bytes.
    pub tokens: u64,
    /// Effect of the prompt cache.
    pub cache: CacheReport,
    /// Violations of the provider's rules.
    pub problems: Vec<String>,
    pub(crate) progress: Arc<Mutex<Progress>>,
}

/// A message of a captured request. Consecutive items of the model, and consecutive results, are one message.
#[derive(Clone, Debug, PartialEq)]
pub struct CapturedMessage {
    /// `system`, `user`, `assistant` or `tool`.
    pub role: String,
    /// The parts of the message.
    pub parts: Vec<CapturedPart>,
}

/// A part of a captured message.
#[derive(Clone, Debug, PartialEq)]
pub enum CapturedPart {
    /// Text.
    Text(String),
    /// A thought, with its signature or its encrypted content.
    Thinking {
        /// The shown text.
        text: String,
        /// The signature or encrypted content. Empty if there is none.
        signature: String,
    },
    /// A call.
    Call {
        /// Id of the call.
        id: String,
        /// The tool.
        tool: String,
        /// The input.
        input: Value,
    },
    /// The result of a call.
    Result {
        /// Id of the call.
        id: String,
        /// The text.
        text: String,
        /// Whether the tool failed. Only known from Anthropic's wire format.
        is_error: bool,
    },
    /// Anything else: an image, a document, a provider-specific block.
    Other {
        /// Type of the part.
        kind: String,
        /// The part, unchanged.
        value: Value,
    },
}

/// Progress of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Number of sent events.
    pub events: usize,
    /// How the answer ended. `None` while it is being sent.
    pub end: Option<AnswerEnd>,
}

/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerEnd {
    /// Everything was sent, including faults.
    Sent,
    /// The client closed the connection first.
    HungUp,
}

impl Captured {
    /// Current progress of the answer.
    pub fn progress(&self) -> Progress {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits up to a minute for the end of the answer, and returns how it ended. Needed because the client may read the
    /// last event before the server knows that it was sent.
    pub fn wait_end(&self) -> Option<AnswerEnd> {
        let begun = Instant::now();
        while self.progress().end.is_none() && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.progress().end
    }

    /// All parts of the conversation, in order.
    pub fn parts(&self) -> impl Iterator<Item = &CapturedPart> {
        self.messages.iter().flat_map(|message| &message.parts)
    }

    /// The text of the user's newest message. Empty if there is none.
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

    /// The text of a call's result.
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
    /// The text of the message.
    pub fn text(&self) -> String {
        let words = |part: &CapturedPart| match part {
            CapturedPart::Text(text) => Some(text.clone()),
            _ => None,
        };
        self.parts.iter().filter_map(words).collect::<Vec<_>>().join("\n")
    }
}

/// Number of characters of a text in an outline.
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

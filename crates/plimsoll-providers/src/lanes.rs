//! Emits one block at a time, in the order in which the blocks began.
//!
//! A delta names the block that it belongs to, and some servers interleave parallel calls. Events of the oldest open
//! block are emitted at once. Those of later blocks wait until it is closed.

use std::collections::VecDeque;

use plimsoll::AnswerEvent;
use serde_json::{Value, json};

#[derive(Debug, Default)]
pub(crate) struct Lanes {
    lanes: VecDeque<Lane>,
    bytes: AnswerBytes,
}

/// Bytes of an answer so far, including waiting events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AnswerBytes {
    /// Bytes of the model's content: text, reasoning and calls. Output tokens bound them.
    pub(crate) by_model: usize,
    /// All other bytes: signatures, blocks of the provider's own tools, and the fixed cost of parts.
    pub(crate) besides: usize,
}

/// Approximate cost of a part in memory and in the store. Without it, parts without content would be free.
const PART_BYTES: usize = 256;

/// Maximum bytes that an output token is assumed to have. The longest tokens of vocabularies are runs of spaces or of
/// one character, up to 128 bytes; no text consists of them, and the average of real text is 3 to 5.
pub(crate) const BYTES_PER_TOKEN: u64 = 64;

/// Minimum output tokens of a call, for its name and frame.
///
/// Without a minimum, an endless answer of calls without content would never be cut off.
const CALL_TOKENS: usize = 10;

#[derive(Debug)]
struct Lane {
    key: u64,
    is_closed: bool,
    waiting: Vec<AnswerEvent>,
}

impl Lanes {
    /// Opens a block.
    pub(crate) fn open(&mut self, key: u64) {
        self.note_kept(PART_BYTES);
        self.lanes.push_back(Lane { key, is_closed: false, waiting: Vec::new() });
    }

    /// Adds an event to an open block.
    pub(crate) fn write(&mut self, key: u64, event: AnswerEvent, out: &mut Vec<AnswerEvent>) {
        match &event {
            AnswerEvent::Text(text) | AnswerEvent::Thinking(text) | AnswerEvent::CallInput(text) => {
                self.bytes.by_model = self.bytes.by_model.saturating_add(text.len());
            }
            AnswerEvent::CallBegin { call, tool } => {
                self.bytes.by_model =
                    self.bytes.by_model.saturating_add(CALL_TOKENS * BYTES_PER_TOKEN as usize);
                self.note_kept(call.len() + tool.len());
            }
            // The content of these events was counted when it arrived.
            AnswerEvent::CallReady(_)
            | AnswerEvent::Signature(_)
            | AnswerEvent::Block(_)
            | AnswerEvent::PartEnd
            | AnswerEvent::Usage(_)
            | AnswerEvent::Finished { .. } => {}
        }
        let lane = self.lanes.iter_mut().position(|lane| lane.key == key && !lane.is_closed);
        match lane {
            Some(0) | None => out.push(event),
            Some(later) => self.lanes[later].waiting.push(event),
        }
    }

    /// Counts bytes that a decoder keeps and that are not content of the model.
    pub(crate) fn note_kept(&mut self, bytes: usize) {
        self.bytes.besides = self.bytes.besides.saturating_add(bytes);
    }

    /// Returns the bytes of the answer so far.
    pub(crate) fn bytes_so_far(&self) -> AnswerBytes {
        self.bytes
    }

    /// Closes a block.
    pub(crate) fn close(&mut self, key: u64, out: &mut Vec<AnswerEvent>) {
        if let Some(lane) = self.lanes.iter_mut().find(|lane| lane.key == key && !lane.is_closed) {
            lane.is_closed = true;
        }
        while self.lanes.front().is_some_and(|lane| lane.is_closed) {
            self.lanes.pop_front();
            if let Some(next) = self.lanes.front_mut() {
                out.append(&mut next.waiting);
            }
        }
    }
}

/// Parses a call's input. Invalid JSON is passed on as a string: it is the model's mistake, which the tool reports to
/// it, and not a fault of the stream.
pub(crate) fn parse_input(json: &str) -> Value {
    if json.trim().is_empty() {
        return json!({});
    }
    serde_json::from_str(json).unwrap_or_else(|_| Value::String(json.to_owned()))
}

/// Wraps a value in an object under the provider's name.
pub(crate) fn named(provider: &str, value: &Value) -> Value {
    json!({ provider: value })
}

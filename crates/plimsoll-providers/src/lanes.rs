//! One block at a time, in the order in which the blocks began.
//!
//! The wires name the block that a delta belongs to, and some servers do write parallel calls in turns. Events of the
//! oldest open block go out at once; those of younger ones wait until it is closed.

use std::collections::VecDeque;

use plimsoll::AnswerEvent;
use serde_json::{Value, json};

#[derive(Debug, Default)]
pub(crate) struct Lanes {
    lanes: VecDeque<Lane>,
    said: Said,
}

/// Bytes of an answer so far, waiting events included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    /// Bytes that the model wrote: text, reasoning and calls. Output tokens bound them.
    pub(crate) by_model: usize,
    /// Everything else that is kept: signatures, blocks of the provider's own tools, and the parts themselves.
    pub(crate) besides: usize,
}

/// Cost of a part in memory and in the store, about. Without it, parts without content would be free.
const PART_BYTES: usize = 256;

/// Bytes that an output token may have. The longest tokens of vocabularies are runs of spaces and of the same character, up to
/// 128 bytes; no text consists of them, and the average of real ones is 3 to 5.
pub(crate) const BYTES_PER_TOKEN: u64 = 64;

/// Output tokens that a call takes at least, for its name and what frames it.
const CALL_TOKENS: usize = 10;

#[derive(Debug)]
struct Lane {
    key: u64,
    is_closed: bool,
    waiting: Vec<AnswerEvent>,
}

impl Lanes {
    /// A block begins.
    pub(crate) fn open(&mut self, key: u64) {
        self.note_kept(PART_BYTES);
        self.lanes.push_back(Lane { key, is_closed: false, waiting: Vec::new() });
    }

    /// Something is added to a block that is open.
    pub(crate) fn write(&mut self, key: u64, event: AnswerEvent, out: &mut Vec<AnswerEvent>) {
        match &event {
            AnswerEvent::Text(text) | AnswerEvent::Thinking(text) | AnswerEvent::CallInput(text) => {
                self.said.by_model = self.said.by_model.saturating_add(text.len());
            }
            AnswerEvent::CallBegin { call, tool } => {
                self.said.by_model =
                    self.said.by_model.saturating_add(CALL_TOKENS * BYTES_PER_TOKEN as usize);
                self.note_kept(call.len() + tool.len());
            }
            // What these are made of was noted as it came.
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

    /// Counts bytes that a decoder keeps and that are not words of the model.
    pub(crate) fn note_kept(&mut self, bytes: usize) {
        self.said.besides = self.said.besides.saturating_add(bytes);
    }

    /// Bytes of the answer so far.
    pub(crate) fn said(&self) -> Said {
        self.said
    }

    /// A block is whole.
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

/// A call's input from its JSON. What is no JSON is passed on as a string: the model's mistake is answered by the
/// tool, and is no fault of the stream.
pub(crate) fn parse_input(json: &str) -> Value {
    if json.trim().is_empty() {
        return json!({});
    }
    serde_json::from_str(json).unwrap_or_else(|_| Value::String(json.to_owned()))
}

/// A value under the provider's name.
pub(crate) fn named(provider: &str, value: &Value) -> Value {
    json!({ provider: value })
}

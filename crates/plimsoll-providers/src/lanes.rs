//! One block at a time, in the order in which the blocks began.
//!
//! The wires name the block that a delta belongs to, and some servers do write parallel calls in turns. Events of the
//! oldest open block go out at once; those of younger ones wait until it is closed.

use std::collections::VecDeque;

use serde_json::{Value, json};

use crate::event::StreamEvent;

#[derive(Debug, Default)]
pub(crate) struct Lanes {
    lanes: VecDeque<Lane>,
}

#[derive(Debug)]
struct Lane {
    key: u64,
    is_closed: bool,
    waiting: Vec<StreamEvent>,
}

impl Lanes {
    /// A block begins.
    pub(crate) fn open(&mut self, key: u64) {
        self.lanes.push_back(Lane { key, is_closed: false, waiting: Vec::new() });
    }

    /// Something is added to a block that is open.
    pub(crate) fn write(&mut self, key: u64, event: StreamEvent, out: &mut Vec<StreamEvent>) {
        let lane = self.lanes.iter_mut().position(|lane| lane.key == key && !lane.is_closed);
        match lane {
            Some(0) | None => out.push(event),
            Some(later) => self.lanes[later].waiting.push(event),
        }
    }

    /// A block is whole.
    pub(crate) fn close(&mut self, key: u64, out: &mut Vec<StreamEvent>) {
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

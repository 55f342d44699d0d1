//! Calls and results that are separate parts, as in formats that have no part for both.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::Value;

use crate::log::{Message, PartBody};

/// Indices of a message and of a part in it.
pub(crate) type Place = (usize, usize);

/// Pairs separate calls with their results: by id, in order; a result without an id answers
/// the oldest call that is still open.
pub(crate) fn separate_pairs(messages: &[Message], places: &[usize]) -> BTreeMap<Place, Place> {
    let mut open: BTreeSet<Place> = BTreeSet::new();
    let mut by_id: BTreeMap<&str, VecDeque<Place>> = BTreeMap::new();
    let mut pairs = BTreeMap::new();
    for &place in places {
        let message = &messages[place];
        let shows_calls = message.is_assistant() && !is_lost(message);
        for (index, part) in message.parts.iter().enumerate() {
            match &part.body {
                // A hidden call hides its result, so it is paired too.
                PartBody::ToolCall(call) if shows_calls => {
                    open.insert((place, index));
                    by_id.entry(&call.call_id).or_default().push_back((place, index));
                }
                PartBody::ToolResult(result) => {
                    let call = if result.call_id.is_empty() {
                        open.first().copied()
                    } else {
                        let same = by_id.get_mut(result.call_id.as_str());
                        same.and_then(|calls| {
                            // A result without an id may have closed some of them.
                            while calls.front().is_some_and(|call| !open.contains(call)) {
                                calls.pop_front();
                            }
                            calls.pop_front()
                        })
                    };
                    if let Some(call) = call {
                        open.remove(&call);
                        pairs.insert(call, (place, index));
                    }
                }
                _ => {}
            }
        }
    }
    pairs
}

/// Returns whether an answer failed and is not shown. An aborted answer with content is shown.
pub(crate) fn is_lost(message: &Message) -> bool {
    let Some(error) = &message.info.error else { return false };
    let aborted = error.get("name").and_then(Value::as_str) == Some("MessageAbortedError");
    let did_something = message.parts.iter().any(|part| match &part.body {
        PartBody::Reasoning(_) => false,
        PartBody::Other(kind) => kind != "step-start",
        _ => true,
    });
    !(aborted && did_something)
}

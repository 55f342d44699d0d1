//! Calls and results that are parts of their own, as formats write them that have no part for both.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::log::{Message, PartBody};
use crate::window::is_lost;

/// A place of a part: message, part.
pub(crate) type Place = (usize, usize);

/// Separate calls and the separate results that answer them: by id, in order; a result without an id answers
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
                // A call that is left out takes its result along, so it is paired all the same.
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
                            // Those that a result without an id has taken meanwhile are no longer open.
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

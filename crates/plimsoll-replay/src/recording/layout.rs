//! The whole recording as one window, computed once for all rules.
//!
//! Appending never changes what a window showed before. The request of any call without a policy is therefore a prefix
//! of this list.

use std::collections::HashMap;
use std::ops::Range;

use plimsoll::{Block, Message, MessageId, PartId, Policy, Window, WindowRole};

use super::Recording;
use super::pieces::{Piece, Pieces, Table};

/// A recording as a list of pieces.
pub(crate) struct Layout {
    pub(crate) pieces: Vec<Piece>,
    /// Tokens that a provider charges up to the end of each piece.
    charged: Vec<u64>,
    /// Ranges of tool results with their files.
    pub(crate) results: Vec<Range<usize>>,
    /// Parts of the results, in the same order.
    pub(crate) result_parts: Vec<PartId>,
    /// Number of pieces before each message of the session, and in total.
    pub(crate) ends: Vec<usize>,
    /// The piece with the hidden output of answers that were billed for more than the recording shows.
    hidden: HashMap<MessageId, Piece>,
    pub(crate) table: Table,
}

impl Layout {
    pub(crate) fn of(recording: &Recording) -> Layout {
        let messages: Vec<Message> = recording.steps.iter().map(|step| step.message.clone()).collect();
        let window = Window::of(&messages, &Policy::default());
        let mut pieces = Pieces::of_originals(recording);
        let (mut list, mut results, mut hidden) = (Vec::new(), Vec::new(), HashMap::new());
        let mut result_parts = Vec::new();
        let mut ends = vec![0; messages.len() + 1];
        for message in &window.messages {
            list.push(pieces.role(message.role));
            let tokens = hidden_of(message.role, message.place, recording);
            if let (Some(tokens), Some(id)) = (tokens, &message.message)
                && !hidden.contains_key(id)
            {
                let piece = pieces.hidden(tokens);
                hidden.insert(id.clone(), piece);
                list.push(piece);
            }
            for block in &message.blocks {
                let start = list.len();
                pieces.block(block, &mut list);
                if let Block::Result { part, .. } = block {
                    results.push(start..list.len());
                    result_parts.push(part.clone());
                }
            }
            // Text that the window itself adds comes before the message that it introduces.
            if let Some(place) = message.place {
                ends[place + 1] = list.len();
            }
        }
        // Messages that the window does not show end where the message before them ends.
        for place in 1..ends.len() {
            ends[place] = ends[place].max(ends[place - 1]);
        }
        let sum = |sum: &mut u64, piece: &Piece| {
            *sum = sum.saturating_add(pieces.charged(*piece));
            Some(*sum)
        };
        let charged = list.iter().scan(0, sum).collect();
        Layout { pieces: list, charged, results, result_parts, ends, hidden, table: pieces.into_table() }
    }

    /// Returns the tokens that a provider charges for the first `count` pieces.
    pub(crate) fn charged_to(&self, count: usize) -> u64 {
        count.checked_sub(1).and_then(|last| self.charged.get(last)).copied().unwrap_or_default()
    }

    /// Returns the piece of an answer's hidden output.
    pub(crate) fn hidden(&self, message: &MessageId) -> Option<Piece> {
        self.hidden.get(message).copied()
    }
}

fn hidden_of(role: WindowRole, place: Option<usize>, recording: &Recording) -> Option<u64> {
    let step = recording.steps.get(place.filter(|_| role == WindowRole::Assistant)?)?;
    step.call.as_ref().map(|call| call.hidden).filter(|hidden| *hidden > 0)
}

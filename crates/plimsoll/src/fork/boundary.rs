//! Stage 1: leaves out messages that a summary already covers, whether of a pivot or of a range.

use std::collections::BTreeSet;

use crate::log::{Message, Part, PartBody};
use crate::pivot::{VisibleRange, answers};

/// The messages for the next stage.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Slice<'a> {
    /// The summary, if there is one, then its tail and everything later. Without the marker, and without messages that
    /// are completely replaced by the summary of a range in another message.
    pub messages: Vec<&'a Message>,
    /// Position of the summary in the original list.
    pub summary: Option<usize>,
    /// Whether the summary was removed from the messages.
    pub is_apart: bool,
}

impl Slice<'_> {
    /// Number of messages at the beginning that are removed last.
    pub fn pinned(&self) -> usize {
        usize::from(self.summary.is_some() && !self.is_apart)
    }
}

/// Cuts the history at its newest completed pivot. Without one, all messages that are in view stay.
pub fn slice(messages: &[Message]) -> Slice<'_> {
    // Most long histories were imported and never summarised. For those, the sets below would cost more than the rest
    // of the fork.
    let is_plain = |message: &Message| !message.info.summary && message.marker().is_none();
    if messages.iter().all(is_plain) {
        return Slice {
            messages: messages.iter().filter(|message| is_shown(message)).collect(),
            summary: None,
            is_apart: false,
        };
    }
    let visible = VisibleRange::of(messages);
    match visible.pivot {
        None => {
            // A summary that failed, is unfinished or was undone is not part of the conversation, and neither is its
            // marker. A marker without an answer stays: no summary was tried.
            let tried: BTreeSet<usize> = answers(messages).into_values().collect();
            let said: BTreeSet<usize> = visible.places.into_iter().collect();
            let waits = |at: usize| messages[at].marker().is_some() && !tried.contains(&at);
            let passes = |at: &usize| (said.contains(at) || waits(*at)) && is_shown(&messages[*at]);
            let messages = (0..messages.len()).filter(passes).map(|at| &messages[at]).collect();
            Slice { messages, summary: None, is_apart: false }
        }
        Some(pivot) => {
            let first = std::iter::once(pivot.summary);
            // A marker that contains its summary and other text would otherwise be listed twice.
            let others = visible.places.into_iter().filter(|place| *place != pivot.summary);
            let others = others.filter(|place| is_shown(&messages[*place]));
            let messages = first.chain(others).map(|place| &messages[place]).collect();
            Slice { messages, summary: Some(pivot.summary), is_apart: false }
        }
    }
}

/// Whether a digest shows a message: not if all its content is replaced by the summary of a range. A message that never
/// had content stays.
fn is_shown(message: &Message) -> bool {
    let is_behind = |part: &Part| part.replaced().is_some_and(|summary| summary.is_empty());
    let has_content = |part: &Part| match &part.body {
        PartBody::Text(text) => text.ignored != Some(true),
        PartBody::Tool(_) | PartBody::ToolCall(_) | PartBody::ToolResult(_) | PartBody::Compaction(_) => true,
        _ => false,
    };
    let mut content = message.parts.iter().filter(|part| has_content(part));
    !message.parts.iter().any(is_behind) || content.any(|part| !is_behind(part))
}

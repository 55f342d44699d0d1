//! Stage 1: what a summary already speaks for is left out, be it that of a pivot or that of a range.

use std::collections::BTreeSet;

use crate::log::{Message, Part, PartBody};
use crate::pivot::{Visible, answers};

/// The messages that go on to the next stage.
#[derive(Clone, Debug)]
pub struct Slice<'a> {
    /// The summary first, if there is one; then its tail and everything later. The marker is dropped, and so is a message
    /// of which nothing is shown because the summary of a range stands elsewhere.
    pub messages: Vec<&'a Message>,
    /// Where the summary stands in the original list.
    pub summary: Option<usize>,
    /// Whether the summary was taken out of the messages.
    pub is_apart: bool,
}

impl Slice<'_> {
    /// How many messages at the beginning must not be removed while others can be.
    pub fn pinned(&self) -> usize {
        usize::from(self.summary.is_some() && !self.is_apart)
    }
}

/// Cut the history at its newest completed pivot. Without one, everything passes that was said.
pub fn slice(messages: &[Message]) -> Slice<'_> {
    // Most histories that are long were imported and never summarised. One look at each message is all that such a one
    // costs: the sets below would cost more than the whole rest of a fork.
    let is_plain = |message: &Message| !message.info.summary && message.marker().is_none();
    if messages.iter().all(is_plain) {
        return Slice {
            messages: messages.iter().filter(|message| is_shown(message)).collect(),
            summary: None,
            is_apart: false,
        };
    }
    let visible = Visible::of(messages);
    match visible.pivot {
        None => {
            // A summary that failed, is unfinished or was undone is no part of what was said, and neither is the
            // marker it answers. A marker that nothing answers stays: no summary was tried.
            let tried: BTreeSet<usize> = answers(messages).into_values().collect();
            let said: BTreeSet<usize> = visible.places.into_iter().collect();
            let waits = |at: usize| messages[at].marker().is_some() && !tried.contains(&at);
            let passes = |at: &usize| (said.contains(at) || waits(*at)) && is_shown(&messages[*at]);
            let messages = (0..messages.len()).filter(passes).map(|at| &messages[at]).collect();
            Slice { messages, summary: None, is_apart: false }
        }
        Some(pivot) => {
            let first = std::iter::once(pivot.summary);
            // A marker that holds its summary and words besides would otherwise be there twice.
            let others = visible.places.into_iter().filter(|place| *place != pivot.summary);
            let others = others.filter(|place| is_shown(&messages[*place]));
            let messages = first.chain(others).map(|place| &messages[place]).collect();
            Slice { messages, summary: Some(pivot.summary), is_apart: false }
        }
    }
}

/// Whether a digest shows something of a message: not if all its content is behind the summary of a range. A message that
/// has no content to begin with stays, as it always has.
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

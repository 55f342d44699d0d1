//! Pivots: where a summary has taken the place of older messages.
//!
//! A pivot is a pair in the log: a user's message with a compaction marker, and the assistant's finished
//! summary that answers it. Pairs are matched by the summary's parent, not by position, so that messages which
//! arrived while the summary was written do not come between them. A summary that failed, is unfinished, is
//! empty or was set aside makes no pivot; then the newest completed pair before it counts.

use crate::chars::Text;
use crate::log::{Message, PartBody};

/// The newest completed pair of marker and summary, as places in the list of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pivot {
    /// The marker.
    pub marker: usize,
    /// The summary. Imported logs may keep the summary inside the marker; then it is the same place.
    pub summary: usize,
    /// The first message that stays word for word behind the summary, if any.
    pub tail: Option<usize>,
}

impl Pivot {
    /// The pivot that counts, if there is one.
    pub fn newest(messages: &[Message]) -> Option<Pivot> {
        let pairs = messages.iter().enumerate().filter(|(_, message)| message.is_finished_summary());
        let paired = pairs.filter_map(|(summary, _)| Some((marker_of(messages, summary)?, summary)));
        let inside = messages.iter().enumerate().filter_map(|(at, message)| {
            let text = message.marker()?.summary.as_ref()?;
            (!text.trim().is_empty()).then_some((at, at))
        });
        let (marker, summary) =
            paired.chain(inside).filter(|(marker, _)| !is_set_aside(&messages[*marker])).max()?;
        let start = messages[marker].marker().and_then(|part| part.tail_start.as_ref());
        let tail = start.and_then(|id| messages[..marker].iter().rposition(|m| &m.info.id == id));
        Some(Pivot { marker, summary, tail })
    }

    /// What the summary says.
    pub fn text(&self, messages: &[Message]) -> Text {
        let message = &messages[self.summary];
        if let Some(inside) = message.marker().and_then(|marker| marker.summary.clone()) {
            return inside;
        }
        // The common case shares the text instead of joining it anew.
        let mut texts = message.parts.iter().filter_map(|part| match &part.body {
            PartBody::Text(text) => Some(&text.text),
            _ => None,
        });
        match (texts.next(), texts.next()) {
            (Some(only), None) => only.clone(),
            _ => Text::from(message.text()),
        }
    }
}

/// The marker a summary answers: by parent, or for logs without parents the marker right before it.
pub(crate) fn marker_of(messages: &[Message], summary: usize) -> Option<usize> {
    match &messages[summary].info.parent_id {
        Some(parent) => {
            messages[..summary].iter().rposition(|m| &m.info.id == parent && m.marker().is_some())
        }
        None => {
            let at = messages[..summary].iter().rposition(Message::is_user)?;
            messages[at].marker().is_some().then_some(at)
        }
    }
}

fn is_set_aside(message: &Message) -> bool {
    message.marker().is_some_and(|marker| marker.set_aside.is_some())
}

/// The part of a log that is in the window, as places in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visible {
    /// The pivot, whose marker and summary stand before everything else.
    pub pivot: Option<Pivot>,
    /// Tail and later messages, oldest first; markers and their summaries are not among them.
    pub places: Vec<usize>,
}

impl Visible {
    /// What of `messages` is in the window.
    pub fn of(messages: &[Message]) -> Visible {
        let pivot = Pivot::newest(messages);
        let start = match pivot {
            Some(pivot) => pivot.tail.unwrap_or(pivot.marker),
            None => 0,
        };
        let shown = |at: &usize| !is_scaffolding(messages, *at);
        Visible { pivot, places: (start..messages.len()).filter(shown).collect() }
    }
}

/// Whether a message only carries a compaction, completed or not: the model sees such a message as the pivot
/// or not at all. A finished summary that answers no marker is an ordinary message.
fn is_scaffolding(messages: &[Message], at: usize) -> bool {
    let message = &messages[at];
    if message.marker().is_some() {
        return message.parts.iter().all(|part| !matches!(part.body, PartBody::Text(_)));
    }
    message.info.summary
        && message.is_assistant()
        && (!message.is_finished_summary() || marker_of(messages, at).is_some())
}

//! Pivots: summaries that replace older messages.
//!
//! A pivot is a pair in the log: a user's message with a compaction marker, and the assistant's finished
//! summary that answers it. Pairs are matched by the summary's parent, not by position, so that messages that
//! arrived while the summary was written do not come between them. A summary that failed, is unfinished, is
//! empty or was undone is not a pivot; then the newest complete pair before it counts.

use std::collections::BTreeMap;

use crate::chars::Text;
use crate::log::{Message, MessageId, Part, PartBody, Role};

/// The newest complete pair of marker and summary, as indices into the list of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pivot {
    /// The marker.
    pub marker: usize,
    /// The summary. Imported logs may keep the summary inside the marker; then both are the same index.
    pub summary: usize,
    /// The first message of the tail, which stays verbatim after the summary.
    pub tail: Option<usize>,
    /// The prompt that was being worked on, kept in view before a tail that begins after it.
    pub prompt: Option<usize>,
}

impl Pivot {
    /// Returns the active pivot, if there is one.
    pub fn newest(messages: &[Message]) -> Option<Pivot> {
        Pivot::among(messages, &answers(messages))
    }

    fn among(messages: &[Message], answers: &BTreeMap<usize, usize>) -> Option<Pivot> {
        let finished = answers.iter().filter(|(summary, _)| messages[**summary].is_finished_summary());
        let paired = finished.map(|(summary, marker)| (*marker, *summary));
        let inside = messages.iter().enumerate().filter_map(|(at, message)| {
            let text = message.marker()?.summary.as_ref()?;
            (!text.trim().is_empty()).then_some((at, at))
        });
        let (marker, summary) =
            // The newest marker decides, whenever its summary arrived.
            paired.chain(inside).filter(|(marker, _)| !is_set_aside(&messages[*marker])).max()?;
        let before = |id: &MessageId| messages[..marker].iter().rposition(|m| &m.info.id == id);
        let part = messages[marker].marker()?;
        let tail = part.tail_start.as_ref().and_then(before);
        let start = tail.unwrap_or(marker);
        // A prompt in the tail is shown there.
        let prompt = part.prompt.as_ref().and_then(before).filter(|prompt| *prompt < start);
        Some(Pivot { marker, summary, tail, prompt })
    }

    /// Returns the first index that is in view verbatim.
    pub fn start(&self) -> usize {
        self.tail.unwrap_or(self.marker)
    }

    /// Returns the text of the summary.
    pub fn text(&self, messages: &[Message]) -> Text {
        let message = &messages[self.summary];
        if let Some(inside) = message.marker().and_then(|marker| marker.summary.clone()) {
            return inside;
        }
        // The common case shares the text instead of copying it.
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

/// Heading before the index of names in a summary.
pub(crate) const INDEX_HEADING: &str = "## Index of names that left the window";

/// Returns a summary without its index.
pub(crate) fn without_index(summary: &str) -> &str {
    match summary.find(INDEX_HEADING) {
        // Only at the beginning of a line, because a summary may quote the heading.
        Some(at) if at == 0 || summary[..at].ends_with('\n') => summary[..at].trim_end(),
        _ => summary,
    }
}

/// Returns for each summary the marker it answers: by parent, or for logs without parents the marker right before it.
pub(crate) fn answers(messages: &[Message]) -> BTreeMap<usize, usize> {
    let mut markers: BTreeMap<&MessageId, usize> = BTreeMap::new();
    let mut last_user = None;
    let mut answers = BTreeMap::new();
    for (at, message) in messages.iter().enumerate() {
        if message.marker().is_some() {
            markers.insert(&message.info.id, at);
        }
        if message.is_user() {
            last_user = message.marker().map(|_| at);
        }
        if message.info.summary && message.is_assistant() {
            let marker = match &message.info.parent_id {
                Some(parent) => markers.get(parent).copied(),
                None => last_user,
            };
            answers.extend(marker.map(|marker| (at, marker)));
        }
    }
    answers
}

fn is_set_aside(message: &Message) -> bool {
    message.marker().is_some_and(|marker| marker.set_aside.is_some())
}

/// The part of a log that is in the window, as indices into the list of messages.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VisibleRange {
    /// The pivot, whose marker and summary come first.
    pub pivot: Option<Pivot>,
    /// System messages from before the tail: rules of a host are never summarised.
    pub system: Vec<usize>,
    /// Tail and later messages, oldest first, without markers and their summaries.
    pub places: Vec<usize>,
}

impl VisibleRange {
    /// Returns the indices of all messages that are needed to build this window, in order. A log with only these
    /// messages has the same window. In addition to the shown messages, they are the prompt that leads a tail inside
    /// a turn, pinned messages, and markers, without which older summaries would look like ordinary messages.
    pub fn needed(&self, messages: &[Message]) -> Vec<usize> {
        let start = self.pivot.map_or(0, |pivot| pivot.start());
        let pivot =
            self.pivot.into_iter().flat_map(|pivot| [Some(pivot.marker), Some(pivot.summary), pivot.prompt]);
        let lead = messages[..start].iter().rposition(Message::is_question);
        let is_pinned = |message: &Message| message.parts.iter().any(|part| part.pins().next().is_some());
        let pinned = (0..start).filter(|place| is_pinned(&messages[*place]));
        let later = answers(messages).into_iter().filter(|(summary, _)| *summary >= start);
        let markers = later.map(|(_, marker)| marker);
        let shown =
            self.system.iter().copied().chain(pivot.flatten()).chain(lead).chain(pinned).chain(markers);
        let mut needed: Vec<usize> = shown.chain(start..messages.len()).collect();
        needed.sort_unstable();
        needed.dedup();
        needed
    }

    /// Returns the user's newest prompt in view: what the model is working on.
    pub fn newest_prompt(&self, messages: &[Message]) -> Option<usize> {
        let newest = self.places.iter().copied().rev().find(|place| messages[*place].is_prompt());
        newest.or_else(|| self.pivot.and_then(|pivot| pivot.prompt))
    }
}

impl VisibleRange {
    /// Returns the part of `messages` that is in the window.
    pub fn of(messages: &[Message]) -> VisibleRange {
        let answers = answers(messages);
        let pivot = Pivot::among(messages, &answers);
        let start = pivot.map_or(0, |pivot| pivot.start());
        let shown = |at: &usize| !is_scaffolding(&messages[*at], answers.contains_key(at));
        let system = (0..start).filter(|at| messages[*at].info.role == Some(Role::System)).collect();
        VisibleRange { pivot, system, places: (start..messages.len()).filter(shown).collect() }
    }
}

/// Returns the number of messages before an index, without those that only carry a compaction.
pub(crate) fn messages_before(messages: &[Message], place: usize) -> usize {
    let answers = answers(messages);
    let is_counted =
        |at: &usize| !is_scaffolding(&messages[*at], answers.contains_key(at)) && !is_out(&messages[*at]);
    (0..place).filter(is_counted).count()
}

fn is_out(message: &Message) -> bool {
    !message.parts.is_empty() && message.parts.iter().all(Part::is_hidden)
}

/// Returns whether a message only carries a compaction, completed or not: the window shows such a message as the pivot
/// or not at all. A finished summary that answers no marker is an ordinary message.
fn is_scaffolding(message: &Message, answers_a_marker: bool) -> bool {
    if message.marker().is_some() {
        return message.parts.iter().all(|part| !matches!(part.body, PartBody::Text(_)));
    }
    message.info.summary && message.is_assistant() && (answers_a_marker || !message.is_finished_summary())
}

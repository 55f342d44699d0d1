//! The first sections of a summary: the goal and the next step.

use super::room::Written;
use super::said::Words;
use crate::chars::{Chars, level};
use crate::facts::{Facts, TodoState, Turn, UserTextKind};
use crate::pattern::Regex;
use crate::policy::SummaryPolicy;
use crate::prose::{Pattern, Piece, PieceKind, matches, patterns_of, pieces, shorten, shorten_ends};

/// Label of the first message of the user.
pub(super) const FIRST: &str = "First request: ";
/// Label of the newest one.
pub(super) const NEWEST: &str = "Newest request: ";

/// The user's first message, which states the purpose, and the newest one, which is being worked on.
#[derive(Default)]
pub(super) struct Goal(Vec<(&'static str, Words)>);

impl Goal {
    /// Removes the goal from the user's words. An answer to a question is not a request.
    pub(super) fn take(words: &mut Vec<Words>) -> Goal {
        let is_request = |words: &Words| words.kind != UserTextKind::Answer;
        let Some(first) = words.iter().position(is_request) else { return Goal::default() };
        let newest = words.iter().rposition(is_request).filter(|newest| *newest != first);
        let newest = newest.map(|newest| (NEWEST, words.remove(newest)));
        let first = (FIRST, words.remove(first));
        Goal(std::iter::once(first).chain(newest).collect())
    }

    /// Number of messages.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Writes both messages, shortened to one length.
    pub(super) fn write(&self, room: Chars, policy: &SummaryPolicy) -> Written {
        if self.0.is_empty() {
            return Written::nothing();
        }
        let frame = |label: &str| Chars::of(label) + Chars(3);
        let frames: Chars = self.0.iter().map(|(label, _)| frame(label)).sum();
        let left = room.saturating_sub(frames);
        if left < policy.min_words {
            return Written::no_room();
        }
        let limit = level(self.0.iter().map(|(_, words)| words.chars()), left);
        let lines = self.0.iter().map(|(label, words)| (label, words.shortened(limit, policy)));
        let lines = lines.filter(|(_, text)| !text.is_empty());
        let lines: Vec<String> =
            lines.map(|(label, text)| format!("- {label}{}", text.replace('\n', "\n  "))).collect();
        Written { text: lines.join("\n"), complete: limit == Chars(u64::MAX) }
    }
}

/// Maximum length of an announcement that is shown whole.
const LONGEST: Chars = Chars(320);
/// Maximum number of announcements.
const ANNOUNCEMENTS: usize = 2;

/// Writes the next step: work in progress and the agent's last announcements. `facts` covers all messages up to the
/// newest, because announced work may be done by now. `is_in_view` is whether the newest request comes after the
/// summary.
pub(super) fn write_next(facts: &Facts, is_in_view: bool, room: Chars) -> Written {
    let request = if is_in_view { "the user's newest message below" } else { "the newest request" };
    let mut lines: Vec<String> = Vec::new();
    if facts.is_waiting {
        lines.push(format!("- Work on {request}: it has not been started yet."));
    }
    if let Some(list) = &facts.todos {
        let of = |state: TodoState| -> Vec<&str> {
            list.items.iter().filter(|todo| todo.state == state).map(|todo| todo.text.as_str()).collect()
        };
        let (begun, open) = (of(TodoState::Begun), of(TodoState::Open));
        match (begun.is_empty(), open.first()) {
            (false, _) => lines.push(format!("- In progress: {}", begun.join("; "))),
            (true, Some(first)) => lines.push(format!("- First open todo: {first}")),
            (true, None) => {}
        }
    }
    // If the user has spoken since, announced work may no longer be wanted.
    lines.extend(facts.turns.last().filter(|_| !facts.is_waiting).into_iter().flat_map(announced));
    if lines.is_empty()
        && let Some(error) = facts.errors.last()
    {
        lines.push(format!("- Still failing: {}", error.text));
    }
    if lines.is_empty() && !facts.words.is_empty() {
        lines.push(format!("- Continue with {request}."));
    }
    let mut out = String::new();
    let mut complete = true;
    for line in lines {
        let left = room.saturating_sub(Chars::of(&out) + Chars(1));
        let shown = shorten(&line, left.min(LONGEST));
        complete &= shown == line;
        // A shorter beginning would not identify the step.
        if Chars::of(&shown) < Chars(32).min(Chars::of(&line)) {
            break;
        }
        out.push_str(if out.is_empty() { "" } else { "\n" });
        out.push_str(&shown);
    }
    Written { text: out, complete }
}

/// Returns the agent's newest announcements, and a question that the user has not answered yet.
fn announced(turn: &Turn) -> Vec<String> {
    static NEXT: Pattern = Pattern::new(|| {
        let words = patterns_of(include_str!("../../../words/goal/next.txt"));
        let inner = patterns_of(include_str!("../../../words/goal/next_inner.txt"));
        Regex::new(&format!(r"(?i)\b(?:{words})\b|{inner}")).ok()
    });
    let said = turn.report.as_ref().or(turn.thoughts.last());
    let Some(text) = said.map(|said| said.text.as_str()) else { return Vec::new() };
    let pieces = pieces(text);
    let asked = pieces.last().filter(|last| last.text.ends_with(['?', '？']) && !turn.unfinished);
    let is_said = |piece: &&Piece| !piece.text.ends_with(['?', '？']) && piece.kind != PieceKind::Heading;
    let next = pieces.iter().rev().filter(is_said).filter(|piece| matches(&NEXT, &piece.text));
    let mut next: Vec<&Piece> = next.take(ANNOUNCEMENTS).collect();
    if next.is_empty() && turn.unfinished {
        // Text between two calls usually says what the agent is doing.
        next.extend(pieces.iter().rev().find(is_said));
    }
    let line = |piece: &Piece| {
        format!("- The agent said: {}", shorten_ends(piece.text.trim_end_matches(':'), LONGEST))
    };
    let mut lines: Vec<String> = next.into_iter().rev().map(line).collect();
    lines.extend(asked.map(|asked| format!("- Not answered yet: {}", shorten_ends(&asked.text, LONGEST))));
    lines
}

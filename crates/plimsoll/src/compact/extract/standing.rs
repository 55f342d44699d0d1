//! The section with the state of the work: the last report or work in progress, todos, failures, last commit, last
//! steps.

use super::room::{Portion, Written, divide};
use crate::chars::Chars;
use crate::facts::{Facts, Statement, TodoState, Turn, end_of_path};
use crate::policy::SummaryPolicy;
use crate::prose::{plain, shorten, shorten_ends, shorten_front};

/// Writes the section. `now` has the facts of all messages up to the newest, which decide what is open and what fails.
pub(super) fn write(facts: &Facts, now: &Facts, room: Chars, policy: &SummaryPolicy) -> Written {
    let said = |room: Chars| said(facts, room, policy);
    let todos = |room: Chars| todos(now, room);
    let errors = |room: Chars| errors(now, room);
    let commit = |room: Chars| commit(now, room, policy);
    let steps = |room: Chars| steps(facts, room);
    let names = |room: Chars| names(facts, room);
    let portions: [(f64, &dyn Fn(Chars) -> Written); 6] = [
        (policy.report_share(), &said),
        (policy.todos_share, &todos),
        (policy.errors_share, &errors),
        (policy.commit_share, &commit),
        (policy.steps_share, &steps),
        (policy.names_share, &names),
    ];
    let written = divide(&portions.map(|(share, write)| Portion { share, frame: Chars(1), write }), room);
    let complete = written.iter().all(|written| written.complete);
    let lines: Vec<String> =
        written.into_iter().map(|written| written.text).filter(|text| !text.is_empty()).collect();
    Written { text: lines.join("\n"), complete }
}

/// Shortens a text to `room`.
fn shortened(text: &str, room: Chars, policy_least: Chars) -> Written {
    let complete = Chars::of(text) <= room;
    if !complete && room < policy_least {
        return Written::no_room();
    }
    Written { text: shorten(text, room), complete }
}

/// Minimum length of a shortened line. Less says nothing.
const LEAST: Chars = Chars(32);

/// The last report and, if the turn has not ended, notes and thoughts since.
fn said(facts: &Facts, room: Chars, policy: &SummaryPolicy) -> Written {
    let Some((turn, before)) = facts.turns.split_last() else { return Written::nothing() };
    if !turn.unfinished {
        let report = turn.report.as_ref().map(|report| report.text.as_str()).unwrap_or_default();
        return labelled("Last report: ", report, room, policy);
    }
    // An agent that is not interrupted reports and continues.
    let all: Vec<&Statement> = turn.notes.iter().chain(&turn.report).collect();
    let reported = all.iter().rposition(|said| Chars::of(&said.text) >= policy.report_chars);
    let since = &all[reported.map_or(0, |place| place + 1)..];
    let newest = notes(since, turn, room, policy);
    let (label, report) = match reported {
        Some(place) => ("Last report: ", Some(all[place])),
        // If little was said in this turn, the report of an earlier turn gives the context.
        None if since.len() < NOTES => {
            ("Last report before this turn: ", before.iter().rev().find_map(|turn| turn.report.as_ref()))
        }
        None => ("", None),
    };
    let Some(report) = report else { return newest };
    let notes_room = Chars::of(&newest.text).min(room.share(0.5));
    let newest = notes(since, turn, notes_room, policy);
    let left = room.saturating_sub(Chars::of(&newest.text) + Chars(1));
    let report = labelled(label, &report.text, left, policy);
    let complete = newest.complete && report.complete;
    let texts: Vec<String> = [report.text, newest.text].into_iter().filter(|text| !text.is_empty()).collect();
    Written { text: texts.join("\n"), complete }
}

/// The newest notes since the last report, oldest first, and thoughts since the last note.
fn notes(since: &[&Statement], turn: &Turn, room: Chars, policy: &SummaryPolicy) -> Written {
    let label = "In progress: ";
    let thoughts = turn.thoughts.iter().rev().map(|thought| plain(&thought.text));
    let said = since.iter().rev().map(|said| plain(&said.text)).take(NOTES);
    let mut left = room.saturating_sub(Chars::of(label));
    let mut taken: Vec<String> = Vec::new();
    let mut complete = true;
    for note in thoughts.chain(said) {
        let whole = Chars::of(&note);
        let note = shorten_ends(&note, policy.sentence_chars.max(room.share(0.5)).min(left));
        complete &= Chars::of(&note) == whole;
        if Chars::of(&note) < LEAST.min(whole) {
            break;
        }
        left = left.saturating_sub(Chars::of(&note) + Chars(3));
        taken.push(note);
    }
    taken.reverse();
    if taken.is_empty() {
        return Written { text: String::new(), complete };
    }
    Written { text: format!("{label}{}", taken.join(" / ")), complete }
}

/// Number of notes that describe work in progress. Earlier notes are findings or not shown.
const NOTES: usize = 2;

/// A labelled report in at most `room`, with more of its end than of its beginning.
fn labelled(label: &str, report: &str, room: Chars, policy: &SummaryPolicy) -> Written {
    let report = plain_lines(report);
    let room = room.saturating_sub(Chars::of(label));
    if report.is_empty() {
        return Written::nothing();
    }
    if Chars::of(&report) <= room {
        return Written { text: format!("{label}{report}"), complete: true };
    }
    if room < policy.min_words {
        return Written::no_room();
    }
    let first = shorten(&report, room.share(policy.report_head_share));
    let last = shorten_front(&report, room.saturating_sub(Chars::of(&first) + Chars(1)));
    Written { text: format!("{label}{first} {last}"), complete: false }
}

/// A report without code blocks and emphasis, with its lines.
fn plain_lines(text: &str) -> String {
    let mut lines = Vec::new();
    let mut in_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        } else if !in_code && line.chars().any(char::is_alphanumeric) {
            lines.push(plain(line.trim_start_matches(['#', ' '])));
        }
    }
    lines.join("\n")
}

/// The todos by state. If room is short, finished todos are only counted.
fn todos(facts: &Facts, room: Chars) -> Written {
    let Some(list) = &facts.todos else { return Written::nothing() };
    let of = |state: TodoState| -> Vec<&str> {
        list.items.iter().filter(|todo| todo.state == state).map(|todo| todo.text.as_str()).collect()
    };
    let done = of(TodoState::Closed);
    let mut parts = Vec::new();
    for (label, state) in [("in progress", TodoState::Begun), ("open", TodoState::Open)] {
        let items = of(state);
        if !items.is_empty() {
            parts.push(format!("{label}: {}", items.join("; ")));
        }
    }
    let open = parts.clone();
    if !done.is_empty() {
        parts.push(format!("done: {}", done.join("; ")));
    }
    let whole = format!("Todos, {}", parts.join(". "));
    if Chars::of(&whole) <= room {
        return Written { text: whole, complete: true };
    }
    // Finished todos are shortened to their first words, or only counted if not even that fits.
    let short = format!("Todos, {}", open.join(". "));
    let left = room.saturating_sub(Chars::of(&short) + Chars(10));
    let each = Chars(left.0 / done.len().max(1) as u64).saturating_sub(Chars(2));
    if !done.is_empty() && each >= FIRST_WORDS {
        let done: Vec<String> = done.iter().map(|todo| shorten(todo, each)).collect();
        return Written { text: format!("{short}. done: {}", done.join("; ")), complete: false };
    }
    let counted = format!("Todos, {} of {} done. {}", done.len(), list.items.len(), open.join(". "));
    Written { complete: false, ..shortened(&counted, room, LEAST) }
}

/// Minimum length of a shortened todo. Less does not identify it.
const FIRST_WORDS: Chars = Chars(16);

fn errors(facts: &Facts, room: Chars) -> Written {
    let newest: Vec<&str> = facts.errors.iter().rev().take(ERRORS).map(|error| error.text.as_str()).collect();
    if newest.is_empty() {
        return Written::nothing();
    }
    shortened(&format!("Not fixed yet: {}", newest.join("; ")), room, LEAST)
}

/// Maximum number of failures. Older ones are rarely relevant to the current work.
const ERRORS: usize = 3;

/// The last commit, and files changed after it.
fn commit(facts: &Facts, room: Chars, policy: &SummaryPolicy) -> Written {
    let Some(commit) = &facts.commit else { return Written::nothing() };
    let hash = commit.hash.as_deref().map(|hash| format!(" {hash}")).unwrap_or_default();
    let mut line = format!("Last commit{hash}: {}", shorten(&commit.subject, policy.sentence_chars));
    let since = facts.files.iter().filter(|file| file.order > commit.order);
    let names: Vec<String> = since.rev().map(|file| end_of_path(&file.path)).collect();
    if !names.is_empty() {
        line.push_str(&format!(". Changed since, not committed: {}", names.join(", ")));
    }
    shortened(&line, room, LEAST)
}

/// Objects of the newest calls, newest first, so that the oldest are cut first.
fn steps(facts: &Facts, room: Chars) -> Written {
    let label = "Last steps, newest first: ";
    let mut text = String::new();
    let mut verb = "";
    for step in facts.steps.iter().rev() {
        let next = match (text.is_empty(), step.verb == verb) {
            (true, _) => format!("{} {}", step.verb, step.object),
            (false, true) => format!(", {}", step.object),
            (false, false) => format!("; {} {}", step.verb, step.object),
        };
        if Chars::of(label) + Chars::of(&text) + Chars::of(&next) > room {
            let text = if text.is_empty() { text } else { format!("{label}{text}") };
            return Written { text, complete: false };
        }
        text.push_str(&next);
        verb = step.verb;
    }
    Written { text: if text.is_empty() { text } else { format!("{label}{text}") }, complete: true }
}

/// Names used in the last steps, the most used first.
fn names(facts: &Facts, room: Chars) -> Written {
    let label = "Names in them: ";
    let mut text = String::new();
    for name in &facts.names {
        let next = if text.is_empty() { name.clone() } else { format!(", {name}") };
        if Chars::of(label) + Chars::of(&text) + Chars::of(&next) > room {
            let text = if text.is_empty() { text } else { format!("{label}{text}") };
            return Written { text, complete: false };
        }
        text.push_str(&next);
    }
    Written { text: if text.is_empty() { text } else { format!("{label}{text}") }, complete: true }
}

//! A summary without a model: deterministic, bounded, honest about how it was made.
//!
//! It is what everything falls back on, so it must be worth continuing from. It keeps what a session cannot go on
//! without, in this order of room: the user's own words; what was found and decided; where it stands; the files
//! changed; the commands that build, test and run. It holds no output of commands and no list of files read: those
//! can be had again by running and reading.
//!
//! The room is divided by the shares of [`SummaryPolicy`]. A section that needs less leaves the rest to the others.

mod files;
mod found;
mod prior;
mod room;
mod said;
mod standing;

use std::collections::BTreeSet;

use self::found::Finding;
use self::prior::Prior;
use self::room::{Portion, Written, divide};
use super::facts::{CommandRun, Ended, Facts, paths as paths_of_input};
use crate::chars::{Chars, Text, cut_middle};
use crate::count::{CharCounter, Counter, Tokens};
use crate::log::{Message, Part};
use crate::policy::SummaryPolicy;
use crate::redact::redact;

/// Said first, so that nobody takes the summary for more than it is.
pub(in crate::compact) const MADE_WITHOUT_MODEL: &str =
    "(This summary was made without a model, by picking out facts.)";

/// Paths in a tool's input: the usual fields, and the file headers of a patch.
pub fn paths(input: &serde_json::Value) -> Vec<String> {
    paths_of_input(input)
}

/// Summarise `history` in at most `most` tokens. `prior` is the summary of what came before it.
pub fn extract(
    history: &[&Message],
    prior: Option<&Text>,
    most: Tokens,
    policy: &SummaryPolicy,
    counter: &dyn Counter,
) -> Text {
    let facts = Facts::gather(history, policy);
    let material = Material::collect(&facts, history, prior, policy);
    fit(most, counter, |room| material.render(room, policy))
}

/// Summaries of ranges that a model or a person wrote. One that was made without a model is made anew with all the rest:
/// the messages are still there to pick facts from.
fn ranges<'a>(history: &'a [&Message]) -> impl Iterator<Item = String> + 'a {
    let texts = history.iter().flat_map(|message| &message.parts).filter_map(Part::replaced);
    texts.filter(|text| !text.contains(MADE_WITHOUT_MODEL)).map(|text| redact(text).text)
}

/// Writes a section in a room of some size.
type Writer<'a> = &'a dyn Fn(Chars) -> Written;

/// How often a rendering is repeated to come close to its budget. Counts of tokens are nearly proportional to length,
/// so two or three rounds do.
const ROUNDS: usize = 6;
/// A rendering that fills so much of the budget needs no better one.
const CLOSE: f64 = 0.95;

/// Render at the largest room that stays within `most` tokens.
fn fit(most: Tokens, counter: &dyn Counter, render: impl Fn(Chars) -> String) -> Text {
    let mut room = Chars(most.0.saturating_mul(CharCounter::default().chars_per_token));
    let mut best: Option<Text> = None;
    let mut last = Text::default();
    for _ in 0..ROUNDS {
        let text = Text::from(redact(&render(room)).text);
        let size = counter.count_text(&text);
        let filled = size.0 as f64 / most.0.max(1) as f64;
        let full = text.chars().0 as f64 >= room.0 as f64 * CLOSE;
        if size <= most {
            let better = best.as_ref().is_none_or(|best| best.chars() < text.chars());
            if better {
                best = Some(text.clone());
            }
            // More room would not be used, or there is hardly any.
            if !full || filled >= CLOSE {
                break;
            }
        }
        last = text;
        // A little less than the proportion says, because it is only nearly one.
        room = room.share((0.98 / filled.max(1e-9)).clamp(0.2, 4.0));
    }
    best.unwrap_or_else(|| {
        // Too little room for even the frame: the limit is the promise.
        let mut limit = Chars(most.0);
        loop {
            let text = cut_middle(&last, limit, 1.0);
            if counter.count_text(&text) <= most || limit == Chars::ZERO {
                return text;
            }
            limit = limit.share(0.7);
        }
    })
}

/// What a summary is made of: facts, and what an earlier summary of this kind held, in one.
struct Material<'a> {
    facts: &'a Facts,
    /// From where to where the messages are that the summary stands for.
    range: Option<(String, String)>,
    words: Vec<said::Words>,
    findings: Vec<Finding>,
    files: Vec<files::Named>,
    commands: Vec<files::Command>,
    /// What is left of an earlier summary that somebody else made.
    earlier: String,
}

impl<'a> Material<'a> {
    fn collect(
        facts: &'a Facts,
        history: &[&Message],
        prior: Option<&Text>,
        policy: &SummaryPolicy,
    ) -> Material<'a> {
        let prior = prior.map(|prior| Prior::read(&redact(prior).text)).unwrap_or_default();
        let ids = history.first().zip(history.last());
        let range = ids.map(|(first, last)| {
            let first = prior.first.clone().unwrap_or_else(|| first.info.id.to_string());
            (first, last.info.id.to_string())
        });
        let words = prior.words.iter().map(|text| said::Words::earlier(text));
        let newer = facts.words.iter().map(|words| said::Words::of(words, facts.todos.as_ref()));
        let words = words.chain(newer).collect();
        let mut findings: Vec<Finding> = prior.findings.iter().map(|text| Finding::earlier(text)).collect();
        findings.extend(found::findings(facts, policy));
        Material {
            facts,
            range,
            words,
            findings,
            files: files::merge(&prior.files, &facts.files),
            commands: commands(&prior.commands, facts),
            earlier: std::iter::once(prior.rest)
                .chain(ranges(history))
                .filter(|text| !text.is_empty())
                .collect::<Vec<_>>()
                .join("\n\n"),
        }
    }

    fn render(&self, room: Chars, policy: &SummaryPolicy) -> String {
        let mut out = MADE_WITHOUT_MODEL.to_owned();
        if let Some((first, last)) = &self.range {
            out.push_str(&format!(
                "\nMessages `{first}` to `{last}` are out of the window; recall them for details."
            ));
        }
        let left = room.saturating_sub(Chars::of(&out));
        let rest = if self.earlier.is_empty() { 1.0 } else { 1.0 - policy.prior_share };
        let earlier = |room: Chars| prior::write(&self.earlier, room);
        let said = |room: Chars| said::write(&self.words, room, policy);
        let standing = |room: Chars| standing::write(self.facts, room, policy);
        let files = |room: Chars| files::write_files(&self.files, room);
        let commands = |room: Chars| files::write_commands(&self.commands, &self.facts.addresses, room);
        // Two line ends before a heading, one after it.
        let portion = |(heading, share, write): (&str, f64, _)| Portion {
            share,
            frame: Chars::of(heading) + Chars(3),
            write,
        };
        let sections = |found| -> [(&'static str, f64, Writer<'_>); 6] {
            [
                (headings::EARLIER, 1.0 - rest, &earlier),
                (headings::SAID, policy.user_share * rest, &said),
                (headings::FOUND, policy.found_share * rest, found),
                (headings::STANDING, policy.standing_share * rest, &standing),
                (headings::FILES, policy.files_share * rest, &files),
                (headings::COMMANDS, policy.commands_share * rest, &commands),
            ]
        };
        // How much of the last report is shown is known only when the room is divided; then it is divided again without
        // what would be said twice.
        let found = |room: Chars| found::write(&self.findings, "", room, policy);
        let first = divide(&sections(&found).map(portion), left);
        let shown = first.into_iter().nth(STANDING_PLACE).map(|written| written.text).unwrap_or_default();
        let found = |room: Chars| found::write(&self.findings, &shown, room, policy);
        let sections = sections(&found);
        let written = divide(&sections.map(portion), left);
        for ((heading, ..), Written { text, .. }) in sections.iter().zip(written) {
            if !text.is_empty() {
                out.push_str(&format!("\n\n{heading}\n{text}"));
            }
        }
        out
    }
}

/// The headings of the sections, by which an earlier summary of this kind is read again.
mod headings {
    pub(super) const EARLIER: &str = "## Earlier summary";
    pub(super) const SAID: &str = "## What the user said";
    pub(super) const FOUND: &str = "## Found and decided";
    pub(super) const STANDING: &str = "## Where it stands";
    pub(super) const FILES: &str = "## Files changed";
    pub(super) const COMMANDS: &str = "## Commands";
}

/// The place of the section that tells where it stands among the sections.
const STANDING_PLACE: usize = 3;

/// So many of the newest commands are considered.
const MOST_COMMANDS: usize = 200;

/// The commands of this history after those of an earlier summary; one that was run again stands once.
fn commands(earlier: &[(String, String)], facts: &Facts) -> Vec<files::Command> {
    let again = |line: &str| facts.commands.iter().any(|run| run.line == line);
    let earlier = earlier.iter().filter(|(line, _)| !again(line));
    let earlier = earlier.map(|(line, outcome)| files::Command {
        line: line.clone(),
        outcome: outcome.clone(),
        value: 0,
        subjects: BTreeSet::new(),
    });
    // A command that a later one repeats as a part of itself says nothing more.
    let within = |run: &CommandRun| {
        let newer = facts.commands.iter().rev().take(MOST_COMMANDS);
        newer
            .take_while(|other| other.order > run.order)
            .any(|other| other.line != run.line && other.line.contains(&run.line))
    };
    // One that failed and was mended by another says nothing either.
    let mended = |run: &CommandRun| {
        matches!(run.ended, Ended::Badly(_))
            && !facts.errors.iter().any(|error| error.text.contains(&run.line))
    };
    // More commands than this are never told, and comparing each with each takes quadratic time.
    let newest = &facts.commands[facts.commands.len().saturating_sub(MOST_COMMANDS)..];
    let telling = newest.iter().filter(|run| !within(run) && !mended(run));
    let runs = telling.enumerate().map(|(place, run)| {
        let outcome = match &run.ended {
            Ended::Well(figures) => figures.clone().unwrap_or_else(|| "ok".to_owned()),
            Ended::Badly(figures) => match figures {
                Some(figures) if figures.contains("failed") => figures.clone(),
                Some(figures) => format!("failed, {figures}"),
                None => "failed".to_owned(),
            },
            Ended::Unknown => String::new(),
        };
        // Telling commands first, then those run often, then the newest.
        let value = (u64::from(run.weight) * 4 + run.runs.min(8)) * 1_000_000 + (place as u64).min(999_999);
        files::Command { line: run.line.clone(), outcome, value, subjects: run.subjects.clone() }
    });
    earlier.chain(runs).collect()
}

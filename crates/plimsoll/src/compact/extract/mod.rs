//! The extractive summary, which is made without a model: deterministic, limited in size, and labelled as such.
//!
//! This summary is the fallback for every other one, so an agent must be able to continue from it. Goal and next step come
//! first. The other sections have what a session cannot continue without, in this order of size: the user's own words;
//! findings and decisions, and failed approaches; the state of the work; changed files; commands that build, test and
//! run, and their environment. Outputs of commands are left out, because the agent can run the commands again.
//!
//! The room is divided by the shares of [`SummaryPolicy`]. Room that a section does not need goes to the others.

mod environment;
mod files;
mod foreign;
mod found;
mod goal;
mod prior;
mod room;
mod said;
mod standing;

use std::collections::BTreeSet;

use self::environment::Property;
use self::foreign::{Foreign, Section};
use self::found::Finding;
use self::goal::Goal;
use self::prior::Prior;
use self::room::{Portion, Written, divide};
use crate::chars::{Chars, Text, head};
use crate::counter::{CharCounter, Counter};
use crate::facts::{CommandRun, Ended, Facts};
use crate::log::{Message, Part};
use crate::policy::SummaryPolicy;
use crate::redact::redact;
use crate::tokens::Tokens;

pub(in crate::compact) use self::prior::listed_files;

/// First line of the summary, so that the model does not mistake it for a considered summary. Also identifies summaries
/// of this kind when they are merged.
pub(in crate::compact) const MADE_WITHOUT_MODEL: &str =
    "(This summary was made without a model, by picking out facts.)";

/// Summarises `history` in at most `most` tokens. `prior` is the summary of the messages before it.
pub fn extract(
    history: &[&Message],
    prior: Option<&Text>,
    most: Tokens,
    policy: &SummaryPolicy,
    counter: &dyn Counter,
) -> Text {
    extract_before(history, &[], prior, most, policy, counter)
}

/// Like [`extract`], for a history whose following messages stay in view. They decide what is still open and what comes
/// next.
pub fn extract_before(
    history: &[&Message],
    following: &[&Message],
    prior: Option<&Text>,
    most: Tokens,
    policy: &SummaryPolicy,
    counter: &dyn Counter,
) -> Text {
    let gather = |messages: &[&Message]| Facts::gather_unless(&|| counter.is_stopped(), messages, policy);
    let facts = gather(history);
    let all = (!following.is_empty()).then(|| gather(&[history, following].concat()));
    let now = all.as_ref().unwrap_or(&facts);
    let content = Content::collect(&facts, now, history, prior, policy);
    fit(most, counter, |room| content.render(room, policy))
}

/// Summaries of ranges that a model or the user wrote. Extractive ones are skipped, because their messages are part of
/// the history and facts are extracted from them again.
fn ranges<'a>(history: &'a [&Message]) -> impl Iterator<Item = String> + 'a {
    let texts = history.iter().flat_map(|message| &message.parts).filter_map(Part::replaced);
    texts.filter(|text| !text.contains(MADE_WITHOUT_MODEL)).map(|text| redact(text).text)
}

/// Writes a section of at most the given length.
type Writer<'a> = &'a dyn Fn(Chars) -> Written;

/// Maximum number of renderings. Every other one halves the range of possible lengths, so this many find the length for
/// any window.
const ROUNDS: usize = 24;
/// Share of the budget that a rendering must fill to need no better one.
const CLOSE: f64 = 0.97;

/// Renders at the largest room that stays within `most` tokens.
///
/// Tokens are nearly proportional to length, so the next room follows from the proportion of the last rendering. With a
/// counter for which they are not, that proportion can miss the answer again and again. So each room is also between
/// the largest that fits and the smallest that does not, and every other round halves that range.
fn fit(most: Tokens, counter: &dyn Counter, render: impl Fn(Chars) -> String) -> Text {
    let rendered = |room: Chars| {
        // Redacted before it is counted, because a mark differs in length from the secret that it replaces.
        let text = Text::from(redact(&render(room)).text);
        let size = counter.count_text(&text);
        (text, size)
    };
    let mut best: Option<Text> = None;
    // Largest room known to fit, and smallest known not to.
    let (mut fits, mut exceeds): (u64, Option<u64>) = (0, None);
    let mut room = most.0.saturating_mul(CharCounter::default().chars_per_token);
    for round in 0..ROUNDS {
        if counter.is_stopped() {
            return Text::default();
        }
        let (text, size) = rendered(Chars(room));
        let filled = size.0 as f64 / most.0.max(1) as f64;
        if size <= most {
            // A rendering that leaves room unused contains everything.
            let is_whole = (text.chars().0 as f64) < room as f64 * CLOSE;
            fits = fits.max(room);
            if best.as_ref().is_none_or(|best| best.chars() < text.chars()) {
                best = Some(text);
            }
            if is_whole || filled >= CLOSE {
                break;
            }
        } else {
            exceeds = Some(exceeds.map_or(room, |least| least.min(room)));
        }
        // Slightly less than proportional, because the proportion is inexact.
        let wanted = (room as f64 * (0.98 / filled.max(1e-9)).clamp(0.1, 4.0)) as u64;
        let is_inside = wanted > fits && exceeds.is_none_or(|least| wanted < least);
        room = match exceeds {
            // Every other round bisects, in case the proportion keeps missing.
            Some(least) if !is_inside || round % 2 == 1 => fits.midpoint(least),
            _ => wanted,
        };
        if exceeds.is_some_and(|least| least <= fits + 1) || room <= fits {
            break;
        }
    }
    best.unwrap_or_else(|| within(&rendered(Chars::ZERO).0, most, counter))
}

/// The beginning of a text that is too long even without sections, because the limit is guaranteed.
fn within(text: &Text, most: Tokens, counter: &dyn Counter) -> Text {
    let (mut low, mut high) = (0, text.chars().0);
    while low < high {
        let middle = high - (high - low) / 2;
        match counter.count(head(text, Chars(middle))) <= most {
            true => low = middle,
            false => high = middle - 1,
        }
    }
    Text::from(head(text, Chars(low)))
}

/// Content of a summary: the facts, merged with the content of an earlier summary.
struct Content<'a> {
    facts: &'a Facts,
    /// Facts of all messages up to the newest, for what is open.
    now: &'a Facts,
    /// Ids of the first and the last message that the summary replaces.
    range: Option<(String, String)>,
    goal: Goal,
    words: Vec<said::Words>,
    findings: Vec<Finding>,
    failures: Vec<Finding>,
    files: Vec<files::Named>,
    commands: Vec<files::Command>,
    environment: Vec<Property>,
    /// Sections of earlier summaries that a model or another tool made.
    earlier: Vec<Section>,
}

impl<'a> Content<'a> {
    fn collect(
        facts: &'a Facts,
        now: &'a Facts,
        history: &[&Message],
        prior: Option<&Text>,
        policy: &SummaryPolicy,
    ) -> Content<'a> {
        let prior = prior.map(|prior| Prior::read(&redact(prior).text)).unwrap_or_default();
        let ids = history.first().zip(history.last());
        let range = ids.map(|(first, last)| {
            let first = prior.first.clone().unwrap_or_else(|| first.info.id.to_string());
            (first, last.info.id.to_string())
        });
        let words = prior.words.iter().map(|text| said::Words::earlier(text));
        let newer = facts.words.iter().map(|words| said::Words::of(words, facts.todos.as_ref()));
        let mut words: Vec<said::Words> = words.chain(newer).collect();
        let goal = Goal::take(&mut words);
        let found = prior.findings.iter().map(|text| Finding::earlier(text, false));
        let failed = prior.failures.iter().map(|text| Finding::earlier(text, true));
        let all = found.chain(failed).chain(found::findings(facts, policy));
        let (failures, findings) = all.partition(|finding| finding.is_failure);
        let ranges = ranges(history).flat_map(|text| Foreign::read(&text).sections);
        Content {
            facts,
            now,
            range,
            goal,
            words,
            findings,
            failures,
            files: files::merge(&prior.files, &facts.files),
            commands: commands(&prior.commands, facts),
            environment: environment::merge(&prior.environment, facts),
            earlier: prior.sections.into_iter().chain(ranges).collect(),
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
        let goal = |room: Chars| self.goal.write(room, policy);
        let next =
            |room: Chars| goal::write_next(self.now, self.now.words.len() > self.facts.words.len(), room);
        let earlier = |room: Chars| foreign::write(&self.earlier, room);
        let said = |room: Chars| said::write(&self.words, room, policy);
        let standing = |room: Chars| standing::write(self.facts, self.now, room, policy);
        let files = |room: Chars| files::write_files(&self.files, room);
        let commands = |room: Chars| files::write_commands(&self.commands, room);
        let environment = |room: Chars| environment::write(&self.environment, room);
        // Two newlines before a heading, one after it.
        let portion = |(heading, share, write): (&str, f64, _)| Portion {
            share,
            frame: Chars::of(heading) + Chars(3),
            write,
        };
        let goal_part = self.goal_part(policy);
        let next_share = policy.standing_share * rest * NEXT_PART;
        let next_share = next_share.max((MIN_NEXT.0 as f64 / left.0.max(1) as f64).min(MAX_NEXT_SHARE));
        let sections = |found, failed| -> [(&'static str, f64, Writer<'_>); SECTIONS] {
            [
                (headings::GOAL, policy.user_share * rest * goal_part, &goal),
                (headings::NEXT, next_share, &next),
                (headings::EARLIER, 1.0 - rest, &earlier),
                (headings::SAID, policy.user_share * rest * (1.0 - goal_part), &said),
                (headings::FOUND, policy.found_share * rest * (1.0 - FAILED_PART), found),
                (headings::FAILED, policy.found_share * rest * FAILED_PART, failed),
                (headings::STANDING, policy.standing_share * rest * (1.0 - NEXT_PART), &standing),
                (headings::FILES, policy.files_share * rest, &files),
                (headings::COMMANDS, policy.commands_share * rest * (1.0 - ENVIRONMENT_PART), &commands),
                (headings::ENVIRONMENT, policy.commands_share * rest * ENVIRONMENT_PART, &environment),
            ]
        };
        // How much of the last report is shown is known only after the room was divided. It is divided again so that
        // findings do not repeat the report.
        let found = |room: Chars| found::write(&self.findings, "", room, policy);
        let failed = |room: Chars| found::write(&self.failures, "", room, policy);
        let first = divide(&sections(&found, &failed).map(portion), left);
        let shown = first.into_iter().nth(STANDING_PLACE).map(|written| written.text).unwrap_or_default();
        let found = |room: Chars| found::write(&self.findings, &shown, room, policy);
        let failed = |room: Chars| found::write(&self.failures, &shown, room, policy);
        let sections = sections(&found, &failed);
        let written = divide(&sections.map(portion), left);
        for ((heading, ..), Written { text, .. }) in sections.iter().zip(written) {
            if !text.is_empty() {
                out.push_str(&format!("\n\n{heading}\n{text}"));
            }
        }
        out
    }

    /// The goal's part of the room for the user's words: each of its messages counts as several others.
    fn goal_part(&self, policy: &SummaryPolicy) -> f64 {
        let goal = self.goal.len() as f64 * policy.ends_weight;
        match self.words.len() {
            0 => 1.0,
            others => (goal / (goal + others as f64)).max(MIN_GOAL_SHARE),
        }
    }
}

/// Number of sections.
const SECTIONS: usize = 10;
/// Minimum part of the room for the user's words that the goal gets.
const MIN_GOAL_SHARE: f64 = 0.25;
/// The next step's part of the room for where the work stands.
const NEXT_PART: f64 = 0.2;
/// Minimum room for the next step, and its maximum share if room is short.
const MIN_NEXT: Chars = Chars(200);
const MAX_NEXT_SHARE: f64 = 0.15;
/// The failed approaches' part of the room for what was found.
const FAILED_PART: f64 = 0.15;
/// The environment's part of the room for commands.
const ENVIRONMENT_PART: f64 = 0.4;

/// Headings of the sections. They are parsed when an earlier summary of this kind is merged.
mod headings {
    pub(super) const GOAL: &str = "## Goal";
    pub(super) const NEXT: &str = "## Next step";
    pub(super) const EARLIER: &str = "## Earlier summary";
    pub(super) const SAID: &str = "## What the user said";
    pub(super) const FOUND: &str = "## Found and decided";
    pub(super) const FAILED: &str = "## Tried and failed";
    pub(super) const STANDING: &str = "## Where it stands";
    pub(super) const FILES: &str = "## Files changed";
    pub(super) const COMMANDS: &str = "## Commands";
    pub(super) const ENVIRONMENT: &str = "## Environment";
}

/// Position of the section [`headings::STANDING`] among the sections.
const STANDING_PLACE: usize = 6;

/// Maximum number of commands that are considered, the newest.
const MAX_COMMANDS: usize = 200;

/// The commands of an earlier summary followed by those of this history, without duplicates.
fn commands(earlier: &[(String, String)], facts: &Facts) -> Vec<files::Command> {
    let again = |line: &str| facts.commands.iter().any(|run| run.line == line);
    let earlier = earlier.iter().filter(|(line, _)| !again(line));
    let earlier = earlier.map(|(line, outcome)| files::Command {
        line: line.clone(),
        outcome: outcome.clone(),
        value: 0,
        subjects: BTreeSet::new(),
    });
    // A command is redundant if a later command line contains it.
    let within = |run: &CommandRun| {
        let newer = facts.commands.iter().rev().take(MAX_COMMANDS);
        newer
            .take_while(|other| other.order > run.order)
            .any(|other| other.line != run.line && other.line.contains(&run.line))
    };
    // A failed command is redundant if its failure was resolved by another.
    let mended = |run: &CommandRun| {
        matches!(run.ended, Ended::Badly(_))
            && !facts.errors.iter().any(|error| error.text.contains(&run.line))
    };
    // More commands than this are never shown, and comparing all pairs takes quadratic time.
    let newest = &facts.commands[facts.commands.len().saturating_sub(MAX_COMMANDS)..];
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
        // Informative commands first, then those run often, then the newest.
        let value = (u64::from(run.weight) * 4 + run.runs.min(8)) * 1_000_000 + (place as u64).min(999_999);
        files::Command { line: run.line.clone(), outcome, value, subjects: run.subjects.clone() }
    });
    earlier.chain(runs).collect()
}

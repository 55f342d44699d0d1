//! Parses an earlier summary so that it can be merged. Summaries of other kinds are parsed by
//! [`foreign`](super::foreign).

use super::foreign::{Foreign, Section};
use super::{MADE_WITHOUT_MODEL, goal, headings};

/// Content of an earlier summary that still applies. The state of the work is not taken over, because it would read as
/// the current state.
#[derive(Default)]
pub(super) struct Prior {
    /// Id of the first message that it replaced.
    pub(super) first: Option<String>,
    pub(super) words: Vec<String>,
    pub(super) findings: Vec<String>,
    pub(super) failures: Vec<String>,
    pub(super) files: Vec<String>,
    /// Command lines and their outcomes.
    pub(super) commands: Vec<(String, String)>,
    /// Properties of the environment, as lines.
    pub(super) environment: Vec<String>,
    /// Sections of a summary of another kind.
    pub(super) sections: Vec<Section>,
}

impl Prior {
    pub(super) fn read(text: &str) -> Prior {
        if !text.trim_start().starts_with(MADE_WITHOUT_MODEL) {
            let Foreign { goal, words, sections } = Foreign::read(text);
            return Prior { words: goal.into_iter().chain(words).collect(), sections, ..Prior::default() };
        }
        let mut prior = Prior::default();
        let (mut goals, mut earlier) = (Vec::new(), String::new());
        let (mut section, mut root) = ("", String::new());
        for line in text.lines() {
            if line.starts_with("## ") {
                section = line;
                root.clear();
                continue;
            }
            match section {
                "" => prior.first = prior.first.take().or_else(|| first_message(line)),
                headings::GOAL => item(&mut goals, line),
                headings::SAID => item(&mut prior.words, line),
                headings::FOUND => item(&mut prior.findings, line),
                headings::FAILED => item(&mut prior.failures, line),
                headings::ENVIRONMENT => item(&mut prior.environment, line),
                headings::FILES => {
                    match line.strip_prefix("Under `").and_then(|rest| rest.strip_suffix("`:")) {
                        Some(directory) => root = format!("{directory}/"),
                        None => prior.files.extend(paths(line, &root)),
                    }
                }
                headings::COMMANDS => prior.commands.extend(command(line)),
                headings::EARLIER => {
                    earlier.push_str(line);
                    earlier.push('\n');
                }
                _ => {}
            }
        }
        // In the order in which they were said.
        for goal in goals {
            match (goal.strip_prefix(goal::FIRST), goal.strip_prefix(goal::NEWEST)) {
                (Some(first), _) => prior.words.insert(0, first.to_owned()),
                (_, newest) => prior.words.push(newest.unwrap_or(&goal).to_owned()),
            }
        }
        prior.sections = Foreign::read(&earlier).sections;
        prior
    }
}

/// The paths in a summary's list of changed files.
pub(in crate::compact) fn listed_files(summary: &str) -> Vec<String> {
    Prior::read(summary).files
}

/// The first id in the line about messages that are out of the window.
fn first_message(line: &str) -> Option<String> {
    let rest = line.strip_prefix("Messages `")?;
    Some(rest.split('`').next()?.to_owned())
}

/// Adds a line to the last item, or starts a new one.
fn item(items: &mut Vec<String>, line: &str) {
    if let Some(text) = line.strip_prefix("- ") {
        // The range of this summary includes messages that the earlier one omitted.
        if !text.ends_with("left out; recall them)") && !text.ends_with("left out; recall it)") {
            items.push(text.to_owned());
        }
    } else if let (Some(text), Some(open)) = (line.strip_prefix("  "), items.last_mut()) {
        open.push('\n');
        open.push_str(text);
    }
}

/// The paths of a line `- directory/: name, below/{a,b}.rs, name (new)`.
fn paths(line: &str, root: &str) -> Vec<String> {
    let Some(line) = line.strip_prefix("- ") else { return Vec::new() };
    let (directory, names) = match line.split_once("/: ") {
        Some((directory, names)) => (format!("{directory}/"), names),
        None => (String::new(), line),
    };
    let mut found = Vec::new();
    let mut depth = 0;
    // A comma inside braces does not separate names.
    let words = names.split(|c: char| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    for word in words {
        let word = word.trim().trim_end_matches(" (new)").trim_end_matches(" (deleted)");
        let braces = word.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)));
        match braces {
            Some((before, (stems, ending))) => {
                found.extend(stems.split(',').map(|stem| format!("{root}{directory}{before}{stem}{ending}")));
            }
            None if !word.is_empty() => found.push(format!("{root}{directory}{word}")),
            None => {}
        }
    }
    found
}

/// The command and the outcome of a line `` - `command` → outcome ``.
fn command(line: &str) -> Option<(String, String)> {
    let rest = line.strip_prefix("- `")?;
    let (line, outcome) = rest.rsplit_once("` → ").unwrap_or((rest.trim_end_matches('`'), ""));
    Some((line.to_owned(), outcome.to_owned()))
}

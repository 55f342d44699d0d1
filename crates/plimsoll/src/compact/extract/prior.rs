//! An earlier summary, taken apart so that it can be merged: one of this kind into its sections, any other into what of
//! it is not stale.

use super::super::contract;
use super::super::prose::{Pattern, any_of, matches};
use super::room::Written;
use super::{MADE_WITHOUT_MODEL, headings};
use crate::chars::{Chars, Text, cut_middle};

/// What an earlier summary says that still holds. Where the work stood then is not taken over: it would read as where
/// it stands now.
#[derive(Default)]
pub(super) struct Prior {
    /// The first message that it stood for.
    pub(super) first: Option<String>,
    pub(super) words: Vec<String>,
    pub(super) findings: Vec<String>,
    pub(super) files: Vec<String>,
    /// Command lines and how they ended.
    pub(super) commands: Vec<(String, String)>,
    /// All of a summary of another kind, without its stale sections.
    pub(super) rest: String,
}

impl Prior {
    pub(super) fn read(text: &str) -> Prior {
        if !text.trim_start().starts_with(MADE_WITHOUT_MODEL) {
            return Prior { rest: without_stale(text), ..Prior::default() };
        }
        let mut prior = Prior::default();
        let (mut section, mut root) = ("", String::new());
        for line in text.lines() {
            if line.starts_with("## ") {
                section = line;
                root.clear();
                continue;
            }
            match section {
                "" => prior.first = prior.first.take().or_else(|| first_message(line)),
                headings::SAID => item(&mut prior.words, line),
                headings::FOUND => item(&mut prior.findings, line),
                headings::FILES => {
                    match line.strip_prefix("Under `").and_then(|rest| rest.strip_suffix("`:")) {
                        Some(folder) => root = format!("{folder}/"),
                        None => prior.files.extend(paths(line, &root)),
                    }
                }
                headings::COMMANDS => prior.commands.extend(command(line)),
                headings::EARLIER => {
                    prior.rest.push_str(line);
                    prior.rest.push('\n');
                }
                _ => {}
            }
        }
        prior.rest.truncate(prior.rest.trim_end().len());
        prior
    }
}

/// Write what is left of it, more of its beginning than of its end.
pub(super) fn write(earlier: &str, room: Chars) -> Written {
    let text = Text::from(earlier);
    Written { complete: text.chars() <= room, text: cut_middle(&text, room, 0.7).to_string() }
}

/// The first id of the line that tells what is out of the window.
fn first_message(line: &str) -> Option<String> {
    let rest = line.strip_prefix("Messages `")?;
    Some(rest.split('`').next()?.to_owned())
}

/// Add a line to the item it goes on, or begin a new one.
fn item(items: &mut Vec<String>, line: &str) {
    if let Some(text) = line.strip_prefix("- ") {
        // What an earlier summary left out is named by its range already.
        if !text.ends_with("left out; recall them)") && !text.ends_with("left out; recall it)") {
            items.push(text.to_owned());
        }
    } else if let (Some(text), Some(open)) = (line.strip_prefix("  "), items.last_mut()) {
        open.push('\n');
        open.push_str(text);
    }
}

/// The paths of a line `- folder/: name, below/{a,b}.rs, name (new)`.
fn paths(line: &str, root: &str) -> Vec<String> {
    let Some(line) = line.strip_prefix("- ") else { return Vec::new() };
    let (folder, names) = match line.split_once("/: ") {
        Some((folder, names)) => (format!("{folder}/"), names),
        None => (String::new(), line),
    };
    let mut found = Vec::new();
    let mut depth = 0;
    // A comma inside braces divides no names.
    let words = names.split(|c: char| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    for word in words {
        let word = word.trim().trim_end_matches(" (new)").trim_end_matches(" (deleted)");
        let braces = word.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)));
        match braces {
            Some((before, (stems, ending))) => {
                found.extend(stems.split(',').map(|stem| format!("{root}{folder}{before}{stem}{ending}")));
            }
            None if !word.is_empty() => found.push(format!("{root}{folder}{word}")),
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

/// A summary without the sections that tell what was going on and what was to come: that was then.
fn without_stale(text: &str) -> String {
    static STALE: Pattern = Pattern::new(|| {
        any_of(&[
            "next step",
            "next steps",
            "next move",
            "current work",
            "current state",
            "current status",
            "in progress",
            "pending",
            "where it stands",
            "remaining",
            "what's next",
            "optional next step",
            "doing now",
            "being done",
        ])
    });
    let mut out = String::new();
    let mut stale_at: Option<usize> = None;
    for line in text.lines() {
        if let Some(depth) = heading_depth(line) {
            // A heading of the same or a higher rank ends a stale section.
            if stale_at.is_some_and(|rank| depth <= rank) {
                stale_at = None;
            }
            if stale_at.is_none() && (matches(&STALE, line) || line.trim() == contract::HEADING) {
                stale_at = Some(depth);
            }
        }
        if stale_at.is_none() {
            out.push_str(line);
            out.push('\n');
        }
    }
    out.trim().to_owned()
}

/// The rank of a heading: the number of its marks, or of a numbered or bold title a low one.
fn heading_depth(line: &str) -> Option<usize> {
    let marks = line.bytes().take_while(|byte| *byte == b'#').count();
    if (1..=6).contains(&marks) && line[marks..].starts_with(' ') {
        return Some(marks);
    }
    let title = line.trim_end().trim_end_matches(':');
    let numbered =
        line.starts_with(|c: char| c.is_ascii_digit()) && line.trim_end().ends_with(':') && line.len() < 80;
    let bold = title.starts_with("**") && title.ends_with("**");
    (numbered || bold).then_some(7)
}

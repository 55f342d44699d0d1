//! Parses a summary that a model or another tool wrote into its sections.
//!
//! Such a summary is long, and most of it describes a past state. The goal and the user's messages count as the user's
//! words. Sections about current work and next steps are stale and dropped, and so are the analysis that some tools
//! write first and the request to continue. If room is short, the other sections keep their first lines.

use super::super::contract;
use super::room::Written;
use crate::chars::{Chars, level};
use crate::pattern::Regex;
use crate::prose::{Pattern, any_of, matches, patterns_of};

/// A section with its title.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Section {
    title: String,
    lines: Vec<String>,
}

/// Content of a summary of another kind that still applies.
#[derive(Clone, Debug, Default)]
pub(super) struct Foreign {
    /// The goal, in the words of the summary.
    pub(super) goal: Option<String>,
    /// The user's messages that it lists.
    pub(super) words: Vec<String>,
    /// All other sections.
    pub(super) sections: Vec<Section>,
}

/// How a section is used.
enum Use {
    Goal,
    Words,
    Facts,
    None,
}

impl Foreign {
    pub(super) fn read(text: &str) -> Foreign {
        let mut foreign = Foreign::default();
        let mut open: Option<usize> = None;
        for (depth, section) in sections(&without_analysis(text)) {
            // Subsections of an unused section are not used either.
            if open.is_some_and(|stale| depth > stale) {
                continue;
            }
            open = None;
            match use_of(&section.title) {
                Use::None => open = Some(depth),
                Use::Goal if foreign.goal.is_none() => {
                    foreign.goal = Some(body(&section)).filter(|goal| !goal.is_empty());
                }
                Use::Words => foreign.words.extend(items(&section.lines)),
                Use::Goal | Use::Facts => foreign.sections.push(section),
            }
        }
        foreign.sections.retain(|section| !section.lines.is_empty());
        foreign
    }
}

fn use_of(title: &str) -> Use {
    static STALE: Pattern = Pattern::new(|| any_of(include_str!("../../../words/foreign/stale.txt")));
    static GOAL: Pattern = Pattern::new(|| any_of(include_str!("../../../words/foreign/goal.txt")));
    static WORDS: Pattern = Pattern::new(|| any_of(include_str!("../../../words/foreign/user_words.txt")));
    match title {
        _ if matches(&STALE, title) || title == contract::CONTRACT_HEADING.trim_start_matches(['#', ' ']) => {
            Use::None
        }
        _ if matches(&WORDS, title) => Use::Words,
        _ if matches(&GOAL, title) => Use::Goal,
        _ => Use::Facts,
    }
}

/// Removes the model's analysis before the summary, and instructions around it.
fn without_analysis(text: &str) -> String {
    static ORDER: Pattern = Pattern::new(|| {
        let orders = patterns_of(include_str!("../../../words/foreign/orders.txt"));
        Regex::new(&format!(r"(?i)^(?:{orders})")).ok()
    });
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find("<analysis>") {
        out.push_str(&rest[..open]);
        let inside = &rest[open..];
        rest = inside.find("</analysis>").map_or("", |close| &inside[close + "</analysis>".len()..]);
    }
    out.push_str(rest);
    let out = out.replace("<summary>", "").replace("</summary>", "");
    let lines = out.lines().filter(|line| !matches(&ORDER, line.trim()));
    lines.collect::<Vec<_>>().join("\n")
}

/// The sections of a text, each with the rank of its heading; 0 for text before the first heading.
fn sections(text: &str) -> Vec<(usize, Section)> {
    let mut found = Vec::new();
    let (mut depth, mut open) = (0, Section::default());
    let mut in_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
            continue;
        }
        // Code in a summary is usually a copy of a file, which can be read again.
        if in_code || line.trim().is_empty() {
            continue;
        }
        match heading(line) {
            Some((rank, title, rest)) => {
                found.push((depth, std::mem::take(&mut open)));
                (depth, open.title) = (rank, title);
                open.lines.extend(rest);
            }
            None => open.lines.push(line.trim_end().to_owned()),
        }
    }
    found.push((depth, open));
    found
}

/// The rank of a heading, its title and the text on the same line. A numbered or bold title ranks below Markdown
/// headings.
fn heading(line: &str) -> Option<(usize, String, Option<String>)> {
    let trimmed = line.trim();
    let marks = line.bytes().take_while(|byte| *byte == b'#').count();
    if (1..=6).contains(&marks) && line[marks..].starts_with(' ') {
        return Some((marks, line[marks..].trim().trim_matches('*').trim_end_matches(':').to_owned(), None));
    }
    // Items of a list are indented or have a bullet; a title does not.
    if line.starts_with([' ', '\t', '-', '*']) && !line.starts_with("**") {
        return None;
    }
    let number = trimmed.bytes().take_while(u8::is_ascii_digit).count();
    let title = match number {
        0 => trimmed,
        _ => trimmed[number..].strip_prefix(['.', ')'])?.trim_start(),
    };
    if let Some(bold) = title.strip_prefix("**") {
        let (title, rest) = bold.split_once("**")?;
        let rest = rest.trim_start_matches(':').trim();
        let title = title.trim_end_matches(':').to_owned();
        return (number > 0 || rest.is_empty())
            .then(|| (7, title, Some(rest.to_owned()).filter(|rest| !rest.is_empty())));
    }
    let title = title.strip_suffix(':').filter(|title| number > 0 && title.len() < 80)?;
    Some((7, title.to_owned(), None))
}

/// The text of a section without list bullets.
fn body(section: &Section) -> String {
    let lines = section.lines.iter().map(|line| line.trim().trim_start_matches("- "));
    lines.collect::<Vec<_>>().join("\n")
}

/// The items of a list with their continuation lines, without surrounding quotes.
fn items(lines: &[String]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in lines {
        let trimmed = line.trim();
        let number = trimmed.bytes().take_while(u8::is_ascii_digit).count();
        let numbered =
            trimmed.get(number..).and_then(|rest| rest.strip_prefix(['.', ')'])).filter(|_| number > 0);
        let item = trimmed.strip_prefix(['-', '*', '•']).or(numbered).map(str::trim_start);
        match (item, found.last_mut()) {
            (Some(item), _) => found.push(item.to_owned()),
            (None, Some(open)) => {
                open.push('\n');
                open.push_str(trimmed);
            }
            (None, None) => found.push(trimmed.to_owned()),
        }
    }
    let unquoted = |text: String| {
        let inner = text.strip_prefix(['"', '“']).and_then(|text| text.strip_suffix(['"', '”']));
        inner.map(str::to_owned).unwrap_or(text)
    };
    found.into_iter().map(unquoted).filter(|text| text.chars().any(char::is_alphanumeric)).collect()
}

/// Writes the sections, shortened to their first lines if they do not fit.
pub(super) fn write(sections: &[Section], room: Chars) -> Written {
    let title = |section: &Section| match section.title.as_str() {
        "" => String::new(),
        title => format!("### {title}\n"),
    };
    let length =
        |section: &Section| section.lines.iter().map(|line| Chars::of(line) + Chars(1)).sum::<Chars>();
    let frames: Chars = sections.iter().map(|section| Chars::of(&title(section))).sum();
    // A section that is cut ends in an ellipsis.
    let limit = level(sections.iter().map(length), room.saturating_sub(frames)).saturating_sub(Chars(1));
    let complete = limit >= Chars(u64::MAX - 1);
    let mut out = String::new();
    for section in sections {
        let mut shown = String::new();
        let mut left = limit;
        for line in &section.lines {
            let cost = Chars::of(line) + Chars(1);
            if cost > left {
                shown.push_str("…\n");
                break;
            }
            left = left.saturating_sub(cost);
            shown.push_str(line);
            shown.push('\n');
        }
        if shown.trim_end() != "…" {
            out.push_str(&title(section));
            out.push_str(&shown);
        }
    }
    let text = out.trim_end().to_owned();
    Written { complete, text: if Chars::of(&text) <= room { text } else { String::new() } }
}

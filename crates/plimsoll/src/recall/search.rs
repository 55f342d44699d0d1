//! Searching content line by line, and showing what was found as `grep` does.

use super::answer::{RecallContent, shorten};
use crate::chars::{Chars, head, tail};
use crate::pattern::Regex;
use crate::policy::RecallPolicy;

/// What is looked for.
pub(super) struct Pattern {
    text: String,
    /// None where the text is no regular expression: a model that searches for `foo(` means these four characters.
    regex: Option<Regex>,
}

impl Pattern {
    pub(super) fn new(text: &str) -> Pattern {
        Pattern { text: text.to_owned(), regex: Regex::new(text).ok() }
    }

    /// The pattern as it is told.
    pub(super) fn label(&self) -> String {
        let text = shorten(&self.text);
        match self.regex {
            Some(_) => format!("`{text}`"),
            None => format!("`{text}` (taken as it is, it is no regular expression)"),
        }
    }

    /// Where in a line it begins to match.
    fn find(&self, line: &str) -> Option<usize> {
        match &self.regex {
            Some(regex) => regex.find(line).map(|found| found.start()),
            None => line.find(&self.text),
        }
    }
}

/// The lines of some content that match.
pub(super) struct Hits<'a> {
    /// The lines at hand with their numbers, of which those asked for were searched.
    lines: Vec<(u64, &'a str)>,
    /// The numbers of the lines that match, counted from 1, and where in the line.
    matches: Vec<(u64, usize)>,
    /// How many match in all; more than those at hand where the content is an excerpt.
    count: u64,
    pub(super) all_lines: u64,
}

/// Matches as they are shown.
pub(super) struct Rendered {
    pub(super) text: String,
    /// How many matches are in it.
    pub(super) matches: u64,
    /// The line of the first match that is not.
    pub(super) next: Option<u64>,
}

impl<'a> Hits<'a> {
    pub(super) fn of(
        content: &'a RecallContent,
        pattern: &Pattern,
        from: Option<u64>,
        to: Option<u64>,
    ) -> Hits<'a> {
        let wanted = from.unwrap_or(1)..=to.unwrap_or(u64::MAX);
        let lines: Vec<(u64, &str)> = content.lines().collect();
        let matches = lines.iter().filter(|(number, _)| wanted.contains(number));
        let matches: Vec<(u64, usize)> =
            matches.filter_map(|(number, line)| Some((*number, pattern.find(line)?))).collect();
        let told = content.excerpt.as_ref().map_or(0, |excerpt| excerpt.matches);
        let count = told.max(matches.len() as u64);
        Hits { matches, count, all_lines: content.all_lines(), lines }
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The first matches, each with the lines around it: `12:` for a line that matches, `12-` for one around it, and
    /// `--` where lines are left out. Where not even the first match fits with the lines around it, it stands alone.
    pub(super) fn render(&self, room: Chars, most: u64, policy: &RecallPolicy) -> Rendered {
        let mut rendered = Rendered { text: String::new(), matches: 0, next: None };
        let mut left = room;
        let mut shown_to = 0;
        for (at, &(number, _)) in self.matches.iter().enumerate() {
            // Lines between two matches are shown with the first of them.
            let next = self.matches.get(at + 1).map_or(self.all_lines + 1, |(next, _)| *next);
            let from = number.saturating_sub(policy.context_lines).max(shown_to + 1);
            let to = number.saturating_add(policy.context_lines).min(next - 1);
            let mut piece: Vec<String> = (from..=to).filter_map(|line| self.line(line, at, policy)).collect();
            if shown_to > 0 && from > shown_to + 1 {
                piece.insert(0, "--".to_owned());
            }
            let newline = Chars(u64::from(shown_to > 0));
            let mut piece = piece.join("\n");
            if Chars::of(&piece) > left && shown_to == 0 {
                piece = self.line(number, at, policy).unwrap_or_default();
            }
            let length = Chars::of(&piece) + newline;
            if length > left || rendered.matches == most {
                rendered.next = Some(number);
                break;
            }
            if shown_to > 0 {
                rendered.text.push('\n');
            }
            rendered.text.push_str(&piece);
            (left, shown_to) = (left - length, to);
            rendered.matches += 1;
        }
        if rendered.next.is_none() && self.count > self.matches.len() as u64 {
            // The others are not at hand; they come behind the last that is.
            rendered.next = self.matches.last().map(|(number, _)| number + 1);
        }
        rendered
    }

    /// A line as it is shown; nothing if it is not at hand.
    fn line(&self, number: u64, hit: usize, policy: &RecallPolicy) -> Option<String> {
        let place = self.lines.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        let line = self.lines[place].1;
        let (matched, at) = self.matches[hit];
        let (sign, at) = if number == matched { (':', at) } else { ('-', 0) };
        Some(format!("{number}{sign}{}", excerpt(line, at, policy.max_line_chars)))
    }
}

/// A line, or if it is too long a piece of it around where it matches.
fn excerpt(line: &str, at: usize, most: Chars) -> String {
    if line.len() as u64 <= most.0 || Chars::of(line) <= most {
        return line.to_owned();
    }
    let before = tail(&line[..at], Chars(most.0 / 2));
    let after = head(&line[at..], most - Chars::of(before));
    let (start, end) = (at - before.len(), at + after.len());
    let cut = |is_cut: bool| if is_cut { "…" } else { "" };
    format!("{}{}{}", cut(start > 0), &line[start..end], cut(end < line.len()))
}

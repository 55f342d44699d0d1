//! Searches content line by line and shows matches as `grep` does.

use super::answer::{RecallContent, shorten};
use crate::chars::{Chars, head, tail};
use crate::pattern::Regex;
use crate::policy::RecallPolicy;

/// A search pattern.
pub(super) struct Pattern {
    text: String,
    /// `None` if the text is not a regular expression: a model that searches for `foo(` means these four characters.
    regex: Option<Regex>,
}

impl Pattern {
    pub(super) fn new(text: &str) -> Pattern {
        Pattern { text: text.to_owned(), regex: Regex::new(text).ok() }
    }

    /// The pattern as text.
    pub(super) fn label(&self) -> String {
        let text = shorten(&self.text);
        match self.regex {
            Some(_) => format!("`{text}`"),
            None => format!("`{text}` (searched literally: not a valid regular expression)"),
        }
    }

    /// Returns the offset of the first match in a line.
    fn find(&self, line: &str) -> Option<usize> {
        match &self.regex {
            Some(regex) => regex.find(line).map(|found| found.start()),
            None => line.find(&self.text),
        }
    }
}

/// The lines of some content that match.
pub(super) struct Hits<'a> {
    /// The lines that were read, with their numbers; the requested ones were searched.
    lines: Vec<(u64, &'a str)>,
    /// The numbers of the lines that match, counted from 1, with the offset in the line.
    matches: Vec<(u64, usize)>,
    /// Total number of matches; more than those listed if the content is an excerpt.
    count: u64,
    pub(super) all_lines: u64,
}

/// Formatted matches.
pub(super) struct Rendered {
    pub(super) text: String,
    /// Number of matches in it.
    pub(super) matches: u64,
    /// The line of the first match that is not in it.
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
        let reported = content.excerpt.as_ref().map_or(0, |excerpt| excerpt.matches);
        let count = reported.max(matches.len() as u64);
        Hits { matches, count, all_lines: content.all_lines(), lines }
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Formats the first matches, each with its context: `12:` for a line that matches, `12-` for a context line, and
    /// `--` where lines are skipped. If not even the first match fits with its context, it is shown without.
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
            // The others were not read; they come after the last one that was.
            rendered.next = self.matches.last().map(|(number, _)| number + 1);
        }
        rendered
    }

    /// Formats a line; empty if it was not read.
    fn line(&self, number: u64, hit: usize, policy: &RecallPolicy) -> Option<String> {
        let place = self.lines.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        let line = self.lines[place].1;
        let (matched, at) = self.matches[hit];
        let (sign, at) = if number == matched { (':', at) } else { ('-', 0) };
        Some(format!("{number}{sign}{}", excerpt(line, at, policy.max_line_chars)))
    }
}

/// Returns a line, or a piece of it around the match if it is too long.
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

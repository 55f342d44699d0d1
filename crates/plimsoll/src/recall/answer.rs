//! Answers of the recall tool: a header, the content verbatim, and how to get the rest.

use super::search::{Hits, Pattern};
use super::{NAME, RecallQuery};
use crate::chars::{Chars, Text, head};
use crate::numbers::thousands;
use crate::policy::RecallPolicy;

/// Content of a handle.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecallContent {
    /// The complete handle.
    pub handle: String,
    /// A short description such as `output of bash`.
    pub what: String,
    /// All of it, or the lines of an excerpt.
    pub text: Text,
    /// Which lines these are, if the content is too long for memory.
    pub excerpt: Option<Excerpt>,
    /// Why it could not be searched, such as a lost spill.
    pub unsearched: Option<String>,
}

/// The lines of some content that were read: enough of those a query asks for to fill an answer, with the lines around
/// each match.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Excerpt {
    /// The number of each line, ascending, counted from 1.
    pub numbers: Vec<u64>,
    /// Total number of lines.
    pub all_lines: u64,
    /// Number of requested lines that match, for a search.
    pub matches: u64,
    /// Whether the search stopped here with enough matches, so that other content may match too.
    pub is_last: bool,
}

/// Result of looking up a handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The content.
    Found(RecallContent),
    /// For a query without a handle: all content that left the window, or the part of it that matches.
    Searched(Vec<RecallContent>),
    /// The handle does not exist.
    Missing,
    /// The handle is an ambiguous prefix of these, each with its description.
    Ambiguous(Vec<(String, String)>),
    /// The content was removed, for this reason.
    Gone(String),
}

/// Answer to the model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecallAnswer {
    /// The text, within the policy's limit.
    pub text: String,
    /// Whether the answer is an error.
    pub is_error: bool,
    /// The query that continues where this answer ends.
    pub next: Option<RecallQuery>,
}

impl RecallContent {
    /// Creates content.
    pub fn new(handle: impl Into<String>, what: impl Into<String>, text: impl Into<Text>) -> RecallContent {
        let (handle, what, text) = (handle.into(), what.into(), text.into());
        RecallContent { handle, what, text, excerpt: None, unsearched: None }
    }

    /// Creates content that could not be searched.
    pub fn unsearched(
        handle: impl Into<String>,
        what: impl Into<String>,
        why: impl Into<String>,
    ) -> RecallContent {
        RecallContent { unsearched: Some(why.into()), ..RecallContent::new(handle, what, "") }
    }

    /// Creates an excerpt of content that is too long to be held.
    pub fn excerpt(
        handle: impl Into<String>,
        what: impl Into<String>,
        lines: impl IntoIterator<Item = (u64, String)>,
        (all_lines, matches): (u64, u64),
    ) -> RecallContent {
        let (numbers, lines): (Vec<u64>, Vec<String>) = lines.into_iter().unzip();
        // A newline after each, so that an empty last line counts too.
        let text: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
        let excerpt = Some(Excerpt { numbers, all_lines, matches, is_last: false });
        RecallContent { excerpt, ..RecallContent::new(handle, what, text) }
    }

    /// Marks the content at which a search stopped with enough matches.
    pub fn ends_search(mut self) -> RecallContent {
        if let Some(excerpt) = &mut self.excerpt {
            excerpt.is_last = true;
        }
        self
    }

    /// Total number of lines.
    pub(super) fn all_lines(&self) -> u64 {
        match &self.excerpt {
            Some(excerpt) => excerpt.all_lines,
            None => self.lines().count() as u64,
        }
    }

    /// `spill_9c2f: output of bash`.
    fn title(&self) -> String {
        format!("{}: {}", shorten(&self.handle), shorten(&self.what))
    }

    /// Returns the lines with their numbers. A newline ends a line, and nothing is trimmed, so that
    /// the content is shown verbatim.
    pub(super) fn lines(&self) -> impl Iterator<Item = (u64, &str)> {
        let text = self.text.as_str();
        let lines = text.strip_suffix('\n').unwrap_or(text).split('\n');
        let numbers = self.excerpt.as_ref().map(|excerpt| excerpt.numbers.as_slice());
        let number = move |at: usize| match numbers {
            Some(numbers) => numbers.get(at).copied(),
            None => Some(at as u64 + 1),
        };
        let lines = lines.enumerate().filter_map(move |(at, line)| Some((number(at)?, line)));
        lines.take(if text.is_empty() { 0 } else { usize::MAX })
    }
}

/// Lists content that could not be searched, in at most a third of an answer.
fn list_unsearched(contents: &[RecallContent], policy: &RecallPolicy) -> String {
    let left_out: Vec<(&RecallContent, &String)> =
        contents.iter().filter_map(|content| Some((content, content.unsearched.as_ref()?))).collect();
    let mut text = String::new();
    for (done, (content, why)) in left_out.iter().enumerate() {
        let line = format!("\n[not searched: {}: {}]", content.title(), shorten(why));
        let rest = format!("\n[not searched: {}]", some((left_out.len() - done) as u64, "more content"));
        if Chars::of(&text) + Chars::of(&line) + Chars::of(&rest) > Chars(policy.max_chars.0 / 3) {
            text.push_str(&rest);
            break;
        }
        text.push_str(&line);
    }
    if text.is_empty() { text } else { format!("\n{text}") }
}

impl RecallQuery {
    /// Returns the answer for a lookup.
    pub fn answer(&self, lookup: &Lookup, policy: &RecallPolicy) -> RecallAnswer {
        match lookup {
            Lookup::Found(content) => match &self.search {
                Some(search) => self.show_matches(content, &Pattern::new(search), policy),
                None => self.show_lines(content, policy),
            },
            Lookup::Searched(contents) => match &self.search {
                Some(search) => self.show_matches_in_all(contents, &Pattern::new(search), policy),
                None => refusal(format!("[{NAME}: `search` is required without a `handle`]")),
            },
            Lookup::Missing => refusal(format!(
                "[{NAME} {}: unknown handle. Copy it exactly from where content was truncated or cleared, or omit it \
                 and use `search`]",
                self.label()
            )),
            Lookup::Ambiguous(candidates) => self.list_candidates(candidates, policy),
            Lookup::Gone(why) => {
                let (before, after) = (format!("[{NAME} {}: no longer available: ", self.label()), "]");
                // The reason may quote the content.
                let why = head(why, policy.max_chars - Chars::of(&before) - Chars::of(after));
                refusal(format!("{before}{why}{after}"))
            }
        }
    }

    fn label(&self) -> String {
        shorten(self.handle.as_deref().unwrap_or_default())
    }

    fn show_lines(&self, content: &RecallContent, policy: &RecallPolicy) -> RecallAnswer {
        let all = content.all_lines();
        let title = content.title();
        if all == 0 {
            return answer(format!("[{NAME} {title}, empty]"));
        }
        let first = self.from.unwrap_or(1);
        if first > all {
            let (asked, all) = (thousands(first), some(all, "line"));
            return refusal(format!("[{NAME} {title}, {all}: line {asked} does not exist]"));
        }
        let wanted = self.limit.unwrap_or(u64::MAX).saturating_sub(1);
        let last = self.to.unwrap_or(all).min(all).min(first.saturating_add(wanted));
        let skipped = Chars(self.offset.unwrap_or(0));
        let header = |last: u64, skipped: Chars| {
            let lines = format!("lines {}-{} of {}", thousands(first), thousands(last), thousands(all));
            match skipped {
                Chars::ZERO => format!("[{NAME} {title}, {lines}]\n\n"),
                skipped => format!("[{NAME} {title}, {lines}, starting at character {skipped}]\n\n"),
            }
        };
        let footer = |line: u64, offset: Chars| {
            let rest = format!("lines {}-{} not shown", thousands(line), thousands(all));
            match offset {
                Chars::ZERO => format!("\n\n[{rest}; continue with `from`: {line}, or use `search`]"),
                offset => {
                    let offset = offset.0;
                    format!("\n\n[{rest}; continue with `from`: {line}, `offset`: {offset}, or use `search`]")
                }
            }
        };
        // Computed with the largest numbers, which give the longest text.
        let largest = content.text.chars().max(skipped);
        let around = Chars::of(&header(all, largest)) + Chars::of(&footer(all, largest));
        let mut shown = Shown::new(policy.max_chars - around);
        for (number, line) in content.lines().skip_while(|(number, _)| *number < first) {
            let offset = if number == first { skipped } else { Chars::ZERO };
            if number > last || !shown.add(number, line, offset) {
                break;
            }
        }
        let (line, offset) = shown.next;
        let shown_to = if offset > Chars::ZERO { line } else { line.saturating_sub(1) }.max(first);
        let mut text = header(shown_to, skipped) + &shown.text;
        let is_all = line > all;
        if !is_all {
            text.push_str(&footer(line, offset));
        }
        let next = (!is_all).then(|| RecallQuery {
            handle: Some(content.handle.clone()),
            from: Some(line),
            to: self.to.filter(|to| *to >= line),
            offset: Some(offset.0).filter(|offset| *offset > 0),
            ..RecallQuery::default()
        });
        RecallAnswer { text, is_error: false, next }
    }

    fn show_matches(
        &self,
        content: &RecallContent,
        pattern: &Pattern,
        policy: &RecallPolicy,
    ) -> RecallAnswer {
        let hits = Hits::of(content, pattern, self.from, self.to);
        let (title, all, label) = (content.title(), some(hits.all_lines, "line"), pattern.label());
        let count = hits.count();
        if count == 0 {
            return answer(format!("[{NAME} {title}, none of {all} matches {label}]"));
        }
        let verb = if count == 1 { "matches" } else { "match" };
        let matches = thousands(count);
        let header = |shown: u64| match shown {
            shown if shown == count => format!("[{NAME} {title}, {matches} of {all} {verb} {label}]\n\n"),
            shown => {
                let shown = thousands(shown);
                format!("[{NAME} {title}, {matches} of {all} {verb} {label}, showing the first {shown}]\n\n")
            }
        };
        let footer = |line: u64| format!("\n\n[more matches; continue with `from`: {line}]");
        let around = Chars::of(&header(count + 1)) + Chars::of(&footer(hits.all_lines));
        let rendered = hits.render(policy.max_chars - around, self.max_matches(policy), policy);
        let mut text = header(rendered.matches) + &rendered.text;
        if let Some(line) = rendered.next {
            text.push_str(&footer(line));
        }
        let next = rendered.next.map(|line| RecallQuery {
            handle: Some(content.handle.clone()),
            from: Some(line),
            ..self.clone()
        });
        RecallAnswer { text, is_error: false, next }
    }

    fn show_matches_in_all(
        &self,
        contents: &[RecallContent],
        pattern: &Pattern,
        policy: &RecallPolicy,
    ) -> RecallAnswer {
        let hits = contents.iter().map(|content| (content, Hits::of(content, pattern, self.from, self.to)));
        let hits: Vec<(&RecallContent, Hits<'_>)> = hits.filter(|(_, hits)| hits.count() > 0).collect();
        let label = pattern.label();
        let unsearched = list_unsearched(contents, policy);
        if hits.is_empty() && unsearched.is_empty() {
            return answer(format!("[{NAME}: no removed content matches {label}]"));
        }
        if hits.is_empty() {
            return answer(format!("[{NAME}: no searchable content matches {label}]{unsearched}"));
        }
        let places = hits.len() as u64;
        let is_whole = contents.iter().flat_map(|content| &content.excerpt).all(|excerpt| !excerpt.is_last);
        let least = if is_whole { "" } else { "at least " };
        let mut text = format!("[{NAME}: matches for {label} in {least}{}]", some(places, "place"));
        let footer =
            |rest: u64| format!("\n\n[{} not shown; use a more specific search]", some(rest, "more place"));
        let mut left = self.max_matches(policy);
        for (done, (content, hits)) in (0..).zip(&hits) {
            let (title, count, all) =
                (content.title(), thousands(hits.count()), some(hits.all_lines, "line"));
            let header = |shown: u64| match shown {
                shown if shown == hits.count() => format!("\n\n[{title}, {count} of {all}]\n"),
                shown => format!("\n\n[{title}, {} of {count} matches in {all}]\n", thousands(shown)),
            };
            let around = Chars::of(&text)
                + Chars::of(&header(hits.count() + 1))
                + Chars::of(&footer(places))
                + Chars::of(&unsearched);
            let rendered = hits.render(policy.max_chars - around, left, policy);
            if rendered.matches == 0 {
                text.push_str(&footer(places - done));
                break;
            }
            left -= rendered.matches;
            text.push_str(&header(rendered.matches));
            text.push_str(&rendered.text);
        }
        text.push_str(&unsearched);
        answer(text)
    }

    fn max_matches(&self, policy: &RecallPolicy) -> u64 {
        self.limit.unwrap_or(policy.max_matches).min(policy.max_matches)
    }

    fn list_candidates(&self, candidates: &[(String, String)], policy: &RecallPolicy) -> RecallAnswer {
        let count = some(candidates.len() as u64, "handle");
        let label = self.label();
        let mut text =
            format!("[{NAME} {label}: ambiguous handle, matches {count}; use one of these in full]\n");
        for (handle, what) in candidates {
            let line = format!("\n{handle}: {}", shorten(what));
            if Chars::of(&text) + Chars::of(&line) > policy.max_chars {
                break;
            }
            text.push_str(&line);
        }
        refusal(text)
    }
}

/// Lines within a limit.
struct Shown {
    text: String,
    left: Chars,
    /// The first line that is not shown in full, and the number of its chars that are shown.
    next: (u64, Chars),
}

impl Shown {
    fn new(room: Chars) -> Shown {
        Shown { text: String::new(), left: room, next: (0, Chars::ZERO) }
    }

    /// Adds a line from an offset; returns whether there is room for another. A line that does not fit is left for the
    /// next answer. Only the first line is split, because an answer without any content would never end.
    fn add(&mut self, number: u64, line: &str, offset: Chars) -> bool {
        let is_first = self.next.0 == 0;
        let rest = &line[head(line, offset).len()..];
        let length = Chars::of(rest) + Chars(u64::from(!is_first));
        if length > self.left {
            self.next = (number, Chars::ZERO);
            if is_first {
                let part = head(rest, self.left);
                self.text.push_str(part);
                self.next = (number, offset + Chars::of(part));
            }
            return false;
        }
        if !is_first {
            self.text.push('\n');
        }
        self.text.push_str(rest);
        self.left = self.left - length;
        self.next = (number + 1, Chars::ZERO);
        true
    }
}

fn answer(text: String) -> RecallAnswer {
    RecallAnswer { text, is_error: false, next: None }
}

fn refusal(text: String) -> RecallAnswer {
    RecallAnswer { text, is_error: true, next: None }
}

/// Formats a number with its noun.
fn some(count: u64, thing: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", thousands(count))
}

/// Shortens handles, descriptions and patterns, so that every answer has room for content.
pub(super) fn shorten(label: &str) -> String {
    const LONGEST: Chars = Chars(100);
    let shown = head(label, LONGEST);
    if shown.len() == label.len() { label.to_owned() } else { format!("{shown}…") }
}

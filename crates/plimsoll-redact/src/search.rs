//! The search: one pass finds all clues, and the rows of each clue find the secrets.

use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use crate::cursor::Cursor;
use crate::kind::{Found, MARK, SecretKind};
use crate::reader::{ReadValue, Reader};
use crate::shape::is_start;
use crate::table::{Row, TABLE};
use crate::{check, command, cookie, named, shape};

/// Maximum number of bytes before a clue that patterns see.
const LONGEST_BEFORE: usize = 320;

/// Maximum number of bytes before the clue of a private key, whose body may precede it.
const LONGEST_KEY: usize = 8 * 1024;

/// A secret in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) range: Range<usize>,
    pub(crate) found: Found,
}

/// Owner of a clue.
#[derive(Clone, Copy, Debug)]
enum Clue {
    Row(usize),
    Command(usize),
    Name,
    Cookie,
}

struct Clues {
    /// `None` if it could not be built, which a test rules out.
    texts: Option<AhoCorasick>,
    clues: Vec<Clue>,
}

/// All clues and what they are found by, in any case of letters.
fn all_clues() -> Vec<(String, Clue)> {
    let rows = TABLE.rows.iter().enumerate();
    let rows = rows.flat_map(|(at, row)| row.clues.iter().map(move |clue| (clue.clone(), Clue::Row(at))));
    let commands = TABLE.commands.iter().enumerate();
    // With the following space, so that the search does not stop at every word that contains a program's name.
    let programs = commands.flat_map(|(at, command)| {
        command.programs.iter().map(move |name| (format!("{name} "), Clue::Command(at)))
    });
    let names = TABLE.keywords.iter().map(|keyword| ((*keyword).to_owned(), Clue::Name));
    rows.chain(programs).chain(names).chain([("cookie".to_owned(), Clue::Cookie)]).collect()
}

static CLUES: LazyLock<Clues> = LazyLock::new(|| {
    let all = all_clues();
    let texts = AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .match_kind(MatchKind::Standard)
        .kind(Some(AhoCorasickKind::DFA))
        .build(all.iter().map(|(text, _)| text));
    Clues { texts: texts.ok(), clues: all.into_iter().map(|(_, clue)| clue).collect() }
});

/// All secrets of a text, in order, none overlapping another.
pub(crate) fn search(text: &str) -> Vec<Span> {
    let mut search = Search { text, spans: Vec::new(), done: Progress::default() };
    if let Some(texts) = &CLUES.texts {
        // Overlapping matches, because one clue may begin inside another: `sk-` and `sk-ant-`.
        for hit in texts.find_overlapping_iter(text) {
            if let Some(clue) = CLUES.clues.get(hit.pattern().as_usize()) {
                search.look(*clue, hit.start()..hit.end());
            }
        }
    }
    for (service, range) in shape::without_clue(text) {
        search.add(SecretKind::ServiceToken, Some(service), range);
    }
    search.merged()
}

struct Search<'t> {
    text: &'t str,
    spans: Vec<Span>,
    done: Progress,
}

/// How far each kind of clue has been read. Clues before that are skipped: a text that consists of clues only would
/// otherwise be read once per clue.
#[derive(Default)]
struct Progress {
    names: usize,
    commands: usize,
    cookies: usize,
    /// By row of the table.
    rows: Vec<usize>,
}

impl Search<'_> {
    fn add(&mut self, kind: SecretKind, service: Option<&'static str>, range: Range<usize>) {
        // Text that was already replaced is not replaced again.
        let is_new =
            self.text.get(range.clone()).is_some_and(|value| !value.is_empty() && !value.contains(MARK));
        if is_new {
            self.spans.push(Span { range, found: Found { kind, service } });
        }
    }

    fn look(&mut self, clue: Clue, hit: Range<usize>) {
        let text = self.text;
        match clue {
            Clue::Row(at) => self.row(at, hit),
            Clue::Name => {
                if let Some(range) = named::secret(text, hit, &mut self.done.names) {
                    self.add(SecretKind::Assignment, None, range);
                }
            }
            Clue::Cookie => {
                if hit.start >= self.done.cookies {
                    let (found, end) = cookie::cookies(text, hit);
                    self.done.cookies = end;
                    found.into_iter().for_each(|range| self.add(SecretKind::Header, None, range));
                }
            }
            Clue::Command(at) => {
                if hit.start >= self.done.commands
                    && let Some((found, end)) =
                        TABLE.commands.get(at).and_then(|row| command::passwords(text, hit, row))
                {
                    self.done.commands = end;
                    found.into_iter().for_each(|range| self.add(SecretKind::Header, None, range));
                }
            }
        }
    }

    fn row(&mut self, at: usize, clue: Range<usize>) {
        let Some(row) = TABLE.rows.get(at) else { return };
        if self.done.rows.get(at).is_some_and(|done| clue.start < *done) {
            return;
        }
        let Some(hit) = hit(self.text, row, &clue) else { return };
        self.done.rows.resize(TABLE.rows.len(), 0);
        self.done.rows[at] = hit.range.end;
        let found = check::Found {
            text: self.text,
            value: self.text.get(hit.judged).unwrap_or_default(),
            range: hit.range.clone(),
            clue,
            quote: hit.quote,
            named: None,
        };
        if !found.value.is_empty() && row.checks.iter().all(|check| check.passes(&found)) {
            let range = Cursor::new(self.text, hit.range.start).whole(hit.range);
            self.add(row.kind, row.service, range);
        }
    }

    /// Returns the matches in order. Overlapping ones become one with the most specific kind.
    fn merged(mut self) -> Vec<Span> {
        self.spans.sort_by_key(|span| (span.range.start, span.range.end));
        let mut merged: Vec<Span> = Vec::with_capacity(self.spans.len());
        for span in self.spans {
            match merged.last_mut() {
                Some(last) if span.range.start < last.range.end => {
                    last.range.end = last.range.end.max(span.range.end);
                    // Of two that begin alike the later one has the longer prefix: `sk-ant-` after `sk-`.
                    let is_closer =
                        span.found.kind == last.found.kind && span.range.start == last.range.start;
                    if span.found.kind < last.found.kind || is_closer {
                        last.found = span.found;
                    }
                }
                _ => merged.push(span),
            }
        }
        merged
    }
}

/// A match of a row around its clue.
struct RowMatch {
    /// To be replaced.
    range: Range<usize>,
    judged: Range<usize>,
    quote: Option<crate::cursor::Quote>,
}

fn hit(text: &str, row: &Row, clue: &Range<usize>) -> Option<RowMatch> {
    let is_clue = !row.is_exact || row.clues.iter().any(|known| *known == text[clue.clone()]);
    if !is_clue || (row.is_start && row.before.is_none() && !is_start(text.as_bytes(), clue.start)) {
        return None;
    }
    let after = match &row.after {
        Some(after) => Some(after.match_at(text, clue.end)?),
        None => None,
    };
    let longest = if row.kind == SecretKind::PrivateKey { LONGEST_KEY } else { LONGEST_BEFORE };
    let before = match &row.before {
        Some(before) => Some(before.match_before(text, clue.start, longest)?),
        None => None,
    };
    let start =
        before.as_ref().map_or(clue.start, |before| before.group.as_ref().unwrap_or(&before.range).start);
    if row.is_start && !is_start(text.as_bytes(), start) {
        return None;
    }
    let all = |range: Range<usize>| Some(RowMatch { judged: range.clone(), range, quote: None });
    let Some(after) = after else { return all(before?.group?) };
    if let Some(group) = after.group {
        return all(group);
    }
    match &row.reader {
        Reader::Whole if before.is_some() => all(start..after.range.end),
        Reader::Whole => Some(RowMatch { range: start..after.range.end, judged: after.range, quote: None }),
        Reader::Rest => all(after.range),
        reader => {
            let ReadValue { range, quote } = reader.read(text, after.range.end)?;
            Some(RowMatch { judged: range.clone(), range, quote })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_clues_are_searched() {
        assert_eq!(CLUES.texts.as_ref().map(AhoCorasick::patterns_len), Some(all_clues().len()));
    }

    #[test]
    fn clues_are_too_long_to_occur_in_every_word() {
        for (text, clue) in all_clues() {
            assert!(text.len() >= 2, "{clue:?} is looked for by {text:?}");
        }
    }
}

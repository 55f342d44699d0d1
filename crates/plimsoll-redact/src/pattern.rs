//! Patterns of `patterns.txt`, compiled when they are first needed, so that a text without clues costs no regular expression.

use std::ops::Range;
use std::sync::{LazyLock, OnceLock};

use regex_automata::meta::Regex;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input};

use crate::cursor::near_before;

/// Maximum length of a user and password in a URL.
const LONGEST_AUTHORITY: usize = 320;

static PATTERNS: &str = include_str!("patterns.txt");

/// A regular expression over bytes, compiled at first use. Its group, if it has one, is the secret.
#[derive(Debug)]
pub(crate) struct Pattern {
    pub(crate) sources: Vec<&'static str>,
    /// The match must end at the end of the searched text.
    is_before: bool,
    regex: OnceLock<Option<Regex>>,
}

/// A match of a pattern.
pub(crate) struct Match {
    /// Index of the alternative.
    pub(crate) alternative: usize,
    pub(crate) range: Range<usize>,
    pub(crate) group: Option<Range<usize>>,
}

impl Pattern {
    pub(crate) fn new(source: &'static str) -> Pattern {
        Pattern::any(vec![source])
    }

    pub(crate) fn any(sources: Vec<&'static str>) -> Pattern {
        Pattern { sources, is_before: false, regex: OnceLock::new() }
    }

    pub(crate) fn before(source: &'static str) -> Pattern {
        Pattern { is_before: true, ..Pattern::new(source) }
    }

    pub(crate) fn regex(&self) -> Option<&Regex> {
        self.regex
            .get_or_init(|| {
                // Searches are anchored and short: optimisations for long searches would only cost time to build.
                let config =
                    Regex::config().utf8_empty(false).auto_prefilter(false).dfa(false).onepass(false);
                let end = if self.is_before { "$" } else { "" };
                let sources = self.sources.iter().map(|source| expand(source) + end);
                Regex::builder()
                    .configure(config)
                    // Secrets are ASCII. Unicode classes would make every pattern slower to compile.
                    .syntax(syntax::Config::new().unicode(false).utf8(false))
                    .build_many(&sources.collect::<Vec<_>>())
                    .ok()
            })
            .as_ref()
    }

    /// The match that begins at `at`.
    pub(crate) fn match_at(&self, text: &str, at: usize) -> Option<Match> {
        // Most URLs have no user, and looking for `@` is cheaper than a search.
        if self.sources.len() == 1 && self.sources[0].ends_with(")@") {
            let near = text.as_bytes().get(at..text.len().min(at + LONGEST_AUTHORITY))?;
            memchr::memchr(b'@', near)?;
        }
        self.search(&Input::new(text).range(at..).anchored(Anchored::Yes))
    }

    /// The match that ends at `at`, no longer than `most` bytes.
    pub(crate) fn match_before(&self, text: &str, at: usize, most: usize) -> Option<Match> {
        let near = near_before(text, at, most);
        let from = at - near.len();
        let moved = |range: Range<usize>| range.start + from..range.end + from;
        let found = self.search(&Input::new(near))?;
        Some(Match { range: moved(found.range), group: found.group.map(moved), ..found })
    }

    fn search(&self, input: &Input<'_>) -> Option<Match> {
        let regex = self.regex()?;
        if regex.group_info().explicit_slot_len() == 0 {
            let found = regex.search(input)?;
            return Some(Match {
                alternative: found.pattern().as_usize(),
                range: found.range(),
                group: None,
            });
        }
        let mut slots = [None; 4];
        let alternative = regex.search_slots(input, &mut slots)?.as_usize();
        let span = |at: usize| Some(slots[at]?.get()..slots[at + 1]?.get());
        Some(Match { alternative, range: span(0)?, group: span(2) })
    }
}

/// The rows of a section, split into columns.
pub(crate) fn section(name: &str) -> impl Iterator<Item = Vec<&'static str>> {
    let lines = PATTERNS.lines().skip_while(move |line| line.strip_prefix('[') != Some(name)).skip(1);
    lines
        .take_while(|line| !(line.starts_with('[') && line.ends_with(']')))
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| line.split("  ").map(str::trim).filter(|column| !column.is_empty()).collect())
}

/// A pattern with its definitions written out, and bytes in place of characters outside of ASCII.
fn expand(source: &str) -> String {
    static DEFINITIONS: LazyLock<Vec<(String, &str)>> = LazyLock::new(|| {
        let rows = section("define]").filter_map(|row| Some((format!("{{{}}}", row.first()?), *row.get(1)?)));
        let mut all: Vec<_> = rows.collect();
        // Later ones may use earlier ones.
        all.reverse();
        all
    });
    let mut whole = source.to_owned();
    for (name, definition) in DEFINITIONS.iter() {
        if whole.contains(name) {
            whole = whole.replace(name, definition);
        }
    }
    if whole.is_ascii() {
        return whole;
    }
    whole
        .chars()
        .map(|c| match c {
            _ if c.is_ascii() => c.to_string(),
            _ => c.to_string().bytes().map(|byte| format!("\\x{byte:02X}")).collect(),
        })
        .collect()
}

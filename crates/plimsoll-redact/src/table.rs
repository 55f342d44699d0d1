//! The tables `patterns.txt` and `words.txt`, read at first use. Patterns are compiled when they are first needed, so a
//! text without clues costs no regular expression.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{LazyLock, OnceLock};

use regex_automata::meta::Regex;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input};

use crate::SecretKind;
use crate::check::Check;
use crate::cursor::near_before;
use crate::reader::Reader;

/// A longer user and password in a URL are none.
const LONGEST_AUTHORITY: usize = 320;

static PATTERNS: &str = include_str!("patterns.txt");

pub(crate) static TABLE: LazyLock<Table> = LazyLock::new(Table::read);

static WORDS: LazyLock<BTreeMap<&str, BTreeSet<&str>>> = LazyLock::new(|| {
    let mut lists: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut list = "";
    for word in include_str!("words.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .flat_map(str::split_whitespace)
    {
        match word.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
            Some(name) => list = name,
            None => _ = lists.entry(list).or_default().insert(word),
        }
    }
    lists
});

/// The words of a list of `words.txt`.
pub(crate) fn words(list: &str) -> impl Iterator<Item = &'static str> {
    WORDS.get(list).into_iter().flatten().copied()
}

/// Whether `word` is in a list of `words.txt`.
pub(crate) fn is_listed(list: &str, word: &str) -> bool {
    WORDS.get(list).is_some_and(|words| words.contains(word))
}

/// A regular expression over bytes, compiled at first use. Its group, if it has one, is the secret.
#[derive(Debug)]
pub(crate) struct Pattern {
    sources: Vec<&'static str>,
    /// The match must end at the end of the searched text.
    is_before: bool,
    regex: OnceLock<Option<Regex>>,
}

/// What a pattern matched.
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

    fn any(sources: Vec<&'static str>) -> Pattern {
        Pattern { sources, is_before: false, regex: OnceLock::new() }
    }

    fn before(source: &'static str) -> Pattern {
        Pattern { is_before: true, ..Pattern::new(source) }
    }

    pub(crate) fn regex(&self) -> Option<&Regex> {
        self.regex
            .get_or_init(|| {
                // Searches are anchored and short: what speeds up others only costs time to build.
                let config =
                    Regex::config().utf8_empty(false).auto_prefilter(false).dfa(false).onepass(false);
                let end = if self.is_before { "$" } else { "" };
                let sources = self.sources.iter().map(|source| expand(source) + end);
                Regex::builder()
                    .configure(config)
                    .syntax(syntax::Config::new().unicode(false).utf8(false))
                    .build_many(&sources.collect::<Vec<_>>())
                    .ok()
            })
            .as_ref()
    }

    /// The match that begins at `at`.
    pub(crate) fn match_at(&self, text: &str, at: usize) -> Option<Match> {
        // Most URLs have no user, and one look for the sign is cheaper than a search.
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

/// A row that is found by clues: a token, an address, a header.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) kind: SecretKind,
    pub(crate) service: Option<&'static str>,
    pub(crate) clues: Vec<String>,
    pub(crate) before: Option<Pattern>,
    pub(crate) after: Option<Pattern>,
    pub(crate) reader: Reader,
    pub(crate) checks: Vec<Check>,
    /// The case of the clue counts.
    pub(crate) is_exact: bool,
    /// No letter or digit may precede the clue.
    pub(crate) is_start: bool,
}

/// A value after a name.
#[derive(Debug)]
pub(crate) struct ValueRow {
    /// Letters of the classes of names.
    pub(crate) names: &'static str,
    pub(crate) reader: Reader,
    pub(crate) checks: Vec<Check>,
}

/// A notation with patterns before and after the name.
#[derive(Debug)]
pub(crate) struct Notation {
    pub(crate) name: &'static str,
    /// The possible bytes after the name; `␣` is white space, `：` any byte outside of ASCII.
    pub(crate) first: &'static str,
    pub(crate) before: Option<Pattern>,
    pub(crate) after: Pattern,
    pub(crate) reader: Reader,
}

/// A command that takes a password.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) programs: Vec<&'static str>,
    pub(crate) verb: Option<&'static str>,
    /// Ways to pass the password, written as `#`.
    pub(crate) ways: Vec<&'static str>,
}

#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) rows: Vec<Row>,
    pub(crate) shapes: Vec<&'static str>,
    pub(crate) shape: Pattern,
    pub(crate) commands: Vec<Command>,
    pub(crate) keywords: Vec<&'static str>,
    pub(crate) notations: Vec<Notation>,
    pub(crate) links: Vec<&'static str>,
    pub(crate) link: Pattern,
    pub(crate) values: BTreeMap<&'static str, Vec<ValueRow>>,
}

/// The rows of a section, split into columns.
fn section(name: &str) -> impl Iterator<Item = Vec<&'static str>> {
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

fn kind(column: &str) -> SecretKind {
    match column {
        "key" => SecretKind::PrivateKey,
        "cloud" => SecretKind::CloudKey,
        "provider" => SecretKind::ProviderKey,
        "service" => SecretKind::ServiceToken,
        "jwt" => SecretKind::Jwt,
        "url" => SecretKind::UrlPassword,
        "header" => SecretKind::Header,
        _ => SecretKind::Assignment,
    }
}

/// Returns a column of a row, or `None` for `-` and missing columns.
fn column(row: &[&'static str], at: usize) -> Option<&'static str> {
    row.get(at).copied().filter(|column| *column != "-")
}

fn value_row(row: &[&'static str], names: usize) -> ValueRow {
    let (flags, checks) = Check::parse(column(row, names + 2).unwrap_or_default());
    debug_assert!(flags.is_empty());
    ValueRow {
        names: column(row, names).unwrap_or_default(),
        reader: Reader::parse(column(row, names + 1)),
        checks,
    }
}

impl Row {
    /// `service`, `kind` and `clues` are in the first three columns.
    fn token(row: &[&'static str], before: Option<usize>, after: usize, checks: &'static str) -> Row {
        let mut all = Check::parse(column(row, after + 1).unwrap_or_default()).1;
        all.extend(Check::parse(checks).1);
        Row {
            service: column(row, 0),
            kind: kind(row.get(1).copied().unwrap_or_default()),
            clues: row.get(2).into_iter().flat_map(|clues| clues.split(' ')).map(str::to_owned).collect(),
            before: before.and_then(|at| column(row, at)).map(Pattern::before),
            after: column(row, after).map(Pattern::new),
            reader: Reader::Whole,
            checks: all,
            is_exact: true,
            is_start: true,
        }
    }

    fn clue(row: &[&'static str]) -> Row {
        let (flags, checks) = Check::parse(column(row, 5).unwrap_or_default());
        let clues = row.get(1).into_iter().flat_map(|clues| clues.split(' '));
        Row {
            service: None,
            kind: kind(row.first().copied().unwrap_or_default()),
            clues: clues.map(|clue| clue.replace('␣', " ")).collect(),
            before: column(row, 2).map(Pattern::before),
            after: column(row, 3).map(Pattern::new),
            reader: Reader::parse(column(row, 4)),
            checks,
            is_exact: flags.contains(&"exact"),
            is_start: flags.contains(&"start"),
        }
    }
}

impl Table {
    fn read() -> Table {
        let mut rows: Vec<Row> =
            section("tokens]").map(|row| Row::token(&row, None, 3, "!filled !checksum !in-base64")).collect();
        rows.extend(section("inside]").map(|row| Row::token(&row, Some(3), 4, "random")));
        rows.extend(section("addresses]").map(|row| Row {
            reader: Reader::Rest,
            is_exact: false,
            is_start: false,
            ..Row::token(&row, None, 3, "!filled")
        }));
        rows.extend(section("clues]").map(|row| Row::clue(&row)));
        let commands = section("commands]").map(|row| Command {
            programs: row.first().into_iter().flat_map(|programs| programs.split(' ')).collect(),
            verb: column(&row, 1),
            ways: row.get(2).into_iter().flat_map(|ways| ways.split(", ")).collect(),
        });
        let notations = section("notations]").filter_map(|row| {
            Some(Notation {
                name: row.first()?,
                first: row.get(1)?,
                before: column(&row, 2).map(Pattern::before),
                after: Pattern::new(column(&row, 3)?),
                reader: Reader::parse(column(&row, 4)),
            })
        });
        let mut values: BTreeMap<&str, Vec<ValueRow>> = BTreeMap::new();
        for row in section("values]") {
            for notation in row.first().into_iter().flat_map(|notations| notations.split(',')) {
                values.entry(notation).or_default().push(value_row(&row, 1));
            }
        }
        let pairs = |name| section(name).filter_map(|row| Some((*row.first()?, *row.get(1)?))).unzip();
        let (shapes, shape) = pairs("shapes]");
        let (links, link) = pairs("links]");
        Table {
            rows,
            shapes,
            shape: Pattern::any(shape),
            commands: commands.collect(),
            keywords: section("keywords]").flatten().flat_map(|words| words.split(' ')).collect(),
            notations: notations.collect(),
            links,
            link: Pattern::any(link),
            values,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns() -> Vec<&'static Pattern> {
        let rows = TABLE.rows.iter().flat_map(|row| row.before.iter().chain(&row.after));
        let notations = TABLE.notations.iter().flat_map(|row| row.before.iter().chain([&row.after]));
        let readers = TABLE.values.values().flatten().filter_map(|row| match &row.reader {
            Reader::Pattern(pattern) => Some(pattern),
            _ => None,
        });
        rows.chain(notations).chain(readers).chain([&TABLE.shape, &TABLE.link]).collect()
    }

    #[test]
    fn every_pattern_of_the_table_compiles() {
        assert!(patterns().len() > 150);
        for pattern in patterns() {
            assert!(pattern.regex().is_some(), "{:?}", pattern.sources);
        }
    }

    #[test]
    fn every_check_of_the_table_is_known() {
        let known = ["exact", "start"];
        for (name, column) in [("tokens]", 4), ("clues]", 5), ("values]", 3)] {
            for row in section(name) {
                let unknown = Check::parse(row.get(column).unwrap_or(&"")).0;
                assert!(unknown.iter().all(|word| known.contains(word)), "{row:?}: {unknown:?}");
            }
        }
    }
}

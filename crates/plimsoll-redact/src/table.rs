//! The rows of `patterns.txt`, read at first use.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::check::Check;
use crate::kind::SecretKind;
use crate::pattern::{Pattern, section};
use crate::reader::Reader;

pub(crate) static TABLE: LazyLock<Table> = LazyLock::new(Table::read);

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

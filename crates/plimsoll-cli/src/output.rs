//! Standard output, for people or for machines.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll::is_printable;
pub(crate) use plimsoll::{first_words, printable};
pub(crate) use plimsoll_host::{counted, escaped};
pub(crate) use plimsoll_session::{percent, percents};
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

use crate::style::{self, HEADING, paint};
use crate::wrap::wrap;

/// Where a width is not known, a page is this wide.
const WIDTH: usize = 80;
/// Notes are not wrapped on a terminal that says it is narrower than this.
const NARROWEST: usize = 20;

/// Where a command's answer goes.
pub(crate) struct Output {
    /// Whether machines read it.
    pub(crate) json: bool,
    to: BufWriter<Stdout>,
    is_terminal: bool,
    coloured: bool,
}

impl Output {
    /// Standard output, coloured as was decided before.
    pub(crate) fn new(json: bool) -> Output {
        let stdout = io::stdout();
        let choice = anstream::AutoStream::choice(&stdout);
        Output {
            json,
            is_terminal: stdout.is_terminal(),
            coloured: choice != anstream::ColorChoice::Never,
            to: BufWriter::new(stdout),
        }
    }

    /// A value as JSON, one line.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        write_json(&mut self.to, value)
    }

    /// Text written by a model, with a newline at its end. Control characters are removed even if the output is a pipe: it is
    /// meant for reading, and often ends up on a terminal.
    pub(crate) fn words(&mut self, text: &str) -> io::Result<()> {
        self.line(&printable(text))
    }

    /// Content, with a newline at its end. A terminal is spared what it would obey; a pipe gets everything.
    pub(crate) fn text(&mut self, text: &str) -> io::Result<()> {
        if self.is_terminal { self.line(&printable(text)) } else { self.line(text) }
    }

    /// What the command itself wrote and painted. Text of a transcript must have gone through [`printable`].
    pub(crate) fn painted(&mut self, text: &str) -> io::Result<()> {
        let styled = self.styled(text);
        self.line(&styled)
    }

    /// Painted text as it goes out: without its colours where none are wanted.
    pub(crate) fn styled(&self, text: &str) -> String {
        if self.coloured { text.to_owned() } else { anstream::adapter::strip_str(text).to_string() }
    }

    /// Whether a person sees it as it is written.
    pub(crate) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// A report with headings and bars.
    pub(crate) fn report(&mut self, text: &str) -> io::Result<()> {
        self.painted(&style::report(text))
    }

    /// A table, no wider than the page.
    pub(crate) fn table(&mut self, table: &Table) -> io::Result<()> {
        for line in table.lines(self.width()) {
            self.painted(&line)?;
        }
        Ok(())
    }

    /// A table, or its rows as a few lines each where names make it wider than the page.
    pub(crate) fn table_or_stacks(&mut self, table: &Table) -> io::Result<()> {
        for line in table.lines_or_stacks(self.width()) {
            self.painted(&line)?;
        }
        Ok(())
    }

    /// Bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.to.write_all(bytes)
    }

    /// Where bytes go that are made bit by bit.
    pub(crate) fn writer(&mut self) -> &mut dyn Write {
        &mut self.to
    }

    /// Everything out.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }

    /// How wide the page is.
    pub(crate) fn width(&self) -> usize {
        let known = console::Term::stdout().size_checked().filter(|_| self.is_terminal);
        let known = known.map(|(_, columns)| usize::from(columns));
        // What is piped to a pager is read on a terminal all the same, and shells say how wide that is if asked to.
        let said = || std::env::var("COLUMNS").ok()?.parse().ok();
        known.or_else(said).map_or(WIDTH, |columns: usize| columns.clamp(40, 1_000))
    }

    /// How many rows and columns there are, for what is drawn on a terminal.
    pub(crate) fn size(&self) -> (usize, usize) {
        let known = console::Term::stdout().size_checked();
        known.map_or((24, WIDTH), |(rows, columns)| (usize::from(rows), usize::from(columns)))
    }

    fn line(&mut self, text: &str) -> io::Result<()> {
        self.to.write_all(text.as_bytes())?;
        if text.ends_with('\n') { Ok(()) } else { self.to.write_all(b"\n") }
    }
}

/// Writes a value as one line of JSON that is safe to show on a terminal.
pub(crate) fn write_json(mut to: impl Write, value: &impl Serialize) -> io::Result<()> {
    value.serialize(&mut Serializer::with_formatter(&mut to, Escaping))?;
    to.write_all(b"\n")
}

/// `serde_json`'s compact format that also escapes DEL, C1 controls and bidirectional overrides.
struct Escaping;

impl Formatter for Escaping {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, to: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| *c > '~' && !is_printable(*c)) {
            to.write_all(&rest.as_bytes()[..at])?;
            write!(to, "\\u{:04x}", u32::from(c))?;
            rest = &rest[at + c.len_utf8()..];
        }
        to.write_all(rest.as_bytes())
    }

    /// Raw JSON values. They contain non-ASCII characters only inside strings.
    fn write_raw_fragment<W: ?Sized + Write>(&mut self, to: &mut W, fragment: &str) -> io::Result<()> {
        self.write_string_fragment(to, fragment)
    }
}

/// Rows under headings.
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

/// A column of a table.
#[derive(Clone, Copy)]
pub(crate) struct Column {
    /// What stands over it.
    pub(crate) heading: &'static str,
    /// What it holds.
    pub(crate) holds: Holds,
}

/// What a column holds, and so how it is set.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holds {
    /// Names, which are never cut.
    Names,
    /// Numbers, which stand at the right.
    Numbers,
    /// Words, which give way where the page is too narrow, down to this width.
    Words(usize),
}

impl Table {
    /// An empty table.
    pub(crate) fn new(columns: Vec<Column>) -> Table {
        Table { columns, rows: Vec::new() }
    }

    /// An empty table with these headings.
    pub(crate) fn of<const N: usize>(columns: [(&'static str, Holds); N]) -> Table {
        Table::new(columns.map(|(heading, holds)| Column { heading, holds }).to_vec())
    }

    /// One more row, a cell for each column.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let one_line = |cell: String| printable(&cell).split_whitespace().collect::<Vec<_>>().join(" ");
        self.rows.push(cells.into_iter().map(one_line).collect());
    }

    /// Its lines on a page of this width, painted.
    pub(crate) fn lines(&self, width: usize) -> Vec<String> {
        let widths = self.widths(width);
        let headings: Vec<String> = self.columns.iter().map(|column| column.heading.to_owned()).collect();
        let mut lines = vec![paint(HEADING, &self.line(&headings, &widths))];
        lines.extend(self.rows.iter().map(|row| self.line(row, &widths)));
        lines
    }

    /// Its lines on a page of this width or, where it is too wide for that even with its words cut, each row as a few
    /// lines of its own: names are copied, and one that is broken over two lines cannot be.
    pub(crate) fn lines_or_stacks(&self, page: usize) -> Vec<String> {
        if self.fits_with_words_cut(page) {
            return self.lines(page);
        }
        self.rows.iter().flat_map(|row| self.stack(row, page)).collect()
    }

    /// A row as lines of at most this width, as long as no name is wider; all but the first set in.
    fn stack(&self, row: &[String], page: usize) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for (column, cell) in self.columns.iter().zip(row).filter(|(_, cell)| !cell.trim().is_empty()) {
            let is_words = matches!(column.holds, Holds::Words(_));
            match lines.last_mut() {
                Some(line)
                    if console::measure_text_width(line) + 2 + console::measure_text_width(cell) <= page =>
                {
                    line.push_str("  ");
                    line.push_str(cell);
                }
                Some(_) if is_words => {
                    lines.push(format!("  {}", console::truncate_str(cell, page.saturating_sub(2), "…")));
                }
                Some(_) if console::measure_text_width(cell) + 2 <= page => lines.push(format!("  {cell}")),
                Some(_) => lines.push(cell.clone()),
                None if is_words => lines.push(console::truncate_str(cell, page, "…").into_owned()),
                None => lines.push(cell.clone()),
            }
        }
        lines
    }

    /// Whether it stands on a page of this width with nothing cut.
    pub(crate) fn fits(&self, page: usize) -> bool {
        line_width(&self.widths(usize::MAX)) <= page
    }

    /// Whether it stands on a page of this width if words give way.
    pub(crate) fn fits_with_words_cut(&self, page: usize) -> bool {
        line_width(&self.widths(page)) <= page
    }

    fn widths(&self, page: usize) -> Vec<usize> {
        let cell =
            |row: &Vec<String>, at: usize| row.get(at).map_or(0, |cell| console::measure_text_width(cell));
        let mut widths: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(at, column)| {
                let widest = self.rows.iter().map(|row| cell(row, at)).max().unwrap_or(0);
                widest.max(console::measure_text_width(column.heading))
            })
            .collect();
        let gaps = 2 * widths.len().saturating_sub(1);
        let mut over = (widths.iter().sum::<usize>() + gaps).saturating_sub(page);
        while over > 0 {
            let gives = |(at, column): &(usize, &Column)| matches!(column.holds, Holds::Words(least) if widths[*at] > least);
            let words = self.columns.iter().enumerate().filter(gives);
            let Some((widest, _)) = words.max_by_key(|(at, _)| widths[*at]) else { break };
            widths[widest] -= 1;
            over -= 1;
        }
        widths
    }

    fn line(&self, cells: &[String], widths: &[usize]) -> String {
        let columns = self.columns.iter().zip(widths).zip(cells);
        let padded = columns.map(|((column, width), cell)| {
            let side = match column.holds {
                Holds::Numbers => console::Alignment::Right,
                Holds::Names | Holds::Words(_) => console::Alignment::Left,
            };
            let cell = console::truncate_str(cell, *width, "…");
            console::pad_str(&cell, *width, side, None).into_owned()
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    }
}

/// How wide a line with columns of these widths is.
fn line_width(columns: &[usize]) -> usize {
    columns.iter().sum::<usize>() + 2 * columns.len().saturating_sub(1)
}

static MUTED: AtomicBool = AtomicBool::new(false);

/// Say nothing beside the output from now on, for what is done again and again and was told of the first time.
pub(crate) fn mute_notes() {
    MUTED.store(true, Ordering::Relaxed);
}

/// Whether nothing is said beside the output.
pub(crate) fn are_notes_muted() -> bool {
    MUTED.load(Ordering::Relaxed)
}

/// A word to the person beside the output, which may be piped elsewhere.
pub(crate) fn note(text: &str) {
    if are_notes_muted() {
        return;
    }
    let text = printable(text);
    let columns = console::Term::stderr().size_checked().map(|(_, columns)| usize::from(columns));
    // A terminal breaks a long line in the middle of a word; what is piped stays one line, for scripts.
    let text = match columns.filter(|columns| *columns >= NARROWEST && io::stderr().is_terminal()) {
        Some(columns) => wrap(&text, columns - 1, 2),
        None => text,
    };
    // A closed standard error has no reader.
    let _ = writeln!(anstream::stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Column, Holds, Table, write_json};

    #[test]
    fn json_is_ascii_controls_apart_what_serde_writes_and_means_the_same() {
        let written = |value: &Value| {
            let mut line = Vec::new();
            write_json(&mut line, value).unwrap();
            String::from_utf8(line).unwrap()
        };
        let plain = json!({ "a": "Grüße, 文字 \u{200f}ש \n\t\"quoted\"", "b": [1, 2.5, null, true] });
        assert_eq!(written(&plain), format!("{plain}\n"));
        let hostile = json!({ "k\u{9b}": "\u{1b}[2J\u{7f}\u{9b}31m\u{202e}txt\u{2066}" });
        let line = written(&hostile);
        assert!(line.trim_end().chars().all(|c| !c.is_control() && c.is_ascii()), "{line:?}");
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), hostile);
        let raw = serde_json::value::RawValue::from_string("{ \"x\":\n\"\u{9b}\" }".to_owned()).unwrap();
        let mut line = Vec::new();
        write_json(&mut line, &raw).unwrap();
        assert_eq!(line, b"{ \"x\":\n\"\\u009b\" }\n");
    }

    fn table() -> Table {
        let column = |heading, holds| Column { heading, holds };
        let mut table = Table::new(vec![
            column("NAME", Holds::Names),
            column("N", Holds::Numbers),
            column("TITLE", Holds::Words(8)),
        ]);
        table.row(["short".into(), "1".into(), "a title\nof two lines".into()]);
        table.row(["文字".into(), "10,000".into(), "x".repeat(60)]);
        table
    }

    #[test]
    fn columns_stand_under_each_other_and_fit_the_page() {
        let lines: Vec<String> =
            table().lines(40).iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect();
        assert_eq!(lines[0], "NAME        N  TITLE");
        assert_eq!(lines[1], "short       1  a title of two lines");
        assert_eq!(lines[2], "文字   10,000  xxxxxxxxxxxxxxxxxxxxxxxx…");
        assert_eq!(table().lines(200)[2].chars().filter(|c| *c == 'x').count(), 60);
    }
}

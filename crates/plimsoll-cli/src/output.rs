//! Standard output as text or JSON.

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

/// Width of a page if the terminal's is unknown.
const WIDTH: usize = 80;
/// Minimum terminal width for wrapping notes.
const NARROWEST: usize = 20;

/// Destination of a command's result.
pub(crate) struct Output {
    /// Whether to print JSON.
    pub(crate) json: bool,
    to: BufWriter<Stdout>,
    is_terminal: bool,
    coloured: bool,
}

impl Output {
    /// Standard output, coloured according to the global choice.
    pub(crate) fn new(json: bool) -> Output {
        let stdout = io::stdout();
        let choice = anstream::AutoStream::choice(&stdout);
        Output {
            json,
            is_terminal: stdout.is_terminal(),
            coloured: choice != anstream::ColorChoice::Never,
            // Rust's own standard output flushes at each newline, one system call for each row of a table.
            to: BufWriter::new(stdout),
        }
    }

    /// Prints a value as one line of JSON.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        write_json(&mut self.to, value)
    }

    /// Prints text written by a model, with a final newline. Control characters are removed even in a pipe: the text is
    /// meant for reading, and often ends up on a terminal.
    pub(crate) fn words(&mut self, text: &str) -> io::Result<()> {
        self.line(&printable(text))
    }

    /// Prints content with a final newline. Control characters are removed on a terminal; a pipe gets everything.
    pub(crate) fn text(&mut self, text: &str) -> io::Result<()> {
        if self.is_terminal { self.line(&printable(text)) } else { self.line(text) }
    }

    /// Prints text that the command composed and coloured. Text of a transcript must have gone through [`printable`].
    pub(crate) fn painted(&mut self, text: &str) -> io::Result<()> {
        let styled = self.styled(text);
        self.line(&styled)
    }

    /// Returns painted text, without its colours if they are off.
    pub(crate) fn styled(&self, text: &str) -> String {
        if self.coloured { text.to_owned() } else { anstream::adapter::strip_str(text).to_string() }
    }

    /// Whether standard output is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Prints a report with headings and bars.
    pub(crate) fn report(&mut self, text: &str) -> io::Result<()> {
        self.painted(&style::report(text))
    }

    /// Prints a table, no wider than the page.
    pub(crate) fn table(&mut self, table: &Table) -> io::Result<()> {
        for line in table.lines(self.width()) {
            self.painted(&line)?;
        }
        Ok(())
    }

    /// Prints a table, or each row as several lines if names make it wider than the page.
    pub(crate) fn table_or_stacks(&mut self, table: &Table) -> io::Result<()> {
        for line in table.lines_or_stacks(self.width()) {
            self.painted(&line)?;
        }
        Ok(())
    }

    /// Prints bytes unchanged.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.to.write_all(bytes)
    }

    /// Returns the underlying writer.
    pub(crate) fn writer(&mut self) -> &mut dyn Write {
        &mut self.to
    }

    /// Flushes the buffer.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }

    /// Width of the page.
    pub(crate) fn width(&self) -> usize {
        let terminal = console::Term::stdout().size_checked().filter(|_| self.is_terminal);
        let terminal = terminal.map(|(_, columns)| usize::from(columns));
        // Output that is piped to a pager is still read on a terminal; shells can export its width.
        let variable = || std::env::var("COLUMNS").ok()?.parse().ok();
        terminal.or_else(variable).map_or(WIDTH, |columns: usize| columns.clamp(40, 1_000))
    }

    /// Rows and columns of the terminal.
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

/// A table with headings.
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

/// A column of a table.
#[derive(Clone, Copy)]
pub(crate) struct Column {
    /// Heading.
    pub(crate) heading: &'static str,
    /// Kind of content.
    pub(crate) holds: Holds,
}

/// Kind of content of a column, which decides its layout.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holds {
    /// Names, which are never cut.
    Names,
    /// Numbers, right-aligned.
    Numbers,
    /// Text, which is cut on a narrow page, down to this width.
    Words(usize),
}

impl Table {
    /// Creates a table without rows.
    pub(crate) fn new(columns: Vec<Column>) -> Table {
        Table { columns, rows: Vec::new() }
    }

    /// Creates a table without rows from headings.
    pub(crate) fn of<const N: usize>(columns: [(&'static str, Holds); N]) -> Table {
        Table::new(columns.map(|(heading, holds)| Column { heading, holds }).to_vec())
    }

    /// Adds a row with a cell for each column.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        // A line break in a title would break the table, and could imitate another row.
        let one_line = |cell: String| printable(&cell).split_whitespace().collect::<Vec<_>>().join(" ");
        self.rows.push(cells.into_iter().map(one_line).collect());
    }

    /// Formats the table for a page of this width.
    pub(crate) fn lines(&self, width: usize) -> Vec<String> {
        let widths = self.widths(width);
        let headings: Vec<String> = self.columns.iter().map(|column| column.heading.to_owned()).collect();
        let mut lines = vec![paint(HEADING, &self.line(&headings, &widths))];
        lines.extend(self.rows.iter().map(|row| self.line(row, &widths)));
        lines
    }

    /// Formats the table for a page of this width. If it does not fit even with its text cut, each row becomes several lines:
    /// names are copied, and a name that wraps cannot be.
    pub(crate) fn lines_or_stacks(&self, page: usize) -> Vec<String> {
        if self.fits_with_words_cut(page) {
            return self.lines(page);
        }
        self.rows.iter().flat_map(|row| self.stack(row, page)).collect()
    }

    /// Formats a row as lines of at most this width, unless a name is longer; all but the first are indented.
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

    /// Whether the table fits a page of this width with nothing cut.
    pub(crate) fn fits(&self, page: usize) -> bool {
        line_width(&self.widths(usize::MAX)) <= page
    }

    /// Whether the table fits a page of this width if text is cut.
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
            let shrinks = |(at, column): &(usize, &Column)| matches!(column.holds, Holds::Words(least) if widths[*at] > least);
            let words = self.columns.iter().enumerate().filter(shrinks);
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

/// Width of a line with columns of these widths.
fn line_width(columns: &[usize]) -> usize {
    columns.iter().sum::<usize>() + 2 * columns.len().saturating_sub(1)
}

static MUTED: AtomicBool = AtomicBool::new(false);

/// Suppresses notes from now on, for work that repeats and whose notes were printed the first time.
pub(crate) fn mute_notes() {
    MUTED.store(true, Ordering::Relaxed);
}

/// Whether notes are suppressed.
pub(crate) fn are_notes_muted() -> bool {
    MUTED.load(Ordering::Relaxed)
}

/// Prints a note to the user on standard error, because standard output may be piped.
pub(crate) fn note(text: &str) {
    if are_notes_muted() {
        return;
    }
    let text = printable(text);
    let columns = console::Term::stderr().size_checked().map(|(_, columns)| usize::from(columns));
    // A terminal breaks a long line within a word. In a pipe a note stays one line, for scripts.
    let text = match columns.filter(|columns| *columns >= NARROWEST && io::stderr().is_terminal()) {
        Some(columns) => wrap(&text, columns - 1, 2),
        None => text,
    };
    // If standard error is closed, the note cannot be shown.
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
    fn columns_are_aligned_and_fit_the_page() {
        let lines: Vec<String> =
            table().lines(40).iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect();
        assert_eq!(lines[0], "NAME        N  TITLE");
        assert_eq!(lines[1], "short       1  a title of two lines");
        assert_eq!(lines[2], "文字   10,000  xxxxxxxxxxxxxxxxxxxxxxxx…");
        assert_eq!(table().lines(200)[2].chars().filter(|c| *c == 'x').count(), 60);
    }
}

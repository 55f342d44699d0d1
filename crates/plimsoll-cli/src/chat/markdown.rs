//! Streaming Markdown on a terminal: word by word, wrapped to the page, with code set off.
//!
//! Answers arrive in pieces of a few letters, and each word is shown as soon as it is complete. Nothing is ever redrawn: the
//! first few characters of a line decide what it is, and a link stays as written. Only the rows of a table wait for its
//! end. Every word is painted separately, so that a notice in the middle of an answer does not inherit its colours.

use anstyle::{AnsiColor, Style};
use console::measure_text_width;

use super::highlight::Highlighter;
use super::table;
use super::text::clean;
use crate::style::{QUIET, paint};

const CODE: Style = AnsiColor::Cyan.on_default();
/// Maximum width of prose: long lines are hard to read.
const MAX_WIDTH: usize = 100;
/// Maximum number of rows of a table that are held back. A longer table is aligned in pieces, because
/// nothing of it is shown before.
const MAX_ROWS: usize = 1_000;
/// Indentation of code.
const CODE_INDENT: &str = "  ";

/// A streaming answer.
pub(super) struct Markdown {
    /// Whether marks become colours; otherwise the text stays as written.
    coloured: bool,
    /// Maximum width of prose, and width of the page.
    width: usize,
    page: usize,
    line: Line,
    /// Rows of an unfinished table.
    rows: Vec<String>,
    /// Whether something was shown, and the number of newlines at its end.
    has_begun: bool,
    newlines: usize,
    column: usize,
    /// Indentation of wrapped lines of this paragraph.
    hang: String,
    word: Word,
    /// Whether a space precedes the next word.
    space: bool,
    bold: bool,
    italic: bool,
    code: bool,
    heading: bool,
    /// Asterisks and backticks whose meaning depends on the next character.
    marks: Option<(char, usize)>,
    last: char,
}

/// Kind of the current line.
enum Line {
    /// Unknown yet; its first characters.
    Start(String),
    /// Prose.
    Prose,
    /// Shown once it is complete: tables, rules, fences.
    Whole(String),
    /// A line of code.
    Code { block: Block, text: String },
}

/// A block of code.
struct Block {
    fence: String,
    highlighter: Highlighter,
}

#[derive(Default)]
struct Word {
    painted: String,
    run: String,
    style: Style,
    width: usize,
}

impl Word {
    fn push(&mut self, c: char, style: Style) {
        if style != self.style {
            self.end_run();
            self.style = style;
        }
        self.run.push(c);
        self.width += measure_text_width(c.encode_utf8(&mut [0; 4]));
    }

    fn end_run(&mut self) {
        if !self.run.is_empty() {
            let is_plain = self.style == Style::new();
            let painted = if is_plain { self.run.clone() } else { paint(self.style, &self.run) };
            self.painted.push_str(&painted);
            self.run.clear();
        }
    }

    fn take(&mut self) -> (String, usize) {
        self.end_run();
        let word = std::mem::take(self);
        (word.painted, word.width)
    }
}

impl Markdown {
    /// Creates an answer without text.
    pub(super) fn new(coloured: bool) -> Markdown {
        Markdown {
            coloured,
            width: MAX_WIDTH,
            page: MAX_WIDTH,
            line: Line::Start(String::new()),
            rows: Vec::new(),
            has_begun: false,
            newlines: 0,
            column: 0,
            hang: String::new(),
            word: Word::default(),
            space: false,
            bold: false,
            italic: false,
            code: false,
            heading: false,
            marks: None,
            last: ' ',
        }
    }

    /// Adds text, and returns what to write now on a page of this width.
    pub(super) fn push(&mut self, delta: &str, width: usize) -> String {
        (self.width, self.page) = (width.clamp(10, MAX_WIDTH), width);
        let mut out = String::new();
        for c in clean(delta).chars() {
            self.take(c, &mut out);
        }
        out
    }

    /// Ends the answer, and returns the rest with a final newline.
    pub(super) fn finish(&mut self) -> String {
        let mut out = String::new();
        self.end_line(true, &mut out);
        self.end_table(&mut out);
        if self.has_begun && self.newlines == 0 {
            out.push('\n');
        }
        *self = Markdown::new(self.coloured);
        out
    }

    fn take(&mut self, c: char, out: &mut String) {
        if c == '\n' {
            return self.end_line(false, out);
        }
        match &mut self.line {
            Line::Start(start) => {
                start.push(c);
                let start = start.clone();
                if let Some(kind) = classify(&start) {
                    self.begin(kind, &start, out);
                }
            }
            Line::Prose => self.prose(c, out),
            Line::Whole(text) | Line::Code { text, .. } => text.push(c),
        }
    }

    fn end_line(&mut self, is_last: bool, out: &mut String) {
        if let Line::Start(start) = &self.line
            && !start.trim().is_empty()
        {
            let start = start.clone();
            self.begin(classify_whole(&start), &start, out);
        }
        match std::mem::replace(&mut self.line, Line::Start(String::new())) {
            // Empty lines are collapsed, and dropped before the first word.
            Line::Start(_) => {
                self.end_table(out);
                if self.has_begun && self.newlines < 2 && !is_last {
                    self.newline(out);
                }
            }
            Line::Prose => {
                self.end_marks(None);
                self.end_word(out);
                (self.bold, self.italic, self.code, self.heading) = (false, false, false, false);
                if !is_last {
                    self.newline(out);
                }
            }
            Line::Whole(text) => self.whole(&text, out),
            Line::Code { block, text } => self.code_line(block, &text, is_last, out),
        }
        (self.space, self.last) = (false, ' ');
        self.hang.clear();
    }

    fn begin(&mut self, kind: Kind, start: &str, out: &mut String) {
        let (indent, rest) = start.split_at(start.len() - start.trim_start_matches(' ').len());
        match kind {
            Kind::Whole => self.line = Line::Whole(start.to_owned()),
            Kind::Prose { marker } => {
                self.end_table(out);
                self.line = Line::Prose;
                let (marker, rest) = rest.split_at(marker);
                let indent: String = indent.chars().take(self.width / 2).collect();
                let shown = match marker.chars().next() {
                    _ if !self.coloured => marker.to_owned(),
                    None => String::new(),
                    Some('#') => {
                        self.heading = true;
                        String::new()
                    }
                    Some('>') => paint(QUIET, "│ "),
                    Some('-' | '*' | '+') => "• ".to_owned(),
                    Some(_) => marker.to_owned(),
                };
                let is_quote = marker.starts_with('>') && self.coloured;
                let hang = if is_quote { shown.clone() } else { " ".repeat(measure_text_width(&shown)) };
                self.hang = format!("{indent}{hang}");
                self.column = measure_text_width(&self.hang);
                self.write(&format!("{indent}{shown}"), out);
                // The text after the marker is prose.
                for c in rest.to_owned().chars() {
                    self.prose(c, out);
                }
            }
        }
    }

    fn prose(&mut self, c: char, out: &mut String) {
        if self.coloured && (c == '*' || c == '`') {
            match &mut self.marks {
                Some((mark, count)) if *mark == c => *count += 1,
                _ => {
                    self.end_marks(Some(c));
                    self.marks = Some((c, 1));
                }
            }
            return;
        }
        self.end_marks(Some(c));
        if c == ' ' || c == '\t' {
            self.end_word(out);
            self.space = true;
        } else {
            let is_wide = measure_text_width(c.encode_utf8(&mut [0; 4])) > 1;
            if is_wide {
                // Scripts without spaces can break anywhere.
                self.end_word(out);
            }
            self.word.push(c, self.style());
            if is_wide {
                self.end_word(out);
            }
        }
        self.last = c;
    }

    fn style(&self) -> Style {
        if !self.coloured {
            return Style::new();
        }
        let style = if self.code { CODE } else { Style::new() };
        let style = if self.bold || self.heading { style.bold() } else { style };
        if self.italic { style.italic() } else { style }
    }

    /// Decides what asterisks and backticks mean, given the next character.
    fn end_marks(&mut self, next: Option<char>) {
        let Some((mark, count)) = self.marks.take() else { return };
        let after_space = self.last.is_whitespace();
        let before_space = next.is_none_or(char::is_whitespace);
        if mark == '`' {
            if count == 1 {
                self.code = !self.code;
            } else {
                self.literal(mark, count);
            }
        } else if self.code || (after_space && before_space) || count > 3 {
            self.literal(mark, count);
        } else {
            let (wants_bold, wants_italic) = (count >= 2, count != 2);
            let may = |is_on: bool| if is_on { !after_space } else { !before_space };
            // Within a word, a single asterisk is a product more often than emphasis.
            let in_word = self.last.is_alphanumeric() && next.is_some_and(char::is_alphanumeric);
            if (wants_bold && !may(self.bold))
                || (wants_italic && (!may(self.italic) || (in_word && count == 1 && !self.italic)))
            {
                return self.literal(mark, count);
            }
            self.bold ^= wants_bold;
            self.italic ^= wants_italic;
        }
    }

    fn literal(&mut self, mark: char, count: usize) {
        let style = self.style();
        (0..count).for_each(|_| self.word.push(mark, style));
        self.last = mark;
    }

    fn end_word(&mut self, out: &mut String) {
        let (word, width) = self.word.take();
        if width == 0 {
            return;
        }
        let space = usize::from(std::mem::take(&mut self.space) && !self.is_at_hang());
        if !self.is_at_hang() && self.column + space + width > self.width {
            self.newline(out);
            let hang = self.hang.clone();
            self.column = measure_text_width(&hang);
            self.write(&hang, out);
        } else if space == 1 {
            self.write(" ", out);
            self.column += 1;
        }
        self.write(&word, out);
        // A word longer than the line is wrapped by the terminal, so that it can be copied whole.
        self.column += width;
        if self.column > self.width {
            self.column %= self.width;
        }
    }

    fn is_at_hang(&self) -> bool {
        self.column <= measure_text_width(&self.hang)
    }

    /// Writes a line that was held back until it was complete.
    fn whole(&mut self, text: &str, out: &mut String) {
        let bare = text.trim();
        if self.coloured && bare.starts_with('|') {
            self.rows.push(text.to_owned());
            if self.rows.len() >= MAX_ROWS {
                self.end_table(out);
            }
            return;
        }
        self.end_table(out);
        if let Some(fence) = fence_of(bare) {
            let language = bare[fence.len()..].trim();
            if self.coloured {
                let label = if language.is_empty() {
                    "───".to_owned()
                } else {
                    format!("─── {language}")
                };
                let label = console::truncate_str(&label, self.width, "…").into_owned();
                self.write(&paint(QUIET, &label), out);
            } else {
                self.write(text, out);
            }
            self.newline(out);
            let block = Block { fence: fence.to_owned(), highlighter: Highlighter::new(language) };
            self.line = Line::Code { block, text: String::new() };
            return;
        }
        if self.coloured && is_rule(bare) {
            self.write(&paint(QUIET, &"─".repeat(self.width.min(40))), out);
        } else {
            self.write(text, out);
        }
        self.newline(out);
    }

    /// Writes the rows that were held back, aligned or unchanged.
    fn end_table(&mut self, out: &mut String) {
        if self.rows.is_empty() {
            return;
        }
        let rows = std::mem::take(&mut self.rows);
        for line in table::render(&rows, self.page, paint_inline).unwrap_or(rows) {
            self.write(&line, out);
            self.newline(out);
        }
    }

    fn code_line(&mut self, mut block: Block, text: &str, is_last: bool, out: &mut String) {
        let bare = text.trim();
        let closes = bare.starts_with(&block.fence) && bare.chars().all(|c| block.fence.starts_with(c));
        if closes || (is_last && bare.is_empty()) {
            if self.coloured {
                self.write(&paint(QUIET, "───"), out);
                self.newline(out);
            } else if closes {
                self.write(text, out);
                self.newline(out);
            }
            return;
        }
        if self.coloured {
            let line = text.replace('\t', "    ");
            let painted = block.highlighter.line(&line);
            let indent = if line.is_empty() { "" } else { CODE_INDENT };
            self.write(&format!("{indent}{painted}"), out);
        } else {
            self.write(text, out);
        }
        self.newline(out);
        if !is_last {
            self.line = Line::Code { block, text: String::new() };
        } else if self.coloured {
            self.write(&paint(QUIET, "───"), out);
            self.newline(out);
        }
    }

    fn write(&mut self, text: &str, out: &mut String) {
        if !text.is_empty() {
            out.push_str(text);
            (self.has_begun, self.newlines) = (true, 0);
        }
    }

    fn newline(&mut self, out: &mut String) {
        out.push('\n');
        self.newlines += 1;
        self.column = 0;
    }
}

/// Formats text on one line of any length, with its marks as colours.
fn paint_inline(text: &str, style: Style) -> String {
    let mut inline = Markdown { line: Line::Prose, width: usize::MAX, ..Markdown::new(true) };
    inline.heading = style == Style::new().bold();
    let mut out = String::new();
    text.chars().for_each(|c| inline.prose(c, &mut out));
    inline.end_marks(None);
    inline.end_word(&mut out);
    out
}

/// Classification of a line.
#[derive(Clone, Copy)]
enum Kind {
    /// Prose after a marker of this many bytes.
    Prose { marker: usize },
    /// A line that is shown once it is complete.
    Whole,
}

/// Classifies a line by its first characters; `None` if more are needed.
fn classify(start: &str) -> Option<Kind> {
    let rest = start.trim_start_matches(' ');
    let mut chars = rest.chars();
    let (first, second) = (chars.next()?, chars.next());
    let prose = |marker| Some(Kind::Prose { marker });
    match (first, second) {
        ('`' | '~', None) => None,
        ('`' | '~', Some(second)) if second != first => prose(0),
        ('`' | '~', _) => match chars.next() {
            None => None,
            Some(third) if third == first => Some(Kind::Whole),
            Some(_) => prose(0),
        },
        ('|', _) => Some(Kind::Whole),
        ('#', _) => match rest.find(|c| c != '#') {
            None => None,
            Some(end) if end <= 6 && rest[end..].starts_with(' ') => prose(end + 1),
            Some(_) => prose(0),
        },
        ('-' | '*' | '+' | '>', None) => None,
        ('-' | '*' | '+' | '>', Some(' ')) => prose(2),
        ('-' | '*' | '_', Some(second)) if second == first => match chars.next() {
            None => None,
            Some(third) if third == first => Some(Kind::Whole),
            Some(_) => prose(0),
        },
        (digit, _) if digit.is_ascii_digit() => match rest.find(|c: char| !c.is_ascii_digit()) {
            None if rest.len() > 9 => prose(0),
            None => None,
            Some(end) if rest[end..].starts_with(". ") || rest[end..].starts_with(") ") => prose(end + 2),
            Some(end) if rest[end..].len() == 1 && (rest.ends_with('.') || rest.ends_with(')')) => None,
            Some(_) => prose(0),
        },
        _ => prose(0),
    }
}

/// Classifies a complete line.
fn classify_whole(start: &str) -> Kind {
    classify(start).unwrap_or(Kind::Prose { marker: 0 })
}

fn fence_of(bare: &str) -> Option<&str> {
    let mark = bare.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let end = bare.find(|c| c != mark).unwrap_or(bare.len());
    // Backticks after the fence make it a line of inline code.
    (end >= 3 && !bare[end..].contains('`')).then(|| &bare[..end])
}

fn is_rule(bare: &str) -> bool {
    let mut marks = bare.chars().filter(|c| !c.is_whitespace());
    marks.next().is_some_and(|first| matches!(first, '-' | '*' | '_') && marks.all(|c| c == first))
}

#[cfg(test)]
#[path = "markdown_tests.rs"]
mod tests;

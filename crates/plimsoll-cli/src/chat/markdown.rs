//! Markdown as it streams in, made readable on a terminal: word by word, wrapped to the page, code set off.
//!
//! Answers come in pieces of a few letters, and each word is shown as soon as it is whole. So nothing is ever taken back:
//! what a line is, is decided by its first few characters, and a link stays as it was written. Only the rows of a table wait
//! for its end. Every word is painted on its own, so that a notice in the middle of an answer finds the terminal's colours
//! as they were.

use anstyle::{AnsiColor, Style};
use console::measure_text_width;

use super::highlight::Highlighter;
use super::table;
use super::text::clean;
use crate::style::{QUIET, paint};

const CODE: Style = AnsiColor::Cyan.on_default();
/// Prose is not wider than this: long lines are hard to read.
const WIDEST: usize = 100;
/// A table is shown after so many rows although it goes on.
const MOST_ROWS: usize = 1_000;
/// Code is moved in by so much.
const CODE_INDENT: &str = "  ";

/// An answer on its way to the terminal.
pub(super) struct Markdown {
    /// Whether marks are turned into colour; otherwise the text stays as it was written.
    coloured: bool,
    /// How wide prose may be, and how wide the page is.
    width: usize,
    page: usize,
    line: Line,
    /// Rows of a table that has not ended.
    rows: Vec<String>,
    /// Whether something was shown, and how many newlines end it.
    has_begun: bool,
    newlines: usize,
    column: usize,
    /// What lines of this paragraph begin with when they are wrapped.
    hang: String,
    word: Word,
    /// Whether a space stands before the next word.
    space: bool,
    bold: bool,
    italic: bool,
    code: bool,
    heading: bool,
    /// Asterisks and backticks whose meaning the next character decides.
    marks: Option<(char, usize)>,
    last: char,
}

/// What the current line is.
enum Line {
    /// Not known yet; its first characters.
    Start(String),
    /// Prose.
    Prose,
    /// Shown as it is once it is whole: tables, rules, fences.
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
        let taken = std::mem::take(self);
        (taken.painted, taken.width)
    }
}

impl Markdown {
    /// An answer that has not begun.
    pub(super) fn new(coloured: bool) -> Markdown {
        Markdown {
            coloured,
            width: WIDEST,
            page: WIDEST,
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

    /// More of the answer; what is to be written now, on a page of this width.
    pub(super) fn push(&mut self, delta: &str, width: usize) -> String {
        (self.width, self.page) = (width.clamp(10, WIDEST), width);
        let mut out = String::new();
        for c in clean(delta).chars() {
            self.take(c, &mut out);
        }
        out
    }

    /// The answer is whole: what is left of it, with the line ended.
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
            // Several empty lines are as good as one, and none is before the first word.
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
                // What follows the marker is looked at as prose.
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
                // Scripts without spaces break anywhere.
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

    /// Decide about asterisks and backticks by what comes after them.
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
            // In the middle of a word one asterisk is a product more often than an emphasis.
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

    /// A line that was kept until it was whole.
    fn whole(&mut self, text: &str, out: &mut String) {
        let bare = text.trim();
        if self.coloured && bare.starts_with('|') {
            self.rows.push(text.to_owned());
            if self.rows.len() >= MOST_ROWS {
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

    /// Show the rows that have waited for the end of their table: aligned, or as they are.
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

/// Words on one line, however long, with their marks as colour.
fn paint_inline(text: &str, style: Style) -> String {
    let mut inline = Markdown { line: Line::Prose, width: usize::MAX, ..Markdown::new(true) };
    inline.heading = style == Style::new().bold();
    let mut out = String::new();
    text.chars().for_each(|c| inline.prose(c, &mut out));
    inline.end_marks(None);
    inline.end_word(&mut out);
    out
}

/// What a line turns out to be.
#[derive(Clone, Copy)]
enum Kind {
    /// Prose behind a marker of so many bytes.
    Prose { marker: usize },
    /// A line that is shown once it is whole.
    Whole,
}

/// What a line is by its first characters; none if more of them are needed.
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

/// What kind of line it is when no more of it comes.
fn classify_whole(start: &str) -> Kind {
    classify(start).unwrap_or(Kind::Prose { marker: 0 })
}

fn fence_of(bare: &str) -> Option<&str> {
    let mark = bare.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let end = bare.find(|c| c != mark).unwrap_or(bare.len());
    // Backticks behind the fence make it a line of inline code.
    (end >= 3 && !bare[end..].contains('`')).then(|| &bare[..end])
}

fn is_rule(bare: &str) -> bool {
    let mut marks = bare.chars().filter(|c| !c.is_whitespace());
    marks.next().is_some_and(|first| matches!(first, '-' | '*' | '_') && marks.all(|c| c == first))
}

#[cfg(test)]
#[path = "markdown_tests.rs"]
mod tests;

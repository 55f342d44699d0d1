//! Selecting lines from content while it is read.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};

use regex::bytes::Regex;

use super::{Line, Recalled, Selection};
use crate::error::StoreError;
use crate::stop::StopFlag;

/// Lines longer than this are searched in pieces, so that a line of a gigabyte does not need a gigabyte.
const PIECE: usize = 1 << 20;
/// Number of bytes of a piece that are searched again with the next one, for matches across the seam.
const SEAM: usize = 4 << 10;

impl Recalled {
    /// Selects lines of a text.
    pub fn of(text: &str, wanted: &Selection) -> Result<Recalled, StoreError> {
        Recalled::read(&mut text.as_bytes(), wanted)
    }

    /// Selects lines of content, which is read to its end to count its lines.
    pub fn read(content: &mut dyn Read, wanted: &Selection) -> Result<Recalled, StoreError> {
        let (first, last) = bounds(wanted.lines)?;
        let pattern = wanted.search.as_ref().map(|search| search.compile()).transpose()?;
        let context = wanted.search.as_ref().map_or(0, |search| search.context);
        let mut taker = Taker {
            pattern,
            context,
            max_matches: wanted.max_matches as u64,
            left: wanted.max_bytes,
            max_bytes: wanted.max_bytes,
            before: VecDeque::new(),
            held: 0,
            after: 0,
            is_full: false,
            current: Current::default(),
            recalled: Recalled::default(),
        };
        each_piece(content, &wanted.stop, |piece| {
            let number = piece.number;
            if (first..=last).contains(&number) {
                taker.piece(&piece);
            }
            if piece.is_end {
                taker.recalled.all_lines = number;
            }
            Ok(())
        })?;
        Ok(taker.recalled)
    }
}

/// Copies lines byte for byte, with their newlines. Returns the number of bytes.
pub(crate) fn copy_lines(
    content: &mut dyn Read,
    lines: Option<(u64, u64)>,
    out: &mut dyn Write,
) -> Result<u64, StoreError> {
    let (first, last) = bounds(lines)?;
    let mut copied = 0;
    each_piece(content, &StopFlag::default(), |piece| {
        if (first..=last).contains(&piece.number) {
            let newline: &[u8] = if piece.has_newline { b"\n" } else { b"" };
            for bytes in [piece.bytes, newline] {
                out.write_all(bytes).map_err(StoreError::io("cannot write the recalled content"))?;
                copied += bytes.len() as u64;
            }
        }
        Ok(())
    })?;
    Ok(copied)
}

fn bounds(lines: Option<(u64, u64)>) -> Result<(u64, u64), StoreError> {
    let (first, last) = lines.unwrap_or((1, u64::MAX));
    if first == 0 || first > last {
        let why = format!("lines {first} to {last}: lines are counted from 1, the first not after the last");
        return Err(StoreError::Refused(why));
    }
    Ok((first, last))
}

/// A piece of a line; most lines have one.
struct Piece<'a> {
    number: u64,
    bytes: &'a [u8],
    /// Whether it is the last piece of its line.
    is_end: bool,
    has_newline: bool,
}

/// Visits content line by line, long lines in pieces.
fn each_piece(
    content: &mut dyn Read,
    stop: &StopFlag,
    mut visit: impl FnMut(Piece<'_>) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut reader = BufReader::with_capacity(1 << 16, content);
    let mut number = 1;
    // Start of a line that continues beyond the buffer.
    let mut carried: Vec<u8> = Vec::new();
    let mut is_begun = false;
    loop {
        stop.check()?;
        let buffer = match reader.fill_buf() {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            buffer => buffer.map_err(StoreError::io("cannot read the content"))?,
        };
        if buffer.is_empty() {
            if is_begun || !carried.is_empty() {
                visit(Piece { number, bytes: &carried, is_end: true, has_newline: false })?;
            }
            return Ok(());
        }
        let used = buffer.len();
        let mut rest = buffer;
        while let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
            let line = &rest[..at];
            if carried.is_empty() {
                visit(Piece { number, bytes: line, is_end: true, has_newline: true })?;
            } else {
                carried.extend_from_slice(line);
                visit(Piece { number, bytes: &carried, is_end: true, has_newline: true })?;
                carried.clear();
            }
            (number, is_begun) = (number + 1, false);
            rest = &rest[at + 1..];
        }
        carried.extend_from_slice(rest);
        if carried.len() >= PIECE {
            visit(Piece { number, bytes: &carried, is_end: false, has_newline: false })?;
            (carried, is_begun) = (Vec::new(), true);
        }
        reader.consume(used);
    }
}

/// The current line.
#[derive(Default)]
struct Current {
    head: Vec<u8>,
    is_match: bool,
    seam: Vec<u8>,
}

struct Taker {
    pattern: Option<Regex>,
    context: usize,
    max_matches: u64,
    /// Number of bytes that may still be shown.
    left: usize,
    max_bytes: usize,
    /// Lines before a possible next match, and their size.
    before: VecDeque<(u64, Vec<u8>)>,
    held: usize,
    /// Number of lines after the last match that are still to be shown.
    after: usize,
    is_full: bool,
    current: Current,
    recalled: Recalled,
}

impl Taker {
    fn piece(&mut self, piece: &Piece<'_>) {
        let mut line = std::mem::take(&mut self.current);
        // At most what could be shown of a line is held; one byte more says that it is cut.
        let room = self.max_bytes.saturating_add(1).saturating_sub(line.head.len());
        line.head.extend_from_slice(&piece.bytes[..piece.bytes.len().min(room)]);
        if let Some(pattern) = &self.pattern
            && !line.is_match
        {
            line.is_match = if line.seam.is_empty() {
                pattern.is_match(piece.bytes)
            } else {
                let joined = [&line.seam[..], piece.bytes].concat();
                pattern.is_match(&joined)
            };
        }
        if !piece.is_end {
            line.seam = piece.bytes[piece.bytes.len().saturating_sub(SEAM)..].to_vec();
            self.current = line;
            return;
        }
        self.line(piece.number, line);
    }

    fn line(&mut self, number: u64, line: Current) {
        let Current { head, is_match, .. } = line;
        if self.pattern.is_none() {
            self.show(number, &head, false);
            return;
        }
        self.recalled.matches += u64::from(is_match);
        if is_match && self.recalled.matches > self.max_matches {
            self.recalled.cut = true;
            self.is_full = true;
        }
        if is_match && !self.is_full {
            for (number, head) in std::mem::take(&mut self.before) {
                self.show(number, &head, false);
            }
            self.held = 0;
            self.show(number, &head, true);
            self.after = self.context;
        } else if self.after > 0 {
            // Lines after the last shown match belong to it, even if a further match is not shown.
            self.after -= 1;
            self.show(number, &head, false);
        } else if self.context > 0 && !self.is_full {
            self.held += head.len() + 1;
            self.before.push_back((number, head));
            // At most as many lines are held as could be shown; of the others, the nearest to a match stay.
            while self.before.len() > self.context || (self.held > self.max_bytes && self.before.len() > 1) {
                if let Some((_, head)) = self.before.pop_front() {
                    self.held -= head.len() + 1;
                }
            }
        }
    }

    /// Shows as much of a line as fits.
    fn show(&mut self, number: u64, head: &[u8], is_match: bool) {
        if self.is_full && self.pattern.is_none() {
            return;
        }
        if head.len() > self.left {
            let fits = &head[..head.len().min(self.left)];
            // A character that was cut is dropped; invalid bytes are replaced.
            let fits = match std::str::from_utf8(fits) {
                Err(error) if error.error_len().is_none() => &fits[..error.valid_up_to()],
                _ => fits,
            };
            if !fits.is_empty() {
                self.push(number, fits, is_match);
            }
            (self.left, self.is_full, self.recalled.cut, self.after) = (0, true, true, 0);
            return;
        }
        self.left = self.left.saturating_sub(head.len() + 1);
        self.push(number, head, is_match);
    }

    fn push(&mut self, number: u64, bytes: &[u8], is_match: bool) {
        let text = String::from_utf8_lossy(bytes);
        self.recalled.lossy |= matches!(text, std::borrow::Cow::Owned(_));
        self.recalled.lines.push(Line { number, text: text.into_owned(), is_match });
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Recalled, Search, Selection};

    const TEXT: &str = "one\ntwo\nthree\nfour\nfive\nsix\n";

    fn search(pattern: &str, context: usize) -> Selection {
        let search = Search { pattern: pattern.into(), context, ..Search::default() };
        Selection { search: Some(search), ..Selection::default() }
    }

    fn numbers(recalled: &Recalled) -> Vec<u64> {
        recalled.lines.iter().map(|line| line.number).collect()
    }

    #[test]
    fn content_is_selected_whole_by_lines_or_by_search() {
        let whole = Recalled::of(TEXT, &Selection::default()).unwrap_or_default();
        assert_eq!((whole.text().as_str(), whole.all_lines), (TEXT.trim_end(), 6));
        let lines = |first, last| Selection { lines: Some((first, last)), ..Selection::default() };
        let some = Recalled::of(TEXT, &lines(2, 3)).unwrap_or_default();
        assert_eq!(some.text(), "two\nthree");
        let found = Recalled::of(TEXT, &search("^f", 1)).unwrap_or_default();
        assert_eq!((numbers(&found), found.matches), (vec![3, 4, 5, 6], 2));
        let beyond = Recalled::of(TEXT, &lines(9, 12)).unwrap_or_default();
        assert!(beyond.lines.is_empty() && !beyond.cut && beyond.all_lines == 6);
        assert_eq!(Recalled::of("", &Selection::default()).unwrap_or_default().all_lines, 0);
    }

    #[test]
    fn limits_hold_and_are_reported() {
        let few = Recalled::of(TEXT, &Selection { max_matches: 1, ..search("o", 0) }).unwrap_or_default();
        assert_eq!((numbers(&few), few.matches, few.cut), (vec![1], 3, true));
        let four = Selection { max_bytes: 4, ..Selection::default() };
        let short = Recalled::of("aéééé\nb", &four).unwrap_or_default();
        assert_eq!((short.text().as_str(), short.cut, short.lossy), ("aé", true, false));
        assert_eq!(short.all_lines, 2);
    }

    #[test]
    fn carriage_returns_stay_and_replaced_bytes_are_reported() {
        let recalled = Recalled::of("one\r\ntwo\r\n", &Selection::default()).unwrap_or_default();
        assert_eq!(recalled.text(), "one\r\ntwo\r");
        let found = Recalled::of("one\r\ntwo\r\n", &search("one$", 0)).unwrap_or_default();
        assert_eq!(found.matches, 1);
        let bytes = Recalled::read(&mut &b"a\xffb\nc"[..], &Selection::default()).unwrap_or_default();
        assert_eq!((bytes.text().as_str(), bytes.lossy), ("a\u{fffd}b\nc", true));
        let mut copied = Vec::new();
        let count =
            super::copy_lines(&mut &b"a\xffb\r\nc"[..], Some((1, 1)), &mut copied).unwrap_or_default();
        assert_eq!((count, &copied[..]), (5, &b"a\xffb\r\n"[..]));
    }

    #[test]
    fn a_line_of_many_megabytes_is_searched_completely_and_shown_up_to_the_limit() {
        let long = format!("{}needle{}\nlast", "x".repeat((1 << 20) - 3), "y".repeat(3 << 20));
        let found =
            Recalled::of(&long, &Selection { max_bytes: 9, ..search("needle", 0) }).unwrap_or_default();
        assert_eq!((found.matches, found.text().as_str(), found.all_lines), (1, "xxxxxxxxx", 2));
        let last = Recalled::of(&long, &Selection { lines: Some((2, 2)), ..Selection::default() });
        assert_eq!(last.unwrap_or_default().text(), "last");
    }

    #[test]
    fn errors_of_invalid_selections_name_the_problem() {
        let upside_down = Recalled::of(TEXT, &Selection { lines: Some((3, 2)), ..Selection::default() });
        assert!(upside_down.is_err_and(|error| error.to_string().contains("lines 3 to 2")));
        let open = Recalled::of(TEXT, &search("(", 0));
        assert!(open.is_err_and(|error| error.to_string().contains("invalid pattern `(`")));
        let literal = Search { pattern: "(".into(), literal: true, ..Search::default() };
        let literal = Selection { search: Some(literal), ..Selection::default() };
        assert!(Recalled::of("(", &literal).is_ok_and(|recalled| recalled.matches == 1));
    }
}

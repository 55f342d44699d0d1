//! Reads JSON Lines with at most one line in memory.

use std::fmt;
use std::io::{self, BufRead, Seek};

use memchr::memchr;

use crate::json::{Json, error_text};
use crate::transcript::{BrokenLine, Transcript};

/// Maximum length of a line in bytes. Longer lines are skipped and counted without being buffered.
pub const MAX_LINE: usize = 256 << 20;
/// Key of broken lines in [`Transcript::skipped`].
pub const BROKEN: &str = "broken line";
/// Maximum size of the buffer between lines.
const ROOM: usize = 1 << 20;

/// Reads lines, counts broken ones, and notices a truncated last line.
pub(crate) struct Lines<R> {
    input: R,
    limit: usize,
    buffer: Vec<u8>,
    number: u64,
    /// Number of bytes that were read.
    position: u64,
    /// Number of lines that were JSON objects.
    pub(crate) good: u64,
}

/// Position of a line.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    /// Number of the line, counted from 1.
    pub(crate) line: u64,
    /// Offset of its first byte.
    pub(crate) offset: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}", self.line)
    }
}

/// A fault of a line.
pub(crate) enum LineFault {
    /// The line is not JSON.
    Json(serde_json::Error),
    /// The line is JSON of another structure.
    Shape(String),
}

impl From<serde_json::Error> for LineFault {
    fn from(error: serde_json::Error) -> LineFault {
        LineFault::Json(error)
    }
}

enum Line {
    End,
    Whole,
    Unfinished,
    TooLong,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(input: R) -> Lines<R> {
        Lines { input, limit: MAX_LINE, buffer: Vec::new(), number: 0, position: 0, good: 0 }
    }

    /// Passes every line that starts like an object to `read`. Faults are recorded in `transcript`.
    pub(crate) fn each(
        &mut self,
        transcript: &mut Transcript,
        read: impl FnMut(&str, Place, &mut Transcript) -> Result<(), LineFault>,
    ) -> io::Result<()> {
        self.each_wanted(transcript, |_| true, read)
    }

    /// Like [`each`](Lines::each), only for `wanted` lines. Others are not even checked to be text.
    pub(crate) fn each_wanted(
        &mut self,
        transcript: &mut Transcript,
        mut wanted: impl FnMut(&[u8]) -> bool,
        mut read: impl FnMut(&str, Place, &mut Transcript) -> Result<(), LineFault>,
    ) -> io::Result<()> {
        loop {
            let offset = self.position;
            let unfinished = match self.fill()? {
                Line::End => return Ok(()),
                Line::TooLong => {
                    transcript.skip(format!("line over {} bytes", self.limit));
                    transcript.note_broken(self.number, format!("longer than {} bytes", self.limit));
                    continue;
                }
                Line::Whole => false,
                Line::Unfinished => true,
            };
            // Before the check for UTF-8, which costs more than the search for a few words.
            if !wanted(&self.buffer) {
                continue;
            }
            let place = Place { line: self.number, offset };
            let line = match text(&self.buffer) {
                Ok("") => continue,
                Ok(line) => line,
                // The last line may be cut inside a character, because the tool is still writing it.
                Err(_) if unfinished => {
                    transcript.torn = true;
                    continue;
                }
                Err(problem) => {
                    transcript.broken_line(place.line, problem);
                    continue;
                }
            };
            let done = if line.starts_with('{') { read(line, place, transcript) } else { other(line) };
            match done {
                Err(LineFault::Json(_)) if unfinished => transcript.torn = true,
                Err(LineFault::Json(error)) => transcript.broken_line(place.line, error_text(&error)),
                // Counted as good if it is an object, so that a file is not rejected as not being JSON Lines at all.
                Err(LineFault::Shape(problem)) => {
                    self.good += u64::from(line.starts_with('{'));
                    transcript.broken_line(place.line, problem);
                }
                Ok(()) => self.good += 1,
            }
        }
    }

    fn fill(&mut self) -> io::Result<Line> {
        self.buffer.clear();
        // A huge line must not keep its memory for the rest of the file.
        self.buffer.shrink_to(ROOM);
        let mut any = false;
        let mut too_long = false;
        loop {
            let available = match self.input.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            if available.is_empty() {
                self.number += u64::from(any);
                return Ok(match (any, too_long) {
                    (false, _) => Line::End,
                    (true, true) => Line::TooLong,
                    (true, false) => Line::Unfinished,
                });
            }
            any = true;
            let end = memchr(b'\n', available);
            let piece = &available[..end.unwrap_or(available.len())];
            if too_long || self.buffer.len() + piece.len() > self.limit {
                too_long = true;
                // A new buffer, because `clear` would keep the memory while the rest of the line is skipped.
                self.buffer = Vec::new();
            } else {
                self.buffer.extend_from_slice(piece);
            }
            let used = piece.len() + usize::from(end.is_some());
            self.input.consume(used);
            self.position += used as u64;
            if end.is_some() {
                self.number += 1;
                return Ok(if too_long { Line::TooLong } else { Line::Whole });
            }
        }
    }
}

impl<R: BufRead + Seek> Lines<R> {
    /// Returns to the first line.
    pub(crate) fn rewind(&mut self) -> io::Result<()> {
        // `position` counts from where this reader began, which is not the start of the file after a restart.
        self.input.seek_relative((self.position as i64).wrapping_neg())?;
        (self.position, self.number, self.good) = (0, 0, 0);
        Ok(())
    }

    /// Reads the line at this offset again.
    pub(crate) fn again(&mut self, offset: u64) -> io::Result<&str> {
        // A short seek ahead stays inside the buffer.
        self.input.seek_relative(offset.wrapping_sub(self.position) as i64)?;
        self.position = offset;
        self.fill()?;
        // If the file has changed meanwhile, the text is not JSON and is reported as such.
        Ok(text(&self.buffer).unwrap_or_default())
    }
}

/// Returns the line as text, trimmed.
fn text(line: &[u8]) -> Result<&str, String> {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line).trim_ascii();
    std::str::from_utf8(line).map_err(|error| format!("not UTF-8 after byte {}", error.valid_up_to()))
}

/// Returns the fault of a line that is not an object.
fn other(line: &str) -> Result<(), LineFault> {
    let found = Json::parse(line)?;
    Err(LineFault::Shape(format!("expected an object, found {}", found.describe())))
}

impl Transcript {
    /// Counts a line that could not be read.
    pub(crate) fn broken_line(&mut self, line: u64, problem: String) {
        self.skip(BROKEN);
        self.note_broken(line, problem);
    }

    /// Keeps the problem if it is the first in the file.
    fn note_broken(&mut self, line: u64, problem: String) {
        if self.broken.as_ref().is_none_or(|first| line < first.line) {
            self.broken = Some(BrokenLine { line, problem });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Cursor};

    use super::Lines;
    use crate::{Format, Transcript};

    #[test]
    fn a_line_over_the_limit_is_counted_and_not_held() {
        let input = b"{\"a\":1}\n{\"long\":\"xxxxxxxxxxxxxxxxxxxx\"}\n{\"b\":2}\n";
        let mut lines = Lines { limit: 16, ..Lines::new(BufReader::with_capacity(5, &input[..])) };
        let mut transcript = Transcript::new(Format::Codex);
        let mut numbers = Vec::new();
        let read = lines.each(&mut transcript, |_, place, _| {
            numbers.push(place.line);
            Ok(())
        });
        assert!(read.is_ok());
        assert_eq!(numbers, [1, 3]);
        assert_eq!(transcript.skipped["line over 16 bytes"], 1);
        assert_eq!(transcript.broken.map(|broken| broken.line), Some(2));
        assert_eq!(lines.buffer.capacity().min(1 << 20), lines.buffer.capacity());
    }

    #[test]
    fn a_line_can_be_read_again() {
        let mut lines =
            Lines::new(BufReader::with_capacity(7, Cursor::new("{\"a\":1}\n{\"b\":2}\n{\"c\":3}")));
        let mut transcript = Transcript::new(Format::Codex);
        let mut found = Vec::new();
        let read = lines.each(&mut transcript, |text, place, _| {
            found.push((text.to_owned(), place.offset));
            Ok(())
        });
        assert!(read.is_ok());
        for at in [1, 0, 2, 2, 0] {
            assert!(lines.again(found[at].1).is_ok_and(|text| text == found[at].0));
        }
    }
}

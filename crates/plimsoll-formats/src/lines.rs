//! JSON Lines, one at a time, never more than one in memory.

use std::io::{self, BufRead};

use serde_json::Value;

use crate::transcript::{BrokenLine, Transcript};

/// A line longer than this is skipped and counted; nothing of it is held.
pub const MAX_LINE: usize = 256 << 20;
/// Under this name broken lines are counted in [`Transcript::skipped`].
pub const BROKEN: &str = "broken line";

/// Reads lines into values, counts the broken ones, and notices a torn end.
pub(crate) struct Lines<R> {
    input: R,
    limit: usize,
    buffer: Vec<u8>,
    number: u64,
    /// How many lines were read as JSON objects.
    pub(crate) good: u64,
}

enum Line {
    End,
    Whole,
    Unfinished,
    TooLong,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(input: R) -> Lines<R> {
        Lines { input, limit: MAX_LINE, buffer: Vec::new(), number: 0, good: 0 }
    }

    /// The next object and its line number. What is no object is noted in `transcript`.
    pub(crate) fn next(&mut self, transcript: &mut Transcript) -> io::Result<Option<(u64, Value)>> {
        loop {
            let unfinished = match self.fill()? {
                Line::End => return Ok(None),
                Line::TooLong => {
                    transcript.skip(format!("line over {} bytes", self.limit));
                    let problem = format!("longer than {} bytes", self.limit);
                    transcript.broken.get_or_insert(BrokenLine { line: self.number, problem });
                    continue;
                }
                Line::Whole => false,
                Line::Unfinished => true,
            };
            let line = self.buffer.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&self.buffer).trim_ascii();
            if line.is_empty() {
                continue;
            }
            match serde_json::from_slice(line) {
                Ok(value @ Value::Object(_)) => {
                    self.good += 1;
                    return Ok(Some((self.number, value)));
                }
                Ok(other) => {
                    let problem = format!("expected an object, found {}", crate::json::describe(&other));
                    transcript.broken_line(self.number, problem);
                }
                Err(_) if unfinished => transcript.torn = true,
                Err(error) => transcript.broken_line(self.number, error.to_string()),
            }
        }
    }

    fn fill(&mut self) -> io::Result<Line> {
        self.buffer.clear();
        // One huge line must not hold its memory for the rest of the file.
        self.buffer.shrink_to(1 << 20);
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
            let end = available.iter().position(|byte| *byte == b'\n');
            let piece = &available[..end.unwrap_or(available.len())];
            if too_long || self.buffer.len() + piece.len() > self.limit {
                too_long = true;
                self.buffer = Vec::new();
            } else {
                self.buffer.extend_from_slice(piece);
            }
            let used = piece.len() + usize::from(end.is_some());
            self.input.consume(used);
            if end.is_some() {
                self.number += 1;
                return Ok(if too_long { Line::TooLong } else { Line::Whole });
            }
        }
    }
}

impl Transcript {
    pub(crate) fn broken_line(&mut self, line: u64, problem: String) {
        self.skip(BROKEN);
        self.broken.get_or_insert(BrokenLine { line, problem });
    }
}

#[cfg(test)]
mod tests {
    use super::Lines;
    use crate::{Format, Transcript};

    #[test]
    fn a_line_over_the_limit_is_counted_and_not_held() {
        let input = b"{\"a\":1}\n{\"long\":\"xxxxxxxxxxxxxxxxxxxx\"}\n{\"b\":2}\n";
        let mut lines = Lines { limit: 16, ..Lines::new(std::io::BufReader::with_capacity(5, &input[..])) };
        let mut transcript = Transcript::new(Format::Codex);
        let mut numbers = Vec::new();
        while let Ok(Some((number, _))) = lines.next(&mut transcript) {
            numbers.push(number);
        }
        assert_eq!(numbers, [1, 3]);
        assert_eq!(transcript.skipped["line over 16 bytes"], 1);
        assert_eq!(transcript.broken.map(|broken| broken.line), Some(2));
        assert_eq!(lines.buffer.capacity().min(1 << 20), lines.buffer.capacity());
    }
}

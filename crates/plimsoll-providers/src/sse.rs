//! Server-sent events: from bytes to events, in whatever pieces the bytes come.
//!
//! A reader of our own rather than a crate's, because of three needs that none of them meets together: a cap on the
//! size of an event, linear time however small the pieces are, and knowing at the end whether an event is unfinished.
//! It takes bytes and gives events, without any stream or runtime, so that a property can feed it any chunking.

/// An event of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// Its name, if it has one.
    pub event: Option<String>,
    /// Its data; lines are joined by line feeds.
    pub data: String,
}

/// An event is larger than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge {
    /// The cap, in bytes.
    pub limit: usize,
}

const BOM: &[u8] = b"\xef\xbb\xbf";

/// Reads events from bytes.
#[derive(Clone, Debug)]
pub struct SseReader {
    limit: usize,
    /// The line that is being read.
    line: Vec<u8>,
    /// The last line ended in a carriage return, so a line feed that follows belongs to it.
    after_cr: bool,
    /// A byte-order mark is allowed before the first line only.
    first_line: bool,
    event: Option<String>,
    data: Option<Vec<u8>>,
}

impl SseReader {
    /// A reader that refuses events of more than `limit` bytes.
    pub fn new(limit: usize) -> SseReader {
        SseReader { limit, line: Vec::new(), after_cr: false, first_line: true, event: None, data: None }
    }

    /// Read more bytes, adding the events that they complete to `events`.
    pub fn push(&mut self, mut bytes: &[u8], events: &mut Vec<SseEvent>) -> Result<(), TooLarge> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let piece = &bytes[..end.unwrap_or(bytes.len())];
            let held = self.line.len() + self.data.as_ref().map_or(0, Vec::len);
            if held.saturating_add(piece.len()) > self.limit {
                return Err(TooLarge { limit: self.limit });
            }
            self.line.extend_from_slice(piece);
            let Some(end) = end else { return Ok(()) };
            self.after_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            events.extend(self.end_line());
        }
        Ok(())
    }

    /// The event that the stream ended in, if it did not end between two.
    pub fn finish(&mut self) -> Option<SseEvent> {
        if !self.line.is_empty() {
            self.end_line();
        }
        self.end_line()
    }

    fn end_line(&mut self) -> Option<SseEvent> {
        let mut line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.first_line) && line.starts_with(BOM) {
            line.drain(..BOM.len());
        }
        if line.is_empty() {
            let event = self.event.take();
            let data = self.data.take()?;
            return Some(SseEvent { event, data: String::from_utf8_lossy(&data).into_owned() });
        }
        let colon = line.iter().position(|byte| *byte == b':');
        let (field, value) = match colon {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line.as_slice(), &b""[..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => match &mut self.data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                None => self.data = Some(value.to_vec()),
            },
            b"event" => self.event = Some(String::from_utf8_lossy(value).into_owned()),
            // Comments have an empty field name; ids and retry times do not matter here.
            _ => {}
        }
        None
    }
}

//! Reads server-sent events from bytes that may be split at any position.
//!
//! No existing crate has all of these: a limit on the size of an event, linear time for small pieces
//! (`eventsource-stream` is quadratic), and knowing at the end whether an event is incomplete. The reader takes bytes
//! and returns events, without a stream or runtime, so that a property can feed it any chunking.

/// An event of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// Name of the event, if it has one.
    pub event: Option<String>,
    /// Data of the event; lines are joined by line feeds.
    pub data: String,
}

/// Error for an event that is too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge {
    /// The limit in bytes.
    pub limit: usize,
}

const BOM: &[u8] = b"\xef\xbb\xbf";

/// Reads events from bytes.
#[derive(Clone, Debug)]
pub struct SseReader {
    limit: usize,
    /// The current line.
    line: Vec<u8>,
    /// Whether the last line ended in a carriage return, so that a following line feed belongs to it.
    after_cr: bool,
    /// Whether this is the first line, where a byte-order mark is allowed.
    first_line: bool,
    event: Option<String>,
    data: Option<Vec<u8>>,
}

impl SseReader {
    /// Creates a reader that rejects events of more than `limit` bytes.
    pub fn new(limit: usize) -> SseReader {
        SseReader { limit, line: Vec::new(), after_cr: false, first_line: true, event: None, data: None }
    }

    /// Reads more bytes and adds the events that they complete to `events`.
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

    /// Returns the incomplete event at the end of the stream, if there is one.
    pub fn finish(&mut self) -> Option<SseEvent> {
        if !self.line.is_empty() {
            self.end_line();
        }
        // An empty line ends an event, and here it is missing.
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
            // Comments have an empty field name. Ids and retry times are not needed here.
            _ => {}
        }
        None
    }
}

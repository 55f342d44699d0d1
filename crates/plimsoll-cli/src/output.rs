//! Standard output, for people or for machines.

use std::io::{self, BufWriter, Stdout, Write};

use serde::Serialize;

/// Where a command's answer goes.
pub(crate) struct Output {
    /// Whether machines read it.
    pub(crate) json: bool,
    to: BufWriter<Stdout>,
}

impl Output {
    /// Standard output.
    pub(crate) fn new(json: bool) -> Output {
        Output { json, to: BufWriter::new(io::stdout()) }
    }

    /// A value as JSON, one line.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.to, value)?;
        self.to.write_all(b"\n")
    }

    /// Text, with a newline at its end.
    pub(crate) fn text(&mut self, text: &str) -> io::Result<()> {
        self.to.write_all(text.as_bytes())?;
        if text.ends_with('\n') { Ok(()) } else { self.to.write_all(b"\n") }
    }

    /// Bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.to.write_all(bytes)
    }

    /// Everything out.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Text without control characters: a transcript may hold anything, and a terminal obeys escape sequences.
pub(crate) fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

/// A word to the person beside the output, which may be piped elsewhere.
pub(crate) fn note(text: &str) {
    // Nobody listens to a closed standard error.
    let _ = writeln!(io::stderr(), "{text}");
}

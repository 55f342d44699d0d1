//! The readers, one file each, and the choice among them.

mod anthropic;
mod claude_code;
mod codex;
mod openai;
mod opencode;
mod pi;
mod swe_agent;

use std::io::{BufRead, Cursor, Read};

use serde_json::Value;

use crate::detect::{Format, detect};
use crate::error::FormatError;
use crate::json::describe;
use crate::lines::Lines;
use crate::transcript::Transcript;

/// A document over this many bytes is refused: unlike lines it has to be held as a whole.
pub const MAX_DOCUMENT: u64 = 1 << 30;
/// How much of a transcript is looked at to tell its format.
const BEGINNING: u64 = 64 << 10;

/// Read a transcript of whatever format it is.
///
/// ```
/// let session = concat!(
///     r#"{"type":"session","id":"s1","timestamp":"2026-01-01T00:00:00Z","cwd":"/home/me"}"#, "\n",
///     r#"{"type":"message","message":{"role":"user","content":[{"type":"text","text":"Hello"}]}}"#, "\n",
///     r#"{"type":"message","mess"#, // being written
/// );
/// let transcript = plimsoll_formats::read(session.as_bytes())?;
/// assert_eq!(transcript.info.directory.as_deref(), Some("/home/me"));
/// assert_eq!(transcript.messages[0].text(), "Hello");
/// assert!(transcript.torn);
/// # Ok::<(), plimsoll_formats::FormatError>(())
/// ```
pub fn read(mut input: impl BufRead) -> Result<Transcript, FormatError> {
    let mut beginning = Vec::new();
    input.by_ref().take(BEGINNING).read_to_end(&mut beginning)?;
    if beginning.trim_ascii().is_empty() {
        return Err(FormatError::Empty);
    }
    let format =
        detect(&beginning).ok_or_else(|| FormatError::Unrecognised { hint: looks_like(&beginning) })?;
    let input = Cursor::new(beginning).chain(input);
    if format.is_lines() || format == Format::OpencodeDatabase {
        return read_as(format, input);
    }
    // The whole document may show what its beginning did not.
    let value = document(format, input)?;
    from_document(Format::of_value(&value).filter(|format| !format.is_lines()).unwrap_or(format), value)
}

/// Read a transcript as the given format, whatever it looks like.
pub fn read_as(format: Format, input: impl BufRead) -> Result<Transcript, FormatError> {
    if format == Format::OpencodeDatabase {
        return Err(FormatError::NeedsPath);
    }
    if !format.is_lines() {
        return from_document(format, document(format, input)?);
    }
    let mut transcript = Transcript::new(format);
    let mut lines = Lines::new(input);
    match format {
        Format::ClaudeCode => claude_code::read(&mut lines, &mut transcript)?,
        Format::Pi => pi::read(&mut lines, &mut transcript)?,
        _ => codex::read(&mut lines, &mut transcript)?,
    }
    match transcript.broken.take() {
        Some(broken) if lines.good == 0 => {
            Err(FormatError::Lines { format, line: broken.line, problem: broken.problem })
        }
        broken => {
            transcript.broken = broken;
            Ok(transcript)
        }
    }
}

fn document(format: Format, input: impl Read) -> Result<Value, FormatError> {
    let mut bytes = Vec::new();
    let read = input.take(MAX_DOCUMENT + 1).read_to_end(&mut bytes)?;
    if read as u64 > MAX_DOCUMENT {
        return Err(FormatError::TooLarge { format, limit: MAX_DOCUMENT });
    }
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    if text.trim_ascii().is_empty() {
        return Err(FormatError::Empty);
    }
    serde_json::from_slice(text).map_err(|source| FormatError::Json { format, source })
}

fn from_document(format: Format, value: Value) -> Result<Transcript, FormatError> {
    let mut transcript = Transcript::new(format);
    match format {
        Format::OpencodeExport | Format::OpencodeMessages => opencode::read(value, &mut transcript)?,
        Format::SweAgent => swe_agent::read(value, &mut transcript)?,
        Format::AnthropicMessages => anthropic::read(value, &mut transcript)?,
        _ => openai::read(value, &mut transcript)?,
    }
    Ok(transcript)
}

/// The list of messages in a document: itself, or what it has under `key`.
fn list(format: Format, value: &mut Value, key: &str) -> Result<Vec<Value>, FormatError> {
    let at = if value.is_array() { "the document" } else { key };
    let found = match value {
        Value::Array(_) => value.take(),
        _ => crate::json::take(value, key),
    };
    match found {
        Value::Array(items) => Ok(items),
        other => {
            let problem = format!("expected a list of messages, found {}", describe(&other));
            Err(FormatError::Shape { format, at: at.to_owned(), problem })
        }
    }
}

fn looks_like(beginning: &[u8]) -> &'static str {
    match beginning {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [b'{' | b'[', 0, ..] => {
            ", it looks like UTF-16 (convert it to UTF-8)"
        }
        [0x1f, 0x8b, ..] => ", it is compressed with gzip (unpack it first)",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => ", it is compressed with zstd (unpack it first)",
        _ if matches!(beginning.trim_ascii_start().first(), Some(b'{' | b'[')) => {
            ", though it starts like JSON"
        }
        _ => "",
    }
}

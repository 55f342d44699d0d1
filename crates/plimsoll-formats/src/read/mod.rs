//! The readers, one file each, and the choice among them.

mod anthropic;
mod claude_code;
mod codex;
mod openai;
pub(crate) mod opencode;
mod pi;
mod swe_agent;

use std::io::{BufRead, Cursor, Read, Seek, SeekFrom};

use plimsoll::Message;
use serde::de::IgnoredAny;

use crate::detect::{Format, detect, looks_like_gemini};
use crate::document::Document;
use crate::error::FormatError;
use crate::json::told;
use crate::lines::Lines;
use crate::recorded::Recorded;
use crate::transcript::{Chain, Transcript};

/// How much of a transcript is looked at to tell its format.
const BEGINNING: u64 = 64 << 10;

/// Where visited messages go.
pub(crate) type Sink<'s> = &'s mut dyn FnMut(Chain, Message);

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
    let (format, beginning) = look(&mut input)?;
    let input = Cursor::new(beginning).chain(input);
    collect(|sink| match format {
        Format::OpencodeDatabase => Err(FormatError::NeedsPath),
        _ if format.is_lines() => held(format, input, sink),
        _ => document(format, true, (input, 0), sink),
    })
}

/// Read a transcript as the given format, whatever it looks like.
pub fn read_as(format: Format, input: impl BufRead) -> Result<Transcript, FormatError> {
    collect(|sink| match format {
        Format::OpencodeDatabase => Err(FormatError::NeedsPath),
        _ if format.is_lines() => held(format, input, sink),
        _ => document(format, false, (input, 0), sink),
    })
}

/// Visit a transcript message by message, oldest first, whatever format it is.
///
/// What [`read`] returns at once is handed to `sink` piece by piece: first the session, then its sub-agents one
/// after the other. The transcript that is returned has everything but the messages. Of line formats no more is
/// held than a few numbers for each record and the messages that are not complete yet, so that a file may be much
/// larger than the memory; documents are held as text.
///
/// ```
/// use std::io::Cursor;
/// use plimsoll_formats::{Chain, visit};
/// let session = r#"{"type":"user","uuid":"1","parentUuid":null,"message":{"content":"Hello"}}"#;
/// let mut texts = Vec::new();
/// let transcript = visit(Cursor::new(session), &mut |chain, message| {
///     if chain == Chain::Main {
///         texts.push(message.text());
///     }
/// })?;
/// assert_eq!(texts, ["Hello"]);
/// assert!(transcript.messages.is_empty());
/// # Ok::<(), plimsoll_formats::FormatError>(())
/// ```
///
/// When it fails, `sink` may have been given messages from before the fault.
pub fn visit(
    mut input: impl BufRead + Seek,
    sink: &mut dyn FnMut(Chain, Message),
) -> Result<Transcript, FormatError> {
    let start = input.stream_position()?;
    let (format, _) = look(&mut input)?;
    let size = input.seek(SeekFrom::End(0))?.saturating_sub(start);
    input.seek(SeekFrom::Start(start))?;
    match format {
        Format::OpencodeDatabase => Err(FormatError::NeedsPath),
        _ if format.is_lines() => lines(format, input, sink),
        _ => document(format, true, (input, size), sink),
    }
}

/// Visit a transcript as the given format, whatever it looks like.
pub fn visit_as(
    format: Format,
    input: impl BufRead + Seek,
    sink: &mut dyn FnMut(Chain, Message),
) -> Result<Transcript, FormatError> {
    match format {
        Format::OpencodeDatabase => Err(FormatError::NeedsPath),
        _ if format.is_lines() => lines(format, input, sink),
        _ => document(format, false, (input, 0), sink),
    }
}

/// The format, and what was read to tell it.
fn look(input: &mut impl BufRead) -> Result<(Format, Vec<u8>), FormatError> {
    let mut beginning = Vec::new();
    input.by_ref().take(BEGINNING).read_to_end(&mut beginning)?;
    if beginning.trim_ascii().is_empty() {
        return Err(FormatError::Empty);
    }
    match detect(&beginning) {
        Some(format) => Ok((format, beginning)),
        None => Err(FormatError::Unrecognised { hint: looks_like(&beginning) }),
    }
}

/// The transcript with the messages that are visited.
fn collect(visit: impl FnOnce(Sink) -> Result<Transcript, FormatError>) -> Result<Transcript, FormatError> {
    let (mut messages, mut chains) = (Vec::new(), Vec::new());
    let mut transcript = visit(&mut |chain, message| match chain {
        Chain::Main => messages.push(message),
        Chain::Side(number) => {
            if chains.len() <= number {
                chains.resize_with(number + 1, Vec::new);
            }
            chains[number].push(message);
        }
    })?;
    transcript.messages = messages;
    for (child, messages) in transcript.side_chains.iter_mut().zip(chains) {
        child.messages = messages;
    }
    Ok(transcript)
}

/// Lines from an input that cannot go back, which all formats need.
fn held(format: Format, mut input: impl BufRead, sink: Sink) -> Result<Transcript, FormatError> {
    let mut bytes = Vec::new();
    input.read_to_end(&mut bytes)?;
    lines(format, Cursor::new(bytes), sink)
}

fn lines(format: Format, input: impl BufRead + Seek, sink: Sink) -> Result<Transcript, FormatError> {
    let mut lines = Lines::new(input);
    let mut transcript = Transcript::new(format);
    match format {
        Format::ClaudeCode => claude_code::read(&mut lines, &mut transcript, sink)?,
        Format::Pi => {
            record_usage(&mut transcript, sink, |transcript, sink| pi::read(&mut lines, transcript, sink))?;
        }
        _ => codex::read(&mut lines, &mut transcript, sink)?,
    }
    good(lines.good, transcript)
}

/// Let `read` hand on messages, and note the usage that each of them carries. The readers of Claude Code and Codex
/// note it themselves: there usage stands in records that become no message, too.
pub(crate) fn record_usage<E>(
    transcript: &mut Transcript,
    sink: Sink,
    read: impl FnOnce(&mut Transcript, Sink) -> Result<(), E>,
) -> Result<(), E> {
    let mut recorded = Recorded::default();
    read(transcript, &mut |chain, message| {
        recorded.add_message(&message);
        sink(chain, message);
    })?;
    // A reader that found counts of its own has noted more than stands in messages.
    if transcript.recorded.is_empty() {
        transcript.recorded = recorded;
    }
    Ok(())
}

/// An error if not one line could be read.
fn good(good: u64, mut transcript: Transcript) -> Result<Transcript, FormatError> {
    match transcript.broken.take() {
        Some(broken) if good == 0 => {
            let format = transcript.format;
            Err(FormatError::Lines { format, line: broken.line, problem: broken.problem })
        }
        broken => {
            transcript.broken = broken;
            Ok(transcript)
        }
    }
}

/// Read a document; with `look` as what it shows itself to be as a whole, which its beginning may not have shown.
fn document(
    format: Format,
    look: bool,
    (input, size): (impl Read, u64),
    sink: Sink,
) -> Result<Transcript, FormatError> {
    let document = Document::hold(format, input, size)?;
    if matches!(format, Format::OpencodeExport | Format::OpencodeMessages) {
        let mut transcript = Transcript::new(format);
        record_usage(&mut transcript, sink, |transcript, sink| opencode::read(&document, transcript, sink))?;
        return Ok(transcript);
    }
    let outline = document.outline()?;
    let shown = Format::of(&outline).filter(|format| look && !format.is_lines()).unwrap_or(format);
    let mut transcript = Transcript::new(shown);
    document.note_lines(&mut transcript);
    record_usage(&mut transcript, sink, |transcript, sink| match shown {
        Format::OpencodeExport | Format::OpencodeMessages => opencode::read(&document, transcript, sink),
        Format::SweAgent => swe_agent::read(&document, &outline, transcript, sink),
        Format::AnthropicMessages => anthropic::read(&document, &outline, transcript, sink),
        _ => openai::read(&document, &outline, transcript, sink),
    })?;
    Ok(transcript)
}

fn looks_like(beginning: &[u8]) -> String {
    let hint = match beginning {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [b'{' | b'[', 0, ..] => {
            ", it looks like UTF-16 (convert it to UTF-8)"
        }
        [0x1f, 0x8b, ..] => ", it is compressed with gzip (unpack it first)",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => ", it is compressed with zstd (unpack it first)",
        _ if looks_like_gemini(beginning) => ", it looks like a chat of Gemini CLI, which cannot be read yet",
        _ if matches!(beginning.trim_ascii_start().first(), Some(b'{' | b'[')) => {
            return like_json(beginning);
        }
        _ => "",
    };
    hint.to_owned()
}

/// What to say about something that starts like JSON: where it stops being JSON, if that is in sight.
fn like_json(beginning: &[u8]) -> String {
    let first = serde_json::Deserializer::from_slice(beginning).into_iter::<IgnoredAny>().next();
    match first {
        Some(Err(error)) if !error.is_eof() => {
            let (line, column) = (error.line(), error.column());
            format!(", it starts like JSON but is none at line {line}, column {column}: {}", told(&error))
        }
        _ => ", though it starts like JSON".to_owned(),
    }
}

//! The readers, one file each, and the choice among them.

mod aider;
mod anthropic;
mod claude_code;
mod cline;
mod codex;
mod gemini;
pub(crate) mod goose;
mod kimi;
mod managed_agents;
mod openai;
pub(crate) mod opencode;
mod openhands;
mod pi;
mod restarted;
mod swe_agent;
mod trae;

use std::io::{BufRead, Cursor, Read, Seek, SeekFrom};

use plimsoll::Message;

use crate::detect::detect;
use crate::document::Document;
use crate::error::FormatError;
use crate::format::Format;
use crate::lines::Lines;
use crate::nearest::{Seen, nearest};
use crate::recorded::Recorded;
use crate::restart::Restart;
use crate::transcript::{Chain, SessionInfo, Transcript};
pub use restarted::visit_from;

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
pub fn read(input: impl BufRead) -> Result<Transcript, FormatError> {
    read_any(input, None)
}

/// Read one session of a file that holds several: the one whose id is this, or alone begins with it.
///
/// ```
/// let file = concat!(
///     r#"{"type":"session","id":"first","cwd":"/a"}"#, "\n",
///     r#"{"type":"message","message":{"role":"user","content":"One"}}"#, "\n",
///     r#"{"type":"session","id":"second","cwd":"/b"}"#, "\n",
///     r#"{"type":"message","message":{"role":"user","content":"Two"}}"#, "\n",
/// );
/// // The newest is read unless another is asked for.
/// assert_eq!(plimsoll_formats::read(file.as_bytes())?.messages[0].text(), "Two");
/// assert_eq!(plimsoll_formats::read_session(file.as_bytes(), "fir")?.messages[0].text(), "One");
/// assert!(plimsoll_formats::read_session(file.as_bytes(), "third").is_err());
/// # Ok::<(), plimsoll_formats::FormatError>(())
/// ```
pub fn read_session(input: impl BufRead, id: &str) -> Result<Transcript, FormatError> {
    read_any(input, Some(id))
}

fn read_any(mut input: impl BufRead, wanted: Option<&str>) -> Result<Transcript, FormatError> {
    let (format, beginning) = sniff(&mut input)?;
    let input = Cursor::new(beginning).chain(input);
    let reader = Reader { format, redetect: true, wanted, from: None };
    collect(
        |sink| if format.is_lines() { reader.held(input, sink) } else { reader.document((input, 0), sink) },
    )
}

/// Read a transcript as the given format, whatever it looks like.
pub fn read_as(format: Format, input: impl BufRead) -> Result<Transcript, FormatError> {
    let reader = Reader { format, redetect: false, wanted: None, from: None };
    collect(
        |sink| if format.is_lines() { reader.held(input, sink) } else { reader.document((input, 0), sink) },
    )
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
    input: impl BufRead + Seek,
    sink: &mut dyn FnMut(Chain, Message),
) -> Result<Transcript, FormatError> {
    visit_any(input, None, sink)
}

/// Visit one session of a file that holds several, as [`read_session`] reads it.
pub fn visit_session(
    input: impl BufRead + Seek,
    id: &str,
    sink: &mut dyn FnMut(Chain, Message),
) -> Result<Transcript, FormatError> {
    visit_any(input, Some(id), sink)
}

fn visit_any(
    mut input: impl BufRead + Seek,
    wanted: Option<&str>,
    sink: Sink,
) -> Result<Transcript, FormatError> {
    let start = input.stream_position()?;
    let (format, _) = sniff(&mut input)?;
    let size = input.seek(SeekFrom::End(0))?.saturating_sub(start);
    input.seek(SeekFrom::Start(start))?;
    let reader = Reader { format, redetect: true, wanted, from: None };
    if format.is_lines() { reader.lines(input, sink) } else { reader.document((input, size), sink) }
}

/// Visit a transcript as the given format, whatever it looks like.
pub fn visit_as(
    format: Format,
    input: impl BufRead + Seek,
    sink: &mut dyn FnMut(Chain, Message),
) -> Result<Transcript, FormatError> {
    let reader = Reader { format, redetect: false, wanted: None, from: None };
    if format.is_lines() { reader.lines(input, sink) } else { reader.document((input, 0), sink) }
}

/// Visit lines from a restart on; the input stands there.
fn visit_restarted(
    restart: &Restart,
    input: impl BufRead + Seek,
    sink: Sink,
) -> Result<Transcript, FormatError> {
    Reader { format: restart.format, redetect: false, wanted: None, from: Some(restart) }.lines(input, sink)
}

/// The format, and what was read to tell it.
fn sniff(input: &mut impl BufRead) -> Result<(Format, Vec<u8>), FormatError> {
    let mut beginning = Vec::new();
    input.by_ref().take(BEGINNING).read_to_end(&mut beginning)?;
    if beginning.trim_ascii().is_empty() {
        return Err(FormatError::Empty);
    }
    match detect(&beginning) {
        Some(format) => Ok((format, beginning)),
        None => {
            let seen = if (beginning.len() as u64) < BEGINNING { Seen::Whole } else { Seen::Beginning };
            Err(FormatError::Unrecognised { hint: nearest(&beginning, seen) })
        }
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

/// How a transcript is read.
#[derive(Clone, Copy)]
struct Reader<'a> {
    format: Format,
    /// Whether the whole of a document may show another format than its beginning did.
    redetect: bool,
    /// The session that is wanted, by its id; the newest without one.
    wanted: Option<&'a str>,
    /// Where an earlier reading is taken up again.
    from: Option<&'a Restart>,
}

impl Reader<'_> {
    /// Lines from an input that cannot go back, which all formats need.
    fn held(self, mut input: impl BufRead, sink: Sink) -> Result<Transcript, FormatError> {
        let mut bytes = Vec::new();
        input.read_to_end(&mut bytes)?;
        self.lines(Cursor::new(bytes), sink)
    }

    fn lines(self, input: impl BufRead + Seek, sink: Sink) -> Result<Transcript, FormatError> {
        let mut lines = Lines::new(input);
        let mut transcript = Transcript::new(self.format);
        self.counted(&mut transcript, sink, |transcript, sink| {
            match self.format {
                Format::ClaudeCode => {
                    claude_code::read(&mut lines, transcript, (self.wanted, self.from), sink)?;
                }
                Format::Codex => codex::read(&mut lines, transcript, (self.wanted, self.from), sink)?,
                Format::Pi => record_usage(transcript, sink, |transcript, sink| {
                    pi::read(&mut lines, transcript, (self.wanted, self.from), sink)
                })?,
                Format::Kimi => record_usage(transcript, sink, |transcript, sink| {
                    kimi::read(&mut lines, transcript, sink)
                })?,
                _ => record_usage(transcript, sink, |transcript, sink| {
                    managed_agents::read(&mut lines, transcript, sink)
                })?,
            }
            require_good_line(lines.good, transcript)
        })?;
        Ok(transcript)
    }

    /// Read a document, as what it shows itself to be as a whole, which its beginning may not have shown.
    fn document(self, (input, size): (impl Read, u64), sink: Sink) -> Result<Transcript, FormatError> {
        let format = self.format;
        if format == Format::OpencodeDatabase {
            return Err(FormatError::NeedsPath);
        }
        let document = Document::hold(format, input, size)?;
        let mut transcript = Transcript::new(format);
        self.counted(&mut transcript, sink, |transcript, sink| {
            document.note_lines(transcript);
            record_usage(transcript, sink, |transcript, sink| match format {
                Format::OpencodeExport | Format::OpencodeMessages => {
                    opencode::read(&document, transcript, sink)
                }
                Format::GeminiCli => gemini::read(&document, transcript, sink),
                Format::Goose => goose::read(&document, transcript, sink),
                Format::Cline => cline::read(&document, transcript, sink),
                Format::Openhands => openhands::read(&document, transcript, self.wanted, sink),
                Format::Trae => trae::read(&document, transcript, self.wanted, sink),
                Format::Aider => {
                    aider::read(&document, transcript, self.wanted, sink);
                    Ok(())
                }
                _ => self.chat(&document, transcript, sink),
            })
        })?;
        Ok(transcript)
    }

    /// Read a document of a format that says little about itself.
    fn chat(self, document: &Document, transcript: &mut Transcript, sink: Sink) -> Result<(), FormatError> {
        let outline = document.outline()?;
        let shown = Format::of(&outline).filter(|format| self.redetect && !format.is_lines());
        transcript.format = shown.unwrap_or(self.format);
        match transcript.format {
            Format::OpencodeExport | Format::OpencodeMessages => opencode::read(document, transcript, sink),
            Format::SweAgent => swe_agent::read(document, &outline, transcript, sink),
            Format::AnthropicMessages => anthropic::read(document, &outline, transcript, sink),
            Format::Cline => cline::read(document, transcript, sink),
            Format::GeminiCli => gemini::read(document, transcript, sink),
            Format::Openhands => openhands::read(document, transcript, self.wanted, sink),
            _ => openai::read(document, &outline, transcript, sink),
        }
    }

    /// Let `read` hand on messages, and look whether what came of it is a session, and the one that is wanted.
    ///
    /// A file without a single message that says something, whose records were not understood and which does not
    /// even name a session, is of another format that looks alike, and an empty list of messages may be anything's. Taken
    /// for an empty session it would be passed over; so it is an error. A file that is written line by line may have just
    /// begun.
    fn counted(
        self,
        transcript: &mut Transcript,
        sink: Sink,
        read: impl FnOnce(&mut Transcript, Sink) -> Result<(), FormatError>,
    ) -> Result<(), FormatError> {
        let (mut has_said, mut is_empty) = (false, true);
        read(transcript, &mut |chain, message| {
            is_empty = false;
            has_said |= !message.parts.is_empty() || message.info.tokens.is_some();
            sink(chain, message);
        })?;
        if let Some(id) = self.wanted {
            require_session(id, transcript)?;
        }
        if has_said || transcript.torn || transcript.info.id.is_some() {
            return Ok(());
        }
        let unknown: Vec<&str> = transcript.skipped.keys().map(String::as_str).collect();
        let found = match (unknown.is_empty(), transcript.notes.first().first()) {
            (false, _) => format!("it has records of other kinds: `{}`", unknown.join("`, `")),
            (true, Some(note)) => format!("{}: {}", note.at, note.problem),
            (true, None) if is_empty && is_list_of_messages(transcript.format) => {
                "its list has no message that says anything".to_owned()
            }
            (true, None) => return Ok(()),
        };
        Err(FormatError::NoMessages { format: transcript.format, found })
    }
}

/// Whether a document of this format is a list of messages and little else.
fn is_list_of_messages(format: Format) -> bool {
    matches!(
        format,
        Format::OpencodeExport
            | Format::OpencodeMessages
            | Format::OpenaiChat
            | Format::AnthropicMessages
            | Format::SweAgent
            | Format::Cline
    )
}

/// The place of the session that is wanted: the one with this id, or the only one whose id begins with it.
fn choose(wanted: Option<&str>, sessions: &[SessionInfo]) -> Option<usize> {
    let wanted = wanted?;
    let id = |place: &usize| sessions[*place].id.as_deref().unwrap_or_default();
    let places = || 0..sessions.len();
    places().find(|place| id(place) == wanted).or_else(|| {
        let mut near = places().filter(|place| id(place).starts_with(wanted));
        near.next().filter(|_| near.next().is_none())
    })
}

/// An error if the session that was read is not the one that is wanted.
fn require_session(wanted: &str, transcript: &Transcript) -> Result<(), FormatError> {
    let own = transcript.info.id.as_deref();
    let all: Vec<&str> = own
        .into_iter()
        .chain(transcript.other_sessions.iter().filter_map(|info| info.id.as_deref()))
        .collect();
    let near: Vec<&&str> = all.iter().filter(|id| id.starts_with(wanted)).collect();
    let is_it = own.is_some_and(|id| id == wanted || id.starts_with(wanted) && near.len() == 1);
    if is_it {
        return Ok(());
    }
    let named = |ids: &[&str]| ids.iter().take(10).map(|id| format!("`{id}`")).collect::<Vec<_>>().join(", ");
    let near = match (near.len(), all.len()) {
        (2.., _) => {
            format!("several begin with it: {}", named(&near.into_iter().copied().collect::<Vec<_>>()))
        }
        (_, 0) => "its session has no id".to_owned(),
        (_, 1) => format!("it holds {} alone", named(&all)),
        (_, count) => format!("it holds {count}: {}", named(&all)),
    };
    Err(FormatError::NoSession { format: transcript.format, id: Some(wanted.to_owned()), near })
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
fn require_good_line(good: u64, transcript: &Transcript) -> Result<(), FormatError> {
    match &transcript.broken {
        Some(broken) if good == 0 => {
            let (format, line, problem) = (transcript.format, broken.line, broken.problem.clone());
            Err(FormatError::Lines { format, line, problem })
        }
        _ => Ok(()),
    }
}

//! The readers, one file each, and the choice of a reader.

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
use crate::nearest::{Extent, nearest};
use crate::recorded::Recorded;
use crate::restart::Restart;
use crate::transcript::{Chain, SessionInfo, Transcript};
pub use restarted::visit_from;

/// Number of bytes by which the format is detected.
const BEGINNING: u64 = 64 << 10;

/// Receives visited messages.
pub(crate) type Sink<'s> = &'s mut dyn FnMut(Chain, Message);

/// Reads a transcript of any format.
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

/// Reads one session of a file with several: the one with this id, or the only one whose id begins with it.
///
/// ```
/// let file = concat!(
///     r#"{"type":"session","id":"first","cwd":"/a"}"#, "\n",
///     r#"{"type":"message","message":{"role":"user","content":"One"}}"#, "\n",
///     r#"{"type":"session","id":"second","cwd":"/b"}"#, "\n",
///     r#"{"type":"message","message":{"role":"user","content":"Two"}}"#, "\n",
/// );
/// // The newest is read by default.
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

/// Reads a transcript as the given format, without detecting it.
pub fn read_as(format: Format, input: impl BufRead) -> Result<Transcript, FormatError> {
    let reader = Reader { format, redetect: false, wanted: None, from: None };
    collect(
        |sink| if format.is_lines() { reader.held(input, sink) } else { reader.document((input, 0), sink) },
    )
}

/// Visits the messages of a transcript of any format, oldest first.
///
/// Like [`read`], but passes the messages to `sink` one by one: first those of the session, then those of each sub-agent.
/// The returned transcript contains everything else. For line formats only a few numbers per record and the incomplete
/// messages are in memory, so a file may be much larger than the memory. Documents are held as text.
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
/// On failure, `sink` may have received the messages before the fault.
pub fn visit(
    input: impl BufRead + Seek,
    sink: &mut dyn FnMut(Chain, Message),
) -> Result<Transcript, FormatError> {
    visit_any(input, None, sink)
}

/// Visits one session of a file with several, like [`read_session`].
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

/// Visits a transcript as the given format, without detecting it.
pub fn visit_as(
    format: Format,
    input: impl BufRead + Seek,
    sink: &mut dyn FnMut(Chain, Message),
) -> Result<Transcript, FormatError> {
    let reader = Reader { format, redetect: false, wanted: None, from: None };
    if format.is_lines() { reader.lines(input, sink) } else { reader.document((input, 0), sink) }
}

/// Visits lines from a restart on; the input is positioned there.
fn visit_restarted(
    restart: &Restart,
    input: impl BufRead + Seek,
    sink: Sink,
) -> Result<Transcript, FormatError> {
    Reader { format: restart.format, redetect: false, wanted: None, from: Some(restart) }.lines(input, sink)
}

/// Detects the format. Returns the bytes that were read for this.
fn sniff(input: &mut impl BufRead) -> Result<(Format, Vec<u8>), FormatError> {
    let mut beginning = Vec::new();
    input.by_ref().take(BEGINNING).read_to_end(&mut beginning)?;
    if beginning.trim_ascii().is_empty() {
        return Err(FormatError::Empty);
    }
    match detect(&beginning) {
        Some(format) => Ok((format, beginning)),
        None => {
            let seen = if (beginning.len() as u64) < BEGINNING { Extent::Whole } else { Extent::Beginning };
            Err(FormatError::Unrecognised { hint: nearest(&beginning, seen) })
        }
    }
}

/// Collects visited messages into the transcript.
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

/// How to read a transcript.
#[derive(Clone, Copy)]
struct Reader<'a> {
    format: Format,
    /// Whether a whole document may turn out to be of another format than its beginning.
    redetect: bool,
    /// Id of the requested session; `None` for the newest.
    wanted: Option<&'a str>,
    /// Restart of an earlier reading.
    from: Option<&'a Restart>,
}

impl Reader<'_> {
    /// Copies lines from an input that cannot seek, which all formats require.
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

    /// Reads a document. Its format is detected again from the whole, which may show more than its beginning.
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

    /// Reads a document of a format with few characteristic fields.
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

    /// Runs `read`, and checks that its result is a session, and the requested one.
    ///
    /// A file without any message with content, with unknown records, and without a session id is of another, similar
    /// format; an empty list of messages could be of any. As an empty session it would go unnoticed, so it is an error.
    /// A file that is written line by line may have just begun.
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
            (false, _) => format!("its records are of unknown kinds: `{}`", unknown.join("`, `")),
            (true, Some(note)) => format!("{}: {}", note.at, note.problem),
            (true, None) if is_empty && is_list_of_messages(transcript.format) => {
                "all messages in its list are empty".to_owned()
            }
            (true, None) => return Ok(()),
        };
        Err(FormatError::NoMessages { format: transcript.format, found })
    }
}

/// Whether a document of this format is little more than a list of messages.
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

/// Returns the index of the requested session: the one with this id, or the only one whose id begins with it.
fn choose(wanted: Option<&str>, sessions: &[SessionInfo]) -> Option<usize> {
    let wanted = wanted?;
    let id = |place: &usize| sessions[*place].id.as_deref().unwrap_or_default();
    let places = || 0..sessions.len();
    places().find(|place| id(place) == wanted).or_else(|| {
        let mut near = places().filter(|place| id(place).starts_with(wanted));
        near.next().filter(|_| near.next().is_none())
    })
}

/// Returns an error if another session than the requested one was read.
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
        (_, 1) => format!("it only has {}", named(&all)),
        (_, count) => format!("it holds {count}: {}", named(&all)),
    };
    Err(FormatError::NoSession { format: transcript.format, id: Some(wanted.to_owned()), near })
}

/// Runs `read`, and records the usage in each message. The readers of Claude Code and Codex record it themselves,
/// because there also records that become no message have usage.
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
    // A reader that found separate counts has recorded more than the messages contain.
    if transcript.recorded.is_empty() {
        transcript.recorded = recorded;
    }
    Ok(())
}

/// Returns an error if not a single line could be read.
fn require_good_line(good: u64, transcript: &Transcript) -> Result<(), FormatError> {
    match &transcript.broken {
        Some(broken) if good == 0 => {
            let (format, line, problem) = (transcript.format, broken.line, broken.problem.clone());
            Err(FormatError::Lines { format, line, problem })
        }
        _ => Ok(()),
    }
}

//! A conversation in another format.

use std::io::Write;
use std::path::Path;

use plimsoll::{Message, PartBody, Tokens};
use plimsoll_formats::{Format, FormatError, Lost, Recorded, Transcript};
use plimsoll_import::{Extent, salvage, transcript};
use plimsoll_store::{Damage, Session};
use serde_json::Value;

use crate::error::{HostError, reason};
use crate::files::{self, Existing};
use crate::host::Host;
use crate::store::OpenStore;
use crate::words::counted;

/// A transcript that was written.
#[derive(Debug)]
#[non_exhaustive]
pub struct Exported {
    /// Number of messages that were written.
    pub messages: usize,
    /// Content that the format cannot represent.
    pub lost: Vec<String>,
}

/// A stored session that was read for an export.
#[non_exhaustive]
pub struct StoredTranscript {
    /// The transcript.
    pub transcript: Transcript,
    /// Damaged content; empty unless the session is salvaged.
    pub damage: Vec<Damage>,
    /// Stored data that no format can represent, such as receipts.
    pub beside: Vec<String>,
}

/// Refuses a file that exists, unless it may be replaced.
pub fn require_absent(path: &Path, existing: Existing) -> Result<(), HostError> {
    if existing == Existing::Keep && path.exists() { Err(exists(path)) } else { Ok(()) }
}

/// Writes a transcript into a file, whole or not at all.
pub fn export_to_file(
    format: Format,
    transcript: &Transcript,
    path: &Path,
    existing: Existing,
) -> Result<Exported, HostError> {
    let put = |out: &mut dyn Write| export(format, transcript, out);
    files::write_with(path, existing, put).map_err(|error| match io_error(&error) {
        Some(io) if io.kind() == std::io::ErrorKind::AlreadyExists => exists(path),
        Some(io) => HostError::failed(format!("cannot write `{}`: {}", path.display(), reason(io))),
        None => error,
    })
}

fn io_error(error: &HostError) -> Option<&std::io::Error> {
    std::error::Error::source(error)?.downcast_ref()
}

/// Writes a transcript.
pub fn export(format: Format, transcript: &Transcript, out: &mut dyn Write) -> Result<Exported, HostError> {
    let (info, messages) = (&transcript.info, &transcript.messages);
    if let Some(written) = plimsoll_formats::write_to(format, info, messages, out) {
        let (messages, left_out) = written?;
        out.write_all(b"\n")?;
        return Ok(Exported { messages, lost: lost(transcript, format, &Value::Null, &left_out) });
    }
    let written = plimsoll_formats::write_counting(format, info, messages);
    let (written, left_out) = written.map_err(|error| not_writable(format, error))?;
    serde_json::to_writer(&mut *out, &written).map_err(std::io::Error::from)?;
    out.write_all(b"\n")?;
    let list = written.as_array().or_else(|| written["messages"].as_array());
    let lost = lost(transcript, format, &written, &left_out);
    Ok(Exported { messages: list.map_or(0, Vec::len), lost })
}

fn not_writable(format: Format, error: FormatError) -> HostError {
    let shown = HostError::usage(error.to_string()).caused_by(error);
    match format {
        Format::ClaudeCode | Format::Codex => shown.hint(format!(
            "`plimsoll sessions handover SESSION --to {format}` writes a session that it goes on with"
        )),
        _ => shown,
    }
}

impl OpenStore {
    /// Reads a stored session for an export. A damaged one is refused unless it is salvaged.
    pub fn read_for_export(
        &self,
        session: &Session,
        is_salvaged: bool,
        host: &Host,
    ) -> Result<StoredTranscript, HostError> {
        let store = self.archive.store();
        let (transcript, damage) = host.during(&format!("reading `{}`", session.id), || {
            if is_salvaged {
                return Ok::<_, HostError>(salvage(store, session)?);
            }
            self.require_sound(&session.id)?;
            Ok((transcript(store, session, Extent::Whole)?, Vec::new()))
        })?;
        let tasks = self.children(&session.id)?;
        let receipts = self.receipts(&session.id);
        // A salvage names those that cannot be read in the list of damage.
        let receipts = if is_salvaged { receipts.unwrap_or_default() } else { receipts? };
        let spills = self.spills(&session.id)?;
        let beside = [(tasks.len(), "task"), (receipts.len(), "receipt"), (spills.len(), "spilled output")];
        let beside = beside.into_iter().filter(|(count, _)| *count > 0);
        let beside = beside.map(|(count, noun)| counted(count, noun)).collect();
        Ok(StoredTranscript { transcript, damage, beside })
    }
}

/// The error for a file that would be overwritten.
fn exists(path: &Path) -> HostError {
    HostError::usage(format!("`{}` is there already", path.display()))
        .hint("give another name, or `--force` to write over it")
}

/// Counts what the format has no place for.
fn lost(transcript: &Transcript, to: Format, written: &Value, left_out: &[Lost]) -> Vec<String> {
    let mut lost = Vec::new();
    let mut count = |count: usize, one: &str, more: &str| match count {
        0 => {}
        1 => lost.push(format!("1 {one}")),
        count => lost.push(format!("{} {more}", Tokens(count as u64))),
    };
    let unknown: u64 = transcript.skipped.values().sum();
    count(unknown as usize, "record not understood", "records not understood");
    count(transcript.side_chains.len(), "sub-agent's session", "sub-agents' sessions");
    let messages = &transcript.messages;
    let parts = || messages.iter().flat_map(|message| &message.parts);
    if matches!(to, Format::OpenaiChat | Format::AnthropicMessages) {
        let thoughts = parts().filter(|part| matches!(part.body, PartBody::Reasoning(_))).count();
        count(thoughts.saturating_sub(written_thoughts(written)), "thought", "thoughts");
        count(messages.iter().filter(|message| message.info.summary).count(), "summary", "summaries");
        count(
            messages.iter().filter(|message| has_usage(message)).count(),
            "record of usage",
            "records of usage",
        );
        let failed = messages.iter().filter(|message| has_failed(message)).count();
        count(failed, "failed answer", "failed answers");
    }
    left_out.iter().for_each(|lost| count(lost.count, lost.one, lost.more));
    lost
}

/// Whether it has usage, as `inspect` counts responses.
fn has_usage(message: &Message) -> bool {
    let mut recorded = Recorded::default();
    recorded.add_message(message);
    !recorded.is_empty()
}

/// Whether it is an answer that failed after some output. No request repeats it.
fn has_failed(message: &Message) -> bool {
    let name = message.info.error.as_ref().map(|error| error["name"].as_str().unwrap_or_default());
    name.is_some_and(|name| name != "MessageAbortedError") && !message.parts.is_empty()
}

/// Counts thoughts that were written. Anthropic's have a place if they are signed.
fn written_thoughts(request: &Value) -> usize {
    let messages = request["messages"].as_array().into_iter().flatten();
    let blocks = messages.flat_map(|message| message["content"].as_array().into_iter().flatten());
    blocks.filter(|block| block["type"].as_str().is_some_and(|kind| kind.ends_with("thinking"))).count()
}

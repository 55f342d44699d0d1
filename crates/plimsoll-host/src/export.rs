//! Export of transcripts to files of other formats.

use std::io::Write;
use std::path::Path;

use plimsoll::{Log, Tokens};
use plimsoll_formats::{ConversionLoss, EachMessage, Format, FormatError, Transcript};
use plimsoll_import::{ImportError, OnDamage};
use plimsoll_store::{Damage, Session};

use crate::error::{HostError, reason};
use crate::files::{self, Existing};
use crate::store::{OpenStore, damaged};
use crate::words::counted;

/// Result of an export.
#[derive(Debug)]
#[non_exhaustive]
pub struct Exported {
    /// Number of messages that were written. A request has a message for each result of a tool.
    pub written: usize,
    /// Number of messages of the session.
    pub messages: usize,
    /// Content that the format cannot represent.
    pub lost: Vec<String>,
    /// Damaged content of a stored session; empty unless it is salvaged.
    pub damage: Vec<Damage>,
}

/// Fails if the file exists and must not be replaced.
pub fn require_absent(path: &Path, existing: Existing) -> Result<(), HostError> {
    if existing == Existing::Keep && path.exists() { Err(exists(path)) } else { Ok(()) }
}

/// Writes a file atomically with the output of `put`.
pub fn write_file<T>(
    path: &Path,
    existing: Existing,
    put: impl FnOnce(&mut dyn Write) -> Result<T, HostError>,
) -> Result<T, HostError> {
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
pub fn export(format: Format, transcript: Transcript, out: &mut dyn Write) -> Result<Exported, HostError> {
    let unknown: u64 = transcript.skipped.values().sum();
    let mut lost: Vec<ConversionLoss> = Vec::new();
    lost.extend(ConversionLoss::new(unknown as usize, "record not understood", "records not understood"));
    lost.extend(ConversionLoss::new(
        transcript.side_chains.len(),
        "sub-agent's session",
        "sub-agents' sessions",
    ));
    let log = Log::from_messages(transcript.messages);
    let each: EachMessage<'_, ImportError> = &mut |sink| {
        log.iter().cloned().for_each(sink);
        Ok(())
    };
    let written = plimsoll_formats::write_to(format, &transcript.info, each, out);
    let (written, left_out) = written.map_err(|error| failed(error, format))?;
    out.write_all(b"\n")?;
    lost.extend(left_out);
    let lost = lost.iter().map(lost_in_words).collect();
    Ok(Exported { written, messages: log.len(), lost, damage: Vec::new() })
}

impl OpenStore {
    /// Writes a stored session, message by message. Fails if it is damaged, unless it is salvaged.
    pub fn export(
        &self,
        session: &Session,
        format: Format,
        on_damage: OnDamage,
        out: &mut dyn Write,
    ) -> Result<Exported, HostError> {
        let exported = plimsoll_import::export(self.archive.store(), session, format, on_damage, out);
        let exported = exported.map_err(|error| match error {
            ImportError::Damaged { .. } => damaged(error, &session.id),
            error => failed(error, format),
        })?;
        out.write_all(b"\n")?;
        let tasks = self.children(&session.id)?;
        let receipts = self.receipts(&session.id);
        // Receipts are optional in a salvage, which lists unreadable ones as damage.
        let receipts = if on_damage == OnDamage::Salvage { receipts.unwrap_or_default() } else { receipts? };
        let spills = self.spills(&session.id)?;
        let others = [(tasks.len(), "task"), (receipts.len(), "receipt"), (spills.len(), "spilled output")];
        let others = others.into_iter().filter(|(count, _)| *count > 0);
        let others = others.map(|(count, noun)| counted(count, noun));
        let lost = exported.lost.iter().map(lost_in_words).chain(others).collect();
        Ok(Exported { written: exported.written, messages: exported.messages, lost, damage: exported.damage })
    }
}

fn failed(error: ImportError, format: Format) -> HostError {
    match error {
        ImportError::Format(error @ FormatError::NotWritable(_)) => {
            let shown = HostError::usage(error.to_string()).caused_by(error);
            match format {
                Format::ClaudeCode | Format::Codex => shown.hint(format!(
                    "`plimsoll sessions handover SESSION --to {format}` writes a session that it can continue"
                )),
                _ => shown,
            }
        }
        ImportError::Io(error) => error.into(),
        error => error.into(),
    }
}

/// Creates the error for a file that would be overwritten.
fn exists(path: &Path) -> HostError {
    HostError::usage(format!("`{}` already exists", path.display()))
        .hint("choose another name, or pass `--force` to overwrite it")
}

fn lost_in_words(lost: &ConversionLoss) -> String {
    match lost.count {
        1 => format!("1 {}", lost.one),
        count => format!("{} {}", Tokens(count as u64), lost.more),
    }
}

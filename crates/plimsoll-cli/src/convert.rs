//! `plimsoll convert`: the same conversation in another format.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use plimsoll::{Log, Tokens};
use plimsoll_formats::{EachMessage, Format, FormatError, Lost};
use plimsoll_import::ImportError;

use crate::args::ConvertArgs;
use crate::error::{CliError, plain_reason};
use crate::files::{self, Existing};
use crate::input;
use crate::output::{Output, counted, note};
use crate::progress::Progress;
use crate::surroundings::Surroundings;

/// Read, write, and say what has no place in the other format.
pub(crate) fn run(
    args: &ConvertArgs,
    around: &Surroundings,
    output: &mut Output,
) -> Result<ExitCode, CliError> {
    let to = Target { format: args.to, out: args.out.as_deref(), force: args.force };
    to.check()?;
    let (_, transcript) = input::with_stored_id(&args.input, around)?;
    let unknown: u64 = transcript.skipped.values().sum();
    let mut lost: Vec<Lost> = Vec::new();
    lost.extend(Lost::new(unknown as usize, "record not understood", "records not understood"));
    lost.extend(Lost::new(transcript.side_chains.len(), "sub-agent's session", "sub-agents' sessions"));
    let log = Log::from_messages(transcript.messages);
    to.write(output, |out| {
        let each: EachMessage<'_, ImportError> = &mut |sink| {
            log.iter().cloned().for_each(sink);
            Ok(())
        };
        let written = plimsoll_formats::write_to(to.format, &transcript.info, each, out);
        let (messages, left_out) = written.map_err(|error| to.failed(error))?;
        lost.extend(left_out);
        Ok(Written { messages, of: log.len(), lost: lost.iter().map(told_lost).collect() })
    })?;
    Ok(ExitCode::SUCCESS)
}

/// What was written.
pub(crate) struct Written {
    /// Messages in the file.
    pub(crate) messages: usize,
    /// Messages of the session.
    pub(crate) of: usize,
    /// What is not in it.
    pub(crate) lost: Vec<String>,
}

/// What is to be written, and where.
pub(crate) struct Target<'a> {
    /// The format.
    pub(crate) format: Format,
    /// The file; standard output without one.
    pub(crate) out: Option<&'a Path>,
    /// Whether to write over a file that is there.
    pub(crate) force: bool,
}

impl Target<'_> {
    /// Refuse what is there already, before any work is done.
    pub(crate) fn check(&self) -> Result<(), CliError> {
        self.out.filter(|path| !self.force && path.exists()).map_or(Ok(()), |path| Err(is_there(path)))
    }

    /// Has something written, and says what is lost.
    pub(crate) fn write(
        &self,
        output: &mut Output,
        put: impl FnOnce(&mut dyn Write) -> Result<Written, CliError>,
    ) -> Result<(), CliError> {
        let put = |out: &mut dyn Write| -> Result<Written, CliError> {
            let written = put(out)?;
            out.write_all(b"\n")?;
            Ok(written)
        };
        let existing = if self.force { Existing::Replace } else { Existing::Keep };
        let written = Progress::during("converting", || match self.out {
            Some(path) => files::write_with(path, existing, put).map_err(|error| match error.io_kind() {
                Some(std::io::ErrorKind::AlreadyExists) => is_there(path),
                Some(_) => {
                    let why = plain_reason(error.message());
                    CliError::failed(format!("cannot write `{}`: {why}", path.display()))
                }
                None => error,
            }),
            None => put(output.writer()),
        });
        let Written { messages, of, lost } = written?;
        output.flush()?;
        if !lost.is_empty() {
            note(&format!("lost: {}", lost.join(", ")));
        }
        if let Some(path) = self.out {
            note(&format!("wrote {} to `{}`", told(messages, of), path.display()));
        }
        Ok(())
    }

    /// Why nothing was written.
    pub(crate) fn failed(&self, error: ImportError) -> CliError {
        match error {
            ImportError::Format(error @ FormatError::NotWritable(_)) => self.not_writable(&error),
            ImportError::Io(error) => error.into(),
            error => error.into(),
        }
    }

    fn not_writable(&self, error: &FormatError) -> CliError {
        let told = CliError::usage(error.to_string());
        match self.format {
            Format::ClaudeCode | Format::Codex => told.hint(format!(
                "`plimsoll sessions handover SESSION --to {}` writes a session that it goes on with",
                self.format
            )),
            _ => told,
        }
    }
}

/// How many messages were written, and of how many. A request has a message for each result of a tool.
fn told(count: usize, of: usize) -> String {
    let told = counted(count, "message");
    if count == of { told } else { format!("{told}, made of {} of the session,", Tokens(of as u64)) }
}

/// A file that would be written over.
pub(crate) fn is_there(path: &Path) -> CliError {
    CliError::usage(format!("`{}` is there already", path.display()))
        .hint("give another name, or `--force` to write over it")
}

/// Something that is lost, for people.
pub(crate) fn told_lost(lost: &Lost) -> String {
    match lost.count {
        1 => format!("1 {}", lost.one),
        count => format!("{} {}", Tokens(count as u64), lost.more),
    }
}

//! `plimsoll convert`: a transcript in another format.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use plimsoll::Tokens;
use plimsoll_formats::Format;
use plimsoll_host::{Existing, Exported, Host, HostError, export, require_absent, write_file};
use plimsoll_import::Scope;

use crate::args::ConvertArgs;
use crate::error::CommandResult;
use crate::output::{Output, counted, note};

/// Converts a transcript and reports what the target format cannot represent.
pub(crate) fn run(args: &ConvertArgs, host: &Host, output: &mut Output) -> CommandResult {
    let to = Target::new(args.to, args.out.as_deref(), args.force)?;
    let (_, transcript) = host.input(args.input.spec(), Scope::All)?.read_sound()?;
    to.write(host, output, |out| export(to.format, transcript, out))?;
    Ok(ExitCode::SUCCESS)
}

/// Output format and destination.
pub(crate) struct Target<'a> {
    format: Format,
    /// The file; standard output if `None`.
    pub(crate) out: Option<&'a Path>,
    existing: Existing,
}

impl Target<'_> {
    /// Creates a target. An existing file is rejected before any work is done.
    pub(crate) fn new(format: Format, out: Option<&Path>, force: bool) -> Result<Target<'_>, HostError> {
        let existing = if force { Existing::Replace } else { Existing::Keep };
        out.map_or(Ok(()), |path| require_absent(path, existing))?;
        Ok(Target { format, out, existing })
    }

    /// Writes a transcript and reports what is lost.
    pub(crate) fn write(
        &self,
        host: &Host,
        output: &mut Output,
        put: impl FnOnce(&mut dyn Write) -> Result<Exported, HostError>,
    ) -> Result<Exported, HostError> {
        let written = host.during("converting", || match self.out {
            Some(path) => write_file(path, self.existing, put),
            None => put(output.writer()),
        })?;
        output.flush()?;
        let lost = &written.lost;
        if !lost.is_empty() {
            note(&format!("lost: {}", lost.join(", ")));
        }
        if let Some(path) = self.out {
            let messages = written_messages(written.written, written.messages);
            note(&format!("wrote {messages} to `{}`", path.display()));
        }
        Ok(written)
    }
}

/// Formats the number of written messages. Request formats have one message per tool result, so it can differ from the
/// session's.
fn written_messages(count: usize, of: usize) -> String {
    let messages = counted(count, "message");
    if count == of { messages } else { format!("{messages} ({} in the session)", Tokens(of as u64)) }
}

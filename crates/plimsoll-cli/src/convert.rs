//! `plimsoll convert`: the same conversation in another format.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use plimsoll::{Message, PartBody, Tokens};
use plimsoll_formats::{Format, Lost, Recorded, Transcript};
use serde_json::Value;

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
    to.write(&transcript, &[], output)
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

    /// Write a transcript, and say what is lost; `also` is what the caller knows of that.
    pub(crate) fn write(
        &self,
        transcript: &Transcript,
        also: &[String],
        output: &mut Output,
    ) -> Result<ExitCode, CliError> {
        let (info, messages) = (&transcript.info, &transcript.messages);
        let put = |out: &mut dyn Write| -> Result<(usize, Vec<String>), CliError> {
            if let Some(written) = plimsoll_formats::write_to(self.format, info, messages, out) {
                let (count, left_out) = written?;
                out.write_all(b"\n")?;
                return Ok((count, lost(transcript, self.format, &Value::Null, &left_out)));
            }
            let written = plimsoll_formats::write_counting(self.format, info, messages);
            let (written, left_out) = written.map_err(|error| self.not_writable(&error))?;
            serde_json::to_writer(&mut *out, &written).map_err(std::io::Error::from)?;
            out.write_all(b"\n")?;
            let list = written.as_array().or_else(|| written["messages"].as_array());
            Ok((list.map_or(0, Vec::len), lost(transcript, self.format, &written, &left_out)))
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
        let (count, mut lost) = written?;
        output.flush()?;
        lost.extend_from_slice(also);
        if !lost.is_empty() {
            note(&format!("lost: {}", lost.join(", ")));
        }
        if let Some(path) = self.out {
            note(&format!("wrote {} to `{}`", told(count, messages.len()), path.display()));
        }
        Ok(ExitCode::SUCCESS)
    }

    fn not_writable(&self, error: &plimsoll_formats::FormatError) -> CliError {
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

/// What the format has no place for, counted.
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

/// Whether something was counted for it, as `inspect` counts responses.
fn has_usage(message: &Message) -> bool {
    let mut recorded = Recorded::default();
    recorded.add_message(message);
    !recorded.is_empty()
}

/// Whether it is an answer that failed after it had said something. No request repeats it.
fn has_failed(message: &Message) -> bool {
    let name = message.info.error.as_ref().map(|error| error["name"].as_str().unwrap_or_default());
    name.is_some_and(|name| name != "MessageAbortedError") && !message.parts.is_empty()
}

/// Thoughts that found a place. Anthropic's have one if they are signed.
fn written_thoughts(request: &Value) -> usize {
    let messages = request["messages"].as_array().into_iter().flatten();
    let blocks = messages.flat_map(|message| message["content"].as_array().into_iter().flatten());
    blocks.filter(|block| block["type"].as_str().is_some_and(|kind| kind.ends_with("thinking"))).count()
}

//! What a command works on: a transcript and a policy.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use plimsoll::{Log, Policy, Preset};
use plimsoll_formats::Transcript;

use crate::args::InputArgs;
use crate::discover::{self, Found};
use crate::error::CliError;
use crate::output::note;

/// The transcript a command was given.
pub(crate) fn transcript(args: &InputArgs) -> Result<Transcript, CliError> {
    let (name, transcript) = match args.file.as_deref().filter(|file| *file != Path::new("-")) {
        Some(file) => {
            let name = format!("`{}`", file.display());
            let opened = File::open(file).map_err(|error| {
                CliError::usage(format!("cannot open {name}: {error}"))
                    .hint("give a transcript, or `-` for standard input")
            })?;
            (name, plimsoll_formats::read(BufReader::new(opened)))
        }
        None if args.file.is_some() => {
            ("standard input".to_owned(), plimsoll_formats::read(io::stdin().lock()))
        }
        None => {
            let found = newest()?;
            let name = format!("`{}`", found.file.display());
            note(&format!("{}: {name}", found.agent));
            (name, plimsoll_formats::read(BufReader::new(File::open(&found.file)?)))
        }
    };
    let transcript = transcript.map_err(|error| CliError::failed(format!("cannot read {name}: {error}")))?;
    check(&transcript, &name, args.strict)?;
    Ok(transcript)
}

/// Refuse what is not known if that is asked for, and say what else is worth knowing.
pub(crate) fn check(transcript: &Transcript, name: &str, strict: bool) -> Result<(), CliError> {
    let unknown: Vec<String> =
        transcript.skipped.iter().map(|(kind, count)| format!("{count} of `{kind}`")).collect();
    if strict && !unknown.is_empty() {
        let message = format!("{name} has records of unknown kinds: {}", unknown.join(", "));
        return Err(CliError::failed(message).hint("leave out `--strict` to go on without them"));
    }
    if transcript.torn {
        note(&format!("note: the last line of {name} is cut off; the session may still be being written"));
    }
    Ok(())
}

/// The newest session for the current directory.
fn newest() -> Result<Found, CliError> {
    let hint = "give a transcript, or `-` for standard input";
    let home = std::env::var_os("HOME").or_else(|| std::env::var_os("USERPROFILE"));
    let home =
        home.ok_or_else(|| CliError::usage("there is no home directory to look for sessions in").hint(hint))?;
    let here = std::env::current_dir()?;
    discover::newest(Path::new(&home), &here).ok_or_else(|| {
        let message = format!("found no session of Claude Code, Codex or pi for `{}`", here.display());
        CliError::usage(message).hint(hint)
    })
}

/// The same as a log.
pub(crate) fn log(args: &InputArgs) -> Result<Log, CliError> {
    Ok(Log::from_messages(transcript(args)?.messages))
}

/// A policy by the name of a preset or from a file.
pub(crate) fn policy(name: &str) -> Result<Policy, CliError> {
    let unknown = match name.parse::<Preset>() {
        Ok(preset) => return with_environment(preset.policy()),
        Err(unknown) => unknown,
    };
    let text = match std::fs::read_to_string(name) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(CliError::usage(unknown.to_string()).hint("or give the path of a policy file"));
        }
        Err(error) => return Err(CliError::usage(format!("cannot read policy `{name}`: {error}"))),
    };
    let policy = Policy::from_json(&text).map_err(|error| {
        CliError::usage(format!("policy `{name}`: {error}"))
            .hint("`plimsoll config --schema` describes all fields")
    })?;
    with_environment(policy)
}

fn with_environment(policy: Policy) -> Result<Policy, CliError> {
    let lookup = |variable: &str| std::env::var(variable).ok();
    policy.with_environment(lookup).map_err(|error| CliError::usage(format!("environment: {error}")))
}

/// Everything on standard input, as bytes.
pub(crate) fn stdin_bytes() -> Result<Vec<u8>, CliError> {
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes)?;
    Ok(bytes)
}

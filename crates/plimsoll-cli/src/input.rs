//! What a command works on: a transcript, wherever it is.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use plimsoll::Log;
use plimsoll_formats::opencode_db::Database;
use plimsoll_formats::{FormatError, Transcript};

use crate::args::InputArgs;
use crate::error::{CliError, reason};
use crate::output::note;
use crate::progress::Progress;
use crate::sessions::{self, Found};
use crate::surroundings::Surroundings;

const HINT: &str = "give a transcript, the id of a session (`plimsoll sessions --all` lists them), or `-` for standard input";
/// Every SQLite database begins with this.
const SQLITE: &[u8] = b"SQLite format 3\0";

/// The transcript a command was given.
pub(crate) fn transcript(args: &InputArgs, around: &Surroundings) -> Result<Transcript, CliError> {
    let (name, transcript) = match (args.file.as_deref(), args.session.as_deref()) {
        (Some(file), Some(id)) if file == Path::new("-") => {
            let message =
                format!("standard input is one session, so there is nothing for `--session {id}` to choose");
            return Err(CliError::usage(message).hint("leave out `-` to take the session with that id"));
        }
        (Some(file), None) if file == Path::new("-") => ("standard input".to_owned(), from_stdin()),
        (Some(file), session) => from_file(file, session, around)?,
        (None, Some(id)) => {
            let found = sessions::with_id(id, around)?;
            let none = || CliError::usage(format!("no session has an id that begins with `{id}`")).hint(HINT);
            from_session(&found.ok_or_else(none)?, around)?
        }
        (None, None) => from_session(&sessions::newest(around)?, around)?,
    };
    let transcript = transcript.map_err(|error| CliError::failed(format!("cannot read {name}: {error}")))?;
    check(&transcript, &name, args.strict)?;
    Ok(transcript)
}

/// The same as a log.
pub(crate) fn log(args: &InputArgs, around: &Surroundings) -> Result<Log, CliError> {
    Ok(Log::from_messages(transcript(args, around)?.messages))
}

type Named = (String, Result<Transcript, FormatError>);

fn from_stdin() -> Result<Transcript, FormatError> {
    let progress = Progress::bytes("reading standard input", None);
    plimsoll_formats::read(progress.reading(io::stdin().lock()))
}

fn from_file(file: &Path, session: Option<&str>, around: &Surroundings) -> Result<Named, CliError> {
    let name = format!("`{}`", file.display());
    let mut opened = match File::open(file) {
        Ok(opened) => opened,
        Err(error) => {
            let id = file.to_str().filter(|id| error.kind() == io::ErrorKind::NotFound && is_like_id(id));
            let found = id.map(|id| sessions::with_id(id, around)).transpose()?.flatten();
            return match (found, id) {
                (Some(found), _) => from_session(&found, around),
                (None, Some(id)) => {
                    let message =
                        format!("there is neither a file {name} nor a session whose id begins with `{id}`");
                    Err(CliError::usage(message).hint(HINT))
                }
                (None, None) => {
                    Err(CliError::usage(format!("cannot open {name}: {}", reason(&error))).hint(HINT))
                }
            };
        }
    };
    if opened.metadata()?.is_dir() {
        return Err(CliError::usage(format!("{name} is a directory")).hint(HINT));
    }
    let mut beginning = Vec::new();
    opened.by_ref().take(SQLITE.len() as u64).read_to_end(&mut beginning)?;
    if beginning == SQLITE {
        return from_database(file, session);
    }
    if let Some(id) = session {
        let message = format!("{name} is one session, so there is nothing for `--session {id}` to choose");
        return Err(CliError::usage(message).hint("leave out FILE to take the session with that id"));
    }
    // What was looked at goes before the rest again: the file may be a pipe.
    let size = opened.metadata().ok().filter(std::fs::Metadata::is_file).map(|metadata| metadata.len());
    let progress = Progress::bytes(&format!("reading {name}"), size);
    let whole = io::Cursor::new(beginning).chain(BufReader::with_capacity(1 << 16, opened));
    Ok((name, plimsoll_formats::read(progress.reading(whole))))
}

/// A session of a database: the one that was asked for, or the newest.
fn from_database(file: &Path, session: Option<&str>) -> Result<Named, CliError> {
    let name = format!("`{}`", file.display());
    let _progress = Progress::bytes(&format!("reading {name}"), None);
    let failed = |error: FormatError| CliError::failed(format!("cannot read {name}: {error}"));
    let database = Database::open(file).map_err(failed)?;
    let rows = database.sessions().map_err(failed)?;
    let id = match session {
        Some(id) => Some(sessions::row_with_id(&rows, id)?.unwrap_or_else(|| id.to_owned())),
        None => {
            let own = rows.iter().find(|row| row.parent.is_none());
            own.and_then(|row| row.info.id.clone())
        }
    };
    if let (None, Some(id)) = (session, &id) {
        note(&format!(
            "took the newest of {} in {name}: `{id}`",
            crate::output::counted(rows.len(), "session")
        ));
    }
    let transcript = database.read(id.as_deref());
    Ok((name, transcript))
}

/// A session that was looked up; it is said which.
fn from_session(found: &Found, around: &Surroundings) -> Result<Named, CliError> {
    let name = found.name(around);
    note(&format!("{}: {name}", found.tool.name()));
    if found.row.is_some() {
        let _progress = Progress::bytes(&format!("reading {name}"), None);
        return Ok((name, found.read_row().unwrap_or(Err(FormatError::NeedsPath))));
    }
    let file = File::open(&found.path)
        .map_err(|error| CliError::failed(format!("cannot open {name}: {}", reason(&error))))?;
    let progress =
        Progress::bytes(&format!("reading {name}"), file.metadata().ok().map(|metadata| metadata.len()));
    Ok((name, plimsoll_formats::read(progress.reading(BufReader::with_capacity(1 << 16, file)))))
}

/// Whether this may be the id of a session rather than a path.
fn is_like_id(text: &str) -> bool {
    text.len() >= 4 && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
}

/// Say what was not understood, or refuse it.
fn check(transcript: &Transcript, name: &str, strict: bool) -> Result<(), CliError> {
    let unknown: Vec<String> =
        transcript.skipped.iter().map(|(kind, count)| format!("{count} of `{kind}`")).collect();
    let unknown = unknown.join(", ");
    if strict && !unknown.is_empty() {
        let message = format!("{name} has records of unknown kinds: {unknown}");
        return Err(CliError::failed(message).hint("leave out `--strict` to go on without them"));
    }
    if !unknown.is_empty() {
        let place = transcript
            .broken
            .as_ref()
            .map(|broken| format!(" (line {}: {})", broken.line, problem(&broken.problem)));
        note(&format!(
            "note: {name} has records that were not understood: {unknown}{}",
            place.unwrap_or_default()
        ));
    }
    if transcript.torn {
        note(&format!("note: the last line of {name} is cut off; the session may still be being written"));
    }
    Ok(())
}

/// What is wrong with a line; where in it helps nobody, and its number is known.
fn problem(told: &str) -> &str {
    told.split(" at line 1 column ").next().unwrap_or(told)
}

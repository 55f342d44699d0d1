//! What a command works on: a transcript, wherever it is.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::Path;
use std::sync::Arc;

use plimsoll::log::{Note, Notes};
use plimsoll::{Log, Message};
use plimsoll_formats::opencode_db::Database;
use plimsoll_formats::{Chain, FormatError, Transcript};
use plimsoll_store::Session;

use crate::args::InputArgs;
use crate::config::Config;
use crate::error::{CliError, reason};
use crate::output::{counted, note};
use crate::progress::Progress;
use crate::sessions::{self, Found, Kept, Scope};
use crate::store::{self, Extent, Opened};
use crate::surroundings::Surroundings;

const HINT: &str = "give a transcript, the id of a session (`plimsoll sessions --all` lists them), or `-` for standard input";
/// Every SQLite database begins with this, and Plimsoll's have this at this place.
const SQLITE: &[u8] = b"SQLite format 3\0";
const OURS: &[u8] = b"Plim";
const HEADER: usize = 72;
const BUFFER: usize = 1 << 16;

/// The transcript a command was given.
pub(crate) fn transcript(args: &InputArgs, around: &Surroundings) -> Result<Transcript, CliError> {
    Ok(named(args, around)?.1)
}

/// The same as far as the window is made of it. What a stored session has behind its summary is not read.
pub(crate) fn in_view(args: &InputArgs, around: &Surroundings) -> Result<Transcript, CliError> {
    let input = Input::open(args, around, Scope::All)?;
    let name = input.name.clone();
    let transcript = told(input.read(Extent::InView), &name, args.strict)?;
    tell_if_empty(&name, transcript.messages.len(), &transcript);
    Ok(transcript)
}

/// The same, and where it came from.
pub(crate) fn named(args: &InputArgs, around: &Surroundings) -> Result<(String, Transcript), CliError> {
    of(args, around, Scope::All)
}

/// The same for what is no stored session yet.
pub(crate) fn of_others(args: &InputArgs, around: &Surroundings) -> Result<(String, Transcript), CliError> {
    of(args, around, Scope::Others)
}

fn of(args: &InputArgs, around: &Surroundings, scope: Scope) -> Result<(String, Transcript), CliError> {
    let input = Input::open(args, around, scope)?;
    let name = input.name.clone();
    let transcript = told(input.read(Extent::Whole), &name, args.strict)?;
    tell_if_empty(&name, transcript.messages.len(), &transcript);
    Ok((name, transcript))
}

/// The same, message by message: only what is needed is held at a time. The transcript has everything but them.
pub(crate) fn visit(
    args: &InputArgs,
    around: &Surroundings,
    sink: &mut dyn FnMut(Message),
) -> Result<Transcript, CliError> {
    let input = Input::open(args, around, Scope::All)?;
    let name = input.name.clone();
    let mut messages = 0;
    let mut main = |chain, message| {
        if chain == Chain::Main {
            messages += 1;
            sink(message);
        }
    };
    let transcript = told(input.visit(&mut main), &name, args.strict)?;
    tell_if_empty(&name, messages, &transcript);
    Ok(transcript)
}

/// Say that there is nothing in a session, which is no fault of it.
fn tell_if_empty(name: &str, messages: usize, transcript: &Transcript) {
    if messages == 0 && transcript.side_chains.is_empty() {
        note(&format!("{name} is an empty session"));
    }
}

/// What the window is made of, as a log.
pub(crate) fn log(args: &InputArgs, around: &Surroundings) -> Result<Log, CliError> {
    Ok(Log::from_messages(in_view(args, around)?.messages))
}

/// A transcript that was found and not read yet.
struct Input {
    /// What it is called in messages.
    name: String,
    source: Source,
}

enum Source {
    /// Standard input.
    Stdin,
    /// A file, at its beginning.
    File(File),
    /// Something that can be read once, and what was read of it already.
    Pipe(Vec<u8>, File),
    /// A session of a database: the one with this id, or the newest.
    Row(Database, Option<String>),
    /// A stored session.
    Stored(Arc<Opened>, Box<Session>),
}

impl Input {
    fn open(args: &InputArgs, around: &Surroundings, scope: Scope) -> Result<Input, CliError> {
        match (args.file.as_deref(), args.session.as_deref()) {
            (Some(file), Some(id)) if file == Path::new("-") => {
                let message = format!(
                    "standard input is one session, so there is nothing for `--session {id}` to choose"
                );
                Err(CliError::usage(message).hint("leave out `-` to take the session with that id"))
            }
            (Some(file), None) if file == Path::new("-") => {
                Ok(Input { name: "standard input".to_owned(), source: Source::Stdin })
            }
            (Some(file), session) => Input::file(file, session, args, around, scope),
            (None, Some(id)) => {
                let none =
                    || CliError::usage(format!("no session has an id that begins with `{id}`")).hint(HINT);
                Input::found(&sessions::with_id(id, around, scope)?.ok_or_else(none)?, around)
            }
            (None, None) => Input::found(&sessions::newest(around)?, around),
        }
    }

    fn file(
        path: &Path,
        session: Option<&str>,
        args: &InputArgs,
        around: &Surroundings,
        scope: Scope,
    ) -> Result<Input, CliError> {
        let name = format!("`{}`", path.display());
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) => return Input::by_id(path, &error, around, scope),
        };
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(CliError::usage(format!("{name} is a directory")).hint(HINT));
        }
        let mut beginning = Vec::new();
        file.by_ref().take(HEADER as u64).read_to_end(&mut beginning)?;
        if beginning.starts_with(SQLITE) && beginning.ends_with(OURS) {
            return Input::stored(path, session, args, around);
        }
        if beginning.starts_with(SQLITE) {
            return Input::database(path, session);
        }
        if let Some(id) = session {
            let message =
                format!("{name} is one session, so there is nothing for `--session {id}` to choose");
            return Err(CliError::usage(message).hint("leave out FILE to take the session with that id"));
        }
        if !metadata.is_file() {
            return Ok(Input { name, source: Source::Pipe(beginning, file) });
        }
        file.rewind()?;
        Ok(Input { name, source: Source::File(file) })
    }

    /// What is no file may be the id of a session.
    fn by_id(path: &Path, error: &io::Error, around: &Surroundings, scope: Scope) -> Result<Input, CliError> {
        let name = format!("`{}`", path.display());
        let id = path.to_str().filter(|id| error.kind() == io::ErrorKind::NotFound && is_like_id(id));
        let Some(id) = id else {
            return Err(CliError::usage(format!("cannot open {name}: {}", reason(error))).hint(HINT));
        };
        match sessions::with_id(id, around, scope)? {
            Some(found) => Input::found(&found, around),
            None => {
                let message =
                    format!("there is neither a file {name} nor a session whose id begins with `{id}`");
                Err(CliError::usage(message).hint(HINT))
            }
        }
    }

    /// A session of a database of Plimsoll's: the one that was asked for, or the newest.
    fn stored(
        path: &Path,
        session: Option<&str>,
        args: &InputArgs,
        around: &Surroundings,
    ) -> Result<Input, CliError> {
        let opened = Opened::at(path, &Config::load(&args.policy, around)?)?;
        let name = format!("`{}`", path.display());
        let session = match session {
            Some(id) => opened.session(id, around)?,
            None => {
                let all = opened.sessions()?;
                let count = counted(all.len(), "session");
                let newest = all.into_iter().find(|session| session.parent.is_none());
                let none = || CliError::failed(format!("{name} has no session"));
                let newest = newest.ok_or_else(none)?;
                note(&format!("took the newest of {count} in {name}: `{}`", newest.id));
                newest
            }
        };
        Ok(Input { name, source: Source::Stored(Arc::new(opened), Box::new(session)) })
    }

    /// A session of OpenCode's database: the one that was asked for, or the newest.
    fn database(path: &Path, session: Option<&str>) -> Result<Input, CliError> {
        let name = format!("`{}`", path.display());
        let failed = |error: FormatError| CliError::failed(format!("cannot read {name}: {error}"));
        let database = Database::open(path).map_err(failed)?;
        let rows = database.sessions().map_err(failed)?;
        let id = match session {
            // Where no row has it, the database says which there are.
            Some(id) => Some(sessions::row_with_id(&rows, id)?.unwrap_or_else(|| id.to_owned())),
            None => rows.iter().find(|row| row.parent.is_none()).and_then(|row| row.info.id.clone()),
        };
        if let (None, Some(id)) = (session, &id) {
            note(&format!("took the newest of {} in {name}: `{id}`", counted(rows.len(), "session")));
        }
        Ok(Input { name, source: Source::Row(database, id) })
    }

    /// A session that was looked up; it is said which.
    fn found(found: &Found, around: &Surroundings) -> Result<Input, CliError> {
        let name = found.name(around);
        note(&format!("{}: {name}", found.tool.name()));
        let source = match &found.kept {
            Kept::Stored(opened, session) => Source::Stored(Arc::clone(opened), session.clone()),
            Kept::Row(_) => {
                let database = Database::open(&found.path);
                let database =
                    database.map_err(|error| CliError::failed(format!("cannot read {name}: {error}")))?;
                Source::Row(database, Some(found.id.clone()))
            }
            Kept::File => {
                let file = File::open(&found.path);
                let cannot = |error| CliError::failed(format!("cannot open {name}: {}", reason(&error)));
                Source::File(file.map_err(cannot)?)
            }
        };
        Ok(Input { name, source })
    }

    fn progress(&self) -> Progress {
        let all = match &self.source {
            Source::File(file) => file.metadata().ok().map(|metadata| metadata.len()),
            _ => None,
        };
        Progress::bytes(&format!("reading {}", self.name), all)
    }

    fn read(self, extent: Extent) -> Result<Transcript, String> {
        let progress = self.progress();
        let read = match self.source {
            Source::Stored(opened, session) => {
                return opened.transcript(&session, extent).map_err(|error| error.to_string());
            }
            Source::Stdin => plimsoll_formats::read(progress.reading(io::stdin().lock())),
            Source::File(file) => {
                plimsoll_formats::read(progress.reading(BufReader::with_capacity(BUFFER, file)))
            }
            Source::Pipe(beginning, rest) => {
                let whole = io::Cursor::new(beginning).chain(BufReader::with_capacity(BUFFER, rest));
                plimsoll_formats::read(progress.reading(whole))
            }
            Source::Row(database, id) => database.read(id.as_deref()),
        };
        read.map_err(|error| error.to_string())
    }

    fn visit(self, sink: &mut dyn FnMut(Chain, Message)) -> Result<Transcript, String> {
        let progress = self.progress();
        let visited = match self.source {
            Source::Stored(opened, session) => {
                let each = opened.each(&session.id, &mut |message| sink(Chain::Main, message));
                return each.map(|()| store::about(&session)).map_err(|error| error.to_string());
            }
            Source::File(file) => {
                plimsoll_formats::visit(progress.reading(BufReader::with_capacity(BUFFER, file)), sink)
            }
            Source::Row(database, id) => database.visit(id.as_deref(), sink),
            // What can be read only once goes to a file without a name first.
            Source::Stdin => {
                plimsoll_formats::visit(spooled(&mut progress.reading(io::stdin().lock()))?, sink)
            }
            Source::Pipe(beginning, rest) => {
                let mut whole = io::Cursor::new(beginning).chain(BufReader::with_capacity(BUFFER, rest));
                plimsoll_formats::visit(spooled(&mut progress.reading(&mut whole))?, sink)
            }
        };
        visited.map_err(|error| error.to_string())
    }
}

/// All that a reader has, in a file that goes when it is closed.
fn spooled(reader: &mut dyn Read) -> Result<BufReader<File>, String> {
    let mut spool = || -> io::Result<BufReader<File>> {
        let mut file = tempfile::tempfile()?;
        io::copy(reader, &mut file)?;
        file.rewind()?;
        Ok(BufReader::with_capacity(BUFFER, file))
    };
    spool().map_err(|error| error.to_string())
}

/// Whether this may be the id of a session rather than a path.
fn is_like_id(text: &str) -> bool {
    text.len() >= 4 && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
}

/// Say what was not understood, or refuse it.
fn told(read: Result<Transcript, String>, name: &str, strict: bool) -> Result<Transcript, CliError> {
    let transcript = read.map_err(|error| CliError::failed(format!("cannot read {name}: {error}")))?;
    let unknown: Vec<String> =
        transcript.skipped.iter().map(|(kind, count)| format!("{count} of `{kind}`")).collect();
    let unknown = unknown.join(", ");
    let mut all = transcript.notes.clone();
    transcript.side_chains.iter().for_each(|chain| all.append(&chain.notes));
    let (wrong, notes) = (wrong_values(&all), all.first());
    if strict && !unknown.is_empty() {
        let message = format!("{name} has records of unknown kinds: {unknown}");
        return Err(CliError::failed(message).hint("leave out `--strict` to go on without them"));
    }
    if let (true, Some(Note { at, problem, .. })) = (strict, notes.first()) {
        let message = format!("{name} has {wrong}, the first at {at}: {problem}");
        return Err(CliError::failed(message).hint("leave out `--strict` to go on with them noted"));
    }
    if !unknown.is_empty() {
        let broken = transcript.broken.as_ref();
        let place = broken.map(|broken| format!(" (line {}: {})", broken.line, problem(&broken.problem)));
        let place = place.unwrap_or_default();
        note(&format!("note: {name} has records that were not understood: {unknown}{place}"));
    }
    if !notes.is_empty() {
        const SHOWN: usize = 5;
        note(&format!("note: {name} has {wrong}:"));
        notes.iter().take(SHOWN).for_each(|each| note(&format!("  {each}")));
        let more = all.count().saturating_sub(SHOWN as u64);
        if more > 0 {
            note(&format!("  and {more} more; `plimsoll inspect --json` lists them"));
        }
    }
    if transcript.torn {
        note(&format!("note: the last line of {name} is cut off; the session may still be being written"));
    }
    Ok(transcript)
}

/// How many values are not what they should be.
fn wrong_values(notes: &Notes) -> String {
    match notes.count() {
        1 => "1 value that is not what should be there".to_owned(),
        count => format!("{count} values that are not what should be there"),
    }
}

/// What is wrong with a line; where in it helps nobody, and its number is known.
fn problem(told: &str) -> &str {
    told.split(" at line 1 column ").next().unwrap_or(told)
}

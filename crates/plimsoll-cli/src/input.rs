//! What a command works on: a transcript, wherever it is.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plimsoll::log::{Note, Notes};
use plimsoll::{Limits, Log, Message, SessionId};
use plimsoll_formats::database::Database;
use plimsoll_formats::{Chain, FormatError, Transcript};
use plimsoll_import::{
    Drift, Extent, FileKind, Found, ImportError, Kept, KeptCounts, OnRead, Scope, Source, Survey, row_with_id,
};
use plimsoll_store::Session;

use crate::args::InputArgs;
use crate::config::Config;
use crate::error::{CliError, reason};
use crate::output::{counted, note};
use crate::progress::Progress;
use crate::recorded::{RecordedFigures, SessionWindow};
use crate::sessions::{self, Located};
use crate::store::Opened;
use crate::surroundings::Surroundings;

const HINT: &str = "give a transcript, the id of a session (`plimsoll sessions --all` lists them), or `-` for standard input";
/// So many of a list are named in a note.
const SHOWN: usize = 5;

/// The transcript a command was given.
pub(crate) fn transcript(args: &InputArgs, around: &Surroundings) -> Result<Transcript, CliError> {
    Ok(named(args, around)?.1)
}

/// The same as far as the window is made of it. What a stored session has behind its summary is not read.
pub(crate) fn in_view(args: &InputArgs, around: &Surroundings) -> Result<Transcript, CliError> {
    let input = Input::open(args, around, Scope::All)?;
    let name = input.name.clone();
    let transcript = checked(input.read(Extent::InView), &name, args.strict)?;
    tell_if_empty(&name, transcript.messages.len(), &transcript);
    Ok(transcript)
}

/// The same, and where it came from.
pub(crate) fn named(args: &InputArgs, around: &Surroundings) -> Result<(String, Transcript), CliError> {
    let input = Input::open(args, around, Scope::All)?;
    let name = input.name.clone();
    let transcript = checked(input.read(Extent::Whole), &name, args.strict)?;
    tell_if_empty(&name, transcript.messages.len(), &transcript);
    Ok((name, transcript))
}

/// The transcript for a command that counts it. Of a stored session the counts are stored when they are dropped.
pub(crate) fn with_counts(
    args: &InputArgs,
    around: &Surroundings,
) -> Result<(Transcript, Option<KeptCounts>), CliError> {
    let input = Input::open(args, around, Scope::All)?;
    let name = input.name.clone();
    let stored = match &input.origin {
        Origin::Stored(opened, session) => Some((Arc::clone(&opened.archive), session.id.clone())),
        Origin::Source(_) => None,
    };
    let transcript = checked(input.read(Extent::Whole), &name, args.strict)?;
    tell_if_empty(&name, transcript.messages.len(), &transcript);
    let counts = stored.map(|(archive, id)| KeptCounts::new(&archive, &id, &transcript.messages));
    Ok((transcript, counts))
}

/// The transcript for an export, and the id of the session if it is a stored one. That is held against its checksums.
pub(crate) fn with_stored_id(
    args: &InputArgs,
    around: &Surroundings,
) -> Result<(Option<SessionId>, Transcript), CliError> {
    let input = Input::open(args, around, Scope::All)?;
    let name = input.name.clone();
    let id = match &input.origin {
        Origin::Stored(opened, session) => {
            opened.require_sound(&session.id)?;
            Some(session.id.clone())
        }
        Origin::Source(_) => None,
    };
    let transcript = checked(input.read(Extent::Whole), &name, args.strict)?;
    tell_if_empty(&name, transcript.messages.len(), &transcript);
    Ok((id, transcript))
}

/// Whatever was asked for, not read yet.
pub(crate) fn any(args: &InputArgs, around: &Surroundings) -> Result<Input, CliError> {
    Input::open(args, around, Scope::All)
}

/// What is no stored session yet.
pub(crate) fn of_others(args: &InputArgs, around: &Surroundings) -> Result<Input, CliError> {
    Input::open(args, around, Scope::Others)
}

/// The same, message by message: only what is needed is held at a time. The transcript has everything but them.
pub(crate) fn visit(
    args: &InputArgs,
    around: &Surroundings,
    sink: &mut dyn FnMut(Message),
) -> Result<Transcript, CliError> {
    Input::open(args, around, Scope::All)?.visit_main(args.strict, sink)
}

/// Say that there is nothing in a session, which is no fault of it.
fn tell_if_empty(name: &str, messages: usize, transcript: &Transcript) {
    if messages == 0 && transcript.side_chains.is_empty() {
        note(&format!("{name} is an empty session"));
    }
}

/// All of a session.
pub(crate) struct Whole {
    pub(crate) log: Log,
    /// The limits of its window.
    pub(crate) limits: Limits,
    /// The directory its agent worked in.
    pub(crate) directory: Option<String>,
    /// Counts of a stored session, to be dropped when everything is counted.
    pub(crate) counts: Option<KeptCounts>,
}

/// All of a session as a log, and the limits of its window. Both depend on recorded usage, and the only usage there is may
/// precede a summary.
pub(crate) fn whole_log(args: &InputArgs, config: &Config, around: &Surroundings) -> Result<Whole, CliError> {
    let (transcript, counts) = with_counts(args, around)?;
    let figures = RecordedFigures::of(&transcript.recorded);
    let window = SessionWindow::of(&transcript, &figures, config, args.policy.context);
    let directory = transcript.info.directory;
    Ok(Whole { log: Log::from_messages(transcript.messages), limits: window.limits, directory, counts })
}

/// A transcript that was found and not read yet.
pub(crate) struct Input {
    /// What it is called in messages.
    pub(crate) name: String,
    /// The file, where it is one that was named.
    pub(crate) path: Option<PathBuf>,
    /// The file or the database it is kept in; none for what can be read only once.
    pub(crate) place: Option<PathBuf>,
    origin: Origin,
}

enum Origin {
    /// What other tools wrote.
    Source(Source<'static>),
    /// A stored session.
    Stored(Arc<Opened>, Box<Session>),
}

impl Input {
    fn open(args: &InputArgs, around: &Surroundings, scope: Scope) -> Result<Input, CliError> {
        match (args.file.as_deref(), args.session.as_deref()) {
            (Some(file), session) if file == Path::new("-") => Ok(Input::standard(session)),
            (Some(file), session) => Input::file(file, session, args, around, scope),
            (None, Some(id)) => {
                let none = || sessions::none_with(id).hint(HINT);
                Input::found(sessions::with_id(id, around, scope)?.ok_or_else(none)?, around)
            }
            (None, None) if is_redirected_file() => Ok(Input::standard(None)),
            (None, None) => {
                if has_piped_text() {
                    note("note: standard input is a pipe, and is read only where FILE is `-`");
                }
                Input::found(sessions::newest(around)?, around)
            }
        }
    }

    /// Standard input, or one session of it.
    fn standard(session: Option<&str>) -> Input {
        Input::of("standard input".to_owned(), picked(Source::Stream(Box::new(io::stdin())), session))
    }

    fn of(name: String, source: Source<'static>) -> Input {
        Input { name, path: None, place: None, origin: Origin::Source(source) }
    }

    fn file(
        path: &Path,
        session: Option<&str>,
        args: &InputArgs,
        around: &Surroundings,
        scope: Scope,
    ) -> Result<Input, CliError> {
        let name = format!("`{}`", path.display());
        let opened = match plimsoll_import::open(path) {
            Ok(opened) => opened,
            Err(error) => return Input::by_id(path, &error, around, scope),
        };
        match (opened, session) {
            (FileKind::Directory, _) => Err(CliError::usage(format!("{name} is a directory")).hint(HINT)),
            (FileKind::Store, session) => Input::stored(path, session, args, around),
            (FileKind::Database, session) => {
                Ok(Input { place: Some(path.to_owned()), ..Input::database(path, session)? })
            }
            (FileKind::Transcript(source), session) => {
                let path = matches!(source, Source::File(_)).then(|| path.to_owned());
                Ok(Input { place: path.clone(), path, ..Input::of(name, picked(source, session)) })
            }
        }
    }

    /// What is no file may be the id of a session.
    fn by_id(path: &Path, error: &io::Error, around: &Surroundings, scope: Scope) -> Result<Input, CliError> {
        let name = format!("`{}`", path.display());
        let id = path.to_str().filter(|id| error.kind() == io::ErrorKind::NotFound && is_like_id(id));
        let Some(id) = id else {
            return Err(CliError::usage(format!("cannot open {name}: {}", reason(error))).hint(HINT));
        };
        match sessions::with_id(id, around, scope)? {
            Some(located) => Input::found(located, around),
            None => {
                let session = sessions::described(id, scope);
                Err(CliError::usage(format!("there is neither a file {name} nor a {session}")).hint(HINT))
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
        let place = Some(path.to_owned());
        Ok(Input { name, path: None, place, origin: Origin::Stored(Arc::new(opened), Box::new(session)) })
    }

    /// A session of a tool's database: the one that was asked for, or the newest.
    fn database(path: &Path, session: Option<&str>) -> Result<Input, CliError> {
        let name = format!("`{}`", path.display());
        let failed = |error: FormatError| CliError::failed(format!("cannot read {name}: {error}"));
        let database = Database::open(path).map_err(failed)?;
        let rows = database.sessions().map_err(failed)?;
        let id = match session {
            // Where no row has it, the database says which there are.
            Some(id) => Some(row_with_id(&rows, id)?.unwrap_or_else(|| id.to_owned())),
            None => rows.iter().find(|row| !row.is_sub_agent).and_then(|row| row.info.id.clone()),
        };
        if let (None, Some(id)) = (session, &id) {
            note(&format!("took the newest of {} in {name}: `{id}`", counted(rows.len(), "session")));
        }
        Ok(Input::of(name, Source::Row(database, id)))
    }

    /// A session that was looked up; it is said which.
    fn found(located: Located, around: &Surroundings) -> Result<Input, CliError> {
        let Located { found, opened, source } = located;
        let name = sessions::name(&found, around);
        note(&format!("{}: {name}", found.tool.name()));
        if let (Some(opened), Kept::Stored(session)) = (opened, &found.kept) {
            if let Some(source) = source {
                tell_if_stale(&source, &opened, &session.id);
            }
            let place = Some(opened.path.clone());
            return Ok(Input { name, path: None, place, origin: Origin::Stored(opened, session.clone()) });
        }
        let source = Source::of(&found, None).map_err(|error| match error {
            ImportError::Io(error) => CliError::failed(format!("cannot open {name}: {}", reason(&error))),
            error => CliError::failed(format!("cannot read {name}: {error}")),
        })?;
        let path = matches!(source, Source::File(_)).then(|| found.path.clone());
        Ok(Input { path, place: Some(found.path.clone()), ..Input::of(name, source) })
    }

    fn read(self, extent: Extent) -> Result<Transcript, ImportError> {
        let Input { name, origin, .. } = self;
        match origin {
            Origin::Stored(opened, session) => {
                Source::Stored(opened.archive.store(), session).read(extent, &|_| {})
            }
            Origin::Source(source) => {
                let progress = Progress::bytes(&format!("reading {name}"), source.size());
                source.read(extent, &|at| progress.at(at))
            }
        }
    }

    fn visit(self, sink: &mut dyn FnMut(Chain, Message)) -> Result<Transcript, ImportError> {
        let Input { name, mut origin, .. } = self;
        let mut source = origin.source();
        let progress = Progress::bytes(&format!("reading {name}"), source.size());
        source.visit(&|at| progress.at(at), sink)
    }

    /// The session message by message, without its sub-agents. The transcript has everything but the messages.
    pub(crate) fn visit_main(
        self,
        strict: bool,
        sink: &mut dyn FnMut(Message),
    ) -> Result<Transcript, CliError> {
        let name = self.name.clone();
        let mut messages = 0;
        let mut main = |chain, message| {
            if chain == Chain::Main {
                messages += 1;
                sink(message);
            }
        };
        let transcript = checked(self.visit(&mut main), &name, strict)?;
        tell_if_empty(&name, messages, &transcript);
        Ok(transcript)
    }

    /// Have it surveyed and then used, both with a sign of life.
    pub(crate) fn import<T>(
        mut self,
        strict: bool,
        store: impl FnOnce(&Survey, &mut Source<'_>, &str, OnRead<'_>) -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        let mut source = self.origin.source();
        let survey = {
            let progress = Progress::bytes(&format!("reading {}", self.name), source.size());
            Survey::of(&mut source, &|at| progress.at(at))
        };
        let survey = survey.map_err(|error| unreadable(&error, &self.name))?;
        check(&survey.transcript, &self.name, strict)?;
        tell_if_empty(&self.name, survey.messages(), &survey.transcript);
        let progress = Progress::bytes(&format!("storing {}", self.name), source.size());
        store(&survey, &mut source, &self.name, &|at| progress.at(at))
    }
}

impl Origin {
    fn source(&mut self) -> Source<'_> {
        match self {
            Origin::Stored(opened, session) => Source::Stored(opened.archive.store(), session.clone()),
            // It is used once.
            Origin::Source(source) => std::mem::replace(source, Source::Stream(Box::new(io::empty()))),
        }
    }
}

/// Says that the tool's own session has more than the copy that is stored, and how to bring the copy up to date. That it
/// cannot be read is not a reason to fail: the copy can.
fn tell_if_stale(source: &Found, opened: &Opened, session: &SessionId) {
    let drift = Progress::during("comparing with its source", || {
        let mut read = Source::of(source, None).ok()?;
        let survey = Survey::of(&mut read, &|_| {}).ok()?;
        survey.drift_from(opened.archive.store(), session).ok()?
    });
    let (tool, named) = (source.tool.name(), format!("{}:{}", source.tool.key(), source.id));
    let newer = match drift {
        None => return,
        Some(Drift::Longer { messages: 0 }) => {
            format!("the last message of {tool}'s session is longer than in this stored copy")
        }
        Some(Drift::Longer { messages }) => {
            format!("the session of {tool} has {} more than this stored copy", counted(messages, "message"))
        }
        Some(Drift::Diverged) => format!("the session of {tool} is no longer what this copy was stored from"),
    };
    note(&format!(
        "note: {newer}; `plimsoll sessions import {named}` updates it, `{named}` names the original"
    ));
}

/// A source, or one session of it where one is asked for.
fn picked<'s>(source: Source<'s>, session: Option<&str>) -> Source<'s> {
    match session {
        Some(id) => Source::Session(Box::new(source), id.to_owned()),
        None => source,
    }
}

/// Whether standard input comes from a file, as with `plimsoll inspect < FILE`. A pipe is not taken unless `-` says so:
/// a command started by another program may be given one that nothing is ever written to.
fn is_redirected_file() -> bool {
    #[cfg(unix)]
    let input = std::os::fd::AsFd::as_fd(&io::stdin()).try_clone_to_owned();
    #[cfg(windows)]
    let input = std::os::windows::io::AsHandle::as_handle(&io::stdin()).try_clone_to_owned();
    let Ok(mut input) = input.map(std::fs::File::from) else { return false };
    let Ok(metadata) = input.metadata() else { return false };
    // One that was read to its end by another command before has nothing for this one. One that was empty from the
    // beginning was meant: a session of the directory in its place would be told as what it is not.
    let has_more = |at: u64| metadata.len() == 0 || at < metadata.len();
    metadata.is_file() && io::Seek::stream_position(&mut input).is_ok_and(has_more)
}

/// Whether something waits in a pipe to be read: most likely a session that was meant to be.
fn has_piped_text() -> bool {
    #[cfg(unix)]
    {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let stdin = io::stdin();
        let is_pipe = rustix::fs::fstat(&stdin)
            .is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_fifo());
        let mut ready = [PollFd::new(&stdin, PollFlags::IN)];
        let has_text = |ready: &[PollFd<'_>]| ready.iter().any(|one| one.revents().contains(PollFlags::IN));
        is_pipe && poll(&mut ready, Some(&Timespec::default())).is_ok() && has_text(&ready)
    }
    #[cfg(not(unix))]
    false
}

fn unreadable(error: &ImportError, name: &str) -> CliError {
    let told = format!("cannot read {name}: {error}");
    match error {
        ImportError::Format(FormatError::NoSession { .. }) => CliError::usage(told),
        _ => CliError::failed(told),
    }
}

/// Whether this may be the id of a session rather than a path.
fn is_like_id(text: &str) -> bool {
    let (_, id) = Scope::All.narrow(text);
    !id.is_empty() && id.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
}

/// Say what was not understood, or refuse it.
fn checked(read: Result<Transcript, ImportError>, name: &str, strict: bool) -> Result<Transcript, CliError> {
    let transcript = read.map_err(|error| unreadable(&error, name))?;
    check(&transcript, name, strict)?;
    Ok(transcript)
}

fn check(transcript: &Transcript, name: &str, strict: bool) -> Result<(), CliError> {
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
        note(&format!("note: {name} has {wrong}:"));
        notes.iter().take(SHOWN).for_each(|each| note(&format!("  {each}")));
        let more = all.count().saturating_sub(SHOWN as u64);
        if more > 0 {
            note(&format!("  and {more} more; `plimsoll inspect --json` lists them"));
        }
    }
    if !transcript.other_sessions.is_empty() {
        let all = counted(transcript.other_sessions.len() + 1, "session");
        let own = transcript.info.id.as_deref().unwrap_or("without an id");
        let ids: Vec<&str> = transcript.other_sessions.iter().filter_map(|info| info.id.as_deref()).collect();
        let more = match ids.len().saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        note(&format!(
            "note: {name} holds {all}; this is `{own}`, without {}{more} (`--session` picks another)",
            ids[..ids.len().min(SHOWN)].join(", ")
        ));
    }
    if transcript.torn {
        note(&format!("note: the last line of {name} is cut off; the session may still be being written"));
    }
    Ok(())
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

//! Finding and reading transcripts: files, streams, databases and stored sessions.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plimsoll::{Limits, Log, Message, SessionId};
use plimsoll_config::Flags;
use plimsoll_formats::database::Database;
use plimsoll_formats::{Chain, FormatError, Transcript};
use plimsoll_import::{
    Drift, Extent, FileKind, Found, ImportError, KeptCounts, OnRead, Scope, SessionStorage, Source, Survey,
    row_with_id,
};
use plimsoll_store::Session;

use crate::config::HostConfig;
use crate::error::{HostError, reason};
use crate::host::Host;
use crate::lookup::{Located, described, none_with};
use crate::recorded::{RecordedFigures, SessionWindow};
use crate::report::Work;
use crate::soundness::{check, report_if_empty};
use crate::store::OpenStore;
use crate::words::counted;

const HINT: &str =
    "pass a transcript, a session id (see `plimsoll sessions --all`), or `-` for standard input";

/// A transcript to read.
pub struct InputSpec {
    /// Location.
    pub source: InputSource,
    /// Whether unknown record types and invalid values are errors instead of notices.
    pub strict: bool,
    /// Settings from the command line, which also apply when a Plimsoll database is opened.
    pub flags: Flags,
}

/// Location of a transcript.
#[non_exhaustive]
pub enum InputSource {
    /// A stream, which can be read only once, and the id of a session in it.
    Stream(Box<dyn Read + Send>, Option<String>),
    /// A file and the id of a session in it. If the file does not exist, its name may be the id of a session.
    File(PathBuf, Option<String>),
    /// The session with this id or prefix.
    Session(String),
    /// The newest session of the current directory.
    Newest,
}

/// A transcript that was found but not read yet.
pub struct Input {
    /// Name in messages.
    pub name: String,
    /// The file, if the user named one.
    pub path: Option<PathBuf>,
    /// The file or database that contains it; `None` for a stream.
    pub place: Option<PathBuf>,
    strict: bool,
    origin: Origin,
    host: Host,
}

enum Origin {
    /// A transcript of another tool.
    Source(Source<'static>),
    /// A stored session.
    Stored(Arc<OpenStore>, Box<Session>),
}

/// A whole session.
#[non_exhaustive]
pub struct WholeSession {
    /// The messages.
    pub log: Log,
    /// The limits of its window.
    pub limits: Limits,
    /// The directory its agent worked in.
    pub directory: Option<String>,
    /// Token counts of a stored session. Dropping them stores them.
    _counts: Option<KeptCounts>,
}

impl Host {
    /// Finds a transcript among the sessions of a scope, and reports which one was chosen.
    pub fn input(&self, spec: InputSpec, scope: Scope) -> Result<Input, HostError> {
        let InputSpec { source, strict, flags } = spec;
        let found = match source {
            InputSource::Stream(stream, session) => {
                let name = "standard input".to_owned();
                self.input_of(name, picked(Source::Stream(stream), session.as_deref()))
            }
            InputSource::File(file, session) => self.input_file(&file, session.as_deref(), &flags, scope)?,
            InputSource::Session(id) => {
                let located = self.session_with_id(&id, scope)?;
                self.input_found(located.ok_or_else(|| none_with(&id).hint(HINT))?)?
            }
            InputSource::Newest => self.input_found(self.newest_session()?)?,
        };
        Ok(Input { strict, ..found })
    }

    /// Reads a whole transcript.
    pub fn transcript(&self, spec: InputSpec) -> Result<Transcript, HostError> {
        self.input(spec, Scope::All)?.read(Extent::Whole)
    }

    /// Reads a whole session, and finds the limits of its window. Messages outside the window are read too, because the only
    /// recorded usage may precede a summary.
    pub fn whole_session(&self, spec: InputSpec, config: &HostConfig) -> Result<WholeSession, HostError> {
        let asked = spec.flags.context;
        let (transcript, _counts) = self.input(spec, Scope::All)?.read_counted()?;
        let figures = RecordedFigures::of(&transcript.recorded);
        let limits = SessionWindow::of(&transcript, &figures, config, asked).limits;
        let directory = transcript.info.directory;
        Ok(WholeSession { log: Log::from_messages(transcript.messages), limits, directory, _counts })
    }

    fn input_of(&self, name: String, source: Source<'static>) -> Input {
        let (origin, host) = (Origin::Source(source), self.clone());
        Input { name, path: None, place: None, strict: false, origin, host }
    }

    fn input_file(
        &self,
        path: &Path,
        session: Option<&str>,
        flags: &Flags,
        scope: Scope,
    ) -> Result<Input, HostError> {
        let name = format!("`{}`", path.display());
        let opened = match plimsoll_import::open(path) {
            Ok(opened) => opened,
            Err(error) => return self.input_by_id(path, error, scope),
        };
        match opened {
            FileKind::Directory => Err(HostError::usage(format!("{name} is a directory")).hint(HINT)),
            FileKind::Store => self.input_stored(path, session, flags),
            FileKind::Database => {
                Ok(Input { place: Some(path.to_owned()), ..self.input_database(path, session)? })
            }
            FileKind::Transcript(source) => {
                let path = matches!(source, Source::File(_)).then(|| path.to_owned());
                Ok(Input { place: path.clone(), path, ..self.input_of(name, picked(source, session)) })
            }
        }
    }

    /// A path that does not exist may be the id of a session.
    fn input_by_id(&self, path: &Path, error: io::Error, scope: Scope) -> Result<Input, HostError> {
        let name = format!("`{}`", path.display());
        let id = path.to_str().filter(|id| error.kind() == io::ErrorKind::NotFound && is_like_id(id));
        let Some(id) = id else {
            let message = format!("cannot open {name}: {}", reason(&error));
            return Err(HostError::usage(message).hint(HINT).caused_by(error));
        };
        match self.session_with_id(id, scope)? {
            Some(located) => self.input_found(located),
            None => {
                let session = described(id, scope);
                Err(HostError::usage(format!("no file {name} and no {session}")).hint(HINT))
            }
        }
    }

    /// Finds a session of a Plimsoll database: the named one, or the newest.
    fn input_stored(&self, path: &Path, session: Option<&str>, flags: &Flags) -> Result<Input, HostError> {
        let opened = self.open_at(path, &self.config(flags)?)?;
        let name = format!("`{}`", path.display());
        let session = match session {
            Some(id) => opened.session(id, self)?,
            None => {
                let all = opened.sessions()?;
                let count = counted(all.len(), "session");
                let newest = all.into_iter().find(|session| session.parent.is_none());
                let newest = newest.ok_or_else(|| HostError::failed(format!("{name} has no session")))?;
                self.info(format!("using the newest of {count} in {name}: `{}`", newest.id));
                newest
            }
        };
        Ok(self.input_in(name, path.to_owned(), Arc::new(opened), session))
    }

    fn input_in(&self, name: String, place: PathBuf, opened: Arc<OpenStore>, session: Session) -> Input {
        let (origin, host) = (Origin::Stored(opened, Box::new(session)), self.clone());
        Input { name, path: None, place: Some(place), strict: false, origin, host }
    }

    /// Finds a session of a tool's database: the named one, or the newest.
    fn input_database(&self, path: &Path, session: Option<&str>) -> Result<Input, HostError> {
        let name = format!("`{}`", path.display());
        let failed =
            |error: FormatError| HostError::failed(format!("cannot read {name}: {error}")).caused_by(error);
        let database = Database::open(path).map_err(failed)?;
        let rows = database.sessions().map_err(failed)?;
        let id = match session {
            // If no row has it, reading the database reports which sessions exist.
            Some(id) => Some(row_with_id(&rows, id)?.unwrap_or_else(|| id.to_owned())),
            None => rows.iter().find(|row| !row.is_sub_agent).and_then(|row| row.info.id.clone()),
        };
        if let (None, Some(id)) = (session, &id) {
            self.info(format!("using the newest of {} in {name}: `{id}`", counted(rows.len(), "session")));
        }
        Ok(self.input_of(name, Source::Row(database, id)))
    }

    /// Converts a session that was looked up, and reports which it is.
    fn input_found(&self, located: Located) -> Result<Input, HostError> {
        let Located { found, opened, source } = located;
        let name = self.session_name(&found);
        self.info(format!("{}: {name}", found.tool.name()));
        if let (Some(opened), SessionStorage::Stored(session)) = (opened, &found.kept) {
            if let Some(source) = source {
                self.report_if_stale(&source, &opened, &session.id);
            }
            let place = opened.path.clone();
            return Ok(self.input_in(name, place, opened, Session::clone(session)));
        }
        let source = Source::of(&found, None).map_err(|error| match error {
            ImportError::Io(error) => {
                HostError::failed(format!("cannot open {name}: {}", reason(&error))).caused_by(error)
            }
            error => HostError::failed(format!("cannot read {name}: {error}")).caused_by(error),
        })?;
        let path = matches!(source, Source::File(_)).then(|| found.path.clone());
        Ok(Input { path, place: Some(found.path.clone()), ..self.input_of(name, source) })
    }

    /// Reports if the tool's own session has more than the stored copy, and how to update the copy. If the source cannot be
    /// read, the copy is used without a notice.
    fn report_if_stale(&self, source: &Found, opened: &OpenStore, session: &SessionId) {
        let drift = self.during("comparing with its source", || {
            let mut read = Source::of(source, None).ok()?;
            let survey = Survey::of(&mut read, &|_| {}).ok()?;
            survey.drift_from(opened.archive.store(), session).ok()?
        });
        let (tool, named) = (source.tool.name(), format!("{}:{}", source.tool.key(), source.id));
        let newer = match drift {
            None => return,
            Some(Drift::Longer { messages: 0 }) => {
                format!("the last message of {tool}'s session is longer than in the stored copy")
            }
            Some(Drift::Longer { messages }) => {
                format!(
                    "the session of {tool} has {} more than the stored copy",
                    counted(messages, "message")
                )
            }
            Some(Drift::Diverged) => {
                format!("the session of {tool} has diverged from the stored copy")
            }
        };
        self.note(format!(
            "{newer}; update it with `plimsoll sessions import {named}`, or read the original as `{named}`"
        ));
    }
}

impl Input {
    /// Returns the stored session, if it is one.
    pub fn stored(&self) -> Option<(&OpenStore, &Session)> {
        match &self.origin {
            Origin::Stored(opened, session) => Some((opened, session)),
            Origin::Source(_) => None,
        }
    }

    /// Reads the transcript. Only stored sessions support `InView`; others are read completely.
    pub fn read(self, extent: Extent) -> Result<Transcript, HostError> {
        let Input { name, origin, host, strict, .. } = self;
        let read = match origin {
            Origin::Stored(opened, session) => {
                Source::Stored(opened.archive.store(), session).read(extent, &|_| {})
            }
            Origin::Source(source) => {
                let progress = host.progress(&format!("reading {name}"), Work::Bytes(source.size()));
                source.read(extent, &|at| progress.at(at))
            }
        };
        let transcript = read.map_err(|error| unreadable(error, &name))?;
        check(&transcript, &name, strict, &host)?;
        report_if_empty(&name, transcript.messages.len(), &transcript, &host);
        Ok(transcript)
    }

    /// Reads the whole transcript for counting. Dropping the counts of a stored session stores them.
    pub fn read_counted(self) -> Result<(Transcript, Option<KeptCounts>), HostError> {
        let stored = self.stored().map(|(opened, session)| (Arc::clone(&opened.archive), session.id.clone()));
        let transcript = self.read(Extent::Whole)?;
        let counts = stored.map(|(archive, id)| KeptCounts::new(&archive, &id, &transcript.messages));
        Ok((transcript, counts))
    }

    /// Reads it for an export. For a stored session, verifies its checksums and returns its id.
    pub fn read_sound(self) -> Result<(Option<SessionId>, Transcript), HostError> {
        let stored = self.stored().map(|(opened, session)| {
            opened.require_sound(&session.id)?;
            Ok::<_, HostError>(session.id.clone())
        });
        Ok((stored.transpose()?, self.read(Extent::Whole)?))
    }

    /// Reads it message by message, without its sub-agents. The returned transcript has no messages.
    pub fn visit(self, sink: &mut dyn FnMut(Message)) -> Result<Transcript, HostError> {
        let Input { name, mut origin, host, strict, .. } = self;
        let mut messages = 0;
        let mut main = |chain, message| {
            if chain == Chain::Main {
                messages += 1;
                sink(message);
            }
        };
        let mut source = origin.source();
        let progress = host.progress(&format!("reading {name}"), Work::Bytes(source.size()));
        let read = source.visit(&|at| progress.at(at), &mut main);
        drop(progress);
        let transcript = read.map_err(|error| unreadable(error, &name))?;
        check(&transcript, &name, strict, &host)?;
        report_if_empty(&name, messages, &transcript, &host);
        Ok(transcript)
    }

    /// Surveys it and passes it to `store`, both with progress.
    pub(crate) fn import<T>(
        mut self,
        store: impl FnOnce(&Survey, &mut Source<'_>, &str, OnRead<'_>) -> Result<T, HostError>,
    ) -> Result<T, HostError> {
        let mut source = self.origin.source();
        let survey = {
            let progress = self.host.progress(&format!("reading {}", self.name), Work::Bytes(source.size()));
            Survey::of(&mut source, &|at| progress.at(at))
        };
        let survey = survey.map_err(|error| unreadable(error, &self.name))?;
        check(&survey.transcript, &self.name, self.strict, &self.host)?;
        report_if_empty(&self.name, survey.messages(), &survey.transcript, &self.host);
        let progress = self.host.progress(&format!("storing {}", self.name), Work::Bytes(source.size()));
        store(&survey, &mut source, &self.name, &|at| progress.at(at))
    }
}

impl Origin {
    fn source(&mut self) -> Source<'_> {
        match self {
            Origin::Stored(opened, session) => Source::Stored(opened.archive.store(), session.clone()),
            // A stream can be consumed only once.
            Origin::Source(source) => std::mem::replace(source, Source::Stream(Box::new(io::empty()))),
        }
    }
}

/// Limits a source to one of its sessions, if one is named.
fn picked<'s>(source: Source<'s>, session: Option<&str>) -> Source<'s> {
    match session {
        Some(id) => Source::Session(Box::new(source), id.to_owned()),
        None => source,
    }
}

fn unreadable(error: ImportError, name: &str) -> HostError {
    let message = format!("cannot read {name}: {error}");
    let is_usage = matches!(error, ImportError::Format(FormatError::NoSession { .. }));
    let shown = if is_usage { HostError::usage(message) } else { HostError::failed(message) };
    shown.caused_by(error)
}

/// Whether this may be the id of a session rather than a path.
fn is_like_id(text: &str) -> bool {
    let (_, id) = Scope::All.narrow(text);
    !id.is_empty() && id.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
}

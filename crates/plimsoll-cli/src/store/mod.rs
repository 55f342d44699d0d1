//! Plimsoll's own sessions: opening the database they are in, and finding one of them.
//!
//! Whatever only reads opens a database that is there and never makes one.

mod export;
mod import;
mod keep;
mod purge;
mod show;

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use plimsoll::compact::request::Summariser;
use plimsoll::receipt::UndoError;
use plimsoll::{Ids, Limits, LogError, Policy, SessionId};
use plimsoll_import::{Scope, projects_around};
use plimsoll_session::blocking::Driver;
use plimsoll_session::{Figures, Session as OpenSession, SessionBuilder, SessionError, SessionModel};
use plimsoll_store::{
    Archive, Filter, Lease, Session, SpillRecord, StoreError, TakeOver, holder_is_gone, holder_name,
    process_holder,
};

use crate::args::PolicyArgs;
use crate::config::{self, Config};
use crate::error::{CliError, reason};
use crate::files;
use crate::interrupt;
use crate::output::{counted, note};
use crate::recorded::SessionWindow;
use crate::sessions;
use crate::surroundings::Surroundings;
use crate::when;

pub(crate) use export::export;
pub(crate) use import::import;
pub(crate) use keep::{check, gc, rm};
pub(crate) use purge::purge;
pub(crate) use show::show;

/// More sessions than this are not looked at to say that a name is ambiguous.
const LIKE: u64 = 100;
/// What changes a session from here has it for so long at most.
const LEASE: Duration = Duration::from_secs(60);

/// A database that is open.
pub(crate) struct Opened {
    /// The sessions and the outputs that were spilled from them.
    pub(crate) archive: Arc<Archive>,
    /// The file.
    pub(crate) path: PathBuf,
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened").field("path", &self.path).finish_non_exhaustive()
    }
}

/// The model of a stored session, with these limits or else the configured ones.
fn model_of(session: &Session, config: &Config, limits: Option<Limits>) -> SessionModel {
    let limits = limits.unwrap_or(Limits::new(config.context, 0));
    SessionModel::new(session.model.clone().unwrap_or_default()).limits(limits)
}

impl Opened {
    /// The database that is configured, if it is there.
    pub(crate) fn if_there(config: &Config) -> Result<Option<Opened>, CliError> {
        match &config.store.path {
            Some(path) if is_there(path)? => Opened::at(path, config).map(Some),
            _ => Ok(None),
        }
    }

    /// The database that is configured, which must be there.
    pub(crate) fn existing(config: &Config, around: &Surroundings) -> Result<Opened, CliError> {
        Opened::if_there(config)?.ok_or_else(|| {
            let place = config.store.path.as_deref().map(|path| format!(" at `{}`", around.short(path)));
            let message = format!("there is no database of sessions yet{}", place.unwrap_or_default());
            CliError::usage(message).hint("`plimsoll sessions import FILE` makes one")
        })
    }

    /// The same for a command without a policy of its own.
    pub(crate) fn usual(around: &Surroundings) -> Result<Opened, CliError> {
        Opened::existing(&Config::load(&PolicyArgs::default(), around)?, around)
    }

    /// The database that is configured; made if it is not there.
    pub(crate) fn made(config: &Config) -> Result<Opened, CliError> {
        let Some(path) = &config.store.path else {
            return Err(CliError::usage("cannot tell where to keep sessions: there is no home directory")
                .hint("name a database with `--store FILE` or PLIMSOLL_STORE"));
        };
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            files::private_folder(folder).map_err(|error| {
                CliError::failed(format!("cannot make `{}`: {}", folder.display(), reason(&error)))
            })?;
        }
        Opened::at(path, config)
    }

    /// A database at some place.
    pub(crate) fn at(path: &Path, config: &Config) -> Result<Opened, CliError> {
        // Outputs that were spilled can be recalled whether or not the policy spills today.
        let mut spec = config.policy.clone().into_spec();
        spec.truncate.spill = true;
        let policy = Policy::new(spec).unwrap_or_else(|_| config.policy.clone());
        let mut archive = Archive::open(path, &policy, config.store.durability)?;
        archive.retention = config.store.retention;
        if let Some(copy) = &archive.copy {
            note(&format!(
                "note: `{}` was of an older version and has been upgraded; it is kept as `{}`",
                path.display(),
                copy.display()
            ));
        }
        if let Some(loss) = &archive.loss {
            note(&format!("warning: `{}`: {loss}. Some of what was said may be missing", path.display()));
            note("hint: `plimsoll sessions check` explains it");
        }
        Ok(Opened { archive: Arc::new(archive), path: path.to_owned() })
    }

    /// The session with this id, or the one that begins with it.
    pub(crate) fn session(&self, id: &str, around: &Surroundings) -> Result<Session, CliError> {
        match self.archive.store().session(&SessionId::new(id)) {
            Err(StoreError::Missing { .. }) => {}
            other => return Ok(other?),
        }
        let mut found = self.archive.store().sessions_like(id, LIKE)?;
        if found.len() > 1 {
            found.sort_by_key(|session| std::cmp::Reverse((session.updated, session.id.clone())));
            let named = found.iter().map(|session| (session.id.as_str(), session.title.as_str()));
            return Err(sessions::ambiguous(id, named));
        }
        match found.pop() {
            Some(one) => Ok(one),
            None => Err(unknown(id, &self.sessions()?, around)),
        }
    }

    /// The one with this id, or without one the newest of the current directory, or of the nearest one above it that has
    /// any: as for the sessions of other tools, what is above the home, and the home itself, is no project.
    pub(crate) fn chosen(&self, id: Option<&str>, around: &Surroundings) -> Result<Session, CliError> {
        if let Some(id) = id {
            return self.session(id, around);
        }
        for directory in projects_around(&around.directory, around.home.as_deref()) {
            let directory = directory.to_str().map(str::to_owned);
            let filter = Filter { directory, most: Some(1), ..Filter::default() };
            if let Some(newest) = self.archive.store().sessions(&filter)?.pop() {
                return Ok(newest);
            }
        }
        let directory = around.short(&around.directory);
        Err(CliError::usage(format!("no session of `{directory}` is stored")).hint(
            "name one: `plimsoll sessions --tool plimsoll --all` lists them, `plimsoll sessions import FILE` adds one",
        ))
    }

    /// Every session, tasks too, the last written to first.
    pub(crate) fn sessions(&self) -> Result<Vec<Session>, StoreError> {
        self.archive.store().sessions(&Filter { all: true, ..Filter::default() })
    }

    /// Refuses a session of which something is not what was written: nothing altered leaves the store as if it were sound.
    pub(crate) fn require_sound(&self, id: &SessionId) -> Result<(), CliError> {
        let damage = self.archive.store().damage(id)?;
        let [first, rest @ ..] = &damage[..] else { return Ok(()) };
        let mut message = first.to_string();
        if !rest.is_empty() {
            message.push_str(&format!("; and {}", counted(rest.len(), "more problem")));
        }
        Err(CliError::failed(message).hint(salvage_hint(id)))
    }

    /// All spilled outputs that a session shows.
    pub(crate) fn spills(&self, id: &SessionId) -> Result<Vec<SpillRecord>, StoreError> {
        let (mut spills, mut next) = (Vec::new(), Some(0));
        while let Some(after) = next {
            let page = self.archive.store().spills(id, after, 1_000)?;
            spills.extend(page.spills);
            next = page.next;
        }
        Ok(spills)
    }

    /// A driver of the session, unless another process runs it; with `force` although one does.
    pub(crate) fn driver(&self, session: &Session, config: &Config, force: bool) -> Result<Driver, CliError> {
        self.driver_with(session, config, force, None, None)
    }

    /// The limits of a session's own window, or those that were asked for.
    pub(crate) fn limits(
        &self,
        session: &Session,
        config: &Config,
        asked: Option<u64>,
    ) -> Result<Limits, CliError> {
        Ok(SessionWindow::of_stored(self.archive.store(), session, config, asked)?.limits)
    }

    /// Like [`driver`](Opened::driver), within the limits of the session's own window.
    pub(crate) fn driver_within(
        &self,
        session: &Session,
        config: &Config,
        force: bool,
        limits: Limits,
    ) -> Result<Driver, CliError> {
        self.driver_with(session, config, force, Some(limits), None)
    }

    /// Like [`driver`](Opened::driver), with a summariser that can be asked.
    pub(crate) fn driver_with(
        &self,
        session: &Session,
        config: &Config,
        force: bool,
        limits: Option<Limits>,
        summariser: Option<Summariser>,
    ) -> Result<Driver, CliError> {
        // No request is made here, so figures have to agree with `inspect`.
        let builder = self.builder(session, config, force).model(model_of(session, config, limits));
        let (lease, builder) =
            self.take(session, builder.summariser(summariser).figures(Figures::Recorded))?;
        Ok(builder.open_leased_blocking(lease)?)
    }

    /// The session, for what changes nothing in the window: it is not read to weigh it.
    pub(crate) async fn open_unweighed(
        &self,
        session: &Session,
        config: &Config,
        force: bool,
    ) -> Result<OpenSession, CliError> {
        let (lease, builder) = self.take(session, self.builder(session, config, force))?;
        Ok(builder.open_leased(lease).await?)
    }

    /// Settings for a command that makes no requests.
    fn builder(&self, session: &Session, config: &Config, force: bool) -> SessionBuilder {
        OpenSession::builder(Arc::clone(&self.archive))
            .session(session.id.clone())
            .model(model_of(session, config, None))
            .policy(config.policy.clone())
            .holder(holder())
            .lease(LEASE)
            .take_over(if force { TakeOver::Always } else { TakeOver::Never })
    }

    /// Takes the lease of a session, and sees to it that an interrupt releases it.
    fn take(
        &self,
        session: &Session,
        mut builder: SessionBuilder,
    ) -> Result<(Lease, SessionBuilder), CliError> {
        let lease = match builder.take_lease() {
            Err(SessionError::Store(error @ StoreError::Leased { .. })) => {
                return Err(CliError::from(error).hint("`--force` takes it over"));
            }
            other => other?,
        };
        // Before the session is read, which can take seconds: an interrupt meanwhile releases it too.
        interrupt::give_back(&self.archive, &lease);
        if let Some(holder) = taken_from_living(&lease) {
            note(&format!("note: `{}` was taken from `{holder}`, whose writes are refused now", session.id));
        }
        Ok((lease, builder))
    }

    /// The right to change a session; by force if another process may be running it.
    pub(crate) fn lease(&self, session: &SessionId, force: bool) -> Result<Lease, StoreError> {
        let (holder, store) = (holder(), self.archive.store());
        let lease = if force {
            store.break_lease(session, &holder, LEASE)
        } else {
            store.lease(session, &holder, LEASE)
        };
        lease.inspect(|lease| interrupt::give_back(&self.archive, lease))
    }
}

/// The name under which this process runs sessions.
pub(crate) fn holder() -> String {
    process_holder("plimsoll")
}

/// The name of the process that a session was taken from by force. One that no longer exists is not affected.
pub(crate) fn taken_from_living(lease: &Lease) -> Option<String> {
    lease.taken_from.as_deref().filter(|holder| !holder_is_gone(holder)).map(holder_name)
}

/// The stored session of this id, or the one of another tool, which is imported first.
pub(crate) fn session_or_import(
    id: &str,
    opened: Opened,
    config: &Config,
    around: &Surroundings,
) -> Result<(Opened, SessionId), CliError> {
    let unknown = match opened.session(id, around) {
        Ok(session) => {
            tell_if_elsewhere(&session, around);
            return Ok((opened, session.id));
        }
        Err(error) => error,
    };
    let mut opened = Some(opened);
    match (import::by_id(id, config, &mut opened, around), opened) {
        (Ok(id), Some(opened)) => Ok((opened, id)),
        // What was asked for is no session of anybody's, and the better message is about ours.
        _ => Err(unknown),
    }
}

/// Say that a session which is to go on here was in another directory.
pub(crate) fn tell_if_elsewhere(session: &Session, around: &Surroundings) {
    let elsewhere = session.directory.as_deref().filter(|own| Path::new(own) != around.directory);
    if let Some(directory) = elsewhere {
        let directory = around.short(directory.as_ref());
        note(&format!("note: the session was in `{directory}` so far; it goes on in this directory"));
    }
}

fn salvage_hint(id: &SessionId) -> String {
    format!("`plimsoll sessions export {id} --salvage` writes what can be read")
}

/// Whether there is a database; that it cannot be told is an error.
fn is_there(path: &Path) -> Result<bool, CliError> {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => {
            Err(CliError::usage(format!("`{}` is a directory, not a database", path.display())))
        }
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(CliError::failed(format!("cannot open `{}`: {}", path.display(), reason(&error)))),
    }
}

/// Names for what is made here.
pub(crate) fn ids() -> Ids {
    Ids::new(|| RandomState::new().hash_one(()))
}

fn unknown(id: &str, all: &[Session], around: &Surroundings) -> CliError {
    if let (Scope::Only(tool), _) = Scope::Others.narrow(id)
        && let Ok(None) = sessions::with_id(id, around, Scope::Others)
    {
        return CliError::usage(format!("there is no {}", sessions::described(id, Scope::Others)))
            .hint(format!("`plimsoll sessions --tool {} --all` lists them", tool.key()));
    }
    let error = CliError::usage(format!("no stored session has an id that begins with `{id}`"));
    let other = sessions::with_id(id, around, Scope::Others).ok().flatten();
    if let Some(found) = other.map(|located| located.found) {
        let tool = found.tool.name();
        return error.hint(format!("{tool} has one: `plimsoll sessions import {}` stores it", found.id));
    }
    match config::nearest(id, all.iter().map(|session| session.id.as_str())) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error.hint("`plimsoll sessions --tool plimsoll --all` lists them"),
    }
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> CliError {
        match error {
            StoreError::Expired { handle, at, shown } => {
                let (at, shown) = (when::utc(at), shown.trim_end());
                let message =
                    format!("the content of `{handle}` expired at {at}; the window still shows:\n{shown}");
                CliError::no(message)
                    .hint("`[spills] keep = true` in `plimsoll.toml` keeps what is spilled from now on")
            }
            error @ (StoreError::Lost { .. } | StoreError::Undo(UndoError::Final(_))) => {
                CliError::no(error.to_string())
            }
            StoreError::Ambiguous { handle, candidates } => {
                CliError::usage(format!("`{handle}` is the beginning of several handles"))
                    .hint(format!("give one of them whole: {}", candidates.join(", ")))
            }
            error @ (StoreError::Missing { .. } | StoreError::Refused(_)) => {
                CliError::usage(error.to_string())
            }
            error @ StoreError::Damaged { .. } => CliError::failed(error.to_string()).hint(
                "`plimsoll sessions check` lists all damage, `plimsoll sessions export ID --salvage` writes what can be read",
            ),
            StoreError::Io { what, source } => CliError::failed(format!("{what}: {}", reason(&source))),
            other => CliError::failed(other.to_string()),
        }
    }
}

impl From<SessionError> for CliError {
    fn from(error: SessionError) -> CliError {
        match error {
            SessionError::Store(error) => error.into(),
            SessionError::Log(error) => error.into(),
            error @ SessionError::Pin(_) => CliError::no(error.to_string()),
            error @ SessionError::OutOfView(_) => {
                CliError::usage(error.to_string()).hint("`plimsoll recall` names the message of a part")
            }
            other => CliError::failed(other.to_string()),
        }
    }
}

impl From<LogError> for CliError {
    fn from(error: LogError) -> CliError {
        CliError::failed(error.to_string())
    }
}

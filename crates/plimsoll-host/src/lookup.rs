//! Lookup of stored sessions and those of other tools, by id, prefix or directory.

use std::path::Path;
use std::sync::Arc;

use plimsoll::SessionId;
use plimsoll_config::{Flags, nearest};
use plimsoll_import::{Found, Places, Scope, Search, SessionStorage, Tool, projects_around};
use plimsoll_store::{Filter, Session, StoreError};

use crate::error::{HostError, ambiguous};
use crate::host::Host;
use crate::store::OpenStore;

/// Maximum number of candidates for an ambiguous prefix.
const LIKE: u64 = 100;

/// All sessions of a scope, and Plimsoll's database.
#[non_exhaustive]
pub struct Lookup {
    /// The sessions.
    pub search: Search,
    /// The database, if it exists and is in the scope.
    pub opened: Option<Arc<OpenStore>>,
    /// Descriptions of unreadable directories and databases.
    problems: Vec<String>,
}

/// A session that was found, with its database if it is stored.
#[non_exhaustive]
pub struct Located {
    /// The session.
    pub found: Found,
    /// The database.
    pub opened: Option<Arc<OpenStore>>,
    /// The session of another tool that a stored one is a copy of.
    pub source: Option<Found>,
}

impl Host {
    /// Searches the session directories of all tools in scope.
    pub fn lookup(&self, scope: Scope) -> Lookup {
        let search = Search::new(&self.places(), scope);
        let problems = search.problems.iter();
        let problems =
            problems.map(|problem| format!("cannot read `{}`: {}", self.short(&problem.path), problem.why));
        let problems = problems.collect();
        let mut lookup = Lookup { search, opened: None, problems };
        if scope.holds(Tool::Plimsoll)
            && let Err(error) = lookup.add_stored(self)
        {
            lookup.problems.push(error.message().to_owned());
        }
        lookup
    }

    /// Returns the session directories of the tools.
    pub fn places(&self) -> Places {
        Places::new(self.env.home.as_deref(), |name| self.env.variable(name).map(str::to_owned))
    }

    /// Finds the newest session for the current directory.
    pub fn newest_session(&self) -> Result<Located, HostError> {
        let lookup = self.lookup(Scope::All);
        lookup.report_problems(self);
        let found = lookup.search.newest(self.directory(), self.env.home.as_deref()).ok_or_else(|| {
            let directory = self.short(self.directory());
            HostError::usage(format!("no session of any known tool found for `{directory}`")).hint(
                "list all sessions with `plimsoll sessions --all`, or pass a transcript, or `-` for standard input",
            )
        })?;
        Ok(lookup.located(found))
    }

    /// Finds the one session with this id or prefix; `TOOL:ID` names the tool.
    pub fn session_with_id(&self, id: &str, scope: Scope) -> Result<Option<Located>, HostError> {
        let (scope, id) = scope.narrow(id);
        let lookup = self.lookup(scope);
        let found = lookup.search.one(id)?;
        if found.is_none() {
            lookup.report_problems(self);
        }
        Ok(found.map(|found| lookup.located(found)))
    }

    /// Names a session for users: its file, or its id and database.
    pub fn session_name(&self, found: &Found) -> String {
        let path = self.short(&found.path);
        match found.kept {
            SessionStorage::Row(_) | SessionStorage::Stored(_) => format!("`{}` in `{path}`", found.id),
            SessionStorage::File => format!("`{path}`"),
        }
    }
}

impl Lookup {
    fn add_stored(&mut self, host: &Host) -> Result<(), HostError> {
        let Some(opened) = host.open_existing(&host.config(&Flags::default())?)? else {
            // A missing database is only an error if the user has set it.
            let named = host.store.as_ref();
            self.problems
                .extend(named.map(|path| format!("database `{}` does not exist yet", path.display())));
            return Ok(());
        };
        self.search.add_store(opened.archive.store(), &opened.path)?;
        self.opened = Some(Arc::new(opened));
        Ok(())
    }

    /// Reports unreadable directories and databases.
    pub fn report_problems(&self, host: &Host) {
        self.problems.iter().for_each(|problem| host.note(problem.as_str()));
    }

    fn located(self, found: Found) -> Located {
        let is_stored = matches!(found.kept, SessionStorage::Stored(_));
        let source = if is_stored { self.search.source_of(&found) } else { None };
        Located { found, opened: self.opened.filter(|_| is_stored), source }
    }
}

impl OpenStore {
    /// Finds the stored session with this id or prefix.
    pub fn session(&self, id: &str, host: &Host) -> Result<Session, HostError> {
        match self.archive.store().session(&SessionId::new(id)) {
            Err(StoreError::Missing { .. }) => {}
            other => return Ok(other?),
        }
        let mut found = self.archive.store().sessions_like(id, LIKE)?;
        if found.len() > 1 {
            // The error lists only some of them, and the newest are the most likely ones.
            found.sort_by_key(|session| std::cmp::Reverse((session.updated, session.id.clone())));
            let named = found.iter().map(|session| (session.id.as_str(), session.title.as_str()));
            return Err(ambiguous(id, named));
        }
        match found.pop() {
            Some(one) => Ok(one),
            None => Err(not_stored(id, &self.sessions()?, host)),
        }
    }

    /// Finds the stored session with this id or prefix. Without an id, finds the newest of the current directory or of the
    /// nearest directory above it that has any, up to but excluding the home directory.
    pub fn session_or_newest(&self, id: Option<&str>, host: &Host) -> Result<Session, HostError> {
        if let Some(id) = id {
            return self.session(id, host);
        }
        for directory in projects_around(host.directory(), host.env.home.as_deref()) {
            let directory = directory.to_str().map(str::to_owned);
            let filter = Filter { directory, most: Some(1), ..Filter::default() };
            if let Some(newest) = self.archive.store().sessions(&filter)?.pop() {
                return Ok(newest);
            }
        }
        let directory = host.short(host.directory());
        Err(HostError::usage(format!("no stored session for `{directory}`")).hint(
            "list stored sessions with `plimsoll sessions --tool plimsoll --all`, or store one with `plimsoll sessions import FILE`",
        ))
    }
}

/// Describes the session that an unknown id refers to.
pub(crate) fn described(id: &str, scope: Scope) -> String {
    match scope.narrow(id) {
        (Scope::Only(tool), id) => format!("session of {} with id `{id}`", tool.name()),
        (_, id) => format!("session with id `{id}`"),
    }
}

/// Creates an error for an unknown session id.
pub(crate) fn none_with(id: &str) -> HostError {
    HostError::usage(format!("unknown session id `{id}`"))
}

/// Creates an error for an id that is not stored.
fn not_stored(id: &str, all: &[Session], host: &Host) -> HostError {
    let other = host.session_with_id(id, Scope::Others);
    if let ((Scope::Only(tool), _), Ok(None)) = (Scope::Others.narrow(id), &other) {
        return HostError::usage(format!("no {}", described(id, Scope::Others)))
            .hint(format!("list its sessions with `plimsoll sessions --tool {} --all`", tool.key()));
    }
    let error = HostError::usage(format!("no stored session with id `{id}`"));
    if let Some(Located { found, .. }) = other.ok().flatten() {
        let tool = found.tool.name();
        return error.hint(format!("{tool} has one; store it with `plimsoll sessions import {}`", found.id));
    }
    match nearest(id, all.iter().map(|session| session.id.as_str())) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error.hint("list stored sessions with `plimsoll sessions --tool plimsoll --all`"),
    }
}

/// Reports if a session was started in another directory than it is continued in.
pub(crate) fn report_if_elsewhere(session: &Session, host: &Host) {
    let elsewhere = session.directory.as_deref().filter(|own| Path::new(own) != host.directory());
    if let Some(directory) = elsewhere {
        let directory = host.short(directory.as_ref());
        host.note(format!("the session was started in `{directory}` and continues in this directory"));
    }
}

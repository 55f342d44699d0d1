//! The list of sessions, with the same figures as in other commands.

use std::path::{Path, PathBuf};

use plimsoll_config::Flags;
use plimsoll_import::{Found, Scope, ShortIds, Weighed, WeighedCache, weigh_all};

use crate::error::HostError;
use crate::host::Host;
use crate::lookup::Lookup;
use crate::report::Work;

/// Filter of a list of sessions.
#[derive(Clone, Debug)]
pub struct ListRequest {
    /// Tools whose sessions are listed.
    pub scope: Scope,
    /// Whether sessions of every directory are listed.
    pub all: bool,
    /// Maximum number of sessions.
    pub limit: usize,
    /// Settings.
    pub flags: Flags,
}

/// A list of sessions.
#[non_exhaustive]
pub struct SessionList {
    /// The sessions, newest first.
    pub rows: Vec<(Found, Weighed)>,
    /// Directory of the sessions, unless all are listed: the current one, or the nearest above it that has any.
    pub directory: PathBuf,
    lookup: Lookup,
}

impl SessionList {
    /// Unambiguous short ids.
    pub fn short_ids(&self) -> ShortIds<'_> {
        self.lookup.search.short_ids()
    }
}

impl Host {
    /// Lists sessions. Reports unreadable ones.
    pub fn list_sessions(&self, request: &ListRequest) -> Result<SessionList, HostError> {
        let config = self.config(&request.flags)?;
        let lookup = self.lookup(request.scope);
        lookup.report_problems(self);
        // Agents are started at the top of a project, but users list their sessions from directories below it as well.
        let project = lookup.search.project(self.directory(), self.env.home.as_deref());
        let directory = project.unwrap_or_else(|| self.directory().to_owned());
        let within = (!request.all).then_some(directory.as_path() as &Path);
        let found: Vec<Found> = lookup.search.sessions(within).take(request.limit).collect();
        let progress = self.progress("reading sessions", Work::Items(found.len() as u64));
        let store = lookup.opened.as_ref().map(|opened| opened.archive.store());
        let cached = self.env.cache_directory().map(|cache| cache.join("sessions"));
        let cache = cached.map(|path| WeighedCache::new(path, &config.policy));
        let weighed = weigh_all(&found, store, &config.policy, cache.as_ref(), &|| progress.step());
        drop(progress);
        let mut rows = Vec::new();
        for (found, weighed) in found.into_iter().zip(weighed) {
            match weighed {
                Ok(weighed) => rows.push((found, weighed)),
                Err(error) => self.note(format!("cannot read {}: {error}", self.session_name(&found))),
            }
        }
        Ok(SessionList { rows, directory, lookup })
    }
}

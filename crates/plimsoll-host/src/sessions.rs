//! The list of sessions, each weighed like in every other command.

use std::path::{Path, PathBuf};

use plimsoll_config::Flags;
use plimsoll_import::{Found, Scope, ShortIds, Weighed, WeighedCache, weigh_all};

use crate::error::HostError;
use crate::host::Host;
use crate::lookup::Lookup;
use crate::report::Work;

/// Which sessions are listed.
#[derive(Clone, Debug)]
pub struct ListRequest {
    /// Of which tools.
    pub scope: Scope,
    /// Of every directory.
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
    /// The directory they are of, unless all were listed: the current one, or the nearest above it that has any.
    pub directory: PathBuf,
    lookup: Lookup,
}

impl SessionList {
    /// Ids that are as short as they can be among all sessions.
    pub fn short_ids(&self) -> ShortIds<'_> {
        self.lookup.search.short_ids()
    }
}

impl Host {
    /// Lists sessions. Those that cannot be read are reported.
    pub fn list_sessions(&self, request: &ListRequest) -> Result<SessionList, HostError> {
        let config = self.config(&request.flags)?;
        let lookup = self.lookup(request.scope);
        lookup.report_problems(self);
        // Agents are started at the top of a project and asked about from inside, as everywhere else.
        let project = lookup.search.project(self.directory(), self.env.home.as_deref());
        let directory = project.unwrap_or_else(|| self.directory().to_owned());
        let within = (!request.all).then_some(directory.as_path() as &Path);
        let found: Vec<Found> = lookup.search.sessions(within).take(request.limit).collect();
        let progress = self.progress("reading sessions", Work::Items(found.len() as u64));
        let store = lookup.opened.as_ref().map(|opened| opened.archive.store());
        let folder = self.env.cache_directory().map(|folder| folder.join("sessions"));
        let cache = folder.map(|folder| WeighedCache::new(folder, &config.policy));
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

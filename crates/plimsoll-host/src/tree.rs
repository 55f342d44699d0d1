//! Sessions of one directory as a tree, with figures: stored ones, and those of other tools.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use plimsoll::{Limits, Millis, SessionId, Tokens};
use plimsoll_formats::Format;
use plimsoll_import::{Found, Scope, SessionStorage, Tool, Weighed, WeighedCache, weigh_all};
use plimsoll_session::percent;
use plimsoll_store::{Filter, Revision, Session};
use serde::Serialize;

use crate::config::HostConfig;
use crate::error::HostError;
use crate::host::Host;
use crate::input::{InputSource, InputSpec};
use crate::recorded::{RecordedFigures, SessionWindow};
use crate::store::OpenStore;

/// Maximum number of sessions whose figures are cached.
const REMEMBERED: usize = 10_000;

/// A session in a tree.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SessionNode {
    /// The tool that wrote it.
    pub tool: Tool,
    /// Id.
    pub id: String,
    /// The session that started it as a task.
    pub parent: Option<SessionId>,
    /// The session that it was forked from.
    pub forked_from: Option<SessionId>,
    /// The tool that an imported session was imported from.
    pub imported_from: Option<String>,
    /// For a session of another tool: whether a copy of it is stored.
    pub is_stored: bool,
    /// Title, or the first words.
    pub title: String,
    /// The model, the last one if it changed.
    pub model: Option<String>,
    /// Time of the last write.
    pub updated: Millis,
    /// Number of messages.
    pub messages: usize,
    /// Tokens in the window.
    pub window: Tokens,
    /// Whether `window` is based on recorded usage.
    pub is_measured: bool,
    /// The line, if the policy has one.
    pub line: Option<Tokens>,
    /// Share of the line that is used, in percent.
    pub percent: Option<u64>,
    /// Cost in dollars, as far as prices are known.
    pub cost: Option<f64>,
}

/// Cache of the figures of stored sessions. A session is only weighed again after a write.
#[derive(Default)]
pub struct SessionTree {
    known: Mutex<HashMap<SessionId, (Revision, Weighed)>>,
}

impl SessionTree {
    /// Returns the stored sessions of the host's directory, including tasks, newest first.
    pub fn stored(
        &self,
        host: &Host,
        opened: &OpenStore,
        config: &HostConfig,
        most: u64,
    ) -> Result<Vec<SessionNode>, HostError> {
        let directory = Some(host.directory().display().to_string());
        let filter = Filter { directory, all: true, most: Some(most), ..Filter::default() };
        let sessions = opened.archive.store().sessions(&filter)?;
        self.weigh(host, opened, config, &sessions);
        let known = self.known();
        let nodes = sessions.iter().filter_map(|session| stored_node(&known, session, opened, config));
        Ok(nodes.collect())
    }

    /// Returns a stored session.
    pub fn one(
        &self,
        host: &Host,
        opened: &OpenStore,
        config: &HostConfig,
        session: &Session,
    ) -> Result<SessionNode, HostError> {
        self.weigh(host, opened, config, std::slice::from_ref(session));
        let node = stored_node(&self.known(), session, opened, config);
        node.ok_or_else(|| HostError::failed(format!("cannot read session `{}`", session.id)))
    }

    /// Weighs sessions that were written to since. Reports unreadable ones.
    fn weigh(&self, host: &Host, opened: &OpenStore, config: &HostConfig, sessions: &[Session]) {
        let is_new = |session: &&Session| {
            self.known().get(&session.id).is_none_or(|(revision, _)| *revision != session.revision)
        };
        let new: Vec<Found> = sessions.iter().filter(is_new).map(|session| found(session, opened)).collect();
        let weighed = weigh_all(&new, Some(opened.archive.store()), &config.policy, None, &|| {});
        for (found, weighed) in new.iter().zip(weighed) {
            let SessionStorage::Stored(session) = &found.kept else { continue };
            match weighed {
                Ok(weighed) => self.remember(session, weighed),
                Err(error) => host.note(format!("cannot read {}: {error}", host.session_name(found))),
            }
        }
    }

    fn remember(&self, session: &Session, weighed: Weighed) {
        let mut known = self.known();
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(session.id.clone(), (session.revision, weighed));
    }

    fn known(&self) -> MutexGuard<'_, HashMap<SessionId, (Revision, Weighed)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Host {
    /// Returns the sessions of other tools in the host's directory, newest first. Their files are only read.
    pub fn other_sessions(
        &self,
        opened: &OpenStore,
        config: &HostConfig,
        most: usize,
    ) -> Result<Vec<SessionNode>, HostError> {
        let lookup = self.lookup(Scope::Others);
        lookup.report_problems(self);
        let found: Vec<Found> = lookup.search.sessions(Some(self.directory())).take(most).collect();
        let cached = self.env.cache_directory().map(|cache| cache.join("sessions"));
        let cache = cached.map(|path| WeighedCache::new(path, &config.policy));
        let weighed = weigh_all(&found, None, &config.policy, cache.as_ref(), &|| {});
        let mut nodes = Vec::new();
        for (found, weighed) in found.iter().zip(weighed) {
            let is_stored = opened.archive.store().session(&SessionId::new(found.id.as_str())).is_ok();
            match weighed {
                Ok(weighed) => nodes.push(SessionNode { is_stored, ..node(found, &weighed, config) }),
                Err(error) => self.note(format!("cannot read {}: {error}", self.session_name(found))),
            }
        }
        Ok(nodes)
    }

    /// Returns the source of another tool's session; `None` if the tool has none with this id in the host's directory.
    pub fn other_session(&self, tool: &str, id: &str) -> Option<InputSpec> {
        let is_other = |known: &&Tool| known.key() == tool && **known != Tool::Plimsoll;
        let tool = Tool::ALL.iter().copied().find(|tool| is_other(&tool))?;
        let name = format!("{}:{id}", tool.key());
        let found = self.lookup(Scope::Only(tool)).search.with_id(&name);
        let is_here =
            |found: &Found| found.id == id && found.directory.as_deref() == self.directory().to_str();
        // Only complete ids are accepted: a prefix could also match a session of another directory.
        found.iter().find(|found| is_here(found))?;
        let (source, flags) = (InputSource::Session(name), plimsoll_config::Flags::default());
        Some(InputSpec { source, strict: false, flags })
    }
}

fn stored_node(
    known: &HashMap<SessionId, (Revision, Weighed)>,
    session: &Session,
    opened: &OpenStore,
    config: &HostConfig,
) -> Option<SessionNode> {
    let (_, weighed) = known.get(&session.id)?;
    Some(SessionNode {
        parent: session.parent.clone(),
        forked_from: session.forked_from.as_ref().map(|point| point.session.clone()),
        imported_from: session.tool.clone(),
        ..node(&found(session, opened), weighed, config)
    })
}

fn found(session: &Session, opened: &OpenStore) -> Found {
    Found {
        tool: Tool::Plimsoll,
        id: session.id.to_string(),
        path: opened.path.clone(),
        directory: session.directory.clone(),
        changed: session.updated.0,
        origin: None,
        kept: SessionStorage::Stored(Box::new(session.clone())),
    }
}

fn node(found: &Found, weighed: &Weighed, config: &HostConfig) -> SessionNode {
    let figures = RecordedFigures::at(&weighed.recorded, weighed.started.map(Millis));
    let is_claude_code = found.tool == Tool::ClaudeCode || weighed.tool == Some(Format::ClaudeCode);
    let model = weighed.model.as_deref();
    let window = SessionWindow::of_model(model, weighed.context, is_claude_code, &figures, config, None);
    let limits: Limits = window.limits;
    let line = config.policy.overflow.line(limits).map(|line| line.at);
    SessionNode {
        tool: found.tool,
        id: found.id.clone(),
        parent: None,
        forked_from: None,
        imported_from: None,
        is_stored: false,
        title: weighed.title.clone(),
        model: weighed.model.clone(),
        updated: Millis(found.changed),
        messages: weighed.messages,
        window: weighed.window,
        is_measured: weighed.is_measured,
        line,
        percent: line.map(|line| percent(weighed.window, line)),
        cost: figures.cost,
    }
}

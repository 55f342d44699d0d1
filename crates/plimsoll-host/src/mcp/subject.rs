//! The sessions of a call: the one that the client is writing, and stored ones.
//!
//! Claude Code, Codex and others write their session while it runs. The file still contains what the tool's own compaction
//! removed from the window. It is read into an in-memory store for each call, so that the same lookups serve it as a stored
//! session, and nothing of it is kept.

use std::collections::BTreeSet;
use std::sync::Arc;

use plimsoll::SessionId;
use plimsoll::window::placeholder_handle;
use plimsoll_config::Flags;
use plimsoll_import::{Extent, Found, ImportError, ImportOptions, Scope, Source, Survey, Tool, transcript};
use plimsoll_store::{Archive, MemoryStore, Scope as InStore, Selection, Session, StoreError, random_ids};

use super::client::McpClient;
use crate::config::HostConfig;
use crate::error::HostError;
use crate::host::Host;
use crate::lookup::none_with;
use crate::store::OpenStore;

/// A session and the store that has it.
pub(super) struct Subject {
    pub(super) opened: OpenStore,
    pub(super) session: Session,
    /// The tool that writes it; `None` for a stored session.
    pub(super) writer: Option<Tool>,
    /// Whether the client's session is a handed-over copy of it.
    pub(super) is_origin: bool,
    /// Handles of outputs that the client's session shows as cleared. They may still be in the window of the original, because a
    /// handover only reduces the copy.
    pub(super) cleared_in_copy: BTreeSet<String>,
}

/// Maximum number of handles that are tried to find the original of a handed-over session. More than one, because the content
/// of a handle may have been removed since.
const TRIED_HANDLES: usize = 8;

impl Subject {
    /// Returns the named session. Without a name, returns the session that the client is writing for this directory, followed
    /// by its original if it was handed over, or else the newest stored session of the directory. Never empty.
    pub(super) fn all(
        named: Option<&str>,
        client: &McpClient,
        config: &HostConfig,
        host: &Host,
    ) -> Result<Vec<Subject>, HostError> {
        let stored = Subject::stored(named, config, host);
        let found = match named {
            // A stored session has priority, because only that can have been reduced.
            Some(_) if stored.is_ok() => None,
            Some(id) => host.session_with_id(id, Scope::Others)?.map(|located| located.found),
            None => client.session(host),
        };
        let written = found.as_ref().map(|found| Subject::written(found, host)).transpose()?;
        let origin = match (named, &found, &written) {
            (None, Some(found), Some(written)) => written.origin(found, config, host)?,
            _ => None,
        };
        let stored = origin.map_or(stored, Ok);
        match (written, stored) {
            (None, Err(_)) if named.is_none() => {
                let (tool, directory) =
                    (client.tool.map_or("any known tool", Tool::name), host.short(host.directory()));
                let message = match client.named(host) {
                    Some(id) => format!(
                        "{tool} has not written its session `{id}` yet, and no session is stored for `{directory}`"
                    ),
                    None => {
                        format!("no session of {tool} found for `{directory}`, and none is stored")
                    }
                };
                Err(HostError::usage(message)
                    .hint("pass `session`; `plimsoll sessions --all` lists sessions"))
            }
            (None, Err(error)) => Err(error),
            (written, stored) => Ok(written.into_iter().chain(stored).collect()),
        }
    }

    /// Checks that the session exists, without reading it.
    pub(super) fn check(named: &str, host: &Host) -> Result<(), HostError> {
        let config = host.config(&Flags::default())?;
        match Subject::stored(Some(named), &config, host) {
            Err(error) if host.session_with_id(named, Scope::Others)?.is_none() => Err(error),
            _ => Ok(()),
        }
    }

    fn new(opened: OpenStore, session: Session) -> Subject {
        Subject { opened, session, writer: None, is_origin: false, cleared_in_copy: BTreeSet::new() }
    }

    fn stored(named: Option<&str>, config: &HostConfig, host: &Host) -> Result<Subject, HostError> {
        let opened = match named {
            Some(id) => host
                .open_existing(config)?
                .ok_or_else(|| none_with(id).hint("`plimsoll sessions --all` lists sessions"))?,
            None => host.open_store(config)?,
        };
        let session = opened.session_or_newest(named, host)?;
        Ok(Subject::new(opened, session))
    }

    /// Finds the stored original of the client's session: the one that its file names, or else the one with its handles. A tool
    /// that continues a session under a new id may omit fields that it does not know.
    fn origin(&self, found: &Found, config: &HostConfig, host: &Host) -> Result<Option<Subject>, HostError> {
        let Some(opened) = host.open_existing(config)? else { return Ok(None) };
        let messages = transcript(self.opened.archive.store(), &self.session, Extent::Whole)?.messages;
        let parts = messages.iter().flat_map(|message| &message.parts);
        let results = parts.filter_map(|part| part.as_tool()?.state.result());
        let handles: Vec<&str> = results.filter_map(|text| placeholder_handle(text)).collect();
        let origin = |subject: Subject| {
            let cleared_in_copy = handles.iter().map(|&handle| handle.to_owned()).collect();
            Some(Subject { is_origin: true, cleared_in_copy, ..subject })
        };
        if let Some(id) = &found.origin {
            match opened.archive.store().session(&SessionId::new(id.as_str())) {
                Ok(session) => return Ok(origin(Subject::new(opened, session))),
                Err(StoreError::Missing { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        for handle in handles.iter().take(TRIED_HANDLES) {
            if let Some(owner) = Subject::with_handle(handle, config, host)? {
                return Ok(origin(owner));
            }
        }
        Ok(None)
    }

    /// Finds the stored session that has exactly this handle, in any directory, because a session may be handed over to another
    /// one. Handles are random, so a client only knows those that it was shown.
    pub(super) fn with_handle(
        handle: &str,
        config: &HostConfig,
        host: &Host,
    ) -> Result<Option<Subject>, HostError> {
        let Some(opened) = host.open_existing(config)? else { return Ok(None) };
        let little = Selection { lines: Some((1, 1)), max_bytes: 1, max_matches: 1, ..Selection::default() };
        let session = match opened.archive.recall(InStore::Everywhere, handle, &little) {
            Ok(found) if found.handle == handle => opened.archive.store().session(&found.session)?,
            Ok(_) | Err(StoreError::Missing { .. } | StoreError::Ambiguous { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        Ok(Some(Subject::new(opened, session)))
    }

    /// Reads a session of another tool.
    fn written(found: &Found, host: &Host) -> Result<Subject, HostError> {
        let read = || {
            let mut source = Source::of(found, None)?;
            let survey = Survey::of(&mut source, &|_| {})?;
            let store = MemoryStore::new();
            let options = ImportOptions {
                origin: Some(&found.path),
                directory: found.directory.as_deref(),
                now: host.now(),
                duplicate: false,
            };
            // Ids are derived from the session's id, so that a handle means the same in the next call.
            let report = survey.import(&mut source, &store, &mut random_ids(), &options, &|_| {})?;
            let session = plimsoll_store::Sessions::session(&store, &report.id)?;
            Ok::<_, ImportError>((store, session))
        };
        let (store, session) = read().map_err(|error| {
            HostError::failed(format!(
                "cannot read the session `{}` of {}: {error}",
                found.id,
                found.tool.name()
            ))
        })?;
        let archive = Archive::new(Box::new(store), Err("the session is not stored".to_owned()));
        let opened = OpenStore { archive: Arc::new(archive), path: found.path.clone() };
        Ok(Subject { writer: Some(found.tool), ..Subject::new(opened, session) })
    }
}

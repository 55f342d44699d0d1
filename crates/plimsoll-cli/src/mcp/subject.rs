//! The sessions that a call is about: the one that the client is writing itself, and those that are stored.
//!
//! Claude Code, Codex and others write their session down as it goes. That file is the current session, and what the
//! tool's own compaction took out of the window is still in it. It is read into memory for each call, so that the same
//! lookups serve it as a stored one, and nothing of it is kept here.

use std::sync::Arc;

use plimsoll::SessionId;
use plimsoll::window::placeholder_handle;
use plimsoll_import::{Extent, Found, ImportError, ImportOptions, Scope, Source, Survey, Tool, transcript};
use plimsoll_store::{Archive, MemoryStore, Scope as InStore, Selection, Session, StoreError};

use crate::args::PolicyArgs;
use crate::config::Config;
use crate::error::CliError;
use crate::sessions;
use crate::store::{Opened, ids};
use crate::surroundings::Surroundings;
use crate::when;

use super::client::Client;

/// A session, and where it can be read.
pub(super) struct Subject {
    pub(super) opened: Opened,
    pub(super) session: Session,
    /// The tool that is writing it, if it is not stored here.
    pub(super) writer: Option<Tool>,
    /// Whether the client's session was handed over from it.
    pub(super) is_origin: bool,
}

/// So many handles of a session are tried to find the one it was handed over from. More than one may be of content that
/// was removed since.
const TRIED_HANDLES: usize = 8;

impl Subject {
    /// The session that was named; or without a name the one that the client is writing for this directory, and the
    /// stored one that it was handed over from, or else the newest that is stored for the directory. There is at least
    /// one.
    pub(super) fn all(
        named: Option<&str>,
        client: &Client,
        config: &Config,
        around: &Surroundings,
    ) -> Result<Vec<Subject>, CliError> {
        let stored = Subject::stored(named, config, around);
        let found = match named {
            // What is stored under a name is meant by it: only that can have been reduced.
            Some(_) if stored.is_ok() => None,
            Some(id) => sessions::with_id(id, around, Scope::Others)?.map(|located| located.found),
            None => client.session(around),
        };
        let written = found.as_ref().map(Subject::written).transpose()?;
        let origin = match (named, &found, &written) {
            (None, Some(found), Some(written)) => written.origin(found, config)?,
            _ => None,
        };
        let stored = origin.map_or(stored, Ok);
        match (written, stored) {
            (None, Err(_)) if named.is_none() => {
                let (tool, directory) =
                    (client.tool.map_or("any known tool", Tool::name), around.short(&around.directory));
                let message = match client.named(around) {
                    Some(id) => format!(
                        "{tool} has not written its session `{id}`, and none is stored for `{directory}`"
                    ),
                    None => {
                        format!("found no session of {tool} for `{directory}`, and none is stored for it")
                    }
                };
                Err(CliError::usage(message)
                    .hint("name one with `session`; `plimsoll sessions --all` lists them"))
            }
            (None, Err(error)) => Err(error),
            (written, stored) => Ok(written.into_iter().chain(stored).collect()),
        }
    }

    /// That there is a session of this name. It is not read for that.
    pub(super) fn check(named: &str, around: &Surroundings) -> Result<(), CliError> {
        let config = Config::load(&PolicyArgs::default(), around)?;
        match Subject::stored(Some(named), &config, around) {
            Err(error) if sessions::with_id(named, around, Scope::Others)?.is_none() => Err(error),
            _ => Ok(()),
        }
    }

    fn stored(named: Option<&str>, config: &Config, around: &Surroundings) -> Result<Subject, CliError> {
        let opened = match named {
            Some(id) => Opened::if_there(config)?.ok_or_else(|| sessions::none_with(id))?,
            None => Opened::existing(config, around)?,
        };
        let session = opened.chosen(named, around)?;
        Ok(Subject { opened, session, writer: None, is_origin: false })
    }

    /// The stored session that the client's was handed over from: the one that its file names, or the one that its
    /// handles are of. A tool that goes on under a new id may have left out what it does not know.
    fn origin(&self, found: &Found, config: &Config) -> Result<Option<Subject>, CliError> {
        let Some(opened) = Opened::if_there(config)? else { return Ok(None) };
        if let Some(id) = &found.origin {
            match opened.archive.store().session(&SessionId::new(id.as_str())) {
                Ok(session) => return Ok(Some(Subject { opened, session, writer: None, is_origin: true })),
                Err(StoreError::Missing { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let messages = transcript(self.opened.archive.store(), &self.session, Extent::Whole)?.messages;
        let parts = messages.iter().flat_map(|message| &message.parts);
        let results = parts.filter_map(|part| part.as_tool()?.state.result());
        for handle in results.filter_map(|text| placeholder_handle(text)).take(TRIED_HANDLES) {
            if let Some(owner) = Subject::with_handle(handle, config)? {
                return Ok(Some(Subject { is_origin: true, ..owner }));
            }
        }
        Ok(None)
    }

    /// The stored session that has content under exactly this handle. A session may have been handed over from one of
    /// another directory; handles are drawn at random, so a client has one only from what it was shown.
    pub(super) fn with_handle(handle: &str, config: &Config) -> Result<Option<Subject>, CliError> {
        let Some(opened) = Opened::if_there(config)? else { return Ok(None) };
        let little = Selection { lines: Some((1, 1)), search: None, most_bytes: 1, most_matches: 1 };
        let session = match opened.archive.recall(InStore::Everywhere, handle, &little) {
            Ok(found) if found.handle == handle => opened.archive.store().session(&found.session)?,
            Ok(_) | Err(StoreError::Missing { .. } | StoreError::Ambiguous { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        Ok(Some(Subject { opened, session, writer: None, is_origin: false }))
    }

    /// A session of another tool, as it stands.
    fn written(found: &Found) -> Result<Subject, CliError> {
        let read = || {
            let mut source = Source::of(found, None)?;
            let survey = Survey::of(&mut source, &|_| {})?;
            let store = MemoryStore::new();
            let options = ImportOptions {
                origin: Some(&found.path),
                directory: found.directory.as_deref(),
                now: when::now(),
                again: false,
            };
            // Names follow from the session's id, so that a handle means the same in the next call.
            let report = survey.import(&mut source, &store, &mut ids(), &options, &|_| {})?;
            let session = plimsoll_store::Sessions::session(&store, &report.id)?;
            Ok::<_, ImportError>((store, session))
        };
        let (store, session) = read().map_err(|error| {
            CliError::failed(format!(
                "cannot read the session `{}` of {}: {error}",
                found.id,
                found.tool.name()
            ))
        })?;
        let archive = Archive::new(Box::new(store), Err("the session is not stored".to_owned()));
        let opened = Opened { archive: Arc::new(archive), path: found.path.clone() };
        Ok(Subject { opened, session, writer: Some(found.tool), is_origin: false })
    }
}

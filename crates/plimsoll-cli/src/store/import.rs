//! `plimsoll sessions import`: transcripts become stored sessions.

use std::collections::HashMap;
use std::path::Path;
use std::process::ExitCode;

use plimsoll::{Ids, Log, LogError, Message, MessageId, Millis, Part, PartBody, SessionId};
use plimsoll_formats::Transcript;
use plimsoll_store::{Claim, NewSession, StoreError, settle_calls};
use serde::Serialize;

use super::Opened;
use crate::args::{ImportArgs, InputArgs, PolicyArgs};
use crate::config::Config;
use crate::error::CliError;
use crate::input;
use crate::output::{Output, counted, first_words, note};
use crate::progress::Progress;
use crate::sessions::first_prompt;
use crate::surroundings::Surroundings;
use crate::when;

/// An id shorter than this was counted up within its file, and is in other files too.
const UNIQUE: usize = 16;
/// Longest title.
const TITLE: usize = 80;

/// A session that was stored.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Imported {
    id: SessionId,
    /// The session that started it as a task.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<SessionId>,
    title: String,
    directory: Option<String>,
    messages: usize,
    /// Calls that had no answer.
    interrupted: u64,
    /// The sessions of its sub-agents.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tasks: Vec<Imported>,
}

/// Store sessions.
pub(crate) fn import(
    args: &ImportArgs,
    around: &Surroundings,
    output: &mut Output,
) -> Result<ExitCode, CliError> {
    let config = Config::load(&PolicyArgs::default(), around)?;
    let mut opened = None;
    let (mut all, mut failed) = (Vec::new(), Vec::new());
    for file in &args.files {
        match one(file, args, &config, &mut opened, around) {
            Ok(imported) => {
                if !output.json {
                    output.text(imported.id.as_str())?;
                    output.flush()?;
                }
                all.push(imported);
            }
            Err(error) => failed.push(error),
        }
    }
    if output.json {
        output.json(&all)?;
    }
    // One bad file among many does not cost the others, but nor does it pass unnoticed.
    failed.sort_by_key(CliError::is_failure);
    let Some(last) = failed.pop() else { return Ok(ExitCode::SUCCESS) };
    failed.iter().for_each(CliError::tell);
    Err(last)
}

fn one(
    file: &Path,
    args: &ImportArgs,
    config: &Config,
    opened: &mut Option<Opened>,
    around: &Surroundings,
) -> Result<Imported, CliError> {
    let (session, strict) = (args.session.clone(), args.strict);
    let from = InputArgs { file: Some(file.to_owned()), session, strict, policy: PolicyArgs::default() };
    let (name, transcript) = input::of_others(&from, around)?;
    if transcript.messages.is_empty() && transcript.side_chains.is_empty() {
        return Err(CliError::no(format!("nothing of {name} was stored")));
    }
    // Only now: what cannot be read makes no database.
    let opened = match opened {
        Some(opened) => opened,
        None => opened.insert(Opened::made(config)?),
    };
    let intake = Intake { opened, around, again: args.again };
    let imported = Progress::during(&format!("storing {name}"), || intake.take(transcript, None));
    let imported = imported.map_err(|error| refused(error, &name, opened))?;
    tell(&imported, &name, around);
    Ok(imported)
}

/// Why a transcript was not stored.
fn refused(error: StoreError, name: &str, opened: &Opened) -> CliError {
    match error {
        StoreError::Log(LogError::Duplicate { kind: "session", id })
            if opened.archive.store().session(&SessionId::new(id.as_str())).is_err() =>
        {
            CliError::no(format!("`{id}` was removed, and a session that was forked from it still needs it"))
                .hint("`--again` stores it under new ids")
        }
        StoreError::Log(LogError::Duplicate { kind: "session", id }) => {
            CliError::no(format!("{name} is stored already, as `{id}`"))
                .hint("`--again` stores it once more under new ids; `plimsoll sessions rm` removes it")
        }
        other => other.into(),
    }
}

fn tell(imported: &Imported, name: &str, around: &Surroundings) {
    let mut told = format!("stored {name}: {}", counted(imported.messages, "message"));
    if !imported.tasks.is_empty() {
        let ids: Vec<String> = imported.tasks.iter().map(|task| format!("`{}`", task.id)).collect();
        told.push_str(&format!(", {}: {}", counted(ids.len(), "sub-agent's session"), ids.join(", ")));
    }
    let interrupted: u64 =
        imported.interrupted + imported.tasks.iter().map(|task| task.interrupted).sum::<u64>();
    if interrupted > 0 {
        told.push_str(&format!("; {} without an answer", counted(interrupted as usize, "call")));
    }
    let elsewhere = imported.directory.as_deref().filter(|own| Path::new(own) != around.directory);
    if let Some(directory) = elsewhere {
        told.push_str(&format!("; of `{}`", around.short(directory.as_ref())));
    }
    note(&told);
}

struct Intake<'a> {
    opened: &'a Opened,
    around: &'a Surroundings,
    again: bool,
}

impl Intake<'_> {
    /// Store a session, and those of its sub-agents as its tasks.
    fn take(&self, transcript: Transcript, parent: Option<&Imported>) -> Result<Imported, StoreError> {
        let store = self.opened.archive.store();
        let Transcript { info, messages, side_chains, .. } = transcript;
        let mut ids = super::ids();
        let now = when::now();
        let messages = Log::from_messages(messages).messages().to_vec();
        let id = match info.id.filter(|id| !id.is_empty()) {
            Some(_) if self.again => ids.session(now),
            Some(id) => SessionId::new(id),
            None if self.again => ids.session(now),
            None => by_content(&messages),
        };
        let times = || messages.iter().filter_map(|message| message.info.time.as_ref()?.created);
        // What a file says of times to come cannot be, and a store keeps none from the end of time.
        let started = info.started.or_else(|| times().min()).unwrap_or(now).min(now);
        let updated = info.updated.or_else(|| times().max()).unwrap_or(started).min(now);
        let title =
            info.title.as_deref().map(|title| first_words(title, 400)).filter(|title| !title.is_empty());
        let directory = info.directory.or_else(|| match parent {
            Some(parent) => parent.directory.clone(),
            None => self.around.directory.to_str().map(str::to_owned),
        });
        let new = NewSession {
            id: id.clone(),
            parent: parent.map(|parent| parent.id.clone()),
            title: title.unwrap_or_else(|| first_words(&first_prompt(&messages), TITLE)),
            agent: None,
            model: info.model,
            directory,
            version: info.version,
        };
        let mut messages = self.named(messages, &id, &mut ids, started);
        let last = messages.iter().flat_map(|message| &message.parts).filter_map(begun).max();
        let settled = last.map_or(updated, |last| last.max(updated)).min(now);
        // The process that asked is not there any more to be answered.
        let interrupted = messages.iter_mut().map(|message| settle_calls(message, settled)).sum();
        let count = messages.len();
        let (title, directory) = (new.title.clone(), new.directory.clone());
        self.create(new, started)?;
        store.append(&Claim::unleased(&id), messages, updated).inspect_err(|_| {
            // Half a session is worse than none; and if this fails too, the first error is the one to tell.
            let _ = store.remove(&Claim::unleased(&id), updated);
        })?;
        let parent = parent.map(|parent| parent.id.clone());
        let mut imported =
            Imported { id, parent, title, directory, messages: count, interrupted, tasks: Vec::new() };
        for mut chain in side_chains {
            // Some tools write sub-agents under the id of the session itself, or under a short one of their own.
            let own = chain.info.id.take().filter(|id| id.len() >= UNIQUE && *id != imported.id.as_str());
            chain.info.id = Some(own.unwrap_or_else(|| ids.session(started).to_string()));
            let task = self.take(chain, Some(&imported))?;
            imported.tasks.push(task);
        }
        Ok(imported)
    }

    /// Begin the session. An empty one of that id was left by an import that did not come to its end.
    fn create(&self, new: NewSession, started: Millis) -> Result<(), StoreError> {
        let store = self.opened.archive.store();
        match store.session(&new.id) {
            Ok(there) if there.messages == 0 && there.forked_from.is_none() => {
                store.remove(&Claim::unleased(&new.id), started)?;
            }
            Ok(_) | Err(StoreError::Missing { .. }) => {}
            Err(error) => return Err(error),
        }
        store.create(new, started).map(drop)
    }

    /// The messages under names that are theirs alone, so that a handle means one thing in the whole store.
    fn named(
        &self,
        mut messages: Vec<Message>,
        id: &SessionId,
        ids: &mut Ids,
        started: Millis,
    ) -> Vec<Message> {
        // Ids that come from a tool are in the store only if this session, or one it goes on from, is.
        let is_taken =
            |message: &Message| self.opened.archive.store().owner(message.info.id.as_str()).is_ok();
        let all = self.again || [messages.first(), messages.last()].into_iter().flatten().any(is_taken);
        let mut names: HashMap<MessageId, MessageId> = HashMap::new();
        for message in &mut messages {
            let at = message.info.time.as_ref().and_then(|time| time.created).unwrap_or(started);
            let short = message.info.id.as_str().len() < UNIQUE;
            if all || short {
                let name = ids.message(at);
                names.insert(std::mem::replace(&mut message.info.id, name.clone()), name);
            }
            for part in &mut message.parts {
                if all || short || part.id.as_str().len() < UNIQUE {
                    part.id = ids.part(at);
                    part.extra.entry("id").and_modify(|own| *own = part.id.as_str().into());
                }
                let places = [("sessionID", id.as_str()), ("messageID", message.info.id.as_str())];
                for (key, value) in places {
                    part.extra.entry(key).and_modify(|own| *own = value.into());
                }
            }
            message.info.session_id = message.info.session_id.as_ref().map(|_| id.clone());
        }
        let renamed = |id: &mut MessageId| {
            if let Some(name) = names.get(id) {
                *id = name.clone();
            }
        };
        for message in &mut messages {
            message.info.parent_id.as_mut().map(renamed).unwrap_or_default();
            for part in &mut message.parts {
                if let PartBody::Compaction(marker) = &mut part.body {
                    marker.tail_start.as_mut().map(renamed).unwrap_or_default();
                }
            }
        }
        messages
    }
}

/// When a call was begun.
fn begun(part: &Part) -> Option<Millis> {
    part.as_tool().and_then(|tool| tool.state.time.start)
}

/// An id for a session that has none: the same for the same messages.
fn by_content(messages: &[Message]) -> SessionId {
    let mut hasher = blake3::Hasher::new();
    for message in messages {
        hasher.update(&serde_json::to_vec(message).unwrap_or_default());
    }
    SessionId::new(format!("ses_{}", &hasher.finalize().to_hex().as_str()[..26]))
}

//! Removal, purging and details of stored sessions.

use plimsoll::{Message, SessionId};
use plimsoll_formats::Recorded;
use plimsoll_store::{
    CompactionRecord, PageRequest, PurgeReport, PurgeTarget, Purged, Session, SpillRecord, Store, StoreError,
};
use serde::Serialize;

use crate::drive::with_hint;
use crate::error::HostError;
use crate::host::Host;
use crate::recorded::RecordedFigures;
use crate::store::OpenStore;

/// Next step if another process runs a session that is to be removed.
const REMOVE: &str = "pass `--force` to remove it anyway";

/// A session that was removed.
#[derive(Debug)]
#[non_exhaustive]
pub struct Removed {
    /// The session.
    pub session: Session,
    /// Number of its tasks, which were removed with it.
    pub tasks: usize,
    /// Bytes of its spilled outputs.
    pub spilled_bytes: u64,
}

/// Content that a purge destroys.
#[derive(Debug)]
pub enum PurgePlan {
    /// This content matches.
    Found(PurgeReport),
    /// Nothing matches. The number of interrupted purges that were finished instead.
    Nothing(PurgeReport, u64),
}

/// Details of a session.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SessionDetails {
    /// The session.
    #[serde(flatten)]
    pub session: Session,
    /// Sessions that were forked from it.
    pub forks: Vec<String>,
    /// Sessions that it started as tasks.
    pub tasks: Vec<String>,
    /// Compactions.
    pub compactions: Vec<CompactionRecord>,
    /// Number of receipts.
    pub receipts: usize,
    /// Recorded usage, with a cost by the prices of the models.
    pub recorded: RecordedFigures,
    /// Spilled outputs.
    pub spills: Vec<SpillRecord>,
    /// The newest messages, oldest of them first.
    pub newest: Vec<Message>,
}

impl OpenStore {
    /// Removes a session and its tasks. Returns `None` if it was already removed as a task of another one.
    pub fn remove(&self, session: Session, force: bool, host: &Host) -> Result<Option<Removed>, HostError> {
        let spills = match self.spills(&session.id) {
            Err(StoreError::Missing { .. }) => return Ok(None),
            other => other?,
        };
        let lease = self.lease(&session.id, force, REMOVE, host)?;
        let tasks = self.tasks_below(&session.id)?;
        // A running task prevents the removal; with `force`, its lease is taken over as well.
        let running = tasks.iter().filter(|_| force).map(|task| self.lease(task, force, REMOVE, host));
        let running = running.collect::<Result<Vec<_>, HostError>>()?;
        running.iter().try_for_each(|lease| self.archive.store().release(lease))?;
        let spilled_bytes = spills.iter().filter(|spill| spill.expired.is_none()).map(|spill| spill.bytes);
        let spilled_bytes = spilled_bytes.sum();
        let removal = self.archive.remove(&lease.claim(), host.now());
        self.archive.store().release(&lease)?;
        removal.map_err(|error| with_hint(error, REMOVE))?;
        Ok(Some(Removed { session, tasks: tasks.len(), spilled_bytes }))
    }

    /// Finds content that a purge would destroy. With `finish`, interrupted purges are finished if nothing matches: after a
    /// purge was killed, its pattern may no longer match although pages and copies still have to be cleaned.
    pub fn plan_purge(
        &self,
        session: &SessionId,
        target: &PurgeTarget,
        finish: bool,
        host: &Host,
    ) -> Result<PurgePlan, HostError> {
        let planned = host.during("searching", || self.archive.plan_purge(session, target));
        let report = planned.map_err(|error| match error {
            StoreError::Refused(why) => {
                // The last line of a `regex` error is its message. The lines before it mark the position.
                let (first, last) = (why.lines().next().unwrap_or(&why), why.lines().last().unwrap_or(&why));
                HostError::usage(match first == last {
                    true => why.clone(),
                    false => format!("invalid pattern: {}", last.trim_start_matches("error: ")),
                })
            }
            error => error.into(),
        })?;
        if !report.items.is_empty() {
            return Ok(PurgePlan::Found(report));
        }
        let finished = if finish { self.archive.finish_purges(host.now())? } else { 0 };
        Ok(PurgePlan::Nothing(report, finished))
    }

    /// Destroys content permanently. An unfinished purge is reported.
    pub fn purge(
        &self,
        session: &SessionId,
        target: &PurgeTarget,
        force: bool,
        host: &Host,
    ) -> Result<plimsoll::Receipt, HostError> {
        let lease = self.lease(session, force, "pass `--force` to purge it anyway", host)?;
        let purged = host.during("destroying", || self.archive.purge(&lease.claim(), target, host.now()));
        self.archive.store().release(&lease)?;
        let Purged { receipt, unfinished, .. } = purged?;
        if let Some(why) = &unfinished {
            host.note(format!("the purge is incomplete: {why}"));
        }
        Ok(receipt)
    }

    /// Returns the details of a session, with its newest messages.
    pub fn details(&self, session: Session, messages: u64) -> Result<SessionDetails, StoreError> {
        let store: &dyn Store = self.archive.store();
        let is_fork =
            |other: &&Session| other.forked_from.as_ref().is_some_and(|from| from.session == session.id);
        let all = self.sessions()?;
        let mut newest = Vec::new();
        if messages > 0 {
            newest =
                store.page(&session.id, &PageRequest { most: messages, ..PageRequest::default() })?.messages;
            newest.reverse();
        }
        let mut recorded = Recorded::default();
        plimsoll_session::each_message(store, &session.id, &mut |message| recorded.add_message(&message))?;
        Ok(SessionDetails {
            forks: all.iter().filter(is_fork).map(|fork| fork.id.to_string()).collect(),
            tasks: self.children(&session.id)?.iter().map(|task| task.id.to_string()).collect(),
            compactions: store.compactions(&session.id, None, u64::MAX)?,
            receipts: self.receipts(&session.id)?.len(),
            recorded: RecordedFigures::at(&recorded, Some(session.created)),
            spills: self.spills(&session.id)?,
            newest,
            session,
        })
    }
}

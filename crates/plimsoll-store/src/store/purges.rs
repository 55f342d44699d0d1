//! Destroying content: the only exception to the append-only log.

use std::path::PathBuf;

use plimsoll::{Millis, PartId, Receipt, SessionId};
use serde::Serialize;

use super::Claim;
use crate::error::StoreError;

/// Destroying the content of a session. Methods block; see [`Store`](super::Store).
pub trait Purges {
    /// Returns what [`purge`](Purges::purge) would destroy in the log and in other records. The archive searches
    /// spilled outputs.
    fn plan_purge(&self, session: &SessionId, target: &PurgeTarget) -> Result<PurgeReport, StoreError>;

    /// Destroys content in the log, in marks, receipts and titles, and the spills with these hashes. A placeholder
    /// remains, and the receipt cannot be undone. Forks share their content, so they lose it too.
    /// [`finish_purges`](Purges::finish_purges) removes what remains in the file.
    fn purge(
        &self,
        claim: &Claim,
        target: &PurgeTarget,
        spills: Vec<String>,
        now: Millis,
    ) -> Result<Receipt, StoreError>;

    /// Removes what purges left in free pages, the write-ahead log and copies. Returns the number of purges that were
    /// finished, including those whose process died.
    fn finish_purges(&self) -> Result<u64, StoreError>;
}

/// Content to destroy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PurgeTarget {
    /// All matches of this regular expression.
    Match(String),
    /// A whole part.
    Part(PartId),
}

/// Content that a purge destroys, or would destroy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PurgeReport {
    /// The places.
    pub items: Vec<PurgeItem>,
    /// Other sessions with the same content: forks, and sessions that spilled the same output.
    pub sessions: Vec<SessionId>,
    /// Copies of the database from before an upgrade, which are deleted as a whole.
    pub copies: Vec<PathBuf>,
}

/// A record with content to destroy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PurgeItem {
    /// The session that it belongs to.
    pub session: SessionId,
    /// The part, message, receipt or spill.
    pub handle: String,
    /// Short description.
    pub what: String,
    /// Number of matches in it.
    pub places: u64,
}

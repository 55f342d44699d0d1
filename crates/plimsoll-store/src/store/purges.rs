//! Destroying content: the one door through which the log is not append-only.

use std::path::PathBuf;

use plimsoll::{Millis, PartId, Receipt, SessionId};
use serde::Serialize;

use super::Claim;
use crate::error::StoreError;

/// Destroying what a session says. Methods block; see the [module](super).
pub trait Purges {
    /// What [`purge`](Purges::purge) would destroy in the log and beside it; spilled outputs are looked through by the
    /// archive.
    fn plan_purge(&self, session: &SessionId, target: &PurgeTarget) -> Result<PurgeReport, StoreError>;

    /// Destroy content in the log, in marks, receipts and titles, and the spills with these hashes. What is left in its
    /// place says so, and the receipt cannot be undone. Content that forks share is one and the same, so they lose it too.
    /// What is left of it in the file is removed by [`finish_purges`](Purges::finish_purges).
    fn purge(
        &self,
        claim: &Claim,
        target: &PurgeTarget,
        spills: Vec<String>,
        now: Millis,
    ) -> Result<Receipt, StoreError>;

    /// Remove what purges left in free pages, the write-ahead log and copies; gives how many purges were finished. A purge
    /// whose process died is finished by this.
    fn finish_purges(&self) -> Result<u64, StoreError>;
}

/// What is to be destroyed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PurgeTarget {
    /// Whatever matches this regular expression.
    Match(String),
    /// All of a part.
    Part(PartId),
}

/// What a purge would destroy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PurgeReport {
    /// The places.
    pub items: Vec<PurgeItem>,
    /// Other sessions that show the same content, because they were forked or spilled the same output.
    pub sessions: Vec<SessionId>,
    /// Copies of the database from before an upgrade, which are removed as a whole.
    pub copies: Vec<PathBuf>,
}

/// A place with something to be destroyed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PurgeItem {
    /// The session whose content it is.
    pub session: SessionId,
    /// The part, message, receipt or spill.
    pub handle: String,
    /// What it is, in a few words.
    pub what: String,
    /// In how many places of it something matches.
    pub places: u64,
}

//! Results of a purge.

use serde::{Deserialize, Serialize};

use crate::log::{PartId, SessionId};

/// Places of permanently destroyed content, without the content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PurgePlan {
    /// The parts of the log that lost content.
    pub parts: Vec<PartId>,
    /// Handles of spilled outputs that were destroyed completely.
    pub spills: Vec<String>,
    /// Number of places where content was destroyed.
    pub places: u64,
    /// Other sessions with the same content.
    pub sessions: Vec<SessionId>,
}

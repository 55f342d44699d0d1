//! Positions at which reading a growing session can be resumed.
//!
//! Trees and rollbacks require reading a file from its beginning, because a later line may change the meaning of an
//! earlier one. Usually it does not: appended records continue from the last one. A reading therefore returns a
//! position before which nothing changes any more ([`Restart`]), and [`visit_from`](crate::visit_from) reads from
//! there. If a later line does refer back, that is reported, and the file must be read from its beginning.

use std::sync::Arc;

use plimsoll::{MessageId, SessionId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::format::Format;

/// A position at which reading can resume: a record that begins a message while no earlier message waits for results. In
/// sessions of Claude Code, Codex and pi, the first message is followed by one.
///
/// A restart can be stored and used by a later process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Restart {
    pub(crate) format: Format,
    pub(crate) offset: u64,
    pub(crate) message: MessageId,
    /// Number of earlier messages, because messages without an id are numbered.
    pub(crate) place: usize,
    pub(crate) session: Option<SessionId>,
    /// The newest earlier user message that begins a turn.
    pub(crate) user: Option<MessageId>,
    /// State of Codex' reader: the model, and the newest count of tokens.
    pub(crate) model: Option<String>,
    pub(crate) counted: Option<Arc<Value>>,
}

impl Restart {
    /// Offset of the record in the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The first message that is read from there.
    pub fn message(&self) -> &MessageId {
        &self.message
    }
}

//! Where the reading of a session that is being written can be taken up again.
//!
//! The readers of trees and of turns that can be taken back go through a file from its beginning, because a later line
//! may change what an earlier one means. Mostly it does not: what is appended goes on from the last record. So a reading
//! says where nothing before can change any more ([`Restart`]), and [`visit_from`](crate::visit_from) reads from there. Where a later line
//! does reach back, it says so, and the file has to be read from its beginning.

use plimsoll::{MessageId, SessionId};
use serde_json::Value;

use crate::format::Format;

/// The record with which a message begins, where no message before it waits for anything. Claude Code's, Codex' and pi's
/// sessions have one as soon as something was said.
#[derive(Clone, Debug, PartialEq)]
pub struct Restart {
    pub(crate) format: Format,
    pub(crate) offset: u64,
    pub(crate) message: MessageId,
    /// How many messages came before: those without a name of their own are numbered.
    pub(crate) place: usize,
    pub(crate) session: Option<SessionId>,
    /// The newest turn of the user before.
    pub(crate) user: Option<MessageId>,
    /// What Codex' reader knows from earlier records: the model, and the newest count of tokens.
    pub(crate) model: Option<String>,
    pub(crate) counted: Option<Value>,
}

impl Restart {
    /// The byte of the file with which the record begins.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The first message that is read from there.
    pub fn message(&self) -> &MessageId {
        &self.message
    }
}

//! The answer that is being written, as the driver holds it.

use plimsoll::{MessageId, Millis, PartId};

use crate::meter::Weighed;

/// The answer that is being written.
pub(crate) struct Writing {
    pub(crate) message: MessageId,
    /// The part that grows, if one does.
    pub(crate) part: Option<Growing>,
    /// What was taken and is not stored yet, and since when it waits.
    pub(crate) pending: String,
    pub(crate) waiting_since: Option<Millis>,
    /// What was sent for this answer.
    pub(crate) sent: Option<Weighed>,
}

pub(crate) struct Growing {
    pub(crate) id: PartId,
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Thinking,
    Call,
}

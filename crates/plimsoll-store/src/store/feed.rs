//! What changed, in order, for readers in other processes.

use plimsoll::{MessageId, PartId, SessionId};
use serde::{Deserialize, Serialize};

use super::Revision;
use crate::error::StoreError;

/// The place of a change among all changes of a store. Changes become visible in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Sequence(pub u64);

/// The change feed of a store. Methods block; see the [module](super).
pub trait Feed {
    /// What changed after `since`, oldest first, no more than `most` of it (0 means 1,000).
    fn changes(&self, since: Sequence, most: u64) -> Result<ChangePage, StoreError>;

    /// The newest change: where a reader begins who wants only what comes.
    fn newest_change(&self) -> Result<Sequence, StoreError>;
}

/// Some changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangePage {
    /// The changes, oldest first.
    pub changes: Vec<Change>,
    /// What to ask for next.
    pub next: Sequence,
    /// Changes between what was asked for and the first of these are gone: the reader must look at the sessions
    /// themselves and go on from here.
    pub gap: bool,
}

/// One change. It says where to look, not what is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// Its place among all changes.
    pub sequence: Sequence,
    /// The session.
    pub session: SessionId,
    /// The session's revision after it.
    pub revision: Revision,
    /// What was done.
    pub kind: ChangeKind,
    /// To which message.
    pub message: Option<MessageId>,
    /// To which part.
    pub part: Option<PartId>,
}

/// What a change did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum ChangeKind {
    /// A session was begun, perhaps as a fork.
    Created,
    /// What is said about a session changed.
    Patched,
    /// A session was removed.
    Removed,
    /// A message was appended.
    Appended,
    /// A part was appended.
    PartAppended,
    /// A part went forward.
    Advanced,
    /// A text grew by a delta.
    Extended,
    /// Something became known about a message, perhaps its end.
    Recorded,
    /// The window was reduced, or text was pinned.
    Reduced,
    /// A reduction was undone.
    Undone,
    /// A lease was taken, and what was left half done was settled.
    Leased,
    /// A lease was given back.
    Released,
    /// The inbox changed.
    Noted,
    /// A task was begun or moved.
    Task,
    /// Content was destroyed.
    Purged,
    /// A session was brought up to date with the source it was imported from.
    Imported,
}

impl ChangeKind {
    /// All kinds, with the names a database keeps them under.
    const NAMES: [(ChangeKind, &'static str); 16] = [
        (ChangeKind::Created, "created"),
        (ChangeKind::Patched, "patched"),
        (ChangeKind::Removed, "removed"),
        (ChangeKind::Appended, "appended"),
        (ChangeKind::PartAppended, "partAppended"),
        (ChangeKind::Advanced, "advanced"),
        (ChangeKind::Extended, "extended"),
        (ChangeKind::Recorded, "recorded"),
        (ChangeKind::Reduced, "reduced"),
        (ChangeKind::Undone, "undone"),
        (ChangeKind::Leased, "leased"),
        (ChangeKind::Released, "released"),
        (ChangeKind::Noted, "noted"),
        (ChangeKind::Task, "task"),
        (ChangeKind::Purged, "purged"),
        (ChangeKind::Imported, "imported"),
    ];

    /// The name a database keeps it under.
    pub(crate) fn name(self) -> &'static str {
        ChangeKind::NAMES.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }

    /// The kind of that name.
    pub(crate) fn named(name: &str) -> Option<ChangeKind> {
        ChangeKind::NAMES.iter().find(|(_, known)| *known == name).map(|(kind, _)| *kind)
    }
}

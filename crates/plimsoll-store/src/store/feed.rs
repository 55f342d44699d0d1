//! The change feed, for readers in other processes.

use plimsoll::{MessageId, PartId, SessionId};
use serde::{Deserialize, Serialize};

use super::Revision;
use crate::error::StoreError;

/// Position of a change among all changes of a store. Changes become visible in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Sequence(pub u64);

/// The change feed of a store. Methods block; see [`Store`](super::Store).
pub trait Feed {
    /// Changes after `since`, oldest first, at most `most` (0 means 1,000).
    fn changes(&self, since: Sequence, most: u64) -> Result<ChangePage, StoreError>;

    /// Position of the newest change, for readers that only want later ones.
    fn newest_change(&self) -> Result<Sequence, StoreError>;
}

/// A page of changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ChangePage {
    /// The changes, oldest first.
    pub changes: Vec<Change>,
    /// Position to continue from.
    pub next: Sequence,
    /// Whether changes between the requested position and the first of these were trimmed. The reader must then read
    /// the sessions themselves and continue from here.
    pub gap: bool,
}

/// A change. It names what changed, without the content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Change {
    /// Position among all changes.
    pub sequence: Sequence,
    /// The session.
    pub session: SessionId,
    /// The session's revision after the change.
    pub revision: Revision,
    /// Kind of the change.
    pub kind: ChangeKind,
    /// The message that changed.
    pub message: Option<MessageId>,
    /// The part that changed.
    pub part: Option<PartId>,
}

/// Kinds of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum ChangeKind {
    /// A session was created, perhaps as a fork.
    Created,
    /// A session's metadata changed.
    Patched,
    /// A session was removed.
    Removed,
    /// A message was appended.
    Appended,
    /// A part was appended.
    PartAppended,
    /// A part advanced.
    Advanced,
    /// A text grew by a delta.
    Extended,
    /// Metadata of a message changed, perhaps its end.
    Recorded,
    /// The window was reduced, or text was pinned.
    Reduced,
    /// A reduction was undone.
    Undone,
    /// A lease was taken, and interrupted work was settled.
    Leased,
    /// A lease was released.
    Released,
    /// The inbox changed.
    Noted,
    /// A task was created or changed its status.
    Task,
    /// Content was destroyed.
    Purged,
    /// A session was brought up to date with the source it was imported from.
    Imported,
}

impl ChangeKind {
    /// All kinds, with their names in the database.
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

    /// Name in the database.
    pub(crate) fn name(self) -> &'static str {
        ChangeKind::NAMES.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }

    /// Returns the kind with that name.
    pub(crate) fn named(name: &str) -> Option<ChangeKind> {
        ChangeKind::NAMES.iter().find(|(_, known)| *known == name).map(|(kind, _)| *kind)
    }
}

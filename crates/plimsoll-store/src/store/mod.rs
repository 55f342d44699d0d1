//! The traits of a store: one per concern, and [`Store`] as their sum.

mod claim;
mod feed;
mod handles;
mod imports;
mod inbox;
mod leases;
mod logs;
mod purges;
mod reductions;
mod session;
mod sessions;
mod spills;
mod tasks;
mod upkeep;

pub(crate) use crate::revision::Revision;
pub use claim::{Claim, Epoch};
pub use feed::{Change, ChangeKind, ChangePage, Feed, Sequence};
pub use handles::{HandleMatch, HandleTarget, Handles};
pub use imports::{
    ABANDONED, Conversation, GrownMessage, Import, ImportRecord, Imported, Imports, StagedPiece,
};
pub use inbox::{Inbox, NewNote, Note};
pub(crate) use leases::settle_call;
pub use leases::{Lease, LeaseRecord, Leases, NewLease, Settled, TakeOver, settle_calls};
pub use logs::{Logs, Snapshot};
pub use purges::{PurgeItem, PurgeReport, PurgeTarget, Purges};
pub use reductions::Reductions;
pub use session::{
    CompactionRecord, Damage, Filter, Findings, ForkPoint, Loss, NewSession, Page, PageRequest, Session,
    SessionPatch, Totals,
};
pub use sessions::Sessions;
pub use spills::{ExpiredSpill, SpillPage, SpillRecord, Spills};
pub use tasks::{NewTask, TaskFilter, TaskMove, TaskRecord, Tasks};
pub use upkeep::{IndexStep, SessionReader, Upkeep};

/// Everything a host needs from a store. Implemented for every type that implements all of its traits.
///
/// # Contract
///
/// - **The traits block.** A call may wait for a disk, a network or another writer. An async host never calls them on
///   its own threads.
/// - **A write carries a [`Claim`].** It names the session and the epoch of the writer's lease. The store compares the
///   epoch with the session's own inside the transaction and refuses a former holder.
/// - **When a method that writes returns, what it wrote survives the death of the process.** When it fails, nothing has
///   changed.
/// - **Content is append-only.** The only changes are the growth of a part that is being written, tool calls that
///   advance, and marks. Only [`Sessions::remove`] and [`Purges::purge`] delete anything.
/// - **Lists that can be long come in pages.** No method needs a listing of a whole bucket or table.
pub trait Store:
    Sessions
    + Imports
    + Logs
    + Reductions
    + Leases
    + Inbox
    + Tasks
    + Feed
    + Handles
    + Spills
    + Purges
    + Upkeep
    + Send
    + Sync
{
}

impl<T> Store for T where
    T: Sessions
        + Imports
        + Logs
        + Reductions
        + Leases
        + Inbox
        + Tasks
        + Feed
        + Handles
        + Spills
        + Purges
        + Upkeep
        + Send
        + Sync
{
}

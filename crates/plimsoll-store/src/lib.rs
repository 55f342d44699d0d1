#![doc = include_str!("../README.md")]

mod archive;
mod blobs;
mod clock;
mod count_watch;
mod counts;
mod error;
mod holder;
mod memory;
mod purge;
mod random;
mod recall;
mod revision;
mod sqlite;
mod stop;
mod store;

pub use archive::{
    Archive, CapturedOutput, KEPT_PREFIX, KeptFile, Purged, Retention, SWEEP, SweepReport, Sweeper, handles,
};
pub use blobs::{Blob, Blobs, Directory, MemoryBlobs, Staged};
pub use clock::{Clock, utc};
pub use count_watch::CountWatch;
pub use counts::PartCounts;
pub use error::{Cause, StoreError};
pub use holder::{holder_is_gone, holder_name, process_holder};
pub use memory::MemoryStore;
pub use random::random_ids;
pub use recall::{Hit, Line, Recall, Recalled, Scope, Search, Selection};
pub use revision::Revision;
pub use sqlite::{Durability, SqliteStore, database_of_version};
pub use stop::StopFlag;
pub use store::{
    ABANDONED, Change, ChangeKind, ChangePage, Claim, CompactionRecord, Conversation, Damage, Epoch,
    ExpiredSpill, Feed, Filter, Findings, ForkPoint, GrownMessage, HandleMatch, HandleTarget, Handles,
    Import, ImportRecord, Imported, Imports, Inbox, IndexStep, Lease, LeaseRecord, Leases, Logs, Loss,
    NewLease, NewNote, NewSession, NewTask, Note, Page, PageRequest, PurgeItem, PurgeReport, PurgeTarget,
    Purges, Reductions, Sequence, Session, SessionPatch, SessionReader, Sessions, Settled, Snapshot,
    SpillPage, SpillRecord, Spills, StagedPiece, Store, TakeOver, TaskFilter, TaskMove, TaskRecord, Tasks,
    Totals, Upkeep, settle_calls,
};

use plimsoll::{LogError, MessageId, Part, PartBody, ToolStatus};
use serde_json::Value;

/// Error of a call whose process ended before it answered.
pub(crate) const INTERRUPTED: &str = "Interrupted: the process that ran this tool ended before it answered.";

/// Error of an answer whose process ended before it was complete.
pub(crate) const INTERRUPTED_ANSWER: &str =
    "Interrupted: the process that wrote this answer ended before it was done.";

/// Whether the model's answer is incomplete.
pub(crate) fn is_unfinished(message: &plimsoll::Message) -> bool {
    // Some tools record when an answer was complete, but not why it ended.
    let completed = message.info.time.as_ref().is_some_and(|time| time.completed.is_some());
    message.is_assistant() && !message.is_finished() && !completed
}

/// Whether something may still be added to a message: its answer is incomplete, or one of its calls is open.
pub(crate) fn is_being_written(message: &plimsoll::Message) -> bool {
    let is_open = |status: &ToolStatus| matches!(status, ToolStatus::Pending | ToolStatus::Running);
    let waits = |part: &plimsoll::Part| part.as_tool().is_some_and(|tool| is_open(&tool.state.status));
    is_unfinished(message) || message.parts.iter().any(waits)
}

/// Returns the text that streams in pieces: that of a part, or the raw input of a call that has not started.
pub(crate) fn text_in_pieces(part: &Part) -> Option<&str> {
    match &part.body {
        PartBody::Text(said) => Some(said.text.as_str()),
        PartBody::Reasoning(thought) => Some(thought.text.as_str()),
        PartBody::Tool(tool) => Some(tool.state.extra.get("raw").and_then(Value::as_str).unwrap_or_default()),
        _ => None,
    }
}

/// Accepts a delta that repeats what is already stored. Otherwise an earlier delta was lost, or the caller rewrites
/// text.
pub(crate) fn repeated_delta(part: &Part, from: u64, more: &str) -> Result<(), StoreError> {
    let rewrite = |why| Err(StoreError::Log(LogError::Rewrite { id: part.id.clone(), why }));
    let Some(text) = text_in_pieces(part) else {
        return rewrite("only text, reasoning and the input of a call can be streamed");
    };
    let there = usize::try_from(from).ok().and_then(|from| text.as_bytes().get(from..));
    match there {
        Some(there) if there.starts_with(more.as_bytes()) => Ok(()),
        Some(_) => rewrite("the delta starts before the end of the text and differs from it"),
        None => rewrite("the delta starts after the end of the text: an earlier delta is missing"),
    }
}

/// Error of a fork that would share a message that is still being written.
pub(crate) fn still_written(open: &MessageId, upto: &MessageId) -> StoreError {
    StoreError::Refused(if open == upto {
        format!("message `{upto}` is still being written; fork before it, or when it is finished")
    } else {
        format!(
            "message `{open}`, before `{upto}`, is still being written; fork before it, or when it is finished"
        )
    })
}

/// Error of a change to inherited content.
pub(crate) fn inherited(what: &str) -> StoreError {
    StoreError::Refused(format!("`{what}` belongs to the session that this one was forked from"))
}

/// Error of a change to content that forks share.
pub(crate) fn shared(what: &str) -> StoreError {
    StoreError::Refused(format!("`{what}` is shared with a fork of this session"))
}

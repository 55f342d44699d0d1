//! The store: sessions that lose nothing.
//!
//! An [`Archive`] is a [`Store`] of sessions and a place for spilled outputs. The embedded default is one SQLite file
//! with a directory beside it; [`MemoryStore`] is for tests. Others can stand behind the same traits, [`Store`] (the sum
//! of one trait for each thing that belongs together) and [`Blobs`], which know nothing of SQLite or of files.
//!
//! ```
//! use plimsoll::{Message, Millis, Policy, SessionId};
//! use plimsoll_store::{Archive, Claim, Durability, NewSession, Scope, Selection};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("plimsoll.db");
//! let (policy, now) = (Policy::default(), Millis(1_794_775_451_033));
//! let archive = Archive::open(&path, &policy, Durability::Process)?;
//! let session = archive.store().create(NewSession::new(SessionId::new("ses_1")), now)?.id;
//! let claim = Claim::unleased(&session);
//!
//! // What is acknowledged survives the death of the process.
//! archive.store().append(&claim, vec![Message::user("msg_1".into(), "prt_1".into(), "Build it")], now)?;
//!
//! // A tool's output is cut as it arrives; the whole is kept before anybody is told.
//! let output = "line\n".repeat(100_000);
//! let taken = archive.take_output(&claim, &"prt_2".into(), "bash", &mut output.as_bytes(), &policy, now)?;
//! assert!(taken.shown.len() < 60_000);
//! let handle = taken.receipt.unwrap().handles[0].to_string();
//! let wanted = Selection { lines: Some((99_998, 99_999)), ..Selection::default() };
//! let found = archive.recall(Scope::Session(&session), &handle, &wanted)?.found;
//! assert_eq!((found.text().as_str(), found.all_lines), ("line\nline", 100_000));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ## What it promises
//!
//! - **Content is append-only.** A part grows while it is written, a call goes from asked to answered, marks are set
//!   beside the log. Nothing else changes, and no method takes anything away but [`Sessions::remove`].
//! - **What is acknowledged is there**, after `kill -9`; with [`Durability::Power`] after a power cut too.
//! - **A failed step leaves things as they were.**
//! - **Reading is by window**: what a turn costs does not depend on how long the session is.
//! - **A fork copies nothing**, sees nothing of what its parent does later, and survives its parent.

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
pub mod store;

pub use archive::{Archive, KEPT, Keeping, Purged, Retention, SWEEP, Sweeper, Swept, Taken, handles};
pub use blobs::{Blob, Blobs, Directory, MemoryBlobs, Staged};
pub use clock::Clock;
pub use count_watch::CountWatch;
pub use counts::PartCounts;
pub use error::{Cause, StoreError};
pub use holder::{holder_is_gone, holder_name, process_holder};
pub use memory::MemoryStore;
pub use random::random_ids;
pub use recall::{Hit, Line, Recall, Recalled, Scope, Search, Selection};
pub use revision::Revision;
pub use sqlite::{Durability, SqliteStore, database_of_version};
pub use store::{
    Change, ChangeKind, ChangePage, Claim, CompactionRecord, Conversation, Damage, Epoch, ExpiredSpill, Feed,
    Filter, Findings, ForkPoint, GrownMessage, HandleMatch, HandleTarget, Handles, Import, ImportRecord,
    Imported, Imports, Inbox, IndexStep, Lease, LeaseRecord, Leases, Logs, Loss, NewLease, NewNote,
    NewSession, NewTask, Note, Page, PageRequest, PurgeItem, PurgeReport, PurgeTarget, Purges, Reductions,
    Sequence, Session, SessionPatch, Sessions, Settled, Snapshot, SpillPage, SpillRecord, Spills,
    StagedPiece, Store, TakeOver, TaskFilter, TaskMove, TaskRecord, Tasks, Totals, Upkeep, settle_calls,
};

use plimsoll::{LogError, MessageId, Part, PartBody, ToolStatus};
use serde_json::Value;

/// Says of a call that it will not be answered any more.
pub(crate) const INTERRUPTED: &str = "Interrupted: the process that ran this tool ended before it answered.";

/// Says of an answer that it will not be finished any more.
pub(crate) const INTERRUPTED_ANSWER: &str =
    "Interrupted: the process that wrote this answer ended before it was done.";

/// Whether the model's answer has no end yet.
pub(crate) fn is_unfinished(message: &plimsoll::Message) -> bool {
    // Some tools record when an answer was complete and not why.
    let completed = message.info.time.as_ref().is_some_and(|time| time.completed.is_some());
    message.is_assistant() && !message.is_finished() && !completed
}

/// Whether something may still be added to a message: its answer is not finished, or a call waits for its own.
pub(crate) fn is_being_written(message: &plimsoll::Message) -> bool {
    let is_open = |status: &ToolStatus| matches!(status, ToolStatus::Pending | ToolStatus::Running);
    let waits = |part: &plimsoll::Part| part.as_tool().is_some_and(|tool| is_open(&tool.state.status));
    is_unfinished(message) || message.parts.iter().any(waits)
}

/// What is said in pieces: the text of a part, or the input of a call that the model still writes.
pub(crate) fn text_in_pieces(part: &Part) -> Option<&str> {
    match &part.body {
        PartBody::Text(said) => Some(said.text.as_str()),
        PartBody::Reasoning(thought) => Some(thought.text.as_str()),
        PartBody::Tool(tool) => Some(tool.state.extra.get("raw").and_then(Value::as_str).unwrap_or_default()),
        _ => None,
    }
}

/// A delta that does not begin where a text ends is one that came before, or the one before it was lost.
pub(crate) fn repeated_delta(part: &Part, from: u64, more: &str) -> Result<(), StoreError> {
    let rewrite = |why| Err(StoreError::Log(LogError::Rewrite { id: part.id.clone(), why }));
    let Some(text) = text_in_pieces(part) else {
        return rewrite("only text, reasoning and the input of a call come in pieces");
    };
    let there = usize::try_from(from).ok().and_then(|from| text.as_bytes().get(from..));
    match there {
        Some(there) if there.starts_with(more.as_bytes()) => Ok(()),
        Some(_) => rewrite("the delta begins before the end of the text, and says something else"),
        None => rewrite("the delta begins after the end of the text: one before it is missing"),
    }
}

/// A fork may not share a message that is still being written.
pub(crate) fn still_written(open: &MessageId, upto: &MessageId) -> StoreError {
    StoreError::Refused(if open == upto {
        format!("message `{upto}` is still being written; fork before it, or once it is finished")
    } else {
        format!(
            "message `{open}`, before `{upto}`, is still being written; fork before it, or once it is finished"
        )
    })
}

/// What a fork inherits it cannot change.
pub(crate) fn inherited(what: &str) -> StoreError {
    StoreError::Refused(format!("`{what}` belongs to the session this was forked from"))
}

/// What forks share stays as it is.
pub(crate) fn shared(what: &str) -> StoreError {
    StoreError::Refused(format!("`{what}` is shared with a session that was forked from this one"))
}

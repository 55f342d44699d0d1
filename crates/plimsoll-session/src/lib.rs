#![doc = include_str!("../README.md")]

mod builder;
mod changes;
mod climb;
mod driver;
mod error;
mod meter;
mod output;
mod overhead;
mod reduced;
#[cfg(feature = "async")]
mod session;
mod settings;
mod stop;
mod usage_scale;

/// The session on the calling thread, for hosts without an async runtime: replays and one-shot commands.
///
/// The operations are those of [`Session`] and [`SessionHandle`], without `await`.
///
/// ```
/// use std::sync::Arc;
/// use plimsoll_session::blocking::Driver;
/// use plimsoll_session::{AnswerEvent, Archive, Prepared};
///
/// let mut driver = Driver::builder(Arc::new(Archive::in_memory())).model("some-model").open_blocking()?;
/// driver.prompt("How deep is the harbour?")?;
/// let Prepared::Ready(request) = driver.prepare()? else { panic!("it is short") };
/// assert_eq!(request.window.messages.len(), 1);
/// // … send it, and write the answer as it streams:
/// let mut answer = request.begin_answer(None)?;
/// for delta in ["Nine ", "metres."] {
///     answer.write(AnswerEvent::Text(delta.into()))?;
/// }
/// answer.write(AnswerEvent::Finished { reason: "stop".into(), usage: None })?;
/// assert_eq!(answer.finish()?.message.text(), "Nine metres.");
/// driver.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub mod blocking {
    pub use crate::driver::{AnswerWriter, Driver, FinishedAnswer, Request, SummaryCall, ToolCall};
}

pub use builder::SessionBuilder;
pub use changes::{
    CallTrace, ChangeHistory, FileChange, FileOp, KnownTools, NOTES_KEY, RevertRecord, TurnHead, seen_files,
};
pub use climb::{Climb, ClimbOutcome, ClimbStep, SummaryFailure};
pub use driver::{
    Content, FLUSH_AFTER, ForkContent, ForkRequest, Forked, Identities, Inspection, Kinds, NextReductions,
    PendingCall, Prepared, Pruned, look_up,
};
pub use error::SessionError;
pub use output::OutputSink;
pub use overhead::Overhead;
#[cfg(feature = "async")]
pub use session::{
    AnswerWriter, Compaction, FinishedAnswer, Request, RevertRecorder, Session, SessionHandle, SummaryCall,
    ToolCall,
};
pub use settings::{Counting, Figures, SessionModel};
pub use usage_scale::UsageScale;

// Types of the crates below that hosts need, so that they depend on this crate only.
pub use plimsoll::compact::accept::{Rejection, Reply};
pub use plimsoll::compact::ladder::{Burden, Outcome, Verdict};
pub use plimsoll::compact::request::{HookText, Summariser, SummaryForm, SummaryRequest};
pub use plimsoll::fork::history::Identity;
pub use plimsoll::pin::PinTarget;
pub use plimsoll::prune::{PruneChoice, PrunePlan};
pub use plimsoll::purse::CacheTerms;
pub use plimsoll::recall::{RecallAnswer, RecallQuery, RecallTool};
pub use plimsoll::{
    AnswerEvent, BelievedUsage, Block, CachePlan, CharCounter, Counter, Fixed, Ids, Limits, Line, Load, Log,
    Message, MessageId, Millis, Part, PartBody, PartId, Plan, Policy, PolicySpec, Preset, Receipt, ReceiptId,
    Role, Scale, SessionId, Text, Tokens, ToolState, ToolStatus, Usage, Window, WindowMessage, WindowRole,
};
pub use plimsoll_store::{
    Archive, Clock, Durability, Filter, Lease, NewSession, Note, PageRequest, Session as SessionRecord,
    StoreError, TakeOver, Taken,
};
pub use plimsoll_tokens::{ModelPrice, ModelTable, Observed};

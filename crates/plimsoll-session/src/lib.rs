#![doc = include_str!("../README.md")]

mod builder;
mod changes;
mod climb;
mod driver;
mod error;
mod inspect;
mod meter;
mod output;
mod overhead;
mod reduced;
mod scale;
#[cfg(feature = "async")]
mod session;
mod settings;
mod stop;
mod stored;
mod usage_gate;

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
    CallTrace, ChangeHistory, FileChange, FileOp, KnownTools, NOTES_KEY, RevertRecord, TurnHead, begins_turn,
    seen_files,
};
pub use climb::{Climb, ClimbOutcome, ClimbStep, SummaryFailure};
pub use driver::{
    Content, FLUSH_AFTER, ForkContent, ForkRequest, Forked, Identities, NextReductions, PendingCall,
    PlannedPrune, Prepared, Pruned, SessionLoad, look_up,
};
pub use error::SessionError;
pub use inspect::{
    ContentKind, Describer, Item, LargeOutput, LogReport, MeasuredBy, Rebuilt, Repeated, Share, Turn,
    Weigher, WindowReport, is_user_prompt, percent, percents,
};
pub use output::OutputSink;
pub use overhead::Overhead;
pub use scale::{UsageScale, WindowScale, WindowSize};
#[cfg(feature = "async")]
pub use session::{
    AnswerWriter, Compaction, FinishedAnswer, Request, RevertRecorder, Session, SessionHandle, SummaryCall,
    ToolCall,
};
pub use settings::{Counting, Figures, SessionModel};
pub use stored::each_message;
pub use usage_gate::UsageGate;

// Types of the crates below that hosts need, so that they depend on this crate only.
pub use plimsoll::CacheTerms;
pub use plimsoll::compact::{
    FitResult, HookText, Outcome, OverflowBreakdown, Rejection, Reply, Summariser, SummaryForm,
    SummaryRequest,
};
pub use plimsoll::edit::{Edit, EditError};
pub use plimsoll::fork::Identity;
pub use plimsoll::pin::PinTarget;
pub use plimsoll::prune::{PruneChoice, PrunePlan};
pub use plimsoll::recall::{RecallAnswer, RecallQuery, RecallTool};
pub use plimsoll::{
    AnswerEvent, Block, CachePlan, CharCounter, Counter, Ids, Limits, Line, Load, Log, Message, MessageId,
    Millis, Part, PartBody, PartId, Plan, Policy, PolicySpec, Preset, Receipt, ReceiptId, RequestOverhead,
    Role, Scale, SessionId, Text, Tokens, ToolState, ToolStatus, Usage, UsageTrust, Window, WindowMessage,
    WindowRole,
};
pub use plimsoll_store::{
    Archive, CapturedOutput, Clock, Durability, Filter, Lease, NewSession, Note, PageRequest,
    Session as SessionRecord, StoreError, TakeOver,
};
pub use plimsoll_tokens::{ModelPrice, ModelTable, Observed};

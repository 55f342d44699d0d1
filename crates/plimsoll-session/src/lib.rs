//! The driver of a turn: what happens around a call of a model. The host makes the call.
//!
//! A host (an agent, a proxy, a command, a replay) opens a session and goes through the same steps in its own order:
//!
//! | step | does |
//! |---|---|
//! | [`Driver::open`] | takes the session's lease, loads what the window is made of |
//! | [`Driver::prompt`] | appends the user's words |
//! | [`Driver::prepare`] | weighs, climbs the ladder where needed, gives the request's content |
//! | [`Driver::begin_answer`], [`write`](Driver::write), [`end_answer`](Driver::end_answer) | takes the answer as it streams |
//! | [`Driver::start_call`], [`output`](Driver::output), [`finish_output`](Driver::finish_output) | takes what tools print through layer 1 |
//! | [`Driver::end_turn`] | prunes where the policy wants it then |
//! | [`Driver::undo`], [`pin`](Driver::pin), [`prune`](Driver::prune), [`compact`](Driver::compact), [`fork`](Driver::fork), [`inspect`](Driver::inspect), [`recall`](Driver::recall) | at any time |
//!
//! Nothing outside this crate sets marks, builds requests from logs or decides when to reduce; nothing inside it calls
//! a model. It blocks; async hosts use `DriverHandle` (feature `async`).
//!
//! ```
//! use std::sync::Arc;
//! use plimsoll::{Fixed, Ids, Millis, SessionId};
//! use plimsoll_session::{AnswerEnd, AnswerEvent, Driver, Prepared, Settings};
//! use plimsoll_store::{Archive, MemoryStore, NewSession};
//!
//! let archive = Arc::new(Archive::in_memory());
//! let session = SessionId::new("ses_1");
//! archive.store().create(NewSession::new(session.clone()), Millis(1))?;
//!
//! let mut driver = Driver::open(archive, &session, Settings::new("some-model"))?;
//! driver.prompt("How deep is the harbour?")?;
//! let Prepared::Ready(content) = driver.prepare(Fixed::default())? else { panic!("it is short") };
//! assert_eq!(content.window.messages.len(), 1);
//! // … send it, and take the answer as it comes:
//! driver.begin_answer(None)?;
//! for delta in ["Nine ", "metres."] {
//!     driver.write(AnswerEvent::Text(delta.into()))?;
//! }
//! driver.end_answer(AnswerEnd::Finished { reason: "stop".into(), usage: None, cost: None })?;
//! assert_eq!(driver.log().last().unwrap().text(), "Nine metres.");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod answer;
mod changes;
mod climb;
mod driver;
mod early;
mod error;
mod fork;
#[cfg(feature = "async")]
mod handle;
mod inspect;
mod meter;
mod output;
mod recall;
mod recorded;
mod reduced;
mod reductions;
mod settings;
mod stop;
mod usage_scale;
mod watch;

pub use answer::{AnswerEnd, AnswerEvent, BLOCK, FLUSH_AFTER};
pub use changes::{
    CallTrace, ChangeHistory, Deed, FileChange, KnownTools, NOTES_KEY, RevertRecord, TurnHead, seen_files,
};
pub use climb::{Climb, ClimbStep, Climbed, SummaryFailure};
pub use driver::{Content, Driver, Prepared};
pub use error::SessionError;
pub use fork::{Forked, Given, Identities};
#[cfg(feature = "async")]
pub use handle::DriverHandle;
pub use inspect::{Inspection, Kinds};
pub use output::OutputSink;
pub use recall::look_up;
pub use reductions::Pruned;
pub use settings::{Counting, Figures, Settings};
pub use stop::StopFlag;
pub use usage_scale::UsageScale;

//! Event streams.
//!
//! Sessions, messages and parts are reported only from the change feed of the store, whether this process or another one
//! changed them. A single source has a single order, and reports nothing twice. Events that are not stored, such as permission
//! questions and the status of runs, are reported when they happen.

mod feed;
mod hub;
mod replay;
mod run;

pub(crate) use feed::follow;
pub(crate) use hub::{Hub, QueueLimits, Reach};
pub(crate) use replay::Replays;
pub(crate) use run::{QuestionAsker, on_run_event, on_session_event};

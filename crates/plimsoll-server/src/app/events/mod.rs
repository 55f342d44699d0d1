//! Event streams.
//!
//! Sessions, messages and parts are reported only from the change feed of the store, whether this process or another one
//! changed them: one source has one order, and nothing is reported twice. What is not stored, such as permission questions
//! and the status of runs, is reported as it happens.

mod feed;
mod hub;
mod replay;
mod run;

pub(crate) use feed::follow;
pub(crate) use hub::{Hub, QueueLimits, Reach};
pub(crate) use replay::Replays;
pub(crate) use run::{QuestionAsker, on_run_event, on_session_event};

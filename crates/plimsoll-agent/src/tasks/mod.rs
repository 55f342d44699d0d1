//! Background tasks: sessions that work for another session.
//!
//! A [`TaskBoard`] runs them, a few at a time. A task is a session with a record in the store, whose ID is the
//! session's. The record is written before the model is asked, and the process that runs a task holds the lease of its
//! session from then on, also while the task waits for a slot. So a task whose record is active and whose lease is free
//! has lost its process, and is marked as interrupted. When a run ends, a note is put into the parent's inbox; the
//! parent's conversation takes it in before its next request, once.
//!
//! | to … | go to |
//! |---|---|
//! | give an agent the tools | [`TaskBoard::new`], [`Agent::with_tasks`](crate::Agent::with_tasks) |
//! | call what the tools call | [`TaskBoard::launch`], [`resume`](TaskBoard::resume), [`cancel`](TaskBoard::cancel), [`steer`](TaskBoard::steer), [`clear`](TaskBoard::clear) |
//! | inspect tasks | [`TaskBoard::tasks`], [`TaskBoard::find`], [`TaskView`] and the other texts |
//! | notify an idle conversation | [`Conversation::take_notes`](crate::Conversation::take_notes), [`Conversation::continue_run`](crate::Conversation::continue_run) |

mod background;
mod board;
mod bounds;
mod change;
mod claim;
mod fork;
mod ids;
mod launch;
mod limits;
mod progress;
mod reconcile;
mod roster;
mod runner;
mod spend;
mod tools;
mod watch;

/// Prefix of the tools for background tasks.
pub(crate) const TOOL_PREFIX: &str = "background_";

pub use crate::spend::{Spend, SpendMeter};
#[doc(hidden)]
pub use crate::task::TaskPoint;
pub use crate::task::{
    AGENT_REQUIRED, EndedRun, FORK_AND_RESUME, ForkFigures, ForkReceipt, ForkWay, IGNORED_IN_RESUME,
    NO_MESSAGES, NOTHING_TO_CLEAR, PROMPT_REQUIRED, RosterError, StoredBound, Task, TaskChange, TaskData,
    TaskError, TaskPhase, TaskProgress, TaskRun, TaskStatus, TaskView, TranscriptFilter, cleared_text,
    duration_text, ended_text, find_task, fork_text, list_text, short_id, toast_text, transcript_text,
};
pub use board::{Caller, Launch, ResumeOutcome, TaskBoard};
pub use change::Speaker;
pub use limits::TaskLimits;
pub use roster::{ConfiguredRoster, Roster, RosterAgent};
pub use spend::spend_below;
#[cfg(test)]
pub(crate) use tools::task_tool_names;

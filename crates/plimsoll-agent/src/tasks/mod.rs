//! Background tasks: sessions that work for another session, beside it.
//!
//! A [`TaskBoard`] runs them, a few at once. A task is a session with a record in the store; its id is the session's. The
//! record is written before the model is asked, and the process that runs a task holds the lease of its session from then
//! on, also while the task waits for a slot: a task whose record says that it runs and whose lease is free has lost its
//! process, and is marked as interrupted. When a run ends, a note goes into the parent's inbox; the parent's conversation
//! takes it in before its next request, once.
//!
//! | to … | go to |
//! |---|---|
//! | give an agent the tools | [`TaskBoard::new`], [`Agent::with_tasks`](crate::Agent::with_tasks) |
//! | do what the tools do | [`TaskBoard::launch`], [`resume`](TaskBoard::resume), [`cancel`](TaskBoard::cancel), [`steer`](TaskBoard::steer), [`clear`](TaskBoard::clear) |
//! | look at tasks | [`TaskBoard::tasks`], [`TaskBoard::find`], [`TaskView`] and the other texts |
//! | tell an idle conversation | [`Conversation::take_notes`](crate::Conversation::take_notes), [`Conversation::go_on`](crate::Conversation::go_on) |

mod board;
mod bounds;
mod change;
mod claim;
mod error;
mod figures;
mod fork;
mod ids;
mod launch;
mod limits;
mod notes;
mod probe;
mod progress;
mod reconcile;
mod roster;
mod runner;
mod spend;
mod status;
mod task;
mod text;
mod transcript;
mod watch;

/// How the names of the tools for background tasks begin.
pub(crate) const TOOL_PREFIX: &str = "background_";

pub use board::{Caller, Launch, ResumeOutcome, TaskBoard};
pub use bounds::StoredBound;
pub use change::Speaker;
pub use error::TaskError;
pub use figures::ForkFigures;
pub use ids::{find_task, short_id};
pub use limits::TaskLimits;
pub(crate) use notes::TOLD_KEY;
#[doc(hidden)]
pub use probe::TaskPoint;
pub use roster::{ConfiguredRoster, Roster, RosterAgent};
pub(crate) use spend::Reached;
pub use spend::{Spend, SpendMeter, spend_below};
pub use status::TaskStatus;
pub use task::{ForkReceipt, ForkWay, Task, TaskChange, TaskData, TaskPhase, TaskProgress, TaskRun};
pub use text::{
    AGENT_REQUIRED, EndedRun, FORK_AND_RESUME, IGNORED_IN_RESUME, NOTHING_TO_CLEAR, PROMPT_REQUIRED,
    TaskView, cleared_text, duration_text, ended_text, fork_text, list_text, toast_text,
};
pub use transcript::{NO_MESSAGES, TranscriptFilter, transcript_text};

//! The record of a background task: its stored form, its state transitions, and texts about it.
//!
//! Running tasks is the job of [`tasks`](crate::tasks).

mod bounds;
mod error;
mod figures;
mod ids;
mod notes;
mod probe;
mod record;
mod status;
mod text;
mod transcript;

pub use bounds::StoredBound;
pub use error::{RosterError, TaskError};
pub use figures::ForkFigures;
pub(crate) use ids::{PREFIX, SHORTEST, bare, beginning};
pub use ids::{find_task, short_id};
pub(crate) use notes::{ENDED, REPORTED_KEY, STEER, deliver_notes, note_id, task_reminder};
pub use notes::{PROMPT_NOTE, is_answered_note};
pub(crate) use probe::Probe;
#[doc(hidden)]
pub use probe::TaskPoint;
pub use record::{ForkReceipt, ForkWay, Task, TaskChange, TaskData, TaskPhase, TaskProgress, TaskRun};
pub use status::TaskStatus;
pub use text::{
    AGENT_REQUIRED, EndedRun, FORK_AND_RESUME, IGNORED_IN_RESUME, NOTHING_TO_CLEAR, PROMPT_REQUIRED,
    TaskView, cleared_text, duration_text, ended_text, fork_text, list_text, toast_text,
};
pub use transcript::{NO_MESSAGES, TranscriptFilter, transcript_text};

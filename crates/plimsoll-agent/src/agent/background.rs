//! Interface between the loop of an agent and background tasks.
//!
//! A conversation has tasks, and a task is a conversation. To break this cycle, the loop knows tasks only by this
//! trait, which [`TaskBoard`](crate::TaskBoard) implements.

use std::pin::Pin;
use std::sync::Arc;

use plimsoll::SessionId;
use plimsoll_session::Session;
use tokio_util::sync::CancellationToken;

use super::Agent;
use crate::error::AgentError;
use crate::spend::SpendMeter;
use crate::task::TaskPoint;

/// Future of an operation on tasks.
pub type TasksFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, AgentError>> + Send + 'a>>;

/// A session that waits for its tasks.
#[non_exhaustive]
pub struct AwaitingSession<'a> {
    /// The agent that runs the session. It receives an event for each message that is appended.
    pub agent: &'a Agent,
    /// The session, to which notes are appended.
    pub session: &'a mut Session,
}

impl<'a> AwaitingSession<'a> {
    pub(crate) fn new(agent: &'a Agent, session: &'a mut Session) -> AwaitingSession<'a> {
        AwaitingSession { agent, session }
    }
}

/// Runs background tasks of sessions.
pub trait BackgroundTasks: Send + Sync {
    /// Registers a run of a session. Tasks that are launched or resumed for it are charged to its meter.
    fn begin_run(&self, session: &SessionId, meter: &Arc<SpendMeter>);

    /// Marks tasks of a session whose process is gone, and starts queued resumes.
    fn supervise(self: Arc<Self>, session: SessionId) -> TasksFuture<'static, ()>;

    /// Waits until a note of a task arrives and appends it to the session, or until no task is active. Returns whether
    /// the model has something new to answer, or the run was cancelled.
    fn await_tasks<'a>(
        self: Arc<Self>,
        waiting: AwaitingSession<'a>,
        cancel: CancellationToken,
    ) -> TasksFuture<'a, bool>;

    /// Marks a point at which tests kill the process.
    #[doc(hidden)]
    fn pass(&self, _point: TaskPoint) {}
}

//! Background tasks as the loop of an agent sees them.
//!
//! A conversation has tasks, and a task is a conversation. So the loop knows tasks only by this trait, which
//! [`TaskBoard`](crate::TaskBoard) implements on top of it.

use std::pin::Pin;
use std::sync::Arc;

use plimsoll::SessionId;
use plimsoll_session::DriverHandle;
use tokio_util::sync::CancellationToken;

use crate::error::AgentError;
use crate::event::EventSink;
use crate::spend::SpendMeter;
use crate::task::TaskPoint;

/// A result that comes later.
pub type TasksFuture<T> = Pin<Box<dyn Future<Output = Result<T, AgentError>> + Send>>;

/// A session that has nothing to do but to wait for its tasks.
#[derive(Clone)]
#[non_exhaustive]
pub struct AwaitingSession {
    /// ID of the session.
    pub session: SessionId,
    /// Driver that appends notes to the session.
    pub driver: DriverHandle,
    /// Receives an event for each message that is taken in.
    pub events: EventSink,
}

impl AwaitingSession {
    pub(crate) fn new(session: SessionId, driver: DriverHandle, events: EventSink) -> AwaitingSession {
        AwaitingSession { session, driver, events }
    }
}

/// Runs background tasks of sessions.
pub trait BackgroundTasks: Send + Sync {
    /// A run of a session has begun. The tasks that are launched or resumed for it are charged to its meter.
    fn begin_run(&self, session: &SessionId, meter: &Arc<SpendMeter>);

    /// Marks tasks of a session whose process is gone, and begins resumes that were waiting for them.
    fn look_after(self: Arc<Self>, session: SessionId) -> TasksFuture<()>;

    /// Waits until a note of a task arrives and appends it to the session, or until no task is active. Returns whether the model has
    /// something new to answer, or the run was cancelled.
    fn await_tasks(self: Arc<Self>, waiting: AwaitingSession, cancel: CancellationToken)
    -> TasksFuture<bool>;

    /// A point at which a process may die, for tests that let it.
    #[doc(hidden)]
    fn pass(&self, _point: TaskPoint) {}
}

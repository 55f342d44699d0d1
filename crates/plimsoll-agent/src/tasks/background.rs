//! Implementation of the agent's interface to background tasks.

use std::sync::Arc;
use std::time::Duration;

use plimsoll::SessionId;
use plimsoll_session::SessionError;
use tokio_util::sync::CancellationToken;

use super::board::TaskBoard;
use crate::agent::{Agent, AwaitingSession, BackgroundTasks, TasksFuture, ToolSet};
use crate::error::AgentError;
use crate::spend::SpendMeter;
use crate::task::TaskPoint;

/// Tasks that end within this time are reported together.
const GATHER: Duration = Duration::from_millis(100);

impl Agent {
    /// Returns the agent with background tasks and the tools for them that its configuration permits.
    pub fn with_tasks(mut self, board: &Arc<TaskBoard>) -> Agent {
        let name = &self.profile.name;
        let own = board.tools(name).into_iter().filter(|tool| board.offers(name, &tool.spec().name));
        self.profile.tools = own.fold(std::mem::take(&mut self.profile.tools), ToolSet::with_shared);
        self.tasks = Some(Arc::clone(board) as Arc<dyn BackgroundTasks>);
        self
    }
}

impl BackgroundTasks for TaskBoard {
    fn begin_run(&self, session: &SessionId, meter: &Arc<SpendMeter>) {
        self.note_meter(session, meter);
    }

    fn supervise(self: Arc<Self>, session: SessionId) -> TasksFuture<'static, ()> {
        Box::pin(async move {
            TaskBoard::supervise(&self, &session).await?;
            Ok(())
        })
    }

    fn await_tasks<'a>(
        self: Arc<Self>,
        waiting: AwaitingSession<'a>,
        cancel: CancellationToken,
    ) -> TasksFuture<'a, bool> {
        Box::pin(async move {
            let session = waiting.session.id().clone();
            self.without_slot(&session, self.await_tasks_of(&session, waiting, &cancel)).await
        })
    }

    fn pass(&self, point: TaskPoint) {
        TaskBoard::pass(self, point);
    }
}

impl TaskBoard {
    async fn await_tasks_of(
        self: &Arc<Self>,
        id: &SessionId,
        waiting: AwaitingSession<'_>,
        cancel: &CancellationToken,
    ) -> Result<bool, AgentError> {
        let AwaitingSession { agent, session, .. } = waiting;
        let mut changes = self.watch();
        let mut is_waiting = false;
        loop {
            changes.borrow_and_update();
            if !session.notes(1).await?.is_empty() {
                if is_waiting {
                    tokio::time::sleep(GATHER).await;
                }
                if agent.take_in_notes(session).await? {
                    return Ok(true);
                }
            }
            let tasks = self.tasks(Some(id)).await.map_err(SessionError::from)?;
            if !tasks.iter().any(|task| task.status.is_active()) {
                // A resume may be queued, and notes may have arrived meanwhile.
                self.supervise(id).await.map_err(SessionError::from)?;
                if agent.take_in_notes(session).await? {
                    return Ok(true);
                }
                let tasks = self.tasks(Some(id)).await.map_err(SessionError::from)?;
                if !tasks.iter().any(|task| task.status.is_active()) {
                    return Ok(false);
                }
            }
            is_waiting = true;
            tokio::select! {
                biased;
                // The loop checks for the cancellation.
                () = cancel.cancelled() => return Ok(true),
                changed = changes.changed() => if changed.is_err() { return Ok(false) },
                () = tokio::time::sleep(self.supervise_interval()) => {
                    self.supervise(id).await.map_err(SessionError::from)?;
                }
            }
        }
    }
}

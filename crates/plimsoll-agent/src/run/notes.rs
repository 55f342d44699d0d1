//! Notes for a conversation, and waiting for its background tasks.

use plimsoll::Message;
use plimsoll_session::{Session, SessionHandle};
use tokio_util::sync::CancellationToken;

use super::Conversation;
use crate::agent::{Agent, AwaitingSession};
use crate::error::AgentError;
use crate::event::Event;
use crate::task::{deliver_notes, task_reminder};

impl Agent {
    /// Takes in notes for a session: ended tasks, steering messages. Returns whether there were any.
    pub(crate) async fn take_in_notes(&self, session: &mut Session) -> Result<bool, AgentError> {
        let pass = |point| {
            if let Some(tasks) = &self.tasks {
                tasks.pass(point);
            }
        };
        let messages = deliver_notes(session, self.clock.now(), pass).await?;
        for message in &messages {
            self.emit(&Event::Prompted { message: message.info.id.clone() });
        }
        Ok(!messages.is_empty())
    }

    /// Returns a message that lists the running tasks after a summary has replaced their launches; `None` if this
    /// summary has one, or if no task runs.
    pub(super) async fn task_reminder(&self, session: &SessionHandle) -> Result<Option<Message>, AgentError> {
        if self.tasks.is_none() {
            return Ok(None);
        }
        Ok(task_reminder(session, self.clock.now()).await?)
    }
}

impl Conversation {
    /// Takes in notes for this session: ended tasks, steering messages. Returns whether the model has something new to
    /// answer; [`continue_run`](Conversation::continue_run) then lets it. An idle host calls this when the board's
    /// [`watch`](crate::TaskBoard::watch) changes; a run does so before each request.
    pub async fn take_notes(&mut self) -> Result<bool, AgentError> {
        self.settle().await?;
        self.take_in_notes().await
    }

    pub(crate) async fn take_in_notes(&mut self) -> Result<bool, AgentError> {
        self.agent.take_in_notes(&mut self.session).await
    }

    /// Waits for the session's tasks after the last answer, if configured. Returns whether there is something new to
    /// answer.
    pub(super) async fn await_tasks(&mut self, cancel: &CancellationToken) -> Result<bool, AgentError> {
        if !self.agent.profile.awaits_tasks {
            return Ok(false);
        }
        // Notes that arrived during the last answer are answered too, otherwise a steering message would not be read.
        if self.take_in_notes().await? {
            return Ok(true);
        }
        let Some(tasks) = self.agent.tasks.clone() else { return Ok(false) };
        let waiting = AwaitingSession::new(&self.agent, &mut self.session);
        tasks.await_tasks(waiting, cancel.clone()).await
    }
}

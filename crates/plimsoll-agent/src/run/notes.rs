//! Notes that reach a conversation, and waiting for its background tasks.

use std::sync::Arc;

use plimsoll_session::DriverHandle;
use tokio_util::sync::CancellationToken;

use super::Conversation;
use crate::agent::{AwaitingSession, BackgroundTasks};
use crate::error::AgentError;
use crate::event::{Event, EventSink};
use crate::task::{remind, take_in};

/// Takes in what others have to tell a session: tasks that have ended, words for a task. Returns whether there was something.
pub(crate) async fn take_in_notes(
    driver: &DriverHandle,
    tasks: Option<Arc<dyn BackgroundTasks>>,
    events: &EventSink,
) -> Result<bool, AgentError> {
    let pass = move |point| {
        if let Some(tasks) = &tasks {
            tasks.pass(point);
        }
    };
    let messages = driver.run(move |driver| take_in(driver, pass)).await?;
    for message in &messages {
        events(&Event::Prompted { message: message.info.id.clone() });
    }
    Ok(!messages.is_empty())
}

impl Conversation {
    /// Take in what others have to tell this session: tasks that have ended, words for a task. Says whether the model has
    /// something new to answer; then [`go_on`](Conversation::go_on) lets it. A host that is idle calls this when the
    /// board's [`watch`](crate::TaskBoard::watch) moves; a run does it before each request.
    pub async fn take_notes(&mut self) -> Result<bool, AgentError> {
        self.settle().await?;
        self.take_in_notes().await
    }

    pub(crate) async fn take_in_notes(&self) -> Result<bool, AgentError> {
        take_in_notes(&self.driver, self.agent.tasks.clone(), &self.agent.events).await
    }

    /// Name the tasks that are at work, behind a summary that stands for their launches: a model that knows of none launches
    /// them again. Once for each summary; says whether something was added.
    pub(super) async fn remind_of_tasks(&self) -> Result<bool, AgentError> {
        if self.agent.tasks.is_none() {
            return Ok(false);
        }
        Ok(self.driver.run(remind).await?)
    }

    /// The model has said its last word: wait for the session's tasks, where that is wanted. Says whether there is
    /// something new to answer.
    pub(super) async fn await_tasks(&self, cancel: &CancellationToken) -> Result<bool, AgentError> {
        if !self.agent.profile.awaits_tasks {
            return Ok(false);
        }
        // What came during the last answer is answered too: words for a task would not be read otherwise.
        if self.take_in_notes().await? {
            return Ok(true);
        }
        let Some(tasks) = self.agent.tasks.clone() else { return Ok(false) };
        let events = Arc::clone(&self.agent.events);
        let waiting = AwaitingSession::new(self.session.clone(), self.driver.clone(), events);
        tasks.await_tasks(waiting, cancel.clone()).await
    }
}

//! Operations of users on a conversation between turns: inspect its window, pin, undo, branch.

use plimsoll::{Receipt, ReceiptId, SessionId};
use plimsoll_session::{NextReductions, SessionLoad, WindowReport};
use plimsoll_store::NewSession;

use crate::agent::Agent;
use crate::error::AgentError;
use crate::run::Conversation;
use crate::todo::TodoItem;
use crate::tools::newest_todos;

impl Conversation {
    /// Returns the agent that runs the session, with permissions granted since it was opened.
    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Returns the content of the window. It reads the whole session.
    pub async fn inspect(&self) -> Result<WindowReport, AgentError> {
        Ok(self.session.inspect().await?)
    }

    /// Returns the size of the next request and its distance from the line.
    pub async fn load(&self) -> Result<SessionLoad, AgentError> {
        Ok(self.session.load().await?)
    }

    /// Plans the next reductions.
    pub async fn plan(&self) -> Result<NextReductions, AgentError> {
        Ok(self.session.plan().await?)
    }

    /// Returns the newest to-do list.
    pub async fn todos(&self) -> Result<Vec<TodoItem>, AgentError> {
        let session = self.session.id().clone();
        Ok(self.session.with_archive(move |archive| newest_todos(archive, &session)).await?)
    }

    /// Pins a message, a part, or quoted words.
    pub async fn pin(&self, what: &str) -> Result<Receipt, AgentError> {
        let target = self.session.find_pin(what).await?;
        Ok(self.session.pin(target).await?)
    }

    /// Undoes a reduction.
    pub async fn undo(&self, receipt: &ReceiptId) -> Result<Receipt, AgentError> {
        Ok(self.session.undo(receipt).await?)
    }

    /// Creates a session that begins with this one's history, which both share. This one does not change.
    pub async fn branch(&mut self, title: &str) -> Result<SessionId, AgentError> {
        self.settle().await?;
        let new = NewSession {
            title: title.to_owned(),
            agent: Some(self.agent.profile.name.clone()),
            model: Some(self.agent.model.name.model.clone()),
            directory: Some(self.agent.directory.display().to_string()),
            ..NewSession::default()
        };
        Ok(self.session.branch(new).await?.id)
    }
}

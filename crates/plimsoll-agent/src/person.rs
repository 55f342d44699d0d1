//! What a person does to a conversation between its turns: look into its window, pin, undo, branch off.

use plimsoll::{Receipt, ReceiptId, SessionId};
use plimsoll_session::{Inspection, NextReductions};
use plimsoll_store::NewSession;

use crate::agent::Agent;
use crate::error::AgentError;
use crate::run::Conversation;
use crate::todo::TodoItem;
use crate::tools::newest_todos;

impl Conversation {
    /// The agent that runs the session, with what was allowed to it since it was opened.
    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    /// What is in the window, and how far it is from the line.
    pub async fn inspect(&self) -> Result<Inspection, AgentError> {
        Ok(self.session.inspect().await?)
    }

    /// What would be reduced next, without doing it.
    pub async fn plan(&self) -> Result<NextReductions, AgentError> {
        Ok(self.session.plan().await?)
    }

    /// The newest list of things to do.
    pub async fn todos(&self) -> Result<Vec<TodoItem>, AgentError> {
        let session = self.session.id().clone();
        Ok(self.session.with_archive(move |archive| newest_todos(archive, &session)).await?)
    }

    /// Keep something in view word for word: a message, a part, or some words that were said.
    pub async fn pin(&self, what: &str) -> Result<Receipt, AgentError> {
        let target = self.session.find_pin(what).await?;
        Ok(self.session.pin(target).await?)
    }

    /// Undo a reduction.
    pub async fn undo(&self, receipt: &ReceiptId) -> Result<Receipt, AgentError> {
        Ok(self.session.undo(receipt).await?)
    }

    /// Make a session that begins with all of this one, sharing it, and goes its own way from there. This one stays as it
    /// is.
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

//! Opens a session for an agent.

use std::sync::Arc;

use plimsoll::SessionId;
use plimsoll_session::{SessionBuilder, SessionHandle};
use plimsoll_store::NewSession;

use super::Conversation;
use crate::agent::{Agent, Bound};
use crate::error::AgentError;
use crate::event::Event;
use crate::ledger::FileLedger;

impl Agent {
    /// Opens a session of the archive, to run it.
    pub async fn open(&self, session: &SessionId) -> Result<Conversation, AgentError> {
        self.open_as(self.builder().session(session.clone())).await
    }

    /// Reads a session of the archive as this agent would see it, without the session's lease, which another process may
    /// hold.
    pub async fn read(&self, session: &SessionId) -> Result<SessionHandle, AgentError> {
        Ok(self.builder().session(session.clone()).read().await?)
    }

    async fn open_as(&self, builder: SessionBuilder) -> Result<Conversation, AgentError> {
        let session = builder.open().await?;
        self.emit(&Event::Opened {
            session: session.id().clone(),
            model: self.model.name.to_string(),
            agent: self.profile.name.clone(),
        });
        // A background task is set up like its parent, whose user has seen the notices.
        for text in self.notices.iter().filter(|_| self.profile.bounds.is_empty()) {
            self.emit(&Event::Notice { text: text.clone() });
        }
        if let Some(tasks) = &self.tasks {
            // Tasks whose process is gone are detected here, so that their parent is notified.
            Arc::clone(tasks).supervise(session.id().clone()).await?;
        }
        let mut agent = self.clone();
        agent.profile.bounds.extend(Bound::of_session(&session.record().await?, &self.profile));
        let tools = self.profile.tools.clone();
        let files = session.with_log(move |log| {
            let files = FileLedger::of_log(log);
            tools.reopen(log, &files);
            files
        });
        let files = files.await?;
        Ok(Conversation::new(agent, session, files))
    }

    /// Creates a session and opens it.
    pub async fn begin(&self, title: &str) -> Result<Conversation, AgentError> {
        let new = NewSession {
            title: title.to_owned(),
            agent: Some(self.profile.name.clone()),
            model: Some(self.model.name.model.clone()),
            directory: Some(self.directory.display().to_string()),
            ..NewSession::default()
        };
        self.open_as(self.builder().new_session(new)).await
    }
}

//! Opening a session for an agent.

use std::sync::Arc;

use plimsoll::SessionId;
use plimsoll_session::{DriverHandle, SessionError};

use super::Conversation;
use crate::agent::Agent;
use crate::error::AgentError;
use crate::event::Event;
use crate::ledger::FileLedger;

impl Agent {
    /// Open a session of the archive, to run it.
    pub async fn open(&self, session: &SessionId) -> Result<Conversation, AgentError> {
        let driver = DriverHandle::open(Arc::clone(&self.archive), session.clone(), self.settings()).await?;
        self.tell(&Event::Opened {
            session: session.clone(),
            model: self.model.name.to_string(),
            agent: self.profile.name.clone(),
        });
        // A background task is set up as its parent is, whose user was told.
        for text in self.notices.iter().filter(|_| self.profile.bounds.is_empty()) {
            self.tell(&Event::Notice { text: text.clone() });
        }
        if let Some(tasks) = &self.tasks {
            // Tasks whose process has gone are found when their parent is opened, and it is told.
            Arc::clone(tasks).look_after(session.clone()).await?;
        }
        let tools = self.profile.tools.clone();
        let files = driver.run(move |driver| {
            let files = FileLedger::of_log(driver.log());
            tools.reopen(driver.log(), &files);
            Ok(files)
        });
        let files = files.await?;
        Ok(Conversation::new(self.clone(), session.clone(), driver, files))
    }

    /// Begin a session and open it.
    pub async fn begin(&self, title: &str) -> Result<Conversation, AgentError> {
        let (archive, clock) = (Arc::clone(&self.archive), self.clock.clone());
        let new = plimsoll_store::NewSession {
            title: title.to_owned(),
            agent: Some(self.profile.name.clone()),
            model: Some(self.model.name.model.clone()),
            directory: Some(self.directory.display().to_string()),
            ..plimsoll_store::NewSession::default()
        };
        // The store blocks, so it is called off the host's threads.
        let made = tokio::task::spawn_blocking(move || {
            let now = clock.now();
            let id = plimsoll_store::random_ids().session(now);
            archive.store().create(plimsoll_store::NewSession { id, ..new }, now)
        });
        let made = made.await.map_err(|error| AgentError::Internal(error.to_string()))?;
        self.open(&made.map_err(SessionError::from)?.id).await
    }
}

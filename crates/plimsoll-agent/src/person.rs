//! What a person does to a conversation between its turns: look into its window, pin, undo, branch off.

use std::sync::Arc;

use plimsoll::prune::PrunePlan;
use plimsoll::receipt::CompactPlan;
use plimsoll::{Message, Plan, Receipt, ReceiptId, SessionId, Tokens};
use plimsoll_session::{SessionError, SessionLoad, WindowReport};
use plimsoll_store::NewSession;

use crate::agent::Agent;
use crate::error::AgentError;
use crate::run::Conversation;

/// What would be reduced next.
#[derive(Clone, Debug, PartialEq)]
pub struct NextReductions {
    /// The outputs that a prune would clear.
    pub prune: PrunePlan,
    /// The messages that a summary would stand for; none if there are too few.
    pub compaction: Option<CompactPlan>,
    /// Tokens of the next request before the prune and after it.
    pub pruned: (Tokens, Tokens),
    /// Tokens before the compaction and after it, with the longest summary.
    pub compacted: Option<(Tokens, Tokens)>,
    /// The messages that the window is made of.
    pub messages: Vec<Message>,
}

impl Conversation {
    /// The agent that runs the session, with what was allowed to it since it was opened.
    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    /// What is in the window, and how far it is from the line. It reads the whole session.
    pub async fn inspect(&self) -> Result<WindowReport, AgentError> {
        let fixed = self.fixed();
        Ok(self.driver.run(move |driver| driver.inspect(fixed(driver))).await?)
    }

    /// How heavy the next request is, and how far it is from the line.
    pub async fn load(&self) -> Result<SessionLoad, AgentError> {
        let fixed = self.fixed();
        Ok(self.driver.run(move |driver| driver.session_load(fixed(driver))).await?)
    }

    /// What would be reduced next, without doing it.
    pub async fn plan(&self) -> Result<NextReductions, AgentError> {
        let fixed = self.fixed();
        let plan = self.driver.run(move |driver| {
            let fixed = fixed(driver);
            let (prune, compaction) = (driver.plan_prune(fixed), driver.plan_compaction(fixed));
            let pruned = driver.preview(&Plan::Prune(prune.clone()), fixed);
            let compacted = compaction.clone().map(|plan| driver.preview(&Plan::Compact(plan), fixed));
            let messages = driver.log().messages().to_vec();
            Ok(NextReductions { prune, compaction, pruned, compacted, messages })
        });
        Ok(plan.await?)
    }

    /// Keep something in view word for word: a message, a part, or some words that were said.
    pub async fn pin(&self, what: &str) -> Result<Receipt, AgentError> {
        let (what, fixed) = (what.to_owned(), self.fixed());
        let pinned = self.driver.run(move |driver| {
            let target = driver.find_pin(&what)?;
            let fixed = fixed(driver);
            driver.pin(&target, fixed)
        });
        Ok(pinned.await?)
    }

    /// Undo a reduction.
    pub async fn undo(&self, receipt: &ReceiptId) -> Result<Receipt, AgentError> {
        let (receipt, fixed) = (receipt.clone(), self.fixed());
        let undone = self.driver.run(move |driver| {
            let fixed = fixed(driver);
            driver.undo(&receipt, fixed)
        });
        Ok(undone.await?)
    }

    /// Make a session that begins with all of this one, sharing it, and goes its own way from there. This one stays as it
    /// is.
    pub async fn branch(&self, title: &str) -> Result<SessionId, AgentError> {
        self.settle().await?;
        let (archive, clock) = (Arc::clone(&self.agent.archive), self.agent.clock.clone());
        let new = NewSession {
            title: title.to_owned(),
            agent: Some(self.agent.profile.name.clone()),
            model: Some(self.agent.model.name.model.clone()),
            directory: Some(self.agent.directory.display().to_string()),
            ..NewSession::default()
        };
        let made = self.driver.run(move |driver| {
            let now = clock.now();
            let id = plimsoll_store::random_ids().session(now);
            let new = NewSession { id, ..new };
            archive.store().fork(driver.session(), None, new, now).map_err(SessionError::from)
        });
        Ok(made.await?.id)
    }
}

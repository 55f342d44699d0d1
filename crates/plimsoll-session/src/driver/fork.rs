//! Giving a child session its parent's context.

use std::sync::Arc;

use plimsoll::fork::{
    self, Child, Digest, Identity, Inheritance, InheritedHistory, NoHistory, Parent, Point, task_text,
};
use plimsoll::log::TextPart;
use plimsoll::{Limits, Message, MessageId, Part, PartBody, PartId, Tokens};
use plimsoll_store::{NewSession, Session};

use super::Driver;
use crate::error::SessionError;
use crate::overhead::Overhead;

/// A child session to create.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ForkRequest {
    /// The child's session. An empty id is replaced by a generated one.
    pub new: NewSession,
    /// The child's task, which becomes its last message.
    pub task: String,
    /// The call that launches the child: its context ends there. `None` for the whole history.
    pub at: Option<PartId>,
    /// Limits of the child's model.
    pub limits: Limits,
    /// The child's system prompt and tools.
    pub overhead: Overhead,
    /// The agents of both sessions, if the child may share the parent's history. `None` for a digest.
    pub identities: Option<Identities>,
}

impl ForkRequest {
    /// Creates a request for a child with a digest of the whole history.
    pub fn new(new: NewSession, task: impl Into<String>, limits: Limits) -> ForkRequest {
        ForkRequest {
            new,
            task: task.into(),
            at: None,
            limits,
            overhead: Overhead::default(),
            identities: None,
        }
    }

    /// Ends the child's context at the call that launches it.
    #[must_use]
    pub fn at(mut self, call: impl Into<Option<PartId>>) -> ForkRequest {
        self.at = call.into();
        self
    }

    /// Sets the child's system prompt and tools.
    #[must_use]
    pub fn overhead(mut self, overhead: impl Into<Overhead>) -> ForkRequest {
        self.overhead = overhead.into();
        self
    }

    /// Lets the child share the parent's history if both agents are the same to the provider.
    #[must_use]
    pub fn identities(mut self, identities: impl Into<Option<Identities>>) -> ForkRequest {
        self.identities = identities.into();
        self
    }
}

/// The agents of parent and child as the provider sees them. Only if they are equal can the parent's window be shared.
#[derive(Clone, Debug)]
pub struct Identities {
    /// The parent's agent.
    pub parent: Identity,
    /// The child's agent.
    pub child: Identity,
}

/// A child session that was created.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Forked {
    /// The child's session, its task the last message.
    pub session: Session,
    /// The inherited content.
    pub content: ForkContent,
    /// Tokens of the inherited content.
    pub tokens: Tokens,
}

/// Content that a child inherited from its parent.
#[derive(Clone, Debug)]
pub enum ForkContent {
    /// The parent's conversation itself.
    History(Box<InheritedHistory>),
    /// A digest of it.
    Digest {
        /// The digest, sized to the child's window.
        digest: Box<Digest>,
        /// Why it is not the conversation itself. `None` if only a digest was requested.
        why: Option<NoHistory>,
    },
}

impl Driver {
    /// Creates a child session with this session's context, and with its task as the last message. This session is not
    /// changed.
    ///
    /// If the agents are the same, the child shares this session's window by reference, byte for byte as last sent.
    /// Otherwise it gets a digest in a separate message.
    pub fn fork(&mut self, request: ForkRequest) -> Result<Forked, SessionError> {
        let ForkRequest { new, task, at, limits, overhead, identities } = request;
        let now = self.now();
        let new = NewSession { parent: Some(self.session().clone()), ..self.named(new) };
        let (policy, counter) = (Arc::clone(&self.settings.policy), self.counter());
        let fixed = overhead.count(&*counter);
        self.stop.check()?;
        let child = Child { limits, fixed, task: &task };
        let point = at.as_ref().map_or(Point::Newest, Point::Call);
        let inheritance = match &identities {
            None => {
                let nobody = Identity { model: String::new(), system: String::new(), tools: String::new() };
                let parent = Parent { messages: &self.log, policy: &policy, point, identity: &nobody };
                let digest = parent.digest(&child, &*counter);
                digest.map(|digest| Inheritance::Digest { digest, why: NoHistory::Empty })
            }
            Some(Identities { parent: identity, child: child_identity }) => {
                let parent = Parent { messages: &self.log, policy: &policy, point, identity };
                fork::inherit(&parent, &child, child_identity, &mut self.ids, now, &*counter)
            }
        };
        self.stop.check()?;
        match inheritance? {
            Inheritance::History(history) => {
                let session = self.share(&history, new)?;
                let tokens = history.tokens;
                Ok(Forked { session, content: ForkContent::History(Box::new(history)), tokens })
            }
            Inheritance::Digest { digest, why } => {
                let inherited = digest.message();
                let tokens = inherited.as_ref().map_or(Tokens::ZERO, |text| counter.count(text));
                self.stop.check()?;
                let context = inherited.map(|text| self.synthetic(text));
                // Without inherited context, the task needs no heading that separates it from the history.
                let task = if context.is_some() { task_text(&task) } else { task };
                let task = Message::user(self.ids.message(now), self.ids.part(now), task).at(now);
                let messages = context.into_iter().chain([task]).collect();
                let session = self.archive.store().create(NewSession { messages, ..new }, now)?;
                let why = identities.map(|_| why);
                Ok(Forked { session, content: ForkContent::Digest { digest: Box::new(digest), why }, tokens })
            }
        }
    }

    /// Creates the child's session over the shared part of this one.
    fn share(&self, history: &InheritedHistory, new: NewSession) -> Result<Session, SessionError> {
        let now = self.now();
        let last: Option<MessageId> =
            history.shared.checked_sub(1).map(|place| self.log[place].info.id.clone());
        let new = NewSession { messages: history.seeds.clone(), ..new };
        Ok(self.archive.store().fork(self.session(), last.as_ref(), new, now)?)
    }

    /// Creates a session that shares all of this one, and continues on its own.
    #[cfg(feature = "async")]
    pub(crate) fn branch(&mut self, new: NewSession) -> Result<Session, SessionError> {
        let new = self.named(new);
        Ok(self.archive.store().fork(self.session(), None, new, self.now())?)
    }

    /// Sets the id of a new session if it has none.
    fn named(&mut self, new: NewSession) -> NewSession {
        let now = self.now();
        match new.id.as_str() {
            "" => NewSession { id: self.ids.session(now), ..new },
            _ => new,
        }
    }

    /// Creates a user message that is marked as not written by the user.
    fn synthetic(&mut self, text: String) -> Message {
        let now = self.now();
        let body = PartBody::Text(TextPart { text: text.into(), synthetic: Some(true), ignored: None });
        let mut message = Message::user(self.ids.message(now), self.ids.part(now), "").at(now);
        message.parts = vec![Part::new(self.ids.part(now), body)].into();
        message
    }
}

//! Giving a child session its parent's context.

use std::sync::Arc;

use plimsoll::fork::Digest;
use plimsoll::fork::child::Child;
use plimsoll::fork::history::{
    self, Identity, Inheritance, InheritedHistory, NoHistory, Parent, Point, task_text,
};
use plimsoll::log::TextPart;
use plimsoll::{Message, MessageId, Part, PartBody};
use plimsoll_store::{NewSession, Session};

use crate::driver::Driver;
use crate::error::SessionError;

/// Who the agents of parent and child are to a provider. Only where they are the same can the parent's own window be
/// inherited.
#[derive(Clone, Copy, Debug)]
pub struct Identities<'a> {
    /// The parent's agent.
    pub parent: &'a Identity,
    /// The child's.
    pub child: &'a Identity,
}

/// A child that was made, and what it was given.
#[derive(Clone, Debug)]
pub struct Forked {
    /// The child's session, its task the last message.
    pub session: Session,
    /// What it was given of its parent.
    pub given: Given,
}

/// What a child was given of its parent.
#[derive(Clone, Debug)]
pub enum Given {
    /// The parent's conversation itself.
    History(Box<InheritedHistory>),
    /// A digest of it.
    Digest {
        /// The digest, sized to the child.
        digest: Box<Digest>,
        /// Why not the conversation itself; none where only a digest was wanted.
        why: Option<NoHistory>,
    },
}

impl Driver {
    /// The digest of this session up to a point for a child, sized to the child's window.
    pub fn digest(&self, point: Point<'_>, child: &Child<'_>) -> Result<Digest, SessionError> {
        let policy = &self.settings.policy;
        let nobody = Identity { model: String::new(), system: String::new(), tools: String::new() };
        let parent = Parent { messages: &self.log, policy, point, identity: &nobody };
        let digest = parent.digest(child, &*self.counter());
        self.stop.check()?;
        Ok(digest?)
    }

    /// Make a child session that knows what this one knew at a point, with its task as the last message. This session
    /// is not changed.
    ///
    /// With `same` the child shares this session's window by reference, byte for byte as it was last sent, where both
    /// agents are the same; otherwise it gets a digest in a message of its own.
    pub fn fork(
        &mut self,
        point: Point<'_>,
        new: NewSession,
        child: &Child<'_>,
        same: Option<Identities<'_>>,
    ) -> Result<Forked, SessionError> {
        let now = self.now();
        let new = NewSession { parent: Some(self.session().clone()), ..new };
        let inheritance = match same {
            None => Inheritance::Digest { digest: self.digest(point, child)?, why: NoHistory::Empty },
            Some(Identities { parent: identity, child: childs }) => {
                let policy = Arc::clone(&self.settings.policy);
                let parent = Parent { messages: &self.log, policy: &policy, point, identity };
                let counter = self.counter();
                let inherited = history::inherit(&parent, child, childs, &mut self.ids, now, &*counter);
                self.stop.check()?;
                inherited?
            }
        };
        match inheritance {
            Inheritance::History(history) => {
                let session = self.share(&history, new)?;
                Ok(Forked { session, given: Given::History(Box::new(history)) })
            }
            Inheritance::Digest { digest, why } => {
                let context = digest.message().map(|text| self.synthetic(text));
                // Without a context there is nothing that the task would have to be set apart from.
                let task = if context.is_some() { task_text(child.task) } else { child.task.to_owned() };
                let task = Message::user(self.ids.message(now), self.ids.part(now), task).at(now);
                let messages = context.into_iter().chain([task]).collect();
                let session = self.archive.store().create(NewSession { messages, ..new }, now)?;
                Ok(Forked {
                    session,
                    given: Given::Digest { digest: Box::new(digest), why: same.map(|_| why) },
                })
            }
        }
    }

    /// The child's session over the shared part of this one.
    fn share(&self, history: &InheritedHistory, new: NewSession) -> Result<Session, SessionError> {
        let now = self.now();
        let last: Option<MessageId> =
            history.shared.checked_sub(1).map(|place| self.log[place].info.id.clone());
        let new = NewSession { messages: history.seeds.clone(), ..new };
        Ok(self.archive.store().fork(self.session(), last.as_ref(), new, now)?)
    }

    /// A message of the user's side that no person wrote.
    fn synthetic(&mut self, text: String) -> Message {
        let now = self.now();
        let body = PartBody::Text(TextPart { text: text.into(), synthetic: Some(true), ignored: None });
        let mut message = Message::user(self.ids.message(now), self.ids.part(now), "").at(now);
        message.parts = vec![Part::new(self.ids.part(now), body)];
        message
    }
}

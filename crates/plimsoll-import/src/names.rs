//! Ids of imported messages and parts, so that a handle is unique in the whole store.
//!
//! Random ids are kept. An id that is only unique within its file (`msg_000001`) also exists in other files, so it is replaced by
//! one derived from the session's id and the id in the file. The same message gets the same id on every import, so a message that
//! has grown is found again, and no table of ids is needed.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use plimsoll::{Ids, Message, MessageId, Millis, PartBody, PartId, SessionId};

/// Minimum length of an id that counts as random. Shorter ones are unique only within their file.
pub(crate) const UNIQUE: usize = 16;

/// Assigns the ids of one conversation, in the order of its messages.
pub(crate) struct Namer {
    session: SessionId,
    is_renamed: bool,
    base: Millis,
    /// Hashes of known ids. 64 bits suffice: a collision replaces an id that could have been kept.
    hashes: RandomState,
    messages: HashSet<u64>,
    parts: HashSet<u64>,
    place: usize,
}

impl Namer {
    pub(crate) fn new(session: SessionId, is_renamed: bool, base: Millis) -> Namer {
        let (hashes, messages, parts) = (RandomState::new(), HashSet::new(), HashSet::new());
        Namer { session, is_renamed, base, hashes, messages, parts, place: 0 }
    }

    /// Assigns the ids of the next message and its parts, and of what it refers to.
    pub(crate) fn name(&mut self, message: &mut Message) {
        self.place += 1;
        let own = message.info.id.as_str();
        let is_new = self.messages.insert(self.hashes.hash_one(own));
        let is_short = own.len() < UNIQUE;
        let name = if own.is_empty() || !is_new {
            // Nothing can refer to a message without an id, so the new id may depend on the position.
            MessageId::new(drawn("msg", self.base, &[self.session.as_str(), own, &self.place.to_string()]))
        } else {
            self.renamed(own)
        };
        for (place, part) in message.parts.iter_mut().enumerate() {
            let is_new = self.parts.insert(self.hashes.hash_one(part.id.as_str()));
            if self.is_renamed || is_short || part.id.as_str().len() < UNIQUE || !is_new {
                let place = place.to_string();
                part.id =
                    PartId::new(drawn("prt", self.base, &[self.session.as_str(), name.as_str(), &place]));
                part.extra.entry("id").and_modify(|own| *own = part.id.as_str().into());
            }
            for (key, value) in [("sessionID", self.session.as_str()), ("messageID", name.as_str())] {
                part.extra.entry(key).and_modify(|own| *own = value.into());
            }
        }
        message.info.id = name;
        message.info.session_id = message.info.session_id.as_ref().map(|_| self.session.clone());
        message.info.parent_id = message.info.parent_id.take().map(|id| self.mentioned(id));
        for part in &mut message.parts {
            if let PartBody::Compaction(marker) = &mut part.body {
                marker.tail_start = marker.tail_start.take().map(|id| self.mentioned(id));
                marker.prompt = marker.prompt.take().map(|id| self.mentioned(id));
            }
        }
    }

    /// Returns the new id of a message. It must not depend on the message's time, because the id is also computed for
    /// references, where that time is unknown.
    fn renamed(&self, own: &str) -> MessageId {
        if !self.is_renamed && own.len() >= UNIQUE {
            return MessageId::new(own);
        }
        MessageId::new(drawn("msg", self.base, &[self.session.as_str(), own]))
    }

    fn mentioned(&self, id: MessageId) -> MessageId {
        match self.messages.contains(&self.hashes.hash_one(id.as_str())) {
            true => self.renamed(id.as_str()),
            false => id,
        }
    }
}

/// Derives an id of the usual form from these words.
fn drawn(kind: &str, at: Millis, words: &[&str]) -> String {
    let mut hasher = blake3::Hasher::new();
    for word in [kind].iter().chain(words) {
        hasher.update(&(word.len() as u64).to_le_bytes());
        hasher.update(word.as_bytes());
    }
    let mut output = hasher.finalize_xof();
    let mut ids = Ids::new(move || {
        let mut bytes = [0; 8];
        output.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    });
    match kind {
        "msg" => ids.message(at).to_string(),
        "prt" => ids.part(at).to_string(),
        _ => ids.session(at).to_string(),
    }
}

/// Returns an id for a sub-agent's session without one.
pub(crate) fn session_of(parent: &SessionId, conversation: &str, at: Millis) -> SessionId {
    SessionId::new(drawn("ses", at, &[parent.as_str(), conversation]))
}

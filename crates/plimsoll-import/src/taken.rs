//! What was taken of a conversation: enough to tell later whether a file has it as its beginning, and nothing of what was
//! said. Digests stand for texts, so that what is purged from a store does not live on in here.

use plimsoll::{Message, Part, PartBody};
use serde::{Deserialize, Serialize};

/// The beginning of a blake3 hash: 128 bits are enough to tell conversations apart.
pub(crate) type Digest = [u8; 16];

/// Hashes messages one after the other.
#[derive(Default)]
pub(crate) struct Running {
    hasher: blake3::Hasher,
}

impl Running {
    /// Take in the next message, as JSON.
    pub(crate) fn push(&mut self, message: &[u8]) {
        self.hasher.update(&(message.len() as u64).to_le_bytes());
        self.hasher.update(message);
    }

    /// The hash of all messages so far.
    pub(crate) fn digest(&self) -> Digest {
        shorten(&self.hasher.finalize())
    }
}

fn shorten(hash: &blake3::Hash) -> Digest {
    let mut digest = Digest::default();
    digest.copy_from_slice(&hash.as_bytes()[..16]);
    digest
}

fn digest_of(bytes: &[u8]) -> String {
    hex(&shorten(&blake3::hash(bytes)))
}

/// A digest for people and records.
pub(crate) fn hex(digest: &Digest) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What was taken of a conversation, as the store keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Taken {
    /// How many messages.
    pub(crate) messages: usize,
    /// The digest of all but the last.
    pub(crate) closed: String,
    /// The digest of all.
    pub(crate) whole: String,
    /// The last message: it may have been still being written.
    pub(crate) last: Option<MessageDigest>,
    /// Whether all names were given anew, also those that were long enough to keep.
    pub(crate) is_renamed: bool,
    /// Stands in for the time of messages that have none, in names.
    pub(crate) base: u64,
}

impl Taken {
    /// From a record. One of an unknown kind matches nothing, and the session is stored anew.
    pub(crate) fn parse(state: &str) -> Option<Taken> {
        serde_json::from_str(state).ok()
    }

    /// For a record.
    pub(crate) fn render(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// A message by its digests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MessageDigest {
    identity: String,
    parts: Vec<PartDigest>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct PartDigest {
    /// What a part stays while it grows.
    identity: String,
    /// The text so far, for parts whose text grows: its bytes and their digest.
    text: Option<(usize, String)>,
    /// Everything, for parts that do not change any more.
    whole: Option<String>,
}

impl MessageDigest {
    pub(crate) fn of(message: &Message) -> MessageDigest {
        MessageDigest {
            identity: identity(message),
            parts: message.parts.iter().map(PartDigest::of).collect(),
        }
    }

    /// Which parts a message has new or changed, if it is this one gone forward: the same or longer texts, calls that
    /// were open with or without their answers, more parts. `None` if it is not.
    pub(crate) fn changes_to(&self, message: &Message) -> Option<Vec<usize>> {
        if self.identity != identity(message) || self.parts.len() > message.parts.len() {
            return None;
        }
        let mut changed = Vec::new();
        for (place, part) in message.parts.iter().enumerate() {
            match self.parts.get(place) {
                Some(before) if !before.goes_on_as(part) => return None,
                Some(before) if *before == PartDigest::of(part) => {}
                _ => changed.push(place),
            }
        }
        Some(changed)
    }
}

fn identity(message: &Message) -> String {
    let role = message.info.role.as_ref().map_or("", plimsoll::Role::name);
    digest_of(format!("{role}\0{}", message.info.id).as_bytes())
}

impl PartDigest {
    fn of(part: &Part) -> PartDigest {
        let named = |kind: &str, rest: &str| digest_of(format!("{kind}\0{rest}").as_bytes());
        match &part.body {
            PartBody::Text(text) => PartDigest::growing(named("text", ""), &text.text),
            PartBody::Reasoning(thought) => PartDigest::growing(named("reasoning", ""), &thought.text),
            PartBody::Tool(tool) => {
                let is_final = tool.state.status.is_final();
                let identity = named("tool", &format!("{}\0{}", tool.call_id, tool.tool));
                PartDigest { identity, text: None, whole: is_final.then(|| whole(part)) }
            }
            _ => PartDigest { identity: named("other", ""), text: None, whole: Some(whole(part)) },
        }
    }

    fn growing(identity: String, text: &str) -> PartDigest {
        PartDigest { identity, text: Some((text.len(), digest_of(text.as_bytes()))), whole: None }
    }

    fn goes_on_as(&self, part: &Part) -> bool {
        let now = PartDigest::of(part);
        let text = match &part.body {
            PartBody::Text(text) => &text.text,
            PartBody::Reasoning(thought) => &thought.text,
            _ => return self.identity == now.identity && (self.whole.is_none() || self.whole == now.whole),
        };
        let begins = |(bytes, digest): &(usize, String)| {
            text.as_bytes().get(..*bytes).is_some_and(|beginning| digest_of(beginning) == *digest)
        };
        self.identity == now.identity && self.text.as_ref().is_some_and(begins)
    }
}

fn whole(part: &Part) -> String {
    digest_of(&serde_json::to_vec(part).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use plimsoll::{Message, Part, ToolState};
    use serde_json::json;

    use super::MessageDigest;

    fn message(parts: Vec<Part>) -> Message {
        Message::assistant("msg_1".into(), parts)
    }

    fn text(text: &str) -> Part {
        Part::text("prt_1".into(), text)
    }

    fn call(state: ToolState) -> Part {
        Part::tool("prt_2".into(), "call_1", "bash", state)
    }

    #[test]
    fn a_message_that_went_on_is_known_and_one_that_was_rewritten_is_not() {
        let open = || call(ToolState::pending(json!({})));
        let done = |output: &str| call(ToolState::completed(json!({}), output));
        let before = message(vec![text("Let me"), open()]);
        let changes = |after: Vec<Part>| MessageDigest::of(&before).changes_to(&message(after));
        assert_eq!(changes(vec![text("Let me"), open()]), Some(vec![]));
        assert_eq!(changes(vec![text("Let me look"), open()]), Some(vec![0]));
        assert_eq!(changes(vec![text("Let me"), done("ok")]), Some(vec![1]));
        assert_eq!(changes(vec![text("Let me"), done("ok"), text("more")]), Some(vec![1, 2]));
        assert_eq!(changes(vec![text("Let us"), open()]), None);
        assert_eq!(changes(vec![text("Let me")]), None);
        assert_eq!(changes(vec![open(), text("Let me")]), None);
        let answered = MessageDigest::of(&message(vec![done("ok")]));
        assert_eq!(answered.changes_to(&message(vec![done("other")])), None);
        let stored = serde_json::to_string(&answered).unwrap();
        assert!(!stored.contains("ok"), "{stored}");
        assert_eq!(serde_json::from_str::<MessageDigest>(&stored).unwrap(), answered);
    }
}

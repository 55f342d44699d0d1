//! State of an imported conversation: enough to decide later whether it is a prefix of a file. It has digests instead of texts,
//! so that content that is purged from a store does not survive here.

use plimsoll::{Message, Part, PartBody};
use serde::{Deserialize, Serialize};

/// First 128 bits of a BLAKE3 hash, which are enough to distinguish conversations.
pub(crate) type Digest = [u8; 16];

/// Hashes messages in sequence.
#[derive(Default)]
pub(crate) struct Running {
    hasher: blake3::Hasher,
}

impl Running {
    /// Adds the next message, as JSON.
    pub(crate) fn push(&mut self, message: &[u8]) {
        self.hasher.update(&(message.len() as u64).to_le_bytes());
        self.hasher.update(message);
    }

    /// Returns the hash of all messages so far.
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

/// Formats a digest for records.
pub(crate) fn hex(digest: &Digest) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Stored state of an imported conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ImportState {
    /// Number of messages.
    pub(crate) messages: usize,
    /// Digest of all messages except the last.
    pub(crate) closed: String,
    /// Digest of all messages.
    pub(crate) whole: String,
    /// The last message, which may have been incomplete.
    pub(crate) last: Option<MessageDigest>,
    /// Whether all ids were replaced, including random ones.
    pub(crate) is_renamed: bool,
    /// Time used in the ids of messages that have none.
    pub(crate) base: u64,
}

impl ImportState {
    /// Parses a record. An unknown format matches no conversation, so the session is stored again.
    pub(crate) fn parse(state: &str) -> Option<ImportState> {
        serde_json::from_str(state).ok()
    }

    /// Formats a record.
    pub(crate) fn render(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Digests of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MessageDigest {
    identity: String,
    parts: Vec<PartDigest>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct PartDigest {
    /// Digest of the content that stays the same while the message grows.
    identity: String,
    /// Length and digest of the text so far, for parts whose text grows.
    text: Option<(usize, String)>,
    /// Digest of the whole part, if it is final.
    whole: Option<String>,
}

impl MessageDigest {
    pub(crate) fn of(message: &Message) -> MessageDigest {
        MessageDigest {
            identity: identity(message),
            parts: message.parts.iter().map(PartDigest::of).collect(),
        }
    }

    /// Returns the indexes of new and changed parts if `message` is a continuation of this one: texts are equal or longer, open
    /// calls may have results, and there may be more parts. Otherwise returns `None`.
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
    fn a_continued_message_is_recognised_and_a_rewritten_one_is_not() {
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

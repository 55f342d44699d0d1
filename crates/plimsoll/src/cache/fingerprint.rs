//! Fingerprint of a window that was sent: a hash for every block.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::{Prefix, sent_order};
use crate::fnv::Fnv;
use crate::policy::CachePolicy;
use crate::window::{Block, Window, WindowMessage, WindowRole};

/// A sent window as one 64-bit hash per block: enough to find how long a prefix another window shares with it.
///
/// Only what is sent is included (roles, texts, calls, results, files, signatures), not the ids of the
/// log. In JSON a message is a string of sixteen hex digits for each of its blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fingerprint {
    /// The messages in the order in which they are sent.
    messages: Vec<MessagePrint>,
    /// Cache breakpoints, as numbers of blocks before them, ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) kept: Vec<usize>,
}

/// The hashes of a message's blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MessagePrint(Vec<u64>);

impl Fingerprint {
    /// Creates the fingerprint of a window that is sent with this policy.
    pub fn of(window: &Window, policy: &CachePolicy) -> Fingerprint {
        let messages = sent_order(window, policy).map(|at| MessagePrint::of(&window.messages[at])).collect();
        Fingerprint { messages, kept: Vec::new() }
    }

    /// Returns the length of the common prefix with `other`.
    pub fn shared_with(&self, other: &Fingerprint) -> Prefix {
        let mut prefix = Prefix::default();
        for (MessagePrint(ours), MessagePrint(theirs)) in self.messages.iter().zip(&other.messages) {
            prefix.blocks += ours.iter().zip(theirs).take_while(|(ours, theirs)| ours == theirs).count();
            if ours != theirs {
                break;
            }
            prefix.messages += 1;
        }
        prefix
    }
}

impl MessagePrint {
    fn of(message: &WindowMessage) -> MessagePrint {
        let role = match message.role {
            WindowRole::System => 1,
            WindowRole::User => 2,
            WindowRole::Assistant => 3,
            WindowRole::Tool => 4,
        };
        MessagePrint(message.blocks.iter().map(|block| hash_block(Fnv::new().number(role), block)).collect())
    }
}

/// Hashes each field as one number, so that the end of one field cannot be taken for the beginning of the next.
fn hash_block(hash: Fnv, block: &Block) -> u64 {
    let hash = match block {
        Block::Text { text, .. } => hash.number(1).number(text.hash()),
        Block::Reasoning { text, metadata, .. } => {
            let hash = hash.number(2).number(text.hash());
            metadata.as_ref().map_or(hash, |metadata| hash_value(hash, metadata))
        }
        Block::Call { id, tool, input, .. } => hash.number(3).text(id).text(tool).number(input.json().hash()),
        Block::Result { id, tool, text, is_error, files, .. } => {
            let hash = hash.number(4).text(id).text(tool).number(text.hash()).number(u64::from(*is_error));
            files.iter().fold(hash, hash_value)
        }
        Block::Provider { value, .. } => hash.number(6).number(value.json().hash()),
        Block::File { mime, filename, url, .. } => {
            let hash = hash_optional(hash_optional(hash.number(5), mime.as_deref()), filename.as_deref());
            url.as_ref().map_or(hash, |url| hash.number(url.hash()))
        }
    };
    hash.finish()
}

fn hash_optional(hash: Fnv, text: Option<&str>) -> Fnv {
    match text {
        Some(text) => hash.number(1).text(text),
        None => hash.number(0),
    }
}

/// Hashes JSON without serialising it, because attached files can have megabytes.
fn hash_value(hash: Fnv, value: &Value) -> Fnv {
    match value {
        Value::Null => hash.number(10),
        Value::Bool(value) => hash.number(11).number(u64::from(*value)),
        Value::Number(number) => hash.number(12).text(&number.to_string()),
        Value::String(text) => hash.number(13).text(text),
        Value::Array(items) => items.iter().fold(hash.number(14).number(items.len() as u64), hash_value),
        Value::Object(map) => {
            let hash = hash.number(15).number(map.len() as u64);
            map.iter().fold(hash, |hash, (key, value)| hash_value(hash.text(key), value))
        }
    }
}

impl Serialize for MessagePrint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0.iter().map(|hash| format!("{hash:016x}")).collect::<String>())
    }
}

impl<'de> Deserialize<'de> for MessagePrint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<MessagePrint, D::Error> {
        let digits = String::deserialize(deserializer)?;
        let wrong = || serde::de::Error::custom("expected sixteen hex digits for each block");
        let hashes = digits.as_bytes().chunks(16).map(|digits| {
            let digits = std::str::from_utf8(digits).ok().filter(|digits| digits.len() == 16);
            digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()).ok_or_else(wrong)
        });
        Ok(MessagePrint(hashes.collect::<Result<_, _>>()?))
    }
}

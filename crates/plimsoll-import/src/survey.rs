//! The first pass over a source: collects metadata, and digests that decide whether a stored copy is a prefix. Holds 16
//! bytes for each message, and the last message of each conversation.

use plimsoll::{Message, Millis, SessionId};
use plimsoll_formats::{Chain, Format, Transcript};

use crate::error::ImportError;
use crate::source::{OnRead, Source};
use crate::state::{Digest, ImportState, MessageDigest, Running, hex};
use crate::text::FirstPrompt;

/// Content of a source, without the messages.
#[non_exhaustive]
pub struct Survey {
    /// Metadata of its sessions, and what could not be parsed.
    pub transcript: Transcript,
    /// The session, then its sub-agents.
    pub(crate) conversations: Vec<Surveyed>,
}

/// A conversation of a surveyed source.
pub(crate) struct Surveyed {
    /// Key of the conversation in the source; empty for the session itself.
    pub(crate) key: String,
    /// Digests of the first message, of the first two messages, and so on.
    digests: Vec<Digest>,
    /// Id of the first message.
    pub(crate) first: String,
    last: Option<Message>,
}

/// Relation of a conversation to an earlier import of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    /// The conversation and the import are equal.
    Same,
    /// The import seems to be a prefix of the conversation. The second pass decides.
    Longer,
    /// The import is not a prefix of the conversation.
    Other,
}

impl Survey {
    /// Reads a source without storing it.
    pub fn of(source: &mut Source<'_>, on_read: OnRead<'_>) -> Result<Survey, ImportError> {
        let mut digested: Vec<ConversationDigest> = vec![ConversationDigest::default()];
        let transcript = source.visit(on_read, &mut |chain, message| {
            let place = place_of(chain);
            if digested.len() <= place {
                digested.resize_with(place + 1, ConversationDigest::default);
            }
            digested[place].push(message);
        })?;
        digested.resize_with(transcript.side_chains.len() + 1, ConversationDigest::default);
        let mut keys: Vec<String> = vec![String::new()];
        for (number, chain) in transcript.side_chains.iter().enumerate() {
            // Some tools give sub-agents the id of the session, which would not be unique as a key.
            let own =
                chain.info.id.clone().filter(|id| !id.is_empty() && chain.info.id != transcript.info.id);
            let own = own.filter(|id| !keys.contains(id));
            keys.push(own.unwrap_or_else(|| format!("#{}", number + 1)));
        }
        let surveyed = digested.into_iter().zip(keys).map(|(conversation, key)| {
            let ConversationDigest { digests, first, last, .. } = conversation;
            Surveyed { key, digests, first: first.unwrap_or_default(), last }
        });
        Ok(Survey { conversations: surveyed.collect(), transcript })
    }

    /// Returns the number of messages of the session, without those of sub-agents.
    pub fn messages(&self) -> usize {
        self.conversations.first().map_or(0, Surveyed::count)
    }

    /// Whether there is nothing to import.
    pub fn is_empty(&self) -> bool {
        self.conversations.iter().all(|conversation| conversation.count() == 0)
    }

    /// Returns the id that the tool gave the session.
    pub(crate) fn own_id(&self) -> Option<&str> {
        self.transcript.info.id.as_deref().filter(|id| !id.is_empty())
    }

    /// Derives an id for a session without one from its messages.
    pub(crate) fn content_id(&self) -> SessionId {
        let mut hasher = blake3::Hasher::new();
        for conversation in &self.conversations {
            hasher.update(&conversation.digests.last().copied().unwrap_or_default());
        }
        SessionId::new(format!("ses_{}", &hasher.finalize().to_hex().as_str()[..26]))
    }

    /// Returns the name of the tool in the store's records. It is the same for all formats of OpenCode.
    pub(crate) fn tool(&self) -> &'static str {
        match self.transcript.format {
            Format::OpencodeExport | Format::OpencodeMessages | Format::OpencodeDatabase => "opencode",
            format => format.name(),
        }
    }
}

impl Surveyed {
    pub(crate) fn count(&self) -> usize {
        self.digests.len()
    }

    pub(crate) fn relation_to(&self, taken: &ImportState) -> Relation {
        let after = |count: usize| match count.checked_sub(1) {
            None => Some(hex(&Running::default().digest())),
            Some(place) => self.digests.get(place).map(hex),
        };
        let Some(last) = &taken.last else {
            return if self.count() == 0 { Relation::Same } else { Relation::Longer };
        };
        if after(taken.messages.saturating_sub(1)).as_ref() != Some(&taken.closed) {
            return Relation::Other;
        }
        let is_same = after(taken.messages).as_ref() == Some(&taken.whole);
        match self.count().cmp(&taken.messages) {
            std::cmp::Ordering::Less => Relation::Other,
            std::cmp::Ordering::Equal if is_same => Relation::Same,
            std::cmp::Ordering::Equal => {
                let goes_on = self.last.as_ref().and_then(|message| last.changes_to(message)).is_some();
                if goes_on { Relation::Longer } else { Relation::Other }
            }
            // The survey did not keep the message to compare, so the second pass does it.
            std::cmp::Ordering::Greater => Relation::Longer,
        }
    }
}

/// Returns the index of a conversation in its source.
pub(crate) fn place_of(chain: Chain) -> usize {
    match chain {
        Chain::Main => 0,
        Chain::Side(number) => number + 1,
    }
}

#[derive(Default)]
struct ConversationDigest {
    running: Running,
    digests: Vec<Digest>,
    first: Option<String>,
    last: Option<Message>,
}

impl ConversationDigest {
    fn push(&mut self, message: Message) {
        self.running.push(&serde_json::to_vec(&message).unwrap_or_default());
        self.digests.push(self.running.digest());
        self.first.get_or_insert_with(|| message.info.id.to_string());
        self.last = Some(message);
    }
}

/// Figures of a conversation during the second pass.
#[derive(Default)]
pub(crate) struct Tally {
    running: Running,
    /// Digest of all messages except the newest.
    closed: Option<Digest>,
    pub(crate) count: usize,
    pub(crate) prompt: FirstPrompt,
    pub(crate) first_time: Option<Millis>,
    pub(crate) last_time: Option<Millis>,
    last: Option<MessageDigest>,
}

impl Tally {
    /// Adds the next message. Returns its size in bytes.
    pub(crate) fn push(&mut self, message: &Message) -> usize {
        let json = serde_json::to_vec(message).unwrap_or_default();
        self.closed = Some(self.running.digest());
        self.running.push(&json);
        self.count += 1;
        self.prompt.see(message);
        if let Some(at) = message.info.time.as_ref().and_then(|time| time.created) {
            self.first_time = Some(self.first_time.map_or(at, |known| known.min(at)));
            self.last_time = Some(self.last_time.map_or(at, |known| known.max(at)));
        }
        json.len()
    }

    /// Returns the digests of all messages except the newest, and of all messages.
    pub(crate) fn digests(&self) -> (String, String) {
        let closed = self.closed.unwrap_or_else(|| Running::default().digest());
        (hex(&closed), hex(&self.running.digest()))
    }

    /// Records the last message.
    pub(crate) fn end(&mut self, message: &Message) {
        self.last = Some(MessageDigest::of(message));
    }

    pub(crate) fn state(&self, is_renamed: bool, base: Millis) -> ImportState {
        let (closed, whole) = self.digests();
        ImportState { messages: self.count, closed, whole, last: self.last.clone(), is_renamed, base: base.0 }
    }
}

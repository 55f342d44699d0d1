//! A first reading of a source: what it is, and the digests that tell whether a stored copy is its beginning. Holds 16 bytes
//! for each message, and the last message of each conversation.

use plimsoll::{Message, Millis, SessionId};
use plimsoll_formats::{Chain, Format, Transcript};

use crate::error::ImportError;
use crate::source::{OnRead, Source};
use crate::taken::{Digest, MessageDigest, Running, Taken, hex};
use crate::text::FirstPrompt;

/// What a source was found to hold.
pub struct Survey {
    /// Everything but the messages: what the source says about its sessions, and what of it was not understood.
    pub transcript: Transcript,
    /// The session, then its sub-agents.
    pub(crate) conversations: Vec<Surveyed>,
}

/// A conversation, surveyed.
pub(crate) struct Surveyed {
    /// Which one of the source it is; empty for the session itself.
    pub(crate) key: String,
    /// The digest of the first message, of the first two, and so on.
    digests: Vec<Digest>,
    /// The name of the first message.
    pub(crate) first: String,
    last: Option<Message>,
}

/// How a conversation relates to what was taken of it before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    /// It is the same.
    Same,
    /// What was taken is its beginning, as far as can be told without reading it again.
    Longer,
    /// What was taken is not its beginning.
    Other,
}

impl Survey {
    /// Read a source without keeping it.
    pub fn of(source: &mut Source<'_>, on_read: OnRead<'_>) -> Result<Survey, ImportError> {
        let mut readings: Vec<Reading> = vec![Reading::default()];
        let transcript = source.visit(on_read, &mut |chain, message| {
            let place = place_of(chain);
            if readings.len() <= place {
                readings.resize_with(place + 1, Reading::default);
            }
            readings[place].push(message);
        })?;
        readings.resize_with(transcript.side_chains.len() + 1, Reading::default);
        let mut keys: Vec<String> = vec![String::new()];
        for (number, chain) in transcript.side_chains.iter().enumerate() {
            // Some tools write sub-agents under the id of the session itself.
            let own =
                chain.info.id.clone().filter(|id| !id.is_empty() && chain.info.id != transcript.info.id);
            let own = own.filter(|id| !keys.contains(id));
            keys.push(own.unwrap_or_else(|| format!("#{}", number + 1)));
        }
        let surveyed = readings.into_iter().zip(keys).map(|(reading, key)| {
            let Reading { digests, first, last, .. } = reading;
            Surveyed { key, digests, first: first.unwrap_or_default(), last }
        });
        Ok(Survey { conversations: surveyed.collect(), transcript })
    }

    /// How many messages the session has, those of sub-agents not counted.
    pub fn messages(&self) -> usize {
        self.conversations.first().map_or(0, Surveyed::count)
    }

    /// Whether there is nothing to import.
    pub fn is_empty(&self) -> bool {
        self.conversations.iter().all(|conversation| conversation.count() == 0)
    }

    /// The id that the tool gave the session.
    pub(crate) fn own_id(&self) -> Option<&str> {
        self.transcript.info.id.as_deref().filter(|id| !id.is_empty())
    }

    /// An id for a session that has none: the same for the same messages.
    pub(crate) fn content_id(&self) -> SessionId {
        let mut hasher = blake3::Hasher::new();
        for conversation in &self.conversations {
            hasher.update(&conversation.digests.last().copied().unwrap_or_default());
        }
        SessionId::new(format!("ses_{}", &hasher.finalize().to_hex().as_str()[..26]))
    }

    /// What the records of the store call the tool. OpenCode's formats are of one tool.
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

    pub(crate) fn relation_to(&self, taken: &Taken) -> Relation {
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
            // The message in question is not at hand; it is compared when it comes by again.
            std::cmp::Ordering::Greater => Relation::Longer,
        }
    }
}

/// The place of a conversation among all of a source.
pub(crate) fn place_of(chain: Chain) -> usize {
    match chain {
        Chain::Main => 0,
        Chain::Side(number) => number + 1,
    }
}

#[derive(Default)]
struct Reading {
    running: Running,
    digests: Vec<Digest>,
    first: Option<String>,
    last: Option<Message>,
}

impl Reading {
    fn push(&mut self, message: Message) {
        self.running.push(&serde_json::to_vec(&message).unwrap_or_default());
        self.digests.push(self.running.digest());
        self.first.get_or_insert_with(|| message.info.id.to_string());
        self.last = Some(message);
    }
}

/// What a conversation turns out to be while it is read for good.
#[derive(Default)]
pub(crate) struct Tally {
    running: Running,
    /// The digest of all messages but the newest.
    closed: Option<Digest>,
    pub(crate) count: usize,
    pub(crate) prompt: FirstPrompt,
    pub(crate) first_time: Option<Millis>,
    pub(crate) last_time: Option<Millis>,
    last: Option<MessageDigest>,
}

impl Tally {
    /// Take in the next message; gives its size in bytes.
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

    /// The digest of all messages but the newest, and that of all.
    pub(crate) fn digests(&self) -> (String, String) {
        let closed = self.closed.unwrap_or_else(|| Running::default().digest());
        (hex(&closed), hex(&self.running.digest()))
    }

    /// This is the last one.
    pub(crate) fn end(&mut self, message: &Message) {
        self.last = Some(MessageDigest::of(message));
    }

    pub(crate) fn taken(&self, is_renamed: bool, base: Millis) -> Taken {
        let (closed, whole) = self.digests();
        Taken { messages: self.count, closed, whole, last: self.last.clone(), is_renamed, base: base.0 }
    }
}

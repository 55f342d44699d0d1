//! Names as OpenCode takes them: `ses_…`, `msg_…`, `prt_…`, the later ones of a session sorting behind the earlier.
//!
//! `opencode import` leaves alone what it has under a name already, and says nothing. So a session in which something
//! was cleared, cut or left out gets names of its own: under the old ones OpenCode would go on with what it has, and
//! the reduction would be lost. The names follow from the session and its reductions, so that exporting the same
//! again gives the same, and what was added since is added there.

use std::collections::HashMap;

use plimsoll::log::Mark;
use plimsoll::{Ids, Message, MessageId, Millis, PartBody, ReceiptId, SessionId};

use crate::transcript::SessionInfo;

/// So many messages are looked at to name a session without a name.
const NAMING: usize = 20;

/// A reduction of a stored part that is in force.
pub(super) struct Reduced {
    effect: &'static str,
    receipt: Option<ReceiptId>,
}

impl Reduced {
    /// What a mark says, if it is one of a reduction. Where a text was cut or replaced, what is written has no mark any more,
    /// so it is told by what is stored.
    pub(super) fn of(mark: &Mark) -> Option<Reduced> {
        let effect = mark.effect.name();
        let is_reduction = mark.is_active() && matches!(effect, "clear" | "cut" | "hide" | "replace");
        is_reduction.then(|| Reduced { effect, receipt: mark.receipt.clone() })
    }
}

/// Whether OpenCode takes the names of a session as they are, learned message by message.
pub(super) struct NameCheck {
    seed: u64,
    /// How many messages are still looked at to name a session without a name.
    naming: usize,
    is_named: bool,
    is_sorted: bool,
    last: Option<(Millis, MessageId)>,
}

impl NameCheck {
    pub(super) fn new(info: &SessionInfo) -> NameCheck {
        NameCheck {
            seed: fnv(FNV, info.id.as_deref().unwrap_or_default()),
            // Without a name of its own a session is told from others by what is said in it.
            naming: if info.id.is_none() { NAMING } else { 0 },
            is_named: info.id.as_deref().is_none_or(|id| id.starts_with("ses")),
            is_sorted: true,
            last: None,
        }
    }

    /// The next message, as it is written.
    pub(super) fn see(&mut self, message: &Message) {
        if self.naming > 0 {
            self.naming -= 1;
            self.seed = fnv(self.seed, &message.text());
        }
        self.is_named &= message.info.id.as_str().starts_with("msg")
            && message.parts.iter().all(|part| part.id.as_str().starts_with("prt"));
        // Whether sorting by time and name, as OpenCode does, gives the same order.
        let key = (created(message), message.info.id.clone());
        self.is_sorted &= self.last.as_ref().is_none_or(|last| *last < key)
            && message.parts.is_sorted_by(|a, b| a.id < b.id);
        self.last = Some(key);
    }

    /// When the last message was begun.
    pub(super) fn last_time(&self) -> Option<Millis> {
        self.last.as_ref().map(|(time, _)| *time)
    }

    /// The seed of new names, if the session needs any.
    pub(super) fn seed(&self, reductions: &[Reduced]) -> Option<u64> {
        let seed = reductions.iter().fold(self.seed, |seed, reduced| {
            let receipt = reduced.receipt.as_ref().map(ReceiptId::as_str);
            fnv(fnv(seed, reduced.effect), receipt.unwrap_or_default())
        });
        let is_kept = self.is_named && self.is_sorted && reductions.is_empty();
        (!is_kept).then_some(seed)
    }
}

/// Names everything anew, in the order of the messages; the same seed gives the same names.
pub(super) struct NewNames {
    ids: Ids,
    pub(super) session: SessionId,
}

impl NewNames {
    pub(super) fn new(seed: u64, started: Millis) -> NewNames {
        let mut state = seed;
        let mut ids = Ids::new(move || {
            state = mix(state.wrapping_add(1));
            state
        });
        let session = ids.session(started);
        NewNames { ids, session }
    }

    /// Names the next message and its parts; returns the name it had.
    pub(super) fn give(&mut self, message: &mut Message) -> MessageId {
        let time = created(message);
        let before = std::mem::replace(&mut message.info.id, self.ids.message(time));
        for part in &mut message.parts {
            part.id = self.ids.part(time);
        }
        before
    }
}

/// Lets the names of other messages in a message follow.
pub(super) fn follow(message: &mut Message, given: &HashMap<MessageId, MessageId>) {
    rename(&mut message.info.parent_id, given);
    for part in &mut message.parts {
        if let PartBody::Compaction(marker) = &mut part.body {
            rename(&mut marker.tail_start, given);
            rename(&mut marker.prompt, given);
        }
    }
}

fn created(message: &Message) -> Millis {
    message.info.time.as_ref().and_then(|time| time.created).unwrap_or_default()
}

/// A name of a message that is not written names nothing.
fn rename(id: &mut Option<MessageId>, given: &HashMap<MessageId, MessageId>) {
    *id = id.take().and_then(|id| given.get(&id).cloned());
}

const FNV: u64 = 0xcbf2_9ce4_8422_2325;

fn fnv(seed: u64, text: &str) -> u64 {
    let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    // The separator keeps `ab`, `c` apart from `a`, `bc`.
    hash(text.bytes().fold(seed, hash), 0xff)
}

/// SplitMix64's last steps.
fn mix(state: u64) -> u64 {
    let mut mixed = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

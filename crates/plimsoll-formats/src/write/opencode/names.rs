//! Names as OpenCode takes them: `ses_…`, `msg_…`, `prt_…`, the later ones of a session sorting behind the earlier.
//!
//! `opencode import` leaves alone what it has under a name already, and says nothing. So a session in which something
//! was cleared, cut or left out gets names of its own: under the old ones OpenCode would go on with what it has, and
//! the reduction would be lost. The names follow from the session and its reductions, so that exporting the same
//! again gives the same, and what was added since is added there.

use std::collections::HashMap;

use plimsoll::log::Mark;
use plimsoll::{Ids, Message, MessageId, Millis, Part, PartBody, SessionId};

use crate::transcript::SessionInfo;

/// So many messages are looked at to name a session without a name.
const NAMING: usize = 20;

/// How the parts of an export are named.
pub(super) enum Names {
    /// As they are.
    Kept,
    /// Anew, from this seed.
    New(u64),
}

impl Names {
    /// What a session needs that is written as `messages`. Whether it is reduced is told by the marks of what is `stored`:
    /// where a text was cut or replaced, what is written has no mark any more, and what is left out is not there.
    pub(super) fn of(info: &SessionInfo, stored: &[Message], messages: &[Message]) -> Names {
        let mut seed = fnv(FNV, info.id.as_deref().unwrap_or_default());
        if info.id.is_none() {
            // Without a name of its own a session is told from others by what is said in it.
            for message in messages.iter().take(NAMING) {
                seed = fnv(seed, &message.text());
            }
        }
        let parts = || messages.iter().flat_map(|message| &message.parts);
        let mut is_reduced = false;
        let marks = stored.iter().flat_map(|message| &message.parts).flat_map(|part| &part.marks);
        for mark in marks.filter(|mark| is_reduction(mark)) {
            is_reduced = true;
            seed = fnv(seed, mark.effect.name());
            seed = fnv(seed, mark.receipt.as_ref().map(|id| id.as_str()).unwrap_or_default());
        }
        let is_named = info.id.as_deref().is_none_or(|id| id.starts_with("ses"))
            && messages.iter().all(|message| message.info.id.as_str().starts_with("msg"))
            && parts().all(|part| part.id.as_str().starts_with("prt"));
        if is_named && !is_reduced && is_sorted(messages) { Names::Kept } else { Names::New(seed) }
    }

    /// Name everything; gives the session's id.
    pub(super) fn give(self, messages: &mut [Message], id: Option<&str>, started: Millis) -> SessionId {
        let Names::New(seed) = self else { return SessionId::new(id.unwrap_or("ses_imported")) };
        let mut state = seed;
        let mut ids = Ids::new(move || {
            state = mix(state.wrapping_add(1));
            state
        });
        let session = ids.session(started);
        let mut given: HashMap<MessageId, MessageId> = HashMap::new();
        for message in messages.iter_mut() {
            let time = message.info.time.as_ref().and_then(|time| time.created).unwrap_or_default();
            let id = ids.message(time);
            given.insert(std::mem::replace(&mut message.info.id, id.clone()), id);
            for part in &mut message.parts {
                part.id = ids.part(time);
            }
        }
        for message in messages {
            rename(&mut message.info.parent_id, &given);
            for part in &mut message.parts {
                if let PartBody::Compaction(marker) = &mut part.body {
                    rename(&mut marker.tail_start, &given);
                    rename(&mut marker.prompt, &given);
                }
            }
        }
        session
    }
}

/// A name of a message that is not written names nothing.
fn rename(id: &mut Option<MessageId>, given: &HashMap<MessageId, MessageId>) {
    *id = id.take().and_then(|id| given.get(&id).cloned());
}

fn is_reduction(mark: &Mark) -> bool {
    mark.is_active() && matches!(mark.effect.name(), "clear" | "cut" | "hide" | "replace")
}

/// Whether sorting by time and name, as OpenCode does, gives the same order.
fn is_sorted(messages: &[Message]) -> bool {
    let key = |message: &Message| {
        let time = message.info.time.as_ref().and_then(|time| time.created);
        (time.unwrap_or_default(), message.info.id.as_str().to_owned())
    };
    let sorts = |parts: &[Part]| parts.is_sorted_by(|a, b| a.id < b.id);
    messages.is_sorted_by(|a, b| key(a) < key(b)) && messages.iter().all(|message| sorts(&message.parts))
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

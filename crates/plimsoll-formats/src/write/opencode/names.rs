//! Ids in OpenCode's format: `ses_…`, `msg_…`, `prt_…`, in ascending order within a session.
//!
//! `opencode import` silently keeps existing content under an existing id. A session in which something was cleared,
//! cut or left out therefore gets new ids: under the old ones, OpenCode would keep its own content, and the reduction
//! would be lost. The new ids are derived from the session and its reductions, so that exporting again produces the same
//! ids, and new messages are added to the previous import.

use std::collections::HashMap;

use plimsoll::log::Mark;
use plimsoll::{Fnv, Ids, Message, MessageId, Millis, PartBody, ReceiptId, SessionId};

use crate::transcript::SessionInfo;

/// Number of messages from which a session without an id gets one.
const NAMING: usize = 20;

/// A reduction of a stored part that is in effect.
pub(super) struct StoredReduction {
    effect: &'static str,
    receipt: Option<ReceiptId>,
}

impl StoredReduction {
    /// Returns the content of a mark, if it is one of a reduction. If a text was cut or replaced, the written part no
    /// longer has the mark, so the stored part is used.
    pub(super) fn of(mark: &Mark) -> Option<StoredReduction> {
        let effect = mark.effect.name();
        let is_reduction = mark.is_active() && matches!(effect, "clear" | "cut" | "hide" | "replace");
        is_reduction.then(|| StoredReduction { effect, receipt: mark.receipt.clone() })
    }
}

/// Checks message by message whether OpenCode accepts the ids of a session.
pub(super) struct NameCheck {
    seed: Fnv,
    /// Number of further messages from which a session without an id gets one.
    naming: usize,
    is_named: bool,
    is_sorted: bool,
    last: Option<(Millis, MessageId)>,
}

impl NameCheck {
    pub(super) fn new(info: &SessionInfo) -> NameCheck {
        NameCheck {
            seed: add(Fnv::new(), info.id.as_deref().unwrap_or_default()),
            // A session without an id is identified by its content.
            naming: if info.id.is_none() { NAMING } else { 0 },
            is_named: info.id.as_deref().is_none_or(|id| id.starts_with("ses")),
            is_sorted: true,
            last: None,
        }
    }

    /// Checks the next written message.
    pub(super) fn check(&mut self, message: &Message) {
        if self.naming > 0 {
            self.naming -= 1;
            self.seed = add(self.seed, &message.text());
        }
        self.is_named &= message.info.id.as_str().starts_with("msg")
            && message.parts.iter().all(|part| part.id.as_str().starts_with("prt"));
        // Whether sorting by time and id, as OpenCode does, keeps the order.
        let key = (created(message), message.info.id.clone());
        self.is_sorted &= self.last.as_ref().is_none_or(|last| *last < key)
            && message.parts.is_sorted_by(|a, b| a.id < b.id);
        self.last = Some(key);
    }

    /// Returns the start of the last message.
    pub(super) fn last_time(&self) -> Option<Millis> {
        self.last.as_ref().map(|(time, _)| *time)
    }

    /// Returns the seed of new ids, if the session needs any.
    pub(super) fn seed(&self, reductions: &[StoredReduction]) -> Option<u64> {
        let seed = reductions.iter().fold(self.seed, |seed, reduced| {
            let receipt = reduced.receipt.as_ref().map(ReceiptId::as_str);
            add(add(seed, reduced.effect), receipt.unwrap_or_default())
        });
        let is_kept = self.is_named && self.is_sorted && reductions.is_empty();
        (!is_kept).then_some(seed.finish())
    }
}

/// Assigns new ids to all messages in order; the same seed gives the same ids.
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

    /// Renames the next message and its parts, and returns its old id.
    pub(super) fn assign(&mut self, message: &mut Message) -> MessageId {
        let time = created(message);
        let before = std::mem::replace(&mut message.info.id, self.ids.message(time));
        for part in &mut message.parts {
            part.id = self.ids.part(time);
        }
        before
    }
}

/// Updates references to other messages.
pub(super) fn update_references(message: &mut Message, new_ids: &HashMap<MessageId, MessageId>) {
    rename(&mut message.info.parent_id, new_ids);
    for part in &mut message.parts {
        if let PartBody::Compaction(marker) = &mut part.body {
            rename(&mut marker.tail_start, new_ids);
            rename(&mut marker.prompt, new_ids);
        }
    }
}

fn created(message: &Message) -> Millis {
    message.info.time.as_ref().and_then(|time| time.created).unwrap_or_default()
}

/// References to messages that are not written are removed.
fn rename(id: &mut Option<MessageId>, new_ids: &HashMap<MessageId, MessageId>) {
    *id = id.take().and_then(|id| new_ids.get(&id).cloned());
}

fn add(seed: Fnv, text: &str) -> Fnv {
    // The separator distinguishes `ab`, `c` from `a`, `bc`.
    seed.bytes(text.as_bytes()).bytes(&[0xff])
}

/// The final steps of SplitMix64.
fn mix(state: u64) -> u64 {
    let mut mixed = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

//! Incremental weighing of a window that only grows.
//!
//! A live session builds its whole window for every request, because the request contains it. A replay sends nothing,
//! so building the window for each of n calls would cost O(n²). With a watch, a call costs only what was appended for
//! it, as long as running sums prove that nothing can be reduced. After that, the [ladder](super::ladder) reads the
//! whole window again.

use super::context::{CompactionContext, Trigger};
use crate::load::Load;
use crate::log::{LogPosition, Mark, Message, Part};
use crate::pivot::VisibleRange;
use crate::policy::RequestForm;
use crate::prune::{Pressure, gate_is_open};
use crate::purse::CacheTerms;
use crate::thrift::{Ledger, Rules};
use crate::window::{Window, WindowMessage, WindowRole, gained};

/// Running sums over a window since it was last weighed as a whole. Valid while messages are only appended to its
/// session.
pub struct Watch {
    /// Number of messages of the log that it covers.
    known: usize,
    load: Load,
    /// Costs and savings so far. `None` if the policy reduces nothing under the line.
    ledger: Option<Ledger>,
}

/// Messages that were added to a window.
#[derive(Clone, Debug, PartialEq)]
pub struct Growth {
    /// The new messages of the window, in order.
    pub messages: Vec<WindowMessage>,
    /// Weight of the next request.
    pub load: Load,
}

impl CompactionContext {
    /// Begins a watch over a session with this window, whose next request weighs `load`. `None` if the conversation has
    /// not begun, or if the log has marks from another tool that can only be ordered by time.
    pub fn watch(&self, messages: &[Message], window: &Window, load: &Load) -> Option<Watch> {
        let visible = VisibleRange::of(messages);
        let has_begun = window.messages.iter().any(|message| message.role != WindowRole::System);
        if visible.places.is_empty() || !has_begun || !messages.iter().all(has_ordered_marks) {
            return None;
        }
        let ledger = Rules::of(&self.policy)
            .map(|_| Ledger::of(&self.account(messages, &visible, load), load.usage_of.is_some()));
        Some(Watch { known: messages.len(), load: load.clone(), ledger })
    }

    /// Returns the messages added since the previous call, and the updated watch. `None` if a climb may be needed
    /// before the next request, or if the new messages change how earlier ones appear in the window.
    pub fn growth(&self, mut watch: Watch, messages: &[Message]) -> Option<(Growth, Watch)> {
        let gained = gained(messages, watch.known, &self.policy)?;
        let load =
            watch.load.grown(self.believed, messages, watch.known, &gained, &self.policy, self.counter())?;
        let terms = self.cache.unwrap_or_else(|| CacheTerms::assumed(&self.policy.cache));
        if let Some(ledger) = &mut watch.ledger {
            messages[watch.known..].iter().for_each(|message| ledger.add(message, &self.policy, terms));
        }
        (watch.known, watch.load) = (messages.len(), load.clone());
        self.rests(messages, &watch).then_some((Growth { messages: gained, load }, watch))
    }

    /// Whether [`wants_climb`](CompactionContext::wants_climb) is certain to return `false`.
    fn rests(&self, messages: &[Message], Watch { load, ledger, .. }: &Watch) -> bool {
        match self.trigger {
            Trigger::Precompaction | Trigger::Manual | Trigger::Refused => return false,
            Trigger::Auto if !self.policy.overflow.auto => return true,
            Trigger::Auto => {}
        }
        let prune = &self.policy.prune;
        let pressure = || Pressure { load: self.gauge(load).real(load.estimate), limits: self.limits };
        let prunes_early = prune.enabled && prune.is_gated() && gate_is_open(&self.policy, Some(pressure()));
        !self.calls_for_help(messages, load) && !prunes_early && !self.may_save(load, ledger.as_ref())
    }

    /// Whether a reduction under the line may save money.
    fn may_save(&self, load: &Load, ledger: Option<&Ledger>) -> bool {
        let Some((rules, ledger)) = Rules::of(&self.policy).zip(ledger) else { return false };
        let nothing = VisibleRange::of(&[]);
        let account = self.account(&[], &nothing, load);
        let compacts = || {
            let (Some(summariser), Some(line)) = (&self.summariser, self.line()) else { return false };
            let is_own = summariser.model.is_none() && self.policy.compact.request == RequestForm::Appended;
            let summary = self.gauge(load).real(self.summary_tokens());
            load.tokens > line.at.share(rules.compact_share)
                && (!is_own || ledger.may_compact(&account, &rules, summary, self.fixed.total()))
        };
        ledger.may_clear(&account, &rules) || compacts()
    }
}

/// Whether all marks of a message have a position in the order of the log, and no part is replaced by the summary of a
/// range.
fn has_ordered_marks(message: &Message) -> bool {
    let is_ordered = |moment: &LogPosition| moment.after.is_some();
    let is_ordered_mark = |mark: &Mark| {
        is_ordered(&mark.set) && mark.lifted.as_ref().is_none_or(|(moment, _)| is_ordered(moment))
    };
    let is_plain = |part: &Part| {
        part.marks.iter().all(is_ordered_mark)
            && (part.cleared().is_none() || !part.marks.is_empty())
            && part.replaced().is_none()
    };
    let set_aside = message.marker().and_then(|marker| marker.set_aside.as_ref());
    message.parts.iter().all(is_plain) && set_aside.is_none_or(is_ordered)
}

//! A watch over a window that only grows.
//!
//! A live session builds its whole window for every request, because the request carries it. A replay does not send
//! anything, and a session of n calls would cost n² messages. Under a watch each call costs what was appended for it, as
//! long as sums alone show that nothing can be reduced; then the [ladder](super::ladder) looks at the whole window again.

use super::ladder::{Situation, Trigger};
use crate::load::Load;
use crate::log::{Mark, Message, Moment, Part};
use crate::pivot::Visible;
use crate::policy::RequestForm;
use crate::prune::{Pressure, gate_is_open};
use crate::purse::CacheTerms;
use crate::thrift::{Ledger, Rules};
use crate::window::{Window, WindowMessage, WindowRole, gained};

/// What is known of a window since it was last weighed as a whole. It holds as long as its session is only appended to.
pub struct Watch {
    /// Messages of the log that it covers.
    known: usize,
    load: Load,
    /// `None` if the policy reduces nothing under the line.
    ledger: Option<Ledger>,
}

/// What a window gained.
#[derive(Clone, Debug, PartialEq)]
pub struct Growth {
    /// Its new messages, in order.
    pub messages: Vec<WindowMessage>,
    /// The weight of the next request.
    pub load: Load,
}

impl Situation {
    /// Begins a watch over a session with this window, whose next request weighs `load`. `None` if the conversation has not
    /// begun, or if marks of another tool have to be compared by their time.
    pub fn watch(&self, messages: &[Message], window: &Window, load: &Load) -> Option<Watch> {
        let visible = Visible::of(messages);
        let has_begun = window.messages.iter().any(|message| message.role != WindowRole::System);
        if visible.places.is_empty() || !has_begun || !messages.iter().all(has_ordered_marks) {
            return None;
        }
        let ledger = Rules::of(&self.policy)
            .map(|_| Ledger::of(&self.account(messages, &visible, load), load.usage_of.is_some()));
        Some(Watch { known: messages.len(), load: load.clone(), ledger })
    }

    /// What the window has gained since the watch was last asked, and the watch over the window as it is now. `None` if a
    /// climb may be wanted before the next request, or if the new messages change what the window showed before them.
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

    /// Whether [`wants_climb`](Situation::wants_climb) is certainly `false`.
    fn rests(&self, messages: &[Message], Watch { load, ledger, .. }: &Watch) -> bool {
        match self.trigger {
            Trigger::Early | Trigger::Manual | Trigger::Refused => return false,
            Trigger::Auto if !self.policy.overflow.auto => return true,
            Trigger::Auto => {}
        }
        let prune = &self.policy.prune;
        let pressure = || Pressure { load: self.gauge(load).real(load.estimate), limits: self.limits };
        let prunes_early = prune.enabled && prune.is_gated() && gate_is_open(&self.policy, Some(pressure()));
        !self.calls_for_help(messages, load) && !prunes_early && !self.may_save(load, ledger.as_ref())
    }

    /// Whether a reduction under the line may be worth it.
    fn may_save(&self, load: &Load, ledger: Option<&Ledger>) -> bool {
        let Some((rules, ledger)) = Rules::of(&self.policy).zip(ledger) else { return false };
        let nothing = Visible::of(&[]);
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

/// Whether everything that was done to a message has a place in the order of the log, and none of its parts is behind the
/// summary of a range.
fn has_ordered_marks(message: &Message) -> bool {
    let is_ordered = |moment: &Moment| moment.after.is_some();
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

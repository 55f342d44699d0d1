//! Load: how heavy the next request is.
//!
//! The provider's usage figures for the last response are exact, so they are taken where they still hold, and
//! only what came since is estimated. They no longer hold once anything was reduced after that response; a tail
//! behind a newer summary carries figures of a window that is gone. Figures that cannot be those of the request are not
//! believed at all, see [`crate::floor`].
//!
//! Usage that a reduction has made stale still is an upper bound: the window has only become smaller. Without it, an estimate
//! that is too high would turn a window under the line into one over it by clearing something.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::count::{Counter, Fixed, Tokens, request_tokens, window_message_tokens};
use crate::floor;
use crate::log::{Effect, Mark, Message, MessageId, Moment, Part, PartBody, Usage};
use crate::pivot::Visible;
use crate::policy::Policy;
use crate::window::{Window, WindowMessage, WindowRole};

/// How heavy the next request is, and how that is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Load {
    /// The best figure there is.
    pub tokens: Tokens,
    /// The estimate of the same request from its text alone.
    pub estimate: Tokens,
    /// The response whose usage `tokens` builds on; none if it is the estimate.
    pub usage_of: Option<MessageId>,
}

/// Whose usage figures say what the next request weighs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum BelievedUsage {
    /// Those of any response: the session goes on where it was recorded.
    #[default]
    Any,
    /// Those of answers that [this host](Message::is_asked_here) asked for. The usage of a session that another tool began is of
    /// requests with that tool's system prompt and tools, often more than all that was said.
    Own,
}

impl Load {
    /// Weigh the next request of a session.
    pub fn of(messages: &[Message], policy: &Policy, fixed: Fixed, counter: &dyn Counter) -> Load {
        Load::believing(BelievedUsage::Any, messages, policy, fixed, counter)
    }

    /// Like [`Load::of`], for a host that may not believe all usage of the session.
    pub fn believing(
        believed: BelievedUsage,
        messages: &[Message],
        policy: &Policy,
        fixed: Fixed,
        counter: &dyn Counter,
    ) -> Load {
        Load::with_window(believed, messages, policy, fixed, counter).0
    }

    /// Like [`Load::believing`], together with the window that was weighed, so that a caller that sends it need not build it
    /// again.
    pub(crate) fn with_window(
        believed: BelievedUsage,
        messages: &[Message],
        policy: &Policy,
        fixed: Fixed,
        counter: &dyn Counter,
    ) -> (Load, Window) {
        let visible = Visible::of(messages);
        let (load, window) = Load::by_valid_usage(believed, messages, &visible, policy, fixed, counter);
        if load.usage_of.is_some() {
            return (load, window);
        }
        let stale = stale_usage(messages, &visible, believed).and_then(|usage| {
            // Anything else would not change the figure, and costs a second window.
            let is_lower = policy.overflow.load(usage) < load.estimate;
            let before = || Load::before_reductions(believed, messages, policy, fixed, counter);
            is_lower.then(before).flatten()
        });
        let tokens = stale.map_or(load.tokens, |before| before.tokens.min(load.tokens));
        (Load { tokens, ..load }, window)
    }

    /// The load by usage that still holds, or by the estimate alone.
    fn by_valid_usage(
        believed: BelievedUsage,
        messages: &[Message],
        visible: &Visible,
        policy: &Policy,
        fixed: Fixed,
        counter: &dyn Counter,
    ) -> (Load, Window) {
        let window = Window::of_visible(messages, visible, policy);
        let estimate = request_tokens(&window, fixed, counter);
        let estimated = Load { tokens: estimate, estimate, usage_of: None };
        let Some(place) = newest_valid_usage(messages, visible, believed) else {
            return (estimated, window);
        };
        let least =
            window.messages.iter().filter(|message| message.place < Some(place)).map(floor::of_message);
        let least: Tokens = least.sum();
        if !messages[place].info.tokens.as_ref().is_some_and(|usage| floor::is_credible(usage, least)) {
            return (estimated, window);
        }
        let usage = messages[place].info.tokens.as_ref().map(|usage| policy.overflow.load(usage));
        let weight = |message: &WindowMessage| window_message_tokens(message, counter);
        let is_own = |message: &&WindowMessage| is_own_result(message, place);
        let since: Tokens = if reaches_back(messages, place) {
            // What came since is what the window has gained, wherever it stands.
            let then = Window::of(&messages[..=place], policy);
            let own: Tokens = then.messages.iter().filter(is_own).map(weight).sum();
            estimate - (request_tokens(&then, fixed, counter) - own)
        } else {
            // Otherwise the window has only grown at its end, and need not be built a second time.
            window.messages.iter().filter(|message| is_since(message, place)).map(weight).sum()
        };
        let tokens = usage.unwrap_or_default() + since;
        (Load { tokens, estimate, usage_of: Some(messages[place].info.id.clone()) }, window)
    }

    /// The load after messages from `known` on were appended, by which the window gained `gained`; this is the load before
    /// them. `None` if it has to be weighed as a whole.
    pub(crate) fn grown(
        &self,
        believed: BelievedUsage,
        messages: &[Message],
        known: usize,
        gained: &[WindowMessage],
        policy: &Policy,
        counter: &dyn Counter,
    ) -> Option<Load> {
        let weight = |message: &WindowMessage| window_message_tokens(message, counter);
        let more: Tokens = gained.iter().map(weight).sum();
        let estimate = self.estimate + more;
        let Some(place) = (known..messages.len()).rev().find(|place| is_counted(&messages[*place])) else {
            return Some(Load { tokens: self.tokens + more, estimate, usage_of: self.usage_of.clone() });
        };
        if believed == BelievedUsage::Own && !messages[place].is_asked_here() {
            return None;
        }
        let usage = messages[place].info.tokens.as_ref().map(|usage| policy.overflow.load(usage));
        let since: Tokens = gained.iter().filter(|message| is_since(message, place)).map(weight).sum();
        let usage_of = Some(messages[place].info.id.clone());
        Some(Load { tokens: usage.unwrap_or_default() + since, estimate, usage_of })
    }

    /// Like [`Load::believing`], for the session as it would be if nothing had been reduced or undone since its newest
    /// usage. It tells how estimates compare with that usage, also to a host that opens the session after the reduction. None
    /// where there is no such usage, or where a summary stands for what it was of.
    pub fn before_reductions(
        believed: BelievedUsage,
        messages: &[Message],
        policy: &Policy,
        fixed: Fixed,
        counter: &dyn Counter,
    ) -> Option<Load> {
        let place = newest_usage(messages, &Visible::of(messages), believed)?;
        let later = ids_from(messages, place);
        let is_stale = |moment: &Moment| is_after(moment, &messages[place], &later);
        let mut before = messages.to_vec();
        let parts = before.iter_mut().flat_map(|message| &mut message.parts);
        parts.for_each(|part| revert(part, is_stale));
        let visible = Visible::of(&before);
        let (load, _) = Load::by_valid_usage(believed, &before, &visible, policy, fixed, counter);
        load.usage_of.is_some().then_some(load)
    }
}

/// Whether a message of the window was no part yet of the request that the response at `place` answers.
fn is_since(message: &WindowMessage, place: usize) -> bool {
    message.place > Some(place) || is_own_result(message, place)
}

/// Whether a message of the window holds results of the calls that the response at `place` made.
fn is_own_result(message: &WindowMessage, place: usize) -> bool {
    message.place == Some(place) && message.role == WindowRole::Tool
}

/// Whether a message carries usage of a request for the session's next step.
fn is_counted(message: &Message) -> bool {
    let info = &message.info;
    let is_positive = info.tokens.as_ref().is_some_and(|usage| {
        usage.input + usage.cache_read + usage.cache_write + usage.total.unwrap_or_default() > Tokens::ZERO
    });
    is_positive && info.error.is_none() && !info.summary
}

/// Whether messages after `place` add to the window before it: a separate result stands with its call, and pinned text near the
/// beginning.
fn reaches_back(messages: &[Message], place: usize) -> bool {
    let mut later = messages[place + 1..].iter().flat_map(|message| &message.parts);
    later.any(|part| matches!(part.body, PartBody::ToolResult(_)) || part.pins().next().is_some())
}

/// Take back what was done to a part in a moment that `is_reverted`.
fn revert(part: &mut Part, is_reverted: impl Fn(&Moment) -> bool) {
    if let PartBody::Compaction(marker) = &mut part.body {
        marker.set_aside.take_if(|moment| is_reverted(moment));
        return;
    }
    if part.marks.is_empty() && part.cleared().is_none() {
        return;
    }
    let marks = part.all_marks().into_iter().filter(|mark| !is_reverted(&mark.set));
    let marks = marks.map(|mark| Mark { lifted: mark.lifted.filter(|(at, _)| !is_reverted(at)), ..mark });
    let marks = marks.collect();
    *part = part.clone().without_marks().with_marks(marks);
}

/// The newest message in view whose usage says what the window weighed, whether or not it still holds.
fn newest_usage(messages: &[Message], visible: &Visible, believed: BelievedUsage) -> Option<usize> {
    let after = visible.pivot.map(|pivot| pivot.summary);
    let place = visible.places.iter().copied().rev().find(|place| is_counted(&messages[*place]))?;
    let is_foreign = believed == BelievedUsage::Own && !messages[place].is_asked_here();
    (!is_foreign && after.is_none_or(|summary| place >= summary)).then_some(place)
}

/// The newest usage in view, if something was reduced since and nothing was undone: then it bounds the window from above.
fn stale_usage<'m>(messages: &'m [Message], visible: &Visible, believed: BelievedUsage) -> Option<&'m Usage> {
    let place = newest_usage(messages, visible, believed)?;
    let later = ids_from(messages, place);
    let is_later = |moment: &Moment| is_after(moment, &messages[place], &later);
    let parts = || messages.iter().flat_map(|message| &message.parts);
    let lifted = parts().flat_map(|part| &part.marks).filter_map(|mark| mark.lifted.as_ref());
    let set_aside = messages.iter().filter_map(|message| message.marker()?.set_aside.as_ref());
    let is_undone = lifted.map(|(moment, _)| moment).chain(set_aside).any(is_later);
    // A pin adds to the window.
    let is_pinned = parts().any(|part| part.marks.iter().any(|mark| is_later(&mark.set) && adds(mark)));
    messages[place].info.tokens.as_ref().filter(|_| !is_undone && !is_pinned)
}

/// Whether a mark can make the window larger.
fn adds(mark: &Mark) -> bool {
    matches!(mark.effect, Effect::Pin(_) | Effect::Replace(_))
}

/// The message at `place` and those that follow it.
fn ids_from(messages: &[Message], place: usize) -> BTreeSet<&MessageId> {
    messages[place..].iter().map(|message| &message.info.id).collect()
}

fn newest_valid_usage(messages: &[Message], visible: &Visible, believed: BelievedUsage) -> Option<usize> {
    let place = newest_usage(messages, visible, believed)?;
    let later = ids_from(messages, place);
    let is_stale = |moment: &Moment| is_after(moment, &messages[place], &later);
    let shown = visible.places.iter().chain(&visible.system).copied();
    let shown = shown
        .chain(visible.pivot.into_iter().flat_map(|pivot| [Some(pivot.summary), pivot.prompt]).flatten());
    let parts = shown.flat_map(|place| &messages[place].parts);
    let marked = parts.filter(|part| part.cleared().is_some() || !part.marks.is_empty()).any(|part| {
        let ours = part.marks.iter().any(|mark| {
            is_stale(&mark.set) || mark.lifted.as_ref().is_some_and(|(moment, _)| is_stale(moment))
        });
        // A mark of another tool has no place in our order, only a time.
        let theirs = part.cleared().filter(|_| part.marks.is_empty());
        ours || theirs.is_some_and(|at| is_stale(&Moment { at, after: None }))
    });
    let set_aside = messages.iter().filter_map(|message| message.marker()?.set_aside.as_ref());
    (!marked && !set_aside.into_iter().any(is_stale)).then_some(place)
}

/// Whether something was done after `response` had begun: by the order of the log (`later` are the response and
/// what follows it), or for what other tools did, by their clock. What was done at the same moment was done in
/// answer to it.
fn is_after(moment: &Moment, response: &Message, later: &BTreeSet<&MessageId>) -> bool {
    match &moment.after {
        Some(id) => later.contains(id),
        None => {
            let time = response.info.time.as_ref();
            let answered = time.and_then(|time| time.completed.or(time.created));
            answered.is_none_or(|answered| moment.at >= answered)
        }
    }
}

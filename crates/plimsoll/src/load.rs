//! Load: tokens of the next request.
//!
//! The provider's usage of the last response is exact. While it is valid, only messages that were added since are
//! estimated. It is no longer valid once anything was reduced after that response; a tail
//! after a newer summary has usage of a window that no longer exists. Usage that cannot be that of the request is not
//! believed, see [`crate::floor`].
//!
//! Usage from before a reduction is still an upper bound: the window has only become smaller. Without it, an estimate
//! that is too high would turn a window under the line into one over it by clearing something.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::count::{RequestOverhead, request_tokens, window_message_tokens};
use crate::counter::Counter;
use crate::floor;
use crate::log::{Effect, LogPosition, Mark, Message, MessageId, Part, PartBody, Usage};
use crate::pivot::VisibleRange;
use crate::policy::Policy;
use crate::tokens::Tokens;
use crate::window::{Window, WindowMessage, WindowRole};

/// Tokens of the next request, and their source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Load {
    /// The best known figure.
    pub tokens: Tokens,
    /// The estimate of the same request from its text.
    pub estimate: Tokens,
    /// The response whose usage `tokens` is based on; `None` if it is the estimate.
    pub usage_of: Option<MessageId>,
    /// Fewest tokens that a provider can count for the window; usage below it is not believed.
    #[serde(skip)]
    pub least: Tokens,
}

/// Which recorded usage to trust.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum UsageTrust {
    /// Usage of any response: the same host continues the session.
    #[default]
    Any,
    /// Usage of answers that [this host](Message::is_asked_here) requested. Usage in a session that another tool began includes
    /// that tool's system prompt and tools, often more than the whole conversation.
    Own,
}

impl Load {
    /// Weighs the next request of a session.
    pub fn of(messages: &[Message], policy: &Policy, fixed: RequestOverhead, counter: &dyn Counter) -> Load {
        Load::believing(UsageTrust::Any, messages, policy, fixed, counter)
    }

    /// Like [`Load::of`], for a host that may not trust all usage of the session.
    pub fn believing(
        believed: UsageTrust,
        messages: &[Message],
        policy: &Policy,
        fixed: RequestOverhead,
        counter: &dyn Counter,
    ) -> Load {
        Load::with_window(believed, messages, policy, fixed, counter).0
    }

    /// Like [`Load::believing`], with the window that was weighed, so that a caller that sends it need not build it
    /// again.
    pub(crate) fn with_window(
        believed: UsageTrust,
        messages: &[Message],
        policy: &Policy,
        fixed: RequestOverhead,
        counter: &dyn Counter,
    ) -> (Load, Window) {
        let visible = VisibleRange::of(messages);
        let (load, window) = Load::by_valid_usage(believed, messages, &visible, policy, fixed, counter);
        if load.usage_of.is_some() {
            return (load, window);
        }
        let stale = stale_usage(messages, &visible, believed).and_then(|usage| {
            // Otherwise the result would be the same, at the cost of a second window.
            let is_lower = policy.overflow.load(usage) < load.estimate;
            let before = || Load::before_reductions(believed, messages, policy, fixed, counter);
            is_lower.then(before).flatten()
        });
        let tokens = stale.map_or(load.tokens, |before| before.tokens.min(load.tokens));
        (Load { tokens, ..load }, window)
    }

    /// Returns the load by valid usage, or the estimate.
    fn by_valid_usage(
        believed: UsageTrust,
        messages: &[Message],
        visible: &VisibleRange,
        policy: &Policy,
        fixed: RequestOverhead,
        counter: &dyn Counter,
    ) -> (Load, Window) {
        let window = Window::of_visible(messages, visible, policy);
        let estimate = request_tokens(&window, fixed, counter);
        let least = |shown: &dyn Fn(&&WindowMessage) -> bool| -> Tokens {
            window.messages.iter().filter(shown).map(|message| floor::of_message(message, counter)).sum()
        };
        let all = least(&|_| true);
        let estimated = Load { tokens: estimate, estimate, usage_of: None, least: all };
        let Some(place) = newest_valid_usage(messages, visible, believed) else {
            return (estimated, window);
        };
        // The bound covers only what the response's request contained. Messages that came later were not counted.
        let sent = least(&|message| message.place < Some(place));
        if !messages[place].info.tokens.as_ref().is_some_and(|usage| floor::is_credible(usage, sent)) {
            return (estimated, window);
        }
        let usage = messages[place].info.tokens.as_ref().map(|usage| policy.overflow.load(usage));
        let weight = |message: &WindowMessage| window_message_tokens(message, counter);
        let is_own = |message: &&WindowMessage| is_own_result(message, place);
        let since: Tokens = if reaches_back(messages, place) {
            // What was added since may be anywhere in the window.
            let then = Window::of(&messages[..=place], policy);
            // Results of the response's own calls are in this window, but were not in its request.
            let own: Tokens = then.messages.iter().filter(is_own).map(weight).sum();
            estimate - (request_tokens(&then, fixed, counter) - own)
        } else {
            // Otherwise the window has only grown at its end and need not be built a second time.
            window.messages.iter().filter(|message| is_since(message, place)).map(weight).sum()
        };
        let tokens = usage.unwrap_or_default() + since;
        (Load { tokens, estimate, usage_of: Some(messages[place].info.id.clone()), least: all }, window)
    }

    /// Returns the load after messages from `known` on were appended, which added `gained` to the window; `self` is the load before
    /// them. `None` if the whole window has to be weighed.
    pub(crate) fn grown(
        &self,
        believed: UsageTrust,
        messages: &[Message],
        known: usize,
        gained: &[WindowMessage],
        policy: &Policy,
        counter: &dyn Counter,
    ) -> Option<Load> {
        let weight = |message: &WindowMessage| window_message_tokens(message, counter);
        let more: Tokens = gained.iter().map(weight).sum();
        let estimate = self.estimate + more;
        let least_of = |message: &WindowMessage| floor::of_message(message, counter);
        let least = self.least + gained.iter().map(least_of).sum();
        let Some(place) = (known..messages.len()).rev().find(|place| is_counted(&messages[*place])) else {
            return Some(Load {
                tokens: self.tokens + more,
                estimate,
                usage_of: self.usage_of.clone(),
                least,
            });
        };
        if believed == UsageTrust::Own && !messages[place].is_asked_here() {
            return None;
        }
        let sent = gained.iter().filter(|message| message.place < Some(place)).map(least_of);
        let sent = self.least + sent.sum();
        if !messages[place].info.tokens.as_ref().is_some_and(|usage| floor::is_credible(usage, sent)) {
            return None;
        }
        let usage = messages[place].info.tokens.as_ref().map(|usage| policy.overflow.load(usage));
        let since: Tokens = gained.iter().filter(|message| is_since(message, place)).map(weight).sum();
        let usage_of = Some(messages[place].info.id.clone());
        Some(Load { tokens: usage.unwrap_or_default() + since, estimate, usage_of, least })
    }

    /// Like [`Load::believing`], for the session as it would be if nothing had been reduced or undone since its newest
    /// usage. It shows how estimates compare with that usage, also to a host that opens the session after the reduction. `None`
    /// if there is no such usage, or if a summary replaced what it was of.
    pub fn before_reductions(
        believed: UsageTrust,
        messages: &[Message],
        policy: &Policy,
        fixed: RequestOverhead,
        counter: &dyn Counter,
    ) -> Option<Load> {
        let place = newest_usage(messages, &VisibleRange::of(messages), believed)?;
        let later = ids_from(messages, place);
        let is_stale = |moment: &LogPosition| is_after(moment, &messages[place], &later);
        let mut before = messages.to_vec();
        let parts = before.iter_mut().flat_map(|message| &mut message.parts);
        parts.for_each(|part| revert(part, is_stale));
        let visible = VisibleRange::of(&before);
        let (load, _) = Load::by_valid_usage(believed, &before, &visible, policy, fixed, counter);
        load.usage_of.is_some().then_some(load)
    }
}

/// Returns whether a message of the window was added after the request that the response at `place` answers.
fn is_since(message: &WindowMessage, place: usize) -> bool {
    message.place > Some(place) || is_own_result(message, place)
}

/// Returns whether a message of the window has results of the calls of the response at `place`.
fn is_own_result(message: &WindowMessage, place: usize) -> bool {
    message.place == Some(place) && message.role == WindowRole::Tool
}

/// Returns whether a message has usage of a request of the session, and not of a summary.
fn is_counted(message: &Message) -> bool {
    let info = &message.info;
    // Some servers report zeros. Believed, they would make a full window look empty.
    let is_positive = info.tokens.as_ref().is_some_and(|usage| {
        usage.input + usage.cache_read + usage.cache_write + usage.total.unwrap_or_default() > Tokens::ZERO
    });
    is_positive && info.error.is_none() && !info.summary
}

/// Returns whether messages after `place` change the window before it: a separate result appears next to its call, pinned
/// text near the beginning.
fn reaches_back(messages: &[Message], place: usize) -> bool {
    let mut later = messages[place + 1..].iter().flat_map(|message| &message.parts);
    later.any(|part| matches!(part.body, PartBody::ToolResult(_)) || part.pins().next().is_some())
}

/// Reverts what was done to a part at positions for which `is_reverted` is true.
fn revert(part: &mut Part, is_reverted: impl Fn(&LogPosition) -> bool) {
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

/// Returns the newest message in view with usage of the window, valid or not.
fn newest_usage(messages: &[Message], visible: &VisibleRange, believed: UsageTrust) -> Option<usize> {
    let after = visible.pivot.map(|pivot| pivot.summary);
    let place = visible.places.iter().copied().rev().find(|place| is_counted(&messages[*place]))?;
    // If another host answered last, older usage of this host describes a shorter window, so there is none to use.
    let is_foreign = believed == UsageTrust::Own && !messages[place].is_asked_here();
    (!is_foreign && after.is_none_or(|summary| place >= summary)).then_some(place)
}

/// Returns the newest usage in view if nothing was undone or pinned since: then it bounds the window from above.
fn stale_usage<'m>(
    messages: &'m [Message],
    visible: &VisibleRange,
    believed: UsageTrust,
) -> Option<&'m Usage> {
    let place = newest_usage(messages, visible, believed)?;
    let later = ids_from(messages, place);
    let is_later = |moment: &LogPosition| is_after(moment, &messages[place], &later);
    let parts = || messages.iter().flat_map(|message| &message.parts);
    let lifted = parts().flat_map(|part| &part.marks).filter_map(|mark| mark.lifted.as_ref());
    let set_aside = messages.iter().filter_map(|message| message.marker()?.set_aside.as_ref());
    let is_undone = lifted.map(|(moment, _)| moment).chain(set_aside).any(is_later);
    // A pin adds to the window.
    let is_pinned = parts().any(|part| part.marks.iter().any(|mark| is_later(&mark.set) && adds(mark)));
    messages[place].info.tokens.as_ref().filter(|_| !is_undone && !is_pinned)
}

/// Returns whether a mark can make the window larger.
fn adds(mark: &Mark) -> bool {
    matches!(mark.effect, Effect::Pin(_) | Effect::Replace(_) | Effect::Edit(_))
}

/// Returns the ids of the message at `place` and of those after it.
fn ids_from(messages: &[Message], place: usize) -> BTreeSet<&MessageId> {
    messages[place..].iter().map(|message| &message.info.id).collect()
}

fn newest_valid_usage(messages: &[Message], visible: &VisibleRange, believed: UsageTrust) -> Option<usize> {
    let place = newest_usage(messages, visible, believed)?;
    let later = ids_from(messages, place);
    let is_stale = |moment: &LogPosition| is_after(moment, &messages[place], &later);
    // Marks on messages out of view do not change the window, so they leave the usage valid.
    let shown = visible.places.iter().chain(&visible.system).copied();
    let shown = shown
        .chain(visible.pivot.into_iter().flat_map(|pivot| [Some(pivot.summary), pivot.prompt]).flatten());
    let parts = shown.flat_map(|place| &messages[place].parts);
    let marked = parts.filter(|part| part.cleared().is_some() || !part.marks.is_empty()).any(|part| {
        let ours = part.marks.iter().any(|mark| {
            is_stale(&mark.set) || mark.lifted.as_ref().is_some_and(|(moment, _)| is_stale(moment))
        });
        // A mark of another tool has a time only, no position.
        let theirs = part.cleared().filter(|_| part.marks.is_empty());
        ours || theirs.is_some_and(|at| is_stale(&LogPosition { at, after: None }))
    });
    let set_aside = messages.iter().filter_map(|message| message.marker()?.set_aside.as_ref());
    (!marked && !set_aside.into_iter().any(is_stale)).then_some(place)
}

/// Returns whether a position is after the beginning of `response`: by the order of the log (`later` are the response
/// and its successors), or for other tools by their clock. A position at the same time was caused by the response.
fn is_after(moment: &LogPosition, response: &Message, later: &BTreeSet<&MessageId>) -> bool {
    match &moment.after {
        Some(id) => later.contains(id),
        None => {
            let time = response.info.time.as_ref();
            let answered = time.and_then(|time| time.completed.or(time.created));
            // Without times the order is unknown. The usage then counts as stale, because an estimate is the safer
            // figure.
            answered.is_none_or(|answered| moment.at >= answered)
        }
    }
}

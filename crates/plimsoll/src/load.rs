//! Load: how heavy the next request is.
//!
//! The provider's usage figures for the last response are exact, so they are taken where they still hold, and
//! only what came since is estimated. They no longer hold once anything was reduced after that response; a tail
//! behind a newer summary carries figures of a window that is gone.

use serde::{Deserialize, Serialize};

use crate::count::{Counter, Fixed, Tokens, request_tokens, window_message_tokens};
use crate::log::{Message, MessageId};
use crate::pivot::Visible;
use crate::policy::Policy;
use crate::window::{Window, WindowRole};

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

impl Load {
    /// Weigh the next request of a session.
    pub fn of(messages: &[Message], policy: &Policy, fixed: Fixed, counter: &dyn Counter) -> Load {
        let visible = Visible::of(messages);
        let window = Window::of_visible(messages, &visible, policy);
        let estimate = request_tokens(&window, fixed, counter);
        let Some(place) = newest_valid_usage(messages, &visible) else {
            return Load { tokens: estimate, estimate, usage_of: None };
        };
        let usage = messages[place].info.tokens.as_ref().map(|usage| policy.overflow.load(usage));
        // What came since is what the window has gained: a late result may stand far up, with its call. The
        // response's own tool results were not part of it yet.
        let then = Window::of(&messages[..=place], policy);
        let own = then.messages.iter().filter(|m| m.place == Some(place) && m.role == WindowRole::Tool);
        let own: Tokens = own.map(|message| window_message_tokens(message, counter)).sum();
        let since = estimate - (request_tokens(&then, fixed, counter) - own);
        let tokens = usage.unwrap_or_default() + since;
        Load { tokens, estimate, usage_of: Some(messages[place].info.id.clone()) }
    }
}

/// What estimates are worth in real tokens: a factor, because vocabularies differ, and something hidden, because
/// hosts add prompts and tools that nobody told the engine of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Gauge {
    factor: f64,
    hidden: Tokens,
}

impl Gauge {
    /// Estimates are right.
    pub(crate) const EXACT: Gauge = Gauge { factor: 1.0, hidden: Tokens::ZERO };

    /// What the difference between usage and estimate says. A factor explains it up to `most`, the rest is
    /// hidden; but never more than half of `line`, or nothing one could do would help.
    pub(crate) fn of(load: &Load, line: Tokens, most: f64) -> Gauge {
        let (real, estimate) = (load.tokens.0 as f64, load.estimate.0.max(1) as f64);
        let hidden = (real - estimate * most).clamp(0.0, line.0 as f64 / 2.0);
        Gauge { factor: ((real - hidden) / estimate).max(1.0), hidden: Tokens(hidden as u64) }
    }

    /// The same, but so that `estimate` is at least `real`.
    pub(crate) fn at_least(self, estimate: Tokens, real: Tokens) -> Gauge {
        if self.real(estimate) >= real {
            return self;
        }
        Gauge { factor: (real - self.hidden).0 as f64 / estimate.0.max(1) as f64, ..self }
    }

    /// Real tokens of a request with that estimate.
    pub(crate) fn real(self, estimate: Tokens) -> Tokens {
        Tokens((estimate.0 as f64 * self.factor).ceil() as u64) + self.hidden
    }

    /// The largest estimate that is no more than `real` tokens.
    pub(crate) fn estimate(self, real: Tokens) -> Tokens {
        Tokens(((real - self.hidden).0 as f64 / self.factor) as u64)
    }
}

fn newest_valid_usage(messages: &[Message], visible: &Visible) -> Option<usize> {
    let after = visible.pivot.map(|pivot| pivot.summary);
    let place = visible.places.iter().copied().rev().find(|place| {
        let info = &messages[*place].info;
        let counted = info.tokens.as_ref().is_some_and(|usage| {
            usage.input + usage.cache_read + usage.cache_write + usage.total.unwrap_or_default()
                > Tokens::ZERO
        });
        counted && info.error.is_none() && !info.summary
    })?;
    if after.is_some_and(|summary| place < summary) {
        return None;
    }
    let time = messages[place].info.time.as_ref();
    let answered = time.and_then(|time| time.completed.or(time.created));
    let shown = visible.places.iter().chain(&visible.system).copied();
    let shown = shown.chain(visible.pivot.map(|pivot| pivot.summary));
    let parts = shown.flat_map(|place| &messages[place].parts);
    let on_parts = parts.flat_map(|part| [part.cleared(), part.cut.map(|cut| cut.at), part.lifted]).flatten();
    let set_aside = messages.iter().filter_map(|message| message.marker()?.set_aside);
    match on_parts.chain(set_aside).max() {
        // A mark of the same moment was set in answer to that usage.
        Some(mark) => answered.is_some_and(|answered| mark < answered).then_some(place),
        None => Some(place),
    }
}

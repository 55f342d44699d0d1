//! Replaces a range of messages anywhere in the window with a summary.
//!
//! A pivot is always the first thing in view, so it cannot replace messages in the middle. A range uses marks instead:
//! each part gets a mark that shows another text in its place, the summary for one part and nothing for the others. So
//! messages before and after are sent unchanged, the log is unchanged, and lifting the marks undoes it.

use thiserror::Error;

use super::contract::{ContractTerms, complete_summary};
use super::extract::extract;
use super::request::{HookText, Measured, SummaryJob, TooSmall};
use super::select::{legal_cuts, weights};
use crate::chars::Text;
use crate::counter::Counter;
use crate::log::{Message, MessageId, Part, PartBody, PartId, Role};
use crate::pivot::VisibleRange;
use crate::plan::{RangePlan, SummaryOrigin};
use crate::policy::Policy;
use crate::tokens::Tokens;
use crate::window::PROVIDER_BLOCK;

/// A range of messages that a summary may replace.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RangeSelection {
    /// Positions of the messages in the log, oldest first, without system messages, which stay in view.
    pub places: Vec<usize>,
    /// Tokens of the messages in the current window.
    pub tokens: Tokens,
    /// The part in whose place the summary is shown.
    pub host: PartId,
}

/// Reason for which a range cannot be summarised.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RangeError {
    /// No message in view has this id.
    #[error("no message in the window has an id that begins with `{0}`")]
    Unknown(String),
    /// The id prefix matches more than one message.
    #[error("more than one message in the window has an id that begins with `{0}`")]
    Ambiguous(String),
    /// The end comes before the start.
    #[error("`{to}` comes before `{from}`")]
    Reversed {
        /// First message of the range.
        from: MessageId,
        /// Last message of the range.
        to: MessageId,
    },
    /// The range would separate a call from its result.
    #[error(
        "`{from}` to `{to}` would separate a call from its result; use `{nearest_from}` to `{nearest_to}`"
    )]
    Torn {
        /// First message of the range.
        from: MessageId,
        /// Last message of the range.
        to: MessageId,
        /// Nearest valid first message.
        nearest_from: MessageId,
        /// Nearest valid last message.
        nearest_to: MessageId,
    },
    /// The range includes a prompt that has no answer yet.
    #[error("`{0}` has no answer yet and cannot be summarised")]
    Waiting(MessageId),
    /// The range has no visible content.
    #[error("nothing from `{from}` to `{to}` is in the window")]
    Empty {
        /// First message of the range.
        from: MessageId,
        /// Last message of the range.
        to: MessageId,
    },
}

/// Selects the range from one message to another, inclusive. Both are identified by an id or a unique prefix of one.
pub fn select_range(
    messages: &[Message],
    (from, to): (&str, &str),
    policy: &Policy,
    counter: &dyn Counter,
) -> Result<RangeSelection, RangeError> {
    let visible = VisibleRange::of(messages);
    let places = &visible.places;
    let id = |position: usize| messages[places[position]].info.id.clone();
    let (first, last) = (find(messages, places, from)?, find(messages, places, to)?);
    if last < first {
        return Err(RangeError::Reversed { from: id(first), to: id(last) });
    }
    let waiting = places.iter().rev().take_while(|place| messages[**place].starts_turn()).count();
    if last >= places.len() - waiting {
        return Err(RangeError::Waiting(id(last)));
    }
    let legal = legal_cuts(messages, places);
    if !legal[first] || !legal[last + 1] {
        let nearest_from = (0..=first).rev().find(|cut| legal[*cut]).unwrap_or(0);
        let nearest_to = (last + 1..legal.len()).find(|cut| legal[*cut]).unwrap_or(places.len());
        let (nearest_from, nearest_to) = (id(nearest_from), id(nearest_to.saturating_sub(1)));
        return Err(RangeError::Torn { from: id(first), to: id(last), nearest_from, nearest_to });
    }
    let weights = weights(messages, &visible, policy, counter);
    let is_system = |place: &usize| messages[*place].info.role == Some(Role::System);
    let range: Vec<usize> = places[first..=last].iter().copied().filter(|place| !is_system(place)).collect();
    let tokens = range.iter().map(|place| weights[*place]).sum();
    // The summary replaces a user's part if possible, so that it does not appear as the model's own words.
    let shown =
        || range.iter().map(|place| (&messages[*place], weights[*place])).filter(|of| of.1 > Tokens::ZERO);
    let user = shown().filter(|(message, _)| message.is_user()).find_map(|(message, _)| host(message));
    let host = user.or_else(|| shown().find_map(|(message, _)| host(message)));
    let Some(host) = host else { return Err(RangeError::Empty { from: id(first), to: id(last) }) };
    Ok(RangeSelection { places: range, tokens, host })
}

/// Finds the position of the message with this id or prefix.
fn find(messages: &[Message], places: &[usize], wanted: &str) -> Result<usize, RangeError> {
    let name = |place: usize| messages[place].info.id.as_str();
    if let Some(exact) = places.iter().position(|place| name(*place) == wanted) {
        return Ok(exact);
    }
    let mut near = (0..places.len()).filter(|position| name(places[*position]).starts_with(wanted));
    match (near.next(), near.next()) {
        (Some(only), None) if !wanted.is_empty() => Ok(only),
        (Some(_), Some(_)) => Err(RangeError::Ambiguous(wanted.to_owned())),
        _ => Err(RangeError::Unknown(wanted.to_owned())),
    }
}

fn host(message: &Message) -> Option<PartId> {
    let shown = |part: &&Part| is_content(part) && !part.is_hidden();
    let said = message.parts.iter().filter(shown).find(|part| matches!(part.body, PartBody::Text(_)));
    let any = || message.parts.iter().filter(shown).find(|part| !matches!(part.body, PartBody::Reasoning(_)));
    said.or_else(any).map(|part| part.id.clone())
}

/// Whether a part can have content in a window.
fn is_content(part: &Part) -> bool {
    match &part.body {
        PartBody::Text(text) => text.ignored != Some(true) && !text.text.trim().is_empty(),
        PartBody::Compaction(_) => false,
        PartBody::Other(kind) => kind == PROVIDER_BLOCK || kind == "subtask",
        _ => true,
    }
}

impl RangeSelection {
    fn history<'m>(&self, messages: &'m [Message]) -> Vec<&'m Message> {
        self.places.iter().map(|place| &messages[*place]).collect()
    }

    /// Prepares the range for a summariser.
    pub fn job(
        &self,
        messages: &[Message],
        policy: &Policy,
        summariser: Measured<'_>,
    ) -> Result<SummaryJob, TooSmall> {
        SummaryJob::new(self.history(messages), &HookText::default(), policy, summariser)
    }

    /// Returns a summary of the range that is made without a model.
    pub fn extract(&self, messages: &[Message], policy: &Policy, counter: &dyn Counter) -> Text {
        let most = self.tokens.share(policy.compact.extractive_gain_share);
        let most = policy.compact.extractive_tokens.min(most);
        extract(&self.history(messages), None, most, &policy.summary, counter)
    }

    /// Returns the plan that replaces the range with a summary, completed according to the contract. `line` limits the
    /// size of the completion.
    pub fn plan(
        &self,
        messages: &[Message],
        summary: &Text,
        (made, calls): (SummaryOrigin, u64),
        (policy, line): (&Policy, Tokens),
        counter: &dyn Counter,
    ) -> RangePlan {
        let replaced = self.history(messages);
        let mut summary = summary.clone();
        if policy.contract.enabled {
            let rest =
                VisibleRange::of(messages).places.into_iter().filter(|place| !self.places.contains(place));
            let in_view: Vec<&Message> = rest.map(|place| &messages[place]).collect();
            let budget = policy.contract.budget(line).min(self.tokens.share(0.25));
            let terms =
                ContractTerms { messages, replaced: &replaced, in_view: &in_view, carried: &[], budget };
            summary = complete_summary(&summary, &terms, policy, counter).0;
        }
        let parts = replaced.iter().flat_map(|message| &message.parts).filter(|part| is_content(part));
        let parts = parts.map(|part| part.id.clone()).filter(|part| *part != self.host).collect();
        let end =
            |message: Option<&&Message>| message.map(|message| message.info.id.clone()).unwrap_or_default();
        let count = replaced.len();
        let text = format!("[Summary of {count} messages]\n\n{summary}\n\n[End of the summary]");
        RangePlan {
            first: end(replaced.first()),
            last: end(replaced.last()),
            messages: count as u64,
            tokens: self.tokens,
            host: self.host.clone(),
            parts,
            text: Text::from(text),
            made,
            calls,
        }
    }
}

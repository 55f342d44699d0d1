//! A range of messages behind a summary of its own, wherever it stands in the window.
//!
//! A pivot stands before everything that is in view, so it cannot stand for messages in the middle. A range needs none:
//! each part of it gets a mark that shows another text in its place, the summary for one of them and nothing for the
//! others. So what comes before and after is sent byte for byte as it was, the log is as it was, and lifting the marks
//! undoes it.

use thiserror::Error;

use super::contract::{self, Terms};
use super::extract::extract;
use super::request::{HookText, Measured, SummaryJob, TooSmall};
use super::select::{legal_cuts, weights};
use crate::chars::Text;
use crate::count::{Counter, Tokens};
use crate::log::{Message, MessageId, Part, PartBody, PartId, Role};
use crate::pivot::Visible;
use crate::policy::Policy;
use crate::receipt::{Made, RangePlan};
use crate::window::PROVIDER_BLOCK;

/// A range of messages that a summary may stand for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeSelection {
    /// Its messages, oldest first, as places in the log. System messages are not among them: they stay in view.
    pub places: Vec<usize>,
    /// What they weigh in the window now.
    pub tokens: Tokens,
    /// The part in whose place the summary stands.
    pub host: PartId,
}

/// Why a range cannot be summarised.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RangeError {
    /// There is no such message in view.
    #[error("no message in the window has an id that begins with `{0}`")]
    Unknown(String),
    /// More than one message is meant.
    #[error("more than one message in the window has an id that begins with `{0}`")]
    Ambiguous(String),
    /// It ends before it begins.
    #[error("`{to}` comes before `{from}`")]
    Reversed {
        /// Where it was to begin.
        from: MessageId,
        /// Where it was to end.
        to: MessageId,
    },
    /// A call would be without its result.
    #[error(
        "`{from}` to `{to}` would part a call from its result; `{nearest_from}` to `{nearest_to}` would not"
    )]
    Torn {
        /// Where it was to begin.
        from: MessageId,
        /// Where it was to end.
        to: MessageId,
        /// The nearest message it may begin with.
        nearest_from: MessageId,
        /// The nearest message it may end with.
        nearest_to: MessageId,
    },
    /// A prompt that waits for its answer stays.
    #[error("`{0}` waits for its answer and stays as it is")]
    Waiting(MessageId),
    /// Nothing of it is shown.
    #[error("nothing from `{from}` to `{to}` is shown")]
    Empty {
        /// Where it was to begin.
        from: MessageId,
        /// Where it was to end.
        to: MessageId,
    },
}

/// The range from one message to another, both included, each named by its id or the beginning of it.
pub fn select_range(
    messages: &[Message],
    (from, to): (&str, &str),
    policy: &Policy,
    counter: &dyn Counter,
) -> Result<RangeSelection, RangeError> {
    let visible = Visible::of(messages);
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
    // A summary that the user gives does not pass for the model's own words.
    let shown =
        || range.iter().map(|place| (&messages[*place], weights[*place])).filter(|of| of.1 > Tokens::ZERO);
    let user = shown().filter(|(message, _)| message.is_user()).find_map(|(message, _)| host(message));
    let host = user.or_else(|| shown().find_map(|(message, _)| host(message)));
    let Some(host) = host else { return Err(RangeError::Empty { from: id(first), to: id(last) }) };
    Ok(RangeSelection { places: range, tokens, host })
}

/// The position of the message that is meant.
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

/// Whether a window may show something of a part.
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

    /// The range made ready for a summariser.
    pub fn job(
        &self,
        messages: &[Message],
        policy: &Policy,
        summariser: Measured<'_>,
    ) -> Result<SummaryJob, TooSmall> {
        SummaryJob::new(self.history(messages), &HookText::default(), policy, summariser)
    }

    /// A summary of the range that is made without a model.
    pub fn extract(&self, messages: &[Message], policy: &Policy, counter: &dyn Counter) -> Text {
        let most = self.tokens.share(policy.compact.extractive_gain_share);
        let most = policy.compact.extractive_tokens.min(most);
        extract(&self.history(messages), None, most, &policy.summary, counter)
    }

    /// The plan that puts a summary in the place of the range, completed with what the contract asks for as far as
    /// `line` leaves room for it.
    pub fn plan(
        &self,
        messages: &[Message],
        summary: &Text,
        (made, calls): (Made, u64),
        (policy, line): (&Policy, Tokens),
        counter: &dyn Counter,
    ) -> RangePlan {
        let replaced = self.history(messages);
        let mut summary = summary.clone();
        if policy.contract.enabled {
            let rest = Visible::of(messages).places.into_iter().filter(|place| !self.places.contains(place));
            let in_view: Vec<&Message> = rest.map(|place| &messages[place]).collect();
            let budget = policy.contract.budget(line).min(self.tokens.share(0.25));
            let terms = Terms { messages, replaced: &replaced, in_view: &in_view, carried: &[], budget };
            summary = contract::complete(&summary, &terms, policy, counter).0;
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

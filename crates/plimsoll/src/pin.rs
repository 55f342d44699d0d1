//! Pins: text that stays in the window verbatim, whatever is reduced.
//!
//! A pin is a mark on the part with the text, with a receipt; undoing the receipt unpins it. The window shows
//! a pinned text in place as long as the part is in view, and otherwise right after the summary. All pins
//! together have a budget, so that they can always be kept: a pin beyond it is rejected with the figures.

use thiserror::Error;

use crate::chars::Text;
use crate::counter::Counter;
use crate::limits::Limits;
use crate::log::{Ids, Log, LogError, Message, MessageId, Millis, Part, PartBody, PartId, pins};
use crate::plan::{PinItem, PinPlan, Plan};
use crate::policy::Policy;
use crate::receipt::{Receipt, Stamp};
use crate::tokens::Tokens;

/// Target of a pin.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PinTarget {
    /// All texts and tool results of a message.
    Message(MessageId),
    /// The text or tool result of a part.
    Part(PartId),
    /// A quote: the newest text that contains it, or else the newest message.
    Words(String),
}

/// Reason why something cannot be pinned.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PinError {
    /// The message or part does not exist.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The target has no text.
    #[error("no text to pin in {0}")]
    Empty(String),
    /// The text is pinned already.
    #[error("this is pinned already")]
    Pinned,
    /// The pins would exceed their budget.
    #[error(
        "pinning {wanted} tokens would exceed the pin budget: {pinned} of {budget} tokens are used \
         (`pin.maxTokens`, `pin.maxShare`)"
    )]
    OverBudget {
        /// Tokens of the new pin.
        wanted: Tokens,
        /// Tokens of existing pins.
        pinned: Tokens,
        /// Maximum tokens of all pins.
        budget: Tokens,
    },
}

/// Returns the maximum tokens of all pins for a model, or for any model if none is known.
pub fn budget(policy: &Policy, limits: Option<Limits>) -> Tokens {
    let line = limits.and_then(|limits| policy.overflow.line(limits));
    let share = line.map(|line| line.at.share(policy.pin.max_share));
    share.map_or(policy.pin.max_tokens, |share| share.min(policy.pin.max_tokens))
}

/// Plans a pin.
pub fn plan(
    log: &Log,
    target: &PinTarget,
    policy: &Policy,
    limits: Option<Limits>,
    counter: &dyn Counter,
) -> Result<PinPlan, PinError> {
    let found: Vec<(&Message, &Part, Text)> = match target {
        PinTarget::Message(id) => {
            let message = &log[log.place(id)?];
            message.parts.iter().filter_map(|part| Some((message, part, pinnable(part)?.clone()))).collect()
        }
        PinTarget::Part(id) => {
            let part = log.part(id)?;
            let holds = |message: &&Message| message.parts.iter().any(|part| part.id == *id);
            let message = log.iter().find(holds);
            message
                .zip(pinnable(part))
                .map(|(message, text)| (message, part, text.clone()))
                .into_iter()
                .collect()
        }
        PinTarget::Words(words) => words_in(log, words).into_iter().collect(),
    };
    let is_new = |part: &Part, text: &Text| !part.pins().any(|pin| pin == text);
    let name = || match target {
        PinTarget::Message(id) => format!("message `{id}`"),
        PinTarget::Part(id) => format!("part `{id}`"),
        PinTarget::Words(_) => "the words given".to_owned(),
    };
    if found.is_empty() {
        return Err(PinError::Empty(name()));
    }
    let items: Vec<PinItem> = found
        .into_iter()
        .filter(|(_, part, text)| is_new(part, text))
        .map(|(message, part, text)| {
            let (part, message, tokens) =
                (part.id.clone(), message.info.id.clone(), counter.count_text(&text));
            PinItem { part, message, text, tokens }
        })
        .collect();
    if items.is_empty() {
        return Err(PinError::Pinned);
    }
    let pinned: Tokens = pins(log).map(|(_, _, text)| counter.count_text(text)).sum();
    let (budget, wanted) = (budget(policy, limits), items.iter().map(|item| item.tokens).sum());
    if pinned + wanted > budget {
        return Err(PinError::OverBudget { wanted, pinned, budget });
    }
    Ok(PinPlan { items, total: pinned + wanted, budget })
}

impl PinPlan {
    /// Applies the plan and returns the receipt; `weigh` returns the tokens of the next request.
    pub fn apply(
        self,
        log: &mut Log,
        ids: &mut Ids,
        now: Millis,
        policy: &Policy,
        weigh: impl Fn(&Log) -> Tokens,
    ) -> Result<Receipt, LogError> {
        let before = weigh(log);
        let stamp = Stamp { ids, now, policy, reason: "requested" };
        let mut receipt = stamp.receipt(Plan::Pin(self), before, before);
        receipt.plan.mark(log, &receipt.id, now)?;
        receipt.after = weigh(log);
        Ok(receipt)
    }
}

/// Returns the text of a part that can be pinned: text or a tool result. Reasoning cannot: providers sign it.
fn pinnable(part: &Part) -> Option<&Text> {
    let text = match &part.body {
        PartBody::Text(said) if said.ignored != Some(true) => Some(&said.text),
        PartBody::Tool(tool) => tool.state.result(),
        PartBody::ToolResult(result) => Some(&result.text),
        _ => None,
    };
    text.filter(|text| !text.trim().is_empty())
}

/// Finds a quote: the newest text that contains it, prompts before others; else the newest message.
fn words_in<'a>(log: &'a Log, words: &str) -> Option<(&'a Message, &'a Part, Text)> {
    if words.trim().is_empty() {
        return None;
    }
    let parts = || log.iter().rev().flat_map(|message| message.parts.iter().map(move |part| (message, part)));
    let said = |(_, part): &(&Message, &Part)| pinnable(part).is_some_and(|text| text.contains(words));
    let found = parts().filter(|(message, _)| message.is_prompt()).find(said);
    let found =
        found.or_else(|| parts().find(said)).or_else(|| parts().find(|(_, part)| pinnable(part).is_some()));
    found.map(|(message, part)| (message, part, Text::from(words)))
}

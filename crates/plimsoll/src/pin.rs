//! Pins: text that stays in view word for word, whatever is reduced.
//!
//! A pin is a mark on the part that holds the text, with a receipt; undoing the receipt unpins it. The window shows
//! a pinned text where it stands as long as that is in view, and otherwise right behind the summary. All pins
//! together have a budget, so that they can always be kept: a pin beyond it is refused, with the figures.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::chars::Text;
use crate::count::{Counter, Tokens};
use crate::limits::Limits;
use crate::log::{Ids, Log, LogError, Message, MessageId, Millis, Part, PartBody, PartId};
use crate::policy::Policy;
use crate::receipt::{Plan, Receipt, Stamp};

/// What is to be pinned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PinTarget {
    /// All texts and tool results of a message.
    Message(MessageId),
    /// The text or tool result of a part.
    Part(PartId),
    /// Some words: the newest place where a user or the model says them, or where nobody did, the newest message.
    Words(String),
}

/// Texts that are to stay in view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PinPlan {
    /// The texts.
    pub items: Vec<PinItem>,
    /// What all pins weigh, these and those before.
    pub total: Tokens,
    /// What they may weigh.
    pub budget: Tokens,
}

impl PinPlan {
    /// What the texts of this plan weigh.
    pub fn tokens(&self) -> Tokens {
        self.items.iter().map(|item| item.tokens).sum()
    }
}

/// One text that is to stay in view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PinItem {
    /// The part it is pinned to.
    pub part: PartId,
    /// The message of that part.
    pub message: MessageId,
    /// The text.
    pub text: Text,
    /// What it weighs.
    pub tokens: Tokens,
}

/// Why something cannot be pinned.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PinError {
    /// There is nothing of that name, or the log is empty.
    #[error(transparent)]
    Log(#[from] LogError),
    /// There is no text.
    #[error("there is no text to pin in {0}")]
    Empty(String),
    /// It is pinned already.
    #[error("this is pinned already")]
    Pinned,
    /// The pins would take too much room.
    #[error(
        "a pin of {wanted} tokens beside {pinned} tokens of pins would be over the budget of {budget} tokens \
         (`pin.maxTokens`, `pin.maxShare`)"
    )]
    OverBudget {
        /// What the new pin weighs.
        wanted: Tokens,
        /// What is pinned already.
        pinned: Tokens,
        /// What all pins together may weigh.
        budget: Tokens,
    },
}

/// The pins that are in force, in the order of the log.
pub fn pins(messages: &[Message]) -> impl Iterator<Item = (&Message, &Part, &Text)> {
    let parts = messages.iter().flat_map(|message| message.parts.iter().map(move |part| (message, part)));
    parts.flat_map(|(message, part)| part.pins().map(move |text| (message, part, text)))
}

/// What all pins together may weigh on a model, or on any model where none is known.
pub fn budget(policy: &Policy, limits: Option<Limits>) -> Tokens {
    let line = limits.and_then(|limits| policy.overflow.line(limits));
    let share = line.map(|line| line.at.share(policy.pin.max_share));
    share.map_or(policy.pin.max_tokens, |share| share.min(policy.pin.max_tokens))
}

/// Plan to pin something.
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
    /// Pin it, and give the receipt; `weigh` says what the next request weighs.
    pub fn apply(
        self,
        log: &mut Log,
        ids: &mut Ids,
        now: Millis,
        policy: &Policy,
        weigh: impl Fn(&Log) -> Tokens,
    ) -> Result<Receipt, LogError> {
        let before = weigh(log);
        let stamp = Stamp { ids, now, policy, reason: "somebody asked for it" };
        let mut receipt = stamp.receipt(Plan::Pin(self), before, before);
        receipt.plan.mark(log, &receipt.id, now)?;
        receipt.after = weigh(log);
        Ok(receipt)
    }
}

/// The text of a part that can be pinned: what is said, or what a tool answered. Thoughts cannot: providers sign them.
fn pinnable(part: &Part) -> Option<&Text> {
    let text = match &part.body {
        PartBody::Text(said) if said.ignored != Some(true) => Some(&said.text),
        PartBody::Tool(tool) => tool.state.result(),
        PartBody::ToolResult(result) => Some(&result.text),
        _ => None,
    };
    text.filter(|text| !text.trim().is_empty())
}

/// Where those words stand: the newest text that says them, users before others; else the newest message at all.
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

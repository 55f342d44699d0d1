//! Details of plans: the turn and subject of each part, and the size of the window before and after.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll::{
    Input, Limits, Log, Message, MessageId, Millis, Part, PartBody, PartId, Plan, Policy, Receipt, ReceiptId,
    Tokens,
};
use plimsoll_session::{ContentKind, Describer, UsageScale, each_message, is_user_prompt};
use plimsoll_store::{Session, Store};

use crate::error::HostError;

/// The parts and messages of a session that plans name.
#[derive(Clone, Debug, Default)]
pub struct PlanContents {
    parts: BTreeMap<PartId, PartSubject>,
    turns: BTreeMap<MessageId, u32>,
}

/// Description of a part.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PartSubject {
    /// The turn it belongs to, from 1; 0 before the first.
    pub turn: u32,
    /// The tool, or the label of its kind.
    pub kind: String,
    /// The command, the path, or the first words.
    pub about: String,
}

impl PlanContents {
    /// Looks up the parts and messages of plans in a session.
    pub fn of<'p>(
        messages: &[Message],
        directory: Option<&str>,
        plans: impl IntoIterator<Item = &'p Plan>,
    ) -> PlanContents {
        let mut lookup = Lookup::new(directory, plans);
        messages.iter().for_each(|message| lookup.add(message));
        lookup.found
    }

    /// Looks up the parts and messages of receipts in a stored session, which is read message by message.
    pub fn stored(
        store: &dyn Store,
        session: &Session,
        receipts: &[Receipt],
    ) -> Result<PlanContents, HostError> {
        PlanContents::stored_with(store, session, receipts, std::iter::empty())
    }

    /// Like [`stored`](PlanContents::stored), with additional parts.
    pub(crate) fn stored_with(
        store: &dyn Store,
        session: &Session,
        receipts: &[Receipt],
        parts: impl Iterator<Item = PartId>,
    ) -> Result<PlanContents, HostError> {
        let plans = receipts.iter().map(|receipt| &receipt.plan);
        let mut lookup = Lookup::new(session.directory.as_deref(), plans);
        lookup.parts.extend(parts);
        each_message(store, &session.id, &mut |message| lookup.add(&message))?;
        Ok(lookup.found)
    }

    /// Returns the description of a part.
    pub fn part(&self, id: &PartId) -> PartSubject {
        self.parts.get(id).cloned().unwrap_or_default()
    }

    /// Returns the turn of a message, from 1; 0 before the first.
    pub fn turn(&self, id: &MessageId) -> Option<u32> {
        self.turns.get(id).copied()
    }
}

/// Collects the parts and messages of plans, message by message.
struct Lookup<'a> {
    parts: BTreeSet<PartId>,
    messages: BTreeSet<MessageId>,
    words: Describer<'a>,
    turn: u32,
    /// Tools and inputs of calls whose results are separate parts.
    calls: BTreeMap<String, (String, Option<Input>)>,
    found: PlanContents,
}

impl<'a> Lookup<'a> {
    fn new<'p>(directory: Option<&'a str>, plans: impl IntoIterator<Item = &'p Plan>) -> Lookup<'a> {
        let (mut parts, mut messages) = (BTreeSet::new(), BTreeSet::new());
        for plan in plans {
            parts.extend(plan.effects().into_iter().map(|(part, _)| part.clone()));
            match plan {
                Plan::Compact(plan) => {
                    messages.extend([&plan.first, &plan.last].into_iter().cloned());
                    messages.extend(plan.tail_start.iter().chain(&plan.prompt).cloned());
                }
                Plan::Range(plan) => messages.extend([&plan.first, &plan.last].into_iter().cloned()),
                _ => {}
            }
        }
        let (words, found) = (Describer { directory }, PlanContents::default());
        Lookup { parts, messages, words, turn: 0, calls: BTreeMap::new(), found }
    }

    fn add(&mut self, message: &Message) {
        self.turn += u32::from(is_user_prompt(message));
        if self.messages.contains(&message.info.id) {
            self.found.turns.insert(message.info.id.clone(), self.turn);
        }
        for part in &message.parts {
            if let PartBody::ToolCall(call) = &part.body {
                self.calls.insert(call.call_id.clone(), (call.tool.clone(), call.input.clone()));
            }
            if self.parts.contains(&part.id) {
                let (kind, about) = described(message, part, self.words, &self.calls);
                self.found.parts.insert(part.id.clone(), PartSubject { turn: self.turn, kind, about });
            }
        }
    }
}

fn described(
    message: &Message,
    part: &Part,
    words: Describer<'_>,
    calls: &BTreeMap<String, (String, Option<Input>)>,
) -> (String, String) {
    let kind = || ContentKind::of_part(message, part).label().to_owned();
    match &part.body {
        PartBody::Tool(tool) => {
            let input = tool.state.input.as_ref().map(|input| input.value());
            (tool.tool.clone(), words.call(&tool.tool, input))
        }
        PartBody::ToolResult(result) => {
            let call = calls.get(&result.call_id);
            let input = call.and_then(|(_, input)| Some(input.as_ref()?.value()));
            let tool = result.tool.as_deref().or(call.map(|(tool, _)| tool.as_str())).unwrap_or_default();
            (tool.to_owned(), words.call(tool, input))
        }
        PartBody::ToolCall(call) => {
            (call.tool.clone(), words.call(&call.tool, call.input.as_ref().map(|input| input.value())))
        }
        PartBody::Reasoning(reasoning) => (kind(), words.words(&reasoning.text)),
        PartBody::File(file) => (kind(), file.filename.clone().unwrap_or_default()),
        PartBody::Text(text) => (kind(), words.words(&text.text)),
        _ => (String::new(), String::new()),
    }
}

/// The size of a window before a plan and after it, on the scale that `inspect` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WindowSizes {
    /// Tokens before.
    pub before: Tokens,
    /// Tokens after.
    pub after: Tokens,
    /// Whether `after` is an upper bound, because the summary does not exist yet.
    pub is_bound: bool,
    /// The line, in tokens. `None` if it is unknown.
    pub line: Option<Tokens>,
}

impl WindowSizes {
    /// Returns the sizes of a receipt.
    pub fn of(receipt: &Receipt) -> WindowSizes {
        WindowSizes { before: receipt.before, after: receipt.after, is_bound: false, line: None }
    }

    /// Computes the sizes for a plan that is not applied.
    pub fn planned(plan: &Plan, log: &Log, policy: &Policy, limits: Limits) -> WindowSizes {
        let scale = UsageScale::shown(log, policy);
        let line = policy.overflow.line(limits).map(|line| line.at);
        let before = scale.window;
        // Only the maximum size of the summary is known before it is written.
        let replaced = match plan {
            Plan::Compact(plan) => Some(plan.tokens),
            Plan::Range(plan) if plan.text.is_empty() => Some(plan.tokens),
            _ => None,
        };
        if let Some(tokens) = replaced {
            let [tokens, summary] =
                [tokens, policy.compact.longest_summary()].map(|tokens| scale.of_plan(tokens, log, policy));
            let after = (before - tokens) + summary;
            return WindowSizes { before, after, is_bound: true, line };
        }
        let mut reduced = log.clone();
        let after = match plan.mark(&mut reduced, &ReceiptId::new("rcp_plan"), Millis(u64::MAX)) {
            Ok(()) => UsageScale::shown(&reduced, policy).window,
            Err(_) => before,
        };
        WindowSizes { before, after, is_bound: false, line }
    }

    /// Returns the sizes that a driver reports for a plan.
    pub fn driven(plan: &Plan, (before, after): (Tokens, Tokens)) -> WindowSizes {
        WindowSizes { before, after, is_bound: matches!(plan, Plan::Compact(_)), line: None }
    }

    /// Scales the pieces so that they add up to the difference of the sizes.
    pub fn shares(&self, pieces: impl Iterator<Item = Tokens>) -> Vec<Tokens> {
        let pieces: Vec<u64> = pieces.map(|piece| piece.0).collect();
        let all: u128 = pieces.iter().map(|piece| u128::from(*piece)).sum();
        let freed = u128::from((self.before - self.after).0);
        let (mut seen, mut shown) = (0_u128, 0_u128);
        let share = |piece: u64| {
            seen += u128::from(piece);
            let until = (freed * seen + all / 2).checked_div(all).unwrap_or(0);
            let own = until.saturating_sub(shown);
            shown = until;
            Tokens(u64::try_from(own).unwrap_or(u64::MAX))
        };
        pieces.into_iter().map(share).collect()
    }
}

//! Layer 2: clear old tool outputs from the window.
//!
//! The choice depends only on lengths. If the policy keeps names, the texts of the window are read once to find the names
//! that would be lost. Applying a plan sets a mark on each part, never more: the content stays in
//! the log, the calls stay in the window, and an undo lifts the marks.

mod choice;
mod kept;
mod order;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::chars::{Chars, Text, head, thousands};
use crate::count::{Counter, Tokens, part_tokens};
use crate::limits::Limits;
use crate::log::{Effect, Message, MessageId, Part, PartBody, PartId, ToolStatus};
use crate::pivot::{Pivot, Visible};
use crate::policy::{AtSummary, ClearedView, Measure, OnMeeting, Policy, PruneOrder, PrunePolicy};

pub use choice::{PruneChoice, plan_choice, plan_choice_by};
pub(crate) use kept::{clearable_texts, keep_names, keep_names_of};
pub(crate) use order::by_value;

/// Which outputs would be cleared, and what that frees.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PrunePlan {
    /// What would be cleared, in the order in which it was decided; empty if it is not worth it.
    pub items: Vec<PruneItem>,
    /// What that frees, by estimate.
    pub freed_tokens: Tokens,
    /// Estimated tokens of the tool outputs and other parts that were looked at and stay.
    pub kept_tokens: Tokens,
    /// Why the plan is as it is.
    pub reason: PruneReason,
    /// What a person chose, where it is not the policy that decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<PruneChoice>,
    /// How many of those that a person chose stay because they are too short for clearing to save anything.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub too_short: u64,
    /// The numbers of the reason, where it is that something was not reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortfall: Option<Shortfall>,
}

// What serde asks with takes a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// What there was, and what was asked of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Shortfall {
    /// What there was.
    pub found: Tokens,
    /// What it was compared with.
    pub needed: Tokens,
}

impl PrunePlan {
    /// The outputs that are too short, as a number with its noun.
    pub(crate) fn short_outputs(&self) -> String {
        let noun = if self.too_short == 1 { "tool output" } else { "tool outputs" };
        format!("{} {noun}", thousands(self.too_short))
    }

    /// Why the plan is as it is, with the numbers that decided.
    pub fn explain(&self) -> String {
        let reason = self.reason;
        if reason == PruneReason::NoneChosen && self.too_short > 0 {
            return format!("what was chosen is too short to be worth clearing: {}", self.short_outputs());
        }
        let Some(Shortfall { found, needed }) = self.shortfall else {
            return match reason {
                PruneReason::AllProtected => "there is no tool output that may go".to_owned(),
                other => other.to_string(),
            };
        };
        match reason {
            PruneReason::BelowMinimum => format!("{reason}: {found} of at least {needed} tokens"),
            // Outputs of the newest turns are not looked at.
            PruneReason::AllProtected => {
                format!("old tool outputs come to {found} tokens, and {needed} stay in any case")
            }
            PruneReason::NotNeeded => format!("{reason}: {found} tokens, and pruning begins at {needed}"),
            PruneReason::SmallEnough => format!("{reason}: {found} tokens, at most {needed} were asked for"),
            PruneReason::Chosen | PruneReason::NoneChosen => {
                format!("{reason}; {found} tokens would be left, more than the {needed} asked for")
            }
            PruneReason::Off | PruneReason::OldOutputs | PruneReason::ColdCache | PruneReason::Pays => {
                reason.to_string()
            }
        }
    }
}

/// One output to clear.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PruneItem {
    /// The part; also the handle by which its content is recalled.
    pub part: PartId,
    /// The message it belongs to.
    pub message: MessageId,
    /// The tool that was called.
    pub tool: String,
    /// Whether its output or its input is cleared.
    #[serde(default, skip_serializing_if = "Cleared::is_output")]
    pub what: Cleared,
    /// What clearing it frees.
    pub tokens: Tokens,
    /// Names from it that stay in the window; empty if none do.
    #[serde(default, skip_serializing_if = "no_names")]
    pub names: Text,
}

/// Which side of a tool call is cleared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Cleared {
    /// The tool's output.
    #[default]
    Output,
    /// Long texts of what it was given.
    Input,
}

impl Cleared {
    // The signature that serde requires.
    #[allow(clippy::trivially_copy_pass_by_ref)]
    fn is_output(&self) -> bool {
        *self == Cleared::Output
    }
}

fn no_names(names: &Text) -> bool {
    names.is_empty()
}

impl PruneItem {
    /// The output of a tool in a part of a message.
    pub fn output(part: PartId, message: MessageId, tool: impl Into<String>, tokens: Tokens) -> PruneItem {
        PruneItem { part, message, tool: tool.into(), what: Cleared::Output, tokens, names: Text::default() }
    }

    /// Brings it back with a recall.
    pub fn handle(&self) -> String {
        match self.what {
            Cleared::Output => self.part.to_string(),
            Cleared::Input => format!("{}:input", self.part),
        }
    }

    /// The mark that clears it.
    pub fn effect(&self) -> Effect {
        match self.what {
            Cleared::Output => Effect::Clear(self.names.clone()),
            Cleared::Input => Effect::ClearInput(self.names.clone()),
        }
    }
}

/// Why a plan clears something, or nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PruneReason {
    /// Pruning is switched off.
    Off,
    /// The window is not full enough for it to be tried.
    NotNeeded,
    /// Nothing lies outside what is protected.
    #[default]
    AllProtected,
    /// Too little would be freed.
    BelowMinimum,
    /// Old outputs go.
    OldOutputs,
    /// What was chosen goes.
    Chosen,
    /// No output is as was chosen.
    NoneChosen,
    /// The window is no fuller than was asked for.
    SmallEnough,
    /// The provider's cache is cold, so that clearing costs nothing.
    ColdCache,
    /// The calls to come save more than writing the cache anew costs.
    Pays,
}

impl fmt::Display for PruneReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PruneReason::Off => "pruning is switched off",
            PruneReason::NotNeeded => "the window is not full enough",
            PruneReason::AllProtected => "all tool outputs are protected",
            PruneReason::BelowMinimum => "too little would be freed",
            PruneReason::OldOutputs => "tool outputs beyond the protected ones",
            PruneReason::Chosen => "tool outputs that were chosen",
            PruneReason::NoneChosen => "no tool output is as was chosen",
            PruneReason::SmallEnough => "the window is small enough",
            PruneReason::ColdCache => "old tool outputs, while the cache is cold",
            PruneReason::Pays => "old tool outputs, because that costs less than sending them again",
        })
    }
}

/// How full the window is, for policies that prune only under pressure.
#[derive(Clone, Copy, Debug)]
pub struct Pressure {
    /// Tokens of the next request.
    pub load: Tokens,
    /// The model's limits.
    pub limits: Limits,
}

/// Plan a prune of `messages`. `pressure` may be left out for policies without gates.
///
/// ```
/// use plimsoll::{Policy, prune};
/// let plan = prune::plan(&[], &Policy::default(), None);
/// assert!(plan.items.is_empty());
/// ```
pub fn plan(messages: &[Message], policy: &Policy, pressure: Option<Pressure>) -> PrunePlan {
    let nothing = |reason| PrunePlan { reason, ..PrunePlan::default() };
    if !policy.prune.enabled {
        return nothing(PruneReason::Off);
    }
    if !gate_is_open(policy, pressure) {
        let shortfall = pressure.map(|Pressure { load, limits }| {
            let needed = gate(policy, limits);
            Shortfall { found: load, needed }
        });
        return PrunePlan { shortfall, ..nothing(PruneReason::NotNeeded) };
    }
    let mut plan = collect(messages, policy);
    keep_names(&mut plan, messages, policy);
    let minimum = policy.prune.min_tokens;
    let enough = plan.freed_tokens > minimum || (policy.prune.min_inclusive && plan.freed_tokens == minimum);
    if plan.items.is_empty() {
        plan.reason = PruneReason::AllProtected;
        let shortfall = Shortfall { found: plan.kept_tokens, needed: policy.prune.protect_tokens };
        plan.shortfall = (shortfall.found > Tokens::ZERO).then_some(shortfall);
    } else if enough {
        plan.reason = PruneReason::OldOutputs;
    } else {
        let kept_tokens = plan.kept_tokens + plan.freed_tokens;
        let shortfall = Some(Shortfall { found: plan.freed_tokens, needed: minimum });
        plan = PrunePlan { kept_tokens, shortfall, ..nothing(PruneReason::BelowMinimum) };
    }
    plan
}

impl PrunePolicy {
    /// Whether it prunes only under pressure.
    pub fn is_gated(&self) -> bool {
        self.gate_share.is_some() || self.gate_headroom.is_some()
    }
}

/// Whether the window is full enough for the policy to prune before the line.
pub(crate) fn gate_is_open(policy: &Policy, pressure: Option<Pressure>) -> bool {
    let prune = &policy.prune;
    if !prune.is_gated() {
        return true;
    }
    let Some(Pressure { load, limits }) = pressure else { return false };
    let context = limits.context;
    prune.gate_share.is_none_or(|share| load > context.share(share))
        && prune.gate_headroom.is_none_or(|headroom| load >= context - headroom)
        && load >= prune.protect_tokens
}

/// What a window has to weigh for the gates to be open.
fn gate(policy: &Policy, limits: Limits) -> Tokens {
    let (prune, context) = (&policy.prune, limits.context);
    let share = prune.gate_share.map(|share| context.share(share) + Tokens(1));
    let headroom = prune.gate_headroom.map(|headroom| context - headroom);
    share.into_iter().chain(headroom).chain([prune.protect_tokens]).max().unwrap_or_default()
}

/// Walk back from the newest part. What lies past the protected amount is a candidate, and so is the part that
/// crosses it; then take from either end.
fn collect(messages: &[Message], policy: &Policy) -> PrunePlan {
    let prune = &policy.prune;
    let mut plan = PrunePlan::default();
    let mut found: Vec<PruneItem> = Vec::new();
    let mut turns = 0;
    let mut seen = Tokens::ZERO;
    'scan: for place in places(messages, prune.at_summary).rev() {
        let message = &messages[place];
        if message.is_turn() {
            turns += 1;
        }
        if turns < prune.active_turns {
            continue;
        }
        // What is out of view already, behind the summary of a range or left out, weighs nothing and frees nothing.
        let is_shown = |part: &&Part| !part.is_hidden() && part.replaced().is_none();
        for part in message.parts.iter().rev().filter(is_shown) {
            let candidate = candidate(part, policy);
            if candidate.is_some() && part.cleared().is_some() {
                match prune.at_cleared {
                    OnMeeting::Stop => break 'scan,
                    OnMeeting::Skip => continue,
                }
            }
            if seen > prune.protect_tokens {
                found.extend(input_item(part, message, policy));
            }
            seen += match (prune.measure, &candidate) {
                (Measure::AllParts, _) => part_tokens(part, &policy.count),
                (Measure::ToolOutputs, Some((_, freed))) => *freed,
                (Measure::ToolOutputs, None) => Tokens::ZERO,
            };
            let Some((tool, tokens)) = candidate else { continue };
            if seen <= prune.protect_tokens {
                plan.kept_tokens = seen;
            } else if worth_clearing(part, tokens, policy) {
                found.push(PruneItem::output(part.id.clone(), message.info.id.clone(), tool, tokens));
            }
        }
    }
    if prune.order == PruneOrder::OldestFirst {
        found.reverse();
    }
    for item in found {
        if prune.stop_after_tokens.is_some_and(|enough| plan.freed_tokens >= enough) {
            break;
        }
        plan.freed_tokens += item.tokens;
        plan.items.push(item);
    }
    plan
}

pub(crate) fn worth_clearing(part: &Part, freed: Tokens, policy: &Policy) -> bool {
    let prune = &policy.prune;
    let chars = finished_output(part).map(|(_, chars)| chars).unwrap_or_default();
    chars >= prune.min_output_chars && (freed > Tokens::ZERO || prune.view == ClearedView::Clear)
}

/// The messages to look at: those after the newest summary, or all that are in the window.
fn places(messages: &[Message], at_summary: AtSummary) -> Box<dyn DoubleEndedIterator<Item = usize>> {
    let after_pivot = || Pivot::newest(messages).map(|pivot| pivot.summary + 1).unwrap_or(0);
    match at_summary {
        AtSummary::Stop => {
            let marked = messages.iter().rposition(|message| message.info.summary);
            let start = marked.map_or(0, |summary| summary + 1).max(after_pivot());
            Box::new(start..messages.len())
        }
        AtSummary::StopAtPivot => Box::new(after_pivot()..messages.len()),
        AtSummary::Skip => Box::new(Visible::of(messages).places.into_iter()),
    }
}

/// A completed result of a tool that is not protected: the tool, and what clearing it frees.
pub(crate) fn candidate<'a>(part: &'a Part, policy: &Policy) -> Option<(&'a str, Tokens)> {
    let (tool, chars) = finished_output(part)?;
    (!is_protected(tool, policy)).then(|| (tool, freed(chars, policy)))
}

/// The long texts of a finished call's input, as something to clear; `None` if they stay.
pub(crate) fn input_item(part: &Part, message: &Message, policy: &Policy) -> Option<PruneItem> {
    let (tool, is_finished) = match &part.body {
        PartBody::Tool(tool) => (&tool.tool, tool.state.status.is_final()),
        PartBody::ToolCall(call) => (&call.tool, true),
        _ => return None,
    };
    let may_go = policy.prune.inputs && is_finished && !is_protected(tool, policy);
    if !may_go || part.names_of_input().is_some() || part.cut().is_some() {
        return None;
    }
    let texts = clearable_texts(part, policy);
    let freed: Tokens = texts.iter().map(|text| policy.count.count(text) - PLACEHOLDER_TOKENS).sum();
    let (part, message) = (part.id.clone(), message.info.id.clone());
    let item = PruneItem { what: Cleared::Input, ..PruneItem::output(part, message, tool, freed) };
    (!texts.is_empty()).then_some(item)
}

/// Approximate tokens of the first line and the placeholder that replace a text in an input.
const PLACEHOLDER_TOKENS: Tokens = Tokens(50);

fn is_protected(tool: &str, policy: &Policy) -> bool {
    policy.prune.protected_tools.iter().any(|name| name.eq_ignore_ascii_case(tool))
}

/// What clearing an output of that length frees.
pub(crate) fn freed(chars: Chars, policy: &Policy) -> Tokens {
    let estimate = policy.count.of_chars(chars);
    match policy.prune.view {
        ClearedView::Clear => estimate,
        // What fits the retained beginning is shown as before, so clearing it frees nothing.
        ClearedView::Retain => estimate - policy.count.of_chars(chars.min(policy.prune.retain_chars)),
    }
}

/// What clearing an output frees, by a counter other than the policy's.
fn freed_by(part: &Part, policy: &Policy, counter: &dyn Counter) -> Tokens {
    let text = match &part.body {
        PartBody::Tool(tool) => tool.state.output.as_ref(),
        PartBody::ToolResult(result) => Some(&result.text),
        _ => None,
    };
    let Some(text) = text else { return Tokens::ZERO };
    match policy.prune.view {
        ClearedView::Clear => counter.count_text(text),
        ClearedView::Retain if text.chars() <= policy.prune.retain_chars => Tokens::ZERO,
        ClearedView::Retain => {
            counter.count_text(text) - counter.count(head(text, policy.prune.retain_chars))
        }
    }
}

fn finished_output(part: &Part) -> Option<(&str, Chars)> {
    match &part.body {
        PartBody::Tool(tool) if tool.state.status == ToolStatus::Completed => {
            Some((&tool.tool, tool.state.output.as_ref().map(|text| text.chars()).unwrap_or_default()))
        }
        PartBody::ToolResult(result) if result.is_error != Some(true) => {
            Some((result.tool.as_deref().unwrap_or("tool"), result.text.chars()))
        }
        _ => None,
    }
}

//! Layer 2: clears old tool outputs from the window.
//!
//! The choice depends only on lengths. If the policy keeps names, the texts of the window are read once to find the
//! names that would be lost. Applying a plan only sets a mark on each part: the content stays in the log, the calls
//! stay in the window, and an undo lifts the marks.

mod choice;
mod kept;
mod order;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::chars::{Chars, Text, head};
use crate::count::part_tokens;
use crate::counter::Counter;
use crate::limits::Limits;
use crate::log::{Effect, Message, MessageId, Part, PartBody, PartId, ToolStatus};
use crate::numbers::thousands;
use crate::pivot::{Pivot, VisibleRange};
use crate::policy::{AtSummary, ClearedView, Measure, OnMeeting, Policy, PruneOrder, PrunePolicy};
use crate::tokens::Tokens;

pub use choice::{PruneChoice, plan_choice, plan_choice_by};
pub(crate) use kept::{clearable_texts, keep_names, keep_names_of};
pub(crate) use order::by_value;

/// Outputs to clear, and the tokens that this frees.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PrunePlan {
    /// Outputs and inputs to clear, in the order in which they were selected. Empty if clearing is not worth it.
    pub items: Vec<PruneItem>,
    /// Estimated tokens that are freed.
    pub freed_tokens: Tokens,
    /// Estimated tokens of the examined tool outputs and other parts that stay.
    pub kept_tokens: Tokens,
    /// Reason for the plan.
    pub reason: PruneReason,
    /// The user's choice. `None` if the policy decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<PruneChoice>,
    /// Number of chosen outputs that stay because clearing them would save nothing.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub too_short: u64,
    /// The figures of the reason, if a threshold was not reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortfall: Option<Shortfall>,
}

// The signature that serde requires.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A figure that did not reach its threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Shortfall {
    /// The figure.
    pub found: Tokens,
    /// The threshold.
    pub needed: Tokens,
}

impl PrunePlan {
    /// Creates a plan that clears these items.
    pub fn of(items: Vec<PruneItem>) -> PrunePlan {
        PrunePlan { items, ..PrunePlan::default() }
    }

    /// The number of outputs that are too short, with its noun.
    pub(crate) fn short_outputs(&self) -> String {
        let noun = if self.too_short == 1 { "tool output" } else { "tool outputs" };
        format!("{} {noun}", thousands(self.too_short))
    }

    /// Explains the plan, with the figures of its reason.
    pub fn explain(&self) -> String {
        let reason = self.reason;
        if reason == PruneReason::NoneChosen && self.too_short > 0 {
            return format!(
                "the chosen outputs are too short to be worth clearing: {}",
                self.short_outputs()
            );
        }
        let Some(Shortfall { found, needed }) = self.shortfall else {
            return match reason {
                PruneReason::AllProtected => "no tool output can be cleared".to_owned(),
                other => other.to_string(),
            };
        };
        match reason {
            PruneReason::BelowMinimum => format!("{reason}: {found} of at least {needed} tokens"),
            // Outputs of the newest turns are not included.
            PruneReason::AllProtected => {
                format!("old tool outputs have {found} tokens, and {needed} are protected")
            }
            PruneReason::NotNeeded => format!("{reason}: {found} tokens, and pruning starts at {needed}"),
            PruneReason::SmallEnough => format!("{reason}: {found} tokens, the target is {needed}"),
            PruneReason::Chosen | PruneReason::NoneChosen => {
                format!("{reason}; {found} tokens would be left, more than the target of {needed}")
            }
            PruneReason::Off | PruneReason::OldOutputs | PruneReason::ColdCache | PruneReason::Pays => {
                reason.to_string()
            }
        }
    }
}

/// An output or input to clear.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PruneItem {
    /// The part, whose id is also the handle for recalling its output.
    pub part: PartId,
    /// The message of the part.
    pub message: MessageId,
    /// The tool.
    pub tool: String,
    /// Whether the output or the input is cleared.
    #[serde(default, skip_serializing_if = "Cleared::is_output")]
    pub what: Cleared,
    /// Tokens that this frees.
    pub tokens: Tokens,
    /// Names from the content that stay in the window. May be empty.
    #[serde(default, skip_serializing_if = "no_names")]
    pub names: Text,
}

/// Side of a tool call that is cleared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Cleared {
    /// The tool's output.
    #[default]
    Output,
    /// Long texts in the tool's input.
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
    /// Creates an item for the output in a part of a message.
    pub fn output(part: PartId, message: MessageId, tool: impl Into<String>, tokens: Tokens) -> PruneItem {
        PruneItem { part, message, tool: tool.into(), what: Cleared::Output, tokens, names: Text::default() }
    }

    /// The handle for recalling the content.
    pub fn handle(&self) -> String {
        match self.what {
            Cleared::Output => self.part.to_string(),
            Cleared::Input => format!("{}:input", self.part),
        }
    }

    /// The effect of the mark that clears the content.
    pub fn effect(&self) -> Effect {
        match self.what {
            Cleared::Output => Effect::Clear(self.names.clone()),
            Cleared::Input => Effect::ClearInput(self.names.clone()),
        }
    }
}

/// Reason for which a plan clears something, or nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum PruneReason {
    /// Pruning is disabled.
    Off,
    /// The window is not full enough.
    NotNeeded,
    /// All outputs are protected.
    #[default]
    AllProtected,
    /// Too little would be freed.
    BelowMinimum,
    /// Clears outputs beyond the protected ones.
    OldOutputs,
    /// Clears the user's choice.
    Chosen,
    /// No output matches the user's choice.
    NoneChosen,
    /// The window is already as small as the user asked for.
    SmallEnough,
    /// The provider's cache is cold, so clearing costs nothing.
    ColdCache,
    /// The expected calls save more than writing the cache again costs.
    Pays,
}

impl fmt::Display for PruneReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PruneReason::Off => "pruning is disabled",
            PruneReason::NotNeeded => "the window is not full enough",
            PruneReason::AllProtected => "all tool outputs are protected",
            PruneReason::BelowMinimum => "too little would be freed",
            PruneReason::OldOutputs => "tool outputs beyond the protected ones",
            PruneReason::Chosen => "chosen tool outputs",
            PruneReason::NoneChosen => "no tool output matches the choice",
            PruneReason::SmallEnough => "the window is small enough",
            PruneReason::ColdCache => "old tool outputs, while the cache is cold",
            PruneReason::Pays => "old tool outputs: clearing them costs less than sending them again",
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

/// Returns whether the caller cancelled. It is called once for each text.
pub type IsStopped<'a> = &'a dyn Fn() -> bool;

/// Plans a prune of `messages`. `pressure` is only needed for policies with gates.
///
/// ```
/// use plimsoll::{Policy, prune};
/// let plan = prune::plan(&[], &Policy::default(), None);
/// assert!(plan.items.is_empty());
/// ```
pub fn plan(messages: &[Message], policy: &Policy, pressure: Option<Pressure>) -> PrunePlan {
    plan_until(messages, policy, pressure, &|| false)
}

/// Like [`plan`], for a caller that may cancel. Then it returns early with any plan, which the caller discards.
pub fn plan_until(
    messages: &[Message],
    policy: &Policy,
    pressure: Option<Pressure>,
    is_stopped: IsStopped<'_>,
) -> PrunePlan {
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
    keep_names(&mut plan, messages, policy, is_stopped);
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
    /// Whether the policy prunes only if the window is full enough.
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

/// Minimum weight of a window for the gates to be open.
fn gate(policy: &Policy, limits: Limits) -> Tokens {
    let (prune, context) = (&policy.prune, limits.context);
    // One more, because this gate requires more than its share, while the others require at least theirs.
    let share = prune.gate_share.map(|share| context.share(share) + Tokens(1));
    let headroom = prune.gate_headroom.map(|headroom| context - headroom);
    share.into_iter().chain(headroom).chain([prune.protect_tokens]).max().unwrap_or_default()
}

/// Scans back from the newest part. Parts beyond the protected amount are candidates, including the part that crosses
/// it. Then takes candidates from either end.
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
        // Parts that are not shown (hidden, or replaced by the summary of a range) weigh nothing and free nothing.
        let is_shown = |part: &&Part| !part.is_hidden() && part.replaced().is_none();
        for part in message.parts.iter().rev().filter(is_shown) {
            let candidate = candidate(part, policy);
            if candidate.is_some() && part.cleared().is_some() {
                match prune.at_cleared {
                    OnMeeting::Stop => break 'scan,
                    OnMeeting::Skip => continue,
                }
            }
            // Checked before this part is counted: the output that crosses the protected amount is cleared, the input
            // of its call is not.
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

/// The messages to scan: those after the newest summary, or all in the window.
fn places(messages: &[Message], at_summary: AtSummary) -> Box<dyn DoubleEndedIterator<Item = usize>> {
    let after_pivot = || Pivot::newest(messages).map(|pivot| pivot.summary + 1).unwrap_or(0);
    match at_summary {
        AtSummary::Stop => {
            let marked = messages.iter().rposition(|message| message.info.summary);
            let start = marked.map_or(0, |summary| summary + 1).max(after_pivot());
            Box::new(start..messages.len())
        }
        AtSummary::StopAtPivot => Box::new(after_pivot()..messages.len()),
        AtSummary::Skip => Box::new(VisibleRange::of(messages).places.into_iter()),
    }
}

/// The tool of a completed result that is not protected, and the tokens that clearing it frees.
pub(crate) fn candidate<'a>(part: &'a Part, policy: &Policy) -> Option<(&'a str, Tokens)> {
    let (tool, chars) = finished_output(part)?;
    (!is_protected(tool, policy)).then(|| (tool, freed(chars, policy)))
}

/// Returns the item that clears the long texts of a finished call's input. `None` if they stay.
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

/// Tokens that clearing an output of that length frees.
pub(crate) fn freed(chars: Chars, policy: &Policy) -> Tokens {
    let estimate = policy.count.of_chars(chars);
    match policy.prune.view {
        ClearedView::Clear => estimate,
        // The retained beginning is still shown, so only the rest is freed.
        ClearedView::Retain => estimate - policy.count.of_chars(chars.min(policy.prune.retain_chars)),
    }
}

/// Tokens that clearing an output frees, by a counter other than the policy's.
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

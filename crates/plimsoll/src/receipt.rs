//! Plans and receipts: a reduction intended, a reduction done.
//!
//! Every reduction is first a [`Plan`], a value that can be printed, compared and stored. Applying it gives a
//! [`Receipt`], which names what left the window by [`Handle`]s and can be undone.

use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};

use crate::chars::{Chars, Text, thousands};
use crate::compact::accept::Rejection;
use crate::compact::contract::{ContractFate, ContractItem};
use crate::count::Tokens;
use crate::fork::ForkStats;
use crate::gauge::Scale;
use crate::log::{Effect, Ids, Log, LogError, Mark, MessageId, Millis, PartId, ReceiptId, SessionId};
use crate::pin::PinPlan;
use crate::policy::Policy;
use crate::prune::{Cleared, PruneItem, PrunePlan};
use crate::truncate::{Spill, TruncatePlan, format_bytes};

/// A reduction intended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Plan {
    /// Layer 1.
    Truncate(TruncatePlan),
    /// Layer 2.
    Prune(PrunePlan),
    /// Layer 3.
    Compact(CompactPlan),
    /// A summary in the place of messages anywhere in the window.
    Range(RangePlan),
    /// The last rungs of the ladder.
    Shed(ShedPlan),
    /// A digest for a child session.
    Fork(ForkStats),
    /// Text that is to stay in view.
    Pin(PinPlan),
    /// Content that was destroyed.
    Purge(PurgePlan),
}

/// Content that was destroyed, for good. It says where, and never what.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PurgePlan {
    /// The parts of the log that lost content.
    pub parts: Vec<PartId>,
    /// Spilled outputs that were destroyed as a whole, by their handles.
    pub spills: Vec<String>,
    /// In how many places something was destroyed.
    pub places: u64,
    /// Other sessions that showed the same content.
    pub sessions: Vec<SessionId>,
}

/// Which messages a summary stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CompactPlan {
    /// The oldest message that is summarised.
    pub first: MessageId,
    /// The newest one.
    pub last: MessageId,
    /// How many there are.
    pub messages: u64,
    /// What they weigh.
    pub tokens: Tokens,
    /// The first message that stays word for word, if any.
    pub tail_start: Option<MessageId>,
    /// How many stay.
    pub tail_messages: u64,
    /// What they weigh.
    pub tail_tokens: Tokens,
    /// Whether an earlier summary goes into the new one.
    pub merges_summary: bool,
    /// How the summary is made.
    pub made: Made,
    /// How many calls of the summariser it takes.
    pub calls: u64,
    /// The user's message being worked on, kept in view before a tail that begins after it.
    #[serde(default)]
    pub prompt: Option<MessageId>,
    /// Parts of the newest step or the prompt that are cut, because they are longer than what may stay.
    #[serde(default)]
    pub cut: Vec<CutItem>,
    /// What the summary was checked for, and what became of each.
    #[serde(default)]
    pub contract: Vec<ContractItem>,
    /// The marker of the pivot, once it is there.
    pub marker: Option<MessageId>,
    /// The word to go on that was appended with it.
    #[serde(default)]
    pub go_on: Option<PartId>,
    /// Names in a model's summary that the history does not contain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown_names: Vec<String>,
    /// Answers of the summariser that were rejected before this summary was made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rejections: Vec<Rejection>,
}

/// Messages that a summary takes the place of where they stand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RangePlan {
    /// The oldest of them.
    pub first: MessageId,
    /// The newest one.
    pub last: MessageId,
    /// How many there are.
    pub messages: u64,
    /// What they weigh.
    pub tokens: Tokens,
    /// The part in whose place the summary is shown.
    pub host: PartId,
    /// The parts that are no longer shown.
    pub parts: Vec<PartId>,
    /// What is shown: the summary between the lines that say so.
    pub text: Text,
    /// How the summary is made.
    pub made: Made,
    /// How many calls of the summariser it takes.
    pub calls: u64,
}

/// How a summary is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Made {
    /// By a model.
    ByModel,
    /// Extracted, without a model.
    WithoutModel,
}

/// What is cleared, cut or left out in the window when nothing else helps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShedPlan {
    /// Tool results to clear.
    pub cleared: Vec<PruneItem>,
    /// Parts to cut.
    pub cut: Vec<CutItem>,
    /// Parts to leave out.
    #[serde(default)]
    pub hidden: Vec<HideItem>,
    /// Parts whose pins have to give way.
    #[serde(default)]
    pub unpinned: Vec<PartId>,
}

impl ShedPlan {
    /// Whether the plan does nothing.
    pub fn is_empty(&self) -> bool {
        self.cleared.is_empty() && self.cut.is_empty() && self.hidden.is_empty() && self.unpinned.is_empty()
    }
}

/// One part to leave out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HideItem {
    /// The part; also the handle by which its content is recalled.
    pub part: PartId,
    /// The message it belongs to.
    pub message: MessageId,
    /// What leaving it out frees.
    pub tokens: Tokens,
}

/// One part to cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CutItem {
    /// The part; also the handle by which its content is recalled.
    pub part: PartId,
    /// How long its longest text is now.
    pub chars: Chars,
    /// How much of it stays; nothing of images and thoughts.
    pub keep: Chars,
}

/// A reduction done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    /// Names the receipt.
    pub id: ReceiptId,
    /// When it was done.
    pub at: Millis,
    /// Under which policy.
    pub policy: String,
    /// Why.
    pub reason: String,
    /// Tokens of the request before; of a truncated output, its own.
    pub before: Tokens,
    /// The same after.
    pub after: Tokens,
    /// What was done.
    pub plan: Plan,
    /// Addresses of what left the window.
    pub handles: Vec<Handle>,
    /// The receipt that this one undoes.
    pub undoes: Option<ReceiptId>,
}

/// The address of content that is no longer in the window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Handle {
    /// A part of the log.
    Part(PartId),
    /// A run of messages of the log, both ends included.
    Messages(MessageId, MessageId),
    /// The input of a tool, in a part of the log.
    Input(PartId),
    /// Output kept on disk.
    Spill(String),
}

impl Handle {
    /// Where to find what `effect` takes out of the window.
    fn of(part: &PartId, effect: &Effect) -> Handle {
        match effect {
            Effect::ClearInput(_) => Handle::Input(part.clone()),
            _ => Handle::Part(part.clone()),
        }
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Handle::Part(id) => write!(f, "{id}"),
            Handle::Input(id) => write!(f, "{id}:input"),
            Handle::Messages(first, last) => write!(f, "{first}..{last}"),
            Handle::Spill(place) => write!(f, "{place}"),
        }
    }
}

impl Plan {
    /// What is reduced, without sizes: those of a plan are estimates, and beside the sizes of its receipt, which are told as the
    /// provider counts, the two would contradict each other.
    pub fn title(&self) -> String {
        match self {
            Plan::Prune(plan) if !plan.items.is_empty() => {
                format!("prune {}", cleared(&plan.items))
            }
            Plan::Compact(plan) => {
                let messages = some(plan.messages as usize, "message");
                format!("compact {messages} behind {}", summary_name(plan.made))
            }
            Plan::Range(plan) => {
                let messages = some(plan.messages as usize, "message");
                format!("compact {messages} where they stand, behind {}", summary_name(plan.made))
            }
            Plan::Pin(plan) => format!("pin {}", some(plan.items.len(), "text")),
            other => other.to_string(),
        }
    }

    /// The marks that the plan sets. Plans that live outside the log (truncate, fork) have none.
    pub fn effects(&self) -> Vec<(&PartId, Effect)> {
        let cut = |item: &'_ CutItem| Effect::Cut(item.keep);
        match self {
            Plan::Prune(plan) => plan.items.iter().map(|item| (&item.part, item.effect())).collect(),
            Plan::Compact(plan) => plan.cut.iter().map(|item| (&item.part, cut(item))).collect(),
            Plan::Range(plan) => {
                let shown = (&plan.host, Effect::Replace(plan.text.clone()));
                let gone = plan.parts.iter().map(|part| (part, Effect::Replace(Text::default())));
                std::iter::once(shown).chain(gone).collect()
            }
            Plan::Shed(plan) => {
                let cleared = plan.cleared.iter().map(|item| (&item.part, item.effect()));
                let cut = plan.cut.iter().map(|item| (&item.part, cut(item)));
                let hidden = plan.hidden.iter().map(|item| (&item.part, Effect::Hide));
                let unpinned = plan.unpinned.iter().map(|part| (part, Effect::Unpin));
                cleared.chain(cut).chain(hidden).chain(unpinned).collect()
            }
            Plan::Pin(plan) => {
                plan.items.iter().map(|item| (&item.part, Effect::Pin(item.text.clone()))).collect()
            }
            Plan::Truncate(_) | Plan::Fork(_) | Plan::Purge(_) => Vec::new(),
        }
    }

    /// Set the plan's marks in a log, on account of a receipt; all or none. What a compaction appends is not its
    /// business: see [`crate::Reduction`].
    pub fn mark(&self, log: &mut Log, receipt: &ReceiptId, now: Millis) -> Result<(), LogError> {
        let effects = self.effects();
        effects.iter().try_for_each(|(part, _)| log.part(part).map(|_| ()))?;
        effects.into_iter().try_for_each(|(part, effect)| log.mark(part, effect, receipt, now))
    }

    /// Apply a plan that only sets marks (prune, shed) and give its receipt; `weigh` says what the next request
    /// weighs. A plan that does not make it lighter is taken back, and there is no receipt.
    pub fn apply(
        self,
        log: &mut Log,
        stamp: Stamp<'_>,
        weigh: impl Fn(&Log) -> Tokens,
    ) -> Result<Option<Receipt>, LogError> {
        let before = weigh(log);
        let mut receipt = stamp.receipt(self, before, before);
        receipt.plan.mark(log, &receipt.id, receipt.at)?;
        receipt.after = weigh(log);
        if receipt.after >= before {
            for (part, _) in receipt.plan.effects() {
                log.forget_marks(part, &receipt.id)?;
            }
            return Ok(None);
        }
        Ok(Some(receipt))
    }

    /// Where to find what the plan takes out of the window.
    pub fn handles(&self) -> Vec<Handle> {
        match self {
            Plan::Compact(plan) => {
                let summarised = Handle::Messages(plan.first.clone(), plan.last.clone());
                let cut = plan.cut.iter().map(|item| Handle::Part(item.part.clone()));
                let missing = plan.contract.iter().filter(|item| item.fate == ContractFate::LeftOut);
                let mut missing: Vec<&MessageId> = missing.filter_map(|item| item.source.as_ref()).collect();
                missing.dedup();
                let missing = missing.into_iter().map(|id| Handle::Messages(id.clone(), id.clone()));
                std::iter::once(summarised).chain(cut).chain(missing).collect()
            }
            Plan::Range(plan) => vec![Handle::Messages(plan.first.clone(), plan.last.clone())],
            Plan::Pin(_) => Vec::new(),
            _ => self.effects().into_iter().map(|(part, effect)| Handle::of(part, &effect)).collect(),
        }
    }

    /// What the plan does, item by item.
    pub fn detail(&self) -> String {
        let mut text = format!("{self}\n");
        let mut row = |left: &dyn fmt::Display, right: String| {
            let _ = writeln!(text, "  {left}  {right}");
        };
        match self {
            Plan::Prune(plan) => {
                for item in &plan.items {
                    row(&item.handle(), format!("{:<12} {:>9} tokens", item.tool, item.tokens.to_string()));
                }
                // Where nothing goes, the headline is the reason.
                if !plan.items.is_empty() {
                    row(&"reason", plan.explain());
                    if let Some(choice) = &plan.choice {
                        row(&"chosen", choice.to_string());
                    }
                    if plan.too_short > 0 {
                        let short = plan.short_outputs();
                        row(&"stay", format!("{short}, too short to be worth clearing"));
                    }
                }
            }
            Plan::Compact(plan) => {
                let (first, last) = (&plan.first, &plan.last);
                row(&"summarised", format!("{first} to {last}, {} tokens", plan.tokens));
                match &plan.tail_start {
                    Some(start) => {
                        row(
                            &"stays",
                            format!("{} from {start}", some(plan.tail_messages as usize, "message")),
                        );
                    }
                    None => row(&"stays", "nothing before the summary".into()),
                }
                if let Some(prompt) = &plan.prompt {
                    row(&"prompt", format!("{prompt} stays in view"));
                }
                if plan.merges_summary {
                    row(&"merges", "the summary before".into());
                }
                if !plan.contract.is_empty() {
                    let of = |fate| plan.contract.iter().filter(|item| item.fate == fate).count();
                    let [found, added, left] =
                        [ContractFate::Found, ContractFate::Added, ContractFate::LeftOut].map(of);
                    row(&"contract", format!("{found} found, {added} added, {left} left out"));
                }
                if !plan.unknown_names.is_empty() {
                    row(&"names", format!("not in the history: {}", plan.unknown_names.join(", ")));
                }
                plan.rejections.iter().for_each(|rejection| row(&"rejected", rejection.to_string()));
                plan.cut.iter().for_each(|item| row(&item.part, item.detail()));
            }
            Plan::Range(plan) => {
                row(&"summarised", format!("{} to {}, {} tokens", plan.first, plan.last, plan.tokens));
                row(&"stays", "everything before and after".into());
            }
            Plan::Shed(plan) => {
                for item in &plan.cleared {
                    row(
                        &item.handle(),
                        format!("{:<12} {:>9} tokens, cleared", item.tool, item.tokens.to_string()),
                    );
                }
                plan.cut.iter().for_each(|item| row(&item.part, item.detail()));
                plan.unpinned.iter().for_each(|part| row(part, "unpinned".to_owned()));
                for item in &plan.hidden {
                    row(&item.part, format!("{:<12} {:>9} tokens, left out", "", item.tokens.to_string()));
                }
            }
            Plan::Pin(plan) => {
                for item in &plan.items {
                    row(&item.part, format!("{:>9} tokens, pinned", item.tokens.to_string()));
                }
                row(&"pins", format!("{} of {} tokens", plan.total, plan.budget));
            }
            Plan::Truncate(plan) => {
                row(&"lines", format!("{} of {}", plan.kept_lines, plan.original_lines));
                let (kept, was) = (format_bytes(plan.kept_bytes), format_bytes(plan.original_bytes));
                row(&"size", format!("{kept} of {was}"));
                row(&"long lines shortened", plan.lines_shortened.to_string());
            }
            Plan::Purge(plan) => {
                plan.parts.iter().for_each(|part| row(part, "destroyed".to_owned()));
                plan.spills.iter().for_each(|spill| row(spill, "destroyed".to_owned()));
            }
            Plan::Fork(stats) => {
                row(&"messages", format!("{} of {}", stats.final_count, stats.original_count));
                row(&"chars", stats.total_chars.to_string());
                let tiers = &stats.tier_distribution;
                row(&"tool results", format!("{} / {} / {}", tiers.tier1, tiers.tier2, tiers.tier3));
                row(
                    &"cut",
                    format!(
                        "{}, {} of them keep both ends",
                        stats.truncated_results, stats.head_tail_applied
                    ),
                );
            }
        }
        text
    }
}

impl CutItem {
    fn detail(&self) -> String {
        match self.keep {
            Chars::ZERO => "left out".to_owned(),
            keep => format!("{} chars cut to {keep}", self.chars),
        }
    }
}

/// A number of things, in words that fit the number.
fn some(count: usize, thing: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", thousands(count as u64))
}

/// One line that says what the plan does.
/// How a summary is called.
fn summary_name(made: Made) -> &'static str {
    match made {
        Made::ByModel => "a summary",
        Made::WithoutModel => "a summary made without a model",
    }
}

/// What is cleared, as numbers with their nouns: `3 tool outputs and 2 inputs`.
fn cleared(items: &[PruneItem]) -> String {
    let inputs = items.iter().filter(|item| item.what == Cleared::Input).count();
    match (items.len() - inputs, inputs) {
        (outputs, 0) => some(outputs, "tool output"),
        (0, inputs) => some(inputs, "tool input"),
        (outputs, inputs) => format!("{} and {}", some(outputs, "tool output"), some(inputs, "input")),
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Plan::Truncate(plan) if plan.truncated => {
                let (tool, kept, was) = (&plan.tool, plan.kept_lines, plan.original_lines);
                let size = format_bytes(plan.original_bytes);
                write!(f, "truncate {tool} output to {kept} of {was} lines ({size})")
            }
            Plan::Truncate(plan) => write!(f, "truncate nothing of {} output", plan.tool),
            Plan::Prune(plan) if plan.items.is_empty() => write!(f, "prune nothing: {}", plan.explain()),
            Plan::Prune(plan) => {
                write!(f, "prune {}, {} tokens", cleared(&plan.items), plan.freed_tokens)
            }
            Plan::Compact(plan) => {
                let how = summary_name(plan.made);
                let messages = some(plan.messages as usize, "message");
                write!(f, "compact {messages}, {} tokens, behind {how}", plan.tokens)
            }
            Plan::Range(plan) => {
                let how = summary_name(plan.made);
                let messages = some(plan.messages as usize, "message");
                write!(f, "compact {messages}, {} tokens, where they stand, behind {how}", plan.tokens)
            }
            Plan::Shed(plan) => {
                let parts = [
                    ("cut", plan.cut.len()),
                    ("leave out", plan.hidden.len()),
                    ("unpin", plan.unpinned.len()),
                ];
                let parts = parts.into_iter().filter(|(_, count)| *count > 0);
                let parts = parts.map(|(verb, count)| format!("{verb} {}", some(count, "part")));
                let clear = (!plan.cleared.is_empty()).then(|| format!("clear {}", cleared(&plan.cleared)));
                let steps: Vec<String> = clear.into_iter().chain(parts).collect();
                write!(f, "shed: {}", if steps.is_empty() { "nothing".to_owned() } else { steps.join(", ") })
            }
            Plan::Pin(plan) => {
                write!(f, "pin {}, {} tokens", some(plan.items.len(), "text"), plan.tokens())
            }
            Plan::Purge(plan) => {
                let (parts, spills) =
                    (some(plan.parts.len(), "part"), some(plan.spills.len(), "spilled output"));
                write!(f, "purge {} in {parts} and {spills}", some(plan.places as usize, "place"))
            }
            Plan::Fork(stats) => {
                write!(f, "fork {} of {} messages", stats.final_count, stats.original_count)?;
                write!(f, ", {} chars", stats.total_chars)
            }
        }
    }
}

/// When, why and under which policy something is done.
pub struct Stamp<'a> {
    /// Names the receipt.
    pub ids: &'a mut Ids,
    /// The time.
    pub now: Millis,
    /// The policy.
    pub policy: &'a Policy,
    /// The reason.
    pub reason: &'a str,
}

impl Stamp<'_> {
    pub(crate) fn receipt(self, plan: Plan, before: Tokens, after: Tokens) -> Receipt {
        Receipt {
            id: self.ids.receipt(self.now),
            at: self.now,
            policy: self.policy.name.clone(),
            reason: self.reason.to_owned(),
            before,
            after,
            handles: plan.handles(),
            plan,
            undoes: None,
        }
    }
}

impl Receipt {
    /// The receipt of a tool output that was cut as it arrived.
    pub fn of_truncate(
        plan: TruncatePlan,
        spill: &Spill,
        policy: &Policy,
        ids: &mut Ids,
        now: Millis,
    ) -> Receipt {
        let reason = match spill {
            Spill::Saved(_) => "the output was over a limit; the whole is kept".to_owned(),
            Spill::Off => "the output was over a limit; the rest is not kept".to_owned(),
            Spill::Failed(why) => format!("the output was over a limit; the rest is lost: {why}"),
        };
        let handles = match spill {
            Spill::Saved(address) => vec![Handle::Spill(address.as_str().to_owned())],
            Spill::Off | Spill::Failed(_) => Vec::new(),
        };
        let tokens = |bytes| policy.count.of_chars(Chars(bytes));
        let (before, after) = (tokens(plan.original_bytes), tokens(plan.kept_bytes));
        let (id, at, policy) = (ids.receipt(now), now, policy.name.clone());
        let plan = Plan::Truncate(plan);
        Receipt { id, at, policy, reason, before, after, plan, handles, undoes: None }
    }

    /// The receipt of a purge, which cannot be undone.
    pub fn of_purge(plan: PurgePlan, policy: &str, ids: &mut Ids, now: Millis) -> Receipt {
        Receipt {
            id: ids.receipt(now),
            at: now,
            policy: policy.to_owned(),
            reason: "content was destroyed on request".to_owned(),
            before: Tokens::ZERO,
            after: Tokens::ZERO,
            plan: Plan::Purge(plan),
            handles: Vec::new(),
            undoes: None,
        }
    }

    /// The same receipt, with sizes that were estimated told on a scale.
    pub fn on(self, scale: Scale) -> Receipt {
        let (before, mut after) = (scale.request(self.before), scale.request(self.after));
        // On a coarse scale a small difference would be rounded away, and what was reduced told as if it was not.
        if self.after < self.before {
            after = after.min(before - Tokens(1));
        }
        Receipt { before, after, ..self }
    }

    /// Whether [`undo`](Receipt::undo) can bring back what this receipt took.
    pub fn can_undo(&self) -> bool {
        self.undoes.is_none()
            && matches!(
                self.plan,
                Plan::Prune(_) | Plan::Compact(_) | Plan::Range(_) | Plan::Shed(_) | Plan::Pin(_)
            )
    }

    /// Lift the marks this receipt set, and no others: a prune or a cut is lifted, a pivot is set aside, a pin goes.
    /// The log stays. Receipts can be undone in any order, each once. Gives the receipt of the undoing; its sizes
    /// are those of this receipt, the other way round.
    pub fn undo(&self, log: &mut Log, ids: &mut Ids, now: Millis) -> Result<Receipt, UndoError> {
        if !self.can_undo() {
            return Err(UndoError::Final(self.id.clone()));
        }
        let effects = self.plan.effects();
        let marked = effects.iter().map(|(part, _)| log.part(part)).collect::<Result<Vec<_>, _>>()?;
        // Marks from before marks knew their receipt are known by their time.
        let belongs = |mark: &Mark| match &mark.receipt {
            Some(receipt) => *receipt == self.id,
            None => mark.set.at == self.at,
        };
        let compact = match &self.plan {
            Plan::Compact(plan) => Some(plan),
            _ => None,
        };
        let in_force = match compact {
            Some(plan) => {
                let marker = plan.marker.as_ref().ok_or_else(|| UndoError::Final(self.id.clone()))?;
                let part = log[log.place(marker)?].marker();
                part.is_some_and(|part| part.set_aside.is_none())
            }
            None => marked.iter().any(|part| {
                let is_clear = |mark: &Mark| matches!(mark.effect, Effect::Clear(_));
                let bare = part.cleared() == Some(self.at) && !part.marks.iter().any(is_clear);
                bare || part.active_marks().any(&belongs)
            }),
        };
        if !in_force {
            return Err(UndoError::Undone(self.id.clone()));
        }
        let undone = self.undoing(ids, now)?;
        let id = &undone.id;
        if let Some(plan) = compact {
            if let Some(go_on) = &plan.go_on {
                log.mark(go_on, Effect::Hide, id, now)?;
            }
            if let Some(marker) = &plan.marker {
                log.set_aside(marker, now)?;
            }
        }
        for (part, _) in effects {
            log.lift(part, belongs, id, now)?;
        }
        Ok(undone)
    }

    /// The receipt of undoing this one, for a store that keeps marks by their receipts: it knows that they are in force and
    /// lifts them together, so the parts are not looked at. [`undo`](Receipt::undo) is for everything else.
    pub fn undoing(&self, ids: &mut Ids, now: Millis) -> Result<Receipt, UndoError> {
        if !self.can_undo() {
            return Err(UndoError::Final(self.id.clone()));
        }
        Ok(Receipt {
            id: ids.receipt(now),
            at: now,
            reason: format!("undo of {}", self.id),
            before: self.after,
            after: self.before,
            handles: Vec::new(),
            undoes: Some(self.id.clone()),
            ..self.clone()
        })
    }

    /// The receipt with everything it names.
    pub fn detail(&self) -> String {
        let mut text = format!("{self}\n  reason  {}\n  policy  {}\n", self.reason, self.policy);
        for line in self.plan.detail().lines().skip(1) {
            let _ = writeln!(text, "{line}");
        }
        for handle in &self.handles {
            let _ = writeln!(text, "  recall  {handle}");
        }
        text
    }
}

/// A line about the reduction. Sizes of the plan are estimates, so only those of the receipt are in it.
impl fmt::Display for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let undo = if self.undoes.is_some() { "undo " } else { "" };
        write!(f, "{}  {undo}{}: {} → {} tokens", self.id, self.plan.title(), self.before, self.after)
    }
}

/// Why a receipt cannot be undone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UndoError {
    /// There is nothing to lift.
    #[error("receipt `{0}` is of something that cannot be undone")]
    Final(ReceiptId),
    /// It was done before.
    #[error("receipt `{0}` was undone before")]
    Undone(ReceiptId),
    /// The log does not have what the receipt names.
    #[error(transparent)]
    Log(#[from] LogError),
}

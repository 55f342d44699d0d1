//! Plans and receipts: a reduction intended, a reduction done.
//!
//! Every reduction is first a [`Plan`], a value that can be printed, compared and stored. Applying it gives a
//! [`Receipt`], which names what left the window by [`Handle`]s and can be undone.

use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};

use crate::chars::{Chars, thousands};
use crate::count::Tokens;
use crate::fork::ForkStats;
use crate::log::{Cut, Ids, Log, LogError, MessageId, Millis, PartId, ReceiptId};
use crate::policy::Policy;
use crate::prune::{PruneItem, PrunePlan};
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
    /// The last rungs of the ladder.
    Shed(ShedPlan),
    /// A digest for a child session.
    Fork(ForkStats),
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
    /// The marker of the pivot, once it is there.
    pub marker: Option<MessageId>,
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

/// What is cleared or cut in the window when nothing else helps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShedPlan {
    /// Tool results to clear.
    pub cleared: Vec<PruneItem>,
    /// Parts to cut.
    pub cut: Vec<CutItem>,
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
    /// The cut it had before, which an undo brings back.
    pub before: Option<Chars>,
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
    /// Output kept on disk.
    Spill(String),
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Handle::Part(id) => write!(f, "{id}"),
            Handle::Messages(first, last) => write!(f, "{first}..{last}"),
            Handle::Spill(place) => write!(f, "{place}"),
        }
    }
}

impl Plan {
    /// Set the plan's marks in a log. Plans that live outside the log (truncate, fork) and plans whose content
    /// is appended by the ladder (compact) have none.
    pub fn mark(&self, log: &mut Log, now: Millis) -> Result<(), LogError> {
        match self {
            Plan::Prune(plan) => plan.items.iter().try_for_each(|item| log.clear(&item.part, now)),
            Plan::Shed(plan) => {
                plan.cleared.iter().try_for_each(|item| log.clear(&item.part, now))?;
                plan.cut.iter().try_for_each(|item| log.cut(&item.part, item.keep, now))
            }
            Plan::Truncate(_) | Plan::Compact(_) | Plan::Fork(_) => Ok(()),
        }
    }

    /// Take the plan's marks back, to what they were before it.
    fn unmark(&self, log: &mut Log, now: Millis) -> Result<(), LogError> {
        match self {
            Plan::Prune(plan) => plan.items.iter().try_for_each(|item| log.set_cleared(&item.part, None)),
            Plan::Shed(plan) => {
                plan.cleared.iter().try_for_each(|item| log.set_cleared(&item.part, None))?;
                plan.cut.iter().try_for_each(|item| {
                    log.set_cut(&item.part, item.before.map(|keep| Cut { keep, at: now }))
                })
            }
            Plan::Truncate(_) | Plan::Compact(_) | Plan::Fork(_) => Ok(()),
        }
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
        let marks = |id: &PartId| log.part(id).map(|part| (id.clone(), part.cleared(), part.cut));
        let marks = self.parts().map(marks).collect::<Result<Vec<_>, _>>()?;
        self.mark(log, stamp.now)?;
        let after = weigh(log);
        if after >= before {
            for (id, cleared, cut) in marks {
                log.part_mut(&id)?.set_cleared(cleared);
                log.set_cut(&id, cut)?;
            }
            return Ok(None);
        }
        Ok(Some(stamp.receipt(self, before, after)))
    }

    /// Where to find what the plan takes out of the window.
    pub fn handles(&self) -> Vec<Handle> {
        match self {
            Plan::Compact(plan) => vec![Handle::Messages(plan.first.clone(), plan.last.clone())],
            _ => self.parts().cloned().map(Handle::Part).collect(),
        }
    }

    /// The parts that the plan marks.
    fn parts(&self) -> impl Iterator<Item = &PartId> {
        let (cleared, cut) = match self {
            Plan::Prune(plan) => (plan.items.as_slice(), [].as_slice()),
            Plan::Shed(plan) => (plan.cleared.as_slice(), plan.cut.as_slice()),
            Plan::Truncate(_) | Plan::Compact(_) | Plan::Fork(_) => Default::default(),
        };
        cleared.iter().map(|item| &item.part).chain(cut.iter().map(|item| &item.part))
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
                    row(&item.part, format!("{:<12} {:>9} tokens", item.tool, item.tokens.to_string()));
                }
                // Where nothing goes, the headline is the reason.
                if !plan.items.is_empty() {
                    row(&"reason", plan.reason.to_string());
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
                if plan.merges_summary {
                    row(&"merges", "the summary before".into());
                }
            }
            Plan::Shed(plan) => {
                for item in &plan.cleared {
                    row(
                        &item.part,
                        format!("{:<12} {:>9} tokens, cleared", item.tool, item.tokens.to_string()),
                    );
                }
                for item in &plan.cut {
                    let how = match item.keep {
                        Chars::ZERO => "left out".to_owned(),
                        keep => format!("{} chars cut to {keep}", item.chars),
                    };
                    row(&item.part, how);
                }
            }
            Plan::Truncate(plan) => {
                row(&"lines", format!("{} of {}", plan.kept_lines, plan.original_lines));
                let (kept, was) = (format_bytes(plan.kept_bytes), format_bytes(plan.original_bytes));
                row(&"size", format!("{kept} of {was}"));
                row(&"long lines shortened", plan.lines_shortened.to_string());
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

/// A number of things, in words that fit the number.
fn some(count: usize, thing: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", thousands(count as u64))
}

/// One line that says what the plan does.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Plan::Truncate(plan) if plan.truncated => {
                let (tool, kept, was) = (&plan.tool, plan.kept_lines, plan.original_lines);
                let size = format_bytes(plan.original_bytes);
                write!(f, "truncate {tool} output to {kept} of {was} lines ({size})")
            }
            Plan::Truncate(plan) => write!(f, "truncate nothing of {} output", plan.tool),
            Plan::Prune(plan) if plan.items.is_empty() => write!(f, "prune nothing: {}", plan.reason),
            Plan::Prune(plan) => {
                write!(f, "prune {}, {} tokens", some(plan.items.len(), "tool output"), plan.freed_tokens)
            }
            Plan::Compact(plan) => {
                let how = match plan.made {
                    Made::ByModel => "a summary",
                    Made::WithoutModel => "a summary made without a model",
                };
                let messages = some(plan.messages as usize, "message");
                write!(f, "compact {messages}, {} tokens, behind {how}", plan.tokens)
            }
            Plan::Shed(plan) => {
                let (cleared, cut) = (some(plan.cleared.len(), "tool output"), some(plan.cut.len(), "part"));
                match (plan.cleared.is_empty(), plan.cut.is_empty()) {
                    (false, true) => write!(f, "shed: clear {cleared}"),
                    (true, false) => write!(f, "shed: cut {cut}"),
                    _ => write!(f, "shed: clear {cleared}, cut {cut}"),
                }
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

    /// Whether [`undo`](Receipt::undo) can bring back what this receipt took.
    pub fn can_undo(&self) -> bool {
        self.undoes.is_none() && matches!(self.plan, Plan::Prune(_) | Plan::Compact(_) | Plan::Shed(_))
    }

    /// Lift the marks this receipt set: a prune or a cut is lifted, a pivot is set aside. The log stays.
    /// Gives the receipt of the undoing; its sizes are those of this receipt, the other way round.
    pub fn undo(&self, log: &mut Log, ids: &mut Ids, now: Millis) -> Result<Receipt, UndoError> {
        if !self.can_undo() {
            return Err(UndoError::Final(self.id.clone()));
        }
        if let Plan::Compact(plan) = &self.plan {
            let marker = plan.marker.as_ref().ok_or_else(|| UndoError::Final(self.id.clone()))?;
            log.set_aside(marker, Some(now))?;
        }
        self.plan.unmark(log, now)?;
        for part in self.plan.parts() {
            log.part_mut(part)?.lifted = Some(now);
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

/// One line that says what was done.
impl fmt::Display for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let undo = if self.undoes.is_some() { "undo " } else { "" };
        write!(f, "{}  {undo}{}: {} → {} tokens", self.id, self.plan, self.before, self.after)
    }
}

/// Why a receipt cannot be undone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UndoError {
    /// There is nothing to lift.
    #[error("receipt `{0}` is of something that cannot be undone")]
    Final(ReceiptId),
    /// The log does not have what the receipt names.
    #[error(transparent)]
    Log(#[from] LogError),
}

//! Receipts: completed reductions.
//!
//! Applying a [`Plan`] returns a [`Receipt`]. It names what left the window by [`Handle`]s, and it can be undone.

use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};

use crate::chars::Chars;
use crate::gauge::Scale;
use crate::log::{Effect, Ids, Log, LogError, Mark, Millis, ReceiptId};
use crate::plan::{Handle, Plan, PurgePlan};
use crate::policy::Policy;
use crate::tokens::Tokens;
use crate::truncate::{Spill, TruncatePlan};

/// A completed reduction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Receipt {
    /// The id.
    pub id: ReceiptId,
    /// The time.
    pub at: Millis,
    /// Name of the policy.
    pub policy: String,
    /// The reason.
    pub reason: String,
    /// Tokens of the request before; for a truncated output, those of the output.
    pub before: Tokens,
    /// Tokens after it.
    pub after: Tokens,
    /// The plan that was applied.
    pub plan: Plan,
    /// Handles of what left the window.
    pub handles: Vec<Handle>,
    /// The receipt that this one undoes.
    pub undoes: Option<ReceiptId>,
}

impl Plan {
    /// Applies a plan that only sets marks (prune, shed) and returns its receipt; `weigh` returns the tokens of the next
    /// request. A plan that does not reduce them is reverted, and there is no receipt.
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
}

/// Id source, time, policy and reason of a reduction.
pub struct Stamp<'a> {
    /// The id.
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
    /// Creates the receipt of a plan that the caller has applied, with the sizes before and after. Policy and reason are
    /// empty.
    pub fn new(id: ReceiptId, at: Millis, plan: Plan, (before, after): (Tokens, Tokens)) -> Receipt {
        let (policy, reason) = (String::new(), String::new());
        Receipt { id, at, policy, reason, before, after, plan, handles: Vec::new(), undoes: None }
    }

    /// Creates the receipt of a tool output that was truncated on arrival.
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

    /// Creates the receipt of a purge, which cannot be undone.
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

    /// Converts the estimated sizes to a scale.
    pub fn on(self, scale: Scale) -> Receipt {
        let (before, mut after) = (scale.request(self.before), scale.request(self.after));
        // On a coarse scale a small difference would be rounded away, as if nothing had been reduced.
        if self.after < self.before {
            after = after.min(before - Tokens(1));
        }
        Receipt { before, after, ..self }
    }

    /// Returns whether [`undo`](Receipt::undo) applies to this kind of reduction.
    pub fn can_undo(&self) -> bool {
        self.undoes.is_none()
            && matches!(
                self.plan,
                Plan::Prune(_)
                    | Plan::Compact(_)
                    | Plan::Range(_)
                    | Plan::Shed(_)
                    | Plan::Pin(_)
                    | Plan::Edit(_)
            )
    }

    /// Lifts the marks that this receipt set, and no others; a pivot is set aside.
    /// Receipts can be undone in any order, each once. Returns the receipt of the undo; its sizes
    /// are those of this receipt, swapped.
    pub fn undo(&self, log: &mut Log, ids: &mut Ids, now: Millis) -> Result<Receipt, UndoError> {
        if !self.can_undo() {
            return Err(UndoError::Final(self.id.clone()));
        }
        let effects = self.plan.effects();
        let marked = effects.iter().map(|(part, _)| log.part(part)).collect::<Result<Vec<_>, _>>()?;
        // Marks of old versions have no receipt; they are matched by time.
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
            if let Some(continuation) = &plan.continuation {
                log.mark(continuation, Effect::Hide, id, now)?;
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

    /// Returns the receipt of undoing this one, for a store that keeps marks by receipt: it knows that they are active and
    /// lifts them together, so parts are not read. Otherwise use [`undo`](Receipt::undo).
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

    /// Formats the receipt with all its items.
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

/// Formats one line. Sizes of the plan are estimates, so only those of the receipt are in it.
impl fmt::Display for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let undo = if self.undoes.is_some() { "undo " } else { "" };
        write!(f, "{}  {undo}{}: {} → {} tokens", self.id, self.plan.title(), self.before, self.after)
    }
}

/// Why a receipt cannot be undone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UndoError {
    /// The reduction cannot be undone.
    #[error("receipt `{0}` cannot be undone")]
    Final(ReceiptId),
    /// The receipt was already undone.
    #[error("receipt `{0}` was already undone")]
    Undone(ReceiptId),
    /// The log lacks what the receipt names.
    #[error(transparent)]
    Log(#[from] LogError),
}

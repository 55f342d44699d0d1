//! Plans: reductions that were decided on, as values that can be printed, compared and stored.
//!
//! A plan says what goes, what stays and why. The layers make plans; [`crate::receipt`] applies them.

mod compact;
mod edit;
mod fork;
mod format;
mod pin;
mod purge;
mod shed;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::chars::Text;
use crate::log::{ContractFate, Effect, Log, LogError, MessageId, Millis, PartId, ReceiptId};
use crate::prune::PrunePlan;
use crate::truncate::TruncatePlan;

pub use compact::{CompactPlan, RangePlan, Rejection, SummaryOrigin};
pub use edit::{EditItem, EditPlan};
pub use fork::{ForkStats, TierDistribution, TruncatedBy};
pub use pin::{PinItem, PinPlan};
pub use purge::PurgePlan;
pub use shed::{CutItem, HideItem, ShedPlan};

/// An intended reduction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
#[non_exhaustive]
pub enum Plan {
    /// Layer 1.
    Truncate(TruncatePlan),
    /// Layer 2.
    Prune(PrunePlan),
    /// Layer 3.
    Compact(CompactPlan),
    /// A summary that replaces messages anywhere in the window.
    Range(RangePlan),
    /// The last rungs of the ladder.
    Shed(ShedPlan),
    /// A digest for a child session.
    Fork(ForkStats),
    /// Text to keep in the window.
    Pin(PinPlan),
    /// Text that the user changed or removed.
    Edit(EditPlan),
    /// Destroyed content.
    Purge(PurgePlan),
}

/// Address of content that is no longer in the window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Handle {
    /// A part of the log.
    Part(PartId),
    /// A range of messages of the log, both ends included.
    Messages(MessageId, MessageId),
    /// The input of a tool, in a part of the log.
    Input(PartId),
    /// Output kept on disk.
    Spill(String),
}

impl Handle {
    /// Returns the handle of what `effect` removes from the window.
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
    /// Returns the marks that the plan sets. Plans outside the log (truncate, fork) have none.
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
            Plan::Edit(plan) => {
                let edited = plan.items.iter().map(|item| (&item.part, Effect::Edit(item.text.clone())));
                let unpinned = plan.items.iter().filter(|item| item.unpins);
                edited.chain(unpinned.map(|item| (&item.part, Effect::Unpin))).collect()
            }
            Plan::Truncate(_) | Plan::Fork(_) | Plan::Purge(_) => Vec::new(),
        }
    }

    /// Sets the plan's marks in a log for a receipt; all or none. Does not append the messages of a compaction: see
    /// [`crate::Reduction`].
    pub fn mark(&self, log: &mut Log, receipt: &ReceiptId, now: Millis) -> Result<(), LogError> {
        let effects = self.effects();
        effects.iter().try_for_each(|(part, _)| log.part(part).map(|_| ()))?;
        effects.into_iter().try_for_each(|(part, effect)| log.mark(part, effect, receipt, now))
    }

    /// Returns the handles of what the plan removes from the window.
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
            Plan::Edit(plan) => plan.items.iter().map(|item| Handle::Part(item.part.clone())).collect(),
            _ => self.effects().into_iter().map(|(part, effect)| Handle::of(part, &effect)).collect(),
        }
    }
}

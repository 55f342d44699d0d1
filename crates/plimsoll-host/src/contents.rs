//! Content that left a session's window, and text that must stay in it.

use plimsoll::prune::Cleared;
use plimsoll::{Millis, Plan, Receipt, ReceiptId, Tokens};
use plimsoll_store::{Session, SpillRecord};
use serde::Serialize;

use crate::config::HostConfig;
use crate::error::HostError;
use crate::plan::{PartSubject, PlanContents, WindowSizes};
use crate::receipts::{PinnedText, in_force};
use crate::store::OpenStore;

/// Content of a session that is not in its window, and what is pinned.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ReducedContent {
    /// Parts that were cleared, cut or left out, newest reduction first.
    pub pruned: Vec<PrunedPart>,
    /// Messages that summaries replace, newest first.
    pub compacted: Vec<CompactedMessages>,
    /// Outputs that were truncated when they arrived; the full text is on disk.
    pub spilled: Vec<SpilledOutput>,
    /// Text that is pinned.
    pub pinned: Vec<PinnedText>,
    /// Maximum tokens of pinned text.
    pub pin_budget: Tokens,
}

/// A part that does not show its full content in the window.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PrunedPart {
    /// The receipt of the reduction.
    pub receipt: ReceiptId,
    /// Time of the reduction.
    pub at: Millis,
    /// Address for recall.
    pub handle: String,
    /// `cleared`, `cut` or `hidden`.
    pub how: &'static str,
    /// The turn it belongs to, from 1; 0 before the first.
    pub turn: u32,
    /// The tool, or the label of its kind.
    pub kind: String,
    /// The command, the path, or the first words.
    pub about: String,
    /// Tokens freed, if the plan records them.
    pub tokens: Option<Tokens>,
}

/// Messages that a summary replaces.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CompactedMessages {
    /// The receipt of the reduction.
    pub receipt: ReceiptId,
    /// Time of the reduction.
    pub at: Millis,
    /// Address for recall.
    pub handle: String,
    /// Number of messages.
    pub messages: u64,
    /// Tokens of the messages.
    pub tokens: Tokens,
    /// Turn of the first message.
    pub first_turn: Option<u32>,
    /// Turn of the last message.
    pub last_turn: Option<u32>,
    /// Tokens of the window before.
    pub before: Tokens,
    /// Tokens of the window after.
    pub after: Tokens,
}

/// An output whose full text is on disk.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SpilledOutput {
    /// Address for recall.
    pub handle: String,
    /// The tool that wrote it.
    pub tool: String,
    /// The turn it belongs to, from 1; 0 before the first.
    pub turn: u32,
    /// The command or the path.
    pub about: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Time at which it was stored.
    pub created: Millis,
    /// Time at which the full text expired; `None` if it is still stored.
    pub expired: Option<Millis>,
}

impl OpenStore {
    /// Returns content outside the window of a session, and pinned text.
    pub fn reduced_content(
        &self,
        session: &Session,
        config: &HostConfig,
    ) -> Result<ReducedContent, HostError> {
        let receipts = self.receipts_in_view(&session.id)?;
        let current: Vec<Receipt> = in_force(&receipts).cloned().collect();
        let spills = self.spills(&session.id)?;
        let parts = spills.iter().filter_map(|spill| spill.part.clone());
        let contents = PlanContents::stored_with(self.archive.store(), session, &current, parts)?;
        let (mut pruned, mut compacted) = (Vec::new(), Vec::new());
        for receipt in current.iter().rev() {
            pruned.extend(pruned_parts(receipt, &contents));
            compacted.extend(compacted_messages(receipt, &contents));
        }
        let spilled = spills.into_iter().rev().map(|spill| {
            let PartSubject { turn, about, .. } =
                spill.part.as_ref().map(|part| contents.part(part)).unwrap_or_default();
            let SpillRecord { handle, tool, bytes, created, expired, .. } = spill;
            SpilledOutput { handle, tool, turn, about, bytes, created, expired }
        });
        let spilled = spilled.collect();
        let (pinned, pin_budget) = self.pins(session, config)?;
        Ok(ReducedContent { pruned, compacted, spilled, pinned, pin_budget })
    }
}

fn pruned_parts(receipt: &Receipt, contents: &PlanContents) -> Vec<PrunedPart> {
    let part = |id: &plimsoll::PartId, how, is_input: bool, tokens| {
        let subject = contents.part(id);
        let handle = if is_input { format!("{id}:input") } else { id.to_string() };
        let (receipt, at) = (receipt.id.clone(), receipt.at);
        let (turn, kind, about) = (subject.turn, subject.kind, subject.about);
        PrunedPart { receipt, at, handle, how, turn, kind, about, tokens }
    };
    let cleared = |item: &plimsoll::prune::PruneItem| {
        part(&item.part, "cleared", item.what != Cleared::Output, Some(item.tokens))
    };
    match &receipt.plan {
        Plan::Prune(plan) => {
            // Scaled to tokens of the window, so that the parts add up to the amount that the receipt freed.
            let freed = WindowSizes::of(receipt).shares(plan.items.iter().map(|item| item.tokens));
            let parts = plan.items.iter().map(cleared).zip(freed);
            parts.map(|(part, freed)| PrunedPart { tokens: Some(freed), ..part }).collect()
        }
        Plan::Compact(plan) => plan.cut.iter().map(|item| part(&item.part, "cut", false, None)).collect(),
        Plan::Shed(plan) => {
            let cut = plan.cut.iter().map(|item| part(&item.part, "cut", false, None));
            let hidden = plan.hidden.iter().map(|item| part(&item.part, "hidden", false, None));
            plan.cleared.iter().map(cleared).chain(cut).chain(hidden).collect()
        }
        _ => Vec::new(),
    }
}

fn compacted_messages(receipt: &Receipt, contents: &PlanContents) -> Option<CompactedMessages> {
    let (first, last, messages, tokens) = match &receipt.plan {
        Plan::Compact(plan) => (&plan.first, &plan.last, plan.messages, plan.tokens),
        Plan::Range(plan) => (&plan.first, &plan.last, plan.messages, plan.tokens),
        _ => return None,
    };
    Some(CompactedMessages {
        receipt: receipt.id.clone(),
        at: receipt.at,
        handle: format!("{first}..{last}"),
        messages,
        tokens,
        first_turn: contents.turn(first),
        last_turn: contents.turn(last),
        before: receipt.before,
        after: receipt.after,
    })
}

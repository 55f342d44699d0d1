//! Pivots that a climb appends.

use std::sync::Arc;

use super::super::contract::{ContractTerms, complete_summary};
use super::super::extract::extract_before;
use super::super::index;
use super::super::invented::unknown_names;
use super::super::select::Selection;
use super::super::shed::{self, Goal, Reach};
use super::Ladder;
use crate::chars::Text;
use crate::counter::Counter;
use crate::line::Line;
use crate::log::{ContractItem, Ids, LogError, Message};
use crate::plan::{CutItem, Plan, SummaryOrigin};
use crate::policy::Detector;
use crate::receipt::Stamp;
use crate::tokens::Tokens;
use crate::window::MARKER_QUESTION;

/// Origin of a summary.
#[derive(Clone, Copy)]
pub(super) struct SummaryMeans<'a> {
    pub(super) made: SummaryOrigin,
    pub(super) calls: u64,
    pub(super) reason: &'a str,
}

impl Ladder {
    /// Returns the size that a summary of the selection must stay below to make the window smaller.
    pub(super) fn replaced(&self, selection: &Selection) -> Tokens {
        let counter = self.context.counter();
        let overhead = counter.message_overhead() + counter.message_overhead();
        let question = counter.count(MARKER_QUESTION);
        let continuation =
            counter.message_overhead() + counter.count(&self.context.policy.compact.continue_text);
        let gone = match selection.prior {
            // Marker and question already exist.
            Some(pivot) => selection.head_tokens + counter.count_text(&pivot.text(&self.log)),
            None => selection.head_tokens - overhead - question,
        };
        gone - continuation - selection.lead_tokens
    }

    pub(super) fn pivot_without_model(
        &mut self,
        selection: &Selection,
        reason: &str,
        ids: &mut Ids,
    ) -> Result<(), LogError> {
        let line = self.line.map(Line::room).unwrap_or(self.context.limits.context);
        let most = self.context.policy.compact.summary_budget(self.context.limits.context, line);
        if let Some(summary) = self.extractive(selection, most) {
            let made = SummaryMeans { made: SummaryOrigin::WithoutModel, calls: 0, reason };
            self.pivot(selection, summary, made, ids)?;
        }
        Ok(())
    }

    /// Returns an extractive summary. `None` if it would have to be too short to be useful.
    pub(super) fn extractive(&self, selection: &Selection, most: Tokens) -> Option<Text> {
        let compact = &self.context.policy.compact;
        let gain = self.replaced(selection).share(compact.extractive_gain_share);
        let most = most.min(gain);
        let message = |place: &usize| &self.log[*place];
        let head: Vec<&Message> = selection.head.iter().map(message).collect();
        let tail: Vec<&Message> = selection.tail.iter().map(message).collect();
        let (prior, policy) =
            (selection.prior.map(|pivot| self.prior_text(pivot)), &self.context.policy.summary);
        (most >= compact.extractive_least)
            .then(|| extract_before(&head, &tail, prior.as_ref(), most, policy, self.context.counter()))
    }

    /// Appends marker and summary. The summary is completed according to the contract, unless the window would not get
    /// smaller. Returns whether the pivot was added.
    pub(super) fn pivot(
        &mut self,
        selection: &Selection,
        summary: Text,
        making: SummaryMeans<'_>,
        ids: &mut Ids,
    ) -> Result<bool, LogError> {
        let line = self.line.map(Line::room).unwrap_or(self.context.limits.context);
        let budget = self.gauge.estimate(self.context.policy.contract.budget(line));
        let index = self.gauge.estimate(self.context.policy.names.index_room(line));
        if self.context.policy.contract.enabled {
            // If contract and index make the summary too long to save anything, the bare summary may still save
            // something.
            for share in [1.0, 0.0] {
                let (completed, items) = self.complete(selection, &summary, budget.share(share));
                let policy = &self.context.policy;
                let completed = match index.share(share) {
                    Tokens::ZERO => completed,
                    room => index::append(&completed, &self.log, selection, policy, room),
                };
                if self.try_pivot(selection, completed, items, making, ids)? {
                    return Ok(true);
                }
            }
            return Ok(false);
        }
        self.try_pivot(selection, summary, Vec::new(), making, ids)
    }

    /// Completes a summary according to the contract, within `budget`.
    pub(super) fn complete(
        &self,
        selection: &Selection,
        summary: &Text,
        budget: Tokens,
    ) -> (Text, Vec<ContractItem>) {
        let message = |place: &usize| &self.log[*place];
        let replaced: Vec<&Message> = selection.head.iter().map(message).collect();
        let in_view: Vec<&Message> = selection.prompt.iter().chain(&selection.tail).map(message).collect();
        let carried = selection.prior.and_then(|pivot| self.log[pivot.marker].marker());
        let carried = carried.map(|marker| marker.contract.as_slice()).unwrap_or_default();
        let messages = &self.log;
        let terms = ContractTerms { messages, replaced: &replaced, in_view: &in_view, carried, budget };
        complete_summary(summary, &terms, &self.context.policy, self.context.counter())
    }

    /// Appends marker and summary, and a message to continue if no prompt waits for an answer. Returns `false` and
    /// changes nothing if the window would not get smaller.
    pub(super) fn try_pivot(
        &mut self,
        selection: &Selection,
        summary: Text,
        contract: Vec<ContractItem>,
        making: SummaryMeans<'_>,
        ids: &mut Ids,
    ) -> Result<bool, LogError> {
        let SummaryMeans { made, calls, reason } = making;
        let Some(mut plan) = selection.plan(&self.log, made, calls) else { return Ok(false) };
        plan.contract = contract;
        plan.rejections.clone_from(&self.rejections);
        if made == SummaryOrigin::ByModel {
            let prior = selection.prior.map(|pivot| pivot.text(&self.log));
            plan.unknown_names = unknown_names(&summary, self.log.iter(), prior.as_ref());
        }
        let before = self.estimate();
        let (known, now) = (self.log.len(), self.context.now);
        let messages = self.pivot_messages(selection, summary, &plan, ids);
        plan.marker = messages.first().map(|marker| marker.info.id.clone());
        plan.continuation =
            messages.get(2).and_then(|message| message.parts.first()).map(|part| part.id.clone());
        messages.into_iter().try_for_each(|message| self.log.append(message))?;
        // If the newest step or the prompt is too long for what stays, it is cut. The compaction's receipt has these
        // marks, so undoing it restores them.
        plan.cut = self.trim(selection)?;
        let policy = Arc::clone(&self.context.policy);
        let stamp = Stamp { ids, now, policy: &policy, reason };
        let mut receipt = stamp.receipt(Plan::Compact(plan), before, before);
        receipt.plan.mark(&mut self.log, &receipt.id, now)?;
        receipt.after = self.estimate();
        // Only the applied pivot shows its effect, because it also moves pins and the lead of the tail. One that does
        // not help is taken back.
        if receipt.after >= before {
            for (part, _) in receipt.plan.effects() {
                self.log.forget_marks(part, &receipt.id)?;
            }
            self.log.retract(known);
            return Ok(false);
        }
        self.receipts.push(receipt.on(self.scale));
        Ok(true)
    }

    /// Returns the cuts for a newest step or a prompt that is too long.
    pub(super) fn trim(&mut self, selection: &Selection) -> Result<Vec<CutItem>, LogError> {
        let mut cut = Vec::new();
        let step = selection.trim.zip(selection.tail.first().copied());
        let prompt = selection.prompt_trim.zip(selection.prompt);
        for (budget, place) in step.into_iter().chain(prompt) {
            cut.extend(self.cut_of_message(place, budget)?);
        }
        Ok(cut)
    }

    /// Returns the cuts that reduce a message to `budget`.
    pub(super) fn cut_of_message(&mut self, place: usize, budget: Tokens) -> Result<Vec<CutItem>, LogError> {
        let (policy, counter) = (Arc::clone(&self.context.policy), Arc::clone(&self.context.counter));
        let counter: &dyn Counter = match policy.overflow.detector {
            Detector::Both => &*counter,
            Detector::Usage | Detector::Estimate => &policy.count,
        };
        let room = self.estimate() - (self.weight_of(place) - budget);
        let goal = Goal { room, reach: Reach::Message(place), least: policy.shed.min_part_chars };
        shed::cut(&mut self.log, &policy, self.context.fixed, &goal, counter)
    }
}

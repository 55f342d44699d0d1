//! The rungs of the ladder, in the order in which they are climbed.

use super::super::context::Trigger;
use super::super::request::{SummaryJob, appended_request};
use super::super::shed::{self, Goal, NewestPlaces, Reach};
use super::{Ladder, Rung, SummaryTask};
use crate::log::{Cut, Ids, LogError};
use crate::pivot::VisibleRange;
use crate::plan::{Plan, Rejection, ShedPlan};
use crate::policy::RequestForm;
use crate::prune::Pressure;
use crate::tokens::Tokens;

impl Ladder {
    pub(super) fn start(&mut self) -> Rung {
        let policy = &self.context.policy;
        match (self.line, self.context.trigger) {
            (_, Trigger::Manual) => return Rung::Select,
            (None, _) => return Rung::End,
            _ if !policy.overflow.auto => return Rung::End,
            _ => {}
        }
        // If system prompt and tools exceed the line by themselves, no reduction of the window can help.
        if self.line.is_some_and(|line| line.is_over(self.context.fixed.total())) {
            return Rung::End;
        }
        let gated = policy.prune.gate_share.is_some() || policy.prune.gate_headroom.is_some();
        match (self.called || gated, self.pays) {
            (true, _) => Rung::Prune,
            // A compaction also removes what could be cleared.
            (false, true) => Rung::Select,
            (false, false) => Rung::Save,
        }
    }

    /// Under the line, clears content that costs more to send again than to clear.
    pub(super) fn save(&mut self, ids: &mut Ids) -> Result<Rung, LogError> {
        let plan = self.context.plan_saving(&self.log);
        if !plan.items.is_empty() {
            let reason = plan.reason.to_string();
            self.apply(Plan::Prune(plan), &reason, ids)?;
        }
        Ok(Rung::End)
    }

    pub(super) fn prune(&mut self, ids: &mut Ids) -> Result<Rung, LogError> {
        let pressure = Pressure { load: self.weigh(), limits: self.context.limits };
        let plan = self.context.plan_prune(&self.log, pressure);
        if !plan.items.is_empty() {
            let reason = plan.reason.to_string();
            self.apply(Plan::Prune(plan), &reason, ids)?;
        }
        // If that was enough, savings are checked now; otherwise the next request would need another climb for them.
        Ok(if self.called && self.is_over() { Rung::Select } else { Rung::Save })
    }

    pub(super) fn select(&mut self) -> Rung {
        let asked = self.context.trigger == Trigger::Manual;
        // The breaker saves automatic tries. A user who asks for a compaction gets one.
        let broken = self.context.breaker.failures >= self.context.policy.compact.breaker && !asked;
        let (Some(summariser), false) = (&self.context.summariser, broken) else {
            let failures = self.context.breaker.failures;
            self.rejections.extend(self.context.summariser.as_ref().map(|_| Rejection::GivenUp { failures }));
            return Rung::Extract;
        };
        let Some(selection) = self.selection(None) else { return Rung::ClearTail };
        // No request if any summary would be too long for what it replaces.
        if self.replaced(&selection) == Tokens::ZERO {
            return Rung::Extract;
        }
        let (policy, measured) = (&self.context.policy, self.context.measured(summariser, self.gauge));
        let head = selection.head.iter().map(|place| &self.log[*place]);
        let job = SummaryJob::new(head, &self.context.hook, policy, measured);
        let job =
            job.map(|job| job.for_model(summariser.model.clone()).for_window(policy, self.context.limits));
        let prior = selection.prior.map(|pivot| self.prior_text(pivot));
        let own = summariser.model.is_none() && policy.compact.request == RequestForm::Appended;
        let appended =
            own.then(|| appended_request(&self.sent, self.before, &self.context.hook, policy, measured));
        // A rejected request does not fit, and appending to it makes it longer.
        let appended = appended.flatten().filter(|_| self.context.trigger != Trigger::Refused);
        match (&job, &appended) {
            (Err(too_small), None) => {
                self.rejections.push(Rejection::Failed(too_small.to_string()));
                Rung::Extract
            }
            _ => {
                let tries_left = policy.compact.retries;
                Rung::Ask(Box::new(SummaryTask {
                    selection,
                    appended,
                    job,
                    chunk: 0,
                    prior,
                    tries_left,
                    calls: 0,
                }))
            }
        }
    }

    pub(super) fn extract(&mut self, ids: &mut Ids) -> Result<Rung, LogError> {
        if self.context.policy.compact.extractive
            && let Some(selection) = self.selection(None)
        {
            let is_wished = self.context.trigger == Trigger::Manual && self.context.summariser.is_none();
            let reason = if is_wished { "requested by the user" } else { "no model summary was available" };
            self.pivot_without_model(&selection, reason, ids)?;
        }
        Ok(if self.is_over() { Rung::ClearTail } else { Rung::End })
    }

    pub(super) fn clear_tail(&mut self, ids: &mut Ids) -> Result<Rung, LogError> {
        if !self.context.policy.shed.enabled || !self.must_shed() {
            return Ok(Rung::End);
        }
        let cleared = shed::clear(&self.log, &self.context.policy, self.excess(), &*self.context.counter);
        let reason = "the window was still over the line: tool outputs in the tail";
        self.shed(ShedPlan { cleared, ..ShedPlan::default() }, reason, ids)?;
        // Halves the tail's current weight repeatedly, down to nothing.
        let tail = self.selection(Some(Tokens(u64::MAX))).map(|s| s.head_tokens + s.tail_tokens);
        let cap = Tokens(tail.unwrap_or_else(|| self.weigh()).0 / 2);
        Ok(self.next_if_over(Rung::ShortenTail(u64::BITS - cap.0.leading_zeros() + 1, cap, None)))
    }

    pub(super) fn shorten_tail(
        &mut self,
        left: u32,
        cap: Tokens,
        kept: Option<usize>,
        ids: &mut Ids,
    ) -> Result<Rung, LogError> {
        let selection = self.selection(Some(cap)).filter(|_| self.context.policy.compact.extractive);
        let now = selection.as_ref().map(|selection| selection.tail.len());
        // Skipped if the last try had a tail of the same messages.
        if let Some(selection) = selection.filter(|_| now != kept) {
            let reason = "the window was still over the line: a shorter tail";
            self.pivot_without_model(&selection, reason, ids)?;
        }
        let next = match left {
            0 => Rung::CutStep,
            left => Rung::ShortenTail(left - 1, Tokens(cap.0 / 2), now.or(kept)),
        };
        Ok(self.next_if_over(next))
    }

    /// Cuts the results of the newest step to share the room that is left.
    pub(super) fn cut_step(&mut self, ids: &mut Ids) -> Result<Rung, LogError> {
        let least = self.context.policy.shed.min_part_chars;
        let reason = "the window was still over the line: results of the newest step";
        self.cut(&Goal { room: self.room(), reach: Reach::NewestResults, least }, reason, ids)?;
        Ok(self.next_if_over(Rung::CutParts))
    }

    pub(super) fn cut_parts(&mut self, ids: &mut Ids) -> Result<Rung, LogError> {
        // A prompt that exceeds its share is cut first, but no more than necessary.
        if let Some(prompt) = NewestPlaces::of(&self.log).prompt {
            let share = self.room().share(self.context.policy.compact.prompt_share);
            let stays = self.weight_of(prompt) - self.excess();
            self.cut_message(
                prompt,
                share.max(stays),
                "the prompt is longer than its share of the window",
                ids,
            )?;
        }
        let least = self.context.policy.shed.min_part_chars;
        let reason = "the window was still over the line: the largest parts";
        self.cut(&Goal { room: self.room(), reach: Reach::AllButPrompt, least }, reason, ids)?;
        Ok(self.next_if_over(Rung::HideParts(self.context.policy.shed.rounds)))
    }

    pub(super) fn hide_parts(&mut self, left: u32, ids: &mut Ids) -> Result<Rung, LogError> {
        // A notice replaces a hidden part, so hiding little may save nothing: each round hides twice as much, and the
        // last one everything.
        let round = self.context.policy.shed.rounds.saturating_sub(left).min(63);
        let excess =
            if left == 0 { Tokens(u64::MAX) } else { Tokens(self.excess().0.saturating_mul(1 << round)) };
        let hidden = shed::hide(&self.log, &self.context.policy, excess, self.context.counter());
        let done = hidden.is_empty();
        let reason = "cutting was not enough: hide parts that can be spared";
        self.shed(ShedPlan { hidden, ..ShedPlan::default() }, reason, ids)?;
        let next = if done || left == 0 { Rung::CutPrompt } else { Rung::HideParts(left - 1) };
        Ok(self.next_if_over(next))
    }

    /// Cuts the prompt and the summary. Only guaranteed content is left at this point.
    pub(super) fn cut_prompt(&mut self, ids: &mut Ids) -> Result<Rung, LogError> {
        let visible = VisibleRange::of(&self.log);
        let summary = visible.pivot.map(|pivot| pivot.summary);
        for place in summary.into_iter().chain(NewestPlaces::of(&self.log).prompt) {
            let goal = Goal { room: self.room(), reach: Reach::Message(place), least: Cut::LEAST };
            self.cut(&goal, "the window is too small even for the prompt and the summary", ids)?;
        }
        Ok(self.next_if_over(Rung::Unpin(self.context.policy.shed.rounds)))
    }

    pub(super) fn unpin(&mut self, left: u32, ids: &mut Ids) -> Result<Rung, LogError> {
        let unpinned = shed::unpin(&self.log, self.excess(), self.context.counter());
        let done = unpinned.is_empty();
        let reason = "the window is too small for its pins";
        self.shed(ShedPlan { unpinned, ..ShedPlan::default() }, reason, ids)?;
        let next = if done || left == 0 { Rung::End } else { Rung::Unpin(left - 1) };
        Ok(self.next_if_over(next))
    }

    /// The next rung, or the end of the climb.
    pub(super) fn next_if_over(&self, next: Rung) -> Rung {
        if self.is_over() { next } else { Rung::End }
    }
}

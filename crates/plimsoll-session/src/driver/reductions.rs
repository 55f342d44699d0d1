//! Reductions outside of a climb: prune, pin, edit, compact on demand, undo.

use std::sync::Arc;

use plimsoll::compact::{CompactionContext, Outcome, Reply, SummaryRequest, Trigger};
use plimsoll::edit::{self, Edit};
use plimsoll::pin::{self, PinTarget};
use plimsoll::plan::{CompactPlan, RangePlan};
use plimsoll::prune::{self, Pressure, PruneChoice, PrunePlan};
use plimsoll::receipt::Stamp;
use plimsoll::{Log, Message, MessageId, PartId, Plan, Receipt, ReceiptId, Reduction, Scale, Tokens};
use plimsoll_store::{PageRequest, Revision, Search, Selection, StoreError};

use super::Driver;
use crate::climb::ClimbStep;
use crate::error::SessionError;
use crate::scale::UsageScale;
use crate::stop::StopFlag;

/// Outcome of a prune.
#[derive(Clone, Debug, PartialEq)]
pub enum Pruned {
    /// Old outputs were cleared.
    Done(Box<Receipt>),
    /// There is nothing to clear; the plan says why.
    Nothing(Box<PrunePlan>),
    /// Clearing would not make the window smaller.
    NotSmaller,
}

/// A prune that is planned, and the state of the session that it is planned for.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PlannedPrune {
    /// The outputs that would be cleared.
    pub plan: PrunePlan,
    /// Tokens of the next request before and after.
    pub sizes: (Tokens, Tokens),
    /// The session's revision.
    pub revision: Revision,
}

/// The reductions that would come next.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct NextReductions {
    /// The outputs that a prune would clear.
    pub prune: PrunePlan,
    /// The messages that a summary would replace; `None` if there are too few.
    pub compaction: Option<CompactPlan>,
    /// Tokens of the next request before the prune and after it.
    pub pruned: (Tokens, Tokens),
    /// Tokens before the compaction and after it, with the longest summary.
    pub compacted: Option<(Tokens, Tokens)>,
    /// The messages that the window is made of.
    pub messages: Vec<Message>,
    /// The session's revision.
    pub revision: Revision,
}

impl Pruned {
    /// Returns the receipt, if outputs were cleared.
    pub fn receipt(self) -> Option<Receipt> {
        match self {
            Pruned::Done(receipt) => Some(*receipt),
            Pruned::Nothing(_) | Pruned::NotSmaller => None,
        }
    }
}

impl Driver {
    /// Plans the next reductions, without making them.
    pub fn plan(&self) -> Result<NextReductions, SessionError> {
        // Read before planning: an outdated revision makes a caller plan again, but a newer one would hide a change.
        let revision = self.stored_revision()?;
        let (prune, compaction) = (self.plan_prune(), self.plan_compaction());
        let pruned = self.preview(&Plan::Prune(prune.clone()));
        let compacted = compaction.clone().map(|plan| self.preview(&Plan::Compact(plan)));
        let messages = self.log.messages().to_vec();
        Ok(NextReductions { prune, compaction, pruned, compacted, messages, revision })
    }

    /// Plans a prune of the chosen outputs, or by the policy's rules, without making it.
    pub fn preview_prune(&self, choice: Option<&PruneChoice>) -> Result<PlannedPrune, SessionError> {
        let revision = self.stored_revision()?;
        let plan = choice.map_or_else(|| self.plan_prune(), |choice| self.plan_prune_choice(choice));
        let sizes = self.preview(&Plan::Prune(plan.clone()));
        Ok(PlannedPrune { plan, sizes, revision })
    }

    /// Plans a prune again, and applies it if `is_accepted` recognises it as the one that the user saw. `None` if it
    /// does not.
    pub fn prune_if(
        &mut self,
        choice: Option<&PruneChoice>,
        reason: &str,
        is_accepted: impl FnOnce(&PlannedPrune) -> bool,
    ) -> Result<Option<Pruned>, SessionError> {
        let planned = self.preview_prune(choice)?;
        self.stop.check()?;
        if !is_accepted(&planned) {
            return Ok(None);
        }
        self.apply_prune(planned.plan, reason).map(Some)
    }

    fn stored_revision(&self) -> Result<Revision, SessionError> {
        Ok(self.archive.store().session(self.session())?.revision)
    }

    fn plan_prune(&self) -> PrunePlan {
        let policy = &self.settings.policy;
        // Weighing the window takes longer than the plan itself.
        let pressure = policy.prune.is_gated().then(|| {
            let load = self.context(Trigger::Auto).load(&self.log);
            Pressure { load: load.tokens, limits: self.limits() }
        });
        prune::plan_until(&self.log, policy, pressure, &|| self.stop.is_set())
    }

    fn plan_prune_choice(&self, choice: &PruneChoice) -> PrunePlan {
        let (policy, limits) = (&self.settings.policy, self.limits());
        if let Some(recorded) = &self.recorded {
            return recorded.plan_choice(&self.log, policy, choice, limits);
        }
        let load = self.context(Trigger::Auto).load(&self.log);
        let pressure = Pressure { load: load.tokens, limits };
        let counter = self.stoppable(Arc::new(policy.count));
        prune::plan_choice_by(&self.log, policy, choice, Some(pressure), &counter)
    }

    fn plan_compaction(&self) -> Option<CompactPlan> {
        self.context(Trigger::Manual).plan_compaction(&self.log)
    }

    /// Returns the tokens of the next request before and after a plan, by the same scale as a receipt. A planned
    /// compaction is assumed to have a summary of the maximum length.
    fn preview(&self, plan: &Plan) -> (Tokens, Tokens) {
        let context = self.context(Trigger::Auto);
        let scale = context.scale(&context.load(&self.log), &self.log);
        let before = context.estimate(&self.log);
        let after = match plan {
            Plan::Compact(plan) => (before - plan.tokens) + self.settings.policy.compact.longest_summary(),
            other => {
                let mut reduced = self.log.clone();
                let marked = other.mark(&mut reduced, &ReceiptId::new("rcp_plan"), self.now());
                marked.map_or(before, |()| context.estimate(&reduced))
            }
        };
        (scale.request(before), scale.request(after))
    }

    /// Clears old tool outputs by the policy's rules.
    pub fn prune(&mut self, reason: &str) -> Result<Pruned, SessionError> {
        let plan = self.plan_prune();
        self.stop.check()?;
        self.apply_prune(plan, reason)
    }

    /// Clears the chosen tool outputs, whatever the policy's rules are.
    pub fn prune_choice(&mut self, choice: &PruneChoice, reason: &str) -> Result<Pruned, SessionError> {
        let plan = self.plan_prune_choice(choice);
        self.stop.check()?;
        self.apply_prune(plan, reason)
    }

    /// Replaces a range of messages by a summary. `None` if the window would not get smaller.
    pub fn compact_range(&mut self, plan: RangePlan, reason: &str) -> Result<Option<Receipt>, SessionError> {
        self.apply(Plan::Range(plan), reason)
    }

    fn apply_prune(&mut self, plan: PrunePlan, reason: &str) -> Result<Pruned, SessionError> {
        if plan.items.is_empty() {
            return Ok(Pruned::Nothing(Box::new(plan)));
        }
        let done = self.apply(Plan::Prune(plan), reason)?;
        Ok(done.map_or(Pruned::NotSmaller, |receipt| Pruned::Done(Box::new(receipt))))
    }

    /// Sets a plan's marks if they make the window smaller.
    fn apply(&mut self, plan: Plan, reason: &str) -> Result<Option<Receipt>, SessionError> {
        let (policy, now) = (Arc::clone(&self.settings.policy), self.now());
        let (context, scale) = self.scaled();
        self.stop.check()?;
        let mut log = self.log.clone();
        let stamp = Stamp { ids: &mut self.ids, now, policy: &policy, reason };
        let receipt = plan.apply(&mut log, stamp, |log| context.estimate(log))?;
        self.stop.check()?;
        receipt.map(|receipt| self.keep(receipt.on(scale), log)).transpose()
    }

    /// Finds what can be pinned under the id of a message, the id of a part, or some words. Messages out of view are
    /// loaded from the store.
    pub fn find_pin(&mut self, what: &str) -> Result<PinTarget, SessionError> {
        let (message, part) = (MessageId::new(what), PartId::new(what));
        if self.load_message(&message)? {
            return Ok(PinTarget::Message(message));
        }
        if self.log.part(&part).is_ok() {
            return Ok(PinTarget::Part(part));
        }
        let words = PinTarget::Words(what.to_owned());
        if self.log.iter().any(|message| message.text().contains(what)) {
            return Ok(words);
        }
        // Out of view: the newest message that contains it. The beginning of a long text is enough.
        let pattern = plimsoll::head(what, plimsoll::Chars(200)).to_owned();
        let search = Search { pattern, literal: true, ..Search::default() };
        let stop = self.stop.of_store().clone();
        let ask = Selection {
            search: Some(search),
            max_bytes: 1 << 20,
            max_matches: 10_000,
            stop,
            ..Selection::default()
        };
        let hits = self.archive.store().search(self.session(), &ask)?;
        match hits.iter().rev().find_map(|hit| hit.message.clone()) {
            Some(newest) => self.load_message(&newest).map(drop)?,
            None if self.archive.store().part(self.session(), &part).is_ok() => {
                return Err(SessionError::OutOfView(part));
            }
            None => {}
        }
        Ok(words)
    }

    /// Loads a message that is out of view. Returns whether it exists.
    fn load_message(&mut self, id: &MessageId) -> Result<bool, SessionError> {
        if self.log.place(id).is_ok() {
            return Ok(true);
        }
        let message = match self.archive.store().message(self.session(), id) {
            Err(StoreError::Missing { .. }) => return Ok(false),
            other => other?,
        };
        // Messages out of view are older than all messages in view.
        let all = std::iter::once(message).chain(self.log.messages().iter().cloned());
        self.log = Log::from_messages(all);
        Ok(true)
    }

    /// Loads the messages that are out of view, from one on.
    fn load_since(&mut self, first: &MessageId) -> Result<(), SessionError> {
        let (mut missing, mut from) = (vec![first.clone()], Some(first.clone()));
        while let Some(after) = from.take() {
            let request = PageRequest { from: Some(after), oldest_first: true, most: 100 };
            let page = self.archive.store().page(self.session(), &request)?;
            let ids = page.messages.iter().map(|message| message.info.id.clone());
            missing.extend(ids.filter(|id| self.log.place(id).is_err()));
            from = page.next;
        }
        // Each is put before those that were loaded earlier.
        missing.iter().rev().try_for_each(|id| self.load_message(id).map(drop))
    }

    /// Pins text: it stays in view verbatim, whatever is reduced.
    pub fn pin(&mut self, target: &PinTarget) -> Result<Receipt, SessionError> {
        let (policy, now) = (Arc::clone(&self.settings.policy), self.now());
        let plan = pin::plan(&self.log, target, &policy, Some(self.limits()), &*self.meter.counter())?;
        let (context, scale) = self.scaled();
        let mut log = self.log.clone();
        let receipt = plan.apply(&mut log, &mut self.ids, now, &policy, |log| context.estimate(log))?;
        self.stop.check()?;
        self.keep(receipt.on(scale), log)
    }

    /// Changes or removes text of a message, which is read back if it is out of view. The log keeps the original.
    pub fn edit(&mut self, message: &MessageId, edit: &Edit) -> Result<Receipt, SessionError> {
        match edit {
            Edit::RemoveSince(first) => self.load_since(first)?,
            _ => drop(self.load_message(message)?),
        }
        let plan = edit::plan(&self.log, edit)?;
        let (policy, now) = (Arc::clone(&self.settings.policy), self.now());
        let (context, scale) = self.scaled();
        let mut log = self.log.clone();
        let receipt = plan.apply(&mut log, &mut self.ids, now, &policy, |log| context.estimate(log))?;
        self.keep(receipt.on(scale), log)
    }

    /// Returns the context of a reduction, and the scale of its receipt.
    fn scaled(&mut self) -> (CompactionContext, Scale) {
        let context = self.context(Trigger::Auto);
        let load = context.load(&self.log);
        self.keep_scale(&context, &load);
        let scale = context.scale(&load, &self.log);
        (context, scale)
    }

    /// Compacts on demand. `ask` is called for each summary that is needed; without a summariser in the settings it is
    /// not called. The time is bounded by `ask`: the policy's `compact.maxSeconds` is for all of its calls together.
    pub fn compact(
        &mut self,
        mut ask: impl FnMut(&SummaryRequest) -> Result<Reply, String>,
    ) -> Result<Outcome, SessionError> {
        let mut climb = self.begin_compaction(None)?;
        let climbed = loop {
            match climb.step()? {
                ClimbStep::Ask(request) => drop(climb.answer(ask(&request))?),
                ClimbStep::Done(climbed) => break *climbed,
            }
        };
        let mut outcome = climbed.outcome.clone();
        outcome.reduction.receipts = self.commit(climbed)?;
        Ok(outcome)
    }

    /// Undoes a reduction. Reductions can be undone in any order, each once.
    pub fn undo(&mut self, receipt: &ReceiptId) -> Result<Receipt, SessionError> {
        let now = self.now();
        self.scaled();
        self.stop.check()?;
        let mut undone = self.store(|store, claim| store.undo(claim, receipt, now))?;
        // The undo is stored by now: its figures must not be those of a stopped counter.
        self.stop = StopFlag::default();
        // Messages that an undone pivot replaced come back into view from the store.
        self.reload()?;
        if let Some(before) = self.recorded.take()
            && let Some(after) = self.usage_scale(&self.log)
        {
            // Later reductions may hide what came back; then the window is unchanged.
            (undone.before, undone.after) = (before.window, after.window);
            let (id, before, after_tokens) = (undone.id.clone(), before.window, after.window);
            self.recorded = Some(after);
            self.store(|store, claim| store.resize_receipt(claim, &id, before, after_tokens))?;
        }
        Ok(undone)
    }

    /// Stores a receipt whose marks `log` already carries.
    fn keep(&mut self, receipt: Receipt, log: Log) -> Result<Receipt, SessionError> {
        let reduction = Reduction { receipts: vec![receipt.clone()], ..Reduction::default() };
        let (reduction, recorded) = self.with_usage_sizes(reduction, &log);
        let receipt = reduction.receipts.first().cloned().unwrap_or(receipt);
        self.reduce(reduction, self.revision)?;
        self.recorded = recorded.or(self.recorded.take());
        self.log = log;
        Ok(receipt)
    }

    /// Replaces the sizes of a reduction's receipts by those of the session's usage, if figures are based on it.
    /// Returns the usage scale afterwards, too. `log` has the reduction.
    pub(crate) fn with_usage_sizes(
        &self,
        mut reduction: Reduction,
        log: &Log,
    ) -> (Reduction, Option<UsageScale>) {
        let Some(before) = &self.recorded else { return (reduction, None) };
        let Some(after) = self.usage_scale(log) else { return (reduction, None) };
        let ends = reduction.receipts.first().zip(reduction.receipts.last());
        if let Some((first, last)) = ends.map(|(first, last)| (first.before, last.after)) {
            // The receipts between the first and the last are scaled linearly.
            let way = first.0 as f64 - last.0 as f64;
            let real = before.window.0 as f64 - after.window.0 as f64;
            let rescaled = |tokens: Tokens| {
                let share = if way == 0.0 { 0.0 } else { (tokens.0 as f64 - last.0 as f64) / way };
                Tokens((after.window.0 as f64 + share * real).max(0.0).round() as u64)
            };
            for receipt in &mut reduction.receipts {
                (receipt.before, receipt.after) = (rescaled(receipt.before), rescaled(receipt.after));
            }
            if let Some(receipt) = reduction.receipts.first_mut() {
                receipt.before = before.window;
            }
        }
        (reduction, Some(after))
    }

    /// Returns the usage scale of the session, with `log` in place of the stored messages.
    fn usage_scale(&self, log: &Log) -> Option<UsageScale> {
        UsageScale::read(&self.archive, self.session(), log, &self.settings.policy).ok()
    }
}

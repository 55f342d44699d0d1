//! What a person or a policy does to a session outside of a climb: prune, pin, compact on request, undo.

use std::sync::Arc;

use plimsoll::compact::accept::Reply;
use plimsoll::compact::ladder::{Outcome, Situation, Trigger};
use plimsoll::compact::request::SummaryRequest;
use plimsoll::pin::{self, PinTarget};
use plimsoll::prune::{self, Pressure, PruneChoice, PrunePlan};
use plimsoll::receipt::{CompactPlan, RangePlan, Stamp};
use plimsoll::{Fixed, Log, MessageId, PartId, Plan, Receipt, ReceiptId, Reduction, Scale, Tokens};
use plimsoll_store::{Search, Selection, StoreError};

use crate::climb::ClimbStep;
use crate::driver::Driver;
use crate::error::SessionError;
use crate::usage_scale::UsageScale;

/// What became of a wish to prune.
#[derive(Clone, Debug, PartialEq)]
pub enum Pruned {
    /// Old outputs were cleared.
    Done(Box<Receipt>),
    /// There is nothing to clear; the plan says why.
    Nothing(Box<PrunePlan>),
    /// The window would not get smaller by what could be cleared.
    NotSmaller,
}

impl Pruned {
    /// The receipt, if something was done.
    pub fn receipt(self) -> Option<Receipt> {
        match self {
            Pruned::Done(receipt) => Some(*receipt),
            Pruned::Nothing(_) | Pruned::NotSmaller => None,
        }
    }
}

impl Driver {
    /// What a prune would clear now.
    pub fn plan_prune(&self, fixed: Fixed) -> PrunePlan {
        let policy = &self.settings.policy;
        // Weighing the window takes longer than the plan itself.
        let pressure = policy.prune.is_gated().then(|| {
            let load = self.situation(fixed, Trigger::Auto).load(&self.log);
            Pressure { load: load.tokens, limits: self.limits() }
        });
        prune::plan(&self.log, policy, pressure)
    }

    /// What a prune of what is chosen would clear now.
    pub fn plan_prune_choice(&self, choice: &PruneChoice, fixed: Fixed) -> PrunePlan {
        let (policy, limits) = (&self.settings.policy, self.limits());
        if let Some(recorded) = &self.recorded {
            return recorded.plan_choice(&self.log, policy, choice, limits);
        }
        let load = self.situation(fixed, Trigger::Auto).load(&self.log);
        let pressure = Pressure { load: load.tokens, limits };
        prune::plan_choice(&self.log, policy, choice, Some(pressure))
    }

    /// What a compaction would summarise now; none if there is too little.
    pub fn plan_compaction(&self, fixed: Fixed) -> Option<CompactPlan> {
        self.situation(fixed, Trigger::Manual).plan_compaction(&self.log)
    }

    /// Tokens of the next request before a plan and after it, as its receipt would have them. For a compaction that is only
    /// planned, the longest summary is assumed.
    pub fn preview(&self, plan: &Plan, fixed: Fixed) -> (Tokens, Tokens) {
        let situation = self.situation(fixed, Trigger::Auto);
        let scale = situation.scale(&situation.load(&self.log), &self.log);
        let before = situation.estimate(&self.log);
        let after = match plan {
            Plan::Compact(plan) => (before - plan.tokens) + self.settings.policy.compact.longest_summary(),
            other => {
                let mut reduced = self.log.clone();
                let marked = other.mark(&mut reduced, &ReceiptId::new("rcp_plan"), self.now());
                marked.map_or(before, |()| situation.estimate(&reduced))
            }
        };
        (scale.request(before), scale.request(after))
    }

    /// Clear old tool outputs from the window, by the policy's rules.
    pub fn prune(&mut self, fixed: Fixed, reason: &str) -> Result<Pruned, SessionError> {
        let plan = self.plan_prune(fixed);
        self.stop.check()?;
        self.apply_prune(plan, fixed, reason)
    }

    /// Clear what is chosen from the window, whatever the policy's rules are.
    pub fn prune_choice(
        &mut self,
        choice: &PruneChoice,
        fixed: Fixed,
        reason: &str,
    ) -> Result<Pruned, SessionError> {
        let plan = self.plan_prune_choice(choice, fixed);
        self.apply_prune(plan, fixed, reason)
    }

    /// Put a summary in the place of a range of messages; none if the window would not get smaller by it.
    pub fn compact_range(
        &mut self,
        plan: RangePlan,
        fixed: Fixed,
        reason: &str,
    ) -> Result<Option<Receipt>, SessionError> {
        self.apply(Plan::Range(plan), fixed, reason)
    }

    fn apply_prune(&mut self, plan: PrunePlan, fixed: Fixed, reason: &str) -> Result<Pruned, SessionError> {
        if plan.items.is_empty() {
            return Ok(Pruned::Nothing(Box::new(plan)));
        }
        let done = self.apply(Plan::Prune(plan), fixed, reason)?;
        Ok(done.map_or(Pruned::NotSmaller, |receipt| Pruned::Done(Box::new(receipt))))
    }

    /// Set a plan's marks if the window gets smaller by them.
    fn apply(&mut self, plan: Plan, fixed: Fixed, reason: &str) -> Result<Option<Receipt>, SessionError> {
        let (policy, now) = (Arc::clone(&self.settings.policy), self.now());
        let (situation, scale) = self.scaled(fixed);
        self.stop.check()?;
        let mut log = self.log.clone();
        let stamp = Stamp { ids: &mut self.ids, now, policy: &policy, reason };
        let receipt = plan.apply(&mut log, stamp, |log| situation.estimate(log))?;
        self.stop.check()?;
        receipt.map(|receipt| self.keep(receipt.on(scale), log)).transpose()
    }

    /// What of the session is meant by a message's id, a part's id or some words. What is out of view is read back, so
    /// that it can be pinned.
    pub fn find_pin(&mut self, what: &str) -> Result<PinTarget, SessionError> {
        let (message, part) = (MessageId::new(what), PartId::new(what));
        if self.bring(&message)? {
            return Ok(PinTarget::Message(message));
        }
        if self.log.part(&part).is_ok() {
            return Ok(PinTarget::Part(part));
        }
        let words = PinTarget::Words(what.to_owned());
        if self.log.iter().any(|message| message.text().contains(what)) {
            return Ok(words);
        }
        // Out of view: the newest message that says it. The beginning of a long text tells enough.
        let pattern = plimsoll::chars::head(what, plimsoll::Chars(200)).to_owned();
        let search = Search { pattern, literal: true, ..Search::default() };
        let ask = Selection { lines: None, search: Some(search), most_bytes: 1 << 20, most_matches: 10_000 };
        let hits = self.archive.store().search(self.session(), &ask)?;
        match hits.iter().rev().find_map(|hit| hit.message.clone()) {
            Some(newest) => self.bring(&newest).map(drop)?,
            None if self.archive.store().part(self.session(), &part).is_ok() => {
                return Err(SessionError::OutOfView(part));
            }
            None => {}
        }
        Ok(words)
    }

    /// Hold a message although it is out of view; says whether there is one of that name.
    fn bring(&mut self, id: &MessageId) -> Result<bool, SessionError> {
        if self.log.place(id).is_ok() {
            return Ok(true);
        }
        let message = match self.archive.store().message(self.session(), id) {
            Err(StoreError::Missing { .. }) => return Ok(false),
            other => other?,
        };
        // Whatever is out of view stands before all that is in it.
        let all = std::iter::once(message).chain(self.log.messages().iter().cloned());
        self.log = Log::from_messages(all);
        Ok(true)
    }

    /// Keep text in view word for word, whatever is reduced.
    pub fn pin(&mut self, target: &PinTarget, fixed: Fixed) -> Result<Receipt, SessionError> {
        let (policy, now) = (Arc::clone(&self.settings.policy), self.now());
        let plan = pin::plan(&self.log, target, &policy, Some(self.limits()), &*self.meter.counter())?;
        let (situation, scale) = self.scaled(fixed);
        let mut log = self.log.clone();
        let receipt = plan.apply(&mut log, &mut self.ids, now, &policy, |log| situation.estimate(log))?;
        self.keep(receipt.on(scale), log)
    }

    /// What a reduction is made under, and the scale of its receipt.
    fn scaled(&mut self, fixed: Fixed) -> (Situation, Scale) {
        let situation = self.situation(fixed, Trigger::Auto);
        let load = situation.load(&self.log);
        self.keep_scale(&situation, &load);
        let scale = situation.scale(&load, &self.log);
        (situation, scale)
    }

    /// Compact because a person asks for it. `ask` is called for each summary the climb wants; without a summariser
    /// in the settings it is not called at all.
    pub fn compact(
        &mut self,
        fixed: Fixed,
        mut ask: impl FnMut(&SummaryRequest) -> Result<Reply, String>,
    ) -> Result<Outcome, SessionError> {
        let mut climb = self.begin_compaction(fixed, Trigger::Manual);
        let climbed = loop {
            match climb.step()? {
                ClimbStep::Ask(request) => climb.answer(ask(&request))?,
                ClimbStep::Done(climbed) => break *climbed,
            }
        };
        let mut outcome = climbed.outcome.clone();
        outcome.reduction.receipts = self.commit(climbed)?;
        Ok(outcome)
    }

    /// Undo a reduction of this session, in any order, once.
    pub fn undo(&mut self, receipt: &ReceiptId, fixed: Fixed) -> Result<Receipt, SessionError> {
        let now = self.now();
        self.scaled(fixed);
        let mut undone = self.store(|store, claim| store.undo(claim, receipt, now))?;
        // What an undone pivot stood for comes back into view from the store.
        self.reload()?;
        if let (Some(before), Some(after)) = (self.recorded.take(), self.usage_scale(&self.log)) {
            // What was reduced since may hide what came back: then the window is as it was.
            (undone.before, undone.after) = (before.window, after.window);
            let (id, before, after_tokens) = (undone.id.clone(), before.window, after.window);
            self.recorded = Some(after);
            self.store(|store, claim| store.resize_receipt(claim, &id, before, after_tokens))?;
        }
        Ok(undone)
    }

    /// Store a receipt whose marks `log` carries already.
    fn keep(&mut self, receipt: Receipt, log: Log) -> Result<Receipt, SessionError> {
        let reduction = Reduction { receipts: vec![receipt.clone()], ..Reduction::default() };
        let (reduction, recorded) = self.told_by_usage(reduction, &log);
        let receipt = reduction.receipts.first().cloned().unwrap_or(receipt);
        self.reduce(reduction, self.revision())?;
        self.recorded = recorded.or(self.recorded.take());
        self.log = log;
        Ok(receipt)
    }

    /// A reduction with the sizes that the usage of the session tells before it and after, where figures are told by it, and
    /// what that usage says afterwards. `log` has the reduction.
    pub(crate) fn told_by_usage(
        &self,
        mut reduction: Reduction,
        log: &Log,
    ) -> (Reduction, Option<UsageScale>) {
        let Some(before) = &self.recorded else { return (reduction, None) };
        let Some(after) = self.usage_scale(log) else { return (reduction, None) };
        let ends = reduction.receipts.first().zip(reduction.receipts.last());
        if let Some((first, last)) = ends.map(|(first, last)| (first.before, last.after)) {
            // Steps in between keep their share of the whole way.
            let way = first.0 as f64 - last.0 as f64;
            let real = before.window.0 as f64 - after.window.0 as f64;
            let tell = |tokens: Tokens| {
                let share = if way == 0.0 { 0.0 } else { (tokens.0 as f64 - last.0 as f64) / way };
                Tokens((after.window.0 as f64 + share * real).max(0.0).round() as u64)
            };
            for receipt in &mut reduction.receipts {
                (receipt.before, receipt.after) = (tell(receipt.before), tell(receipt.after));
            }
            if let Some(receipt) = reduction.receipts.first_mut() {
                receipt.before = before.window;
            }
        }
        (reduction, Some(after))
    }

    /// What the usage of the session says of it with `log` in the place of what is stored.
    fn usage_scale(&self, log: &Log) -> Option<UsageScale> {
        UsageScale::read(&self.archive, self.session(), log, &self.settings.policy).ok()
    }
}

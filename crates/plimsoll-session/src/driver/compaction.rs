//! Compactions outside of a request: on demand, prepared ahead, and how climbs are committed.

use plimsoll::compact::{CompactionContext, Outcome, Trigger};
use plimsoll::{Load, Plan, Receipt, Reduction};
use plimsoll_store::{Revision, StoreError};

use super::{Driver, Precompaction};
use crate::climb::{Climb, ClimbOutcome};
use crate::error::SessionError;

impl Driver {
    /// Begins a compaction that the user asked for. `focus` is what the summary should keep above all, in the user's
    /// words.
    ///
    /// The climb works on a copy and can be sent to another thread. Its outcome goes into [`commit`](Driver::commit).
    /// Messages that were appended meanwhile stay in view.
    pub fn begin_compaction(&mut self, focus: Option<String>) -> Result<Climb, SessionError> {
        let mut context = self.context(Trigger::Manual);
        context.hook.focus = focus;
        self.climb_from(context)
    }

    /// Begins a compaction that runs concurrently with the turn, if the window is over the policy's soft line. `None`
    /// if the policy has no such line, without a summariser, or if one was begun since the window was last reduced.
    ///
    /// The host runs the climb concurrently with the turn and passes the outcome to
    /// [`stash_precompaction`](Driver::stash_precompaction).
    pub fn begin_precompaction(&mut self) -> Result<Option<Climb>, SessionError> {
        let Some(context) = self.precompaction_context() else { return Ok(None) };
        let climb = self.climb_from(context)?;
        self.precompaction = Precompaction::Begun;
        Ok(Some(climb))
    }

    /// Whether [`begin_precompaction`](Driver::begin_precompaction) would return a climb.
    pub fn wants_precompaction(&self) -> bool {
        self.precompaction_context().is_some()
    }

    fn precompaction_context(&self) -> Option<CompactionContext> {
        let is_free = matches!(self.precompaction, Precompaction::None) && self.climb.is_none();
        if !is_free || self.settings.summariser.is_none() || self.trigger != Trigger::Auto {
            return None;
        }
        let overflow = &self.settings.policy.overflow;
        overflow.soft_line(self.limits)?;
        let context = self.context(Trigger::Precompaction);
        let is_wanted =
            context.weigh(&self.log).1 && (!overflow.soft_when_free || context.is_free_ahead(&self.log));
        is_wanted.then_some(context)
    }

    /// Keeps the outcome of a precompaction. It takes effect in the first [`prepare`](Driver::prepare) that finds the
    /// window over the line, and what was appended since stays in view. Returns whether it is kept: an outcome without
    /// a summary, or from before the last reduction, is discarded.
    pub fn stash_precompaction(&mut self, climbed: ClimbOutcome) -> bool {
        self.breaker = climbed.outcome.breaker;
        let compacts = climbed.outcome.reduction.receipts.iter().any(compacts);
        let is_begun = matches!(self.precompaction, Precompaction::Begun);
        if compacts && is_begun && climbed.planned_on >= self.revision {
            self.precompaction = Precompaction::Stashed(Box::new(climbed));
            return true;
        }
        self.owed.merge(climbed.charges);
        false
    }

    pub(super) fn take_stashed(&mut self) -> Option<ClimbOutcome> {
        match std::mem::take(&mut self.precompaction) {
            Precompaction::Stashed(climbed) => Some(*climbed),
            other => {
                self.precompaction = other;
                None
            }
        }
    }

    /// Commits a precompaction. If something was reduced since, it is stale and discarded, and the ordinary climb
    /// follows.
    pub(super) fn commit_stashed(&mut self, stashed: ClimbOutcome) -> Result<Vec<Receipt>, SessionError> {
        let charges = stashed.charges.clone();
        match self.commit(stashed) {
            Err(SessionError::Store(StoreError::Stale { .. })) => {
                self.owed.merge(charges);
                Ok(Vec::new())
            }
            other => other,
        }
    }

    /// Keeps the scale of the newest usage, which a reduction or an undo is about to make stale.
    pub(super) fn keep_scale(&mut self, context: &CompactionContext, load: &Load) {
        if load.usage_of.is_none() && self.reduced.is_none() {
            return;
        }
        let scale = context.scale(load, &self.log);
        // A scale of figures that were counted after the flag was set would stay wrong.
        if !self.stop.is_set() {
            (self.scale, self.reduced) = (Some(scale), None);
        }
    }

    pub(super) fn climb_from(&mut self, context: CompactionContext) -> Result<Climb, SessionError> {
        let load = context.load(&self.log);
        self.keep_scale(&context, &load);
        self.stop.check()?;
        // Its own source of ids, because it may run on another thread while the turn creates ids too.
        let mut climb = Climb::new(self.log.clone(), self.revision, context, self.ids.split());
        climb.stop_on(self.stop.clone());
        Ok(climb)
    }

    /// Commits the outcome of a climb. Fails as stale if something else was reduced or undone since the climb began.
    /// Messages that were appended since then stay in view.
    pub fn commit(&mut self, climbed: ClimbOutcome) -> Result<Vec<Receipt>, SessionError> {
        let Outcome { reduction, breaker, .. } = climbed.outcome;
        if !reduction.is_empty() {
            // If the log changed since the plan, the check below rejects the reduction with a better error than a
            // missing message.
            let mut reduction = reduction.clone().without_stale_continuation(&self.log).unwrap_or(reduction);
            let owed = self.owed.clone();
            if !owed.is_empty()
                && let Some(summary) = reduction.appended.iter_mut().find(|message| message.info.summary)
            {
                self.owed.move_to(summary);
            }
            let weighed = self.recorded.is_some().then(|| self.log.clone());
            let weighed = weighed.and_then(|mut log| reduction.commit(&mut log).ok().map(|()| log));
            let (reduction, recorded) = match &weighed {
                Some(log) => self.with_usage_sizes(reduction, log),
                None => (reduction, None),
            };
            if let Err(error) = self.reduce(reduction.clone(), climbed.planned_on) {
                // The summary that took over the charges was not stored.
                self.owed = owed;
                return Err(error);
            }
            self.recorded = recorded.or(self.recorded.take());
            if reduction.receipts.iter().any(compacts) {
                // The messages that the pivot replaces can be dropped from memory; the store decides which those are.
                self.reload()?;
            } else {
                reduction.commit(&mut self.log)?;
            }
            self.breaker = breaker;
            return Ok(reduction.receipts);
        }
        self.breaker = breaker;
        Ok(Vec::new())
    }

    /// Writes a reduction to the store.
    pub(super) fn reduce(&mut self, reduction: Reduction, planned_on: Revision) -> Result<(), SessionError> {
        self.stop.check()?;
        let now = self.now();
        self.store(|store, claim| store.reduce(claim, reduction, Some(planned_on), now))?;
        self.revision = self.archive.store().session(self.session())?.revision;
        // An outcome that was planned before this reduction is stale. Its charges still count.
        if let Some(dropped) = self.take_stashed() {
            self.owed.merge(dropped.charges);
        }
        (self.precompaction, self.climb) = (Precompaction::None, None);
        Ok(())
    }
}

fn compacts(receipt: &Receipt) -> bool {
    matches!(receipt.plan, Plan::Compact(_))
}

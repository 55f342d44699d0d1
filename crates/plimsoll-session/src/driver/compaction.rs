//! Compactions: climbs beside the turn, those that are prepared ahead, and committing them.

use plimsoll::compact::ladder::{Outcome, Situation, Trigger};
use plimsoll::{Fixed, Load, Plan, Receipt, Reduction};
use plimsoll_store::{Revision, StoreError};

use super::{Driver, Early};
use crate::climb::{Climb, Climbed};
use crate::error::SessionError;

impl Driver {
    /// A compaction to be made beside the running turn: the climb works on a copy, may be sent to another thread, and
    /// its outcome goes into [`commit`](Driver::commit) whenever it is done. What came meanwhile stays in view.
    pub fn begin_compaction(&mut self, fixed: Fixed, trigger: Trigger) -> Climb {
        let situation = self.situation(fixed, trigger);
        self.climb_from(situation)
    }

    /// Like [`begin_compaction`](Driver::begin_compaction), with what the person who asks for it wants kept above
    /// all, this once.
    pub fn begin_compaction_with(&mut self, fixed: Fixed, trigger: Trigger, focus: Option<String>) -> Climb {
        let mut situation = self.situation(fixed, trigger);
        situation.hook.focus = focus;
        self.climb_from(situation)
    }

    /// A compaction to prepare while the turn goes on, once the window is over the policy's soft line; none where the
    /// policy has no such line, there is no summariser, or one was begun since the window was last reduced.
    ///
    /// The host lets it climb beside the turn and hands the outcome to [`hold`](Driver::hold).
    pub fn begin_early(&mut self, fixed: Fixed) -> Option<Climb> {
        let situation = self.early_situation(fixed)?;
        self.early = Early::Begun;
        Some(self.climb_from(situation))
    }

    /// Whether [`begin_early`](Driver::begin_early) would give a climb now.
    pub fn wants_early(&self, fixed: Fixed) -> bool {
        self.early_situation(fixed).is_some()
    }

    fn early_situation(&self, fixed: Fixed) -> Option<Situation> {
        let is_free = matches!(self.early, Early::None) && self.climb.is_none();
        if !is_free || self.settings.summariser.is_none() || self.trigger != Trigger::Auto {
            return None;
        }
        let overflow = &self.settings.policy.overflow;
        overflow.soft_line(self.limits)?;
        let situation = self.situation(fixed, Trigger::Early);
        let is_wanted =
            situation.weigh(&self.log).1 && (!overflow.soft_when_free || situation.is_free_ahead(&self.log));
        is_wanted.then_some(situation)
    }

    /// Keep what a climb of [`begin_early`](Driver::begin_early) came to. It takes effect in the first
    /// [`prepare`](Driver::prepare) that finds the window over the line, and what was said since stays in view. Without a
    /// summary in it there is nothing to keep. Says whether it is kept.
    pub fn hold(&mut self, climbed: Climbed) -> bool {
        self.breaker = climbed.outcome.breaker;
        let compacts = climbed.outcome.reduction.receipts.iter().any(compacts);
        // A climb from before the last reduction is of no use any more.
        if compacts && matches!(self.early, Early::Begun) && climbed.planned_on >= self.revision {
            self.early = Early::Held(Box::new(climbed));
            return true;
        }
        self.owed.merge(climbed.charges);
        false
    }

    pub(super) fn take_held(&mut self) -> Option<Climbed> {
        match std::mem::take(&mut self.early) {
            Early::Held(climbed) => Some(*climbed),
            other => {
                self.early = other;
                None
            }
        }
    }

    /// Commit what was prepared ahead. If something was reduced since, it is stale, and the ordinary climb does its work.
    pub(super) fn commit_held(&mut self, held: Climbed) -> Result<Vec<Receipt>, SessionError> {
        let charges = held.charges.clone();
        match self.commit(held) {
            Err(SessionError::Store(StoreError::Stale { .. })) => {
                self.owed.merge(charges);
                Ok(Vec::new())
            }
            other => other,
        }
    }

    /// A climb that was begun for a request that is not made any more.
    pub(crate) fn give_up_climb(&mut self) {
        self.climb = None;
    }

    /// Keep the scale of the newest usage, which a reduction or an undo is about to make stale.
    pub(crate) fn keep_scale(&mut self, situation: &Situation, load: &Load) {
        if load.usage_of.is_some() || self.reduced.is_some() {
            self.scale = Some(situation.scale(load, &self.log));
            self.reduced = None;
        }
    }

    pub(super) fn climb_from(&mut self, situation: Situation) -> Climb {
        let load = situation.load(&self.log);
        self.keep_scale(&situation, &load);
        Climb::new(self.log.clone(), self.revision, situation, self.ids.split())
    }

    /// Record what a climb did: in the store first, then in memory. It is refused as stale if something else was reduced
    /// or undone since the climb began; appends since then are fine, and stay in view.
    pub fn commit(&mut self, climbed: Climbed) -> Result<Vec<Receipt>, SessionError> {
        let Outcome { reduction, breaker, .. } = climbed.outcome;
        if !reduction.is_empty() {
            // A log that is no longer what was planned on is refused below, with a better reason than a missing message.
            let mut reduction = reduction.clone().without_stale_go_on(&self.log).unwrap_or(reduction);
            let owed = self.owed.clone();
            if !owed.is_empty()
                && let Some(summary) = reduction.appended.iter_mut().find(|message| message.info.summary)
            {
                self.owed.move_to(summary);
            }
            let weighed = self.recorded.is_some().then(|| self.log.clone());
            let weighed = weighed.and_then(|mut log| reduction.commit(&mut log).ok().map(|()| log));
            let (reduction, recorded) = match &weighed {
                Some(log) => self.told_by_usage(reduction, log),
                None => (reduction, None),
            };
            if let Err(error) = self.reduce(reduction.clone(), climbed.planned_on) {
                self.owed = owed;
                return Err(error);
            }
            self.recorded = recorded.or(self.recorded.take());
            if reduction.receipts.iter().any(compacts) {
                // What the pivot stands for need not be held any more; the store knows what must be.
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

    /// Write a reduction to the store.
    pub(crate) fn reduce(&mut self, reduction: Reduction, planned_on: Revision) -> Result<(), SessionError> {
        let now = self.now();
        self.store(|store, claim| store.reduce(claim, reduction, Some(planned_on), now))?;
        self.revision = self.archive.store().session(self.session())?.revision;
        // What was planned before is of no use any more.
        if let Some(dropped) = self.take_held() {
            self.owed.merge(dropped.charges);
        }
        (self.early, self.climb) = (Early::None, None);
        Ok(())
    }

    /// What plans on the log as it is now are made on.
    pub(crate) fn revision(&self) -> Revision {
        self.revision
    }
}

fn compacts(receipt: &Receipt) -> bool {
    matches!(receipt.plan, Plan::Compact(_))
}

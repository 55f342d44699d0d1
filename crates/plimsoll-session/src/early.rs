//! Compactions that are prepared while the turn goes on.

use plimsoll::compact::ladder::{Situation, Trigger};
use plimsoll::{Fixed, Receipt};
use plimsoll_store::StoreError;

use crate::climb::{Climb, Climbed};
use crate::driver::{Driver, compacts};
use crate::error::SessionError;

/// Where a compaction that is prepared ahead stands.
#[derive(Default)]
pub(crate) enum Early {
    /// None is wanted or under way.
    #[default]
    None,
    /// A climb was handed out, or one came to nothing; none is begun before the window is reduced otherwise.
    Begun,
    /// It is done, and waits until the line is crossed.
    Held(Box<Climbed>),
}

impl Driver {
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
        overflow.soft_line(self.limits())?;
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
        if compacts && matches!(self.early, Early::Begun) && climbed.planned_on >= self.revision() {
            self.early = Early::Held(Box::new(climbed));
            return true;
        }
        self.owed.merge(climbed.charges);
        false
    }

    pub(crate) fn take_held(&mut self) -> Option<Climbed> {
        match std::mem::take(&mut self.early) {
            Early::Held(climbed) => Some(*climbed),
            other => {
                self.early = other;
                None
            }
        }
    }

    /// Commit what was prepared ahead. If something was reduced since, it is stale, and the ordinary climb does its work.
    pub(crate) fn commit_held(&mut self, held: Climbed) -> Result<Vec<Receipt>, SessionError> {
        let charges = held.charges.clone();
        match self.commit(held) {
            Err(SessionError::Store(StoreError::Stale { .. })) => {
                self.owed.merge(charges);
                Ok(Vec::new())
            }
            other => other,
        }
    }
}

//! Compactions that run concurrently with the turn.

use plimsoll::Text;
use plimsoll::compact::{Rejection, Reply};
use tokio::sync::oneshot;

use super::thread::StopOnDrop;
use crate::climb::{Climb, ClimbStep};
use crate::error::SessionError;

/// A compaction on a copy of the log, while the turn continues.
///
/// Each [`step`](Compaction::step) runs on a separate thread. Dropping the compaction, or the future of a step, stops
/// it.
#[must_use = "dropping a compaction cancels it"]
pub struct Compaction {
    /// `None` during a step, and permanently after the future of a step was dropped.
    climb: Option<Climb>,
    stop: StopOnDrop,
}

impl Compaction {
    pub(super) fn new(climb: Climb, stop: StopOnDrop) -> Compaction {
        Compaction { climb: Some(climb), stop }
    }

    /// Continues until a summary is needed or nothing is left to do. The outcome goes into
    /// [`commit`](crate::SessionHandle::commit) or
    /// [`stash_precompaction`](crate::SessionHandle::stash_precompaction).
    pub async fn step(&mut self) -> Result<ClimbStep, SessionError> {
        let mut climb = self.climb.take().ok_or(SessionError::Stopped)?;
        let guard = StopOnDrop::of(self.stop.flag());
        let (done, wait) = oneshot::channel();
        let work = move || {
            let step = climb.step();
            let _ = done.send((climb, step));
        };
        let spawned = std::thread::Builder::new().name("plimsoll-compaction".into()).spawn(work);
        spawned.map_err(SessionError::Thread)?;
        let stepped = wait.await;
        guard.disarm();
        let (climb, step) = stepped.map_err(|_| SessionError::Closed)?;
        self.climb = Some(climb);
        step
    }

    /// Submits the summariser's reply, or why there is none. Returns why the reply was rejected, if it was.
    pub fn answer(&mut self, reply: Result<Reply, String>) -> Result<Option<Rejection>, SessionError> {
        self.climb.as_mut().ok_or(SessionError::Stopped)?.answer(reply)
    }

    /// Stops waiting for the summariser, after the policy's `compact.maxSeconds`. The next step continues without a
    /// model.
    pub fn time_out(&mut self) {
        if let Some(climb) = &mut self.climb {
            climb.time_out();
        }
    }

    /// Returns the summary that can be extracted without a model.
    pub fn offline_summary(&self) -> Option<Text> {
        self.climb.as_ref().and_then(Climb::offline)
    }
}

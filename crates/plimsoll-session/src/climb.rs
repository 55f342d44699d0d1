//! A climb of the ladder that can be made beside the running turn.

use plimsoll::compact::accept::Reply;
use plimsoll::compact::ladder::{Ladder, Outcome, Situation, Step};
use plimsoll::compact::request::SummaryRequest;
use plimsoll::{Ids, Log, Text};
use plimsoll_store::Revision;

use crate::error::SessionError;

/// A climb of the ladder, on a copy of the log and with names of its own. It is `Send`, so that a host can ask a model
/// on another thread while the turn goes on.
pub struct Climb {
    ladder: Ladder,
    ids: Ids,
    planned_on: Revision,
}

/// What to do next in a climb.
#[derive(Clone, Debug)]
pub enum ClimbStep {
    /// Ask the summariser, and hand in what it says.
    Ask(Box<SummaryRequest>),
    /// Nothing more; hand this to [`Driver::commit`](crate::Driver::commit).
    Done(Box<Climbed>),
}

/// A climb that has come to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Climbed {
    /// Where it ended, and what it did.
    pub outcome: Outcome,
    pub(crate) planned_on: Revision,
}

impl Climb {
    pub(crate) fn new(log: Log, planned_on: Revision, situation: Situation, ids: Ids) -> Climb {
        Climb { ladder: Ladder::new(log, situation), ids, planned_on }
    }

    /// Go on until a summary is needed or there is nothing more to do.
    pub fn step(&mut self) -> Result<ClimbStep, SessionError> {
        Ok(match self.ladder.climb(&mut self.ids)? {
            Step::Ask(request) => ClimbStep::Ask(Box::new(request)),
            Step::Done(outcome) => {
                ClimbStep::Done(Box::new(Climbed { outcome, planned_on: self.planned_on }))
            }
        })
    }

    /// Hand in what the summariser said, or why it said nothing.
    pub fn answer(&mut self, reply: Result<Reply, String>) -> Result<(), SessionError> {
        Ok(self.ladder.answer(reply, &mut self.ids)?)
    }

    /// The summary that can be made without a model of what is being asked for.
    pub fn offline(&self) -> Option<Text> {
        self.ladder.offline()
    }
}

//! A climb of the ladder, which can run concurrently with a turn.

use plimsoll::compact::{CompactionContext, Ladder, Outcome, Rejection, Reply, Step, SummaryRequest};
use plimsoll::plan::SummaryOrigin;
use plimsoll::{Ids, Log, Message, Plan, Receipt, Text, Usage};
use plimsoll_store::Revision;
use thiserror::Error;

use crate::error::SessionError;
use crate::stop::StopFlag;

/// A climb of the ladder on a copy of the log. It is `Send`, so that a host can ask a model on another thread while the
/// turn continues.
pub struct Climb {
    ladder: Ladder,
    ids: Ids,
    planned_on: Revision,
    charges: SummaryCharges,
    stop: StopFlag,
}

/// Charges for the summaries of a climb, whether they were accepted or not.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SummaryCharges {
    usage: Option<Usage>,
    cost: Option<f64>,
}

impl SummaryCharges {
    pub(crate) fn add(&mut self, usage: Option<Usage>, cost: Option<f64>) {
        self.usage = match (self.usage.take(), usage) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        };
        self.cost = cost.map(|cost| cost + self.cost.unwrap_or_default()).or(self.cost);
    }

    pub(crate) fn merge(&mut self, other: SummaryCharges) {
        self.add(other.usage, other.cost);
    }

    /// Records the charges with a summary, and removes them from here.
    pub(crate) fn move_to(&mut self, summary: &mut Message) {
        let mut all = std::mem::take(self);
        let recorded = summary.info.cost.as_ref().and_then(serde_json::Number::as_f64);
        all.add(summary.info.tokens.take(), recorded);
        (summary.info.tokens, summary.info.cost) =
            (all.usage, all.cost.and_then(serde_json::Number::from_f64));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.usage.is_none() && self.cost.is_none()
    }
}

/// Next step of a climb.
#[derive(Clone, Debug)]
pub enum ClimbStep {
    /// Ask the summariser, and submit its reply.
    Ask(Box<SummaryRequest>),
    /// The climb is over; its outcome can be committed.
    Done(Box<ClimbOutcome>),
}

/// Outcome of a climb. Nothing is committed yet.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ClimbOutcome {
    /// Where it ended, and what it would reduce.
    pub outcome: Outcome,
    pub(crate) planned_on: Revision,
    pub(crate) charges: SummaryCharges,
}

/// Why the summariser gave no summary. The session is unchanged.
#[derive(Debug, Error)]
pub enum SummaryFailure<E> {
    /// The request to the summariser failed.
    #[error("{0}")]
    Asking(E),
    /// The reply was rejected, or the summariser was not asked.
    #[error("{}", .0.as_ref().map_or_else(|| "the summariser was not asked".to_owned(), ToString::to_string))]
    NotTaken(Option<Rejection>),
    /// The climb itself failed.
    #[error(transparent)]
    Session(#[from] SessionError),
}

impl Climb {
    pub(crate) fn new(log: Log, planned_on: Revision, context: CompactionContext, ids: Ids) -> Climb {
        let charges = SummaryCharges::default();
        Climb { ladder: Ladder::new(log, context), ids, planned_on, charges, stop: StopFlag::default() }
    }

    /// Creates a climb over a log that is not stored, such as that of a file.
    pub fn of_log(log: Log, context: CompactionContext, ids: Ids) -> Climb {
        Climb::new(log, Revision::default(), context, ids)
    }

    /// Climbs to the end with summaries of this summariser only: if it fails, or if its reply is rejected, no other
    /// summary takes its place. Nothing is committed.
    pub fn summarise<E>(
        mut self,
        mut ask: impl FnMut(&SummaryRequest) -> Result<Reply, E>,
    ) -> Result<ClimbOutcome, SummaryFailure<E>> {
        loop {
            match self.step()? {
                ClimbStep::Ask(request) => {
                    let reply = ask(&request).map_err(SummaryFailure::Asking)?;
                    self.answer(Ok(reply))?;
                }
                ClimbStep::Done(climbed) => {
                    let made_without = |receipt: &Receipt| matches!(&receipt.plan, Plan::Compact(plan) if plan.made == SummaryOrigin::WithoutModel);
                    let Outcome { rejections, reduction, .. } = &climbed.outcome;
                    let is_taken = !reduction.receipts.iter().any(made_without)
                        && (rejections.is_empty() || !reduction.receipts.is_empty());
                    return match is_taken {
                        true => Ok(*climbed),
                        false => Err(SummaryFailure::NotTaken(rejections.last().cloned())),
                    };
                }
            }
        }
    }

    /// Lets a flag stop the climb between its rungs: [`step`](Climb::step) then fails, and the climb is of no further
    /// use.
    pub(crate) fn stop_on(&mut self, stop: StopFlag) {
        self.stop = stop;
    }

    /// Whether it was stopped, so that its figures are invalid.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.is_set()
    }

    /// Continues until a summary is needed or nothing is left to do.
    pub fn step(&mut self) -> Result<ClimbStep, SessionError> {
        let step = loop {
            self.stop.check()?;
            if let Some(step) = self.ladder.climb_one(&mut self.ids)? {
                break step;
            }
        };
        // A stopped counter returns zero: figures of this step are wrong if the flag was set meanwhile.
        self.stop.check()?;
        Ok(match step {
            Step::Ask(request) => ClimbStep::Ask(Box::new(request)),
            Step::Done(outcome) => {
                let (planned_on, charges) = (self.planned_on, std::mem::take(&mut self.charges));
                ClimbStep::Done(Box::new(ClimbOutcome { outcome, planned_on, charges }))
            }
        })
    }

    /// Submits the summariser's reply, or why there is none. Returns why the reply was rejected, if it was.
    pub fn answer(&mut self, reply: Result<Reply, String>) -> Result<Option<Rejection>, SessionError> {
        if let Ok(Reply { usage, cost, .. }) = &reply {
            self.charges.add(usage.clone(), *cost);
        }
        let before = self.rejections().len();
        self.ladder.answer(reply, &mut self.ids)?;
        Ok(self.rejections().get(before).cloned())
    }

    /// Stops waiting for the summariser; the climb continues without a model.
    pub fn time_out(&mut self) {
        self.ladder.time_out();
    }

    /// Replies that were rejected so far.
    pub fn rejections(&self) -> &[Rejection] {
        self.ladder.rejections()
    }

    /// Returns the summary that can be extracted without a model.
    pub fn offline(&self) -> Option<Text> {
        self.ladder.offline()
    }
}

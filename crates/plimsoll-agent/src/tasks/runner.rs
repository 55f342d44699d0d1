//! A run of a task: waits for its slot, works, and records its end.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use plimsoll::{Message, MessageId, SessionId};
use plimsoll_session::{SessionError, SessionHandle};
use plimsoll_store::{Claim, Lease, StoreError};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::board::{StopReason, TaskBoard};
use super::change::{LAUNCHER_CANCELLED, LAUNCHER_ENDED};
use super::progress::ProgressMeter;
use super::spend::describe_limit;
use crate::agent::Agent;
use crate::error::AgentError;
use crate::event::{Event, EventSink};
use crate::figures::millis;
use crate::report::{RunEnd, RunReport};
use crate::run::Conversation;
use crate::task::{Task, TaskChange, TaskError, TaskPoint, TaskStatus, duration_text, toast_text};

/// Interval at which progress is recorded.
const RECORD_EVERY: Duration = Duration::from_secs(1);
/// Delays between attempts to record the end of a run if the store fails.
const END_AGAIN: [Duration; 4] =
    [Duration::from_millis(100), Duration::from_millis(500), Duration::from_secs(2), Duration::from_secs(5)];

/// Outcome of a run.
struct Outcome {
    status: TaskStatus,
    error: Option<String>,
    result: Option<String>,
}

/// Lease or session that a run holds at its end.
enum SessionHold {
    /// The lease: the session was never opened.
    Lease(Lease),
    /// The opened session.
    Open(Box<Conversation>),
    /// Nothing.
    Nothing,
}

/// A run of a task.
#[derive(Clone)]
struct Runner {
    board: Arc<TaskBoard>,
    task: SessionId,
    run: u32,
    agent: Agent,
    meter: ProgressMeter,
    cancel: CancellationToken,
}

impl TaskBoard {
    /// Starts a task that is recorded as active and whose lease is held. It runs independently.
    pub(super) fn begin_run(self: &Arc<Self>, task: &Task, agent: Agent, events: &EventSink, lease: Lease) {
        self.begin_watching();
        // The entry is missing only if the board was misused; the run is then treated as cancelled.
        let place = self.local().get_mut(&task.id).map(|local| {
            local.is_begun = true;
            (local.meter.clone(), local.cancel.clone())
        });
        let Some((meter, cancel)) = place else { return };
        let (events, own) = (Arc::clone(events), agent.clone());
        events(&Event::TaskLaunched {
            task: task.id.clone(),
            parent: task.parent.clone(),
            agent: task.data.agent.clone(),
            description: task.data.description.clone(),
            forked: task.is_forked(),
            run: task.run(),
        });
        let agent = Agent { events: meter.sink(&task.id, &task.parent, Arc::clone(&events)), ..agent };
        let runner =
            Runner { board: Arc::clone(self), task: task.id.clone(), run: task.run(), agent, meter, cancel };
        // `close` stops the runs that it finds; one that begins during it is stopped here.
        if self.is_closing() {
            self.stop_local(&task.id, StopReason::Closing);
        }
        // In a separate function, because a run may begin the next.
        tokio::spawn(run_to_end(runner, lease, own, events));
    }
}

async fn run_to_end(runner: Runner, lease: Lease, own: Agent, events: EventSink) {
    let (board, id, run) = (Arc::clone(&runner.board), runner.task.clone(), runner.run);
    let work = runner.clone();
    // A run that panics has also ended, and must release its slot.
    let worked = tokio::spawn(async move { work.work(lease).await }).await;
    let (outcome, held) = worked
        .unwrap_or_else(|error| (failed(format!("the run has panicked: {error}")), SessionHold::Nothing));
    board.pass(TaskPoint::Finished);
    // Record the end while the lease is held: an active record without one would count as one whose process is gone.
    let ended = runner.record_end(outcome, &held).await;
    if ended.is_ok() {
        board.pass(TaskPoint::Ended);
    }
    // The entry is removed last: while it exists, no other run here takes the lease, which has the same holder name.
    held.give_back(&board).await;
    board.local().remove(&id);
    board.note_change();
    let task = match ended {
        Ok(task) => task,
        Err(error) => {
            tracing::warn!(task = %id, %error, "the end of a task could not be recorded");
            return;
        }
    };
    tracing::info!(task = %id, status = %task.status, run, "a background task has ended");
    let siblings = board.tasks(Some(&task.parent)).await.unwrap_or_default();
    let (title, lines) = toast_text(&siblings, board.now());
    events(&Event::TaskEnded {
        task: id,
        parent: task.parent.clone(),
        description: task.data.description.clone(),
        status: task.status,
        run,
        duration_ms: millis(task.duration(board.now())),
        error: task.data.error.clone(),
        toast: format!("{title}\n{lines}"),
    });
    if task.data.pending.is_some() && !task.status.is_active() && !board.is_closing() {
        board.fire_pending(&task, own, &events).await;
    }
}

impl SessionHold {
    /// Returns the claim under which the session is written; `None` if it was lost.
    async fn claim(&self) -> Option<Claim> {
        match self {
            SessionHold::Lease(lease) => Some(lease.claim()),
            SessionHold::Open(open) => open.handle().lease().await.ok().map(|lease| lease.claim()),
            SessionHold::Nothing => None,
        }
    }

    async fn give_back(self, board: &Arc<TaskBoard>) {
        // A session that was taken over need not be released.
        match self {
            SessionHold::Lease(lease) => {
                let _ = board.blocking(move |board| Ok(board.archive.store().release(&lease)?)).await;
            }
            SessionHold::Open(open) => {
                let _ = open.close().await;
            }
            SessionHold::Nothing => {}
        }
    }
}

/// Returns whether an error of the store means that another process has the session.
fn is_lost(error: &StoreError) -> bool {
    matches!(error, StoreError::Fenced { .. } | StoreError::Leased { .. })
}

impl Runner {
    /// Records the end of the run, only while it holds the lease: a run whose session was taken over writes nothing
    /// more, because the other process decides about the task. Returns the updated task.
    async fn record_end(&self, outcome: Outcome, held: &SessionHold) -> Result<Task, TaskError> {
        if self.stop_reason() == Some(StopReason::Lost) {
            tracing::warn!(task = %self.task, run = self.run, "a run has lost its session to another process");
            return self.board.task(&self.task).await;
        }
        let (status, mut under) = (outcome.status, held.claim().await);
        let change = TaskChange::End {
            run: self.run,
            status,
            error: outcome.error,
            result: outcome.result,
            progress: Some(self.meter.read()),
        };
        let mut tries = END_AGAIN.into_iter();
        loop {
            let (id, change, claim) = (self.task.clone(), change.clone(), under.clone());
            let ended = self.board.blocking(move |board| {
                let ended = board.change_under(&id, &change, claim.as_ref())?;
                match ended.status {
                    TaskStatus::Cancelled => board.cancel_children(&id, LAUNCHER_CANCELLED),
                    // A run that ends by a limit or a failure has not waited for the tasks that it launched.
                    TaskStatus::Error => board.cancel_children(&id, LAUNCHER_ENDED),
                    _ => {}
                }
                Ok(ended)
            });
            match ended.await {
                Err(TaskError::Store(error)) if is_lost(&error) => {
                    tracing::warn!(task = %self.task, run = self.run, "a run has lost its session to another process");
                    return self.board.task(&self.task).await;
                }
                // The session was removed together with its lease.
                Err(TaskError::Store(StoreError::Missing { .. })) if under.is_some() => under = None,
                Err(TaskError::Store(error)) => match tries.next() {
                    // The store may be busy for a while; the lease is kept meanwhile.
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => return Err(error.into()),
                },
                ended => return ended,
            }
        }
    }

    async fn work(self, mut lease: Lease) -> (Outcome, SessionHold) {
        let Some(permit) = self.await_slot(&mut lease).await else {
            return (self.stopped(), SessionHold::Lease(lease));
        };
        if let Some(local) = self.board.local().get_mut(&self.task) {
            local.permit = Some(permit);
        }
        let mut conversation = match self.agent.open(&self.task).await {
            Ok(conversation) => conversation,
            Err(AgentError::Session(SessionError::Store(error))) if is_lost(&error) => {
                self.board.stop_local(&self.task, StopReason::Lost);
                return (self.stopped(), SessionHold::Nothing);
            }
            Err(error) => return self.not_opened(&error).await,
        };
        // Under the lease: while this process was suspended, another may have had the session and released it.
        let (id, run) = (self.task.clone(), self.run);
        let started = self.board.blocking(move |board| board.change(&id, &TaskChange::Start { run })).await;
        self.board.pass(TaskPoint::Started);
        let outcome = match started {
            Ok(_) => self.converse(&mut conversation).await,
            // The task was cancelled while it waited, or another process runs it.
            Err(TaskError::Moved { .. } | TaskError::NotFound(_)) => self.stopped(),
            Err(error) => failed(error.to_string()),
        };
        (outcome, SessionHold::Open(Box::new(conversation)))
    }

    /// Handles a session that cannot be opened. Its lease may be lost, so the end is recorded under a new one.
    async fn not_opened(&self, error: &AgentError) -> (Outcome, SessionHold) {
        let id = self.task.clone();
        match self.board.blocking(move |board| board.lease_free(&id)).await {
            Ok(lease) => (failed(error.to_string()), SessionHold::Lease(lease)),
            Err(TaskError::SessionGone) => {
                let gone = Outcome { status: TaskStatus::Cancelled, ..failed("Session deleted".into()) };
                (gone, SessionHold::Nothing)
            }
            Err(_) => {
                self.board.stop_local(&self.task, StopReason::Lost);
                (self.stopped(), SessionHold::Nothing)
            }
        }
    }

    /// Waits for a slot and renews the lease meanwhile. `None` if the run is to stop.
    async fn await_slot(&self, lease: &mut Lease) -> Option<OwnedSemaphorePermit> {
        let slot = Arc::clone(&self.board.slots).acquire_owned();
        tokio::pin!(slot);
        // A third, so that one renewal may fail before the lease expires. The first tick completes at once.
        let mut beat = tokio::time::interval(self.board.lease / 3);
        beat.tick().await;
        loop {
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => return None,
                permit = &mut slot => return permit.ok(),
                _ = beat.tick() => {
                    let held = lease.clone();
                    let renewed = self
                        .board
                        .blocking(move |board| Ok(board.archive.store().renew(&held, board.lease)?))
                        .await;
                    match renewed {
                        Ok(renewed) => *lease = renewed,
                        Err(TaskError::Store(StoreError::Fenced { .. })) => {
                            self.board.stop_local(&self.task, StopReason::Lost);
                            return None;
                        }
                        // The session was removed, which opening it will report.
                        Err(TaskError::Store(StoreError::Missing { .. })) => {}
                        Err(error) => tracing::warn!(task = %self.task, %error, "a lease could not be renewed"),
                    }
                }
            }
        }
    }

    async fn converse(&self, conversation: &mut Conversation) -> Outcome {
        // Earlier text is not the result of this run: inherited messages, or those of an earlier run.
        let handle = conversation.handle().clone();
        let known = handle.with_log(|log| {
            let answers = log.iter().filter(|message| message.is_assistant());
            answers.map(|message| message.info.id.clone()).collect::<HashSet<MessageId>>()
        });
        let known = match known.await {
            Ok(known) => known,
            Err(error) => return failed(error.to_string()),
        };
        let report = tokio::select! {
            report = self.speak(conversation) => report,
            never = self.keep_time(self.board.limits.time) => match never {},
            never = self.record_progress(&handle) => match never {},
        };
        let said = handle.with_log(move |log| newest_text(log, &known)).await.ok().flatten();
        if let Err(AgentError::Session(SessionError::Store(error))) = &report
            && is_lost(error)
        {
            self.board.stop_local(&self.task, StopReason::Lost);
        }
        let limit =
            |what: String| Outcome { status: TaskStatus::Error, error: Some(what), result: said.clone() };
        let limits = &self.agent.profile.limits;
        match report {
            Ok(report) => match report.end.clone() {
                RunEnd::Finished { .. } => {
                    Outcome { status: TaskStatus::Completed, error: None, result: said }
                }
                RunEnd::Steps => limit(format!("Step limit of {} reached.", limits.steps)),
                RunEnd::Tokens | RunEnd::Cost => {
                    limit(describe_limit(limits, &report, self.agent.charged_to.as_deref()))
                }
                RunEnd::Repeating { tool } => limit(format!("It repeated the same call of `{tool}`.")),
                RunEnd::StoppedByHook { hook } => {
                    limit(format!("The hook `{hook}` stopped it after a compaction."))
                }
                RunEnd::Cancelled => Outcome { result: said, ..self.stopped() },
            },
            Err(error) => Outcome { result: said, ..failed(error_text(&error)) },
        }
    }

    /// Runs the model until it makes no more calls and there are no new messages for it.
    async fn speak(&self, conversation: &mut Conversation) -> Result<RunReport, AgentError> {
        // One progress for all rounds: steering messages at the end do not reset the limits.
        let mut progress = conversation.begin_progress();
        loop {
            let report = conversation.continue_from(&mut progress, &self.cancel).await?;
            self.board.pass(TaskPoint::Answered);
            let is_over = !matches!(report.end, RunEnd::Finished { .. }) || self.cancel.is_cancelled();
            if is_over || !conversation.take_in_notes().await? {
                return Ok(report);
            }
        }
    }

    fn stop_reason(&self) -> Option<StopReason> {
        self.board.local().get(&self.task).and_then(|local| local.stop)
    }

    /// Returns the outcome of a run that was asked to stop.
    fn stopped(&self) -> Outcome {
        let (status, error) = match self.stop_reason() {
            Some(StopReason::Closing) => {
                (TaskStatus::Interrupted, Some("The process that ran it exited.".to_owned()))
            }
            Some(StopReason::Time) => {
                let time = duration_text(self.board.limits.time.unwrap_or_default());
                (TaskStatus::Error, Some(format!("Time limit of {time} reached.")))
            }
            Some(StopReason::Cancelled | StopReason::Lost) | None => (TaskStatus::Cancelled, None),
        };
        Outcome { status, error, result: None }
    }

    /// Stops the run when its time is over. Never returns; the end of the run drops it.
    async fn keep_time(&self, longest: Option<Duration>) -> std::convert::Infallible {
        if let Some(longest) = longest {
            tokio::time::sleep(longest).await;
            self.board.stop_local(&self.task, StopReason::Time);
        }
        std::future::pending().await
    }

    /// Periodically records progress for other processes, and checks that the lease is still held: a command may run
    /// for long without anything being stored.
    async fn record_progress(&self, session: &SessionHandle) -> std::convert::Infallible {
        let mut recorded = self.meter.read();
        loop {
            tokio::time::sleep(RECORD_EVERY.min(self.board.lease / 4)).await;
            let claim = match session.keep_lease().await {
                Ok(lease) => lease.claim(),
                Err(SessionError::Store(error)) if is_lost(&error) => {
                    self.board.stop_local(&self.task, StopReason::Lost);
                    continue;
                }
                // Retried in the next round.
                Err(_) => continue,
            };
            let progress = self.meter.read();
            if progress != recorded {
                recorded = progress.clone();
                let change = TaskChange::Progress { run: self.run, progress };
                let id = self.task.clone();
                // The end of the run records it in any case.
                let _ =
                    self.board.blocking(move |board| board.change_under(&id, &change, Some(&claim))).await;
            }
        }
    }
}

fn failed(error: String) -> Outcome {
    Outcome { status: TaskStatus::Error, error: Some(error), result: None }
}

fn error_text(error: &AgentError) -> String {
    plimsoll::redact::redact(&error.to_string()).text
}

/// Returns the newest text of the model among answers that are not in `known`. The last answer may consist of calls
/// only.
fn newest_text(log: &[Message], known: &HashSet<MessageId>) -> Option<String> {
    let answers = log.iter().rev().filter(|message| message.is_assistant() && !message.info.summary);
    let own = answers.filter(|message| !known.contains(&message.info.id));
    own.map(Message::text).find(|text| !text.trim().is_empty())
}

//! One run of a task: it waits for its slot, works, and its end is recorded and told.

use std::sync::Arc;
use std::time::Duration;

use plimsoll::{Message, SessionId};
use plimsoll_store::{Lease, NewNote, StoreError};
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::board::{StopReason, TaskBoard};
use super::error::TaskError;
use super::notes;
use super::progress::ProgressMeter;
use super::status::TaskStatus;
use super::task::{Task, TaskChange};
use super::text::{duration_text, toast_text};
use crate::agent::Agent;
use crate::error::AgentError;
use crate::event::{Event, EventSink, millis};
use crate::run::{Conversation, RunEnd};

/// How often the progress of a run is recorded.
const RECORD_EVERY: Duration = Duration::from_secs(1);

/// What came of a run.
struct Outcome {
    status: TaskStatus,
    error: Option<String>,
    result: Option<String>,
}

/// One run of a task.
#[derive(Clone)]
struct Runner {
    board: Arc<TaskBoard>,
    task: SessionId,
    run: u32,
    prompt: Option<String>,
    agent: Agent,
    meter: ProgressMeter,
    cancel: CancellationToken,
}

impl TaskBoard {
    /// Run a task that is recorded as active and whose lease is held. It goes on by itself.
    pub(super) fn begin_run(self: &Arc<Self>, task: &Task, agent: Agent, told: &EventSink, lease: Lease) {
        self.begin_watching();
        // Cleared away meanwhile only if the board was misused: then it runs as one that is cancelled.
        let place = self.local().get(&task.id).map(|local| (local.meter.clone(), local.cancel.clone()));
        let Some((meter, cancel)) = place else { return };
        let (told, own) = (Arc::clone(told), agent.clone());
        told(&Event::TaskLaunched {
            task: task.id.clone(),
            parent: task.parent.clone(),
            agent: task.data.agent.clone(),
            description: task.data.description.clone(),
            forked: task.is_forked(),
            run: task.run(),
        });
        let agent = Agent { events: meter.sink(&task.id, &task.parent, Arc::clone(&told)), ..agent };
        let runner = Runner {
            board: Arc::clone(self),
            task: task.id.clone(),
            run: task.run(),
            prompt: task.data.runs.last().and_then(|run| run.prompt.clone()),
            agent,
            meter,
            cancel,
        };
        if self.is_closing() {
            self.stop_local(&task.id, StopReason::Closing);
        }
        // In a function of its own, because a run may begin the next.
        tokio::spawn(run_to_end(runner, lease, own, told));
    }

    /// Leave a note for the parent that the newest run has ended. The same note again changes nothing, also if it was taken
    /// long ago.
    pub(super) fn tell(&self, task: &Task) {
        if task.status.is_active() {
            return;
        }
        let run = task.run();
        let note = NewNote {
            id: notes::note_id(&task.id, run),
            kind: notes::ENDED.to_owned(),
            data: json!({ "task": task.id, "run": run }),
        };
        match self.archive.store().send(&task.parent, note, self.now()) {
            Ok(()) => self.note_change(),
            // A parent that was removed has nothing to be told.
            Err(StoreError::Missing { .. }) => {}
            // It is sent again when the parent is opened next.
            Err(error) => tracing::warn!(task = %task.id, %error, "the end of a task could not be told"),
        }
    }
}

async fn run_to_end(runner: Runner, lease: Lease, own: Agent, told: EventSink) {
    let (board, id, run) = (Arc::clone(&runner.board), runner.task.clone(), runner.run);
    let work = runner.clone();
    // A run that panics has ended too, and its slot is free again.
    let worked = tokio::spawn(async move { work.work(lease).await }).await;
    let (outcome, conversation) = worked.unwrap_or_else(|error| {
        let error = Some(format!("the run has panicked: {error}"));
        (Outcome { status: TaskStatus::Error, error, result: None }, None)
    });
    let status = outcome.status;
    let change = TaskChange::End {
        run,
        status,
        error: outcome.error,
        result: outcome.result,
        progress: Some(runner.meter.read()),
    };
    let own_id = id.clone();
    // The end is recorded while the lease is still held: a record that is active without one would be taken for one whose
    // process is gone.
    let ended = board
        .blocking(move |board| {
            let ended = board.change(&own_id, &change)?;
            if ended.status == TaskStatus::Cancelled {
                board.cancel_children(&own_id);
            }
            board.tell(&ended);
            Ok(ended)
        })
        .await;
    if let Some(conversation) = conversation {
        // One whose lease was taken over has nothing to give back.
        let _ = conversation.close().await;
    }
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
    told(&Event::TaskEnded {
        task: id,
        parent: task.parent.clone(),
        description: task.data.description.clone(),
        status: task.status,
        run,
        duration_ms: millis(task.duration(board.now())),
        error: task.data.error.clone(),
        toast: format!("{title}\n{lines}"),
    });
    if task.data.pending.is_some() && !board.is_closing() {
        board.fire_pending(&task, own, &told).await;
    }
}

impl TaskBoard {
    /// Take up the resume that waits behind a run that has ended. One that cannot be taken up now stays in line, and is
    /// when the parent is opened next.
    pub(super) async fn fire_pending(self: &Arc<Self>, task: &Task, agent: Agent, told: &EventSink) {
        let id = task.id.clone();
        let fired = self
            .blocking(move |board| {
                board.claim(&id, |board| {
                    board.change(&id, &TaskChange::FirePending { by: board.holder.clone() })
                })
            })
            .await;
        match fired {
            Ok((task, lease)) => self.begin_run(&task, agent, told, lease),
            Err(error) => tracing::warn!(task = %task.id, %error, "a queued resume could not begin"),
        }
    }
}

impl Runner {
    async fn work(self, lease: Lease) -> (Outcome, Option<Conversation>) {
        let Some(permit) = self.await_slot(lease).await else { return (self.stopped(), None) };
        if let Some(local) = self.board.local().get_mut(&self.task) {
            local.permit = Some(permit);
        }
        let (id, run) = (self.task.clone(), self.run);
        let started = self.board.blocking(move |board| board.change(&id, &TaskChange::Start { run })).await;
        if let Err(error) = started {
            return match error {
                // It was cancelled while it waited.
                TaskError::Moved { .. } | TaskError::NotFound(_) => (self.stopped(), None),
                error => (failed(error.to_string()), None),
            };
        }
        let mut conversation = match self.agent.open(&self.task).await {
            Ok(conversation) => conversation,
            Err(error) => return (failed(error.to_string()), None),
        };
        let outcome = self.converse(&mut conversation).await;
        (outcome, Some(conversation))
    }

    /// Wait for a slot, and keep the lease meanwhile. None if the run is to stop.
    async fn await_slot(&self, mut lease: Lease) -> Option<OwnedSemaphorePermit> {
        let slot = Arc::clone(&self.board.slots).acquire_owned();
        tokio::pin!(slot);
        let mut beat = tokio::time::interval(self.board.lease / 3);
        beat.tick().await;
        loop {
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => {
                    let _ = self.board.blocking(move |board| Ok(board.archive.store().release(&lease)?)).await;
                    return None;
                }
                permit = &mut slot => return permit.ok(),
                _ = beat.tick() => {
                    let held = lease.clone();
                    let renewed = self
                        .board
                        .blocking(move |board| Ok(board.archive.store().renew(&held, board.lease)?))
                        .await;
                    match renewed {
                        Ok(renewed) => lease = renewed,
                        // Another has taken the session, and decides about the task.
                        Err(TaskError::Store(StoreError::Fenced { .. } | StoreError::Missing { .. })) => return None,
                        Err(error) => tracing::warn!(task = %self.task, %error, "a lease could not be renewed"),
                    }
                }
            }
        }
    }

    async fn converse(&self, conversation: &mut Conversation) -> Outcome {
        if let Some(prompt) = self.prompt.clone() {
            let asked = conversation.driver().run(move |driver| {
                driver.settle("Interrupted: the run was given up.")?;
                driver.prompt(prompt)
            });
            if let Err(error) = asked.await {
                return failed(error.to_string());
            }
        }
        let time = self.board.limits.time;
        let report = tokio::select! {
            report = conversation.go_on(&self.cancel) => report,
            never = self.keep_time(time) => match never {},
            never = self.record_progress() => match never {},
        };
        let said = conversation.driver().run(|driver| Ok(newest_words(driver.log()))).await.ok().flatten();
        let limit =
            |what: String| Outcome { status: TaskStatus::Error, error: Some(what), result: said.clone() };
        let limits = &self.agent.profile.limits;
        match report {
            Ok(report) => match report.end {
                RunEnd::Finished { .. } => {
                    Outcome { status: TaskStatus::Completed, error: None, result: said }
                }
                RunEnd::Steps => limit(format!("The limit of {} steps was reached.", limits.steps)),
                RunEnd::Tokens => {
                    limit(format!("The limit of {} tokens was reached.", limits.tokens.unwrap_or_default()))
                }
                RunEnd::Cost => {
                    limit(format!("The limit of {} dollars was reached.", limits.cost.unwrap_or_default()))
                }
                RunEnd::Repeating { tool } => {
                    limit(format!("It made the same call of `{tool}` again and again."))
                }
                RunEnd::StoppedByHook { hook } => {
                    limit(format!("The hook `{hook}` stopped it after a compaction."))
                }
                RunEnd::Cancelled => Outcome { result: said, ..self.stopped() },
            },
            Err(error) => Outcome { result: said, ..failed(words_of(&error)) },
        }
    }

    /// How a run ends that was told to stop.
    fn stopped(&self) -> Outcome {
        let reason = self.board.local().get(&self.task).and_then(|local| local.stop);
        let (status, error) = match reason {
            Some(StopReason::Closing) => {
                (TaskStatus::Interrupted, Some("The process that ran it has ended.".to_owned()))
            }
            Some(StopReason::Time) => {
                let time = duration_text(self.board.limits.time.unwrap_or_default());
                (TaskStatus::Error, Some(format!("The time limit of {time} was reached.")))
            }
            Some(StopReason::Cancelled) | None => (TaskStatus::Cancelled, None),
        };
        Outcome { status, error, result: None }
    }

    /// Stop the run when its time is up. Only the run itself ends.
    async fn keep_time(&self, longest: Option<Duration>) -> std::convert::Infallible {
        if let Some(longest) = longest {
            tokio::time::sleep(longest).await;
            self.board.stop_local(&self.task, StopReason::Time);
        }
        std::future::pending().await
    }

    /// Record how far the run has come now and then, for other processes.
    async fn record_progress(&self) -> std::convert::Infallible {
        let mut recorded = self.meter.read();
        loop {
            tokio::time::sleep(RECORD_EVERY).await;
            let progress = self.meter.read();
            if progress != recorded {
                recorded = progress.clone();
                let change = TaskChange::Progress { run: self.run, progress };
                let id = self.task.clone();
                // The end of the run records it in any case.
                let _ = self.board.blocking(move |board| board.change(&id, &change)).await;
            }
        }
    }
}

fn failed(error: String) -> Outcome {
    Outcome { status: TaskStatus::Error, error: Some(error), result: None }
}

fn words_of(error: &AgentError) -> String {
    plimsoll::redact::redact(&error.to_string()).text
}

/// The newest words of the model. Its last answer may have been nothing but calls.
fn newest_words(log: &[Message]) -> Option<String> {
    let answers = log.iter().rev().filter(|message| message.is_assistant() && !message.info.summary);
    answers.map(Message::text).find(|text| !text.trim().is_empty())
}

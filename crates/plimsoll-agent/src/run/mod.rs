//! A run: from a prompt to the model's last answer.

mod calls;
mod compaction;
mod guard;
mod hooks;
mod notes;
mod open;
mod servers;
mod step;
mod title;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use plimsoll::{Message, Receipt, SessionId, Usage};
use plimsoll_providers::ToolSpec;
use plimsoll_sandbox::Permissions;
use plimsoll_session::{Session, SessionError, SessionHandle};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::agent::Agent;
use crate::error::AgentError;
use crate::event::Event;
use crate::figures::{ReceiptFigures, UsageFigures};
use crate::ledger::FileLedger;
use crate::mcp::ServerSet;
use crate::metrics::{self, TokenMetrics};
use crate::model::Model;
use crate::report::{RunEnd, RunReport, StopReason};
use crate::spend::{Spend, SpendLimit, SpendMeter};
use compaction::{Precompaction, unless_cancelled};
use guard::Guard;
use step::StepEnd;
use title::ask_title;
pub use title::title_from_words;

/// A session that an agent runs. Dropping it releases the session's lease.
pub struct Conversation {
    pub(crate) agent: Agent,
    pub(crate) session: Session,
    /// Declarations of the tools, always in the same order, because the prompt cache begins with them.
    pub(crate) specs: Arc<Vec<ToolSpec>>,
    /// A compaction that is prepared while the turn continues.
    pub(crate) precompaction: Option<Precompaction>,
    /// Whether an overflow error named the model's window, which the model table does not have.
    pub(crate) learned: bool,
    /// MCP servers.
    pub(crate) servers: ServerSet,
    /// File contents that the model has seen.
    pub(crate) files: Arc<FileLedger>,
    /// Whether the confinement of commands was reported.
    pub(crate) has_reported_confinement: AtomicBool,
    /// Progress of the turn that the user started last. Follow-up runs continue it.
    pub(crate) turn: Option<Progress>,
    /// Permissions that the user granted in a session whose rights are bounded by others.
    pub(crate) granted: Permissions,
    /// Cleanup of spilled outputs, started after a run.
    pub(crate) cleanup: Option<JoinHandle<()>>,
}

/// Progress of a run.
pub(crate) struct Progress {
    pub(crate) steps: u64,
    /// Spending of the run and its tasks.
    pub(crate) meter: Arc<SpendMeter>,
    pub(crate) reductions: Vec<ReceiptFigures>,
    pub(crate) metrics: TokenMetrics,
    pub(crate) guard: Guard,
    pub(crate) refusals: u32,
    /// Size of the last rejected request, and the provider's message.
    pub(crate) refused_bytes: Option<usize>,
    pub(crate) last_refusal: Option<String>,
    pub(crate) broken: u32,
    pub(crate) last_text: String,
    /// Text of an answer that was interrupted or paused, and continues.
    pub(crate) partial: String,
}

impl Progress {
    pub(crate) fn charge(&mut self, usage: Option<&Usage>, cost: Option<f64>) {
        self.meter.charge(usage, cost);
    }
}

impl Conversation {
    pub(crate) fn new(agent: Agent, session: Session, files: FileLedger) -> Conversation {
        let specs = Arc::new(agent.profile.tools.specs());
        let servers = ServerSet::begin(&agent);
        Conversation {
            agent,
            session,
            specs,
            precompaction: None,
            learned: false,
            servers,
            files: Arc::new(files),
            granted: Permissions::default(),
            has_reported_confinement: AtomicBool::new(false),
            turn: None,
            cleanup: None,
        }
    }

    /// Returns the ID of the session.
    pub fn session(&self) -> &SessionId {
        self.session.id()
    }

    /// Returns the session's handle, for operations that are possible during a run: undo, pin, inspect, recall.
    pub fn handle(&self) -> &SessionHandle {
        self.session.handle()
    }

    /// Returns the session itself, for hosts that append messages between runs.
    pub fn session_mut(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Releases the session, and waits until that is done.
    pub async fn close(self) -> Result<(), AgentError> {
        let Conversation { session, precompaction, mut servers, cleanup, .. } = self;
        drop(precompaction);
        servers.close().await;
        let closed = session.close().await;
        // Waited for because it is bounded, and a process that always exits here would never finish it.
        if let Some(cleanup) = cleanup {
            let _ = cleanup.await;
        }
        Ok(closed?)
    }

    /// Removes expired spilled outputs in the background.
    fn begin_cleanup(&mut self) {
        let (archive, now) = (Arc::clone(&self.agent.archive), self.agent.clock.now());
        self.cleanup = Some(tokio::task::spawn_blocking(move || match archive.tidy(now) {
            Ok(Some(swept)) if !swept.expired.is_empty() => {
                tracing::info!(
                    expired = swept.expired.len(),
                    removed = swept.removed,
                    "removed spilled outputs"
                );
            }
            Ok(_) => {}
            // The next run tries again.
            Err(error) => tracing::warn!(%error, "spilled outputs could not be cleaned up"),
        }));
    }

    /// Switches the model from the next request on. If its window is smaller, the window is reduced first.
    pub async fn switch_model(&mut self, model: Model) -> Result<(), AgentError> {
        self.precompaction = None;
        self.session.switch_model(&model).await?;
        (self.agent.model, self.learned) = (model, false);
        Ok(())
    }

    /// Runs a prompt until the model makes no more calls, a limit is reached, or the run is cancelled.
    ///
    /// Everything up to then is stored, and the session can be continued.
    pub async fn run(&mut self, prompt: &str, cancel: &CancellationToken) -> Result<RunReport, AgentError> {
        self.settle().await?;
        let is_first = self.session.with_log(|log| !log.iter().any(Message::is_prompt)).await?;
        let message = self.session.prompt(prompt).await?;
        self.agent.emit(&Event::Prompted { message });
        if is_first {
            self.set_initial_title(prompt).await?;
        }
        self.continue_run(cancel).await
    }

    /// Continues an interrupted turn without a new prompt.
    ///
    /// | newest answer | what happens |
    /// |---|---|
    /// | finished | no request is sent and the answer is reported again: the process may have died right after it |
    /// | cut at a length limit, refused or filtered | the model is asked to continue |
    /// | interrupted in its text | the same |
    /// | with calls, or paused by the provider | the same conversation is sent |
    ///
    /// A refused answer stays in the window like a cut one. The provider may refuse again; then this run ends the same
    /// way.
    pub async fn resume(&mut self, cancel: &CancellationToken) -> Result<RunReport, AgentError> {
        self.settle().await?;
        if self.session.with_log(|log| log.is_empty()).await? {
            return Err(SessionError::OutOfOrder("the session has no prompt to continue from").into());
        }
        let Some(last) = self.session.final_answer().await? else { return self.continue_run(cancel).await };
        let (text, reason) = (last.text(), last.info.finish.clone().unwrap_or_default());
        if StopReason::of(&reason) != StopReason::Done {
            // A request must not end with an answer: many models refuse to continue from one.
            self.session.continue_turn().await?;
            return self.continue_run(cancel).await;
        }
        Ok(RunReport {
            session: self.session.id().clone(),
            end: RunEnd::Finished { reason },
            text,
            steps: 0,
            usage: UsageFigures::default(),
            cost: 0.0,
            tasks: Spend::default(),
            reductions: Vec::new(),
            metrics: TokenMetrics::default(),
        })
    }

    /// Settles what a dropped run left unfinished.
    pub(crate) async fn settle(&mut self) -> Result<(), AgentError> {
        Ok(self.session.settle("Interrupted: the run was given up.").await?)
    }

    /// Lets the model answer new messages in the log without a new prompt, after
    /// [`take_notes`](Conversation::take_notes) has added some.
    pub async fn continue_run(&mut self, cancel: &CancellationToken) -> Result<RunReport, AgentError> {
        let progress = self.begin_progress();
        self.continue_as(progress, cancel).await
    }

    /// Takes in notes for this session and lets the model answer them as part of the user's last turn, whose limits
    /// continue to apply. Otherwise a model that launches a task whenever one ends could run forever, each time with
    /// new limits. Returns `None` if there is nothing new.
    pub async fn answer_notes(
        &mut self,
        cancel: &CancellationToken,
    ) -> Result<Option<RunReport>, AgentError> {
        if !self.take_notes().await? {
            return Ok(None);
        }
        let turn = self.turn.take();
        let progress = turn.unwrap_or_else(|| self.begin_progress());
        self.continue_as(progress, cancel).await.map(Some)
    }

    async fn continue_as(
        &mut self,
        mut progress: Progress,
        cancel: &CancellationToken,
    ) -> Result<RunReport, AgentError> {
        let report = self.continue_from(&mut progress, cancel).await;
        // Stored even after an error: a follow-up must not start with fresh limits.
        self.turn = Some(progress);
        report
    }

    /// Returns the progress of a new run.
    pub(crate) fn begin_progress(&self) -> Progress {
        let limits = &self.agent.profile.limits;
        let meter = SpendMeter::new(limits, self.agent.charged_to.clone());
        if let Some(tasks) = &self.agent.tasks {
            tasks.begin_run(self.session.id(), &meter);
        }
        Progress {
            steps: 0,
            meter,
            reductions: Vec::new(),
            metrics: TokenMetrics::default(),
            guard: Guard::new(limits.repeats),
            refusals: 0,
            refused_bytes: None,
            last_refusal: None,
            broken: 0,
            last_text: String::new(),
            partial: String::new(),
        }
    }

    /// Like [`continue_run`](Conversation::continue_run), as part of an earlier run whose limits continue to apply. The
    /// report covers the whole run.
    pub(crate) async fn continue_from(
        &mut self,
        progress: &mut Progress,
        cancel: &CancellationToken,
    ) -> Result<RunReport, AgentError> {
        let meter = Arc::clone(&progress.meter);
        self.take_server_tools(cancel).await?;
        let ended = self.steps(progress, cancel).await;
        if let Ok(end) = &ended {
            // A cancelled prune is left to the next turn.
            let receipt = unless_cancelled(self.session.end_turn(), cancel).await?.flatten();
            self.agent.reduced(progress, receipt.as_slice());
            self.agent.emit(&Event::Ended {
                end: end.clone(),
                steps: progress.steps,
                usage: meter.own().usage,
                cost: meter.own().cost,
            });
        }
        self.begin_cleanup();
        let own = meter.own();
        Ok(RunReport {
            session: self.session.id().clone(),
            end: ended?,
            text: progress.last_text.clone(),
            steps: progress.steps,
            usage: own.usage,
            cost: own.cost,
            tasks: meter.below(),
            reductions: progress.reductions.clone(),
            metrics: progress.metrics,
        })
    }

    async fn steps(
        &mut self,
        progress: &mut Progress,
        cancel: &CancellationToken,
    ) -> Result<RunEnd, AgentError> {
        let limits = self.agent.profile.limits;
        loop {
            if cancel.is_cancelled() {
                return Ok(RunEnd::Cancelled);
            }
            if progress.steps >= limits.steps {
                return Ok(RunEnd::Steps);
            }
            // A task also ends when the run that launched it has reached its limit: that run may only be waiting, and
            // checks nothing.
            match progress.meter.reached_here_or_above() {
                Some(SpendLimit::Tokens(_)) => return Ok(RunEnd::Tokens),
                Some(SpendLimit::Cost(_)) => return Ok(RunEnd::Cost),
                None => {}
            }
            match self.step(progress, cancel).await? {
                StepEnd::Again => {}
                StepEnd::Over(end) => return Ok(end),
                // A provider that paused a long turn of its own tools expects the same conversation again.
                StepEnd::Answered { finish } if finish == "pause_turn" => {}
                StepEnd::Answered { finish } => {
                    if !self.await_tasks(cancel).await? {
                        return Ok(RunEnd::Finished { reason: finish });
                    }
                }
                StepEnd::Called(calls) => {
                    if let Some(end) = self.run_calls(calls, progress, cancel).await? {
                        return Ok(end);
                    }
                }
            }
        }
    }

    /// Sets the title of a session: the first words of the prompt at once, and a small model's title when it is ready.
    /// [`run`](Conversation::run) does so; a host that appends the first prompt itself calls this.
    pub async fn set_initial_title(&self, prompt: &str) -> Result<(), AgentError> {
        let title = title_from_words(prompt);
        if !self.session.record().await?.title.trim().is_empty() {
            return Ok(());
        }
        self.session.set_title(title.clone()).await?;
        self.agent.emit(&Event::Titled { title });
        if let Some(model) = self.agent.title_model.clone() {
            let (agent, session) = (self.agent.clone(), self.session.handle().clone());
            let prompt = prompt.to_owned();
            // The turn does not wait for it.
            tokio::spawn(async move {
                if let Some(title) = ask_title(&model, &prompt, &agent.policy).await
                    && session.set_title(title.clone()).await.is_ok()
                {
                    agent.emit(&Event::Titled { title });
                }
            });
        }
        Ok(())
    }
}

impl Agent {
    /// Reports, logs and counts reductions.
    pub(crate) fn reduced(&self, progress: &mut Progress, receipts: &[Receipt]) {
        for receipt in receipts {
            progress.metrics += TokenMetrics::of(receipt);
            progress.reductions.push(self.report_reduction(receipt));
        }
    }

    pub(crate) fn report_reduction(&self, receipt: &Receipt) -> ReceiptFigures {
        metrics::reduced(receipt);
        let figures = ReceiptFigures::from(receipt);
        self.emit(&Event::Reduced(figures.clone()));
        figures
    }
}

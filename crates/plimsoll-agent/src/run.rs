//! A run: from a prompt to the model's last word.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use plimsoll::{Fixed, Message, MessageId, Receipt, SessionId, Usage};
use plimsoll_config::Permissions;
use plimsoll_providers::ToolSpec;
use plimsoll_session::{Driver, DriverHandle, SessionError, StopFlag};
use serde::Serialize;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::agent::Agent;
use crate::compaction::{EarlyClimb, unless_cancelled};
use crate::error::AgentError;
use crate::event::{Event, ReceiptFigures, UsageFigures};
use crate::guard::Guard;
use crate::ledger::FileLedger;
use crate::mcp::ServerSet;
use crate::metrics::{self, TokenMetrics};
use crate::model::Model;
use crate::step::StepEnd;
use crate::tasks::{Reached, Spend, SpendMeter};
use crate::title::{ask_title, title_from_words};

/// A session that an agent runs. When it is dropped the session is given back.
pub struct Conversation {
    pub(crate) agent: Agent,
    pub(crate) session: SessionId,
    pub(crate) driver: DriverHandle,
    /// How the tools are declared; the same list each time, because the prompt cache begins with it.
    pub(crate) specs: Arc<Vec<ToolSpec>>,
    /// A compaction that is being prepared beside the turn.
    pub(crate) early: Option<EarlyClimb>,
    /// Learned from a refusal: whether the model's window is known although no table has it.
    pub(crate) learned: bool,
    /// The MCP servers.
    pub(crate) servers: ServerSet,
    /// What the model knows of files.
    pub(crate) files: Arc<FileLedger>,
    /// Whether it was told what commands are held to.
    pub(crate) told_confinement: AtomicBool,
    /// What the turn that a person began last has come to: what follows from it goes on with that.
    pub(crate) turn: Option<Progress>,
    /// What a person has allowed for good in a session that others bound.
    pub(crate) granted: Permissions,
    /// Cleanup of spilled outputs that was begun after a run.
    pub(crate) cleanup: Option<JoinHandle<()>>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "how", rename_all = "camelCase")]
pub enum RunEnd {
    /// The model had nothing more to call.
    Finished {
        /// Why it stopped, in the provider's words.
        reason: String,
    },
    /// The model was asked as often as it may be.
    Steps,
    /// So many tokens were charged as may be.
    Tokens,
    /// It has cost as much as it may.
    Cost,
    /// The model made the same call with the same result again, although it was told.
    Repeating {
        /// The tool.
        tool: String,
    },
    /// A hook ended it after a compaction.
    StoppedByHook {
        /// The hook.
        hook: String,
    },
    /// It was cancelled.
    Cancelled,
}

/// Why the model stopped speaking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It had said everything.
    Done,
    /// The answer reached its longest, or the window its end.
    Cut,
    /// A filter or the model itself refused to go on.
    Filtered,
}

impl Stop {
    /// What a provider's word for it means.
    pub fn of(reason: &str) -> Stop {
        const CUT: [&str; 5] =
            ["length", "max_tokens", "max_output_tokens", "incomplete", "model_context_window_exceeded"];
        const FILTERED: [&str; 4] = ["content_filter", "refusal", "safety", "guardrail_intervened"];
        let is_one_of = |known: &[&str]| known.iter().any(|known| known.eq_ignore_ascii_case(reason));
        match (is_one_of(&CUT), is_one_of(&FILTERED)) {
            (true, _) => Stop::Cut,
            (_, true) => Stop::Filtered,
            _ => Stop::Done,
        }
    }
}

/// What a run came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunReport {
    /// The session.
    pub session: SessionId,
    /// How it ended.
    pub end: RunEnd,
    /// The words of the last answer.
    pub text: String,
    /// How many requests were answered.
    pub steps: u64,
    /// What was charged, summaries included.
    pub usage: UsageFigures,
    /// What it cost in dollars, as far as prices are known.
    pub cost: f64,
    /// What the background tasks that it launched or resumed were charged by its end, beside that.
    #[serde(skip_serializing_if = "Spend::is_none")]
    pub tasks: Spend,
    /// What was reduced, oldest first.
    pub reductions: Vec<ReceiptFigures>,
    /// Figures of those reductions.
    pub metrics: TokenMetrics,
}

/// What a run has come to so far.
pub(crate) struct Progress {
    pub(crate) steps: u64,
    /// What it has spent, with its tasks.
    pub(crate) meter: Arc<SpendMeter>,
    pub(crate) reductions: Vec<ReceiptFigures>,
    pub(crate) metrics: TokenMetrics,
    pub(crate) guard: Guard,
    pub(crate) refusals: u32,
    /// The size of the request that was last refused as too long, and the provider's words.
    pub(crate) refused_bytes: Option<usize>,
    pub(crate) last_refusal: Option<String>,
    pub(crate) broken: u32,
    pub(crate) last_text: String,
    /// What was said of an answer that broke off or was paused, and goes on.
    pub(crate) partial: String,
}

impl Progress {
    pub(crate) fn charge(&mut self, usage: Option<&Usage>, cost: Option<f64>) {
        self.meter.charge(usage, cost);
    }
}

impl Conversation {
    pub(crate) fn new(
        agent: Agent,
        session: SessionId,
        driver: DriverHandle,
        files: FileLedger,
    ) -> Conversation {
        let specs = Arc::new(agent.profile.tools.specs());
        let servers = ServerSet::begin(&agent);
        Conversation {
            agent,
            session,
            driver,
            specs,
            early: None,
            learned: false,
            servers,
            files: Arc::new(files),
            granted: Permissions::default(),
            told_confinement: AtomicBool::new(false),
            turn: None,
            cleanup: None,
        }
    }

    /// The session.
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// The session's driver, for what a person does to it: undo, pin, compact, inspect.
    pub fn driver(&self) -> &DriverHandle {
        &self.driver
    }

    /// Give the session back, and wait until that is done.
    pub async fn close(mut self) -> Result<(), AgentError> {
        if let Some(early) = self.early.take() {
            early.abort();
        }
        self.servers.close().await;
        let closed = self.driver.clone().close().await;
        // Bounded work, which a process that ends now would cut short every time.
        if let Some(cleanup) = self.cleanup.take() {
            let _ = cleanup.await;
        }
        Ok(closed?)
    }

    /// Removes spilled outputs that are past their retention, in the background.
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

    /// Go on with another model from the next request on. A smaller window makes the next climb do its work first.
    pub async fn switch_model(&mut self, model: Model) -> Result<(), AgentError> {
        if let Some(early) = self.early.take() {
            early.abort();
        }
        let (name, limits) = (model.name.clone(), model.limits);
        self.driver
            .run(move |driver| {
                driver.switch_provider(Some(name.provider));
                driver.switch_model(name.model, limits);
                Ok(())
            })
            .await?;
        (self.agent.model, self.learned) = (model, false);
        Ok(())
    }

    /// Take a prompt and work on it until the model has nothing more to call, a limit is reached, or it is cancelled.
    ///
    /// Whatever happens, what was said and done is stored, and the session can go on.
    pub async fn run(&mut self, prompt: &str, cancel: &CancellationToken) -> Result<RunReport, AgentError> {
        self.settle().await?;
        let text = prompt.to_owned();
        let (message, is_first) = self
            .driver
            .run(move |driver| {
                let is_first = !driver.log().iter().any(Message::is_prompt);
                Ok((driver.prompt(text)?, is_first))
            })
            .await?;
        self.agent.tell(&Event::Prompted { message });
        if is_first {
            self.give_title(prompt).await?;
        }
        self.go_on(cancel).await
    }

    /// Continues a turn that was interrupted, without a new prompt.
    ///
    /// | newest answer | what happens |
    /// |---|---|
    /// | finished | nothing is asked and the answer is reported again: the process may have died right after it |
    /// | cut at a length limit, refused or filtered | the model is asked to continue |
    /// | broken off or aborted in its words | the same |
    /// | with calls, or paused by the provider | the same conversation is sent |
    ///
    /// A refused answer stays in view like a cut one. A provider may refuse again; then this run ends the same way.
    pub async fn resume(&mut self, cancel: &CancellationToken) -> Result<RunReport, AgentError> {
        self.settle().await?;
        let said = self.driver.run(|driver| {
            if driver.log().is_empty() {
                return Err(SessionError::OutOfOrder("the session has no prompt to go on with"));
            }
            let last = driver.last_word();
            Ok(last.map(|last| (last.text(), last.info.finish.clone().unwrap_or_default())))
        });
        let Some((text, reason)) = said.await? else { return self.go_on(cancel).await };
        if Stop::of(&reason) != Stop::Done {
            // A request must not end with the model's own words: many models refuse to continue from them.
            self.driver.run(|driver| driver.go_on()).await?;
            return self.go_on(cancel).await;
        }
        Ok(RunReport {
            session: self.session.clone(),
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

    /// What was left half done by a run that was dropped is settled first.
    pub(crate) async fn settle(&self) -> Result<(), AgentError> {
        Ok(self.driver.run(|driver| driver.settle("Interrupted: the run was given up.")).await?)
    }

    /// Let the model answer what is in the log, without a new prompt: after [`take_notes`](Conversation::take_notes) has
    /// taken something in.
    pub async fn go_on(&mut self, cancel: &CancellationToken) -> Result<RunReport, AgentError> {
        let progress = self.begin_progress();
        self.go_on_as(progress, cancel).await
    }

    /// Take in what others have to tell this session and let the model answer it, as part of the turn that a person began
    /// last: its limits hold over all that follows from it. A model that launches a task whenever one has ended would
    /// otherwise go on for ever, each time with limits of its own. None if there is nothing new.
    pub async fn answer_notes(
        &mut self,
        cancel: &CancellationToken,
    ) -> Result<Option<RunReport>, AgentError> {
        if !self.take_notes().await? {
            return Ok(None);
        }
        let turn = self.turn.take();
        let progress = turn.unwrap_or_else(|| self.begin_progress());
        self.go_on_as(progress, cancel).await.map(Some)
    }

    async fn go_on_as(
        &mut self,
        mut progress: Progress,
        cancel: &CancellationToken,
    ) -> Result<RunReport, AgentError> {
        let report = self.go_on_from(&mut progress, cancel).await;
        self.turn = Some(progress);
        report
    }

    /// What a run begins with: nothing done, nothing spent.
    pub(crate) fn begin_progress(&self) -> Progress {
        let limits = &self.agent.profile.limits;
        let meter = SpendMeter::new(limits, self.agent.charged_to.clone());
        if let Some(board) = &self.agent.tasks {
            board.note_meter(&self.session, &meter);
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

    /// Like [`go_on`](Conversation::go_on), as the same run as before: its limits hold over all that it does. The report
    /// is of the whole run.
    pub(crate) async fn go_on_from(
        &mut self,
        progress: &mut Progress,
        cancel: &CancellationToken,
    ) -> Result<RunReport, AgentError> {
        let meter = Arc::clone(&progress.meter);
        self.take_server_tools(cancel).await;
        let ended = self.steps(progress, cancel).await;
        if let Ok(end) = &ended {
            let receipt = self.end_turn(cancel).await?;
            self.reduced(progress, receipt.as_slice());
            self.agent.tell(&Event::Ended {
                end: end.clone(),
                steps: progress.steps,
                usage: meter.own().usage,
                cost: meter.own().cost,
            });
        }
        self.begin_cleanup();
        let own = meter.own();
        Ok(RunReport {
            session: self.session.clone(),
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

    /// Prunes if the policy wants it after a turn. A cancelled run leaves that to the next turn.
    async fn end_turn(&self, cancel: &CancellationToken) -> Result<Option<Receipt>, AgentError> {
        let (fixed, stop) = (self.fixed(), StopFlag::default());
        let flag = stop.clone();
        let end = move |driver: &mut Driver| {
            let fixed = fixed(driver);
            driver.end_turn(fixed)
        };
        let ending = self.driver.run(move |driver| driver.unless(&flag, end));
        Ok(unless_cancelled(ending, &stop, cancel).await?.flatten())
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
            // A task ends with the limit of the run that launched it, too: that run may do nothing but wait for it.
            match progress.meter.reached_here_or_above() {
                Some(Reached::Tokens(_)) => return Ok(RunEnd::Tokens),
                Some(Reached::Cost(_)) => return Ok(RunEnd::Cost),
                None => {}
            }
            match self.step(progress, cancel).await? {
                StepEnd::Again => {}
                StepEnd::Over(end) => return Ok(end),
                // A provider that paused a long turn of its own tools wants the same conversation again.
                StepEnd::Answered { finish } if finish == "pause_turn" => {}
                StepEnd::Answered { finish } => {
                    if !self.await_tasks(cancel).await? {
                        return Ok(RunEnd::Finished { reason: finish });
                    }
                }
                StepEnd::Called => {
                    if let Some(end) = self.run_calls(progress, cancel).await? {
                        return Ok(end);
                    }
                }
            }
        }
    }

    /// Counts the system prompt and the tools with the session's counter.
    pub(crate) fn fixed(&self) -> impl Fn(&Driver) -> Fixed + Send + 'static {
        let (system, specs) = (self.agent.profile.system.clone(), Arc::clone(&self.specs));
        move |driver| count_fixed(&system, &specs, driver)
    }

    /// Tell, log and count what was reduced.
    pub(crate) fn reduced(&self, progress: &mut Progress, receipts: &[Receipt]) {
        for receipt in receipts {
            progress.metrics += TokenMetrics::of(receipt);
            progress.reductions.push(self.tell_reduced(receipt));
        }
    }

    pub(crate) fn tell_reduced(&self, receipt: &Receipt) -> ReceiptFigures {
        metrics::reduced(receipt);
        let figures = ReceiptFigures::from(receipt);
        self.agent.tell(&Event::Reduced(figures.clone()));
        figures
    }

    /// Give a session without a title one: its first words now, and what a small model makes of them when it has.
    async fn give_title(&self, prompt: &str) -> Result<(), AgentError> {
        let (archive, session) = (Arc::clone(&self.agent.archive), self.session.clone());
        let title = title_from_words(prompt);
        let words = title.clone();
        let was_set = self
            .driver
            .run(move |driver| {
                if !archive.store().session(&session).map_err(SessionError::from)?.title.trim().is_empty() {
                    return Ok(false);
                }
                driver.set_title(&words)?;
                Ok(true)
            })
            .await?;
        if !was_set {
            return Ok(());
        }
        self.agent.tell(&Event::Titled { title });
        if let Some(model) = self.agent.title_model.clone() {
            let (agent, driver, prompt) = (self.agent.clone(), self.driver.clone(), prompt.to_owned());
            // It may come when it likes; the turn does not wait for it.
            tokio::spawn(async move {
                if let Some(title) = ask_title(&model, &prompt, &agent.policy).await {
                    let words = title.clone();
                    if driver.run(move |driver| driver.set_title(&words)).await.is_ok() {
                        agent.tell(&Event::Titled { title });
                    }
                }
            });
        }
        Ok(())
    }

    /// What was said in the newest answer.
    pub(crate) async fn text_of(&self, message: MessageId) -> Result<String, AgentError> {
        let text = self.driver.run(move |driver| {
            Ok(driver.log().place(&message).map(|place| driver.log()[place].text()).unwrap_or_default())
        });
        Ok(text.await?)
    }
}

/// Count a system prompt and tools with a session's counter.
pub(crate) fn count_fixed(system: &[String], specs: &[ToolSpec], driver: &Driver) -> Fixed {
    let declared: Vec<String> =
        specs.iter().map(|tool| format!("{}\n{}\n{}", tool.name, tool.description, tool.schema)).collect();
    Fixed::count(&system.join("\n\n"), declared.iter().map(String::as_str), &*driver.counter())
}

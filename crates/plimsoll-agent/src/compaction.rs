//! Summaries: asking for them, in the turn or beside it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll::compact::accept::{Rejection, Reply};
use plimsoll::compact::ladder::Trigger;
use plimsoll::compact::request::{SummaryForm, SummaryRequest};
use plimsoll::window::{Block, WindowMessage, WindowRole};
use plimsoll::{CachePlan, Fixed, Policy, Receipt, Usage};
use plimsoll_config::HookEvent;
use plimsoll_providers::{RequestOptions, Thinking, ToolChoice, ToolSpec, Wire};
use plimsoll_session::{Climb, ClimbStep, Driver, DriverHandle, SessionError, StopFlag};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::agent::Agent;
use crate::error::AgentError;
use crate::event::{Event, ReceiptFigures, ReductionKind, UsageFigures};
use crate::metrics;
use crate::model::{Model, Question};
use crate::run::{Conversation, Progress};
use crate::step::{one_message, reply_of, summary_max_tokens};

/// The answer to a summary request.
pub(crate) struct Summary {
    pub(crate) reply: Result<Reply, String>,
    pub(crate) cost: Option<f64>,
    early: bool,
}

/// Figures of a summary that are reported once it is known whether it was taken.
pub(crate) struct SummaryFigures {
    error: Option<String>,
    usage: Option<UsageFigures>,
    cost: Option<f64>,
    early: bool,
}

/// The time that a compaction may take, over all its chunks, retries and waits. It runs from the first request on.
pub(crate) struct SummaryTime {
    most: Duration,
    until: Option<tokio::time::Instant>,
}

impl SummaryTime {
    pub(crate) fn of(policy: &Policy) -> SummaryTime {
        SummaryTime { most: Duration::from_secs(policy.compact.max_seconds), until: None }
    }

    /// Waits for a summary; `None` once the time is over.
    pub(crate) async fn limit(&mut self, summary: impl Future<Output = Summary>) -> Option<Summary> {
        let now = tokio::time::Instant::now();
        // A time that no clock can show means never.
        let until = *self.until.get_or_insert_with(|| now.checked_add(self.most).unwrap_or_else(far_future));
        tokio::time::timeout_at(until, summary).await.ok()
    }
}

fn far_future() -> tokio::time::Instant {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3_600);
    tokio::time::Instant::now() + CENTURY
}

/// Reports that no summary came in time.
pub(crate) fn tell_timed_out(agent: &Agent, early: bool) {
    let seconds = agent.policy.compact.max_seconds;
    let error = Rejection::TimedOut { seconds }.to_string();
    tracing::warn!(seconds, early, "the summariser took too long");
    agent.tell(&Event::Summarised { error: Some(error), usage: None, cost: None, early });
}

impl Summary {
    pub(crate) fn usage(&self) -> Option<&Usage> {
        self.reply.as_ref().ok().and_then(|reply| reply.usage.as_ref())
    }

    /// The reply, for the ladder, and the figures to report afterwards.
    pub(crate) fn into_parts(self) -> (Result<Reply, String>, SummaryFigures) {
        let figures = SummaryFigures {
            error: self.reply.as_ref().err().cloned(),
            usage: self.usage().map(UsageFigures::from),
            cost: self.cost,
            early: self.early,
        };
        (self.reply, figures)
    }
}

impl SummaryFigures {
    /// Reports the summary. An answer that came and was rejected is an error too.
    pub(crate) fn tell(self, agent: &Agent, rejection: Option<&Rejection>) {
        let SummaryFigures { error, usage, cost, early } = self;
        let error = error.or_else(|| rejection.map(ToString::to_string));
        if let Some(rejection) = rejection {
            tracing::warn!(%rejection, early, "a summary was not taken");
        }
        agent.tell(&Event::Summarised { error, usage, cost, early });
    }
}

/// A climb that is made beside the turn, and what its summaries were charged.
pub(crate) struct EarlyClimb {
    task: JoinHandle<Vec<(Option<Usage>, Option<f64>)>>,
    /// Stops a step that is being made on a thread, which ending the task does not.
    stop: StopFlag,
}

impl EarlyClimb {
    pub(crate) fn abort(self) {
        self.stop.stop();
        self.task.abort();
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        if let Some(early) = self.early.take() {
            early.abort();
        }
    }
}

/// What the provider's cache holds of a summary request that is appended to the window; none for a request of its own.
pub(crate) async fn cache_plan(driver: &DriverHandle, request: &SummaryRequest) -> Option<CachePlan> {
    match &request.form {
        SummaryForm::Separate { .. } => None,
        SummaryForm::Appended { window, .. } => {
            let window = window.clone();
            driver.run(move |driver| Ok(driver.cache_plan(&window))).await.ok()
        }
    }
}

/// Ask for a summary: the compaction agent's model, or the session's own.
pub(crate) async fn ask_summary(
    agent: &Agent,
    specs: &[ToolSpec],
    request: &SummaryRequest,
    cache: Option<&CachePlan>,
    early: bool,
    cache_key: Option<&str>,
) -> Summary {
    let model = agent.compaction.model.as_ref().unwrap_or(&agent.model);
    agent.tell(&Event::Summarising { chunk: request.chunk, of: request.of, tokens: request.tokens, early });
    let started = Instant::now();
    let options = RequestOptions {
        max_tokens: summary_max_tokens(request).or(model.options.max_tokens),
        cache_key: model.options.cache_key.clone().or_else(|| cache_key.map(str::to_owned)),
        ..model.options.clone()
    };
    let built = match &request.form {
        SummaryForm::Separate { system, prompt } => {
            let window = one_message(prompt, &agent.policy);
            let options = RequestOptions { thinking: Thinking::Unset, ..options };
            let system = [system.clone()];
            model.request(Question {
                window: &window,
                system: &system,
                tools: &[],
                cache: None,
                options: &options,
            })
        }
        SummaryForm::Appended { window, prompt } => {
            let mut window = window.clone();
            let block = Block::Text { text: prompt.as_str().into(), part: None };
            window.messages.push(WindowMessage {
                role: WindowRole::User,
                message: None,
                place: None,
                blocks: vec![block],
                signed: 0,
            });
            // The tools stay declared, because the cache begins with them. Forbidding them in a field of its own would
            // make Anthropic's cache of the conversation useless; the instruction forbids them, and a call is refused.
            let tool_choice = match model.wire() {
                Wire::Anthropic => ToolChoice::Auto,
                Wire::Chat | Wire::Responses if specs.is_empty() => ToolChoice::Auto,
                Wire::Chat | Wire::Responses => ToolChoice::None,
            };
            let options = RequestOptions { tool_choice, ..options };
            let system = &agent.profile.system;
            model.request(Question { window: &window, system, tools: specs, cache, options: &options })
        }
    };
    let said = match built {
        Ok(request) => {
            let name = model.name.to_string();
            model.ask(&request, |_| metrics::retried(&name)).await.map_err(|error| error.to_string())
        }
        Err(error) => Err(error.to_string()),
    };
    let usage = said.as_ref().ok().and_then(|said| said.usage.clone());
    let cost = usage.as_ref().and_then(|usage| model.cost(usage));
    if said.is_ok() {
        metrics::answered(&model.name.to_string(), usage.as_ref(), cost, started.elapsed());
    }
    tracing::info!(
        model = %model.name,
        chunk = request.chunk,
        of = request.of,
        ok = said.is_ok(),
        early,
        "asked for a summary"
    );
    Summary { reply: said.map(|said| reply_of(said, model)), cost, early }
}

impl Model {
    /// Ask for a summary in a request of its own, for hosts that reduce a session without running it.
    pub async fn summarise(&self, request: &SummaryRequest, policy: &Policy) -> Result<Reply, String> {
        let SummaryForm::Separate { system, prompt } = &request.form else {
            return Err("only the session's own model can be asked at the end of its window".to_owned());
        };
        let options = RequestOptions {
            max_tokens: summary_max_tokens(request).or(self.options.max_tokens),
            thinking: Thinking::Unset,
            ..self.options.clone()
        };
        let (window, system) = (one_message(prompt, policy), [system.clone()]);
        let question =
            Question { window: &window, system: &system, tools: &[], cache: None, options: &options };
        let request = self.request(question).map_err(|error| error.to_string())?;
        let name = self.name.to_string();
        let said = self.ask(&request, |_| metrics::retried(&name)).await;
        said.map(|said| reply_of(said, self)).map_err(|error| error.to_string())
    }
}

impl Conversation {
    /// Compact because a person asks for it. Gives what was reduced; nothing if there is too little to summarise, or the
    /// run was cancelled.
    pub async fn compact(&mut self, cancel: &CancellationToken) -> Result<Vec<ReceiptFigures>, AgentError> {
        self.compact_on(None, cancel).await
    }

    /// Like [`compact`](Conversation::compact), with what the summary should keep above all in the person's words.
    pub async fn compact_on(
        &mut self,
        focus: Option<&str>,
        cancel: &CancellationToken,
    ) -> Result<Vec<ReceiptFigures>, AgentError> {
        self.settle().await?;
        // The summary request carries the same tools as the turns do, or the cache would not be hit.
        self.take_server_tools(cancel).await;
        if let Some(early) = self.early.take() {
            early.abort();
        }
        if self.agent.has_hooks(HookEvent::Compacting, None) {
            let text = self.agent.summary_text(&self.compaction_context("manual", Vec::new()), cancel).await;
            self.driver.run(move |driver| Ok(driver.set_hook(text))).await?;
        }
        let (mut time, stop) = (SummaryTime::of(&self.agent.policy), StopFlag::default());
        let (fixed, focus, flag) = (self.fixed(), focus.map(str::to_owned), stop.clone());
        let begin = move |driver: &mut Driver| {
            let fixed = fixed(driver);
            Ok(driver.begin_compaction_with(fixed, Trigger::Manual, focus))
        };
        let beginning = self.driver.run(move |driver| driver.unless(&flag, begin));
        let Some(mut climb) = unless_cancelled(beginning, &stop, cancel).await? else {
            return Ok(Vec::new());
        };
        climb.stop_on(stop.clone());
        loop {
            let stepping = unless_cancelled(step_of(climb), &stop, cancel).await?;
            let Some((back, step)) = stepping else { return Ok(Vec::new()) };
            climb = back;
            match step? {
                ClimbStep::Ask(request) => {
                    let summary = tokio::select! {
                        biased;
                        () = cancel.cancelled() => return Ok(Vec::new()),
                        summary = time.limit(self.summarise(&request, false)) => summary,
                    };
                    let Some(summary) = summary else {
                        tell_timed_out(&self.agent, false);
                        climb.time_out();
                        continue;
                    };
                    let (reply, figures) = summary.into_parts();
                    figures.tell(&self.agent, answer(&mut climb, reply)?.as_ref());
                }
                ClimbStep::Done(climbed) => {
                    let rejection = climbed.outcome.rejections.last().cloned();
                    let receipts = self.driver.run(move |driver| driver.commit(*climbed)).await?;
                    // A summary that is not smaller means that there was too little to summarise.
                    let is_failure =
                        |why: &Rejection| receipts.is_empty() && !matches!(why, Rejection::NotSmaller { .. });
                    if let Some(rejection) = rejection.filter(is_failure) {
                        return Err(AgentError::NotSummarised(rejection));
                    }
                    self.tell_compacted("manual", &receipts, cancel).await;
                    let mut figures = Vec::new();
                    for receipt in &receipts {
                        figures.push(self.tell_reduced(receipt));
                    }
                    return Ok(figures);
                }
            }
        }
    }

    /// Let a climb be made beside the turn.
    pub(crate) fn begin_early(&mut self) {
        let (agent, driver, specs) = (self.agent.clone(), self.driver.clone(), Arc::clone(&self.specs));
        let (context, fixed) = (self.compaction_context("early", Vec::new()), self.fixed());
        if let Some(before) = self.early.take() {
            before.abort();
        }
        let stop = StopFlag::default();
        let flag = stop.clone();
        let task = tokio::spawn(async move {
            // Hooks are asked beside the turn as well. A run that is given up drops this task, and them with it.
            let never = CancellationToken::new();
            let text = match agent.has_hooks(HookEvent::Compacting, None) {
                true => Some(agent.summary_text(&context, &never).await),
                false => None,
            };
            let begin = move |driver: &mut Driver| {
                text.map(|text| driver.set_hook(text));
                let fixed = fixed(driver);
                Ok(driver.begin_early(fixed))
            };
            let stop = flag.clone();
            let begun = driver.run(move |driver| driver.unless(&stop, begin));
            match begun.await {
                Ok(Some(mut climb)) => {
                    climb.stop_on(flag);
                    climb_beside(agent, driver, specs, context.session.to_string(), climb).await
                }
                Ok(None) | Err(_) => Vec::new(),
            }
        });
        self.early = Some(EarlyClimb { task, stop });
    }

    /// Whether a climb is to be made beside the turn.
    pub(crate) async fn wants_early(&self, cancel: &CancellationToken) -> Result<bool, AgentError> {
        self.weigh(cancel, Driver::wants_early).await
    }

    /// Asks something about the weight of the window; no if the run is cancelled meanwhile.
    async fn weigh(
        &self,
        cancel: &CancellationToken,
        question: fn(&Driver, Fixed) -> bool,
    ) -> Result<bool, AgentError> {
        let (fixed, stop) = (self.fixed(), StopFlag::default());
        let flag = stop.clone();
        let weigh = move |driver: &mut Driver| Ok(question(driver, fixed(driver)));
        let weighing = self.driver.run(move |driver| driver.unless(&flag, weigh));
        Ok(unless_cancelled(weighing, &stop, cancel).await?.unwrap_or(false))
    }

    /// Tell hooks of the compactions among what was reduced.
    pub(crate) async fn tell_compacted(
        &self,
        trigger: &'static str,
        receipts: &[Receipt],
        cancel: &CancellationToken,
    ) {
        let compacted = compaction_figures(receipts);
        if !compacted.is_empty() {
            self.agent.tell_compacted(&self.compaction_context(trigger, compacted), cancel).await;
        }
    }

    /// Take note of a climb beside the turn that is done. One that is not is waited for only where the line is crossed:
    /// it has begun with the same work that would have to be done now.
    pub(crate) async fn await_early(
        &mut self,
        progress: &mut Progress,
        cancel: &CancellationToken,
    ) -> Result<(), AgentError> {
        let Some(early) = &mut self.early else { return Ok(()) };
        if !early.task.is_finished() {
            // Without an answer the run ends, and the climb with it.
            if !self.weigh(cancel, Driver::is_over_line).await? {
                return Ok(());
            }
        }
        let Some(mut early) = self.early.take() else { return Ok(()) };
        let charged = tokio::select! {
            biased;
            () = cancel.cancelled() => {
                early.abort();
                return Ok(());
            }
            charged = &mut early.task => charged,
        };
        // A climb that panicked has held nothing, and the ordinary one does its work.
        for (usage, cost) in charged.unwrap_or_default() {
            progress.charge(usage.as_ref(), cost);
        }
        Ok(())
    }
}

/// The figures of those receipts that are of compactions.
pub(crate) fn compaction_figures(receipts: &[Receipt]) -> Vec<ReceiptFigures> {
    let figures = receipts.iter().map(ReceiptFigures::from);
    figures.filter(|figures| figures.kind == ReductionKind::Compact).collect()
}

/// Hands in an answer, and returns why it was rejected, if it was.
fn answer(climb: &mut Climb, reply: Result<Reply, String>) -> Result<Option<Rejection>, SessionError> {
    let before = climb.rejections().len();
    climb.answer(reply)?;
    Ok(climb.rejections().get(before).cloned())
}

/// Waits for work of the driver; `None` if the run is cancelled meanwhile. The flag stops the work then, so that the driver
/// is free for what follows.
pub(crate) async fn unless_cancelled<T, E>(
    work: impl Future<Output = Result<T, E>>,
    stop: &StopFlag,
    cancel: &CancellationToken,
) -> Result<Option<T>, AgentError>
where
    AgentError: From<E>,
{
    tokio::select! {
        biased;
        () = cancel.cancelled() => {
            stop.stop();
            Ok(None)
        }
        done = work => Ok(Some(done?)),
    }
}

/// A step counts and cuts, which takes a while on a long log.
async fn step_of(mut climb: Climb) -> Result<(Climb, Result<ClimbStep, SessionError>), AgentError> {
    let stepped = tokio::task::spawn_blocking(move || {
        let step = climb.step();
        (climb, step)
    });
    stepped.await.map_err(|error| AgentError::Internal(error.to_string()))
}

async fn climb_beside(
    agent: Agent,
    driver: DriverHandle,
    specs: Arc<Vec<ToolSpec>>,
    session: String,
    mut climb: Climb,
) -> Vec<(Option<Usage>, Option<f64>)> {
    let mut charged = Vec::new();
    let mut time = SummaryTime::of(&agent.policy);
    loop {
        let Ok((back, step)) = step_of(climb).await else { return charged };
        climb = back;
        match step {
            Ok(ClimbStep::Ask(request)) => {
                let cache = cache_plan(&driver, &request).await;
                let asked = ask_summary(&agent, &specs, &request, cache.as_ref(), true, Some(&session));
                let Some(summary) = time.limit(asked).await else {
                    tell_timed_out(&agent, true);
                    climb.time_out();
                    continue;
                };
                charged.push((summary.usage().cloned(), summary.cost));
                let (reply, figures) = summary.into_parts();
                let Ok(rejection) = answer(&mut climb, reply) else { return charged };
                figures.tell(&agent, rejection.as_ref());
            }
            Ok(ClimbStep::Done(climbed)) => {
                let held = driver.run(move |driver| Ok(driver.hold(*climbed))).await;
                tracing::info!(held = held.unwrap_or(false), "a compaction was prepared ahead");
                return charged;
            }
            Err(error) => {
                tracing::warn!(%error, "a compaction could not be prepared ahead");
                return charged;
            }
        }
    }
}

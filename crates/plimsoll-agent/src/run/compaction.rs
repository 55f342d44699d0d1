//! Requests summaries, during a turn or while it continues.

use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll::compact::{Rejection, Reply, SummaryRequest};
use plimsoll::{CachePlan, Policy, Receipt, SessionId, Usage};
use plimsoll_config::HookEvent;
use plimsoll_providers::{RequestOptions, Thinking, ToolChoice, ToolSpec, Wire};
use plimsoll_session::{ClimbStep, Compaction, SessionError, SessionHandle};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::step::{reply_of, summary_max_tokens};
use super::{Conversation, Progress};
use crate::agent::Agent;
use crate::error::AgentError;
use crate::event::Event;
use crate::figures::{ReceiptFigures, ReductionKind, UsageFigures};
use crate::metrics;
use crate::model::{Model, Question};

/// Result of a summary request.
pub(crate) struct Summary {
    pub(crate) reply: Result<Reply, String>,
    pub(crate) cost: Option<f64>,
    early: bool,
}

/// Figures of a summary, reported once it is accepted or rejected.
pub(crate) struct SummaryFigures {
    error: Option<String>,
    usage: Option<UsageFigures>,
    cost: Option<f64>,
    early: bool,
}

/// Timeout of a compaction with all its chunks and retries, from the first request on.
pub(crate) struct SummaryTime {
    most: Duration,
    until: Option<tokio::time::Instant>,
}

impl SummaryTime {
    pub(crate) fn of(policy: &Policy) -> SummaryTime {
        SummaryTime { most: Duration::from_secs(policy.compact.max_seconds), until: None }
    }

    /// Waits for a summary; `None` after the timeout.
    pub(crate) async fn limit(&mut self, summary: impl Future<Output = Summary>) -> Option<Summary> {
        let now = tokio::time::Instant::now();
        // A duration beyond the clock's range means no timeout.
        let until = *self.until.get_or_insert_with(|| now.checked_add(self.most).unwrap_or_else(far_future));
        tokio::time::timeout_at(until, summary).await.ok()
    }
}

fn far_future() -> tokio::time::Instant {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3_600);
    tokio::time::Instant::now() + CENTURY
}

/// Reports that the summariser timed out.
pub(crate) fn report_timeout(agent: &Agent, early: bool) {
    let seconds = agent.policy.compact.max_seconds;
    let error = Rejection::TimedOut { seconds }.to_string();
    tracing::warn!(seconds, early, "the summariser timed out");
    agent.emit(&Event::Summarised { error: Some(error), usage: None, cost: None, early });
}

impl Summary {
    pub(crate) fn usage(&self) -> Option<&Usage> {
        self.reply.as_ref().ok().and_then(|reply| reply.usage.as_ref())
    }

    /// Splits into the reply for the ladder and the figures to report afterwards.
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
    /// Reports the summary. A rejected summary is reported as an error.
    pub(crate) fn report(self, agent: &Agent, rejection: Option<&Rejection>) {
        let SummaryFigures { error, usage, cost, early } = self;
        let error = error.or_else(|| rejection.map(ToString::to_string));
        if let Some(rejection) = rejection {
            tracing::warn!(%rejection, early, "a summary was rejected");
        }
        agent.emit(&Event::Summarised { error, usage, cost, early });
    }
}

/// A compaction that runs while the turn continues, and the charges of its summaries. Dropping it cancels it.
pub(crate) struct Precompaction(JoinHandle<Vec<(Option<Usage>, Option<f64>)>>);

impl Drop for Precompaction {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Agent {
    /// Requests a summary from the compaction agent's model or the session's own.
    pub(crate) async fn ask_summary(
        &self,
        specs: &[ToolSpec],
        request: &SummaryRequest,
        cache: Option<&CachePlan>,
        early: bool,
        session: &SessionId,
    ) -> Summary {
        let (agent, cache_key) = (self, Some(session.as_str()));
        let model = agent.compaction.model.as_ref().unwrap_or(&agent.model);
        agent.emit(&Event::Summarising {
            chunk: request.chunk,
            of: request.of,
            tokens: request.tokens,
            early,
        });
        let started = Instant::now();
        let options = RequestOptions {
            max_tokens: summary_max_tokens(request).or(model.options.max_tokens),
            cache_key: model.options.cache_key.clone().or_else(|| cache_key.map(str::to_owned)),
            ..model.options.clone()
        };
        let window = request.window();
        let built = match request.system() {
            Some(system) => {
                // A separate request shares no prefix with the conversation, so it needs neither its settings nor its
                // tools.
                let options = RequestOptions { thinking: Thinking::Unset, ..options };
                let system = [system.to_owned()];
                model.request(Question {
                    window: &window,
                    system: &system,
                    tools: &[],
                    cache: None,
                    options: &options,
                })
            }
            None => {
                // The tools stay declared, because the cached prefix contains them. Forbidding them in `tool_choice`
                // would invalidate Anthropic's cache of the conversation, so the instruction forbids them and calls are
                // rejected.
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
            "requested a summary"
        );
        Summary { reply: said.map(|said| reply_of(said, model)), cost, early }
    }
}

impl Model {
    /// Requests a summary in a separate request, for hosts that reduce a session without running it.
    pub async fn summarise(&self, request: &SummaryRequest) -> Result<Reply, String> {
        let Some(system) = request.system() else {
            return Err("only the session's own model can be asked at the end of its window".to_owned());
        };
        let options = RequestOptions {
            max_tokens: summary_max_tokens(request).or(self.options.max_tokens),
            thinking: Thinking::Unset,
            ..self.options.clone()
        };
        let (window, system) = (request.window(), [system.to_owned()]);
        let question =
            Question { window: &window, system: &system, tools: &[], cache: None, options: &options };
        let request = self.request(question).map_err(|error| error.to_string())?;
        let name = self.name.to_string();
        let said = self.ask(&request, |_| metrics::retried(&name)).await;
        said.map(|said| reply_of(said, self)).map_err(|error| error.to_string())
    }
}

impl Conversation {
    /// Compacts at the user's request. Returns the receipts, or an empty list if there is too little to summarise or
    /// the run was cancelled.
    pub async fn compact(&mut self, cancel: &CancellationToken) -> Result<Vec<ReceiptFigures>, AgentError> {
        self.compact_on(None, cancel).await
    }

    /// Like [`compact`](Conversation::compact), with a focus for the summary.
    pub async fn compact_on(
        &mut self,
        focus: Option<&str>,
        cancel: &CancellationToken,
    ) -> Result<Vec<ReceiptFigures>, AgentError> {
        self.settle().await?;
        // The summary request must declare the same tools as the turns, or the cache would not be used.
        self.take_server_tools(cancel).await?;
        // Cancelled, because this compaction makes it stale.
        self.precompaction = None;
        let (agent, session, id) = (&self.agent, &self.session, self.session.id());
        if agent.has_hooks(HookEvent::Compacting, None) {
            let context = agent.compaction_context(id, "manual", Vec::new());
            let text = agent.summary_text(&context, cancel).await;
            session.set_summary_hook(text).await?;
        }
        let beginning = session.begin_compaction(focus);
        let Some(mut compaction) = unless_cancelled(beginning, cancel).await? else {
            return Ok(Vec::new());
        };
        let mut time = SummaryTime::of(&agent.policy);
        loop {
            let Some(step) = unless_cancelled(compaction.step(), cancel).await? else {
                return Ok(Vec::new());
            };
            match step {
                ClimbStep::Ask(request) => {
                    let cache = session.cache_plan(&request).await.ok().flatten();
                    let asked = agent.ask_summary(&self.specs, &request, cache.as_ref(), false, id);
                    let summary = tokio::select! {
                        biased;
                        () = cancel.cancelled() => return Ok(Vec::new()),
                        summary = time.limit(asked) => summary,
                    };
                    let Some(summary) = summary else {
                        report_timeout(agent, false);
                        compaction.time_out();
                        continue;
                    };
                    let (reply, figures) = summary.into_parts();
                    figures.report(agent, compaction.answer(reply)?.as_ref());
                }
                ClimbStep::Done(climbed) => {
                    let rejection = climbed.outcome.rejections.last().cloned();
                    let receipts = session.commit(*climbed).await?;
                    // A summary that is not smaller means that there was too little to summarise.
                    let is_failure =
                        |why: &Rejection| receipts.is_empty() && !matches!(why, Rejection::NotSmaller { .. });
                    if let Some(rejection) = rejection.filter(is_failure) {
                        return Err(AgentError::NotSummarised(rejection));
                    }
                    agent.notify_compacted(id, "manual", &receipts, cancel).await;
                    return Ok(receipts.iter().map(|receipt| agent.report_reduction(receipt)).collect());
                }
            }
        }
    }

    /// Starts a compaction that runs while the turn continues.
    pub(crate) fn begin_precompaction(&mut self) {
        let (agent, session, specs) =
            (self.agent.clone(), self.session.handle().clone(), Arc::clone(&self.specs));
        // Cancel the previous one first.
        self.precompaction = None;
        self.precompaction = Some(Precompaction(tokio::spawn(async move {
            // Hooks run while the turn continues, too. If the run is dropped, this task and its hooks are cancelled.
            if agent.has_hooks(HookEvent::Compacting, None) {
                let context = agent.compaction_context(session.id(), "early", Vec::new());
                let text = agent.summary_text(&context, &CancellationToken::new()).await;
                if session.set_summary_hook(text).await.is_err() {
                    return Vec::new();
                }
            }
            match session.begin_precompaction().await {
                Ok(Some(compaction)) => precompact_with_model(&agent, &session, &specs, compaction).await,
                Ok(None) | Err(_) => Vec::new(),
            }
        })));
    }

    /// Collects the charges of a finished early compaction. A running one is awaited only if the line is crossed,
    /// because it has already begun the work that would have to be done now.
    pub(crate) async fn await_precompaction(
        &mut self,
        progress: &mut Progress,
        cancel: &CancellationToken,
    ) -> Result<(), AgentError> {
        let Some(early) = &self.precompaction else { return Ok(()) };
        // Cancelling the run also cancels the compaction.
        if !early.0.is_finished()
            && unless_cancelled(self.session.is_over_line(), cancel).await? != Some(true)
        {
            return Ok(());
        }
        let Some(mut early) = self.precompaction.take() else { return Ok(()) };
        let charged = tokio::select! {
            biased;
            () = cancel.cancelled() => return Ok(()),
            charged = &mut early.0 => charged,
        };
        // A compaction that panicked has stashed nothing, and the ladder runs as usual.
        for (usage, cost) in charged.unwrap_or_default() {
            progress.charge(usage.as_ref(), cost);
        }
        Ok(())
    }
}

/// Returns the figures of the compactions among these receipts.
pub(crate) fn compaction_figures(receipts: &[Receipt]) -> Vec<ReceiptFigures> {
    let figures = receipts.iter().map(ReceiptFigures::from);
    figures.filter(|figures| figures.kind == ReductionKind::Compact).collect()
}

/// Waits for work of the session; `None` if the run is cancelled, which also stops the work.
pub(super) async fn unless_cancelled<T>(
    work: impl Future<Output = Result<T, SessionError>>,
    cancel: &CancellationToken,
) -> Result<Option<T>, AgentError> {
    tokio::select! {
        biased;
        () = cancel.cancelled() => Ok(None),
        done = work => Ok(Some(done?)),
    }
}

async fn precompact_with_model(
    agent: &Agent,
    session: &SessionHandle,
    specs: &[ToolSpec],
    mut compaction: Compaction,
) -> Vec<(Option<Usage>, Option<f64>)> {
    let mut charged = Vec::new();
    let mut time = SummaryTime::of(&agent.policy);
    loop {
        match compaction.step().await {
            Ok(ClimbStep::Ask(request)) => {
                let cache = session.cache_plan(&request).await.ok().flatten();
                let asked = agent.ask_summary(specs, &request, cache.as_ref(), true, session.id());
                let Some(summary) = time.limit(asked).await else {
                    report_timeout(agent, true);
                    compaction.time_out();
                    continue;
                };
                charged.push((summary.usage().cloned(), summary.cost));
                let (reply, figures) = summary.into_parts();
                let Ok(rejection) = compaction.answer(reply) else { return charged };
                figures.report(agent, rejection.as_ref());
            }
            Ok(ClimbStep::Done(climbed)) => {
                let held = session.stash_precompaction(*climbed).await;
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

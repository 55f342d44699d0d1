//! A step of a run: reduces the window if necessary, asks the model, and stores the answer while it streams.

use std::time::{Duration, Instant};

use plimsoll::compact::{Rejection, Reply, SummaryRequest};
use plimsoll::{Message, MessageId, SessionId, Tokens};
use plimsoll_config::HookEvent;
use plimsoll_providers::{AnswerStream, ProviderError, RequestOptions, RetryNotice, Wire};
use plimsoll_session::{AnswerEvent, AnswerWriter, Content, FinishedAnswer, Prepared, ToolCall};
use tokio_util::sync::CancellationToken;

use super::compaction::{SummaryTime, compaction_figures, report_timeout, unless_cancelled};
use super::{Conversation, Progress};
use crate::agent::Agent;
use crate::error::AgentError;
use crate::event::Event;
use crate::figures::{UsageFigures, millis};
use crate::metrics;
use crate::model::{CollectedAnswer, Model, Question};
use crate::report::RunEnd;

/// Minimum number of output tokens to request, even if the window leaves less room.
const MIN_ANSWER: Tokens = Tokens(256);

/// A request that was sent.
struct Sent {
    started: Instant,
    bytes: usize,
    tokens: Tokens,
    /// The newest message in it.
    newest: Option<MessageId>,
}

/// Outcome of a step.
pub(crate) enum StepEnd {
    /// The step has to be repeated with another window.
    Again,
    /// The model answered without calls.
    Answered { finish: String },
    /// The model called tools.
    Called(Vec<ToolCall>),
    /// The run is over.
    Over(RunEnd),
}

/// Outcome of an answer.
enum AnswerOutcome {
    Finished(Box<FinishedAnswer>),
    /// The stream failed after it had begun.
    BrokenOff {
        message: Box<Message>,
        error: ProviderError,
    },
    Cancelled,
}

impl Conversation {
    /// Reduces the window if necessary, asks the model, and stores the answer.
    pub(crate) async fn step(
        &mut self,
        progress: &mut Progress,
        cancel: &CancellationToken,
    ) -> Result<StepEnd, AgentError> {
        self.await_precompaction(progress, cancel).await?;
        self.take_in_notes().await?;
        if self.session.is_broken_off().await? {
            // A request must not end with an incomplete answer: many models refuse to continue from one.
            self.session.continue_turn().await?;
        }
        let (agent, handle) = (&mut self.agent, self.session.handle().clone());
        let id = handle.id();
        let mut time = SummaryTime::of(&agent.policy);
        let mut asks_hooks = agent.has_hooks(HookEvent::Compacting, None);
        let request = loop {
            let prepared = tokio::select! {
                biased;
                () = cancel.cancelled() => return Ok(StepEnd::Over(RunEnd::Cancelled)),
                prepared = self.session.prepare() => prepared?,
            };
            match prepared {
                Prepared::Ready(request) => {
                    agent.reduced(progress, &request.receipts);
                    agent.notify_compacted(id, "auto", &request.receipts, cancel).await;
                    match agent.task_reminder(&handle).await? {
                        Some(reminder) => self.session.append(reminder).await?,
                        // Only a compaction can hide a launch, so the loop ends after one reminder.
                        None => break request,
                    };
                }
                // Hooks are called only now, when a summary is certainly needed. If hooks change its instructions, the
                // climb restarts, which costs counting but no request.
                Prepared::Summarise(_) if std::mem::take(&mut asks_hooks) => {
                    let context = agent.compaction_context(id, "auto", Vec::new());
                    let text = agent.summary_text(&context, cancel).await;
                    handle.set_summary_hook(text).await?;
                }
                Prepared::Summarise(call) => {
                    // The prompt cache only saves money; a summary can be requested without it.
                    let cache = call.cache_plan().await.ok().flatten();
                    let asked = agent.ask_summary(&self.specs, &call, cache.as_ref(), false, id);
                    let summary = tokio::select! {
                        biased;
                        () = cancel.cancelled() => return Ok(StepEnd::Over(RunEnd::Cancelled)),
                        summary = time.limit(asked) => summary,
                    };
                    let Some(summary) = summary else {
                        report_timeout(agent, false);
                        call.time_out().await?;
                        continue;
                    };
                    progress.charge(summary.usage(), summary.cost);
                    let (reply, figures) = summary.into_parts();
                    figures.report(agent, call.answer(reply).await?.as_ref());
                }
                Prepared::CannotFit { breakdown, receipts } => {
                    agent.reduced(progress, &receipts);
                    agent.notify_compacted(id, "auto", &receipts, cancel).await;
                    return Err(AgentError::CannotFit(breakdown));
                }
                Prepared::NotSummarised { mut rejections, receipts } => {
                    agent.reduced(progress, &receipts);
                    let last = rejections.pop().unwrap_or(Rejection::Empty);
                    return Err(AgentError::NotSummarised(last));
                }
            }
        };
        let compacted = compaction_figures(&request.receipts);
        // Before the first answer of a turn the user waits for a reply, so a compaction must not end the turn.
        if !compacted.is_empty() && progress.steps > 0 {
            let context = agent.compaction_context(id, "auto", compacted);
            if let Some(hook) = agent.stopping_hook(&context, cancel).await {
                return Ok(StepEnd::Over(RunEnd::StoppedByHook { hook }));
            }
        }
        let step = progress.steps + 1;
        agent.emit(&Event::Weighed {
            step,
            tokens: request.load.tokens,
            line: request.line.map(|line| line.at),
            unchanged_blocks: request.cache.unchanged.blocks,
        });
        let options = options(agent, &request, self.learned, id);
        let sendable = agent.model.request(Question {
            window: &request.window,
            system: &agent.profile.system,
            tools: &self.specs,
            cache: Some(&request.cache),
            options: &options,
        })?;
        // Bytes and not tokens: the count that let the rejected request through may be wrong.
        let body = sendable.to_bytes();
        let bytes = body.len();
        if progress.refused_bytes.is_some_and(|refused| bytes >= refused) {
            // The provider has rejected this size before. Policies that follow another tool may have no further way to
            // reduce.
            let last = progress.last_refusal.take().unwrap_or_default();
            return Err(AgentError::Refused { times: progress.refusals, last });
        }
        let model = agent.model.name.to_string();
        agent.emit(&Event::Requested { step, model: model.clone() });
        let started = Instant::now();
        let on_retry = |notice: &RetryNotice| {
            metrics::retried(&model);
            tracing::warn!(
                model,
                retry = notice.retry,
                error = notice.error.name(),
                "sending the request again"
            );
            agent.emit(&Event::Retrying {
                retry: notice.retry,
                wait_ms: millis(notice.wait),
                error: notice.error.to_string(),
            });
        };
        let stream = tokio::select! {
            biased;
            () = cancel.cancelled() => return Ok(StepEnd::Over(RunEnd::Cancelled)),
            stream = agent.model.client.stream_bytes(&sendable, body, on_retry) => stream,
        };
        let newest = request.window.messages.iter().rev().find_map(|shown| shown.message.clone());
        let stream = match stream {
            Ok(stream) => stream,
            // Once for the same reasoning: if the request is rejected without it too, the cause is another.
            Err(ProviderError::Thoughts { .. }) if agent.leave_out_thoughts(newest) => {
                return Ok(StepEnd::Again);
            }
            Err(error) => return self.no_answer(error, bytes, progress).await,
        };
        // The provider accepted this size, so a larger one may be tried again.
        (progress.refused_bytes, progress.last_refusal) = (None, None);
        let sent = Sent { started, bytes, tokens: request.load.tokens, newest };
        let writer = request.begin_answer(Some(&agent.profile.name)).await?;
        match agent.write_answer(writer, stream, progress, cancel).await? {
            AnswerOutcome::Finished(answer) => self.finished(*answer, &sent, progress, cancel).await,
            AnswerOutcome::BrokenOff { message, error } => {
                self.broken_off(&message, &error, sent, progress).await
            }
            AnswerOutcome::Cancelled => Ok(StepEnd::Over(RunEnd::Cancelled)),
        }
    }

    /// Handles a request that was not answered.
    async fn no_answer(
        &mut self,
        error: ProviderError,
        bytes: usize,
        progress: &mut Progress,
    ) -> Result<StepEnd, AgentError> {
        let window = match &error {
            ProviderError::Overflow { window, .. } => *window,
            // A limit per minute that is smaller than the request: waiting never helps, only a smaller request does.
            ProviderError::RateLimited { request_too_large: true, .. } => None,
            _ => return Err(error.into()),
        };
        progress.refusals += 1;
        progress.refused_bytes = Some(bytes);
        progress.last_refusal = Some(error.to_string());
        metrics::refused(&self.agent.model.name.to_string());
        if progress.refusals > self.agent.profile.limits.refusals {
            return Err(AgentError::Refused { times: progress.refusals, last: error.to_string() });
        }
        tracing::warn!(
            window = window.map(|window| window.0),
            "the provider rejected the request as too long"
        );
        self.agent.emit(&Event::Refused { window });
        self.learned |= window.is_some();
        self.session.on_overflow(window).await?;
        Ok(StepEnd::Again)
    }

    async fn finished(
        &mut self,
        answer: FinishedAnswer,
        sent: &Sent,
        progress: &mut Progress,
        cancel: &CancellationToken,
    ) -> Result<StepEnd, AgentError> {
        let FinishedAnswer { message, reason: finish, usage, calls, .. } = answer;
        let cost = usage.as_ref().and_then(|usage| self.agent.model.cost(usage));
        let latency = sent.started.elapsed();
        // After the last answer of a turn there may be no further request that a summary would help.
        let wants_precompaction = !calls.is_empty()
            && unless_cancelled(self.session.wants_precompaction(), cancel).await? == Some(true);
        progress.steps += 1;
        (progress.refusals, progress.broken) = (0, 0);
        let text = message.text();
        match &usage {
            Some(usage) => progress.charge(Some(usage), cost),
            // Without usage from the provider, count an estimate, or a token limit would never be reached.
            None => {
                let output = plimsoll::Tokens(text.len() as u64 / 4);
                progress.charge(Some(&plimsoll::Usage::new(sent.tokens, output)), None);
            }
        }
        progress.last_text = std::mem::take(&mut progress.partial) + &text;
        if finish == "pause_turn" {
            progress.partial.clone_from(&progress.last_text);
        }
        metrics::answered(&self.agent.model.name.to_string(), usage.as_ref(), cost, latency);
        tracing::info!(
            model = %self.agent.model.name,
            finish,
            input = usage.as_ref().map(|usage| usage.input.0),
            cached = usage.as_ref().map(|usage| usage.cache_read.0),
            output = usage.as_ref().map(|usage| usage.output.0),
            "the model has answered"
        );
        self.agent.emit(&Event::Answered {
            message: message.info.id.clone(),
            finish: finish.clone(),
            usage: usage.as_ref().map(UsageFigures::from),
            cost,
            latency_ms: millis(latency),
        });
        if wants_precompaction {
            self.begin_precompaction();
        }
        Ok(if calls.is_empty() { StepEnd::Answered { finish } } else { StepEnd::Called(calls) })
    }

    /// Handles an answer that was interrupted after it had begun. Its text was already shown, so it stays and the model
    /// is asked to continue.
    async fn broken_off(
        &mut self,
        message: &Message,
        error: &ProviderError,
        sent: Sent,
        progress: &mut Progress,
    ) -> Result<StepEnd, AgentError> {
        // The following answer continues this text.
        progress.partial.push_str(&message.text());
        let message = message.info.id.clone();
        self.agent.emit(&Event::BrokenOff { message, error: error.to_string() });
        tracing::warn!(error = error.name(), "the answer was interrupted");
        progress.broken += 1;
        if let ProviderError::Overflow { .. } = error {
            return self.no_answer(error.clone(), sent.bytes, progress).await;
        }
        if matches!(error, ProviderError::Thoughts { .. }) && self.agent.leave_out_thoughts(sent.newest) {
            return Ok(StepEnd::Again);
        }
        if !error.is_transient() || progress.broken >= self.agent.profile.limits.broken_answers {
            return Err(error.clone().into());
        }
        // Each interrupted answer counts as a step, so that a provider which always interrupts is not asked forever.
        progress.steps += 1;
        // The client only retries until an answer begins. This is the retry after that.
        tokio::time::sleep(Duration::from_millis(200) * progress.broken).await;
        Ok(StepEnd::Again)
    }
}

impl Agent {
    /// Stops sending reasoning up to this message. Returns false if none of it was sent anyway.
    fn leave_out_thoughts(&mut self, newest: Option<MessageId>) -> bool {
        if newest.is_none() || newest == self.model.refused_thoughts {
            return false;
        }
        tracing::warn!("the provider rejected replayed reasoning");
        self.model.refused_thoughts = newest;
        self.emit(&Event::RefusedThoughts);
        true
    }

    /// Stores an answer while it streams.
    async fn write_answer(
        &self,
        mut writer: AnswerWriter<'_>,
        mut stream: AnswerStream,
        progress: &mut Progress,
        cancel: &CancellationToken,
    ) -> Result<AnswerOutcome, AgentError> {
        let mut counted: Option<plimsoll::Usage> = None;
        let charge = |progress: &mut Progress, usage: Option<&plimsoll::Usage>| {
            progress.charge(usage, usage.and_then(|usage| self.model.cost(usage)));
        };
        loop {
            let event = tokio::select! {
                biased;
                () = cancel.cancelled() => {
                    // Closes the connection first, so that the provider stops generating.
                    drop(stream);
                    charge(progress, counted.as_ref());
                    writer.abort("The run was cancelled.").await?;
                    return Ok(AnswerOutcome::Cancelled);
                }
                event = stream.next() => event,
            };
            let event = match event {
                Some(Ok(event)) => event,
                Some(Err(error)) => {
                    charge(progress, counted.as_ref());
                    // Not marked as failed: the window leaves out failed answers, and this one has text.
                    let message = Box::new(writer.abort(&error.to_string()).await?);
                    return Ok(AnswerOutcome::BrokenOff { message, error });
                }
                // A stream must end with `Finished` or an error.
                None => return Err(AgentError::Internal("the answer ended without an end".into())),
            };
            let is_last = matches!(event, AnswerEvent::Finished { .. });
            match &event {
                AnswerEvent::Text(delta) => self.emit(&Event::Text { delta: delta.clone() }),
                AnswerEvent::Thinking(delta) => self.emit(&Event::Thinking { delta: delta.clone() }),
                AnswerEvent::Usage(usage) => counted = Some(usage.clone()),
                _ => {}
            }
            writer.write(event).await?;
            if is_last {
                return Ok(AnswerOutcome::Finished(Box::new(writer.finish().await?)));
            }
        }
    }
}

fn options(agent: &Agent, content: &Content, is_learned: bool, session: &SessionId) -> RequestOptions {
    let model = &agent.model;
    // Without known limits, a maximum is sent only to Anthropic, which requires one.
    let is_known = model.limits.is_some() || is_learned || model.wire() == Wire::Anthropic;
    let room = content.room.max(MIN_ANSWER);
    RequestOptions {
        max_tokens: match (model.options.max_tokens, is_known) {
            (Some(most), true) => Some(most.min(room.0)),
            (most, false) => most,
            (None, true) => Some(room.0),
        },
        // A key of the session keeps its requests on servers that hold its prefix.
        cache_key: model.options.cache_key.clone().or_else(|| Some(session.to_string())),
        ..model.options.clone()
    }
}

/// Converts a summariser's answer for the ladder.
pub(crate) fn reply_of(said: CollectedAnswer, model: &Model) -> Reply {
    let CollectedAnswer { text, calls, finish, usage } = said;
    let cost = usage.as_ref().and_then(|usage| model.cost(usage));
    let model = Some(model.name.model.clone());
    Reply {
        text,
        finish: Some(finish),
        tool_calls: calls,
        usage,
        cost,
        model,
        is_extracted: false,
        is_edited: false,
    }
}

/// Returns the maximum length of a summary, if the request has one.
pub(crate) fn summary_max_tokens(request: &SummaryRequest) -> Option<u64> {
    let most = Some(request.max_tokens).filter(|most| *most > Tokens::ZERO);
    // If there is hardly any room, providers reject so small a maximum; the Responses API requires at least 16.
    most.map(|most| most.max(MIN_ANSWER).0)
}

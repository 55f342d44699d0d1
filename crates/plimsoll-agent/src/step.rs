//! One step of a run: the window is made to fit, the model is asked, its answer is stored as it streams.

use std::time::{Duration, Instant};

use plimsoll::compact::accept::{Rejection, Reply};
use plimsoll::compact::request::SummaryRequest;
use plimsoll::{Message, MessageId, Tokens};
use plimsoll_config::HookEvent;
use plimsoll_providers::{AnswerStream, ProviderError, RequestOptions, RetryNotice, StreamEvent, Wire};
use plimsoll_session::{AnswerEnd, AnswerEvent, Content, Driver, Prepared, StopFlag};
use serde_json::Number;
use tokio_util::sync::CancellationToken;

use crate::agent::LEAST_ANSWER;
use crate::compaction::{
    Summary, SummaryTime, ask_summary, cache_plan, compaction_figures, tell_timed_out, unless_cancelled,
};
use crate::error::AgentError;
use crate::event::{Event, UsageFigures, millis};
use crate::metrics;
use crate::model::{CollectedAnswer, Model, Question};
use crate::run::{Conversation, Progress, RunEnd};

/// A request that was sent.
struct Sent {
    started: Instant,
    bytes: usize,
    tokens: Tokens,
    /// The newest message in it.
    newest: Option<MessageId>,
}

/// How a step ended.
pub(crate) enum StepEnd {
    /// The same step has to be made again, with another window.
    Again,
    /// The model has answered and called nothing.
    Answered { finish: String },
    /// The model has called tools.
    Called,
    /// The run is over.
    Over(RunEnd),
}

impl Conversation {
    /// Make the window fit, ask the model, and store what it says.
    pub(crate) async fn step(
        &mut self,
        progress: &mut Progress,
        cancel: &CancellationToken,
    ) -> Result<StepEnd, AgentError> {
        let Some(content) = self.prepare(progress, cancel).await? else {
            return Ok(StepEnd::Over(RunEnd::Cancelled));
        };
        let compacted = compaction_figures(&content.receipts);
        // Before the first answer of a turn a person waits for it, and a compaction is no reason to say nothing.
        if !compacted.is_empty() && progress.steps > 0 {
            let context = self.compaction_context("auto", compacted);
            if let Some(hook) = self.agent.stopping_hook(&context, cancel).await {
                return Ok(StepEnd::Over(RunEnd::StoppedByHook { hook }));
            }
        }
        let step = progress.steps + 1;
        self.agent.tell(&Event::Weighed {
            step,
            tokens: content.load.tokens,
            line: content.line.map(|line| line.at),
            unchanged_blocks: content.cache.unchanged.blocks,
        });
        let options = self.options(&content);
        let request = self.agent.model.request(Question {
            window: &content.window,
            system: &self.agent.profile.system,
            tools: &self.specs,
            cache: Some(&content.cache),
            options: &options,
        })?;
        let bytes = request.to_bytes().len();
        if progress.refused_bytes.is_some_and(|refused| bytes >= refused) {
            // The provider has refused as much already. Policies that follow a document may have no way to reduce more.
            let last = progress.last_refusal.take().unwrap_or_default();
            return Err(AgentError::Refused { times: progress.refusals, last });
        }
        let model = self.agent.model.name.to_string();
        self.agent.tell(&Event::Requested { step, model: model.clone() });
        let started = Instant::now();
        let agent = self.agent.clone();
        let on_retry = |notice: &RetryNotice| {
            metrics::retried(&model);
            tracing::warn!(
                model,
                retry = notice.retry,
                error = notice.error.name(),
                "sending the request again"
            );
            agent.tell(&Event::Retrying {
                retry: notice.retry,
                wait_ms: millis(notice.wait),
                error: notice.error.to_string(),
            });
        };
        let stream = tokio::select! {
            biased;
            () = cancel.cancelled() => return Ok(StepEnd::Over(RunEnd::Cancelled)),
            stream = self.agent.model.client.stream(&request, on_retry) => stream,
        };
        let newest = content.window.messages.iter().rev().find_map(|shown| shown.message.clone());
        match stream {
            Ok(stream) => {
                (progress.refused_bytes, progress.last_refusal) = (None, None);
                let sent = Sent { started, bytes, tokens: content.load.tokens, newest };
                self.take_answer(stream, sent, progress, cancel).await
            }
            Err(ProviderError::Thoughts { .. }) if self.leave_out_thoughts(newest) => Ok(StepEnd::Again),
            Err(error) => self.no_answer(error, bytes, progress).await,
        }
    }

    /// Climb until the next request fits; none if the run was cancelled meanwhile.
    async fn prepare(
        &mut self,
        progress: &mut Progress,
        cancel: &CancellationToken,
    ) -> Result<Option<Content>, AgentError> {
        self.await_early(progress, cancel).await?;
        self.take_in_notes().await?;
        let is_broken_off = self.driver.run(|driver| Ok(driver.is_broken_off())).await?;
        if is_broken_off {
            // A request must not end with half an answer: many models refuse to go on from one.
            self.driver.run(|driver| driver.go_on()).await?;
        }
        let (mut time, stop) = (SummaryTime::of(&self.agent.policy), StopFlag::default());
        let mut asks_hooks = self.agent.has_hooks(HookEvent::Compacting, None);
        loop {
            let (fixed, flag) = (self.fixed(), stop.clone());
            let prepare = move |driver: &mut Driver| {
                let fixed = fixed(driver);
                driver.prepare(fixed)
            };
            let preparing = self.driver.run(move |driver| driver.unless(&flag, prepare));
            let Some(prepared) = unless_cancelled(preparing, &stop, cancel).await? else { return Ok(None) };
            match prepared {
                Prepared::Ready(content) => {
                    self.reduced(progress, &content.receipts);
                    self.tell_compacted("auto", &content.receipts, cancel).await;
                    if self.remind_of_tasks().await? {
                        continue;
                    }
                    return Ok(Some(*content));
                }
                // Only now it is known that there will be a summary. If hooks have something to say about it, the climb is
                // begun anew with that, which costs the counting but no call of a model.
                Prepared::Summarise(_) if std::mem::take(&mut asks_hooks) => {
                    let context = self.compaction_context("auto", Vec::new());
                    let text = self.agent.summary_text(&context, cancel).await;
                    self.driver.run(move |driver| Ok(driver.set_hook(text))).await?;
                }
                Prepared::Summarise(request) => {
                    let summary = tokio::select! {
                        biased;
                        () = cancel.cancelled() => return Ok(None),
                        summary = time.limit(self.summarise(&request, false)) => summary,
                    };
                    let Some(summary) = summary else {
                        tell_timed_out(&self.agent, false);
                        let timed_out = self.driver.run(|driver| {
                            driver.time_out_summary();
                            Ok(())
                        });
                        timed_out.await?;
                        continue;
                    };
                    progress.charge(summary.usage(), summary.cost);
                    let (reply, figures) = summary.into_parts();
                    let rejection = self.driver.run(move |driver| {
                        let before = driver.rejections().len();
                        driver.summarised(reply)?;
                        Ok(driver.rejections().get(before).cloned())
                    });
                    figures.tell(&self.agent, rejection.await?.as_ref());
                }
                Prepared::CannotFit { burden, receipts } => {
                    self.reduced(progress, &receipts);
                    self.tell_compacted("auto", &receipts, cancel).await;
                    return Err(AgentError::CannotFit(burden));
                }
                Prepared::NotSummarised { mut rejections, receipts } => {
                    self.reduced(progress, &receipts);
                    let last = rejections.pop().unwrap_or(Rejection::Empty);
                    return Err(AgentError::NotSummarised(last));
                }
            }
        }
    }

    /// Ask for a summary.
    pub(crate) async fn summarise(&self, request: &SummaryRequest, early: bool) -> Summary {
        let cache = cache_plan(&self.driver, request).await;
        ask_summary(&self.agent, &self.specs, request, cache.as_ref(), early, Some(self.session.as_str()))
            .await
    }

    fn options(&self, content: &Content) -> RequestOptions {
        let model = &self.agent.model;
        // Without known limits a number is sent only to Anthropic, which insists on one.
        let is_known = model.limits.is_some() || self.learned || model.wire() == Wire::Anthropic;
        let room = content.room.max(LEAST_ANSWER);
        RequestOptions {
            max_tokens: match (model.options.max_tokens, is_known) {
                (Some(most), true) => Some(most.min(room.0)),
                (most, false) => most,
                (None, true) => Some(room.0),
            },
            cache_key: model.options.cache_key.clone().or_else(|| Some(self.session.to_string())),
            ..model.options.clone()
        }
    }

    fn charge(&self, progress: &mut Progress, usage: Option<&plimsoll::Usage>) {
        progress.charge(usage, usage.and_then(|usage| self.agent.model.cost(usage)));
    }

    /// From now on send no thought up to this message. False if none of them was sent anyway.
    fn leave_out_thoughts(&mut self, newest: Option<MessageId>) -> bool {
        if newest.is_none() || newest == self.agent.model.refused_thoughts {
            return false;
        }
        tracing::warn!("the provider refused thoughts that were given back to it");
        self.agent.model.refused_thoughts = newest;
        self.agent.tell(&Event::RefusedThoughts);
        true
    }

    /// The request was not answered at all.
    async fn no_answer(
        &mut self,
        error: ProviderError,
        bytes: usize,
        progress: &mut Progress,
    ) -> Result<StepEnd, AgentError> {
        let window = match &error {
            ProviderError::Overflow { window, .. } => *window,
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
            "the provider refused the request as too long"
        );
        self.agent.tell(&Event::Refused { window });
        self.learned |= window.is_some();
        let fixed = self.fixed();
        self.driver
            .run(move |driver| {
                let fixed = fixed(driver);
                driver.refused(window, fixed);
                Ok(())
            })
            .await?;
        Ok(StepEnd::Again)
    }

    async fn take_answer(
        &mut self,
        mut stream: AnswerStream,
        sent: Sent,
        progress: &mut Progress,
        cancel: &CancellationToken,
    ) -> Result<StepEnd, AgentError> {
        let name = self.agent.profile.name.clone();
        let message = self.driver.run(move |driver| driver.begin_answer(Some(&name))).await?;
        let mut counted: Option<plimsoll::Usage> = None;
        loop {
            let event = tokio::select! {
                biased;
                () = cancel.cancelled() => {
                    drop(stream);
                    self.charge(progress, counted.as_ref());
                    let why = AnswerEnd::Aborted("The run was cancelled.".into());
                    self.driver.run(move |driver| driver.end_answer(why)).await?;
                    return Ok(StepEnd::Over(RunEnd::Cancelled));
                }
                event = stream.next() => event,
            };
            let event = match event {
                Some(Ok(event)) => event,
                Some(Err(error)) => {
                    self.charge(progress, counted.as_ref());
                    return self.broken_off(message, &error, sent, progress).await;
                }
                // A stream ends with an event of its own or with an error; this is neither.
                None => return Err(AgentError::Internal("the answer ended without an end".into())),
            };
            let event = match event {
                StreamEvent::Finished { reason, usage } => {
                    let usage = usage.or(counted);
                    return self.finished(message, reason, usage, sent, progress, cancel).await;
                }
                StreamEvent::Text(delta) => {
                    self.agent.tell(&Event::Text { delta: delta.clone() });
                    AnswerEvent::Text(delta)
                }
                StreamEvent::Thinking(delta) => {
                    self.agent.tell(&Event::Thinking { delta: delta.clone() });
                    AnswerEvent::Thinking(delta)
                }
                StreamEvent::Signature(value) => AnswerEvent::Signature(value),
                StreamEvent::CallBegin { call, tool } => AnswerEvent::CallBegin { call, tool },
                StreamEvent::CallInput(delta) => AnswerEvent::CallInput(delta),
                StreamEvent::CallReady(input) => AnswerEvent::CallReady(input),
                StreamEvent::Block(value) => AnswerEvent::Block(value),
                StreamEvent::PartEnd => AnswerEvent::PartEnd,
                StreamEvent::Usage(usage) => {
                    counted = Some(usage.clone());
                    let cost = self.agent.model.cost(&usage).and_then(Number::from_f64);
                    AnswerEvent::Usage { usage, cost }
                }
            };
            self.driver.run(move |driver| driver.write(event)).await?;
        }
    }

    async fn finished(
        &mut self,
        message: MessageId,
        finish: String,
        usage: Option<plimsoll::Usage>,
        sent: Sent,
        progress: &mut Progress,
        cancel: &CancellationToken,
    ) -> Result<StepEnd, AgentError> {
        let cost = usage.as_ref().and_then(|usage| self.agent.model.cost(usage));
        let latency = sent.started.elapsed();
        let end = AnswerEnd::Finished {
            reason: finish.clone(),
            usage: usage.clone(),
            cost: cost.and_then(Number::from_f64),
        };
        let has_calls = self
            .driver
            .run(move |driver| {
                driver.end_answer(end)?;
                Ok(!driver.open_calls().is_empty())
            })
            .await?;
        // After the last word of a turn there may be no further request that a summary would help.
        let wants_early = has_calls && self.wants_early(cancel).await?;
        progress.steps += 1;
        (progress.refusals, progress.broken) = (0, 0);
        let text = self.text_of(message.clone()).await?;
        match &usage {
            Some(usage) => progress.charge(Some(usage), cost),
            // A provider that counts nothing is counted for, or a cap on tokens would never be reached.
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
        self.agent.tell(&Event::Answered {
            message,
            finish: finish.clone(),
            usage: usage.as_ref().map(UsageFigures::from),
            cost,
            latency_ms: millis(latency),
        });
        if wants_early {
            self.begin_early();
        }
        Ok(if has_calls { StepEnd::Called } else { StepEnd::Answered { finish } })
    }

    /// The answer broke off after something was said. That cannot be taken back: it stays, and the model is asked to go on.
    async fn broken_off(
        &mut self,
        message: MessageId,
        error: &ProviderError,
        sent: Sent,
        progress: &mut Progress,
    ) -> Result<StepEnd, AgentError> {
        // Not as failed: the window leaves failed answers out, and this one has said something.
        let end = AnswerEnd::Aborted(error.to_string());
        self.driver.run(move |driver| driver.end_answer(end)).await?;
        // What is said next goes on from there, and the answer is both.
        let said = self.text_of(message.clone()).await?;
        progress.partial.push_str(&said);
        self.agent.tell(&Event::BrokenOff { message, error: error.to_string() });
        tracing::warn!(error = error.name(), "the answer broke off");
        progress.broken += 1;
        if let ProviderError::Overflow { .. } = error {
            return self.no_answer(error.clone(), sent.bytes, progress).await;
        }
        if matches!(error, ProviderError::Thoughts { .. }) && self.leave_out_thoughts(sent.newest) {
            return Ok(StepEnd::Again);
        }
        if !error.is_transient() || progress.broken >= self.agent.profile.limits.broken_answers {
            return Err(error.clone().into());
        }
        // Each broken answer is one of the run's steps: a provider that breaks off for ever must not be asked for ever.
        progress.steps += 1;
        tokio::time::sleep(Duration::from_millis(200) * progress.broken).await;
        Ok(StepEnd::Again)
    }
}

/// What a summariser said, as the ladder takes it.
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

/// A window with nothing but one message of the user's.
pub(crate) fn one_message(text: &str, policy: &plimsoll::Policy) -> plimsoll::Window {
    let message = Message::user("msg_summary".into(), "prt_summary".into(), text);
    plimsoll::Window::of(&[message], policy)
}

/// The longest answer to a summary request, if the request says one.
pub(crate) fn summary_max_tokens(request: &SummaryRequest) -> Option<u64> {
    let most = Some(request.max_tokens).filter(|most| *most > Tokens::ZERO);
    // Where hardly any room is left, providers refuse the few tokens that are; the Responses API wants sixteen at least.
    most.map(|most| most.max(LEAST_ANSWER).0)
}

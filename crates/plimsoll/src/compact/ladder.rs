//! The ladder: reduces a window until it is under the line, whatever the model does.
//!
//! A state machine without I/O. The caller drives it: [`Ladder::climb`] applies every rung it can and returns either a
//! request for the summariser, whose answer is passed to [`Ladder::answer`], or the outcome. It works on its own
//! snapshot, so a host can append to the log while a model writes a summary;
//! [`Reduction::commit`](crate::Reduction::commit) then applies the changes to the log.
//!
//! The rungs are ordered by what they cost the conversation. Pruning needs no model and loses only old outputs, which
//! can be recalled. A model's summary keeps the meaning of what it replaces. An extractive summary keeps less, but
//! cannot fail. Shedding keeps no meaning, so it comes last.
//!
//! The ladder terminates because every step makes the pair (rungs left, work left on the rung) smaller in lexicographic order.
//! The work (chunks and tries of a summary, halvings of the tail, rounds of hiding) is bounded when the rung is
//! reached. A rung that would not shrink the window is skipped, so no step undoes another.
//!
//! The window ends under the line because the last rungs can remove everything except a legal conversation, pins and
//! the newest prompt. If these do not fit either, they are reduced in this order: the prompt is cut to its share,
//! then further; then parts are unpinned, with a receipt that lists them.

mod breakdown;
mod pivot;
mod pivot_messages;
mod rungs;

use std::sync::Arc;

use self::pivot::SummaryMeans;
use super::accept::{Bounds, Reply, accept};
use super::context::{CompactionContext, Trigger};
use super::outcome::{FitResult, Outcome};
use super::request::{SummaryJob, SummaryRequest, TooSmall};
use super::select::Selection;
use super::shed::{self, Goal};
use crate::chars::Text;
use crate::count::window_message_tokens;
use crate::counter::Counter;
use crate::gauge::{Gauge, Scale};
use crate::line::Line;
use crate::log::{Ids, Log, LogError, Message, Part, Usage};
use crate::pivot::{Pivot, without_index};
use crate::plan::{Plan, Rejection, ShedPlan, SummaryOrigin};
use crate::policy::Detector;
use crate::receipt::{Receipt, Stamp};
use crate::redact::redact;
use crate::reduction::Reduction;
use crate::thrift::Rules;
use crate::tokens::Tokens;
use crate::window::Window;

/// The caller's next step.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Send the request to the summariser, then call [`Ladder::answer`].
    Ask(SummaryRequest),
    /// The climb is finished.
    Done(Outcome),
}

/// A climb on a snapshot of the log.
pub struct Ladder {
    log: Log,
    /// Number of messages of the snapshot. Later ones were appended by the climb.
    known: usize,
    open: Vec<Message>,
    /// The window before the climb: what was last sent, plus what was added since.
    sent: Window,
    context: CompactionContext,
    line: Option<Line>,
    gauge: Gauge,
    /// Scale of the figures in receipts.
    scale: Scale,
    /// Whether the policy's detector saw the window over the line when the climb began.
    called: bool,
    /// Whether the window was under the line, but a compaction saves money.
    pays: bool,
    rung: Rung,
    before: Tokens,
    /// Best known weight of the request when the climb began. Steps only make it smaller, so this is an upper limit for
    /// estimates that are too high. `None` if the provider rejected the request.
    most: Option<Tokens>,
    receipts: Vec<Receipt>,
    rejections: Vec<Rejection>,
    usage: Vec<Usage>,
    /// Cost of the summaries, and the model that wrote them.
    cost: Option<f64>,
    model: Option<String>,
}

enum Rung {
    Start,
    Save,
    Prune,
    Select,
    Ask(Box<SummaryTask>),
    Extract,
    ClearTail,
    /// Remaining halvings of the tail, the next limit to try, and the number of messages that the last try would have
    /// kept.
    ShortenTail(u32, Tokens, Option<usize>),
    CutStep,
    CutParts,
    /// Remaining rounds.
    HideParts(u32),
    CutPrompt,
    /// Remaining rounds.
    Unpin(u32),
    End,
}

struct SummaryTask {
    selection: Selection,
    /// The request appended to the session's own, which is tried first.
    appended: Option<SummaryRequest>,
    job: Result<SummaryJob, TooSmall>,
    chunk: usize,
    /// Summary of the previous chunks, or of an earlier compaction.
    prior: Option<Text>,
    tries_left: u32,
    calls: u64,
}

impl SummaryTask {
    /// Maximum length of the answer to the current request.
    fn longest(&self) -> Tokens {
        match (&self.appended, &self.job) {
            (Some(request), _) => request.max_tokens,
            (None, Ok(job)) => job.max_tokens(),
            (None, Err(_)) => Tokens::ZERO,
        }
    }

    /// Whether the answer to the current request completes the summary.
    fn is_last(&self) -> bool {
        self.appended.is_some() || self.job.as_ref().is_ok_and(|job| self.chunk + 1 == job.chunks())
    }
}

impl Ladder {
    /// Creates a ladder over a snapshot of the log.
    pub fn new(log: Log, mut context: CompactionContext) -> Ladder {
        let load = context.load(&log);
        if context.trigger == Trigger::Refused && context.limits.context == Tokens::ZERO {
            // The model's window is unknown, but the provider has just rejected a request of this size.
            context.limits.context = load.estimate;
        }
        let line = context.line();
        let (gauge, scale) = (context.gauge(&load), context.scale(&load, &log));
        let called = context.calls_for_help(&log, &load);
        let pays = !called && context.compaction_pays(&log, &load);
        let before = gauge.real(load.estimate);
        let is_known =
            context.trigger != Trigger::Refused && context.policy.overflow.detector != Detector::Estimate;
        let most = is_known.then_some(load.tokens);
        Ladder {
            known: log.len(),
            open: log.iter().filter(|message| message.is_open()).cloned().collect(),
            sent: Window::of(&log, &context.policy),
            log,
            context,
            line,
            gauge,
            scale,
            called,
            pays,
            rung: Rung::Start,
            before,
            most,
            receipts: Vec::new(),
            rejections: Vec::new(),
            usage: Vec::new(),
            cost: None,
            model: None,
        }
    }

    /// Climbs until a summary is needed or the climb is finished.
    pub fn climb(&mut self, ids: &mut Ids) -> Result<Step, LogError> {
        loop {
            if let Some(step) = self.climb_one(ids)? {
                return Ok(step);
            }
        }
    }

    /// Climbs one rung. Returns `None` if the climb is not finished. For callers that may have to stop in between: a
    /// climb over a long history takes a while, and dropping a ladder changes nothing.
    pub fn climb_one(&mut self, ids: &mut Ids) -> Result<Option<Step>, LogError> {
        // If a rung returns an error, the ladder stays at its end, so a caller that continues cannot repeat half a
        // step.
        self.rung = match std::mem::replace(&mut self.rung, Rung::End) {
            Rung::Start => self.start(),
            Rung::Save => self.save(ids)?,
            Rung::Prune => self.prune(ids)?,
            Rung::Select => self.select(),
            Rung::Ask(asking) => match self.request(&asking) {
                Some(request) => {
                    self.rung = Rung::Ask(asking);
                    return Ok(Some(Step::Ask(request)));
                }
                None => Rung::Extract,
            },
            // A compaction that is prepared ahead or saves money uses a model's summary or none: nothing forces it, and
            // it can be tried again later.
            Rung::Extract | Rung::ClearTail
                if self.context.trigger == Trigger::Precompaction || self.pays =>
            {
                Rung::End
            }
            Rung::Extract => self.extract(ids)?,
            Rung::ClearTail => self.clear_tail(ids)?,
            Rung::ShortenTail(left, cap, kept) => self.shorten_tail(left, cap, kept, ids)?,
            Rung::CutStep => self.cut_step(ids)?,
            Rung::CutParts => self.cut_parts(ids)?,
            Rung::HideParts(left) => self.hide_parts(left, ids)?,
            Rung::CutPrompt => self.cut_prompt(ids)?,
            Rung::Unpin(left) => self.unpin(left, ids)?,
            Rung::End => return Ok(Some(Step::Done(self.outcome()))),
        };
        Ok(None)
    }

    /// Takes the summariser's answer, or the error of the call.
    pub fn answer(&mut self, reply: Result<Reply, String>, ids: &mut Ids) -> Result<(), LogError> {
        let mut asking = match std::mem::replace(&mut self.rung, Rung::End) {
            Rung::Ask(asking) => asking,
            other => {
                // No request is pending, for example after `time_out`.
                self.rung = other;
                return Ok(());
            }
        };
        asking.calls += 1;
        if let Ok(Reply { usage, cost, model, .. }) = &reply {
            self.usage.extend(usage.clone());
            self.cost = cost.map(|cost| cost + self.cost.unwrap_or_default()).or(self.cost);
            self.model = model.clone().or(self.model.take());
        }
        let counter = self.context.counter();
        let replaced = if asking.is_last() {
            self.replaced(&asking.selection)
        } else {
            let prior = asking.prior.as_ref().map(|prior| counter.count_text(prior));
            let chunk = asking.job.as_ref().map(|job| job.chunk_tokens(asking.chunk, counter));
            chunk.unwrap_or_default() + prior.unwrap_or_default()
        };
        let is_extracted = reply.as_ref().is_ok_and(|reply| reply.is_extracted);
        let taken = match reply {
            Ok(reply) => {
                // The host may pass an extracted summary (from `offline`), so its length is allowed too.
                let longest = asking.longest().max(self.context.policy.compact.extractive_tokens);
                accept(&reply, Bounds { replaced, longest }, counter)
            }
            Err(why) => Err(Rejection::Failed(redact(&why).text)),
        };
        let rejection = match taken {
            Ok(summary) if asking.is_last() => {
                let reason = match self.context.trigger {
                    Trigger::Auto if self.pays => "sending the window again would have cost more",
                    Trigger::Auto => "the window was over the line",
                    Trigger::Precompaction => "the window was over the soft line",
                    Trigger::Manual => "requested by the user",
                    Trigger::Refused => "the provider rejected the request as too long",
                };
                let size = counter.count_text(&summary);
                let (made, calls) = if is_extracted {
                    (SummaryOrigin::WithoutModel, 0)
                } else {
                    (SummaryOrigin::ByModel, asking.calls)
                };
                let made = SummaryMeans { made, calls, reason };
                if self.pivot(&asking.selection, summary, made, ids)? {
                    self.context.breaker.failures = 0;
                    self.rung = if self.is_over() { Rung::ClearTail } else { Rung::End };
                    return Ok(());
                }
                // With marker, contract and index, the summary would not have made the window smaller.
                Rejection::NotSmaller { summary: size, replaced }
            }
            Ok(summary) => {
                asking.chunk += 1;
                asking.prior = Some(summary);
                self.rung = Rung::Ask(asking);
                return Ok(());
            }
            Err(rejection) => rejection,
        };
        let again = rejection.is_worth_a_retry() && asking.tries_left > 0;
        if let Some(job) = asking.job.as_mut().ok().filter(|_| rejection.is_cut_off()) {
            job.shorten();
        }
        self.rejections.push(rejection);
        self.context.breaker.failures += 1;
        asking.tries_left = asking.tries_left.saturating_sub(1);
        // A model that failed in the appended form is asked again in the separate form, in which it has no tools.
        asking.appended = None;
        self.rung = if again { Rung::Ask(asking) } else { Rung::Extract };
        Ok(())
    }

    /// Stops waiting for the summariser: the compaction reached the timeout of [the
    /// policy](crate::policy::CompactPolicy). The circuit breaker opens at once, because a summariser that does not
    /// answer costs the whole timeout again with each try, while one that fails costs little.
    pub fn time_out(&mut self) {
        if !matches!(self.rung, Rung::Ask(_)) {
            return;
        }
        let compact = &self.context.policy.compact;
        self.rejections.push(Rejection::TimedOut { seconds: compact.max_seconds });
        self.context.breaker.failures = self.context.breaker.failures.saturating_add(1).max(compact.breaker);
        self.rung = Rung::Extract;
    }

    /// Answers of the summariser that were rejected so far.
    pub fn rejections(&self) -> &[Rejection] {
        &self.rejections
    }

    /// Returns an extractive summary for the pending request, of the same length. `None` if no request is pending.
    pub fn offline(&self) -> Option<Text> {
        match &self.rung {
            Rung::Ask(asking) => self.extractive(&asking.selection, self.context.summary_tokens()),
            _ => None,
        }
    }

    fn request(&self, asking: &SummaryTask) -> Option<SummaryRequest> {
        if let Some(request) = &asking.appended {
            return Some(request.clone());
        }
        let measured = self.context.measured(self.context.summariser.as_ref()?, self.gauge);
        asking.job.as_ref().ok()?.request(asking.chunk, asking.prior.as_ref(), measured)
    }

    /// Estimated tokens of the next request.
    fn estimate(&self) -> Tokens {
        self.context.estimate(&self.log)
    }

    /// Weight of the next request in provider tokens.
    fn weigh(&self) -> Tokens {
        let real = self.gauge.real(self.estimate());
        self.most.map_or(real, |most| real.min(most))
    }

    fn is_over(&self) -> bool {
        self.line.is_some_and(|line| line.is_over(self.weigh()))
    }

    /// A user who asks for a compaction does not ask for shedding while the window is under the line.
    fn must_shed(&self) -> bool {
        self.is_over() && (self.context.policy.overflow.auto || self.context.trigger != Trigger::Auto)
    }

    /// Maximum weight of a request, in estimated tokens.
    fn room(&self) -> Tokens {
        self.gauge.estimate(self.line.map(Line::room).unwrap_or(self.context.limits.context))
    }

    /// Estimated tokens of a message of the log in the window.
    fn weight_of(&self, place: usize) -> Tokens {
        let window = Window::of(&self.log, &self.context.policy);
        let messages = window.messages.iter().filter(|message| message.place == Some(place));
        messages.map(|message| window_message_tokens(message, self.context.counter())).sum()
    }

    /// Estimated tokens over the line.
    fn excess(&self) -> Tokens {
        self.estimate() - self.room()
    }

    /// The text of an earlier summary without its index, which is carried over separately.
    fn prior_text(&self, pivot: Pivot) -> Text {
        Text::from(without_index(&pivot.text(&self.log)))
    }

    fn selection(&self, tail_cap: Option<Tokens>) -> Option<Selection> {
        match (tail_cap, Rules::of(&self.context.policy).filter(|_| self.pays)) {
            (None, Some(rules)) => {
                self.context.select_to_save(&self.log, self.estimate(), self.gauge, &rules)
            }
            _ => self.context.select(&self.log, self.estimate(), self.gauge, tail_cap),
        }
    }

    fn cut_message(
        &mut self,
        place: usize,
        budget: Tokens,
        reason: &str,
        ids: &mut Ids,
    ) -> Result<(), LogError> {
        let cut = self.cut_of_message(place, budget)?;
        self.shed(ShedPlan { cut, ..ShedPlan::default() }, reason, ids)
    }

    fn cut(&mut self, goal: &Goal, reason: &str, ids: &mut Ids) -> Result<(), LogError> {
        let (policy, counter) = (Arc::clone(&self.context.policy), Arc::clone(&self.context.counter));
        // The same choice as `context.counter()`, which would borrow the context while the log is changed.
        let counter: &dyn Counter = match policy.overflow.detector {
            Detector::Both => &*counter,
            Detector::Usage | Detector::Estimate => &policy.count,
        };
        let cut = shed::cut(&mut self.log, &policy, self.context.fixed, goal, counter)?;
        self.shed(ShedPlan { cut, ..ShedPlan::default() }, reason, ids)
    }

    fn shed(&mut self, plan: ShedPlan, reason: &str, ids: &mut Ids) -> Result<(), LogError> {
        if plan.is_empty() { Ok(()) } else { self.apply(Plan::Shed(plan), reason, ids) }
    }

    /// Applies a plan if that makes the window smaller.
    fn apply(&mut self, plan: Plan, reason: &str, ids: &mut Ids) -> Result<(), LogError> {
        let is = &self.context;
        let stamp = Stamp { ids, now: is.now, policy: &is.policy, reason };
        let receipt = plan.apply(&mut self.log, stamp, |log| is.estimate(log))?;
        self.receipts.extend(receipt.map(|receipt| receipt.on(self.scale)));
        Ok(())
    }

    fn outcome(&mut self) -> Outcome {
        let after = self.weigh();
        let asked = !matches!(self.context.trigger, Trigger::Auto | Trigger::Precompaction)
            || self.context.policy.overflow.auto;
        let over = self.line.is_some_and(|line| line.is_over(after)) && asked;
        // A climb that the detector did not call for has not failed if it ends over the line, unless the system
        // prompt and the tools exceed the line by themselves.
        let uncalled = !self.called;
        let alone = self.line.is_some_and(|line| line.is_over(self.gauge.real(self.context.fixed.total())));
        let verdict = if !over || (uncalled && !alone) {
            FitResult::Fits
        } else if alone || self.context.policy.shed.enabled {
            FitResult::TooHeavy(self.breakdown(after))
        } else {
            FitResult::StillOver
        };
        let appended = self.log[self.known..].iter().map(|message| {
            // Without their marks: committing the receipts sets these again.
            let parts = message.parts.iter().map(|part| Part { marks: Vec::new(), ..part.clone() }).collect();
            Message { parts, ..message.clone() }
        });
        let seen = self.known.checked_sub(1).map(|last| self.log[last].info.id.clone());
        Outcome {
            verdict,
            reduction: Reduction {
                appended: appended.collect(),
                receipts: std::mem::take(&mut self.receipts),
                seen,
                open: std::mem::take(&mut self.open),
            },
            rejections: std::mem::take(&mut self.rejections),
            usage: std::mem::take(&mut self.usage),
            before: self.before,
            after,
            line: self.line,
            breaker: self.context.breaker,
        }
    }
}

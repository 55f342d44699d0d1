//! Preparing the next request: weighing it, and climbing the ladder if it is too long.

use std::ops::Deref;
use std::sync::Arc;

use plimsoll::compact::{
    CompactionContext, FitResult, OverflowBreakdown, Rejection, Reply, SummaryForm, SummaryRequest, Trigger,
};
use plimsoll::{CachePlan, Limits, Line, Load, Receipt, Text, Tokens, Window};
use plimsoll_tokens::Measure;

use super::{AnswerWriter, Driver, Precompaction, Sent};
use crate::climb::{Climb, ClimbStep};
use crate::error::SessionError;
use crate::stop::StopFlag;

/// Smallest window that a rejection can imply. No model that can call tools has a smaller one.
const MIN_WINDOW: Tokens = Tokens(4_096);

/// Outcome of preparing a request: `R` is the request to send, `S` a summary that is needed first.
///
/// The enum is exhaustive on purpose: a host that ignored a new outcome would send nothing or the wrong thing.
#[derive(Debug)]
#[must_use]
pub enum Prepared<R, S> {
    /// The request fits and can be sent.
    Ready(R),
    /// The window is over the line. Ask the summariser, submit its reply, and prepare again.
    Summarise(S),
    /// No request can be made that fits.
    CannotFit {
        /// Breakdown of what takes the space.
        breakdown: Box<OverflowBreakdown>,
        /// Receipts of what was reduced nevertheless, oldest first.
        receipts: Vec<Receipt>,
    },
    /// The window is over the line, no summary was accepted, and the policy has no other way to reduce it. The history
    /// is unchanged. Preparing again asks for a summary again, unless the summariser has failed too often.
    NotSummarised {
        /// Why each summary was rejected, oldest first; never empty.
        rejections: Vec<Rejection>,
        /// Receipts of other reductions, oldest first.
        receipts: Vec<Receipt>,
    },
}

/// Outcome without references to the driver, for its thread to hand over.
pub(crate) type Next = Prepared<Box<Content>, Box<SummaryRequest>>;

impl<R, S> Prepared<R, S> {
    /// Maps the values of the outcome; `with` goes to the function that is called.
    pub(crate) fn map<T, R2, S2>(
        self,
        with: T,
        ready: impl FnOnce(T, R) -> R2,
        summarise: impl FnOnce(T, S) -> S2,
    ) -> Prepared<R2, S2> {
        match self {
            Prepared::Ready(content) => Prepared::Ready(ready(with, content)),
            Prepared::Summarise(request) => Prepared::Summarise(summarise(with, request)),
            Prepared::CannotFit { breakdown, receipts } => Prepared::CannotFit { breakdown, receipts },
            Prepared::NotSummarised { rejections, receipts } => {
                Prepared::NotSummarised { rejections, receipts }
            }
        }
    }
}

/// The content of a request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Content {
    /// The conversation.
    pub window: Window,
    /// How much of it the provider's cache holds, and where to set breakpoints.
    pub cache: CachePlan,
    /// Tokens of the request.
    pub load: Load,
    /// The line it is under, if the model's context window is known. Policies that follow a document may let it be
    /// over.
    pub line: Option<Line>,
    /// Tokens that are left for the answer.
    pub room: Tokens,
    /// Receipts of what was reduced for it, oldest first.
    pub receipts: Vec<Receipt>,
}

/// A request to send. It is answered or dropped; dropping it changes nothing.
#[derive(Debug)]
#[must_use = "a request is sent and answered, or dropped"]
pub struct Request<'d> {
    driver: &'d mut Driver,
    content: Box<Content>,
}

impl<'d> Request<'d> {
    /// Begins the answer to the request. `agent` is recorded as its author, if the host has several.
    pub fn begin_answer(self, agent: Option<&str>) -> Result<AnswerWriter<'d>, SessionError> {
        AnswerWriter::begin(self.driver, agent)
    }

    /// Records that the provider rejected the request as too long; see [`Driver::on_overflow`].
    pub fn on_overflow(self, window: Option<Tokens>) {
        self.driver.on_overflow(window);
    }

    /// Returns the content, for hosts that do not stream the answer: [`append_recorded`](Driver::append_recorded) takes
    /// it whole.
    pub fn into_content(self) -> Content {
        *self.content
    }
}

impl Deref for Request<'_> {
    type Target = Content;

    fn deref(&self) -> &Content {
        &self.content
    }
}

/// A summary that is needed before the next request. Dropping it changes nothing; preparing again returns it again.
#[derive(Debug)]
#[must_use = "a summary call is answered, timed out or dropped"]
pub struct SummaryCall<'d> {
    driver: &'d mut Driver,
    request: Box<SummaryRequest>,
}

impl SummaryCall<'_> {
    /// Submits the summariser's reply, or why there is none. Returns why the reply was rejected, if it was.
    pub fn answer(self, reply: Result<Reply, String>) -> Result<Option<Rejection>, SessionError> {
        self.driver.submit_summary(reply)
    }

    /// Stops waiting for the summariser; see [`time_out`](crate::SummaryCall::time_out).
    pub fn time_out(self) {
        self.driver.time_out_summary();
    }

    /// Returns the summary that can be extracted without a model.
    pub fn offline_summary(&self) -> Option<Text> {
        self.driver.offline_summary()
    }

    /// Where to set cache breakpoints in a request that is appended to the session's own window; `None` for a separate
    /// one.
    pub fn cache_plan(&self) -> Option<CachePlan> {
        self.driver.summary_cache_plan(&self.request)
    }
}

impl Deref for SummaryCall<'_> {
    type Target = SummaryRequest;

    fn deref(&self) -> &SummaryRequest {
        &self.request
    }
}

impl Driver {
    /// Prepares the next request: weighs the window, and climbs the ladder if it is over the line.
    pub fn prepare(&mut self) -> Result<Prepared<Request<'_>, SummaryCall<'_>>, SessionError> {
        let next = self.prepare_next(&StopFlag::default())?;
        let ready = |driver, content| Request { driver, content };
        Ok(next.map(self, ready, |driver, request| SummaryCall { driver, request }))
    }

    /// Prepares until another thread sets the flag. Then it fails with [`SessionError::Stopped`], and the session is
    /// unchanged. A climb obeys the flag with which it began, so callers pass the same one until it is over.
    pub(crate) fn prepare_next(&mut self, stop: &StopFlag) -> Result<Next, SessionError> {
        self.settle_answer()?;
        if self.climb.as_ref().is_some_and(Climb::is_stopped) {
            self.climb = None;
        }
        let prepared = self.with_stop_flag(stop, Driver::prepare_now);
        if matches!(prepared, Err(SessionError::Stopped)) {
            self.climb = None;
        }
        prepared
    }

    /// Does work that the flag stops.
    pub(crate) fn with_stop_flag<T>(&mut self, stop: &StopFlag, work: impl FnOnce(&mut Driver) -> T) -> T {
        self.stop = stop.clone();
        let done = work(self);
        self.stop = StopFlag::default();
        done
    }

    fn prepare_now(&mut self) -> Result<Next, SessionError> {
        let mut receipts = Vec::new();
        if self.climb.is_none() {
            let mut context = self.context(self.trigger);
            let (mut load, mut window) = context.load_and_window(&self.log);
            let is_stashed = matches!(self.precompaction, Precompaction::Stashed(_));
            let compacts = is_stashed && context.wants_compaction(&self.log, &load);
            // A prune that only saves money would make a stashed summary stale that is already paid for.
            let mut calls = context.wants_climb(&self.log, &load) && (!is_stashed || compacts);
            if compacts {
                self.keep_scale(&context, &load);
            }
            self.stop.check()?;
            if compacts && let Some(stashed) = self.take_stashed() {
                receipts = self.commit_stashed(stashed)?;
                if !receipts.is_empty() {
                    self.trigger = Trigger::Auto;
                    context = self.context(Trigger::Auto);
                    (load, window) = context.load_and_window(&self.log);
                    calls = context.wants_climb(&self.log, &load);
                }
            }
            self.stop.check()?;
            if !calls {
                return Ok(Prepared::Ready(Box::new(self.content(window, load, receipts))));
            }
            self.climb = Some(self.climb_from(context)?);
        }
        let Some(climb) = &mut self.climb else {
            return Err(SessionError::OutOfOrder("there is no climb to continue"));
        };
        match climb.step()? {
            ClimbStep::Ask(request) => Ok(Prepared::Summarise(request)),
            ClimbStep::Done(climbed) => {
                self.climb = None;
                let (verdict, rejections) =
                    (climbed.outcome.verdict.clone(), climbed.outcome.rejections.clone());
                let after = climbed.outcome.after;
                receipts.extend(self.commit(*climbed)?);
                // The reduction is committed: its figures must not be those of a stopped counter.
                self.stop = StopFlag::default();
                let trigger = std::mem::replace(&mut self.trigger, Trigger::Auto);
                let (load, window) = self.context(Trigger::Auto).load_and_window(&self.log);
                match verdict {
                    FitResult::TooHeavy(breakdown) => match self.trust_estimate(&load, trigger) {
                        Some(load) => Ok(Prepared::Ready(Box::new(self.content(window, load, receipts)))),
                        None => Ok(Prepared::CannotFit { breakdown: Box::new(breakdown), receipts }),
                    },
                    // A request over the line would go out as if nothing had happened.
                    FitResult::StillOver if !rejections.is_empty() => {
                        Ok(Prepared::NotSummarised { rejections, receipts })
                    }
                    FitResult::Fits | FitResult::StillOver => {
                        // The climb knew the usage that it has made stale, which leaves more room for the answer.
                        let load = Load { tokens: load.tokens.min(after), ..load };
                        Ok(Prepared::Ready(Box::new(self.content(window, load, receipts))))
                    }
                }
            }
        }
    }

    /// Whether only the size of the window determines what the next [`prepare`](Driver::prepare) does: nothing is
    /// stashed, rejected or under way.
    pub(super) fn is_at_rest(&self) -> bool {
        self.climb.is_none()
            && matches!(self.precompaction, Precompaction::None)
            && self.trigger == Trigger::Auto
    }

    /// Returns the estimated load if only the provider's figure says that a request does not fit. The figure belongs to
    /// a request that was answered, so either the figure is wrong or the window is larger than known. Sending the
    /// request lets the provider decide, and its next figure replaces this one. Without this, one wrong figure would
    /// end a session permanently, because no further request could correct it. After an overflow error the figure is
    /// trusted.
    fn trust_estimate(&self, load: &Load, trigger: Trigger) -> Option<Load> {
        let line = self.settings.policy.overflow.line(self.limits);
        let fits = trigger != Trigger::Refused && !line.is_some_and(|line| line.is_over(load.estimate));
        fits.then(|| Load { tokens: load.estimate, usage_of: None, ..load.clone() })
    }

    pub(crate) fn submit_summary(
        &mut self,
        reply: Result<Reply, String>,
    ) -> Result<Option<Rejection>, SessionError> {
        let Some(climb) = &mut self.climb else {
            // The climb was dropped because something else was reduced or undone. The summary was paid for, so its cost
            // is recorded.
            if let Ok(Reply { usage, cost, .. }) = reply {
                self.owed.add(usage, cost);
            }
            return Ok(None);
        };
        climb.answer(reply)
    }

    pub(crate) fn time_out_summary(&mut self) {
        if let Some(climb) = &mut self.climb {
            climb.time_out();
        }
    }

    pub(crate) fn offline_summary(&self) -> Option<Text> {
        self.climb.as_ref().and_then(Climb::offline)
    }

    /// Records that the provider rejected the last request as too long. The next [`prepare`](Driver::prepare) reduces
    /// whatever the figures say, and twice as much with every overflow in a row.
    ///
    /// `window` is the context window that the error names. If it names none and the model's limits are unknown, the
    /// size of the rejected request bounds the window.
    pub fn on_overflow(&mut self, window: Option<Tokens>) {
        let named = window.filter(|window| *window > Tokens::ZERO);
        let learned = named.or_else(|| {
            let is_known = self.settings.model.limits.is_some_and(|limits| limits.context > Tokens::ZERO);
            let load = self.context(Trigger::Auto).load(&self.log);
            // A rejected small request is more likely a fault of the provider than a sign of a window of that size.
            (!is_known && load.tokens >= MIN_WINDOW).then_some(load.tokens)
        });
        self.trigger = Trigger::Refused;
        self.refusals = self.refusals.saturating_add(1);
        self.climb = None;
        // A configured window that is smaller than the provider's stays in force.
        let is_smaller =
            |window: &Tokens| self.limits.context == Tokens::ZERO || *window < self.limits.context;
        if let Some(window) = learned.filter(is_smaller) {
            self.limits.context = window;
            self.limits.input = self.limits.input.filter(|input| *input <= window);
            if self.limits.output == Tokens::ZERO {
                // Policies reserve room for the longest answer of large models. In a small window that would be
                // everything: the line would be at zero, and no request could be made again.
                let usual = self.settings.policy.overflow.default_output;
                self.limits.output = usual.min(Tokens(window.0 / 4));
            }
        }
    }

    #[cfg(feature = "async")]
    pub(crate) fn is_over_line(&self) -> bool {
        let context = self.context(self.trigger);
        let load = context.load(&self.log);
        context.wants_compaction(&self.log, &load)
    }

    pub(super) fn context(&self, trigger: Trigger) -> CompactionContext {
        let now = self.now();
        let mut summariser = self.settings.summariser.clone();
        if let Some(own) = summariser.as_mut().filter(|summariser| summariser.model.is_none()) {
            // The session's own model, whose limits may have changed or been learned since. The host sets the maximum
            // length of a summary, up to the model's.
            let known =
                [own.limits.output, self.limits.output].into_iter().filter(|most| *most > Tokens::ZERO);
            own.limits = Limits { output: known.min().unwrap_or(Tokens::ZERO), ..self.limits };
        }
        let mut context = CompactionContext {
            summariser,
            fixed: self.overhead(),
            counter: self.counter(),
            trigger,
            refusals: self.refusals,
            hook: self.settings.hook.clone(),
            breaker: self.breaker,
            cache: Some(self.cache),
            believed: self.settings.believed,
            scale: self.scale,
            ..CompactionContext::new(Arc::clone(&self.settings.policy), self.limits, now)
        };
        if let Some(recorded) = &self.recorded {
            recorded.apply_to(&mut context);
        }
        if let (None, Some(reduced)) = (context.scale, &self.reduced) {
            context.scale = Some(reduced.scale(&context, &self.log));
        }
        context
    }

    pub(crate) fn summary_cache_plan(&self, request: &SummaryRequest) -> Option<CachePlan> {
        match &request.form {
            SummaryForm::Separate { .. } => None,
            SummaryForm::Appended { window, .. } => Some(self.cache_plan(window)),
        }
    }

    fn cache_plan(&self, window: &Window) -> CachePlan {
        let last = self.sent.as_ref().map(|sent| &sent.fingerprint);
        let (reserved, policy) = (self.settings.reserved_breakpoints, &self.settings.policy.cache);
        CachePlan::new(window, &self.log, last, reserved, policy)
    }

    fn content(&mut self, window: Window, load: Load, receipts: Vec<Receipt>) -> Content {
        let policy = &self.settings.policy;
        let cache = self.cache_plan(&window);
        let measure = self.meter.measure(&window);
        self.prepared = Some(Sent { fingerprint: cache.fingerprint.clone(), measure });
        let line = policy.overflow.line(self.limits);
        let left = self.limits.context - load.tokens;
        let longest = if self.limits.output == Tokens::ZERO {
            policy.overflow.default_output
        } else {
            self.limits.output
        };
        let room = if self.limits.context == Tokens::ZERO { longest } else { longest.min(left) };
        Content { window, cache, load, line, room, receipts }
    }

    /// Resets the count of overflow errors after the provider has accepted a request.
    pub(super) fn note_answered(&mut self) {
        self.refusals = 0;
    }

    /// Records that the prepared request was sent: its window is what the provider's cache holds now.
    pub(super) fn note_sent(&mut self) -> Option<Measure> {
        self.note_answered();
        // Only now, so that the request did not wait for it.
        self.counts.settle(self.archive.store(), &self.lease.session);
        let sent = self.prepared.take()?;
        let measure = sent.measure;
        self.sent = Some(sent);
        Some(measure)
    }
}

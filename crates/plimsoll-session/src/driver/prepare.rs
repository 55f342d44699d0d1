//! Preparing the next request: weighing it, and climbing the ladder if it is too long.

use std::sync::Arc;

use plimsoll::compact::accept::{Rejection, Reply};
use plimsoll::compact::ladder::{Burden, Situation, Trigger, Verdict};
use plimsoll::compact::request::SummaryRequest;
use plimsoll::{CachePlan, Fixed, Limits, Line, Load, Receipt, Tokens, Window};

use super::{Driver, Early, Sent};
use crate::climb::{Climb, ClimbStep};
use crate::error::SessionError;
use crate::meter::Weighed;
use crate::stop::StopFlag;

/// No model that can call tools has a smaller window than this.
const LEAST_WINDOW: Tokens = Tokens(4_096);

/// What the host does next.
#[derive(Clone, Debug)]
pub enum Prepared {
    /// Send this.
    Ready(Box<Content>),
    /// Ask the summariser, give [`Driver::summarised`] what it says, and prepare again.
    Summarise(Box<SummaryRequest>),
    /// No request can be made that fits.
    CannotFit {
        /// What takes the room.
        burden: Box<Burden>,
        /// What was reduced all the same, oldest first.
        receipts: Vec<Receipt>,
    },
    /// The window is over the line, no summary was taken, and the policy has no other way to reduce it. The history is
    /// unchanged. Preparing again asks for a summary again, unless the summariser has failed too often.
    NotSummarised {
        /// Why each summary was rejected, oldest first; never empty.
        rejections: Vec<Rejection>,
        /// Receipts of other reductions, oldest first.
        receipts: Vec<Receipt>,
    },
}

/// The content of the next request.
#[derive(Clone, Debug)]
pub struct Content {
    /// The conversation.
    pub window: Window,
    /// What of it the provider's cache holds, and where to set breakpoints.
    pub cache: CachePlan,
    /// What the request weighs.
    pub load: Load,
    /// The line it is under, if the model's window is known. Policies that follow a document may let it be over.
    pub line: Option<Line>,
    /// The longest answer that has room beside it.
    pub room: Tokens,
    /// What was reduced to get here, oldest first.
    pub receipts: Vec<Receipt>,
}

impl Driver {
    /// Get the next request ready: weigh it, climb the ladder where the policy wants it, and give its content.
    ///
    /// `fixed` is what the request carries besides the conversation, counted by [`counter`](Driver::counter).
    pub fn prepare(&mut self, fixed: Fixed) -> Result<Prepared, SessionError> {
        self.prepare_unless(&StopFlag::default(), |_| fixed)
    }

    /// Like [`prepare`](Driver::prepare), until a flag is set: then it fails with [`SessionError::Stopped`], and the session
    /// is as it was.
    pub fn prepare_unless(
        &mut self,
        stop: &StopFlag,
        fixed: impl FnOnce(&Driver) -> Fixed,
    ) -> Result<Prepared, SessionError> {
        self.stop = stop.clone();
        let fixed = fixed(self);
        let prepared = self.prepare_now(fixed);
        self.stop = StopFlag::default();
        if matches!(prepared, Err(SessionError::Stopped)) {
            self.climb = None;
        }
        prepared
    }

    fn prepare_now(&mut self, fixed: Fixed) -> Result<Prepared, SessionError> {
        let mut receipts = Vec::new();
        if self.climb.is_none() {
            let mut situation = self.situation(fixed, self.trigger);
            let (mut load, mut window) = situation.load_and_window(&self.log);
            let is_held = matches!(self.early, Early::Held(_));
            let compacts = is_held && situation.wants_compaction(&self.log, &load);
            // A prune that only saves money would make a summary useless that is paid for.
            let mut calls = situation.wants_climb(&self.log, &load) && (!is_held || compacts);
            self.stop.check()?;
            if compacts && let Some(held) = self.take_held() {
                self.keep_scale(&situation, &load);
                receipts = self.commit_held(held)?;
                if !receipts.is_empty() {
                    self.trigger = Trigger::Auto;
                    situation = self.situation(fixed, Trigger::Auto);
                    (load, window) = situation.load_and_window(&self.log);
                    calls = situation.wants_climb(&self.log, &load);
                }
            }
            self.stop.check()?;
            if !calls {
                return Ok(Prepared::Ready(Box::new(self.content(window, load, receipts))));
            }
            self.climb = Some(self.climb_from(situation));
        }
        let Some(climb) = &mut self.climb else {
            return Err(SessionError::OutOfOrder("there is no climb to go on with"));
        };
        climb.stop_on(self.stop.clone());
        match climb.step()? {
            ClimbStep::Ask(request) => Ok(Prepared::Summarise(request)),
            ClimbStep::Done(climbed) => {
                self.climb = None;
                let (verdict, rejections) =
                    (climbed.outcome.verdict.clone(), climbed.outcome.rejections.clone());
                let after = climbed.outcome.after;
                receipts.extend(self.commit(*climbed)?);
                let trigger = std::mem::replace(&mut self.trigger, Trigger::Auto);
                let (load, window) = self.situation(fixed, Trigger::Auto).load_and_window(&self.log);
                match verdict {
                    Verdict::TooHeavy(burden) => match self.believe_estimate(&load, trigger) {
                        Some(load) => Ok(Prepared::Ready(Box::new(self.content(window, load, receipts)))),
                        None => Ok(Prepared::CannotFit { burden: Box::new(burden), receipts }),
                    },
                    // A request over the line would go out as if nothing had happened.
                    Verdict::StillOver if !rejections.is_empty() => {
                        Ok(Prepared::NotSummarised { rejections, receipts })
                    }
                    Verdict::Fits | Verdict::StillOver => {
                        // The climb knew the usage that it has made stale, which leaves more room for the answer.
                        let load = Load { tokens: load.tokens.min(after), ..load };
                        Ok(Prepared::Ready(Box::new(self.content(window, load, receipts))))
                    }
                }
            }
        }
    }

    /// Whether nothing but the weight of the window decides what the next [`prepare`](Driver::prepare) does.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.climb.is_none() && matches!(self.early, Early::None) && self.trigger == Trigger::Auto
    }

    /// The load by the estimate alone, if only a provider's figure says that a request does not fit. A figure is of a
    /// request that was answered, so it is wrong, or the window is larger than is known; either way the provider decides,
    /// and its next figure takes the place of this one. Without this, one wrong figure would end a session for good: no
    /// request would ever be made again that could correct it. A provider that has refused is believed.
    fn believe_estimate(&self, load: &Load, trigger: Trigger) -> Option<Load> {
        let line = self.settings.policy.overflow.line(self.limits);
        let fits = trigger != Trigger::Refused && !line.is_some_and(|line| line.is_over(load.estimate));
        fits.then(|| Load { tokens: load.estimate, usage_of: None, ..load.clone() })
    }

    /// Hand in what the summariser said to the request of [`Prepared::Summarise`], or why it said nothing.
    pub fn summarised(&mut self, reply: Result<Reply, String>) -> Result<(), SessionError> {
        match &mut self.climb {
            Some(climb) => climb.answer(reply),
            None => Err(SessionError::OutOfOrder("a summary was handed in that nobody asked for")),
        }
    }

    /// Stops waiting for the summariser: the compaction has taken as long as the policy's `compact.maxSeconds` allows. The
    /// next [`prepare`](Driver::prepare) goes on without a model.
    pub fn time_out_summary(&mut self) {
        if let Some(climb) = &mut self.climb {
            climb.time_out();
        }
    }

    /// Answers of the summariser that were rejected in the climb under way.
    pub fn rejections(&self) -> &[Rejection] {
        self.climb.as_ref().map(Climb::rejections).unwrap_or_default()
    }

    /// The summary that can be made without a model of what is being asked for.
    pub fn offline_summary(&self) -> Option<plimsoll::Text> {
        self.climb.as_ref().and_then(Climb::offline)
    }

    /// The provider refused the last request as too long. The next [`prepare`](Driver::prepare) reduces whatever the
    /// figures say, and twice as much with every refusal in a row; `window` is the context window that the refusal names, if it does. Where it does not and no table knows
    /// the model, what was refused bounds the window.
    pub fn refused(&mut self, window: Option<Tokens>, fixed: Fixed) {
        let named = window.filter(|window| *window > Tokens::ZERO);
        let learned = named.or_else(|| {
            let is_known = self.settings.limits.is_some_and(|limits| limits.context > Tokens::ZERO);
            let load = self.situation(fixed, Trigger::Auto).load(&self.log);
            // A refusal of a small request is more likely a fault of the provider's than a window of that size.
            (!is_known && load.tokens >= LEAST_WINDOW).then_some(load.tokens)
        });
        self.trigger = Trigger::Refused;
        self.refusals = self.refusals.saturating_add(1);
        self.climb = None;
        // A smaller window than the provider's was configured, and holds.
        let is_smaller =
            |window: &Tokens| self.limits.context == Tokens::ZERO || *window < self.limits.context;
        if let Some(window) = learned.filter(is_smaller) {
            self.limits.context = window;
            self.limits.input = self.limits.input.filter(|input| *input <= window);
            if self.limits.output == Tokens::ZERO {
                // Policies keep room for an answer as long as large models give. In a small window that is all of it,
                // the line is at zero, and no request would ever be made again.
                let usual = self.settings.policy.overflow.default_output;
                self.limits.output = usual.min(Tokens(window.0 / 4));
            }
        }
    }

    /// Whether [`prepare`](Driver::prepare) would compact before the next request.
    pub fn is_over_line(&self, fixed: Fixed) -> bool {
        let situation = self.situation(fixed, self.trigger);
        let load = situation.load(&self.log);
        situation.wants_compaction(&self.log, &load)
    }

    pub(crate) fn situation(&self, fixed: Fixed, trigger: Trigger) -> Situation {
        let now = self.now();
        let mut summariser = self.settings.summariser.clone();
        if let Some(own) = summariser.as_mut().filter(|summariser| summariser.model.is_none()) {
            // The session's own model, whose limits may have changed or been learned since. How long a summary may be is
            // the host's to say, as far as the model can.
            let known =
                [own.limits.output, self.limits.output].into_iter().filter(|most| *most > Tokens::ZERO);
            own.limits = Limits { output: known.min().unwrap_or(Tokens::ZERO), ..self.limits };
        }
        let mut situation = Situation {
            summariser,
            fixed,
            counter: self.counter(),
            trigger,
            refusals: self.refusals,
            hook: self.settings.hook.clone(),
            breaker: self.breaker,
            cache: Some(self.cache),
            believed: self.settings.believed,
            scale: self.scale,
            ..Situation::new(Arc::clone(&self.settings.policy), self.limits, now)
        };
        if let Some(recorded) = &self.recorded {
            recorded.weigh_in(&mut situation);
        }
        if let (None, Some(reduced)) = (situation.scale, &self.reduced) {
            situation.scale = Some(reduced.scale(&situation, &self.log));
        }
        situation
    }

    /// What of a window the provider's cache holds, and where to set breakpoints; for a summary request that is appended
    /// to the window as it was last sent.
    pub fn cache_plan(&self, window: &Window) -> CachePlan {
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

    /// The provider has taken a request: the next refusal is the first again.
    pub(crate) fn note_answered(&mut self) {
        self.refusals = 0;
    }

    /// The request that was prepared is being answered: that is what the provider's cache holds now.
    pub(crate) fn note_sent(&mut self) -> Option<Weighed> {
        self.note_answered();
        // Not before the request, which must not wait for it.
        self.counts.settle(self.archive.store(), &self.lease.session);
        let sent = self.prepared.take()?;
        let measure = sent.measure;
        self.sent = Some(sent);
        Some(measure)
    }
}

//! Input of a climb.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::request::{HookText, Measured, Summariser, SummaryJob, asked_length};
use super::select::{Room, Selection, select};
use crate::count::{RequestOverhead, request_tokens};
use crate::counter::Counter;
use crate::gauge::{Gauge, Scale};
use crate::limits::Limits;
use crate::line::Line;
use crate::load::{Load, UsageTrust};
use crate::log::{Message, Millis, Part, PartBody};
use crate::pivot::VisibleRange;
use crate::plan::{CompactPlan, SummaryOrigin};
use crate::policy::{Detector, Policy, RequestForm, Scope};
use crate::prune::{self, Pressure, PrunePlan};
use crate::purse::{CacheTerms, Purse};
use crate::thrift::{self, Account, Compaction, Rules};
use crate::tokens::Tokens;
use crate::window::Window;

/// Everything a climb depends on besides the log.
#[derive(Clone)]
pub struct CompactionContext {
    /// The policy.
    pub policy: Arc<Policy>,
    /// Limits of the session's model.
    pub limits: Limits,
    /// The summariser. `None` if there is none.
    pub summariser: Option<Summariser>,
    /// Tokens of each request in addition to the window.
    pub fixed: RequestOverhead,
    /// Token counter. Not used by policies that follow a document which defines how tokens are counted.
    pub counter: Arc<dyn Counter>,
    /// Reason for the climb.
    pub trigger: Trigger,
    /// Number of rejections by the provider in a row, including this one, if the trigger is [`Trigger::Refused`].
    pub refusals: u32,
    /// Text that hooks add to the summary request.
    pub hook: HookText,
    /// State of the circuit breaker in this session.
    pub breaker: Breaker,
    /// Prices and lifetime of the provider's cache. `None` if unknown.
    pub cache: Option<CacheTerms>,
    /// Which recorded usage to trust.
    pub believed: UsageTrust,
    /// Scale of the newest usage, if a reduction has made that usage stale. Figures shown to users stay on this scale.
    pub scale: Option<Scale>,
    /// Current time.
    pub now: Millis,
}

/// Copies a borrowed policy, because a context may outlive it.
impl From<&Policy> for Arc<Policy> {
    fn from(policy: &Policy) -> Arc<Policy> {
        Arc::new(policy.clone())
    }
}

impl CompactionContext {
    /// Creates a context for an automatic climb, without a summariser and with the policy's estimate of tokens (a
    /// quarter of the characters by default). Set the public fields for anything else.
    pub fn new(policy: impl Into<Arc<Policy>>, limits: Limits, now: Millis) -> CompactionContext {
        let policy = policy.into();
        CompactionContext {
            limits,
            now,
            counter: Arc::new(policy.count),
            policy,
            summariser: None,
            fixed: RequestOverhead::default(),
            trigger: Trigger::Auto,
            refusals: 0,
            hook: HookText::default(),
            breaker: Breaker::default(),
            cache: None,
            believed: UsageTrust::Any,
            scale: None,
        }
    }

    /// Plans a compaction without making it. `None` if there is too little to summarise.
    pub fn plan_compaction(&self, messages: &[Message]) -> Option<CompactPlan> {
        let load = self.load(messages);
        let gauge = self.gauge(&load);
        let selection = self.select(messages, load.estimate, gauge, None)?;
        let head = selection.head.iter().map(|place| &messages[*place]);
        let job = self.summariser.as_ref().map(|summariser| {
            SummaryJob::new(head, &self.hook, &self.policy, self.measured(summariser, gauge))
        });
        let (made, calls) = match job {
            Some(Ok(job)) => (SummaryOrigin::ByModel, job.chunks() as u64),
            Some(Err(_)) | None if self.policy.compact.extractive => (SummaryOrigin::WithoutModel, 0),
            Some(Err(_)) | None => return None,
        };
        selection.plan(messages, made, calls)
    }

    /// Weighs the next request and returns whether a climb would change it: because of the trigger, because the
    /// policy's detector sees the window over the line, or because the policy reduces the window before that.
    pub fn weigh(&self, messages: &[Message]) -> (Load, bool) {
        let load = self.load(messages);
        let calls = self.wants_climb(messages, &load);
        (load, calls)
    }

    /// Whether a climb would change a request that weighs `load`; see [`weigh`](Self::weigh).
    pub fn wants_climb(&self, messages: &[Message], load: &Load) -> bool {
        match self.trigger {
            Trigger::Manual | Trigger::Refused => true,
            Trigger::Auto | Trigger::Precompaction if !self.policy.overflow.auto => false,
            Trigger::Auto | Trigger::Precompaction => {
                self.calls_for_help(messages, load)
                    || self.prunes_early(messages, load)
                    || !self.plan_thrift(messages, load).items.is_empty()
                    || self.compaction_pays(messages, load)
            }
        }
    }

    /// Whether the policy prunes under the line by its own gates, and there is something to clear.
    fn prunes_early(&self, messages: &[Message], load: &Load) -> bool {
        if !self.policy.prune.is_gated() {
            return false;
        }
        let pressure = Pressure { load: self.gauge(load).real(load.estimate), limits: self.limits };
        !self.plan_prune(messages, pressure).items.is_empty()
    }

    /// Plans a prune by the policy's rules.
    pub(super) fn plan_prune(&self, messages: &[Message], pressure: Pressure) -> PrunePlan {
        prune::plan_until(messages, &self.policy, Some(pressure), &|| self.counter.is_stopped())
    }

    /// Plans the clearing that would save money before the next request.
    pub fn plan_saving(&self, messages: &[Message]) -> PrunePlan {
        let mut plan = self.plan_thrift(messages, &self.load(messages));
        prune::keep_names(&mut plan, messages, &self.policy, &|| self.counter.is_stopped());
        plan
    }

    /// Like [`plan_saving`](Self::plan_saving), without names. Empty unless the trigger is [`Trigger::Auto`].
    pub(super) fn plan_thrift(&self, messages: &[Message], load: &Load) -> PrunePlan {
        match self.trigger {
            Trigger::Auto => thrift::plan(&self.account(messages, &VisibleRange::of(messages), load)),
            Trigger::Precompaction | Trigger::Manual | Trigger::Refused => PrunePlan::default(),
        }
    }

    /// Savings of this session's reductions so far, minus their costs.
    pub fn purse(&self, messages: &[Message]) -> Purse {
        self.account(messages, &VisibleRange::of(messages), &self.load(messages)).purse()
    }

    pub(super) fn account<'a>(
        &'a self,
        messages: &'a [Message],
        visible: &'a VisibleRange,
        load: &Load,
    ) -> Account<'a> {
        Account {
            messages,
            visible,
            policy: &self.policy,
            terms: self.cache.unwrap_or_else(|| CacheTerms::assumed(&self.policy.cache)),
            load: load.tokens,
            context: self.limits.context,
            factor: self.gauge(load).factor(),
            now: self.now,
        }
    }

    /// Whether a compaction under the line saves money and the purse can pay for it.
    pub(super) fn compaction_pays(&self, messages: &[Message], load: &Load) -> bool {
        let (Trigger::Auto, Some(rules), Some(line)) = (self.trigger, Rules::of(&self.policy), self.line())
        else {
            return false;
        };
        // Checked first, because everything below reads the whole window.
        if load.tokens <= line.at.share(rules.compact_share) {
            return false;
        }
        // Summaries without a model are only for windows over the line: they contain less and save the same.
        let summariser = self.summariser.as_ref();
        let Some(summariser) = summariser.filter(|_| self.breaker.failures < self.policy.compact.breaker)
        else {
            return false;
        };
        let gauge = self.gauge(load);
        let Some(selection) = self.select_to_save(messages, load.estimate, gauge, &rules) else {
            return false;
        };
        let is_output = |part: &&Part| matches!(part.body, PartBody::Tool(_) | PartBody::ToolResult(_));
        let head = selection.head.iter().flat_map(|place| &messages[*place].parts);
        let compaction = Compaction {
            fixed: self.fixed.total(),
            head: gauge.real(selection.head_tokens).min(load.tokens),
            outputs: head.filter(is_output).count(),
            summary: gauge.real(self.summary_tokens()),
            completed: gauge.real(self.completed_tokens()),
            is_appended: summariser.model.is_none() && self.policy.compact.request == RequestForm::Appended,
        };
        compaction.pays(&self.account(messages, &VisibleRange::of(messages), load), &rules)
    }

    /// Selects messages for a compaction that saves money. `None` if the current turn would have to be summarised.
    pub(super) fn select_to_save(
        &self,
        messages: &[Message],
        load: Tokens,
        gauge: Gauge,
        rules: &Rules,
    ) -> Option<Selection> {
        let room = Room { tail_max: rules.tail, ..self.room(load, gauge) };
        let selection = select(messages, &self.policy, room, self.counter())?;
        let keeps_turn = || {
            let prompt = VisibleRange::of(messages).newest_prompt(messages);
            prompt.is_none_or(|prompt| selection.tail.first().is_some_and(|first| *first <= prompt))
        };
        (!rules.keeps_turn || keeps_turn()).then_some(selection)
    }

    /// Estimated tokens of a summary.
    pub(super) fn summary_tokens(&self) -> Tokens {
        let line = self.line().map(Line::room).unwrap_or(self.limits.context);
        match &self.summariser {
            Some(summariser) => asked_length(&self.policy, self.limits, summariser.limits),
            None => self.policy.compact.summary_budget(self.limits.context, line),
        }
    }

    /// Maximum estimated tokens that the contract and the index add to a summary.
    fn completed_tokens(&self) -> Tokens {
        let line = self.line().map(Line::room).unwrap_or(self.limits.context);
        self.policy.contract.budget(line) + self.policy.names.index_room(line)
    }

    /// Whether a compaction is due before the next request, because the window is over the line or because it saves
    /// money.
    pub fn wants_compaction(&self, messages: &[Message], load: &Load) -> bool {
        let is_automatic = matches!(self.trigger, Trigger::Auto | Trigger::Precompaction);
        let is_off = is_automatic && !self.policy.overflow.auto;
        !is_off && (self.calls_for_help(messages, load) || self.compaction_pays(messages, load))
    }

    /// Whether a compaction that is prepared now costs no more than one at the line.
    ///
    /// Three conditions. The request is appended to the window of the session's own model, which then reads from a warm
    /// cache; at the line it would read more, and write all of it if the cache has expired. What is added until the
    /// line fits into the tail, so the window becomes no longer than after a compaction at the line. And a prune at the
    /// line would not be enough; otherwise the summary would not be needed.
    pub fn is_free_ahead(&self, messages: &[Message]) -> bool {
        let compact = &self.policy.compact;
        let is_own = self.summariser.as_ref().is_some_and(|summariser| summariser.model.is_none());
        let (true, Some(line)) = (is_own, self.policy.overflow.line(self.limits)) else { return false };
        if compact.request != RequestForm::Appended || compact.scope != Scope::Tail {
            return false;
        }
        let load = self.load(messages);
        let pressure = Pressure { load: self.gauge(&load).real(load.estimate), limits: self.limits };
        (line.at - load.tokens) + compact.tail_min <= compact.tail_budget(line.room())
            && self.plan_prune(messages, pressure).items.is_empty()
    }

    /// Returns the longest tail of a compaction that is prepared ahead of the line. Messages that arrive before the
    /// line become part of the tail, so room is reserved for them.
    fn tail_ahead(&self, load: Tokens, gauge: Gauge) -> Option<Tokens> {
        let line =
            self.policy.overflow.line(self.limits).filter(|_| self.trigger == Trigger::Precompaction)?;
        let line = gauge.estimate(line.room());
        let compact = &self.policy.compact;
        Some((compact.tail_budget(line) - (line - load)).max(compact.tail_min))
    }

    /// The counter for this policy. A policy that follows a document counts as the document says.
    pub fn counter(&self) -> &dyn Counter {
        match self.policy.overflow.detector {
            Detector::Both => &*self.counter,
            Detector::Usage | Detector::Estimate => &self.policy.count,
        }
    }

    /// Returns how the summariser's requests are measured.
    pub(super) fn measured<'s>(&'s self, summariser: &'s Summariser, gauge: Gauge) -> Measured<'s> {
        let counter = summariser.counter.as_deref().unwrap_or_else(|| self.counter());
        let factor = summariser.factor.unwrap_or_else(|| gauge.factor()).max(1.0);
        Measured { limits: summariser.limits, counter, factor }
    }

    /// The line for this climb: the soft line for a compaction that is prepared ahead, else the line.
    pub(super) fn line(&self) -> Option<Line> {
        let overflow = &self.policy.overflow;
        match self.trigger {
            Trigger::Precompaction => overflow.soft_line(self.limits),
            Trigger::Auto | Trigger::Manual | Trigger::Refused => overflow.line(self.limits),
        }
    }

    /// Whether the policy's detector sees the window over the line.
    pub(super) fn calls_for_help(&self, messages: &[Message], load: &Load) -> bool {
        let overflow = &self.policy.overflow;
        let line = self.line();
        match (self.trigger, overflow.detector) {
            (Trigger::Refused, _) => true,
            (_, Detector::Estimate) => line.is_some_and(|line| line.is_over(load.estimate)),
            (_, Detector::Both) => line.is_some_and(|line| line.is_over(load.tokens)),
            (_, Detector::Usage) => {
                let used = load.usage_of.as_ref();
                let used = used.and_then(|id| messages.iter().rfind(|message| &message.info.id == id));
                let usage = used.and_then(|message| message.info.tokens.as_ref());
                let used = usage.filter(|_| overflow.auto).map(|usage| overflow.load(usage));
                used.is_some_and(|used| line.is_some_and(|line| line.is_over(used)))
            }
        }
    }

    /// Weighs the next request.
    pub fn load(&self, messages: &[Message]) -> Load {
        self.load_and_window(messages).0
    }

    /// Weighs the next request and returns its window too.
    pub fn load_and_window(&self, messages: &[Message]) -> (Load, Window) {
        Load::with_window(self.believed, messages, &self.policy, self.fixed, self.counter())
    }

    /// Returns the scale for figures that users see about these messages, whose next request weighs `load`.
    pub fn scale(&self, load: &Load, messages: &[Message]) -> Scale {
        let overflow = &self.policy.overflow;
        let line = || overflow.line(self.limits).map(|line| line.at).unwrap_or(self.limits.context);
        match (overflow.detector, &load.usage_of, self.scale) {
            (Detector::Estimate, ..) => Scale::ESTIMATES,
            (_, None, Some(kept)) => kept,
            // The usage is stale without a kept scale, for example because another process reduced the session.
            (_, None, None) => {
                let (policy, counter) = (&self.policy, self.counter());
                let before = Load::before_reductions(self.believed, messages, policy, self.fixed, counter);
                Scale::of(before.as_ref().unwrap_or(load), line(), overflow)
            }
            (_, Some(_), _) => Scale::of(load, line(), overflow),
        }
    }

    /// Estimated tokens of the next request.
    pub fn estimate(&self, messages: &[Message]) -> Tokens {
        request_tokens(&Window::of(messages, &self.policy), self.fixed, self.counter())
    }

    /// Returns the conversion between estimates and provider tokens in this session.
    pub(super) fn gauge(&self, load: &Load) -> Gauge {
        let overflow = &self.policy.overflow;
        let line = overflow.line(self.limits).map(|line| line.at).unwrap_or(self.limits.context);
        let gauge = match overflow.detector {
            Detector::Estimate => Gauge::EXACT,
            Detector::Usage | Detector::Both => Gauge::of(load, line, overflow),
        };
        match self.trigger {
            // The provider rejected the request, so it was over the line, whatever the estimate.
            Trigger::Refused => {
                let margin = overflow.margin_of(self.refusals);
                // One more, because a request exactly on the line may count as under it.
                gauge.at_least(load.estimate, line + line.share(margin) + Tokens(1))
            }
            Trigger::Auto | Trigger::Precompaction | Trigger::Manual => gauge,
        }
    }

    /// Selects messages in a window whose estimate is `load`. All figures are converted to estimated tokens.
    pub(super) fn select(
        &self,
        messages: &[Message],
        load: Tokens,
        gauge: Gauge,
        tail_cap: Option<Tokens>,
    ) -> Option<Selection> {
        select(messages, &self.policy, Room { tail_cap, ..self.room(load, gauge) }, self.counter())
    }

    fn room(&self, load: Tokens, gauge: Gauge) -> Room {
        let line = self.line().map(Line::room).unwrap_or(self.limits.context);
        Room {
            load,
            line: gauge.estimate(line),
            context: gauge.estimate(self.limits.context),
            tail_cap: None,
            tail_max: self.tail_ahead(load, gauge),
            besides: self.fixed.total() + self.summary_tokens() + self.completed_tokens(),
            asked: self.trigger == Trigger::Manual,
        }
    }
}

/// Reason for a climb.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Trigger {
    /// Automatic check before a request.
    #[default]
    Auto,
    /// Prepare a compaction while the window is between the soft line and the line.
    Precompaction,
    /// The user asked for a compaction.
    Manual,
    /// The provider rejected the request as too long.
    Refused,
}

/// Circuit breaker for a summariser that keeps failing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Breaker {
    /// Failures since the last success.
    pub failures: u32,
}

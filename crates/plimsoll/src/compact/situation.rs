//! What the ladder has to know before it is climbed.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::request::{HookText, Measured, Summariser, SummaryJob, asked_length};
use super::select::{Room, Selection, select};
use crate::count::{Counter, Fixed, Tokens, request_tokens};
use crate::gauge::{Gauge, Scale};
use crate::limits::{Limits, Line};
use crate::load::{BelievedUsage, Load};
use crate::log::{Message, Millis, Part, PartBody};
use crate::pivot::Visible;
use crate::policy::{Detector, Policy, RequestForm, Scope};
use crate::prune::{self, Pressure, PrunePlan};
use crate::purse::{CacheTerms, Purse};
use crate::receipt::{CompactPlan, Made};
use crate::thrift::{self, Account, Compaction, Rules};
use crate::window::Window;

/// Everything the ladder has to know.
#[derive(Clone)]
pub struct Situation {
    /// The numbers and choices.
    pub policy: Arc<Policy>,
    /// Limits of the session's model.
    pub limits: Limits,
    /// Who summarises; none if there is nobody to ask.
    pub summariser: Option<Summariser>,
    /// What every request carries besides the window.
    pub fixed: Fixed,
    /// Who counts. Policies whose documents fix how tokens are counted do not ask it.
    pub counter: Arc<dyn Counter>,
    /// Why the ladder is climbed.
    pub trigger: Trigger,
    /// How often the provider has refused in a row, this time among them, where that is why.
    pub refusals: u32,
    /// What hooks add to the summary request.
    pub hook: HookText,
    /// How the summariser has done so far in this session.
    pub breaker: Breaker,
    /// What the provider's cache costs and how long it lives; none where the host does not know.
    pub cache: Option<CacheTerms>,
    /// Whose usage figures are believed.
    pub believed: BelievedUsage,
    /// The scale of the newest usage, if that was made stale by a reduction; figures that people read stay on it.
    pub scale: Option<Scale>,
    /// The time.
    pub now: Millis,
}

/// A policy that is only borrowed is copied: a situation outlives whoever made it.
impl From<&Policy> for Arc<Policy> {
    fn from(policy: &Policy) -> Arc<Policy> {
        Arc::new(policy.clone())
    }
}

impl Situation {
    /// The ordinary case: see whether a session is over the line of its model. There is no summariser, and
    /// characters over four are counted, unless the caller says otherwise.
    pub fn new(policy: impl Into<Arc<Policy>>, limits: Limits, now: Millis) -> Situation {
        let policy = policy.into();
        Situation {
            limits,
            now,
            counter: Arc::new(policy.count),
            policy,
            summariser: None,
            fixed: Fixed::default(),
            trigger: Trigger::Auto,
            refusals: 0,
            hook: HookText::default(),
            breaker: Breaker::default(),
            cache: None,
            believed: BelievedUsage::Any,
            scale: None,
        }
    }

    /// What a compaction would do now, without doing it; nothing if there is too little to summarise.
    pub fn plan_compaction(&self, messages: &[Message]) -> Option<CompactPlan> {
        let load = self.load(messages);
        let gauge = self.gauge(&load);
        let selection = self.select(messages, load.estimate, gauge, None)?;
        let head = selection.head.iter().map(|place| &messages[*place]);
        let job = self.summariser.as_ref().map(|summariser| {
            SummaryJob::new(head, &self.hook, &self.policy, self.measured(summariser, gauge))
        });
        let (made, calls) = match job {
            Some(Ok(job)) => (Made::ByModel, job.chunks() as u64),
            Some(Err(_)) | None if self.policy.compact.extractive => (Made::WithoutModel, 0),
            Some(Err(_)) | None => return None,
        };
        selection.plan(messages, made, calls)
    }

    /// Weigh the next request, and say whether a climb would do anything about it: because of what triggered it, because
    /// the policy's detector sees the window over the line, or because the policy prunes before that.
    pub fn weigh(&self, messages: &[Message]) -> (Load, bool) {
        let load = self.load(messages);
        let calls = self.wants_climb(messages, &load);
        (load, calls)
    }

    /// Whether a climb would do anything about a request that weighs `load`, as [`weigh`](Self::weigh) says.
    pub fn wants_climb(&self, messages: &[Message], load: &Load) -> bool {
        match self.trigger {
            Trigger::Manual | Trigger::Refused => true,
            Trigger::Auto | Trigger::Early if !self.policy.overflow.auto => false,
            Trigger::Auto | Trigger::Early => {
                self.calls_for_help(messages, load)
                    || self.prunes_early(messages, load)
                    || !self.plan_thrift(messages, load).items.is_empty()
                    || self.compaction_pays(messages, load)
            }
        }
    }

    /// Whether the policy has gates of its own for pruning, and they are open for something to clear.
    fn prunes_early(&self, messages: &[Message], load: &Load) -> bool {
        if !self.policy.prune.is_gated() {
            return false;
        }
        let pressure = Pressure { load: self.gauge(load).real(load.estimate), limits: self.limits };
        !prune::plan(messages, &self.policy, Some(pressure)).items.is_empty()
    }

    /// Plans what would be cleared before the next request to save money.
    pub fn plan_saving(&self, messages: &[Message]) -> PrunePlan {
        let mut plan = self.plan_thrift(messages, &self.load(messages));
        prune::keep_names(&mut plan, messages, &self.policy);
        plan
    }

    /// Like [`plan_saving`](Self::plan_saving), without names. Nothing of it is prepared ahead.
    pub(super) fn plan_thrift(&self, messages: &[Message], load: &Load) -> PrunePlan {
        match self.trigger {
            Trigger::Auto => thrift::plan(&self.account(messages, &Visible::of(messages), load)),
            Trigger::Early | Trigger::Manual | Trigger::Refused => PrunePlan::default(),
        }
    }

    /// Savings of this session's reductions so far, less their costs.
    pub fn purse(&self, messages: &[Message]) -> Purse {
        self.account(messages, &Visible::of(messages), &self.load(messages)).purse()
    }

    pub(super) fn account<'a>(
        &'a self,
        messages: &'a [Message],
        visible: &'a Visible,
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

    /// Whether a compaction saves money although the window is under the line, and is paid for.
    pub(super) fn compaction_pays(&self, messages: &[Message], load: &Load) -> bool {
        let (Trigger::Auto, Some(rules), Some(line)) = (self.trigger, Rules::of(&self.policy), self.line())
        else {
            return false;
        };
        if load.tokens <= line.at.share(rules.compact_share) {
            return false;
        }
        // A summary without a model is for windows that are over the line: it says less, and saves the same.
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
        compaction.pays(&self.account(messages, &Visible::of(messages), load), &rules)
    }

    /// Divides a window that is compacted to save money; `None` if the running turn would have to be summarised.
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
            let prompt = Visible::of(messages).newest_prompt(messages);
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

    /// Estimated tokens that the contract and the index add to a summary, at most.
    fn completed_tokens(&self) -> Tokens {
        let line = self.line().map(Line::room).unwrap_or(self.limits.context);
        self.policy.contract.budget(line) + self.policy.names.index_room(line)
    }

    /// Whether a compaction is made before the next request: because the window is over the line, or because it saves money.
    pub fn wants_compaction(&self, messages: &[Message], load: &Load) -> bool {
        let is_automatic = matches!(self.trigger, Trigger::Auto | Trigger::Early);
        let is_off = is_automatic && !self.policy.overflow.auto;
        !is_off && (self.calls_for_help(messages, load) || self.compaction_pays(messages, load))
    }

    /// Whether a compaction that is prepared now costs no more than one at the line.
    ///
    /// Asked at the end of the window, the session's own model reads what its cache holds. At the line it would read more,
    /// and write all of it if the cache is cold by then. What comes before the line is in view when the summary takes effect:
    /// as long as it fits the tail, the window is then no longer than after a compaction at the line. If a prune is
    /// enough at the line, no summary is paid for there.
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
            && prune::plan(messages, &self.policy, Some(pressure)).items.is_empty()
    }

    /// The largest tail of a compaction that is prepared ahead of the line. What comes until then is part of the tail when
    /// the summary takes effect, so room for it is left now.
    fn tail_ahead(&self, load: Tokens, gauge: Gauge) -> Option<Tokens> {
        let line = self.policy.overflow.line(self.limits).filter(|_| self.trigger == Trigger::Early)?;
        let line = gauge.estimate(line.room());
        let compact = &self.policy.compact;
        Some((compact.tail_budget(line) - (line - load)).max(compact.tail_min))
    }

    /// Who counts for this policy. One that follows a document is held to the document's own figures.
    pub fn counter(&self) -> &dyn Counter {
        match self.policy.overflow.detector {
            Detector::Both => &*self.counter,
            Detector::Usage | Detector::Estimate => &self.policy.count,
        }
    }

    /// How the summariser's requests are measured.
    pub(super) fn measured<'s>(&'s self, summariser: &'s Summariser, gauge: Gauge) -> Measured<'s> {
        let counter = summariser.counter.as_deref().unwrap_or_else(|| self.counter());
        let factor = summariser.factor.unwrap_or_else(|| gauge.factor()).max(1.0);
        Measured { limits: summariser.limits, counter, factor }
    }

    /// The line that this climb has to get under: a compaction that is prepared ahead works towards the soft one.
    pub(super) fn line(&self) -> Option<Line> {
        let overflow = &self.policy.overflow;
        match self.trigger {
            Trigger::Early => overflow.soft_line(self.limits),
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

    /// How heavy the next request is.
    pub fn load(&self, messages: &[Message]) -> Load {
        self.load_and_window(messages).0
    }

    /// How heavy the next request is, and its window.
    pub fn load_and_window(&self, messages: &[Message]) -> (Load, Window) {
        Load::with_window(self.believed, messages, &self.policy, self.fixed, self.counter())
    }

    /// The scale on which a person is told about a session with these messages, whose next request weighs `load`.
    pub fn scale(&self, load: &Load, messages: &[Message]) -> Scale {
        let overflow = &self.policy.overflow;
        let line = || overflow.line(self.limits).map(|line| line.at).unwrap_or(self.limits.context);
        match (overflow.detector, &load.usage_of, self.scale) {
            (Detector::Estimate, ..) => Scale::ESTIMATES,
            (_, None, Some(kept)) => kept,
            // Another process may have reduced the session.
            (_, None, None) => {
                let (policy, counter) = (&self.policy, self.counter());
                let before = Load::before_reductions(self.believed, messages, policy, self.fixed, counter);
                Scale::of(before.as_ref().unwrap_or(load), line(), overflow)
            }
            (_, Some(_), _) => Scale::of(load, line(), overflow),
        }
    }

    /// The estimate of the next request.
    pub fn estimate(&self, messages: &[Message]) -> Tokens {
        request_tokens(&Window::of(messages, &self.policy), self.fixed, self.counter())
    }

    /// What estimates are worth in this session.
    pub(super) fn gauge(&self, load: &Load) -> Gauge {
        let overflow = &self.policy.overflow;
        let line = overflow.line(self.limits).map(|line| line.at).unwrap_or(self.limits.context);
        let gauge = match overflow.detector {
            Detector::Estimate => Gauge::EXACT,
            Detector::Usage | Detector::Both => Gauge::of(load, line, overflow),
        };
        match self.trigger {
            // The provider is right: whatever was estimated must have been more than the line.
            Trigger::Refused => {
                let margin = overflow.margin_of(self.refusals);
                gauge.at_least(load.estimate, line + line.share(margin) + Tokens(1))
            }
            Trigger::Auto | Trigger::Early | Trigger::Manual => gauge,
        }
    }

    /// Divide a window whose estimate is `load`; all figures are brought to the scale of estimates.
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

/// Why the ladder is climbed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Trigger {
    /// To see whether the window is over the line.
    #[default]
    Auto,
    /// To prepare a compaction while the window is over the soft line and still under the line.
    Early,
    /// A person asked for a compaction.
    Manual,
    /// The provider refused the request as too long, whatever the figures say.
    Refused,
}

/// Stops asking a summariser that keeps failing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Breaker {
    /// Failures since the last success.
    pub failures: u32,
}

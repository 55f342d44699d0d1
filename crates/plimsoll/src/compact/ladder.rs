//! The ladder: from an overfull window to one under the line, whatever the model does.
//!
//! A state machine without I/O. The caller drives it: [`Ladder::climb`] applies every rung it can and comes back
//! either with a request for the summariser, whose answer goes into [`Ladder::answer`], or with the outcome.
//!
//! It terminates because every step makes a pair of numbers smaller, rung by rung: the rungs left, and the work
//! left on the rung (chunks and tries of a summary, halvings of the tail, rounds of cutting), each of which is
//! bounded when the rung is reached. A rung that would not shrink the window is skipped, so no step undoes
//! another.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::accept::{Rejection, Reply, accept};
use super::extract::extract;
use super::request::{HookText, SummaryJob, SummaryRequest};
use super::select::{Room, Selection, select};
use super::shed;
use crate::chars::Text;
use crate::count::{Counter, Fixed, Tokens, request_tokens, window_message_tokens};
use crate::limits::{Limits, Line};
use crate::load::{Gauge, Load};
use crate::log::{
    CompactionPart, Ids, Info, Log, LogError, Message, MessageId, Millis, Part, PartBody, Role, Time,
};
use crate::policy::{Detector, Policy};
use crate::prune::{self, Pressure};
use crate::receipt::{CompactPlan, Made, Plan, Receipt, Stamp};
use crate::window::{MARKER_QUESTION, Window};

/// Everything the ladder has to know.
pub struct Situation<'a> {
    /// The numbers and choices.
    pub policy: &'a Policy,
    /// Limits of the session's model.
    pub limits: Limits,
    /// Limits of the model that summarises; none if there is none to ask.
    pub summariser: Option<Limits>,
    /// What every request carries besides the window.
    pub fixed: Fixed,
    /// Who counts.
    pub counter: &'a dyn Counter,
    /// Why the ladder is climbed.
    pub trigger: Trigger,
    /// What hooks add to the summary request.
    pub hook: HookText,
    /// How the summariser has done so far in this session.
    pub breaker: Breaker,
    /// The time.
    pub now: Millis,
}

impl<'a> Situation<'a> {
    /// The ordinary case: see whether a session is over the line of its model. There is no summariser, and
    /// characters over four are counted, unless the caller says otherwise.
    pub fn new(policy: &'a Policy, limits: Limits, now: Millis) -> Situation<'a> {
        Situation {
            policy,
            limits,
            now,
            counter: &policy.count,
            summariser: None,
            fixed: Fixed::default(),
            trigger: Trigger::Auto,
            hook: HookText::default(),
            breaker: Breaker::default(),
        }
    }

    /// What a compaction would do now, without doing it; nothing if there is too little to summarise.
    pub fn plan_compaction(&self, messages: &[Message]) -> Option<CompactPlan> {
        let load = Load::of(messages, self.policy, self.fixed, self.counter);
        let selection = self.select(messages, load.estimate, self.gauge(&load), None)?;
        let head = selection.head.iter().map(|place| &messages[*place]);
        let job = self.summariser.map(|s| SummaryJob::new(head, &self.hook, self.policy, s, self.counter));
        let (made, calls) = match job {
            Some(Ok(job)) => (Made::ByModel, job.chunks() as u64),
            Some(Err(_)) | None if self.policy.compact.extractive => (Made::WithoutModel, 0),
            Some(Err(_)) | None => return None,
        };
        selection.plan(messages, made, calls)
    }

    /// Whether the policy's detector sees the window over the line.
    fn calls_for_help(&self, messages: &[Message], load: &Load) -> bool {
        let overflow = &self.policy.overflow;
        let line = overflow.line(self.limits);
        match (self.trigger, overflow.detector) {
            (Trigger::Refused, _) => true,
            (_, Detector::Estimate) => line.is_some_and(|line| line.is_over(load.estimate)),
            (_, Detector::Both) => line.is_some_and(|line| line.is_over(load.tokens)),
            (_, Detector::Usage) => {
                let used = load.usage_of.as_ref();
                let used = used.and_then(|id| messages.iter().rfind(|message| &message.info.id == id));
                let usage = used.and_then(|message| message.info.tokens.as_ref());
                usage.is_some_and(|usage| overflow.is_overflow(usage, self.limits))
            }
        }
    }

    /// The estimate of the next request.
    fn estimate(&self, messages: &[Message]) -> Tokens {
        request_tokens(&Window::of(messages, self.policy), self.fixed, self.counter)
    }

    /// What estimates are worth in this session.
    fn gauge(&self, load: &Load) -> Gauge {
        let overflow = &self.policy.overflow;
        let line = overflow.line(self.limits).map(|line| line.at).unwrap_or(self.limits.context);
        let gauge = match overflow.detector {
            Detector::Estimate => Gauge::EXACT,
            Detector::Usage | Detector::Both => Gauge::of(load, line, overflow.max_factor),
        };
        match self.trigger {
            // The provider is right: whatever was estimated must have been more than the line.
            Trigger::Refused => gauge.at_least(load.estimate, line + Tokens(line.0 / 20 + 1)),
            Trigger::Auto | Trigger::Manual => gauge,
        }
    }

    /// Divide a window whose estimate is `load`; all figures are brought to the scale of estimates.
    fn select(
        &self,
        messages: &[Message],
        load: Tokens,
        gauge: Gauge,
        tail_cap: Option<Tokens>,
    ) -> Option<Selection> {
        let line = self.policy.overflow.line(self.limits).map(Line::room).unwrap_or(self.limits.context);
        let (line, context) = (gauge.estimate(line), gauge.estimate(self.limits.context));
        let asked = self.trigger == Trigger::Manual;
        select(messages, self.policy, Room { load, line, context, tail_cap, asked }, self.counter)
    }
}

/// Why the ladder is climbed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Trigger {
    /// To see whether the window is over the line.
    #[default]
    Auto,
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

/// What the caller has to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Ask the summariser, then call [`Ladder::answer`].
    Ask(SummaryRequest),
    /// Nothing more.
    Done(Outcome),
}

/// Where the climb ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// How it ended.
    pub verdict: Verdict,
    /// What was done, in order.
    pub receipts: Vec<Receipt>,
    /// Messages that were appended to the log: markers, summaries, the word to go on.
    pub appended: Vec<MessageId>,
    /// Summaries that were not taken, and why.
    pub rejections: Vec<Rejection>,
    /// Tokens of the next request before.
    pub before: Tokens,
    /// The same after.
    pub after: Tokens,
    /// The line, if the model has one.
    pub line: Option<Line>,
    /// To be handed to the next climb of the session.
    pub breaker: Breaker,
}

/// How a climb ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "verdict")]
pub enum Verdict {
    /// The next request fits.
    Fits,
    /// It does not, and the policy allows nothing more.
    StillOver,
    /// It cannot be made to fit: this is what takes the room.
    TooHeavy {
        /// The system prompt.
        system: Tokens,
        /// The schemas of the tools.
        tools: Tokens,
        /// What is left of the conversation.
        conversation: Tokens,
        /// What the provider counts beyond these estimates.
        unknown: Tokens,
    },
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Verdict::Fits => f.write_str("the next request fits"),
            Verdict::StillOver => {
                f.write_str("the next request does not fit, and the policy allows nothing more")
            }
            Verdict::TooHeavy { system, tools, conversation, unknown } => {
                write!(
                    f,
                    "the next request cannot be made to fit: the system prompt takes {system} tokens, the tools \
                     {tools}, the conversation {conversation}"
                )?;
                if *unknown > Tokens::ZERO {
                    write!(f, ", and the provider counts {unknown} more")?;
                }
                f.write_str("; shorten the first two or use a larger model")
            }
        }
    }
}

/// The climb itself. Reductions are applied to the log as it goes.
pub struct Ladder<'a> {
    log: &'a mut Log,
    ids: &'a mut Ids,
    is: Situation<'a>,
    line: Option<Line>,
    gauge: Gauge,
    /// Whether the policy's detector saw the window over the line when the climb began.
    called: bool,
    rung: Rung,
    before: Tokens,
    receipts: Vec<Receipt>,
    appended: Vec<MessageId>,
    rejections: Vec<Rejection>,
}

enum Rung {
    Start,
    Prune,
    Select,
    Ask(Box<Asking>),
    Extract,
    ClearTail,
    /// Halvings of the tail that are left, and the cap to try next.
    ShortenTail(u32, Tokens),
    /// Rounds that are left.
    CutParts(u32),
    End,
}

struct Asking {
    selection: Selection,
    job: SummaryJob,
    chunk: usize,
    /// The summary of the chunks before, or of an earlier compaction.
    prior: Option<Text>,
    tries_left: u32,
}

impl<'a> Ladder<'a> {
    /// Stand before the ladder.
    pub fn new(log: &'a mut Log, ids: &'a mut Ids, mut situation: Situation<'a>) -> Ladder<'a> {
        let Situation { policy, limits, fixed, counter, .. } = situation;
        let load = Load::of(log, policy, fixed, counter);
        if situation.trigger == Trigger::Refused && limits.context == Tokens::ZERO {
            // Nobody knows the window, but the provider has just said that it is smaller than this.
            situation.limits.context = load.estimate;
        }
        let line = policy.overflow.line(situation.limits);
        let gauge = situation.gauge(&load);
        let called = situation.calls_for_help(log, &load);
        let before = gauge.real(load.estimate);
        let (receipts, appended, rejections) = Default::default();
        let is = situation;
        Ladder {
            log,
            ids,
            is,
            line,
            gauge,
            called,
            rung: Rung::Start,
            before,
            receipts,
            appended,
            rejections,
        }
    }

    /// Go on until a summary is needed or there is nothing more to do.
    pub fn climb(&mut self) -> Result<Step, LogError> {
        loop {
            self.rung = match std::mem::replace(&mut self.rung, Rung::End) {
                Rung::Start => self.start(),
                Rung::Prune => self.prune()?,
                Rung::Select => self.select(),
                Rung::Ask(asking) => {
                    let request = asking.job.request(asking.chunk, asking.prior.as_ref(), self.is.counter);
                    match request {
                        Some(request) => {
                            self.rung = Rung::Ask(asking);
                            return Ok(Step::Ask(request));
                        }
                        None => Rung::Extract,
                    }
                }
                Rung::Extract => self.extract()?,
                Rung::ClearTail => self.clear_tail()?,
                Rung::ShortenTail(left, cap) => self.shorten_tail(left, cap)?,
                Rung::CutParts(left) => self.cut_parts(left)?,
                Rung::End => return Ok(Step::Done(self.outcome())),
            };
        }
    }

    /// Hand in what the summariser said, or why it said nothing.
    pub fn answer(&mut self, reply: Result<Reply, String>) -> Result<(), LogError> {
        let mut asking = match std::mem::replace(&mut self.rung, Rung::End) {
            Rung::Ask(asking) => asking,
            other => {
                // Nobody asked; there is nothing to take it for.
                self.rung = other;
                return Ok(());
            }
        };
        let last = asking.chunk + 1 == asking.job.chunks();
        let counter = self.is.counter;
        let replaced = if last {
            self.replaced(&asking.selection)
        } else {
            let prior = asking.prior.as_ref().map(|prior| counter.count_text(prior));
            asking.job.chunk_tokens(asking.chunk, counter) + prior.unwrap_or_default()
        };
        let taken = match reply {
            Ok(reply) => accept(&reply, replaced, counter),
            Err(why) => Err(Rejection::Failed(crate::redact::redact(&why).text)),
        };
        match taken {
            Ok(summary) if last => {
                self.is.breaker.failures = 0;
                let calls = asking.job.chunks() as u64;
                let reason = match self.is.trigger {
                    Trigger::Auto => "the window was over the line",
                    Trigger::Manual => "a person asked for it",
                    Trigger::Refused => "the provider refused the request as too long",
                };
                self.pivot(&asking.selection, summary, Made::ByModel, calls, reason)?;
                self.rung = if self.is_over() { Rung::ClearTail } else { Rung::End };
            }
            Ok(summary) => {
                asking.chunk += 1;
                asking.prior = Some(summary);
                self.rung = Rung::Ask(asking);
            }
            Err(rejection) => {
                let again = rejection.is_worth_a_retry() && asking.tries_left > 0;
                self.rejections.push(rejection);
                self.is.breaker.failures += 1;
                asking.tries_left = asking.tries_left.saturating_sub(1);
                self.rung = if again { Rung::Ask(asking) } else { Rung::Extract };
            }
        }
        Ok(())
    }

    /// The summary that can be made without a model of what is being asked for; nothing if nothing is asked.
    pub fn offline(&self) -> Option<Text> {
        match &self.rung {
            Rung::Ask(asking) => self.extractive(&asking.selection),
            _ => None,
        }
    }

    fn start(&mut self) -> Rung {
        let policy = self.is.policy;
        match (self.line, self.is.trigger) {
            (_, Trigger::Manual) => return Rung::Select,
            (None, _) => return Rung::End,
            _ if !policy.overflow.auto => return Rung::End,
            _ => {}
        }
        if self.line.is_some_and(|line| line.is_over(self.is.fixed.total())) {
            return Rung::End;
        }
        let gated = policy.prune.gate_share.is_some() || policy.prune.gate_headroom.is_some();
        if self.called || gated { Rung::Prune } else { Rung::End }
    }

    fn prune(&mut self) -> Result<Rung, LogError> {
        let pressure = Pressure { load: self.weigh(), limits: self.is.limits };
        let plan = prune::plan(self.log, self.is.policy, Some(pressure));
        if !plan.items.is_empty() {
            let reason = plan.reason.to_string();
            self.apply(Plan::Prune(plan), &reason)?;
        }
        Ok(if self.called && self.is_over() { Rung::Select } else { Rung::End })
    }

    fn select(&mut self) -> Rung {
        let asked = self.is.trigger == Trigger::Manual;
        let broken = self.is.breaker.failures >= self.is.policy.compact.breaker && !asked;
        let (Some(summariser), false) = (self.is.summariser, broken) else { return Rung::Extract };
        let Some(selection) = self.selection(None) else { return Rung::ClearTail };
        let head = selection.head.iter().map(|place| &self.log[*place]);
        let job = SummaryJob::new(head, &self.is.hook, self.is.policy, summariser, self.is.counter);
        let prior = selection.prior.map(|pivot| pivot.text(self.log));
        match job {
            Ok(job) => {
                let tries_left = self.is.policy.compact.retries;
                Rung::Ask(Box::new(Asking { selection, job, chunk: 0, prior, tries_left }))
            }
            Err(too_small) => {
                self.rejections.push(Rejection::Failed(too_small.to_string()));
                Rung::Extract
            }
        }
    }

    fn extract(&mut self) -> Result<Rung, LogError> {
        if self.is.policy.compact.extractive
            && let Some(selection) = self.selection(None)
        {
            self.pivot_without_model(&selection, "no model could summarise")?;
        }
        Ok(if self.is_over() { Rung::ClearTail } else { Rung::End })
    }

    fn clear_tail(&mut self) -> Result<Rung, LogError> {
        if !self.is.policy.shed.enabled || !self.must_shed() {
            return Ok(Rung::End);
        }
        let plan = shed::clear(self.log, self.is.policy, self.excess());
        if !plan.cleared.is_empty() {
            self.apply(
                Plan::Shed(plan),
                "tool outputs in the tail, because the window is still over the line",
            )?;
        }
        // Halve what the tail weighs now, again and again, down to nothing.
        let tail = self.selection(Some(Tokens(u64::MAX))).map(|s| s.head_tokens + s.tail_tokens);
        let cap = Tokens(tail.unwrap_or_else(|| self.weigh()).0 / 2);
        Ok(if self.is_over() {
            Rung::ShortenTail(u64::BITS - cap.0.leading_zeros() + 1, cap)
        } else {
            Rung::End
        })
    }

    fn shorten_tail(&mut self, left: u32, cap: Tokens) -> Result<Rung, LogError> {
        if self.is.policy.compact.extractive
            && let Some(selection) = self.selection(Some(cap))
        {
            self.pivot_without_model(
                &selection,
                "a shorter tail, because the window is still over the line",
            )?;
        }
        Ok(match (self.is_over(), left) {
            (false, _) => Rung::End,
            (true, 0) => Rung::CutParts(shed::ROUNDS),
            (true, left) => Rung::ShortenTail(left - 1, Tokens(cap.0 / 2)),
        })
    }

    fn cut_parts(&mut self, left: u32) -> Result<Rung, LogError> {
        let Some(line) = self.line else { return Ok(Rung::End) };
        let room = self.gauge.estimate(line.room());
        let goal = shed::Goal { room, only: None, rounds_left: left };
        let plan = shed::cut(self.log, self.is.policy, self.is.fixed, &goal, self.is.counter);
        if !plan.cut.is_empty() {
            self.apply(Plan::Shed(plan), "the largest parts, because nothing else was left to reduce")?;
        }
        Ok(if self.is_over() && left > 0 { Rung::CutParts(left - 1) } else { Rung::End })
    }

    /// The estimate of the next request as it stands.
    fn estimate(&self) -> Tokens {
        self.is.estimate(self.log)
    }

    /// What it weighs.
    fn weigh(&self) -> Tokens {
        self.gauge.real(self.estimate())
    }

    fn is_over(&self) -> bool {
        self.line.is_some_and(|line| line.is_over(self.weigh()))
    }

    /// A person who asks for a compaction does not ask for shedding while the window is under the line.
    fn must_shed(&self) -> bool {
        self.is_over() && (self.is.policy.overflow.auto || self.is.trigger != Trigger::Auto)
    }

    /// How much must go, by estimate.
    fn excess(&self) -> Tokens {
        let line = self.line.map(Line::room).unwrap_or_default();
        self.estimate() - self.gauge.estimate(line)
    }

    fn selection(&self, tail_cap: Option<Tokens>) -> Option<Selection> {
        self.is.select(self.log, self.estimate(), self.gauge, tail_cap)
    }

    /// What a summary of that selection may weigh at most and still make the window smaller.
    fn replaced(&self, selection: &Selection) -> Tokens {
        let counter = self.is.counter;
        let overhead = counter.message_overhead() + counter.message_overhead();
        let question = counter.count(MARKER_QUESTION);
        let go_on = counter.message_overhead() + counter.count(&self.is.policy.compact.continue_text);
        let gone = match selection.prior {
            // Marker and question are there already.
            Some(pivot) => selection.head_tokens + counter.count_text(&pivot.text(self.log)),
            None => selection.head_tokens - overhead - question,
        };
        gone - go_on - selection.lead_tokens
    }

    fn pivot_without_model(&mut self, selection: &Selection, reason: &str) -> Result<(), LogError> {
        match self.extractive(selection) {
            Some(summary) => self.pivot(selection, summary, Made::WithoutModel, 0, reason),
            None => Ok(()),
        }
    }

    /// A summary made without a model, unless it would have to be too short to be worth anything.
    fn extractive(&self, selection: &Selection) -> Option<Text> {
        let policy = self.is.policy;
        let replaced = self.replaced(selection);
        let line = self.line.map(Line::room).unwrap_or(self.is.limits.context);
        // A quarter of the line is room enough for a summary, and half of what it replaces is a gain.
        let most = policy.compact.extractive_tokens.min(Tokens(replaced.0 / 2)).min(Tokens(line.0 / 4));
        let head: Vec<&Message> = selection.head.iter().map(|place| &self.log[*place]).collect();
        let prior = selection.prior.map(|pivot| pivot.text(self.log));
        (most >= policy.compact.extractive_least)
            .then(|| extract(&head, prior.as_ref(), most, self.is.counter))
    }

    /// Append marker and summary, and the word to go on where nobody else has the word; but only if the window
    /// gets smaller by it.
    fn pivot(
        &mut self,
        selection: &Selection,
        summary: Text,
        made: Made,
        calls: u64,
        reason: &str,
    ) -> Result<(), LogError> {
        let Some(mut plan) = selection.plan(self.log, made, calls) else { return Ok(()) };
        let messages = self.pivot_messages(selection, summary, &plan);
        let before = self.weigh();
        let trial: Vec<Message> = self.log.iter().chain(&messages).cloned().collect();
        let after = self.gauge.real(self.is.estimate(&trial));
        if after >= before {
            return Ok(());
        }
        plan.marker = messages.first().map(|marker| marker.info.id.clone());
        for message in messages {
            self.appended.push(message.info.id.clone());
            self.log.append(message)?;
        }
        let Situation { now, policy, .. } = self.is;
        let stamp = Stamp { ids: self.ids, now, policy, reason };
        self.receipts.push(stamp.receipt(Plan::Compact(plan), before, after));
        self.trim(selection)
    }

    fn pivot_messages(&mut self, selection: &Selection, summary: Text, plan: &CompactPlan) -> Vec<Message> {
        let now = self.is.now;
        let auto = self.is.trigger != Trigger::Manual;
        let waiting = selection.tail.last().is_some_and(|place| self.log[*place].starts_turn());
        let newest_user = self.log.iter().rev().find(|message| message.starts_turn()).map(|m| m.info.clone());
        let user = |id: MessageId, part: Part| {
            // Under the same agent and model as the newest message of the user.
            let mut info = Info { id, role: Some(Role::User), ..Info::default() };
            if let Some(user) = &newest_user {
                (info.session_id, info.agent) = (user.session_id.clone(), user.agent.clone());
                info.extra.extend(user.extra.get("model").map(|model| ("model".to_owned(), model.clone())));
            }
            info.time = Some(Time { created: Some(now), ..Time::default() });
            Message { info, parts: vec![part], ..Message::default() }
        };
        let marker = CompactionPart {
            auto: Some(auto),
            tail_start: plan.tail_start.clone(),
            messages: Some(plan.messages),
            tokens: Some(plan.tokens.0),
            extractive: (plan.made == Made::WithoutModel).then_some(true),
            ..CompactionPart::default()
        };
        let marker = Part::new(self.ids.part(now), PartBody::Compaction(marker));
        let marker = user(self.ids.message(now), marker);
        let answer = Info {
            id: self.ids.message(now),
            role: Some(Role::Assistant),
            parent_id: Some(marker.info.id.clone()),
            agent: Some("compaction".into()),
            mode: Some("compaction".into()),
            session_id: marker.info.session_id.clone(),
            summary: true,
            finish: Some("stop".into()),
            time: Some(Time { created: Some(now), completed: Some(now), ..Time::default() }),
            ..Info::default()
        };
        let parts = vec![Part::text(self.ids.part(now), summary)];
        let mut messages = vec![marker, Message { info: answer, parts, ..Message::default() }];
        let compacted = |receipt: &Receipt| matches!(receipt.plan, Plan::Compact(_));
        if auto && !waiting && !self.receipts.iter().any(compacted) {
            let mut part = Part::text(self.ids.part(now), self.is.policy.compact.continue_text.as_str());
            if let PartBody::Text(text) = &mut part.body {
                text.synthetic = Some(true);
            }
            part.extra.insert("metadata".into(), json!({ "compaction_continue": true }));
            messages.push(user(self.ids.message(now), part));
        }
        messages
    }

    /// Cut a newest step that is too long for the tail.
    fn trim(&mut self, selection: &Selection) -> Result<(), LogError> {
        let (Some(budget), Some(&step)) = (selection.trim, selection.tail.first()) else { return Ok(()) };
        let window = Window::of(self.log, self.is.policy);
        let load = request_tokens(&window, self.is.fixed, self.is.counter);
        let step_messages = window.messages.iter().filter(|message| message.place == Some(step));
        let weight: Tokens = step_messages.map(|m| window_message_tokens(m, self.is.counter)).sum();
        let goal = shed::Goal { room: load - (weight - budget), only: Some(step), rounds_left: shed::ROUNDS };
        let plan = shed::cut(self.log, self.is.policy, self.is.fixed, &goal, self.is.counter);
        if plan.cut.is_empty() {
            return Ok(());
        }
        self.apply(Plan::Shed(plan), "the newest step, because it is longer than the tail may be")
    }

    /// Set a plan's marks, unless the window would not get smaller by them.
    fn apply(&mut self, plan: Plan, reason: &str) -> Result<(), LogError> {
        let Situation { now, policy, .. } = self.is;
        let stamp = Stamp { ids: self.ids, now, policy, reason };
        let receipt = plan.apply(self.log, stamp, |log| self.gauge.real(self.is.estimate(log)))?;
        self.receipts.extend(receipt);
        Ok(())
    }

    fn outcome(&mut self) -> Outcome {
        let after = self.weigh();
        let asked = self.is.trigger != Trigger::Auto || self.is.policy.overflow.auto;
        let over = self.line.is_some_and(|line| line.is_over(after)) && asked;
        let uncalled = self.receipts.is_empty() && !self.called;
        let Fixed { system, tools } = self.is.fixed;
        let alone = self.line.is_some_and(|line| line.is_over(self.gauge.real(system + tools)));
        let verdict = if !over || (uncalled && !alone) {
            Verdict::Fits
        } else if alone || self.is.policy.shed.enabled {
            let conversation = self.estimate() - system - tools;
            let unknown = after - system - tools - conversation;
            Verdict::TooHeavy { system, tools, conversation, unknown }
        } else {
            Verdict::StillOver
        };
        Outcome {
            verdict,
            receipts: std::mem::take(&mut self.receipts),
            appended: std::mem::take(&mut self.appended),
            rejections: std::mem::take(&mut self.rejections),
            before: self.before,
            after,
            line: self.line,
            breaker: self.is.breaker,
        }
    }
}

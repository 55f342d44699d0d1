//! The ladder: from an overfull window to one under the line, whatever the model does.
//!
//! A state machine without I/O. The caller drives it: [`Ladder::climb`] applies every rung it can and comes back
//! either with a request for the summariser, whose answer goes into [`Ladder::answer`], or with the outcome. It works
//! on a snapshot that it owns, so a host may go on appending to the log while a model is asked;
//! [`Reduction::commit`](crate::Reduction::commit) does to the log what the climb did to the snapshot.
//!
//! It terminates because every step makes a pair of numbers smaller, rung by rung: the rungs left, and the work
//! left on the rung (chunks and tries of a summary, halvings of the tail, rounds of leaving out), each of which is
//! bounded when the rung is reached. A rung that would not shrink the window is skipped, so no step undoes
//! another.
//!
//! It ends under the line because the last rungs can take away everything but what is promised: a legal
//! conversation, the pins, the newest prompt. Where those collide with the line, the line wins, in this order: the
//! prompt is cut to its share, then further; then pins are set aside, with a receipt that says so.

mod burden;
mod pivot_messages;

use std::sync::Arc;

use super::accept::{Bounds, Rejection, Reply, accept};
use super::contract::{self, ContractItem, Terms};
use super::extract::extract_before;
use super::index;
use super::invented::unknown_names;
pub use super::outcome::{Burden, Outcome, Verdict};
use super::request::{SummaryJob, SummaryRequest, TooSmall, appended_request};
use super::select::Selection;
use super::shed::{self, Goal, Newest, Reach};
pub use super::situation::{Breaker, Situation, Trigger};
use crate::chars::Text;
use crate::count::{Counter, Tokens, window_message_tokens};
use crate::gauge::{Gauge, Scale};
use crate::limits::Line;
use crate::log::{Cut, Ids, Log, LogError, Message, Part, Usage};
use crate::pivot::{Pivot, Visible};
use crate::policy::{Detector, RequestForm};
use crate::prune::{self, Pressure};
use crate::receipt::{CutItem, Made, Plan, Receipt, ShedPlan, Stamp};
use crate::redact::redact;
use crate::reduction::Reduction;
use crate::thrift::Rules;
use crate::window::{MARKER_QUESTION, Window};

/// What the caller has to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Ask the summariser, then call [`Ladder::answer`].
    Ask(SummaryRequest),
    /// Nothing more.
    Done(Outcome),
}

/// The climb itself, on a snapshot of the log.
pub struct Ladder {
    log: Log,
    /// How many messages the snapshot had; those after were appended by the climb.
    known: usize,
    open: Vec<Message>,
    /// The window as it was before the climb: what was last sent, and what came since.
    sent: Window,
    is: Situation,
    line: Option<Line>,
    gauge: Gauge,
    /// What receipts are written in.
    scale: Scale,
    /// Whether the policy's detector saw the window over the line when the climb began.
    called: bool,
    /// Whether it was not, and a compaction saves money all the same.
    pays: bool,
    rung: Rung,
    before: Tokens,
    /// What the request weighed when the climb began, by the best figure there was. Each step makes it smaller, so it never
    /// weighs more, whatever an estimate says that is too high. `None` if the provider has refused it.
    most: Option<Tokens>,
    receipts: Vec<Receipt>,
    rejections: Vec<Rejection>,
    usage: Vec<Usage>,
    /// What the summaries cost, and the model that made them.
    cost: Option<f64>,
    model: Option<String>,
}

enum Rung {
    Start,
    Save,
    Prune,
    Select,
    Ask(Box<Asking>),
    Extract,
    ClearTail,
    /// Halvings of the tail that are left, the cap to try next, and how many messages the last try would have kept.
    ShortenTail(u32, Tokens, Option<usize>),
    CutStep,
    CutParts,
    /// Rounds that are left.
    HideParts(u32),
    CutPrompt,
    /// Rounds that are left.
    Unpin(u32),
    End,
}

struct Asking {
    selection: Selection,
    /// The request appended to the session's own, to be tried first.
    appended: Option<SummaryRequest>,
    job: Result<SummaryJob, TooSmall>,
    chunk: usize,
    /// The summary of the chunks before, or of an earlier compaction.
    prior: Option<Text>,
    tries_left: u32,
    calls: u64,
}

impl Asking {
    /// Longest answer to what is asked now.
    fn longest(&self) -> Tokens {
        match (&self.appended, &self.job) {
            (Some(request), _) => request.max_tokens,
            (None, Ok(job)) => job.max_tokens(),
            (None, Err(_)) => Tokens::ZERO,
        }
    }

    /// Whether the answer to what is asked now is the whole summary.
    fn is_last(&self) -> bool {
        self.appended.is_some() || self.job.as_ref().is_ok_and(|job| self.chunk + 1 == job.chunks())
    }
}

impl Ladder {
    /// Stand before the ladder with a snapshot of the log.
    pub fn new(log: Log, mut situation: Situation) -> Ladder {
        let load = situation.load(&log);
        if situation.trigger == Trigger::Refused && situation.limits.context == Tokens::ZERO {
            // Nobody knows the window, but the provider has just said that it is smaller than this.
            situation.limits.context = load.estimate;
        }
        let line = situation.line();
        let (gauge, scale) = (situation.gauge(&load), situation.scale(&load, &log));
        let called = situation.calls_for_help(&log, &load);
        let pays = !called && situation.compaction_pays(&log, &load);
        let before = gauge.real(load.estimate);
        let is_known =
            situation.trigger != Trigger::Refused && situation.policy.overflow.detector != Detector::Estimate;
        let most = is_known.then_some(load.tokens);
        Ladder {
            known: log.len(),
            open: log.iter().filter(|message| message.is_open()).cloned().collect(),
            sent: Window::of(&log, &situation.policy),
            log,
            is: situation,
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

    /// Go on until a summary is needed or there is nothing more to do.
    pub fn climb(&mut self, ids: &mut Ids) -> Result<Step, LogError> {
        loop {
            if let Some(step) = self.climb_one(ids)? {
                return Ok(step);
            }
        }
    }

    /// Climbs one rung; `None` if there is more to do. For callers that may want to stop in between: a climb over a long
    /// history takes a while, and dropping a ladder changes nothing.
    pub fn climb_one(&mut self, ids: &mut Ids) -> Result<Option<Step>, LogError> {
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
            // What is prepared ahead is a model's summary or nothing: there is time to ask again.
            Rung::Extract | Rung::ClearTail if self.is.trigger == Trigger::Early || self.pays => Rung::End,
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

    /// Hand in what the summariser said, or why it said nothing.
    pub fn answer(&mut self, reply: Result<Reply, String>, ids: &mut Ids) -> Result<(), LogError> {
        let mut asking = match std::mem::replace(&mut self.rung, Rung::End) {
            Rung::Ask(asking) => asking,
            other => {
                // Nobody asked; there is nothing to take it for.
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
        let counter = self.is.counter();
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
                // An extracted summary may be handed in as a model's, so its length is allowed too.
                let longest = asking.longest().max(self.is.policy.compact.extractive_tokens);
                accept(&reply, Bounds { replaced, longest }, counter)
            }
            Err(why) => Err(Rejection::Failed(redact(&why).text)),
        };
        let rejection = match taken {
            Ok(summary) if asking.is_last() => {
                let reason = match self.is.trigger {
                    Trigger::Auto if self.pays => "to send the window again would have cost more",
                    Trigger::Auto => "the window was over the line",
                    Trigger::Early => "the window was over the soft line",
                    Trigger::Manual => "a person asked for it",
                    Trigger::Refused => "the provider refused the request as too long",
                };
                let size = counter.count_text(&summary);
                let (made, calls) =
                    if is_extracted { (Made::WithoutModel, 0) } else { (Made::ByModel, asking.calls) };
                let made = Making { made, calls, reason };
                if self.pivot(&asking.selection, summary, made, ids)? {
                    self.is.breaker.failures = 0;
                    self.rung = if self.is_over() { Rung::ClearTail } else { Rung::End };
                    return Ok(());
                }
                // It was paid for, and the window would not have become smaller by it.
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
        self.is.breaker.failures += 1;
        asking.tries_left = asking.tries_left.saturating_sub(1);
        // A model that did not keep to the appended form is asked in a form in which it has no tools.
        asking.appended = None;
        self.rung = if again { Rung::Ask(asking) } else { Rung::Extract };
        Ok(())
    }

    /// Stops waiting for the summariser: the compaction has taken as long as [the policy](crate::policy::CompactPolicy)
    /// allows. The breaker opens at once. A summariser that says nothing costs its whole time again with each try, while one
    /// that fails costs little.
    pub fn time_out(&mut self) {
        if !matches!(self.rung, Rung::Ask(_)) {
            return;
        }
        let compact = &self.is.policy.compact;
        self.rejections.push(Rejection::TimedOut { seconds: compact.max_seconds });
        self.is.breaker.failures = self.is.breaker.failures.saturating_add(1).max(compact.breaker);
        self.rung = Rung::Extract;
    }

    /// Answers of the summariser that were rejected so far.
    pub fn rejections(&self) -> &[Rejection] {
        &self.rejections
    }

    /// A summary made without a model, of what is being asked for and in that length; nothing if nothing is asked.
    pub fn offline(&self) -> Option<Text> {
        match &self.rung {
            Rung::Ask(asking) => self.extractive(&asking.selection, self.is.summary_tokens()),
            _ => None,
        }
    }

    fn start(&mut self) -> Rung {
        let policy = &self.is.policy;
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
        match (self.called || gated, self.pays) {
            (true, _) => Rung::Prune,
            // It takes away what could be cleared as well.
            (false, true) => Rung::Select,
            (false, false) => Rung::Save,
        }
    }

    /// Under the line, clear what costs more to send again than to clear.
    fn save(&mut self, ids: &mut Ids) -> Result<Rung, LogError> {
        let plan = self.is.plan_saving(&self.log);
        if !plan.items.is_empty() {
            let reason = plan.reason.to_string();
            self.apply(Plan::Prune(plan), &reason, ids)?;
        }
        Ok(Rung::End)
    }

    fn prune(&mut self, ids: &mut Ids) -> Result<Rung, LogError> {
        let pressure = Pressure { load: self.weigh(), limits: self.is.limits };
        let plan = prune::plan(&self.log, &self.is.policy, Some(pressure));
        if !plan.items.is_empty() {
            let reason = plan.reason.to_string();
            self.apply(Plan::Prune(plan), &reason, ids)?;
        }
        // Where that was enough, the next climb would be made for what can be saved.
        Ok(if self.called && self.is_over() { Rung::Select } else { Rung::Save })
    }

    fn select(&mut self) -> Rung {
        let asked = self.is.trigger == Trigger::Manual;
        let broken = self.is.breaker.failures >= self.is.policy.compact.breaker && !asked;
        let (Some(summariser), false) = (&self.is.summariser, broken) else {
            let failures = self.is.breaker.failures;
            self.rejections.extend(self.is.summariser.as_ref().map(|_| Rejection::GivenUp { failures }));
            return Rung::Extract;
        };
        let Some(selection) = self.selection(None) else { return Rung::ClearTail };
        // A summary that could replace nothing is not asked for.
        if self.replaced(&selection) == Tokens::ZERO {
            return Rung::Extract;
        }
        let (policy, measured) = (&self.is.policy, self.is.measured(summariser, self.gauge));
        let head = selection.head.iter().map(|place| &self.log[*place]);
        let job = SummaryJob::new(head, &self.is.hook, policy, measured);
        let job = job.map(|job| job.for_model(summariser.model.clone()).for_window(policy, self.is.limits));
        let prior = selection.prior.map(|pivot| self.prior_text(pivot));
        let own = summariser.model.is_none() && policy.compact.request == RequestForm::Appended;
        let appended =
            own.then(|| appended_request(&self.sent, self.before, &self.is.hook, policy, measured));
        let appended = appended.flatten().filter(|_| self.is.trigger != Trigger::Refused);
        match (&job, &appended) {
            (Err(too_small), None) => {
                self.rejections.push(Rejection::Failed(too_small.to_string()));
                Rung::Extract
            }
            _ => {
                let tries_left = policy.compact.retries;
                Rung::Ask(Box::new(Asking {
                    selection,
                    appended,
                    job,
                    chunk: 0,
                    prior,
                    tries_left,
                    calls: 0,
                }))
            }
        }
    }

    fn request(&self, asking: &Asking) -> Option<SummaryRequest> {
        if let Some(request) = &asking.appended {
            return Some(request.clone());
        }
        let measured = self.is.measured(self.is.summariser.as_ref()?, self.gauge);
        asking.job.as_ref().ok()?.request(asking.chunk, asking.prior.as_ref(), measured)
    }

    fn extract(&mut self, ids: &mut Ids) -> Result<Rung, LogError> {
        if self.is.policy.compact.extractive
            && let Some(selection) = self.selection(None)
        {
            let is_wished = self.is.trigger == Trigger::Manual && self.is.summariser.is_none();
            let reason = if is_wished { "a person asked for it" } else { "no model could summarise" };
            self.pivot_without_model(&selection, reason, ids)?;
        }
        Ok(if self.is_over() { Rung::ClearTail } else { Rung::End })
    }

    fn clear_tail(&mut self, ids: &mut Ids) -> Result<Rung, LogError> {
        if !self.is.policy.shed.enabled || !self.must_shed() {
            return Ok(Rung::End);
        }
        let cleared = shed::clear(&self.log, &self.is.policy, self.excess());
        let reason = "tool outputs in the tail, because the window is still over the line";
        self.shed(ShedPlan { cleared, ..ShedPlan::default() }, reason, ids)?;
        // Halve what the tail weighs now, again and again, down to nothing.
        let tail = self.selection(Some(Tokens(u64::MAX))).map(|s| s.head_tokens + s.tail_tokens);
        let cap = Tokens(tail.unwrap_or_else(|| self.weigh()).0 / 2);
        Ok(self.unless_it_fits(Rung::ShortenTail(u64::BITS - cap.0.leading_zeros() + 1, cap, None)))
    }

    fn shorten_tail(
        &mut self,
        left: u32,
        cap: Tokens,
        kept: Option<usize>,
        ids: &mut Ids,
    ) -> Result<Rung, LogError> {
        let selection = self.selection(Some(cap)).filter(|_| self.is.policy.compact.extractive);
        let now = selection.as_ref().map(|selection| selection.tail.len());
        // A tail of the same messages was tried before.
        if let Some(selection) = selection.filter(|_| now != kept) {
            let reason = "a shorter tail, because the window is still over the line";
            self.pivot_without_model(&selection, reason, ids)?;
        }
        let next = match left {
            0 => Rung::CutStep,
            left => Rung::ShortenTail(left - 1, Tokens(cap.0 / 2), now.or(kept)),
        };
        Ok(self.unless_it_fits(next))
    }

    /// The newest step's results share the room that there is.
    fn cut_step(&mut self, ids: &mut Ids) -> Result<Rung, LogError> {
        let least = self.is.policy.shed.min_part_chars;
        let reason = "what was just read shares the room that is left";
        self.cut(&Goal { room: self.room(), reach: Reach::NewestResults, least }, reason, ids)?;
        Ok(self.unless_it_fits(Rung::CutParts))
    }

    fn cut_parts(&mut self, ids: &mut Ids) -> Result<Rung, LogError> {
        // A prompt beyond its share gives first, but no more than is needed.
        if let Some(prompt) = Newest::of(&self.log).prompt {
            let share = self.room().share(self.is.policy.compact.prompt_share);
            let stays = self.weight_of(prompt) - self.excess();
            self.cut_message(
                prompt,
                share.max(stays),
                "the prompt is longer than its share of the window",
                ids,
            )?;
        }
        let least = self.is.policy.shed.min_part_chars;
        let reason = "the largest parts, because the window is still over the line";
        self.cut(&Goal { room: self.room(), reach: Reach::AllButPrompt, least }, reason, ids)?;
        Ok(self.unless_it_fits(Rung::HideParts(self.is.policy.shed.rounds)))
    }

    fn hide_parts(&mut self, left: u32, ids: &mut Ids) -> Result<Rung, LogError> {
        // A notice stands where something is left out, so leaving out a little may save nothing: each round takes
        // twice as much, and the last everything.
        let round = self.is.policy.shed.rounds.saturating_sub(left).min(63);
        let excess =
            if left == 0 { Tokens(u64::MAX) } else { Tokens(self.excess().0.saturating_mul(1 << round)) };
        let hidden = shed::hide(&self.log, &self.is.policy, excess, self.is.counter());
        let done = hidden.is_empty();
        let reason = "parts that can be spared, because cutting was not enough";
        self.shed(ShedPlan { hidden, ..ShedPlan::default() }, reason, ids)?;
        let next = if done || left == 0 { Rung::CutPrompt } else { Rung::HideParts(left - 1) };
        Ok(self.unless_it_fits(next))
    }

    /// Nothing is left but what is promised: the prompt is cut as far as it must be, and the summary with it.
    fn cut_prompt(&mut self, ids: &mut Ids) -> Result<Rung, LogError> {
        let visible = Visible::of(&self.log);
        let summary = visible.pivot.map(|pivot| pivot.summary);
        for place in summary.into_iter().chain(Newest::of(&self.log).prompt) {
            let goal = Goal { room: self.room(), reach: Reach::Message(place), least: Cut::LEAST };
            self.cut(&goal, "the window is too small even for what should stay whole", ids)?;
        }
        Ok(self.unless_it_fits(Rung::Unpin(self.is.policy.shed.rounds)))
    }

    fn unpin(&mut self, left: u32, ids: &mut Ids) -> Result<Rung, LogError> {
        let unpinned = shed::unpin(&self.log, self.excess(), self.is.counter());
        let done = unpinned.is_empty();
        let reason = "the window is too small for its pins";
        self.shed(ShedPlan { unpinned, ..ShedPlan::default() }, reason, ids)?;
        let next = if done || left == 0 { Rung::End } else { Rung::Unpin(left - 1) };
        Ok(self.unless_it_fits(next))
    }

    /// The next rung, or the end of the climb.
    fn unless_it_fits(&self, next: Rung) -> Rung {
        if self.is_over() { next } else { Rung::End }
    }

    /// The estimate of the next request as it stands.
    fn estimate(&self) -> Tokens {
        self.is.estimate(&self.log)
    }

    /// What it weighs.
    fn weigh(&self) -> Tokens {
        let real = self.gauge.real(self.estimate());
        self.most.map_or(real, |most| real.min(most))
    }

    fn is_over(&self) -> bool {
        self.line.is_some_and(|line| line.is_over(self.weigh()))
    }

    /// A person who asks for a compaction does not ask for shedding while the window is under the line.
    fn must_shed(&self) -> bool {
        self.is_over() && (self.is.policy.overflow.auto || self.is.trigger != Trigger::Auto)
    }

    /// What a request may weigh, by estimate.
    fn room(&self) -> Tokens {
        self.gauge.estimate(self.line.map(Line::room).unwrap_or(self.is.limits.context))
    }

    /// What a message of the log weighs in the window, by estimate.
    fn weight_of(&self, place: usize) -> Tokens {
        let window = Window::of(&self.log, &self.is.policy);
        let messages = window.messages.iter().filter(|message| message.place == Some(place));
        messages.map(|message| window_message_tokens(message, self.is.counter())).sum()
    }

    /// How much must go, by estimate.
    fn excess(&self) -> Tokens {
        self.estimate() - self.room()
    }

    /// The text of an earlier summary without its index, which is carried over separately.
    fn prior_text(&self, pivot: Pivot) -> Text {
        Text::from(index::without(&pivot.text(&self.log)))
    }

    fn selection(&self, tail_cap: Option<Tokens>) -> Option<Selection> {
        match (tail_cap, Rules::of(&self.is.policy).filter(|_| self.pays)) {
            (None, Some(rules)) => self.is.select_to_save(&self.log, self.estimate(), self.gauge, &rules),
            _ => self.is.select(&self.log, self.estimate(), self.gauge, tail_cap),
        }
    }

    /// What a summary of that selection may weigh at most and still make the window smaller.
    fn replaced(&self, selection: &Selection) -> Tokens {
        let counter = self.is.counter();
        let overhead = counter.message_overhead() + counter.message_overhead();
        let question = counter.count(MARKER_QUESTION);
        let go_on = counter.message_overhead() + counter.count(&self.is.policy.compact.continue_text);
        let gone = match selection.prior {
            // Marker and question are there already.
            Some(pivot) => selection.head_tokens + counter.count_text(&pivot.text(&self.log)),
            None => selection.head_tokens - overhead - question,
        };
        gone - go_on - selection.lead_tokens
    }

    fn pivot_without_model(
        &mut self,
        selection: &Selection,
        reason: &str,
        ids: &mut Ids,
    ) -> Result<(), LogError> {
        let line = self.line.map(Line::room).unwrap_or(self.is.limits.context);
        let most = self.is.policy.compact.summary_budget(self.is.limits.context, line);
        if let Some(summary) = self.extractive(selection, most) {
            let made = Making { made: Made::WithoutModel, calls: 0, reason };
            self.pivot(selection, summary, made, ids)?;
        }
        Ok(())
    }

    /// A summary made without a model, unless it would have to be too short to be worth anything.
    fn extractive(&self, selection: &Selection, most: Tokens) -> Option<Text> {
        let compact = &self.is.policy.compact;
        let gain = self.replaced(selection).share(compact.extractive_gain_share);
        let most = most.min(gain);
        let message = |place: &usize| &self.log[*place];
        let head: Vec<&Message> = selection.head.iter().map(message).collect();
        let tail: Vec<&Message> = selection.tail.iter().map(message).collect();
        let (prior, policy) = (selection.prior.map(|pivot| self.prior_text(pivot)), &self.is.policy.summary);
        (most >= compact.extractive_least)
            .then(|| extract_before(&head, &tail, prior.as_ref(), most, policy, self.is.counter()))
    }

    /// Append marker and summary, the summary completed with what the contract asks for; where the window would not get
    /// smaller so, without. Says whether it did.
    fn pivot(
        &mut self,
        selection: &Selection,
        summary: Text,
        making: Making<'_>,
        ids: &mut Ids,
    ) -> Result<bool, LogError> {
        let line = self.line.map(Line::room).unwrap_or(self.is.limits.context);
        let budget = self.gauge.estimate(self.is.policy.contract.budget(line));
        let index = self.gauge.estimate(self.is.policy.names.index_room(line));
        if self.is.policy.contract.enabled {
            for share in [1.0, 0.0] {
                let (completed, items) = self.complete(selection, &summary, budget.share(share));
                let policy = &self.is.policy;
                let completed = match index.share(share) {
                    Tokens::ZERO => completed,
                    room => index::append(&completed, &self.log, selection, policy, room),
                };
                if self.try_pivot(selection, completed, items, making, ids)? {
                    return Ok(true);
                }
            }
            return Ok(false);
        }
        self.try_pivot(selection, summary, Vec::new(), making, ids)
    }

    /// A summary with what it lacks, as far as `budget` goes.
    fn complete(&self, selection: &Selection, summary: &Text, budget: Tokens) -> (Text, Vec<ContractItem>) {
        let message = |place: &usize| &self.log[*place];
        let replaced: Vec<&Message> = selection.head.iter().map(message).collect();
        let in_view: Vec<&Message> = selection.prompt.iter().chain(&selection.tail).map(message).collect();
        let carried = selection.prior.and_then(|pivot| self.log[pivot.marker].marker());
        let carried = carried.map(|marker| marker.contract.as_slice()).unwrap_or_default();
        let messages = &self.log;
        let terms = Terms { messages, replaced: &replaced, in_view: &in_view, carried, budget };
        contract::complete(summary, &terms, &self.is.policy, self.is.counter())
    }

    /// Append marker and summary, and the word to go on where nobody else has the word; but only if the window
    /// gets smaller by it. Says whether it did.
    fn try_pivot(
        &mut self,
        selection: &Selection,
        summary: Text,
        contract: Vec<ContractItem>,
        making: Making<'_>,
        ids: &mut Ids,
    ) -> Result<bool, LogError> {
        let Making { made, calls, reason } = making;
        let Some(mut plan) = selection.plan(&self.log, made, calls) else { return Ok(false) };
        plan.contract = contract;
        plan.rejections.clone_from(&self.rejections);
        if made == Made::ByModel {
            let prior = selection.prior.map(|pivot| pivot.text(&self.log));
            plan.unknown_names = unknown_names(&summary, self.log.iter(), prior.as_ref());
        }
        let before = self.estimate();
        let (known, now) = (self.log.len(), self.is.now);
        let messages = self.pivot_messages(selection, summary, &plan, ids);
        plan.marker = messages.first().map(|marker| marker.info.id.clone());
        plan.go_on = messages.get(2).and_then(|message| message.parts.first()).map(|part| part.id.clone());
        messages.into_iter().try_for_each(|message| self.log.append(message))?;
        // A newest step and a prompt that are too long for what stays are cut; the compaction's receipt has their
        // marks, so that undoing it brings them back.
        plan.cut = self.trim(selection)?;
        let policy = Arc::clone(&self.is.policy);
        let stamp = Stamp { ids, now, policy: &policy, reason };
        let mut receipt = stamp.receipt(Plan::Compact(plan), before, before);
        receipt.plan.mark(&mut self.log, &receipt.id, now)?;
        receipt.after = self.estimate();
        if receipt.after >= before {
            for (part, _) in receipt.plan.effects() {
                self.log.forget_marks(part, &receipt.id)?;
            }
            self.log.retract(known);
            return Ok(false);
        }
        self.receipts.push(receipt.on(self.scale));
        Ok(true)
    }

    /// What is cut of a newest step and a prompt that are too long for what stays.
    fn trim(&mut self, selection: &Selection) -> Result<Vec<CutItem>, LogError> {
        let mut cut = Vec::new();
        let step = selection.trim.zip(selection.tail.first().copied());
        let prompt = selection.prompt_trim.zip(selection.prompt);
        for (budget, place) in step.into_iter().chain(prompt) {
            cut.extend(self.cut_of_message(place, budget)?);
        }
        Ok(cut)
    }

    /// What must be cut of a message so that it weighs no more than `budget`.
    fn cut_of_message(&mut self, place: usize, budget: Tokens) -> Result<Vec<CutItem>, LogError> {
        let (policy, counter) = (Arc::clone(&self.is.policy), Arc::clone(&self.is.counter));
        let counter: &dyn Counter = match policy.overflow.detector {
            Detector::Both => &*counter,
            Detector::Usage | Detector::Estimate => &policy.count,
        };
        let room = self.estimate() - (self.weight_of(place) - budget);
        let goal = Goal { room, reach: Reach::Message(place), least: policy.shed.min_part_chars };
        shed::cut(&mut self.log, &policy, self.is.fixed, &goal, counter)
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
        let (policy, counter) = (Arc::clone(&self.is.policy), Arc::clone(&self.is.counter));
        let counter: &dyn Counter = match policy.overflow.detector {
            Detector::Both => &*counter,
            Detector::Usage | Detector::Estimate => &policy.count,
        };
        let cut = shed::cut(&mut self.log, &policy, self.is.fixed, goal, counter)?;
        self.shed(ShedPlan { cut, ..ShedPlan::default() }, reason, ids)
    }

    fn shed(&mut self, plan: ShedPlan, reason: &str, ids: &mut Ids) -> Result<(), LogError> {
        if plan.is_empty() { Ok(()) } else { self.apply(Plan::Shed(plan), reason, ids) }
    }

    /// Set a plan's marks, unless the window would not get smaller by them.
    fn apply(&mut self, plan: Plan, reason: &str, ids: &mut Ids) -> Result<(), LogError> {
        let is = &self.is;
        let stamp = Stamp { ids, now: is.now, policy: &is.policy, reason };
        let receipt = plan.apply(&mut self.log, stamp, |log| is.estimate(log))?;
        self.receipts.extend(receipt.map(|receipt| receipt.on(self.scale)));
        Ok(())
    }

    fn outcome(&mut self) -> Outcome {
        let after = self.weigh();
        let asked =
            !matches!(self.is.trigger, Trigger::Auto | Trigger::Early) || self.is.policy.overflow.auto;
        let over = self.line.is_some_and(|line| line.is_over(after)) && asked;
        let uncalled = !self.called;
        let alone = self.line.is_some_and(|line| line.is_over(self.gauge.real(self.is.fixed.total())));
        let verdict = if !over || (uncalled && !alone) {
            Verdict::Fits
        } else if alone || self.is.policy.shed.enabled {
            Verdict::TooHeavy(self.burden(after))
        } else {
            Verdict::StillOver
        };
        let appended = self.log[self.known..].iter().map(|message| {
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
            breaker: self.is.breaker,
        }
    }
}

/// How a summary came about.
#[derive(Clone, Copy)]
struct Making<'a> {
    made: Made,
    calls: u64,
    reason: &'a str,
}

//! The driver: one session, held under a lease, with what its window is made of in memory.

use std::sync::Arc;
use std::time::Instant;

use plimsoll::cache::Fingerprint;
use plimsoll::compact::accept::{Rejection, Reply};
use plimsoll::compact::ladder::{Breaker, Burden, Outcome, Situation, Trigger, Verdict};
use plimsoll::compact::request::{HookText, SummaryRequest};
use plimsoll::purse::CacheTerms;
use plimsoll::{
    CachePlan, Counter, Fixed, Ids, Limits, Line, Load, Log, Message, MessageId, Millis, Part, Plan, Receipt,
    Reduction, Scale, SessionId, Tokens, Window,
};
use plimsoll_store::{
    Archive, Claim, CountWatch, Epoch, Lease, Note, Revision, SessionPatch, Settled, Snapshot, Store,
    StoreError, TakeOver,
};
use serde_json::json;

use crate::answer::Writing;
use crate::climb::{Climb, ClimbStep, Climbed, SummaryCharges};
use crate::early::Early;
use crate::error::SessionError;
use crate::meter::{Meter, Weighed};
use crate::reduced::Reduced;
use crate::settings::{Figures, Settings};
use crate::stop::{StopFlag, Stoppable};
use crate::usage_scale::UsageScale;

/// No model that can call tools has a smaller window than this.
const LEAST_WINDOW: Tokens = Tokens(4_096);

/// Drives one session: what happens around each call of a model. The host makes the call.
///
/// It holds the session's lease, and every write carries the lease's epoch, so that a driver whose session was taken
/// over meanwhile is refused. It keeps what the window is made of in memory; each change is written to the store
/// first, and shows in memory only once it is stored.
pub struct Driver {
    pub(crate) archive: Arc<Archive>,
    pub(crate) settings: Settings,
    pub(crate) lease: Lease,
    /// When the lease was last taken or renewed. The store's clock may be another machine's, so how much of a lease is
    /// left is told by the time that went by here.
    leased: Instant,
    pub(crate) ids: Ids,
    /// What the window is made of: the newest pivot, its tail and what follows.
    pub(crate) log: Log,
    /// A revision of the session since which nothing was reduced or undone: what plans on `log` are made on.
    revision: Revision,
    pub(crate) meter: Meter,
    /// The scale of the newest usage that a reduction has made stale.
    scale: Option<Scale>,
    /// What the window weighed after the last reduction of an earlier run, which `scale` is not known of.
    pub(crate) reduced: Option<Reduced>,
    /// What the usage of the whole session says, where figures are told by it.
    pub(crate) recorded: Option<UsageScale>,
    pub(crate) writing: Option<Writing>,
    /// Texts of the window that were read without a count.
    counts: CountWatch,
    limits: Limits,
    cache: CacheTerms,
    pub(crate) breaker: Breaker,
    /// Why the next climb is made.
    pub(crate) trigger: Trigger,
    /// Refusals since the last answer.
    refusals: u32,
    pub(crate) climb: Option<Climb>,
    pub(crate) early: Early,
    /// Charges of summaries that were prepared ahead and not used; recorded with the next summary.
    pub(crate) owed: SummaryCharges,
    /// What was handed out for the next request, and becomes what was sent once its answer begins.
    prepared: Option<Sent>,
    sent: Option<Sent>,
    /// Stops what is being prepared.
    pub(crate) stop: StopFlag,
}

/// A request that was handed out: what its provider's cache holds afterwards, and what it measured.
#[derive(Clone)]
struct Sent {
    fingerprint: Fingerprint,
    measure: Weighed,
}

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
    /// Take the right to run a session, and load what its window is made of.
    pub fn open(
        archive: Arc<Archive>,
        session: &SessionId,
        settings: Settings,
    ) -> Result<Driver, SessionError> {
        let lease = Driver::take_lease(&archive, session, &settings)?;
        Driver::open_leased(archive, lease, settings)
    }

    /// Takes the right to run a session as [`open`](Driver::open) does. A host that can be interrupted notes the lease,
    /// to release it, before [`open_leased`](Driver::open_leased) reads what may be a long session.
    pub fn take_lease(
        archive: &Archive,
        session: &SessionId,
        settings: &Settings,
    ) -> Result<Lease, SessionError> {
        let store = archive.store();
        let (holder, ttl) = (settings.holder.as_str(), settings.lease);
        Ok(match &settings.take_over {
            TakeOver::Always => store.break_lease(session, holder, ttl)?,
            TakeOver::From(gone) => store.succeed(session, holder, ttl, gone)?,
            TakeOver::Never => store.lease(session, holder, ttl)?,
        })
    }

    /// Loads what the window of a session is made of, under a lease that was taken before.
    pub fn open_leased(
        archive: Arc<Archive>,
        lease: Lease,
        settings: Settings,
    ) -> Result<Driver, SessionError> {
        let store = archive.store();
        let snapshot = match store.window(&lease.session) {
            Ok(snapshot) => snapshot,
            Err(error) => {
                // The lease of a session that cannot be read must not keep others from trying.
                let _ = store.release(&lease);
                return Err(error.into());
            }
        };
        Ok(Driver::of(archive, settings, lease, snapshot))
    }

    /// Read a session without the right to run it, which another may have: it can be looked at and forked, and what would
    /// write to it is refused. An answer that is being written just now is not part of it, because more may come.
    pub fn read(
        archive: Arc<Archive>,
        session: &SessionId,
        settings: Settings,
    ) -> Result<Driver, SessionError> {
        let Snapshot { mut log, revision } = archive.store().window(session)?;
        let closed = log.iter().rposition(|message| !message.is_open()).map_or(0, |last| last + 1);
        if closed < log.len() {
            log = Log::from_messages(log.messages()[..closed].iter().cloned());
        }
        let lease = Lease {
            session: session.clone(),
            holder: settings.holder.clone(),
            // No session is ever at it.
            epoch: Epoch(u64::MAX),
            until: Millis(0),
            settled: Settled::default(),
            taken_from: None,
        };
        Ok(Driver::of(archive, settings, lease, Snapshot { log, revision }))
    }

    fn of(archive: Arc<Archive>, settings: Settings, lease: Lease, snapshot: Snapshot) -> Driver {
        let Snapshot { log, revision } = snapshot;
        let meter = Meter::new(&settings.counting, &settings.model, None);
        // Without either, figures are estimates, which is no reason not to open the session.
        let (recorded, reduced) = match settings.figures {
            Figures::Driven => (None, Reduced::of(&archive, &lease.session, &settings, &log)),
            Figures::Recorded => {
                (UsageScale::read(&archive, &lease.session, &log, &settings.policy).ok(), None)
            }
        };
        let mut counts = CountWatch::default();
        log.iter().for_each(|message| counts.watch(message));
        Driver {
            counts,
            limits: settings.limits(),
            cache: settings.cache_terms(),
            ids: plimsoll_store::random_ids(),
            archive,
            settings,
            lease,
            leased: Instant::now(),
            log,
            revision,
            meter,
            scale: None,
            reduced,
            recorded,
            writing: None,
            breaker: Breaker::default(),
            trigger: Trigger::Auto,
            refusals: 0,
            climb: None,
            early: Early::None,
            owed: SummaryCharges::default(),
            prepared: None,
            sent: None,
            stop: StopFlag::default(),
        }
    }

    /// Make names from this source instead of a random one, so that a replay names the same things each time.
    pub fn with_ids(mut self, ids: Ids) -> Driver {
        self.ids = ids;
        self
    }

    /// The session.
    pub fn session(&self) -> &SessionId {
        &self.lease.session
    }

    /// The right under which the session is driven.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Who was running the session when it was taken over by force.
    pub fn taken_from(&self) -> Option<&str> {
        self.lease.taken_from.as_deref()
    }

    /// What the window is made of, as it is stored.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The archive the session is in.
    pub fn archive(&self) -> &Arc<Archive> {
        &self.archive
    }

    /// How the session is driven.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Counts as this session's model does, as far as is known by now; for system prompts and schemas of tools.
    pub fn counter(&self) -> Arc<dyn Counter> {
        Arc::new(Stoppable { inner: self.meter.counter(), stop: self.stop.clone() })
    }

    /// The window as it is now.
    pub fn window(&self) -> Window {
        Window::of(&self.log, &self.settings.policy)
    }

    /// Go on with another model. The next [`prepare`](Driver::prepare) makes the window fit it first.
    pub fn switch_model(&mut self, model: impl Into<String>, limits: Option<Limits>) {
        (self.settings.model, self.settings.limits) = (model.into(), limits);
        (self.limits, self.cache) = (self.settings.limits(), self.settings.cache_terms());
        self.meter = Meter::new(&self.settings.counting, &self.settings.model, None);
        (self.scale, self.reduced, self.recorded) = (None, None, None);
        // Another model's cache holds nothing, and a climb for the old limits is of no use.
        (self.sent, self.prepared, self.climb) = (None, None, None);
        (self.early, self.trigger, self.breaker) = (Early::None, Trigger::Auto, Breaker::default());
        self.refusals = 0;
    }

    /// Go on with a model of another provider: what is recorded with the next answers.
    pub fn switch_provider(&mut self, provider: Option<String>) {
        self.settings.provider = provider;
    }

    /// Whether [`prepare`](Driver::prepare) would compact before the next request.
    pub fn is_over_line(&self, fixed: Fixed) -> bool {
        let situation = self.situation(fixed, self.trigger);
        let load = situation.load(&self.log);
        situation.wants_compaction(&self.log, &load)
    }

    /// Say something else about summaries from now on; says whether it is something else. A climb that is under way, and
    /// has not been committed, is begun anew.
    pub fn set_hook(&mut self, hook: HookText) -> bool {
        if hook == self.settings.hook {
            return false;
        }
        (self.settings.hook, self.climb) = (hook, None);
        true
    }

    /// Append the user's prompt.
    pub fn prompt(&mut self, text: impl Into<plimsoll::Text>) -> Result<MessageId, SessionError> {
        let now = self.now();
        let mut message = Message::user(self.ids.message(now), self.ids.part(now), text).at(now);
        // As OpenCode does: a session whose first request failed has no answer that names its model.
        if let Some(provider) = &self.settings.provider {
            let model = json!({ "providerID": provider, "modelID": self.settings.model });
            message.info.extra.insert("model".to_owned(), model);
        }
        self.append(message)
    }

    /// Append the policy's word to go on, for a turn that was interrupted: no person wrote it, and it does not count as
    /// the prompt that is being worked on.
    pub fn go_on(&mut self) -> Result<MessageId, SessionError> {
        let (now, policy) = (self.now(), Arc::clone(&self.settings.policy));
        let message =
            Message::go_on(self.ids.message(now), self.ids.part(now), &policy.compact.continue_text);
        self.append(message.at(now))
    }

    /// Change what people call the session.
    pub fn set_title(&mut self, title: &str) -> Result<(), SessionError> {
        let (now, patch) =
            (self.now(), SessionPatch { title: Some(title.to_owned()), ..SessionPatch::default() });
        self.store(|store, claim| store.patch(claim, patch, now)).map(drop)
    }

    /// Change which agent runs the session.
    pub fn set_agent(&mut self, agent: &str) -> Result<(), SessionError> {
        let (now, patch) =
            (self.now(), SessionPatch { agent: Some(agent.to_owned()), ..SessionPatch::default() });
        self.store(|store, claim| store.patch(claim, patch, now)).map(drop)
    }

    /// Append a message that is whole already: a prompt with files, a message of the host, or one from a recording.
    /// Outputs of tools in it are taken through layer 1 by [`append_recorded`](Driver::append_recorded) instead.
    pub fn append(&mut self, message: Message) -> Result<MessageId, SessionError> {
        let id = message.info.id.clone();
        let now = self.now();
        self.store(|store, claim| store.append(claim, vec![message.clone()], now))?;
        self.log.append(message)?;
        Ok(id)
    }

    /// Take notes out of the session's inbox, once what they say is stored; gives those that were still there.
    pub fn take_notes(&mut self, ids: &[String]) -> Result<Vec<Note>, SessionError> {
        let now = self.now();
        self.store(|store, claim| store.take_notes(claim, ids, now))
    }

    /// Get the next request ready: weigh it, climb the ladder where the policy wants it, and give its content.
    ///
    /// `fixed` is what the request carries besides the conversation, counted by [`counter`](Driver::counter).
    pub fn prepare(&mut self, fixed: Fixed) -> Result<Prepared, SessionError> {
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

    /// A compaction to be made beside the running turn: the climb works on a copy, may be sent to another thread, and
    /// its outcome goes into [`commit`](Driver::commit) whenever it is done. What came meanwhile stays in view.
    pub fn begin_compaction(&mut self, fixed: Fixed, trigger: Trigger) -> Climb {
        let situation = self.situation(fixed, trigger);
        self.climb_from(situation)
    }

    /// Like [`begin_compaction`](Driver::begin_compaction), with what the person who asks for it wants kept above
    /// all, this once.
    pub fn begin_compaction_with(&mut self, fixed: Fixed, trigger: Trigger, focus: Option<String>) -> Climb {
        let mut situation = self.situation(fixed, trigger);
        situation.hook.focus = focus;
        self.climb_from(situation)
    }

    /// A climb that was begun for a request that is not made any more.
    pub(crate) fn give_up_climb(&mut self) {
        self.climb = None;
    }

    /// Keep the scale of the newest usage, which a reduction or an undo is about to make stale.
    pub(crate) fn keep_scale(&mut self, situation: &Situation, load: &Load) {
        // What was counted after the flag was set is wrong.
        if !self.stop.is_set() && (load.usage_of.is_some() || self.reduced.is_some()) {
            self.scale = Some(situation.scale(load, &self.log));
            self.reduced = None;
        }
    }

    pub(crate) fn climb_from(&mut self, situation: Situation) -> Climb {
        let load = situation.load(&self.log);
        self.keep_scale(&situation, &load);
        Climb::new(self.log.clone(), self.revision, situation, self.ids.split())
    }

    /// Record what a climb did: in the store first, then in memory. It is refused as stale if something else was reduced
    /// or undone since the climb began; appends since then are fine, and stay in view.
    pub fn commit(&mut self, climbed: Climbed) -> Result<Vec<Receipt>, SessionError> {
        let Outcome { reduction, breaker, .. } = climbed.outcome;
        if !reduction.is_empty() {
            // A log that is no longer what was planned on is refused below, with a better reason than a missing message.
            let mut reduction = reduction.clone().without_stale_go_on(&self.log).unwrap_or(reduction);
            let owed = self.owed.clone();
            if !owed.is_empty()
                && let Some(summary) = reduction.appended.iter_mut().find(|message| message.info.summary)
            {
                self.owed.move_to(summary);
            }
            let weighed = self.recorded.is_some().then(|| self.log.clone());
            let weighed = weighed.and_then(|mut log| reduction.commit(&mut log).ok().map(|()| log));
            let (reduction, recorded) = match &weighed {
                Some(log) => self.told_by_usage(reduction, log),
                None => (reduction, None),
            };
            if let Err(error) = self.reduce(reduction.clone(), climbed.planned_on) {
                self.owed = owed;
                return Err(error);
            }
            self.recorded = recorded.or(self.recorded.take());
            if reduction.receipts.iter().any(compacts) {
                // What the pivot stands for need not be held any more; the store knows what must be.
                self.reload()?;
            } else {
                reduction.commit(&mut self.log)?;
            }
            self.breaker = breaker;
            return Ok(reduction.receipts);
        }
        self.breaker = breaker;
        Ok(Vec::new())
    }

    /// Write a reduction to the store.
    pub(crate) fn reduce(&mut self, reduction: Reduction, planned_on: Revision) -> Result<(), SessionError> {
        self.stop.check()?;
        let now = self.now();
        self.store(|store, claim| store.reduce(claim, reduction, Some(planned_on), now))?;
        self.revision = self.archive.store().session(self.session())?.revision;
        // What was planned before is of no use any more.
        if let Some(dropped) = self.take_held() {
            self.owed.merge(dropped.charges);
        }
        (self.early, self.climb) = (Early::None, None);
        Ok(())
    }

    /// What plans on the log as it is now are made on.
    pub(crate) fn revision(&self) -> Revision {
        self.revision
    }

    /// The turn is over: prune where the policy wants it then.
    pub fn end_turn(&mut self, fixed: Fixed) -> Result<Option<Receipt>, SessionError> {
        if !self.settings.policy.prune.after_turn {
            return Ok(None);
        }
        Ok(self.prune(fixed, "the turn is over")?.receipt())
    }

    /// Give the session back. A driver that is dropped does so too, but cannot say whether it worked.
    pub fn close(mut self) -> Result<(), SessionError> {
        self.counts.finish(self.archive.store(), &self.lease.session);
        let (archive, lease) = (Arc::clone(&self.archive), self.lease.clone());
        std::mem::forget(self);
        Ok(archive.store().release(&lease)?)
    }

    pub(crate) fn now(&self) -> Millis {
        self.settings.clock.now()
    }

    /// The numbers of the model that hold now, a window learned from a refusal among them.
    pub fn limits(&self) -> Limits {
        self.limits
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

    /// Write to the store under this driver's lease, which is renewed when a good part of it has gone.
    pub(crate) fn store<T>(
        &mut self,
        write: impl FnOnce(&dyn Store, &Claim) -> Result<T, StoreError>,
    ) -> Result<T, SessionError> {
        self.keep_lease()?;
        let claim = self.lease.claim();
        Ok(write(self.archive.store(), &claim)?)
    }

    /// Renew the lease if half of it has gone by. Hosts that wait long for a model call this now and then.
    pub fn keep_lease(&mut self) -> Result<(), SessionError> {
        if self.leased.elapsed() > self.settings.lease / 2 {
            self.lease = self.archive.store().renew(&self.lease, self.settings.lease)?;
            self.leased = Instant::now();
        }
        Ok(())
    }

    /// Read anew what the window is made of.
    pub fn reload(&mut self) -> Result<(), SessionError> {
        let Snapshot { log, revision } = self.archive.store().window(&self.lease.session)?;
        (self.log, self.revision) = (log, revision);
        Ok(())
    }

    /// Add a part to a message that is being written.
    pub(crate) fn append_part(&mut self, message: &MessageId, part: Part) -> Result<(), SessionError> {
        let now = self.now();
        self.store(|store, claim| store.append_part(claim, message, part.clone(), now))?;
        self.log.append_part(message, part)?;
        Ok(())
    }

    /// Let a part go forward.
    pub(crate) fn advance(&mut self, part: Part) -> Result<(), SessionError> {
        self.advance_all(vec![part])
    }

    /// Let parts go forward, all or none.
    pub(crate) fn advance_all(&mut self, parts: Vec<Part>) -> Result<(), SessionError> {
        let now = self.now();
        self.store(|store, claim| store.advance_all(claim, parts.clone(), now))?;
        Ok(parts.into_iter().try_for_each(|part| self.log.advance(part))?)
    }
}

pub(crate) fn compacts(receipt: &Receipt) -> bool {
    matches!(receipt.plan, Plan::Compact(_))
}

impl Drop for Driver {
    fn drop(&mut self) {
        // So that others need not wait for the lease to run out. An error has no caller to report it to.
        let _ = self.archive.store().release(&self.lease);
    }
}

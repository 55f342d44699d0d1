//! The driver: one session, held under a lease, with what its window is made of in memory.

mod answer;
mod calls;
mod compaction;
mod files;
mod fork;
mod inspect;
mod prepare;
mod recall;
mod recorded;
mod reductions;
mod watch;

use std::sync::Arc;
use std::time::Instant;

use plimsoll::cache::Fingerprint;
use plimsoll::compact::ladder::{Breaker, Trigger};
use plimsoll::compact::request::HookText;
use plimsoll::purse::CacheTerms;
use plimsoll::{
    Counter, Fixed, Ids, Limits, Log, Message, MessageId, Millis, Part, Receipt, Scale, SessionId, Window,
};
use plimsoll_store::{
    Archive, Claim, CountWatch, Epoch, Lease, Note, Revision, SessionPatch, Settled, Snapshot, Store,
    StoreError, TakeOver,
};
use serde_json::json;

use crate::climb::{Climb, Climbed, SummaryCharges};
use crate::error::SessionError;
use crate::meter::{Meter, Weighed};
use crate::reduced::Reduced;
use crate::settings::{Figures, Settings};
use crate::stop::{StopFlag, Stoppable};
use crate::usage_scale::UsageScale;

use answer::Writing;

pub use answer::{AnswerEnd, AnswerEvent, BLOCK, FLUSH_AFTER};
pub use fork::{Forked, Given, Identities};
pub use inspect::{Inspection, Kinds};
pub use prepare::{Content, Prepared};
pub use recall::look_up;
pub use reductions::Pruned;

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
    breaker: Breaker,
    /// Why the next climb is made.
    trigger: Trigger,
    /// Refusals since the last answer.
    refusals: u32,
    climb: Option<Climb>,
    early: Early,
    /// Charges of summaries that were prepared ahead and not used; recorded with the next summary.
    owed: SummaryCharges,
    /// What was handed out for the next request, and becomes what was sent once its answer begins.
    prepared: Option<Sent>,
    sent: Option<Sent>,
    /// Stops what is being prepared.
    stop: StopFlag,
}

/// A request that was handed out: what its provider's cache holds afterwards, and what it measured.
#[derive(Clone)]
struct Sent {
    fingerprint: Fingerprint,
    measure: Weighed,
}

/// Where a compaction that is prepared ahead stands.
#[derive(Default)]
enum Early {
    /// None is wanted or under way.
    #[default]
    None,
    /// A climb was handed out, or one came to nothing; none is begun before the window is reduced otherwise.
    Begun,
    /// It is done, and waits until the line is crossed.
    Held(Box<Climbed>),
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
        let now = self.now();
        self.store(|store, claim| store.advance(claim, part.clone(), now))?;
        self.log.advance(part)?;
        Ok(())
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // So that others need not wait for the lease to run out. An error has no caller to report it to.
        let _ = self.archive.store().release(&self.lease);
    }
}

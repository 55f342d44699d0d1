//! The driver of one session. It holds the session's lease, and the messages of its window in memory.

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
#[cfg(all(test, debug_assertions))]
#[allow(clippy::unwrap_used, clippy::panic)]
mod stopped;
mod watch;

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use plimsoll::cache::Fingerprint;
use plimsoll::compact::{Breaker, HookText, Trigger};
use plimsoll::{
    CacheTerms, Counter, Ids, Limits, Log, Message, MessageId, Millis, Part, Policy, Receipt,
    RequestOverhead, Scale, SessionId, Text, Window,
};
use plimsoll_store::{Archive, Claim, CountWatch, Lease, Revision, Snapshot, Store, StoreError};
#[cfg(feature = "async")]
use plimsoll_store::{Note, SessionPatch};
use plimsoll_tokens::Measure;
use serde_json::json;
#[cfg(feature = "async")]
use serde_json::{Map, Value};

use crate::climb::{Climb, ClimbOutcome, SummaryCharges};
use crate::error::SessionError;
use crate::meter::Meter;
use crate::overhead::Overhead;
use crate::reduced::Reduced;
use crate::scale::UsageScale;
use crate::settings::{Figures, SessionModel, Settings};
use crate::stop::{StopFlag, Stoppable};

use answer::Writing;

#[cfg(feature = "async")]
pub(crate) use answer::AnswerEnd;
pub use answer::{AnswerWriter, FLUSH_AFTER, FinishedAnswer};
pub use calls::{PendingCall, ToolCall};
pub use fork::{ForkContent, ForkRequest, Forked, Identities};
pub use inspect::SessionLoad;
pub use prepare::{Content, Prepared, Request, SummaryCall};
pub use recall::look_up;
pub use reductions::{NextReductions, PlannedPrune, Pruned};

/// Drives one session on the calling thread: everything around a model call but the call itself.
///
/// The driver holds the session's lease, and every write carries the lease's epoch, so that the writes of a driver
/// whose session was taken over are rejected. It keeps the messages of the window in memory. Each change is written to
/// the store first and becomes visible in memory only once it is stored.
pub struct Driver {
    archive: Arc<Archive>,
    settings: Settings,
    lease: Lease,
    /// When the lease was last taken or renewed. The store's clock may be another machine's, so the remaining time is
    /// computed from the time that has passed here.
    leased: Instant,
    is_released: bool,
    ids: Ids,
    /// Messages of the window: the newest pivot, its tail and what follows.
    log: Log,
    /// Revision of the session that plans on `log` are based on. Nothing was reduced or undone since.
    revision: Revision,
    meter: Meter,
    /// Tokens of the overhead's texts, until the counter changes.
    overhead: Cell<Option<RequestOverhead>>,
    /// The scale of the newest usage that a reduction has made stale.
    scale: Option<Scale>,
    /// Tokens of the window after the last reduction of an earlier run, for which `scale` is unknown.
    reduced: Option<Reduced>,
    /// Scale of the whole session's usage, if figures are based on it.
    recorded: Option<UsageScale>,
    writing: Option<Writing>,
    /// Texts of the window that were read without a count.
    counts: CountWatch,
    limits: Limits,
    cache: CacheTerms,
    breaker: Breaker,
    /// Why the next climb is made.
    trigger: Trigger,
    /// Overflow errors since the last answer.
    refusals: u32,
    climb: Option<Climb>,
    precompaction: Precompaction,
    /// Charges of summaries that were prepared ahead and not used; recorded with the next summary.
    owed: SummaryCharges,
    /// The request that was handed out last. It becomes what was sent once its answer begins.
    prepared: Option<Sent>,
    sent: Option<Sent>,
    /// Stops what is being prepared.
    stop: StopFlag,
}

/// A request that was handed out: what the provider's cache holds afterwards, and what it measured.
#[derive(Clone)]
struct Sent {
    fingerprint: Fingerprint,
    measure: Measure,
}

/// State of a compaction that is prepared ahead.
#[derive(Default)]
enum Precompaction {
    /// None is wanted or under way.
    #[default]
    None,
    /// A climb was handed out, or one failed; none is begun until the window is reduced otherwise.
    Begun,
    /// The outcome waits until the line is crossed.
    Stashed(Box<ClimbOutcome>),
}

impl Driver {
    pub(crate) fn open_leased(
        archive: Arc<Archive>,
        lease: Lease,
        settings: Settings,
    ) -> Result<Driver, SessionError> {
        let store = archive.store();
        let snapshot = match store.window(&lease.session) {
            Ok(snapshot) => snapshot,
            Err(error) => {
                // Release the lease of a session that cannot be read, so that others can try.
                let _ = store.release(&lease);
                return Err(error.into());
            }
        };
        Ok(Driver::of(archive, settings, lease, snapshot))
    }

    pub(crate) fn read(
        archive: Arc<Archive>,
        session: &SessionId,
        settings: Settings,
    ) -> Result<Driver, SessionError> {
        let Snapshot { mut log, revision } = archive.store().window(session)?;
        // Another process may be writing the newest answer, so its parts change between two reads.
        let closed = log.iter().rposition(|message| !message.is_open()).map_or(0, |last| last + 1);
        if closed < log.len() {
            log = Log::from_messages(log.messages()[..closed].iter().cloned());
        }
        // An expired lease: the store itself rejects every write of this driver.
        let lease = Lease::expired(session.clone(), settings.holder.clone());
        Ok(Driver::of(archive, settings, lease, Snapshot { log, revision }))
    }

    fn of(archive: Arc<Archive>, settings: Settings, lease: Lease, snapshot: Snapshot) -> Driver {
        let Snapshot { log, revision } = snapshot;
        let meter = Meter::new(&settings.counting, &settings.model.name, None);
        // If neither can be read, figures are estimates. That is no reason not to open the session.
        let (recorded, reduced) = match settings.figures {
            Figures::Driven => (None, Reduced::of(&archive, &lease.session, &settings, &log)),
            Figures::Recorded => {
                (UsageScale::read(&archive, &lease.session, &log, &settings.policy).ok(), None)
            }
        };
        Driver {
            counts: CountWatch::of(&log),
            limits: settings.limits(),
            cache: settings.cache_terms(),
            ids: plimsoll_store::random_ids(),
            archive,
            settings,
            lease,
            leased: Instant::now(),
            is_released: false,
            log,
            revision,
            meter,
            overhead: Cell::new(None),
            scale: None,
            reduced,
            recorded,
            writing: None,
            breaker: Breaker::default(),
            trigger: Trigger::Auto,
            refusals: 0,
            climb: None,
            precompaction: Precompaction::None,
            owed: SummaryCharges::default(),
            prepared: None,
            sent: None,
            stop: StopFlag::default(),
        }
    }

    /// Replaces the random source of ids, so that a replay produces the same ids each time.
    #[must_use]
    pub fn with_ids(mut self, ids: Ids) -> Driver {
        self.ids = ids;
        self
    }

    /// Returns the session's id.
    pub fn session(&self) -> &SessionId {
        &self.lease.session
    }

    /// Returns the lease under which the session is written.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Returns the stored messages that the window is made of.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Returns the archive that holds the session.
    pub fn archive(&self) -> &Arc<Archive> {
        &self.archive
    }

    /// Returns the session's policy.
    pub fn policy(&self) -> &Arc<Policy> {
        &self.settings.policy
    }

    /// Returns the limits of the model, including a context window that was learned from an overflow error.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Returns a token counter that is calibrated by the usage so far.
    pub fn counter(&self) -> Arc<dyn Counter> {
        Arc::new(self.stoppable(self.meter.counter()))
    }

    /// Wraps a counter so that it stops counting with the work.
    fn stoppable(&self, inner: Arc<dyn Counter>) -> Stoppable {
        Stoppable { inner, stop: self.stop.clone() }
    }

    /// Builds the window.
    pub fn window(&self) -> Window {
        Window::of(&self.log, &self.settings.policy)
    }

    /// Continues with another model. The next [`prepare`](Driver::prepare) first makes the window fit it.
    pub fn switch_model(&mut self, model: impl Into<SessionModel>) {
        self.settings.model = model.into();
        (self.limits, self.cache) = (self.settings.limits(), self.settings.cache_terms());
        self.meter = Meter::new(&self.settings.counting, &self.settings.model.name, None);
        self.overhead.set(None);
        (self.scale, self.reduced, self.recorded) = (None, None, None);
        // Another model's cache holds nothing, and a climb for the old limits is useless.
        (self.sent, self.prepared, self.climb) = (None, None, None);
        (self.precompaction, self.trigger, self.breaker) =
            (Precompaction::None, Trigger::Auto, Breaker::default());
        self.refusals = 0;
    }

    /// Replaces the system prompt that the host sends.
    pub fn set_system(&mut self, text: impl Into<Arc<str>>) {
        self.settings.overhead = std::mem::take(&mut self.settings.overhead).system(text);
        self.overhead.set(None);
    }

    /// Replaces the tools that the host declares: name, description and schema of each as one text.
    pub fn set_tools<T: Into<String>>(&mut self, declared: impl IntoIterator<Item = T>) {
        self.settings.overhead = std::mem::take(&mut self.settings.overhead).tools(declared);
        self.overhead.set(None);
    }

    /// Replaces the system prompt and the tools, as texts or as tokens.
    pub fn set_overhead(&mut self, overhead: impl Into<Overhead>) {
        self.settings.overhead = overhead.into();
        self.overhead.set(None);
    }

    /// Tokens that every request carries besides the conversation.
    fn overhead(&self) -> RequestOverhead {
        if let Some(counted) = self.overhead.get() {
            return counted;
        }
        let counted = self.settings.overhead.count(&*self.counter());
        // A stopped counter returns zero: such figures must not be cached.
        if !self.stop.is_set() {
            self.overhead.set(Some(counted));
        }
        counted
    }

    /// Replaces what is added to summary requests. A climb that is under way is restarted. Returns whether the text
    /// changed.
    pub fn set_summary_hook(&mut self, hook: HookText) -> bool {
        if hook == self.settings.hook {
            return false;
        }
        (self.settings.hook, self.climb) = (hook, None);
        true
    }

    /// Appends the user's prompt.
    pub fn prompt(&mut self, text: impl Into<Text>) -> Result<MessageId, SessionError> {
        let now = self.now();
        let mut message = Message::user(self.ids.message(now), self.ids.part(now), text).at(now);
        // As OpenCode does: a session whose first request failed has no answer that names its model.
        let SessionModel { name, provider, .. } = &self.settings.model;
        if let Some(provider) = provider {
            let model = json!({ "providerID": provider, "modelID": name });
            message.info.extra.insert("model".to_owned(), model);
        }
        self.append(message)
    }

    /// Appends the policy's request to continue, after a turn that was interrupted. It is marked as not written by the
    /// user, and does not count as a prompt.
    pub fn continue_turn(&mut self) -> Result<MessageId, SessionError> {
        let (now, policy) = (self.now(), Arc::clone(&self.settings.policy));
        let message =
            Message::continuation(self.ids.message(now), self.ids.part(now), &policy.compact.continue_text);
        self.append(message.at(now))
    }

    /// Appends a complete message: a prompt with files, or a message of the host. Tool outputs in it are stored
    /// unchanged; [`append_recorded`](Driver::append_recorded) truncates them.
    pub fn append(&mut self, message: Message) -> Result<MessageId, SessionError> {
        self.settle_answer()?;
        self.append_now(message)
    }

    fn append_now(&mut self, message: Message) -> Result<MessageId, SessionError> {
        let id = message.info.id.clone();
        let now = self.now();
        self.store(|store, claim| store.append(claim, vec![message.clone()], now))?;
        self.log.append(message)?;
        Ok(id)
    }

    /// Ends the turn: prunes if the policy prunes after turns.
    pub fn end_turn(&mut self) -> Result<Option<Receipt>, SessionError> {
        if !self.settings.policy.prune.after_turn {
            return Ok(None);
        }
        Ok(self.prune("the turn is over")?.receipt())
    }

    /// Releases the session's lease. Dropping the driver does so too, but cannot report a failure.
    pub fn close(mut self) -> Result<(), SessionError> {
        self.counts.finish(self.archive.store(), &self.lease.session);
        self.is_released = true;
        Ok(self.archive.store().release(&self.lease)?)
    }

    /// Returns the time by the session's clock.
    pub fn now(&self) -> Millis {
        self.settings.clock.now()
    }

    /// Writes to the store under the lease, which is renewed when half of it has passed.
    fn store<T>(
        &mut self,
        write: impl FnOnce(&dyn Store, &Claim) -> Result<T, StoreError>,
    ) -> Result<T, SessionError> {
        self.keep_lease()?;
        let claim = self.lease.claim();
        Ok(write(self.archive.store(), &claim)?)
    }

    /// Renews the lease if half of it has passed. Hosts that wait long for a model call this periodically.
    pub fn keep_lease(&mut self) -> Result<(), SessionError> {
        // At half of it, so that one late or failed renewal leaves time for another.
        if self.leased.elapsed() > self.settings.lease / 2 {
            self.lease = self.archive.store().renew(&self.lease, self.settings.lease)?;
            self.leased = Instant::now();
        }
        Ok(())
    }

    /// Reads the messages of the window again.
    fn reload(&mut self) -> Result<(), SessionError> {
        let Snapshot { log, revision } = self.archive.store().window(&self.lease.session)?;
        (self.log, self.revision) = (log, revision);
        Ok(())
    }

    /// Adds a part to a message that is being written.
    fn append_part(&mut self, message: &MessageId, part: Part) -> Result<(), SessionError> {
        let now = self.now();
        // The store first: if it fails, the log in memory must still be what is stored.
        self.store(|store, claim| store.append_part(claim, message, part.clone(), now))?;
        self.log.append_part(message, part)?;
        Ok(())
    }

    /// Replaces a part by a later state of it.
    fn advance(&mut self, part: Part) -> Result<(), SessionError> {
        self.advance_all(vec![part])
    }

    /// Replaces parts by later states of them, all or none.
    fn advance_all(&mut self, parts: Vec<Part>) -> Result<(), SessionError> {
        let now = self.now();
        self.store(|store, claim| store.advance_all(claim, parts.clone(), now))?;
        Ok(parts.into_iter().try_for_each(|part| self.log.advance(part))?)
    }
}

/// Operations that only [`SessionHandle`](crate::SessionHandle) offers.
#[cfg(feature = "async")]
impl Driver {
    pub(crate) fn set_title(&mut self, title: String) -> Result<(), SessionError> {
        let (now, patch) = (self.now(), SessionPatch { title: Some(title), ..SessionPatch::default() });
        self.store(|store, claim| store.patch(claim, patch, now)).map(drop)
    }

    pub(crate) fn set_agent(&mut self, agent: String) -> Result<(), SessionError> {
        let (now, patch) = (self.now(), SessionPatch { agent: Some(agent), ..SessionPatch::default() });
        self.store(|store, claim| store.patch(claim, patch, now)).map(drop)
    }

    pub(crate) fn update_settings(
        &mut self,
        update: impl FnOnce(&mut Map<String, Value>),
    ) -> Result<(), SessionError> {
        let known = self.archive.store().session(self.session())?.settings;
        let mut settings = known.clone();
        update(&mut settings);
        if settings == known {
            return Ok(());
        }
        let patch = SessionPatch { settings: Some(settings), ..SessionPatch::default() };
        let now = self.now();
        self.store(|store, claim| store.patch(claim, patch, now)).map(drop)
    }

    pub(crate) fn take_notes(&mut self, ids: &[String]) -> Result<Vec<Note>, SessionError> {
        let now = self.now();
        self.store(|store, claim| store.take_notes(claim, ids, now))
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("session", self.session()).finish_non_exhaustive()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if !self.is_released {
            // Released so that others need not wait until the lease expires. There is no caller to report an error to.
            let _ = self.archive.store().release(&self.lease);
        }
    }
}

//! Opening a session.

use std::sync::Arc;
use std::time::Duration;

use plimsoll::compact::{HookText, Summariser};
use plimsoll::{CacheTerms, Policy, SessionId, UsageTrust};
use plimsoll_store::{Archive, Clock, Lease, NewSession, TakeOver};

use crate::driver::Driver;
use crate::error::SessionError;
use crate::overhead::Overhead;
use crate::settings::{Counting, Figures, SessionModel, Settings};

/// Settings of a session to open.
///
/// Without [`session`](SessionBuilder::session) a new session is created. The default is the policy `plimsoll`,
/// calibrated counting, no summariser and a lease of a minute.
#[derive(Clone)]
#[must_use = "a builder does nothing until it is opened"]
pub struct SessionBuilder {
    archive: Arc<Archive>,
    target: Target,
    settings: Settings,
}

#[derive(Clone)]
enum Target {
    Stored(SessionId),
    New(Box<NewSession>),
}

impl SessionBuilder {
    pub(crate) fn new(archive: Arc<Archive>) -> SessionBuilder {
        SessionBuilder { archive, target: Target::New(Box::default()), settings: Settings::default() }
    }

    /// Opens a stored session.
    pub fn session(mut self, id: impl Into<SessionId>) -> SessionBuilder {
        self.target = Target::Stored(id.into());
        self
    }

    /// Creates a session. An empty id is replaced by a generated one, and the model is recorded if none is set.
    pub fn new_session(mut self, new: NewSession) -> SessionBuilder {
        self.target = Target::New(Box::new(new));
        self
    }

    /// Sets the model that requests are sent to.
    pub fn model(mut self, model: impl Into<SessionModel>) -> SessionBuilder {
        self.settings.model = model.into();
        self
    }

    /// Sets the policy.
    pub fn policy(mut self, policy: impl Into<Arc<Policy>>) -> SessionBuilder {
        self.settings.policy = policy.into();
        self
    }

    /// Sets the model that summarises. Without one, summaries are extracted from the history.
    pub fn summariser(mut self, summariser: impl Into<Option<Summariser>>) -> SessionBuilder {
        self.settings.summariser = summariser.into();
        self
    }

    /// Sets what is added to summary requests.
    pub fn summary_hook(mut self, hook: HookText) -> SessionBuilder {
        self.settings.hook = hook;
        self
    }

    /// Sets the system prompt that the host sends with each request. Its tokens are part of every figure.
    pub fn system(mut self, text: impl Into<Arc<str>>) -> SessionBuilder {
        self.settings.overhead = self.settings.overhead.system(text);
        self
    }

    /// Sets the tools that the host declares with each request: name, description and schema of each as one text.
    pub fn tools<T: Into<String>>(mut self, declared: impl IntoIterator<Item = T>) -> SessionBuilder {
        self.settings.overhead = self.settings.overhead.tools(declared);
        self
    }

    /// Sets the system prompt and the tools at once, as texts or as tokens.
    pub fn overhead(mut self, overhead: impl Into<Overhead>) -> SessionBuilder {
        self.settings.overhead = overhead.into();
        self
    }

    /// Sets how tokens are counted.
    pub fn counting(mut self, counting: Counting) -> SessionBuilder {
        self.settings.counting = counting;
        self
    }

    /// Sets what the figures of receipts are based on.
    pub fn figures(mut self, figures: Figures) -> SessionBuilder {
        self.settings.figures = figures;
        self
    }

    /// Sets which recorded usage is trusted for the size of the next request. A host that continues sessions of other
    /// tools trusts only its own: theirs is of requests with another system prompt and other tools.
    pub fn believed_usage(mut self, believed: UsageTrust) -> SessionBuilder {
        self.settings.believed = believed;
        self
    }

    /// Sets the name under which the lease is held, for a user who finds the session in use.
    pub fn holder(mut self, holder: impl Into<String>) -> SessionBuilder {
        self.settings.holder = holder.into();
        self
    }

    /// Sets whether the session is taken over if another process holds its lease.
    pub fn take_over(mut self, take_over: TakeOver) -> SessionBuilder {
        self.settings.take_over = take_over;
        self
    }

    /// Sets the duration of the lease, which is renewed while the session is open.
    pub fn lease(mut self, duration: Duration) -> SessionBuilder {
        self.settings.lease = duration;
        self
    }

    /// Sets prices and lifetime of the provider's prompt cache. The default follows from the model's price.
    pub fn cache_terms(mut self, terms: CacheTerms) -> SessionBuilder {
        self.settings.cache = Some(terms);
        self
    }

    /// Sets how many of the provider's cache breakpoints the host sets outside the conversation. The default is 2: the
    /// system prompt and the tools.
    pub fn reserved_breakpoints(mut self, breakpoints: u64) -> SessionBuilder {
        self.settings.reserved_breakpoints = breakpoints;
        self
    }

    /// Sets the clock.
    pub fn clock(mut self, clock: Clock) -> SessionBuilder {
        self.settings.clock = clock;
        self
    }

    /// Opens the session on this thread, for hosts without an async runtime.
    pub fn open_blocking(mut self) -> Result<Driver, SessionError> {
        let lease = self.take_lease()?;
        self.open_leased_blocking(lease)
    }

    /// Reads the session without its lease, which another process may hold. It can be inspected and forked; writes
    /// fail. An answer that is being written is left out.
    pub fn read_blocking(mut self) -> Result<Driver, SessionError> {
        let session = self.stored()?;
        Driver::read(self.archive, &session, self.settings)
    }

    /// Takes the session's lease. A host that can be interrupted registers the lease for release before
    /// [`open_leased_blocking`](SessionBuilder::open_leased_blocking) reads the session, which can take seconds.
    pub fn take_lease(&mut self) -> Result<Lease, SessionError> {
        let session = self.stored()?;
        let (store, holder, ttl) = (self.archive.store(), self.settings.holder.as_str(), self.settings.lease);
        Ok(match &self.settings.take_over {
            TakeOver::Always => store.break_lease(&session, holder, ttl)?,
            TakeOver::From(gone) => store.inherit_lease(&session, holder, ttl, gone)?,
            TakeOver::Never => store.lease(&session, holder, ttl)?,
        })
    }

    /// Opens the session under a lease that was taken before.
    pub fn open_leased_blocking(self, lease: Lease) -> Result<Driver, SessionError> {
        Driver::open_leased(self.archive, lease, self.settings)
    }

    /// Returns the session's id. Creates the session first if it is new.
    fn stored(&mut self) -> Result<SessionId, SessionError> {
        let new = match &self.target {
            Target::Stored(id) => return Ok(id.clone()),
            Target::New(new) => (**new).clone(),
        };
        let now = self.settings.clock.now();
        let id = match new.id.as_str() {
            "" => plimsoll_store::random_ids().session(now),
            _ => new.id.clone(),
        };
        let own = Some(&self.settings.model.name).filter(|name| !name.is_empty());
        let model = new.model.clone().or_else(|| own.cloned());
        let id = self.archive.store().create(NewSession { id, model, ..new }, now)?.id;
        self.target = Target::Stored(id.clone());
        Ok(id)
    }
}

impl Driver {
    /// Settings of a session to open.
    pub fn builder(archive: Arc<Archive>) -> SessionBuilder {
        SessionBuilder::new(archive)
    }
}

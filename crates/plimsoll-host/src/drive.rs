//! Leases on stored sessions, and drivers that change them.

use std::sync::Arc;
use std::time::Duration;

use plimsoll::compact::Summariser;
use plimsoll::{Limits, SessionId};
use plimsoll_session::blocking::Driver;
use plimsoll_session::{Figures, Session as OpenSession, SessionBuilder, SessionError, SessionModel};
use plimsoll_store::{Lease, Session, StoreError, TakeOver, holder_is_gone, holder_name, process_holder};

use crate::config::HostConfig;
use crate::error::HostError;
use crate::host::Host;
use crate::recorded::SessionWindow;
use crate::store::OpenStore;

/// Duration of leases. After a process was killed, its sessions are blocked for at most this long.
pub(crate) const LEASE: Duration = Duration::from_secs(60);

/// Options to drive a stored session without making requests.
#[derive(Clone, Default)]
pub(crate) struct DriveOptions {
    /// Take the session over if another process is running it.
    pub(crate) force: bool,
    /// Limits of the session's own window; the configured context if `None`.
    pub(crate) limits: Option<Limits>,
    /// A summariser that can be asked.
    pub(crate) summariser: Option<Summariser>,
}

/// A stored session, and the limits of its window.
pub struct StoredSession {
    /// The database.
    pub opened: OpenStore,
    /// The session.
    pub session: Session,
    /// The limits of its window, as shown by `plimsoll inspect`.
    pub limits: Limits,
}

impl Host {
    /// Finds the stored session with this id or prefix, or the newest of the current directory, and the limits of its
    /// window. `asked` is a context window that the user has set.
    pub fn stored_session(
        &self,
        id: Option<&str>,
        config: &HostConfig,
        asked: Option<u64>,
    ) -> Result<StoredSession, HostError> {
        let opened = self.open_store(config)?;
        let session = opened.session_or_newest(id, self)?;
        if id.is_none() {
            self.info(format!("Plimsoll: `{}` in `{}`", session.id, self.short(&opened.path)));
        }
        let limits = opened.limits(&session, config, asked)?;
        Ok(StoredSession { opened, session, limits })
    }
}

impl StoredSession {
    /// Opens a driver within the limits of the window.
    pub(crate) fn drive(
        &self,
        config: &HostConfig,
        force: bool,
        summariser: Option<Summariser>,
        host: &Host,
    ) -> Result<Driver, HostError> {
        let options = DriveOptions { force, limits: Some(self.limits), summariser };
        self.opened.drive(&self.session, config, options, host)
    }
}

impl OpenStore {
    /// Returns the limits of a session's own window, or those that the user has set.
    pub fn limits(
        &self,
        session: &Session,
        config: &HostConfig,
        asked: Option<u64>,
    ) -> Result<Limits, HostError> {
        Ok(SessionWindow::of_stored(self.archive.store(), session, config, asked)?.limits)
    }

    /// Opens a driver of a session. Its receipts are on the scale of recorded usage.
    pub(crate) fn drive(
        &self,
        session: &Session,
        config: &HostConfig,
        options: DriveOptions,
        host: &Host,
    ) -> Result<Driver, HostError> {
        let DriveOptions { force, limits, summariser } = options;
        // This host makes no request that would calibrate the figures, and users compare them with those of `inspect`.
        let builder = self.builder(session, config, force).model(model_of(session, config, limits));
        let (lease, builder) =
            self.take(session, builder.summariser(summariser).figures(Figures::Recorded), host)?;
        Ok(builder.open_leased_blocking(lease)?)
    }

    /// Opens a session for work that does not change its window, so the window is not read and weighed.
    pub(crate) async fn open_unweighed(
        &self,
        session: &Session,
        config: &HostConfig,
        force: bool,
        host: &Host,
    ) -> Result<OpenSession, HostError> {
        let (lease, builder) = self.take(session, self.builder(session, config, force), host)?;
        Ok(builder.open_leased(lease).await?)
    }

    /// Returns settings for a host that makes no requests and shows the session's own window.
    pub(crate) fn recorded_builder(
        &self,
        session: &Session,
        config: &HostConfig,
    ) -> Result<SessionBuilder, HostError> {
        let limits = self.limits(session, config, None)?;
        let builder = self.builder(session, config, false).model(model_of(session, config, Some(limits)));
        Ok(builder.figures(Figures::Recorded))
    }

    /// Returns settings for a host that makes no requests.
    fn builder(&self, session: &Session, config: &HostConfig, force: bool) -> SessionBuilder {
        OpenSession::builder(Arc::clone(&self.archive))
            .session(session.id.clone())
            .model(model_of(session, config, None))
            .policy(config.policy.clone())
            .holder(holder())
            .lease(LEASE)
            .take_over(if force { TakeOver::Always } else { TakeOver::Never })
    }

    /// Takes the lease of a session, which an interrupt releases.
    fn take(
        &self,
        session: &Session,
        mut builder: SessionBuilder,
        host: &Host,
    ) -> Result<(Lease, SessionBuilder), HostError> {
        let lease = match builder.take_lease() {
            Err(SessionError::Store(error @ StoreError::Leased { .. })) => {
                return Err(HostError::from(error).hint("pass `--force` to take it over"));
            }
            other => other?,
        };
        // Registered before the session is read, which can take seconds, so that an interrupt during that time releases the
        // lease.
        host.leases.hold(&self.archive, &lease);
        if let Some(holder) = taken_from_living(&lease) {
            host.note(format!("took over `{}` from `{holder}`, which can no longer write to it", session.id));
        }
        Ok((lease, builder))
    }

    /// Takes the lease of a session. With `force`, takes it over from another process and reports that. Without it, an error
    /// about another process has the next step `hint`.
    pub(crate) fn lease(
        &self,
        session: &SessionId,
        force: bool,
        hint: &str,
        host: &Host,
    ) -> Result<Lease, HostError> {
        let (holder, store) = (holder(), self.archive.store());
        let lease = match force {
            true => store.break_lease(session, &holder, LEASE),
            false => store.lease(session, &holder, LEASE),
        };
        let lease = lease.map_err(|error| with_hint(error, hint))?;
        host.leases.hold(&self.archive, &lease);
        if let Some(hit) = taken_from_living(&lease) {
            host.note(format!("took over `{session}` from `{hit}`, which can no longer write to it"));
        }
        Ok(lease)
    }
}

/// Returns the model of a stored session, with these limits or the configured ones.
fn model_of(session: &Session, config: &HostConfig, limits: Option<Limits>) -> SessionModel {
    let limits = limits.unwrap_or(Limits::new(config.context, 0));
    SessionModel::new(session.model.clone().unwrap_or_default()).limits(limits)
}

/// Adds a next step to the error of a session that another process is running.
pub(crate) fn with_hint(error: StoreError, hint: &str) -> HostError {
    let is_leased = matches!(error, StoreError::Leased { .. });
    let error = HostError::from(error);
    if is_leased { error.hint(hint) } else { error }
}

/// Returns the name under which this process holds leases.
pub(crate) fn holder() -> String {
    process_holder("plimsoll")
}

/// Returns the name of the process from which a session was taken over; `None` if that process no longer exists.
pub fn taken_from_living(lease: &Lease) -> Option<String> {
    lease.taken_from.as_deref().filter(|holder| !holder_is_gone(holder)).map(holder_name)
}

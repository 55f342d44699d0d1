//! The driver for async hosts: a thread of its own does the blocking work.
//!
//! The store's traits block, so an async host must never call them on its own threads. A [`DriverHandle`] gives the
//! driver one thread for as long as the session is driven. `spawn_blocking` for each call was weighed: it needs a lock
//! around the driver, loses the order of calls under load, and stores nothing while a stream pauses.
//! The thread has both: it takes calls in order, and while none comes it stores deltas that are due and keeps the lease.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use plimsoll::SessionId;
use plimsoll_store::Archive;
use tokio::sync::oneshot;

use crate::driver::{Driver, FLUSH_AFTER};
use crate::error::SessionError;
use crate::settings::Settings;

enum Job {
    Work(Box<dyn FnOnce(&mut Driver) + Send>),
    Close(oneshot::Sender<Result<(), SessionError>>),
}

/// A driver on a thread of its own. Clones share it; when the last is dropped the session is given back.
#[derive(Clone)]
pub struct DriverHandle {
    jobs: Sender<Job>,
}

impl DriverHandle {
    /// Open a session, as [`Driver::open`] does.
    pub async fn open(
        archive: Arc<Archive>,
        session: SessionId,
        settings: Settings,
    ) -> Result<DriverHandle, SessionError> {
        DriverHandle::begin(move || Driver::open(archive, &session, settings)).await
    }

    /// Read a session without the right to run it, as [`Driver::read`] does.
    pub async fn read(
        archive: Arc<Archive>,
        session: SessionId,
        settings: Settings,
    ) -> Result<DriverHandle, SessionError> {
        DriverHandle::begin(move || Driver::read(archive, &session, settings)).await
    }

    async fn begin(
        open: impl FnOnce() -> Result<Driver, SessionError> + Send + 'static,
    ) -> Result<DriverHandle, SessionError> {
        let (jobs, taken) = channel::<Job>();
        let (opened, wait) = oneshot::channel();
        let work = move || {
            let mut driver = match open() {
                Ok(driver) => driver,
                Err(error) => {
                    let _ = opened.send(Err(error));
                    return;
                }
            };
            if opened.send(Ok(())).is_err() {
                return;
            }
            // Twice as often as deltas are due, so that none waits for much longer than it may.
            let tick = Duration::from_millis(FLUSH_AFTER.0 / 2);
            loop {
                match taken.recv_timeout(tick) {
                    Ok(Job::Work(work)) => work(&mut driver),
                    Ok(Job::Close(closed)) => {
                        let flushed = driver.flush();
                        let _ = closed.send(flushed.and(driver.close()));
                        return;
                    }
                    Err(RecvTimeoutError::Timeout) => {
                        // A failure here loses nothing: what waits is kept, and the next call meets the same error.
                        let _ = driver.flush_due();
                        let _ = driver.keep_lease();
                    }
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            let _ = driver.flush();
        };
        let spawned = std::thread::Builder::new().name("plimsoll-session".into()).spawn(work);
        spawned.map_err(SessionError::Output)?;
        match wait.await {
            Ok(opened) => opened.map(|()| DriverHandle { jobs }),
            Err(_) => Err(CLOSED),
        }
    }

    /// Do something with the driver. Calls are made in the order in which they come; a caller that stops waiting
    /// does not undo its call.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Driver) -> Result<T, SessionError> + Send + 'static,
    ) -> Result<T, SessionError> {
        let (answer, wait) = oneshot::channel();
        let work: Box<dyn FnOnce(&mut Driver) + Send> = Box::new(move |driver| {
            let _ = answer.send(work(driver));
        });
        self.jobs.send(Job::Work(work)).map_err(|_| CLOSED)?;
        wait.await.map_err(|_| CLOSED)?
    }
}

impl DriverHandle {
    /// Give the session back, and wait until that is done: a process that ends right after dropping its handles may end
    /// before their thread has. Other clones of the handle can do nothing more.
    pub async fn close(self) -> Result<(), SessionError> {
        let (closed, wait) = oneshot::channel();
        self.jobs.send(Job::Close(closed)).map_err(|_| CLOSED)?;
        wait.await.map_err(|_| CLOSED)?
    }
}

const CLOSED: SessionError = SessionError::OutOfOrder("the driver's thread has ended");

//! The thread that does a session's blocking work.
//!
//! The store's traits block, so an async host must never call them on its own threads. Each open session has one thread
//! instead. `spawn_blocking` for each operation was rejected: it needs a lock around the driver, loses the order of
//! operations under load, and stores nothing while a stream pauses. The thread takes jobs in order, and while none
//! comes it stores text that is due and renews the lease.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::driver::{Driver, FLUSH_AFTER};
use crate::error::SessionError;
use crate::stop::StopFlag;

enum Job {
    Work(Box<dyn FnOnce(&mut Driver) + Send>),
    Close(oneshot::Sender<Result<(), SessionError>>),
}

/// Sends jobs to the thread. When the last clone is dropped, the thread releases the session and ends.
#[derive(Clone)]
pub(super) struct Jobs(Sender<Job>);

impl Jobs {
    /// Opens a driver on a new thread. `about` is read from it before it takes jobs.
    pub(super) async fn spawn<T: Send + 'static>(
        open: impl FnOnce() -> Result<Driver, SessionError> + Send + 'static,
        about: impl FnOnce(&Driver) -> T + Send + 'static,
    ) -> Result<(Jobs, T), SessionError> {
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
            if opened.send(Ok(about(&driver))).is_err() {
                return;
            }
            // Twice as often as text is due, so that none waits much longer than `FLUSH_AFTER`.
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
                        // A failure here loses nothing: the text stays queued, and the next job gets the same error.
                        let _ = driver.flush_due();
                        let _ = driver.keep_lease();
                    }
                    // Every handle was dropped without `close`. Text that waits is still stored below.
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            let _ = driver.flush();
        };
        let spawned = std::thread::Builder::new().name("plimsoll-session".into()).spawn(work);
        spawned.map_err(SessionError::Thread)?;
        let about = wait.await.map_err(|_| SessionError::Closed)??;
        Ok((Jobs(jobs), about))
    }

    /// Sends a job and waits for its result. A caller that stops waiting does not undo the job.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Driver) -> Result<T, SessionError> + Send + 'static,
    ) -> Result<T, SessionError> {
        let (answer, wait) = oneshot::channel();
        self.send(move |driver| {
            let _ = answer.send(work(driver));
        })?;
        wait.await.map_err(|_| SessionError::Closed)?
    }

    /// Like [`run`](Jobs::run), for work that stores nothing unless it completes: a caller that stops waiting stops it.
    pub(super) async fn run_until_dropped<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Driver) -> Result<T, SessionError> + Send + 'static,
    ) -> Result<T, SessionError> {
        let guard = StopOnDrop::new();
        let stop = guard.flag();
        let done = self.run(move |driver| {
            // The caller may have given up while the job waited in the queue.
            stop.check()?;
            let done = driver.with_stop_flag(&stop, work);
            // Work that completed with a stopped counter has wrong figures.
            stop.check().and(done)
        });
        let done = done.await;
        guard.disarm();
        done
    }

    /// Sends a job without waiting for its result.
    pub(super) fn send(&self, work: impl FnOnce(&mut Driver) + Send + 'static) -> Result<(), SessionError> {
        self.0.send(Job::Work(Box::new(work))).map_err(|_| SessionError::Closed)
    }

    /// Releases the session, and waits until that is done.
    pub(super) async fn close(self) -> Result<(), SessionError> {
        let (closed, wait) = oneshot::channel();
        self.0.send(Job::Close(closed)).map_err(|_| SessionError::Closed)?;
        wait.await.map_err(|_| SessionError::Closed)?
    }
}

/// Sets a flag when it is dropped, unless it was disarmed.
pub(super) struct StopOnDrop {
    flag: StopFlag,
    is_armed: bool,
}

impl StopOnDrop {
    pub(super) fn new() -> StopOnDrop {
        StopOnDrop::of(StopFlag::default())
    }

    pub(super) fn of(flag: StopFlag) -> StopOnDrop {
        StopOnDrop { flag, is_armed: true }
    }

    pub(super) fn flag(&self) -> StopFlag {
        self.flag.clone()
    }

    pub(super) fn disarm(mut self) {
        self.is_armed = false;
    }
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        if self.is_armed {
            self.flag.stop();
        }
    }
}

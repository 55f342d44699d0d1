//! The one that writes: a thread with the only writing connection, and several changes in one transaction.
//!
//! A change runs in a savepoint of its own, so one that fails takes nothing of the others with it. Nobody is told
//! that a change is done before the transaction is.

use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::thread::JoinHandle;

use rusqlite::Connection;

use crate::error::StoreError;

/// So many changes go into one transaction at most.
const GROUP: usize = 256;

type Tell = Box<dyn FnOnce(Result<(), StoreError>) + Send>;
/// Is given the connection within a transaction, or why there is none.
type Job = Box<dyn FnOnce(Result<&Connection, String>) -> Tell + Send>;

/// Hands changes to the writing thread.
pub(crate) struct Writer {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Start the thread.
    pub(crate) fn start(connection: Connection) -> Result<Writer, StoreError> {
        let (jobs, inbox) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("plimsoll-store".into())
            .spawn(move || work(&connection, &inbox))
            .map_err(StoreError::io("cannot start the writing thread"))?;
        Ok(Writer { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Make a change; comes back when it is in the database for good.
    pub(crate) fn write<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, wait) = mpsc::sync_channel::<Result<T, StoreError>>(1);
        let job: Job = Box::new(move |connection| {
            let done = match connection {
                Ok(connection) => in_savepoint(connection, change),
                Err(why) => Err(StoreError::Database(why)),
            };
            tell(answer, done)
        });
        let jobs = self.jobs.as_ref().ok_or(StoreError::Closed)?;
        jobs.send(job).map_err(|_| StoreError::Closed)?;
        wait.recv().unwrap_or(Err(StoreError::Closed))
    }
}

/// What was found is only said once the transaction has been committed.
fn tell<T: Send + 'static>(answer: SyncSender<Result<T, StoreError>>, done: Result<T, StoreError>) -> Tell {
    Box::new(move |committed| {
        // Whoever asked may have gone; the change stands all the same.
        let _ = answer.send(committed.and(done));
    })
}

fn in_savepoint<T>(
    connection: &Connection,
    change: impl FnOnce(&Connection) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    connection.prepare_cached("SAVEPOINT change")?.execute([])?;
    match change(connection) {
        Ok(value) => {
            connection.prepare_cached("RELEASE change")?.execute([])?;
            Ok(value)
        }
        Err(error) => {
            connection.prepare_cached("ROLLBACK TO change")?.execute([])?;
            connection.prepare_cached("RELEASE change")?.execute([])?;
            Err(error)
        }
    }
}

fn work(connection: &Connection, inbox: &Receiver<Job>) {
    while let Ok(first) = inbox.recv() {
        if let Err(why) = run(connection, "BEGIN IMMEDIATE") {
            first(Err(why))(Ok(()));
            continue;
        }
        let mut done = vec![first(Ok(connection))];
        while done.len() < GROUP
            && let Ok(next) = inbox.try_recv()
        {
            done.push(next(Ok(connection)));
        }
        let committed = run(connection, "COMMIT");
        if committed.is_err() {
            // Nothing of it may linger, or the next transaction could not begin.
            let _ = run(connection, "ROLLBACK");
        }
        for tell in done {
            tell(match &committed {
                Ok(()) => Ok(()),
                Err(error) => Err(StoreError::Database(error.clone())),
            });
        }
    }
}

fn run(connection: &Connection, statement: &str) -> Result<(), String> {
    let prepared = connection.prepare_cached(statement);
    prepared.and_then(|mut statement| statement.execute([]).map(drop)).map_err(|error| error.to_string())
}

impl Drop for Writer {
    fn drop(&mut self) {
        // The thread ends when nobody can send any more.
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

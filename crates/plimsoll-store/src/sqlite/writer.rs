//! The single writer. Callers queue their changes. One of them is the leader: it commits the queue in one transaction
//! and passes the others their results. So concurrent changes share a commit, and a single change is made on its
//! caller's own thread (with a writer thread, a single append took twice as long).
//!
//! - **Fair**: the queue is first in, first out, and a follower waits for its own result, not for the connection. When
//!   all waited for a mutex around the connection, the last owner often got it again: of 200 writers one made 574
//!   appends and another 7.
//! - **A busy database is waited for once**: each change waits [`PATIENCE`] from when it was queued, whichever caller
//!   leads. When each waited in its own turn, the fourth in the queue got its error after 40 seconds.
//! - The first change of a transaction needs no savepoint. Each further one has its own, so a failed change does not
//!   affect the others. No caller gets a result before the transaction is committed.

use std::collections::VecDeque;
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::witness::Witness;
use crate::error::{PATIENCE, StoreError};

/// Maximum number of changes in one transaction.
const GROUP: usize = 256;

/// How long SQLite waits for another process before the leader checks the queue for expired changes.
const SLICE: Duration = Duration::from_millis(100);

type Reply = Box<dyn FnOnce(Result<(), StoreError>) + Send>;
type Job = Box<dyn FnOnce(TxState<'_>) -> Reply + Send>;

/// State of the transaction that a change runs in.
enum TxState<'a> {
    /// An empty transaction. A change that fails ends it.
    Begun(&'a Connection),
    /// A transaction with changes of other callers.
    Shared(&'a Connection),
    /// No transaction could be started.
    Failed(StoreError),
}

/// A signal to a caller in the queue.
enum WriterSignal<T> {
    /// Result of its change.
    Done(Result<T, StoreError>),
    /// The caller is first in the queue and becomes the leader.
    Lead,
}

/// A change in the queue.
struct Queued {
    job: Job,
    /// Makes its caller the leader. Returns whether the caller is still waiting.
    lead: Box<dyn Fn() -> bool + Send>,
    since: Instant,
}

#[derive(Default)]
struct WriteQueue {
    jobs: VecDeque<Queued>,
    is_led: bool,
}

/// The writing connection, and the queue of changes.
pub(crate) struct Writer {
    connection: Mutex<Connection>,
    queue: Mutex<WriteQueue>,
    witness: Option<Witness>,
}

/// Leads until it is dropped, also by a panic; then the next in the queue leads.
struct Leader<'a>(&'a Writer);

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        let mut queue = lock(&self.0.queue);
        while let Some(next) = queue.jobs.front() {
            if (next.lead)() {
                return;
            }
            // Its caller is gone, so no one waits for the result.
            queue.jobs.pop_front();
        }
        queue.is_led = false;
    }
}

impl Writer {
    pub(super) fn new(connection: Connection, witness: Option<Witness>) -> Writer {
        // An error is ignored: without the timeout, a busy database is only polled more often.
        let _ = connection.busy_timeout(SLICE);
        Writer { connection: Mutex::new(connection), queue: Mutex::default(), witness }
    }

    /// Makes a change. Returns when it is committed.
    pub(crate) fn write<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (signals, wait) = mpsc::channel::<WriterSignal<T>>();
        let call = signals.clone();
        let job: Job = Box::new(move |transaction| {
            let done = match transaction {
                TxState::Begun(connection) => change(connection).inspect_err(|_| {
                    // A full disk has rolled it back already.
                    let _ = run(connection, "ROLLBACK");
                }),
                TxState::Shared(connection) => in_savepoint(connection, change),
                TxState::Failed(why) => Err(why),
            };
            reply(signals, done)
        });
        let lead = Box::new(move || call.send(WriterSignal::Lead).is_ok());
        let mut leads = {
            let mut queue = lock(&self.queue);
            queue.jobs.push_back(Queued { job, lead, since: Instant::now() });
            !std::mem::replace(&mut queue.is_led, true)
        };
        loop {
            if leads {
                let _leader = Leader(self);
                self.group();
            }
            match wait.recv() {
                Ok(WriterSignal::Done(done)) => return done,
                Ok(WriterSignal::Lead) => leads = true,
                // The change panicked, and its caller's sender is gone.
                Err(mpsc::RecvError) => return Err(StoreError::Closed),
            }
        }
    }

    /// Makes the queued changes in one transaction.
    fn group(&self) {
        let connection = &*lock(&self.connection);
        if !connection.is_autocommit() {
            // A change that panicked has left its transaction open.
            let _ = run(connection, "ROLLBACK");
        }
        // Not a deferred transaction: one that reads first cannot become a writer after another process has written,
        // and SQLite reports that at once instead of waiting.
        while let Err(why) = run(connection, "BEGIN IMMEDIATE") {
            let is_busy = matches!(why, StoreError::Busy { .. });
            // The leader is first. When it gets its error, the next one leads and tries for itself.
            let first = self.next(|queued| !is_busy || queued.since.elapsed() >= PATIENCE);
            if let Some(first) = first {
                first(TxState::Failed(why.again()))(Ok(()));
                if is_busy {
                    self.give_up(&why);
                }
                return;
            }
        }
        let Some(first) = self.next(|_| true) else {
            let _ = run(connection, "ROLLBACK");
            return;
        };
        let mut done = vec![first(TxState::Begun(connection))];
        if connection.is_autocommit() {
            // The first change failed with its own error. The others are still queued and start over.
            done.into_iter().for_each(|reply| reply(Ok(())));
            return;
        }
        // A full disk ends the transaction at once. A later change would then be committed on its own, and would be
        // reported as failed although it is stored.
        while done.len() < GROUP
            && !connection.is_autocommit()
            && let Some(next) = self.next(|_| true)
        {
            done.push(next(TxState::Shared(connection)));
        }
        let committed =
            if connection.is_autocommit() { Err(StoreError::TakenAlong) } else { run(connection, "COMMIT") };
        if committed.is_err() {
            // A failed commit leaves the transaction open, and the next one could not begin.
            let _ = run(connection, "ROLLBACK");
        } else if let Some(witness) = &self.witness {
            // Before the replies: an acknowledged change must be in the file, or its loss would go unnoticed.
            witness.note(connection);
        }
        for reply in done {
            reply(match &committed {
                Ok(()) => Ok(()),
                Err(error) => Err(error.again()),
            });
        }
    }

    /// Fails all changes that have waited long enough for a busy database.
    fn give_up(&self, why: &StoreError) {
        while let Some(job) = self.next(|queued| queued.since.elapsed() >= PATIENCE) {
            job(TxState::Failed(why.again()))(Ok(()));
        }
    }

    /// Takes the first change of the queue, if it satisfies the condition.
    fn next(&self, is_taken: impl FnOnce(&Queued) -> bool) -> Option<Job> {
        let mut queue = lock(&self.queue);
        if !is_taken(queue.jobs.front()?) {
            return None;
        }
        queue.jobs.pop_front().map(|queued| queued.job)
    }
}

/// Locks a mutex, even after a panic: [`Writer::group`] cleans up after a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Returns the function that sends the result, once the transaction has been committed.
fn reply<T: Send + 'static>(signals: Sender<WriterSignal<T>>, done: Result<T, StoreError>) -> Reply {
    Box::new(move |committed| {
        // The caller may be gone; the change is stored all the same. A change that failed reports its own error.
        let _ = signals.send(WriterSignal::Done(done.and_then(|value| committed.map(|()| value))));
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
            // A full disk has ended the whole transaction, and the savepoint with it.
            if !connection.is_autocommit() {
                connection.prepare_cached("ROLLBACK TO change")?.execute([])?;
                connection.prepare_cached("RELEASE change")?.execute([])?;
            }
            Err(error)
        }
    }
}

fn run(connection: &Connection, statement: &str) -> Result<(), StoreError> {
    Ok(connection.prepare_cached(statement)?.execute([]).map(drop)?)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use rusqlite::Connection;

    use super::{Writer, lock};
    use crate::error::StoreError;

    type Change = Box<dyn FnOnce(&Connection) -> Result<(), StoreError> + Send>;

    fn insert(number: i64) -> Change {
        Box::new(move |connection| {
            Ok(connection.execute("INSERT INTO t (n) VALUES (?1)", [number]).map(drop)?)
        })
    }

    /// Makes several changes share one transaction: the first one waits until the others are queued. Returns the result
    /// of each, and the rows of the table afterwards.
    fn together(limit: &str, changes: Vec<Change>) -> (Vec<String>, Vec<i64>) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.db");
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch("PRAGMA journal_mode = wal; CREATE TABLE t (n INTEGER, text)").unwrap();
        connection.execute_batch(limit).unwrap();
        let writer = Writer::new(connection, None);
        let (go, wait) = mpsc::channel::<()>();
        let (begun, begins) = mpsc::channel::<()>();
        let outcomes = std::thread::scope(|scope| {
            let writer = &writer;
            let first = scope.spawn(move || {
                writer.write(move |connection| {
                    begun.send(()).unwrap();
                    let _ = wait.recv();
                    insert(0)(connection)
                })
            });
            begins.recv().unwrap();
            let mut threads = vec![first];
            for change in changes {
                // One after the other, so that they are queued in this order on a busy machine.
                let queued = threads.len();
                threads.push(scope.spawn(move || writer.write(change)));
                while lock(&writer.queue).jobs.len() < queued {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            go.send(()).unwrap();
            let text_of = |result: Result<(), StoreError>| match result {
                Ok(()) => "done".to_owned(),
                Err(error) => error.to_string(),
            };
            threads.into_iter().map(|thread| text_of(thread.join().unwrap())).collect()
        });
        let connection = Connection::open(&path).unwrap();
        let mut statement = connection.prepare("SELECT n FROM t ORDER BY rowid").unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        (outcomes, rows.collect::<Result<_, _>>().unwrap())
    }

    #[test]
    fn a_failed_change_does_not_affect_the_others_of_its_transaction() {
        let half: Change = Box::new(|connection| {
            insert(99)(connection)?;
            Err(StoreError::Refused("no".into()))
        });
        let broken: Change = Box::new(|connection| Ok(connection.execute_batch("INSERT INTO nowhere")?));
        let (outcomes, rows) = together("", vec![insert(1), half, insert(2), broken, insert(3)]);
        let broken = "the database failed: incomplete input";
        assert_eq!(outcomes, ["done", "done", "no", "done", broken, "done"]);
        assert_eq!(rows, [0, 1, 2, 3]);
    }

    #[test]
    fn a_change_that_ends_the_transaction_fails_the_group_and_only_the_group() {
        let large: Change = Box::new(|connection| {
            Ok(connection.execute("INSERT INTO t VALUES (98, zeroblob(10000000))", []).map(drop)?)
        });
        let (outcomes, rows) = together("PRAGMA max_page_count = 20", vec![insert(1), large, insert(2)]);
        let taken = "the shared transaction was rolled back because another change failed; try again";
        let full = "no space left for the database; free some and try again (database or disk is full)";
        assert_eq!(outcomes, [taken, taken, full, "done"]);
        assert_eq!(rows, [2]);
    }
}

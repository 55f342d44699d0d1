//! The single writer. Callers queue their changes; one of them leads: it commits the queue in one transaction and
//! tells the others what came of theirs. So changes that come together share a commit, and one that comes alone is made
//! by its own thread, without waking another (a thread of its own for writing took twice the time for a single append).
//!
//! - **Fair**: the queue is first in, first out, and a follower waits for its own answer, not for the connection. When
//!   all waited for a mutex around the connection, whoever had just run got it again: of 200 writers one made 574
//!   appends and another 7.
//! - **A busy database is waited for once**: each change waits [`PATIENCE`] from when it was queued, whoever leads. When
//!   each waited in its own turn, the fourth in the queue was told after 40 seconds.
//! - The first change of a transaction needs nothing to fall back on; each further one runs in a savepoint of its own,
//!   so one that fails takes nothing of the others with it. No caller is told that a change is done before the
//!   transaction is.

use std::collections::VecDeque;
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::witness::Witness;
use crate::error::{PATIENCE, StoreError};

/// So many changes go into one transaction at most.
const GROUP: usize = 256;

/// So long SQLite waits for another process before the queue is looked at again.
const SLICE: Duration = Duration::from_millis(100);

type Tell = Box<dyn FnOnce(Result<(), StoreError>) + Send>;
type Job = Box<dyn FnOnce(Ground<'_>) -> Tell + Send>;

/// What a change stands on.
enum Ground<'a> {
    /// A transaction in which nothing has happened yet. One that fails ends it.
    New(&'a Connection),
    /// A transaction with the changes of others in it.
    Shared(&'a Connection),
    /// There is none, for this reason.
    None(StoreError),
}

/// What a caller in the queue is told.
enum News<T> {
    /// Its change was made, or failed.
    Done(Result<T, StoreError>),
    /// It is first in the queue and leads.
    Lead,
}

/// A change in the queue.
struct Queued {
    job: Job,
    /// Tells its owner to lead; says whether the owner is still there.
    lead: Box<dyn Fn() -> bool + Send>,
    since: Instant,
}

#[derive(Default)]
struct Line {
    jobs: VecDeque<Queued>,
    is_led: bool,
}

/// The writing connection, and the changes that wait for it.
pub(crate) struct Writer {
    connection: Mutex<Connection>,
    line: Mutex<Line>,
    witness: Option<Witness>,
}

/// Leads until it is dropped, also by a panic; then the next in the queue does.
struct Leader<'a>(&'a Writer);

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        let mut line = held(&self.0.line);
        while let Some(next) = line.jobs.front() {
            if (next.lead)() {
                return;
            }
            // Its caller is gone, so no one waits for the result.
            line.jobs.pop_front();
        }
        line.is_led = false;
    }
}

impl Writer {
    pub(super) fn new(connection: Connection, witness: Option<Witness>) -> Writer {
        // It cannot fail; without it a busy database would only be asked more often.
        let _ = connection.busy_timeout(SLICE);
        Writer { connection: Mutex::new(connection), line: Mutex::default(), witness }
    }

    /// Make a change; comes back when it is in the database for good.
    pub(crate) fn write<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (news, wait) = mpsc::channel::<News<T>>();
        let call = news.clone();
        let job: Job = Box::new(move |ground| {
            let done = match ground {
                Ground::New(connection) => change(connection).inspect_err(|_| {
                    // A full disk has done so already.
                    let _ = run(connection, "ROLLBACK");
                }),
                Ground::Shared(connection) => in_savepoint(connection, change),
                Ground::None(why) => Err(why),
            };
            tell(news, done)
        });
        let lead = Box::new(move || call.send(News::Lead).is_ok());
        let mut leads = {
            let mut line = held(&self.line);
            line.jobs.push_back(Queued { job, lead, since: Instant::now() });
            !std::mem::replace(&mut line.is_led, true)
        };
        loop {
            if leads {
                let _leader = Leader(self);
                self.group();
            }
            match wait.recv() {
                Ok(News::Done(done)) => return done,
                Ok(News::Lead) => leads = true,
                // A change that panicked took its answer with it.
                Err(mpsc::RecvError) => return Err(StoreError::Closed),
            }
        }
    }

    /// Make the changes that are in line, in one transaction.
    fn group(&self) {
        let connection = &*held(&self.connection);
        if !connection.is_autocommit() {
            // Left behind by a change that panicked.
            let _ = run(connection, "ROLLBACK");
        }
        while let Err(why) = run(connection, "BEGIN IMMEDIATE") {
            let is_busy = matches!(why, StoreError::Busy { .. });
            // The one that leads is the first; when it is told, the next leads and tries for itself.
            let first = self.next(|queued| !is_busy || queued.since.elapsed() >= PATIENCE);
            if let Some(first) = first {
                first(Ground::None(why.again()))(Ok(()));
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
        let mut done = vec![first(Ground::New(connection))];
        if connection.is_autocommit() {
            // It failed and knows why; the others begin anew.
            done.into_iter().for_each(|tell| tell(Ok(())));
            return;
        }
        // A full disk ends the transaction on the spot. What came next would then be a transaction of its own, and
        // would be reported as failed although it stands.
        while done.len() < GROUP
            && !connection.is_autocommit()
            && let Some(next) = self.next(|_| true)
        {
            done.push(next(Ground::Shared(connection)));
        }
        let committed =
            if connection.is_autocommit() { Err(StoreError::TakenAlong) } else { run(connection, "COMMIT") };
        if committed.is_err() {
            // Nothing of it may linger, or the next transaction could not begin.
            let _ = run(connection, "ROLLBACK");
        } else if let Some(witness) = &self.witness {
            witness.note(connection);
        }
        for tell in done {
            tell(match &committed {
                Ok(()) => Ok(()),
                Err(error) => Err(error.again()),
            });
        }
    }

    /// Tell all who have waited long enough that the database is busy.
    fn give_up(&self, why: &StoreError) {
        while let Some(job) = self.next(|queued| queued.since.elapsed() >= PATIENCE) {
            job(Ground::None(why.again()))(Ok(()));
        }
    }

    /// The first change in the queue, if it is to be taken.
    fn next(&self, is_taken: impl FnOnce(&Queued) -> bool) -> Option<Job> {
        let mut line = held(&self.line);
        if !is_taken(line.jobs.front()?) {
            return None;
        }
        line.jobs.pop_front().map(|queued| queued.job)
    }
}

/// What a lock guards, also after a panic: what may be left behind is looked after in [`Writer::group`].
fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// What was found is only said once the transaction has been committed.
fn tell<T: Send + 'static>(news: Sender<News<T>>, done: Result<T, StoreError>) -> Tell {
    Box::new(move |committed| {
        // The caller may have gone; the change stands all the same. One that failed by itself says why.
        let _ = news.send(News::Done(done.and_then(|value| committed.map(|()| value))));
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

    use super::{Writer, held};
    use crate::error::StoreError;

    type Change = Box<dyn FnOnce(&Connection) -> Result<(), StoreError> + Send>;

    fn insert(number: i64) -> Change {
        Box::new(move |connection| {
            Ok(connection.execute("INSERT INTO t (n) VALUES (?1)", [number]).map(drop)?)
        })
    }

    /// Let several changes come together in one transaction: the first waits until the others have been sent.
    /// Gives what each was told, and what is in the table afterwards.
    fn together(limit: &str, changes: Vec<Change>) -> (Vec<String>, Vec<i64>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.db");
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch("PRAGMA journal_mode = wal; CREATE TABLE t (n INTEGER, text)").unwrap();
        connection.execute_batch(limit).unwrap();
        let writer = Writer::new(connection, None);
        let (go, wait) = mpsc::channel::<()>();
        let (begun, begins) = mpsc::channel::<()>();
        let told = std::thread::scope(|scope| {
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
                // One after the other, so that they stand in line in this order, however busy the machine is.
                let queued = threads.len();
                threads.push(scope.spawn(move || writer.write(change)));
                while held(&writer.line).jobs.len() < queued {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            go.send(()).unwrap();
            let told = |result: Result<(), StoreError>| match result {
                Ok(()) => "done".to_owned(),
                Err(error) => error.to_string(),
            };
            threads.into_iter().map(|thread| told(thread.join().unwrap())).collect()
        });
        let connection = Connection::open(&path).unwrap();
        let mut statement = connection.prepare("SELECT n FROM t ORDER BY rowid").unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        (told, rows.collect::<Result<_, _>>().unwrap())
    }

    #[test]
    fn a_change_that_fails_takes_nothing_of_its_neighbours() {
        let half: Change = Box::new(|connection| {
            insert(99)(connection)?;
            Err(StoreError::Refused("no".into()))
        });
        let broken: Change = Box::new(|connection| Ok(connection.execute_batch("INSERT INTO nowhere")?));
        let (told, rows) = together("", vec![insert(1), half, insert(2), broken, insert(3)]);
        let broken = "the database failed: incomplete input";
        assert_eq!(told, ["done", "done", "no", "done", broken, "done"]);
        assert_eq!(rows, [0, 1, 2, 3]);
    }

    #[test]
    fn a_change_that_ends_the_transaction_fails_the_group_and_only_the_group() {
        let large: Change = Box::new(|connection| {
            Ok(connection.execute("INSERT INTO t VALUES (98, zeroblob(10000000))", []).map(drop)?)
        });
        let (told, rows) = together("PRAGMA max_page_count = 20", vec![insert(1), large, insert(2)]);
        let taken = "another change could not be written and took this one with it; try again";
        let full =
            "there is no room left for the database; make some and try again (database or disk is full)";
        assert_eq!(told, [taken, taken, full, "done"]);
        assert_eq!(rows, [2]);
    }
}

//! The one that writes: whoever holds the only writing connection, for all who stand in line.
//!
//! A change is put in line, and then its owner waits for the connection. Whoever gets it makes all changes that are in
//! line by then, in one transaction, and tells their owners, who find their answer when it is their turn. So changes
//! that come together share a transaction, and one that comes alone is made where it is, without waking another thread:
//! a thread of its own took twice the time for a single append.
//!
//! The first change of a transaction needs nothing to fall back on; each further one runs in a savepoint of its own, so
//! one that fails takes nothing of the others with it. Nobody is told
//! that a change is done before the transaction is.

use std::collections::VecDeque;
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Mutex, MutexGuard};

use rusqlite::Connection;

use crate::error::StoreError;

/// So many changes go into one transaction at most.
const GROUP: usize = 256;

type Tell = Box<dyn FnOnce(Result<(), StoreError>) + Send>;
type Job = Box<dyn FnOnce(Ground<'_>) -> Tell + Send>;

/// What a change stands on.
enum Ground<'a> {
    /// A transaction in which nothing has happened yet. One that fails ends it.
    New(&'a Connection),
    /// A transaction with the changes of others in it.
    Shared(&'a Connection),
    /// There is none, for this reason.
    None(String),
}

/// The writing connection, and who stands in line for it.
pub(crate) struct Writer {
    connection: Mutex<Connection>,
    line: Mutex<VecDeque<Job>>,
}

impl Writer {
    pub(crate) fn new(connection: Connection) -> Writer {
        Writer { connection: Mutex::new(connection), line: Mutex::default() }
    }

    /// Make a change; comes back when it is in the database for good.
    pub(crate) fn write<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, wait) = mpsc::sync_channel::<Result<T, StoreError>>(1);
        let job: Job = Box::new(move |ground| {
            let done = match ground {
                Ground::New(connection) => change(connection).inspect_err(|_| {
                    // A full disk has done so already.
                    let _ = run(connection, "ROLLBACK");
                }),
                Ground::Shared(connection) => in_savepoint(connection, change),
                Ground::None(why) => Err(StoreError::Database(why)),
            };
            tell(answer, done)
        });
        held(&self.line).push_back(job);
        let connection = held(&self.connection);
        loop {
            match wait.try_recv() {
                Ok(done) => return done,
                // A change that panicked took its answer with it.
                Err(mpsc::TryRecvError::Disconnected) => return Err(StoreError::Closed),
                Err(mpsc::TryRecvError::Empty) => self.group(&connection),
            }
        }
    }

    /// Make the changes that are in line, in one transaction.
    fn group(&self, connection: &Connection) {
        if !connection.is_autocommit() {
            // Left behind by a change that panicked.
            let _ = run(connection, "ROLLBACK");
        }
        let Some(first) = self.next() else { return };
        if let Err(why) = run(connection, "BEGIN IMMEDIATE") {
            first(Ground::None(why))(Ok(()));
            return;
        }
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
            && let Some(next) = self.next()
        {
            done.push(next(Ground::Shared(connection)));
        }
        let committed = if connection.is_autocommit() {
            Err("another change could not be written and took this one with it; try again".to_owned())
        } else {
            run(connection, "COMMIT")
        };
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

    fn next(&self) -> Option<Job> {
        held(&self.line).pop_front()
    }
}

/// What a lock guards, also after a panic: what may be left behind is looked after in [`Writer::group`].
fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// What was found is only said once the transaction has been committed.
fn tell<T: Send + 'static>(answer: SyncSender<Result<T, StoreError>>, done: Result<T, StoreError>) -> Tell {
    Box::new(move |committed| {
        // Whoever asked may have gone; the change stands all the same. One that failed by itself says why.
        let _ = answer.send(done.and_then(|value| committed.map(|()| value)));
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

fn run(connection: &Connection, statement: &str) -> Result<(), String> {
    let prepared = connection.prepare_cached(statement);
    prepared.and_then(|mut statement| statement.execute([]).map(drop)).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use rusqlite::Connection;

    use super::Writer;
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
        let writer = Writer::new(connection);
        let (go, wait) = mpsc::channel::<()>();
        let told = std::thread::scope(|scope| {
            let writer = &writer;
            let first = scope.spawn(move || {
                writer.write(move |connection| {
                    let _ = wait.recv();
                    insert(0)(connection)
                })
            });
            let mut threads = vec![first];
            for change in changes {
                // One after the other, so that they stand in line in this order.
                std::thread::sleep(Duration::from_millis(20));
                threads.push(scope.spawn(move || writer.write(change)));
            }
            std::thread::sleep(Duration::from_millis(20));
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
        let taken =
            "the database failed: another change could not be written and took this one with it; try again";
        assert_eq!(told, [taken, taken, "the database failed: database or disk is full", "done"]);
        assert_eq!(rows, [2]);
    }
}

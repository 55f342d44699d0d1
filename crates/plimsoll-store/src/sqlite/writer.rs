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

fn work(connection: &Connection, inbox: &Receiver<Job>) {
    while let Ok(first) = inbox.recv() {
        if let Err(why) = run(connection, "BEGIN IMMEDIATE") {
            first(Err(why))(Ok(()));
            continue;
        }
        let mut done = vec![first(Ok(connection))];
        // A full disk ends the transaction on the spot. What came next would then be a transaction of its own, and
        // would be reported as failed although it stands.
        while done.len() < GROUP
            && !connection.is_autocommit()
            && let Ok(next) = inbox.try_recv()
        {
            done.push(next(Ok(connection)));
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
        let writer = Writer::start(connection).unwrap();
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

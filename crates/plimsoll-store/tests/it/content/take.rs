//! An output cannot be read twice: whatever fails, it is truncated and returned, and what could be stored is stored.

use std::io::{self, Read};

use plimsoll::{Policy, SessionId};
use plimsoll_store::{Claim, Scope, StoreError};
use rusqlite::Connection;
use tempfile::TempDir;

use super::super::{NOW, blobs, session};
use super::{noise, open, take_all, whole};

#[test]
fn an_output_is_stored_while_the_database_is_locked_and_recorded_later() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("plimsoll.db");
    let archive = open(&path);
    let id = session(archive.store(), "ses_1");
    let locker = Connection::open(&path).unwrap();
    locker.execute_batch("BEGIN IMMEDIATE").unwrap();
    let output = noise(3_000, 1);
    let taken = take_all(&archive, &id, "prt_1", &output);
    assert!(taken.unrecorded.as_ref().unwrap().contains("locked"), "{:?}", taken.unrecorded);
    let receipt = taken.receipt.clone().unwrap();
    let handle = super::handle(taken.clone());
    assert!(taken.shown.contains(&handle) && taken.shown.len() < 60_000);
    assert!(whole(&archive, Scope::Session(&id), &handle).unwrap() == output.as_bytes(), "it already exists");
    locker.execute_batch("ROLLBACK").unwrap();
    assert_eq!(archive.store().receipts(&id, None, 100).unwrap(), []);
    let swept = archive.sweep(NOW).unwrap();
    assert_eq!((swept.recorded, swept.removed), (1, 0));
    assert_eq!(archive.store().receipts(&id, None, 100).unwrap()[0].id, receipt.id);
    assert!(whole(&archive, Scope::Session(&id), &handle).unwrap() == output.as_bytes());
    assert_eq!(archive.sweep(NOW).unwrap().recorded, 0);
    assert_eq!(archive.check().unwrap().problems, Vec::<String>::new());
}

#[test]
fn an_output_that_cannot_be_stored_or_recorded_is_truncated_and_returned() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("plimsoll.db");
    std::fs::write(directory.path().join("spill"), "in the way").unwrap();
    let archive = open(&path);
    let id = session(archive.store(), "ses_1");
    // Everything that is written from now on fails for lack of space.
    let connection = Connection::open(&path).unwrap();
    connection
        .execute_batch(
            "CREATE TRIGGER full BEFORE INSERT ON receipt BEGIN SELECT raise(ABORT, 'database or disk is full'); END",
        )
        .unwrap();
    let taken = take_all(&archive, &id, "prt_1", &noise(100_000, 1));
    assert!(taken.unrecorded.unwrap().contains("full"));
    let reason = taken.receipt.unwrap().reason;
    assert!(reason.contains("the rest is lost") && reason.contains("it is a link or a file"), "{reason}");
    assert!(taken.shown.len() > 1_000 && taken.shown.len() < 60_000);
}

#[test]
fn an_output_of_a_session_that_was_removed_meanwhile_leaves_no_files() {
    struct Removes<'a>(&'a plimsoll_store::Archive, io::Cursor<Vec<u8>>);
    impl Read for Removes<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let _ = self.0.remove(&Claim::unleased(&SessionId::new("ses_1")), NOW);
            self.1.read(buffer)
        }
    }
    let directory = TempDir::new().unwrap();
    let archive = open(&directory.path().join("plimsoll.db"));
    let id = session(archive.store(), "ses_1");
    let (claim, policy) = (Claim::unleased(&id), Policy::default());
    let mut output = Removes(&archive, io::Cursor::new(noise(3_000, 1).into_bytes()));
    let taken = archive.take_output(&claim, &"prt_1".into(), "bash", &mut output, &policy, NOW).unwrap();
    assert!(taken.shown.len() > 1_000, "the host has it all the same");
    assert!(taken.unrecorded.unwrap().contains("session `ses_1` not found"));
    archive.sweep(NOW).unwrap();
    assert!(blobs(directory.path()).is_empty());
    // If this is known before anything was read, it is an error.
    let error = archive.take_output(&claim, &"prt_1".into(), "bash", &mut output, &policy, NOW).unwrap_err();
    assert!(matches!(error, StoreError::Missing { .. }), "{error}");
}

#[test]
fn an_interrupted_output_is_stored_up_to_the_error() {
    struct Breaks(io::Cursor<Vec<u8>>);
    impl Read for Breaks {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            match self.0.read(buffer)? {
                0 => Err(io::Error::other("the pipe is gone")),
                count => Ok(count),
            }
        }
    }
    let directory = TempDir::new().unwrap();
    let archive = open(&directory.path().join("plimsoll.db"));
    let id = session(archive.store(), "ses_1");
    let (claim, policy) = (Claim::unleased(&id), Policy::default());
    // A short one, one that is spilled, and one that is longer than what is held in memory.
    for lines in [3, 3_000, 200_000] {
        let output = noise(lines, lines);
        let mut source = Breaks(io::Cursor::new(output.clone().into_bytes()));
        let taken = archive.take_output(&claim, &"prt_1".into(), "bash", &mut source, &policy, NOW).unwrap();
        assert_eq!(taken.broken_off.as_deref(), Some("the pipe is gone"));
        assert!(taken.unrecorded.is_none());
        match taken.receipt {
            Some(_) => {
                let handle = super::handle(taken);
                assert!(whole(&archive, Scope::Session(&id), &handle).unwrap() == output.as_bytes());
            }
            None => assert_eq!(taken.shown.as_str(), output),
        }
    }
}

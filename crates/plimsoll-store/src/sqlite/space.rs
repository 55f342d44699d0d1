//! Giving space back to the file system.
//!
//! Deleted rows leave free pages in the file. Databases that are made by this version move them to its end and cut them
//! off a step at a time (incremental vacuum), so that the writer is kept for a moment only. One of an earlier version has
//! to be written anew once, which is done when it pays and no process runs a session.

use std::path::Path;

use rusqlite::Connection;

use super::{PATIENCE, SqliteStore};
use crate::error::StoreError;

/// Free pages up to this number, or this share of all, are left for what is written next.
const LEFT: i64 = 256;
const LEFT_SHARE: i64 = 16;
/// Pages that are cut off in one transaction.
const STEP: i64 = 500;
/// To write the whole file anew pays if one page in so many is free.
const PAYS: i64 = 4;

/// The value of `auto_vacuum` that this module works with.
const INCREMENTAL: i64 = 2;

/// Lets a new database, or one that is about to be vacuumed, give pages back later.
pub(super) fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "auto_vacuum", INCREMENTAL)
}

/// How large a database is, and how much of it is free.
struct Pages {
    all: i64,
    free: i64,
    size: i64,
}

impl Pages {
    fn of(connection: &Connection) -> rusqlite::Result<Pages> {
        let number = |pragma: &str| connection.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get(0));
        Ok(Pages { all: number("page_count")?, free: number("freelist_count")?, size: number("page_size")? })
    }

    fn bytes(&self) -> u64 {
        u64::try_from(self.all.saturating_mul(self.size)).unwrap_or_default()
    }
}

impl SqliteStore {
    /// Gives free pages back, a step at a time. Returns by how many bytes the database has shrunk.
    pub(super) fn shrink(&self) -> Result<u64, StoreError> {
        let before = self.read(|connection| Ok(Pages::of(connection)?))?;
        let is_incremental = self.read(|connection| {
            Ok(connection.query_row("PRAGMA auto_vacuum", [], |row| row.get::<_, i64>(0))? == INCREMENTAL)
        })?;
        if !is_incremental {
            return Ok(0);
        }
        let mut pages = before.all;
        loop {
            let now = self.write(|connection| {
                let pages = Pages::of(connection)?;
                if pages.free <= LEFT.max(pages.all / LEFT_SHARE) {
                    return Ok(None);
                }
                // Each row that it gives is a page; none would be cut off if they were not asked for.
                let mut statement = connection.prepare(&format!("PRAGMA incremental_vacuum({STEP})"))?;
                let mut rows = statement.query([])?;
                while rows.next()?.is_some() {}
                Ok(Some(Pages::of(connection)?.all))
            })?;
            // Bounded: each step must get somewhere.
            match now {
                Some(now) if now < pages => pages = now,
                _ => break,
            }
        }
        if pages < before.all {
            fold(&self.path)?;
        }
        let after = Pages { all: pages, ..before };
        Ok(before.bytes().saturating_sub(after.bytes()))
    }

    /// Writes a database of an earlier version anew if much of it is free and no process runs a session; afterwards
    /// [`shrink`](SqliteStore::shrink) does without. Returns by how many bytes it has shrunk.
    pub(super) fn rewrite(&self) -> Result<u64, StoreError> {
        let now = self.clock.now();
        let before = self.read(|connection| {
            let auto: i64 = connection.query_row("PRAGMA auto_vacuum", [], |row| row.get(0))?;
            let pages = Pages::of(connection)?;
            let pays = auto != INCREMENTAL && pages.free > LEFT && pages.free > pages.all / PAYS;
            Ok((pays && !super::leases::any_living(connection, now)?).then_some(pages))
        })?;
        let Some(before) = before else { return Ok(0) };
        let connection = Connection::open(&self.path)?;
        connection.busy_timeout(PATIENCE)?;
        prepare(&connection)?;
        match connection.execute_batch("VACUUM").map_err(StoreError::from) {
            // Another process has begun to write; the next sweep tries again.
            Err(StoreError::Busy { .. }) => return Ok(0),
            done => done?,
        }
        let after = Pages::of(&connection)?;
        drop(connection);
        fold(&self.path)?;
        Ok(before.bytes().saturating_sub(after.bytes()))
    }
}

/// Folds the write-ahead log into the database, which only then becomes smaller. Most of it is done without keeping others
/// from writing. Where another process reads, some of the log stays, which is no error.
fn fold(path: &Path) -> Result<(), StoreError> {
    let connection = Connection::open(path)?;
    for mode in ["PASSIVE", "TRUNCATE"] {
        connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()))?;
    }
    Ok(())
}

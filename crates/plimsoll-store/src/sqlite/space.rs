//! Returning free space to the file system.
//!
//! Deleted rows leave free pages in the file. Databases of this version move them to the end and cut them off in steps
//! (incremental vacuum), so that the writer is held only briefly. A database of an earlier version has to be rewritten
//! once, which is done if it pays and no process runs a session.

use std::path::Path;

use rusqlite::Connection;

use super::{PATIENCE, SqliteStore};
use crate::error::StoreError;

/// Number of free pages, or divisor of all pages, that are left for later writes.
const LEFT: i64 = 256;
const LEFT_SHARE: i64 = 16;
/// Number of pages that are cut off in one transaction.
const STEP: i64 = 500;
/// Rewriting the file pays if one in this many pages is free.
const PAYS: i64 = 4;

/// The value of `auto_vacuum` that this module works with.
const INCREMENTAL: i64 = 2;

/// Makes a new database, or one that is about to be vacuumed, able to return pages later.
pub(super) fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "auto_vacuum", INCREMENTAL)
}

/// Number of pages, free pages, and the page size.
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
    /// Returns free pages in steps. Returns the number of bytes by which the database shrank.
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
                // Each row is a page; a page is only cut off when its row is fetched.
                let mut statement = connection.prepare(&format!("PRAGMA incremental_vacuum({STEP})"))?;
                let mut rows = statement.query([])?;
                while rows.next()?.is_some() {}
                Ok(Some(Pages::of(connection)?.all))
            })?;
            // Bounded: each step must make progress.
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

    /// Rewrites a database of an earlier version, if much of it is free and no process runs a session. Afterwards
    /// [`shrink`](SqliteStore::shrink) works. Returns the number of bytes by which it shrank.
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
        // `VACUUM` applies a changed `auto_vacuum` mode, so this has to come first.
        prepare(&connection)?;
        match connection.execute_batch("VACUUM").map_err(StoreError::from) {
            // Another process has started to write; the next sweep tries again.
            Err(StoreError::Busy { .. }) => return Ok(0),
            done => done?,
        }
        let after = Pages::of(&connection)?;
        drop(connection);
        fold(&self.path)?;
        Ok(before.bytes().saturating_sub(after.bytes()))
    }
}

/// Folds the write-ahead log into the database, which only then becomes smaller. The passive checkpoint does most of it
/// without blocking writers. If another process reads, some of the log stays, which is not an error.
fn fold(path: &Path) -> Result<(), StoreError> {
    let connection = Connection::open(path)?;
    for mode in ["PASSIVE", "TRUNCATE"] {
        connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()))?;
    }
    Ok(())
}

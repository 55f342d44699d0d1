//! Maps a database to its directory of spills.
//!
//! A database has a random id that names its directory. So several databases in one directory do not share their
//! spills, and a database that is moved or renamed together with its spills still finds them. A copy has the id of its
//! original, which is detected when it is opened: it then gets its own id and links.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags, params};

use super::SqliteStore;
use crate::blobs::Directory;
use crate::error::StoreError;
use crate::random::random_hex;

struct SpillPlace {
    id: String,
    database: Option<String>,
    root: Option<String>,
    /// The place from which files of the older layout were taken over.
    taken: Option<String>,
}

fn place(connection: &Connection) -> rusqlite::Result<SpillPlace> {
    connection.query_row("SELECT id, database, root, taken FROM spill_place", [], |row| {
        Ok(SpillPlace { id: row.get(0)?, database: row.get(1)?, root: row.get(2)?, taken: row.get(3)? })
    })
}

/// Returns the directory of a database in a place for spills. Blobs that it needs from an older layout, or from the
/// database it was copied from, are taken over.
pub(crate) fn directory(store: &SqliteStore, root: &Path) -> Result<Directory, StoreError> {
    let known = store.read(|connection| Ok(place(connection)?))?;
    let text = |path: &Path| resolve(path).to_string_lossy().into_owned();
    let (database, place) = (text(&store.path), text(root));
    let own = Directory::new(root, &known.id);
    if known.database.as_deref() == Some(&database) && known.root.as_deref() == Some(&place) {
        if known.taken.as_deref() == Some(&place) {
            return Ok(own);
        }
    } else if is_copy(&known, &database, &place) {
        // Two databases with one directory would each remove what the other needs, so this error is not ignored.
        let id = random_hex();
        let new = Directory::new(root, &id);
        take_over(store, &new, Some(&own))?;
        // The new id is stored last: a process that dies before repeats this, and finds the blobs that are linked
        // already.
        note(store, &id, &database, &place, Some(&place))?;
        return Ok(new);
    }
    let taken = !own.has_older() || take_over(store, &own, None).is_ok();
    // A read-only database can still be read; this is repeated the next time.
    let _ = note(store, &known.id, &database, &place, taken.then_some(place.as_str()));
    Ok(own)
}

fn note(
    store: &SqliteStore,
    id: &str,
    database: &str,
    root: &str,
    taken: Option<&str>,
) -> Result<(), StoreError> {
    let (id, database, root) = (id.to_owned(), database.to_owned(), root.to_owned());
    let taken = taken.map(str::to_owned);
    store.write(move |connection| {
        connection
            .prepare_cached("UPDATE spill_place SET id = ?1, database = ?2, root = ?3, taken = ?4")?
            .execute(params![id, database, root, taken])?;
        Ok(())
    })
}

/// Whether the database that this place was last recorded for still exists, is another file, and has the same id.
fn is_copy(known: &SpillPlace, database: &str, place_now: &str) -> bool {
    let Some(other) = known.database.as_deref().filter(|other| *other != database) else { return false };
    if known.root.as_deref() != Some(place_now) || is_same_file(Path::new(other), Path::new(database)) {
        return false;
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let other = Connection::open_with_flags(other, flags).and_then(|connection| place(&connection));
    other.is_ok_and(|other| other.id == known.id)
}

fn take_over(store: &SqliteStore, to: &Directory, from: Option<&Directory>) -> Result<(), StoreError> {
    let mut after = String::new();
    loop {
        let names = store.read(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT DISTINCT blob FROM spill WHERE expired IS NULL AND blob > ?1 ORDER BY blob LIMIT 500",
            )?;
            let names = statement.query_map([&after], |row| row.get::<_, String>(0))?;
            Ok(names.collect::<Result<Vec<_>, _>>()?)
        })?;
        let Some(last) = names.last().cloned() else { return Ok(()) };
        for name in &names {
            to.take_over(name, from)?;
        }
        after = last;
    }
}

/// Returns a path without links and dots, as far as it exists.
pub(super) fn resolve(path: &Path) -> PathBuf {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let found = std::fs::canonicalize(&whole).or_else(|error| match (whole.parent(), whole.file_name()) {
        (Some(directory), Some(name)) => {
            std::fs::canonicalize(directory).map(|directory| directory.join(name))
        }
        _ => Err(error),
    });
    found.unwrap_or(whole)
}

#[cfg(unix)]
fn is_same_file(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let key = |path: &Path| std::fs::metadata(path).map(|found| (found.dev(), found.ino())).ok();
    key(one).is_some_and(|one| Some(one) == key(other))
}

#[cfg(not(unix))]
fn is_same_file(one: &Path, other: &Path) -> bool {
    one == other
}

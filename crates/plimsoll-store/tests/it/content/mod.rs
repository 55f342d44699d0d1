//! Content that left the window: where it is kept, how it comes back, and how it goes.

mod check;
mod damage;
mod model;
mod place;
mod plain;
mod purge;
mod recall;
mod space;
mod take;

use std::path::Path;

use plimsoll::{Policy, SessionId};
use plimsoll_store::{Archive, Claim, Durability, Scope, Selection, StoreError, Taken};

use super::NOW;

fn open(database: &Path) -> Archive {
    Archive::open(database, &Policy::default(), Durability::Process).unwrap()
}

/// Lines that do not shrink to nothing when they are compressed.
fn noise(lines: u64, seed: u64) -> String {
    let line = |n: u64| format!("{}\n", blake3::hash(&(n ^ (seed << 32)).to_le_bytes()).to_hex());
    (0..lines).map(line).collect()
}

/// Take an output in, and give its handle.
fn take(archive: &Archive, session: &SessionId, part: &str, output: &str) -> String {
    handle(take_all(archive, session, part, output))
}

fn take_all(archive: &Archive, session: &SessionId, part: &str, output: &str) -> Taken {
    let (claim, policy) = (Claim::unleased(session), Policy::default());
    archive.take_output(&claim, &part.into(), "bash", &mut output.as_bytes(), &policy, NOW).unwrap()
}

fn handle(taken: Taken) -> String {
    let receipt = taken.receipt.unwrap();
    plimsoll_store::handles(&receipt).pop().unwrap_or_else(|| panic!("the whole was not kept: {receipt:#?}"))
}

/// Everything that a handle names, byte for byte.
fn whole(archive: &Archive, scope: Scope<'_>, handle: &str) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::new();
    archive.copy_to(scope, handle, None, &mut bytes).map(|_| bytes)
}

fn all() -> Selection {
    Selection { most_bytes: usize::MAX, ..Selection::default() }
}

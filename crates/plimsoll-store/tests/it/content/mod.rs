//! Content that left the window: how it is stored, recalled and removed.

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
use plimsoll_store::{Archive, CapturedOutput, Claim, Durability, Scope, Selection, StoreError};

use super::NOW;

fn open(database: &Path) -> Archive {
    Archive::open(database, &Policy::default(), Durability::Process).unwrap()
}

/// Lines that do not compress well.
fn noise(lines: u64, seed: u64) -> String {
    let line = |n: u64| format!("{}\n", blake3::hash(&(n ^ (seed << 32)).to_le_bytes()).to_hex());
    (0..lines).map(line).collect()
}

/// Takes an output. Returns its handle.
fn take(archive: &Archive, session: &SessionId, part: &str, output: &str) -> String {
    handle(take_all(archive, session, part, output))
}

fn take_all(archive: &Archive, session: &SessionId, part: &str, output: &str) -> CapturedOutput {
    let (claim, policy) = (Claim::unleased(session), Policy::default());
    archive.take_output(&claim, &part.into(), "bash", &mut output.as_bytes(), &policy, NOW).unwrap()
}

fn handle(taken: CapturedOutput) -> String {
    let receipt = taken.receipt.unwrap();
    plimsoll_store::handles(&receipt).pop().unwrap_or_else(|| panic!("the whole was not kept: {receipt:#?}"))
}

/// All content of a handle, byte for byte.
fn whole(archive: &Archive, scope: Scope<'_>, handle: &str) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::new();
    archive.copy_to(scope, handle, None, &mut bytes).map(|_| bytes)
}

fn all() -> Selection {
    Selection { max_bytes: usize::MAX, ..Selection::default() }
}

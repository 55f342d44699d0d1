//! The archive: a store together with its spilled outputs.

mod keep;
mod purge;
mod recall;
mod sweep;
mod take;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard};

use plimsoll::{Handle, Ids, Millis, Policy, Receipt};

use crate::blobs::Blobs;
use crate::error::StoreError;
use crate::random::random_ids;
use crate::sqlite::{Durability, SqliteStore, spill_directory};
use crate::store::{Claim, Findings, Loss, Store};

pub use keep::{KEPT_PREFIX, KeptFile};
pub use purge::Purged;
pub use sweep::{Retention, SWEEP, SweepReport, Sweeper};
pub use take::CapturedOutput;

/// A store, its spilled outputs, and their retention.
pub struct Archive {
    store: Box<dyn Store>,
    blobs: Result<Arc<dyn Blobs>, String>,
    ids: Mutex<Ids>,
    /// Time of the last [`tidy`](Archive::tidy) in epoch milliseconds; 0 before the first.
    tidied: AtomicU64,
    /// The copy that was made of an older database before it was upgraded.
    pub copy: Option<PathBuf>,
    /// Lost writes that were detected when the database was opened.
    pub loss: Option<Loss>,
    /// How long spilled outputs are kept.
    pub retention: Retention,
}

impl Archive {
    /// Opens the embedded default: a SQLite database, with its spills in the directory that the policy names, next to
    /// it.
    pub fn open(
        path: impl AsRef<Path>,
        policy: &Policy,
        durability: Durability,
    ) -> Result<Archive, StoreError> {
        let store = SqliteStore::open(path, durability)?;
        let (copy, loss) = (store.copy().map(Path::to_path_buf), store.loss().cloned());
        // Only a policy that spills must name a directory.
        let directory = Some(&*policy.truncate.spill_directory).filter(|directory| !directory.is_empty());
        let place = store.directory().join(directory.unwrap_or("spill"));
        // The directory is created on first use. A policy that does not spill outputs has one as well, because files
        // are stored before they are changed in any case.
        let blobs: Arc<dyn Blobs> = Arc::new(spill_directory(&store, &place)?);
        Ok(Archive { copy, loss, ..Archive::new(Box::new(store), Ok(blobs)) })
    }

    /// Creates an archive in memory: for tests, replays and plans.
    pub fn in_memory() -> Archive {
        Archive::new(Box::new(crate::MemoryStore::new()), Ok(Arc::new(crate::MemoryBlobs::default())))
    }

    /// Creates an archive over a store. `blobs` is the spill storage, or the reason why spills are unavailable.
    pub fn new(store: Box<dyn Store>, blobs: Result<Arc<dyn Blobs>, String>) -> Archive {
        Archive {
            store,
            blobs,
            ids: Mutex::new(random_ids()),
            tidied: AtomicU64::new(0),
            copy: None,
            loss: None,
            retention: Retention::default(),
        }
    }

    /// Returns the store.
    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    fn ids(&self) -> MutexGuard<'_, Ids> {
        // Ids are created one at a time; a panic elsewhere leaves nothing half done.
        self.ids.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Removes a session and the spills that only it needs.
    pub fn remove(&self, claim: &Claim, now: Millis) -> Result<(), StoreError> {
        self.store.remove(claim, now)?;
        self.finish_deleting().map(drop)
    }

    /// Checks for damage in the database, and for spills whose content is missing or altered.
    pub fn check(&self) -> Result<Findings, StoreError> {
        let mut findings = self.store.check()?;
        let mut note = |problem: String| {
            if !findings.problems.contains(&problem) {
                findings.problems.push(problem);
            }
        };
        let mut after = 0;
        loop {
            let page = match self.store.all_spills(after, 500) {
                Ok(page) => page,
                Err(error) => {
                    note(error.to_string());
                    break;
                }
            };
            let Some((last, ..)) = page.last() else { break };
            after = *last;
            for (_, session, spill) in page.iter().filter(|(_, _, spill)| spill.expired.is_none()) {
                if let Err(error) = self.verify_spill(spill) {
                    note(format!("session `{session}`: {error}"));
                }
            }
        }
        Ok(findings)
    }
}

/// Handles of a receipt, as users type them.
pub fn handles(receipt: &Receipt) -> Vec<String> {
    receipt.handles.iter().map(Handle::to_string).collect()
}

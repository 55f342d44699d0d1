//! The archive: a store and a place for spilled outputs, as one.

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

pub use keep::{KEPT, Keeping};
pub use purge::Purged;
pub use sweep::{Retention, SWEEP, Sweeper, Swept};
pub use take::Taken;

/// A store, the outputs that were spilled from it, and how long they stay.
pub struct Archive {
    store: Box<dyn Store>,
    blobs: Result<Arc<dyn Blobs>, String>,
    ids: Mutex<Ids>,
    /// When [`tidy`](Archive::tidy) was last due, in epoch milliseconds; 0 if it never was.
    tidied: AtomicU64,
    /// The copy that was made of an older database before it was upgraded.
    pub copy: Option<PathBuf>,
    /// What was found to be missing when the database was opened.
    pub loss: Option<Loss>,
    /// How long spilled outputs stay.
    pub retention: Retention,
}

impl Archive {
    /// The embedded default: a SQLite database, and its spills in a directory beside it, as the policy says.
    pub fn open(
        path: impl AsRef<Path>,
        policy: &Policy,
        durability: Durability,
    ) -> Result<Archive, StoreError> {
        let path = path.as_ref();
        let store = SqliteStore::open(path, durability)?;
        let (copy, loss) = (store.copy().map(Path::to_path_buf), store.loss().cloned());
        // Only a policy that spills must name a directory.
        let folder = Some(&*policy.truncate.spill_directory).filter(|folder| !folder.is_empty());
        let place = path.parent().unwrap_or(Path::new(".")).join(folder.unwrap_or("spill"));
        // Made when it is first needed: where nothing is kept, there is no directory. A policy that does not spill outputs
        // still has one, because files are kept before they are changed whatever becomes of outputs.
        let blobs: Arc<dyn Blobs> = Arc::new(spill_directory(&store, &place)?);
        Ok(Archive { copy, loss, ..Archive::new(Box::new(store), Ok(blobs)) })
    }

    /// Everything in memory, gone with the process: for tests, replays and plans.
    pub fn in_memory() -> Archive {
        Archive::new(Box::new(crate::MemoryStore::new()), Ok(Arc::new(crate::MemoryBlobs::default())))
    }

    /// Any store and any place for spills, or why there is none.
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

    /// The store.
    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    fn ids(&self) -> MutexGuard<'_, Ids> {
        // Names are made one at a time; a panic elsewhere leaves nothing half made.
        self.ids.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Remove a session, and the spills that nothing else needs.
    pub fn remove(&self, claim: &Claim, now: Millis) -> Result<(), StoreError> {
        self.store.remove(claim, now)?;
        self.finish_deleting().map(drop)
    }

    /// Look for damage: in the database, and for spills whose content is not there or not what was kept.
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

/// Handles that a receipt names, as they are typed.
pub fn handles(receipt: &Receipt) -> Vec<String> {
    receipt.handles.iter().map(Handle::to_string).collect()
}

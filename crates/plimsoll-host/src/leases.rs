//! Registry of the leases that a host holds, which releases them when the process is asked to exit.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plimsoll_store::{Archive, Lease};

/// Leases held by this process. The host's signal handler calls [`Leases::release`], so that the next command does not have to
/// wait until they expire.
#[derive(Default)]
pub struct Leases {
    held: Mutex<Vec<(Arc<Archive>, Lease)>>,
    /// Called for the first lease, to start handling signals.
    on_first: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Leases {
    /// Creates a registry that calls `begin` for the first lease.
    pub fn on_first(begin: impl FnOnce() + Send + 'static) -> Leases {
        Leases { on_first: Mutex::new(Some(Box::new(begin))), ..Leases::default() }
    }

    /// Registers a lease.
    pub fn hold(&self, archive: &Arc<Archive>, lease: &Lease) {
        self.held().push((Arc::clone(archive), lease.clone()));
        let begin = self.on_first.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(begin) = begin {
            begin();
        }
    }

    /// Releases all leases, except those that were already released or that another process has taken over. Running writes are
    /// committed first, because the release waits its turn at the store's single writer.
    pub fn release(&self) {
        for (archive, lease) in self.held().drain(..) {
            // The process is ending; a lease that cannot be released expires.
            let _ = archive.store().release(&lease);
        }
    }

    fn held(&self) -> MutexGuard<'_, Vec<(Arc<Archive>, Lease)>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use plimsoll::{Millis, SessionId};
    use plimsoll_store::{Archive, MemoryStore, NewSession};

    use super::Leases;

    #[test]
    fn p6_an_interrupted_host_releases_its_sessions() {
        let archive = Arc::new(Archive::new(Box::new(MemoryStore::new()), Err("no spills here".into())));
        let (id, leases) = (SessionId::new("ses_1"), Leases::default());
        archive.store().create(NewSession::new(id.clone()), Millis(1)).unwrap();
        let hour = Duration::from_secs(3_600);
        leases.hold(&archive, &archive.store().lease(&id, "first", hour).unwrap());
        assert!(archive.store().lease(&id, "second", hour).is_err());
        leases.release();
        archive.store().lease(&id, "second", hour).unwrap();
        leases.release();
        assert!(archive.store().lease(&id, "third", hour).is_err(), "the lease of another stays");
    }
}

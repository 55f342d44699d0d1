//! The leases that a host holds, so that it can release them when its process is asked to end.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plimsoll_store::{Archive, Lease};

/// Leases on sessions that this process holds. The host's handler of signals calls [`Leases::release`], so that the next
/// command need not wait until they expire.
#[derive(Default)]
pub struct Leases {
    held: Mutex<Vec<(Arc<Archive>, Lease)>>,
    /// Called when the first lease is held, to begin to handle signals.
    on_first: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Leases {
    /// Calls `begin` when the first lease is held.
    pub fn on_first(begin: impl FnOnce() + Send + 'static) -> Leases {
        Leases { on_first: Mutex::new(Some(Box::new(begin))), ..Leases::default() }
    }

    /// Holds a lease.
    pub fn hold(&self, archive: &Arc<Archive>, lease: &Lease) {
        self.held().push((Arc::clone(archive), lease.clone()));
        let begin = self.on_first.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(begin) = begin {
            begin();
        }
    }

    /// Releases all leases. One that was released before, or that another process has taken since, is not changed. A write
    /// under way is committed first: the store's single writer makes the release wait for its turn.
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

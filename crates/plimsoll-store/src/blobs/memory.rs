//! Blobs in memory: for tests, replays and plans.

use std::collections::BTreeMap;
use std::io::{Cursor, Read};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard};

use super::{Blob, Blobs, Staged};
use crate::error::StoreError;

/// Blobs in memory.
#[derive(Clone, Default)]
pub struct MemoryBlobs(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    contents: BTreeMap<String, Arc<Vec<u8>>>,
    pending: BTreeMap<String, Vec<u8>>,
    /// Number of staged blobs, used in their names.
    staged: u64,
}

impl MemoryBlobs {
    fn state(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves nothing half done: every change is one insertion or removal.
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

struct StagedBytes {
    place: MemoryBlobs,
    blob: Blob,
    bytes: Arc<Vec<u8>>,
}

impl Staged for StagedBytes {
    fn blob(&self) -> &Blob {
        &self.blob
    }

    fn put(&mut self) -> Result<(), StoreError> {
        self.place.state().contents.insert(self.blob.name.clone(), Arc::clone(&self.bytes));
        Ok(())
    }
}

struct Shared(Arc<Vec<u8>>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Blobs for MemoryBlobs {
    fn stage(&self, content: &mut dyn Read) -> Result<Box<dyn Staged>, StoreError> {
        let mut bytes = Vec::new();
        content.read_to_end(&mut bytes).map_err(StoreError::io("cannot keep the whole output"))?;
        let hash = blake3::hash(&bytes).to_hex().to_string();
        let mut state = self.state();
        state.staged += 1;
        let name = format!("{hash}-{:016x}", state.staged);
        let blob = Blob { name, hash, bytes: bytes.len() as u64, stored: bytes.len() as u64 };
        Ok(Box::new(StagedBytes { place: self.clone(), blob, bytes: Arc::new(bytes) }))
    }

    fn get(&self, name: &str) -> Result<Option<Box<dyn Read + Send>>, StoreError> {
        let found = self.state().contents.get(name).cloned();
        Ok(found.map(|bytes| Box::new(Cursor::new(Shared(bytes))) as Box<dyn Read + Send>))
    }

    fn remove(&self, name: &str) -> Result<(), StoreError> {
        self.state().contents.remove(name);
        Ok(())
    }

    fn list(&self, after: Option<&str>, most: usize) -> Result<Vec<String>, StoreError> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let state = self.state();
        let names = state.contents.range::<str, _>((from, Bound::Unbounded)).map(|(name, _)| name.clone());
        Ok(names.take(most).collect())
    }

    fn is_being_added(&self, _: &str) -> bool {
        // The store is in memory too: a dying process takes both with it, so there are no leftovers.
        true
    }

    fn sweep(&self) -> Result<u64, StoreError> {
        Ok(0)
    }

    fn put_pending(&self, id: &str, record: &[u8]) -> Result<(), StoreError> {
        self.state().pending.insert(id.to_owned(), record.to_vec());
        Ok(())
    }

    fn pending(&self, most: usize) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let state = self.state();
        Ok(state.pending.iter().take(most).map(|(id, record)| (id.clone(), record.clone())).collect())
    }

    fn remove_pending(&self, id: &str) -> Result<(), StoreError> {
        self.state().pending.remove(id);
        Ok(())
    }

    fn remove_copies(&self, _: &str) -> Result<(), StoreError> {
        Ok(())
    }
}

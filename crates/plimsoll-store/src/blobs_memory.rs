//! Content in memory: for tests, and for sessions that are gone with the process.

use std::collections::BTreeMap;
use std::io::{Cursor, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plimsoll::Millis;

use crate::blobs::{Blob, Blobs, Staged};
use crate::error::StoreError;

type Contents = Arc<Mutex<BTreeMap<String, Arc<[u8]>>>>;

/// Content in memory.
#[derive(Clone, Debug, Default)]
pub struct MemoryBlobs(Contents);

impl MemoryBlobs {
    fn contents(&self) -> MutexGuard<'_, BTreeMap<String, Arc<[u8]>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct StagedBytes {
    blob: Blob,
    bytes: Arc<[u8]>,
    place: MemoryBlobs,
}

impl Staged for StagedBytes {
    fn blob(&self) -> &Blob {
        &self.blob
    }

    fn keep(self: Box<Self>) -> Result<(), StoreError> {
        self.place.contents().insert(self.blob.hash, self.bytes);
        Ok(())
    }
}

impl Blobs for MemoryBlobs {
    fn stage(&self, content: &mut dyn Read) -> Result<Box<dyn Staged>, StoreError> {
        let mut bytes = Vec::new();
        content.read_to_end(&mut bytes).map_err(StoreError::io("cannot keep the whole output"))?;
        let hash = blake3::hash(&bytes).to_hex().to_string();
        let blob = Blob { hash, bytes: bytes.len() as u64, stored: bytes.len() as u64 };
        Ok(Box::new(StagedBytes { blob, bytes: bytes.into(), place: self.clone() }))
    }

    fn get(&self, hash: &str) -> Result<Option<Box<dyn Read>>, StoreError> {
        let found = self.contents().get(hash).cloned();
        Ok(found.map(|bytes| Box::new(Cursor::new(bytes)) as Box<dyn Read>))
    }

    fn remove(&self, hash: &str) -> Result<(), StoreError> {
        self.contents().remove(hash);
        Ok(())
    }

    fn list(&self) -> Result<Vec<String>, StoreError> {
        Ok(self.contents().keys().cloned().collect())
    }

    fn sweep(&self, _: Millis) -> Result<(), StoreError> {
        Ok(())
    }
}

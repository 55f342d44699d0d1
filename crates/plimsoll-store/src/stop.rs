//! Stopping a read that takes long: a search in a large session, or of a large output.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::StoreError;

/// A flag that stops a read from another thread. Clones share it.
///
/// Reads check it for each stored part and for each 64 kB of an output, and fail with [`StoreError::Stopped`].
#[derive(Clone, Debug, Default)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Stops the read.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the read is to stop.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns an error if the flag is set.
    pub fn check(&self) -> Result<(), StoreError> {
        if self.is_set() { Err(StoreError::Stopped) } else { Ok(()) }
    }
}

/// All flags are equal: a flag is not part of what is read.
impl PartialEq for StopFlag {
    fn eq(&self, _: &StopFlag) -> bool {
        true
    }
}

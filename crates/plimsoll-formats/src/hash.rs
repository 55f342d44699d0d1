//! Names as 64-bit numbers, so that each record needs only eight bytes, however long its name is.
//!
//! The hash key is random for each reading, so that no file can be constructed in which names collide. The probability
//! that two of a million collide by chance is below one in ten million.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, RandomState};

/// Hashes names to numbers other than zero.
#[derive(Default)]
pub(crate) struct Hasher(RandomState);

impl Hasher {
    pub(crate) fn hash(&self, name: &str) -> u64 {
        self.0.hash_one(name).max(1)
    }
}

/// A set of such numbers.
pub(crate) type HashSet64 = HashSet<u64, BuildHasherDefault<IdentityHasher>>;
/// A map from such numbers.
pub(crate) type HashMap64<T> = HashMap<u64, T, BuildHasherDefault<IdentityHasher>>;

/// Returns the number itself: it is already a hash.
#[derive(Default)]
pub(crate) struct IdentityHasher(u64);

impl std::hash::Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

//! Names as numbers: what has to be remembered of each record is eight bytes, however long its name.
//!
//! The key is random for each reading, so that no file can be made in which names collide; that two of a million
//! do by chance is less likely than one in ten million.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, RandomState};

/// Turns names into numbers, never into zero.
#[derive(Default)]
pub(crate) struct Hasher(RandomState);

impl Hasher {
    pub(crate) fn hash(&self, name: &str) -> u64 {
        self.0.hash_one(name).max(1)
    }
}

/// A set of such numbers.
pub(crate) type HashSet64 = HashSet<u64, BuildHasherDefault<Plain>>;
/// A map from such numbers.
pub(crate) type HashMap64<T> = HashMap<u64, T, BuildHasherDefault<Plain>>;

/// Takes the numbers as they are: they are hashes already.
#[derive(Default)]
pub(crate) struct Plain(u64);

impl std::hash::Hasher for Plain {
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

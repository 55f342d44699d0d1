//! A small hash that is the same in every build: FNV-1a with 64 bits.
//!
//! Fingerprints are stored and compared later, perhaps by another version or program, so the hash must be
//! defined outside this crate; the standard library's may change with any release. A dependency
//! is not worth it for fourteen lines. A collision costs a misplaced cache breakpoint at most, so nothing
//! stronger is needed; byte by byte it does about half a gigabyte a second, and texts remember theirs.

use crate::work;

/// An incremental hash.
#[derive(Clone, Copy, Debug)]
pub struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    /// Creates the hash of no bytes.
    pub fn new() -> Fnv {
        Fnv::default()
    }

    /// Returns the hash of some bytes.
    pub fn of(bytes: &[u8]) -> u64 {
        Fnv::new().bytes(bytes).0
    }

    /// Adds bytes.
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Fnv {
        Fnv(work::read(bytes)
            .iter()
            .fold(self.0, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)))
    }

    /// Adds a number, always as eight bytes, so that what follows cannot be mistaken for a part of it.
    #[must_use]
    pub fn number(self, number: u64) -> Fnv {
        self.bytes(&number.to_le_bytes())
    }

    /// Adds a text by its hash.
    #[must_use]
    pub fn text(self, text: &str) -> Fnv {
        self.number(Fnv::of(text.as_bytes()))
    }

    /// Returns the hash.
    pub fn finish(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::Fnv;

    /// From the test vectors that were published with the algorithm.
    #[test]
    fn it_is_the_published_algorithm() {
        assert_eq!(Fnv::of(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(Fnv::of(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(Fnv::of(b"foobar"), 0x8594_4171_f739_67e8);
    }
}

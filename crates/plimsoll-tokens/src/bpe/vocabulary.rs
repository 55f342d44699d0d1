//! Vocabularies as flat tables that are used in place: they are part of the executable and mapped with it.
//!
//! Decoding tables at start took 55 ms and 64 MB in every command that counts. Here nothing is decoded or allocated,
//! and only the pages that a lookup touches are read.
//!
//! A vocabulary has two tables:
//!
//! - the tokens in rank order, each as one byte of length and its bytes (`data/*.tokens`, written by `just tables`);
//! - an open-addressing hash index over them (written by `build.rs`). A slot is a little-endian `u32`: the token's
//!   offset in the first table in the low bits, a part of its hash in the others; zero if the slot is free. The offset
//!   is that of the token's first byte, which has the length before it and so is never zero.
//!
//! Tokens are in rank order, so their offsets order them as well. A token's offset serves as its rank, and no table of
//! ranks is needed.

use super::hash::hash;

/// A token: the offset of its bytes in the token table. The smaller one of two is merged first.
pub(super) type Token = u32;

/// The longest token of the two vocabularies: 128 spaces.
const MAX_LENGTH: usize = 128;

/// Bits of a slot that hold the offset.
const OFFSET_BITS: u32 = 21;

pub(super) struct Vocabulary {
    tokens: &'static [u8],
    index: &'static [u8],
}

pub(super) static O200K: Vocabulary = Vocabulary {
    tokens: include_bytes!("../../data/o200k.tokens"),
    index: include_bytes!(concat!(env!("OUT_DIR"), "/o200k.index")),
};

pub(super) static CL100K: Vocabulary = Vocabulary {
    tokens: include_bytes!("../../data/cl100k.tokens"),
    index: include_bytes!(concat!(env!("OUT_DIR"), "/cl100k.index")),
};

impl Vocabulary {
    /// Returns the token with exactly these bytes.
    pub(super) fn find(&self, bytes: &[u8]) -> Option<Token> {
        if bytes.len() > MAX_LENGTH {
            return None;
        }
        let hash = hash(bytes);
        // The number of slots is a power of two.
        let mask = (self.index.len() / 4).checked_sub(1)?;
        // Tag and slot use different bits of the hash. With the same bits, tokens that share a slot would share the
        // tag too.
        let tag = (hash as u32) >> OFFSET_BITS;
        let mut slot = (hash >> 40) as usize & mask;
        loop {
            let value = self.index.get(slot * 4..)?.first_chunk().copied().map(u32::from_le_bytes)?;
            if value == 0 {
                return None;
            }
            let token = value & ((1 << OFFSET_BITS) - 1);
            if value >> OFFSET_BITS == tag && self.bytes(token)? == bytes {
                return Some(token);
            }
            slot = (slot + 1) & mask;
        }
    }

    /// Returns the number of bytes of a token.
    pub(super) fn length(&self, token: Token) -> usize {
        self.tokens.get((token as usize).wrapping_sub(1)).copied().map_or(0, usize::from)
    }

    fn bytes(&self, token: Token) -> Option<&'static [u8]> {
        self.tokens.get(token as usize..)?.get(..self.length(token))
    }
}

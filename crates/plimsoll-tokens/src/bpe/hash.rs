//! The hash that places tokens in a vocabulary's index. `build.rs` compiles this file too, so both sides agree.

const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Hashes the bytes of a token. The high bits are the best mixed.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let length = bytes.len();
    let mut hash = (length as u64).wrapping_mul(FACTOR);
    if let (Some(head), Some(tail)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>())
        && length <= 8
    {
        let word = u64::from(u32::from_le_bytes(*head)) << 32 | u64::from(u32::from_le_bytes(*tail));
        return mix(hash, word);
    }
    // The last eight bytes overlap the last chunk, which saves a loop over a remainder.
    if let Some(tail) = bytes.last_chunk::<8>() {
        for chunk in bytes.chunks_exact(8) {
            let mut word = [0; 8];
            word.copy_from_slice(chunk);
            hash = mix(hash, u64::from_le_bytes(word));
        }
        return mix(hash, u64::from_le_bytes(*tail));
    }
    match bytes {
        [] => hash,
        [first, ..] => {
            let byte = |at: usize| u64::from(bytes.get(at).copied().unwrap_or_default());
            mix(hash, u64::from(*first) << 16 | byte(length / 2) << 8 | byte(length - 1))
        }
    }
}

fn mix(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash ^ word) * u128::from(FACTOR | 1);
    (product as u64) ^ (product >> 64) as u64
}

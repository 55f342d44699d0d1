//! Random ids.

use plimsoll::Ids;

/// Returns 16 random hex digits.
pub(crate) fn random_hex() -> String {
    use std::hash::{BuildHasher, RandomState};
    // Its keys come from the system, and no two in a process are equal.
    format!("{:016x}", RandomState::new().hash_one(std::process::id()))
}

/// Creates ids that sort by time and are unlikely to collide.
pub fn random_ids() -> Ids {
    let mut state = [0; 16];
    let mut drawn = 0u64;
    if let Ok(mut file) = std::fs::File::open("/dev/urandom") {
        let _ = std::io::Read::read_exact(&mut file, &mut state);
    }
    let seed = blake3::hash(&[&state[..], &std::process::id().to_le_bytes()[..]].concat());
    Ids::new(move || {
        drawn += 1;
        let mut hasher = blake3::Hasher::new_keyed(seed.as_bytes());
        hasher.update(&drawn.to_le_bytes());
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
        u64::from_le_bytes(bytes)
    })
}

//! Checksums of what parts say: what the disk gives back is what was written.
//!
//! They are for [`check`](super::check), not for every read: SQLite has none of its own, and to hash each text of a window
//! would cost as much as reading it.

/// The checksum of a part's row.
pub(crate) fn sum(data: &str, text: Option<&str>) -> Vec<u8> {
    let mut hasher = blake3::Hasher::new();
    // Where the one ends and the other begins is part of it.
    hasher.update(&(data.len() as u64).to_le_bytes());
    hasher.update(data.as_bytes());
    hasher.update(&[u8::from(text.is_some())]);
    hasher.update(text.unwrap_or_default().as_bytes());
    // Half of it tells damage as well as the whole.
    hasher.finalize().as_bytes()[..16].to_vec()
}

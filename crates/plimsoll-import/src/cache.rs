//! The figures of transcripts that were read before, so that a list of sessions reads only what changed since.
//!
//! Each transcript has a small file in a folder of the user's cache: what it was found to be, its size, modification time and
//! a checksum of its end at that time. An entry that does not match is read anew and replaced, as is one that is damaged, of
//! another version or of another policy. Only figures and the title are stored, nothing else that a session says.
//!
//! Nothing here fails: if the folder cannot be read or written, transcripts are read as if there were none.

use std::fs::{self, DirBuilder, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use plimsoll::Policy;
use serde::{Deserialize, Serialize};

use crate::weighed::Weighed;

/// Changes whenever other figures are made of the same transcript, or are stored in another form.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "/1");
/// Bytes of a transcript's end that the checksum covers.
const END: u64 = 4 << 10;
/// Maximum size of an entry. An entry has about 40 bytes for each response.
const MAX_ENTRY: u64 = 16 << 20;
/// Maximum number of entries; above it the older half is removed.
const MAX_ENTRIES: usize = 20_000;

/// Figures of transcripts in a folder, for one policy.
#[derive(Clone, Debug)]
pub struct WeighedCache {
    folder: PathBuf,
    policy: String,
}

/// A transcript at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    size: u64,
    modified: u128,
    /// Checksum of the last bytes. The time alone is too coarse: a file can be replaced within one tick.
    end: String,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    version: String,
    policy: String,
    path: PathBuf,
    stamp: Stamp,
    weighed: Weighed,
}

impl Stamp {
    /// Takes the stamp of a file. To be taken before the file is read: what is written meanwhile then makes it differ.
    pub(crate) fn of(path: &Path) -> Option<Stamp> {
        let mut file = File::open(path).ok()?;
        let metadata = file.metadata().ok()?;
        let modified = metadata.modified().ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_nanos();
        file.seek(SeekFrom::Start(metadata.len().saturating_sub(END))).ok()?;
        let mut end = Vec::new();
        file.take(END).read_to_end(&mut end).ok()?;
        Some(Stamp { size: metadata.len(), modified, end: blake3::hash(&end).to_hex().to_string() })
    }
}

impl WeighedCache {
    /// A cache in a folder, which is created with the first entry.
    pub fn new(folder: PathBuf, policy: &Policy) -> WeighedCache {
        let policy = serde_json::to_vec(policy).unwrap_or_default();
        WeighedCache { folder, policy: blake3::hash(&policy).to_hex().to_string() }
    }

    fn place(&self, path: &Path) -> PathBuf {
        let name = blake3::hash(path.as_os_str().as_encoded_bytes()).to_hex();
        self.folder.join(format!("{}.json", &name.as_str()[..32]))
    }

    /// The figures of a transcript that is still as it was.
    pub(crate) fn get(&self, path: &Path, stamp: &Stamp) -> Option<Weighed> {
        let mut text = Vec::new();
        File::open(self.place(path)).ok()?.take(MAX_ENTRY).read_to_end(&mut text).ok()?;
        let entry: Entry = serde_json::from_slice(&text).ok()?;
        let is_current = entry.version == VERSION && entry.policy == self.policy;
        (is_current && entry.path == path && entry.stamp == *stamp).then_some(entry.weighed)
    }

    /// Stores the figures of a transcript.
    pub(crate) fn put(&self, path: &Path, stamp: Stamp, weighed: &Weighed) -> Option<()> {
        let entry = Entry {
            version: VERSION.to_owned(),
            policy: self.policy.clone(),
            path: path.to_owned(),
            stamp,
            weighed: weighed.clone(),
        };
        let text = serde_json::to_vec(&entry).ok()?;
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.recursive(true).create(&self.folder).ok()?;
        // Renamed into place, so another process reads the old entry or the new one.
        let mut file = tempfile::NamedTempFile::new_in(&self.folder).ok()?;
        file.write_all(&text).ok()?;
        file.persist(self.place(path)).ok().map(drop)
    }

    /// Removes the older half of the entries if there are too many: transcripts are deleted, and their entries stay.
    pub(crate) fn sweep(&self) {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        if paths.len() <= MAX_ENTRIES {
            return;
        }
        paths.sort_by_cached_key(|path| path.metadata().and_then(|metadata| metadata.modified()).ok());
        for path in paths.iter().take(paths.len() / 2) {
            let _ = fs::remove_file(path);
        }
    }
}

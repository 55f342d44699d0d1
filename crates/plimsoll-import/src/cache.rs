//! Cached figures of transcripts, so that a list of sessions reads only what has changed.
//!
//! Each transcript has a small file in the user's cache directory: its figures, its size, its modification time, a
//! checksum of its end, and where reading can resume if it has only grown. A transcript that changed in another way is
//! read again and its entry replaced, as are entries that are damaged or of another version or policy. Only figures and
//! the title are stored, no other content.
//!
//! Nothing here returns an error: if the directory cannot be read or written, transcripts are read without a cache.

use std::fs::{self, DirBuilder, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use plimsoll::Policy;
use serde::{Deserialize, Serialize};

use crate::resume::Resume;
use crate::weighed::Weighed;

/// Changes whenever the figures or the format change.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "/3");
/// Bytes of a transcript's end that the checksum covers.
const END: u64 = 4 << 10;
/// Maximum size of an entry. An entry has about 120 bytes for each response.
const MAX_ENTRY: u64 = 16 << 20;
/// Maximum number of entries; above it the older half is removed.
const MAX_ENTRIES: usize = 20_000;

/// Cached figures of transcripts, for one policy.
#[derive(Clone, Debug)]
pub struct WeighedCache {
    directory: PathBuf,
    policy: String,
}

/// State of a transcript at some time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    size: u64,
    modified: u128,
    /// Checksum of the last bytes. Times are too coarse: a file can be replaced within one tick.
    end: String,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    version: String,
    policy: String,
    path: PathBuf,
    stamp: Stamp,
    weighed: Weighed,
    resume: Option<Box<Resume>>,
}

/// A cached transcript.
pub(crate) enum Known {
    /// The transcript is unchanged.
    Same(Weighed),
    /// The transcript has grown, and its earlier content seems unchanged.
    Grown(Weighed, Box<Resume>),
}

impl Stamp {
    /// Reads the state of a file. Must be called before the file is read, so that later writes make it differ.
    pub(crate) fn of(path: &Path) -> Option<Stamp> {
        let metadata = path.metadata().ok()?;
        let modified = metadata.modified().ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_nanos();
        Some(Stamp { size: metadata.len(), modified, end: checksum(path, metadata.len())? })
    }

    /// Whether a file still has its earlier content, with more after it.
    fn is_beginning_of(&self, path: &Path, now: &Stamp) -> bool {
        self.size < now.size && checksum(path, self.size).is_some_and(|end| end == self.end)
    }
}

/// Returns a checksum of the last bytes before `size`.
fn checksum(path: &Path, size: u64) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let length = size.min(END);
    file.seek(SeekFrom::Start(size - length)).ok()?;
    let mut end = Vec::new();
    file.take(length).read_to_end(&mut end).ok()?;
    Some(blake3::hash(&end).to_hex().to_string())
}

impl WeighedCache {
    /// Creates a cache in a directory, which is created with the first entry.
    pub fn new(directory: PathBuf, policy: &Policy) -> WeighedCache {
        let policy = serde_json::to_vec(policy).unwrap_or_default();
        WeighedCache { directory, policy: blake3::hash(&policy).to_hex().to_string() }
    }

    fn place(&self, path: &Path) -> PathBuf {
        let name = blake3::hash(path.as_os_str().as_encoded_bytes()).to_hex();
        self.directory.join(format!("{}.json", &name.as_str()[..32]))
    }

    /// Returns the figures of a transcript that is unchanged or has only grown.
    pub(crate) fn get(&self, path: &Path, stamp: &Stamp) -> Option<Known> {
        let mut text = Vec::new();
        File::open(self.place(path)).ok()?.take(MAX_ENTRY).read_to_end(&mut text).ok()?;
        let entry: Entry = serde_json::from_slice(&text).ok()?;
        if entry.version != VERSION || entry.policy != self.policy || entry.path != path {
            return None;
        }
        if entry.stamp == *stamp {
            return Some(Known::Same(entry.weighed));
        }
        let resume = entry.resume.filter(|_| entry.stamp.is_beginning_of(path, stamp))?;
        Some(Known::Grown(entry.weighed, resume))
    }

    /// Stores the figures of a transcript.
    pub(crate) fn put(
        &self,
        path: &Path,
        stamp: Stamp,
        weighed: &Weighed,
        resume: Option<Resume>,
    ) -> Option<()> {
        let entry = Entry {
            version: VERSION.to_owned(),
            policy: self.policy.clone(),
            path: path.to_owned(),
            stamp,
            weighed: weighed.clone(),
            resume: resume.map(Box::new),
        };
        let text = serde_json::to_vec(&entry).ok()?;
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.recursive(true).create(&self.directory).ok()?;
        // Renamed into place, so that other processes read either the old entry or the new one.
        let mut file = tempfile::NamedTempFile::new_in(&self.directory).ok()?;
        file.write_all(&text).ok()?;
        file.persist(self.place(path)).ok().map(drop)
    }

    /// Removes the older half of the entries if there are too many. Entries of deleted transcripts are not removed otherwise.
    pub(crate) fn sweep(&self) {
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
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

//! What the command of a hook or of an MCP server would run, held against what it was when the process began.
//!
//! Both run unconfined and beside the agent, which may write files of the project: without this, `write` or a confined `bash`
//! would be enough to run anything. So the files that a command names are remembered the first time that the process sees the
//! command, which is when its agent is set up, and are compared before every start. Whatever has changed since then, appeared,
//! gone or leads elsewhere keeps the command from being started, until a person starts the program again.
//!
//! The record belongs to the process and not to a conversation: a new session in the same process must not take what the
//! agent wrote in the last one for the beginning.
//!
//! Two other ways were weighed. Running a copy that was taken at the beginning breaks scripts that look for files beside
//! themselves. Running such commands confined, as `bash` is, would be safe whatever they load, but most servers exist to
//! reach what the sandbox closes: a database, a network, a socket. What a script itself loads is therefore not known here,
//! and the documentation says so.

mod words;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A larger file is known by its place and times on the disk in place of its content.
const LARGEST_HASHED: u64 = 16 << 20;

/// A command of the configuration, and where it runs.
#[derive(Clone, Copy)]
pub(crate) struct Launch<'a> {
    /// The program and its arguments.
    pub(crate) command: &'a [String],
    /// The directory it runs in.
    pub(crate) directory: &'a Path,
    /// The `PATH` it is looked for in.
    pub(crate) path: Option<&'a OsStr>,
}

/// The files that a command would run, as they were when this process first saw the command.
#[derive(Debug)]
pub(crate) struct LaunchRecord {
    writable: Vec<PathBuf>,
    files: BTreeMap<PathBuf, FileState>,
}

/// A command by its words, its directory and its `PATH`.
type LaunchKey = (Vec<String>, PathBuf, Option<OsString>);

static RECORDS: Mutex<BTreeMap<LaunchKey, Arc<LaunchRecord>>> = Mutex::new(BTreeMap::new());

impl LaunchRecord {
    /// The record of a command, which is made when the process asks for it for the first time. `writable` are the places that
    /// an agent may write to without being asked; they count as they were given the first time.
    pub(crate) fn remember(launch: Launch<'_>, writable: &[PathBuf]) -> Arc<LaunchRecord> {
        let Launch { command, directory, path } = launch;
        let key = (command.to_vec(), directory.to_owned(), path.map(OsStr::to_owned));
        let mut records = RECORDS.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(records.entry(key).or_insert_with(|| Arc::new(LaunchRecord::take(launch, writable))))
    }

    fn take(launch: Launch<'_>, writable: &[PathBuf]) -> LaunchRecord {
        let writable: Vec<PathBuf> =
            writable.iter().map(|path| path.canonicalize().unwrap_or_else(|_| path.clone())).collect();
        // The directory of a server may be given from the current one.
        let directory = std::path::absolute(launch.directory).unwrap_or_else(|_| launch.directory.to_owned());
        let named = words::named_files(Launch { directory: &directory, ..launch });
        let mut record = LaunchRecord { writable, files: BTreeMap::new() };
        for path in named {
            if let Some(state) = record.state_of(&path) {
                record.files.insert(path, state);
            }
        }
        record
    }

    /// Why the command must not be started any more, in words for a person.
    pub(crate) fn refusal(&self) -> Option<String> {
        self.files.iter().find_map(|(path, before)| {
            let now = self.state_of(path).unwrap_or(FileState::Missing);
            let how = before.difference(&now)?;
            Some(format!(
                "`{}` {how} since plimsoll was started, and an agent may have done that, so it is not run; look at it, and \
                 start plimsoll again to accept it",
                path.display()
            ))
        })
    }

    /// What is found under a name; nothing where neither the name nor what it leads to can be written by an agent.
    fn state_of(&self, path: &Path) -> Option<FileState> {
        let is_writable = |path: &Path| self.writable.iter().any(|folder| path.starts_with(folder));
        let Ok(real) = path.canonicalize() else {
            // The folder it would come to be in may be a link into the project.
            let mut above = path.ancestors().skip(1).filter_map(|folder| folder.canonicalize().ok());
            let could_appear = is_writable(path) || above.next().is_some_and(|folder| is_writable(&folder));
            return could_appear.then_some(FileState::Missing);
        };
        // A program of the system may be replaced by an update; what matters of it is that the name still leads there.
        let is_read = is_writable(path) || is_writable(&real);
        let content = if is_read { Content::of(&real) } else { Content::Elsewhere };
        Some(FileState::There { real, content })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum FileState {
    Missing,
    There {
        /// With links resolved: a link or a folder on the way that leads elsewhere is a change, whatever it leads to.
        real: PathBuf,
        content: Content,
    },
}

impl FileState {
    /// What has become of it, in words that follow its name; nothing where it is the same.
    fn difference(&self, now: &FileState) -> Option<&'static str> {
        match (self, now) {
            (before, now) if before == now => None,
            (FileState::Missing, FileState::There { .. }) => Some("has appeared"),
            (_, FileState::Missing) => Some("has gone"),
            (FileState::There { real: before, .. }, FileState::There { real: now, .. }) => {
                Some(if before == now { "has changed" } else { "leads elsewhere" })
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    Folder,
    Hash(blake3::Hash),
    /// Too large to be hashed before every call, or nothing that can be read as a whole.
    Inode {
        device: u64,
        number: u64,
        size: u64,
        /// When it was changed last, which no program can set: seconds and nanoseconds.
        changed: (i64, i64),
    },
    /// Outside of what an agent may write.
    Elsewhere,
    Unreadable,
}

impl Content {
    fn of(path: &Path) -> Content {
        let Ok(found) = std::fs::metadata(path) else { return Content::Unreadable };
        if found.is_dir() {
            return Content::Folder;
        }
        if !found.is_file() || found.len() > LARGEST_HASHED {
            return Content::inode(&found);
        }
        std::fs::read(path).map_or(Content::Unreadable, |bytes| Content::Hash(blake3::hash(&bytes)))
    }

    fn inode(found: &Metadata) -> Content {
        Content::Inode {
            device: found.dev(),
            number: found.ino(),
            size: found.size(),
            changed: (found.ctime(), found.ctime_nsec()),
        }
    }
}

//! The record of what its user trusts: projects by their directories, with the hashes of their files.
//!
//! One private file in the user's data folder, written whole or not at all. What cannot be read, or could have been
//! written by another user, trusts nothing.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::surroundings::Surroundings;

const VERSION: u32 = 1;

/// What is trusted.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ledger {
    version: u32,
    trusted: Vec<TrustedProject>,
}

/// A project that is trusted as long as its files are these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustedProject {
    /// Its directory, by its canonical path.
    pub directory: PathBuf,
    /// Its `plimsoll.toml` with the policy file that it names, OpenCode's files, and the files inside the project that
    /// they refer to.
    pub files: Vec<TrustedFile>,
}

/// A file with its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustedFile {
    /// Its canonical path.
    pub path: PathBuf,
    /// The blake3 hash of its content.
    pub hash: String,
}

/// Why what is trusted can not be told, or not be changed.
#[derive(Debug, Error)]
pub enum LedgerError {
    /// There is no place for it.
    #[error("cannot tell where to record what is trusted: there is no home directory")]
    NoHome,
    /// It cannot be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It cannot be written.
    #[error("cannot write `{}`: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is not what this version writes.
    #[error("`{}` is damaged: {problem}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Other users may write to it.
    #[error("`{}` can be written by other users, so nothing in it is trusted", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
    },
    /// A directory's name is not text, and cannot be recorded.
    #[error("the path `{}` is not UTF-8 and cannot be recorded", path.display())]
    NotUtf8 {
        /// The path.
        path: PathBuf,
    },
}

impl LedgerError {
    /// What to do about it, before what was asked for is tried again.
    pub fn remedy(&self) -> String {
        match self {
            LedgerError::NoHome => "set HOME, or XDG_DATA_HOME to an absolute path".to_owned(),
            LedgerError::Read { path, .. } | LedgerError::Write { path, .. } => {
                let folder = path.parent().unwrap_or(path).display();
                format!("make `{folder}` a folder that you can read and write, or set XDG_DATA_HOME")
            }
            LedgerError::Damaged { path, .. } => format!("remove `{}`", path.display()),
            LedgerError::Exposed { path } => {
                format!("look whether all of it is yours, `chmod 600 '{}'`", path.display())
            }
            LedgerError::NotUtf8 { .. } => "rename the directory".to_owned(),
        }
    }
}

impl Ledger {
    /// What is trusted; nothing if nothing ever was.
    pub fn read(around: &Surroundings) -> Result<Ledger, LedgerError> {
        let path = place(around)?;
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Ledger { version: VERSION, trusted: Vec::new() });
            }
            Err(source) => return Err(LedgerError::Read { path, source }),
        };
        if is_exposed(&file).map_err(|source| LedgerError::Read { path: path.clone(), source })? {
            return Err(LedgerError::Exposed { path });
        }
        let text =
            io::read_to_string(file).map_err(|source| LedgerError::Read { path: path.clone(), source })?;
        let damaged = |problem: String| LedgerError::Damaged { path: path.clone(), problem };
        let ledger: Ledger = serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
        if ledger.version != VERSION {
            return Err(damaged(format!("it is of version {}, and this is {VERSION}", ledger.version)));
        }
        Ok(ledger)
    }

    /// All that is trusted, by directory.
    pub fn projects(&self) -> &[TrustedProject] {
        &self.trusted
    }

    /// The files with which a directory is trusted.
    pub(crate) fn files(&self, directory: &Path) -> Option<&[TrustedFile]> {
        let found = self.trusted.iter().find(|project| project.directory == directory);
        found.map(|project| project.files.as_slice())
    }

    /// Trust a directory no more; says whether it was trusted.
    pub fn revoke(around: &Surroundings, directory: &Path) -> Result<bool, LedgerError> {
        if Ledger::read(around)?.files(directory).is_none() {
            return Ok(false);
        }
        Ledger::change(around, |trusted| trusted.retain(|project| project.directory != directory))?;
        Ok(true)
    }

    /// Change what is trusted, one process at a time: of two that read before either writes, the later would undo what
    /// the earlier revoked.
    pub(crate) fn change(
        around: &Surroundings,
        change: impl FnOnce(&mut Vec<TrustedProject>),
    ) -> Result<(), LedgerError> {
        let path = place(around)?;
        let failed = |source| LedgerError::Write { path: path.clone(), source };
        let folder = path.parent().unwrap_or(Path::new("."));
        make_private(folder).map_err(failed)?;
        // The lock lasts until the file is closed, at the end of this function.
        let mut private = File::options();
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut private, 0o600);
        let lock = private.create(true).truncate(false).write(true).open(folder.join("trust.lock"));
        let lock = lock.map_err(failed)?;
        lock.lock().map_err(failed)?;
        let mut ledger = Ledger::read(around)?;
        change(&mut ledger.trusted);
        let mut text = serde_json::to_vec_pretty(&ledger).map_err(|error| failed(io::Error::other(error)))?;
        text.push(b'\n');
        write_whole(&path, folder, &text).map_err(failed)
    }
}

fn place(around: &Surroundings) -> Result<PathBuf, LedgerError> {
    Ok(around.data_folder().ok_or(LedgerError::NoHome)?.join("trust.json"))
}

/// Write by way of a temporary file beside it, which the user alone can read.
fn write_whole(path: &Path, folder: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = tempfile::Builder::new().prefix(".trust-").tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map(drop).map_err(|error| error.error)
}

/// Make a folder for the user alone, with those above it. One that is there stays as it is.
fn make_private(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Whether other users may write to it.
#[cfg(unix)]
fn is_exposed(file: &File) -> io::Result<bool> {
    use std::os::unix::fs::PermissionsExt;
    Ok(file.metadata()?.permissions().mode() & 0o022 != 0)
}

#[cfg(not(unix))]
fn is_exposed(_: &File) -> io::Result<bool> {
    Ok(false)
}

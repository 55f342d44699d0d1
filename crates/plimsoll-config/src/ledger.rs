//! The record of trusted projects: their directories with the hashes of their files.
//!
//! The ledger is one private file in the user's data directory, which is replaced atomically. If it cannot be read, or
//! another user could have written it, nothing is trusted.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::environment::Environment;
use crate::shell::shell_quoted;

const VERSION: u32 = 1;

/// The record of trusted projects.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ledger {
    version: u32,
    trusted: Vec<TrustedProject>,
}

/// A project that is trusted as long as these are its files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct TrustedProject {
    /// Canonical path of the directory.
    pub directory: PathBuf,
    /// The project's `plimsoll.toml` with the policy file that it names, OpenCode's files, and the files inside the
    /// project that they refer to.
    pub files: Vec<TrustedFile>,
}

/// A file and its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct TrustedFile {
    /// Canonical path.
    pub path: PathBuf,
    /// BLAKE3 hash of the content.
    pub hash: String,
}

/// Why the record cannot be read or changed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// The user has no home directory.
    #[error("cannot record trust: no home directory")]
    NoHome,
    /// The file cannot be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write `{}`: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// The file was not written by this version, or was changed.
    #[error("`{}` is damaged: {problem}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// Other users can write to the file.
    #[error("`{}` can be written by other users, so nothing in it is trusted", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
    },
    /// A directory's name is not UTF-8, which the record requires.
    #[error("the path `{}` is not UTF-8 and cannot be recorded", path.display())]
    NotUtf8 {
        /// The path.
        path: PathBuf,
    },
}

impl LedgerError {
    /// Returns what to do before trying again.
    pub fn remedy(&self) -> String {
        match self {
            LedgerError::NoHome => "set HOME, or XDG_DATA_HOME to an absolute path".to_owned(),
            LedgerError::Read { path, .. } | LedgerError::Write { path, .. } => {
                let directory = path.parent().unwrap_or(path).display();
                format!("make `{directory}` a directory that you can read and write, or set XDG_DATA_HOME")
            }
            LedgerError::Damaged { path, .. } => format!("remove `{}`", path.display()),
            LedgerError::Exposed { path } => {
                let word = shell_quoted(&path.to_string_lossy());
                format!("check that all entries are yours, then run `chmod 600 {word}`")
            }
            LedgerError::NotUtf8 { .. } => "rename the directory".to_owned(),
        }
    }
}

impl Ledger {
    /// Reads the record; an empty one if it does not exist.
    pub fn read(env: &Environment) -> Result<Ledger, LedgerError> {
        let path = place(env)?;
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
            return Err(damaged(format!("its version is {}, expected {VERSION}", ledger.version)));
        }
        Ok(ledger)
    }

    /// Returns all trusted projects, by directory.
    pub fn projects(&self) -> &[TrustedProject] {
        &self.trusted
    }

    /// Returns the files of a trusted directory.
    pub(crate) fn files(&self, directory: &Path) -> Option<&[TrustedFile]> {
        let found = self.trusted.iter().find(|project| project.directory == directory);
        found.map(|project| project.files.as_slice())
    }

    /// Removes trust from a directory. Returns whether it was trusted.
    pub fn revoke(env: &Environment, directory: &Path) -> Result<bool, LedgerError> {
        if Ledger::read(env)?.files(directory).is_none() {
            return Ok(false);
        }
        Ledger::change(env, |trusted| trusted.retain(|project| project.directory != directory))?;
        Ok(true)
    }

    /// Changes the record under a lock. Of two processes that read before either writes, the later one would otherwise
    /// restore what the earlier one revoked.
    pub(crate) fn change(
        env: &Environment,
        change: impl FnOnce(&mut Vec<TrustedProject>),
    ) -> Result<(), LedgerError> {
        let path = place(env)?;
        let failed = |source| LedgerError::Write { path: path.clone(), source };
        let directory = path.parent().unwrap_or(Path::new("."));
        make_private(directory).map_err(failed)?;
        // The lock lasts until the file is closed, at the end of this function.
        let mut private = File::options();
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut private, 0o600);
        let lock = private.create(true).truncate(false).write(true).open(directory.join("trust.lock"));
        let lock = lock.map_err(failed)?;
        lock.lock().map_err(failed)?;
        let mut ledger = Ledger::read(env)?;
        change(&mut ledger.trusted);
        let mut text = serde_json::to_vec_pretty(&ledger).map_err(|error| failed(io::Error::other(error)))?;
        text.push(b'\n');
        write_whole(&path, directory, &text).map_err(failed)
    }
}

fn place(env: &Environment) -> Result<PathBuf, LedgerError> {
    Ok(env.data_directory().ok_or(LedgerError::NoHome)?.join("trust.json"))
}

/// Writes to a temporary file that only the user can read, and renames it.
fn write_whole(path: &Path, directory: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = tempfile::Builder::new().prefix(".trust-").tempfile_in(directory)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map(drop).map_err(|error| error.error)
}

/// Creates a private directory and its parents. An existing one is left unchanged.
fn make_private(directory: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

/// Whether other users can write to a file.
#[cfg(unix)]
fn is_exposed(file: &File) -> io::Result<bool> {
    use std::os::unix::fs::PermissionsExt;
    // Other users may read it: it has no secrets, only paths and hashes.
    Ok(file.metadata()?.permissions().mode() & 0o022 != 0)
}

#[cfg(not(unix))]
fn is_exposed(_: &File) -> io::Result<bool> {
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::LedgerError;

    #[test]
    fn a_suggested_command_survives_an_apostrophe_in_the_path() {
        let exposed = LedgerError::Exposed { path: "/home/o'brien/trust.json".into() };
        let remedy = exposed.remedy();
        let command = remedy.split('`').nth(1).unwrap();
        assert_eq!(shlex::split(command).unwrap(), ["chmod", "600", "/home/o'brien/trust.json"], "{remedy}");
    }
}

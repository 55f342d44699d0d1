//! Files that are written whole or not at all.

use std::io::{self, Write};
use std::path::Path;

use tempfile::{Builder, NamedTempFile};

/// How an existing file is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Existing {
    /// Keeps the file and returns an error.
    Keep,
    /// Replaces the file.
    Replace,
}

/// Writes a file through a temporary one in the same directory, so that no reader sees half of it.
pub fn write(path: &Path, bytes: &[u8], existing: Existing) -> io::Result<()> {
    write_with(path, existing, |file| file.write_all(bytes))
}

/// Like [`write`], for content that is written in pieces.
pub(crate) fn write_with<T, E: From<io::Error>>(
    path: &Path,
    existing: Existing,
    put: impl FnOnce(&mut dyn Write) -> Result<T, E>,
) -> Result<T, E> {
    if existing == Existing::Keep && path.exists() {
        return Err(io::Error::from(io::ErrorKind::AlreadyExists).into());
    }
    let mut builder = Builder::new();
    // A file that the user asked for has the permissions of the user's other files.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = io::BufWriter::new(builder.tempfile_in(folder(path))?);
    let done = put(&mut file)?;
    keep(file.into_inner().map_err(io::IntoInnerError::into_error)?, path, existing)?;
    Ok(done)
}

/// Creates a file that only the user can read, still without its name.
pub(crate) fn private(folder: &Path) -> io::Result<NamedTempFile> {
    private_folder(folder)?;
    Builder::new().prefix(".plimsoll-").tempfile_in(folder)
}

/// Renames a temporary file to its path.
pub(crate) fn keep(file: NamedTempFile, path: &Path, existing: Existing) -> io::Result<()> {
    file.as_file().sync_all()?;
    let kept = match existing {
        Existing::Keep => file.persist_noclobber(path),
        Existing::Replace => file.persist(path),
    };
    kept.map(drop).map_err(|error| error.error)
}

/// Creates a directory that only the user can read. An existing one is unchanged.
pub fn private_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    if let Some(above) = folder.parent() {
        std::fs::create_dir_all(above)?;
    }
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(folder) {
        // Another process was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        other => other,
    }
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

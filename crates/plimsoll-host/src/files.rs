//! Atomic writes of files.

use std::io::{self, Write};
use std::path::Path;

use tempfile::{Builder, NamedTempFile};

/// Handling of an existing file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Existing {
    /// Keep the file and fail.
    Keep,
    /// Replace the file.
    Replace,
}

/// Writes a file through a temporary file in the same directory, so that readers never see half of it.
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
    // Temporary files are private by default; a file that the user asked for gets the permissions of the user's other files.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = io::BufWriter::new(builder.tempfile_in(parent(path))?);
    let done = put(&mut file)?;
    keep(file.into_inner().map_err(io::IntoInnerError::into_error)?, path, existing)?;
    Ok(done)
}

/// Creates a temporary file that only the user can read, to be renamed by [`keep`].
pub(crate) fn private(directory: &Path) -> io::Result<NamedTempFile> {
    create_private_directory(directory)?;
    Builder::new().prefix(".plimsoll-").tempfile_in(directory)
}

/// Renames a temporary file to its path.
pub(crate) fn keep(file: NamedTempFile, path: &Path, existing: Existing) -> io::Result<()> {
    // Before the rename, so that a crash does not leave an empty file under the name.
    file.as_file().sync_all()?;
    let kept = match existing {
        Existing::Keep => file.persist_noclobber(path),
        Existing::Replace => file.persist(path),
    };
    kept.map(drop).map_err(|error| error.error)
}

/// Creates a directory that only the user can read. An existing one is unchanged.
pub fn create_private_directory(directory: &Path) -> io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    // Only the directory itself is private. Its parents, such as `~/.local/share`, belong to the user's other programs too.
    if let Some(above) = directory.parent() {
        std::fs::create_dir_all(above)?;
    }
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(directory) {
        // Another process has created it since the check above.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && directory.is_dir() => Ok(()),
        other => other,
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

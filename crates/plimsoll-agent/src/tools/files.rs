//! Paths from models.

use std::io;
use std::path::{Component, Path, PathBuf};

use plimsoll_sandbox::{Subject, require_no_links};
use tokio_util::sync::CancellationToken;

use crate::agent::{ToolCall, ToolError};

/// A reader that fails once the call is cancelled. Callers report [`ToolError::Cancelled`] in place of its error.
pub(super) struct Cancellable<'a, R> {
    reader: R,
    cancel: &'a CancellationToken,
}

impl<'a, R> Cancellable<'a, R> {
    pub(super) fn new(reader: R, cancel: &'a CancellationToken) -> Cancellable<'a, R> {
        Cancellable { reader, cancel }
    }
}

impl<R: io::Read> io::Read for Cancellable<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.cancel.is_cancelled() {
            true => Err(io::Error::other("cancelled")),
            false => self.reader.read(buffer),
        }
    }
}

/// Returns the absolute path with links resolved. Permissions are checked for it, and it is opened without following
/// links.
///
/// `..` is removed first, lexically. The kernel would follow a link before it, and would fail if a directory before it
/// does not exist, which could hide a link from a check that resolves only existing paths.
fn resolve(named: &Path) -> PathBuf {
    let mut there = named.to_owned();
    // A missing path cannot be resolved. Its existing part is, so that a link in it is found.
    let mut rest = Vec::new();
    loop {
        if let Ok(mut resolved) = there.canonicalize() {
            rest.iter().rev().for_each(|name: &std::ffi::OsString| resolved.push(name));
            return resolved;
        }
        // A dangling link keeps its name, and opening it fails.
        match there.file_name().map(ToOwned::to_owned) {
            Some(name) => rest.push(name),
            None => return there,
        }
        there.pop();
    }
}

/// Removes `.` and `..` from a path.
fn normalise(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(normal.pop()),
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal
}

/// Returns the subject of a call for this path.
pub(super) fn subject_of(path: &str, directory: &Path) -> Result<Subject, ToolError> {
    subject_with(path, directory, std::env::home_dir().as_deref())
}

/// Resolves `~` to the user's home, like the shell of `bash`. A file named `~` is `./~`.
fn subject_with(path: &str, directory: &Path, home: Option<&Path>) -> Result<Subject, ToolError> {
    let path = path.strip_prefix("file://").unwrap_or(path);
    let below_home = match path.strip_prefix('~') {
        Some("") => Some(""),
        Some(rest) => match rest.strip_prefix('/') {
            Some(rest) => Some(rest.trim_start_matches('/')),
            None => {
                return Err(ToolError::Input(format!(
                    "`{path}`: home directories of other users are not resolved; give an absolute path, or `./{path}` for a \
                     file of that name"
                )));
            }
        },
        None => None,
    };
    let named = match (below_home, home) {
        (Some(rest), Some(home)) => home.join(rest),
        (Some(_), None) => {
            let why = format!("`{path}`: the home directory is not known; give an absolute path");
            return Err(ToolError::Input(why));
        }
        (None, _) => directory.join(path),
    };
    let named = normalise(&named);
    Ok(Subject::Path { real: resolve(&named), named })
}

/// Formats a path for the model: relative to the project if it is inside.
pub(super) fn display_path(path: &Path, directory: &Path) -> String {
    let relative = path.strip_prefix(directory).unwrap_or(path);
    if relative.as_os_str().is_empty() { ".".to_owned() } else { relative.display().to_string() }
}

/// Checks that a resolved path still contains no links.
pub(super) fn require_without_links(path: &Path, call: &ToolCall<'_>) -> Result<(), ToolError> {
    require_no_links(path).map_err(|error| cannot_read(path, call, &error))
}

/// Returns whether the directory of a walked entry still contains no links. The entry itself may be one, because links
/// are listed but not followed.
pub(super) fn is_reached_without_links(path: &Path) -> bool {
    path.parent().is_none_or(|directory| require_no_links(directory).is_ok())
}

/// Returns the error for a file that cannot be read, with similar names.
pub(super) fn cannot_read(path: &Path, call: &ToolCall<'_>, error: &io::Error) -> ToolError {
    if call.cancel.is_cancelled() {
        return ToolError::Cancelled;
    }
    let directory = call.directory;
    let name = display_path(path, directory);
    if error.kind() != io::ErrorKind::NotFound {
        return ToolError::Failed(format!("cannot read `{name}`: {error}"));
    }
    let wanted = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    let stem = wanted.split('.').find(|piece| !piece.is_empty()).unwrap_or_default();
    let siblings = path.parent().and_then(|parent| std::fs::read_dir(parent).ok());
    let mut alike: Vec<String> = siblings
        .into_iter()
        .flatten()
        .flatten()
        // A typo must not reveal the names of files that may not be read.
        .filter(|entry| (call.may_read)(&entry.path()))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| is_alike(stem, &name.to_lowercase()))
        .take(20)
        .collect();
    alike.sort();
    alike.truncate(5);
    let hint =
        if alike.is_empty() { String::new() } else { format!("; similar names: {}", alike.join(", ")) };
    ToolError::Failed(format!("`{name}` does not exist{hint}"))
}

/// Returns whether a name is similar to the stem of a missing one. Stems are compared because an extension is no
/// similarity. Stems of one or two letters are ignored, because most names contain them.
fn is_alike(wanted: &str, name: &str) -> bool {
    let stem = name.split('.').find(|piece| !piece.is_empty()).unwrap_or_default();
    let (shorter, longer) = if wanted.len() < stem.len() { (wanted, stem) } else { (stem, wanted) };
    !shorter.is_empty() && (shorter == longer || (shorter.len() >= 3 && longer.contains(shorter)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{is_alike, subject_with};
    use plimsoll_sandbox::Subject;

    #[test]
    fn only_a_leading_tilde_is_the_home() {
        let named =
            |path: &str| match subject_with(path, Path::new("/none/project"), Some(Path::new("/none/me"))) {
                Ok(Subject::Path { named, .. }) => named.display().to_string(),
                Ok(_) => "no path".to_owned(),
                Err(error) => error.to_string(),
            };
        for (path, meant) in [
            ("~", "/none/me"),
            ("~/", "/none/me"),
            ("~/a.txt", "/none/me/a.txt"),
            ("~//etc/passwd", "/none/me/etc/passwd"),
            ("~/../you/x", "/none/you/x"),
            ("./~/a.txt", "/none/project/~/a.txt"),
            ("a~/b", "/none/project/a~/b"),
            ("/x/~", "/x/~"),
        ] {
            assert_eq!(named(path), meant, "{path}");
        }
        assert!(named("~you/x").contains("other users"), "{}", named("~you/x"));
        assert!(subject_with("~/x", Path::new("/none"), None).is_err());
    }

    #[test]
    fn names_are_alike_by_their_stems() {
        for (wanted, name) in
            [("config", "config.toml"), ("conf", "config.toml"), ("a", "a.rs"), ("env", ".env")]
        {
            assert!(is_alike(wanted, name), "{wanted} {name}");
        }
        for (wanted, name) in
            [("x", "a.txt"), ("x", "index.html"), ("", "a.txt"), ("main", "ma.rs"), ("toml", "config.toml")]
        {
            assert!(!is_alike(wanted, name), "{wanted} {name}");
        }
    }
}

//! Paths that a model gives.

use std::io;
use std::path::{Component, Path, PathBuf};

use plimsoll_sandbox::{Subject, require_no_links};

use crate::agent::{ToolCall, ToolError};

/// The path that is meant, absolute and with links resolved. Permissions are held against it and it is what is opened, so
/// that no link leads anywhere else.
///
/// `..` is taken out first, as a person reads it: the kernel would follow a link before it, and would fail where a
/// directory before it is missing, which is how a link could be hidden from a check that resolves only existing paths.
fn resolve(named: &Path) -> PathBuf {
    let mut there = named.to_owned();
    // What is not there cannot be resolved; as much of it as is there is, so that a link on the way is seen.
    let mut rest = Vec::new();
    loop {
        if let Ok(mut resolved) = there.canonicalize() {
            rest.iter().rev().for_each(|name: &std::ffi::OsString| resolved.push(name));
            return resolved;
        }
        // A dangling link is kept by its name, and opening it fails.
        match there.file_name().map(ToOwned::to_owned) {
            Some(name) => rest.push(name),
            None => return there,
        }
        there.pop();
    }
}

/// A path without `.` and `..`.
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

/// What a call about this path is about.
pub(super) fn subject_of(path: &str, directory: &Path) -> Result<Subject, ToolError> {
    subject_with(path, directory, std::env::home_dir().as_deref())
}

/// Resolves `~` to the user's home, as the shell of `bash` does. A file named `~` is `./~`.
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

/// A path as it is shown to the model: relative to the project where it lies in it.
pub(super) fn display_path(path: &Path, directory: &Path) -> String {
    let relative = path.strip_prefix(directory).unwrap_or(path);
    if relative.as_os_str().is_empty() { ".".to_owned() } else { relative.display().to_string() }
}

/// See that a path that was resolved before still leads nowhere else.
pub(super) fn require_without_links(path: &Path, call: &ToolCall<'_>) -> Result<(), ToolError> {
    require_no_links(path).map_err(|error| cannot_read(path, call, &error))
}

/// Whether the folder of something that was met on a walk is the one that was walked into. What it is itself does not
/// matter: a link is named and not followed.
pub(super) fn is_reached_without_links(path: &Path) -> bool {
    path.parent().is_none_or(|folder| require_no_links(folder).is_ok())
}

/// Why a file could not be read, with names that may have been meant.
pub(super) fn cannot_read(path: &Path, call: &ToolCall<'_>, error: &io::Error) -> ToolError {
    let directory = call.directory;
    let name = display_path(path, directory);
    if error.kind() != io::ErrorKind::NotFound {
        return ToolError::Failed(format!("cannot read `{name}`: {error}"));
    }
    let wanted = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    let stem = wanted.split('.').find(|piece| !piece.is_empty()).unwrap_or_default();
    let siblings = path.parent().and_then(|folder| std::fs::read_dir(folder).ok());
    let mut alike: Vec<String> = siblings
        .into_iter()
        .flatten()
        .flatten()
        // Names of what may not be seen are not given away by a slip of the pen.
        .filter(|entry| (call.may_read)(&entry.path()))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| is_alike(stem, &name.to_lowercase()))
        .take(20)
        .collect();
    alike.sort();
    alike.truncate(5);
    let hint =
        if alike.is_empty() { String::new() } else { format!("; beside it there are: {}", alike.join(", ")) };
    ToolError::Failed(format!("there is no `{name}`{hint}"))
}

/// Whether a name may have been meant where the one with this stem was written. Stems are compared: an ending alone, as the
/// `x` in every `.txt`, says nothing. One or two letters are part of anything.
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
    fn a_tilde_is_the_home_and_nothing_else() {
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

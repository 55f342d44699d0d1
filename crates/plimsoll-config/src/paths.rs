//! Places of files that several modules look into.

use std::path::{Path, PathBuf};

use crate::surroundings::Surroundings;

/// The folder that a file is in.
pub(crate) fn folder(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("."))
}

/// The folder of OpenCode's user configuration.
pub(crate) fn opencode_user_folder(around: &Surroundings) -> Option<PathBuf> {
    let folder = around.path("XDG_CONFIG_HOME").or_else(|| around.below_home(".config"));
    folder.map(|folder| folder.join("opencode"))
}

/// The directories whose files OpenCode reads: up to the root of the repository, or of the file system where there is
/// none; the farthest first.
pub(crate) fn project_directories(directory: &Path) -> Vec<&Path> {
    let mut directories: Vec<&Path> = Vec::new();
    for directory in directory.ancestors() {
        directories.push(directory);
        if directory.join(".git").exists() {
            break;
        }
    }
    directories.reverse();
    directories
}

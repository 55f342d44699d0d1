//! Paths that several modules use.

use std::path::{Path, PathBuf};

use crate::environment::Environment;

/// Returns the directory of a file.
pub(crate) fn parent_directory(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("."))
}

/// Returns OpenCode's directory for user configuration.
pub(crate) fn opencode_user_directory(env: &Environment) -> Option<PathBuf> {
    let directory = env.path("XDG_CONFIG_HOME").or_else(|| env.below_home(".config"));
    directory.map(|directory| directory.join("opencode"))
}

/// Returns the directories whose files OpenCode reads: from the root of the repository (or of the file system, outside
/// of one) down to the current directory.
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

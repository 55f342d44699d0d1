//! OpenCode's own configuration: where its files are, and what they say in our words.
//!
//! A file is translated into the shape that a `plimsoll.toml` has, with the lines of its keys, so that layers, trust and
//! errors are the same for both. What has no counterpart is named in a [`Notice`].

mod notice;
mod parse;
mod translate;

use std::path::{Path, PathBuf};

use crate::surroundings::Surroundings;

pub use notice::Notice;
pub(crate) use translate::translate;

pub(crate) use parse::parse;

/// The folder of a project that OpenCode keeps its things in.
const FOLDER: &str = ".opencode";
/// The names of its files, the lightest first.
const NAMES: [&str; 2] = ["opencode.json", "opencode.jsonc"];
/// What may be beside them and is not read.
const NOT_READ: [&str; 10] =
    ["agent", "agents", "mode", "modes", "command", "commands", "plugin", "plugins", "tool", "tools"];

/// Variables of OpenCode's that would change what is described here.
const VARIABLES: [&str; 3] = ["OPENCODE_CONFIG_CONTENT", "OPENCODE_CONFIG_DIR", "OPENCODE_PERMISSION"];

/// Whether a file is one of OpenCode's, by its name.
pub(crate) fn is_own_name(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| NAMES.contains(&name))
}

/// The user's own files, the lightest first.
pub(crate) fn user_files(around: &Surroundings) -> Vec<PathBuf> {
    let folder = user_folder(around);
    let names = ["config.json"].into_iter().chain(NAMES);
    let mut files: Vec<PathBuf> =
        folder.iter().flat_map(|folder| names.clone().map(|name| folder.join(name))).collect();
    // Named by a variable, so by its user.
    files.extend(around.variable("OPENCODE_CONFIG").map(|path| around.directory.join(path)));
    files.retain(|file| file.is_file());
    files
}

pub(crate) fn user_folder(around: &Surroundings) -> Option<PathBuf> {
    let folder = around.path("XDG_CONFIG_HOME").or_else(|| around.below_home(".config"));
    folder.map(|folder| folder.join("opencode"))
}

/// The files in a directory, the lightest first.
pub(crate) fn files_in(directory: &Path) -> Vec<PathBuf> {
    let folder = directory.join(FOLDER);
    let places = [directory, &folder].into_iter().flat_map(|place| NAMES.map(|name| place.join(name)));
    places.filter(|file| file.is_file()).collect()
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

/// Whether project files are left alone, as OpenCode leaves them.
pub(crate) fn skips_projects(around: &Surroundings) -> bool {
    let value = around.variable("OPENCODE_DISABLE_PROJECT_CONFIG").unwrap_or_default();
    value == "1" || value.eq_ignore_ascii_case("true")
}

/// What OpenCode reads beside its files and Plimsoll does not: folders with agents, commands and the like, variables.
pub(crate) fn unread(around: &Surroundings) -> Vec<Notice> {
    let own = user_folder(around).into_iter();
    let projects = project_directories(&around.directory).into_iter().map(|directory| directory.join(FOLDER));
    let folders = own.chain(projects.filter(|_| !skips_projects(around)));
    let inner = folders.flat_map(|folder| NOT_READ.map(|name| folder.join(name)));
    let folders = inner.filter(|folder| folder.is_dir()).map(|folder| Notice::folder(&folder));
    let variables = VARIABLES.into_iter().filter(|name| around.variable(name).is_some());
    folders.chain(variables.map(Notice::variable)).collect()
}

/// The directory that a file belongs to: that of its folder, if it is in one.
pub(crate) fn owner(path: &Path) -> &Path {
    let folder = crate::layers::folder(path);
    match folder.parent() {
        Some(above) if folder.file_name().is_some_and(|name| name == FOLDER) => above,
        _ => folder,
    }
}

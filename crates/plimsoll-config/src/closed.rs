//! Paths of the user that an agent may not change by a rule for all files, and that its commands cannot reach:
//! Plimsoll's own data and configuration, and files that shells and other programs run or read when they start.
//!
//! These paths matter if they are inside a project, that is, if the user works in their home directory. A rule that
//! allows writing there is meant for the work, not for `~/.bashrc`.

use std::path::{Path, PathBuf};

use crate::environment::Environment;

/// Paths in the home directory that programs run or trust when they start.
const IN_HOME: [&str; 39] = [
    ".bash_aliases",
    ".bash_login",
    ".bash_logout",
    ".bash_profile",
    ".bashrc",
    ".profile",
    ".zlogin",
    ".zlogout",
    ".zprofile",
    ".zshenv",
    ".zshrc",
    ".kshrc",
    ".login",
    ".cshrc",
    ".tcshrc",
    ".inputrc",
    ".pam_environment",
    ".xinitrc",
    ".xprofile",
    ".xsession",
    ".xsessionrc",
    ".ssh",
    ".gnupg",
    ".gitconfig",
    ".npmrc",
    ".netrc",
    ".vimrc",
    ".emacs.d",
    ".tmux.conf",
    ".cargo/config.toml",
    ".config/git",
    ".config/fish",
    ".config/nvim",
    ".config/systemd",
    ".config/autostart",
    ".config/environment.d",
    ".config/direnv",
    ".local/bin",
    ".local/share/applications",
];

/// Suffixes of the files of a database.
const SIDE_FILES: [&str; 5] = ["", "-wal", "-shm", "-journal", "-newest"];

/// Files next to the database: the history of the chat and the record of trust.
const BESIDE_STORE: [&str; 3] = ["chat-history", "trust.json", "trust.lock"];

/// Returns the paths where Plimsoll stores sessions: the database with its journals and the files next to it, and the
/// directory of the user's data. `spills` is the directory for outputs next to the database. All paths are absolute;
/// they may not exist yet.
pub(crate) fn private_places(env: &Environment, store: Option<&Path>, spills: &str) -> Vec<PathBuf> {
    let mut own: Vec<PathBuf> = env.data_directory().into_iter().collect();
    if let Some(store) = store {
        let directory = store.parent().unwrap_or(Path::new(""));
        // SQLite keeps its journals next to the target of a link.
        for database in with_target(store) {
            let name = database.file_name().unwrap_or_default().to_string_lossy().into_owned();
            own.extend(SIDE_FILES.map(|end| database.with_file_name(format!("{name}{end}"))));
        }
        let spills = if spills.is_empty() { "spill" } else { spills };
        own.extend(BESIDE_STORE.iter().chain([&spills]).map(|name| directory.join(name)));
    }
    outermost(own.iter().flat_map(|path| with_target(path)))
}

/// Returns all closed paths, including the private ones.
pub(crate) fn closed_places(env: &Environment, private: &[PathBuf]) -> Vec<PathBuf> {
    let directories = [env.config_directory(), env.below_home(".config/opencode")];
    let own = directories.into_iter().flatten().flat_map(|path| with_target(&path));
    // If a dotfile is a link, the repository it points to stays open, because it is a project like others. A closed
    // path that is the project itself, such as the configuration of an editor, stays open too.
    let project = env.directory.canonicalize().unwrap_or_else(|_| env.directory.clone());
    let started = IN_HOME.iter().filter_map(|name| env.below_home(name)).map(|path| below_links(&path));
    let started = started.filter(|path| !project.starts_with(path));
    outermost(own.chain(started).chain(private.iter().cloned()))
}

/// Returns a path and its link target: a link to a closed directory must not be a way around it.
fn with_target(path: &Path) -> Vec<PathBuf> {
    [below_links(path)].into_iter().chain(path.canonicalize().ok()).collect()
}

/// Returns the absolute paths that are not inside another one of them.
fn outermost(paths: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = paths.filter(|path| path.is_absolute()).collect();
    all.sort();
    all.dedup();
    let outer = all.clone();
    all.retain(|path| !outer.iter().any(|other| other != path && path.starts_with(other)));
    all
}

/// Resolves links in the existing part of a path's parent.
fn below_links(path: &Path) -> PathBuf {
    let above =
        path.ancestors().skip(1).find_map(|directory| Some((directory, directory.canonicalize().ok()?)));
    let Some((directory, real)) = above else { return path.to_owned() };
    path.strip_prefix(directory).map_or_else(|_| path.to_owned(), |rest| real.join(rest))
}

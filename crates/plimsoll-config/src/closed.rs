//! Places of the user's own that an agent does not change by a rule for all files, and that its commands do not reach: where
//! Plimsoll keeps what it knows and is told, and what shells and other programs run when they start.
//!
//! They matter where they lie in a project, that is where a person works in their home. A rule that allows writing was written for
//! the work there, and not for `~/.bashrc`.

use std::path::{Path, PathBuf};

use crate::environment::Environment;

/// What programs run or trust when they start, below the home.
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

/// What lies beside a database: its own files and the prompts of the chat.
const BESIDE_STORE: [&str; 3] = ["chat-history", "trust.json", "trust.lock"];

/// What Plimsoll keeps of sessions: the database with its journals, what lies beside it, and the folder of the user's data.
/// `spills` is the folder for outputs beside the database. All of it as absolute paths, whether it is there or not.
pub(crate) fn private_places(env: &Environment, store: Option<&Path>, spills: &str) -> Vec<PathBuf> {
    let mut own: Vec<PathBuf> = env.data_folder().into_iter().collect();
    if let Some(store) = store {
        let folder = store.parent().unwrap_or(Path::new(""));
        let name = store.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let journals = ["", "-wal", "-shm", "-journal"].map(|end| folder.join(format!("{name}{end}")));
        let spills = if spills.is_empty() { "spill" } else { spills };
        own.extend(journals);
        own.extend(BESIDE_STORE.iter().chain([&spills]).map(|name| folder.join(name)));
    }
    outermost(own.iter().flat_map(|path| with_target(path)))
}

/// All places of the user's own, the private ones among them.
pub(crate) fn closed_places(env: &Environment, private: &[PathBuf]) -> Vec<PathBuf> {
    let folders = [env.config_folder(), env.below_home(".config/opencode")];
    let own = folders.into_iter().flatten().flat_map(|path| with_target(&path));
    // A dotfile that is a link stays what it is: the repository it leads to is a project like others.
    // Nor is the configuration of an editor closed to those who work on just that.
    let project = env.directory.canonicalize().unwrap_or_else(|_| env.directory.clone());
    let started = IN_HOME.iter().filter_map(|name| env.below_home(name)).map(|path| below_links(&path));
    let started = started.filter(|path| !project.starts_with(path));
    outermost(own.chain(started).chain(private.iter().cloned()))
}

/// A place, and what it leads to: a link to a folder of our own is not a way round it.
fn with_target(path: &Path) -> Vec<PathBuf> {
    [below_links(path)].into_iter().chain(path.canonicalize().ok()).collect()
}

/// The absolute ones of these paths, without those that lie in another of them.
fn outermost(paths: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = paths.filter(|path| path.is_absolute()).collect();
    all.sort();
    all.dedup();
    let outer = all.clone();
    all.retain(|path| !outer.iter().any(|other| other != path && path.starts_with(other)));
    all
}

/// A path with the links of the folders above it resolved, as far as they are there.
fn below_links(path: &Path) -> PathBuf {
    let above = path.ancestors().skip(1).find_map(|folder| Some((folder, folder.canonicalize().ok()?)));
    let Some((folder, real)) = above else { return path.to_owned() };
    path.strip_prefix(folder).map_or_else(|_| path.to_owned(), |rest| real.join(rest))
}

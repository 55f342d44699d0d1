//! Where a process runs: its directory, its user's home, its environment. Read by the caller, passed on as a value.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The directory, home and variables that configuration is looked for in.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// The current directory.
    pub directory: PathBuf,
    /// The user's home.
    pub home: Option<PathBuf>,
    variables: BTreeMap<String, String>,
}

impl Environment {
    /// A directory and variables; the home is the one that the variables name.
    pub fn new(directory: PathBuf, variables: impl IntoIterator<Item = (String, String)>) -> Environment {
        let mut env = Environment { directory, home: None, variables: variables.into_iter().collect() };
        env.home = env.path("HOME").or_else(|| env.path("USERPROFILE"));
        env
    }

    /// A variable that is set to something.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The names of all variables.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.variables.keys().map(String::as_str)
    }

    /// A variable that names a place. Relative ones are not taken: they would mean another place in every directory.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.variable(name).map(PathBuf::from).filter(|path| path.is_absolute())
    }

    /// A place below the user's home.
    pub fn below_home(&self, place: &str) -> Option<PathBuf> {
        Some(self.home.as_ref()?.join(place))
    }

    /// Where Plimsoll keeps the user's data: the database of sessions, and the record of what is trusted.
    pub fn data_folder(&self) -> Option<PathBuf> {
        self.user_folder("XDG_DATA_HOME", "LOCALAPPDATA", ".local/share")
    }

    /// Where the user's own configuration is.
    pub fn config_folder(&self) -> Option<PathBuf> {
        self.user_folder("XDG_CONFIG_HOME", "APPDATA", ".config")
    }

    /// Where Plimsoll keeps what it can make again.
    pub fn cache_folder(&self) -> Option<PathBuf> {
        self.user_folder("XDG_CACHE_HOME", "LOCALAPPDATA", ".cache")
    }

    fn user_folder(&self, xdg: &str, windows: &str, home: &str) -> Option<PathBuf> {
        let folder = self.path(xdg).or_else(|| self.path(windows).filter(|_| cfg!(windows)));
        Some(folder.or_else(|| self.below_home(home))?.join("plimsoll"))
    }

    /// A path for people, the user's home written as `~`.
    pub fn short(&self, path: &Path) -> String {
        match self.home.as_ref().and_then(|home| path.strip_prefix(home).ok()) {
            Some(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
            Some(rest) => format!("~{}{}", std::path::MAIN_SEPARATOR, rest.display()),
            None => path.display().to_string(),
        }
    }
}

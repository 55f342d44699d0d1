//! The environment of a process: directory, home and variables. The caller reads them and passes them on as a value.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Directory, home and variables, by which configuration is found.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// The current directory.
    pub directory: PathBuf,
    /// The user's home directory.
    pub home: Option<PathBuf>,
    variables: BTreeMap<String, String>,
}

impl Environment {
    /// Creates an environment; the home directory is read from the variables.
    pub fn new(directory: PathBuf, variables: impl IntoIterator<Item = (String, String)>) -> Environment {
        let mut env = Environment { directory, home: None, variables: variables.into_iter().collect() };
        env.home = env.path("HOME").or_else(|| env.path("USERPROFILE"));
        env
    }

    /// Returns a variable that is set and not empty.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns the names of all variables.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.variables.keys().map(String::as_str)
    }

    /// Returns a path from a variable. Relative paths are ignored: they would mean a different file in every directory.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.variable(name).map(PathBuf::from).filter(|path| path.is_absolute())
    }

    /// Returns a path in the user's home directory.
    pub fn below_home(&self, place: &str) -> Option<PathBuf> {
        Some(self.home.as_ref()?.join(place))
    }

    /// Directory of the user's data: the database of sessions and the record of trust.
    pub fn data_directory(&self) -> Option<PathBuf> {
        self.user_directory("XDG_DATA_HOME", "LOCALAPPDATA", ".local/share")
    }

    /// Directory of the user's configuration.
    pub fn config_directory(&self) -> Option<PathBuf> {
        self.user_directory("XDG_CONFIG_HOME", "APPDATA", ".config")
    }

    /// Directory for files that can be recreated.
    pub fn cache_directory(&self) -> Option<PathBuf> {
        self.user_directory("XDG_CACHE_HOME", "LOCALAPPDATA", ".cache")
    }

    fn user_directory(&self, xdg: &str, windows: &str, home: &str) -> Option<PathBuf> {
        let directory = self.path(xdg).or_else(|| self.path(windows).filter(|_| cfg!(windows)));
        Some(directory.or_else(|| self.below_home(home))?.join("plimsoll"))
    }

    /// Formats a path for users, with `~` for the home directory.
    pub fn short(&self, path: &Path) -> String {
        match self.home.as_ref().and_then(|home| path.strip_prefix(home).ok()) {
            Some(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
            Some(rest) => format!("~{}{}", std::path::MAIN_SEPARATOR, rest.display()),
            None => path.display().to_string(),
        }
    }
}

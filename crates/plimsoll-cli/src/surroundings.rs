//! Where the command runs: its directory, its user's home, its environment. Read once, then passed on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::error::CliError;

/// What is around the command.
#[derive(Debug, Default)]
pub(crate) struct Surroundings {
    /// The current directory.
    pub(crate) directory: PathBuf,
    /// The user's home.
    pub(crate) home: Option<PathBuf>,
    /// The database that was named on the command line.
    pub(crate) store: Option<PathBuf>,
    variables: BTreeMap<String, String>,
}

impl Surroundings {
    /// Those of this process.
    pub(crate) fn here() -> Result<Surroundings, CliError> {
        let directory = std::env::current_dir()
            .map_err(|error| CliError::failed(format!("cannot tell the current directory: {error}")))?;
        // A variable that is no text is none of ours.
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Ok(Surroundings::new(directory, std::env::vars_os().filter_map(text)))
    }

    /// Those given.
    pub(crate) fn new(
        directory: PathBuf,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Surroundings {
        let mut here =
            Surroundings { directory, home: None, store: None, variables: variables.into_iter().collect() };
        here.home = here.path("HOME").or_else(|| here.path("USERPROFILE"));
        here
    }

    /// A variable that is set to something.
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The names of all variables.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.variables.keys().map(String::as_str)
    }

    /// A variable that names a place. Relative ones are not taken: they would mean another place in every directory.
    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        self.variable(name).map(PathBuf::from).filter(|path| path.is_absolute())
    }

    /// A place below the user's home.
    pub(crate) fn below_home(&self, place: &str) -> Option<PathBuf> {
        Some(self.home.as_ref()?.join(place))
    }

    /// A path for people, the user's home written as `~`.
    pub(crate) fn short(&self, path: &Path) -> String {
        match self.home.as_ref().and_then(|home| path.strip_prefix(home).ok()) {
            Some(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
            Some(rest) => format!("~{}{}", std::path::MAIN_SEPARATOR, rest.display()),
            None => path.display().to_string(),
        }
    }
}

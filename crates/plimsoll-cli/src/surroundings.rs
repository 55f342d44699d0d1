//! Where the command runs: its directory, its user's home, its environment. Read once, then passed on.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Once;

use crate::error::CliError;

/// What is around the command, read through [`plimsoll_config::Environment`].
#[derive(Debug)]
pub(crate) struct Surroundings {
    inner: plimsoll_config::Environment,
    /// The database that was named on the command line.
    pub(crate) store: Option<PathBuf>,
    /// Done when it was said what an untrusted project's file may not set: some commands load the configuration twice.
    pub(crate) left_out_told: Once,
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
        let variables = std::env::vars_os().filter_map(text);
        let inner = plimsoll_config::Environment::new(directory, variables);
        Ok(Surroundings { inner, store: None, left_out_told: Once::new() })
    }

    /// The same in another directory.
    pub(crate) fn at(&self, directory: PathBuf) -> Surroundings {
        let mut inner = self.inner.clone();
        inner.directory = directory;
        Surroundings { inner, store: self.store.clone(), left_out_told: Once::new() }
    }
}

impl Deref for Surroundings {
    type Target = plimsoll_config::Environment;

    fn deref(&self) -> &plimsoll_config::Environment {
        &self.inner
    }
}

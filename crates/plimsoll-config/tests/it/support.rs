//! A home directory with a project, and configuration that is loaded there.

use std::path::{Path, PathBuf};

use plimsoll_config::{Config, Environment, Flags, Ledger, LeftOut, Project};
use tempfile::TempDir;

/// A home directory with a project in it.
pub(crate) struct Home {
    _directory: TempDir,
    /// The home directory.
    pub(crate) path: PathBuf,
    /// The project, which is the current directory.
    pub(crate) project: PathBuf,
}

impl Home {
    pub(crate) fn new() -> Home {
        let directory = TempDir::new().unwrap();
        let path = directory.path().canonicalize().unwrap();
        let project = path.join("project");
        std::fs::create_dir_all(&project).unwrap();
        Home { _directory: directory, path, project }
    }

    /// Adds a file.
    pub(crate) fn with(self, place: &str, text: &str) -> Home {
        self.write(place, text);
        self
    }

    pub(crate) fn write(&self, place: &str, text: &str) {
        let path = self.path.join(place);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Returns the environment in a directory, with variables.
    pub(crate) fn env(&self, directory: &Path, variables: &[(&str, &str)]) -> Environment {
        let home = ("HOME", self.path.to_str().unwrap());
        let all = variables.iter().chain([&home]);
        Environment::new(
            directory.to_owned(),
            all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
        )
    }

    /// Loads the configuration in the project.
    pub(crate) fn load(&self) -> Config {
        self.load_in(&self.project)
    }

    /// Loads the configuration in a directory.
    pub(crate) fn load_in(&self, directory: &Path) -> Config {
        Config::load(&Flags::default(), &self.env(directory, &[])).unwrap()
    }

    /// Trusts a directory, like the command.
    pub(crate) fn trust(&self, directory: &Path) {
        let project = Project::read(&Project::file_in(directory).unwrap()).unwrap();
        let env = self.env(directory, &[]);
        Ledger::trust(&env, &project.review(&env).unwrap()).unwrap();
    }

    /// Returns the default path of the database.
    pub(crate) fn usual_store(&self) -> Option<PathBuf> {
        Some(self.path.join(".local/share/plimsoll/plimsoll.db"))
    }
}

/// Returns the ignored keys in order.
pub(crate) fn left_out(config: &Config) -> Vec<&str> {
    let settings = config.left_out.iter().flat_map(|LeftOut { settings, .. }| settings);
    settings.map(|setting| setting.key.as_str()).collect()
}

//! A home with a project in it, and configuration loaded there.

use std::path::{Path, PathBuf};

use plimsoll_config::{Config, Environment, Flags, Ledger, LeftOut, Project};
use tempfile::TempDir;

/// A home with a project in it.
pub(crate) struct Home {
    _folder: TempDir,
    /// The home.
    pub(crate) path: PathBuf,
    /// The project: where configuration is looked for.
    pub(crate) project: PathBuf,
}

impl Home {
    pub(crate) fn new() -> Home {
        let folder = TempDir::new().unwrap();
        let path = folder.path().canonicalize().unwrap();
        let project = path.join("project");
        std::fs::create_dir_all(&project).unwrap();
        Home { _folder: folder, path, project }
    }

    /// With one more file.
    pub(crate) fn with(self, place: &str, text: &str) -> Home {
        self.write(place, text);
        self
    }

    pub(crate) fn write(&self, place: &str, text: &str) {
        let path = self.path.join(place);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Its environment in a directory, with variables.
    pub(crate) fn env(&self, directory: &Path, variables: &[(&str, &str)]) -> Environment {
        let home = ("HOME", self.path.to_str().unwrap());
        let all = variables.iter().chain([&home]);
        Environment::new(
            directory.to_owned(),
            all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
        )
    }

    /// What holds in the project.
    pub(crate) fn load(&self) -> Config {
        self.load_in(&self.project)
    }

    /// What holds in a directory.
    pub(crate) fn load_in(&self, directory: &Path) -> Config {
        Config::load(&Flags::default(), &self.env(directory, &[])).unwrap()
    }

    /// Trust a directory, as the command does.
    pub(crate) fn trust(&self, directory: &Path) {
        let project = Project::read(&Project::file_in(directory).unwrap()).unwrap();
        let env = self.env(directory, &[]);
        Ledger::trust(&env, &project.review(&env).unwrap()).unwrap();
    }

    /// Where the database is by default.
    pub(crate) fn usual_store(&self) -> Option<PathBuf> {
        Some(self.path.join(".local/share/plimsoll/plimsoll.db"))
    }
}

/// The keys that are left out, in order.
pub(crate) fn left_out(config: &Config) -> Vec<&str> {
    let settings = config.left_out.iter().flat_map(|LeftOut { settings, .. }| settings);
    settings.map(|setting| setting.key.as_str()).collect()
}

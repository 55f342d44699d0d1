//! Folders that skills are looked for in.

use std::path::{Path, PathBuf};

use plimsoll_sandbox::Origin;

/// A folder with skills, besides those that are looked into anyway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillSource {
    /// The folder as it is written, with `~` for the home.
    pub path: String,
    /// The directory that it is meant from.
    pub folder: PathBuf,
    /// The directory that its skills must be in: a project that is not trusted has no say about others.
    pub within: Option<PathBuf>,
    /// Where it is said.
    pub origin: Origin,
}

impl SkillSource {
    /// The folder; none if it is in the home and there is none.
    pub fn place(&self, home: Option<&Path>) -> Option<PathBuf> {
        match self.path.strip_prefix("~/") {
            Some(rest) => home.map(|home| home.join(rest)),
            None => Some(self.folder.join(&self.path)),
        }
    }
}

//! Configured directories of skills.

use std::path::{Path, PathBuf};

use plimsoll_sandbox::Origin;

/// A directory with skills, in addition to the default ones.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkillSource {
    /// Directory as written in the file, with `~` for the home directory.
    pub path: String,
    /// Directory that a relative path starts from.
    pub directory: PathBuf,
    /// Directory that its skills must be in: an untrusted project may not name others.
    pub within: Option<PathBuf>,
    /// Location of the setting.
    pub origin: Origin,
}

impl SkillSource {
    /// Returns the directory; `None` if it needs a home directory and there is none.
    pub fn place(&self, home: Option<&Path>) -> Option<PathBuf> {
        match self.path.strip_prefix("~/") {
            Some(rest) => home.map(|home| home.join(rest)),
            None => Some(self.directory.join(&self.path)),
        }
    }
}

//! Files whose text goes into the system prompt.

use std::path::{Path, PathBuf};

use crate::origin::Origin;

/// A path or glob of instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstructionSource {
    /// The path or glob as it is written, with `~` for the home.
    pub pattern: String,
    /// The directory that it is meant from.
    pub folder: PathBuf,
    /// The directory that its files must be in: a project that is not trusted has no say about others.
    pub within: Option<PathBuf>,
    /// Where it is said.
    pub origin: Origin,
}

/// A pattern with more files than this is a mistake; nothing in a system prompt would be readable.
const MOST_FILES: usize = 100;

impl InstructionSource {
    /// The files it names, by their canonical paths, in order. What is not there is left out.
    ///
    /// Links are followed before a file is held to be inside the project.
    pub fn files(&self, home: Option<&Path>) -> Vec<PathBuf> {
        let pattern = match (self.pattern.strip_prefix("~/"), home) {
            (Some(rest), Some(home)) => home.join(rest),
            (Some(_), None) => return Vec::new(),
            // The folder is no pattern, even if its name has brackets.
            (None, _) => {
                PathBuf::from(glob::Pattern::escape(&self.folder.to_string_lossy())).join(&self.pattern)
            }
        };
        let Ok(found) = glob::glob(&pattern.to_string_lossy()) else { return Vec::new() };
        let is_inside = |path: &PathBuf| self.within.as_ref().is_none_or(|within| path.starts_with(within));
        let files = found.filter_map(Result::ok).filter_map(|path| path.canonicalize().ok());
        files.filter(|path| is_inside(path) && path.is_file()).take(MOST_FILES).collect()
    }

    /// Whether the pattern itself can only name files below its folder.
    pub(crate) fn stays_below(pattern: &str) -> bool {
        let path = Path::new(pattern);
        !pattern.starts_with('~')
            && !is_address(pattern)
            && path
                .components()
                .all(|part| matches!(part, std::path::Component::Normal(_) | std::path::Component::CurDir))
    }
}

/// Whether it is an address rather than a path.
pub(crate) fn is_address(pattern: &str) -> bool {
    pattern.starts_with("http://") || pattern.starts_with("https://")
}

//! Files whose text goes into the system prompt.

use std::path::{Path, PathBuf};

use crate::origin::Origin;
use crate::surroundings::Surroundings;

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

/// The files that agents read without being told, by the name that counts first.
const STANDING: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];

impl InstructionSource {
    /// The files that agents read without being told: the user's own, then the project's from the root of the repository down
    /// to the current directory. Outside of a repository only the current directory counts: what lies above it may be
    /// anyone's.
    pub(crate) fn standing(around: &Surroundings) -> Vec<InstructionSource> {
        let own = around.config_folder().into_iter().chain(crate::opencode::user_folder(around));
        let own = own.filter_map(|folder| standing_in(&folder, None)).take(1);
        let above = crate::opencode::project_directories(&around.directory);
        let root = above.first().filter(|root| root.join(".git").exists()).copied();
        let folders = match root {
            Some(_) => above,
            None => vec![around.directory.as_path()],
        };
        let root = root.unwrap_or(&around.directory);
        // A link out of the project would hand any file of the user's to the model.
        let within = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        own.chain(folders.into_iter().filter_map(|folder| standing_in(folder, Some(within.clone()))))
            .collect()
    }

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

fn standing_in(folder: &Path, within: Option<PathBuf>) -> Option<InstructionSource> {
    let name = STANDING.into_iter().find(|name| folder.join(name).is_file())?;
    let origin = Origin::File { path: folder.join(name), line: None };
    Some(InstructionSource { pattern: name.to_owned(), folder: folder.to_owned(), within, origin })
}

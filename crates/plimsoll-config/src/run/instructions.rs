//! Files whose text goes into the system prompt.

use std::path::{Path, PathBuf};

use globset::GlobBuilder;
use plimsoll_sandbox::Origin;
use walkdir::WalkDir;

use crate::paths::{opencode_user_folder, project_directories};
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
    /// Why a file that agents read without being told is not read although it is there.
    pub problem: Option<String>,
}

/// A pattern with more files than this is a mistake; nothing in a system prompt would be readable.
const MOST_FILES: usize = 100;

/// Maximum number of directory entries that the patterns of one configuration may visit.
pub const INSTRUCTION_ENTRIES: usize = 100_000;

/// The files that agents read without being told, by the name that counts first.
const STANDING: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];

impl InstructionSource {
    /// The files that agents read without being told: the user's own, then the project's from the root of the repository down
    /// to the current directory. Outside of a repository only the current directory counts: what lies above it may be
    /// anyone's.
    pub(crate) fn standing(around: &Surroundings) -> Vec<InstructionSource> {
        let own = around.config_folder().into_iter().chain(opencode_user_folder(around));
        let own: Vec<Vec<InstructionSource>> =
            own.map(|folder| standing_in(&folder, None)).filter(|found| !found.is_empty()).take(1).collect();
        let above = project_directories(&around.directory);
        let root = above.first().filter(|root| root.join(".git").exists()).copied();
        let folders = match root {
            Some(_) => above,
            None => vec![around.directory.as_path()],
        };
        let root = root.unwrap_or(&around.directory);
        // A link out of the project would hand any file of the user's to the model.
        let within = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        let below = folders.into_iter().flat_map(|folder| standing_in(folder, Some(&within)));
        own.into_iter().flatten().chain(below).collect()
    }

    /// Returns the files it names, by their canonical paths, in order. Missing files are left out.
    ///
    /// Links to files are resolved before checking that a file is inside the project. Patterns do not descend into linked
    /// directories. `entries` is the remaining budget of visited entries ([`INSTRUCTION_ENTRIES`] for all sources together).
    pub fn files(&self, home: Option<&Path>, entries: &mut usize) -> Vec<PathBuf> {
        if self.problem.is_some() {
            return Vec::new();
        }
        let (folder, pattern) = match (self.pattern.strip_prefix("~/"), home) {
            (Some(rest), Some(home)) => (home, rest),
            (Some(_), None) => return Vec::new(),
            (None, _) => (self.folder.as_path(), self.pattern.as_str()),
        };
        let is_inside = |path: &PathBuf| self.within.as_ref().is_none_or(|within| path.starts_with(within));
        let found =
            matching(folder, pattern, entries).into_iter().filter_map(|path| path.canonicalize().ok());
        found.filter(|path| is_inside(path) && path.is_file()).take(MOST_FILES).collect()
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

/// Returns the paths below a folder that match a pattern, sorted. The folder is taken literally, even if its name has brackets.
fn matching(folder: &Path, pattern: &str, entries: &mut usize) -> Vec<PathBuf> {
    let is_pattern = |name: &&str| name.contains(['*', '?', '[', '{']);
    let names: Vec<&str> = Path::new(pattern).iter().filter_map(|name| name.to_str()).collect();
    let literal = names.iter().position(is_pattern).unwrap_or(names.len());
    let start = folder.join(names[..literal].iter().collect::<PathBuf>());
    let rest = &names[literal..];
    if rest.is_empty() {
        *entries = entries.saturating_sub(1);
        return if *entries > 0 { vec![start] } else { Vec::new() };
    }
    let Ok(glob) = GlobBuilder::new(&rest.join("/")).literal_separator(true).build() else {
        return Vec::new();
    };
    let glob = glob.compile_matcher();
    let depth = if rest.contains(&"**") { usize::MAX } else { rest.len() };
    let mut found = Vec::new();
    for entry in WalkDir::new(&start).min_depth(1).max_depth(depth).sort_by_file_name() {
        if *entries == 0 {
            break;
        }
        *entries -= 1;
        let Ok(entry) = entry else { continue };
        if entry.path().strip_prefix(&start).is_ok_and(|below| glob.is_match(below)) {
            found.push(entry.into_path());
        }
    }
    found
}

/// Whether it is an address rather than a path.
pub(crate) fn is_address(pattern: &str) -> bool {
    pattern.starts_with("http://") || pattern.starts_with("https://")
}

/// The first of the files in a folder that can be read, and those before it that are there and cannot: a person who has
/// written rules has to know that no model reads them.
fn standing_in(folder: &Path, within: Option<&Path>) -> Vec<InstructionSource> {
    let mut found = Vec::new();
    for name in STANDING {
        let path = folder.join(name);
        if path.symlink_metadata().is_err() {
            continue;
        }
        let problem = problem_with(&path, within);
        let is_read = problem.is_none();
        let (pattern, origin) = (name.to_owned(), Origin::File { path, line: None });
        let within = within.map(Path::to_owned);
        found.push(InstructionSource { pattern, folder: folder.to_owned(), within, origin, problem });
        if is_read {
            break;
        }
    }
    found
}

/// Why a file that is there is not read.
fn problem_with(path: &Path, within: Option<&Path>) -> Option<String> {
    let real = match path.canonicalize() {
        Ok(real) => real,
        Err(error) => return Some(format!("it leads nowhere: {error}")),
    };
    if within.is_some_and(|within| !real.starts_with(within)) {
        return Some("it leads out of the project".to_owned());
    }
    match real.metadata() {
        Ok(about) if about.is_dir() => Some("it is a folder".to_owned()),
        Ok(about) if !about.is_file() => Some("it is no regular file".to_owned()),
        Ok(_) => None,
        Err(error) => Some(error.to_string()),
    }
}

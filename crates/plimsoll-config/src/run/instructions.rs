//! Files whose text goes into the system prompt.

use std::path::{Path, PathBuf};

use globset::GlobBuilder;
use plimsoll_sandbox::Origin;
use walkdir::WalkDir;

use crate::environment::Environment;
use crate::paths::{opencode_user_directory, project_directories};

/// A path or glob of instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InstructionSource {
    /// Path or glob as written in the file, with `~` for the home directory.
    pub pattern: String,
    /// Directory that a relative path starts from.
    pub directory: PathBuf,
    /// Directory that the files must be in: an untrusted project may not name others.
    pub within: Option<PathBuf>,
    /// Location of the setting.
    pub origin: Origin,
    /// Why an existing file that agents read by default is not read.
    pub problem: Option<String>,
}

/// Maximum number of files per pattern. More are a mistake: they would not fit into a system prompt.
const MAX_FILES: usize = 100;

/// Maximum number of directory entries that the patterns of one configuration may visit.
pub const INSTRUCTION_ENTRIES: usize = 100_000;

/// Names of the files that agents read by default, in order of priority.
const STANDING: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];

impl InstructionSource {
    /// Returns the files that agents read by default: the user's own, then the project's from the root of the
    /// repository down to the current directory. Outside of a repository only the current directory counts, because the
    /// directories above it may belong to others.
    pub(crate) fn standing(env: &Environment) -> Vec<InstructionSource> {
        let own = env.config_directory().into_iter().chain(opencode_user_directory(env));
        let own: Vec<Vec<InstructionSource>> = own
            .map(|directory| standing_in(&directory, None))
            .filter(|found| !found.is_empty())
            .take(1)
            .collect();
        let above = project_directories(&env.directory);
        let root = above.first().filter(|root| root.join(".git").exists()).copied();
        let directories = match root {
            Some(_) => above,
            None => vec![env.directory.as_path()],
        };
        let root = root.unwrap_or(&env.directory);
        // A link out of the project would send any file of the user to the model.
        let within = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        let below = directories.into_iter().flat_map(|directory| standing_in(directory, Some(&within)));
        own.into_iter().flatten().chain(below).collect()
    }

    /// Returns the existing files by their canonical paths, in order.
    ///
    /// Links to files are resolved before checking that a file is inside the project. Patterns do not descend into
    /// linked directories. `entries` is the remaining budget of visited entries ([`INSTRUCTION_ENTRIES`] for all
    /// sources together).
    pub fn files(&self, home: Option<&Path>, entries: &mut usize) -> Vec<PathBuf> {
        if self.problem.is_some() {
            return Vec::new();
        }
        let (directory, pattern) = match (self.pattern.strip_prefix("~/"), home) {
            (Some(rest), Some(home)) => (home, rest),
            (Some(_), None) => return Vec::new(),
            (None, _) => (self.directory.as_path(), self.pattern.as_str()),
        };
        let is_inside = |path: &PathBuf| self.within.as_ref().is_none_or(|within| path.starts_with(within));
        let found =
            matching(directory, pattern, entries).into_iter().filter_map(|path| path.canonicalize().ok());
        found.filter(|path| is_inside(path) && path.is_file()).take(MAX_FILES).collect()
    }

    /// Whether the pattern itself can only name files below its directory.
    pub(crate) fn stays_below(pattern: &str) -> bool {
        let path = Path::new(pattern);
        !pattern.starts_with('~')
            && !is_address(pattern)
            && path
                .components()
                .all(|part| matches!(part, std::path::Component::Normal(_) | std::path::Component::CurDir))
    }
}

/// Returns the paths below a directory that match a pattern, sorted. The directory is taken literally, even if its name
/// has brackets.
fn matching(directory: &Path, pattern: &str, entries: &mut usize) -> Vec<PathBuf> {
    let is_pattern = |name: &&str| name.contains(['*', '?', '[', '{']);
    let names: Vec<&str> = Path::new(pattern).iter().filter_map(|name| name.to_str()).collect();
    let literal = names.iter().position(is_pattern).unwrap_or(names.len());
    let start = directory.join(names[..literal].iter().collect::<PathBuf>());
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
    // Sorted, so that every session has the same system prompt.
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

/// Whether this is a URL and not a path.
pub(crate) fn is_address(pattern: &str) -> bool {
    pattern.starts_with("http://") || pattern.starts_with("https://")
}

/// Returns the first readable default file in a directory, and existing ones before it that cannot be read: users who
/// have written rules must know that no model reads them.
fn standing_in(directory: &Path, within: Option<&Path>) -> Vec<InstructionSource> {
    let mut found = Vec::new();
    for name in STANDING {
        let path = directory.join(name);
        if path.symlink_metadata().is_err() {
            continue;
        }
        let problem = problem_with(&path, within);
        let is_read = problem.is_none();
        let (pattern, origin) = (name.to_owned(), Origin::File { path, line: None });
        let within = within.map(Path::to_owned);
        found.push(InstructionSource { pattern, directory: directory.to_owned(), within, origin, problem });
        if is_read {
            break;
        }
    }
    found
}

/// Returns why an existing file is not read.
fn problem_with(path: &Path, within: Option<&Path>) -> Option<String> {
    let real = match path.canonicalize() {
        Ok(real) => real,
        Err(error) => return Some(format!("its target cannot be read: {error}")),
    };
    if within.is_some_and(|within| !real.starts_with(within)) {
        return Some("it points outside of the project".to_owned());
    }
    match real.metadata() {
        Ok(about) if about.is_dir() => Some("it is a directory".to_owned()),
        Ok(about) if !about.is_file() => Some("not a regular file".to_owned()),
        Ok(_) => None,
        Err(error) => Some(error.to_string()),
    }
}

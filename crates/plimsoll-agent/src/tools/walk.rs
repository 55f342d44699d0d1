//! Walking a directory as git and ripgrep see it.
//!
//! Patterns are matched by the `ignore` crate, but the files that hold them are read here. That crate opens
//! `.gitignore` and `.ignore` itself and reads until they end, and a checkout can make them links to `/dev/zero` or
//! pipes without a writer. So that reading is disabled, and each file goes through the bounded reader. A file that
//! cannot be used is named in the output and does not hide anything.

use std::path::{Path, PathBuf};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder, gitconfig_excludes_path};
use plimsoll_config::{FileHead, read_in_time, read_regular};
use tokio_util::sync::CancellationToken;
use walkdir::{DirEntry, IntoIter, WalkDir};

use super::files;
use crate::agent::{ToolCall, ToolError};

/// Largest file of patterns, in bytes. GitHub's own collection has none over 20 kB.
const LARGEST_FILE: u64 = 256 << 10;
/// Maximum bytes of patterns that one walk compiles. Without a limit, a thousand links to one large file would be
/// compiled a thousand times.
const MAX_PATTERNS: u64 = 4 << 20;
/// Maximum number of unusable files that are named.
const MAX_NAMED: usize = 5;

/// Filters of a walk in addition to patterns.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WalkOptions {
    /// Includes hidden files.
    pub(super) hidden: bool,
    /// Excludes `.git` even if hidden files are included.
    pub(super) without_git: bool,
    /// Maximum depth; unlimited if not set.
    pub(super) depth: Option<usize>,
}

/// Iterator over the entries below a directory, sorted, without ignored ones.
pub(super) struct Walk<'a> {
    entries: IntoIter,
    options: WalkOptions,
    rules: Rules,
    cancel: &'a CancellationToken,
}

impl<'a> Walk<'a> {
    /// Walks a directory, or a single file, whose path has no links.
    pub(super) fn new(root: &Path, options: WalkOptions, call: &ToolCall<'a>) -> Walk<'a> {
        let entries = WalkDir::new(root).max_depth(options.depth.unwrap_or(usize::MAX)).sort_by_file_name();
        let rules = Rules::above(root, call.directory);
        Walk { entries: entries.into_iter(), options, rules, cancel: call.cancel }
    }

    /// Lines about files of patterns that are not applied.
    pub(super) fn notices(&self, directory: &Path) -> Vec<String> {
        let named = self.rules.unusable.iter().take(MAX_NAMED).map(|(path, problem)| {
            format!(
                "[The patterns in `{}` are not applied: {problem}.]",
                files::display_path(path, directory)
            )
        });
        let more = self.rules.unusable.len().saturating_sub(MAX_NAMED);
        let more = (more > 0).then(|| format!("[Nor are those in {more} more files.]"));
        named.chain(more).collect()
    }

    fn is_left_out(&mut self, entry: &DirEntry) -> bool {
        if entry.depth() == 0 {
            return false;
        }
        let name = entry.file_name();
        if self.options.without_git && name == ".git" {
            return true;
        }
        match self.rules.matched(entry) {
            Match::Ignore(()) => true,
            Match::Whitelist(()) => false,
            Match::None => !self.options.hidden && name.as_encoded_bytes().starts_with(b"."),
        }
    }
}

impl Iterator for Walk<'_> {
    type Item = Result<DirEntry, ToolError>;

    fn next(&mut self) -> Option<Result<DirEntry, ToolError>> {
        loop {
            if self.cancel.is_cancelled() {
                return Some(Err(ToolError::Cancelled));
            }
            // An unreadable entry does not end the walk.
            let Ok(entry) = self.entries.next()? else { continue };
            if !self.is_left_out(&entry) {
                return Some(Ok(entry));
            }
            if entry.file_type().is_dir() {
                self.entries.skip_current_dir();
            }
        }
    }
}

/// The patterns that apply at the current position of a walk.
struct Rules {
    /// Patterns of each directory down to the current one, outermost first.
    levels: Vec<Level>,
    /// Number of levels above the root of the walk.
    above: usize,
    /// Patterns of the user's `core.excludesFile`.
    global: Gitignore,
    /// Remaining budget of pattern bytes.
    room: u64,
    /// Files that could not be applied, with the reason.
    unusable: Vec<(PathBuf, String)>,
}

/// The patterns of one directory.
struct Level {
    /// `.ignore`, which has priority over all of git's.
    ignore: Gitignore,
    /// `.gitignore`.
    git: Gitignore,
    /// `.git/info/exclude`.
    exclude: Gitignore,
}

impl Rules {
    /// Returns the patterns of all directories above a path, and the user's own.
    fn above(root: &Path, directory: &Path) -> Rules {
        let mut rules = Rules {
            levels: Vec::new(),
            above: 0,
            global: Gitignore::empty(),
            room: MAX_PATTERNS,
            unusable: Vec::new(),
        };
        if let Some(path) = gitconfig_excludes_path().filter(|path| path.is_file()) {
            rules.global = rules.read(&path, directory);
        }
        let mut above: Vec<&Path> = root.ancestors().skip(1).collect();
        above.reverse();
        above.into_iter().for_each(|ancestor| rules.enter(ancestor));
        rules.above = rules.levels.len();
        rules
    }

    /// Matches an entry. The walk is depth first, so the directory of the entry is either the last level or not entered
    /// yet.
    fn matched(&mut self, entry: &DirEntry) -> Match<()> {
        let inside = self.above + entry.depth();
        self.levels.truncate(inside);
        if self.levels.len() < inside
            && let Some(directory) = entry.path().parent()
        {
            self.enter(directory);
        }
        let (path, is_dir) = (entry.path(), entry.file_type().is_dir());
        let decide = |patterns: &Gitignore| patterns.matched(path, is_dir).map(drop);
        let nearest = |kind: fn(&Level) -> &Gitignore| {
            let found = self.levels.iter().rev().map(|level| decide(kind(level)));
            found.fold(Match::None, Match::or)
        };
        nearest(|level| &level.ignore)
            .or(nearest(|level| &level.git))
            .or(nearest(|level| &level.exclude))
            .or(decide(&self.global))
    }

    fn enter(&mut self, directory: &Path) {
        let [ignore, git] = [".ignore", ".gitignore"].map(|name| self.read(&directory.join(name), directory));
        let exclude = exclude_file(directory).map(|path| self.read(&path, directory));
        self.levels.push(Level { ignore, git, exclude: exclude.unwrap_or_else(Gitignore::empty) });
    }

    /// Returns the patterns of a file, for paths below `root`.
    fn read(&mut self, path: &Path, root: &Path) -> Gitignore {
        let Ok(about) = path.symlink_metadata() else { return Gitignore::empty() };
        // A link may lead to a mount that does not answer. A plain file is on the same mount as the directory being
        // walked.
        let read = if about.is_symlink() { read_in_time } else { read_regular };
        match read(path, LARGEST_FILE)
            .map_err(|error| error.to_string())
            .and_then(|head| self.compile(&head, root))
        {
            Ok(patterns) => patterns,
            Err(problem) => {
                self.unusable.push((path.to_owned(), problem));
                Gitignore::empty()
            }
        }
    }

    fn compile(&mut self, head: &FileHead, root: &Path) -> Result<Gitignore, String> {
        if head.is_cut() {
            return Err(format!("the file is larger than {} kB", LARGEST_FILE >> 10));
        }
        self.room = self.room.checked_sub(head.size).ok_or("there are too many patterns")?;
        let text = String::from_utf8_lossy(&head.bytes);
        let mut builder = GitignoreBuilder::new(root);
        for line in text.trim_start_matches('\u{feff}').lines() {
            // An invalid pattern does not disable the others.
            let _ = builder.add_line(None, line);
        }
        builder.build().map_err(|_| "the patterns are too large".to_owned())
    }
}

/// Returns the file with a repository's local patterns, if a directory is the root of one.
fn exclude_file(directory: &Path) -> Option<PathBuf> {
    let git = directory.join(".git");
    let about = git.metadata().ok()?;
    if about.is_dir() {
        return Some(git.join("info/exclude"));
    }
    // In a worktree and in a submodule it is a file that names the directory.
    let named = directory.join(first_line(&git)?.strip_prefix("gitdir: ")?);
    let common = first_line(&named.join("commondir")).map(|common| named.join(common));
    Some(common.unwrap_or(named).join("info/exclude"))
}

fn first_line(path: &Path) -> Option<String> {
    let head = read_in_time(path, 4_096).ok()?;
    let text = String::from_utf8(head.bytes).ok()?;
    text.lines().next().map(str::to_owned)
}

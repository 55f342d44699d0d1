//! `glob`: finds files by pattern.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use globset::GlobBuilder;
use plimsoll_providers::ToolSpec;
use plimsoll_sandbox::{Access, Subject};
use serde_json::{Value, json};

use super::files;
use super::walk::{Walk, WalkOptions};
use crate::agent::{Tool, ToolCall, ToolError, optional_text, text};

/// Maximum number of results.
const MOST: usize = 200;

/// Finds files by pattern.
pub struct Glob {
    spec: ToolSpec,
}

impl Glob {
    /// Creates the tool.
    pub fn new() -> Glob {
        let description = format!(
            "Finds files by glob pattern, such as `**/*.rs` or `src/{{a,b}}*.ts`, except files ignored by .gitignore. A \
             pattern without `/` matches file names in all subdirectories. Returns at most {MOST} paths, most recently \
             modified first."
        );
        let schema = json!({
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "description": "Glob pattern."},
                "path": {"type": "string", "description": "Directory to search. Default: the project directory."}
            },
            "required": ["pattern"]
        });
        Glob { spec: ToolSpec { name: "glob".into(), description, schema } }
    }
}

impl Default for Glob {
    fn default() -> Glob {
        Glob::new()
    }
}

impl Tool for Glob {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self) -> Access {
        Access::Read
    }

    fn subject(&self, input: &Value, directory: &Path) -> Result<Subject, ToolError> {
        files::subject_of(optional_text(input, "path")?.unwrap_or("."), directory)
    }

    fn run(&self, call: &ToolCall<'_>, out: &mut dyn Write) -> Result<(), ToolError> {
        let pattern = text(call.input, "pattern")?;
        let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
        let root = call.path()?;
        // An absolute pattern is accepted if it lies below the directory; permissions were checked only for that.
        let below = Path::new(pattern).strip_prefix(root).ok().and_then(Path::to_str).unwrap_or(pattern);
        if Path::new(below).is_absolute()
            || below.starts_with("~/")
            || below.split('/').any(|name| name == "..")
        {
            let why = "`pattern` must be relative: name the directory as `path`";
            return Err(ToolError::Input(why.into()));
        }
        let glob = GlobBuilder::new(below).literal_separator(true).build();
        let glob = glob.map_err(|error| ToolError::Input(format!("invalid glob in `pattern`: {error}")))?;
        let (glob, is_name) = (glob.compile_matcher(), !below.contains('/'));
        files::require_without_links(root, call)?;
        // A pattern that names a hidden file or directory includes it.
        let names_hidden = below.split('/').any(|name| name.starts_with('.'));
        let mut walk = Walk::new(root, WalkOptions { hidden: names_hidden, ..WalkOptions::default() }, call);
        // Keep the newest results in a heap with the oldest on top, where it is removed first.
        let mut newest: BinaryHeap<Reverse<(SystemTime, Reverse<PathBuf>)>> = BinaryHeap::new();
        let mut count = 0_u64;
        for entry in walk.by_ref() {
            let entry = entry?;
            let path = entry.path();
            let relative = path.strip_prefix(root).unwrap_or(path);
            let is_match = glob.is_match(relative) || (is_name && glob.is_match(entry.file_name()));
            if !is_match
                || !entry.file_type().is_file()
                || !(call.may_read)(path)
                || !files::is_reached_without_links(path)
            {
                continue;
            }
            let changed = entry.metadata().ok().and_then(|about| about.modified().ok());
            newest.push(Reverse((changed.unwrap_or(SystemTime::UNIX_EPOCH), Reverse(path.to_owned()))));
            count += 1;
            if newest.len() > MOST {
                newest.pop();
            }
        }
        if count == 0 {
            writeln!(out, "[No file matches.]")?;
        }
        for Reverse((_, Reverse(path))) in newest.into_sorted_vec() {
            writeln!(out, "{}", files::display_path(&path, call.directory))?;
        }
        if count > MOST as u64 {
            writeln!(out, "[{count} files match; these are the {MOST} that were changed last.]")?;
        }
        for notice in walk.notices(call.directory) {
            writeln!(out, "{notice}")?;
        }
        Ok(())
    }
}

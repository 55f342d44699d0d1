//! `list`: lists a directory.

use std::io::Write;
use std::path::Path;

use plimsoll_providers::ToolSpec;
use plimsoll_sandbox::{Access, Subject};
use serde_json::{Value, json};

use super::files;
use super::walk::{Walk, WalkOptions};
use crate::agent::{Tool, ToolCall, ToolError, number, optional_text};

/// Maximum number of entries.
const MOST: usize = 1_000;

/// Lists a directory.
pub struct List {
    spec: ToolSpec,
}

impl List {
    /// Creates the tool.
    pub fn new() -> List {
        let description = format!(
            "Lists the files and directories in a directory, except hidden ones and those ignored by .gitignore. Returns at \
             most {MOST} entries. Directories end in `/`."
        );
        let schema = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "Directory to list. Default: the project directory."},
                "depth": {"type": "integer", "minimum": 1, "description": "Number of levels to list. Default: 1."}
            }
        });
        List { spec: ToolSpec { name: "list".into(), description, schema } }
    }
}

impl Default for List {
    fn default() -> List {
        List::new()
    }
}

impl Tool for List {
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
        let path = call.path()?;
        let name = files::display_path(path, call.directory);
        files::require_without_links(path, call)?;
        if !path.is_dir() {
            return Err(ToolError::Input(format!("`{name}` is a file: use `read`")));
        }
        let depth = number(call.input, "depth")?.unwrap_or(1).clamp(1, 64);
        let depth = Some(usize::try_from(depth).unwrap_or(64));
        let mut walk = Walk::new(path, WalkOptions { depth, ..WalkOptions::default() }, call);
        let mut count = 0;
        for entry in walk.by_ref() {
            let entry = entry?;
            if entry.depth() == 0 {
                continue;
            }
            if !(call.may_read)(entry.path()) || !files::is_reached_without_links(entry.path()) {
                continue;
            }
            if count == MOST {
                writeln!(out, "[Stopped at {MOST} entries. List a subdirectory to see more.]")?;
                break;
            }
            let slash = if entry.file_type().is_dir() { "/" } else { "" };
            writeln!(out, "{}{slash}", files::display_path(entry.path(), path))?;
            count += 1;
        }
        if count == 0 {
            writeln!(out, "[`{name}` is empty, or all its entries are hidden or ignored.]")?;
        }
        for notice in walk.notices(call.directory) {
            writeln!(out, "{notice}")?;
        }
        Ok(())
    }
}

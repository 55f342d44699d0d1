//! `edit`: replaces a text in a file.

use std::io::Write;
use std::path::Path;

use plimsoll_providers::ToolSpec;
use plimsoll_sandbox::{Access, FileEntry, Subject};
use serde_json::{Value, json};

use super::change::{change_file, diff, known_content, known_content_at};
use super::replacing::replace;
use super::write::{any_text, path_of};
use super::{alias, files};
use crate::agent::{Tool, ToolCall, ToolError};
use crate::ask::Preview;
use crate::ledger::FileLedger;

/// Replaces a text in a file.
pub struct Edit {
    spec: ToolSpec,
}

impl Edit {
    /// Creates the tool.
    pub fn new() -> Edit {
        let description = "Replaces text in a file that you have read. `old` must match exactly one place in the file, including \
             whitespace and without the line numbers that `read` adds. Include enough surrounding lines to make it unique, or \
             set `all` to replace every match. Returns the changed lines with line numbers."
            .into();
        let schema = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "Path of the file, absolute or relative to the project directory."},
                "old": {"type": "string", "description": "Text to replace."},
                "new": {"type": "string", "description": "Replacement text. Empty to delete."},
                "all": {"type": "boolean", "description": "Replace all matches. Default: false."}
            },
            "required": ["path", "old", "new"]
        });
        Edit { spec: ToolSpec { name: "edit".into(), description, schema } }
    }
}

impl Default for Edit {
    fn default() -> Edit {
        Edit::new()
    }
}

struct EditInput<'v> {
    old: &'v str,
    new: &'v str,
    all: bool,
}

fn input_of(input: &Value) -> Result<EditInput<'_>, ToolError> {
    let field = alias(input, &["all", "replaceAll", "replace_all"]);
    let all = match input.get(field) {
        None | Some(Value::Null) => false,
        Some(Value::Bool(all)) => *all,
        // Models sometimes write flags in quotes.
        Some(Value::String(all)) if ["true", "false", ""].contains(&all.as_str()) => all == "true",
        Some(other) => return Err(ToolError::Input(format!("`{field}` must be true or false, not {other}"))),
    };
    let old = any_text(input, &["old", "oldString", "old_string"])?;
    let new = any_text(input, &["new", "newString", "new_string"])?;
    Ok(EditInput { old, new, all })
}

impl Tool for Edit {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self) -> Access {
        Access::Act
    }

    fn subject(&self, input: &Value, directory: &Path) -> Result<Subject, ToolError> {
        input_of(input)?;
        files::subject_of(path_of(input)?, directory)
    }

    fn preview(&self, input: &Value, subject: &Subject, _: &Path) -> Option<Preview> {
        let (Subject::Path { real, .. }, Ok(wanted)) = (subject, input_of(input)) else { return None };
        let old = FileEntry::find(real).ok().flatten()?.read().ok().flatten()?;
        Some(Preview::Change(match replace(&old.bytes, wanted.old, wanted.new, wanted.all) {
            Ok(edited) => diff(&old.bytes, &edited.bytes),
            // The call will fail; show the intended change anyway.
            Err(_) => diff(wanted.old.as_bytes(), wanted.new.as_bytes()),
        }))
    }

    fn precheck(
        &self,
        input: &Value,
        subject: &Subject,
        directory: &Path,
        ledger: &FileLedger,
    ) -> Result<(), ToolError> {
        let Subject::Path { real, .. } = subject else { return Ok(()) };
        let Some(content) = known_content_at(real, directory, ledger)? else { return Ok(()) };
        let EditInput { old, new, all } = input_of(input)?;
        let name = files::display_path(real, directory);
        replace(&content.bytes, old, new, all)
            .map(drop)
            .map_err(|problem| ToolError::Failed(problem.format_for_model(&name, &content.bytes, old)))
    }

    fn run(&self, call: &ToolCall<'_>, out: &mut dyn Write) -> Result<(), ToolError> {
        let EditInput { old, new, all } = input_of(call.input)?;
        let path = call.path()?;
        let name = files::display_path(path, call.directory);
        let Some(content) = known_content(call)? else {
            let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
            return Err(files::cannot_read(path, call, &missing));
        };
        let edited = replace(&content.bytes, old, new, all)
            .map_err(|problem| ToolError::Failed(problem.format_for_model(&name, &content.bytes, old)))?;
        change_file(call, Some(&content), &edited.bytes)?;
        let times = match edited.count {
            1 => String::new(),
            count => format!(" in {count} places"),
        };
        writeln!(out, "Changed `{name}`{times}:")?;
        Ok(out.write_all(edited.shown().as_bytes())?)
    }
}

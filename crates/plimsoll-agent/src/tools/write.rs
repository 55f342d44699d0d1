//! `write`: writes a whole file.

use std::io::Write as Output;
use std::path::Path;

use plimsoll_providers::ToolSpec;
use plimsoll_sandbox::{Access, FileEntry, MAX_FILE_BYTES, Subject};
use serde_json::{Value, json};

use super::change::{change_file, diff, known_content, known_content_at};
use super::{alias, files};
use crate::agent::{Tool, ToolCall, ToolError, text};
use crate::ask::Preview;
use crate::ledger::FileLedger;

/// Writes a file.
pub struct Write {
    spec: ToolSpec,
}

impl Write {
    /// Creates the tool.
    pub fn new() -> Write {
        let description = "Writes a file, and creates missing directories. An existing file is replaced and must have been read \
             before; use `edit` to change a part of it."
            .into();
        let schema = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "Path of the file, absolute or relative to the project directory."},
                "content": {"type": "string", "description": "Complete content of the file."}
            },
            "required": ["path", "content"]
        });
        Write { spec: ToolSpec { name: "write".into(), description, schema } }
    }
}

impl Default for Write {
    fn default() -> Write {
        Write::new()
    }
}

/// Returns the path of a call, under this tool's name for it or others that models know.
pub(super) fn path_of(input: &Value) -> Result<&str, ToolError> {
    text(input, alias(input, &["path", "filePath", "file_path"]))
}

/// Returns a text that may be empty.
pub(super) fn any_text<'v>(input: &'v Value, names: &[&'static str]) -> Result<&'v str, ToolError> {
    let field = alias(input, names);
    match input.get(field) {
        Some(Value::String(text)) => Ok(text),
        None | Some(Value::Null) => {
            Err(ToolError::Input(format!("`{field}` is missing: it must be a string")))
        }
        Some(_) => Err(ToolError::Input(format!("`{field}` must be a string"))),
    }
}

fn content_of(input: &Value) -> Result<&str, ToolError> {
    any_text(input, &["content"])
}

impl Tool for Write {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self) -> Access {
        Access::Act
    }

    fn subject(&self, input: &Value, directory: &Path) -> Result<Subject, ToolError> {
        content_of(input)?;
        files::subject_of(path_of(input)?, directory)
    }

    fn preview(&self, input: &Value, subject: &Subject, _: &Path) -> Option<Preview> {
        let (Subject::Path { real, .. }, Ok(content)) = (subject, content_of(input)) else { return None };
        let old = FileEntry::find(real).ok().flatten().and_then(|place| place.read().ok().flatten());
        Some(match old {
            Some(old) => Preview::Change(diff(&old.bytes, content.as_bytes())),
            None => Preview::Content(content.to_owned()),
        })
    }

    fn precheck(
        &self,
        _: &Value,
        subject: &Subject,
        directory: &Path,
        files: &FileLedger,
    ) -> Result<(), ToolError> {
        let Subject::Path { real, .. } = subject else { return Ok(()) };
        known_content_at(real, directory, files).map(drop)
    }

    fn run(&self, call: &ToolCall<'_>, out: &mut dyn Output) -> Result<(), ToolError> {
        let content = content_of(call.input)?.as_bytes();
        let name = files::display_path(call.path()?, call.directory);
        if content.len() as u64 > MAX_FILE_BYTES {
            return Err(ToolError::Input(format!("`content` is larger than {} MB", MAX_FILE_BYTES >> 20)));
        }
        let old = known_content(call)?;
        let lines = content.split_inclusive(|byte| *byte == b'\n').count();
        if old.as_ref().is_some_and(|old| old.bytes == content) {
            call.note_seen(call.path()?, blake3::hash(content))?;
            return Ok(writeln!(out, "`{name}` already has this content.")?);
        }
        change_file(call, old.as_ref(), content)?;
        let done = if old.is_some() { "Replaced" } else { "Made" };
        writeln!(out, "{done} `{name}`: {lines} lines, {} bytes.", content.len())?;
        let has_crlf = |bytes: &[u8]| memchr::memmem::find(bytes, b"\r\n").is_some();
        if old.is_some_and(|old| has_crlf(&old.bytes)) && !has_crlf(content) {
            writeln!(out, "[Its line endings changed from CRLF to LF.]")?;
        }
        Ok(())
    }
}

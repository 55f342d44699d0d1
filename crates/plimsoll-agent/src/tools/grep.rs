//! `grep`: searches files.

use std::io::Write;
use std::path::Path;

use globset::Glob;
use grep_regex::RegexMatcherBuilder;
use grep_searcher::sinks::Lossy;
use grep_searcher::{BinaryDetection, SearcherBuilder};
use plimsoll_providers::ToolSpec;
use plimsoll_sandbox::{Access, Subject, open_file};
use serde_json::{Value, json};

use super::files;
use super::walk::{Walk, WalkOptions};
use crate::agent::{Tool, ToolCall, ToolError, optional_text, text};

/// Maximum number of matches.
const MOST: u64 = 500;
/// Maximum length of a line in bytes. The rest of a file after a longer one is not searched.
const LINE_MEMORY: usize = 16 << 20;
/// Maximum length of a shown line, in chars.
const LINE: usize = 400;

/// Searches files.
pub struct Grep {
    spec: ToolSpec,
}

impl Grep {
    /// Creates the tool.
    pub fn new() -> Grep {
        let description = format!(
            "Searches a file, or the files below a directory, for lines that match a regular expression (Rust syntax). Files \
             ignored by .gitignore are skipped. Returns at most {MOST} matches as `path:line:text`."
        );
        let schema = json!({
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "description": "Regular expression."},
                "path": {"type": "string", "description": "File or directory to search. Default: the project directory."},
                "include": {"type": "string", "description": "Only search files whose names match this glob, such as *.rs."},
                "ignore_case": {"type": "boolean", "description": "Case-insensitive search. Default: false."}
            },
            "required": ["pattern"]
        });
        Grep { spec: ToolSpec { name: "grep".into(), description, schema } }
    }
}

impl Default for Grep {
    fn default() -> Grep {
        Grep::new()
    }
}

impl Tool for Grep {
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
        let ignore_case = call.input.get("ignore_case").and_then(Value::as_bool).unwrap_or(false);
        let matcher = RegexMatcherBuilder::new()
            .case_insensitive(ignore_case)
            .line_terminator(Some(b'\n'))
            .build(pattern);
        let matcher = matcher
            .map_err(|error| ToolError::Input(format!("`pattern` is not a regular expression: {error}")))?;
        let include = match optional_text(call.input, "include")? {
            None => None,
            Some(glob) => {
                let bad =
                    |error| ToolError::Input(format!("`include` is not a pattern of file names: {error}"));
                Some(Glob::new(glob).map_err(bad)?.compile_matcher())
            }
        };
        let root = call.path()?;
        files::require_without_links(root, call)?;
        let mut searcher = SearcherBuilder::new()
            .binary_detection(BinaryDetection::quit(0))
            .line_number(true)
            .heap_limit(Some(LINE_MEMORY))
            .build();
        let mut matches = 0_u64;
        // Workflows, settings and the like are hidden and worth finding; the content of `.git` is not.
        let options = WalkOptions { hidden: true, without_git: true, ..WalkOptions::default() };
        let mut walk = Walk::new(root, options, call);
        for entry in walk.by_ref() {
            let entry = entry?;
            let is_file = entry.file_type().is_file();
            let is_wanted = include.as_ref().is_none_or(|glob| {
                glob.is_match(entry.file_name())
                    || glob.is_match(entry.path().strip_prefix(root).unwrap_or(entry.path()))
            });
            if !is_file || !is_wanted || !(call.may_read)(entry.path()) {
                continue;
            }
            let name = files::display_path(entry.path(), call.directory);
            let sink = Lossy(|line, found| {
                if matches == MOST || call.cancel.is_cancelled() {
                    return Ok(false);
                }
                matches += 1;
                let found = found.trim_end();
                let shown: String = found.chars().take(LINE).collect();
                let rest = if shown.len() < found.len() { " [line cut]" } else { "" };
                writeln!(out, "{name}:{line}:{shown}{rest}")?;
                Ok(true)
            });
            // An unreadable file does not end the search; a failed write does.
            let searched =
                open_file(entry.path()).and_then(|file| searcher.search_file(&matcher, &file, sink));
            if let Err(error) = searched
                && error.kind() == std::io::ErrorKind::BrokenPipe
            {
                return Err(error.into());
            }
            if matches == MOST {
                writeln!(
                    out,
                    "[Stopped at {MOST} matches. Use a more specific pattern, `path` or `include`.]"
                )?;
                break;
            }
        }
        if matches == 0 {
            writeln!(out, "[No matches.]")?;
        }
        for notice in walk.notices(call.directory) {
            writeln!(out, "{notice}")?;
        }
        Ok(())
    }
}

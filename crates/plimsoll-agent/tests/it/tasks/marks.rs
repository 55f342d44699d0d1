//! A tool that leaves a mark, by which it can be told who has run what, and how often.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use plimsoll_agent::{Access, Subject, Tool, ToolCall, ToolError};
use plimsoll_providers::ToolSpec;
use serde_json::{Value, json};

/// What a call has left.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    pub(super) run: String,
    pub(super) session: String,
    pub(super) process: u32,
}

impl Mark {
    /// All that were left in a file.
    pub(super) fn all(path: &Path) -> Vec<Mark> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let parse = |line: &str| {
            let mut words = line.split_whitespace().map(str::to_owned);
            let mut next = || words.next().unwrap();
            Mark { run: next(), session: next(), process: next().parse().unwrap() }
        };
        text.lines().map(parse).collect()
    }
}

/// Appends a line to a file with each call: whole or not at all, whichever process does it.
pub(super) struct MarkTool {
    spec: ToolSpec,
    path: PathBuf,
}

impl MarkTool {
    pub(super) fn new(path: &Path) -> MarkTool {
        let schema = json!({ "type": "object", "properties": { "run": { "type": "string" } } });
        let spec = ToolSpec { name: "mark".into(), description: "Leaves a mark.".into(), schema };
        MarkTool { spec, path: path.to_owned() }
    }
}

impl Tool for MarkTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self) -> Access {
        Access::Session
    }

    fn subject(&self, _: &Value, _: &Path) -> Result<Subject, ToolError> {
        Ok(Subject::None)
    }

    fn run(&self, call: &ToolCall<'_>, out: &mut dyn Write) -> Result<(), ToolError> {
        let run = call.input["run"].as_str().unwrap_or_default();
        let line = format!("{run} {} {}\n", call.session, std::process::id());
        let mut file = OpenOptions::new().create(true).append(true).open(&self.path)?;
        file.write_all(line.as_bytes())?;
        out.write_all(b"marked\n")?;
        Ok(())
    }
}

//! A tool that leaves a mark, which shows who has run what, and how often.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_agent::{Access, Subject, Tool, ToolCall, ToolError};
use plimsoll_providers::ToolSpec;
use serde_json::{Value, json};

/// Mark of a call.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    pub(super) run: String,
    pub(super) session: String,
    pub(super) process: u32,
}

impl Mark {
    /// Returns all marks in a directory.
    pub(super) fn all(directory: &Path) -> Vec<Mark> {
        let names = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
        let parse = |name: String| match name.split('~').collect::<Vec<_>>()[..] {
            [run, session, process, _] if !run.is_empty() => {
                Mark { run: run.into(), session: session.into(), process: process.parse().unwrap() }
            }
            _ => panic!("not the name of a mark: {name:?}"),
        };
        names.map(|name| parse(name.into_string().unwrap())).collect()
    }
}

/// Creates an empty file with each call, whose name has the call's run, session and process.
///
/// Lines of one file would not do: a kill between two pages of the file leaves half a line.
pub(super) struct MarkTool {
    spec: ToolSpec,
    directory: PathBuf,
}

impl MarkTool {
    pub(super) fn new(directory: &Path) -> MarkTool {
        let schema = json!({ "type": "object", "properties": { "run": { "type": "string" } } });
        let spec = ToolSpec { name: "mark".into(), description: "Leaves a mark.".into(), schema };
        std::fs::create_dir_all(directory).unwrap();
        MarkTool { spec, directory: directory.to_owned() }
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
        // A call that the same process runs twice leaves two marks.
        static CALLS: AtomicU64 = AtomicU64::new(0);
        let run = call.input["run"].as_str().unwrap_or_default();
        let count = CALLS.fetch_add(1, Ordering::Relaxed);
        let name = format!("{run}~{}~{}~{count}", call.session, std::process::id());
        OpenOptions::new().write(true).create_new(true).open(self.directory.join(name))?;
        out.write_all(b"marked\n")?;
        Ok(())
    }
}

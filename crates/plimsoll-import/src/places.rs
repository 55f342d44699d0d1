//! Session directories of tools, and metadata from the start of session files.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::Value;

use crate::keeping;
use crate::tool::Tool;

/// Maximum number of lines and bytes that are read to find the line with the directory.
const LINES: usize = 20;
const BYTES: u64 = 4 << 20;
/// Depth of Codex's directories by year, month and day.
const DEPTH: u32 = 5;
/// Directory names of VS Code and editors based on it.
const EDITORS: [&str; 5] = ["Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf"];
/// Data directories of their remote servers.
const SERVERS: [&str; 5] =
    [".vscode-server", ".vscode-server-insiders", ".vscodium-server", ".cursor-server", ".windsurf-server"];
/// Extension ids of Cline and Roo.
const EXTENSIONS: [&str; 2] = ["saoudrizwan.claude-dev", "rooveterinaryinc.roo-cline"];

/// Directories and databases of tools. Reads no environment variables itself; the caller passes them in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// Directories with session files, by tool.
    pub directories: Vec<(Tool, PathBuf)>,
    /// Databases of sessions, by tool.
    pub databases: Vec<(Tool, PathBuf)>,
}

impl Places {
    /// Returns the default places below a home directory, or those set by these variables: `CLAUDE_CONFIG_DIR`, `CODEX_HOME`,
    /// `XDG_DATA_HOME`, `XDG_CONFIG_HOME`, `APPDATA`, `VSCODE_APPDATA`, `GEMINI_CLI_HOME`, `GOOSE_PATH_ROOT`, `CLINE_DIR`,
    /// `KIMI_CODE_HOME`. Places of all operating systems are included, because missing ones are simply empty. Relative paths
    /// are ignored, because they would refer to a different place in every directory.
    ///
    /// ```
    /// use plimsoll_import::{Places, Tool};
    /// let variable = |name: &str| (name == "CODEX_HOME").then(|| "/data/codex".to_owned());
    /// let places = Places::new(Some("/home/ada".as_ref()), variable);
    /// assert!(places.directories.contains(&(Tool::Codex, "/data/codex/sessions".into())));
    /// let opencode = (Tool::Opencode, "/home/ada/.local/share/opencode/opencode.db".into());
    /// assert!(places.databases.contains(&opencode));
    /// ```
    pub fn new(home: Option<&Path>, variable: impl Fn(&str) -> Option<String>) -> Places {
        let given = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let place = |name: &str, usual: &str| given(name).or_else(|| Some(home?.join(usual)));
        let (claude, codex) = (place("CLAUDE_CONFIG_DIR", ".claude"), place("CODEX_HOME", ".codex"));
        let data = place("XDG_DATA_HOME", ".local/share");
        let goose = given("GOOSE_PATH_ROOT").map(|root| root.join("data"));
        let goose = goose.or_else(|| Some(data.as_ref()?.join("goose"))).map(|data| data.join("sessions"));
        let cline = place("CLINE_DIR", ".cline").map(|directory| directory.join("data"));
        let directories = [
            (Tool::ClaudeCode, claude.map(|directory| directory.join("projects"))),
            (Tool::Codex, codex.as_ref().map(|directory| directory.join("sessions"))),
            (Tool::Codex, codex.map(|directory| directory.join("archived_sessions"))),
            (Tool::Pi, home.map(|home| home.join(".pi/agent/sessions"))),
            (Tool::Gemini, place("GEMINI_CLI_HOME", "").map(|home| home.join(".gemini/tmp"))),
            (Tool::Goose, goose.clone()),
            (Tool::Cline, cline.as_ref().map(|directory| directory.join("sessions"))),
            (Tool::Cline, cline.map(|directory| directory.join("tasks"))),
            (Tool::Kimi, home.map(|home| home.join(".kimi/sessions"))),
            (Tool::Kimi, place("KIMI_CODE_HOME", ".kimi-code").map(|directory| directory.join("sessions"))),
        ];
        let databases = [
            (Tool::Opencode, data.map(|data| data.join("opencode").join("opencode.db"))),
            (Tool::Goose, goose.map(|directory| directory.join("sessions.db"))),
        ];
        // Application data on Linux, macOS and Windows, and VS Code's own setting.
        let settings = [
            place("XDG_CONFIG_HOME", ".config"),
            home.map(|home| home.join("Library/Application Support")),
            place("APPDATA", "AppData/Roaming"),
            given("VSCODE_APPDATA"),
        ];
        let editors = settings.into_iter().flatten().flat_map(|root| EDITORS.map(|editor| root.join(editor)));
        let servers = home.into_iter().flat_map(|home| SERVERS.map(|server| home.join(server).join("data")));
        let tasks = |data: PathBuf| {
            EXTENSIONS.map(|name| (Tool::Cline, data.join("User/globalStorage").join(name).join("tasks")))
        };
        let directories = directories.into_iter().filter_map(|(tool, path)| Some((tool, path?)));
        Places {
            directories: directories.chain(editors.chain(servers).flat_map(tasks)).collect(),
            databases: databases.into_iter().filter_map(|(tool, path)| Some((tool, path?))).collect(),
        }
    }
}

/// A file that may contain a session, not opened yet.
#[derive(Clone, Debug)]
pub(crate) struct FilePlace {
    pub(crate) tool: Tool,
    pub(crate) path: PathBuf,
    pub(crate) changed: u64,
}

/// A place that could not be searched.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// The directory or database.
    pub path: PathBuf,
    /// The error.
    pub why: String,
}

/// Finds files below a directory that may contain sessions. Adds unreadable directories to `problems`.
pub(crate) fn files(directory: &Path, tool: Tool, found: &mut Vec<FilePlace>, problems: &mut Vec<Problem>) {
    collect(directory, tool, DEPTH, found, problems);
}

fn collect(
    directory: &Path,
    tool: Tool,
    depth: u32,
    found: &mut Vec<FilePlace>,
    problems: &mut Vec<Problem>,
) {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        // Most tools are not installed, so a missing directory is not a problem.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
        Err(error) => {
            let (path, why) = (directory.to_owned(), crate::error::reason(&error));
            return problems.push(Problem { path, why });
        }
    };
    for entry in entries.flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        let path = entry.path();
        if kind.is_dir() && depth > 0 {
            collect(&path, tool, depth - 1, found, problems);
        } else if kind.is_file() && keeping::is_session(tool, &path) {
            let changed = entry.metadata().and_then(|metadata| metadata.modified());
            let changed = millis(changed.unwrap_or(SystemTime::UNIX_EPOCH));
            found.push(FilePlace { tool, path, changed });
        }
    }
}

fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Metadata from the first records of a file.
pub(crate) struct Beginning {
    pub(crate) id: Option<String>,
    pub(crate) directory: Option<String>,
    /// The stored session that it was exported from.
    pub(crate) origin: Option<String>,
}

impl Beginning {
    /// Reads the start of a file. Returns `None` if it cannot be opened or belongs to a sub-agent.
    pub(crate) fn of(path: &Path) -> Option<Beginning> {
        let file = File::open(path).ok()?;
        let lines = BufReader::new(file.take(BYTES)).lines().take(LINES).map_while(Result::ok);
        let mut beginning = Beginning { id: None, directory: None, origin: None };
        for record in lines.filter_map(|line| serde_json::from_str::<Value>(&line).ok()) {
            let inner = record.get("payload").unwrap_or(&record);
            if inner.get("source").is_some_and(|source| source.get("subagent").is_some()) {
                return None;
            }
            let text = |key: &str| inner.get(key).and_then(Value::as_str).map(str::to_owned);
            let is_first =
                record.get("type").and_then(Value::as_str).is_none_or(|kind| kind.starts_with("session"));
            if is_first && beginning.id.is_none() {
                beginning.id = text("id").or_else(|| text("sessionId"));
            }
            if beginning.origin.is_none() {
                let origin = inner.pointer("/plimsoll/handed_over_from").and_then(Value::as_str);
                beginning.origin = origin.map(str::to_owned);
            }
            beginning.directory = text("cwd").or_else(|| text("working_dir"));
            if beginning.directory.is_some() {
                break;
            }
        }
        Some(beginning)
    }
}

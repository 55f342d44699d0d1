//! Where tools keep their sessions, and what the beginning of a file tells.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use plimsoll_formats::opencode_db::Database;
use serde_json::Value;

use super::{Found, Kept, Scope, Search, Tool};
use crate::args::PolicyArgs;
use crate::config::Config;
use crate::error::{CliError, reason};
use crate::store::Opened;
use crate::surroundings::Surroundings;
use crate::when::millis;

/// How many lines may stand before the one that names the directory, and how many bytes.
const LINES: usize = 20;
const BYTES: u64 = 4 << 20;
/// Codex keeps sessions by year, month and day.
const DEPTH: u32 = 5;

/// Something that may be a session.
pub(super) enum Candidate {
    /// A file, not opened yet.
    File { tool: Tool, path: PathBuf, changed: u64 },
    /// A row of a database.
    Row(Box<Found>),
}

impl Candidate {
    pub(super) fn changed(&self) -> u64 {
        match self {
            Candidate::File { changed, .. } => *changed,
            Candidate::Row(found) => found.changed,
        }
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Candidate::File { path, .. } => path,
            Candidate::Row(found) => &found.path,
        }
    }

    /// Whether it is a sub-agent's, as far as can be told without opening it.
    pub(super) fn is_sub_agent(&self) -> bool {
        match self {
            Candidate::File { path, .. } => {
                stem(path).starts_with("agent-")
                    || path.components().any(|part| part.as_os_str() == "subagents")
            }
            Candidate::Row(found) => match &found.kept {
                Kept::File => false,
                Kept::Row(row) => row.parent.is_some(),
                Kept::Stored(_, session) => session.parent.is_some(),
            },
        }
    }

    /// Whether its id may begin with this.
    pub(super) fn may_have(&self, id: &str) -> bool {
        match self {
            Candidate::File { path, .. } => stem(path).contains(id),
            Candidate::Row(found) => found.id.starts_with(id),
        }
    }

    /// Look into it. Nothing if it cannot be opened or is a sub-agent's after all.
    pub(super) fn look(&self) -> Option<Found> {
        match self {
            Candidate::Row(found) => Some(found.as_ref().clone()),
            Candidate::File { tool, path, changed } => {
                let beginning = Beginning::of(path)?;
                let id = match tool {
                    // A session that was resumed starts with records of the one before, under its id.
                    Tool::ClaudeCode => None,
                    _ => beginning.id,
                };
                let id = id.unwrap_or_else(|| stem(path).to_owned());
                let (tool, path, changed) = (*tool, path.clone(), *changed);
                Some(Found { tool, id, path, directory: beginning.directory, changed, kept: Kept::File })
            }
        }
    }
}

/// All candidates in the usual places, in no order.
pub(super) fn search(around: &Surroundings, scope: Scope) -> Search {
    let mut search = Search { candidates: Vec::new(), problems: Vec::new() };
    let wanted = |tool| match scope {
        Scope::All => true,
        Scope::Others => tool != Tool::Plimsoll,
        Scope::Only(only) => tool == only,
    };
    for (tool, folder) in folders(around).into_iter().filter(|(tool, _)| wanted(*tool)) {
        collect(&folder, tool, DEPTH, &mut search);
    }
    let database = around.path("XDG_DATA_HOME").or_else(|| around.below_home(".local/share"));
    let database = database.map(|data| data.join("opencode").join("opencode.db"));
    if let Some(path) = database.filter(|path| wanted(Tool::Opencode) && path.is_file()) {
        rows(&path, &mut search, around);
    }
    if wanted(Tool::Plimsoll)
        && let Err(error) = stored(&mut search, around)
    {
        search.problems.push(error.message().to_owned());
    }
    search
}

/// Plimsoll's own.
fn stored(search: &mut Search, around: &Surroundings) -> Result<(), CliError> {
    let config = Config::load(&PolicyArgs::default(), around)?;
    let Some(opened) = Opened::if_there(&config)?.map(Arc::new) else {
        // Somebody who names a database expects it to be there.
        let named =
            around.store.as_ref().map(|path| format!("there is no database `{}` yet", path.display()));
        search.problems.extend(named);
        return Ok(());
    };
    for session in opened.sessions()? {
        let (id, path) = (session.id.to_string(), opened.path.clone());
        let (directory, changed) = (session.directory.clone(), session.updated.0);
        let kept = Kept::Stored(Arc::clone(&opened), Box::new(session));
        let found = Found { tool: Tool::Plimsoll, id, path, directory, changed, kept };
        search.candidates.push(Candidate::Row(Box::new(found)));
    }
    Ok(())
}

fn folders(around: &Surroundings) -> Vec<(Tool, PathBuf)> {
    let claude = around.path("CLAUDE_CONFIG_DIR").or_else(|| around.below_home(".claude"));
    let codex = around.path("CODEX_HOME").or_else(|| around.below_home(".codex"));
    let places = [
        (Tool::ClaudeCode, claude.map(|folder| folder.join("projects"))),
        (Tool::Codex, codex.as_ref().map(|folder| folder.join("sessions"))),
        (Tool::Codex, codex.map(|folder| folder.join("archived_sessions"))),
        (Tool::Pi, around.below_home(".pi/agent/sessions")),
    ];
    places.into_iter().filter_map(|(tool, folder)| Some((tool, folder?))).collect()
}

fn collect(folder: &Path, tool: Tool, depth: u32, search: &mut Search) {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        // A place that is not there has no sessions.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
        Err(error) => {
            return search.problems.push(format!(
                "cannot look into `{}`: {}",
                folder.display(),
                reason(&error)
            ));
        }
    };
    for entry in entries.flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        let path = entry.path();
        if kind.is_dir() && depth > 0 {
            collect(&path, tool, depth - 1, search);
        } else if kind.is_file() && path.extension().is_some_and(|extension| extension == "jsonl") {
            let changed = entry.metadata().and_then(|metadata| metadata.modified());
            let changed = millis(changed.unwrap_or(SystemTime::UNIX_EPOCH));
            search.candidates.push(Candidate::File { tool, path, changed });
        }
    }
}

fn rows(path: &Path, search: &mut Search, around: &Surroundings) {
    let rows = match Database::open(path).and_then(|database| database.sessions()) {
        Ok(rows) => rows,
        Err(error) => return search.problems.push(format!("cannot read `{}`: {error}", around.short(path))),
    };
    for row in rows {
        let Some(id) = row.info.id.clone() else { continue };
        let changed = row.info.updated.or(row.info.started).map_or(0, |at| at.0);
        let (tool, directory) = (Tool::Opencode, row.info.directory.clone());
        let found =
            Found { tool, id, path: path.to_owned(), directory, changed, kept: Kept::Row(Box::new(row)) };
        search.candidates.push(Candidate::Row(Box::new(found)));
    }
}

/// What the first records of a file say.
struct Beginning {
    id: Option<String>,
    directory: Option<String>,
}

impl Beginning {
    fn of(path: &Path) -> Option<Beginning> {
        let file = File::open(path).ok()?;
        let lines = BufReader::new(file.take(BYTES)).lines().take(LINES).map_while(Result::ok);
        let mut beginning = Beginning { id: None, directory: None };
        for record in lines.filter_map(|line| serde_json::from_str::<Value>(&line).ok()) {
            let inner = record.get("payload").unwrap_or(&record);
            if inner.get("source").is_some_and(|source| source.get("subagent").is_some()) {
                return None;
            }
            let text = |key: &str| inner.get(key).and_then(Value::as_str).map(str::to_owned);
            let is_first =
                record.get("type").and_then(Value::as_str).is_none_or(|kind| kind.starts_with("session"));
            if is_first && beginning.id.is_none() {
                beginning.id = text("id");
            }
            beginning.directory = text("cwd");
            if beginning.directory.is_some() {
                break;
            }
        }
        Some(beginning)
    }
}

fn stem(path: &Path) -> &str {
    path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default()
}

//! Naming of session files by each tool, and the places where tools record the directories of sessions.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::tool::Tool;

/// Maximum size of a JSON document that is parsed to find the id or directory of a session.
const MAX_BYTES: u64 = 4 << 20;
/// Cline's and Roo's file with the messages of a task.
const TASK: &str = "api_conversation_history.json";
/// Suffix of Cline's newer files.
const MESSAGES: &str = ".messages.json";

pub(crate) fn stem(path: &Path) -> &str {
    path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default()
}

/// Whether a tool stores sessions in files with this name.
pub(crate) fn is_session(tool: Tool, path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let ends = |ending: &str| name.ends_with(ending);
    match tool {
        Tool::Gemini => {
            let is_chat = path.components().any(|part| part.as_os_str() == "chats");
            is_chat && (ends(".jsonl") || ends(".json"))
        }
        Tool::Cline => ends(MESSAGES) || name == TASK,
        Tool::Kimi => name == "wire.jsonl",
        _ => ends(".jsonl"),
    }
}

/// Whether a file belongs to a sub-agent, by its path.
pub(crate) fn is_sub_agent(tool: Tool, path: &Path) -> bool {
    let is_inside = |name: &str| path.components().any(|part| part.as_os_str() == name);
    match tool {
        // Sub-agents of a session are in a directory with the name of the session.
        Tool::Gemini => directory_name(path, 0) != "chats",
        // Kimi Code has a directory for each agent; the session's own is `main`.
        Tool::Kimi => is_inside("subagents") || is_inside("agents") && directory_name(path, 0) != "main",
        Tool::Cline => {
            path.file_name().is_none_or(|name| name != TASK) && name_of(tool, path) != directory_name(path, 0)
        }
        _ => stem(path).starts_with("agent-") || is_inside("subagents"),
    }
}

/// Returns a session's name by its path: the id, or for some tools a name that contains the id.
pub(crate) fn name_of(tool: Tool, path: &Path) -> &str {
    match tool {
        Tool::Cline => match path.file_name().and_then(|name| name.to_str()) {
            Some(name) if name != TASK => name.strip_suffix(MESSAGES).unwrap_or(name),
            _ => directory_name(path, 0),
        },
        Tool::Kimi if directory_name(path, 1) == "agents" => directory_name(path, 2),
        Tool::Kimi => directory_name(path, 0),
        _ => stem(path),
    }
}

/// Whether the session in a file may have an id that starts with `id`.
pub(crate) fn may_have(tool: Tool, path: &Path, id: &str) -> bool {
    let name = name_of(tool, path);
    // Gemini CLI writes only the first eight characters of the id into the name.
    let is_longer = tool == Tool::Gemini
        && name.rsplit('-').next().is_some_and(|short| short.len() == 8 && id.starts_with(short));
    name.contains(id) || is_longer
}

/// Returns the id of a session whose tool does not write it into the first lines of the file.
pub(crate) fn id_of(tool: Tool, path: &Path) -> Option<String> {
    match tool {
        Tool::Gemini if path.extension().is_some_and(|ending| ending == "json") => {
            json(path)?["sessionId"].as_str().map(str::to_owned)
        }
        Tool::Cline | Tool::Kimi => Some(name_of(tool, path).to_owned()),
        _ => None,
    }
}

/// Returns the directory of a session whose tool records it in another file.
pub(crate) fn directory_of(tool: Tool, path: &Path) -> Option<String> {
    match tool {
        Tool::Gemini => {
            let chats =
                path.ancestors().find(|above| above.file_name().is_some_and(|name| name == "chats"))?;
            let root = fs::read_to_string(chats.parent()?.join(".project_root")).ok()?;
            Some(root.trim().to_owned()).filter(|root| !root.is_empty())
        }
        Tool::Cline if path.file_name().is_some_and(|name| name == TASK) => task_directory(path),
        Tool::Cline => {
            let manifest = path.parent()?.join(format!("{}.json", name_of(tool, path)));
            json(&manifest)?["cwd"].as_str().map(str::to_owned)
        }
        Tool::Kimi => kimi_directory(path),
        _ => None,
    }
}

/// Returns the directory of a task. Roo records it in a file of each task, Cline in one list of all tasks.
fn task_directory(path: &Path) -> Option<String> {
    let task = path.parent()?;
    if let Some(item) = json(&task.join("history_item.json")) {
        return item["workspace"].as_str().map(str::to_owned);
    }
    let list = json(&task.parent()?.parent()?.join("state/taskHistory.json"))?;
    let id = task.file_name()?.to_str()?;
    let own = list.as_array()?.iter().find(|item| item["id"] == id)?;
    own["cwdOnTaskInitialization"].as_str().map(str::to_owned)
}

/// Returns the directory of a Kimi session. Kimi CLI stores the sessions of a working directory in a directory named by its
/// hash, and records the last session of each working directory. Kimi Code has an index.
fn kimi_directory(path: &Path) -> Option<String> {
    let session = if directory_name(path, 1) == "agents" { path.ancestors().nth(3)? } else { path.parent()? };
    let home = session.ancestors().nth(3)?;
    if let Ok(index) = fs::read_to_string(home.join("session_index.jsonl")) {
        let id = session.file_name()?.to_str()?;
        let records = index.lines().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let own = records.into_iter().find(|record| record["sessionId"] == id);
        return own.and_then(|own| own["workDir"].as_str().map(str::to_owned));
    }
    let known = json(&home.join("kimi.json"))?;
    let sessions: PathBuf = session.parent()?.to_owned();
    let directories = known["work_dirs"].as_array()?;
    let own = directories.iter().find(|one| {
        one["last_session_id"].as_str().is_some_and(|id| !id.is_empty() && sessions.join(id).is_dir())
    });
    own.and_then(|own| own["path"].as_str().map(str::to_owned))
}

/// Returns the name of the directory that contains a file, or of the parent `above` it.
fn directory_name(path: &Path, above: usize) -> &str {
    let parent = path.ancestors().nth(above + 1).and_then(Path::file_name);
    parent.and_then(|name| name.to_str()).unwrap_or_default()
}

fn json(path: &Path) -> Option<Value> {
    let is_small = fs::metadata(path).is_ok_and(|metadata| metadata.len() <= MAX_BYTES);
    is_small.then(|| fs::read(path).ok())?.and_then(|bytes| serde_json::from_slice(&bytes).ok())
}

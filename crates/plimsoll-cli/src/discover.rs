//! The newest session for a directory, in the places where agents keep theirs.
//!
//! Claude Code has a folder for each project, Codex one for each day, pi one for each directory. What a session
//! says of its own directory decides, not the name of its folder.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::Value;

/// The places below the home directory.
const PLACES: [(&str, &str); 3] =
    [("Claude Code", ".claude/projects"), ("Codex", ".codex/sessions"), ("pi", ".pi/agent/sessions")];

/// So many of the newest files are looked into; older ones are hardly what is meant by the newest session.
const MOST: usize = 500;

/// How many lines may stand before the one that names the directory.
const LINES: usize = 20;

/// A session that was found.
pub(crate) struct Found {
    /// The agent that wrote it.
    pub(crate) agent: &'static str,
    /// Its file.
    pub(crate) file: PathBuf,
}

/// The newest session for `directory` of any agent below `home`.
pub(crate) fn newest(home: &Path, directory: &Path) -> Option<Found> {
    let mut files: Vec<(SystemTime, &'static str, PathBuf)> = Vec::new();
    for (agent, place) in PLACES {
        collect(&home.join(place), agent, 5, &mut files);
    }
    files.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| b.2.cmp(&a.2)));
    let mut newest = files.into_iter().take(MOST);
    newest.find(|(_, _, file)| is_about(file, directory)).map(|(_, agent, file)| Found { agent, file })
}

fn collect(
    folder: &Path,
    agent: &'static str,
    depth: u32,
    files: &mut Vec<(SystemTime, &'static str, PathBuf)>,
) {
    // A place that is not there, or may not be read, has no sessions for us.
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        let path = entry.path();
        if kind.is_dir() && depth > 0 {
            collect(&path, agent, depth - 1, files);
        } else if kind.is_file() && path.extension().is_some_and(|extension| extension == "jsonl") {
            let changed = entry.metadata().and_then(|metadata| metadata.modified());
            files.push((changed.unwrap_or(SystemTime::UNIX_EPOCH), agent, path));
        }
    }
}

/// Whether one of a session's first records names the directory as its own.
fn is_about(file: &Path, directory: &Path) -> bool {
    let Ok(file) = File::open(file) else { return false };
    let lines = BufReader::new(file).lines().take(LINES).map_while(Result::ok);
    let records = lines.filter_map(|line| serde_json::from_str::<Value>(&line).ok());
    let own = records.filter_map(|record| {
        let cwd = record.get("cwd").or_else(|| record.get("payload")?.get("cwd"))?;
        cwd.as_str().map(PathBuf::from)
    });
    own.into_iter().any(|cwd| cwd == directory)
}

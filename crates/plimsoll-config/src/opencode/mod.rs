//! OpenCode's own configuration: where its files are, and what they say in our words.
//!
//! A file is translated into the shape that a `plimsoll.toml` has, with the lines of its keys, so that layers, trust and
//! errors are the same for both. What has no counterpart is named in a [`Notice`].

mod markdown;
mod notice;
mod parse;
mod translate;

use std::path::{Path, PathBuf};

use plimsoll_sandbox::Origin;

use crate::error::ConfigError;
use crate::notice::Notice;
use crate::paths::{folder, opencode_user_folder, project_directories};
use crate::surroundings::Surroundings;
pub(crate) use translate::{Translation, translate};

/// The folder of a project that OpenCode keeps its things in.
const FOLDER: &str = ".opencode";
/// The names of its files, the lightest first.
const NAMES: [&str; 2] = ["opencode.json", "opencode.jsonc"];
/// Folders beside them with an agent in each file, and the section that it would stand in.
const AGENT_FOLDERS: [(&str, &str); 4] =
    [("agent", "agent"), ("agents", "agent"), ("mode", "mode"), ("modes", "mode")];
/// More agents than anybody tells apart.
const MOST_AGENTS: usize = 100;
/// What else may be beside them and is not read.
const NOT_READ: [&str; 6] = ["command", "commands", "plugin", "plugins", "tool", "tools"];

/// Variables of OpenCode's that would change what is described here.
const VARIABLES: [&str; 3] = ["OPENCODE_CONFIG_CONTENT", "OPENCODE_CONFIG_DIR", "OPENCODE_PERMISSION"];

/// Whether a file is one of OpenCode's, by its name.
pub(crate) fn is_own_name(path: &Path) -> bool {
    let is_named = path.file_name().and_then(|name| name.to_str()).is_some_and(|name| NAMES.contains(&name));
    let is_beside = path.parent().and_then(Path::parent).is_some_and(|above| above.ends_with(FOLDER));
    is_named || (is_beside && section_of(path).is_some())
}

/// The section that the agent of a file would stand in, if it is one of an agent.
fn section_of(path: &Path) -> Option<&'static str> {
    let folder = path.parent()?.file_name()?.to_str()?;
    let (_, section) = AGENT_FOLDERS.iter().find(|(name, _)| *name == folder)?;
    path.extension().is_some_and(|extension| extension == "md").then_some(section)
}

/// The files of agents in one of OpenCode's folders, in order.
fn agent_files(folder: &Path) -> Vec<PathBuf> {
    let inner = AGENT_FOLDERS.iter().map(|(name, _)| folder.join(name));
    let mut files: Vec<PathBuf> = inner
        .filter_map(|inner| std::fs::read_dir(inner).ok())
        .flat_map(|entries| entries.filter_map(Result::ok).map(|entry| entry.path()))
        .filter(|path| section_of(path).is_some() && path.is_file())
        .collect();
    files.sort();
    files.truncate(MOST_AGENTS);
    files
}

/// What a file says in our words.
pub(crate) fn read(text: &str, path: &Path) -> Result<Translation, ConfigError> {
    let Some(section) = section_of(path) else { return Ok(translate(&parse::parse(text, path)?, path)) };
    Ok(match markdown::parse_agent(text, path, section) {
        Ok(parsed) => translate(&parsed, path),
        // One agent that is not understood is no reason to run none.
        Err((line, problem)) => {
            let origin = Origin::File { path: path.to_owned(), line: Some(line) };
            let key = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let reason = Some(format!("its settings are not understood: {problem}"));
            Translation { notices: vec![Notice { key, origin, reason }], ..Translation::default() }
        }
    })
}

/// The user's own files, the lightest first.
pub(crate) fn user_files(around: &Surroundings) -> Vec<PathBuf> {
    let folder = opencode_user_folder(around);
    let names = ["config.json"].into_iter().chain(NAMES);
    let mut files: Vec<PathBuf> =
        folder.iter().flat_map(|folder| names.clone().map(|name| folder.join(name))).collect();
    files.extend(folder.iter().flat_map(|folder| agent_files(folder)));
    // Named by a variable, so by its user.
    files.extend(around.variable("OPENCODE_CONFIG").map(|path| around.directory.join(path)));
    files.retain(|file| file.is_file());
    files
}

/// The files in a directory, the lightest first.
pub(crate) fn files_in(directory: &Path) -> Vec<PathBuf> {
    let folder = directory.join(FOLDER);
    let places = [directory, &folder].into_iter().flat_map(|place| NAMES.map(|name| place.join(name)));
    places.filter(|file| file.is_file()).chain(agent_files(&folder)).collect()
}

/// Whether project files are left alone, as OpenCode leaves them.
pub(crate) fn skips_projects(around: &Surroundings) -> bool {
    let value = around.variable("OPENCODE_DISABLE_PROJECT_CONFIG").unwrap_or_default();
    value == "1" || value.eq_ignore_ascii_case("true")
}

/// What OpenCode reads beside its files and Plimsoll does not: folders with agents, commands and the like, variables.
pub(crate) fn unread(around: &Surroundings) -> Vec<Notice> {
    let own = opencode_user_folder(around).into_iter();
    let projects = project_directories(&around.directory).into_iter().map(|directory| directory.join(FOLDER));
    let folders = own.chain(projects.filter(|_| !skips_projects(around)));
    let inner = folders.flat_map(|folder| NOT_READ.map(|name| folder.join(name)));
    let folders = inner.filter(|folder| folder.is_dir()).map(|folder| Notice::folder(&folder));
    let variables = VARIABLES.into_iter().filter(|name| around.variable(name).is_some());
    folders.chain(variables.map(Notice::variable)).collect()
}

/// The directory that a file belongs to: that of its folder, if it is in one.
pub(crate) fn owner(path: &Path) -> &Path {
    let beside = folder(path);
    let own = if section_of(path).is_some() { folder(beside) } else { beside };
    match own.parent() {
        Some(above) if own.file_name().is_some_and(|name| name == FOLDER) => above,
        _ => own,
    }
}

//! OpenCode's configuration: where its files are, and their translation.
//!
//! A file is translated into the shape of a `plimsoll.toml`, with the lines of its keys, so that layers, trust and
//! errors work the same for both. Keys without a counterpart become a [`Notice`].

mod markdown;
mod notice;
mod parse;
mod translate;

use std::path::{Path, PathBuf};

use plimsoll_sandbox::Origin;

use crate::environment::Environment;
use crate::error::ConfigError;
use crate::notice::Notice;
use crate::paths::{opencode_user_directory, parent_directory, project_directories};
pub use translate::our_tools as opencode_tool_names;
pub(crate) use translate::{Translation, translate};

/// OpenCode's directory in a project.
const DIRECTORY: &str = ".opencode";
/// Names of its files, lowest priority first.
const NAMES: [&str; 2] = ["opencode.json", "opencode.jsonc"];
/// The section of commands.
const COMMANDS: &str = "command";
/// Subdirectories with one agent or command per file, and the section that it belongs to.
const MARKDOWN_DIRECTORIES: [(&str, &str); 6] = [
    ("agent", "agent"),
    ("agents", "agent"),
    ("mode", "mode"),
    ("modes", "mode"),
    ("command", COMMANDS),
    ("commands", COMMANDS),
];
/// Maximum number of files that are read in a subdirectory.
const MAX_FILES: usize = 100;
/// Other contents of the directory, which are not read.
const NOT_READ: [&str; 4] = ["plugin", "plugins", "tool", "tools"];

/// Variables of OpenCode that would change the behaviour described here.
const VARIABLES: [&str; 3] = ["OPENCODE_CONFIG_CONTENT", "OPENCODE_CONFIG_DIR", "OPENCODE_PERMISSION"];

/// Whether a file is one of OpenCode's, by its name.
pub(crate) fn is_own_name(path: &Path) -> bool {
    let is_named = path.file_name().and_then(|name| name.to_str()).is_some_and(|name| NAMES.contains(&name));
    let is_beside = path.parent().and_then(Path::parent).is_some_and(|above| above.ends_with(DIRECTORY));
    is_named || (is_beside && section_of(path).is_some())
}

/// Returns the section that a file's agent or command belongs to; `None` if the file does not define one.
fn section_of(path: &Path) -> Option<&'static str> {
    let directory = path.parent()?.file_name()?.to_str()?;
    let (_, section) = MARKDOWN_DIRECTORIES.iter().find(|(name, _)| *name == directory)?;
    path.extension().is_some_and(|extension| extension == "md").then_some(section)
}

/// Returns the files of agents and commands in one of OpenCode's directories, in order.
fn markdown_files(directory: &Path) -> Vec<PathBuf> {
    let in_subdirectory = |(name, _): &(&str, &str)| {
        let entries = std::fs::read_dir(directory.join(name)).into_iter().flatten();
        let files = entries.filter_map(Result::ok).map(|entry| entry.path());
        let mut files: Vec<PathBuf> =
            files.filter(|path| section_of(path).is_some() && path.is_file()).collect();
        files.sort();
        files.truncate(MAX_FILES);
        files
    };
    let mut files: Vec<PathBuf> = MARKDOWN_DIRECTORIES.iter().flat_map(in_subdirectory).collect();
    files.sort();
    files
}

/// Reads and translates a file.
pub(crate) fn read(text: &str, path: &Path) -> Result<Translation, ConfigError> {
    let Some(section) = section_of(path) else { return Ok(translate(&parse::parse(text, path)?, path)) };
    Ok(match markdown::parse_markdown(text, path, section) {
        Ok(parsed) => translate(&parsed, path),
        // One invalid file must not keep the others from running.
        Err((line, problem)) => {
            let origin = Origin::File { path: path.to_owned(), line: Some(line) };
            let key = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let reason = Some(format!("invalid settings: {problem}"));
            Translation { notices: vec![Notice { key, origin, reason }], ..Translation::default() }
        }
    })
}

/// Returns the user's own files, lowest priority first.
pub(crate) fn user_files(env: &Environment) -> Vec<PathBuf> {
    let directory = opencode_user_directory(env);
    let names = ["config.json"].into_iter().chain(NAMES);
    let mut files: Vec<PathBuf> =
        directory.iter().flat_map(|directory| names.clone().map(|name| directory.join(name))).collect();
    files.extend(directory.iter().flat_map(|directory| markdown_files(directory)));
    // The user named this file by a variable.
    files.extend(env.variable("OPENCODE_CONFIG").map(|path| env.directory.join(path)));
    files.retain(|file| file.is_file());
    files
}

/// Returns the files in a directory, lowest priority first.
pub(crate) fn files_in(directory: &Path) -> Vec<PathBuf> {
    let inner = directory.join(DIRECTORY);
    let places = [directory, &inner].into_iter().flat_map(|place| NAMES.map(|name| place.join(name)));
    places.filter(|file| file.is_file()).chain(markdown_files(&inner)).collect()
}

/// Whether OpenCode is configured to ignore project files.
pub(crate) fn skips_projects(env: &Environment) -> bool {
    let value = env.variable("OPENCODE_DISABLE_PROJECT_CONFIG").unwrap_or_default();
    value == "1" || value.eq_ignore_ascii_case("true")
}

/// Returns notices for files and variables that OpenCode reads and Plimsoll does not.
pub(crate) fn unread(env: &Environment) -> Vec<Notice> {
    let own = opencode_user_directory(env).into_iter();
    let projects = project_directories(&env.directory).into_iter().map(|directory| directory.join(DIRECTORY));
    let directories = own.chain(projects.filter(|_| !skips_projects(env)));
    let inner = directories.flat_map(|directory| NOT_READ.map(|name| directory.join(name)));
    let directories =
        inner.filter(|directory| directory.is_dir()).map(|directory| Notice::directory(&directory));
    let variables = VARIABLES.into_iter().filter(|name| env.variable(name).is_some());
    directories.chain(variables.map(Notice::variable)).collect()
}

/// Returns the directory that a file belongs to: the parent of `.opencode` if the file is inside it.
pub(crate) fn owner(path: &Path) -> &Path {
    let beside = parent_directory(path);
    let own = if section_of(path).is_some() { parent_directory(beside) } else { beside };
    match own.parent() {
        Some(above) if own.file_name().is_some_and(|name| name == DIRECTORY) => above,
        _ => own,
    }
}

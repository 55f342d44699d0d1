//! The sessions that agents keep: where they are, which is the newest for a directory, which has an id.
//!
//! What a session says of its own directory decides, not the name of its folder. Sessions of sub-agents are found by
//! their ids alone.

mod list;
mod places;
mod weigh;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::ValueEnum;
use plimsoll_formats::opencode_db::SessionRow;
use plimsoll_store::Session;
use serde::Serialize;

use crate::error::CliError;
use crate::output::note;
use crate::store::Opened;
use crate::surroundings::Surroundings;
pub(crate) use list::run;
use places::Candidate;
pub(crate) use weigh::first_prompt;

/// So many of the newest files are looked into; older ones are hardly what is meant by the newest session.
const MOST: usize = 500;

/// A tool that keeps sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Tool {
    /// OpenCode.
    Opencode,
    /// Claude Code.
    ClaudeCode,
    /// Codex.
    Codex,
    /// pi.
    Pi,
    /// Plimsoll itself.
    Plimsoll,
}

impl Tool {
    /// Its name for people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Tool::Opencode => "OpenCode",
            Tool::ClaudeCode => "Claude Code",
            Tool::Codex => "Codex",
            Tool::Pi => "pi",
            Tool::Plimsoll => "Plimsoll",
        }
    }
}

/// A session that was found.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// The tool that wrote it.
    pub(crate) tool: Tool,
    /// Its id.
    pub(crate) id: String,
    /// Its file, or the database it is in.
    pub(crate) path: PathBuf,
    /// The directory the agent worked in.
    pub(crate) directory: Option<String>,
    /// When it was last written to, in milliseconds since 1970.
    pub(crate) changed: u64,
    /// How it is kept there.
    pub(crate) kept: Kept,
}

/// How a session is kept.
#[derive(Clone, Debug)]
pub(crate) enum Kept {
    /// As a file of its own.
    File,
    /// In OpenCode's database, which says this about it.
    Row(Box<SessionRow>),
    /// In Plimsoll's database.
    Stored(Arc<Opened>, Box<Session>),
}

/// Whose sessions are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Those of every tool.
    All,
    /// Those of every tool but Plimsoll.
    Others,
    /// Those of one tool.
    Only(Tool),
}

impl Found {
    /// It for people.
    pub(crate) fn name(&self, around: &Surroundings) -> String {
        let path = around.short(&self.path);
        match self.kept {
            Kept::Row(_) | Kept::Stored(..) => format!("`{}` in `{path}`", self.id),
            Kept::File => format!("`{path}`"),
        }
    }
}

/// Everything there is, newest first.
pub(crate) struct Search {
    candidates: Vec<Candidate>,
    /// What could not be looked into.
    pub(crate) problems: Vec<String>,
}

impl Search {
    /// Look in the usual places.
    pub(crate) fn new(around: &Surroundings, scope: Scope) -> Search {
        let mut search = places::search(around, scope);
        search.candidates.sort_by(|a, b| b.changed().cmp(&a.changed()).then_with(|| b.path().cmp(a.path())));
        search
    }

    /// The sessions of a directory or of all, newest first. Files are opened as they are asked for.
    pub(crate) fn sessions<'a>(&'a self, directory: Option<&'a Path>) -> impl Iterator<Item = Found> + 'a {
        let own = self.candidates.iter().filter(|candidate| !candidate.is_sub_agent());
        let found = own.filter_map(Candidate::look);
        found.filter(move |found| match directory {
            Some(directory) => found.directory.as_deref().is_some_and(|own| Path::new(own) == directory),
            None => true,
        })
    }

    /// The sessions whose ids are this or begin with it; where one is exactly this, that one alone. Of a session that
    /// was stored the stored one is taken: only it can have been reduced since.
    pub(crate) fn with_id(&self, id: &str) -> Vec<Found> {
        // Every tool writes the id into the name of the file, so only a few need to be opened.
        let named = self.candidates.iter().filter(|candidate| candidate.may_have(id));
        let found: Vec<Found> =
            named.filter_map(Candidate::look).filter(|found| found.id.starts_with(id)).collect();
        let is_stored = |one: &&Found| one.tool == Tool::Plimsoll;
        let exact: Vec<&Found> = found.iter().filter(|found| found.id == id).collect();
        if let Some(one) = exact.iter().copied().find(is_stored).or(exact.first().copied()) {
            return vec![one.clone()];
        }
        let twin = |one: &Found| found.iter().filter(is_stored).any(|stored| stored.id == one.id);
        found.iter().filter(|one| is_stored(one) || !twin(one)).cloned().collect()
    }

    /// As much of a session's id as tells it from all others, but at least `least` bytes after its prefix.
    pub(crate) fn short_id<'a>(&self, id: &'a str, least: usize) -> &'a str {
        let from = id.find('_').map_or(0, |end| end + 1) + least;
        let ends = id.char_indices().map(|(at, _)| at).filter(|end| *end >= from);
        // The same session may be there twice: with the tool that wrote it, and stored.
        let others: Vec<&Candidate> = self.candidates.iter().filter(|other| !other.may_have(id)).collect();
        let is_unique = |end: &usize| !others.iter().any(|other| other.may_have(&id[..*end]));
        ends.into_iter().find(is_unique).map_or(id, |end| &id[..end])
    }

    fn tell_problems(&self) {
        self.problems.iter().for_each(|problem| note(&format!("note: {problem}")));
    }
}

/// The newest session for the current directory.
pub(crate) fn newest(around: &Surroundings) -> Result<Found, CliError> {
    let mut search = Search::new(around, Scope::All);
    search.tell_problems();
    search.candidates.truncate(MOST);
    let newest = search.sessions(Some(&around.directory)).next();
    newest.ok_or_else(|| {
        let directory = around.short(&around.directory);
        CliError::usage(format!(
            "found no session of OpenCode, Claude Code, Codex, pi or Plimsoll for `{directory}`"
        ))
        .hint(
            "`plimsoll sessions --all` lists what there is; or give a transcript, or `-` for standard input",
        )
    })
}

/// The one session with this id, or one that begins with it.
pub(crate) fn with_id(id: &str, around: &Surroundings, scope: Scope) -> Result<Option<Found>, CliError> {
    let search = Search::new(around, scope);
    let mut found = search.with_id(id);
    if found.len() > 1 {
        return Err(ambiguous(id, found.iter().map(|found| (found.id.as_str(), found.tool.name()))));
    }
    if found.is_empty() {
        search.tell_problems();
    }
    Ok(found.pop())
}

/// The one row of a database with this id, or one that begins with it.
pub(crate) fn row_with_id(rows: &[SessionRow], id: &str) -> Result<Option<String>, CliError> {
    let ids: Vec<&str> = rows.iter().filter_map(|row| row.info.id.as_deref()).collect();
    if ids.contains(&id) {
        return Ok(Some(id.to_owned()));
    }
    let titled = rows
        .iter()
        .filter_map(|row| Some((row.info.id.as_deref()?, row.info.title.as_deref().unwrap_or(""))));
    let near: Vec<(&str, &str)> = titled.filter(|(own, _)| own.starts_with(id)).collect();
    match near.as_slice() {
        [] => Ok(None),
        [(own, _)] => Ok(Some((*own).to_owned())),
        _ => Err(ambiguous(id, near.into_iter())),
    }
}

pub(crate) fn ambiguous<'a>(id: &str, candidates: impl Iterator<Item = (&'a str, &'a str)>) -> CliError {
    let mut list: Vec<String> = candidates.map(|(id, what)| format!("\n  {id}  {what}")).collect();
    let more = list.len().saturating_sub(10);
    list.truncate(10);
    if more > 0 {
        list.push(format!("\n  … and {more} more"));
    }
    CliError::usage(format!("more than one session begins with `{id}`:{}", list.concat()))
        .hint("give more of the id")
}

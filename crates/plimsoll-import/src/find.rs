//! Finding sessions: the newest of a directory, or by id.
//!
//! A session belongs to the directory that it records, not to the one that the directory of its file is named after. Sessions of
//! sub-agents are only found by id.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use plimsoll_formats::database::{Database, SessionRow};
use plimsoll_store::{Filter, Session, Store, StoreError};

use crate::error::ImportError;
use crate::keeping;
use crate::keeping::stem;
use crate::places::{self, Beginning, FilePlace, Places, Problem};
use crate::tool::Tool;

/// Maximum number of files opened to find the newest session of a directory, newest first. Older ones are unlikely to be meant.
const MOST: usize = 500;

/// A session that was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The tool that wrote it.
    pub tool: Tool,
    /// Id.
    pub id: String,
    /// Session file, or the database that contains it.
    pub path: PathBuf,
    /// Working directory of its agent.
    pub directory: Option<String>,
    /// Time of the last write, in milliseconds since 1970.
    pub changed: u64,
    /// The stored session that it was exported from.
    pub origin: Option<String>,
    /// Storage.
    pub kept: SessionStorage,
}

/// Storage of a session.
#[derive(Clone, Debug)]
pub enum SessionStorage {
    /// A separate file.
    File,
    /// A row of a tool's database.
    Row(Box<SessionRow>),
    /// In Plimsoll's store.
    Stored(Box<Session>),
}

/// Tools whose sessions are searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Every tool.
    All,
    /// Every tool except Plimsoll.
    Others,
    /// A single tool.
    Only(Tool),
}

impl Scope {
    /// Whether this scope includes a tool.
    pub fn holds(self, tool: Tool) -> bool {
        match self {
            Scope::All => true,
            Scope::Others => tool != Tool::Plimsoll,
            Scope::Only(only) => tool == only,
        }
    }

    /// Parses `TOOL:ID`; an id without a tool is searched in this scope.
    ///
    /// ```
    /// use plimsoll_import::{Scope, Tool};
    /// assert_eq!(Scope::All.narrow("codex:019e"), (Scope::Only(Tool::Codex), "019e"));
    /// assert_eq!(Scope::Others.narrow("019e"), (Scope::Others, "019e"));
    /// ```
    pub fn narrow(self, id: &str) -> (Scope, &str) {
        let named = id.split_once(':').and_then(|(tool, rest)| {
            let tool = Tool::ALL.into_iter().find(|known| known.key() == tool)?;
            self.holds(tool).then_some((Scope::Only(tool), rest))
        });
        named.unwrap_or((self, id))
    }
}

/// A possible session.
enum Candidate {
    /// A file that was not opened yet.
    File(FilePlace),
    /// A row of a database.
    Row(Box<Found>),
}

impl Candidate {
    fn tool(&self) -> Tool {
        match self {
            Candidate::File(file) => file.tool,
            Candidate::Row(found) => found.tool,
        }
    }

    fn changed(&self) -> u64 {
        match self {
            Candidate::File(file) => file.changed,
            Candidate::Row(found) => found.changed,
        }
    }

    fn path(&self) -> &Path {
        match self {
            Candidate::File(file) => &file.path,
            Candidate::Row(found) => &found.path,
        }
    }

    /// Whether it belongs to a sub-agent, judged without opening it.
    fn is_sub_agent(&self) -> bool {
        match self {
            Candidate::File(FilePlace { tool, path, .. }) => keeping::is_sub_agent(*tool, path),
            Candidate::Row(found) => match &found.kept {
                SessionStorage::File => false,
                SessionStorage::Row(row) => row.is_sub_agent,
                SessionStorage::Stored(session) => session.parent.is_some(),
            },
        }
    }

    /// Whether its id may start with `id`.
    fn may_have(&self, id: &str) -> bool {
        match self {
            Candidate::File(file) => keeping::may_have(file.tool, &file.path, id),
            Candidate::Row(found) => found.id.starts_with(id),
        }
    }

    /// Opens it. Returns `None` if it cannot be opened or belongs to a sub-agent.
    fn open(&self) -> Option<Found> {
        match self {
            Candidate::Row(found) => Some(found.as_ref().clone()),
            Candidate::File(FilePlace { tool, path, changed }) => {
                let beginning = Beginning::of(path)?;
                let id = match tool {
                    // The name of the file has priority, because a resumed session starts with records of the previous session
                    // under the id of that one.
                    Tool::ClaudeCode => None,
                    _ => keeping::id_of(*tool, path).or(beginning.id),
                };
                let id = id.unwrap_or_else(|| stem(path).to_owned());
                let directory = beginning.directory.or_else(|| keeping::directory_of(*tool, path));
                let (tool, path, changed) = (*tool, path.clone(), *changed);
                Some(Found {
                    tool,
                    id,
                    path,
                    directory,
                    changed,
                    origin: beginning.origin,
                    kept: SessionStorage::File,
                })
            }
        }
    }
}

/// All sessions, newest first.
#[derive(Default)]
pub struct Search {
    candidates: Vec<Candidate>,
    /// Places that could not be searched.
    pub problems: Vec<Problem>,
}

impl Search {
    /// Searches the places of other tools.
    pub fn new(places: &Places, scope: Scope) -> Search {
        let mut search = Search::default();
        let mut files = Vec::new();
        for (tool, path) in places.directories.iter().filter(|(tool, _)| scope.holds(*tool)) {
            places::files(path, *tool, &mut files, &mut search.problems);
        }
        search.candidates.extend(files.into_iter().map(Candidate::File));
        for (tool, path) in &places.databases {
            if scope.holds(*tool) && path.is_file() {
                search.add_rows(*tool, path);
            }
        }
        search.sort();
        search
    }

    fn add_rows(&mut self, tool: Tool, path: &Path) {
        let rows = match Database::open(path).and_then(|database| database.sessions()) {
            Ok(rows) => rows,
            Err(error) => {
                let (path, why) = (path.to_owned(), error.to_string());
                return self.problems.push(Problem { path, why });
            }
        };
        // goose imports files of older versions into its database without deleting them, so they would be listed twice.
        let ids: HashSet<&str> = rows.iter().filter_map(|row| row.info.id.as_deref()).collect();
        self.candidates.retain(|known| match known {
            Candidate::File(file) => file.tool != tool || !ids.contains(stem(&file.path)),
            Candidate::Row(_) => true,
        });
        for row in rows {
            let Some(id) = row.info.id.clone() else { continue };
            let changed = row.info.updated.or(row.info.started).map_or(0, |at| at.0);
            let directory = row.info.directory.clone();
            let kept = SessionStorage::Row(Box::new(row));
            let found = Found { tool, id, path: path.to_owned(), directory, changed, origin: None, kept };
            self.candidates.push(Candidate::Row(Box::new(found)));
        }
    }

    /// Adds the sessions of a store at a path.
    pub fn add_store(&mut self, store: &dyn Store, path: &Path) -> Result<(), StoreError> {
        for session in store.sessions(&Filter { all: true, ..Filter::default() })? {
            let (id, path) = (session.id.to_string(), path.to_owned());
            let (directory, changed) = (session.directory.clone(), session.updated.0);
            let kept = SessionStorage::Stored(Box::new(session));
            let found = Found { tool: Tool::Plimsoll, id, path, directory, changed, origin: None, kept };
            self.candidates.push(Candidate::Row(Box::new(found)));
        }
        self.sort();
        Ok(())
    }

    fn sort(&mut self) {
        self.candidates.sort_by(|a, b| b.changed().cmp(&a.changed()).then_with(|| b.path().cmp(a.path())));
    }

    /// Returns the sessions of a directory, or all, newest first. Files are opened lazily.
    pub fn sessions<'a>(&'a self, directory: Option<&'a Path>) -> impl Iterator<Item = Found> + 'a {
        of_directory(&self.candidates, directory)
    }

    /// Returns the newest session of a directory, or of its nearest parent that has any, because agents are started at the top
    /// of a project but users ask about them from directories below. `home` and its parents are not projects.
    pub fn newest(&self, directory: &Path, home: Option<&Path>) -> Option<Found> {
        let newest = &self.candidates[..self.candidates.len().min(MOST)];
        let above: Vec<&Path> = projects_around(directory, home).skip(1).collect();
        let mut nearest: Option<(usize, Found)> = None;
        for found in of_directory(newest, None) {
            let Some(own) = found.directory.as_deref().map(Path::new) else { continue };
            if own == directory {
                return Some(found);
            }
            let steps = above.iter().position(|above| *above == own);
            if let Some(steps) = steps.filter(|steps| nearest.as_ref().is_none_or(|(known, _)| steps < known))
            {
                nearest = Some((steps, found));
            }
        }
        nearest.map(|(_, found)| found)
    }

    /// Returns the directory whose sessions count as those of `directory`: itself if it has any, or the nearest parent that
    /// does.
    pub fn project(&self, directory: &Path, home: Option<&Path>) -> Option<PathBuf> {
        if self.sessions(Some(directory)).next().is_some() {
            return Some(directory.to_owned());
        }
        self.newest(directory, home)?.directory.map(PathBuf::from)
    }

    /// Returns the sessions whose ids start with `id`; if one matches exactly, only that one. `TOOL:ID` selects a tool. For an
    /// imported session, the stored copy is returned, because only the copy can have been reduced since.
    pub fn with_id(&self, id: &str) -> Vec<Found> {
        let (scope, id) = Scope::All.narrow(id);
        // Every tool writes the id into the file name, so only a few files need to be opened.
        let named = self.candidates.iter().filter(|it| scope.holds(it.tool()) && it.may_have(id));
        let found: Vec<Found> =
            named.filter_map(Candidate::open).filter(|found| found.id.starts_with(id)).collect();
        let is_stored = |one: &&Found| one.tool == Tool::Plimsoll;
        let exact: Vec<&Found> = found.iter().filter(|found| found.id == id).collect();
        if let Some(one) = exact.iter().copied().find(is_stored).or(exact.first().copied()) {
            return vec![one.clone()];
        }
        let twin = |one: &Found| found.iter().filter(is_stored).any(|stored| stored.id == one.id);
        found.iter().filter(|one| is_stored(one) || !twin(one)).cloned().collect()
    }

    /// Returns the only session whose id is or starts with `id`.
    pub fn one(&self, id: &str) -> Result<Option<Found>, ImportError> {
        let mut found = self.with_id(id);
        if found.len() > 1 {
            let named = found.iter().map(|found| (found.id.clone(), found.tool.name().to_owned()));
            return Err(ImportError::Ambiguous { id: id.to_owned(), candidates: named.collect() });
        }
        Ok(found.pop())
    }

    /// Returns the session of another tool that a stored one was imported from, by id.
    pub fn source_of(&self, stored: &Found) -> Option<Found> {
        let named =
            self.candidates.iter().filter(|it| it.tool() != Tool::Plimsoll && it.may_have(&stored.id));
        named.filter_map(Candidate::open).find(|found| found.id == stored.id)
    }

    /// Returns ids of sessions in databases, and names of files, which contain the ids.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.candidates.iter().filter_map(|candidate| match candidate {
            // Gemini CLI writes only the start of an id, which does not distinguish sessions.
            Candidate::File(file) if file.tool == Tool::Gemini => None,
            Candidate::File(file) => Some(keeping::name_of(file.tool, &file.path)),
            Candidate::Row(found) => Some(found.id.as_str()),
        })
    }
}

/// Returns a directory and its parents that can be the project it belongs to, nearest first. `home` and its parents are not
/// projects.
///
/// ```
/// use std::path::Path;
/// let around = plimsoll_import::projects_around("/home/ada/code/src".as_ref(), Some("/home/ada".as_ref()));
/// assert_eq!(around.collect::<Vec<_>>(), ["/home/ada/code/src", "/home/ada/code"].map(Path::new));
/// ```
pub fn projects_around<'a>(
    directory: &'a Path,
    home: Option<&'a Path>,
) -> impl Iterator<Item = &'a Path> + use<'a> {
    let is_project = move |above: &&Path| Some(*above) != home && above.parent().is_some();
    std::iter::once(directory).chain(directory.ancestors().skip(1).take_while(is_project))
}

fn of_directory<'a>(
    candidates: &'a [Candidate],
    directory: Option<&'a Path>,
) -> impl Iterator<Item = Found> + 'a {
    let own = candidates.iter().filter(|candidate| !candidate.is_sub_agent());
    own.filter_map(Candidate::open).filter(move |found| match directory {
        Some(directory) => found.directory.as_deref().is_some_and(|own| Path::new(own) == directory),
        None => true,
    })
}

/// Returns the only row of a database whose id is or starts with `id`.
pub fn row_with_id(rows: &[SessionRow], id: &str) -> Result<Option<String>, ImportError> {
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
        _ => {
            let named = near.into_iter().map(|(own, title)| (own.to_owned(), title.to_owned()));
            Err(ImportError::Ambiguous { id: id.to_owned(), candidates: named.collect() })
        }
    }
}

//! The sessions that agents keep: which is the newest for a directory, which has an id.
//!
//! What a session says of its own directory decides, not the name of its folder. Sessions of sub-agents are found by
//! their ids alone.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use plimsoll_formats::database::{Database, SessionRow};
use plimsoll_store::{Filter, Session, Store, StoreError};

use crate::error::ImportError;
use crate::keeping;
use crate::keeping::stem;
use crate::places::{self, Beginning, FilePlace, Places, Problem};
use crate::tool::Tool;

/// So many of the newest files are looked into; older ones are hardly what is meant by the newest session.
const MOST: usize = 500;

/// A session that was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The tool that wrote it.
    pub tool: Tool,
    /// Its id.
    pub id: String,
    /// Its file, or the database it is in.
    pub path: PathBuf,
    /// The directory the agent worked in.
    pub directory: Option<String>,
    /// When it was last written to, in milliseconds since 1970.
    pub changed: u64,
    /// The stored session that it was handed over from.
    pub origin: Option<String>,
    /// How it is kept there.
    pub kept: Kept,
}

/// How a session is kept.
#[derive(Clone, Debug)]
pub enum Kept {
    /// As a file of its own.
    File,
    /// In the database of a tool, which says this about it.
    Row(Box<SessionRow>),
    /// In Plimsoll's store.
    Stored(Box<Session>),
}

/// Whose sessions are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Those of every tool.
    All,
    /// Those of every tool but Plimsoll.
    Others,
    /// Those of one tool.
    Only(Tool),
}

impl Scope {
    /// Whether sessions of a tool are looked for.
    pub fn holds(self, tool: Tool) -> bool {
        match self {
            Scope::All => true,
            Scope::Others => tool != Tool::Plimsoll,
            Scope::Only(only) => tool == only,
        }
    }

    /// The scope and the id that `TOOL:ID` stands for; an id alone is looked for in this scope.
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

/// Something that may be a session.
enum Candidate {
    /// A file, not opened yet.
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

    /// Whether it is a sub-agent's, as far as can be told without opening it.
    fn is_sub_agent(&self) -> bool {
        match self {
            Candidate::File(FilePlace { tool, path, .. }) => keeping::is_sub_agent(*tool, path),
            Candidate::Row(found) => match &found.kept {
                Kept::File => false,
                Kept::Row(row) => row.is_sub_agent,
                Kept::Stored(session) => session.parent.is_some(),
            },
        }
    }

    /// Whether its id may begin with this.
    fn may_have(&self, id: &str) -> bool {
        match self {
            Candidate::File(file) => keeping::may_have(file.tool, &file.path, id),
            Candidate::Row(found) => found.id.starts_with(id),
        }
    }

    /// Open it. Nothing if it cannot be opened or is a sub-agent's after all.
    fn open(&self) -> Option<Found> {
        match self {
            Candidate::Row(found) => Some(found.as_ref().clone()),
            Candidate::File(FilePlace { tool, path, changed }) => {
                let beginning = Beginning::of(path)?;
                let id = match tool {
                    // A session that was resumed starts with records of the one before, under its id.
                    Tool::ClaudeCode => None,
                    _ => keeping::id_of(*tool, path).or(beginning.id),
                };
                let id = id.unwrap_or_else(|| stem(path).to_owned());
                let directory = beginning.directory.or_else(|| keeping::directory_of(*tool, path));
                let (tool, path, changed) = (*tool, path.clone(), *changed);
                Some(Found { tool, id, path, directory, changed, origin: beginning.origin, kept: Kept::File })
            }
        }
    }
}

/// Everything there is, newest first.
#[derive(Default)]
pub struct Search {
    candidates: Vec<Candidate>,
    /// What could not be looked into.
    pub problems: Vec<Problem>,
}

impl Search {
    /// Look into the places of other tools.
    pub fn new(places: &Places, scope: Scope) -> Search {
        let mut search = Search::default();
        let mut files = Vec::new();
        for (tool, folder) in places.folders.iter().filter(|(tool, _)| scope.holds(*tool)) {
            places::files(folder, *tool, &mut files, &mut search.problems);
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
        // goose takes the files of older versions into its database and leaves them where they are.
        let ids: HashSet<&str> = rows.iter().filter_map(|row| row.info.id.as_deref()).collect();
        self.candidates.retain(|known| match known {
            Candidate::File(file) => file.tool != tool || !ids.contains(stem(&file.path)),
            Candidate::Row(_) => true,
        });
        for row in rows {
            let Some(id) = row.info.id.clone() else { continue };
            let changed = row.info.updated.or(row.info.started).map_or(0, |at| at.0);
            let directory = row.info.directory.clone();
            let kept = Kept::Row(Box::new(row));
            let found = Found { tool, id, path: path.to_owned(), directory, changed, origin: None, kept };
            self.candidates.push(Candidate::Row(Box::new(found)));
        }
    }

    /// Add the sessions of a store, which is at a path.
    pub fn add_store(&mut self, store: &dyn Store, path: &Path) -> Result<(), StoreError> {
        for session in store.sessions(&Filter { all: true, ..Filter::default() })? {
            let (id, path) = (session.id.to_string(), path.to_owned());
            let (directory, changed) = (session.directory.clone(), session.updated.0);
            let kept = Kept::Stored(Box::new(session));
            let found = Found { tool: Tool::Plimsoll, id, path, directory, changed, origin: None, kept };
            self.candidates.push(Candidate::Row(Box::new(found)));
        }
        self.sort();
        Ok(())
    }

    fn sort(&mut self) {
        self.candidates.sort_by(|a, b| b.changed().cmp(&a.changed()).then_with(|| b.path().cmp(a.path())));
    }

    /// The sessions of a directory or of all, newest first. Files are opened as they are asked for.
    pub fn sessions<'a>(&'a self, directory: Option<&'a Path>) -> impl Iterator<Item = Found> + 'a {
        of_directory(&self.candidates, directory)
    }

    /// The newest session of a directory, or of the nearest one above it that has any: agents are started at the top
    /// of a project and asked about from inside. What is above `home`, and `home` itself, is no project.
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

    /// The directory whose sessions are meant in another: that one where it has any, or the nearest above that has.
    pub fn project(&self, directory: &Path, home: Option<&Path>) -> Option<PathBuf> {
        if self.sessions(Some(directory)).next().is_some() {
            return Some(directory.to_owned());
        }
        self.newest(directory, home)?.directory.map(PathBuf::from)
    }

    /// The sessions whose ids are this or begin with it; where one is exactly this, that one alone. `TOOL:ID` names the
    /// tool. Of a session that was stored the stored one is taken: only it can have been reduced since.
    pub fn with_id(&self, id: &str) -> Vec<Found> {
        let (scope, id) = Scope::All.narrow(id);
        // Every tool writes the id into the name of the file, so only a few need to be opened.
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

    /// The one session with this id, or whose id begins with it.
    pub fn one(&self, id: &str) -> Result<Option<Found>, ImportError> {
        let mut found = self.with_id(id);
        if found.len() > 1 {
            let named = found.iter().map(|found| (found.id.clone(), found.tool.name().to_owned()));
            return Err(ImportError::Ambiguous { id: id.to_owned(), candidates: named.collect() });
        }
        Ok(found.pop())
    }

    /// The session of another tool that a stored one is a copy of, by its id.
    pub fn source_of(&self, stored: &Found) -> Option<Found> {
        let named =
            self.candidates.iter().filter(|it| it.tool() != Tool::Plimsoll && it.may_have(&stored.id));
        named.filter_map(Candidate::open).find(|found| found.id == stored.id)
    }

    /// The ids of sessions in databases, and the names of files, which have the ids in them.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.candidates.iter().filter_map(|candidate| match candidate {
            // Gemini CLI writes only the beginning of an id, which tells no two apart.
            Candidate::File(file) if file.tool == Tool::Gemini => None,
            Candidate::File(file) => Some(keeping::name_of(file.tool, &file.path)),
            Candidate::Row(found) => Some(found.id.as_str()),
        })
    }
}

/// A directory, and those above it that can be the project it is in, the nearest first. What is above `home`, and `home`
/// itself, is no project.
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

/// The one row of a database with this id, or whose id begins with it.
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

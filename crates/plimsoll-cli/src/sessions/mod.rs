//! The sessions there are: those of other tools and Plimsoll's own, looked up for a command.

mod list;

use std::path::Path;
use std::sync::Arc;

use plimsoll_import::{Found, ImportError, Kept, Places, Problem, Scope, Search, Tool};

use crate::args::PolicyArgs;
use crate::config::Config;
use crate::error::CliError;
use crate::output::note;
use crate::store::Opened;
use crate::surroundings::Surroundings;
pub(crate) use list::run;

/// Everything there is, and the database that Plimsoll's own are in.
pub(crate) struct Lookup {
    search: Search,
    opened: Option<Arc<Opened>>,
    /// What could not be looked into, in plain words.
    problems: Vec<String>,
}

/// A session that was found, and the database it is in if it is one of Plimsoll's.
pub(crate) struct Located {
    pub(crate) found: Found,
    pub(crate) opened: Option<Arc<Opened>>,
    /// The session of another tool that a stored one is a copy of.
    pub(crate) source: Option<Found>,
}

impl Lookup {
    /// Look in the usual places.
    pub(crate) fn new(around: &Surroundings, scope: Scope) -> Lookup {
        let places = Places::new(around.home.as_deref(), |name| around.variable(name).map(str::to_owned));
        let search = Search::new(&places, scope);
        let tell =
            |problem: &Problem| format!("cannot read `{}`: {}", around.short(&problem.path), problem.why);
        let problems = search.problems.iter().map(tell).collect();
        let mut lookup = Lookup { search, opened: None, problems };
        if scope.holds(Tool::Plimsoll)
            && let Err(error) = lookup.add_stored(around)
        {
            lookup.problems.push(error.message().to_owned());
        }
        lookup
    }

    /// Plimsoll's own.
    fn add_stored(&mut self, around: &Surroundings) -> Result<(), CliError> {
        let config = Config::load(&PolicyArgs::default(), around)?;
        let Some(opened) = Opened::if_there(&config)? else {
            // A database that was named is expected to be there.
            let named =
                around.store.as_ref().map(|path| format!("there is no database `{}` yet", path.display()));
            self.problems.extend(named);
            return Ok(());
        };
        self.search.add_store(opened.archive.store(), &opened.path)?;
        self.opened = Some(Arc::new(opened));
        Ok(())
    }

    fn tell_problems(&self) {
        self.problems.iter().for_each(|problem| note(&format!("note: {problem}")));
    }

    fn located(self, found: Found) -> Located {
        let is_stored = matches!(found.kept, Kept::Stored(_));
        let source = if is_stored { self.search.source_of(&found) } else { None };
        Located { found, opened: self.opened.filter(|_| is_stored), source }
    }
}

/// A session for people.
pub(crate) fn name(found: &Found, around: &Surroundings) -> String {
    let path = around.short(&found.path);
    match found.kept {
        Kept::Row(_) | Kept::Stored(_) => format!("`{}` in `{path}`", found.id),
        Kept::File => format!("`{path}`"),
    }
}

/// The newest session for the current directory.
pub(crate) fn newest(around: &Surroundings) -> Result<Located, CliError> {
    let lookup = Lookup::new(around, Scope::All);
    lookup.tell_problems();
    let directory: &Path = &around.directory;
    let found = lookup.search.newest(directory, around.home.as_deref()).ok_or_else(|| {
        let directory = around.short(directory);
        CliError::usage(format!("found no session of any known tool for `{directory}`")).hint(
            "`plimsoll sessions --all` lists what there is; or give a transcript, or `-` for standard input",
        )
    })?;
    Ok(lookup.located(found))
}

/// The sessions of a scope. What could not be looked into is not told.
pub(crate) fn search(around: &Surroundings, scope: Scope) -> Search {
    Lookup::new(around, scope).search
}

/// The one session with this id, or one that begins with it; `TOOL:ID` names the tool.
pub(crate) fn with_id(id: &str, around: &Surroundings, scope: Scope) -> Result<Option<Located>, CliError> {
    let (scope, id) = scope.narrow(id);
    let lookup = Lookup::new(around, scope);
    let found = lookup.search.one(id)?;
    if found.is_none() {
        lookup.tell_problems();
    }
    Ok(found.map(|found| lookup.located(found)))
}

/// The session that an id was to name, for a message that there is none.
pub(crate) fn described(id: &str, scope: Scope) -> String {
    match scope.narrow(id) {
        (Scope::Only(tool), id) => format!("session of {} whose id begins with `{id}`", tool.name()),
        (_, id) => format!("session whose id begins with `{id}`"),
    }
}

pub(crate) fn none_with(id: &str) -> CliError {
    CliError::usage(format!("no session has an id that begins with `{id}`"))
        .hint("`plimsoll sessions --all` lists the sessions there are")
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

impl From<ImportError> for CliError {
    fn from(error: ImportError) -> CliError {
        match error {
            ImportError::Ambiguous { id, candidates } => {
                ambiguous(&id, candidates.iter().map(|(id, what)| (id.as_str(), what.as_str())))
            }
            ImportError::Store(error) => error.into(),
            other => CliError::failed(other.to_string()),
        }
    }
}

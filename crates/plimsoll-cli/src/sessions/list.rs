//! `plimsoll sessions`.

use std::process::ExitCode;

use plimsoll::Millis;
use plimsoll_import::{Found, ImportError, Scope, ShortIds, Tool, Weighed, WeighedCache, weigh_all};
use serde_json::{Value, json};

use super::Lookup;
use crate::args::{ListArgs, PolicyArgs, SessionsArgs, SessionsCommand};
use crate::config::Config;
use crate::error::CliError;
use crate::handover;
use crate::output::{Column, Holds, Output, Table, note};
use crate::progress::Progress;
use crate::recorded::{RecordedFigures, dollars};
use crate::store;
use crate::surroundings::Surroundings;
use crate::when::{age, now};

/// So much of an id is shown at least, after its prefix.
const ID: usize = 8;

/// So much is shown of a directory where ids need the room.
const SHORT_DIRECTORY: usize = 9;

/// List sessions, or do something else with them.
pub(crate) fn run(
    args: &SessionsArgs,
    around: &Surroundings,
    output: &mut Output,
) -> Result<ExitCode, CliError> {
    let args = match &args.command {
        Some(SessionsCommand::List(list)) => list,
        None => &args.list,
        Some(SessionsCommand::Show(args)) => return store::show(args, around, output),
        Some(SessionsCommand::Import(args)) => return store::import(args, around, output),
        Some(SessionsCommand::Handover(args)) => return handover::run(args, around, output),
        Some(SessionsCommand::Export(args)) => return store::export(args, around, output),
        Some(SessionsCommand::Rm { ids, force }) => return store::rm(ids, *force, around, output),
        Some(SessionsCommand::Purge(args)) => return store::purge(args, around, output),
        Some(SessionsCommand::Gc) => return store::gc(around, output),
        Some(SessionsCommand::Check(args)) => return store::check(args, around, output),
    };
    let flags = PolicyArgs { policy: args.policy.clone(), context: args.context };
    let config = Config::load(&flags, around)?;
    let lookup = Lookup::new(around, args.tool.map_or(Scope::All, Scope::Only));
    lookup.tell_problems();
    let search = &lookup.search;
    // Agents are started at the top of a project and asked about from inside, as everywhere else.
    let project = search.project(&around.directory, around.home.as_deref());
    let project = project.unwrap_or_else(|| around.directory.clone());
    let directory = (!args.all).then_some(project.as_path());
    let found: Vec<Found> = search.sessions(directory).take(args.limit).collect();
    let mut rows = Vec::new();
    for (found, weighed) in found.iter().zip(weigh(&lookup, &found, &config, around)) {
        match weighed {
            Ok(weighed) => rows.push((found, weighed)),
            Err(error) => note(&format!("note: cannot read {}: {error}", super::name(found, around))),
        }
    }
    if output.json {
        let rows: Vec<Value> = rows.iter().map(|(found, weighed)| as_json(found, weighed)).collect();
        output.json(&rows)?;
    } else if rows.is_empty() {
        note(&nothing(args, around));
    } else {
        if !args.all {
            let which = if project == around.directory { "" } else { ", the nearest above that has any" };
            let directory = around.short(&project);
            note(&format!("sessions of `{directory}`{which}; `--all` lists every directory"));
        }
        let width = output.width();
        let usual = if width < 110 { 12 } else { 32 };
        let ids = &search.short_ids();
        let page = |longest_directory| Page { ids, around, directories: args.all, longest_directory };
        let mut table = page(usual).table(&rows);
        if !table.fits_with_words_cut(width) {
            // Ids are given back, and stay whole: directories give way to long ones.
            table = page(SHORT_DIRECTORY).table(&rows);
        }
        output.table_or_stacks(&table)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn weigh(
    lookup: &Lookup,
    found: &[Found],
    config: &Config,
    around: &Surroundings,
) -> Vec<Result<Weighed, ImportError>> {
    let progress = Progress::things("reading sessions", found.len() as u64);
    let store = lookup.opened.as_ref().map(|opened| opened.archive.store());
    let folder = around.cache_folder().map(|folder| folder.join("sessions"));
    let cache = folder.map(|folder| WeighedCache::new(folder, &config.policy));
    weigh_all(found, store, &config.policy, cache.as_ref(), &|| progress.step())
}

fn nothing(args: &ListArgs, around: &Surroundings) -> String {
    let tool = args.tool.map_or("any known tool", Tool::name);
    let directory = around.short(&around.directory);
    let mut told = format!("there are no sessions of {tool}");
    if !args.all {
        told.push_str(&format!(" for `{directory}`; `--all` lists every directory"));
    }
    if args.tool == Some(Tool::Plimsoll) {
        told.push_str("; `plimsoll sessions import FILE` stores one");
    }
    told
}

fn recorded(weighed: &Weighed) -> RecordedFigures {
    RecordedFigures::at(&weighed.recorded, weighed.started.map(Millis))
}

fn as_json(found: &Found, weighed: &Weighed) -> Value {
    json!({
        "tool": found.tool,
        "id": found.id,
        "path": found.path,
        "directory": found.directory,
        "started": weighed.started,
        "updated": found.changed,
        "messages": weighed.messages,
        "window": weighed.window,
        "measured": weighed.is_measured,
        "recorded": recorded(weighed),
        "model": weighed.model,
        "title": weighed.title,
    })
}

/// What a table of sessions depends on.
struct Page<'a> {
    ids: &'a ShortIds<'a>,
    around: &'a Surroundings,
    /// Directories have a column only where there may be more than one.
    directories: bool,
    /// So much is shown of a directory at most.
    longest_directory: usize,
}

impl Page<'_> {
    fn table(&self, rows: &[(&Found, Weighed)]) -> Table {
        let column = |heading, holds| Column { heading, holds };
        let mut columns = vec![column("ID", Holds::Names), column("TOOL", Holds::Names)];
        columns.extend(self.directories.then(|| column("DIRECTORY", Holds::Names)));
        columns.extend(["AGE", "MESSAGES", "WINDOW"].map(|heading| column(heading, Holds::Numbers)));
        let cost = |weighed: &Weighed| recorded(weighed).cost;
        // Where nothing is known of cost, titles need the room.
        let has_costs = rows.iter().any(|(_, weighed)| cost(weighed).is_some());
        columns.extend(has_costs.then(|| column("COST", Holds::Numbers)));
        columns.push(column("TITLE", Holds::Words(8)));
        let mut table = Table::new(columns);
        let now = now().0;
        for (found, weighed) in rows {
            let mut cells = vec![self.ids.of(&found.id, ID).to_owned(), found.tool.name().to_owned()];
            cells.extend(self.directories.then(|| self.directory(found)));
            cells.extend([
                age(now.saturating_sub(found.changed)),
                plimsoll::Tokens(weighed.messages as u64).to_string(),
                // What no provider counted is an estimate, and shown as one.
                match weighed.is_measured {
                    true => weighed.window.to_string(),
                    false => format!("~{}", weighed.window),
                },
            ]);
            cells.extend(has_costs.then(|| cost(weighed).map_or_else(|| "–".to_owned(), dollars)));
            cells.push(weighed.title.clone());
            table.row(cells);
        }
        table
    }

    fn directory(&self, found: &Found) -> String {
        let path = found.directory.as_deref().map(|own| self.around.short(own.as_ref()));
        end_of(&path.unwrap_or_default(), self.longest_directory)
    }
}

/// Of a long path the end tells most.
fn end_of(path: &str, most: usize) -> String {
    let count = path.chars().count();
    if count <= most {
        path.to_owned()
    } else {
        std::iter::once('…').chain(path.chars().skip(count + 1 - most)).collect()
    }
}

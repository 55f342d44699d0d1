//! `plimsoll sessions list`.

use std::process::ExitCode;

use plimsoll::{Millis, Tokens};
use plimsoll_host::{Flags, Host, ListRequest, RecordedFigures, dollars};
use plimsoll_import::{Found, Scope, ShortIds, Tool, Weighed};
use serde_json::{Value, json};

use crate::args::ListArgs;
use crate::error::CommandResult;
use crate::output::{Column, Holds, Output, Table, note};
use crate::when::{age, now};

/// Shortest id that is shown, after its prefix.
const ID: usize = 8;
/// Longest directory that is shown if ids need the room.
const SHORT_DIRECTORY: usize = 9;

/// Lists sessions.
pub(super) fn run(args: &ListArgs, host: &Host, output: &mut Output) -> CommandResult {
    let flags = Flags { policy: args.policy.clone(), context: args.context, ..Flags::default() };
    let scope = args.tool.map_or(Scope::All, Scope::Only);
    let list = host.list_sessions(&ListRequest { scope, all: args.all, limit: args.limit, flags })?;
    if output.json {
        let rows: Vec<Value> = list.rows.iter().map(|(found, weighed)| as_json(found, weighed)).collect();
        output.json(&rows)?;
    } else if list.rows.is_empty() {
        note(&nothing(args, host));
    } else {
        if !args.all {
            let is_here = list.directory == host.env.directory;
            let which = if is_here { "" } else { ", the nearest directory above with sessions" };
            let directory = host.short(&list.directory);
            note(&format!("sessions of `{directory}`{which}; `--all` lists every directory"));
        }
        let width = output.width();
        let usual = if width < 110 { 12 } else { 32 };
        let ids = &list.short_ids();
        let page = |longest_directory| Page { ids, host, directories: args.all, longest_directory };
        let mut table = page(usual).table(&list.rows);
        if !table.fits_with_words_cut(width) {
            // Ids are copied and never cut, so directories are shortened instead.
            table = page(SHORT_DIRECTORY).table(&list.rows);
        }
        output.table_or_stacks(&table)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn nothing(args: &ListArgs, host: &Host) -> String {
    let tool = args.tool.map_or("any known tool", Tool::name);
    let directory = host.short(host.directory());
    let mut text = format!("no sessions of {tool}");
    if !args.all {
        text.push_str(&format!(" in `{directory}`; use `--all` to list every directory"));
    }
    if args.tool == Some(Tool::Plimsoll) {
        text.push_str("; `plimsoll sessions import FILE` stores one");
    }
    text
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

/// Layout of a table of sessions.
struct Page<'a> {
    ids: &'a ShortIds<'a>,
    host: &'a Host,
    /// Whether there is a column for directories.
    directories: bool,
    /// Maximum length of a directory.
    longest_directory: usize,
}

impl Page<'_> {
    fn table(&self, rows: &[(Found, Weighed)]) -> Table {
        let column = |heading, holds| Column { heading, holds };
        let mut columns = vec![column("ID", Holds::Names), column("TOOL", Holds::Names)];
        columns.extend(self.directories.then(|| column("DIRECTORY", Holds::Names)));
        columns.extend(["AGE", "MESSAGES", "WINDOW"].map(|heading| column(heading, Holds::Numbers)));
        let cost = |weighed: &Weighed| recorded(weighed).cost;
        // Without known costs, titles get the room.
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
                Tokens(weighed.messages as u64).to_string(),
                // A size that no provider counted is an estimate, marked with `~`.
                match weighed.is_measured {
                    true => weighed.window.to_string(),
                    false => format!("~{}", weighed.window),
                },
            ]);
            cells.extend(
                has_costs.then(|| cost(weighed).map_or_else(|| "–".to_owned(), |cost| dollars(cost, 2))),
            );
            cells.push(weighed.title.clone());
            table.row(cells);
        }
        table
    }

    fn directory(&self, found: &Found) -> String {
        let path = found.directory.as_deref().map(|own| self.host.short(own.as_ref()));
        end_of(&path.unwrap_or_default(), self.longest_directory)
    }
}

/// Shortens a path by cutting its start: the end identifies it.
fn end_of(path: &str, most: usize) -> String {
    let count = path.chars().count();
    if count <= most {
        path.to_owned()
    } else {
        std::iter::once('…').chain(path.chars().skip(count + 1 - most)).collect()
    }
}

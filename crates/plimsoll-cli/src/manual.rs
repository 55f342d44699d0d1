//! What a shell and `man` need to know about the command.

use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;
use plimsoll_host::{Existing, HostError, reason, write};
use serde_json::json;

use crate::args::Cli;
use crate::error::CommandResult;
use crate::output::{Output, note};

/// A completion script for a shell.
pub(crate) fn completions(shell: Shell, output: &mut Output) -> CommandResult {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "plimsoll", &mut script);
    if output.json {
        let script = String::from_utf8_lossy(&script);
        output.json(&json!({ "shell": shell.to_string(), "script": script }))?;
    } else {
        output.bytes(&script)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The main page to standard output, or one page a command into a directory.
pub(crate) fn man(directory: Option<&Path>, output: &mut Output) -> CommandResult {
    let mut main = Cli::command();
    main.build();
    let Some(directory) = directory else {
        let page = page(main)?;
        if output.json {
            output.json(&json!({ "name": "plimsoll.1", "page": String::from_utf8_lossy(&page) }))?;
        } else {
            output.bytes(&page)?;
        }
        return Ok(ExitCode::SUCCESS);
    };
    let failed = |error: std::io::Error| {
        HostError::failed(format!("cannot write pages into `{}`: {}", directory.display(), reason(&error)))
    };
    std::fs::create_dir_all(directory).map_err(failed)?;
    let mut pages = Vec::new();
    pages_of(main, "plimsoll", &mut pages)?;
    for (name, text) in &pages {
        write(&directory.join(format!("{name}.1")), text, Existing::Replace).map_err(failed)?;
    }
    if output.json {
        let names: Vec<String> = pages.iter().map(|(name, _)| format!("{name}.1")).collect();
        output.json(&json!({ "directory": directory, "pages": names }))?;
    } else {
        note(&format!("wrote {} pages to `{}`", pages.len(), directory.display()));
    }
    Ok(ExitCode::SUCCESS)
}

fn pages_of(command: clap::Command, name: &str, pages: &mut Vec<(String, Vec<u8>)>) -> Result<(), HostError> {
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help").cloned() {
        let name = format!("{name}-{}", inner.get_name());
        pages_of(inner, &name, pages)?;
    }
    // A page is named after the command as a whole: `man plimsoll-inspect`.
    let named = command.display_name(name.to_owned()).disable_help_subcommand(true);
    pages.push((name.to_owned(), page(named)?));
    Ok(())
}

fn page(command: clap::Command) -> Result<Vec<u8>, HostError> {
    let mut page = Vec::new();
    Man::new(command).section("1").render(&mut page)?;
    Ok(page)
}

//! Shell completions and manual pages.

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

/// Prints a completion script.
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

/// Prints the main page, or writes one page per command into a directory.
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
    // `man plimsoll-inspect`
    let named = command.display_name(name.to_owned()).disable_help_subcommand(true);
    pages.push((name.to_owned(), page(named)?));
    Ok(())
}

fn page(command: clap::Command) -> Result<Vec<u8>, HostError> {
    // `clap_mangen` ignores `before_help`, which has our examples.
    let text = [
        command.get_before_long_help().or(command.get_before_help()),
        command.get_after_long_help().or(command.get_after_help()),
    ];
    let text: Vec<String> = text.into_iter().flatten().map(ToString::to_string).collect();
    let command = match text.is_empty() {
        true => command,
        false => command.after_long_help(text.join("\n\n")),
    };
    let mut page = Vec::new();
    Man::new(command).section("1").render(&mut page)?;
    Ok(page)
}

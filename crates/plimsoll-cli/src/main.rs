//! The `plimsoll` command: parse, call, render.
//!
//! Exit codes: 0 it is done, 1 the answer is no, 2 it was asked wrongly, 3 it failed.

mod args;
mod commands;
mod discover;
mod error;
mod input;
mod inspect;
mod output;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};
use error::CliError;
use output::Output;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut output = Output::new(cli.json);
    let done = match &cli.command {
        Command::Inspect(args) => commands::inspect(args, &mut output),
        Command::Convert(args) => commands::convert(args, &mut output),
        Command::Window(args) => commands::window(args, &mut output),
        Command::Fork(args) => commands::fork(args, &mut output),
        Command::Prune(args) => commands::prune(args, &mut output),
        Command::Compact(args) => commands::compact(args, &mut output),
        Command::Truncate(args) => commands::truncate(args, &mut output),
        Command::Config(args) => commands::config(args, &mut output),
        Command::Completions { shell } => commands::completions(*shell, &mut output),
    };
    match done.and_then(|code| output.flush().map(|()| code).map_err(CliError::from)) {
        Ok(code) => code,
        // Whoever reads us has read enough.
        Err(error) if error.is_closed_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            error.tell();
            error.exit_code()
        }
    }
}

//! The `plimsoll` command: parse, call, render.
//!
//! Exit codes: 0 it is done, 1 the answer is no, 2 it was asked wrongly, 3 it failed.

mod agent;
mod args;
mod chat;
mod commands;
mod config;
mod convert;
mod error;
mod files;
mod handover;
mod input;
mod inspect;
mod interrupt;
mod manual;
mod mcp;
mod output;
mod pins;
mod plans;
mod progress;
mod range;
mod recall;
mod receipts;
mod recorded;
mod reduce;
mod replay;
mod revert;
mod run;
mod sessions;
mod store;
mod style;
mod summarise;
mod surroundings;
mod tasks;
mod truncate;
mod watch;
mod when;
mod window;
mod wrap;

use std::process::ExitCode;
use std::sync::Arc;

use args::{
    AgentCommand, Cli, Command, LookCommand, PassCommand, ReduceCommand, ReturnCommand, SetupCommand,
};
use error::CliError;
use output::Output;
use surroundings::Surroundings;

fn main() -> ExitCode {
    let cli = args::parse();
    cli.color.hold();
    begin_log();
    interrupt::survive_file_size_limit();
    let mut output = Output::new(cli.json);
    match dispatch(&cli, &mut output).and_then(|code| output.flush().map(|()| code).map_err(CliError::from)) {
        Ok(code) => code,
        // Whoever reads us has read enough.
        Err(error) if error.is_closed_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            error.tell();
            error.exit_code()
        }
    }
}

/// Log on standard error what the variable asks for: a level, of our own crates alone. What others log may hold headers.
fn begin_log() {
    let Ok(level) = std::env::var("PLIMSOLL_LOG") else { return };
    let filter = tracing_subscriber::EnvFilter::new(format!("off,plimsoll={}", level.trim()));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second log in one process cannot be; the first one goes on.
    let _ = log.with_ansi(false).try_init();
}

fn dispatch(cli: &Cli, output: &mut Output) -> Result<ExitCode, CliError> {
    let mut around = Surroundings::here()?;
    around.store = cli.store.clone();
    let around = &Arc::new(around);
    match &cli.command {
        Command::Agent(command) => match command {
            AgentCommand::Run(args) => run::run(args, around, output),
            AgentCommand::Chat(args) => chat::run(args, around, output),
            AgentCommand::Tasks(args) => tasks::run(args, around, output),
        },
        Command::Look(command) => match command {
            LookCommand::Sessions(args) => sessions::run(args, around, output),
            LookCommand::Inspect(args) => inspect::run(args, around, output),
            LookCommand::Watch(args) => watch::run(args, around, output),
            LookCommand::Window(args) => window::run(args, around, output),
            LookCommand::Replay(args) => replay::replay(args, around, output),
        },
        Command::Reduce(command) => match command {
            ReduceCommand::Prune(args) => commands::prune(args, around, output),
            ReduceCommand::Compact(args) => commands::compact(args, around, output),
            ReduceCommand::Truncate(args) => truncate::run(args, around, output),
            ReduceCommand::Pin(args) => pins::pin(args, around, output),
            ReduceCommand::Pins { session } => pins::list(session.as_deref(), around, output),
            ReduceCommand::Unpin { receipt, force } => pins::unpin(receipt, *force, around, output),
        },
        Command::Return(command) => match command {
            ReturnCommand::Receipts(args) => receipts::list(args, around, output),
            ReturnCommand::Undo { what, force } => receipts::undo(what.as_deref(), *force, around, output),
            ReturnCommand::Recall(args) => recall::run(args, around, output),
            ReturnCommand::Revert(args) => revert::run(args, around, output),
        },
        Command::Pass(command) => match command {
            PassCommand::Fork(args) => commands::fork(args, around, output),
            PassCommand::Convert(args) => convert::run(args, around, output),
            PassCommand::Mcp(args) => mcp::run(args, around),
        },
        Command::Setup(command) => match command {
            SetupCommand::Config(args) => config::run(args, around, output),
            SetupCommand::Trust(args) => config::trust(args, around, output),
            SetupCommand::Untrust { directory } => config::untrust(directory.as_deref(), around, output),
            SetupCommand::Completions { shell } => manual::completions(*shell, output),
            SetupCommand::Man { directory } => manual::man(directory.as_deref(), output),
        },
    }
}

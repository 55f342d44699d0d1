#![doc = include_str!("../README.md")]

mod args;
mod chat;
mod config;
mod convert;
mod error;
mod figures;
mod fork;
mod inspect;
mod interrupt;
mod manual;
mod mcp;
mod notices;
mod output;
mod pins;
mod plans;
mod progress;
mod recall;
mod receipts;
mod reduce;
mod replay;
mod revert;
mod run;
mod serve;
mod sessions;
mod stdin;
mod style;
mod tasks;
mod truncate;
mod watch;
mod when;
mod window;
mod wrap;

use std::process::ExitCode;

use plimsoll_host::{Environment, Host, HostError};

use args::{
    AgentCommand, Cli, Command, ExportCommand, InspectCommand, ReduceCommand, SetupCommand, UndoCommand,
};
use error::CommandResult;
use output::Output;

fn main() -> ExitCode {
    let cli = args::parse();
    cli.color.apply();
    begin_log();
    interrupt::survive_file_size_limit();
    let mut output = Output::new(cli.json);
    // The output is flushed before the exit code is decided, because a full disk must not look like success.
    match dispatch(&cli, &mut output).and_then(|code| output.flush().map(|()| code).map_err(HostError::from))
    {
        Ok(code) => code,
        // `head` and pagers close the pipe early; that is not a failure.
        Err(error) if error::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            error::print_error(&error);
            error::exit_code(&error)
        }
    }
}

/// Logs to standard error at the level of `PLIMSOLL_LOG`. Other crates are excluded: they may log request headers.
fn begin_log() {
    let Ok(level) = std::env::var("PLIMSOLL_LOG") else { return };
    let filter = tracing_subscriber::EnvFilter::new(format!("off,plimsoll={}", level.trim()));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // Fails only if a subscriber is already installed; that one stays.
    let _ = log.with_ansi(false).try_init();
}

/// Builds the host from this process: its directory, variables, terminal and signals.
fn this_host(cli: &Cli) -> Result<Host, HostError> {
    let directory = std::env::current_dir()
        .map_err(|error| HostError::failed(format!("cannot determine the current directory: {error}")))?;
    // Variables that are not UTF-8 cannot be settings of ours.
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    let variables = std::env::vars_os().filter_map(text);
    let host = Host::new(Environment::new(directory, variables)).with_reporter(progress::Terminal);
    Ok(host.with_store(cli.store.clone()).with_leases(interrupt::leases()))
}

fn dispatch(cli: &Cli, output: &mut Output) -> CommandResult {
    let host = &this_host(cli)?;
    match &cli.command {
        Command::Agent(command) => match command {
            AgentCommand::Run(args) => run::run(args, host, output),
            AgentCommand::Chat(args) => chat::run(args, host, output),
            AgentCommand::Serve(args) => serve::run(args, host, output),
            AgentCommand::Tasks(args) => tasks::run(args, host, output),
        },
        Command::Inspect(command) => match command {
            InspectCommand::Sessions(args) => sessions::run(args, host, output),
            InspectCommand::Inspect(args) => inspect::run(args, host, output),
            InspectCommand::Watch(args) => watch::run(args, host, output),
            InspectCommand::Window(args) => window::run(args, host, output),
            InspectCommand::Replay(args) => replay::replay(args, host, output),
        },
        Command::Reduce(command) => match command {
            ReduceCommand::Prune(args) => reduce::prune(args, host, output),
            ReduceCommand::Compact(args) => reduce::compact(args, host, output),
            ReduceCommand::Truncate(args) => truncate::run(args, host, output),
            ReduceCommand::Pin(args) => pins::pin(args, host, output),
            ReduceCommand::Pins { session } => pins::list(session.as_deref(), host, output),
            ReduceCommand::Unpin { receipt, force } => pins::unpin(receipt, *force, host, output),
        },
        Command::Undo(command) => match command {
            UndoCommand::Receipts(args) => receipts::list(args, host, output),
            UndoCommand::Undo { what, force } => receipts::undo(what.as_deref(), *force, host, output),
            UndoCommand::Recall(args) => recall::run(args, host, output),
            UndoCommand::Revert(args) => revert::run(args, host, output),
        },
        Command::Export(command) => match command {
            ExportCommand::Fork(args) => fork::run(args, host, output),
            ExportCommand::Convert(args) => convert::run(args, host, output),
            ExportCommand::Mcp(args) => mcp::run(args, host),
        },
        Command::Setup(command) => match command {
            SetupCommand::Config(args) => config::run(args, host, output),
            SetupCommand::Trust(args) => config::trust(args, host, output),
            SetupCommand::Untrust { directory } => config::untrust(directory.as_deref(), host, output),
            SetupCommand::Completions { shell } => manual::completions(*shell, output),
            SetupCommand::Man { directory } => manual::man(directory.as_deref(), output),
        },
    }
}

//! `plimsoll sessions` and its subcommands.

mod export;
mod handover;
mod import;
mod keep;
mod list;
mod purge;
mod show;

use plimsoll_host::Host;

use crate::args::{SessionsArgs, SessionsCommand};
use crate::error::CommandResult;
use crate::output::Output;

/// Lists sessions, or runs a subcommand.
pub(crate) fn run(args: &SessionsArgs, host: &Host, output: &mut Output) -> CommandResult {
    match &args.command {
        None => list::run(&args.list, host, output),
        Some(SessionsCommand::List(args)) => list::run(args, host, output),
        Some(SessionsCommand::Show(args)) => show::run(args, host, output),
        Some(SessionsCommand::Import(args)) => import::run(args, host, output),
        Some(SessionsCommand::Handover(args)) => handover::run(args, host, output),
        Some(SessionsCommand::Export(args)) => export::run(args, host, output),
        Some(SessionsCommand::Rm { ids, force }) => keep::rm(ids, *force, host, output),
        Some(SessionsCommand::Purge(args)) => purge::run(args, host, output),
        Some(SessionsCommand::Gc) => keep::gc(host, output),
        Some(SessionsCommand::Check(args)) => keep::check(args, host, output),
    }
}

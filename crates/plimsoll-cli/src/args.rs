//! What can be asked.

mod agent;
mod config;
mod groups;
mod help;
mod reduce;
mod sessions;
mod stored;
mod tasks;
mod transcripts;
mod values;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::style::ColorWhen;

pub(crate) use agent::{ChatArgs, RunArgs};
pub(crate) use config::{ConfigArgs, ConfigCommand, TrustArgs};
pub(crate) use groups::{AgentCommand, LookCommand, PassCommand, ReduceCommand, ReturnCommand, SetupCommand};
pub(crate) use help::parse;
pub(crate) use reduce::{CompactArgs, PruneArgs, TruncateArgs};
pub(crate) use sessions::{
    CheckArgs, ExportArgs, HandoverArgs, ImportArgs, ListArgs, PurgeArgs, SessionsArgs, SessionsCommand,
    ShowArgs,
};
pub(crate) use stored::{PinArgs, RecallArgs, ReceiptsArgs, RevertArgs};
pub(crate) use tasks::{ClearArgs, OutputArgs, ResumeArgs, TaskFork, TaskList, TasksArgs, TasksCommand};
pub(crate) use transcripts::{
    ConvertArgs, ForkArgs, InputArgs, InspectArgs, McpArgs, PolicyArgs, ReplayArgs, WatchArgs, WindowArgs,
};

const AFTER: &str = "\
Exit codes: 0 it is done, 1 the answer is no, 2 it was asked wrongly, 3 it failed.

Configuration, from the lightest to the heaviest:
  the preset, then the user's `config.toml` (in $XDG_CONFIG_HOME/plimsoll or ~/.config/plimsoll),
  then `plimsoll.toml` in this directory or above it, then the environment, then flags. What a
  `plimsoll.toml` could do harm with takes effect after `plimsoll trust`.

Environment:
  PLIMSOLL_POLICY            a preset or a policy file
  PLIMSOLL_CONTEXT           the model's context window in tokens, as 128k
  PLIMSOLL_STORE             the database of Plimsoll's own sessions
  PLIMSOLL_<SECTION>_<FIELD> any field of the policy, as PLIMSOLL_PRUNE_PROTECT_TOKENS=30000
  PLIMSOLL_LOG               what is logged on standard error: error, warn, info, debug
  NO_COLOR, CLICOLOR_FORCE   no colour; colour also in a pipe
  CLAUDE_CONFIG_DIR, CODEX_HOME, XDG_DATA_HOME
                             where Claude Code, Codex, and OpenCode and Plimsoll keep their sessions";

const SHORTLY: &str = "`plimsoll --help` tells of exit codes, configuration and environment.";

/// See what a context policy does to the sessions you have.
///
/// FILE is a transcript of a coding agent (OpenCode, Claude Code, Codex, Gemini CLI, goose, Cline, Roo, Kimi, pi,
/// OpenHands, aider and others) or plain chat JSON; its format is recognised by content. It may also be a database
/// of OpenCode or goose, or the beginning of the id of a session that `plimsoll sessions` lists. `-` is standard
/// input. Without FILE the newest session for the current directory is taken, wherever these tools or Plimsoll keep
/// it, and the command says which. No session of another tool is ever changed; one that was stored with `plimsoll
/// sessions import` is where `--apply` says so.
#[derive(Parser)]
#[command(name = "plimsoll", version, arg_required_else_help = true, after_help = SHORTLY, after_long_help = AFTER)]
pub(crate) struct Cli {
    /// Write JSON for machines instead of text for people.
    #[arg(short, long, global = true, help_heading = "Everywhere")]
    pub(crate) json: bool,

    /// Use colour: auto (on a terminal, unless NO_COLOR is set), always or never.
    #[arg(
        long,
        global = true,
        help_heading = "Everywhere",
        value_enum,
        default_value_t,
        hide_possible_values = true,
        value_name = "WHEN"
    )]
    pub(crate) color: ColorWhen,

    /// The database of Plimsoll's own sessions.
    #[arg(long, global = true, help_heading = "Everywhere", value_name = "FILE")]
    pub(crate) store: Option<PathBuf>,

    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do, by groups: help lists each under its heading, and a command is in the group whose variant it is.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Work with an agent.
    #[command(flatten)]
    Agent(AgentCommand),
    /// Look at sessions and at what is in their windows.
    #[command(flatten)]
    Look(LookCommand),
    /// Make room in a window, and say what stays.
    #[command(flatten)]
    Reduce(ReduceCommand),
    /// Bring back what was reduced or changed.
    #[command(flatten)]
    Return(ReturnCommand),
    /// Pass a session on to another agent or tool.
    #[command(flatten)]
    Pass(PassCommand),
    /// Set up the command.
    #[command(flatten)]
    Setup(SetupCommand),
}

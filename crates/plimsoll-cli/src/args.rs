//! The command line.

mod agent;
mod config;
mod groups;
mod help;
mod reduce;
#[cfg(test)]
mod reference_tests;
mod serve;
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
pub(crate) use groups::{
    AgentCommand, ExportCommand, InspectCommand, ReduceCommand, SetupCommand, UndoCommand,
};
pub(crate) use help::parse;
pub(crate) use reduce::{CompactArgs, PruneArgs, TruncateArgs};
pub(crate) use serve::ServeArgs;
pub(crate) use sessions::{
    CheckArgs, ExportArgs, HandoverArgs, ImportArgs, ListArgs, PurgeArgs, SessionsArgs, SessionsCommand,
    ShowArgs,
};
pub(crate) use stored::{PinArgs, RecallArgs, ReceiptsArgs, RevertArgs};
pub(crate) use tasks::{ClearArgs, OutputArgs, ResumeArgs, TaskFork, TaskList, TasksArgs, TasksCommand};
pub(crate) use transcripts::{
    ConvertArgs, ForkArgs, InputArgs, InspectArgs, McpArgs, PolicyArgs, ReplayArgs, WatchArgs, WindowArgs,
};

/// Heading of the options that every command has.
const GLOBAL: &str = "Global options";

const EXAMPLES: &str = "\
Examples:
  plimsoll inspect                          what fills this directory's session
  plimsoll watch                            the same as a live status line
  plimsoll replay --context 200k s.jsonl    what other policies would have done
  plimsoll run \"why does the build fail?\"   run an agent
  plimsoll recall --grep error              search what left the window
  plimsoll undo                             undo the newest reduction";

const NOTES: &str = "\
Input: FILE is a transcript of a coding agent (OpenCode, Claude Code, Codex, Gemini CLI, goose, Cline, Roo, Kimi, pi, \
OpenHands, aider and others), plain chat JSON, a database of OpenCode or goose, or the id or id prefix of a session that \
`plimsoll sessions` lists. The format is detected from the content. `-` reads standard input. Without FILE, the newest \
session of the current directory is used, and its name is printed. Sessions of other tools are never changed: `--apply` \
works on sessions stored with `plimsoll sessions import`.

Exit codes: 0 success, 1 negative result, 2 usage error, 3 failure, 130 interrupted.

Configuration, from lowest to highest priority: the preset, the user's `config.toml` (in $XDG_CONFIG_HOME/plimsoll or \
~/.config/plimsoll), `plimsoll.toml` in this directory or above it, environment variables, flags. Settings in a \
`plimsoll.toml` that could do harm take effect after `plimsoll trust`.

Environment variables:
  PLIMSOLL_POLICY    preset or policy file
  PLIMSOLL_CONTEXT   the model's context window in tokens, such as 128k
  PLIMSOLL_STORE     database of stored sessions
  PLIMSOLL_LOG       log level on standard error: error, warn, info or debug
  PLIMSOLL_<SECTION>_<FIELD>
                     any field of the policy, such as
                     PLIMSOLL_PRUNE_PROTECT_TOKENS=30000
  NO_COLOR           no colour
  CLICOLOR_FORCE     colour even in a pipe
  CLAUDE_CONFIG_DIR, CODEX_HOME, XDG_DATA_HOME
                     session directories of Claude Code, Codex, and both
                     OpenCode and Plimsoll";

const SHORT_NOTES: &str =
    "Run `plimsoll --help` for examples, input formats, exit codes, configuration and environment variables.";

/// Keep an LLM agent's context window under its limit, and lose nothing.
#[derive(Parser)]
#[command(name = "plimsoll", version, arg_required_else_help = true, before_long_help = EXAMPLES,
    after_help = SHORT_NOTES, after_long_help = NOTES)]
pub(crate) struct Cli {
    /// Print JSON.
    #[arg(short, long, global = true, help_heading = GLOBAL)]
    pub(crate) json: bool,

    /// Colour: auto (default: on a terminal unless NO_COLOR is set), always or never.
    #[arg(
        long,
        global = true,
        help_heading = GLOBAL,
        value_enum,
        default_value_t,
        hide_default_value = true,
        hide_possible_values = true,
        value_name = "WHEN"
    )]
    pub(crate) color: ColorWhen,

    /// Database of stored sessions.
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "FILE")]
    pub(crate) store: Option<PathBuf>,

    /// Command to run.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands in groups: help lists each group under its heading.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run an agent.
    #[command(flatten)]
    Agent(AgentCommand),
    /// Show sessions and windows.
    #[command(flatten)]
    Inspect(InspectCommand),
    /// Reduce a window, or protect content from reduction.
    #[command(flatten)]
    Reduce(ReduceCommand),
    /// Undo reductions and changes.
    #[command(flatten)]
    Undo(UndoCommand),
    /// Export a session to another agent or tool.
    #[command(flatten)]
    Export(ExportCommand),
    /// Configuration, trust and shell integration.
    #[command(flatten)]
    Setup(SetupCommand),
}

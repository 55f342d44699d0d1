//! What can be asked.

mod agent;
mod config;
mod reduce;
mod sessions;
mod stored;
mod tasks;
mod transcripts;
mod values;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::style::ColorWhen;

pub(crate) use agent::{AgentArgs, ChatArgs, RunArgs};
use agent::{CHAT, RUN};
use config::{CONFIG, TRUST, UNTRUST};
pub(crate) use config::{ConfigArgs, ConfigCommand, TrustArgs};
use reduce::{COMPACT, PRUNE, TRUNCATE};
pub(crate) use reduce::{CompactArgs, PruneArgs, TruncateArgs};
use sessions::SESSIONS;
pub(crate) use sessions::{
    ExportArgs, ImportArgs, ListArgs, PurgeArgs, SessionsArgs, SessionsCommand, ShowArgs,
};
use stored::{PIN, RECALL, RECEIPTS, REVERT, UNDO};
pub(crate) use stored::{PinArgs, RecallArgs, ReceiptsArgs, RevertArgs};
use tasks::TASKS;
pub(crate) use tasks::{ClearArgs, OutputArgs, ResumeArgs, TaskFork, TaskList, TasksArgs, TasksCommand};
use transcripts::{CONVERT, FORK, INSPECT, REPLAY, WINDOW};
pub(crate) use transcripts::{
    ConvertArgs, ForkArgs, InputArgs, InspectArgs, PolicyArgs, ReplayArgs, WindowArgs,
};

const AFTER: &str = "\
Exit codes: 0 it is done, 1 the answer is no, 2 it was asked wrongly, 3 it failed.

Configuration, from the lightest to the heaviest:
  the preset, then the user's `config.toml` (in $XDG_CONFIG_HOME/plimsoll or ~/.config/plimsoll),
  then `plimsoll.toml` in this directory or above it, then the environment, then flags. What a
  `plimsoll.toml` could do harm with takes effect after `plimsoll trust`.

Environment:
  PLIMSOLL_POLICY            a preset or a policy file
  PLIMSOLL_CONTEXT           the model's context window, in tokens
  PLIMSOLL_STORE             the database of Plimsoll's own sessions
  PLIMSOLL_<SECTION>_<FIELD> any field of the policy, as PLIMSOLL_PRUNE_PROTECT_TOKENS=30000
  PLIMSOLL_LOG               what is logged on standard error: error, warn, info, debug
  NO_COLOR, CLICOLOR_FORCE   no colour; colour also in a pipe
  CLAUDE_CONFIG_DIR, CODEX_HOME, XDG_DATA_HOME
                             where Claude Code, Codex, and OpenCode and Plimsoll keep their sessions";

const SHORTLY: &str = "`plimsoll --help` tells of exit codes, configuration and environment.";

const MAN: &str = "\
Examples:
  plimsoll man | man -l -
  plimsoll man ~/.local/share/man/man1";

/// See what a context policy does to the sessions you have.
///
/// FILE is a transcript of OpenCode, Claude Code, Codex, pi, SWE-agent, or plain chat JSON; its format is recognised
/// by content. It may also be OpenCode's database, or the beginning of the id of a session that `plimsoll sessions`
/// lists. `-` is standard input. Without FILE the newest session for the current directory is taken, wherever
/// OpenCode, Claude Code, Codex, pi or Plimsoll keep it, and the command says which. No session of another tool is ever
/// changed; one that was stored with `plimsoll sessions import` is where `--apply` says so.
#[derive(Parser)]
#[command(name = "plimsoll", version, arg_required_else_help = true, after_help = SHORTLY, after_long_help = AFTER)]
pub(crate) struct Cli {
    /// Write JSON for machines instead of text for people.
    #[arg(long, global = true, help_heading = "Everywhere")]
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

/// What to do.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Let an agent work on a prompt and print its answer.
    ///
    /// The agent reads in this directory with `read`, `list` and `grep`; running commands has to be allowed. Its session
    /// is stored, stays under the model's line, and can be continued, inspected and undone.
    #[command(after_help = RUN)]
    Run(RunArgs),
    /// Talk to an agent.
    ///
    /// A conversation in the terminal: the answer as it comes, what the agent does line by line, how full the model's
    /// window is, and commands for what is in it. It asks before it changes files, runs commands or fetches something.
    #[command(after_help = CHAT)]
    Chat(ChatArgs),
    /// List background tasks, or show, cancel, resume, steer and clear some.
    ///
    /// Tasks are sessions that work for another session, beside it. Those of all processes on the same database are seen
    /// and reached from here. On a terminal, where some are at work, the list is live until they have ended or Ctrl-C.
    #[command(after_help = TASKS)]
    Tasks(TasksArgs),
    /// List the sessions there are: tool, age, messages, tokens, title; or store, show, export and remove some.
    #[command(after_help = SESSIONS)]
    Sessions(SessionsArgs),
    /// Show what is in the window: by kind, item, tool, file and turn, what was recorded, and how far it is to the line.
    #[command(after_help = INSPECT)]
    Inspect(InspectArgs),
    /// Show what each policy would have done to recorded sessions: tokens, cost, deaths, recall.
    ///
    /// Each recorded call of the model is gone through, and its request is built as each policy would have built it.
    /// Cost is that of a prompt cache: what a request has in common with the one before is read, the rest written.
    #[command(after_help = REPLAY)]
    Replay(ReplayArgs),
    /// Show exactly what the model would be given now.
    #[command(after_help = WINDOW)]
    Window(WindowArgs),
    /// Show which old tool outputs would be cleared from the window.
    ///
    /// Pruning is not deletion: outputs stay in the log, and a prune can be undone.
    #[command(after_help = PRUNE)]
    Prune(PruneArgs),
    /// Show which messages a summary would take the place of, or make one without a model.
    ///
    /// The answer is no, exit code 1, where there is too little to summarise.
    #[command(after_help = COMPACT)]
    Compact(CompactArgs),
    /// Write a session's history as context for another agent.
    ///
    /// The preamble and the digest go to standard output, so that `plimsoll fork FILE | other-agent` works. They fit
    /// the context window that is named, with room for that agent's own work; the answer is no, exit code 1, where
    /// it is too small for any digest.
    #[command(after_help = FORK)]
    Fork(ForkArgs),
    /// Write a transcript in another format.
    #[command(after_help = CONVERT)]
    Convert(ConvertArgs),
    /// List what was done to a stored session, or tell everything about one receipt.
    #[command(after_help = RECEIPTS)]
    Receipts(ReceiptsArgs),
    /// Undo a reduction of a stored session.
    ///
    /// What was cleared or cut is in the window again; a summary no longer counts. The log was never changed.
    #[command(after_help = UNDO)]
    Undo {
        /// The receipt: its id or the beginning of it.
        receipt: String,

        /// Do it although another process runs the session; that one is named, and can write no more.
        #[arg(long)]
        force: bool,
    },
    /// Put files back as they were before a turn of a stored session.
    ///
    /// What `write` and `edit` changed goes back to what it was, where it is still as the agent left it; what you or a
    /// command changed since is left alone, exit code 1. Calls whose doings are not known, such as commands, are listed.
    /// What is replaced is kept.
    #[command(after_help = REVERT)]
    Revert(RevertArgs),
    /// Bring back what is out of the window of a stored session, or search it.
    #[command(after_help = RECALL)]
    Recall(RecallArgs),
    /// Keep text of a stored session in view word for word, whatever is reduced.
    ///
    /// Pins have a budget (`pin.maxTokens`, `pin.maxShare`); the answer is no, exit code 1, for a pin beyond it.
    #[command(after_help = PIN)]
    Pin(PinArgs),
    /// List what is pinned in a stored session.
    Pins {
        /// The session, by its id or the beginning of it; the newest of this directory if none is given.
        session: Option<String>,
    },
    /// Unpin what a receipt pinned.
    Unpin {
        /// The receipt of the pin: its id or the beginning of it.
        receipt: String,

        /// Do it although another process runs the session; that one is named, and can write no more.
        #[arg(long)]
        force: bool,
    },
    /// Cut a tool's output from standard input as layer 1 would.
    ///
    /// What fits passes byte for byte. The whole of what does not is kept in the spill directory, readable by you
    /// alone, under a name made from its content.
    #[command(after_help = TRUNCATE)]
    Truncate(TruncateArgs),
    /// Show every setting and where it comes from, or check a file.
    #[command(after_help = CONFIG)]
    Config(ConfigArgs),
    /// Let a project's `plimsoll.toml` set everything, for as long as it stays as it is.
    ///
    /// What takes effect goes to standard output first.
    #[command(after_help = TRUST)]
    Trust(TrustArgs),
    /// Let a project's `plimsoll.toml` set only what cannot do harm.
    ///
    /// The answer is no, exit code 1, where it was not trusted.
    #[command(after_help = UNTRUST)]
    Untrust {
        /// The directory of the `plimsoll.toml` or `opencode.json`; the nearest upwards from this one if none is given.
        #[arg(value_name = "DIR")]
        directory: Option<PathBuf>,
    },
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write one for each command.
    #[command(after_help = MAN)]
    Man {
        /// Write the pages into this directory.
        directory: Option<PathBuf>,
    },
}

//! The commands, in groups.

use std::path::PathBuf;

use clap::Subcommand;

use super::agent::{CHAT, CHAT_NOTES, ChatArgs, RUN, RUN_NOTES, RunArgs};
use super::config::{
    CONFIG, CONFIG_NOTES, ConfigArgs, TRUST, TRUST_NOTES, TrustArgs, UNTRUST, UNTRUST_NOTES,
};
use super::reduce::{
    COMPACT, COMPACT_NOTES, CompactArgs, PRUNE, PRUNE_NOTES, PruneArgs, TRUNCATE, TRUNCATE_NOTES,
    TruncateArgs,
};
use super::serve::{SERVE, SERVE_NOTES, ServeArgs};
use super::sessions::{SESSIONS, SESSIONS_NOTES, SessionsArgs};
use super::stored::{
    PIN, PIN_NOTES, PINS, PinArgs, RECALL, RECALL_NOTES, RECEIPTS, REVERT, REVERT_NOTES, RecallArgs,
    ReceiptsArgs, RevertArgs, UNDO, UNDO_NOTES, UNPIN,
};
use super::tasks::{TASKS, TASKS_NOTES, TasksArgs};
use super::transcripts::{
    CONVERT, ConvertArgs, FORK, FORK_NOTES, ForkArgs, INSPECT, InspectArgs, MCP, MCP_NOTES, McpArgs, REPLAY,
    REPLAY_NOTES, ReplayArgs, WATCH, WATCH_NOTES, WINDOW, WatchArgs, WindowArgs,
};

const COMPLETIONS: &str = "\
Examples:
  plimsoll completions bash > /etc/bash_completion.d/plimsoll
  plimsoll completions zsh > ~/.zfunc/_plimsoll
  plimsoll completions fish > ~/.config/fish/completions/plimsoll.fish";

const MAN: &str = "\
Examples:
  plimsoll man | man -l -
  plimsoll man ~/.local/share/man/man1";

/// Commands that run an agent.
#[derive(Subcommand)]
pub(crate) enum AgentCommand {
    /// Run an agent on a prompt and print its answer.
    #[command(before_help = RUN, after_help = RUN_NOTES)]
    Run(RunArgs),
    /// Chat with an agent in the terminal.
    #[command(before_help = CHAT, after_help = CHAT_NOTES)]
    Chat(ChatArgs),
    /// Serve this directory's sessions over HTTP, for OpenCode's UI and SDK.
    #[command(before_help = SERVE, after_help = SERVE_NOTES)]
    Serve(ServeArgs),
    /// List, show, steer, cancel and resume background tasks.
    #[command(before_help = TASKS, after_help = TASKS_NOTES)]
    Tasks(TasksArgs),
}

/// Commands that show sessions and windows.
#[derive(Subcommand)]
pub(crate) enum InspectCommand {
    /// List sessions of this directory; import and export them.
    #[command(before_help = SESSIONS, after_help = SESSIONS_NOTES)]
    Sessions(SessionsArgs),
    /// Show what fills the window and how far it is from its limit.
    #[command(before_help = INSPECT)]
    Inspect(InspectArgs),
    /// Show a live status line: how full the window is.
    #[command(before_help = WATCH, after_help = WATCH_NOTES)]
    Watch(WatchArgs),
    /// Print the window exactly as the model would receive it.
    #[command(before_help = WINDOW)]
    Window(WindowArgs),
    /// Compare policies on recorded sessions: context kept, failed calls, cost.
    #[command(before_help = REPLAY, after_help = REPLAY_NOTES)]
    Replay(ReplayArgs),
}

/// Commands that reduce a window or protect content from reduction.
#[derive(Subcommand)]
pub(crate) enum ReduceCommand {
    /// Clear old tool outputs from the window.
    #[command(before_help = PRUNE, after_help = PRUNE_NOTES)]
    Prune(PruneArgs),
    /// Replace older messages with a summary.
    #[command(before_help = COMPACT, after_help = COMPACT_NOTES)]
    Compact(CompactArgs),
    /// Truncate a tool output from standard input.
    #[command(before_help = TRUNCATE, after_help = TRUNCATE_NOTES)]
    Truncate(TruncateArgs),
    /// Keep text of a stored session in the window verbatim.
    #[command(before_help = PIN, after_help = PIN_NOTES)]
    Pin(PinArgs),
    /// List the pins of a stored session.
    #[command(before_help = PINS)]
    Pins {
        /// Session id or prefix [default: the newest session of this directory].
        session: Option<String>,
    },
    /// Unpin text.
    #[command(before_help = UNPIN)]
    Unpin {
        /// Receipt id or prefix of the pin.
        receipt: String,

        /// Take over the session even if another process is running it.
        #[arg(long)]
        force: bool,
    },
}

/// Commands that undo reductions and changes.
#[derive(Subcommand)]
pub(crate) enum UndoCommand {
    /// List the receipts of a stored session, or show one.
    #[command(before_help = RECEIPTS)]
    Receipts(ReceiptsArgs),
    /// Undo a reduction of a stored session.
    #[command(before_help = UNDO, after_help = UNDO_NOTES)]
    Undo {
        /// Receipt, or session whose newest reduction is undone (id or prefix) [default: the newest session of this
        /// directory].
        #[arg(value_name = "RECEIPT|SESSION")]
        what: Option<String>,

        /// Take over the session even if another process is running it.
        #[arg(long)]
        force: bool,
    },
    /// Show or search content that left the window of a stored session.
    #[command(before_help = RECALL, after_help = RECALL_NOTES)]
    Recall(RecallArgs),
    /// Restore files to their state before a turn.
    #[command(before_help = REVERT, after_help = REVERT_NOTES)]
    Revert(RevertArgs),
}

/// Commands that export a session to another agent or tool.
#[derive(Subcommand)]
pub(crate) enum ExportCommand {
    /// Write a session's history as context for another agent.
    #[command(before_help = FORK, after_help = FORK_NOTES)]
    Fork(ForkArgs),
    /// Convert a transcript to another format.
    #[command(before_help = CONVERT)]
    Convert(ConvertArgs),
    /// Serve content that left a window to other agents (MCP).
    #[command(before_help = MCP, after_help = MCP_NOTES)]
    Mcp(McpArgs),
}

/// Commands for configuration, trust and shell integration.
#[derive(Subcommand)]
pub(crate) enum SetupCommand {
    /// Show every setting and its source, or validate a file.
    #[command(before_help = CONFIG, after_help = CONFIG_NOTES)]
    Config(ConfigArgs),
    /// Trust a project's configuration files in their current state.
    #[command(before_help = TRUST, after_help = TRUST_NOTES)]
    Trust(TrustArgs),
    /// Revoke trust in a project's configuration files.
    #[command(before_help = UNTRUST, after_help = UNTRUST_NOTES)]
    Untrust {
        /// Directory of the `plimsoll.toml` or `opencode.json` [default: the nearest one at or above the current directory].
        #[arg(value_name = "DIR")]
        directory: Option<PathBuf>,
    },
    /// Print a shell completion script.
    #[command(before_help = COMPLETIONS)]
    Completions {
        /// Shell to generate the script for.
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write one page per command.
    #[command(before_help = MAN)]
    Man {
        /// Directory to write the pages to.
        directory: Option<PathBuf>,
    },
}

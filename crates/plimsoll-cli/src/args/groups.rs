//! The commands, by groups.

use std::path::PathBuf;

use clap::Subcommand;

use super::agent::{CHAT, ChatArgs, RUN, RunArgs};
use super::config::{CONFIG, ConfigArgs, TRUST, TrustArgs, UNTRUST};
use super::reduce::{COMPACT, CompactArgs, PRUNE, PruneArgs, TRUNCATE, TruncateArgs};
use super::sessions::{SESSIONS, SessionsArgs};
use super::stored::{PIN, PinArgs, RECALL, RECEIPTS, REVERT, RecallArgs, ReceiptsArgs, RevertArgs, UNDO};
use super::tasks::{TASKS, TasksArgs};
use super::transcripts::{
    CONVERT, ConvertArgs, FORK, ForkArgs, INSPECT, InspectArgs, MCP, McpArgs, REPLAY, ReplayArgs, WATCH,
    WINDOW, WatchArgs, WindowArgs,
};

const MAN: &str = "\
Examples:
  plimsoll man | man -l -
  plimsoll man ~/.local/share/man/man1";

/// Work with an agent.
#[derive(Subcommand)]
pub(crate) enum AgentCommand {
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
}

/// Look at sessions and at what is in their windows.
#[derive(Subcommand)]
pub(crate) enum LookCommand {
    /// List the sessions there are: tool, age, messages, tokens, title; or store, show, export and remove some.
    #[command(after_help = SESSIONS)]
    Sessions(SessionsArgs),
    /// Show what is in the window: by kind, item, tool, file and turn, what was recorded, and how far it is to the line.
    #[command(after_help = INSPECT)]
    Inspect(InspectArgs),
    /// Keep one line up to date that says how far a session is from the line.
    ///
    /// Without FILE it is the newest session of this directory, and a newer one as soon as there is one.
    #[command(after_help = WATCH)]
    Watch(WatchArgs),
    /// Show exactly what the model would be given now.
    #[command(after_help = WINDOW)]
    Window(WindowArgs),
    /// Show what each policy would have done to recorded sessions: tokens, cost, deaths, recall.
    ///
    /// Each recorded call of the model is gone through, and its request is built as each policy would have built it.
    /// Cost is that of a prompt cache: what a request has in common with the one before is read, the rest written.
    #[command(after_help = REPLAY)]
    Replay(ReplayArgs),
}

/// Make room in a window, and say what stays.
#[derive(Subcommand)]
pub(crate) enum ReduceCommand {
    /// Show which old tool outputs would be cleared from the window.
    ///
    /// Pruning is not deletion: outputs stay in the log, and a prune can be undone.
    #[command(after_help = PRUNE)]
    Prune(PruneArgs),
    /// Show which messages a summary would take the place of, or make it: by a model, a command, or without.
    ///
    /// The answer is no, exit code 1, where there is too little to summarise.
    #[command(after_help = COMPACT)]
    Compact(CompactArgs),
    /// Cut a tool's output from standard input as layer 1 would.
    ///
    /// What fits passes byte for byte. What does not is cut to the tool's limit; `--spill-dir` keeps the whole, readable by
    /// you alone, under a name made from its content. Without it the rest is dropped, and it is said how much.
    #[command(after_help = TRUNCATE)]
    Truncate(TruncateArgs),
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
}

/// Bring back what was reduced or changed.
#[derive(Subcommand)]
pub(crate) enum ReturnCommand {
    /// List what was done to a stored session, or tell everything about one receipt.
    #[command(after_help = RECEIPTS)]
    Receipts(ReceiptsArgs),
    /// Undo a reduction of a stored session.
    ///
    /// What was cleared or cut is in the window again; a summary no longer counts. The log was never changed.
    #[command(after_help = UNDO)]
    Undo {
        /// A receipt, by its id or the beginning of it, or a stored session, whose newest reduction is undone; that of the
        /// newest session of this directory if none is given.
        #[arg(value_name = "RECEIPT|SESSION")]
        what: Option<String>,

        /// Do it although another process runs the session; that one is named, and can write no more.
        #[arg(long)]
        force: bool,
    },
    /// Bring back what is out of the window of a stored session, or search it.
    #[command(after_help = RECALL)]
    Recall(RecallArgs),
    /// Put files back as they were before a turn of a stored session.
    ///
    /// What `write` and `edit` changed goes back to what it was, where it is still as the agent left it; what you or a
    /// command changed since is left alone, exit code 1. Calls whose doings are not known, such as commands, are listed.
    /// What is replaced is kept.
    #[command(after_help = REVERT)]
    Revert(RevertArgs),
}

/// Pass a session on to another agent or tool.
#[derive(Subcommand)]
pub(crate) enum PassCommand {
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
    /// Give agents of other tools what has left a window, over the Model Context Protocol.
    ///
    /// Serves `recall`, `list_recallable` and `inspect_session` on standard input and output. They read stored sessions
    /// and the one that the client is writing, and change nothing; known shapes of secrets are replaced in what they
    /// answer.
    #[command(after_help = MCP)]
    Mcp(McpArgs),
}

/// Set up the command.
#[derive(Subcommand)]
pub(crate) enum SetupCommand {
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

//! What can be asked.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// See what a context policy does to the sessions you have.
///
/// FILE is a transcript of OpenCode, Claude Code, Codex, pi, SWE-agent, or plain chat JSON; its format is recognised
/// by content. `-` is standard input. Without FILE the newest session for the current directory is taken, as Claude
/// Code, Codex and pi keep them, and the command says which. Nothing is ever changed.
#[derive(Parser)]
#[command(name = "plimsoll", version, about, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// Write JSON for machines instead of text for people.
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Show where the tokens go: by kind, tool, file and turn, and how far it is to the line.
    Inspect(PlanArgs),
    /// Show exactly what the model would be given now.
    Window(InputArgs),
    /// Write a transcript in another format.
    Convert(ConvertArgs),
    /// Write a session's history as context for another agent.
    ///
    /// The preamble and the digest go to standard output, so that `plimsoll fork FILE | other-agent` works.
    Fork(ForkArgs),
    /// Show which old tool outputs would be cleared from the window.
    ///
    /// Pruning is not deletion: outputs stay in the log, and a prune can be undone.
    Prune(PruneArgs),
    /// Show which messages a summary would take the place of, or make one without a model.
    Compact(CompactArgs),
    /// Cut a tool's output from standard input as layer 1 would.
    Truncate(TruncateArgs),
    /// Show or check a policy.
    Config(ConfigArgs),
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

/// A transcript and a policy.
#[derive(Args)]
pub(crate) struct InputArgs {
    /// The transcript; `-` for standard input, nothing for the newest session of this directory.
    pub(crate) file: Option<PathBuf>,

    /// A preset (plimsoll, opencode, opencode-1.18, openfork) or a policy file.
    #[arg(long, default_value = "plimsoll", value_name = "NAME|FILE")]
    pub(crate) policy: String,

    /// Refuse a transcript with records of unknown kinds instead of counting them.
    #[arg(long)]
    pub(crate) strict: bool,
}

/// For `convert`.
#[derive(Args)]
pub(crate) struct ConvertArgs {
    /// What to read, and how.
    #[command(flatten)]
    pub(crate) input: InputArgs,

    /// The format to write: opencode-export, openai-chat or anthropic-messages.
    #[arg(long, value_name = "FORMAT")]
    pub(crate) to: String,
}

/// For `fork`.
#[derive(Args)]
pub(crate) struct ForkArgs {
    /// What to read, and how.
    #[command(flatten)]
    pub(crate) input: InputArgs,

    /// Tell on standard error what was done to the history.
    #[arg(long)]
    pub(crate) stats: bool,
}

/// For `prune`.
#[derive(Args)]
pub(crate) struct PruneArgs {
    /// What to read, how, and for which window.
    #[command(flatten)]
    pub(crate) from: PlanArgs,

    /// Show the plan. This is all the command does; the flag says so in scripts.
    #[arg(long)]
    pub(crate) plan: bool,
}

/// For commands that look at a session against a window.
#[derive(Args)]
pub(crate) struct PlanArgs {
    /// What to read, and how.
    #[command(flatten)]
    pub(crate) input: InputArgs,

    /// The model's context window, in tokens.
    #[arg(long, default_value_t = 200_000, value_name = "TOKENS")]
    pub(crate) context: u64,
}

/// For `compact`.
#[derive(Args)]
pub(crate) struct CompactArgs {
    /// What to read, how, and for which window.
    #[command(flatten)]
    pub(crate) from: PlanArgs,

    /// Show the plan. This is what the command does by itself; the flag says so in scripts.
    #[arg(long, conflicts_with = "offline")]
    pub(crate) plan: bool,

    /// Print the summary that can be made without a model.
    #[arg(long)]
    pub(crate) offline: bool,
}

/// For `truncate`.
#[derive(Args)]
pub(crate) struct TruncateArgs {
    /// The tool that printed the output; each has its own limit.
    #[arg(long, default_value = "bash", value_name = "NAME")]
    pub(crate) tool: String,

    /// Keep the whole output in this directory when something is cut.
    #[arg(long, value_name = "DIR")]
    pub(crate) spill_dir: Option<PathBuf>,

    /// A preset or a policy file.
    #[arg(long, default_value = "plimsoll", value_name = "NAME|FILE")]
    pub(crate) policy: String,
}

/// For `config`.
#[derive(Args)]
pub(crate) struct ConfigArgs {
    /// A preset or a policy file.
    #[arg(long, default_value = "plimsoll", value_name = "NAME|FILE")]
    pub(crate) policy: String,

    /// Print the JSON Schema of policy files.
    #[arg(long)]
    pub(crate) schema: bool,

    /// Only say whether the policy is consistent; the exit code is the answer.
    #[arg(long, conflicts_with = "schema")]
    pub(crate) check: bool,
}

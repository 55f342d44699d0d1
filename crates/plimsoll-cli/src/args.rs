//! What can be asked.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use plimsoll_formats::Format;

use crate::sessions::Tool;
use crate::style::ColorWhen;

const AFTER: &str = "\
Exit codes: 0 it is done, 1 the answer is no, 2 it was asked wrongly, 3 it failed.

Configuration, from the lightest to the heaviest:
  the preset, then `plimsoll.toml` in this directory or above it, then the user's `config.toml`
  (in $XDG_CONFIG_HOME/plimsoll or ~/.config/plimsoll), then the environment, then flags.

Environment:
  PLIMSOLL_POLICY            a preset or a policy file
  PLIMSOLL_CONTEXT           the model's context window, in tokens
  PLIMSOLL_<SECTION>_<FIELD> any field of the policy, as PLIMSOLL_PRUNE_PROTECT_TOKENS=30000
  NO_COLOR, CLICOLOR_FORCE   no colour; colour also in a pipe
  CLAUDE_CONFIG_DIR, CODEX_HOME, XDG_DATA_HOME
                             where Claude Code, Codex and OpenCode keep their sessions";

const SHORTLY: &str = "`plimsoll --help` tells of exit codes, configuration and environment.";

const REPLAY: &str = "\
Examples:
  plimsoll replay                           the newest session of this directory
  plimsoll replay --context 64000 s.jsonl   the same session under pressure
  plimsoll replay --html page.html ~/.codex/sessions/2026/*/*/*.jsonl
  plimsoll replay --policy none --policy plimsoll --policy my.json s.jsonl

Policies: none (nothing is ever reduced), plimsoll, opencode, opencode-1.18, openfork, a policy
file, and the published rules of others: anthropic-clear (above 100,000 tokens all but 3 tool
results are cleared), mask-N (all but N tool results are masked), codex (at 90 % a summary and
20,000 tokens of the user's words stay).

Columns: deaths are calls that would not have fitted; peak is the largest request as a share of
the window; in sight and by handle say how much of what a call refers to was still in the window,
or could be recalled.";

const INSPECT: &str = "\
Examples:
  plimsoll inspect                          the newest session of this directory
  plimsoll inspect --context 128000 s.jsonl how far a file is from the line of a smaller model
  plimsoll inspect --json s.jsonl | jq '.byTool[0]'";

const WINDOW: &str = "\
Examples:
  plimsoll window s.jsonl | less
  plimsoll window --as anthropic-messages s.jsonl > request.json
  plimsoll window --policy opencode --json s.jsonl | jq .tokens";

const CONVERT: &str = "\
Examples:
  plimsoll convert --to openai-chat s.jsonl > chat.json
  plimsoll convert --to opencode-export --out session.json s.jsonl
  plimsoll convert --to anthropic-messages --session ses_5c opencode.db";

const FORK: &str = "\
Examples:
  plimsoll fork s.jsonl | other-agent       the session as context for another agent
  plimsoll fork --stats s.jsonl > digest.txt
  plimsoll fork --policy openfork --json s.jsonl";

const PRUNE: &str = "\
Examples:
  plimsoll prune --plan                     for the newest session of this directory
  PLIMSOLL_PRUNE_PROTECT_TOKENS=20000 plimsoll prune --plan s.jsonl
  plimsoll prune --plan --json s.jsonl | jq .freedTokens";

const COMPACT: &str = "\
Examples:
  plimsoll compact --plan s.jsonl           which messages a summary would take the place of
  plimsoll compact --offline s.jsonl        a summary made without a model
  plimsoll compact --plan --context 64000 --json s.jsonl";

const TRUNCATE: &str = "\
Examples:
  make 2>&1 | plimsoll truncate --tool bash --spill-dir spill
  plimsoll truncate --tool read < big.log
  plimsoll truncate --json < big.log | jq .plan";

const SESSIONS: &str = "\
Examples:
  plimsoll sessions                         the newest of this directory
  plimsoll sessions --all --limit 50        of every directory
  plimsoll sessions --tool codex --json | jq -r '.[].path'";

const CONFIG: &str = "\
Examples:
  plimsoll config                           every value and where it comes from
  plimsoll config --policy openfork         the same with another preset
  plimsoll config check plimsoll.toml       whether a file is consistent
  plimsoll config --schema > policy.schema.json

A `plimsoll.toml` names a policy and what it changes:
  policy = \"opencode\"        # a preset, or a policy file
  context = 128000           # the model's context window, in tokens
  [prune]
  protectTokens = 30000      # any field of the policy, under its section";

const MAN: &str = "\
Examples:
  plimsoll man | man -l -
  plimsoll man ~/.local/share/man/man1";

/// See what a context policy does to the sessions you have.
///
/// FILE is a transcript of OpenCode, Claude Code, Codex, pi, SWE-agent, or plain chat JSON; its format is recognised
/// by content. It may also be OpenCode's database, or the beginning of the id of a session that `plimsoll sessions`
/// lists. `-` is standard input. Without FILE the newest session for the current directory is taken, wherever
/// OpenCode, Claude Code, Codex or pi keep it, and the command says which. No session is ever changed.
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

    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// List the sessions there are: tool, age, messages, tokens, title.
    #[command(after_help = SESSIONS)]
    Sessions(SessionsArgs),
    /// Show where the tokens go: by kind, tool, file and turn, and how far it is to the line.
    #[command(after_help = INSPECT)]
    Inspect(InputArgs),
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
    /// The preamble and the digest go to standard output, so that `plimsoll fork FILE | other-agent` works.
    #[command(after_help = FORK)]
    Fork(ForkArgs),
    /// Write a transcript in another format.
    #[command(after_help = CONVERT)]
    Convert(ConvertArgs),
    /// Cut a tool's output from standard input as layer 1 would.
    ///
    /// What fits passes byte for byte. The whole of what does not is kept in the spill directory, readable by you
    /// alone, under a name made from its content.
    #[command(after_help = TRUNCATE)]
    Truncate(TruncateArgs),
    /// Show every setting and where it comes from, or check a file.
    #[command(after_help = CONFIG)]
    Config(ConfigArgs),
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

/// What to read, and by which policy.
#[derive(Args)]
pub(crate) struct InputArgs {
    /// The transcript: a file, a session's id, `-` for standard input, or nothing for the newest session of this
    /// directory.
    pub(crate) file: Option<PathBuf>,

    /// Take this session, by its id or the beginning of it: of FILE if it is a database, else of all there are.
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,

    /// Refuse a transcript with records of unknown kinds instead of counting them.
    #[arg(long)]
    pub(crate) strict: bool,

    /// The policy.
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
}

/// Settings that flags can name.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct PolicyArgs {
    /// A preset (plimsoll, opencode, opencode-1.18, openfork) or a policy file.
    #[arg(long, value_name = "NAME|FILE", global = true)]
    pub(crate) policy: Option<String>,

    /// The model's context window, in tokens; 200000 where nothing else is configured.
    #[arg(long, value_name = "TOKENS", global = true, value_parser = tokens)]
    pub(crate) context: Option<u64>,
}

/// For `replay`.
#[derive(Args)]
pub(crate) struct ReplayArgs {
    /// Transcripts, ids of sessions, `-` for standard input, or nothing for the newest session of this directory.
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// A policy to try; can be given several times. All of them if none is given.
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) policy: Vec<String>,

    /// The model's context window, in tokens; 200000 where nothing else is configured.
    #[arg(long, value_name = "TOKENS", value_parser = tokens)]
    pub(crate) context: Option<u64>,

    /// The model's longest answer, for which room is kept; an eighth of the window, at most 32000, if not given.
    #[arg(long, value_name = "TOKENS")]
    pub(crate) output: Option<u64>,

    /// What every request carries besides the conversation: system prompt and tools.
    #[arg(long, value_name = "TOKENS", default_value_t = 0)]
    pub(crate) fixed: u64,

    /// Prices by model, as JSON: {"name": {"cacheRead": 0.3, "cacheWrite": 3.75, "output": 15}}.
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,

    /// Price all sessions as this model; `default` is one dollar for a million tokens of input.
    #[arg(long, value_name = "MODEL")]
    pub(crate) price: Option<String>,

    /// How long a prompt cache lives, where times are recorded.
    #[arg(long, value_name = "MINUTES", default_value_t = 5)]
    pub(crate) cache_minutes: u64,

    /// Write a page with charts to this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

    /// Write over a file that is there.
    #[arg(long, requires = "html")]
    pub(crate) force: bool,

    /// A table for each session, not only for all together.
    #[arg(long)]
    pub(crate) each: bool,

    /// Take this session, by its id or the beginning of it: of FILE if it is a database, else of all there are.
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,

    /// Refuse transcripts with records of unknown kinds instead of counting them.
    #[arg(long)]
    pub(crate) strict: bool,
}

/// For `window`.
#[derive(Args)]
pub(crate) struct WindowArgs {
    /// What to read, and how.
    #[command(flatten)]
    pub(crate) input: InputArgs,

    /// Print it as the body of a request: openai-chat or anthropic-messages.
    #[arg(long = "as", value_name = "FORMAT", value_parser = request_format)]
    pub(crate) request: Option<Format>,
}

/// For `convert`.
#[derive(Args)]
pub(crate) struct ConvertArgs {
    /// What to read, and how.
    #[command(flatten)]
    pub(crate) input: InputArgs,

    /// The format to write: opencode-export, opencode-messages, openai-chat or anthropic-messages.
    #[arg(long, value_name = "FORMAT", value_parser = format)]
    pub(crate) to: Format,

    /// Write to this file instead of standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,

    /// Write over a file that is there.
    #[arg(long, requires = "out")]
    pub(crate) force: bool,
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
    /// What to read, and how.
    #[command(flatten)]
    pub(crate) input: InputArgs,

    /// Show the plan. This is all the command does; the flag says so in scripts.
    #[arg(long)]
    pub(crate) plan: bool,
}

/// For `compact`.
#[derive(Args)]
pub(crate) struct CompactArgs {
    /// What to read, and how.
    #[command(flatten)]
    pub(crate) input: InputArgs,

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

    /// The policy.
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
}

/// For `sessions`.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct SessionsArgs {
    /// What to do with them; to list them if nothing else.
    #[command(subcommand)]
    pub(crate) command: Option<SessionsCommand>,

    /// Which ones.
    #[command(flatten)]
    pub(crate) list: ListArgs,
}

/// What to do with sessions.
#[derive(Subcommand)]
pub(crate) enum SessionsCommand {
    /// List them, the newest first. The same as `plimsoll sessions`.
    List(ListArgs),
}

/// Which sessions to list.
#[derive(Args, Clone)]
pub(crate) struct ListArgs {
    /// Sessions of every directory, not of the current one alone.
    #[arg(long)]
    pub(crate) all: bool,

    /// At most so many.
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub(crate) limit: usize,

    /// Sessions of this tool alone: opencode, claude-code, codex or pi.
    #[arg(long, value_enum, hide_possible_values = true, value_name = "NAME")]
    pub(crate) tool: Option<Tool>,

    /// The policy.
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
}

/// For `config`.
#[derive(Args)]
pub(crate) struct ConfigArgs {
    /// What else to do.
    #[command(subcommand)]
    pub(crate) command: Option<ConfigCommand>,

    /// The policy.
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,

    /// Print the JSON Schema of policy files.
    #[arg(long)]
    pub(crate) schema: bool,

    /// The same as `check` without a file.
    #[arg(long, hide = true, conflicts_with = "schema")]
    pub(crate) check: bool,
}

/// What else to do with the configuration.
#[derive(Subcommand)]
pub(crate) enum ConfigCommand {
    /// Only say whether all settings are consistent, or those of a file; the exit code is the answer.
    Check {
        /// A `plimsoll.toml` or a policy file.
        file: Option<PathBuf>,
    },
}

fn request_format(name: &str) -> Result<Format, String> {
    match name.parse() {
        Ok(format @ (Format::OpenaiChat | Format::AnthropicMessages)) => Ok(format),
        _ => Err("a request is written as openai-chat or anthropic-messages".to_owned()),
    }
}

fn format(name: &str) -> Result<Format, String> {
    name.parse().map_err(|error: plimsoll_formats::UnknownFormat| error.to_string())
}

fn tokens(text: &str) -> Result<u64, String> {
    text.parse().ok().filter(|tokens| *tokens > 0).ok_or_else(|| "expected a whole number above 0".to_owned())
}

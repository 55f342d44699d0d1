//! Arguments of commands on transcripts: `inspect`, `replay`, `window`, `convert` and `fork`.

use std::path::{Path, PathBuf};

use clap::Args;
use plimsoll_formats::Format;
use plimsoll_host::{Flags, InputSource, InputSpec};

use super::tasks::{TaskFork, TaskRunArgs};
use super::values::{output_format, request_format, seconds, tokens, tokens_or_zero};
use crate::output::note;
use crate::stdin;

pub(super) const REPLAY: &str = "\
Examples:
  plimsoll replay                           the newest session of this directory
  plimsoll replay --context 64k s.jsonl     with a smaller window
  plimsoll replay --html page.html ~/.codex/sessions/2026/*/*/*.jsonl
  plimsoll replay --policy none --policy plimsoll --policy my.json s.jsonl";

pub(super) const REPLAY_NOTES: &str = "\
Goes through each recorded model call and builds its request as each policy would have built it. Cost includes the \
provider's prompt cache: the prefix shared with the previous request is read from it, the rest is written.

Policies: none (never reduces), plimsoll, opencode, opencode-1.18, openfork, a policy file, proxy (clears old tool \
results only if earlier savings pay for it), and published rules of others: anthropic-clear (above 100,000 tokens, clears \
all but 3 tool results), anthropic-clear-PERCENT (above a share of the window), mask-N (masks all but N tool results), \
mask-N-by-M (M at a time), codex, claude-code. `--list-policies` explains each rule and its source.

Columns: `window` is the share of the names and numbers that later calls needed, and that only tool outputs had mentioned, \
that was in the window. `all` includes those that other messages mention; `strict` excludes those that only a list or a \
summary repeats. `recall` is what could have been recalled. `deaths` are calls that would not have fitted, and `peak` is \
the largest request as a share of the window.";

pub(super) const INSPECT: &str = "\
Examples:
  plimsoll inspect                          the newest session of this directory
  plimsoll inspect --context 128k s.jsonl   against the limit of a smaller model
  plimsoll inspect --json s.jsonl | jq '.byTool[0]'";

pub(super) const WATCH: &str = "\
Examples:
  plimsoll watch                            this directory's newest session
  plimsoll watch ses_5c                     one session
  plimsoll watch --once                     print once, for a status bar
  plimsoll watch --json | jq --unbuffered .percent";

pub(super) const WATCH_NOTES: &str = "\
Without FILE, follows the newest session of this directory and switches when a newer one appears. In a pipe, each change \
is printed as a new line. Sessions of Claude Code, Codex and pi are read incrementally; others are read again after a \
change, using at most a tenth of the time. Ctrl-C quits.";

pub(super) const WINDOW: &str = "\
Examples:
  plimsoll window s.jsonl | less
  plimsoll window --as anthropic-messages s.jsonl > request.json
  plimsoll window --policy opencode --json s.jsonl | jq .tokens";

pub(super) const CONVERT: &str = "\
Examples:
  plimsoll convert --to openai-chat s.jsonl > chat.json
  plimsoll convert --to opencode-export --out session.json s.jsonl
  plimsoll convert --to anthropic-messages --session ses_5c opencode.db";

pub(super) const MCP: &str = "\
Examples:
  claude mcp add plimsoll -- plimsoll mcp
  codex mcp add plimsoll -- plimsoll mcp
  plimsoll mcp --session ses_5c";

pub(super) const MCP_NOTES: &str = "\
Serves `recall`, `list_recallable` and `inspect_session` over the Model Context Protocol on standard input and output. \
The tools read stored sessions and the session that the client is writing, and change nothing. Known secrets are \
redacted in their results.

For OpenCode, add to `opencode.json`:
  \"mcp\": {
    \"plimsoll\": { \"type\": \"local\", \"command\": [\"plimsoll\", \"mcp\"] }
  }";

pub(super) const FORK: &str = "\
Examples:
  plimsoll fork s.jsonl | other-agent
  plimsoll fork --stats s.jsonl > digest.txt
  plimsoll fork --context 32k s.jsonl       for an agent with a small window
  plimsoll fork --redact --task \"review the last change\" s.jsonl | other-agent
  plimsoll fork ses_5c --run \"what is still to be done?\" --agent explore
  plimsoll fork claude-code:5d0c --run \"review it\" --allow 'bash:cargo *'";

pub(super) const FORK_NOTES: &str = "\
Writes a preamble and a digest of the session to standard output. They fit the given context window and leave room for \
the other agent's work; the exit code is 1 if the window is too small for any digest.

With `--run`, a background task with the session's context works on the prompt in this process. Progress goes to \
standard error, the answer to standard output, and `plimsoll tasks` lists the task. A session of another tool is \
imported first. Exit codes: 0 completed, 1 failed or cancelled, 130 interrupted and resumable.";

/// Help headings of options that many commands share. They follow a command's own options.
pub(super) const INPUT: &str = "Input options";
pub(super) const POLICY: &str = "Policy options";

/// Transcript and policy to read it with.
#[derive(Args)]
pub(crate) struct InputArgs {
    /// Transcript: a file, a session id or prefix, or `-` for standard input [default: redirected standard input, or the
    /// newest session of this directory].
    pub(crate) file: Option<PathBuf>,

    /// Session id or prefix, in FILE or among all sessions.
    #[arg(short, long, value_name = "ID", help_heading = INPUT)]
    pub(crate) session: Option<String>,

    /// Reject a transcript with unknown record types or invalid values.
    #[arg(long, help_heading = INPUT)]
    pub(crate) strict: bool,

    /// Policy options.
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
}

/// Policy settings as flags.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct PolicyArgs {
    /// Preset (plimsoll, opencode, opencode-1.18, openfork) or policy file.
    #[arg(short, long, value_name = "NAME|FILE", global = true, help_heading = POLICY)]
    pub(crate) policy: Option<String>,

    /// Context window in tokens, such as 128k [default: 200000, or as configured].
    #[arg(
        short = 'w',
        long,
        value_name = "TOKENS",
        global = true,
        value_parser = tokens,
        help_heading = POLICY
    )]
    pub(crate) context: Option<u64>,
}

impl InputArgs {
    /// Returns the input as the host takes it.
    pub(crate) fn spec(&self) -> InputSpec {
        let source = match (&self.file, &self.session) {
            (Some(file), session) if file == Path::new("-") => standard_input(session.clone()),
            (Some(file), session) => InputSource::File(file.clone(), session.clone()),
            (None, Some(id)) => InputSource::Session(id.clone()),
            (None, None) if stdin::is_redirected_file() => standard_input(None),
            (None, None) => {
                if stdin::has_piped_text() {
                    note("note: standard input is a pipe and is ignored; use `-` as FILE to read it");
                }
                InputSource::Newest
            }
        };
        InputSpec { source, strict: self.strict, flags: self.policy.flags() }
    }
}

fn standard_input(session: Option<String>) -> InputSource {
    InputSource::Stream(Box::new(std::io::stdin()), session)
}

impl PolicyArgs {
    /// Returns the settings as the host takes them.
    pub(crate) fn flags(&self) -> Flags {
        Flags { policy: self.policy.clone(), context: self.context, ..Flags::default() }
    }
}

/// Arguments of `replay`.
#[derive(Args)]
pub(crate) struct ReplayArgs {
    /// Transcripts, session ids, or `-` for standard input [default: the newest session of this directory].
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// Policy to try [default: all]. Repeatable.
    #[arg(short, long, value_name = "NAME|FILE")]
    pub(crate) policy: Vec<String>,

    /// Context window in tokens for all sessions, such as 64k [default: as recorded, the model's, or as configured].
    #[arg(short = 'w', long, value_name = "TOKENS", value_parser = tokens)]
    pub(crate) context: Option<u64>,

    /// Room reserved for the model's answer [default: an eighth of the window, at most 32000].
    #[arg(long, value_name = "TOKENS", value_parser = tokens)]
    pub(crate) max_output: Option<u64>,

    /// Tokens of system prompt and tools in every request; 0 derives them from recorded usage.
    #[arg(long, value_name = "TOKENS", default_value = "0", value_parser = tokens_or_zero)]
    pub(crate) overhead: u64,

    /// Prices by model, as JSON: {"name": {"cacheRead": 0.3, "cacheWrite": 3.75, "output": 15}}.
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,

    /// Price every session as this model; `default` is one dollar per million input tokens.
    #[arg(long, value_name = "MODEL")]
    pub(crate) price_as: Option<String>,

    /// Lifetime of the prompt cache, if times are recorded [default: as recorded usage suggests, or 5].
    #[arg(long, value_name = "MINUTES")]
    pub(crate) cache_minutes: Option<u64>,

    /// Write a page with charts to this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

    /// Overwrite an existing file.
    #[arg(long, requires = "html")]
    pub(crate) force: bool,

    /// Print a table per session in addition to the total.
    #[arg(long)]
    pub(crate) per_session: bool,

    /// List the policies with the sources of their rules, and exit.
    #[arg(long, conflicts_with_all = ["html", "list_prices"])]
    pub(crate) list_policies: bool,

    /// List model prices, marking those used for FILE or `--price-as`, and exit.
    #[arg(long, conflicts_with = "html")]
    pub(crate) list_prices: bool,

    /// Session id or prefix, in FILE or among all sessions.
    #[arg(short, long, value_name = "ID", help_heading = INPUT)]
    pub(crate) session: Option<String>,

    /// Reject transcripts with unknown record types or invalid values.
    #[arg(long, help_heading = INPUT)]
    pub(crate) strict: bool,
}

/// Arguments of `window`.
#[derive(Args)]
pub(crate) struct WindowArgs {
    /// Input and policy options.
    #[command(flatten)]
    pub(crate) input: InputArgs,

    /// Print as the body of a request: openai-chat or anthropic-messages.
    #[arg(long = "as", value_name = "FORMAT", value_parser = request_format)]
    pub(crate) request: Option<Format>,
}

/// Arguments of `inspect`.
#[derive(Args)]
pub(crate) struct InspectArgs {
    /// Input and policy options.
    #[command(flatten)]
    pub(crate) input: InputArgs,

    /// Include the log: also messages that a summary replaced.
    #[arg(long)]
    pub(crate) log: bool,
}

/// Arguments of `watch`.
#[derive(Args)]
pub(crate) struct WatchArgs {
    /// Input and policy options.
    #[command(flatten)]
    pub(crate) input: InputArgs,

    /// Print one line and exit.
    #[arg(long)]
    pub(crate) once: bool,

    /// Time between checks for changes.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds, conflicts_with = "once")]
    pub(crate) interval: f64,
}

/// Arguments of `mcp`.
#[derive(Args)]
pub(crate) struct McpArgs {
    /// Default session (id or prefix) for calls that name none [default: the one the client is writing in this directory, or
    /// the newest stored one].
    #[arg(short, long, value_name = "ID")]
    pub(crate) session: Option<String>,
}

/// Arguments of `convert`.
#[derive(Args)]
pub(crate) struct ConvertArgs {
    /// Input and policy options.
    #[command(flatten)]
    pub(crate) input: InputArgs,

    /// Output format: opencode-export, opencode-messages, openai-chat or anthropic-messages.
    #[arg(short, long, value_name = "FORMAT", value_parser = output_format)]
    pub(crate) to: Format,

    /// Output file [default: standard output].
    #[arg(short, long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,

    /// Overwrite an existing file.
    #[arg(long, requires = "out")]
    pub(crate) force: bool,
}

/// Arguments of `fork`.
#[derive(Args)]
pub(crate) struct ForkArgs {
    /// Input and policy options.
    #[command(flatten)]
    pub(crate) input: InputArgs,

    /// Print on standard error how the history was shortened.
    #[arg(long, conflicts_with = "run")]
    pub(crate) stats: bool,

    /// Instruction for the other agent, placed after the history.
    #[arg(long = "task", value_name = "TEXT", conflicts_with = "run")]
    pub(crate) child_task: Option<String>,

    /// Redact known secrets, such as keys, tokens and passwords, in the history.
    #[arg(long, conflicts_with = "run")]
    pub(crate) redact: bool,

    /// Run a background task with this prompt and the session's context, and print its answer.
    #[arg(long, value_name = "PROMPT")]
    pub(crate) run: Option<String>,

    /// Short description of the task [default: the beginning of PROMPT].
    #[arg(long, value_name = "WORDS", requires = "run")]
    pub(crate) description: Option<String>,

    /// Agent of the task [default: general, or the session's own with `--inherit history`].
    #[arg(long, value_name = "NAME", requires = "run", help_heading = "Task options")]
    pub(crate) agent: Option<String>,

    /// Model of the task [default: the agent's or the session's].
    #[arg(short, long, value_name = "PROVIDER/MODEL", requires = "run", help_heading = "Task options")]
    pub(crate) model: Option<String>,

    /// Context of the task: a digest, or the full history, which requires the session's agent and model [default: as
    /// configured].
    #[arg(
        long,
        value_name = "digest|history",
        requires = "run",
        hide_possible_values = true,
        help_heading = "Task options"
    )]
    pub(crate) inherit: Option<TaskFork>,

    /// Permissions and sandbox of the task.
    #[command(flatten)]
    pub(crate) task: TaskRunArgs,
}

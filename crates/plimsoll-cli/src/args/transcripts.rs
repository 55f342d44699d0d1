//! What can be asked about transcripts: `inspect`, `replay`, `window`, `convert` and `fork`.

use std::path::{Path, PathBuf};

use clap::Args;
use plimsoll_formats::Format;
use plimsoll_host::{Flags, InputSource, InputSpec};

use super::tasks::{TaskFork, TaskRunArgs};
use super::values::{format, request_format, seconds, tokens, tokens_or_none};
use crate::output::note;
use crate::stdin;

pub(super) const REPLAY: &str = "\
Examples:
  plimsoll replay                           the newest session of this directory
  plimsoll replay --context 64k s.jsonl     the same session under pressure
  plimsoll replay --html page.html ~/.codex/sessions/2026/*/*/*.jsonl
  plimsoll replay --policy none --policy plimsoll --policy my.json s.jsonl

Policies: none (nothing is ever reduced), plimsoll, opencode, opencode-1.18, openfork, a policy \
file, and the published rules of others: anthropic-clear (above 100,000 tokens all but 3 tool \
results are cleared), anthropic-clear-PERCENT (above a share of the window), mask-N (all but N \
tool results are masked), mask-N-by-M (M at a time), codex, claude-code. `--list-policies` tells \
each rule and where it comes from.

Columns: deaths are calls that would not have fitted; peak is the largest request as a share of \
the window; recall is the share of what calls needed from tool outputs that was in the window or \
was brought back, which is part of the cost; in window leaves out what was brought back.";

pub(super) const INSPECT: &str = "\
Examples:
  plimsoll inspect                          the newest session of this directory
  plimsoll inspect --context 128k s.jsonl   how far a file is from the line of a smaller model
  plimsoll inspect --json s.jsonl | jq '.byTool[0]'";

pub(super) const WATCH: &str = "\
Examples:
  plimsoll watch                            the newest session of this directory, and newer ones
  plimsoll watch ses_5c                     one session alone
  plimsoll watch --once                     one line, for a status bar that asks again by itself
  plimsoll watch --json | jq --unbuffered .percent

On a terminal one line is kept up to date; in a pipe each change is a line of its own. Of sessions of Claude Code, Codex \
and pi only what was appended is read. Others are read again when they have changed, in at most a tenth of the time. \
Ctrl-C ends it.";

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
  plimsoll mcp --session ses_5c

In `opencode.json`: \"mcp\": { \"plimsoll\": { \"type\": \"local\", \"command\": [\"plimsoll\", \"mcp\"] } }";

pub(super) const FORK: &str = "\
Examples:
  plimsoll fork s.jsonl | other-agent       the session as context for another agent
  plimsoll fork --stats s.jsonl > digest.txt
  plimsoll fork --context 32k s.jsonl       for an agent with a small window
  plimsoll fork --policy openfork --json s.jsonl
  plimsoll fork --redact --task \"review the last change\" s.jsonl | other-agent
  plimsoll fork ses_5c --run \"what is still to be done?\" --agent explore
  plimsoll fork claude-code:5d0c --run \"review what was changed\" --allow 'bash:cargo *'

With `--run` a background task that knows the session works on the prompt here. What it does goes to standard error, its \
answer to standard output; `plimsoll tasks` lists it from then on. A session of another tool is imported first. Exit codes: \
0 the task is completed, 1 it failed or was cancelled, 130 it was interrupted and can be resumed.";

/// Headings in help for what many commands have in common, so that it comes after what a command has of its own: which
/// transcript is read, and by which policy.
pub(super) const INPUT: &str = "Transcript";
pub(super) const POLICY: &str = "Policy";

/// What to read, and by which policy.
#[derive(Args)]
pub(crate) struct InputArgs {
    /// The transcript: a file, a session's id, `-` for standard input, or nothing for the file that standard input
    /// comes from, or else for the newest session of this directory.
    pub(crate) file: Option<PathBuf>,

    /// Take this session, by its id or the beginning of it: of FILE if it holds several, else of all there are.
    #[arg(short, long, value_name = "ID", help_heading = INPUT)]
    pub(crate) session: Option<String>,

    /// Refuse a transcript with records of unknown kinds or wrong values instead of noting them.
    #[arg(long, help_heading = INPUT)]
    pub(crate) strict: bool,

    /// The policy.
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
}

/// Settings that flags can name.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct PolicyArgs {
    /// A preset (plimsoll, opencode, opencode-1.18, openfork) or a policy file.
    #[arg(short, long, value_name = "NAME|FILE", global = true, help_heading = POLICY)]
    pub(crate) policy: Option<String>,

    /// The model's context window in tokens, as 128k; 200000 where nothing else is configured.
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
    /// What to read, as a host takes it.
    pub(crate) fn spec(&self) -> InputSpec {
        let source = match (&self.file, &self.session) {
            (Some(file), session) if file == Path::new("-") => standard(session.clone()),
            (Some(file), session) => InputSource::File(file.clone(), session.clone()),
            (None, Some(id)) => InputSource::Session(id.clone()),
            (None, None) if stdin::is_redirected_file() => standard(None),
            (None, None) => {
                if stdin::has_piped_text() {
                    note("note: standard input is a pipe, and is read only where FILE is `-`");
                }
                InputSource::Newest
            }
        };
        InputSpec { source, strict: self.strict, flags: self.policy.flags() }
    }
}

fn standard(session: Option<String>) -> InputSource {
    InputSource::Stream(Box::new(std::io::stdin()), session)
}

impl PolicyArgs {
    /// The settings, as a host takes them.
    pub(crate) fn flags(&self) -> Flags {
        Flags { policy: self.policy.clone(), context: self.context, ..Flags::default() }
    }
}

/// For `replay`.
#[derive(Args)]
pub(crate) struct ReplayArgs {
    /// Transcripts, ids of sessions, `-` for standard input, or nothing for the newest session of this directory.
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// A policy to try; can be given several times. All of them if none is given.
    #[arg(short, long, value_name = "NAME|FILE")]
    pub(crate) policy: Vec<String>,

    /// The context window to try all sessions in, in tokens, as 64k; otherwise the one each of them records, its model's, or
    /// what is configured.
    #[arg(short = 'w', long, value_name = "TOKENS", value_parser = tokens)]
    pub(crate) context: Option<u64>,

    /// The model's longest answer, for which room is kept; an eighth of the window, at most 32000, if not given.
    #[arg(long, value_name = "TOKENS", value_parser = tokens)]
    pub(crate) output: Option<u64>,

    /// What every request carries besides the conversation: system prompt and tools. At 0 what recorded usage tells.
    #[arg(long, value_name = "TOKENS", default_value = "0", value_parser = tokens_or_none)]
    pub(crate) fixed: u64,

    /// Prices by model, as JSON: {"name": {"cacheRead": 0.3, "cacheWrite": 3.75, "output": 15}}.
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,

    /// Price all sessions as this model; `default` is one dollar for a million tokens of input.
    #[arg(long, value_name = "MODEL")]
    pub(crate) price: Option<String>,

    /// How long a prompt cache lives, where times are recorded; otherwise as recorded usage tells, else 5.
    #[arg(long, value_name = "MINUTES")]
    pub(crate) cache_minutes: Option<u64>,

    /// Write a page with charts to this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

    /// Write over a file that is there.
    #[arg(long, requires = "html")]
    pub(crate) force: bool,

    /// A table for each session, not only for all together.
    #[arg(long)]
    pub(crate) each: bool,

    /// List the policies and where their rules come from, and replay nothing.
    #[arg(long, conflicts_with_all = ["html", "list_prices"])]
    pub(crate) list_policies: bool,

    /// List what models cost, with a mark at the rows that each FILE or `--price` takes, and replay nothing.
    #[arg(long, conflicts_with = "html")]
    pub(crate) list_prices: bool,

    /// Take this session, by its id or the beginning of it: of FILE if it holds several, else of all there are.
    #[arg(short, long, value_name = "ID", help_heading = INPUT)]
    pub(crate) session: Option<String>,

    /// Refuse transcripts with records of unknown kinds or wrong values instead of noting them.
    #[arg(long, help_heading = INPUT)]
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

/// For `inspect`.
#[derive(Args)]
pub(crate) struct InspectArgs {
    /// What to read, and how.
    #[command(flatten)]
    pub(crate) input: InputArgs,

    /// Show the log beside the window: also what a summary stands for.
    #[arg(long)]
    pub(crate) log: bool,
}

/// For `watch`.
#[derive(Args)]
pub(crate) struct WatchArgs {
    /// What to read, and how.
    #[command(flatten)]
    pub(crate) input: InputArgs,

    /// Print one line and end.
    #[arg(long)]
    pub(crate) once: bool,

    /// Look for changes so often.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds, conflicts_with = "once")]
    pub(crate) every: f64,
}

/// For `mcp`.
#[derive(Args)]
pub(crate) struct McpArgs {
    /// The session that calls are about which name none, by its id or the beginning of it. Without it that is the one
    /// the client itself is writing for the working directory, and the newest that is stored for it.
    #[arg(short, long, value_name = "ID")]
    pub(crate) session: Option<String>,
}

/// For `convert`.
#[derive(Args)]
pub(crate) struct ConvertArgs {
    /// What to read, and how.
    #[command(flatten)]
    pub(crate) input: InputArgs,

    /// The format to write: opencode-export, opencode-messages, openai-chat or anthropic-messages.
    #[arg(short, long, value_name = "FORMAT", value_parser = format)]
    pub(crate) to: Format,

    /// Write to this file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
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
    #[arg(long, conflicts_with = "run")]
    pub(crate) stats: bool,

    /// What the other agent is to do; it comes last, set apart from the history.
    #[arg(long = "task", value_name = "TEXT", conflicts_with = "run")]
    pub(crate) child_task: Option<String>,

    /// Replace secrets of known shapes, such as keys, tokens and passwords, in the history.
    #[arg(long, conflicts_with = "run")]
    pub(crate) redact: bool,

    /// Let a background task that knows the session work on this, and print its answer.
    #[arg(long, value_name = "PROMPT")]
    pub(crate) run: Option<String>,

    /// What the task is about, in a few words; the beginning of PROMPT if not given.
    #[arg(long, value_name = "WORDS", requires = "run")]
    pub(crate) description: Option<String>,

    /// The agent of the task; if none is named `general`, or the session's own for `--fork history`.
    #[arg(long, value_name = "NAME", requires = "run")]
    pub(crate) agent: Option<String>,

    /// Its model; the agent's own or the session's if none is named.
    #[arg(short, long, value_name = "PROVIDER/MODEL", requires = "run")]
    pub(crate) model: Option<String>,

    /// How it is given the session: a digest, or the history itself, which needs the session's agent and model. As
    /// configured if not given.
    #[arg(long, value_name = "digest|history", requires = "run", hide_possible_values = true)]
    pub(crate) fork: Option<TaskFork>,

    /// What the task may do.
    #[command(flatten)]
    pub(crate) task: TaskRunArgs,
}

//! What can be asked of `sessions`.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use plimsoll_formats::Format;
use plimsoll_import::Tool;

use super::transcripts::{InputArgs, POLICY};
use super::values::{format, tokens};

pub(super) const SESSIONS: &str = "\
Examples:
  plimsoll sessions                         the newest of this directory
  plimsoll sessions --all --limit 50        of every directory
  plimsoll sessions --tool codex --json | jq -r '.[].path'
  plimsoll sessions import s.jsonl          so that it can be reduced and undone
  plimsoll sessions show ses_5c             what is known about a stored one

Stored sessions are in one database: `--store FILE`, PLIMSOLL_STORE, `store` in the configuration, or \
plimsoll/plimsoll.db in $XDG_DATA_HOME or ~/.local/share. `sessions import` makes it.";

const SHOW: &str = "\
Examples:
  plimsoll sessions show                    the newest stored session of this directory
  plimsoll sessions show ses_5c --messages 50
  plimsoll sessions show ses_5c --json | jq .usage";

const IMPORT: &str = "\
Examples:
  plimsoll sessions import s.jsonl
  plimsoll sessions import 5d0c31aa         a session of another tool, by its id
  plimsoll sessions import codex:019e       one of that tool alone
  plimsoll sessions import opencode.db --session ses_5c
  id=$(plimsoll sessions import - < chat.json)

The ids go to standard output, one a line. All of a session is stored or nothing, with those of its sub-agents. \
Importing it again adds what is new, and goes on with a last message that was still being written. Where the stored \
copy is no longer the beginning of the file, or was continued here, a new session is made. Messages and tool outputs are kept as they are; of what a file says \
about its session, title, directory, model and times are.

A session keeps its id; one without gets an id from its content, so that the same is not stored twice. Message ids \
too short to be the only ones of their kind are replaced. A call that the conversation left behind without an answer \
is marked as interrupted. Where a file does not say in which directory its agent worked, it is the current one.";

const EXPORT: &str = "\
Examples:
  plimsoll sessions export ses_5c > session.json
  plimsoll sessions export ses_5c --to openai-chat --out chat.json
  plimsoll sessions export ses_5c --salvage --out rest.json

Everything is held against its checksum first; a session of which something is not what was written is refused by the name of \
that. `--salvage` writes it as far as it can be read and lists what is damaged or missing, with `--json` and `--out` as JSON.";

const HANDOVER: &str = "\
Examples:
  plimsoll sessions handover ses_5c --to claude-code
  plimsoll sessions handover codex:019e --to opencode
  plimsoll sessions handover --to codex     the newest session of this directory

A new session is written that holds what the window shows: what was cleared stays cleared, a summary stands for what it \
summarises. The session it is made from is only read. For Claude Code and Codex the file goes to the tool's own folder; for \
OpenCode it is an export in the current directory, which `opencode import` takes. The line to type goes to standard output. \
What is out of the window can be reached from there with `plimsoll mcp`.";

const RM: &str = "\
Examples:
  plimsoll sessions rm ses_5c ses_7f";

const PURGE: &str = "\
Examples:
  plimsoll sessions purge ses_5c --match 'sk-[A-Za-z0-9]{20,}'
  plimsoll sessions purge ses_5c --match 'sk-[A-Za-z0-9]{20,}' --yes
  plimsoll sessions purge ses_5c --part prt_1e0f40599001aQ --yes

What goes is destroyed in the log, in marks, receipts and titles, in spilled outputs, in the index for searches, in free \
pages and the write-ahead log, and with the copies that upgrades left. `[purged]` stands in its place, and a receipt that \
cannot be undone. Forks that share it lose it too. Other sessions that say the same, backups and the disk itself are \
not touched.";

const GC: &str = "\
Examples:
  plimsoll sessions gc
  PLIMSOLL_SPILLS_AGE=1d plimsoll sessions gc

How long outputs stay is configured:
  [spills]
  age = \"7d\"                # or keep = true
  mostBytes = 1000000000     # the oldest go when all together take more";

const CHECK: &str = "\
Examples:
  plimsoll sessions check --json | jq -r '.problems[]'
  plimsoll sessions check --accept

A database that is older than what had been acknowledged, because its `-wal` file was lost or an older copy was put in \
its place, cannot be mended: restore a backup, or accept the loss. Until then every command warns.";

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
    /// List them, the newest first, as `plimsoll sessions` does without a subcommand.
    List(ListArgs),
    /// Show what is known about a stored session, and its newest messages.
    #[command(after_help = SHOW)]
    Show(ShowArgs),
    /// Store sessions, so that they can be reduced, undone and recalled.
    #[command(after_help = IMPORT)]
    Import(ImportArgs),
    /// Write a stored session as a transcript.
    #[command(after_help = EXPORT)]
    Export(ExportArgs),
    /// Write a session as a new one that Claude Code, Codex or OpenCode goes on with.
    #[command(after_help = HANDOVER)]
    Handover(HandoverArgs),
    /// Remove stored sessions, with their tasks and the outputs that were spilled from them.
    #[command(after_help = RM)]
    Rm {
        /// Sessions, by their ids or the beginnings of them.
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
        /// Although another process runs one of them; it is named, and cannot write any more.
        #[arg(long)]
        force: bool,
    },
    /// Let go of spilled outputs that are too old or too many, and of files that nothing needs.
    #[command(after_help = GC)]
    Gc,
    /// Look for damage in the database; the exit code is the answer.
    #[command(after_help = CHECK)]
    Check(CheckArgs),
    /// Destroy content of a stored session for good, such as a secret; without `--yes` show what would go.
    #[command(after_help = PURGE)]
    Purge(PurgeArgs),
}

/// For `sessions check`.
#[derive(Args)]
pub(crate) struct CheckArgs {
    /// Accept that changes are missing, and stop warning about it.
    #[arg(long)]
    pub(crate) accept: bool,
}

/// For `sessions purge`.
#[derive(Args)]
pub(crate) struct PurgeArgs {
    /// A stored session, by its id or the beginning of it.
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,

    /// What matches this regular expression; of spilled outputs those in which something matches, as a whole.
    #[arg(long = "match", value_name = "RE", required_unless_present = "part", conflicts_with = "part")]
    pub(crate) pattern: Option<String>,

    /// All of this part, with the output that was spilled from it.
    #[arg(long, value_name = "ID")]
    pub(crate) part: Option<String>,

    /// Do it.
    #[arg(long)]
    pub(crate) yes: bool,

    /// Although another process runs the session; it is named, and cannot write any more.
    #[arg(long)]
    pub(crate) force: bool,
}

/// For `sessions show`.
#[derive(Args)]
pub(crate) struct ShowArgs {
    /// A stored session, by its id or the beginning of it; the newest of this directory if none is given.
    pub(crate) id: Option<String>,

    /// So many of its newest messages.
    #[arg(long, default_value_t = 10, value_name = "N")]
    pub(crate) messages: u64,
}

fn tools() -> impl TypedValueParser<Value = Tool> {
    let unknown = |name: String| format!("there is no tool `{name}`");
    let tool = move |name: String| {
        Tool::ALL.into_iter().find(|tool| tool.key() == name).ok_or_else(|| unknown(name))
    };
    PossibleValuesParser::new(Tool::ALL.map(Tool::key)).try_map(tool)
}

/// For `sessions import`.
#[derive(Args)]
pub(crate) struct ImportArgs {
    /// Transcripts, ids of sessions of other tools (also as TOOL:ID), or `-` for standard input.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// Take this session of a database, by its id or the beginning of it.
    #[arg(short, long, value_name = "ID")]
    pub(crate) session: Option<String>,

    /// Store a session that is stored already once more, under new ids.
    #[arg(long)]
    pub(crate) again: bool,

    /// Refuse transcripts with records of unknown kinds or wrong values instead of noting them.
    #[arg(long)]
    pub(crate) strict: bool,
}

/// For `sessions export`.
#[derive(Args)]
pub(crate) struct ExportArgs {
    /// A stored session, by its id or the beginning of it.
    pub(crate) id: String,

    /// The format to write: opencode-export, opencode-messages, openai-chat or anthropic-messages.
    #[arg(short, long, value_name = "FORMAT", value_parser = format, default_value = "opencode-export")]
    pub(crate) to: Format,

    /// Write to this file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,

    /// Write over a file that is there.
    #[arg(long, requires = "out")]
    pub(crate) force: bool,

    /// Write what can still be read of a damaged session, and list the rest; the exit code is 3 if there is any.
    #[arg(long)]
    pub(crate) salvage: bool,
}

/// For `sessions handover`.
#[derive(Args)]
pub(crate) struct HandoverArgs {
    /// What to read, and how.
    #[command(flatten)]
    pub(crate) input: InputArgs,

    /// The tool that is to go on: claude-code, codex or opencode.
    #[arg(short, long, value_name = "TOOL", value_parser = takers(), hide_possible_values = true)]
    pub(crate) to: Tool,

    /// Write below this folder instead of the tool's own.
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,

    /// Hand over the window unchanged, even if it is over the line of the tool's model.
    #[arg(long)]
    pub(crate) as_is: bool,
}

fn takers() -> impl TypedValueParser<Value = Tool> {
    let takers = [Tool::ClaudeCode, Tool::Codex, Tool::Opencode];
    let taker = move |name: String| {
        let unknown = format!("there is no tool `{name}`");
        takers.into_iter().find(|tool| tool.key() == name).ok_or(unknown)
    };
    PossibleValuesParser::new(takers.map(Tool::key)).try_map(taker)
}

/// Which sessions to list.
#[derive(Args, Clone)]
pub(crate) struct ListArgs {
    /// Sessions of every directory, not of the current one alone.
    #[arg(short, long)]
    pub(crate) all: bool,

    /// At most so many.
    #[arg(short = 'n', long, default_value_t = 20, value_name = "N")]
    pub(crate) limit: usize,

    /// Sessions of this tool alone: opencode, claude-code, codex, pi, gemini-cli, goose, cline, kimi or plimsoll.
    #[arg(long, value_parser = tools(), hide_possible_values = true, value_name = "NAME")]
    pub(crate) tool: Option<Tool>,

    /// A preset (plimsoll, opencode, opencode-1.18, openfork) or a policy file.
    #[arg(short, long, value_name = "NAME|FILE", help_heading = POLICY)]
    pub(crate) policy: Option<String>,

    /// The model's context window in tokens, as 128k; 200000 where nothing else is configured.
    #[arg(short = 'w', long, value_name = "TOKENS", value_parser = tokens, help_heading = POLICY)]
    pub(crate) context: Option<u64>,
}

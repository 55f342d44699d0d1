//! Arguments of `sessions`.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgGroup, Args, Subcommand};
use plimsoll_formats::Format;
use plimsoll_import::Tool;

use super::transcripts::{InputArgs, POLICY};
use super::values::{output_format, tokens};

pub(super) const SESSIONS: &str = "\
Examples:
  plimsoll sessions                         the newest of this directory
  plimsoll sessions --all --limit 50        of every directory
  plimsoll sessions --tool codex --json | jq -r '.[].path'
  plimsoll sessions import s.jsonl          store one, to reduce and undo
  plimsoll sessions show ses_5c             details of a stored session";

pub(super) const SESSIONS_NOTES: &str = "\
Stored sessions are in one database: `--store FILE`, PLIMSOLL_STORE, `store` in the configuration, or \
plimsoll/plimsoll.db in $XDG_DATA_HOME (default ~/.local/share). `sessions import` creates it.";

const SHOW: &str = "\
Examples:
  plimsoll sessions show                    this directory's newest session
  plimsoll sessions show ses_5c --messages 50
  plimsoll sessions show ses_5c --json | jq .usage";

const IMPORT: &str = "\
Examples:
  plimsoll sessions import s.jsonl
  plimsoll sessions import 5d0c31aa         a session of another tool, by id
  plimsoll sessions import codex:019e       an id of one tool
  plimsoll sessions import opencode.db --session ses_5c
  id=$(plimsoll sessions import - < chat.json)";

const IMPORT_NOTES: &str = "\
Prints the ids of the stored sessions, one per line. A session is stored completely or not at all, including the \
sessions of its sub-agents. Importing it again appends what is new. If the stored copy was continued here, or is no \
longer a prefix of the file, a new session is created.

A session keeps its id; a session without one gets an id derived from its content, so that it is not stored twice. \
Message ids that are too short to be unique are replaced. Calls without a result are marked as interrupted. If a file \
does not record its working directory, the current directory is used.";

const EXPORT: &str = "\
Examples:
  plimsoll sessions export ses_5c > session.json
  plimsoll sessions export ses_5c --to openai-chat --out chat.json
  plimsoll sessions export ses_5c --salvage --out rest.json";

const EXPORT_NOTES: &str = "\
Checksums are verified first; a damaged session is not exported. `--salvage` exports everything that is readable and \
lists what is damaged or missing, as JSON with `--json` and `--out`.";

const HANDOVER: &str = "\
Examples:
  plimsoll sessions handover ses_5c --to claude-code
  plimsoll sessions handover codex:019e --to opencode
  plimsoll sessions handover --to codex     this directory's newest session";

const HANDOVER_NOTES: &str = "\
Writes a new session with the content of the window: cleared outputs stay cleared, and a summary replaces the messages \
it covers. The original session is not changed. For Claude Code and Codex the file goes to the tool's own directory; \
for OpenCode it is an export in the current directory, to be imported with `opencode import`. Prints the command that \
continues the session. Content outside the window stays available there through `plimsoll mcp`.";

const RM: &str = "\
Examples:
  plimsoll sessions rm ses_5c ses_7f";

const PURGE: &str = "\
Examples:
  plimsoll sessions purge ses_5c --match 'sk-[A-Za-z0-9]{20,}'
  plimsoll sessions purge ses_5c --match 'sk-[A-Za-z0-9]{20,}' --yes
  plimsoll sessions purge ses_5c --part prt_1e0f40599001aQ --yes";

const PURGE_NOTES: &str = "\
Purging is permanent. Content is destroyed in the log, marks, receipts, titles, spilled outputs, the search index, free \
pages, the write-ahead log and backups made by upgrades, and replaced by `[purged]`. The receipt cannot be undone. Forks \
that share the content lose it too. Not covered: other sessions with the same text, your own backups, and the disk.";

const GC: &str = "\
Examples:
  plimsoll sessions gc
  PLIMSOLL_SPILLS_AGE=1d plimsoll sessions gc";

const GC_NOTES: &str = "\
Retention is configured:
  [spills]
  age = \"7d\"                 # or keep = true
  maxBytes = 1000000000      # above this total, the oldest expire";

const CHECK: &str = "\
Examples:
  plimsoll sessions check
  plimsoll sessions check --json | jq -r '.problems[]'
  plimsoll sessions check --accept-loss";

const CHECK_NOTES: &str = "\
A database that is older than acknowledged writes (its `-wal` file was lost, or an older copy was restored) cannot be \
repaired: restore a newer backup, or accept the loss. Until then every command prints a warning.

Calls without a result in sessions that no process runs are listed as well (`openCalls` in `--json`). They are not damage and do \
not change the exit code: an interrupted session has them until it is run again.";

/// Arguments of `sessions`.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct SessionsArgs {
    /// Subcommand; lists sessions if omitted.
    #[command(subcommand)]
    pub(crate) command: Option<SessionsCommand>,

    /// Filters.
    #[command(flatten)]
    pub(crate) list: ListArgs,
}

/// Subcommands of `sessions`.
#[derive(Subcommand)]
pub(crate) enum SessionsCommand {
    /// List sessions, newest first (the default).
    List(ListArgs),
    /// Show details and the newest messages of a stored session.
    #[command(before_help = SHOW)]
    Show(ShowArgs),
    /// Store sessions, so that they can be reduced, undone and recalled.
    #[command(before_help = IMPORT, after_help = IMPORT_NOTES)]
    Import(ImportArgs),
    /// Export a stored session as a transcript.
    #[command(before_help = EXPORT, after_help = EXPORT_NOTES)]
    Export(ExportArgs),
    /// Continue a session in Claude Code, Codex or OpenCode.
    #[command(before_help = HANDOVER, after_help = HANDOVER_NOTES)]
    Handover(HandoverArgs),
    /// Remove stored sessions with their tasks and spilled outputs.
    #[command(before_help = RM)]
    Rm {
        /// Session ids or prefixes.
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
        /// Remove a session even if another process is running it.
        #[arg(long)]
        force: bool,
    },
    /// Remove expired spilled outputs and unreferenced files.
    #[command(before_help = GC, after_help = GC_NOTES)]
    Gc,
    /// Check the database for damage; exits with 1 if any is found.
    #[command(before_help = CHECK, after_help = CHECK_NOTES)]
    Check(CheckArgs),
    /// Permanently destroy content of a stored session, such as a secret.
    #[command(before_help = PURGE, after_help = PURGE_NOTES)]
    Purge(PurgeArgs),
}

/// Arguments of `sessions check`.
#[derive(Args)]
pub(crate) struct CheckArgs {
    /// Accept that acknowledged writes are missing, and stop the warnings.
    #[arg(long)]
    pub(crate) accept_loss: bool,
}

/// Arguments of `sessions purge`.
#[derive(Args)]
// A group instead of `required_unless_present`, whose error names only the first of the two.
#[command(group(ArgGroup::new("content").required(true).args(["pattern", "part"])))]
pub(crate) struct PurgeArgs {
    /// Session id or prefix.
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,

    /// Destroy text that matches this regular expression, and every spilled output that contains a match.
    #[arg(long = "match", value_name = "RE")]
    pub(crate) pattern: Option<String>,

    /// Destroy this part and its spilled output.
    #[arg(long, value_name = "ID")]
    pub(crate) part: Option<String>,

    /// Do it. Without this flag only show what would be destroyed.
    #[arg(long)]
    pub(crate) yes: bool,

    /// Take over the session even if another process is running it.
    #[arg(long)]
    pub(crate) force: bool,
}

/// Arguments of `sessions show`.
#[derive(Args)]
pub(crate) struct ShowArgs {
    /// Session id or prefix [default: the newest session of this directory].
    pub(crate) id: Option<String>,

    /// Number of messages to show.
    #[arg(long, default_value_t = 10, value_name = "N")]
    pub(crate) messages: u64,
}

fn tools() -> impl TypedValueParser<Value = Tool> {
    let unknown = |name: String| format!("unknown tool `{name}`");
    let tool = move |name: String| {
        Tool::ALL.into_iter().find(|tool| tool.key() == name).ok_or_else(|| unknown(name))
    };
    PossibleValuesParser::new(Tool::ALL.map(Tool::key)).try_map(tool)
}

/// Arguments of `sessions import`.
#[derive(Args)]
pub(crate) struct ImportArgs {
    /// Transcripts, session ids of other tools (or TOOL:ID), or `-` for standard input.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// Session in a database (id or prefix).
    #[arg(short, long, value_name = "ID")]
    pub(crate) session: Option<String>,

    /// Store a session again under new ids, even if it is already stored.
    #[arg(long)]
    pub(crate) duplicate: bool,

    /// Reject transcripts with unknown record types or invalid values.
    #[arg(long)]
    pub(crate) strict: bool,
}

/// Arguments of `sessions export`.
#[derive(Args)]
pub(crate) struct ExportArgs {
    /// Session id or prefix.
    pub(crate) id: String,

    /// Output format: opencode-export, opencode-messages, openai-chat or anthropic-messages.
    #[arg(short, long, value_name = "FORMAT", value_parser = output_format, default_value = "opencode-export")]
    pub(crate) to: Format,

    /// Output file [default: standard output].
    #[arg(short, long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,

    /// Overwrite an existing file.
    #[arg(long, requires = "out")]
    pub(crate) force: bool,

    /// Export what is readable of a damaged session and list the rest; exit code 3 if anything is missing.
    #[arg(long)]
    pub(crate) salvage: bool,
}

/// Arguments of `sessions handover`.
#[derive(Args)]
pub(crate) struct HandoverArgs {
    /// Input and policy options.
    #[command(flatten)]
    pub(crate) input: InputArgs,

    /// Tool to continue in: claude-code, codex or opencode.
    #[arg(short, long, value_name = "TOOL", value_parser = handover_tools(), hide_possible_values = true)]
    pub(crate) to: Tool,

    /// Write below this directory instead of the tool's own.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,

    /// Write the window unchanged, even if it exceeds the limit of the tool's model.
    #[arg(long)]
    pub(crate) as_is: bool,
}

fn handover_tools() -> impl TypedValueParser<Value = Tool> {
    let supported = [Tool::ClaudeCode, Tool::Codex, Tool::Opencode];
    let parse = move |name: String| {
        let unknown = format!("unknown tool `{name}`");
        supported.into_iter().find(|tool| tool.key() == name).ok_or(unknown)
    };
    PossibleValuesParser::new(supported.map(Tool::key)).try_map(parse)
}

/// Filters for the list of sessions.
#[derive(Args, Clone)]
pub(crate) struct ListArgs {
    /// Include sessions of every directory.
    #[arg(short, long)]
    pub(crate) all: bool,

    /// Maximum number of sessions.
    #[arg(short = 'n', long, default_value_t = 20, value_name = "N")]
    pub(crate) limit: usize,

    /// Only this tool: opencode, claude-code, codex, pi, gemini-cli, goose, cline, kimi or plimsoll.
    #[arg(long, value_parser = tools(), hide_possible_values = true, value_name = "NAME")]
    pub(crate) tool: Option<Tool>,

    /// Preset (plimsoll, opencode, opencode-1.18, openfork) or policy file.
    #[arg(short, long, value_name = "NAME|FILE", help_heading = POLICY)]
    pub(crate) policy: Option<String>,

    /// Context window in tokens, such as 128k [default: 200000, or as configured].
    #[arg(short = 'w', long, value_name = "TOKENS", value_parser = tokens, help_heading = POLICY)]
    pub(crate) context: Option<u64>,
}

//! What can be asked.

mod tasks;

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use plimsoll_config::SandboxMode;
use plimsoll_formats::Format;
use plimsoll_import::Tool;

use crate::style::ColorWhen;

use tasks::TASKS;
pub(crate) use tasks::{
    ClearArgs, OutputArgs, ResumeArgs, TaskFork, TaskList, TaskRunArgs, TasksArgs, TasksCommand,
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

const RUN: &str = "\
Examples:
  export ANTHROPIC_API_KEY=…
  plimsoll run --model anthropic/claude-sonnet-4-6 \"what does this project do?\"
  plimsoll run --continue \"and how is it tested?\"
  plimsoll run --allow 'bash:cargo *' \"why does the build fail?\"
  git diff | plimsoll run - --max-cost 0.50 > review.txt
  plimsoll run --session codex:019e \"go on here\"
  OPENAI_BASE_URL=http://localhost:11434/v1 plimsoll run --model openai-chat/qwen3 \"hello\"
  plimsoll run --json \"list the tests\" | jq -r 'select(.type==\"report\").text'

The answer goes to standard output, what the agent does to standard error. Exit codes: 0 the model has come to an end, \
1 it was stopped before (steps, tokens, cost, repeating itself), 2 it was asked wrongly or no model is set up, 3 it \
failed, 130 it was interrupted. Whatever happens, what was said and done is stored, and `--continue` goes on.";

const CHAT: &str = "\
Examples:
  plimsoll chat --model anthropic/claude-sonnet-4-6
  plimsoll chat --continue                  go on with the newest session of this directory
  plimsoll chat --session claude-code:5d0c  go on with a session of another tool
  plimsoll chat --allow 'bash:cargo *' \"why does the build fail?\"

In the chat `/help` lists its commands. What the agent wants to change, run or fetch is asked first, with exactly what \
would be done. Ctrl-C ends the answer, pressed again it quits; Ctrl-D quits. Everything said and done is stored; what \
leaves the window to make room stays stored, and comes back with `/recall` or `/undo`.

Where standard input is no terminal, each line of it is a prompt, and what would be asked is denied.";

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
  plimsoll fork --context 32000 s.jsonl     for an agent with a small window
  plimsoll fork --policy openfork --json s.jsonl
  plimsoll fork ses_5c --run \"what is still to be done?\" --agent explore
  plimsoll fork claude-code:5d0c --run \"review what was changed\" --allow 'bash:cargo *'

With `--run` a background task that knows the session works on the prompt here. What it does goes to standard error, its \
answer to standard output; `plimsoll tasks` lists it from then on. A session of another tool is imported first. Exit codes: \
0 the task is completed, 1 it failed or was cancelled, 130 it was interrupted and can be resumed.";

const PRUNE: &str = "\
Examples:
  plimsoll prune --plan                     for the newest session of this directory
  PLIMSOLL_PRUNE_PROTECT_TOKENS=20000 plimsoll prune --plan s.jsonl
  plimsoll prune --plan --json s.jsonl | jq .freedTokens
  plimsoll prune --apply ses_5c             do that to a stored session";

const COMPACT: &str = "\
Examples:
  plimsoll compact --plan s.jsonl           which messages a summary would take the place of
  plimsoll compact --offline s.jsonl        a summary made without a model
  plimsoll compact --plan --context 64000 --json s.jsonl
  plimsoll compact --offline --apply ses_5c put it into a stored session";

const TRUNCATE: &str = "\
Examples:
  make 2>&1 | plimsoll truncate --tool bash --spill-dir spill
  plimsoll truncate --tool read < big.log
  plimsoll truncate --json < big.log | jq .plan";

const SESSIONS: &str = "\
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
  plimsoll sessions export ses_5c --to openai-chat --out chat.json";

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
  plimsoll sessions check --json | jq -r '.problems[]'";

const RECEIPTS: &str = "\
Examples:
  plimsoll receipts                         of the newest stored session of this directory
  plimsoll receipts ses_5c --json | jq '.[].handles'
  plimsoll receipts rcp_1e0f40599001        everything about one";

const UNDO: &str = "\
Examples:
  plimsoll undo rcp_1e0f40599001            the beginning of an id is enough";

const REVERT: &str = "\
Examples:
  plimsoll revert --plan                    what the last turn changed, and what would be put back
  plimsoll revert                           put it back; once more goes further back
  plimsoll revert ses_5c --turn 3           files as they were before the third prompt
  plimsoll revert --undo                    take the newest revert back";

const PIN: &str = "\
Examples:
  plimsoll pin ses_1e0f \"never touch the migrations\"
  plimsoll pin ses_1e0f msg_1e0f40599001abc   a whole message
  plimsoll pins ses_1e0f                      what is pinned, and with which receipts
  plimsoll unpin rcp_1e0f4059                 let it go again";

const RECALL: &str = "\
Examples:
  plimsoll recall prt_1e0f40599001aQ        a tool output that was cleared
  plimsoll recall spill_9c2f --lines 100-140
  plimsoll recall spill_9c2f --grep 'error|warning' --context-lines 2
  plimsoll recall --session ses_5c --grep TODO --literal
  plimsoll recall spill_9c2f --raw > output.bin

Handles are in what the window shows in place of content, and in `plimsoll receipts`. The answer is no, exit code \
1, where nothing matches or the content is gone.";

const CONFIG: &str = "\
Examples:
  plimsoll config                           every value and where it comes from
  plimsoll config --policy openfork         the same with another preset
  plimsoll config check plimsoll.toml       whether a file is consistent
  plimsoll config --schema > config.schema.json

A `plimsoll.toml` names a policy and what it changes:
  policy = \"opencode\"        # a preset, or a policy file
  context = 128000           # the model's context window, in tokens
  store = \"~/plimsoll.db\"    # the database of Plimsoll's own sessions; see `plimsoll trust`
  model = \"anthropic/claude-sonnet-4-6\"
  [prune]
  protectTokens = 30000      # any field of the policy, under its section

Providers, agents, permissions and MCP servers are set there too; `opencode.json` is read beside it. Keys are never \
shown.";

const TRUST: &str = "\
Examples:
  plimsoll trust                            the project of this directory
  plimsoll trust --dry-run ~/code/project   only show what would take effect
  plimsoll trust --list                     what is trusted, and what has changed since
  plimsoll untrust ~/code/project           take it back

A `plimsoll.toml` or `opencode.json` comes with a checkout. Numbers and fixed choices of its policy, `context`, the \
name of a preset and what denies something take effect at once. `store`, `durability`, `spills`, texts, lists and \
paths, models and providers, agents, permissions and MCP servers do after this command, for the files as they are \
now: when one changes, it is not trusted again until you say so. A directory below has its own files, and its own \
trust. Your own files, the environment and flags need none.";

const UNTRUST: &str = "\
Examples:
  plimsoll untrust                          the project of this directory
  plimsoll untrust ~/code/project           also when it is gone";

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

/// For `run`.
#[derive(Args)]
pub(crate) struct RunArgs {
    /// What to do, in words; `-` or nothing for standard input. With `--continue` or `--session` it may be left out: then
    /// the turn that was interrupted goes on.
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Vec<String>,

    /// The agent, its session and its limits.
    #[command(flatten)]
    pub(crate) agent: AgentArgs,
}

/// For `chat`.
#[derive(Args)]
pub(crate) struct ChatArgs {
    /// The first thing to say; without it you are asked.
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Vec<String>,

    /// The agent, its session and its limits.
    #[command(flatten)]
    pub(crate) agent: AgentArgs,
}

/// An agent, its session and its limits, for the commands that let one work.
#[derive(Args, Default)]
pub(crate) struct AgentArgs {
    /// Go on with the newest stored session of this directory.
    #[arg(short = 'c', long = "continue", conflicts_with = "session")]
    pub(crate) resume: bool,

    /// Go on with this session, by its id or the beginning of it. One of another tool, or a file, is imported first.
    #[arg(short, long, value_name = "ID|FILE")]
    pub(crate) session: Option<String>,

    /// The model.
    #[arg(short, long, value_name = "PROVIDER/MODEL")]
    pub(crate) model: Option<String>,

    /// The agent, as the configuration describes it; `build` if none is named.
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,

    /// Allow a tool, a tool for what fits a pattern, or everything; `network` lets commands use the network. Can be given
    /// several times.
    #[arg(long, value_name = "all|TOOL[:PATTERN]|network")]
    pub(crate) allow: Vec<String>,

    /// Whether commands are confined: as far as the system can, not at all, or only where it can.
    #[arg(long, value_name = "auto|off|require")]
    pub(crate) sandbox: Option<SandboxMode>,

    /// Stop a turn after so many answers of the model; 200 where nothing else is configured.
    #[arg(long, value_name = "N")]
    pub(crate) max_steps: Option<u32>,

    /// Stop a turn once it has cost so much, as far as prices are known.
    #[arg(long, value_name = "DOLLARS")]
    pub(crate) max_cost: Option<f64>,

    /// Stop a turn once so many tokens were charged.
    #[arg(long, value_name = "TOKENS", value_parser = tokens)]
    pub(crate) max_tokens: Option<u64>,

    /// Show what the model thinks.
    #[arg(long)]
    pub(crate) thinking: bool,

    /// Do it although another process runs the session; that one is named, and can write no more.
    #[arg(long)]
    pub(crate) force: bool,

    /// A preset (plimsoll, opencode, opencode-1.18, openfork) or a policy file.
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) policy: Option<String>,

    /// The model's context window, in tokens; what is known of the model where nothing is said.
    #[arg(long, value_name = "TOKENS", value_parser = tokens)]
    pub(crate) context: Option<u64>,
}

impl AgentArgs {
    /// Whether a session that is there goes on.
    pub(crate) fn goes_on(&self) -> bool {
        self.resume || self.session.is_some()
    }
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

    /// Refuse a transcript with records of unknown kinds or wrong values instead of noting them.
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

    /// The context window to try all sessions in, in tokens; otherwise the one each of them records, its model's, or
    /// what is configured.
    #[arg(long, value_name = "TOKENS", value_parser = tokens)]
    pub(crate) context: Option<u64>,

    /// The model's longest answer, for which room is kept; an eighth of the window, at most 32000, if not given.
    #[arg(long, value_name = "TOKENS")]
    pub(crate) output: Option<u64>,

    /// What every request carries besides the conversation: system prompt and tools. At 0 what recorded usage tells.
    #[arg(long, value_name = "TOKENS", default_value_t = 0)]
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

    /// Take this session, by its id or the beginning of it: of FILE if it is a database, else of all there are.
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,

    /// Refuse transcripts with records of unknown kinds or wrong values instead of noting them.
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
    #[arg(long, conflicts_with = "run")]
    pub(crate) stats: bool,

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

/// For `prune`.
#[derive(Args)]
pub(crate) struct PruneArgs {
    /// What to read, and how.
    #[command(flatten)]
    pub(crate) input: InputArgs,

    /// Show the plan. This is what the command does by itself; the flag says so in scripts.
    #[arg(long)]
    pub(crate) plan: bool,

    /// Do it, to a stored session, and give the receipt.
    #[arg(long, conflicts_with = "plan")]
    pub(crate) apply: bool,

    /// Do it although another process runs the session; that one is named, and can write no more.
    #[arg(long, requires = "apply")]
    pub(crate) force: bool,
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

    /// Put that summary into a stored session, and give the receipt.
    #[arg(long, requires = "offline", conflicts_with = "plan")]
    pub(crate) apply: bool,

    /// Do it although another process runs the session; that one is named, and can write no more.
    #[arg(long, requires = "apply")]
    pub(crate) force: bool,
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
    /// Show what is known about a stored session, and its newest messages.
    #[command(after_help = SHOW)]
    Show(ShowArgs),
    /// Store sessions, so that they can be reduced, undone and recalled.
    #[command(after_help = IMPORT)]
    Import(ImportArgs),
    /// Write a stored session as a transcript.
    #[command(after_help = EXPORT)]
    Export(ExportArgs),
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
    Check,
    /// Destroy content of a stored session for good, such as a secret; without `--yes` show what would go.
    #[command(after_help = PURGE)]
    Purge(PurgeArgs),
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
    #[arg(long, value_name = "ID")]
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
    #[arg(long, value_name = "FORMAT", value_parser = format, default_value = "opencode-export")]
    pub(crate) to: Format,

    /// Write to this file instead of standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,

    /// Write over a file that is there.
    #[arg(long, requires = "out")]
    pub(crate) force: bool,
}

/// For `receipts`.
#[derive(Args)]
pub(crate) struct ReceiptsArgs {
    /// A stored session, or a receipt, by its id or the beginning of it; the newest session of this directory if
    /// none is given.
    #[arg(value_name = "SESSION|RECEIPT")]
    pub(crate) id: Option<String>,
}

/// For `revert`.
#[derive(Args)]
pub(crate) struct RevertArgs {
    /// A stored session, by its id or the beginning of it; the newest of this directory if none is given.
    pub(crate) session: Option<String>,

    /// Back to before this turn, counted by your prompts from 1; the last that changed files if left out.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..).map(|turn| turn as usize))]
    pub(crate) turn: Option<usize>,

    /// Take the newest revert back.
    #[arg(long, conflicts_with = "turn")]
    pub(crate) undo: bool,

    /// Tell what would be done, and do nothing.
    #[arg(long)]
    pub(crate) plan: bool,

    /// Do it although another process runs the session; that one is named, and can write no more.
    #[arg(long, conflicts_with = "plan")]
    pub(crate) force: bool,
}

/// For `pin`.
#[derive(Args)]
pub(crate) struct PinArgs {
    /// The stored session, by its id or the beginning of it.
    pub(crate) session: String,

    /// What to pin: the id of a message or a part, or words. Words are pinned where they were last said, or beside the
    /// newest message if nobody said them.
    #[arg(value_name = "TEXT|MESSAGE")]
    pub(crate) what: String,

    /// Do it although another process runs the session; that one is named, and can write no more.
    #[arg(long)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
}

/// For `recall`.
#[derive(Args)]
pub(crate) struct RecallArgs {
    /// What to bring back, or the beginning of it: a part, what its tool was given (`prt_…:input`), a message, a run of
    /// messages (`first..last`) or a spilled output.
    #[arg(required_unless_present_any = ["session", "grep"])]
    pub(crate) handle: Option<String>,

    /// Look for HANDLE in what this stored session can see, not in all sessions. Without HANDLE search everything that
    /// is out of its window; of the newest of this directory if neither is given.
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,

    /// These lines alone, counted from 1: 100-140, 100- or 100.
    #[arg(long, value_name = "A-B", value_parser = lines, requires = "handle")]
    pub(crate) lines: Option<(u64, u64)>,

    /// Lines that match this regular expression alone, with their numbers.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) grep: Option<String>,

    /// Take the pattern as it is, not as a regular expression.
    #[arg(long, requires = "grep")]
    pub(crate) literal: bool,

    /// Take upper and lower case as the same.
    #[arg(long, requires = "grep")]
    pub(crate) ignore_case: bool,

    /// So many lines before and after each match.
    #[arg(long, value_name = "N", default_value_t = 0, requires = "grep")]
    pub(crate) context_lines: usize,

    /// No more than so many bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 50_000)]
    pub(crate) most: usize,

    /// Write the content as it was stored, byte for byte and without a bound.
    #[arg(long, requires = "handle", conflicts_with_all = ["grep", "most"])]
    pub(crate) raw: bool,
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

    /// Sessions of this tool alone: opencode, claude-code, codex, pi or plimsoll.
    #[arg(long, value_parser = tools(), hide_possible_values = true, value_name = "NAME")]
    pub(crate) tool: Option<Tool>,

    /// A preset (plimsoll, opencode, opencode-1.18, openfork) or a policy file.
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) policy: Option<String>,

    /// The model's context window, in tokens; 200000 where nothing else is configured.
    #[arg(long, value_name = "TOKENS", value_parser = tokens)]
    pub(crate) context: Option<u64>,
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

    /// Print the JSON Schema of configuration files.
    #[arg(long)]
    pub(crate) schema: bool,

    /// The same as `check` without a file.
    #[arg(long, hide = true, conflicts_with = "schema")]
    pub(crate) check: bool,
}

/// For `trust`.
#[derive(Args)]
pub(crate) struct TrustArgs {
    /// The directory of the `plimsoll.toml`; the nearest upwards from this one if none is given.
    #[arg(value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,

    /// Show what would take effect, and record nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// List what is trusted.
    #[arg(long, conflicts_with_all = ["directory", "dry_run"])]
    pub(crate) list: bool,
}

/// What else to do with the configuration.
#[derive(Subcommand)]
pub(crate) enum ConfigCommand {
    /// Only say whether all settings are consistent, or those of a file; the exit code is the answer.
    Check {
        /// A `plimsoll.toml`, an `opencode.json` or a policy file.
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

fn lines(text: &str) -> Result<(u64, u64), String> {
    let number = |text: &str| text.trim().parse::<u64>().ok().filter(|number| *number > 0);
    let range = match text.split_once('-') {
        None => number(text).map(|line| (line, line)),
        Some((first, "")) => number(first).map(|first| (first, u64::MAX)),
        Some((first, last)) => number(first).zip(number(last)),
    };
    let range = range.ok_or("lines are counted from 1 and written as 100-140, 100- or 100")?;
    if range.0 > range.1 {
        return Err(format!("line {} comes after line {}", range.0, range.1));
    }
    Ok(range)
}

fn tokens(text: &str) -> Result<u64, String> {
    text.parse().ok().filter(|tokens| *tokens > 0).ok_or_else(|| "expected a whole number above 0".to_owned())
}

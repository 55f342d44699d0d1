//! What can be reduced: `prune`, `compact` and `truncate`.

use std::path::PathBuf;

use clap::Args;
use plimsoll::prune::PruneChoice;

use super::transcripts::{InputArgs, PolicyArgs};
use super::values::percent;

pub(super) const PRUNE: &str = "\
Examples:
  plimsoll prune --plan                     for the newest session of this directory
  PLIMSOLL_PRUNE_PROTECT_TOKENS=20000 plimsoll prune --plan s.jsonl
  plimsoll prune --plan --json s.jsonl | jq .freedTokens
  plimsoll prune --apply ses_5c             do that to a stored session
  plimsoll prune --tool bash --keep 5       all outputs of `bash` but the newest 5
  plimsoll prune --file src/lib.rs s.jsonl  what was read of a file; `--keep 1` keeps its newest read
  plimsoll prune --repeated s.jsonl         reads that a later one shows again
  plimsoll prune --to 60% --apply ses_5c    the oldest, until the window is at most 60 % full

`--tool`, `--file`, `--repeated`, `--keep` and `--to` choose in place of the policy, and can be combined: what the policy protects by age \
or amount can go then, what it protects by the name of its tool only where `--tool` names it.";

pub(super) const COMPACT: &str = "\
Examples:
  plimsoll compact --plan s.jsonl           which messages a summary would take the place of
  plimsoll compact --offline s.jsonl        a summary made without a model
  plimsoll compact --plan --context 64k --json s.jsonl
  plimsoll compact --offline --apply ses_5c put it into a stored session
  plimsoll compact --model anthropic/claude-haiku-4-5 --edit --apply ses_5c
  plimsoll compact --command 'llm -m local' --apply ses_5c
  plimsoll compact --from msg_3 --to msg_8 --offline --edit --apply ses_5c

With `--model` or `--command` there is a summary of theirs or none: where they fail, or what they say is not taken, the \
session stays as it was, exit code 3. The request has the history to be summarised, without secrets of known shapes.

With `--from` and `--to` the summary stands where these messages stood; calls are kept with their results. `plimsoll window --json` \
names the messages.";

pub(super) const TRUNCATE: &str = "\
Examples:
  make 2>&1 | plimsoll truncate --tool bash --spill-dir spill
  plimsoll truncate --tool read < big.log
  plimsoll truncate --json < big.log | jq .plan";

/// For `prune`.
#[derive(Args)]
pub(crate) struct PruneArgs {
    /// What to read, and how.
    #[command(flatten)]
    pub(crate) input: InputArgs,

    /// Which outputs, where it is not the policy that decides.
    #[command(flatten)]
    pub(crate) choice: ChoiceArgs,

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

/// Which outputs to prune.
#[derive(Args)]
pub(crate) struct ChoiceArgs {
    /// Outputs of this tool; can be given several times.
    #[arg(long = "tool", value_name = "NAME")]
    tools: Vec<String>,

    /// Outputs of calls that name or show this file, whole or by the end of its path; can be given several times.
    #[arg(long = "file", value_name = "PATH")]
    files: Vec<String>,

    /// Reads of files that a later read shows again.
    #[arg(long)]
    repeated: bool,

    /// All but the newest N of them. With `--file`, all that is older than the newest N reads of the file.
    #[arg(long, value_name = "N")]
    keep: Option<u64>,

    /// Only as many, the oldest first, as it takes until the window is at most so full.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    to: Option<u8>,
}

impl ChoiceArgs {
    /// The choice; none where the policy decides.
    pub(crate) fn choice(&self) -> Option<PruneChoice> {
        let ChoiceArgs { tools, files, repeated, keep, to } = self;
        let (tools, files) = (tools.clone(), files.clone());
        let choice = PruneChoice { tools, files, repeated: *repeated, keep: *keep, to: *to };
        (!choice.is_empty()).then_some(choice)
    }
}

/// For `compact`.
#[derive(Args)]
pub(crate) struct CompactArgs {
    /// What to read, and how.
    #[command(flatten)]
    pub(crate) input: InputArgs,

    /// Show the plan. This is what the command does by itself; the flag says so in scripts.
    #[arg(long, visible_alias = "dry-run", conflicts_with = "offline")]
    pub(crate) plan: bool,

    /// Take the summary that can be made without a model.
    #[arg(long, group = "summariser")]
    pub(crate) offline: bool,

    /// Let this model summarise, by any provider that is configured.
    #[arg(short, long, value_name = "PROVIDER/MODEL", conflicts_with_all = ["plan", "offline"], group = "summariser")]
    pub(crate) model: Option<String>,

    /// Let this command summarise: it reads the request on standard input and prints the summary.
    #[arg(long, value_name = "CMD", conflicts_with_all = ["plan", "offline", "model"], group = "summariser")]
    pub(crate) command: Option<String>,

    /// Summarise the messages from this one on, named by its id or the beginning of it; what comes before stays as it is.
    #[arg(long, value_name = "MESSAGE", requires = "to")]
    pub(crate) from: Option<String>,

    /// Summarise the messages up to this one; what comes after stays as it is.
    #[arg(long, value_name = "MESSAGE", requires = "from")]
    pub(crate) to: Option<String>,

    /// Open the summary in $VISUAL or $EDITOR before it is taken; where nothing is left of it, nothing is done.
    #[arg(short, long, requires = "summariser")]
    pub(crate) edit: bool,

    /// Put the summary into a stored session, and give the receipt.
    #[arg(long, conflicts_with = "plan")]
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

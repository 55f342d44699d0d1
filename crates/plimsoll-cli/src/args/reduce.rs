//! Arguments of `prune`, `compact` and `truncate`.

use std::path::PathBuf;

use clap::Args;
use plimsoll::prune::PruneChoice;

use super::transcripts::{InputArgs, PolicyArgs};
use super::values::percent;

pub(super) const PRUNE: &str = "\
Examples:
  plimsoll prune                            plan for this directory's session
  plimsoll prune --apply ses_5c             apply it to a stored session
  plimsoll prune --tool bash --keep 5       all `bash` outputs but the newest 5
  plimsoll prune --file src/lib.rs s.jsonl  every read of a file
  plimsoll prune --repeated s.jsonl         reads that a later read repeats
  plimsoll prune --to 60% --apply ses_5c    the oldest, until 60 % full
  plimsoll prune --json s.jsonl | jq .freedTokens
  PLIMSOLL_PRUNE_PROTECT_TOKENS=20000 plimsoll prune s.jsonl";

pub(super) const PRUNE_NOTES: &str = "\
Without `--apply` only the plan is shown. Pruning deletes nothing: outputs stay in the log, and a prune can be undone.

`--tool`, `--file`, `--repeated`, `--keep` and `--to` replace the policy's rules and can be combined. They override \
protection by age and amount; a tool that the policy protects by name is only pruned if `--tool` names it.";

pub(super) const COMPACT: &str = "\
Examples:
  plimsoll compact s.jsonl                  plan: messages to be summarised
  plimsoll compact --offline s.jsonl        print a summary made without a model
  plimsoll compact --offline --apply ses_5c apply it to a stored session
  plimsoll compact --model anthropic/claude-haiku-4-5 --edit --apply ses_5c
  plimsoll compact --command 'llm -m local' --apply ses_5c
  plimsoll compact --from msg_3 --to msg_8 --offline --apply ses_5c
  plimsoll compact --context 64k --json s.jsonl";

pub(super) const COMPACT_NOTES: &str = "\
Without `--offline`, `--model` or `--command` only the plan is shown. If the model or command fails, or its summary is \
not accepted, the session is unchanged and the exit code is 3. Known secrets are redacted in the request. The exit \
code is 1 if there is too little to summarise.

With `--from` and `--to` the summary replaces exactly that range; calls stay together with their results. `plimsoll \
window --json` lists message ids.";

pub(super) const TRUNCATE: &str = "\
Examples:
  make 2>&1 | plimsoll truncate --tool bash --spill-dir spill
  plimsoll truncate --tool read < big.log
  plimsoll truncate --json < big.log | jq .plan";

pub(super) const TRUNCATE_NOTES: &str = "\
Output under the tool's limit passes unchanged. Longer output is truncated; `--spill-dir` keeps the full text in a file \
named after its content, readable only by you. Without it the rest is dropped and its size is reported.";

/// Arguments of `prune`.
#[derive(Args)]
pub(crate) struct PruneArgs {
    /// Input and policy options.
    #[command(flatten)]
    pub(crate) input: InputArgs,

    /// Outputs to clear instead of those that the policy selects.
    #[command(flatten)]
    pub(crate) choice: ChoiceArgs,

    /// Show the plan without applying it. This is the default; the flag makes scripts explicit.
    #[arg(long)]
    pub(crate) plan: bool,

    /// Apply the plan to a stored session and print the receipt.
    #[arg(long, conflicts_with = "plan")]
    pub(crate) apply: bool,

    /// Take over the session even if another process is running it.
    #[arg(long, requires = "apply")]
    pub(crate) force: bool,
}

/// Selection of outputs to prune.
#[derive(Args)]
pub(crate) struct ChoiceArgs {
    /// Outputs of this tool. Repeatable.
    #[arg(long = "tool", value_name = "NAME")]
    tools: Vec<String>,

    /// Outputs of calls on this file (a path or the end of one). Repeatable.
    #[arg(long = "file", value_name = "PATH")]
    files: Vec<String>,

    /// Reads of a file that a later read repeats.
    #[arg(long)]
    repeated: bool,

    /// Keep the newest N. With `--file`, keep the newest N reads of the file.
    #[arg(long, value_name = "N")]
    keep: Option<u64>,

    /// Clear the oldest outputs until the window is at most this full.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    to: Option<u8>,
}

impl ChoiceArgs {
    /// Returns the selection, or `None` if the policy decides.
    pub(crate) fn choice(&self) -> Option<PruneChoice> {
        let ChoiceArgs { tools, files, repeated, keep, to } = self;
        let (tools, files) = (tools.clone(), files.clone());
        let choice = PruneChoice { tools, files, repeated: *repeated, keep: *keep, to: *to };
        (!choice.is_empty()).then_some(choice)
    }
}

/// Arguments of `compact`.
#[derive(Args)]
pub(crate) struct CompactArgs {
    /// Input and policy options.
    #[command(flatten)]
    pub(crate) input: InputArgs,

    /// Show the plan without applying it. This is the default; the flag makes scripts explicit.
    #[arg(long, visible_alias = "dry-run", conflicts_with = "offline")]
    pub(crate) plan: bool,

    /// Summarise without a model.
    #[arg(long, group = "summariser")]
    pub(crate) offline: bool,

    /// Summarise with this model.
    #[arg(short, long, value_name = "PROVIDER/MODEL", conflicts_with_all = ["plan", "offline"], group = "summariser")]
    pub(crate) model: Option<String>,

    /// Summarise with this command: it reads the request on standard input and prints the summary.
    #[arg(long, value_name = "CMD", conflicts_with_all = ["plan", "offline", "model"], group = "summariser")]
    pub(crate) command: Option<String>,

    /// First message to summarise (id or prefix); earlier messages stay.
    #[arg(long, value_name = "MESSAGE", requires = "to")]
    pub(crate) from: Option<String>,

    /// Last message to summarise; later messages stay.
    #[arg(long, value_name = "MESSAGE", requires = "from")]
    pub(crate) to: Option<String>,

    /// Edit the summary in $VISUAL or $EDITOR before it is used; an empty summary cancels.
    #[arg(short, long, requires = "summariser")]
    pub(crate) edit: bool,

    /// Apply the summary to a stored session and print the receipt.
    #[arg(long, conflicts_with = "plan")]
    pub(crate) apply: bool,

    /// Take over the session even if another process is running it.
    #[arg(long, requires = "apply")]
    pub(crate) force: bool,
}

/// Arguments of `truncate`.
#[derive(Args)]
pub(crate) struct TruncateArgs {
    /// Tool that printed the output; each tool has its own limit.
    #[arg(long, default_value = "bash", value_name = "NAME")]
    pub(crate) tool: String,

    /// Directory for the full text of truncated output.
    #[arg(long, value_name = "DIR")]
    pub(crate) spill_dir: Option<PathBuf>,

    /// Policy options.
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
}

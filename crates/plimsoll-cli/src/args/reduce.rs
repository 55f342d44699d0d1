//! What can be reduced: `prune`, `compact` and `truncate`.

use std::path::PathBuf;

use clap::Args;

use super::transcripts::{InputArgs, PolicyArgs};

pub(super) const PRUNE: &str = "\
Examples:
  plimsoll prune --plan                     for the newest session of this directory
  PLIMSOLL_PRUNE_PROTECT_TOKENS=20000 plimsoll prune --plan s.jsonl
  plimsoll prune --plan --json s.jsonl | jq .freedTokens
  plimsoll prune --apply ses_5c             do that to a stored session";

pub(super) const COMPACT: &str = "\
Examples:
  plimsoll compact --plan s.jsonl           which messages a summary would take the place of
  plimsoll compact --offline s.jsonl        a summary made without a model
  plimsoll compact --plan --context 64k --json s.jsonl
  plimsoll compact --offline --apply ses_5c put it into a stored session";

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

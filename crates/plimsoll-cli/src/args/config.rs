//! What can be asked of `config`, `trust` and `untrust`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::transcripts::PolicyArgs;

pub(super) const CONFIG: &str = "\
Examples:
  plimsoll config                           every value and where it comes from
  plimsoll config --policy openfork         the same with another preset
  plimsoll config check plimsoll.toml       whether a file is consistent
  plimsoll config --schema > config.schema.json

A `plimsoll.toml` names a policy and what it changes:
  policy = \"opencode\"        # a preset, or a policy file
  context = 128000           # the model's context window in tokens, or \"128k\"
  store = \"~/plimsoll.db\"    # the database of Plimsoll's own sessions; see `plimsoll trust`
  model = \"anthropic/claude-sonnet-4-6\"
  [prune]
  protectTokens = 30000      # any field of the policy, under its section

Providers, agents, permissions and MCP servers are set there too; `opencode.json` is read beside it. Keys are never \
shown.";

pub(super) const TRUST: &str = "\
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

pub(super) const UNTRUST: &str = "\
Examples:
  plimsoll untrust                          the project of this directory
  plimsoll untrust ~/code/project           also when it is gone";

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

    /// Check the configuration, as `check` does without a file.
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

//! Arguments of `config`, `trust` and `untrust`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::transcripts::PolicyArgs;

pub(super) const CONFIG: &str = "\
Examples:
  plimsoll config                           every value and its source
  plimsoll config --policy openfork         the values under another preset
  plimsoll config check plimsoll.toml       validate a file
  plimsoll config --schema > config.schema.json";

pub(super) const CONFIG_NOTES: &str = "\
A `plimsoll.toml` names a policy and overrides parts of it:
  policy = \"opencode\"        # a preset or a policy file
  context = 128000           # the context window in tokens, or \"128k\"
  store = \"~/plimsoll.db\"    # database of stored sessions; see `plimsoll trust`
  model = \"anthropic/claude-sonnet-4-6\"
  [prune]
  protectTokens = 30000      # any field of the policy, in its section

Providers, agents, permissions and MCP servers are set there too. `opencode.json` is read in addition. API keys are \
never shown.";

pub(super) const TRUST: &str = "\
Examples:
  plimsoll trust                            the project of this directory
  plimsoll trust --dry-run ~/code/project   only show what would take effect
  plimsoll trust --list                     trusted projects, and changed files
  plimsoll untrust ~/code/project           revoke it";

pub(super) const TRUST_NOTES: &str = "\
The settings that take effect are printed to standard output.

A `plimsoll.toml` or `opencode.json` comes with a checkout. Without trust, only harmless settings take effect: \
numbers and enumerated values of the policy, `context`, the name of a preset, and rules that deny something. \
`store`, `durability`, `spills`, texts, lists, paths, models, providers, agents, permissions and MCP servers need \
this command. Trust covers the current content: if a file changes, it must be trusted again. A subdirectory with its \
own files needs its own trust. Your own files, the environment and flags are always trusted.";

pub(super) const UNTRUST: &str = "\
Examples:
  plimsoll untrust                          the project of this directory
  plimsoll untrust ~/code/project           works for deleted directories too";

pub(super) const UNTRUST_NOTES: &str = "Exits with 1 if the project was not trusted.";

/// Arguments of `config`.
#[derive(Args)]
pub(crate) struct ConfigArgs {
    /// Subcommand; shows the configuration if omitted.
    #[command(subcommand)]
    pub(crate) command: Option<ConfigCommand>,

    /// Policy options.
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,

    /// Print the JSON Schema of configuration files.
    #[arg(long)]
    pub(crate) schema: bool,

    /// Check the configuration, like `check` without a file.
    #[arg(long, hide = true, conflicts_with = "schema")]
    pub(crate) check: bool,
}

/// Arguments of `trust`.
#[derive(Args)]
pub(crate) struct TrustArgs {
    /// Directory of the `plimsoll.toml` [default: the nearest one at or above the current directory].
    #[arg(value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,

    /// Show what would take effect without recording trust.
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// List trusted projects.
    #[arg(long, conflicts_with_all = ["directory", "dry_run"])]
    pub(crate) list: bool,
}

/// Subcommands of `config`.
#[derive(Subcommand)]
pub(crate) enum ConfigCommand {
    /// Validate the whole configuration or one file; the exit code is the result.
    Check {
        /// A `plimsoll.toml`, an `opencode.json` or a policy file.
        file: Option<PathBuf>,
    },
}

//! Arguments of `serve`.

use std::path::PathBuf;

use clap::Args;
use plimsoll_config::SandboxMode;
use plimsoll_host::{AgentOptions, Flags};

use super::transcripts::POLICY;
use super::values::tokens;

pub(super) const SERVE: &str = "\
Examples:
  plimsoll serve --model anthropic/claude-sonnet-4-6
  plimsoll serve --port 0 --allow 'bash:cargo *'
  opencode attach http://127.0.0.1:4096
  export OPENCODE_SERVER_PASSWORD=…
  plimsoll serve --hostname 0.0.0.0 --allowed-host build.example";

pub(super) const SERVE_NOTES: &str = "\
Agents run inside the server. SIGTERM or Ctrl-C interrupts their runs at a point from which they can continue, and ends the \
process. Only this machine can reach the server unless `--hostname` names another address, which needs a password.

The address goes to standard output once requests are answered. Sessions of this directory and of directories below it are \
served; clients name one with `x-opencode-directory` or `?directory=`. With OPENCODE_SERVER_PASSWORD or `--password-file` \
every request needs HTTP Basic authentication (user `opencode`, or OPENCODE_SERVER_USERNAME).";

/// Arguments of `serve`.
#[derive(Args)]
pub(crate) struct ServeArgs {
    /// Name or address to listen on. Any other than a loopback address needs a password.
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    pub(crate) hostname: String,

    /// Port to listen on; 0 for a free one.
    #[arg(long, value_name = "PORT", default_value_t = plimsoll_server::DEFAULT_PORT)]
    pub(crate) port: u16,

    /// File whose first line is the password [default: OPENCODE_SERVER_PASSWORD].
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,

    /// Additional host name of the server in `Host` headers. Repeatable.
    #[arg(long, value_name = "HOST")]
    pub(crate) allowed_host: Vec<String>,

    /// Time after which an unanswered permission question is denied.
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub(crate) permission_timeout: u64,

    /// Default model.
    #[arg(short, long, value_name = "PROVIDER/MODEL")]
    pub(crate) model: Option<String>,

    /// Allow a tool, a tool for matching calls, network access for commands, or everything. Repeatable.
    #[arg(long, value_name = "all|TOOL[:PATTERN]|network")]
    pub(crate) allow: Vec<String>,

    /// Confine commands: where possible (auto), never (off), or fail if impossible (require).
    #[arg(long, value_name = "auto|off|require")]
    pub(crate) sandbox: Option<SandboxMode>,

    /// Preset (plimsoll, opencode, opencode-1.18, openfork) or policy file.
    #[arg(short, long, value_name = "NAME|FILE", help_heading = POLICY)]
    pub(crate) policy: Option<String>,

    /// Context window in tokens, such as 128k [default: the model's].
    #[arg(short = 'w', long, value_name = "TOKENS", value_parser = tokens, help_heading = POLICY)]
    pub(crate) context: Option<u64>,
}

impl ServeArgs {
    /// Options of the agents that the server runs.
    pub(crate) fn agent_options(&self) -> AgentOptions {
        let flags = Flags {
            policy: self.policy.clone(),
            context: self.context,
            model: self.model.clone(),
            sandbox: self.sandbox,
            ..Flags::default()
        };
        AgentOptions { allow: self.allow.clone(), flags, ..AgentOptions::default() }
    }
}

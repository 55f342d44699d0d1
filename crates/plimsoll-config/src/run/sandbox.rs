//! What commands and addresses of an agent are held to.

use std::path::PathBuf;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether commands are confined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SandboxMode {
    /// As far as the system can, and it is said where it cannot.
    #[default]
    Auto,
    /// Not at all.
    Off,
    /// No command runs where writes and network cannot be held.
    Require,
}

impl FromStr for SandboxMode {
    type Err = String;

    fn from_str(text: &str) -> Result<SandboxMode, String> {
        match text {
            "auto" => Ok(SandboxMode::Auto),
            "off" => Ok(SandboxMode::Off),
            "require" => Ok(SandboxMode::Require),
            _ => Err("expected `auto`, `off` or `require`".into()),
        }
    }
}

/// What a confined command may do beyond writing in its project and its temporary directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxConfig {
    /// Whether commands are confined.
    pub mode: SandboxMode,
    /// Further files and directories that may be written to.
    pub write: Vec<PathBuf>,
    /// Files and directories of the user's own that stay closed wherever they lie: Plimsoll's configuration, sessions and
    /// record of trust, and what shells and other programs run when they start. They are not configured.
    pub closed: Vec<PathBuf>,
    /// Those of them that are not even opened for reading: the database of sessions with all that belongs to it. A lock on one
    /// of its files would stop every other process.
    pub private: Vec<PathBuf>,
    /// Whether they may use the network.
    pub network: bool,
    /// Whether they may use the sockets of other programs on this machine: those of docker, an ssh agent, a message bus.
    pub unix_sockets: bool,
}

/// Permissions of a hook or an MCP server in addition to those of commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    /// Whether it runs without a sandbox. Only the user's own configuration can set this.
    pub unconfined: bool,
    /// Whether it may use the network.
    pub network: bool,
    /// Whether it may use sockets of other programs on this machine.
    pub unix_sockets: bool,
    /// Further files and directories that it may write to.
    pub write: Vec<PathBuf>,
}

impl Grants {
    /// Whether nothing is granted.
    pub fn is_empty(&self) -> bool {
        *self == Grants::default()
    }
}

impl SandboxConfig {
    /// Returns the sandbox of a hook or a server: that of commands, extended by its grants.
    pub fn granting(&self, grants: &Grants) -> SandboxConfig {
        SandboxConfig {
            mode: if grants.unconfined { SandboxMode::Off } else { self.mode },
            write: self.write.iter().chain(&grants.write).cloned().collect(),
            network: self.network || grants.network,
            unix_sockets: self.unix_sockets || grants.unix_sockets,
            ..self.clone()
        }
    }
}

/// What `webfetch` may reach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebfetchConfig {
    /// Hosts, with a port or for all ports, that may lie on this machine or in a private network.
    pub hosts: Vec<String>,
    /// The proxy that pages are fetched through. It resolves names itself, so where they lead is its matter.
    pub proxy: Option<String>,
}

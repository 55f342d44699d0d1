//! Settings of a sandbox.

use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

// The comments are part of the JSON Schema.
/// Whether commands are confined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum SandboxMode {
    /// Confined as far as the system supports it; gaps are reported.
    #[default]
    Auto,
    /// Not confined.
    Off,
    /// Commands are rejected if writes and network cannot be confined.
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

/// Access of confined commands beyond writing in their project and their temporary directory.
///
/// ```
/// use plimsoll_sandbox::{SandboxConfig, SandboxMode};
/// let config = SandboxConfig::default().mode(SandboxMode::Require).network(true).write(["/var/cache/build"]);
/// assert!(config.network && !config.unix_sockets);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SandboxConfig {
    /// Whether commands are confined.
    pub mode: SandboxMode,
    /// Further files and directories that commands may write to.
    pub write: Vec<PathBuf>,
    /// Files and directories that stay closed to writes even inside the project, such as the host's own configuration
    /// and files that shells and other programs run when they start.
    pub closed: Vec<PathBuf>,
    /// Files and directories that are not even opened for reading, such as a database: a lock on one of its files would
    /// stop every other process. The target of a private link is private too, and so are files next to a private file
    /// whose names begin with its name, such as journals.
    pub private: Vec<PathBuf>,
    /// Whether commands may use the network.
    pub network: bool,
    /// Whether commands may use sockets of other programs on this machine: those of docker, an ssh agent, a message
    /// bus.
    pub unix_sockets: bool,
}

impl SandboxConfig {
    /// Sets whether commands are confined.
    pub fn mode(self, mode: SandboxMode) -> SandboxConfig {
        SandboxConfig { mode, ..self }
    }

    /// Sets the further files and directories that commands may write to.
    pub fn write(self, paths: impl IntoIterator<Item = impl Into<PathBuf>>) -> SandboxConfig {
        SandboxConfig { write: paths.into_iter().map(Into::into).collect(), ..self }
    }

    /// Sets the files and directories that stay closed to writes.
    pub fn closed(self, paths: impl IntoIterator<Item = impl Into<PathBuf>>) -> SandboxConfig {
        SandboxConfig { closed: paths.into_iter().map(Into::into).collect(), ..self }
    }

    /// Sets the files and directories that are not even opened for reading.
    pub fn private(self, paths: impl IntoIterator<Item = impl Into<PathBuf>>) -> SandboxConfig {
        SandboxConfig { private: paths.into_iter().map(Into::into).collect(), ..self }
    }

    /// Sets whether commands may use the network.
    pub fn network(self, network: bool) -> SandboxConfig {
        SandboxConfig { network, ..self }
    }

    /// Sets whether commands may use sockets of other programs on this machine.
    pub fn unix_sockets(self, unix_sockets: bool) -> SandboxConfig {
        SandboxConfig { unix_sockets, ..self }
    }

    /// Returns the settings extended by the grants of one program.
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

/// Access of one program, such as a hook or a server, in addition to that of commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grants {
    /// Whether it runs without a sandbox. Only the user's own configuration should set this.
    pub unconfined: bool,
    /// Whether it may use the network.
    pub network: bool,
    /// Whether it may use sockets of other programs on this machine.
    pub unix_sockets: bool,
    /// Further files and directories that it may write to.
    pub write: Vec<PathBuf>,
}

impl Grants {
    /// Sets whether the program runs without a sandbox.
    pub fn unconfined(self, unconfined: bool) -> Grants {
        Grants { unconfined, ..self }
    }

    /// Sets whether the program may use the network.
    pub fn network(self, network: bool) -> Grants {
        Grants { network, ..self }
    }

    /// Sets whether the program may use sockets of other programs on this machine.
    pub fn unix_sockets(self, unix_sockets: bool) -> Grants {
        Grants { unix_sockets, ..self }
    }

    /// Sets the further files and directories that the program may write to.
    pub fn write(self, paths: impl IntoIterator<Item = impl Into<PathBuf>>) -> Grants {
        Grants { write: paths.into_iter().map(Into::into).collect(), ..self }
    }

    /// Returns whether nothing is granted.
    pub fn is_empty(&self) -> bool {
        *self == Grants::default()
    }
}

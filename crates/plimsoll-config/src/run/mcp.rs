//! MCP servers of the configuration.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use plimsoll::redact::redact;
use plimsoll_providers::Secret;
use plimsoll_sandbox::Grants;

/// An MCP server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpServer {
    /// How it is reached.
    pub connection: McpConnection,
    /// Whether it is used.
    pub enabled: bool,
    /// The longest time of one request to it.
    pub timeout: Option<Duration>,
    /// What its command may do beyond what commands may.
    pub grants: Grants,
    /// What is wrong with a reference of it; it cannot be used before that is mended.
    pub problem: Option<String>,
}

/// How an MCP server is reached. `Debug` shows no values of variables and headers.
#[derive(Clone, PartialEq, Eq)]
pub enum McpConnection {
    /// A command on this machine, by standard input and output.
    Local {
        /// The command with its arguments.
        command: Vec<String>,
        /// Further variables. Values are secrets: servers are given their keys in them.
        environment: Vec<(String, Secret)>,
        /// The directory it runs in; the project's where it is not set.
        directory: Option<PathBuf>,
    },
    /// An address, by HTTP.
    Remote {
        /// The address.
        url: String,
        /// Further headers.
        headers: Vec<(String, Secret)>,
    },
}

impl fmt::Debug for McpConnection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names =
            |pairs: &[(String, Secret)]| pairs.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        match self {
            McpConnection::Local { command, environment, directory } => formatter
                .debug_struct("Local")
                .field("command", &redact(&command.join(" ")).text)
                .field("environment", &names(environment))
                .field("directory", directory)
                .finish(),
            McpConnection::Remote { url, headers } => formatter
                .debug_struct("Remote")
                .field("url", &redact(url).text)
                .field("headers", &names(headers))
                .finish(),
        }
    }
}

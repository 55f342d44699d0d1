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
    /// How the server is reached.
    pub connection: McpConnection,
    /// Whether the server is used.
    pub enabled: bool,
    /// Timeout of a request.
    pub timeout: Option<Duration>,
    /// Additional permissions of its command in the sandbox.
    pub grants: Grants,
    /// Problem with a reference in its settings; the server cannot be used until it is fixed.
    pub problem: Option<String>,
}

/// How an MCP server is reached. `Debug` shows no values of variables and headers.
#[derive(Clone, PartialEq, Eq)]
pub enum McpConnection {
    /// A local command, through standard input and output.
    Local {
        /// The command with its arguments.
        command: Vec<String>,
        /// Additional variables. Values are secrets because servers receive keys in them.
        environment: Vec<(String, Secret)>,
        /// Working directory; the project's if it is not set.
        directory: Option<PathBuf>,
    },
    /// A remote server, through HTTP.
    Remote {
        /// URL of the server.
        url: String,
        /// Additional headers.
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

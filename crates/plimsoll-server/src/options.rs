//! Settings of a server, and why it does not start.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use plimsoll_host::{AgentOptions, HostError};
use thiserror::Error;

use crate::metrics::Metrics;

/// Maximum number of connections, if the options do not say.
const CONNECTIONS: usize = 1_024;

/// Time in which the head of a request, and then its body, must arrive, if the options do not say.
const HEAD: Duration = Duration::from_secs(30);

/// The port that OpenCode's clients expect.
pub const DEFAULT_PORT: u16 = 4096;

/// The user name of HTTP Basic authentication, if no other is configured.
pub const USER: &str = "opencode";

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The name or address to listen on.
    pub hostname: String,
    /// The port; 0 for a free one.
    pub port: u16,
    /// The user name that the password belongs to.
    pub user: String,
    /// The password. Required unless the server listens on loopback.
    pub password: Option<String>,
    /// Further names under which the server is reached, as `Host` has them.
    pub allowed_hosts: Vec<String>,
    /// Model, permissions and policy of agents, in addition to the configuration.
    pub agent: AgentOptions,
    /// Time after which a permission question without an answer is denied.
    pub permission_timeout: Duration,
    /// Time after which the session of an idle client is released, so that other processes can run it.
    pub idle_release: Duration,
    /// Maximum number of open connections.
    pub connections: usize,
    /// Time in which the head of a request must arrive.
    pub head_timeout: Duration,
    /// Time in which a body must arrive.
    pub body_timeout: Duration,
    /// Interval of heartbeats in event streams.
    pub heartbeat: Duration,
    /// Maximum number of events that wait for a reader. A reader with more is dropped.
    pub event_queue: usize,
    /// Maximum size in bytes of the events that wait for all readers. Beyond it, the slowest reader is dropped.
    pub event_bytes: usize,
    /// Counters that `/plimsoll/metrics` shows. Install them as the recorder of the process to have them filled.
    pub metrics: Option<Metrics>,
}

impl Default for ServerOptions {
    fn default() -> ServerOptions {
        ServerOptions {
            hostname: "127.0.0.1".to_owned(),
            port: DEFAULT_PORT,
            user: USER.to_owned(),
            password: None,
            allowed_hosts: Vec::new(),
            agent: AgentOptions::default(),
            permission_timeout: Duration::from_secs(600),
            idle_release: Duration::from_secs(10),
            connections: CONNECTIONS,
            head_timeout: HEAD,
            body_timeout: HEAD,
            heartbeat: Duration::from_secs(10),
            event_queue: 4_096,
            event_bytes: 32 << 20,
            metrics: None,
        }
    }
}

/// Why the server does not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServerError {
    /// Other machines could reach the server.
    #[error("`{0}` is not a loopback address: a server that other machines can reach needs a password")]
    PasswordRequired(String),
    /// The address cannot be listened on.
    #[error("cannot listen on `{address}`: {source}")]
    Listen {
        /// The address.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// The directory cannot be served.
    #[error("cannot serve `{}`: {source}", directory.display())]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The configuration or the database cannot be used.
    #[error("{}", .0.message())]
    Host(HostError),
}

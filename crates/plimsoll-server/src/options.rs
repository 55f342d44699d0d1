//! Options of a server, and the errors of starting one.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use plimsoll_host::{AgentOptions, HostError};
use thiserror::Error;

use crate::metrics::Metrics;

/// Default maximum number of connections.
const CONNECTIONS: usize = 1_024;

/// Default time limit for receiving the head of a request, and then its body.
const HEAD: Duration = Duration::from_secs(30);

/// Default port: the one that OpenCode's clients expect.
pub const DEFAULT_PORT: u16 = 4096;

/// Default user name for HTTP Basic authentication.
pub const USER: &str = "opencode";

/// Options of a server.
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
    /// Additional names that clients may use for this server in `Host`.
    pub allowed_hosts: Vec<String>,
    /// Model, permissions and policy of agents, in addition to the configuration.
    pub agent: AgentOptions,
    /// Time after which an unanswered permission question is denied.
    pub permission_timeout: Duration,
    /// Time after which an idle session is released, so that other processes can run it.
    pub idle_release: Duration,
    /// Maximum number of open connections.
    pub connections: usize,
    /// Time limit for receiving the head of a request.
    pub head_timeout: Duration,
    /// Time limit for receiving a body.
    pub body_timeout: Duration,
    /// Interval of heartbeats in event streams.
    pub heartbeat: Duration,
    /// Maximum number of events that wait for a reader. A slower reader is disconnected.
    pub event_queue: usize,
    /// Maximum size in bytes of the events that wait for all readers. Beyond it, the slowest reader is dropped.
    pub event_bytes: usize,
    /// Counters for `/plimsoll/metrics`. They are filled only if they are installed as the process's recorder.
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
            // Not unlimited: a run that waits for an answer keeps the lease of its session, so no other process can run it.
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

/// Error of starting a server.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServerError {
    /// Other machines could reach the server, and no password is set.
    #[error("`{0}` is not a loopback address: a server that other machines can reach needs a password")]
    PasswordRequired(String),
    /// The server cannot listen on the address.
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

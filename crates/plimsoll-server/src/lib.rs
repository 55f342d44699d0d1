//! # Plimsoll's HTTP server
//!
//! [`Server`] serves the sessions of one directory, the *root*, and of the directories below it, over HTTP: OpenCode's API,
//! so that its SDK and its terminal UI work, and Plimsoll's own API under `/plimsoll/`. It contains no session logic: every
//! answer comes from the store, from an agent's [`Conversation`](plimsoll_agent::Conversation), or from `plimsoll-host`.
//!
//! | part | does |
//! |---|---|
//! | `server`, `accept`, `stall` | listening, limits of connections, draining |
//! | `access` | who may send requests: `Host`, `Origin`, password |
//! | `scope` | which directory a request is about |
//! | `app::project` | a directory: its configuration, the database of its sessions, its background tasks |
//! | `app::runner` | one run per session, and prompts that join it |
//! | `app::events` | event streams, fed by the change feed of the store and by runs |
//! | `app::questions` | permission questions that wait for an answer |
//! | `app::shape` | sessions, messages and parts as OpenCode's clients expect them |
//! | `routes` | the routes, by subject |
//! | `page` | the page at `/`: one document, one script and one style sheet, embedded |
//!
//! **Invariants.** Blocking work, such as that of the store, never runs on a thread of the async runtime. A request only sees
//! the sessions of its own directory. What is not implemented is refused with 404 or 501; no route waits for something that
//! may never happen without a timeout or a way to cancel it.

mod accept;
mod access;
mod app;
mod body;
mod error;
mod extract;
mod metrics;
mod options;
mod page;
mod routes;
mod scope;
mod server;
mod stall;

pub use metrics::Metrics;
pub use options::{DEFAULT_PORT, ServerError, ServerOptions, USER};
pub use server::Server;

//! The server over real sockets.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod access;
mod commands;
mod edits;
mod events;
#[cfg(unix)]
mod hostile;
mod joining;
#[cfg(target_os = "linux")]
mod load;
mod metrics;
mod own;
mod page;
mod permissions;
mod prompts;
mod reverts;
mod routes;
mod sessions;
mod support;
mod tasks;

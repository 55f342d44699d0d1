//! The server over real sockets.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod access;
mod edits;
mod events;
mod joining;
mod load;
mod metrics;
mod own;
mod permissions;
mod prompts;
mod routes;
mod sessions;
mod support;
mod tasks;

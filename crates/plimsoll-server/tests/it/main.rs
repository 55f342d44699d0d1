//! The server over real sockets.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod access;
mod events;
#[cfg(unix)]
mod hostile;
mod load;
mod own;
mod page;
mod permissions;
mod prompts;
mod sessions;
mod support;
mod tasks;

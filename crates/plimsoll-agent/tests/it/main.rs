//! The agent's tests, in one binary.

// Clippy recognises tests by their attribute; helpers may panic too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod agents;
mod asking;
#[cfg(unix)]
mod attack;
#[cfg(unix)]
mod attacks;
mod closed;
mod compaction;
#[cfg(target_os = "linux")]
mod confined_programs;
mod files;
mod flows;
mod globs;
mod hints;
mod hooks;
mod journal;
mod kept_kills;
mod kills;
mod known_tools;
mod loops;
mod mcp;
mod metrics;
mod opencode;
mod reverts;
#[cfg(target_os = "linux")]
mod sandbox;
mod skills;
mod soak;
mod support;
mod switching;
mod tasks;
mod todos;
mod tools;
#[cfg(target_os = "linux")]
mod user;
mod user_actions;
mod webfetch;

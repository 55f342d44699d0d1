//! Tests that run the command like a user.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[cfg(unix)]
mod agreement;
#[cfg(unix)]
mod attack;
#[cfg(unix)]
mod chat;
#[cfg(unix)]
mod chat_ends;
#[cfg(unix)]
mod chat_window;
mod config;
mod config_run;
mod damage;
mod engine;
mod extremes;
mod figures;
#[cfg(unix)]
mod handover;
mod help;
#[cfg(target_os = "linux")]
mod leases;
mod manners;
#[cfg(unix)]
mod mcp;
#[cfg(target_os = "linux")]
mod measures;
mod mislead;
mod range;
mod readme;
mod recorded;
mod replay;
mod revert;
#[cfg(unix)]
mod run;
#[cfg(unix)]
mod serve;
mod sessions;
mod store;
#[cfg(unix)]
mod summarise;
mod support;
#[cfg(unix)]
mod tasks;
#[cfg(unix)]
mod terminal;
#[cfg(unix)]
mod tmux;
mod trust;
mod upkeep;
mod watch;
mod weights;

//! The command as a person runs it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod config;
mod config_run;
mod engine;
mod extremes;
mod figures;
mod help;
mod replay;
#[cfg(unix)]
mod run;
mod sessions;
mod store;
mod support;
#[cfg(unix)]
mod terminal;
mod trust;

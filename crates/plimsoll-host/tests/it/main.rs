//! The crate as a host uses it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod config;
mod fixtures;
mod follow;
mod handover;
mod hosts;
mod lookup;
mod mcp;
mod plans;

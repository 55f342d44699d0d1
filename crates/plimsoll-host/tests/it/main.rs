//! The crate as a host uses it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod config;
mod hosts;

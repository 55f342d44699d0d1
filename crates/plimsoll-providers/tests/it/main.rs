//! The tests of the crate, one binary.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::needless_pass_by_value)]

mod build;
mod client;
mod decode;
mod endpoint;
mod errors;
mod long_answers;
mod server;
mod sse;
mod tls;
mod usage;
mod wire;
mod work;

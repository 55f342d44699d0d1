//! The tests of the crate, one binary.

mod build;
mod client;
mod decode;
mod endpoint;
mod errors;
mod server;
mod sse;
mod usage;
mod wire;

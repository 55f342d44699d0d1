//! The tests of the crate, one binary.

mod build;
mod decode;
mod sse;
mod usage;
mod wire;

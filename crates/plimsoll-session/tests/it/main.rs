//! The tests of the crate, in one binary.

// Clippy knows tests by their attribute; helpers may panic as well.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod answers;
#[cfg(feature = "async")]
mod async_session;
mod counts;
#[cfg(feature = "async")]
mod embedding;
mod figures;
mod model;
mod outputs;
mod precompaction;
mod recall;
mod reductions;
mod stop;
mod support;
mod turns;
mod usage;

//! The driver's tests, in one binary.

// Clippy knows tests by their attribute; the helpers beside them may fail as loudly.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod answers;
#[cfg(feature = "async")]
mod async_session;
mod counts;
mod early;
#[cfg(feature = "async")]
mod embedding;
mod figures;
mod model;
mod outputs;
mod recall;
mod reductions;
mod support;
mod turns;
mod usage;

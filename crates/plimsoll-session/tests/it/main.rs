//! The driver's tests, in one binary.

// Clippy knows tests by their attribute; the helpers beside them may fail as loudly.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod answers;
mod counts;
mod early;
mod figures;
#[cfg(feature = "async")]
mod handle;
mod model;
mod outputs;
mod recall;
mod reductions;
mod stop;
mod support;
mod turns;
mod usage;

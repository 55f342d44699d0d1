//! Tests of the public interface.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod layers;
mod opencode;
mod properties;
mod run;
mod run_trust;
mod schema;
mod support;
mod trust;

//! The crate from outside.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod layers;
mod support;
mod trust;

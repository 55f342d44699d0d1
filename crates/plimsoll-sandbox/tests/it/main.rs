//! The sandbox, tried from inside: each test runs commands that try to get out.
//!
//! A test is skipped, with a line that says so, if the kernel cannot enforce what it is about.
#![cfg(target_os = "linux")]
// Clippy recognises tests by their attribute; helpers may panic too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod attack;
mod descriptors;
mod network;
mod processes;
mod reads;
mod support;
mod swaps;
mod user;
mod writes;

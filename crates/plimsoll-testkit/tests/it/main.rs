//! The scripted model server, tested with our client.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::needless_pass_by_value)]

mod builders;
mod cache;
mod command;
mod faults;
mod legal;
mod round_trip;
mod tools;

//! Tests of the token counters. Data is made up here; `examples/calibration.rs` replays real sessions.

mod bpe;
mod calibration;
mod measured;
mod models;

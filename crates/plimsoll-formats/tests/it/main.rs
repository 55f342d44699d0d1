//! Reads and writes whole transcripts. All samples are written by hand.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod adversarial;
mod claude_code;
mod codex;
mod corpus;
mod detection;
mod documents;
mod faults;
mod goose_db;
mod opencode_db;
mod pi;
mod restarts;
mod samples;
mod sessions;
mod shapes;
mod summary;
mod support;
mod tools;
mod wild;
mod writers;

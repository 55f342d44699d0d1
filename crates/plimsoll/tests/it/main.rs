//! The engine's tests, in one binary. A test that proves a requirement starts with its number.

mod compact;
mod corpus;
mod count;
mod fork;
mod ladder;
mod limits;
mod load;
mod log;
mod policy;
mod properties;
mod prune;
mod receipt;
mod redact;
mod truncate;
mod window;

//! The engine's tests, in one binary. A test that proves a requirement starts with its number.

// Clippy recognises tests by their attribute, but not the helpers, which may panic too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]
#![allow(clippy::needless_pass_by_value)]

mod cache;
mod compact;
mod continuing;
mod contract;
mod corpus;
mod count;
mod edit;
mod extremes;
mod fork;
mod fork_history;
mod guide;
mod ladder;
mod lane;
mod lenient;
mod limits;
mod live;
mod load;
mod log;
mod model_summaries;
mod policy;
mod properties;
mod prune;
mod range;
mod recall;
mod receipt;
mod redact;
mod streaming;
mod summary;
mod thrift;
mod truncate;
mod unicode;
mod watch;
mod window;
mod work;
mod yardstick;

//! Helpers for Plimsoll's own tests: short ways to write histories, generators of unusual ones, and, with the feature
//! `server`, a scripted model server that speaks the wire formats of the providers.
//!
//! A history is written step by step:
//!
//! ```
//! use plimsoll_testkit::History;
//! let log = History::new().user("hello").tool("read", "contents").say("done").log();
//! assert_eq!(log.len(), 3);
//! ```

mod generate;
mod history;
#[cfg(feature = "server")]
pub mod server;

pub use generate::{Twist, histories, odd_text, renamed};
pub use history::{History, ids};

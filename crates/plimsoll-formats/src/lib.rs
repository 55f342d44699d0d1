#![doc = include_str!("../README.md")]

mod assembly;
mod blocks;
#[cfg(feature = "opencode-db")]
pub mod database;
mod detect;
mod document;
mod error;
mod field_errors;
mod file_text;
mod format;
mod hash;
mod json;
mod lines;
mod nearest;
mod read;
mod recorded;
mod restart;
mod signs;
mod time;
mod transcript;
mod tree;
mod write;

pub use detect::detect;
pub use document::MAX_DOCUMENT;
pub use error::FormatError;
pub use format::{Format, UnknownFormat};
pub use lines::{BROKEN, MAX_LINE};
pub use read::{read, read_as, read_session, visit, visit_as, visit_from, visit_session};
pub use recorded::{Recorded, RecordedResponse};
pub use restart::Restart;
pub use time::rfc3339_of as rfc3339;
pub use transcript::{BrokenLine, Chain, SessionInfo, Transcript};
pub use write::{
    ConversionLoss, EachMessage, NewSession, write, write_counting, write_session, write_to, write_window,
};

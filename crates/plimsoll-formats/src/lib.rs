//! Reads transcripts of other agents into Plimsoll's log, and writes them.
//!
//! Users have sessions on disk: Claude Code's JSONL, Codex' rollouts, `opencode export`, pi's JSONL, SWE-agent's
//! trajectories, plain requests to OpenAI or Anthropic. [`read`] accepts any of them, detects its format by its content, and
//! returns a [`Transcript`]: one list of [`plimsoll::Message`], the same whatever tool wrote it.
//!
//! ```
//! use plimsoll::{Log, Policy, Window};
//! use plimsoll_formats::{Format, read, write};
//!
//! let file = r#"{"messages": [
//!     {"role": "user", "content": "What is in the folder?"},
//!     {"role": "assistant", "content": null, "tool_calls": [
//!         {"id": "call_1", "type": "function", "function": {"name": "ls", "arguments": "{\"path\":\".\"}"}}]},
//!     {"role": "tool", "tool_call_id": "call_1", "content": "README.md"},
//!     {"role": "assistant", "content": "A README."}
//! ]}"#;
//! let transcript = read(file.as_bytes())?;
//! assert_eq!(transcript.format, Format::OpenaiChat);
//! assert!(transcript.skipped.is_empty()); // everything was understood
//!
//! // The call and its result have become one part, and the engine can work with it.
//! let log = Log::from_messages(transcript.messages);
//! assert_eq!(log[1].parts[0].as_tool().unwrap().state.output.as_deref(), Some("README.md"));
//! assert!(Window::of(&log, &Policy::default()).check().is_ok());
//!
//! // Written for another provider, by that provider's rules.
//! let request = write(Format::AnthropicMessages, &transcript.info, &log)?;
//! assert_eq!(request["messages"][1]["content"][0]["type"], "tool_use");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ## Guarantees of readers
//!
//! - **Nothing vanishes silently.** An unknown kind of record is counted in [`Transcript::skipped`], one
//!   that is known but contains nothing that the model saw in [`Transcript::unused`].
//! - **A session being written can be read.** A truncated last line sets [`Transcript::torn`].
//! - **One bad line does not invalidate the session.** A line that is not a JSON object or not UTF-8 is counted as [`BROKEN`],
//!   the first of them is kept in [`Transcript::broken`] with its number, and reading continues. It is an error only if
//!   no line could be read.
//! - **One bad value does not affect others.** A field with an invalid value is reported in
//!   [`Transcript::notes`] with its location and how it was handled, and everything around it is read.
//! - **Memory is bounded.** [`visit`] passes on each message once it is complete. For line formats it keeps a few
//!   numbers per record and the incomplete messages; a line over [`MAX_LINE`] bytes is skipped without being held. A
//!   document is held as text and rejected over [`MAX_DOCUMENT`] bytes. [`read`] collects the messages.
//! - **Every call is paired** with its result in one `tool` part, compactions are
//!   [pivots](plimsoll::Pivot), and every message and part has an id: the source's if it has one, otherwise
//!   one derived from its position.
//!
//! **Invariant:** this crate opens no files and knows no directories; the caller passes readers. There is one
//! exception: a database cannot be read from a stream, so `database` (with the feature `opencode-db`, on by default) opens the
//! file at a path.
//!
//! `docs/FORMATS.md` lists the content of each format and what is lost on conversion.

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

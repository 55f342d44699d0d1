//! Transcripts of other agents, read into Plimsoll's log and written from it.
//!
//! People have sessions on disk: Claude Code's JSONL, Codex' rollouts, `opencode export`, pi's JSONL, SWE-agent's
//! trajectories, plain requests to OpenAI or Anthropic. [`read`] takes any of them, knows it by its content, and
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
//! ## What a reader promises
//!
//! - **Nothing vanishes silently.** A kind of record that is not known is counted in [`Transcript::skipped`], one
//!   that is known but holds nothing a model was shown in [`Transcript::unused`].
//! - **A session being written can be read.** A last line without its end sets [`Transcript::torn`].
//! - **One bad line does not cost the session.** A line that is no JSON object or no UTF-8 is counted as [`BROKEN`],
//!   the first of them is kept in [`Transcript::broken`] with its number, and reading goes on. It is an error only if
//!   no line at all could be read.
//! - **One bad value costs nothing else.** A field whose value is not what it should be is named in
//!   [`Transcript::notes`] with its place and what became of it, and everything around it is read.
//! - **Memory is bounded.** [`visit`] hands on each message as soon as it is complete. Of line formats it holds a few
//!   numbers for each record and what is not complete yet; a line over [`MAX_LINE`] bytes is skipped without being
//!   held; a document is held as text and refused over [`MAX_DOCUMENT`] bytes. [`read`] is the same, collected.
//! - **Every call is paired** with its result in one `tool` part, compactions are
//!   [pivots](plimsoll::pivot), and every message and part has an id: the source's where it has one, otherwise
//!   one made from the place.
//!
//! **Invariant:** this crate opens no files and knows no directories; it reads from what it is given. There is one
//! exception: a database cannot be read from a stream, so [`database`] opens the file it is given the path of.
//!
//! `docs/FORMATS.md` tells what each format carries and what is lost on conversion.

mod assembly;
mod blocks;
pub mod database;
mod detect;
mod document;
mod error;
mod file_text;
mod format;
mod hash;
mod json;
mod lines;
mod misfits;
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
pub use write::{Lost, NewSession, write, write_counting, write_session, write_to, write_window};

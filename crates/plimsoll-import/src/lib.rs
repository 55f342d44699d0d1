//! The sessions that coding agents keep on a machine: found, opened as transcripts, and imported into a store.
//!
//! [`Search`] knows where OpenCode, Claude Code, Codex and pi keep their sessions and can look into a store of Plimsoll's
//! beside them. [`Source`] reads what was found, or a file, or a stream. [`Survey`] tells what is in it and whether a
//! stored copy is its beginning, and [`Survey::import`] stores it.
//!
//! ```
//! use plimsoll::{Ids, Millis};
//! use plimsoll_import::{ImportOptions, Outcome, Source, Survey};
//! use plimsoll_store::{MemoryStore, Sessions};
//!
//! let begun = r#"{"type":"user","uuid":"1","parentUuid":null,"sessionId":"s1","message":{"content":"Hello"}}"#;
//! let answer = r#"{"type":"assistant","uuid":"2","parentUuid":"1","sessionId":"s1","message":{"id":"m","content":"Hi"}}"#;
//! let grown = format!("{begun}\n{answer}\n");
//!
//! let store = MemoryStore::new();
//! let mut drawn = 0;
//! let mut ids = Ids::new(move || { drawn += 1; drawn });
//! let options = ImportOptions { now: Millis(1_794_775_451_033), ..ImportOptions::default() };
//! let mut import = |text: &str| {
//!     let mut source = Source::Stream(Box::new(std::io::Cursor::new(text.to_owned())));
//!     let survey = Survey::of(&mut source, &|_| {})?;
//!     survey.import(&mut source, &store, &mut ids, &options, &|_| {})
//! };
//! assert_eq!(import(begun)?.outcome, Outcome::Stored);
//! assert_eq!(import(begun)?.outcome, Outcome::Unchanged);
//! let report = import(&grown)?;
//! assert_eq!((report.outcome, report.added, report.id.as_str()), (Outcome::Updated, 1, "s1"));
//! assert_eq!(store.session(&"s1".into())?.messages, 2);
//! # Ok::<(), plimsoll_import::ImportError>(())
//! ```
//!
//! ## What it promises
//!
//! - **It knows nothing of a terminal, a home directory or an environment.** [`Places`] is a plain value, progress goes to
//!   a callback, and whatever there is to tell is in what is returned.
//! - **Other tools' files are never written to.**
//! - **A session is imported whole or not at all**, sub-agents included, and of several imports at once one stores it. A
//!   source that has grown by much adds to its copy in pieces, so that no writer waits for long; the copy is a beginning of
//!   its source after each, and an import that was killed is gone on with by the next.
//! - **A stored copy is added to only while it is the beginning of its source** and was not continued in the store.
//!   Otherwise a new session is made, and the [`Report`] says why. What reductions did to the copy stays.
//! - **A source is held piece by piece**, however large it is.

mod cache;
mod error;
mod find;
mod import;
mod keeping;
mod names;
mod places;
mod report;
mod short_ids;
mod source;
mod stored;
mod survey;
mod taken;
mod text;
mod tool;
mod weigh;
mod weighed;
mod write;

pub use cache::WeighedCache;
pub use error::ImportError;
pub use find::{Found, Kept, Scope, Search, projects_around, row_with_id};
pub use import::Drift;
pub use places::{Places, Problem};
pub use report::{Because, ImportOptions, InsteadOf, Outcome, Report};
pub use short_ids::ShortIds;
pub use source::{FileKind, OnRead, Source, open};
pub use stored::{Extent, about, each, salvage, transcript, visit};
pub use survey::Survey;
pub use text::{first_prompt, first_words, is_printable, printable};
pub use tool::Tool;
pub use weigh::weigh_all;
pub use weighed::Weighed;

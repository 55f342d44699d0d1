//! Why a transcript could not be read or written.

use thiserror::Error;

use crate::format::Format;
use crate::json::told;

/// Why a transcript could not be read or written: what, where, and what to do.
#[derive(Debug, Error)]
pub enum FormatError {
    /// The input could not be read at all.
    #[error("cannot read the transcript: {0}")]
    Io(#[from] std::io::Error),
    /// There is nothing to read.
    #[error("the transcript is empty")]
    Empty,
    /// The content is of no known format.
    #[error("this is no transcript of a known format{hint}; known are: {}", Format::names())]
    Unrecognised {
        /// What it looks like instead, if that can be told; starts with a space or a comma.
        hint: String,
    },
    /// A document is not JSON, or is nested too deeply.
    #[error("{format}: not valid JSON at line {}, column {}: {}", source.line(), source.column(), told(.source))]
    Json {
        /// What it was read as.
        format: Format,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A document is JSON of another shape.
    #[error("{format}: {at}: {problem}")]
    Shape {
        /// What it was read as.
        format: Format,
        /// The place, as in `messages[3].content`.
        at: String,
        /// What was expected and what was found.
        problem: String,
    },
    /// Not one line could be read.
    #[error("{format}: no line could be read; line {line}: {problem}")]
    Lines {
        /// What it was read as.
        format: Format,
        /// The first line that could not be read, counted from 1.
        line: u64,
        /// What is wrong with it.
        problem: String,
    },
    /// A document is larger than what is held in memory.
    #[error("{format}: the document is over {limit} bytes; split it or export fewer messages")]
    TooLarge {
        /// What it was read as.
        format: Format,
        /// The limit in bytes.
        limit: u64,
    },
    /// The database could not be opened or read.
    #[error("{0}")]
    Database(String),
    /// A database was handed over as a stream.
    #[error("a database cannot be read from a stream; give the path of the file")]
    NeedsPath,
    /// There are records and not one message among them.
    #[error("this looks like {format}, but nothing in it is a message: {found}")]
    NoMessages {
        /// What it was read as.
        format: Format,
        /// What was found instead.
        found: String,
    },
    /// The file has no session of that name.
    #[error("{format}: there is no session {}; {near}", named(.id))]
    NoSession {
        /// What it was read as.
        format: Format,
        /// The id that was asked for; nothing if it was the newest.
        id: Option<String>,
        /// Sessions that may have been meant, in words.
        near: String,
    },
    /// There is no writer for this format.
    #[error("{0} can be read but not written; write {export}, {openai} or {anthropic}",
        export = Format::OpencodeExport, openai = Format::OpenaiChat, anthropic = Format::AnthropicMessages)]
    NotWritable(Format),
}

fn named(id: &Option<String>) -> String {
    id.as_ref().map_or_else(|| "at all".to_owned(), |id| format!("`{id}`"))
}

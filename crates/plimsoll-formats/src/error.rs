//! Errors of reading and writing transcripts.

use thiserror::Error;

use crate::format::Format;
use crate::json::error_text;

/// Error of reading or writing a transcript: the problem, its position, and the next step.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FormatError {
    /// An I/O error.
    #[error("cannot read the transcript: {0}")]
    Io(#[from] std::io::Error),
    /// The input is empty.
    #[error("the transcript is empty")]
    Empty,
    /// The content is not of a known format.
    #[error("not a transcript of a known format{hint}; known formats: {}", Format::names())]
    Unrecognised {
        /// The most similar format, if there is one; starts with a space or a comma.
        hint: String,
    },
    /// A document is not JSON, or is nested too deeply.
    #[error("{format}: not valid JSON at line {}, column {}: {}", source.line(), source.column(), error_text(.source))]
    Json {
        /// Assumed format.
        format: Format,
        /// The parser's error.
        source: serde_json::Error,
    },
    /// A document is JSON of another structure.
    #[error("{format}: {at}: {problem}")]
    Shape {
        /// Assumed format.
        format: Format,
        /// The location, such as `messages[3].content`.
        at: String,
        /// The expected and the actual value.
        problem: String,
    },
    /// No line could be read.
    #[error("{format}: no line could be read; line {line}: {problem}")]
    Lines {
        /// Assumed format.
        format: Format,
        /// The first line that could not be read, counted from 1.
        line: u64,
        /// The problem of that line.
        problem: String,
    },
    /// A document exceeds the size limit.
    #[error("{format}: the document is over {limit} bytes; split it or export fewer messages")]
    TooLarge {
        /// Assumed format.
        format: Format,
        /// The limit in bytes.
        limit: u64,
    },
    /// The database could not be opened or read.
    #[error(transparent)]
    Database(Box<dyn std::error::Error + Send + Sync>),
    /// The file is not a readable database of sessions.
    #[error("{0}")]
    NotSessions(String),
    /// A database was passed as a stream.
    #[error("a database cannot be read from a stream; give the path of the file")]
    NeedsPath,
    /// There are records, but no messages among them.
    #[error("this looks like {format}, but nothing in it is a message: {found}")]
    NoMessages {
        /// Assumed format.
        format: Format,
        /// The records that were found.
        found: String,
    },
    /// The file has no session with that id.
    #[error("{format}: no session {}; {near}", named(.id))]
    NoSession {
        /// Assumed format.
        format: Format,
        /// The requested id; `None` for the newest session.
        id: Option<String>,
        /// Similar sessions, as text.
        near: String,
    },
    /// The format has no writer.
    #[error("{0} can be read but not written; write {export}, {openai} or {anthropic}",
        export = Format::OpencodeExport, openai = Format::OpenaiChat, anthropic = Format::AnthropicMessages)]
    NotWritable(Format),
}

fn named(id: &Option<String>) -> String {
    id.as_ref().map_or_else(|| "at all".to_owned(), |id| format!("`{id}`"))
}

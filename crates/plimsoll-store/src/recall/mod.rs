//! Recall: returns content that left the window, whole or in part, within the requested limits.
//!
//! Content is read as a stream and only what is shown is held, so two lines of an output of a gigabyte need no more
//! memory than two lines of a short one.

mod read;
mod text;

use plimsoll::SessionId;
use regex::bytes::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::stop::StopFlag;

pub(crate) use read::copy_lines;
pub(crate) use text::{INPUT, describe, format_message, format_part, input_text, part_text, tool_of};

/// Scope in which a handle is resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope<'a> {
    /// Content that a session can see: its own log and spills, those it inherited as a fork, and those of the sessions
    /// that started it as a task, because its digest may name them. Removed sessions are included.
    Session(&'a SessionId),
    /// All sessions. For users; a model never sees more than its session.
    Everywhere,
}

/// Selects a part of some content.
///
/// A model's [`plimsoll::recall::RecallQuery`] is converted to this.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Selection {
    /// Range of lines, first and last, counted from 1.
    pub lines: Option<(u64, u64)>,
    /// Only matching lines, with lines around them.
    pub search: Option<Search>,
    /// Maximum number of bytes of text.
    pub max_bytes: usize,
    /// Maximum number of matches.
    pub max_matches: usize,
    /// Stops the read.
    #[serde(skip)]
    pub stop: StopFlag,
}

/// A search.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Search {
    /// The pattern.
    pub pattern: String,
    /// Search for the pattern itself instead of a regular expression.
    pub literal: bool,
    /// Case-insensitive.
    pub ignore_case: bool,
    /// Number of lines shown before and after each match.
    pub context: usize,
}

impl Default for Selection {
    fn default() -> Selection {
        Selection {
            lines: None,
            search: None,
            max_bytes: 50_000,
            max_matches: 100,
            stop: StopFlag::default(),
        }
    }
}

/// Content of a handle, and its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Recall {
    /// The session that it belongs to.
    pub session: SessionId,
    /// The full handle.
    pub handle: String,
    /// Short description, such as `output of bash`.
    pub what: String,
    /// The selected lines.
    pub found: Recalled,
}

/// Lines of some content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Recalled {
    /// The lines in order, with their numbers.
    pub lines: Vec<Line>,
    /// Number of lines of the whole content.
    pub all_lines: u64,
    /// Number of matching lines, if there was a search.
    pub matches: u64,
    /// Whether the limits cut something off.
    pub cut: bool,
    /// Whether bytes that are not UTF-8 were replaced; the original bytes can be copied.
    pub lossy: bool,
}

/// A line of some content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Line {
    /// Line number, counted from 1.
    pub number: u64,
    /// Text without the newline.
    pub text: String,
    /// Whether the line matches, rather than being near a match.
    pub is_match: bool,
}

impl Search {
    /// Compiles the pattern.
    pub(crate) fn compile(&self) -> Result<Regex, StoreError> {
        let pattern = if self.literal { regex::escape(&self.pattern) } else { self.pattern.clone() };
        RegexBuilder::new(&pattern)
            .case_insensitive(self.ignore_case)
            .multi_line(true)
            // A line keeps its carriage return, and `$` has to match before it.
            .crlf(true)
            .size_limit(1 << 20)
            .build()
            .map_err(|error| StoreError::Refused(format!("invalid pattern `{}`: {error}", self.pattern)))
    }
}

impl Recalled {
    /// Returns the lines as one text.
    pub fn text(&self) -> String {
        self.lines.iter().map(|line| line.text.as_str()).collect::<Vec<_>>().join("\n")
    }
}

/// A match of a search in a session, or content that could not be searched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Hit {
    /// Handle of the whole content. That of a call's input ends with `:input`.
    pub handle: String,
    /// The message it belongs to; `None` for a spilled output.
    pub message: Option<plimsoll::MessageId>,
    /// The tool, if it is a call.
    pub tool: Option<String>,
    /// The matching lines.
    pub found: Recalled,
    /// Why the content could not be searched. It may match; `found` is empty then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsearched: Option<String>,
}

impl Hit {
    /// Content that could not be searched.
    pub(crate) fn unsearched(
        handle: &str,
        message: Option<&str>,
        tool: Option<&str>,
        why: impl Into<String>,
    ) -> Hit {
        Hit {
            handle: handle.to_owned(),
            message: message.map(plimsoll::MessageId::new),
            tool: tool.map(str::to_owned),
            found: Recalled::default(),
            unsearched: Some(why.into()),
        }
    }
}

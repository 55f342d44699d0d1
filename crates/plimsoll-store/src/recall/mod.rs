//! Recall: bringing back what is out of the window, whole or in pieces, never more than was asked for.
//!
//! Content is read as it comes and only what is shown is held, so two lines of an output of a gigabyte cost no more
//! memory than two lines of a short one.

mod read;
mod told;

use plimsoll::SessionId;
use regex::bytes::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

use crate::error::StoreError;

pub(crate) use read::copy_lines;
pub(crate) use told::{INPUT, input_text, part_text, told, told_part, tool_of, what_of};

/// Where a handle is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope<'a> {
    /// What a session can see: its own log and spills, those it inherited as a fork, and those of the sessions that
    /// started it as a task, because a digest it was given may name them; also of sessions that were removed since.
    Session(&'a SessionId),
    /// All sessions. For people; a model is never given more than its session.
    Everywhere,
}

/// Which part of some content is wanted.
///
/// What a model asks for is a [`plimsoll::recall::RecallQuery`]; this is what it comes down to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Selection {
    /// From the first to the last of these lines, counted from 1.
    pub lines: Option<(u64, u64)>,
    /// Only lines that match, with others around them.
    pub search: Option<Search>,
    /// No more than so many bytes of text.
    pub most_bytes: usize,
    /// No more than so many matches.
    pub most_matches: usize,
}

/// What is looked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Search {
    /// The pattern.
    pub pattern: String,
    /// It is to be taken as it is, not as a regular expression.
    pub literal: bool,
    /// Upper and lower case are the same.
    pub ignore_case: bool,
    /// So many lines before and after each match.
    pub context: usize,
}

impl Default for Selection {
    fn default() -> Selection {
        Selection { lines: None, search: None, most_bytes: 50_000, most_matches: 100 }
    }
}

/// What a handle names, and where it was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Recall {
    /// The session whose content it is.
    pub session: SessionId,
    /// The handle, whole.
    pub handle: String,
    /// What it is, in a few words such as `output of bash`.
    pub what: String,
    /// What was asked for of it.
    pub found: Recalled,
}

/// Lines of some content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Recalled {
    /// The lines, each with its number, in the order of the content.
    pub lines: Vec<Line>,
    /// How many lines the whole content has.
    pub all_lines: u64,
    /// How many lines match, if something was searched for.
    pub matches: u64,
    /// Something more would have been there, but for the bounds.
    pub cut: bool,
    /// Bytes that are not UTF-8 are shown as replacement characters; they can be had as they are.
    pub lossy: bool,
}

/// A line of some content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    /// Its number, counted from 1.
    pub number: u64,
    /// What it says, without the newline that ends it.
    pub text: String,
    /// Whether it is one of those searched for, rather than one around them.
    pub is_match: bool,
}

impl Search {
    /// The pattern, ready to be used.
    pub(crate) fn compile(&self) -> Result<Regex, StoreError> {
        let pattern = if self.literal { regex::escape(&self.pattern) } else { self.pattern.clone() };
        RegexBuilder::new(&pattern)
            .case_insensitive(self.ignore_case)
            .multi_line(true)
            // A line keeps its carriage return, and `$` is meant before it.
            .crlf(true)
            .size_limit(1 << 20)
            .build()
            .map_err(|error| StoreError::Refused(format!("invalid pattern `{}`: {error}", self.pattern)))
    }
}

impl Recalled {
    /// The text alone.
    pub fn text(&self) -> String {
        self.lines.iter().map(|line| line.text.as_str()).collect::<Vec<_>>().join("\n")
    }
}

/// A place where a search in a session found something, or could not look.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hit {
    /// The handle by which the whole is recalled. That of a call's input ends with `:input`.
    pub handle: String,
    /// The message it belongs to; none for a spilled output.
    pub message: Option<plimsoll::MessageId>,
    /// The tool that was called, if it is a call or an answer.
    pub tool: Option<String>,
    /// What was found.
    pub found: Recalled,
    /// Why it could not be searched: then it may match or not, and `found` is empty.
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

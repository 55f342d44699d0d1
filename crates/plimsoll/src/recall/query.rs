//! Input of the recall tool, read leniently.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thiserror::Error;

use super::NAME;
use crate::chars::{Chars, head};
use crate::pattern::Regex;

/// A request for content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecallQuery {
    /// The handle; `None` searches everything that has left the window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
    /// The first line (1-based).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// The last line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<u64>,
    /// Chars to skip at the beginning of the first line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// Regular expression; only matching lines are returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search: Option<String>,
    /// Maximum number of lines or matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// Invalid input, in words that help the model to correct it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RecallQueryError {
    /// The input is not an object.
    #[error("the input of `{NAME}` must be an object such as {{\"handle\": \"spill_9c2f\"}}, not {found}")]
    NotAnObject {
        /// The value that was found.
        found: &'static str,
    },
    /// The input has neither a handle nor a search.
    #[error(
        "`{NAME}` requires a `handle`, as written where content was truncated or cleared, or a `search`, which covers \
         all removed content"
    )]
    Nothing,
    /// An unknown field.
    #[error(
        "unknown field `{field}` of `{NAME}` (available: `handle`, `from`, `to`, `offset`, `search`, `limit`)"
    )]
    UnknownField {
        /// The field.
        field: String,
    },
    /// A field of the wrong type.
    #[error("`{field}` must be {expected}, not {found}")]
    WrongType {
        /// The field.
        field: &'static str,
        /// The expected type.
        expected: &'static str,
        /// The value that was found.
        found: &'static str,
    },
    /// The last line is before the first.
    #[error("`from` ({from}) must not be greater than `to` ({to})")]
    Reversed {
        /// The first line.
        from: u64,
        /// The last line.
        to: u64,
    },
}

impl RecallQuery {
    /// Creates a query for the beginning of a handle's content.
    pub fn of(handle: impl Into<String>) -> RecallQuery {
        RecallQuery { handle: Some(handle.into()), ..RecallQuery::default() }
    }

    /// Returns whether the search text is literal, because it is not a valid regular expression.
    pub fn is_literal(&self) -> bool {
        self.search.as_ref().is_some_and(|search| Regex::new(search).is_err())
    }

    /// Reads the input of a call.
    ///
    /// Unambiguous slips are accepted, because an error costs a turn: numbers in quotes, a handle with
    /// the words or brackets that it was copied with, the bare handle instead of an object, and `null`, empty
    /// texts and 0 for unused fields.
    pub fn parse(input: &Value) -> Result<RecallQuery, RecallQueryError> {
        let fields = match input {
            Value::Object(fields) => fields,
            Value::String(handle) if !handle.trim().is_empty() => return Ok(RecallQuery::of(bare(handle))),
            other => return Err(RecallQueryError::NotAnObject { found: kind(other) }),
        };
        const KNOWN: [&str; 6] = ["handle", "from", "to", "offset", "search", "limit"];
        if let Some(field) = fields.keys().find(|key| !KNOWN.contains(&key.as_str())) {
            // A model may send anything; an error need not repeat all of it.
            return Err(RecallQueryError::UnknownField { field: head(field, Chars(50)).to_owned() });
        }
        let query = RecallQuery {
            handle: text(fields, "handle")?.map(bare).filter(|handle| !handle.is_empty()),
            from: number(fields, "from")?,
            to: number(fields, "to")?,
            offset: number(fields, "offset")?,
            search: text(fields, "search")?.map(str::to_owned),
            limit: number(fields, "limit")?,
        };
        if query.handle.is_none() && query.search.is_none() {
            return Err(RecallQueryError::Nothing);
        }
        if let (Some(from), Some(to)) = (query.from, query.to)
            && from > to
        {
            return Err(RecallQueryError::Reversed { from, to });
        }
        Ok(query)
    }
}

/// Extracts the handle from `[Full output kept: recall spill_9c2f]` or similar text that was copied with it.
fn bare(handle: &str) -> String {
    let marks = |c: char| c.is_whitespace() || "`'\"[]()<>,;:".contains(c);
    let handle = handle.trim_matches(marks);
    // A model that copies the notice copies the word before the handle.
    let marked = format!("{NAME} ");
    let handle = handle.rsplit_once(marked.as_str()).map_or(handle, |(_, handle)| handle);
    handle.trim_matches(marks).to_owned()
}

fn text<'a>(
    fields: &'a Map<String, Value>,
    field: &'static str,
) -> Result<Option<&'a str>, RecallQueryError> {
    match fields.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str()).filter(|text| !text.is_empty())),
        Some(other) => Err(RecallQueryError::WrongType { field, expected: "a string", found: kind(other) }),
    }
}

fn number(fields: &Map<String, Value>, field: &'static str) -> Result<Option<u64>, RecallQueryError> {
    let wrong = |found| RecallQueryError::WrongType { field, expected: "a positive integer", found };
    let number = match fields.get(field) {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) if text.trim().is_empty() => None,
        Some(Value::String(text)) => Some(text.trim().parse().map_err(|_| wrong("a string"))?),
        Some(value @ Value::Number(number)) => {
            let whole = number.as_f64().filter(|number| number.fract() == 0.0 && *number >= 0.0);
            let number = number.as_u64().or(whole.map(|number| number as u64));
            Some(number.ok_or_else(|| wrong(kind(value)))?)
        }
        Some(other) => return Err(wrong(kind(other))),
    };
    Ok(number.filter(|number| *number > 0))
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.as_f64().is_some_and(|number| number < 0.0) => "a negative number",
        Value::Number(number) if number.is_f64() => "a fractional number",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

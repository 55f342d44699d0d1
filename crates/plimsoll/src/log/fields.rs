//! Reading JSON objects by hand, so that unknown fields survive and errors say where they are.

use std::fmt;

use serde_json::{Map, Number, Value};
use thiserror::Error;

use crate::chars::Text;

/// A value in a log that is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{at}: {problem}")]
pub struct ShapeError {
    /// The place, as in `[3].parts[0].state.status`.
    pub at: String,
    /// What was expected and what was found.
    pub problem: String,
}

/// The place of a value while it is read; costs nothing until an error has to be told.
#[derive(Clone, Copy)]
pub(crate) enum At<'a> {
    Root,
    Key(&'a At<'a>, &'a str),
    Index(&'a At<'a>, usize),
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            At::Root => Ok(()),
            At::Key(At::Root, key) => f.write_str(key),
            At::Key(parent, key) => write!(f, "{parent}.{key}"),
            At::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

impl At<'_> {
    pub(crate) fn error(&self, problem: impl Into<String>) -> ShapeError {
        let at = self.to_string();
        ShapeError { at: if at.is_empty() { "the value".into() } else { at }, problem: problem.into() }
    }

    fn expected(&self, expected: &str, found: &Value) -> ShapeError {
        self.error(format!("expected {expected}, found {}", describe(found)))
    }

    pub(crate) fn object(&self, value: Value) -> Result<Map<String, Value>, ShapeError> {
        match value {
            Value::Object(map) => Ok(map),
            other => Err(self.expected("an object", &other)),
        }
    }

    pub(crate) fn array(&self, value: Value) -> Result<Vec<Value>, ShapeError> {
        match value {
            Value::Array(items) => Ok(items),
            other => Err(self.expected("an array", &other)),
        }
    }

    pub(crate) fn string(&self, value: Value) -> Result<String, ShapeError> {
        match value {
            Value::String(text) => Ok(text),
            other => Err(self.expected("a string", &other)),
        }
    }

    pub(crate) fn text(&self, value: Value) -> Result<Text, ShapeError> {
        self.string(value).map(Text::from)
    }

    pub(crate) fn boolean(&self, value: &Value) -> Result<bool, ShapeError> {
        value.as_bool().ok_or_else(|| self.expected("true or false", value))
    }

    pub(crate) fn whole(&self, value: &Value) -> Result<u64, ShapeError> {
        value.as_u64().ok_or_else(|| self.expected("a whole number of zero or more", value))
    }

    pub(crate) fn number(&self, value: Value) -> Result<Number, ShapeError> {
        match value {
            Value::Number(number) => Ok(number),
            other => Err(self.expected("a number", &other)),
        }
    }
}

/// A value in few words, safe to print whatever is in it.
fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        // The text itself may be private; its length is enough to find it.
        Value::String(text) => format!("a string of {} bytes", text.len()),
        Value::Array(items) => format!("an array of {}", items.len()),
        Value::Object(map) => format!("an object of {} fields", map.len()),
    }
}

/// Write a field that is there.
pub(super) fn put(map: &mut Map<String, Value>, key: &str, value: Option<Value>) {
    if let Some(value) = value {
        map.insert(key.into(), value);
    }
}

/// Takes the known fields of a part out of its object and leaves the rest.
pub(super) struct Reader<'a> {
    pub(super) at: &'a At<'a>,
    pub(super) map: &'a mut Map<String, Value>,
}

impl Reader<'_> {
    pub(super) fn take<T>(
        &mut self,
        key: &str,
        read: impl FnOnce(&At, Value) -> Result<T, ShapeError>,
    ) -> Result<Option<T>, ShapeError> {
        match self.map.shift_remove(key) {
            Some(value) => read(&At::Key(self.at, key), value).map(Some),
            None => Ok(None),
        }
    }

    pub(super) fn string(&mut self, key: &str) -> Result<Option<String>, ShapeError> {
        self.take(key, |at, value| at.string(value))
    }

    pub(super) fn text(&mut self, key: &str) -> Result<Option<Text>, ShapeError> {
        self.take(key, |at, value| at.text(value))
    }

    pub(super) fn boolean(&mut self, key: &str) -> Result<Option<bool>, ShapeError> {
        self.take(key, |at, value| at.boolean(&value))
    }

    pub(super) fn whole(&mut self, key: &str) -> Result<Option<u64>, ShapeError> {
        self.take(key, |at, value| at.whole(&value))
    }

    /// The first of several names under which systems write the same thing.
    pub(super) fn string_of(
        &mut self,
        keys: &[&'static str],
    ) -> Result<(Option<String>, Option<&'static str>), ShapeError> {
        for key in keys {
            if let Some(Value::String(_)) = self.map.get(*key) {
                return Ok((self.string(key)?, Some(key)));
            }
        }
        Ok((None, None))
    }
}

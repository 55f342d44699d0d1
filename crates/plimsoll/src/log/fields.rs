//! Reading JSON objects by hand, so that unknown fields survive and every wrong value is reported with its place.
//!
//! Reading is lenient: one bad value must not lose a session. A known field with a wrong value
//! gets its default, the value stays among the other fields (`extra`) under its own name, and a [`Note`]
//! reports it. [`keep`] writes such a value back in its place, unless the field was set since.

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Number, Value};
use thiserror::Error;

use super::extra::Extra;
use crate::chars::Text;

/// A wrong value in a log.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{at}: {problem}")]
pub struct ShapeError {
    /// The place, as in `[3].parts[0].state.status`.
    pub at: String,
    /// The expected and the found value.
    pub problem: String,
}

/// A wrong value that reading tolerated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// The place, as in `[3].parts[0].state.status`.
    pub at: String,
    /// The expected and the found value.
    pub problem: String,
    /// How the value was handled, as in `kept unchanged`.
    pub done: &'static str,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.at, self.problem, self.done)
    }
}

impl From<Note> for ShapeError {
    fn from(note: Note) -> ShapeError {
        ShapeError { at: note.at, problem: note.problem }
    }
}

/// Wrong values that a reader found: the first notes and the total number.
///
/// The list is bounded, because a file of a gigabyte may be wrong in every line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    first: Vec<Note>,
    count: u64,
}

impl Notes {
    /// Maximum number of notes that are kept; the rest are counted.
    pub const MOST: usize = 100;

    /// Adds a note.
    pub fn push(&mut self, note: Note) {
        self.count += 1;
        if self.first.len() < Notes::MOST {
            self.first.push(note);
        }
    }

    /// Adds the notes of another reader.
    pub fn append(&mut self, other: &Notes) {
        let room = Notes::MOST.saturating_sub(self.first.len());
        self.first.extend(other.first.iter().take(room).cloned());
        self.count += other.count;
    }

    /// Returns the first notes, oldest first.
    pub fn first(&self) -> &[Note] {
        &self.first
    }

    /// Returns the number of noted values, including those that are not in the list.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns whether there are no notes.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the first note as an error, if there is one.
    pub fn refuse(self) -> Result<(), ShapeError> {
        self.first.into_iter().next().map_or(Ok(()), |note| Err(note.into()))
    }
}

/// Handling of a wrong value.
pub(super) const KEPT: &str = "kept unchanged";

/// The place of a value while it is read, as a path. Free until it is formatted.
///
/// ```
/// use plimsoll::log::At;
/// let messages = At::Key(&At::Root, "messages");
/// let third = At::Index(&messages, 3);
/// assert_eq!(At::Key(&At::Key(&third, "info"), "role").to_string(), "messages[3].info.role");
/// assert_eq!(At::Key(&At::In(&"line 7"), "role").to_string(), "line 7: role");
/// ```
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum At<'a> {
    /// The top-level value.
    Root,
    /// A value in a named place.
    In(&'a dyn fmt::Display),
    /// A field of an object.
    Key(&'a At<'a>, &'a str),
    /// An item of a list.
    Index(&'a At<'a>, usize),
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            At::Root => Ok(()),
            At::In(place) => place.fmt(f),
            At::Key(At::Root, key) => f.write_str(key),
            At::Key(parent @ At::In(_), key) => write!(f, "{parent}: {key}"),
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

    /// Creates an error about an unexpected value. Texts are not repeated, only their length.
    pub fn expected(&self, expected: &str, found: &Value) -> ShapeError {
        self.error(format!("expected {expected}, found {}", describe(found)))
    }

    pub(crate) fn object(&self, value: Value) -> Result<Map<String, Value>, ShapeError> {
        object(value).map_err(|wrong| self.expected(wrong.expected, &wrong.value))
    }

    pub(crate) fn array(&self, value: Value) -> Result<Vec<Value>, ShapeError> {
        array(value).map_err(|wrong| self.expected(wrong.expected, &wrong.value))
    }

    pub(crate) fn whole(&self, value: &Value) -> Result<u64, ShapeError> {
        value.as_u64().ok_or_else(|| self.expected(WHOLE, value))
    }
}

/// Describes a value without its text, so that the result is safe to print.
fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) if text.is_empty() => "an empty string".into(),
        // The text itself may be private; its length is enough to find it.
        Value::String(text) => format!("a string of {} bytes", text.len()),
        Value::Array(items) => format!("an array of {}", items.len()),
        Value::Object(map) => format!("an object of {} fields", map.len()),
    }
}

const WHOLE: &str = "a whole number of zero or more";

/// A wrong value, returned to the caller.
pub(super) struct WrongValue {
    expected: &'static str,
    value: Value,
}

/// Reads a string.
pub(super) fn string(value: Value) -> Result<String, WrongValue> {
    match value {
        Value::String(text) => Ok(text),
        value => Err(WrongValue { expected: "a string", value }),
    }
}

/// Reads an id: a string that is not empty. The log replaces empty ids.
pub(super) fn name(value: Value) -> Result<String, WrongValue> {
    match value {
        Value::String(text) if !text.is_empty() => Ok(text),
        value => Err(WrongValue { expected: "a name", value }),
    }
}

/// Reads a number.
pub(super) fn number(value: Value) -> Result<Number, WrongValue> {
    match value {
        Value::Number(number) => Ok(number),
        value => Err(WrongValue { expected: "a number", value }),
    }
}

/// Reads a list.
pub(super) fn array(value: Value) -> Result<Vec<Value>, WrongValue> {
    match value {
        Value::Array(items) => Ok(items),
        value => Err(WrongValue { expected: "an array", value }),
    }
}

/// Reads an object.
pub(super) fn object(value: Value) -> Result<Map<String, Value>, WrongValue> {
    match value {
        Value::Object(map) => Ok(map),
        value => Err(WrongValue { expected: "an object", value }),
    }
}

/// Reads a count or a time: the whole part of the number, and the value itself if it is not a whole number.
pub(super) fn whole(value: Value) -> (Option<u64>, Result<(), WrongValue>) {
    match value.as_u64() {
        Some(number) => (Some(number), Ok(())),
        None => (whole_part(&value), Err(WrongValue { expected: WHOLE, value })),
    }
}

/// Returns the whole part of a number that is not negative and fits; `None` for any other value.
///
/// Some clocks have fractions of milliseconds, and some writers write every number as a float. What is negative or
/// larger than any count says nothing about the true value, so it is not clamped.
pub fn whole_part(value: &Value) -> Option<u64> {
    // The first float above every `u64`.
    const BEYOND: f64 = 18_446_744_073_709_551_616.0;
    value.as_u64().or_else(|| value.as_f64().filter(|n| (0.0..BEYOND).contains(n)).map(|n| n as u64))
}

/// Keeps a wrong value in `extra` and notes it.
pub(super) fn set_apart(
    read: Result<(), WrongValue>,
    key: &str,
    at: &At,
    extra: &mut Extra,
    notes: &mut Notes,
) {
    if let Err(WrongValue { expected, value }) = read {
        notes.wrong(at.expected(expected, &value));
        extra.insert(key.to_owned(), value);
    }
}

impl Notes {
    /// Notes a wrong value that stays in `extra`.
    pub(super) fn wrong(&mut self, ShapeError { at, problem }: ShapeError) {
        self.push(Note { at, problem, done: KEPT });
    }
}

/// Writes a field if it is set.
pub(super) fn put(map: &mut Map<String, Value>, key: &str, value: Option<Value>) {
    if let Some(value) = value {
        map.insert(key.into(), value);
    }
}

/// Adds the unknown fields of the source to the known fields in `map`.
///
/// A value in `extra` under the name of a known field was invalid when it was read. It is written back as long as the
/// field still has the value that reading gave it: none, or the whole part of a number. Once the field was set, or a
/// mark in one of `marks` was lifted, the invalid value is dropped.
pub(super) fn keep(map: &mut Map<String, Value>, extra: &Map<String, Value>, marks: &[&str]) {
    for (key, raw) in extra {
        match map.get_mut(key) {
            None if marks.contains(&key.as_str()) && whole_part(raw).is_some() => {}
            None => {
                map.insert(key.clone(), raw.clone());
            }
            Some(Value::Object(known)) if raw.is_object() => {
                if let Some(raw) = raw.as_object() {
                    keep(known, raw, &[]);
                }
            }
            Some(known) if stands_for(known, raw) => *known = raw.clone(),
            Some(_) => {}
        }
    }
}

/// Whether a known field still has the value that reading gave it for the invalid value `raw`.
fn stands_for(known: &Value, raw: &Value) -> bool {
    match known {
        Value::Number(number) => number.as_u64() == Some(whole_part(raw).unwrap_or(0)),
        other => is_empty(other),
    }
}

/// Whether a value is how a field without content is written.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(_) => false,
        Value::Number(number) => number.as_u64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.values().all(is_empty),
    }
}

/// Takes the known fields of a part out of its object. Unknown fields and invalid values stay in it.
pub(super) struct Reader<'a> {
    pub(super) at: &'a At<'a>,
    pub(super) map: &'a mut Map<String, Value>,
    pub(super) notes: &'a mut Notes,
}

impl Reader<'_> {
    /// Notes that the value under `key` is not what was expected.
    pub(super) fn wrong(&mut self, key: &str, expected: &str) {
        if let Some(found) = self.map.get(key) {
            self.notes.wrong(At::Key(self.at, key).expected(expected, found));
        }
    }

    pub(super) fn string(&mut self, key: &str) -> Option<String> {
        match self.map.get_mut(key)? {
            Value::String(text) => {
                let text = std::mem::take(text);
                self.map.shift_remove(key);
                Some(text)
            }
            _ => {
                self.wrong(key, "a string");
                None
            }
        }
    }

    /// Takes a string that is not empty. An empty one stays, because it names nothing.
    pub(super) fn name(&mut self, key: &str) -> Option<String> {
        match self.map.get(key)? {
            Value::String(text) if !text.is_empty() => self.string(key),
            _ => {
                self.wrong(key, "a name");
                None
            }
        }
    }

    /// Takes an object that `wanted` accepts.
    pub(super) fn object(
        &mut self,
        key: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Option<Map<String, Value>> {
        if !self.map.get(key).is_some_and(|value| value.is_object() && wanted(value)) {
            return None;
        }
        self.map.shift_remove(key).and_then(|value| object(value).ok())
    }

    pub(super) fn text(&mut self, key: &str) -> Option<Text> {
        self.string(key).map(Text::from)
    }

    pub(super) fn boolean(&mut self, key: &str) -> Option<bool> {
        let flag = self.map.get(key)?.as_bool();
        match flag {
            Some(_) => drop(self.map.shift_remove(key)),
            None => self.wrong(key, "true or false"),
        }
        flag
    }

    pub(super) fn whole(&mut self, key: &str) -> Option<u64> {
        let value = self.map.get(key)?;
        let number = whole_part(value);
        if value.as_u64().is_some() {
            self.map.shift_remove(key);
        } else {
            self.wrong(key, WHOLE);
        }
        number
    }

    /// Takes the string under the first of several names that systems use for the same field.
    pub(super) fn string_of(&mut self, keys: &[&'static str]) -> (Option<String>, Option<&'static str>) {
        for key in keys {
            if let Some(Value::String(_)) = self.map.get(*key) {
                return (self.string(key), Some(key));
            }
        }
        (None, None)
    }
}

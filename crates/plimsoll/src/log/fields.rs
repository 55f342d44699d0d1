//! Reading JSON objects by hand, so that unknown fields survive and every wrong value is named with its place.
//!
//! Reading is lenient: one bad value must not cost a session. A known field whose value is not what it should be
//! gets its default, the value itself stays among the other fields (`extra`) under its own name, and a [`Note`]
//! says so. [`keep`] writes such a value back in the place it came from, unless the field was set since.

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Number, Value};
use thiserror::Error;

use super::extra::Extra;
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

/// A value that is not what it should be and was read all the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// The place, as in `[3].parts[0].state.status`.
    pub at: String,
    /// What was expected and what was found.
    pub problem: String,
    /// What became of the value, as in `kept as it is`.
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

/// What a reader found that is not what it should be: the first notes, and how many there were.
///
/// The list is bounded, because a file of a gigabyte may be wrong in every line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    first: Vec<Note>,
    count: u64,
}

impl Notes {
    /// No more notes than this are kept; the rest are counted.
    pub const MOST: usize = 100;

    /// Add a note.
    pub fn push(&mut self, note: Note) {
        self.count += 1;
        if self.first.len() < Notes::MOST {
            self.first.push(note);
        }
    }

    /// Add the notes of another reader.
    pub fn append(&mut self, other: &Notes) {
        let room = Notes::MOST.saturating_sub(self.first.len());
        self.first.extend(other.first.iter().take(room).cloned());
        self.count += other.count;
    }

    /// The first notes, in the order they were made.
    pub fn first(&self) -> &[Note] {
        &self.first
    }

    /// How many values were noted, also those that are not in the list.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether everything was what it should be.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// An error that tells the first note, if there is one.
    pub fn refuse(self) -> Result<(), ShapeError> {
        self.first.into_iter().next().map_or(Ok(()), |note| Err(note.into()))
    }
}

/// What the log does with a value that does not belong where it stands.
pub(super) const KEPT: &str = "kept as it is";

/// The place of a value while it is read, as the steps that lead to it. Costs nothing until it has to be told.
///
/// ```
/// use plimsoll::log::At;
/// let messages = At::Key(&At::Root, "messages");
/// let third = At::Index(&messages, 3);
/// assert_eq!(At::Key(&At::Key(&third, "info"), "role").to_string(), "messages[3].info.role");
/// assert_eq!(At::Key(&At::In(&"line 7"), "role").to_string(), "line 7: role");
/// ```
#[derive(Clone, Copy)]
pub enum At<'a> {
    /// The value that was handed in.
    Root,
    /// The value at some place that has a name of its own.
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

    /// What to say about a value that is not what was expected. Texts are not repeated, only measured.
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

/// A value in few words, safe to print whatever is in it.
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

/// A value that is not what was expected, given back to whoever asked.
pub(super) struct Wrong {
    expected: &'static str,
    value: Value,
}

/// A string.
pub(super) fn string(value: Value) -> Result<String, Wrong> {
    match value {
        Value::String(text) => Ok(text),
        value => Err(Wrong { expected: "a string", value }),
    }
}

/// A name: a string that is not empty. An empty one names nothing, and the log will give another in its place.
pub(super) fn name(value: Value) -> Result<String, Wrong> {
    match value {
        Value::String(text) if !text.is_empty() => Ok(text),
        value => Err(Wrong { expected: "a name", value }),
    }
}

/// Any number.
pub(super) fn number(value: Value) -> Result<Number, Wrong> {
    match value {
        Value::Number(number) => Ok(number),
        value => Err(Wrong { expected: "a number", value }),
    }
}

/// A list.
pub(super) fn array(value: Value) -> Result<Vec<Value>, Wrong> {
    match value {
        Value::Array(items) => Ok(items),
        value => Err(Wrong { expected: "an array", value }),
    }
}

/// An object.
pub(super) fn object(value: Value) -> Result<Map<String, Value>, Wrong> {
    match value {
        Value::Object(map) => Ok(map),
        value => Err(Wrong { expected: "an object", value }),
    }
}

/// A count or a time: as good a number as can be made of the value, and the value if it is none.
pub(super) fn whole(value: Value) -> (Option<u64>, Result<(), Wrong>) {
    match value.as_u64() {
        Some(number) => (Some(number), Ok(())),
        None => (whole_part(&value), Err(Wrong { expected: WHOLE, value })),
    }
}

/// The whole part of a number that is not negative and fits; nothing for any other value.
///
/// Clocks give fractions of milliseconds, and some writers put every number down as a float. What is negative or
/// larger than any count says nothing about the true one, so it is not bent into something that looks like one.
pub fn whole_part(value: &Value) -> Option<u64> {
    // The first float above all of `u64`.
    const BEYOND: f64 = 18_446_744_073_709_551_616.0;
    value.as_u64().or_else(|| value.as_f64().filter(|n| (0.0..BEYOND).contains(n)).map(|n| n as u64))
}

/// Keep a value that is not what was expected, and note it.
pub(super) fn set_apart(read: Result<(), Wrong>, key: &str, at: &At, extra: &mut Extra, notes: &mut Notes) {
    if let Err(Wrong { expected, value }) = read {
        notes.wrong(at.expected(expected, &value));
        extra.insert(key.to_owned(), value);
    }
}

impl Notes {
    /// Note a value that stays where the log keeps what it does not know.
    pub(super) fn wrong(&mut self, ShapeError { at, problem }: ShapeError) {
        self.push(Note { at, problem, done: KEPT });
    }
}

/// Write a field that is there.
pub(super) fn put(map: &mut Map<String, Value>, key: &str, value: Option<Value>) {
    if let Some(value) = value {
        map.insert(key.into(), value);
    }
}

/// Add to the known fields in `map` what else the source wrote.
///
/// A value under the name of a known field is one that did not belong there. It is written back as long as the
/// field still says what was made of it: nothing, or its whole part. Once the field was set anew, or a mark that
/// is one of `marks` was lifted, the old value is gone.
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

/// Whether a known field says no more than was made of a value that did not belong there.
fn stands_for(known: &Value, raw: &Value) -> bool {
    match known {
        Value::Number(number) => number.as_u64() == Some(whole_part(raw).unwrap_or(0)),
        other => is_empty(other),
    }
}

/// Whether a value is what a field without content is written as.
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

/// Takes the known fields of a part out of its object and leaves the rest, among it what is not as it should be.
pub(super) struct Reader<'a> {
    pub(super) at: &'a At<'a>,
    pub(super) map: &'a mut Map<String, Value>,
    pub(super) notes: &'a mut Notes,
}

impl Reader<'_> {
    /// Note that the value under `key` is not what was expected.
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

    /// A string that is not empty; an empty one stays, as it names nothing.
    pub(super) fn name(&mut self, key: &str) -> Option<String> {
        match self.map.get(key)? {
            Value::String(text) if !text.is_empty() => self.string(key),
            _ => {
                self.wrong(key, "a name");
                None
            }
        }
    }

    /// An object that `wanted` says yes to.
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

    /// The first of several names under which systems write the same thing.
    pub(super) fn string_of(&mut self, keys: &[&'static str]) -> (Option<String>, Option<&'static str>) {
        for key in keys {
            if let Some(Value::String(_)) = self.map.get(*key) {
                return (self.string(key), Some(key));
            }
        }
        (None, None)
    }
}

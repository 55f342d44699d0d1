//! Invalid values in a record.
//!
//! One bad value must not invalidate its record. Readers access known fields through [`FieldErrors`]. Missing and null
//! fields are absent. A value of another type is recorded here, read as if it were absent, and reported when the record
//! ends. Content that a model may have seen is never dropped: its JSON is used as the text.

use plimsoll::Millis;
use plimsoll::log::{At, Extra, Note, Notes, whole_part};
use serde_json::{Number, Value, json};

use crate::json::Json;
use crate::time::millis;

/// Field of a message that contains values that could not be read, by their location in the source.
pub(crate) const UNREAD: &str = "unread";

/// Reported handling of a value.
const KEPT: &str = "kept under `unread`";
const LEFT_OUT: &str = "left out";
const AS_TEXT: &str = "kept as text";
const IN_PLACE: &str = "taken for the next in the file";
const ALONE: &str = "read as a list of one";
const BY_SHAPE: &str = "read by its shape";

/// The invalid values of a record.
#[derive(Default)]
pub(crate) struct FieldErrors(Vec<FieldError>);

struct FieldError {
    at: String,
    problem: String,
    value: Value,
    /// Handling of the value, if it is already known.
    done: Option<&'static str>,
}

impl FieldErrors {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reports all values, and keeps them in the `extra` of their message, if there is one.
    pub(crate) fn report(&mut self, notes: &mut Notes, mut extra: Option<&mut Extra>) {
        for FieldError { at, problem, value, done } in self.0.drain(..) {
            let done = done.unwrap_or_else(|| match extra.as_mut() {
                Some(extra) => {
                    let unread = extra.entry(UNREAD).or_insert_with(|| json!({}));
                    if let Some(unread) = unread.as_object_mut() {
                        unread.insert(at.clone(), value);
                    }
                    KEPT
                }
                None => LEFT_OUT,
            });
            notes.push(Note { at, problem, done });
        }
    }

    fn add(&mut self, at: &At, expected: &str, value: Value, done: Option<&'static str>) {
        let wrong = at.expected(expected, &value);
        self.0.push(FieldError { at: wrong.at, problem: wrong.problem, value, done });
    }

    fn record(&mut self, at: &At, key: &str, expected: &str, value: &Json) {
        self.add(&At::Key(at, key), expected, value.clone().into_value(), None);
    }

    /// Returns the value of a field, unless it is null.
    fn present<'j, 'a>(json: &'j Json<'a>, key: &str) -> Option<&'j Json<'a>> {
        json.get(key).filter(|value| !matches!(value, Json::Null))
    }

    /// Returns the text of a field, unless it is empty.
    pub(crate) fn text<'j>(&mut self, json: &'j Json, at: &At, key: &str) -> Option<&'j str> {
        let value = FieldErrors::present(json, key)?;
        if value.as_str().is_none() {
            self.record(at, key, "a string", value);
        }
        value.as_str().filter(|text| !text.is_empty())
    }

    /// Like `text`, as an owned string.
    pub(crate) fn string(&mut self, json: &Json, at: &At, key: &str) -> Option<String> {
        self.text(json, at, key).map(str::to_owned)
    }

    /// Returns the integer in a field. A fraction is truncated.
    pub(crate) fn number(&mut self, json: &Json, at: &At, key: &str) -> Option<u64> {
        let value = FieldErrors::present(json, key)?;
        let number = match value {
            Json::Number(number) => whole_part(&Value::Number(number.clone())),
            _ => None,
        };
        if json.number(key).is_none() {
            self.record(at, key, "a whole number of zero or more", value);
        }
        number
    }

    /// Returns the number in a field.
    pub(crate) fn any_number(&mut self, json: &Json, at: &At, key: &str) -> Option<Number> {
        match FieldErrors::present(json, key)? {
            Json::Number(number) => Some(number.clone()),
            value => {
                self.record(at, key, "a number", value);
                None
            }
        }
    }

    /// Whether the field is true.
    pub(crate) fn is(&mut self, json: &Json, at: &At, key: &str) -> bool {
        if let Some(value) = FieldErrors::present(json, key).filter(|value| !matches!(value, Json::Bool(_))) {
            self.record(at, key, "true or false", value);
        }
        json.is(key)
    }

    /// Returns the time in a field.
    pub(crate) fn time(&mut self, json: &Json, at: &At, key: &str) -> Option<Millis> {
        let value = FieldErrors::present(json, key)?;
        let time = millis(Some(value));
        if time.is_none() {
            self.record(at, key, "a time", value);
        }
        time
    }

    /// Returns the object in a field.
    pub(crate) fn object<'j, 'a>(&mut self, json: &'j Json<'a>, at: &At, key: &str) -> Option<&'j Json<'a>> {
        let value = FieldErrors::present(json, key)?;
        if !value.is_object() {
            self.record(at, key, "an object", value);
        }
        Some(value).filter(|value| value.is_object())
    }

    /// Takes the list in a field.
    pub(crate) fn take_list<'a>(&mut self, json: &mut Json<'a>, at: &At, key: &str) -> Vec<Json<'a>> {
        match json.take(key) {
            Json::List(items) => items,
            Json::Null => Vec::new(),
            other => {
                self.record(at, key, "a list", &other);
                Vec::new()
            }
        }
    }

    /// Returns an item of a list as a text.
    pub(crate) fn item_text(&mut self, item: &Json, at: &At) -> Option<String> {
        if item.as_str().is_none() {
            self.add(at, "a string", item.clone().into_value(), None);
        }
        item.as_str().map(str::to_owned)
    }

    /// Takes text that a model saw: that of the field, or the JSON of another value.
    pub(crate) fn take_words(&mut self, json: &mut Json, at: &At, key: &str) -> String {
        match json.take(key) {
            Json::Text(text) => text.into_owned(),
            Json::Null => String::new(),
            other => self.as_text(other, &At::Key(at, key), "a string"),
        }
    }

    /// Returns the JSON of content with an unexpected type.
    pub(crate) fn as_text(&mut self, value: Json, at: &At, expected: &str) -> String {
        let value = value.into_value();
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        self.add(at, expected, value, Some(AS_TEXT));
        text
    }

    /// Reports a block that should be in a list.
    pub(crate) fn single_block(&mut self, block: &Json, at: &At) {
        self.add(at, "a string or a list", block.clone().into_value(), Some(ALONE));
    }

    /// Returns the kind of a record, message or block in the field `key`. Without the field, it is the first kind in
    /// `shapes` whose own field exists.
    pub(crate) fn kind<'j>(
        &mut self,
        json: &'j Json,
        at: &At,
        key: &str,
        shapes: &[(&str, &'static str)],
    ) -> Option<&'j str> {
        let value = json.get(key);
        if let Some(Json::Text(kind)) = value.filter(|kind| kind.as_str() != Some("")) {
            return Some(kind);
        }
        let shape = shapes.iter().find(|(field, _)| FieldErrors::present(json, field).is_some());
        let value = value.cloned().unwrap_or_default().into_value();
        self.add(&At::Key(at, key), "a string", value, shape.map(|_| BY_SHAPE));
        shape.map(|(_, kind)| *kind)
    }

    /// Whether a record, a message or a block is an object. Any other value is reported.
    pub(crate) fn is_object(&mut self, json: &Json, at: &At) -> bool {
        if !json.is_object() {
            self.add(at, "an object", json.clone().into_value(), Some(LEFT_OUT));
        }
        json.is_object()
    }

    /// Returns the name in a field that orders records. Without one, the record follows the previous one in the file.
    pub(crate) fn name<'j>(&mut self, json: &'j Json, at: &At, key: &str) -> Option<&'j str> {
        let value = json.get(key)?;
        let name = value.as_str().filter(|name| !name.is_empty());
        if name.is_none() && !matches!(value, Json::Null) {
            self.add(&At::Key(at, key), "a name", value.clone().into_value(), Some(IN_PLACE));
        }
        name
    }
}

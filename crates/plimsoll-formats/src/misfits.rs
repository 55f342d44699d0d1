//! Values of a record that are not what they should be.
//!
//! One bad value must not cost the record it stands in. A reader asks for the fields it knows through
//! [`Misfits`]: what is missing or null is absent, as tools write it; what is of another type is remembered here,
//! read as if it were absent, and told when the record ends. Content that a model may have been shown is not
//! absent: its JSON is taken for the text.

use plimsoll::Millis;
use plimsoll::log::{At, Extra, Note, Notes, whole_part};
use serde_json::{Number, Value, json};

use crate::json::Json;
use crate::time::millis;

/// The field of a message under which values stand that could not be read, by their place in the source.
pub(crate) const UNREAD: &str = "unread";

/// What became of a value.
const KEPT: &str = "kept under `unread`";
const LEFT_OUT: &str = "left out";
const AS_TEXT: &str = "kept as text";
const IN_PLACE: &str = "taken for the next in the file";
const ALONE: &str = "read as a list of one";
const BY_SHAPE: &str = "read by its shape";

/// The values of one record that are not what they should be.
#[derive(Default)]
pub(crate) struct Misfits(Vec<Misfit>);

struct Misfit {
    at: String,
    problem: String,
    value: Value,
    /// What became of it, where that is known already.
    done: Option<&'static str>,
}

impl Misfits {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Note them all, and keep them in the `extra` of the message they came with, if there is one.
    pub(crate) fn tell(&mut self, notes: &mut Notes, mut extra: Option<&mut Extra>) {
        for Misfit { at, problem, value, done } in self.0.drain(..) {
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
        self.0.push(Misfit { at: wrong.at, problem: wrong.problem, value, done });
    }

    fn found(&mut self, at: &At, key: &str, expected: &str, value: &Json) {
        self.add(&At::Key(at, key), expected, value.clone().into_value(), None);
    }

    /// The value of a field that is there and not null.
    fn given<'j, 'a>(json: &'j Json<'a>, key: &str) -> Option<&'j Json<'a>> {
        json.get(key).filter(|value| !matches!(value, Json::Null))
    }

    /// The text of a field, if there is one that is not empty.
    pub(crate) fn text<'j>(&mut self, json: &'j Json, at: &At, key: &str) -> Option<&'j str> {
        let value = Misfits::given(json, key)?;
        if value.as_str().is_none() {
            self.found(at, key, "a string", value);
        }
        value.as_str().filter(|text| !text.is_empty())
    }

    /// The same as an owned string.
    pub(crate) fn string(&mut self, json: &Json, at: &At, key: &str) -> Option<String> {
        self.text(json, at, key).map(str::to_owned)
    }

    /// The whole number in a field; the whole part of one with a fraction.
    pub(crate) fn number(&mut self, json: &Json, at: &At, key: &str) -> Option<u64> {
        let value = Misfits::given(json, key)?;
        let number = match value {
            Json::Number(number) => whole_part(&Value::Number(number.clone())),
            _ => None,
        };
        if json.number(key).is_none() {
            self.found(at, key, "a whole number of zero or more", value);
        }
        number
    }

    /// Any number in a field.
    pub(crate) fn any_number(&mut self, json: &Json, at: &At, key: &str) -> Option<Number> {
        match Misfits::given(json, key)? {
            Json::Number(number) => Some(number.clone()),
            value => {
                self.found(at, key, "a number", value);
                None
            }
        }
    }

    /// Whether the field is there and true.
    pub(crate) fn is(&mut self, json: &Json, at: &At, key: &str) -> bool {
        if let Some(value) = Misfits::given(json, key).filter(|value| !matches!(value, Json::Bool(_))) {
            self.found(at, key, "true or false", value);
        }
        json.is(key)
    }

    /// The time in a field.
    pub(crate) fn time(&mut self, json: &Json, at: &At, key: &str) -> Option<Millis> {
        let value = Misfits::given(json, key)?;
        let time = millis(Some(value));
        if time.is_none() {
            self.found(at, key, "a time", value);
        }
        time
    }

    /// The object in a field.
    pub(crate) fn object<'j, 'a>(&mut self, json: &'j Json<'a>, at: &At, key: &str) -> Option<&'j Json<'a>> {
        let value = Misfits::given(json, key)?;
        if !value.is_object() {
            self.found(at, key, "an object", value);
        }
        Some(value).filter(|value| value.is_object())
    }

    /// Take a list out of a field.
    pub(crate) fn take_list<'a>(&mut self, json: &mut Json<'a>, at: &At, key: &str) -> Vec<Json<'a>> {
        match json.take(key) {
            Json::List(items) => items,
            Json::Null => Vec::new(),
            other => {
                self.found(at, key, "a list", &other);
                Vec::new()
            }
        }
    }

    /// The text that an item of a list should be.
    pub(crate) fn item_text(&mut self, item: &Json, at: &At) -> Option<String> {
        if item.as_str().is_none() {
            self.add(at, "a string", item.clone().into_value(), None);
        }
        item.as_str().map(str::to_owned)
    }

    /// Take what a model was shown out of a field: its text, or the JSON of whatever else stands there.
    pub(crate) fn take_words(&mut self, json: &mut Json, at: &At, key: &str) -> String {
        match json.take(key) {
            Json::Text(text) => text.into_owned(),
            Json::Null => String::new(),
            other => self.as_text(other, &At::Key(at, key), "a string"),
        }
    }

    /// The JSON of content that should have been something else.
    pub(crate) fn as_text(&mut self, value: Json, at: &At, expected: &str) -> String {
        let value = value.into_value();
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        self.add(at, expected, value, Some(AS_TEXT));
        text
    }

    /// A block that should have been in a list.
    pub(crate) fn alone(&mut self, block: &Json, at: &At) {
        self.add(at, "a string or a list", block.clone().into_value(), Some(ALONE));
    }

    /// The kind of a record, message or block, which is under `key`. Where it does not say, it is of the first kind
    /// of `shapes` whose field it has.
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
        let shape = shapes.iter().find(|(field, _)| Misfits::given(json, field).is_some());
        let value = value.cloned().unwrap_or_default().into_value();
        self.add(&At::Key(at, key), "a string", value, shape.map(|_| BY_SHAPE));
        shape.map(|(_, kind)| *kind)
    }

    /// Whether this is the object a record, a message or a block has to be; nothing can be made of anything else.
    pub(crate) fn is_object(&mut self, json: &Json, at: &At) -> bool {
        if !json.is_object() {
            self.add(at, "an object", json.clone().into_value(), Some(LEFT_OUT));
        }
        json.is_object()
    }

    /// The name in a field that orders records; without one the record is taken for the next in the file.
    pub(crate) fn name<'j>(&mut self, json: &'j Json, at: &At, key: &str) -> Option<&'j str> {
        let value = json.get(key)?;
        let name = value.as_str().filter(|name| !name.is_empty());
        if name.is_none() && !matches!(value, Json::Null) {
            self.add(&At::Key(at, key), "a name", value.clone().into_value(), Some(IN_PLACE));
        }
        name
    }
}

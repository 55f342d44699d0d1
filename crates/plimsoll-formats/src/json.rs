//! Looking into JSON values without copying them.

use serde_json::{Map, Value};

/// The text under `key`, if there is one that is not empty.
pub(crate) fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key)?.as_str().filter(|text| !text.is_empty())
}

/// The same as an owned string.
pub(crate) fn string(value: &Value, key: &str) -> Option<String> {
    text(value, key).map(str::to_owned)
}

/// Take the value under `key` out.
pub(crate) fn take(value: &mut Value, key: &str) -> Value {
    value.get_mut(key).map(Value::take).unwrap_or_default()
}

/// Take the text under `key` out; nothing if it is no text.
pub(crate) fn take_text(value: &mut Value, key: &str) -> String {
    match take(value, key) {
        Value::String(text) => text,
        _ => String::new(),
    }
}

/// What a value is, for people.
pub(crate) fn describe(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// An object with one key.
pub(crate) fn object(key: &str, value: Value) -> Map<String, Value> {
    Map::from_iter([(key.to_owned(), value)])
}

/// Whether the value takes no more than `limit` bytes, roughly; stops looking as soon as it is more.
pub(crate) fn is_small(value: &Value, limit: usize) -> bool {
    fn rest(value: &Value, left: usize) -> Option<usize> {
        match value {
            Value::String(text) => left.checked_sub(text.len() + 2),
            Value::Array(items) => items.iter().try_fold(left.checked_sub(2)?, |left, item| rest(item, left)),
            Value::Object(map) => map.iter().try_fold(left.checked_sub(2)?, |left, (key, value)| {
                rest(value, left.checked_sub(key.len() + 4)?)
            }),
            _ => left.checked_sub(8),
        }
    }
    rest(value, limit).is_some()
}

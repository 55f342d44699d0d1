//! JSON values that borrow from their line.
//!
//! A reader looks at a record once and takes a few large texts out of it. With [`Json`], keys and strings without
//! escapes are not copied, objects are lists of fields, and unneeded fields are skipped while parsing or left unparsed
//! until they are needed. `serde_json::Value` would allocate every key and string of every record.

mod parse;

use std::borrow::Cow;

use serde_json::{Map, Number, Value};

pub(crate) use parse::{Key, Wanted, mended, parse};

/// Fields of an object in their order.
pub(crate) type Fields<'a> = Vec<(Cow<'a, str>, Json<'a>)>;

/// A JSON value.
#[derive(Clone, Debug, Default)]
pub(crate) enum Json<'a> {
    #[default]
    Null,
    Bool(bool),
    Number(Number),
    Text(Cow<'a, str>),
    List(Vec<Json<'a>>),
    Object(Fields<'a>),
    /// Not parsed yet.
    Raw(Cow<'a, str>),
}

/// Handling of a field while an object is parsed.
pub(crate) enum Take {
    Whole,
    Raw,
    Skip,
}

/// Decides on a field by the previous fields, its depth (0 for those of the outermost object) and its name.
pub(crate) type Filter = fn(&[(Cow<str>, Json)], u8, &str) -> Take;

impl<'a> Json<'a> {
    pub(crate) fn parse(text: &'a str) -> serde_json::Result<Json<'a>> {
        Json::parse_some(text, |_, _, _| Take::Whole)
    }

    /// Parses the fields that `filter` selects.
    pub(crate) fn parse_some(text: &'a str, filter: Filter) -> serde_json::Result<Json<'a>> {
        parse(text, Wanted::new(filter)).or_else(|_| {
            let mended = mended(text).ok_or_else(|| problem(text))?;
            parse(&mended, Wanted::new(filter)).map(Json::into_owned).map_err(|_| problem(text))
        })
    }

    /// Returns the field with that name; the last one if there are several.
    pub(crate) fn get(&self, key: &str) -> Option<&Json<'a>> {
        let Json::Object(fields) = self else { return None };
        fields.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// Sets a field.
    pub(crate) fn set(&mut self, key: &'static str, value: Json<'a>) {
        let Json::Object(fields) = self else { return };
        match fields.iter_mut().rev().find(|(name, _)| name == key) {
            Some((_, known)) => *known = value,
            None => fields.push((Cow::Borrowed(key), value)),
        }
    }

    /// Takes the value of a field, leaving null.
    pub(crate) fn take(&mut self, key: &str) -> Json<'a> {
        let Json::Object(fields) = self else { return Json::Null };
        let field = fields.iter_mut().rev().find(|(name, _)| name == key);
        field.map(|(_, value)| std::mem::take(value)).unwrap_or_default()
    }

    /// Removes a field if it is a list.
    pub(crate) fn remove_list(&mut self, key: &str) -> Vec<Json<'a>> {
        if !matches!(self.get(key), Some(Json::List(_))) {
            return Vec::new();
        }
        let list = self.take(key);
        if let Json::Object(fields) = self {
            fields.retain(|(name, _)| name != key);
        }
        if let Json::List(items) = list { items } else { Vec::new() }
    }

    /// Takes the text of a field; empty if it is not a text.
    pub(crate) fn take_text(&mut self, key: &str) -> String {
        match self.take(key) {
            Json::Text(text) => text.into_owned(),
            _ => String::new(),
        }
    }

    /// Returns the text of a field, unless it is empty.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str().filter(|text| !text.is_empty())
    }

    /// Like `text`, as an owned string.
    pub(crate) fn string(&self, key: &str) -> Option<String> {
        self.text(key).map(str::to_owned)
    }

    /// Whether the field is true.
    pub(crate) fn is(&self, key: &str) -> bool {
        matches!(self.get(key), Some(Json::Bool(true)))
    }

    /// Returns the integer in a field.
    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        match self.get(key)? {
            Json::Number(number) => number.as_u64(),
            _ => None,
        }
    }

    pub(crate) fn as_str(&self) -> Option<&str> {
        match self {
            Json::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn as_list(&self) -> Option<&[Json<'a>]> {
        match self {
            Json::List(items) => Some(items),
            _ => None,
        }
    }

    pub(crate) fn is_object(&self) -> bool {
        matches!(self, Json::Object(_))
    }

    /// Converts to a value that borrows nothing.
    pub(crate) fn into_owned(self) -> Json<'static> {
        let owned = |text: Cow<str>| Cow::Owned(text.into_owned());
        match self {
            Json::Null => Json::Null,
            Json::Bool(flag) => Json::Bool(flag),
            Json::Number(number) => Json::Number(number),
            Json::Text(text) => Json::Text(owned(text)),
            Json::Raw(raw) => Json::Raw(owned(raw)),
            Json::List(items) => Json::List(items.into_iter().map(Json::into_owned).collect()),
            Json::Object(fields) => Json::Object(
                fields.into_iter().map(|(key, value)| (owned(key), value.into_owned())).collect(),
            ),
        }
    }

    /// Converts to a [`Value`].
    pub(crate) fn into_value(self) -> Value {
        match self {
            Json::Null => Value::Null,
            Json::Bool(flag) => Value::Bool(flag),
            Json::Number(number) => Value::Number(number),
            Json::Text(text) => Value::String(text.into_owned()),
            Json::List(items) => Value::Array(items.into_iter().map(Json::into_value).collect()),
            Json::Object(fields) => {
                let mut map = Map::with_capacity(fields.len());
                for (key, value) in fields {
                    map.insert(key.into_owned(), value.into_value());
                }
                Value::Object(map)
            }
            Json::Raw(raw) => Json::parse(&raw).map(Json::into_value).unwrap_or_default(),
        }
    }

    /// Describes the value for users.
    pub(crate) fn describe(&self) -> &'static str {
        match self {
            Json::Null => "nothing",
            Json::Bool(_) => "a boolean",
            Json::Number(_) => "a number",
            Json::Text(_) => "a string",
            Json::List(_) => "a list",
            Json::Object(_) => "an object",
            Json::Raw(_) => "a value",
        }
    }
}

/// Returns `serde_json`'s error for text that is not JSON.
pub(crate) fn problem(text: &str) -> serde_json::Error {
    match serde_json::from_str::<Value>(text) {
        Err(error) => error,
        Ok(_) => serde::de::Error::custom("not valid JSON"),
    }
}

/// Formats an error without its position.
pub(crate) fn error_text(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.split(" at line ").next().unwrap_or_default();
    // The parser has a maximum depth, so that no file can exhaust the stack.
    if text == "recursion limit exceeded" { "nested more than 127 levels deep".into() } else { text.into() }
}

/// Returns an object with one field.
pub(crate) fn object(key: &str, value: Value) -> Map<String, Value> {
    Map::from_iter([(key.to_owned(), value)])
}

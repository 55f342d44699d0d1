//! JSON that borrows from the line it stands in.
//!
//! A reader looks at a record once and takes a few large texts out of it. [`Json`] is made for that: keys and
//! strings without escapes are not copied, objects are lists of fields, and what nobody will look at can be
//! skipped while parsing, or left unparsed until somebody does.

use std::borrow::Cow;
use std::fmt;

use serde::de::{
    self, Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};

/// The fields of an object, in the order they came.
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
    Raw(&'a RawValue),
}

/// What to do with a field while an object is parsed.
pub(crate) enum Take {
    Whole,
    Raw,
    Skip,
}

/// Decides on a field by the fields before it, its depth (0 for those of the outermost object) and its name.
pub(crate) type Filter = fn(&[(Cow<str>, Json)], u8, &str) -> Take;

impl<'a> Json<'a> {
    pub(crate) fn parse(text: &'a str) -> serde_json::Result<Json<'a>> {
        Json::parse_some(text, |_, _, _| Take::Whole)
    }

    /// Parse what `filter` asks for.
    pub(crate) fn parse_some(text: &'a str, filter: Filter) -> serde_json::Result<Json<'a>> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let json = Parse { filter, depth: 0 }.deserialize(&mut deserializer)?;
        deserializer.end()?;
        Ok(json)
    }

    /// The field of that name; the last one, should there be several.
    pub(crate) fn get(&self, key: &str) -> Option<&Json<'a>> {
        let Json::Object(fields) = self else { return None };
        fields.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// Take the value of a field out.
    pub(crate) fn take(&mut self, key: &str) -> Json<'a> {
        let Json::Object(fields) = self else { return Json::Null };
        let field = fields.iter_mut().rev().find(|(name, _)| name == key);
        field.map(|(_, value)| std::mem::take(value)).unwrap_or_default()
    }

    /// Take the text of a field out; nothing if it is no text.
    pub(crate) fn take_text(&mut self, key: &str) -> String {
        match self.take(key) {
            Json::Text(text) => text.into_owned(),
            _ => String::new(),
        }
    }

    /// The text of a field, if there is one that is not empty.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str().filter(|text| !text.is_empty())
    }

    /// The same as an owned string.
    pub(crate) fn string(&self, key: &str) -> Option<String> {
        self.text(key).map(str::to_owned)
    }

    /// Whether the field is there and true.
    pub(crate) fn is(&self, key: &str) -> bool {
        matches!(self.get(key), Some(Json::Bool(true)))
    }

    /// The whole number in a field.
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

    /// A value of its own.
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
            Json::Raw(raw) => serde_json::from_str(raw.get()).unwrap_or_default(),
        }
    }

    /// What a value is, for people.
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

impl<'de> Deserialize<'de> for Json<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Json<'de>, D::Error> {
        Parse { filter: |_, _, _| Take::Whole, depth: 0 }.deserialize(deserializer)
    }
}

/// A name of a field, borrowed where it has no escapes.
pub(crate) struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Cow<'de, str>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

#[derive(Clone, Copy)]
struct Parse {
    filter: Filter,
    depth: u8,
}

impl<'de> DeserializeSeed<'de> for Parse {
    type Value = Json<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Parse {
    type Value = Json<'de>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json<'de>, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Json<'de>, E> {
        Ok(Json::Bool(flag))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Json<'de>, E> {
        Ok(Json::Number(number.into()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Json<'de>, E> {
        Ok(Json::Number(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Json<'de>, E> {
        Ok(Number::from_f64(number).map_or(Json::Null, Json::Number))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Json<'de>, E> {
        Ok(Json::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Json<'de>, E> {
        Ok(Json::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json<'de>, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json<'de>, A::Error> {
        let mut fields = Vec::new();
        let inner = Parse { depth: self.depth.saturating_add(1), ..self };
        while let Some(key) = map.next_key_seed(Key)? {
            let value = match (self.filter)(&fields, self.depth, &key) {
                Take::Whole => map.next_value_seed(inner)?,
                Take::Raw => Json::Raw(map.next_value()?),
                Take::Skip => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            fields.push((key, value));
        }
        Ok(Json::Object(fields))
    }
}

/// An object with one key.
pub(crate) fn object(key: &str, value: Value) -> Map<String, Value> {
    Map::from_iter([(key.to_owned(), value)])
}

//! One JSON document with a list of messages in it, which are read one by one.

use std::borrow::Cow;
use std::fmt;
use std::io::Read;
use std::marker::PhantomData;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

use crate::detect::Format;
use crate::error::FormatError;
use crate::json::{Fields, Json, Key, Take};

/// A document over this many bytes is refused: unlike lines it has to be held as a whole.
pub const MAX_DOCUMENT: u64 = 1 << 30;

/// The text of a document.
pub(crate) struct Document {
    pub(crate) format: Format,
    text: String,
}

impl Document {
    pub(crate) fn hold(format: Format, input: impl Read) -> Result<Document, FormatError> {
        let mut bytes = Vec::new();
        let read = input.take(MAX_DOCUMENT + 1).read_to_end(&mut bytes)?;
        if read as u64 > MAX_DOCUMENT {
            return Err(FormatError::TooLarge { format, limit: MAX_DOCUMENT });
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            // Found as part of the JSON, it has a line and a column.
            let source = serde_json::from_slice::<IgnoredText>(error.as_bytes()).err();
            let source = source.unwrap_or_else(|| serde_json::Error::custom("not UTF-8"));
            FormatError::Json { format, source }
        })?;
        let document = Document { format, text };
        if document.text().trim_ascii().is_empty() { Err(FormatError::Empty) } else { Ok(document) }
    }

    fn text(&self) -> &str {
        self.text.strip_prefix('\u{feff}').unwrap_or(&self.text)
    }

    fn json_error(&self, source: serde_json::Error) -> FormatError {
        FormatError::Json { format: self.format, source }
    }

    /// What can be told without looking into the messages: which fields there are, and what they are about.
    pub(crate) fn outline(&self) -> Result<Json<'_>, FormatError> {
        Json::parse_some(self.text(), outline).map_err(|source| self.json_error(source))
    }

    /// Read the items of the list under `key`, or of the document if it is a list itself, one after the other.
    /// Returns the fields beside it, unparsed.
    pub(crate) fn each<'a, T: Deserialize<'a>>(
        &'a self,
        key: &str,
        read: impl FnMut(usize, T) -> Result<(), String>,
    ) -> Result<Json<'a>, FormatError> {
        let format = self.format;
        let mut each = Each { key, read, at: None, found: None, rest: Vec::new(), item: PhantomData };
        let mut deserializer = serde_json::Deserializer::from_str(self.text());
        let done = (&mut each).deserialize(&mut deserializer).and_then(|()| deserializer.end());
        if let Err(source) = done {
            return Err(match each.at {
                // A fault of a message, unless it is one of the whole document.
                Some(index) if source.is_data() => {
                    let field = if self.text().trim_start().starts_with('[') { "" } else { key };
                    let at = format!("{field}[{index}]");
                    let problem = source.to_string();
                    let problem = problem.rsplit_once(" at line ").map_or(problem.as_str(), |(head, _)| head);
                    FormatError::Shape { format, at, problem: problem.to_owned() }
                }
                _ => self.json_error(source),
            });
        }
        if let Some(found) = each.found {
            let problem = format!("expected a list of messages, found {found}");
            return Err(FormatError::Shape { format, at: key.to_owned(), problem });
        }
        Ok(Json::Object(each.rest))
    }
}

/// What tells formats apart, and what they say about the session.
fn outline(_: &[(Cow<str>, Json)], depth: u8, key: &str) -> Take {
    match key {
        "messages" | "trajectory" | "history" | "tools" if depth == 0 => Take::Whole,
        "role" | "tool_call_id" | "type" | "model" | "anthropic_version" | "max_tokens" | "environment" => {
            Take::Whole
        }
        "content" | "system" | "meta" | "info" | "source" | "tool_calls" | "parts" | "input_schema"
        | "function" | "stop_sequences" => Take::Raw,
        _ => Take::Skip,
    }
}

/// Any JSON, in which strings are checked to be UTF-8.
struct IgnoredText;

impl<'de> Deserialize<'de> for IgnoredText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<IgnoredText, D::Error> {
        serde_json::Value::deserialize(deserializer).map(|_| IgnoredText)
    }
}

/// Walks through a document to its list and through the list.
struct Each<'k, 'a, T, F> {
    key: &'k str,
    read: F,
    /// The message being read, for errors.
    at: Option<usize>,
    /// What stands in the place of the list, if it is none.
    found: Option<&'static str>,
    rest: Fields<'a>,
    item: PhantomData<T>,
}

impl<'a, T, F> Each<'_, 'a, T, F>
where
    T: Deserialize<'a>,
    F: FnMut(usize, T) -> Result<(), String>,
{
    fn items<A: SeqAccess<'a>>(&mut self, mut items: A) -> Result<(), A::Error> {
        for index in 0.. {
            self.at = Some(index);
            let Some(item) = items.next_element()? else { break };
            (self.read)(index, item).map_err(A::Error::custom)?;
        }
        (self.at, self.found) = (None, None);
        Ok(())
    }
}

impl<'a, T, F> DeserializeSeed<'a> for &mut Each<'_, 'a, T, F>
where
    T: Deserialize<'a>,
    F: FnMut(usize, T) -> Result<(), String>,
{
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<(), D::Error> {
        self.found = Some("nothing");
        deserializer.deserialize_any(self)
    }
}

impl<'a, T, F> Visitor<'a> for &mut Each<'_, 'a, T, F>
where
    T: Deserialize<'a>,
    F: FnMut(usize, T) -> Result<(), String>,
{
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a list, or an object with a list in it")
    }

    fn visit_seq<A: SeqAccess<'a>>(self, items: A) -> Result<(), A::Error> {
        self.items(items)
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key_seed(Key)? {
            if key == self.key {
                map.next_value_seed(List(self))?;
            } else if key == "info" {
                self.rest.push((key, Json::Raw(map.next_value()?)));
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// The list itself, or whatever stands in its place.
struct List<'e, E>(&'e mut E);

impl<'a, T, F> DeserializeSeed<'a> for List<'_, Each<'_, 'a, T, F>>
where
    T: Deserialize<'a>,
    F: FnMut(usize, T) -> Result<(), String>,
{
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'a, T, F> Visitor<'a> for List<'_, Each<'_, 'a, T, F>>
where
    T: Deserialize<'a>,
    F: FnMut(usize, T) -> Result<(), String>,
{
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a list of messages")
    }

    fn visit_seq<A: SeqAccess<'a>>(self, items: A) -> Result<(), A::Error> {
        self.0.items(items)
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        self.0.found = Some("an object");
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        self.0.found = Some("a boolean");
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        self.0.found = Some("a number");
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        self.0.found = Some("a number");
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        self.0.found = Some("a number");
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        self.0.found = Some("a string");
        Ok(())
    }
}

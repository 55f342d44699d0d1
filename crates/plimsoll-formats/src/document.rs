//! A JSON document with a list of messages, which are read one by one.

use std::borrow::Cow;
use std::fmt;
use std::io::Read;

use memchr::memmem;
use plimsoll::log::At;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::error::FormatError;
use crate::format::Format;
use crate::json::{Filter, Json, Take, error_text, problem};
use crate::json::{Key, Wanted, mended, parse};
use crate::transcript::Transcript;

/// Maximum size of a document. Unlike lines, it must be held as a whole.
///
/// Line formats have no such limit, because only their incomplete messages are in memory.
pub const MAX_DOCUMENT: u64 = 1 << 30;

/// Text of a document.
pub(crate) struct Document {
    format: Format,
    text: String,
    /// Problems of lines, if the messages were on one line each.
    broken: Vec<(u64, String)>,
    torn: bool,
}

impl Document {
    /// Reads a document from `input`, which has about `size` bytes if that is known.
    pub(crate) fn hold(format: Format, input: impl Read, size: u64) -> Result<Document, FormatError> {
        // One byte more, so that the end is found without growing the buffer.
        let mut bytes = Vec::with_capacity(size.min(MAX_DOCUMENT) as usize + 1);
        let read = input.take(MAX_DOCUMENT + 1).read_to_end(&mut bytes)?;
        if read as u64 > MAX_DOCUMENT {
            return Err(FormatError::TooLarge { format, limit: MAX_DOCUMENT });
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            // As part of the JSON, the fault has a line and a column.
            let source = serde_json::from_slice::<Value>(error.as_bytes()).err();
            let source = source.unwrap_or_else(|| serde_json::Error::custom("not UTF-8"));
            FormatError::Json { format, source }
        })?;
        let text = mended(&text).unwrap_or(text);
        let document = Document { format, text, broken: Vec::new(), torn: false };
        if document.text().trim_ascii().is_empty() { Err(FormatError::Empty) } else { Ok(document.joined()) }
    }

    /// Joins lines with one message each into a list. Such files are made by hand, or by scripts that copy messages
    /// from other files. One broken line does not invalidate the others.
    fn joined(self) -> Document {
        if !self.text().trim_ascii_start().lines().next().is_some_and(is_message) {
            return self;
        }
        let mut list = String::with_capacity(self.text.len() + 2);
        let ends = self.text.ends_with('\n');
        let count = self.text().lines().count();
        let (mut broken, mut torn) = (Vec::new(), false);
        for (number, line) in self.text().lines().enumerate() {
            let line = line.trim_ascii();
            if line.is_empty() {
                continue;
            }
            match serde_json::from_str::<IgnoredAny>(line) {
                Ok(_) => {
                    list.push(if list.is_empty() { '[' } else { ',' });
                    list.push_str(line);
                }
                Err(_) if number + 1 == count && !ends => torn = true,
                Err(error) => broken.push((number as u64 + 1, error_text(&error))),
            }
        }
        list.push(']');
        Document { text: list, broken, torn, ..self }
    }

    /// Reports problems of lines.
    pub(crate) fn note_lines(&self, transcript: &mut Transcript) {
        self.broken.iter().for_each(|(line, problem)| transcript.broken_line(*line, problem.clone()));
        transcript.torn = self.torn;
    }

    /// Returns the text without a byte-order mark.
    pub(crate) fn text(&self) -> &str {
        self.text.strip_prefix('\u{feff}').unwrap_or(&self.text)
    }

    fn json_error(&self, source: serde_json::Error) -> FormatError {
        FormatError::Json { format: self.format, source }
    }

    /// Returns the fields outside of the messages.
    pub(crate) fn outline(&self) -> Result<Json<'_>, FormatError> {
        Json::parse_some(self.text(), outline).map_err(|source| self.json_error(source))
    }

    /// Returns the fields of the document that `filter` selects; empty if the document is a list.
    pub(crate) fn header(&self, filter: Filter) -> Result<Json<'_>, FormatError> {
        if self.is_list() {
            return Ok(Json::Null);
        }
        Json::parse_some(self.text(), filter).map_err(|source| self.json_error(source))
    }

    /// Returns the location of the list under `key`, or of the document itself.
    pub(crate) fn list<'k>(&self, key: &'k str) -> At<'k> {
        if self.is_list() { At::Root } else { At::Key(&At::Root, key) }
    }

    /// Whether the document is a list, or was lines.
    pub(crate) fn is_list(&self) -> bool {
        self.text().trim_ascii_start().starts_with('[')
    }

    /// Reads the items of the list under `key`, or of the document if it is a list, one by one. Returns the document's
    /// other fields.
    pub(crate) fn each<'a>(
        &'a self,
        format: Format,
        key: &str,
        mut read: impl FnMut(usize, Json<'a>) -> Result<(), String>,
    ) -> Result<Json<'a>, FormatError> {
        let (mut index, mut wrong, mut found) = (0, None, "nothing");
        let mut item = |message| {
            index += 1;
            read(index - 1, message).map_err(|problem| wrong = Some(problem)).is_ok()
        };
        let each = EachItem { key, found: &mut found, item: &mut item };
        let about = parse(self.text(), each);
        if let Some(problem) = wrong {
            let field = if self.is_list() { "" } else { key };
            return Err(FormatError::Shape { format, at: format!("{field}[{}]", index - 1), problem });
        }
        let about = about.map_err(|_| self.json_error(problem(self.text())))?;
        if found != "a list" {
            let problem = format!("expected a list of messages, found {found}");
            return Err(FormatError::Shape { format, at: key.to_owned(), problem });
        }
        Ok(about)
    }
}

/// Whether a line is a message and not a document with a list of them.
fn is_message(line: &str) -> bool {
    const LISTS: [&str; 7] =
        ["messages", "trajectory", "history", "info", "conversation", "steps", "agent_steps"];
    if !line.starts_with('{') {
        return false;
    }
    // The output of an evaluation has a run of an agent on each line. Any other record with a list is identified by the
    // list's name, so that the line, which may be the whole document, need not be parsed.
    let has = |name: &str| memmem::find(line.as_bytes(), name.as_bytes()).is_some();
    let may_be_run = has("instance_id") && has("history");
    let (mut has_list, mut has_id, mut has_history) = (false, false, false);
    let mut see_field = |name: &str| {
        has_list |= LISTS.contains(&name);
        has_id |= name == "instance_id";
        has_history |= name == "history";
        may_be_run || !has_list
    };
    parse(line, FieldNames(&mut see_field)).is_ok() && ((has_id && has_history) || !has_list)
}

/// Visits the names of an object's fields until the function returns `false`.
struct FieldNames<'f>(&'f mut dyn FnMut(&str) -> bool);

impl<'a> DeserializeSeed<'a> for FieldNames<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'a> Visitor<'a> for FieldNames<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut object: A) -> Result<(), A::Error> {
        while let Some(name) = object.next_key_seed(Key)? {
            if !(self.0)(&name) {
                return Err(A::Error::custom("enough"));
            }
            object.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

/// Visits the items of one list in a document.
struct EachItem<'k, 'f, 'a> {
    /// Field of the list, if the document is an object.
    key: &'k str,
    /// Kind of the value that was found there.
    found: &'f mut &'static str,
    /// Receives an item; returns whether to continue.
    item: &'f mut dyn FnMut(Json<'a>) -> bool,
}

impl<'a> DeserializeSeed<'a> for EachItem<'_, '_, 'a> {
    /// The document's other fields.
    type Value = Json<'a>;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<Json<'a>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for EachItem<'_, '_, 'a> {
    type Value = Json<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list, or an object with one")
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut list: A) -> Result<Json<'a>, A::Error> {
        *self.found = "a list";
        while let Some(message) = list.next_element_seed(Wanted::WHOLE)? {
            if !(self.item)(message) {
                return Err(A::Error::custom("enough"));
            }
        }
        Ok(Json::Null)
    }

    fn visit_map<A: MapAccess<'a>>(self, mut object: A) -> Result<Json<'a>, A::Error> {
        let mut about = Json::Null;
        while let Some(name) = object.next_key_seed(Key)? {
            if name == self.key {
                let items = Items { found: &mut *self.found, item: &mut *self.item };
                object.next_value_seed(items)?;
            } else if name == "info" {
                about = object.next_value_seed(Wanted::WHOLE)?;
            } else {
                object.next_value::<IgnoredAny>()?;
            }
        }
        Ok(about)
    }
}

/// The list, or the value in its place.
struct Items<'f, 'a> {
    found: &'f mut &'static str,
    item: &'f mut dyn FnMut(Json<'a>) -> bool,
}

impl<'a> DeserializeSeed<'a> for Items<'_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for Items<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'a>>(self, list: A) -> Result<(), A::Error> {
        EachItem { key: "", found: self.found, item: self.item }.visit_seq(list).map(drop)
    }

    fn visit_map<A: MapAccess<'a>>(self, mut object: A) -> Result<(), A::Error> {
        *self.found = "an object";
        while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        *self.found = "a boolean";
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        *self.found = "a number";
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        *self.found = "a number";
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        *self.found = "a number";
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        *self.found = "a string";
        Ok(())
    }
}

/// Selects fields that distinguish formats or describe the session.
fn outline(_: &[(Cow<str>, Json)], depth: u8, key: &str) -> Take {
    match key {
        "messages" | "trajectory" | "history" | "tools" if depth == 0 => Take::Whole,
        "role" | "tool_call_id" | "type" | "model" | "anthropic_version" | "max_tokens" | "environment" => {
            Take::Whole
        }
        "content" | "system" | "meta" | "info" | "source" | "tool_calls" | "parts" | "input_schema"
        | "function" | "stop_sequences" | "ts" | "modelInfo" | "metrics" | "condenseId"
        | "condenseParent" | "instance_id" => Take::Raw,
        _ => Take::Skip,
    }
}

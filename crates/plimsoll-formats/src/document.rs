//! One JSON document with a list of messages in it, which are read one by one.

use std::borrow::Cow;
use std::fmt;
use std::io::Read;

use memchr::memmem;
use plimsoll::log::At;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::error::FormatError;
use crate::format::Format;
use crate::json::{Filter, Json, Take, problem, told};
use crate::json::{Key, Wanted, mended, parse};
use crate::transcript::Transcript;

/// A document over this many bytes is refused: unlike lines it has to be held as a whole.
pub const MAX_DOCUMENT: u64 = 1 << 30;

/// The text of a document.
pub(crate) struct Document {
    format: Format,
    text: String,
    /// What is wrong with lines, where the messages stood on a line each.
    broken: Vec<(u64, String)>,
    torn: bool,
}

impl Document {
    /// Hold what `input` has, which is about `size` bytes if that is known.
    pub(crate) fn hold(format: Format, input: impl Read, size: u64) -> Result<Document, FormatError> {
        // One byte more, so that the end is found without growing.
        let mut bytes = Vec::with_capacity(size.min(MAX_DOCUMENT) as usize + 1);
        let read = input.take(MAX_DOCUMENT + 1).read_to_end(&mut bytes)?;
        if read as u64 > MAX_DOCUMENT {
            return Err(FormatError::TooLarge { format, limit: MAX_DOCUMENT });
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            // Found as part of the JSON, it has a line and a column.
            let source = serde_json::from_slice::<Value>(error.as_bytes()).err();
            let source = source.unwrap_or_else(|| serde_json::Error::custom("not UTF-8"));
            FormatError::Json { format, source }
        })?;
        let text = mended(&text).unwrap_or(text);
        let document = Document { format, text, broken: Vec::new(), torn: false };
        if document.text().trim_ascii().is_empty() { Err(FormatError::Empty) } else { Ok(document.joined()) }
    }

    /// The document as one list, if it is lines with a message each. Such files are made by hand and by scripts that
    /// copy messages out of other files; one broken line does not cost the others.
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
                Err(error) => broken.push((number as u64 + 1, told(&error))),
            }
        }
        list.push(']');
        Document { text: list, broken, torn, ..self }
    }

    /// Say what was wrong with lines.
    pub(crate) fn note_lines(&self, transcript: &mut Transcript) {
        self.broken.iter().for_each(|(line, problem)| transcript.broken_line(*line, problem.clone()));
        transcript.torn = self.torn;
    }

    /// The text, without a mark of its encoding.
    pub(crate) fn text(&self) -> &str {
        self.text.strip_prefix('\u{feff}').unwrap_or(&self.text)
    }

    fn json_error(&self, source: serde_json::Error) -> FormatError {
        FormatError::Json { format: self.format, source }
    }

    /// What can be told without looking into the messages: which fields there are, and what they are about.
    pub(crate) fn outline(&self) -> Result<Json<'_>, FormatError> {
        Json::parse_some(self.text(), outline).map_err(|source| self.json_error(source))
    }

    /// The fields of the document that `filter` asks for; nothing of a document that is a list.
    pub(crate) fn header(&self, filter: Filter) -> Result<Json<'_>, FormatError> {
        if self.is_list() {
            return Ok(Json::Null);
        }
        Json::parse_some(self.text(), filter).map_err(|source| self.json_error(source))
    }

    /// Where the list under `key` is: there, or the document itself.
    pub(crate) fn list<'k>(&self, key: &'k str) -> At<'k> {
        if self.is_list() { At::Root } else { At::Key(&At::Root, key) }
    }

    /// Whether the document is a list, or was lines.
    pub(crate) fn is_list(&self) -> bool {
        self.text().trim_ascii_start().starts_with('[')
    }

    /// Read the items of the list under `key`, or of the document if it is a list itself, one after the other.
    /// Returns what the document says about its session.
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
        let each = Each { key, found: &mut found, item: &mut item };
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

/// Whether a line is a message by itself, rather than a document with a list of them.
fn is_message(line: &str) -> bool {
    const LISTS: [&str; 7] =
        ["messages", "trajectory", "history", "info", "conversation", "steps", "agent_steps"];
    if !line.starts_with('{') {
        return false;
    }
    // The output of an evaluation has a run of an agent on each line. Any other record with a list is known by the name of
    // the list, and the line, which may be the whole document, need not be read to its end.
    let has = |name: &str| memmem::find(line.as_bytes(), name.as_bytes()).is_some();
    let may_be_run = has("instance_id") && has("history");
    let (mut has_list, mut has_id, mut has_history) = (false, false, false);
    let mut go_on = |name: &str| {
        has_list |= LISTS.contains(&name);
        has_id |= name == "instance_id";
        has_history |= name == "history";
        may_be_run || !has_list
    };
    parse(line, Names(&mut go_on)).is_ok() && ((has_id && has_history) || !has_list)
}

/// Goes through the names of an object's fields until it is told to stop.
struct Names<'f>(&'f mut dyn FnMut(&str) -> bool);

impl<'a> DeserializeSeed<'a> for Names<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'a> Visitor<'a> for Names<'_> {
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

/// Goes through a document and hands on the items of one list.
struct Each<'k, 'f, 'a> {
    /// The field the list stands under, if the document is an object.
    key: &'k str,
    /// What was found there.
    found: &'f mut &'static str,
    /// Takes an item; says whether to go on.
    item: &'f mut dyn FnMut(Json<'a>) -> bool,
}

impl<'a> DeserializeSeed<'a> for Each<'_, '_, 'a> {
    /// What the document says about its session.
    type Value = Json<'a>;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<Json<'a>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for Each<'_, '_, 'a> {
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

/// The list itself, or whatever stands in its place.
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
        Each { key: "", found: self.found, item: self.item }.visit_seq(list).map(drop)
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

/// What tells formats apart, and what they say about the session.
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

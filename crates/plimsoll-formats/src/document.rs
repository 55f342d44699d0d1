//! One JSON document with a list of messages in it, which are read one by one.

use std::borrow::Cow;
use std::io::Read;

use serde::de::Error as _;
use serde_json::Value;

use crate::detect::Format;
use crate::error::FormatError;
use crate::json::{Json, Take, problem};
use crate::parse::{NotJson, Parser};

/// A document over this many bytes is refused: unlike lines it has to be held as a whole.
pub const MAX_DOCUMENT: u64 = 1 << 30;

/// The text of a document.
pub(crate) struct Document {
    format: Format,
    text: String,
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
    /// Returns what the document says about its session.
    pub(crate) fn each<'a>(
        &'a self,
        format: Format,
        key: &str,
        mut read: impl FnMut(usize, Json<'a>) -> Result<(), String>,
    ) -> Result<Json<'a>, FormatError> {
        let mut index = 0;
        let mut wrong = None;
        let mut item = |parser: &mut Parser<'a>| {
            let read = read(index, parser.value(0)?);
            index += 1;
            read.map_err(|problem| {
                wrong = Some(problem);
                NotJson
            })
        };
        let mut parser = Parser::new(self.text(), |_, _, _| Take::Whole);
        let is_list = parser.peek().is_ok_and(|byte| byte == b'[');
        let (mut found, mut about) = ("nothing", Json::Null);
        let done = if is_list {
            found = "a list";
            parser.list(item)
        } else {
            parser.object(|parser, name| {
                if name == key && parser.peek()? == b'[' {
                    found = "a list";
                    return parser.list(&mut item);
                }
                if name == key {
                    found = parser.value(0)?.describe();
                } else if name == "info" {
                    about = parser.value(0)?;
                } else {
                    parser.skip()?;
                }
                Ok(())
            })
        };
        if let Some(problem) = wrong {
            let field = if is_list { "" } else { key };
            return Err(FormatError::Shape { format, at: format!("{field}[{}]", index - 1), problem });
        }
        done.and_then(|()| parser.end()).map_err(|_| self.json_error(problem(self.text())))?;
        if found != "a list" {
            let problem = format!("expected a list of messages, found {found}");
            return Err(FormatError::Shape { format, at: key.to_owned(), problem });
        }
        Ok(about)
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

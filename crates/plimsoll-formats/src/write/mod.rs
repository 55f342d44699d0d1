//! The writers. They go through the engine's window, because a window is always a legal conversation: it begins
//! with the user, every call has its result right behind it, nothing is empty.

mod anthropic;
mod openai;
mod opencode;
mod session;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use plimsoll::log::Moment;
use plimsoll::{Message, PartBody, Policy, Text, Window};
use serde_json::{Value, json};

use crate::error::FormatError;
use crate::format::Format;
use crate::transcript::SessionInfo;

pub use session::{NewSession, write_session};

/// Write a whole conversation in the given format, as its provider accepts it.
///
/// Everything that was said is written, also what was summarised, cleared or cut since; the summaries themselves
/// stand only in [`Format::OpencodeExport`], which has a place for them. For what a model would be given now,
/// see [`write_window`].
pub fn write(format: Format, info: &SessionInfo, messages: &[Message]) -> Result<Value, FormatError> {
    write_counting(format, info, messages).map(|(written, _)| written)
}

/// Like [`write()`], with what OpenCode's export has no place for. For the other formats nothing is counted here.
pub fn write_counting(
    format: Format,
    info: &SessionInfo,
    messages: &[Message],
) -> Result<(Value, Vec<Lost>), FormatError> {
    match format {
        Format::OpencodeExport | Format::OpencodeMessages => Ok(opencode::write(format, info, messages)),
        Format::OpenaiChat | Format::AnthropicMessages => {
            let whole: Vec<Message> = messages.iter().cloned().map(unmarked).collect();
            let model = messages.iter().rev().find_map(|message| message.info.model_id.clone());
            let info = SessionInfo { model: info.model.clone().or(model), ..info.clone() };
            let written = write_window(format, &info, &Window::of(&whole, &Policy::default()))?;
            Ok((written, Vec::new()))
        }
        other => Err(FormatError::NotWritable(other)),
    }
}

/// Like [`write_counting`], as JSON into a writer, for formats that can be written message by message: those of OpenCode.
/// Returns how many messages were written; `None` for formats that need the whole at once.
pub fn write_to(
    format: Format,
    info: &SessionInfo,
    messages: &[Message],
    out: &mut dyn std::io::Write,
) -> Option<std::io::Result<(usize, Vec<Lost>)>> {
    matches!(format, Format::OpencodeExport | Format::OpencodeMessages)
        .then(|| opencode::write_to(format, info, messages, out))
}

/// Write a window as a request: [`Format::OpenaiChat`] or [`Format::AnthropicMessages`].
pub fn write_window(format: Format, info: &SessionInfo, window: &Window) -> Result<Value, FormatError> {
    match format {
        Format::OpenaiChat => Ok(openai::write(info, window)),
        Format::AnthropicMessages => Ok(anthropic::write(info, window)),
        other => Err(FormatError::NotWritable(other)),
    }
}

/// Something that is not in what was written, counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// How many of them; more than none.
    pub count: usize,
    /// What one of them is called.
    pub one: &'static str,
    /// What several of them are called.
    pub more: &'static str,
}

impl Lost {
    /// So many of something; nothing for none.
    pub(crate) fn new(count: usize, one: &'static str, more: &'static str) -> Option<Lost> {
        (count > 0).then_some(Lost { count, one, more })
    }
}

/// The message without the marks of reductions, and with its compaction set aside.
fn unmarked(mut message: Message) -> Message {
    for part in &mut message.parts {
        *part = part.clone().without_marks();
        if let PartBody::Compaction(marker) = &mut part.body {
            marker.set_aside = Some(Moment::default());
        }
    }
    message
}

/// Names as providers take them: letters, digits, `_` and `-`, no longer than `limit`; different ids stay
/// different.
struct Names {
    limit: usize,
    given: HashMap<String, String>,
    taken: HashSet<String>,
    /// How often a name was wanted again, so that no number is tried twice.
    again: HashMap<String, u64>,
}

impl Names {
    fn new(limit: usize) -> Names {
        Names { limit, given: HashMap::new(), taken: HashSet::new(), again: HashMap::new() }
    }

    /// The id to write for `id`, always the same one.
    fn id(&mut self, id: &str) -> String {
        if let Some(given) = self.given.get(id) {
            return given.clone();
        }
        let plain = legal(id, self.limit);
        let mut free = plain.clone();
        while !self.taken.insert(free.clone()) {
            let number = self.again.entry(plain.clone()).or_insert(1);
            *number += 1;
            let end = format!("_{number}");
            free = format!("{}{end}", &plain[..plain.len().min(self.limit - end.len())]);
        }
        self.given.insert(id.to_owned(), free.clone());
        free
    }
}

fn legal(name: &str, limit: usize) -> String {
    let plain: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' })
        .take(limit)
        .collect();
    if plain.is_empty() { "unknown".into() } else { plain }
}

/// A tool's input as the object that providers insist on.
fn as_object(input: &Value) -> Value {
    match input {
        Value::Object(_) => input.clone(),
        Value::Null => json!({}),
        other => json!({ "input": other }),
    }
}

/// A file as the window has it.
struct File<'a> {
    mime: Option<&'a str>,
    name: Option<&'a str>,
    url: Option<&'a str>,
}

impl<'a> File<'a> {
    fn new(mime: &'a Option<String>, name: &'a Option<String>, url: &'a Option<Text>) -> File<'a> {
        File { mime: mime.as_deref(), name: name.as_deref(), url: url.as_ref().map(Text::as_str) }
    }

    fn all(files: &'a Arc<Vec<Value>>) -> impl Iterator<Item = File<'a>> {
        let text = |file: &'a Value, key: &str| file.get(key).and_then(Value::as_str);
        files.iter().map(move |file| File {
            mime: text(file, "mime"),
            name: text(file, "filename"),
            url: text(file, "url"),
        })
    }

    /// Media type and base64 of a `data:` address.
    fn data(&self) -> Option<(&'a str, &'a str)> {
        self.url?.strip_prefix("data:")?.split_once(";base64,")
    }

    fn is_image(&self) -> bool {
        let mime = self.data().map(|(mime, _)| mime).or(self.mime);
        mime.is_some_and(|mime| mime.starts_with("image/"))
    }

    fn is_web(&self) -> bool {
        self.url.is_some_and(|url| url.starts_with("https://") || url.starts_with("http://"))
    }

    /// What is written for a file the provider has no place for.
    fn mention(&self) -> String {
        let name = self.name.or(self.url.filter(|url| !url.starts_with("data:"))).unwrap_or("unnamed");
        format!("[Attached file: {name} ({})]", self.mime.unwrap_or("unknown type"))
    }
}

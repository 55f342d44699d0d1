//! The writers. They go through the engine's window, because a window is always a legal conversation: it begins
//! with the user, every call has its result right behind it, nothing is empty.

mod anthropic;
mod openai;
mod opencode;
mod request;
mod session;

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::io::{self, Write};
use std::sync::Arc;

use plimsoll::log::Moment;
use plimsoll::{Log, Message, Part, PartBody, Policy, Text, Window};
use serde_json::{Value, json};

use crate::error::FormatError;
use crate::format::Format;
use crate::transcript::SessionInfo;
use request::RequestCounts;

pub use session::{NewSession, write_session};

/// Write a whole conversation in the given format, as its provider accepts it.
///
/// Everything that was said is written, also what was summarised, cleared or cut since; the summaries themselves
/// stand only in [`Format::OpencodeExport`], which has a place for them. For what a model would be given now,
/// see [`write_window`].
pub fn write(format: Format, info: &SessionInfo, messages: &[Message]) -> Result<Value, FormatError> {
    write_counting(format, info, messages).map(|(written, _)| written)
}

/// Like [`write()`], with what the format has no place for.
pub fn write_counting(
    format: Format,
    info: &SessionInfo,
    messages: &[Message],
) -> Result<(Value, Vec<Lost>), FormatError> {
    match format {
        Format::OpencodeExport | Format::OpencodeMessages => {
            let log = Log::from_messages(messages.iter().cloned());
            let Ok(written) = opencode::write(format, info, &mut |sink| {
                log.iter().cloned().for_each(sink);
                Ok::<(), Infallible>(())
            });
            Ok(written)
        }
        Format::OpenaiChat | Format::AnthropicMessages => {
            let (info, window, mut counts) = whole_window(info, messages.to_vec());
            let mut written = request::head(format, &info, &window);
            let mut list = Vec::new();
            request::each(format, &window, &mut |message| {
                counts.see_written(&message);
                list.push(message);
            });
            written.insert("messages".into(), list.into());
            Ok((Value::Object(written), counts.lost()))
        }
        other => Err(FormatError::NotWritable(other)),
    }
}

/// Goes through the messages of a log, oldest first, as often as it is called.
pub type EachMessage<'a, E> = &'a mut dyn FnMut(&mut dyn FnMut(Message)) -> Result<(), E>;

/// Like [`write_counting`], as JSON into a writer, one message at a time. Returns how many messages were written.
///
/// OpenCode's formats take several runs through the log and hold only what was reduced; of the others the window is held. The
/// messages and parts need ids of their own, as [`Log::from_messages`] gives them. What is new in a later run is left out.
pub fn write_to<E: From<io::Error> + From<FormatError>>(
    format: Format,
    info: &SessionInfo,
    each: EachMessage<'_, E>,
    out: &mut dyn Write,
) -> Result<(usize, Vec<Lost>), E> {
    match format {
        Format::OpencodeExport | Format::OpencodeMessages => {
            let export = opencode::Export::of(info, each)?;
            let (before, after) = match format {
                Format::OpencodeMessages => (String::new(), ""),
                _ => (format!("{{\"info\":{},\"messages\":", export.head()), "}"),
            };
            let mut list = JsonList::begin(out, &before);
            let lost = export.each(each, &mut |message| list.push(&message))?;
            Ok((list.end(after)?, lost))
        }
        Format::OpenaiChat | Format::AnthropicMessages => {
            let mut messages = Vec::new();
            each(&mut |message| messages.push(message))?;
            let (info, window, mut counts) = whole_window(info, messages);
            // The messages are the last field.
            let mut head = request::head(format, &info, &window);
            head.insert("messages".into(), Value::Array(Vec::new()));
            let head = Value::Object(head).to_string();
            let mut list = JsonList::begin(out, head.strip_suffix("[]}").unwrap_or(&head));
            request::each(format, &window, &mut |message| {
                counts.see_written(&message);
                list.push(&message);
            });
            Ok((list.end("}")?, counts.lost()))
        }
        other => Err(FormatError::NotWritable(other).into()),
    }
}

/// A list in JSON that is written item by item, until something fails.
struct JsonList<'w> {
    out: &'w mut dyn Write,
    count: usize,
    done: io::Result<()>,
}

impl<'w> JsonList<'w> {
    fn begin(out: &'w mut dyn Write, before: &str) -> JsonList<'w> {
        let done = out.write_all(before.as_bytes()).and_then(|()| out.write_all(b"["));
        JsonList { out, count: 0, done }
    }

    fn push(&mut self, item: &Value) {
        if self.done.is_ok() {
            let comma: &[u8] = if self.count > 0 { b"," } else { b"" };
            self.done = self.out.write_all(comma);
        }
        if self.done.is_ok() {
            self.done = serde_json::to_writer(&mut *self.out, item).map_err(io::Error::from);
            self.count += 1;
        }
    }

    fn end(self, after: &str) -> io::Result<usize> {
        self.done?;
        self.out.write_all(b"]")?;
        self.out.write_all(after.as_bytes())?;
        Ok(self.count)
    }
}

/// The window over everything that was said, whatever was summarised, cleared or cut since; the session with its model; and
/// the counts of what a request has no place for.
fn whole_window(info: &SessionInfo, messages: Vec<Message>) -> (SessionInfo, Window, RequestCounts) {
    let model = messages.iter().rev().find_map(|message| message.info.model_id.clone());
    let info = SessionInfo { model: info.model.clone().or(model), ..info.clone() };
    let counts = RequestCounts::of(&messages);
    let whole: Vec<Message> = messages.into_iter().map(unmarked).collect();
    (info, Window::of(&whole, &Policy::default()), counts)
}

/// Write a window as a request: [`Format::OpenaiChat`] or [`Format::AnthropicMessages`].
pub fn write_window(format: Format, info: &SessionInfo, window: &Window) -> Result<Value, FormatError> {
    if !matches!(format, Format::OpenaiChat | Format::AnthropicMessages) {
        return Err(FormatError::NotWritable(format));
    }
    let (mut request, mut messages) = (request::head(format, info, window), Vec::new());
    request::each(format, window, &mut |message| messages.push(message));
    request.insert("messages".into(), messages.into());
    Ok(Value::Object(request))
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
    pub fn new(count: usize, one: &'static str, more: &'static str) -> Option<Lost> {
        (count > 0).then_some(Lost { count, one, more })
    }
}

/// The message without the marks of reductions, and with its compaction set aside.
fn unmarked(mut message: Message) -> Message {
    let is_plain = |part: &Part| part.marks.is_empty() && part.cleared().is_none();
    if message.marker().is_none() && message.parts.iter().all(is_plain) {
        return message;
    }
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

//! The writers. They use the engine's window, because a window is always a legal conversation: it begins with the user,
//! every call is directly followed by its result, and nothing is empty.

mod anthropic;
mod openai;
mod opencode;
mod request;
mod session;

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::io::{self, Write};

use plimsoll::log::LogPosition;
use plimsoll::window::legal_name;
use plimsoll::{Log, Message, Part, PartBody, Policy, Window};
use serde_json::Value;

use crate::error::FormatError;
use crate::format::Format;
use crate::transcript::SessionInfo;
use request::RequestCounts;

pub use session::{NewSession, write_session};

/// Writes a whole conversation in the given format, by the rules of its provider.
///
/// All messages are written, including those that were summarised, cleared or cut. Summaries are only written to
/// [`Format::OpencodeExport`], the one format that has them. Use [`write_window`] for what the model would receive now.
pub fn write(format: Format, info: &SessionInfo, messages: &[Message]) -> Result<Value, FormatError> {
    write_counting(format, info, messages).map(|(written, _)| written)
}

/// Like [`write()`], and returns what the format cannot represent.
pub fn write_counting(
    format: Format,
    info: &SessionInfo,
    messages: &[Message],
) -> Result<(Value, Vec<ConversionLoss>), FormatError> {
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

/// Passes on the messages of a log, oldest first, each time it is called.
pub type EachMessage<'a, E> = &'a mut dyn FnMut(&mut dyn FnMut(Message)) -> Result<(), E>;

/// Like [`write_counting`], but writes JSON, one message at a time. Returns the number of messages.
///
/// OpenCode's formats iterate over the log several times and only hold reduced messages; for other formats, the window
/// is held. Messages and parts need unique ids, as from [`Log::from_messages`]. Messages that appear during a later
/// iteration are ignored.
pub fn write_to<E: From<io::Error> + From<FormatError>>(
    format: Format,
    info: &SessionInfo,
    each: EachMessage<'_, E>,
    out: &mut dyn Write,
) -> Result<(usize, Vec<ConversionLoss>), E> {
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

/// A JSON list that is written item by item, until an error.
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

/// Returns the window over all messages, ignoring reductions; the session with its model; and counts of what a request
/// cannot represent.
fn whole_window(info: &SessionInfo, messages: Vec<Message>) -> (SessionInfo, Window, RequestCounts) {
    let model = messages.iter().rev().find_map(|message| message.info.model_id.clone());
    let info = SessionInfo { model: info.model.clone().or(model), ..info.clone() };
    let counts = RequestCounts::of(&messages);
    let whole: Vec<Message> = messages.into_iter().map(unmarked).collect();
    (info, Window::of(&whole, &Policy::default()), counts)
}

/// Writes a window as a request: [`Format::OpenaiChat`] or [`Format::AnthropicMessages`].
pub fn write_window(format: Format, info: &SessionInfo, window: &Window) -> Result<Value, FormatError> {
    if !matches!(format, Format::OpenaiChat | Format::AnthropicMessages) {
        return Err(FormatError::NotWritable(format));
    }
    let (mut request, mut messages) = (request::head(format, info, window), Vec::new());
    request::each(format, window, &mut |message| messages.push(message));
    request.insert("messages".into(), messages.into());
    Ok(Value::Object(request))
}

/// Content that was not written, with its count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConversionLoss {
    /// The count, at least 1.
    pub count: usize,
    /// Singular of the content's name.
    pub one: &'static str,
    /// Plural of the content's name.
    pub more: &'static str,
}

impl ConversionLoss {
    /// Returns a loss, or `None` if the count is zero.
    pub fn new(count: usize, one: &'static str, more: &'static str) -> Option<ConversionLoss> {
        (count > 0).then_some(ConversionLoss { count, one, more })
    }
}

/// Removes the marks of reductions from a message, and lifts its compaction.
fn unmarked(mut message: Message) -> Message {
    let is_plain = |part: &Part| part.marks.is_empty() && part.cleared().is_none();
    if message.marker().is_none() && message.parts.iter().all(is_plain) {
        return message;
    }
    for part in &mut message.parts {
        *part = part.clone().without_marks();
        if let PartBody::Compaction(marker) = &mut part.body {
            marker.set_aside = Some(LogPosition::default());
        }
    }
    message
}

/// Maps ids to ones that providers accept: letters, digits, `_` and `-`, at most `limit` of them. Different ids stay
/// different.
struct IdMap {
    limit: usize,
    given: HashMap<String, String>,
    taken: HashSet<String>,
    /// Number of times a name was wanted again, so that no number is tried twice.
    again: HashMap<String, u64>,
}

impl IdMap {
    fn new(limit: usize) -> IdMap {
        IdMap { limit, given: HashMap::new(), taken: HashSet::new(), again: HashMap::new() }
    }

    /// Returns the new id for `id`; always the same one.
    fn id(&mut self, id: &str) -> String {
        if let Some(given) = self.given.get(id) {
            return given.clone();
        }
        let plain = legal_name(id, self.limit);
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

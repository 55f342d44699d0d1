//! New sessions of other tools: a window as a file that the tool goes on with.
//!
//! The window is written and not the log: these tools have no marks for what was cleared or cut, so the only way to
//! have it stay cleared is not to give it to them. What is not in the file is where it was: in the session that the
//! window is of.

mod claude_code;
mod codex;

use plimsoll::{Block, Millis, Window, WindowMessage, WindowRole};
use serde_json::{Value, json};

use super::Lost;
use crate::error::FormatError;
use crate::format::Format;

/// Stands before a summary, so that it is not taken for what the user says.
const SUMMARY: &str = "[Summary of this conversation up to here]\n\n";

/// What a new session is called, and where it belongs.
#[derive(Clone, Copy, Debug)]
pub struct NewSession<'a> {
    /// Its id: a UUID.
    pub id: &'a str,
    /// When it is made.
    pub now: Millis,
    /// The directory its agent works in.
    pub directory: &'a str,
    /// The model that spoke.
    pub model: Option<&'a str>,
    /// Title of the session in the tool's list.
    pub title: Option<&'a str>,
    /// The stored session that the window is of. The file names it, so that what is not in the window can be looked for
    /// there.
    pub origin: Option<&'a str>,
}

impl NewSession<'_> {
    /// The title, if it says something.
    fn title(&self) -> Option<&str> {
        self.title.map(str::trim).filter(|title| !title.is_empty())
    }

    /// Name the origin in a record, under a key that no tool uses. They leave alone what they do not know.
    fn mark(&self, record: &mut Value) {
        if let Some(origin) = self.origin {
            record["plimsoll"] = json!({ "handed_over_from": origin });
        }
    }
}

/// Write a window as a session file of [`Format::ClaudeCode`] or [`Format::Codex`] that the tool can resume, with what
/// has no place in it.
///
/// ```
/// use plimsoll::{Message, Millis, Policy, Window};
/// use plimsoll_formats::{Format, NewSession, read, write_session};
/// let log = [Message::user("msg_1".into(), "prt_1".into(), "hello")];
/// let session = NewSession { id: "0199aaaa-1111-7222-8333-444455556666", now: Millis(1_794_775_451_033),
///     directory: "/code", model: None, title: Some("Greetings"), origin: None };
/// let (file, _) = write_session(Format::Codex, &session, &Window::of(&log, &Policy::default()))?;
/// let session = read(file.as_bytes())?;
/// assert_eq!((session.messages[0].text().as_str(), session.info.title.as_deref()), ("hello", Some("Greetings")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write_session(
    format: Format,
    session: &NewSession,
    window: &Window,
) -> Result<(String, Vec<Lost>), FormatError> {
    let (records, thoughts) = match format {
        Format::ClaudeCode => claude_code::write(session, window),
        Format::Codex => codex::write(session, window),
        other => return Err(FormatError::NotWritable(other)),
    };
    let mut file = String::new();
    for record in records {
        file.push_str(&record.to_string());
        file.push('\n');
    }
    let is_system =
        |message: &&WindowMessage| message.role == WindowRole::System && !is_summary(window, message);
    let systems = window.messages.iter().filter(is_system).count();
    let had = window.messages.iter().flat_map(|message| &message.blocks);
    let had = had.filter(|block| matches!(block, Block::Reasoning { .. })).count();
    let lost = [
        // The tool lays down its own on every request.
        Lost::new(systems, "system message", "system messages"),
        Lost::new(had.saturating_sub(thoughts), "thought", "thoughts"),
    ];
    Ok((file, lost.into_iter().flatten().collect()))
}

/// Whether a message of the host is the summary.
fn is_summary(window: &Window, message: &WindowMessage) -> bool {
    window.pivot.is_some() && message.message == window.pivot
}

/// The summary at the beginning of a window, and the messages behind it that are to be written.
fn divided(window: &Window) -> (Option<String>, Vec<&WindowMessage>) {
    let text = |message: &WindowMessage| {
        let texts = message.blocks.iter().filter_map(|block| match block {
            Block::Text { text, .. } => Some(text.as_str()),
            _ => None,
        });
        format!("{SUMMARY}{}", texts.collect::<Vec<_>>().join("\n\n"))
    };
    let mut rest: Vec<&WindowMessage> = window.messages.iter().collect();
    let mut summary = None;
    if let Some(at) = rest.iter().position(|message| is_summary(window, message)) {
        let marker = rest.remove(at);
        // The marker's question is answered by the summary; as the host's word it is the summary itself.
        summary = match rest.get(at).filter(|next| next.role == WindowRole::Assistant) {
            Some(_) if marker.role == WindowRole::User => Some(text(rest.remove(at))),
            _ => Some(text(marker)),
        };
    }
    rest.retain(|message| message.role != WindowRole::System);
    (summary, rest)
}

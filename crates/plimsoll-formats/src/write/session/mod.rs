//! Writes new sessions of other tools: a window as a file that the tool can resume.
//!
//! The window is written and not the log: these tools have no marks for cleared or cut content, so it only stays out if
//! they do not receive it. Everything that is not in the file remains in the original session.

mod claude_code;
mod codex;

use plimsoll::{Block, Millis, Window, WindowMessage, WindowRole};
use serde_json::{Value, json};

use super::ConversionLoss;
use crate::error::FormatError;
use crate::format::Format;

/// Precedes a summary, so that the model does not take it for text of the user.
const SUMMARY: &str = "[Summary of this conversation up to here]\n\n";

/// Identity of a new session.
#[derive(Clone, Copy, Debug)]
pub struct NewSession<'a> {
    /// Id: a UUID.
    pub id: &'a str,
    /// Time of creation.
    pub now: Millis,
    /// Directory of its agent.
    pub directory: &'a str,
    /// Model of the answers.
    pub model: Option<&'a str>,
    /// Title in the tool's list of sessions.
    pub title: Option<&'a str>,
    /// The stored session of the window. The file contains its id, so that everything outside the window can be looked
    /// up there.
    pub origin: Option<&'a str>,
}

impl NewSession<'_> {
    /// Returns the title, unless it is blank.
    fn title(&self) -> Option<&str> {
        self.title.map(str::trim).filter(|title| !title.is_empty())
    }

    /// Adds the origin to a record, under a key that no tool uses. Tools keep unknown keys.
    fn mark(&self, record: &mut Value) {
        if let Some(origin) = self.origin {
            record["plimsoll"] = json!({ "handed_over_from": origin });
        }
    }
}

/// Writes a window as a session file of [`Format::ClaudeCode`] or [`Format::Codex`] that the tool can resume. Returns what
/// the format cannot represent.
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
) -> Result<(String, Vec<ConversionLoss>), FormatError> {
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
        // The tool adds its own system messages to every request.
        ConversionLoss::new(systems, "system message", "system messages"),
        ConversionLoss::new(had.saturating_sub(thoughts), "thought", "thoughts"),
    ];
    Ok((file, lost.into_iter().flatten().collect()))
}

/// Whether a message of the host is the summary.
fn is_summary(window: &Window, message: &WindowMessage) -> bool {
    window.pivot.is_some() && message.message == window.pivot
}

/// Splits a window into the summary at its beginning and the messages to write after it.
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
        // The summary answers the marker's question; as a message of the host it is the summary itself.
        summary = match rest.get(at).filter(|next| next.role == WindowRole::Assistant) {
            Some(_) if marker.role == WindowRole::User => Some(text(rest.remove(at))),
            _ => Some(text(marker)),
        };
    }
    rest.retain(|message| message.role != WindowRole::System);
    (summary, rest)
}

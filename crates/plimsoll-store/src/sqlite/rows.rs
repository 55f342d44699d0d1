//! Messages and parts as rows, and back.
//!
//! The long text of a part has its own column: it can be searched there, and a plan that only needs lengths does not
//! read it. Marks are separate rows.

use std::sync::Arc;

use plimsoll::log::{ReasoningPart, Shared, ToolCallPart, ToolPart};
use plimsoll::window::PROVIDER_BLOCK;
use plimsoll::{
    CharCounter, Chars, Input, Message, MessageId, Part, PartBody, PartId, Role, Text, ToolState, ToolStatus,
    part_tokens,
};
use rusqlite::Row;
use serde_json::Value;

use super::sums;
use crate::counts;
use crate::error::StoreError;

/// Converts an unsigned number for a column, which is signed. Larger numbers are clamped: as times and counts they are
/// impossible anyway. The host's clock is not clamped: an impossible time is refused.
pub(crate) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Location of the long text in a part.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TextPlace {
    Nowhere = 0,
    Text = 1,
    Output = 2,
    Error = 3,
    Url = 4,
    /// The input of a call while the model still writes it.
    Raw = 5,
}

/// Where OpenCode stores the input of a call while the model still writes it.
const RAW_INPUT: &str = "raw";

/// A part as a row.
pub(crate) struct PartRow {
    pub(crate) kind: &'static str,
    pub(crate) tool: Option<String>,
    pub(crate) status: Option<String>,
    pub(crate) call: Option<String>,
    pub(crate) blank: bool,
    pub(crate) chars: u64,
    pub(crate) input_chars: u64,
    pub(crate) tokens: u64,
    pub(crate) place: u8,
    pub(crate) files: u64,
    pub(crate) data: String,
    pub(crate) text: Option<Text>,
}

impl PartRow {
    pub(crate) fn of(part: &Part) -> Result<PartRow, StoreError> {
        let mut rest = part.clone().without_marks();
        // An imported log may contain an undone compaction. Once its pivot is recorded, that row says so.
        if let (PartBody::Compaction(kept), PartBody::Compaction(marker)) = (&mut rest.body, &part.body) {
            kept.set_aside.clone_from(&marker.set_aside);
        }
        let (place, text) = take_text(&mut rest.body);
        let (tool, status, call) = match &part.body {
            PartBody::Tool(tool) => {
                (Some(tool.tool.clone()), Some(status_name(&tool.state.status)), Some(tool.call_id.clone()))
            }
            PartBody::ToolCall(call) => (Some(call.tool.clone()), None, Some(call.call_id.clone())),
            PartBody::ToolResult(result) => (result.tool.clone(), None, Some(result.call_id.clone())),
            _ => (None, None, None),
        };
        let input_chars = input_of(&part.body).map(|input| input.json().chars().0).unwrap_or_default();
        Ok(PartRow {
            kind: kind_of(&part.body),
            tool,
            status,
            call,
            blank: text.as_ref().is_none_or(|text| text.trim().is_empty()),
            chars: text.as_ref().map(|text| text.chars().0).unwrap_or_default(),
            input_chars,
            tokens: part_tokens(part, &CharCounter::default()).0,
            place: place as u8,
            files: part.as_tool().map(|tool| tool.state.attachments.len() as u64).unwrap_or_default(),
            data: serde_json::to_string(&rest)?,
            text,
        })
    }
}

fn kind_of(body: &PartBody) -> &'static str {
    match body {
        PartBody::Text(_) => "text",
        PartBody::Reasoning(_) => "reasoning",
        PartBody::Tool(_) => "tool",
        PartBody::ToolCall(_) => "call",
        PartBody::ToolResult(_) => "result",
        PartBody::File(_) => "file",
        PartBody::Compaction(_) => "compaction",
        PartBody::Other(kind) if kind == PROVIDER_BLOCK => PROVIDER_BLOCK,
        PartBody::Other(_) | PartBody::Bare(_) => "other",
    }
}

fn input_of(body: &PartBody) -> Option<&Input> {
    match body {
        PartBody::Tool(tool) => tool.state.input.as_ref(),
        PartBody::ToolCall(call) => call.input.as_ref(),
        _ => None,
    }
}

fn status_name(status: &ToolStatus) -> String {
    match status {
        ToolStatus::Pending => "pending".into(),
        ToolStatus::Running => "running".into(),
        ToolStatus::Completed => "completed".into(),
        ToolStatus::Error => "error".into(),
        ToolStatus::Other(name) => name.clone(),
    }
}

/// Takes the long text out, leaving an empty one in its place.
fn take_text(body: &mut PartBody) -> (TextPlace, Option<Text>) {
    let (place, slot) = match body {
        PartBody::Text(part) => (TextPlace::Text, &mut part.text),
        PartBody::Reasoning(part) => (TextPlace::Text, &mut part.text),
        PartBody::ToolResult(result) => (TextPlace::Text, &mut result.text),
        PartBody::Tool(tool) => match (&mut tool.state.output, &mut tool.state.error) {
            (Some(output), _) => (TextPlace::Output, output),
            (None, Some(error)) => (TextPlace::Error, error),
            (None, None) => {
                return match tool.state.extra.get_mut(RAW_INPUT) {
                    Some(Value::String(raw)) if tool.state.status == ToolStatus::Pending => {
                        (TextPlace::Raw, Some(Text::from(std::mem::take(raw))))
                    }
                    _ => (TextPlace::Nowhere, None),
                };
            }
        },
        PartBody::File(file) => match &mut file.url {
            Some(url) => (TextPlace::Url, url),
            None => return (TextPlace::Nowhere, None),
        },
        PartBody::ToolCall(_) | PartBody::Compaction(_) | PartBody::Other(_) | PartBody::Bare(_) => {
            return (TextPlace::Nowhere, None);
        }
    };
    (place, Some(std::mem::take(slot)))
}

pub(super) fn put_text(body: &mut PartBody, place: u8, text: Text) {
    match body {
        PartBody::Text(part) => part.text = text,
        PartBody::Reasoning(part) => part.text = text,
        PartBody::ToolResult(result) => result.text = text,
        PartBody::Tool(tool) if place == TextPlace::Error as u8 => tool.state.error = Some(text),
        PartBody::Tool(tool) if place == TextPlace::Raw as u8 => {
            tool.state.extra.insert(RAW_INPUT.into(), Value::String(text.as_str().to_owned()));
        }
        PartBody::Tool(tool) => tool.state.output = Some(text),
        PartBody::File(file) => file.url = Some(text),
        PartBody::ToolCall(_) | PartBody::Compaction(_) | PartBody::Other(_) | PartBody::Bare(_) => {}
    }
}

/// A part's text with the deltas that are not folded in yet. Most parts have none, and a lookup in an almost empty
/// table costs next to nothing.
pub(crate) const TEXT: &str = "CASE WHEN EXISTS (SELECT 1 FROM delta d WHERE d.part = part.seq)
    THEN text || (SELECT group_concat(d.text, '' ORDER BY d.at) FROM delta d WHERE d.part = part.seq)
    ELSE text END";

/// Columns of a whole part, in the order that [`whole_part`] reads them.
pub(crate) fn whole_columns() -> String {
    format!("message, place, data, {TEXT}, id, {}", counts::STORED_FORM)
}

/// Columns of a part's outline, in the order that [`outline`] reads them.
pub(crate) const OUTLINE: &str =
    "message, id, kind, tool, status, call, blank, chars, input_chars, place, files,
     CASE WHEN kind IN ('text', 'result', 'compaction', 'provider-block') THEN data END,
     CASE WHEN kind IN ('text', 'result') THEN text END,
     EXISTS (SELECT 1 FROM delta d WHERE d.part = part.seq)";

/// A part and its position.
pub(crate) struct Placed {
    pub(crate) message: String,
    pub(crate) part: Part,
    /// The outline does not include deltas; the part must be read whole.
    pub(crate) has_deltas: bool,
}

/// Parses a part with all of its content.
pub(crate) fn whole_part(row: &Row<'_>) -> Result<Placed, StoreError> {
    read_whole(row).map_err(StoreError::damaged(|| named(row, 0, 4)))
}

/// Names the part of a row in an error, as far as it can be read.
fn named(row: &Row<'_>, message: usize, id: usize) -> String {
    let name = |column| sums::lossy(row, column).unwrap_or_default();
    format!("part `{}` of message `{}`", name(id), name(message))
}

fn read_whole(row: &Row<'_>) -> Result<Placed, StoreError> {
    let data = row.get_ref(2)?.as_str().map_err(rusqlite::Error::from)?;
    let mut part: Part = serde_json::from_str(data)?;
    if let Some(text) = row.get::<_, Option<String>>(3)? {
        put_text(&mut part.body, row.get(1)?, Text::from(text));
    }
    // The JSON of some kinds has no id: `id` names the call, or the part is not an object.
    if part.id.is_empty() {
        part.id = PartId::new(row.get::<_, String>(4)?);
    }
    if let Some(stored) = row.get_ref(5)?.as_str_or_null().map_err(rusqlite::Error::from)? {
        counts::restore(&part, stored);
    }
    Ok(Placed { message: row.get(0)?, part, has_deltas: false })
}

/// Parses a part with lengths instead of texts. Texts of the conversation are read whole, and so are markers, results
/// without their call, and provider blocks: the window looks into them.
pub(crate) fn outline(row: &Row<'_>) -> Result<Placed, StoreError> {
    read_outline(row).map_err(StoreError::damaged(|| named(row, 0, 1)))
}

fn read_outline(row: &Row<'_>) -> Result<Placed, StoreError> {
    let id = PartId::new(row.get::<_, String>(1)?);
    let kind: String = row.get(2)?;
    let string = |column: usize| row.get::<_, Option<String>>(column).map(Option::unwrap_or_default);
    let (tool, status, call) = (string(3)?, string(4)?, string(5)?);
    let (blank, chars, input_chars): (bool, u64, u64) = (row.get(6)?, row.get(7)?, row.get(8)?);
    let place: u8 = row.get(9)?;
    let text = Text::outline(Chars(chars), blank);
    let input = Input::outline(Chars(input_chars));
    let body = match kind.as_str() {
        "reasoning" => PartBody::Reasoning(ReasoningPart { text }),
        "tool" => {
            let mut state = ToolState::pending(input);
            state.status = match status.as_str() {
                "pending" => ToolStatus::Pending,
                "running" => ToolStatus::Running,
                "completed" => ToolStatus::Completed,
                "error" => ToolStatus::Error,
                _ => ToolStatus::Other(status),
            };
            match place {
                place if place == TextPlace::Output as u8 => state.output = Some(text),
                place if place == TextPlace::Error as u8 => state.error = Some(text),
                _ => {}
            }
            state.attachments = Arc::new(vec![Value::Null; row.get(10)?]);
            PartBody::Tool(ToolPart { call_id: call, tool, state })
        }
        "call" => PartBody::ToolCall(ToolCallPart::new(call, tool, input)),
        "file" => PartBody::File(plimsoll::log::FilePart { mime: None, filename: None, url: Some(text) }),
        "text" | "result" | "compaction" | PROVIDER_BLOCK => {
            let mut part: Part = serde_json::from_str(&string(11)?)?;
            put_text(&mut part.body, place, Text::from(string(12)?));
            return Ok(Placed { message: row.get(0)?, part, has_deltas: row.get(13)? });
        }
        other => PartBody::Other(other.to_owned()),
    };
    Ok(Placed { message: row.get(0)?, part: Part::new(id, body), has_deltas: row.get(13)? })
}

/// Name of a role in the database.
pub(crate) fn role_of(message: &Message) -> String {
    match &message.info.role {
        Some(Role::User) => "user".into(),
        Some(Role::Assistant) => "assistant".into(),
        Some(Role::System) => "system".into(),
        Some(other) => other.name().to_owned(),
        None => String::new(),
    }
}

/// Returns a message without its parts, as JSON.
pub(crate) fn info_json(message: &Message) -> Result<String, StoreError> {
    let bare = Message { parts: Shared::default(), ..message.clone() };
    Ok(serde_json::to_string(&bare)?)
}

/// Parses a message from its JSON and its id.
pub(crate) fn message_of(json: &str, id: &str) -> Result<Message, StoreError> {
    let mut message: Message = serde_json::from_str(json)
        .map_err(StoreError::from)
        .map_err(StoreError::damaged(|| format!("message `{id}`")))?;
    message.info.id = MessageId::new(id);
    Ok(message)
}

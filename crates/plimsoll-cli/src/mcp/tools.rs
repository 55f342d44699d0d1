//! The tools of the MCP server, apart from the protocol.

use std::fmt::Write as _;
use std::sync::Arc;

use plimsoll::pivot::Visible;
use plimsoll::recall::{Lookup, RecallQuery, RecallTool};
use plimsoll::redact::redact;
use plimsoll::{Block, Counter, Message, Part, PartBody, Policy, Tokens, Window};
use plimsoll_import::{Extent, transcript};
use plimsoll_session::look_up;
use plimsoll_store::{Session, StoreError};
use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Map, Value, json};

use crate::args::PolicyArgs;
use crate::config::Config;
use crate::error::CliError;
use crate::store::Opened;
use crate::surroundings::Surroundings;

/// So many things are listed at once at most.
const LISTED: usize = 50;
/// So much is shown of what a thing is.
const SHOWN: usize = 80;
/// No answer is longer, whatever a policy allows.
const MOST_BYTES: usize = 200_000;

/// A call of a tool.
pub(super) struct Call {
    pub(super) tool: String,
    pub(super) arguments: Map<String, Value>,
    /// The session it is about if it names none.
    pub(super) session: Option<String>,
}

/// What a tool answers.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) text: String,
    /// The call was right, and the answer is that there is nothing.
    pub(super) is_error: bool,
}

/// Why a call is not answered.
#[derive(Debug)]
pub(super) enum Refusal {
    /// It was asked wrongly.
    Asked(String),
    /// Something failed here.
    Failed(String),
}

impl From<CliError> for Refusal {
    fn from(error: CliError) -> Refusal {
        if error.is_usage() { Refusal::Asked(error.plain()) } else { Refusal::Failed(error.plain()) }
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Refusal {
        CliError::from(error).into()
    }
}

/// The tools as a client is told of them.
pub(super) fn declared() -> Vec<Tool> {
    let session = json!({ "type": "string", "description": "The stored session, by its id or the beginning of it; \
        the newest of the working directory if left out." });
    let recall = RecallTool::new(&Policy::default().recall);
    let mut schema = recall.input_schema;
    schema["properties"]["session"] = session.clone();
    let only_session =
        json!({ "type": "object", "properties": { "session": session }, "additionalProperties": false });
    let mut listing = only_session.clone();
    listing["properties"]["after"] = json!({ "type": "integer", "minimum": 0,
        "description": "Leave out so many; an answer that is not the whole list says how many." });
    let tool = |name: &'static str, description: String, schema: Value| {
        let schema = schema.as_object().cloned().unwrap_or_default();
        Tool::new(name, description, Arc::new(schema)).annotate(ToolAnnotations::new().read_only(true))
    };
    vec![
        tool(recall.name, recall.description, schema),
        tool(
            "list_recallable",
            format!(
                "Lists what has left the conversation and can be brought back with `recall`: messages behind a summary, \
                 tool outputs that were cleared, cut or kept whole elsewhere, each with its handle, newest first, at \
                 most {LISTED} at once."
            ),
            listing,
        ),
        tool(
            "inspect_session",
            "Tells which stored session is looked at, how large its window is, and what takes the room in it.".to_owned(),
            only_session,
        ),
    ]
}

impl Call {
    /// Answer the call.
    pub(super) fn answer(mut self, around: &Surroundings) -> Result<Answer, Refusal> {
        let known = declared();
        let Some(tool) = known.iter().find(|tool| tool.name == self.tool) else {
            let names: Vec<&str> = known.iter().map(|tool| tool.name.as_ref()).collect();
            return Err(Refusal::Asked(format!(
                "there is no tool `{}`; there are {}",
                self.tool,
                names.join(", ")
            )));
        };
        let fields = tool.input_schema.get("properties").and_then(Value::as_object);
        if let Some(unknown) =
            self.arguments.keys().find(|key| fields.is_some_and(|all| !all.contains_key(*key)))
        {
            return Err(Refusal::Asked(format!("`{}` has no argument `{unknown}`", self.tool)));
        }
        let named = match self.arguments.remove("session") {
            None | Some(Value::Null) => self.session.clone(),
            Some(Value::String(id)) if !id.trim().is_empty() => Some(id),
            Some(_) => return Err(Refusal::Asked("`session` must be the id of a session".to_owned())),
        };
        let config = Config::load(&PolicyArgs::default(), around)?;
        let opened = Opened::existing(&config, around)?;
        let session = opened.chosen(named.as_deref(), around)?;
        let mut answer = match self.tool.as_str() {
            "recall" => self.recall(&opened, &session, &config.policy)?,
            "list_recallable" => self.list(&opened, &session)?,
            _ => inspect(&opened, &session, &config.policy)?,
        };
        answer.text = bounded(redact(&answer.text).text);
        Ok(answer)
    }

    fn recall(self, opened: &Opened, session: &Session, policy: &Policy) -> Result<Answer, Refusal> {
        let query = RecallQuery::parse(&Value::Object(self.arguments))
            .map_err(|error| Refusal::Asked(error.to_string()))?;
        let policy = &policy.recall;
        let found = match look_up(&opened.archive, &session.id, &query, policy) {
            Err(StoreError::Missing { .. }) if query.handle.is_some() => Lookup::Missing,
            Err(StoreError::Ambiguous { candidates, .. }) => {
                Lookup::Ambiguous(candidates.into_iter().map(|handle| (handle, String::new())).collect())
            }
            Err(error @ (StoreError::Expired { .. } | StoreError::Lost { .. })) => {
                Lookup::Gone(error.to_string())
            }
            other => other?,
        };
        let answer = query.answer(&found, policy);
        Ok(Answer { text: answer.text, is_error: answer.is_error })
    }

    fn list(&self, opened: &Opened, session: &Session) -> Result<Answer, Refusal> {
        let after = match self.arguments.get("after") {
            None | Some(Value::Null) => 0,
            Some(after) => after
                .as_u64()
                .and_then(|after| usize::try_from(after).ok())
                .ok_or_else(|| Refusal::Asked("`after` must be a whole number of zero or more".to_owned()))?,
        };
        let messages = transcript(opened.archive.store(), session, Extent::Whole)?.messages;
        let mut things = recallable(&messages);
        for spill in opened.spills(&session.id)?.iter().filter(|spill| spill.expired.is_none()) {
            things.push(format!(
                "{}  whole output of {}, {} bytes",
                spill.handle,
                spill.tool,
                Tokens(spill.bytes)
            ));
        }
        let all = things.len();
        let shown: Vec<String> = things.into_iter().skip(after).take(LISTED).collect();
        let mut text = match all {
            0 => format!("Nothing has left the window of `{}`.", session.id),
            _ => format!(
                "Out of the window of `{}`: {} in all.\n{}",
                session.id,
                Tokens(all as u64),
                shown.join("\n")
            ),
        };
        let next = after.saturating_add(shown.len());
        if next < all && !shown.is_empty() {
            let _ = write!(text, "\n… {} more; go on with `after`: {next}", Tokens((all - next) as u64));
        }
        Ok(Answer { text, is_error: false })
    }
}

/// What is not in the window of a log, a line for each, newest first.
fn recallable(messages: &[Message]) -> Vec<String> {
    let visible = Visible::of(messages);
    let start = visible.pivot.map_or(0, |pivot| pivot.start());
    let mut lines: Vec<String> = Vec::new();
    for message in messages[start..].iter().rev() {
        lines.extend(message.parts.iter().rev().filter(|part| part.is_reduced()).map(told));
    }
    let behind = &messages[..start];
    if let (Some(first), Some(last)) = (behind.first(), behind.last()) {
        let count = plimsoll::Tokens(behind.len() as u64);
        lines.push(format!("{}..{}  {count} messages behind the summary", first.info.id, last.info.id));
        let outputs = behind.iter().rev().flat_map(|message| message.parts.iter().rev());
        lines.extend(outputs.filter(|part| part.as_tool().is_some()).map(told));
    }
    lines
}

fn told(part: &Part) -> String {
    let (what, about) = match &part.body {
        PartBody::Tool(tool) => {
            let chars = tool.state.result().map_or(0, |text| text.chars().0);
            let input = tool.state.input.as_ref().map(|input| input.json().as_str().to_owned());
            (format!("output of {}, {} characters", tool.tool, Tokens(chars)), input.unwrap_or_default())
        }
        PartBody::ToolResult(result) => {
            (format!("tool output, {} characters", Tokens(result.text.chars().0)), String::new())
        }
        PartBody::Text(text) => {
            (format!("text, {} characters", Tokens(text.text.chars().0)), text.text.as_str().to_owned())
        }
        PartBody::Reasoning(_) => ("thoughts".to_owned(), String::new()),
        PartBody::File(file) => ("file".to_owned(), file.filename.clone().unwrap_or_default()),
        _ => ("part".to_owned(), String::new()),
    };
    let about: String = about.chars().map(|c| if c.is_control() { ' ' } else { c }).take(SHOWN).collect();
    format!("{}  {what}{}{about}", part.id, if about.is_empty() { "" } else { ": " })
}

/// What is in the window, weighed by the policy's own counter.
fn inspect(opened: &Opened, session: &Session, policy: &Policy) -> Result<Answer, Refusal> {
    let messages = transcript(opened.archive.store(), session, Extent::InView)?.messages;
    let window = Window::of(&messages, policy);
    let mut kinds: [(&str, usize, Tokens); 5] =
        ["tool outputs", "tool inputs", "texts", "thoughts", "files"].map(|kind| (kind, 0, Tokens::ZERO));
    let mut cleared = 0;
    for block in window.messages.iter().flat_map(|message| &message.blocks) {
        let (kind, tokens) = match block {
            Block::Result { text, cleared: is_cleared, .. } => {
                cleared += usize::from(*is_cleared);
                (0, policy.count.count_text(text))
            }
            Block::Call { input, .. } | Block::Provider { value: input, .. } => {
                (1, policy.count.count_text(input.json()))
            }
            Block::Text { text, .. } => (2, policy.count.count_text(text)),
            Block::Reasoning { text, .. } => (3, policy.count.count_text(text)),
            Block::File { .. } => (4, policy.count.file_tokens()),
        };
        kinds[kind].1 += 1;
        kinds[kind].2 += tokens;
    }
    let all = kinds.iter().fold(Tokens::ZERO, |sum, (_, _, tokens)| sum + *tokens);
    let mut text = format!("session {}", session.id);
    for (name, value) in [
        ("title", Some(&session.title)),
        ("directory", session.directory.as_ref()),
        ("model", session.model.as_ref()),
    ] {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            let _ = write!(text, "\n{name}: {value}");
        }
    }
    let _ = write!(
        text,
        "\n{} messages stored, {} in the window, about {all} tokens, {cleared} outputs cleared{}",
        Tokens(session.messages),
        window.messages.len(),
        if window.pivot.is_some() { ", a summary at the beginning" } else { "" }
    );
    kinds.sort_by_key(|(_, _, tokens)| std::cmp::Reverse(*tokens));
    for (kind, count, tokens) in kinds.iter().filter(|(_, count, _)| *count > 0) {
        let _ = write!(text, "\n{tokens} tokens: {} {kind}", Tokens(*count as u64));
    }
    Ok(Answer { text, is_error: false })
}

/// An answer that is not longer than a client can be expected to take.
fn bounded(mut text: String) -> String {
    if text.len() > MOST_BYTES {
        let end = (0..=MOST_BYTES).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push_str("\n[cut; ask for fewer lines]");
    }
    text
}

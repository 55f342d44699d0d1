//! The three read-only tools of the MCP server, without the protocol.
//!
//! Answers are limited in size, and known secrets are redacted, because the model that reads them is unknown. The database and
//! the client's session are opened for each call, so that new content is included and no file stays open.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use plimsoll::policy::RecallPolicy;
use plimsoll::recall::{Lookup, RecallContent, RecallQuery, RecallTool};
use plimsoll::redact::redact;
use plimsoll::{Message, Part, PartBody, Policy, Tokens, VisibleRange};
use plimsoll_config::Flags;
use plimsoll_import::{Extent, KeptCounts, transcript};
use plimsoll_session::{ContentKind, Share, look_up};
use plimsoll_store::StoreError;
use serde_json::{Map, Value, json};

use super::client::McpClient;
use super::subject::Subject;
use crate::config::HostConfig;
use crate::error::{ErrorKind, HostError};
use crate::host::Host;
use crate::inspect::weigh_window;
use crate::words::counted;

/// Maximum number of entries per answer.
const LISTED: usize = 50;
/// Maximum number of characters of a description.
const SHOWN: usize = 80;
/// Maximum length of an answer in bytes, even if a policy allows more.
const MAX_BYTES: usize = 200_000;

/// Declaration of a tool.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct McpTool {
    /// Name.
    pub name: &'static str,
    /// Description for the model.
    pub description: String,
    /// JSON schema of its input.
    pub input_schema: Map<String, Value>,
}

/// A call of a tool.
pub struct McpCall {
    /// The tool.
    pub tool: String,
    /// Arguments.
    pub arguments: Map<String, Value>,
    /// Default session for calls that name none.
    pub session: Option<String>,
    /// The client.
    pub client: McpClient,
}

/// The answer to a call.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct McpAnswer {
    /// The text.
    pub text: String,
    /// Whether the call was valid but found nothing.
    pub is_error: bool,
}

/// Error of a call.
#[derive(Clone, Debug)]
pub enum McpRefusal {
    /// The call is invalid.
    Invalid(String),
    /// Something failed.
    Failed(String),
}

impl From<HostError> for McpRefusal {
    fn from(error: HostError) -> McpRefusal {
        match error.kind() {
            ErrorKind::Usage => McpRefusal::Invalid(error.one_line()),
            ErrorKind::Negative | ErrorKind::Failure => McpRefusal::Failed(error.one_line()),
        }
    }
}

impl From<StoreError> for McpRefusal {
    fn from(error: StoreError) -> McpRefusal {
        HostError::from(error).into()
    }
}

/// Returns the declarations of the tools.
pub fn mcp_tools() -> Vec<McpTool> {
    let session = json!({ "type": "string", "description": "Session id or prefix. Defaults to the \
        current session of the working directory, including the stored session that it was handed over from, or else the \
        newest stored session of the directory." });
    let recall = RecallTool::new(&Policy::default().recall);
    let mut schema = recall.input_schema;
    schema["properties"]["session"] = session.clone();
    let only_session =
        json!({ "type": "object", "properties": { "session": session }, "additionalProperties": false });
    let mut listing = only_session.clone();
    listing["properties"]["after"] = json!({ "type": "integer", "minimum": 0,
        "description": "Number of entries to skip. A truncated list reports the value for the next page." });
    let tool = |name: &'static str, description: String, schema: Value| {
        let input_schema = schema.as_object().cloned().unwrap_or_default();
        McpTool { name, description, input_schema }
    };
    vec![
        tool(recall.name, recall.description, schema),
        tool(
            "list_recallable",
            format!(
                "Lists content that left the conversation and can be retrieved with `recall`: messages replaced by a summary, \
                 and cleared, truncated or spilled tool outputs. Returns a handle for each, newest first, at most \
                 {LISTED} per call."
            ),
            listing,
        ),
        tool(
            "inspect_session",
            "Returns the current session, the size of its context window, and what fills it.".to_owned(),
            only_session,
        ),
    ]
}

impl McpCall {
    /// Answers the call.
    pub fn answer(mut self, host: &Host) -> Result<McpAnswer, McpRefusal> {
        let known = mcp_tools();
        let Some(tool) = known.iter().find(|tool| tool.name == self.tool) else {
            let names: Vec<&str> = known.iter().map(|tool| tool.name).collect();
            return Err(McpRefusal::Invalid(format!(
                "unknown tool `{}` (available: {})",
                self.tool,
                names.join(", ")
            )));
        };
        let fields = tool.input_schema.get("properties").and_then(Value::as_object);
        if let Some(unknown) =
            self.arguments.keys().find(|key| fields.is_some_and(|all| !all.contains_key(*key)))
        {
            return Err(McpRefusal::Invalid(format!("unknown argument `{unknown}` for `{}`", self.tool)));
        }
        let named = match self.arguments.remove("session") {
            None | Some(Value::Null) => self.session.clone(),
            Some(Value::String(id)) if !id.trim().is_empty() => Some(id),
            Some(_) => return Err(McpRefusal::Invalid("`session` must be a session id".to_owned())),
        };
        let config = host.config(&Flags::default())?;
        let subjects = Subject::all(named.as_deref(), &self.client, &config, host)?;
        let mut answer = match self.tool.as_str() {
            "recall" => self.recall(&subjects, named.is_none(), &config, host)?,
            "list_recallable" => self.list(&subjects)?,
            _ => inspect(&subjects, &config)?,
        };
        answer.text = bounded(redact(&answer.text).text);
        Ok(answer)
    }

    /// Answers from the first session that has a result. A handle is also looked up in all stored sessions if the call names
    /// none, because a handed-over session shows handles of its original.
    fn recall(
        self,
        subjects: &[Subject],
        is_anywhere: bool,
        config: &HostConfig,
        host: &Host,
    ) -> Result<McpAnswer, McpRefusal> {
        let query = RecallQuery::parse(&Value::Object(self.arguments))
            .map_err(|error| McpRefusal::Invalid(error.to_string()))?;
        let policy = &config.policy.recall;
        let is_something = |found: &Lookup| match found {
            Lookup::Searched(contents) => !contents.is_empty(),
            Lookup::Missing => false,
            _ => true,
        };
        let mut found = Lookup::Missing;
        for subject in subjects {
            found = found_in(subject, &query, policy)?;
            if is_something(&found) {
                break;
            }
        }
        if let (false, true, Some(handle)) = (is_something(&found), is_anywhere, &query.handle)
            && let Some(owner) = Subject::with_handle(handle, config, host)?
        {
            found = found_in(&owner, &query, policy)?;
        }
        let answer = query.answer(&found, policy);
        Ok(McpAnswer { text: answer.text, is_error: answer.is_error })
    }

    fn list(&self, subjects: &[Subject]) -> Result<McpAnswer, McpRefusal> {
        let after = match self.arguments.get("after") {
            None | Some(Value::Null) => 0,
            Some(after) => after
                .as_u64()
                .and_then(|after| usize::try_from(after).ok())
                .ok_or_else(|| McpRefusal::Invalid("`after` must be a non-negative integer".to_owned()))?,
        };
        let (mut entries, mut sums) = (Vec::new(), Vec::new());
        for Subject { opened, session, cleared_in_copy, .. } in subjects {
            let before = entries.len();
            let messages = transcript(opened.archive.store(), session, Extent::Whole)?.messages;
            entries.extend(recallable(&messages, cleared_in_copy));
            for spill in opened.spills(&session.id)?.iter().filter(|spill| spill.expired.is_none()) {
                let (handle, tool) = (&spill.handle, &spill.tool);
                entries.push(format!("{handle}  full output of {tool}, {} bytes", Tokens(spill.bytes)));
            }
            sums.push((&session.id, entries.len() - before));
        }
        let all = entries.len();
        let shown: Vec<String> = entries.into_iter().skip(after).take(LISTED).collect();
        let mut text = if all == 0 {
            let names: Vec<String> = sums.iter().map(|(id, _)| format!("`{id}`")).collect();
            format!("No content has left the window of {}.", names.join(" or "))
        } else {
            let sums = sums.iter().filter(|(_, count)| *count > 0);
            let sums: Vec<String> =
                sums.map(|(id, count)| format!("{} of `{id}`", Tokens(*count as u64))).collect();
            format!("Outside the window: {}.\n{}", sums.join(", "), shown.join("\n"))
        };
        let next = after.saturating_add(shown.len());
        if next < all && !shown.is_empty() {
            let _ = write!(text, "\n… {} more; continue with `after`: {next}", Tokens((all - next) as u64));
        }
        Ok(McpAnswer { text, is_error: false })
    }
}

/// Looks up a query in a session. No match is a result, not an error.
fn found_in(subject: &Subject, query: &RecallQuery, policy: &RecallPolicy) -> Result<Lookup, McpRefusal> {
    match look_up(&subject.opened.archive, &subject.session.id, query, policy) {
        Err(StoreError::Missing { .. }) if query.handle.is_some() => Ok(Lookup::Missing),
        Err(StoreError::Ambiguous { candidates, .. }) => {
            let handles = candidates.into_iter().map(|handle| (handle, String::new()));
            Ok(Lookup::Ambiguous(handles.collect()))
        }
        Err(error @ (StoreError::Expired { .. } | StoreError::Lost { .. })) => {
            Ok(Lookup::Gone(error.to_string()))
        }
        Ok(Lookup::Searched(mut contents)) if query.handle.is_none() => {
            search_cleared_in_copy(subject, query, policy, &mut contents)?;
            Ok(Lookup::Searched(contents))
        }
        other => Ok(other?),
    }
}

/// Adds matches in outputs that only the client's copy has cleared. The store does not search these, because they are still in
/// the window of the stored original.
fn search_cleared_in_copy(
    subject: &Subject,
    query: &RecallQuery,
    policy: &RecallPolicy,
    contents: &mut Vec<RecallContent>,
) -> Result<(), McpRefusal> {
    let matches = |content: &RecallContent| content.excerpt.as_ref().map_or(0, |excerpt| excerpt.matches);
    let most = query.limit.unwrap_or(policy.max_matches).min(policy.max_matches);
    let mut count: u64 = contents.iter().map(matches).sum();
    for handle in &subject.cleared_in_copy {
        if contents.iter().any(|content| content.handle == *handle) {
            continue;
        }
        if count > most {
            // There may be further matches.
            if let Some(last) = contents.pop() {
                contents.push(last.ends_search());
            }
            break;
        }
        let one = RecallQuery { handle: Some(handle.clone()), ..query.clone() };
        if let Lookup::Found(content) = found_in(subject, &one, policy)?
            && matches(&content) > 0
        {
            count += matches(&content);
            contents.push(content);
        }
    }
    Ok(())
}

/// Lists content outside the window of a log, and content that a copy of it has cleared, newest first.
fn recallable(messages: &[Message], cleared_in_copy: &BTreeSet<String>) -> Vec<String> {
    let visible = VisibleRange::of(messages);
    let start = visible.pivot.map_or(0, |pivot| pivot.start());
    let mut lines: Vec<String> = Vec::new();
    for message in messages[start..].iter().rev() {
        let is_outside = |part: &&Part| part.is_reduced() || cleared_in_copy.contains(part.id.as_str());
        let reduced = message.parts.iter().rev().filter(is_outside);
        lines.extend(reduced.map(|part| format_part(message, part)));
    }
    let replaced = &messages[..start];
    if let (Some(first), Some(last)) = (replaced.first(), replaced.last()) {
        let count = plimsoll::Tokens(replaced.len() as u64);
        lines.push(format!("{}..{}  {count} messages replaced by the summary", first.info.id, last.info.id));
        for message in replaced.iter().rev() {
            let outputs = message.parts.iter().rev().filter(|part| part.as_tool().is_some());
            lines.extend(outputs.map(|part| format_part(message, part)));
        }
    }
    lines
}

fn format_part(message: &Message, part: &Part) -> String {
    let kind = ContentKind::of_part(message, part).label();
    let (what, about) = match &part.body {
        PartBody::Tool(tool) => {
            let chars = tool.state.result().map_or(0, |text| text.chars().0);
            let input = tool.state.input.as_ref().map(|input| input.json().as_str().to_owned());
            (format!("output of {}, {} characters", tool.tool, Tokens(chars)), input.unwrap_or_default())
        }
        PartBody::ToolResult(result) => {
            (format!("{kind}, {} characters", Tokens(result.text.chars().0)), String::new())
        }
        PartBody::Text(text) => {
            (format!("{kind}, {} characters", Tokens(text.text.chars().0)), text.text.as_str().to_owned())
        }
        PartBody::File(file) => (kind.to_owned(), file.filename.clone().unwrap_or_default()),
        _ => (kind.to_owned(), String::new()),
    };
    let about: String = about.chars().map(|c| if c.is_control() { ' ' } else { c }).take(SHOWN).collect();
    format!("{}  {what}{}{about}", part.id, if about.is_empty() { "" } else { ": " })
}

/// Describes the window of the first session, and names the others.
fn inspect(subjects: &[Subject], config: &HostConfig) -> Result<McpAnswer, McpRefusal> {
    let Some((Subject { opened, session, writer, .. }, others)) = subjects.split_first() else {
        return Err(McpRefusal::Failed("no session to inspect".to_owned()));
    };
    // Including messages that a summary replaces: their recorded usage calibrates the estimate.
    let mut transcript = transcript(opened.archive.store(), session, Extent::Whole)?;
    if *writer == Some(plimsoll_import::Tool::ClaudeCode) {
        // The in-memory copy does not record which tool wrote it, but the size of the window depends on the tool.
        transcript.format = plimsoll_formats::Format::ClaudeCode;
    }
    let _counts = KeptCounts::new(&opened.archive, &session.id, &transcript.messages);
    let (report, _, limits) = weigh_window(transcript, config, None);
    let fullness = report.percent().zip(report.line);
    let fullness = fullness.map(|(percent, line)| {
        format!(", {percent} % of the line at {line} in a window of {}", limits.context)
    });
    let mut text = format!("session {}", session.id);
    if let Some(tool) = writer {
        let _ = write!(text, " of {}, not stored", tool.name());
    }
    for (name, value) in [
        ("title", Some(&session.title)),
        ("directory", session.directory.as_ref()),
        ("model", session.model.as_ref()),
    ] {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            let _ = write!(text, "\n{name}: {value}");
        }
    }
    // A call and its result are one message of the session, but two of a request.
    let _ = write!(
        text,
        "\n{}{}; as a request the window has {}, about {} tokens{}, {} cleared{}",
        counted(usize::try_from(session.messages).unwrap_or(usize::MAX), "message"),
        if writer.is_none() { " stored" } else { " in the session" },
        counted(report.request_messages, "message"),
        report.window,
        fullness.unwrap_or_default(),
        counted(usize::try_from(report.cleared()).unwrap_or(usize::MAX), "output"),
        if report.has_summary { ", a summary at the beginning" } else { "" }
    );
    for Share { name, count, tokens, .. } in report.kinds() {
        let _ = write!(text, "\n{tokens} tokens: {count} × {name}");
    }
    for other in others {
        let what = if other.is_origin { "handed over from" } else { "stored for this directory" };
        let _ = write!(text, "\n{what}: `{}`, {}", other.session.id, other.session.title);
    }
    Ok(McpAnswer { text, is_error: false })
}

/// Truncates an answer to a length that clients can handle.
fn bounded(mut text: String) -> String {
    if text.len() > MAX_BYTES {
        let end = (0..=MAX_BYTES).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push_str("\n[truncated; request fewer lines]");
    }
    text
}

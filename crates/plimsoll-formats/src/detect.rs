//! Detects a format by its content.

use std::borrow::Cow;

use crate::format::Format;
use crate::json::{Json, Take};
use crate::signs;

/// First bytes of every SQLite database.
const SQLITE: &[u8] = b"SQLite format 3\0";

impl Format {
    /// Returns the format of a value: a whole document, or a record of a line format.
    pub(crate) fn of(value: &Json) -> Option<Format> {
        match value {
            Json::List(items) => signs::of_list(items).or_else(|| Format::of_list(items)),
            // A tool's own fields are checked first: its records may also look like messages of a chat.
            Json::Object(_) => signs::of_object(value)
                .or_else(|| Format::of_document(value))
                .or_else(|| Format::of_record(value)),
            _ => None,
        }
    }

    fn of_list(items: &[Json]) -> Option<Format> {
        let first = items.first()?;
        if first.get("info").is_some() || first.get("parts").is_some() {
            return Some(Format::OpencodeMessages);
        }
        first.get("role")?.as_str()?;
        let is_anthropic = items.iter().any(speaks_anthropic);
        Some(if is_anthropic { Format::AnthropicMessages } else { Format::OpenaiChat })
    }

    fn of_document(value: &Json) -> Option<Format> {
        let has = |key: &str| value.get(key).is_some();
        // A message on its own line.
        if is_chat_message(value) {
            return Format::of_list(std::slice::from_ref(value));
        }
        let list = |key: &str| value.get(key).and_then(Json::as_list);
        if list("trajectory").is_some() || list("history").is_some() {
            return Some(Format::SweAgent);
        }
        let tools = list("tools").and_then(|tools| tools.first());
        let is_anthropic = has("system")
            || has("anthropic_version")
            || has("stop_sequences")
            || tools.is_some_and(|tool| tool.get("input_schema").is_some())
            || value.text("model").is_some_and(|model| model.starts_with("claude"));
        let Some(messages) = list("messages") else {
            // A request whose beginning is so long that its messages are not visible yet.
            let is_request = has("model") || has("max_tokens");
            let is_openai = tools.is_some_and(|tool| tool.get("function").is_some());
            return match (is_anthropic, is_openai) {
                (true, _) => is_request.then_some(Format::AnthropicMessages),
                (_, true) => is_request.then_some(Format::OpenaiChat),
                _ => None,
            };
        };
        let first = messages.first();
        let is_log = first.is_some_and(|first| first.get("info").is_some() || first.get("parts").is_some());
        if is_log || (first.is_none() && has("info")) {
            return Some(Format::OpencodeExport);
        }
        // The cheaper check first.
        let is_openai = messages.iter().any(speaks_openai);
        let is_anthropic = !is_openai && (is_anthropic || messages.iter().any(speaks_anthropic));
        Some(if is_anthropic { Format::AnthropicMessages } else { Format::OpenaiChat })
    }

    fn of_record(value: &Json) -> Option<Format> {
        let has = |key: &str| value.get(key).is_some();
        let kind = value.text("type");
        if has("parentUuid")
            || has("leafUuid")
            || (kind.is_some() && has("sessionId"))
            || kind == Some("file-history-snapshot")
        {
            return Some(Format::ClaudeCode);
        }
        if (kind.is_some() && has("payload")) || has("record_type") {
            return Some(Format::Codex);
        }
        match kind {
            Some("session") if has("cwd") || has("id") => Some(Format::Pi),
            Some("message") if value.get("message").is_some_and(|message| message.get("role").is_some()) => {
                Some(Format::Pi)
            }
            Some("message") if has("role") && has("content") => Some(Format::Codex),
            Some("reasoning") if has("summary") => Some(Format::Codex),
            Some("function_call" | "function_call_output" | "custom_tool_call" | "local_shell_call") => {
                Some(Format::Codex)
            }
            None if has("id") && has("timestamp") && (has("instructions") || has("git")) => {
                Some(Format::Codex)
            }
            _ => None,
        }
    }
}

/// Whether this is only a message of a chat: records of other tools have a role, too.
fn is_chat_message(value: &Json) -> bool {
    const ROLES: [&str; 6] = ["user", "assistant", "system", "developer", "tool", "function"];
    let has = |key: &str| value.get(key).is_some();
    value.text("role").is_some_and(|role| ROLES.contains(&role) || role.contains("-subagent"))
        && (has("content") || has("tool_calls"))
        && !["type", "kind", "messages"].iter().any(|key| has(key))
}

fn speaks_openai(message: &Json) -> bool {
    matches!(message.text("role"), Some("tool" | "developer" | "system" | "function"))
        || message.get("tool_calls").is_some()
        || message.get("tool_call_id").is_some()
}

fn speaks_anthropic(message: &Json) -> bool {
    if speaks_openai(message) {
        return false;
    }
    match message.get("content") {
        Some(Json::List(blocks)) => blocks.iter().any(is_anthropic),
        Some(Json::Raw(raw)) if raw.starts_with('[') => {
            let kinds = Json::parse_some(raw, |_, depth, key| match key {
                "type" if depth == 0 => Take::Whole,
                "source" if depth == 0 => Take::Raw,
                _ => Take::Skip,
            });
            kinds.is_ok_and(|blocks| blocks.as_list().unwrap_or_default().iter().any(is_anthropic))
        }
        _ => false,
    }
}

/// Whether only Anthropic writes such blocks.
fn is_anthropic(block: &Json) -> bool {
    match block.text("type") {
        Some("tool_use" | "tool_result" | "thinking" | "redacted_thinking") => true,
        Some("image" | "document") => block.get("source").is_some(),
        _ => false,
    }
}

/// Whether a file with this beginning is a SQLite database.
pub(crate) fn is_sqlite(beginning: &[u8]) -> bool {
    beginning.starts_with(SQLITE)
}

/// Detects the format of a transcript by its first bytes. About ten thousand are enough.
///
/// ```
/// use plimsoll_formats::{Format, detect};
/// assert_eq!(detect(br#"{"type":"session_meta","payload":{"id":"7"#), Some(Format::Codex));
/// assert_eq!(detect(b"hello"), None);
/// ```
pub fn detect(beginning: &[u8]) -> Option<Format> {
    // The tables show whose database it is; see `database`.
    if is_sqlite(beginning) {
        return Some(Format::OpencodeDatabase);
    }
    let beginning = beginning.strip_prefix(b"\xef\xbb\xbf").unwrap_or(beginning);
    // A document may span lines, so the first value is tried before the lines. All lines are tried, because the first
    // may be broken or of an unknown kind.
    let format = |text| Format::of(&Json::parse(&first_value(text)?).ok()?);
    let lines = || beginning.split(|byte| *byte == b'\n').take(200);
    match format(beginning).or_else(|| lines().find_map(format)) {
        // Kimi's context consists of messages of a chat and a few other records, which need not come first.
        Some(Format::OpenaiChat) if lines().any(|line| format(line) == Some(Format::Kimi)) => {
            Some(Format::Kimi)
        }
        None if signs::is_aider(beginning) => Some(Format::Aider),
        found => found,
    }
}

/// Returns the first JSON value in `text`. A truncated value is closed after its last complete element.
pub(crate) fn first_value(text: &[u8]) -> Option<Cow<'_, str>> {
    let text = text.trim_ascii_start();
    if !matches!(text.first(), Some(b'{' | b'[')) {
        return None;
    }
    let mut closers: Vec<u8> = Vec::new();
    let mut whole: (usize, Vec<u8>) = (0, Vec::new());
    let (mut in_string, mut escaped) = (false, false);
    for (at, &byte) in text.iter().enumerate() {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => {
                closers.push(if byte == b'{' { b'}' } else { b']' });
                // Deeper than any format requires, and deeper than the parser goes.
                if closers.len() > 100 {
                    break;
                }
                whole = (at + 1, closers.clone());
            }
            b'}' | b']' => {
                closers.pop();
                if closers.is_empty() {
                    return std::str::from_utf8(&text[..=at]).ok().map(Cow::Borrowed);
                }
            }
            b',' => whole = (at, closers.clone()),
            _ => {}
        }
    }
    let (end, closers) = whole;
    let mut closed = text[..end].to_vec();
    closed.extend(closers.iter().rev());
    String::from_utf8(closed).ok().map(Cow::Owned)
}

//! The formats, and how to tell them apart by their content.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::json::{Json, Take};
use crate::signs;

/// How every SQLite database begins.
const SQLITE: &[u8] = b"SQLite format 3\0";

/// A format of transcripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "&'static str", try_from = "String")]
#[non_exhaustive]
pub enum Format {
    /// What `opencode export` writes: `{ info, messages }`.
    OpencodeExport,
    /// The list that OpenCode's `GET /session/{id}/message` answers with: `[{ info, parts }]`.
    OpencodeMessages,
    /// OpenCode's own SQLite database, `opencode.db`; see [`database`](crate::database).
    OpencodeDatabase,
    /// Claude Code's JSONL under `~/.claude/projects`.
    ClaudeCode,
    /// Codex' rollout JSONL under `~/.codex/sessions`, wrapped or in the older bare form.
    Codex,
    /// pi's JSONL under `~/.pi/agent/sessions`.
    Pi,
    /// SWE-agent's `.traj`.
    SweAgent,
    /// Messages of OpenAI's chat completions: a list, or an object with `messages`.
    OpenaiChat,
    /// A request to Anthropic's Messages API.
    AnthropicMessages,
    /// Gemini CLI's chats under `~/.gemini/tmp`: JSONL, or one document in older versions.
    GeminiCli,
    /// goose's sessions: its database, the JSONL of older versions, or what `goose session export` writes.
    Goose,
    /// Cline's and Roo's `api_conversation_history.json`, and Cline's newer `*.messages.json`.
    Cline,
    /// OpenHands' events: a list, JSONL, or the output of an evaluation.
    Openhands,
    /// Kimi's `wire.jsonl` and `context.jsonl`.
    Kimi,
    /// Events of Anthropic's Managed Agents, a line each.
    ManagedAgents,
    /// Trae agent's trajectories.
    Trae,
    /// aider's `.aider.chat.history.md`.
    Aider,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 17] = [
        Format::OpencodeExport,
        Format::OpencodeMessages,
        Format::OpencodeDatabase,
        Format::ClaudeCode,
        Format::Codex,
        Format::Pi,
        Format::SweAgent,
        Format::OpenaiChat,
        Format::AnthropicMessages,
        Format::GeminiCli,
        Format::Goose,
        Format::Cline,
        Format::Openhands,
        Format::Kimi,
        Format::ManagedAgents,
        Format::Trae,
        Format::Aider,
    ];

    /// The format's name on the command line and in messages.
    pub fn name(self) -> &'static str {
        match self {
            Format::OpencodeExport => "opencode-export",
            Format::OpencodeMessages => "opencode-messages",
            Format::OpencodeDatabase => "opencode-db",
            Format::ClaudeCode => "claude-code",
            Format::Codex => "codex",
            Format::Pi => "pi",
            Format::SweAgent => "swe-agent",
            Format::OpenaiChat => "openai-chat",
            Format::AnthropicMessages => "anthropic-messages",
            Format::GeminiCli => "gemini-cli",
            Format::Goose => "goose",
            Format::Cline => "cline",
            Format::Openhands => "openhands",
            Format::Kimi => "kimi",
            Format::ManagedAgents => "managed-agents",
            Format::Trae => "trae",
            Format::Aider => "aider",
        }
    }

    /// Whether it is written line by line, so that it can be read while it grows.
    pub fn is_lines(self) -> bool {
        matches!(self, Format::ClaudeCode | Format::Codex | Format::Pi | Format::Kimi | Format::ManagedAgents)
    }

    pub(crate) fn names() -> String {
        Format::ALL.map(Format::name).join(", ")
    }

    /// The format a value belongs to: a whole document, or one record of a line format.
    pub(crate) fn of(value: &Json) -> Option<Format> {
        match value {
            Json::List(items) => signs::of_list(items).or_else(|| Format::of_list(items)),
            // The tools' own fields are looked for first: their records may also look like messages of a chat.
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
        // A message on a line of its own.
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
            // A request whose beginning is so long that its messages are not in sight.
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
        // The cheaper question first.
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

/// Whether this is a message of a chat and nothing else: records of other tools name a role, too.
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

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is no format's.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is no format `{name}`; known are: {}", Format::names())]
pub struct UnknownFormat {
    /// The name.
    pub name: String,
}

impl From<Format> for &'static str {
    fn from(format: Format) -> &'static str {
        format.name()
    }
}

impl TryFrom<String> for Format {
    type Error = UnknownFormat;

    fn try_from(name: String) -> Result<Format, UnknownFormat> {
        name.parse()
    }
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Format, UnknownFormat> {
        let wanted = name.to_ascii_lowercase().replace('_', "-");
        let short = match wanted.as_str() {
            "opencode" => Some(Format::OpencodeExport),
            "claude" => Some(Format::ClaudeCode),
            "traj" => Some(Format::SweAgent),
            "openai" => Some(Format::OpenaiChat),
            "anthropic" => Some(Format::AnthropicMessages),
            "gemini" => Some(Format::GeminiCli),
            "roo" | "roo-code" => Some(Format::Cline),
            _ => None,
        };
        let full = Format::ALL.into_iter().find(|format| format.name() == wanted);
        full.or(short).ok_or_else(|| UnknownFormat { name: name.to_owned() })
    }
}

/// Whether a file that begins with these bytes is a SQLite database.
pub(crate) fn is_sqlite(beginning: &[u8]) -> bool {
    beginning.starts_with(SQLITE)
}

/// The format of a transcript that begins with these bytes; some ten thousand are enough, fewer often do.
///
/// ```
/// use plimsoll_formats::{Format, detect};
/// assert_eq!(detect(br#"{"type":"session_meta","payload":{"id":"7"#), Some(Format::Codex));
/// assert_eq!(detect(b"hello"), None);
/// ```
pub fn detect(beginning: &[u8]) -> Option<Format> {
    // Whose database it is, its tables tell; see `database`.
    if is_sqlite(beginning) {
        return Some(Format::OpencodeDatabase);
    }
    let beginning = beginning.strip_prefix(b"\xef\xbb\xbf").unwrap_or(beginning);
    // A document may span lines, so the first value is tried before the lines are; and lines are tried one by
    // one, because the first of them may be broken or of an unknown kind.
    let format = |text| Format::of(&Json::parse(&first_value(text)?).ok()?);
    let lines = || beginning.split(|byte| *byte == b'\n').take(200);
    match format(beginning).or_else(|| lines().find_map(format)) {
        // The context of Kimi is messages of a chat but for a few records, which need not come first.
        Some(Format::OpenaiChat) if lines().any(|line| format(line) == Some(Format::Kimi)) => {
            Some(Format::Kimi)
        }
        None if signs::is_aider(beginning) => Some(Format::Aider),
        found => found,
    }
}

/// The first JSON value in `text`. If it is not there to its end, what is there is closed behind the last
/// element that is complete.
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
                // Deeper than any format looks, and deeper than the parser goes.
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

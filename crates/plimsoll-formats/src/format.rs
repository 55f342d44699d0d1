//! The formats, by name.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A format of transcripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "&'static str", try_from = "String")]
#[non_exhaustive]
pub enum Format {
    /// Output of `opencode export`: `{ info, messages }`.
    OpencodeExport,
    /// Response of OpenCode's `GET /session/{id}/message`: `[{ info, parts }]`.
    OpencodeMessages,
    /// OpenCode's SQLite database, `opencode.db`; see the module `database`.
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
    /// goose's sessions: its database, the JSONL of older versions, or the output of `goose session export`.
    Goose,
    /// Cline's and Roo's `api_conversation_history.json`, and Cline's newer `*.messages.json`.
    Cline,
    /// OpenHands' events: a list, JSONL, or the output of an evaluation.
    Openhands,
    /// Kimi's `wire.jsonl` and `context.jsonl`.
    Kimi,
    /// Events of Anthropic's Managed Agents, one per line.
    ManagedAgents,
    /// Trae agent's trajectories.
    Trae,
    /// aider's `.aider.chat.history.md`.
    Aider,
}

impl Format {
    /// All formats.
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

    /// The formats that conversations can be written in.
    pub const WRITABLE: [Format; 4] =
        [Format::OpencodeExport, Format::OpencodeMessages, Format::OpenaiChat, Format::AnthropicMessages];

    /// Returns the name of the format on the command line and in messages.
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

    /// Whether the format is written line by line, so that it can be read while it grows.
    pub fn is_lines(self) -> bool {
        matches!(self, Format::ClaudeCode | Format::Codex | Format::Pi | Format::Kimi | Format::ManagedAgents)
    }

    pub(crate) fn names() -> String {
        Format::ALL.map(Format::name).join(", ")
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is not the name of a format.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown format `{name}`; known formats: {}", Format::names())]
#[non_exhaustive]
pub struct UnknownFormat {
    /// The unknown name.
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

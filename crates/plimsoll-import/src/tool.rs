//! Tools whose sessions are supported.

use serde::Serialize;

/// A tool whose sessions are supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tool {
    /// OpenCode.
    Opencode,
    /// Claude Code.
    ClaudeCode,
    /// Codex.
    Codex,
    /// pi.
    Pi,
    /// Gemini CLI.
    Gemini,
    /// goose.
    Goose,
    /// Cline and Roo.
    Cline,
    /// Kimi CLI and Kimi Code.
    Kimi,
    /// Plimsoll itself.
    Plimsoll,
}

impl Tool {
    /// All tools.
    pub const ALL: [Tool; 9] = [
        Tool::Opencode,
        Tool::ClaudeCode,
        Tool::Codex,
        Tool::Pi,
        Tool::Gemini,
        Tool::Goose,
        Tool::Cline,
        Tool::Kimi,
        Tool::Plimsoll,
    ];

    /// Display name.
    pub fn name(self) -> &'static str {
        match self {
            Tool::Opencode => "OpenCode",
            Tool::ClaudeCode => "Claude Code",
            Tool::Codex => "Codex",
            Tool::Pi => "pi",
            Tool::Gemini => "Gemini CLI",
            Tool::Goose => "goose",
            Tool::Cline => "Cline",
            Tool::Kimi => "Kimi",
            Tool::Plimsoll => "Plimsoll",
        }
    }

    /// Name in arguments and records.
    pub fn key(self) -> &'static str {
        match self {
            Tool::Opencode => "opencode",
            Tool::ClaudeCode => "claude-code",
            Tool::Codex => "codex",
            Tool::Pi => "pi",
            Tool::Gemini => "gemini-cli",
            Tool::Goose => "goose",
            Tool::Cline => "cline",
            Tool::Kimi => "kimi",
            Tool::Plimsoll => "plimsoll",
        }
    }
}

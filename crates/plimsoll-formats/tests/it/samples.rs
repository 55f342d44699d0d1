//! A small hand-written session of each tool, in each of the layouts of its versions.

use plimsoll_formats::Format;

/// All samples.
pub(crate) const ALL: [(Format, &str); 14] = [
    (Format::GeminiCli, GEMINI),
    (Format::GeminiCli, GEMINI_DOCUMENT),
    (Format::Goose, GOOSE),
    (Format::Goose, GOOSE_EXPORT),
    (Format::Cline, CLINE),
    (Format::Cline, ROO),
    (Format::Openhands, OPENHANDS),
    (Format::Openhands, OPENHANDS_RUNS),
    (Format::Openhands, OPENHANDS_KINDS),
    (Format::Kimi, KIMI),
    (Format::ManagedAgents, MANAGED_AGENTS),
    (Format::Trae, TRAE),
    (Format::Trae, TRAE_STEPS),
    (Format::Aider, AIDER),
];

/// Lines; a message is written again with more content, and a rewind removes one.
pub(crate) const GEMINI: &str = include_str!("../samples/gemini-cli.jsonl");

/// Format of older versions.
pub(crate) const GEMINI_DOCUMENT: &str = include_str!("../samples/gemini-cli-document.json");

/// A line with metadata and one per message; a compaction hides the messages before its summary.
pub(crate) const GOOSE: &str = include_str!("../samples/goose.jsonl");

/// Output of `goose session export`.
pub(crate) const GOOSE_EXPORT: &str = include_str!("../samples/goose-export.json");

/// A session of the newer format, with a mentioned file.
pub(crate) const CLINE: &str = include_str!("../samples/cline.messages.json");

/// `api_conversation_history.json`, with a summary of Roo.
pub(crate) const ROO: &str = include_str!("../samples/roo.json");

/// Events of versions before 1, one per line: two calls of one response, a condensation, and the end.
pub(crate) const OPENHANDS: &str = include_str!("../samples/openhands.jsonl");

/// Output of an evaluation: a run per line.
pub(crate) const OPENHANDS_RUNS: &str = include_str!("../samples/openhands-runs.jsonl");

/// Events since version 1, as a list.
pub(crate) const OPENHANDS_KINDS: &str = include_str!("../samples/openhands-kinds.json");

/// The three layouts in one file, which does not occur in practice: the wire log of Kimi CLI, the wire log of Kimi
/// Code, and the context of Kimi CLI.
pub(crate) const KIMI: &str = concat!(
    include_str!("../samples/kimi-wire.jsonl"),
    include_str!("../samples/kimi-code.jsonl"),
    include_str!("../samples/kimi-context.jsonl"),
);

/// Events as the API returns them, and wrapped in the records of a tool that collects them.
pub(crate) const MANAGED_AGENTS: &str = include_str!("../samples/managed-agents.jsonl");

/// A trajectory of ByteDance's agent.
pub(crate) const TRAE: &str = include_str!("../samples/trae.json");

/// Steps with all messages of their requests; the third begins another session.
pub(crate) const TRAE_STEPS: &str = include_str!("../samples/trae-steps.json");

/// Two chats and one without content.
pub(crate) const AIDER: &str = include_str!("../samples/aider.md");

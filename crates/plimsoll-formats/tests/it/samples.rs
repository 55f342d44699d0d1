//! A small session of each tool, written by hand, in each of the layouts its versions have.

use plimsoll_formats::Format;

/// All of them.
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

/// Lines; a message is written again with more in it, and a rewind takes one back.
pub(crate) const GEMINI: &str = include_str!("../samples/gemini-cli.jsonl");

/// What older versions wrote.
pub(crate) const GEMINI_DOCUMENT: &str = include_str!("../samples/gemini-cli-document.json");

/// A line about the session, and one for each message; a compaction hides what came before its summary.
pub(crate) const GOOSE: &str = include_str!("../samples/goose.jsonl");

/// What `goose session export` writes.
pub(crate) const GOOSE_EXPORT: &str = include_str!("../samples/goose-export.json");

/// A session of the newer kind, with a file that was mentioned.
pub(crate) const CLINE: &str = include_str!("../samples/cline.messages.json");

/// `api_conversation_history.json`, with a summary of Roo's.
pub(crate) const ROO: &str = include_str!("../samples/roo.json");

/// Events of versions before 1, a line each: two calls of one response, a condensation, and the end.
pub(crate) const OPENHANDS: &str = include_str!("../samples/openhands.jsonl");

/// The output of an evaluation: a run on each line.
pub(crate) const OPENHANDS_RUNS: &str = include_str!("../samples/openhands-runs.jsonl");

/// Events since version 1, as a list.
pub(crate) const OPENHANDS_KINDS: &str = include_str!("../samples/openhands-kinds.json");

/// The three layouts, which never stand in one file, but every record says what it is: the wire log of Kimi CLI, the
/// wire log of Kimi Code, and the context of Kimi CLI.
pub(crate) const KIMI: &str = concat!(
    include_str!("../samples/kimi-wire.jsonl"),
    include_str!("../samples/kimi-code.jsonl"),
    include_str!("../samples/kimi-context.jsonl"),
);

/// Events as the API writes them, and within the records of a tool that collects them.
pub(crate) const MANAGED_AGENTS: &str = include_str!("../samples/managed-agents.jsonl");

/// A trajectory of ByteDance's agent.
pub(crate) const TRAE: &str = include_str!("../samples/trae.json");

/// Steps with all messages of their requests; the third begins another session.
pub(crate) const TRAE_STEPS: &str = include_str!("../samples/trae-steps.json");

/// Two chats and one in which nothing was said.
pub(crate) const AIDER: &str = include_str!("../samples/aider.md");

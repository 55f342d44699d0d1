//! Hooks: commands that run on events.

use std::fmt;
use std::time::Duration;

use plimsoll::redact::redact;
use plimsoll_sandbox::{Grants, Origin, matches};
use serde::{Deserialize, Serialize};

/// The event that a hook runs on. OpenCode's names of the same events are accepted too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(transform = with_opencode_names))]
#[non_exhaustive]
pub enum HookEvent {
    /// Before a tool call. Can change the input or reject the call.
    #[serde(rename = "tool.before", alias = "tool.execute.before")]
    ToolBefore,
    /// After a tool call. Can add to the result or replace it.
    #[serde(rename = "tool.after", alias = "tool.execute.after")]
    ToolAfter,
    /// Before a summary is requested. Can add to the instruction or replace it.
    #[serde(rename = "session.compacting", alias = "experimental.session.compacting")]
    Compacting,
    /// After a compaction in the middle of a turn. Can end the turn.
    #[serde(rename = "compaction.autocontinue", alias = "experimental.compaction.autocontinue")]
    Autocontinue,
    /// After a compaction.
    #[serde(rename = "session.compacted")]
    Compacted,
}

/// OpenCode's names of events.
pub(crate) const OPENCODE_EVENTS: [&str; 4] = [
    "tool.execute.before",
    "tool.execute.after",
    "experimental.session.compacting",
    "experimental.compaction.autocontinue",
];

/// Adds OpenCode's names to the schema: schemars derives it from `rename` and ignores `alias`.
#[cfg(feature = "schema")]
fn with_opencode_names(schema: &mut schemars::Schema) {
    let names = serde_json::json!({
        "type": "string",
        "enum": OPENCODE_EVENTS,
        "description": "OpenCode's names of the same events."
    });
    if let Some(variants) = schema.get_mut("oneOf").and_then(serde_json::Value::as_array_mut) {
        variants.push(names);
    }
}

impl HookEvent {
    /// Name of the event in configuration.
    pub fn name(self) -> &'static str {
        match self {
            HookEvent::ToolBefore => "tool.before",
            HookEvent::ToolAfter => "tool.after",
            HookEvent::Compacting => "session.compacting",
            HookEvent::Autocontinue => "compaction.autocontinue",
            HookEvent::Compacted => "session.compacted",
        }
    }
}

impl fmt::Display for HookEvent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A command that runs on an event. `Debug` shows no keys.
#[derive(Clone, PartialEq, Eq)]
pub struct HookCommand {
    /// The event.
    pub event: HookEvent,
    /// The command with its arguments.
    pub command: Vec<String>,
    /// Timeout; 30 seconds if it is not set.
    pub timeout: Option<Duration>,
    /// For tool events: name or pattern of the tools; all if it is not set.
    pub tools: Option<String>,
    /// Additional permissions in the sandbox.
    pub grants: Grants,
    /// Location of the setting.
    pub origin: Origin,
    /// Problem with a reference in its settings; the hook cannot run until it is fixed.
    pub problem: Option<String>,
}

impl HookCommand {
    /// Whether the hook runs for a tool.
    pub fn is_for(&self, tool: &str) -> bool {
        self.tools.as_deref().is_none_or(|pattern| matches(pattern, tool))
    }
}

impl fmt::Debug for HookCommand {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("HookCommand")
            .field("event", &self.event)
            .field("command", &redact(&self.command.join(" ")).text)
            .field("timeout", &self.timeout)
            .field("tools", &self.tools)
            .field("grants", &self.grants)
            .finish()
    }
}

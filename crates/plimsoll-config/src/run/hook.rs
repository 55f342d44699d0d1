//! Hooks of the configuration: commands that are run at certain moments.

use std::fmt;
use std::time::Duration;

use plimsoll::redact::redact;
use plimsoll_sandbox::{Grants, Origin, matches};
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The moment at which a hook is run. The names that OpenCode gives to the same moments are accepted too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = with_opencode_names)]
pub enum HookEvent {
    /// Before a tool is called: may change the input, or refuse.
    #[serde(rename = "tool.before", alias = "tool.execute.before")]
    ToolBefore,
    /// After a tool was called: may add to what the model sees, or replace it.
    #[serde(rename = "tool.after", alias = "tool.execute.after")]
    ToolAfter,
    /// Before a summary is asked for: may add to the instruction, or replace it.
    #[serde(rename = "session.compacting", alias = "experimental.session.compacting")]
    Compacting,
    /// After a compaction in the middle of a turn: may end the turn.
    #[serde(rename = "compaction.autocontinue", alias = "experimental.compaction.autocontinue")]
    Autocontinue,
    /// After a compaction.
    #[serde(rename = "session.compacted")]
    Compacted,
}

/// OpenCode's names of events that hooks are run at.
pub(crate) const OPENCODE_EVENTS: [&str; 4] = [
    "tool.execute.before",
    "tool.execute.after",
    "experimental.session.compacting",
    "experimental.compaction.autocontinue",
];

/// Adds OpenCode's names to the schema: it is derived from `rename` and leaves out every `alias`.
fn with_opencode_names(schema: &mut Schema) {
    let names = json!({
        "type": "string",
        "enum": OPENCODE_EVENTS,
        "description": "OpenCode's names of the same moments."
    });
    if let Some(variants) = schema.get_mut("oneOf").and_then(Value::as_array_mut) {
        variants.push(names);
    }
}

impl HookEvent {
    /// Its name as it is written.
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

/// A command that is run at a moment. `Debug` shows no keys.
#[derive(Clone, PartialEq, Eq)]
pub struct HookCommand {
    /// When.
    pub event: HookEvent,
    /// The command with its arguments.
    pub command: Vec<String>,
    /// The longest time it may take; half a minute where it is not set.
    pub timeout: Option<Duration>,
    /// For hooks of tools: the tools, by name or pattern; all where it is not set.
    pub tools: Option<String>,
    /// What it may do beyond what commands may.
    pub grants: Grants,
    /// Where it is said.
    pub origin: Origin,
    /// What is wrong with a reference of it; it cannot be run before that is mended.
    pub problem: Option<String>,
}

impl HookCommand {
    /// Whether it is for a tool.
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

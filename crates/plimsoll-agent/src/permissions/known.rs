//! Rules for tools that do not exist: a misspelt denial denies nothing.
//!
//! A rule may be for a tool of an MCP server, whose names are known only when it runs, or of a server that another
//! project has. Such a tool is named `SERVER_TOOL`. So a rule of the configuration is reported only if no server could
//! have the tool, or if its name is similar to an existing one. A flag applies to this run only, so it is checked
//! against the tools of this run.

use std::fmt;

use plimsoll_config::{Origin, RunConfig, matches, nearest};
use thiserror::Error;

use plimsoll_sandbox::EXTERNAL_DIRECTORY;

/// Names of all tools that a configured agent can have, except those of MCP servers.
pub(super) const OWN_TOOLS: [&str; 17] = [
    "read",
    "list",
    "grep",
    "glob",
    "write",
    "edit",
    "bash",
    "webfetch",
    "todo",
    "recall",
    "skill",
    "background_task",
    "background_output",
    "background_list",
    "background_cancel",
    "background_clear",
    "background_steer",
];

/// A rule or switch of the configuration that matches no tool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IdleRule {
    /// Name of the tool.
    pub tool: String,
    /// Effect of the rule.
    pub says: String,
    /// Source of the rule.
    pub origin: Origin,
    /// A similar existing name.
    pub nearest: Option<String>,
}

impl fmt::Display for IdleRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let IdleRule { tool, says, origin, nearest } = self;
        write!(formatter, "{origin}: the rule for unknown tool `{tool}` ({says}) is ignored")?;
        match nearest {
            Some(nearest) => write!(formatter, "; did you mean `{nearest}`?"),
            None => Ok(()),
        }
    }
}

/// Error for a flag that names an unknown tool.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown tool `{tool}`{}", nearest.as_ref().map(|name| format!("; did you mean `{name}`?")).unwrap_or_default())]
#[non_exhaustive]
pub struct UnknownTool {
    /// The name.
    pub tool: String,
    /// A similar existing name.
    pub nearest: Option<String>,
    /// Available tools, with `SERVER_*` for those of servers.
    pub known: Vec<String>,
}

/// Returns the rules and switches of a configuration that match no tool.
pub fn idle_rules(run: &RunConfig) -> Vec<IdleRule> {
    let known = KnownNames::of(run);
    let agents = || run.agents.values();
    let rules = run.permissions.rules.iter().chain(agents().flat_map(|agent| &agent.permissions.rules));
    let rules = rules.map(|rule| (&rule.tool, format!("`{}`", rule.action.name()), &rule.origin));
    let switches = agents().flat_map(|agent| &agent.tools);
    let switches = switches.map(|switch| {
        (&switch.tool, format!("switched {}", if switch.on { "on" } else { "off" }), &switch.origin)
    });
    let mut idle: Vec<IdleRule> = Vec::new();
    for (tool, says, origin) in rules.chain(switches) {
        let nearest = known.nearest(tool);
        // A name with `_` or a wildcard may belong to a server that is configured elsewhere.
        let is_known = known.may_hold(tool) || (nearest.is_none() && tool.contains(['_', '*', '?']));
        // Several patterns for the same unknown tool are reported once.
        let is_reported = idle.iter().any(|rule| rule.tool == *tool);
        if !is_known && !is_reported {
            idle.push(IdleRule { tool: tool.clone(), says, origin: origin.clone(), nearest });
        }
    }
    idle
}

/// Rejects a flag for a tool that does not exist in this run.
pub fn require_tool(tool: &str, run: &RunConfig) -> Result<(), UnknownTool> {
    let known = KnownNames::of(run);
    if known.may_hold(tool) {
        return Ok(());
    }
    let nearest = known.nearest(tool);
    let servers = known.servers.iter().map(|server| format!("{server}*"));
    let known = OWN_TOOLS.into_iter().map(str::to_owned).chain(servers).collect();
    Err(UnknownTool { tool: tool.to_owned(), nearest, known })
}

struct KnownNames {
    /// Prefixes of the servers' tools.
    servers: Vec<String>,
}

impl KnownNames {
    fn of(run: &RunConfig) -> KnownNames {
        // Disabled servers count as known.
        KnownNames { servers: run.mcp.keys().map(|name| crate::mcp::tool_prefix(name)).collect() }
    }

    /// Returns whether a name or pattern may match a tool.
    fn may_hold(&self, pattern: &str) -> bool {
        let is_own = OWN_TOOLS.iter().any(|name| matches(pattern, name));
        let plain = &pattern[..pattern.find(['*', '?']).unwrap_or(pattern.len())];
        let has_wildcard = plain.len() < pattern.len();
        let fits = |server: &String| {
            plain.starts_with(server.as_str()) || (has_wildcard && server.starts_with(plain))
        };
        is_own || pattern == EXTERNAL_DIRECTORY || self.servers.iter().any(fits)
    }

    fn nearest(&self, pattern: &str) -> Option<String> {
        let own = nearest(pattern, OWN_TOOLS.into_iter().chain([EXTERNAL_DIRECTORY]));
        // Only the prefix of a server's tools is known.
        let (server, tool) = pattern.split_once('_').unwrap_or((pattern, ""));
        let server = nearest(&format!("{server}_"), self.servers.iter().map(String::as_str));
        own.map(str::to_owned).or_else(|| server.map(|server| format!("{server}{tool}")))
    }
}

#[cfg(test)]
mod tests {
    use plimsoll::Policy;
    use plimsoll_sandbox::{Sandbox, SandboxConfig};

    use super::OWN_TOOLS;
    use crate::agent::ToolSet;
    use crate::tasks::task_tool_names;

    #[test]
    fn the_names_are_those_of_the_tools() {
        let tools = ToolSet::builtin(&Policy::default(), &Sandbox::new(SandboxConfig::default()).into());
        let mut names: Vec<String> = tools.names().into_iter().map(str::to_owned).collect();
        names.push("skill".into());
        names.extend(task_tool_names());
        names.sort_unstable();
        let mut known = OWN_TOOLS;
        known.sort_unstable();
        assert_eq!(names, known);
    }
}

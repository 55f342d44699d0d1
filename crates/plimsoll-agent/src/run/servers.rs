//! The tools of MCP servers in a conversation.

use std::sync::Arc;

use plimsoll_sandbox::{PermissionRule, Permissions, matches};
use tokio_util::sync::CancellationToken;

use super::Conversation;
use crate::agent::{Tool, ToolSet, declared};
use crate::error::AgentError;
use crate::event::Event;
use crate::mcp::ServerSet;

impl Conversation {
    /// Declare the tools of MCP servers, once they are started and at the beginning of each turn in which they have
    /// changed. Not later: the prompt cache begins with the tools.
    pub(crate) async fn take_server_tools(&mut self, cancel: &CancellationToken) -> Result<(), AgentError> {
        let is_first = matches!(self.servers, ServerSet::Starting(_));
        match &mut self.servers {
            ServerSet::None => return Ok(()),
            ServerSet::Ready(servers, _) => {
                let changed = tokio::select! {
                    biased;
                    () = cancel.cancelled() => false,
                    changed = servers.take_changes() => changed,
                };
                if !changed {
                    return Ok(());
                }
            }
            ServerSet::Starting(starting) => {
                let started = tokio::select! {
                    biased;
                    () = cancel.cancelled() => return Ok(()),
                    started = starting => started,
                };
                self.servers = match started {
                    // A fork of another conversation was given the tools of its servers, which end with it.
                    Ok(servers) => {
                        ServerSet::Ready(servers, self.agent.profile.tools.clone().without_servers())
                    }
                    Err(error) => {
                        tracing::error!(%error, "the MCP servers could not be started");
                        ServerSet::None
                    }
                };
            }
        }
        let ServerSet::Ready(servers, own) = &self.servers else { return Ok(()) };
        let tools = servers.tools(own, |name| self.agent.profile.wants(name));
        if is_first && self.agent.profile.bounds.is_empty() {
            for text in idle_patterns(&self.agent.profile.permissions, own, &tools) {
                self.agent.tell(&Event::Notice { text });
            }
        }
        self.agent.profile.tools = own.clone().with_all(tools);
        self.specs = Arc::new(self.agent.profile.tools.specs());
        Ok(self.session.set_tools(declared(&self.specs)).await?)
    }
}

/// Rules that can never hold, in words for a person. A call of a server's tool is about nothing that a pattern could be held
/// against: what its fields mean, the server alone knows, and JSON can be written in many ways. So a rule for such a tool is
/// for all calls of it, and one with a pattern would protect nothing without a word.
fn idle_patterns(rules: &Permissions, own: &ToolSet, tools: &[Arc<dyn Tool>]) -> Vec<String> {
    let own = own.names();
    let is_idle = |rule: &&PermissionRule| {
        let is_for = |name: &str| matches(&rule.tool, name);
        // A rule for all tools is meant for those that have paths and commands.
        rule.pattern != "*"
            && tools.iter().any(|tool| is_for(&tool.spec().name))
            && !own.iter().any(|name| is_for(name))
    };
    let told = rules.rules.iter().filter(is_idle).map(|rule| {
        let (tool, pattern, action) = (&rule.tool, &rule.pattern, rule.action.name());
        format!(
            "the rule that `{tool}` on `{pattern}` is `{action}` ({}) has no effect: calls of MCP servers are not held against \
             patterns; a rule for `{tool}` without one decides about all of them",
            rule.origin
        )
    });
    told.collect()
}

//! Tools of MCP servers in a conversation.

use std::sync::Arc;

use plimsoll_sandbox::{PermissionRule, Permissions, matches};
use tokio_util::sync::CancellationToken;

use super::Conversation;
use crate::agent::{Tool, ToolSet, declared};
use crate::error::AgentError;
use crate::event::Event;
use crate::mcp::ServerSet;

impl Conversation {
    /// Declares the tools of MCP servers, once they have started and at the beginning of each turn after a change. Not
    /// later, because the prompt cache begins with the tools.
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
                    // A fork of another conversation received the tools of that conversation's servers, which end with
                    // it.
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
                self.agent.emit(&Event::Notice { text });
            }
        }
        self.agent.profile.tools = own.clone().with_all(tools);
        self.specs = Arc::new(self.agent.profile.tools.specs());
        Ok(self.session.set_tools(declared(&self.specs)).await?)
    }
}

/// Returns notices about rules that cannot match. Calls of a server's tool have no subject that a pattern could match,
/// because only the server knows what its fields mean, and JSON can be written in many ways. So a rule for such a tool
/// applies to all its calls, and a rule with a pattern would silently have no effect.
fn idle_patterns(rules: &Permissions, own: &ToolSet, tools: &[Arc<dyn Tool>]) -> Vec<String> {
    let own = own.names();
    let is_idle = |rule: &&PermissionRule| {
        let is_for = |name: &str| matches(&rule.tool, name);
        // A rule for all tools is meant for those with paths and commands.
        rule.pattern != "*"
            && tools.iter().any(|tool| is_for(&tool.spec().name))
            && !own.iter().any(|name| is_for(name))
    };
    let notices = rules.rules.iter().filter(is_idle).map(|rule| {
        let (tool, pattern, action) = (&rule.tool, &rule.pattern, rule.action.name());
        format!(
            "the rule `{tool}` on `{pattern}` = `{action}` ({}) is ignored: calls of MCP servers have nothing that a \
             pattern could match; a rule for `{tool}` without a pattern applies to all of them",
            rule.origin
        )
    });
    notices.collect()
}

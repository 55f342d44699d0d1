//! Tools of MCP servers.
//!
//! The servers of the configuration are started when a conversation begins and end with it. What they say is untrusted:
//! descriptions and schemas are bounded and set apart ([`declare`]), hints that a tool only reads change nothing about
//! permissions, messages are bounded ([`stdio`], [`http`]), and a server knows the project's directory and no key but
//! those it was configured with. The command of a server runs in the sandbox of the agent's commands, with its own grants.

mod client;
mod connection;
mod declare;
mod http;
mod resources;
mod result;
mod server;
mod stdio;
mod tool;

use std::sync::Arc;

use futures_util::future::join_all;
use plimsoll_config::{Permissions, matches};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::agent::Agent;
use crate::event::Event;
use crate::run::Conversation;
use crate::tools::{Tool, ToolSet};

pub(crate) use declare::tool_prefix;
use server::Server;
use stdio::Launcher;
use tool::McpTool;

/// The servers of a conversation. They end when it is dropped.
pub(crate) struct McpServers(Vec<Arc<Server>>);

impl McpServers {
    /// Starts all enabled servers of an agent in parallel. A server that fails is reported and provides no tools.
    async fn start(agent: &Agent) -> McpServers {
        let enabled = agent.mcp.iter().filter(|(_, setup)| setup.enabled);
        let servers = enabled.map(|(name, setup)| {
            let launcher = Launcher {
                project: agent.directory.clone(),
                sandbox: agent.sandbox.granting(&setup.grants),
                keys: agent.keys.clone(),
            };
            Arc::new(Server::new(name.clone(), setup.clone(), launcher, Arc::clone(&agent.events)))
        });
        let servers = McpServers(servers.collect());
        join_all(servers.0.iter().map(|server| server.start())).await;
        servers
    }

    /// Their tools, beside those that the agent has itself. `is_wanted` is asked by the name that a tool is declared
    /// under. What cannot be declared is told of.
    pub(crate) fn tools(&self, own: &ToolSet, is_wanted: impl Fn(&str) -> bool) -> Vec<Arc<dyn Tool>> {
        let listed = self.0.iter().flat_map(|server| server.listed()).collect();
        let (declared, omitted) = declare::declare(listed, &own.names(), is_wanted);
        let server = |name: &str| self.0.iter().find(|server| server.name == name);
        for tool in omitted {
            if let Some(server) = server(&tool.server) {
                server.report_omitted(tool.tool, tool.reason);
            }
        }
        let tools = declared.into_iter().filter_map(|tool| {
            let server = Arc::clone(server(&tool.server)?);
            Some(Arc::new(McpTool::new(tool.spec, server, tool.tool, tool.purpose)) as Arc<dyn Tool>)
        });
        tools.collect()
    }

    /// Ask those servers for their tools anew that said they have changed; says whether any have.
    pub(crate) async fn take_changes(&self) -> bool {
        let changes = join_all(self.0.iter().map(|server| server.take_changes())).await;
        let mut any = false;
        for (server, change) in self.0.iter().zip(changes) {
            if let Some((added, removed)) = change {
                any = true;
                server.report_changes(added, removed);
            }
        }
        any
    }

    /// End all of them, giving each a moment to end by itself.
    pub(crate) async fn close(&self) {
        join_all(self.0.iter().map(|server| server.close())).await;
    }
}

impl Drop for McpServers {
    fn drop(&mut self) {
        // Tools may outlive the conversation in a task that is on its way out.
        self.0.iter().for_each(|server| server.kill());
    }
}

/// The servers of a conversation, from when they are being started.
pub(crate) enum ServerSet {
    /// They are being started beside the conversation's own beginning.
    Starting(JoinHandle<McpServers>),
    /// They are there, beside the tools that the agent has itself.
    Ready(McpServers, ToolSet),
    /// There are none.
    None,
}

impl ServerSet {
    /// Begin to start the servers of an agent.
    pub(crate) fn begin(agent: &Agent) -> ServerSet {
        if !agent.mcp.values().any(|setup| setup.enabled) {
            return ServerSet::None;
        }
        let agent = agent.clone();
        ServerSet::Starting(tokio::spawn(async move { McpServers::start(&agent).await }))
    }

    /// End them, giving each a moment to end by itself.
    pub(crate) async fn close(&mut self) {
        if let ServerSet::Ready(servers, _) = self {
            servers.close().await;
        }
    }
}

impl Drop for ServerSet {
    fn drop(&mut self) {
        if let ServerSet::Starting(starting) = self {
            // What was started by then is dropped with the task, and ends.
            starting.abort();
        }
    }
}

impl Conversation {
    /// Declare the tools of MCP servers, once they are started and at the beginning of each turn in which they have
    /// changed. Not later: the prompt cache begins with the tools.
    pub(crate) async fn take_server_tools(&mut self, cancel: &CancellationToken) {
        let is_first = matches!(self.servers, ServerSet::Starting(_));
        match &mut self.servers {
            ServerSet::None => return,
            ServerSet::Ready(servers, _) => {
                let changed = tokio::select! {
                    biased;
                    () = cancel.cancelled() => false,
                    changed = servers.take_changes() => changed,
                };
                if !changed {
                    return;
                }
            }
            ServerSet::Starting(starting) => {
                let started = tokio::select! {
                    biased;
                    () = cancel.cancelled() => return,
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
        let ServerSet::Ready(servers, own) = &self.servers else { return };
        let tools = servers.tools(own, |name| self.agent.profile.wants(name));
        if is_first && self.agent.profile.bounds.is_empty() {
            for text in idle_patterns(&self.agent.profile.permissions, own, &tools) {
                self.agent.tell(&Event::Notice { text });
            }
        }
        self.agent.profile.tools = own.clone().with_all(tools);
        self.specs = Arc::new(self.agent.profile.tools.specs());
    }
}

/// Rules that can never hold, in words for a person. A call of a server's tool is about nothing that a pattern could be held
/// against: what its fields mean, the server alone knows, and JSON can be written in many ways. So a rule for such a tool is
/// for all calls of it, and one with a pattern would protect nothing without a word.
fn idle_patterns(rules: &Permissions, own: &ToolSet, tools: &[Arc<dyn Tool>]) -> Vec<String> {
    let own = own.names();
    let is_idle = |rule: &&plimsoll_config::PermissionRule| {
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

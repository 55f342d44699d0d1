//! Tools of MCP servers.
//!
//! The configured servers start with a conversation and end with it. Their messages are untrusted: descriptions and
//! schemas are bounded and marked ([`declare`]), read-only hints do not affect permissions, messages are bounded
//! ([`stdio`], [`http`]), and a server receives the project's directory and no key except its own configuration's. The
//! command of a server runs in the sandbox of the agent's commands, with its own grants.

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
use tokio::task::JoinHandle;

use crate::agent::{Agent, Tool, ToolSet};

pub(crate) use declare::tool_prefix;
use server::Server;
use stdio::Launcher;
use tool::McpTool;

/// The servers of a conversation. They end when this is dropped.
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

    /// Returns their tools, in addition to the agent's own. `is_wanted` receives the declared name. Tools that cannot
    /// be declared are reported.
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

    /// Reads the tools of servers that announced changes again. Returns whether any have changed.
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

    /// Closes all servers, giving each a moment to exit.
    pub(crate) async fn close(&self) {
        join_all(self.0.iter().map(|server| server.close())).await;
    }
}

impl Drop for McpServers {
    fn drop(&mut self) {
        // Tools may outlive the conversation in a task that is being stopped.
        self.0.iter().for_each(|server| server.kill());
    }
}

/// The servers of a conversation, from their start.
pub(crate) enum ServerSet {
    /// Still starting, while the conversation starts.
    Starting(JoinHandle<McpServers>),
    /// Ready, with the agent's own tools.
    Ready(McpServers, ToolSet),
    /// There are none.
    None,
}

impl ServerSet {
    /// Starts the servers of an agent.
    pub(crate) fn begin(agent: &Agent) -> ServerSet {
        if !agent.mcp.values().any(|setup| setup.enabled) {
            return ServerSet::None;
        }
        let agent = agent.clone();
        ServerSet::Starting(tokio::spawn(async move { McpServers::start(&agent).await }))
    }

    /// Closes them, giving each a moment to exit.
    pub(crate) async fn close(&mut self) {
        if let ServerSet::Ready(servers, _) = self {
            servers.close().await;
        }
    }
}

impl Drop for ServerSet {
    fn drop(&mut self) {
        if let ServerSet::Starting(starting) = self {
            // Servers that have started are dropped with the task, and end.
            starting.abort();
        }
    }
}

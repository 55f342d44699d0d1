//! A configured server: start, calls, restart, end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use plimsoll_config::{McpConnection, McpServer};
use rmcp::model::{CallToolResult, ClientRequest};
use tokio_util::sync::CancellationToken;

use super::connection::{CallFailure, Connection};
use super::declare::ListedTool;
use super::stdio::Launcher;
use crate::event::{Event, EventSink, McpChange};

/// Timeout for starting and listing tools. Many servers are downloaded from a registry when they start.
const START: Duration = Duration::from_secs(60);
/// Timeout of a call without progress.
const CALL: Duration = Duration::from_secs(120);
/// Timeout of a ping.
const PING: Duration = Duration::from_secs(5);
/// Maximum number of starts in a conversation, for servers that keep exiting.
const MAX_STARTS: u32 = 4;

/// A configured server, and its connection if there is one.
pub(super) struct Server {
    pub(super) name: String,
    setup: McpServer,
    launcher: Launcher,
    events: EventSink,
    state: Mutex<State>,
    /// Held during a start, so that concurrent calls start the server once.
    starting: tokio::sync::Mutex<()>,
    /// Whether the server has announced changed tools, or may have changed them.
    changed: Arc<AtomicBool>,
}

#[derive(Default)]
struct State {
    connection: Option<Arc<Connection>>,
    listed: Vec<ListedTool>,
    starts: u32,
    is_shut: bool,
}

impl Server {
    pub(super) fn new(name: String, setup: McpServer, launcher: Launcher, events: EventSink) -> Server {
        Server {
            name,
            setup,
            launcher,
            events,
            state: Mutex::default(),
            starting: tokio::sync::Mutex::default(),
            changed: Arc::default(),
        }
    }

    fn emit(&self, change: McpChange) {
        tracing::info!(server = self.name, ?change, "an MCP server");
        (self.events)(&Event::McpServer { server: self.name.clone(), change });
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the server for the first time. A failure is reported, and the server has no tools.
    pub(super) async fn start(&self) {
        match self.connect().await {
            Ok(_) => self.emit(McpChange::Started { tools: self.state().listed.len() }),
            Err(error) => self.emit(McpChange::Failed { error }),
        }
    }

    async fn connect(&self) -> Result<Arc<Connection>, String> {
        if let Some(problem) = &self.setup.problem {
            return Err(problem.clone());
        }
        {
            let mut state = self.state();
            if state.is_shut {
                return Err("the conversation is over".to_owned());
            }
            if state.starts == MAX_STARTS {
                return Err(format!("it was started {MAX_STARTS} times and exited each time"));
            }
            // Counted before the attempt, so that failed starts count too.
            state.starts += 1;
        }
        let limit = self.setup.timeout.unwrap_or(START);
        let open = async {
            let connection =
                Connection::open(&self.name, &self.setup.connection, &self.launcher, &self.changed).await?;
            let listed = connection.tools(&self.name).await?;
            Ok::<_, String>((connection, listed))
        };
        let opened = tokio::time::timeout(limit, open).await;
        let opened = opened.unwrap_or_else(|_| {
            let hint = match self.setup.connection {
                McpConnection::Local { .. } => self.launcher.failure_hint(&self.name),
                McpConnection::Remote { .. } => String::new(),
            };
            Err(format!("it did not respond within {} s{hint}", limit.as_secs_f64()))
        });
        let (connection, listed) = opened?;
        let connection = Arc::new(connection);
        let mut state = self.state();
        if state.is_shut {
            return Err("the conversation is over".to_owned());
        }
        if state.starts > 1 && !same_tools(&state.listed, &listed) {
            // Changed tools are declared in the next turn, not during one.
            self.changed.store(true, Ordering::Release);
        } else {
            state.listed = listed;
        }
        state.connection = Some(Arc::clone(&connection));
        Ok(connection)
    }

    /// Returns the connection. A server that has exited is restarted, once for each call.
    async fn connected(&self) -> Result<Arc<Connection>, String> {
        let living = || self.state().connection.clone().filter(|connection| !connection.is_closed());
        if let Some(connection) = living() {
            return Ok(connection);
        }
        // Checked again under the lock: another call may have restarted the server meanwhile.
        let _starting = self.starting.lock().await;
        if let Some(connection) = living() {
            return Ok(connection);
        }
        let dead = self.state().connection.take();
        if let Some(dead) = dead {
            dead.kill();
        }
        match self.connect().await {
            Ok(connection) => {
                self.emit(McpChange::Restarted);
                Ok(connection)
            }
            Err(error) => {
                self.emit(McpChange::Failed { error: error.clone() });
                Err(error)
            }
        }
    }

    /// Calls one of its tools.
    pub(super) async fn call(
        &self,
        request: ClientRequest,
        cancel: &CancellationToken,
    ) -> Result<CallToolResult, CallFailure> {
        let connected = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(CallFailure::Cancelled),
            connected = self.connected() => connected,
        };
        let connection = connected.map_err(|error| {
            CallFailure::Refused(format!("it is not running and could not be started: {error}"))
        })?;
        let limit = self.setup.timeout.unwrap_or(CALL);
        let called = connection.call(request, limit, cancel).await;
        match &called {
            Err(CallFailure::Closed(error)) => self.emit(McpChange::Died { error: error.clone() }),
            // A slow server still answers a ping. One that hangs is closed, because every further call would wait for
            // the timeout.
            Err(CallFailure::TimedOut(_)) if !connection.answers(limit.min(PING)).await => {
                self.state().connection.take_if(|known| Arc::ptr_eq(known, &connection));
                connection.kill();
                self.emit(McpChange::Died { error: "it stopped responding".to_owned() });
            }
            _ => {}
        }
        called
    }

    /// Returns its tools.
    pub(super) fn listed(&self) -> Vec<ListedTool> {
        self.state().listed.clone()
    }

    /// Reads the tools again if the server announced changes. Returns the added and removed names, or `None` if nothing
    /// has changed.
    pub(super) async fn take_changes(&self) -> Option<(Vec<String>, Vec<String>)> {
        if !self.changed.swap(false, Ordering::AcqRel) {
            return None;
        }
        let connection = self.state().connection.clone().filter(|connection| !connection.is_closed())?;
        let limit = self.setup.timeout.unwrap_or(START);
        let listed = match tokio::time::timeout(limit, connection.tools(&self.name)).await {
            Ok(Ok(listed)) => listed,
            Ok(Err(error)) => {
                self.emit(McpChange::Failed { error });
                return None;
            }
            Err(_) => {
                self.emit(McpChange::Failed { error: "it does not list its tools".to_owned() });
                return None;
            }
        };
        let before = std::mem::replace(&mut self.state().listed, listed.clone());
        if same_tools(&before, &listed) {
            return None;
        }
        let names_only_in = |these: &[ListedTool], others: &[ListedTool]| {
            let is_known = |tool: &ListedTool| others.iter().any(|other| other.tool == tool.tool);
            these
                .iter()
                .filter(|tool| !is_known(tool))
                .map(|tool| super::declare::shown_name(&tool.tool))
                .collect()
        };
        Some((names_only_in(&listed, &before), names_only_in(&before, &listed)))
    }

    pub(super) fn report_changes(&self, added: Vec<String>, removed: Vec<String>) {
        self.emit(McpChange::ToolsChanged { added, removed });
    }

    pub(super) fn report_omitted(&self, tool: String, reason: String) {
        self.emit(McpChange::LeftOut { tool, reason });
    }

    /// Closes the connection and prevents restarts.
    pub(super) async fn close(&self) {
        let connection = self.shut();
        if let Some(connection) = connection {
            connection.close().await;
        }
    }

    /// Kills the server.
    pub(super) fn kill(&self) {
        if let Some(connection) = self.shut() {
            connection.kill();
        }
    }

    fn shut(&self) -> Option<Arc<Connection>> {
        let mut state = self.state();
        state.is_shut = true;
        state.connection.take()
    }
}

/// Returns whether two lists declare the same tools, in any order.
fn same_tools(one: &[ListedTool], other: &[ListedTool]) -> bool {
    one.len() == other.len() && one.iter().all(|tool| other.contains(tool))
}

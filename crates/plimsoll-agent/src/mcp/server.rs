//! One server of the configuration: started, called, started again, ended.

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

/// How long a server may take to start and list its tools. Many are fetched from a registry when they are started.
const START: Duration = Duration::from_secs(60);
/// How long a call may take without a word of progress.
const CALL: Duration = Duration::from_secs(120);
/// How long a server may take to say that it is there.
const PING: Duration = Duration::from_secs(5);
/// A server that keeps dying is started so many times in a conversation.
const MOST_STARTS: u32 = 4;

/// A server of the configuration, and the connection to it if there is one.
pub(super) struct Server {
    pub(super) name: String,
    setup: McpServer,
    launcher: Launcher,
    events: EventSink,
    state: Mutex<State>,
    /// Held while it is being started, so that calls side by side start it once.
    starting: tokio::sync::Mutex<()>,
    /// The server says that it has other tools now, or may have.
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

    fn tell(&self, change: McpChange) {
        tracing::info!(server = self.name, ?change, "an MCP server");
        (self.events)(&Event::McpServer { server: self.name.clone(), change });
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Start it for the first time. Where that fails it is told, and the server has no tools.
    pub(super) async fn start(&self) {
        match self.connect().await {
            Ok(_) => self.tell(McpChange::Started { tools: self.state().listed.len() }),
            Err(error) => self.tell(McpChange::Failed { error }),
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
            if state.starts == MOST_STARTS {
                return Err(format!("it was started {MOST_STARTS} times and ended each time"));
            }
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
            Err(format!("it gave no answer within {} s{hint}", limit.as_secs_f64()))
        });
        let (connection, listed) = opened?;
        let connection = Arc::new(connection);
        let mut state = self.state();
        if state.is_shut {
            return Err("the conversation is over".to_owned());
        }
        if state.starts > 1 && !same_tools(&state.listed, &listed) {
            // They are declared at the next turn, not in the middle of one.
            self.changed.store(true, Ordering::Release);
        } else {
            state.listed = listed;
        }
        state.connection = Some(Arc::clone(&connection));
        Ok(connection)
    }

    /// The connection; a server that has died is started again, once for each call.
    async fn connected(&self) -> Result<Arc<Connection>, String> {
        let living = || self.state().connection.clone().filter(|connection| !connection.is_closed());
        if let Some(connection) = living() {
            return Ok(connection);
        }
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
                self.tell(McpChange::Restarted);
                Ok(connection)
            }
            Err(error) => {
                self.tell(McpChange::Failed { error: error.clone() });
                Err(error)
            }
        }
    }

    /// Call one of its tools.
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
            Err(CallFailure::Closed(error)) => self.tell(McpChange::Died { error: error.clone() }),
            // One that is merely slow says that it is there. Of one that hangs every further call would wait as long.
            Err(CallFailure::TimedOut(_)) if !connection.answers(limit.min(PING)).await => {
                self.state().connection.take_if(|known| Arc::ptr_eq(known, &connection));
                connection.kill();
                self.tell(McpChange::Died { error: "it answers nothing any more".to_owned() });
            }
            _ => {}
        }
        called
    }

    /// The tools as they are declared.
    pub(super) fn listed(&self) -> Vec<ListedTool> {
        self.state().listed.clone()
    }

    /// Ask for its tools anew, if it said that they have changed. Gives the names that came and went; none if nothing
    /// has changed after all.
    pub(super) async fn take_changes(&self) -> Option<(Vec<String>, Vec<String>)> {
        if !self.changed.swap(false, Ordering::AcqRel) {
            return None;
        }
        let connection = self.state().connection.clone().filter(|connection| !connection.is_closed())?;
        let limit = self.setup.timeout.unwrap_or(START);
        let listed = match tokio::time::timeout(limit, connection.tools(&self.name)).await {
            Ok(Ok(listed)) => listed,
            Ok(Err(error)) => {
                self.tell(McpChange::Failed { error });
                return None;
            }
            Err(_) => {
                self.tell(McpChange::Failed { error: "it does not say which tools it has now".to_owned() });
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
        self.tell(McpChange::ToolsChanged { added, removed });
    }

    pub(super) fn report_omitted(&self, tool: String, reason: String) {
        self.tell(McpChange::LeftOut { tool, reason });
    }

    /// End it, and let it be started no more.
    pub(super) async fn close(&self) {
        let connection = self.shut();
        if let Some(connection) = connection {
            connection.close().await;
        }
    }

    /// End it at once.
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

/// Whether two lists declare the same; their order says nothing.
fn same_tools(one: &[ListedTool], other: &[ListedTool]) -> bool {
    one.len() == other.len() && one.iter().all(|tool| other.contains(tool))
}

//! A connection to a server: handshake, list of tools, calls.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use plimsoll_config::McpConnection;
use plimsoll_providers::Secret;
use rmcp::model::{
    CallToolResult, CancelledNotificationParam, ClientRequest, ListToolsRequest, PaginatedRequestParams,
    PingRequest, ProtocolVersion, ServerResult, Tool as WireTool,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, PeerRequestOptions, RunningService, ServiceError,
    serve_client_with_lifecycle,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{Peer, RoleClient};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::client::ClientSide;
use super::declare::{ListedTool, Purpose};
use super::http::{BoundedHttp, headers_of};
use super::resources;
use super::stdio::{Launcher, ServerProcess, strip_secrets};
use crate::untrusted::clean;

/// Maximum number of tools read from one server.
const MAX_LISTED: usize = 500;
/// Maximum number of pages read.
const MAX_PAGES: usize = 50;
/// Maximum duration of a call that keeps reporting progress.
const LONGEST_CALL: Duration = Duration::from_secs(60 * 60);
/// Timeout for sending a notification.
const NOTIFY: Duration = Duration::from_secs(2);
/// How long a server may take to exit after its input is closed.
const GRACE: Duration = Duration::from_secs(2);

/// Reason why a call has no result.
#[derive(Debug)]
pub(super) enum CallFailure {
    /// The run was cancelled.
    Cancelled,
    /// The timeout expired.
    TimedOut(Duration),
    /// The connection was closed.
    Closed(String),
    /// The server rejected it with this message.
    Refused(String),
}

/// A connection to a running server.
pub(super) struct Connection {
    peer: Peer<RoleClient>,
    service: Mutex<Option<RunningService<RoleClient, ClientSide>>>,
    process: Mutex<Option<ServerProcess>>,
    secrets: Vec<(String, Secret)>,
}

impl Connection {
    /// Starts a server or connects to it, and performs the handshake. Dropping the future ends what was started.
    pub(super) async fn open(
        name: &str,
        setup: &McpConnection,
        launcher: &Launcher,
        changed: &Arc<AtomicBool>,
    ) -> Result<Connection, String> {
        let first = Connection::shake(name, setup, launcher, changed, ClientLifecycleMode::Initialize).await;
        match first {
            // The newest protocol has no handshake. A server that supports only the newest reports that.
            Err((error, true)) => {
                let newest =
                    ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
                let second = Connection::shake(name, setup, launcher, changed, newest).await;
                second.map_err(|_| error)
            }
            other => other.map_err(|(error, _)| error),
        }
    }

    /// Makes one attempt at the handshake. The error says whether the server itself replied with it.
    async fn shake(
        name: &str,
        setup: &McpConnection,
        launcher: &Launcher,
        changed: &Arc<AtomicBool>,
        lifecycle: ClientLifecycleMode,
    ) -> Result<Connection, (String, bool)> {
        let side = ClientSide::new(&launcher.project, Arc::clone(changed));
        let plain = |error: String| (error, false);
        let (served, mut process, secrets) = match setup {
            McpConnection::Local { command, environment, directory } => {
                let (process, pipes) =
                    ServerProcess::start(name, command, environment, directory.as_deref(), launcher)
                        .map_err(plain)?;
                let transport = AsyncRwTransport::new_client(pipes.output, pipes.input);
                let served = serve_client_with_lifecycle(side, transport, lifecycle).await;
                (served, Some(process), environment)
            }
            McpConnection::Remote { url, headers } => {
                let config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
                    .custom_headers(headers_of(headers).map_err(plain)?);
                let client = BoundedHttp::new().map_err(plain)?;
                let transport = StreamableHttpClientTransport::with_client(client, config);
                (serve_client_with_lifecycle(side, transport, lifecycle).await, None, headers)
            }
        };
        let service = match served {
            Ok(service) => service,
            Err(error) => {
                let is_answer = matches!(error, ClientInitializeError::JsonRpcError(_));
                let mut description = describe_handshake_error(&error);
                // A server that replied is alive, and its reply says more than its exit.
                if let (Some(process), false) = (&mut process, is_answer) {
                    description = process.post_mortem().await;
                }
                return Err((strip_secrets(&description, secrets), is_answer));
            }
        };
        Ok(Connection {
            peer: service.peer().clone(),
            service: Mutex::new(Some(service)),
            process: Mutex::new(process),
            secrets: secrets.clone(),
        })
    }

    /// Returns whether the connection is closed.
    pub(super) fn is_closed(&self) -> bool {
        self.peer.is_transport_closed()
    }

    /// Returns the server's tools, including those for its resources if it has any.
    pub(super) async fn tools(&self, server: &str) -> Result<Vec<ListedTool>, String> {
        let capabilities = self.peer.peer_info().map(|info| info.capabilities.clone());
        let has_resources = capabilities.as_ref().is_some_and(|known| known.resources.is_some());
        let mut listed = match capabilities {
            Some(known) if known.tools.is_none() => Vec::new(),
            _ => self.own_tools(server).await?,
        };
        if has_resources {
            // A server that has tools with these names provides its resources that way.
            let is_new = |tool: &ListedTool| !listed.iter().any(|own| own.tool == tool.tool);
            let added: Vec<ListedTool> = resources::tools_for(server).into_iter().filter(is_new).collect();
            listed.extend(added);
        }
        Ok(listed)
    }

    async fn own_tools(&self, server: &str) -> Result<Vec<ListedTool>, String> {
        let mut listed: Vec<ListedTool> = Vec::new();
        let mut page = PaginatedRequestParams::default();
        for _ in 0..MAX_PAGES {
            let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(page));
            let (tools, next) = match self.peer.send_request(request).await {
                Ok(ServerResult::ListToolsResult(result)) => (result.tools, result.next_cursor),
                // One invalid tool makes the whole list invalid for the library; the others can still be used.
                Ok(ServerResult::CustomResult(result)) => {
                    let tools = result.0.get("tools").and_then(Value::as_array);
                    let Some(tools) = tools else {
                        return Err("its response has no list of tools".to_owned());
                    };
                    let known = tools.iter().filter_map(|tool| serde_json::from_value(tool.clone()).ok());
                    (known.collect(), result.0["nextCursor"].as_str().map(str::to_owned))
                }
                Ok(_) => return Err("its response is not a list of tools".to_owned()),
                Err(error) => return Err(self.describe_error(&error).await),
            };
            listed.extend(tools.into_iter().map(|tool| of_wire(server, tool)));
            let Some(next) = next.filter(|next| !next.is_empty() && listed.len() < MAX_LISTED) else {
                break;
            };
            page = PaginatedRequestParams::default().with_cursor(Some(next));
        }
        listed.truncate(MAX_LISTED);
        Ok(listed)
    }

    /// Calls a tool or requests resources. The server is notified of a cancelled call, but may continue it.
    pub(super) async fn call(
        &self,
        request: ClientRequest,
        timeout: Duration,
        cancel: &CancellationToken,
    ) -> Result<CallToolResult, CallFailure> {
        let options = PeerRequestOptions::with_timeout(timeout)
            .reset_timeout_on_progress()
            .with_max_total_timeout(LONGEST_CALL.max(timeout));
        let sent = tokio::time::timeout(timeout, self.peer.send_cancellable_request(request, options));
        let handle = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(CallFailure::Cancelled),
            sent = sent => match sent {
                Ok(Ok(handle)) => handle,
                Ok(Err(error)) => return Err(self.failure(error, timeout).await),
                Err(_) => return Err(CallFailure::TimedOut(timeout)),
            },
        };
        let id = handle.id.clone();
        // Also bounds the cancellation after a timeout, which blocks if the server does not read its input.
        let most = LONGEST_CALL.max(timeout) + NOTIFY;
        let answered = tokio::select! {
            biased;
            () = cancel.cancelled() => {
                let reason = Some("the run was cancelled".to_owned());
                let description = self.peer.notify_cancelled(CancelledNotificationParam::new(Some(id), reason));
                let _ = tokio::time::timeout(NOTIFY, description).await;
                return Err(CallFailure::Cancelled);
            }
            answered = tokio::time::timeout(most, handle.await_response()) => answered,
        };
        match answered {
            Ok(Ok(ServerResult::CallToolResult(result))) => Ok(result),
            Ok(Ok(ServerResult::ListResourcesResult(list))) => Ok(resources::format_list(&list)),
            Ok(Ok(ServerResult::ReadResourceResult(read))) => Ok(resources::format_contents(read)),
            Ok(Ok(ServerResult::EmptyResult(_) | ServerResult::TaskAckResult(_))) => {
                Ok(CallToolResult::success(Vec::new()))
            }
            Ok(Ok(ServerResult::InputRequiredResult(_))) => Err(CallFailure::Refused(
                "it tried to ask the user a question, which is not supported".to_owned(),
            )),
            Ok(Ok(_)) => Err(CallFailure::Refused("its response is not the result of a call".to_owned())),
            Ok(Err(error)) => Err(self.failure(error, timeout).await),
            Err(_) => Err(CallFailure::TimedOut(most)),
        }
    }

    /// Returns whether the server answers a ping.
    pub(super) async fn answers(&self, limit: Duration) -> bool {
        let ping = self.peer.send_request(ClientRequest::PingRequest(PingRequest::default()));
        // A server that does not support ping also answers.
        matches!(tokio::time::timeout(limit, ping).await, Ok(Ok(_) | Err(ServiceError::McpError(_))))
    }

    async fn failure(&self, error: ServiceError, timeout: Duration) -> CallFailure {
        match error {
            ServiceError::McpError(error) => CallFailure::Refused(clean(&error.message, 2_000)),
            ServiceError::Timeout { .. } => CallFailure::TimedOut(timeout),
            error => CallFailure::Closed(self.describe_error(&error).await),
        }
    }

    /// Formats an error without secrets.
    async fn describe_error(&self, error: &ServiceError) -> String {
        let description = match error {
            ServiceError::McpError(error) => clean(&error.message, 500),
            ServiceError::TransportSend(error) => clean(&error.error.to_string(), 500),
            ServiceError::TransportClosed => match self.take_process() {
                Some(mut process) => process.post_mortem().await,
                None => "the connection was closed".to_owned(),
            },
            other => clean(&other.to_string(), 500),
        };
        strip_secrets(&description, &self.secrets)
    }

    fn take_process(&self) -> Option<ServerProcess> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn take_service(&self) -> Option<RunningService<RoleClient, ClientSide>> {
        self.service.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Closes the connection: asks the server to exit, and kills it if it does not.
    pub(super) async fn close(&self) {
        if let Some(mut service) = self.take_service() {
            let _ = service.close_with_timeout(NOTIFY).await;
        }
        if let Some(mut process) = self.take_process() {
            process.close(GRACE).await;
        }
    }

    /// Kills the server.
    pub(super) fn kill(&self) {
        drop(self.take_service());
        drop(self.take_process());
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.kill();
    }
}

fn of_wire(server: &str, tool: WireTool) -> ListedTool {
    let description = tool.description.or(tool.title.map(Into::into)).unwrap_or_default();
    ListedTool {
        server: server.to_owned(),
        tool: tool.name.into_owned(),
        description: description.into_owned(),
        schema: Value::Object((*tool.input_schema).clone()),
        purpose: Purpose::Call,
    }
}

fn describe_handshake_error(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::JsonRpcError(error) => {
            format!("it rejected the connection: {}", clean(&error.message, 500))
        }
        ClientInitializeError::ConnectionClosed(_) => "it closed the connection".to_owned(),
        ClientInitializeError::TransportError { error, .. } => clean(&error.error.to_string(), 500),
        // Other variants contain whole messages of the server.
        _ => "its response to the handshake is invalid".to_owned(),
    }
}

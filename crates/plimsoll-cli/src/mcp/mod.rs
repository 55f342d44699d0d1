//! `plimsoll mcp`: content that left a window, for agents of other tools, over the Model Context Protocol.

mod lines;

use std::process::ExitCode;
use std::sync::Arc;

use plimsoll_host::{
    Host, HostError, MCP_INSTRUCTIONS, McpAnswer, McpCall, McpClient, McpRefusal, McpTool, mcp_tools,
};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ErrorData, ServerHandler, ServiceExt};

use crate::args::McpArgs;
use crate::error::CommandResult;

use lines::Lines;

/// Serves on standard input and output until the client closes them.
pub(crate) fn run(args: &McpArgs, host: &Host) -> CommandResult {
    // Clients show that a server failed to start; an error of each call would only be seen by the model.
    if let Some(id) = &args.session {
        host.check_mcp_session(id)?;
    }
    let failed =
        |error: &dyn std::fmt::Display| HostError::failed(format!("the MCP server stopped: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| failed(&error))?;
    let server = Server { host: host.clone(), session: args.session.clone() };
    let served = runtime.block_on(async {
        let lines = Lines::between(tokio::io::stdin(), tokio::io::stdout());
        let served = match server.serve(lines.streams).await {
            Ok(service) => service.waiting().await.map(drop).map_err(|error| failed(&error)),
            // A client that disconnects before initialising is not a failure.
            Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(error) => Err(failed(&error)),
        };
        let _ = lines.written.await;
        served
    });
    // Reading standard input blocks a thread that cannot be stopped, so do not wait for it.
    runtime.shutdown_background();
    served.map(|()| ExitCode::SUCCESS)
}

struct Server {
    host: Host,
    /// Default session for calls that name none.
    session: Option<String>,
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("plimsoll", env!("CARGO_PKG_VERSION")))
            .with_instructions(MCP_INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(mcp_tools().into_iter().map(declared).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let (host, session) = (self.host.clone(), self.session.clone());
        let info = context.peer.peer_info();
        let client = McpClient::new(info.as_ref().map_or("", |info| &info.client_info.name), &context.meta);
        let call = McpCall {
            tool: request.name.into_owned(),
            arguments: request.arguments.unwrap_or_default(),
            session,
            client,
        };
        // The store blocks.
        let answered = tokio::task::spawn_blocking(move || call.answer(&host)).await;
        match answered {
            Ok(Ok(McpAnswer { text, is_error: false, .. })) => {
                Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
            }
            Ok(Ok(McpAnswer { text, .. })) => {
                Ok(CallToolResult::error(vec![ContentBlock::text(text)]).into())
            }
            Ok(Err(McpRefusal::Invalid(problem))) => Err(ErrorData::invalid_params(problem, None)),
            Ok(Err(McpRefusal::Failed(problem))) => Err(ErrorData::internal_error(problem, None)),
            Err(_) => Err(ErrorData::internal_error("the call failed unexpectedly", None)),
        }
    }
}

fn declared(tool: McpTool) -> Tool {
    Tool::new(tool.name, tool.description, Arc::new(tool.input_schema))
        .annotate(ToolAnnotations::new().read_only(true))
}

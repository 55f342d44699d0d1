//! A tool of a server, for the loop.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use plimsoll_providers::ToolSpec;
use plimsoll_sandbox::{Access, Subject};
use serde_json::Value;

use super::connection::CallFailure;
use super::declare::{Purpose, shown_name};
use super::resources;
use super::result::write_result;
use super::server::Server;
use crate::agent::{Tool, ToolCall, ToolError};

/// A tool of a server.
pub(super) struct McpTool {
    spec: ToolSpec,
    server: Arc<Server>,
    /// The tool's name on the server.
    tool: String,
    purpose: Purpose,
}

impl McpTool {
    pub(super) fn new(spec: ToolSpec, server: Arc<Server>, tool: String, purpose: Purpose) -> McpTool {
        McpTool { spec, server, tool, purpose }
    }
}

impl Tool for McpTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn server(&self) -> Option<&str> {
        Some(&self.server.name)
    }

    /// Always `Act`: a server may declare a tool as read-only, but that is not trusted.
    fn access(&self) -> Access {
        Access::Act
    }

    fn subject(&self, input: &Value, _: &Path) -> Result<Subject, ToolError> {
        match input {
            Value::Object(_) | Value::Null => Ok(Subject::None),
            other => Err(ToolError::Input(format!("the input must be an object, not {other}"))),
        }
    }

    fn run(&self, call: &ToolCall<'_>, out: &mut dyn Write) -> Result<(), ToolError> {
        let server = shown_name(&self.server.name);
        let request = resources::request_for(self.purpose, &self.tool, call.input)?;
        let called = call.runtime.block_on(self.server.call(request, call.cancel));
        match called {
            Ok(result) => write_result(&result, call, out),
            Err(CallFailure::Cancelled) => Err(ToolError::Cancelled),
            Err(CallFailure::TimedOut(limit)) => Err(ToolError::Failed(format!(
                "The MCP server `{server}` returned no result within {} s. The call was cancelled; it may have had effects.",
                limit.as_secs_f64()
            ))),
            Err(CallFailure::Closed(why)) => Err(ToolError::Failed(format!(
                "The MCP server `{server}` stopped during this call: {why}. The call may have had effects. The next call \
                 starts the server again."
            ))),
            Err(CallFailure::Refused(why)) => {
                Err(ToolError::Failed(format!("The MCP server `{server}` rejected this call: {why}")))
            }
        }
    }
}

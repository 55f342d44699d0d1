//! `recall`: returns content that left the window.

use std::io::Write;
use std::path::Path;

use plimsoll::policy::RecallPolicy;
use plimsoll::recall::{RecallQuery, RecallTool};
use plimsoll_providers::ToolSpec;
use plimsoll_sandbox::{Access, Subject};
use serde_json::Value;

use crate::agent::{Tool, ToolCall, ToolError};

/// Returns content that left the window.
pub struct Recall {
    spec: ToolSpec,
}

impl Recall {
    /// Creates the tool under a policy.
    pub fn new(policy: &RecallPolicy) -> Recall {
        let RecallTool { name, description, input_schema } = RecallTool::new(policy);
        Recall { spec: ToolSpec { name: name.into(), description, schema: input_schema } }
    }
}

impl Tool for Recall {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self) -> Access {
        Access::Session
    }

    fn subject(&self, _: &Value, _: &Path) -> Result<Subject, ToolError> {
        Ok(Subject::None)
    }

    fn run(&self, call: &ToolCall<'_>, out: &mut dyn Write) -> Result<(), ToolError> {
        let query = RecallQuery::parse(call.input).map_err(|error| ToolError::Input(error.to_string()))?;
        let answer = call.runtime.block_on(async {
            tokio::select! {
                biased;
                () = call.cancel.cancelled() => Err(ToolError::Cancelled),
                answer = call.record.session().recall(query) => Ok(answer),
            }
        })?;
        let answer = answer.map_err(|error| ToolError::Failed(error.to_string()))?;
        if answer.is_error {
            return Err(ToolError::Failed(answer.text));
        }
        Ok(out.write_all(answer.text.as_bytes())?)
    }
}

//! Messages of a recording, appended as if they were new.

use std::sync::Arc;

use plimsoll::{Message, MessageId, PartBody, Receipt};

use super::Driver;
use crate::error::SessionError;

impl Driver {
    /// Appends a complete message of a recording. Its tool outputs pass layer 1; the receipts are of those that were
    /// truncated. An answer counts as the answer to the request that was prepared last.
    pub fn append_recorded(
        &mut self,
        mut message: Message,
    ) -> Result<(MessageId, Vec<Receipt>), SessionError> {
        let (policy, now) = (Arc::clone(&self.settings.policy), self.now());
        if message.is_assistant() {
            self.note_answered();
        }
        self.keep_lease()?;
        let claim = self.lease.claim();
        let mut receipts = Vec::new();
        for part in &mut message.parts {
            let (tool, output) = match &mut part.body {
                PartBody::Tool(tool) => match &mut tool.state.output {
                    Some(output) => (tool.tool.clone(), output),
                    None => continue,
                },
                PartBody::ToolResult(result) => {
                    (result.tool.clone().unwrap_or_else(|| "unknown".to_owned()), &mut result.text)
                }
                _ => continue,
            };
            let taken =
                self.archive.take_output(&claim, &part.id, &tool, &mut output.as_bytes(), &policy, now)?;
            if let Some(receipt) = taken.receipt {
                *output = taken.shown;
                receipts.push(receipt);
            }
        }
        // The meter knows what was sent, so the recorded usage can be compared with it.
        let usage = message.info.tokens.clone();
        let sent = if message.is_assistant() { self.note_sent() } else { None };
        let id = self.append(message)?;
        if let (Some(usage), Some(sent)) = (usage, sent) {
            self.observe(sent, &usage);
        }
        Ok((id, receipts))
    }
}

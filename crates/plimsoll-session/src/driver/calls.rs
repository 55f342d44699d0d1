//! Recording tool calls: their start, their output through layer 1, their failure.

use std::io::Read;
use std::sync::Arc;

use plimsoll::log::ToolTime;
use plimsoll::{Part, PartId, Receipt, Text, ToolStatus};
use plimsoll_store::CapturedOutput;
use serde_json::{Map, Value, json};

use super::Driver;
use crate::changes::{FileChange, own_field};
use crate::error::SessionError;
use crate::output::OutputSink;

/// A call of the model.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PendingCall {
    /// The part that holds the call.
    pub part: PartId,
    /// The tool.
    pub tool: String,
    /// The input. Input that is not valid JSON is a string.
    pub input: Value,
}

impl PendingCall {
    /// Returns the call that a part holds.
    pub(crate) fn of(part: &Part) -> Result<PendingCall, SessionError> {
        let tool = part.as_tool().ok_or_else(|| SessionError::NotACall(part.id.clone()))?;
        let input = tool.state.input.as_ref().map_or(Value::Null, |input| input.value().clone());
        Ok(PendingCall { part: part.id.clone(), tool: tool.tool.clone(), input })
    }

    /// Returns the call that a part holds, if it is not answered.
    pub(super) fn of_open(part: &Part) -> Option<PendingCall> {
        let status = &part.as_tool()?.state.status;
        let is_open = matches!(status, ToolStatus::Pending | ToolStatus::Running);
        PendingCall::of(part).ok().filter(|_| is_open)
    }
}

/// Records what happens to one call. It is answered once: by its output, a failure or a refusal.
#[derive(Debug)]
pub struct ToolCall<'d> {
    driver: &'d mut Driver,
    part: PartId,
    tool: String,
}

impl Driver {
    /// Returns a recorder for a call.
    pub fn call(&mut self, part: &PartId) -> Result<ToolCall<'_>, SessionError> {
        let tool = self.log.part(part)?.as_tool().map(|tool| tool.tool.clone());
        let tool = tool.ok_or_else(|| SessionError::NotACall(part.clone()))?;
        Ok(ToolCall { part: part.clone(), tool, driver: self })
    }

    /// Records that calls failed, in one write: an answer may have thousands.
    pub(super) fn fail_calls(
        &mut self,
        parts: &[PartId],
        error: impl Into<Text>,
    ) -> Result<(), SessionError> {
        let (now, error) = (self.now(), error.into());
        let failed = parts.iter().map(|part| {
            self.changed_call(part, |state| {
                state.status = ToolStatus::Error;
                state.error = Some(error.clone());
                state.time = ToolTime::ran(state.time.start.unwrap_or(now), now);
            })
        });
        let failed = failed.collect::<Result<Vec<Part>, SessionError>>()?;
        if failed.is_empty() { Ok(()) } else { self.advance_all(failed) }
    }
}

impl ToolCall<'_> {
    /// Records that the tool has started.
    pub fn start(&mut self) -> Result<(), SessionError> {
        let now = self.driver.now();
        self.driver.advance_call(&self.part, |state| {
            state.status = ToolStatus::Running;
            state.time = ToolTime::started(now);
        })
    }

    /// Returns a sink for output that is produced piece by piece. It does not borrow the driver, so that several tools
    /// can run at once; [`finish`](ToolCall::finish) takes it back.
    pub fn output(&mut self) -> Result<OutputSink, SessionError> {
        self.driver.keep_lease()?;
        let (archive, claim) = (Arc::clone(&self.driver.archive), self.driver.lease.claim());
        let (policy, now) = (Arc::clone(&self.driver.settings.policy), self.driver.now());
        let (part, tool) = (self.part.clone(), self.tool.clone());
        OutputSink::spawn(self.part.clone(), move |output| {
            archive.take_output(&claim, &part, &tool, output, &policy, now)
        })
    }

    /// Answers the call with what was written into its sink. Returns the receipt if the output was truncated.
    pub fn finish(self, sink: OutputSink) -> Result<Option<Receipt>, SessionError> {
        let taken = sink.close()?;
        self.record_output(taken)
    }

    /// Answers the call with a complete output. Returns the receipt if it was truncated.
    pub fn finish_with(self, output: &mut dyn Read) -> Result<Option<Receipt>, SessionError> {
        self.driver.keep_lease()?;
        let (now, policy) = (self.driver.now(), Arc::clone(&self.driver.settings.policy));
        let claim = self.driver.lease.claim();
        let archive = Arc::clone(&self.driver.archive);
        let taken = archive.take_output(&claim, &self.part, &self.tool, output, &policy, now)?;
        self.record_output(taken)
    }

    /// Answers the call with an output that has passed layer 1. Returns its receipt.
    pub fn record_output(self, taken: CapturedOutput) -> Result<Option<Receipt>, SessionError> {
        let (now, CapturedOutput { shown, receipt, .. }) = (self.driver.now(), taken);
        self.driver.advance_call(&self.part, |state| {
            state.status = ToolStatus::Completed;
            state.output = Some(shown);
            state.time = ToolTime::ran(state.time.start.unwrap_or(now), now);
        })?;
        Ok(receipt)
    }

    /// Answers the call with an error: its tool ran and failed.
    pub fn fail(self, error: impl Into<Text>) -> Result<(), SessionError> {
        self.driver.fail_calls(&[self.part], error)
    }

    /// Answers the call with an error: its tool did not run, so a revert knows that it changed nothing.
    pub fn refuse(self, error: impl Into<Text>) -> Result<(), SessionError> {
        let (now, error) = (self.driver.now(), error.into());
        self.driver.advance_call(&self.part, |state| {
            state.status = ToolStatus::Error;
            state.error = Some(error);
            state.time = ToolTime::ran(state.time.start.unwrap_or(now), now);
            *own_field(&mut state.extra, "notRun") = Value::Bool(true);
        })
    }

    /// Records metadata of a running call that the model does not see.
    pub fn annotate(&mut self, key: &str, value: Value) -> Result<(), SessionError> {
        self.driver.advance_call(&self.part, |state| {
            let metadata = state.extra.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(fields) = metadata {
                fields.insert(key.to_owned(), value);
            }
        })
    }

    /// Stores content that the window does not show: an image, or an output that was replaced by another text.
    /// `shown` describes it. Returns the handle by which it is recalled.
    pub fn store_hidden(&mut self, shown: &str, content: &mut dyn Read) -> Result<String, SessionError> {
        self.driver.keep_lease()?;
        let (now, archive) = (self.driver.now(), Arc::clone(&self.driver.archive));
        let claim = self.driver.lease.claim();
        Ok(archive.store_hidden(&claim, &self.part, &self.tool, shown, content, now)?)
    }

    /// Stores the content of a file and records how the call is about to change it. The file may be changed once this
    /// has returned. `content` is `None` if the file does not exist.
    pub fn keep_file(&mut self, change: &FileChange, content: Option<&[u8]>) -> Result<(), SessionError> {
        self.driver.keep_content(&self.part, &self.tool, change, content)?;
        let record = json!(change);
        self.note("files", |files| match files {
            Value::Array(files) => files.push(record),
            other => *other = Value::Array(vec![record]),
        })
    }

    /// Records that the call has shown the model a file whose content has this hash.
    pub fn note_seen(&mut self, path: &str, hash: &str) -> Result<(), SessionError> {
        let (path, hash) = (path.to_owned(), Value::from(hash));
        self.note("seen", |seen| match seen {
            Value::Object(seen) => drop(seen.insert(path, hash)),
            other => *other = json!({ path: hash }),
        })
    }

    fn note(&mut self, field: &str, change: impl FnOnce(&mut Value)) -> Result<(), SessionError> {
        self.driver.advance_call(&self.part, |state| change(own_field(&mut state.extra, field)))
    }
}

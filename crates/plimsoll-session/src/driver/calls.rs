//! Recording tool calls: their start, their output through layer 1, their failure.

use std::io::Read;
use std::sync::Arc;

use plimsoll::log::ToolTime;
use plimsoll::{PartId, Receipt, Text, ToolStatus};
use plimsoll_store::Taken;
use serde_json::{Map, Value};

use super::Driver;
use crate::changes::own_field;
use crate::error::SessionError;
use crate::output::OutputSink;

impl Driver {
    /// A tool starts to work on a call.
    pub fn start_call(&mut self, call: &PartId) -> Result<(), SessionError> {
        let now = self.now();
        self.advance_call(call, |state| {
            state.status = ToolStatus::Running;
            state.time = ToolTime::started(now);
        })
    }

    /// A tool has answered: take its output through layer 1, and record the answer. What is cut is kept first.
    pub fn take_output(
        &mut self,
        call: &PartId,
        output: &mut dyn Read,
    ) -> Result<Option<Receipt>, SessionError> {
        let tool = self.tool_of(call)?;
        let (now, policy) = (self.now(), Arc::clone(&self.settings.policy));
        let archive = Arc::clone(&self.archive);
        self.keep_lease()?;
        let taken = archive.take_output(&self.lease.claim(), call, &tool, output, &policy, now)?;
        self.finish_taken(call, taken)
    }

    /// A sink for the output of a tool that prints while it works. It does not borrow the driver, so that several
    /// tools can work at once; [`finish_output`](Driver::finish_output) takes it back.
    pub fn output(&mut self, call: &PartId) -> Result<OutputSink, SessionError> {
        let tool = self.tool_of(call)?;
        self.keep_lease()?;
        let (archive, claim) = (Arc::clone(&self.archive), self.lease.claim());
        let (policy, now, part) = (Arc::clone(&self.settings.policy), self.now(), call.clone());
        OutputSink::spawn(call.clone(), move |output| {
            archive.take_output(&claim, &part, &tool, output, &policy, now)
        })
    }

    /// The tool that printed into a sink has answered: record the answer.
    pub fn finish_output(&mut self, sink: OutputSink) -> Result<Option<Receipt>, SessionError> {
        let call = sink.call().clone();
        let taken = self.close_output(sink)?;
        self.finish_taken(&call, taken)
    }

    /// The tool that printed into a sink has answered: what the answer would be, for hosts that may change it. The call is
    /// answered by [`finish_taken`](Driver::finish_taken), or by [`take_output`](Driver::take_output) with something else.
    pub fn close_output(&mut self, mut sink: OutputSink) -> Result<Taken, SessionError> {
        sink.close()
    }

    /// Keep content of a call that is not shown: an image, or an output that something else is shown in the place of. Gives
    /// the handle it is recalled by.
    pub fn keep_aside(
        &mut self,
        call: &PartId,
        shown: &str,
        content: &mut dyn Read,
    ) -> Result<String, SessionError> {
        let (tool, now, archive) = (self.tool_of(call)?, self.now(), Arc::clone(&self.archive));
        self.keep_lease()?;
        Ok(archive.keep_aside(&self.lease.claim(), call, &tool, shown, content, now)?)
    }

    /// A tool has failed, or was not allowed to run.
    pub fn fail_call(&mut self, call: &PartId, error: impl Into<Text>) -> Result<(), SessionError> {
        let (now, error) = (self.now(), error.into());
        self.advance_call(call, |state| {
            state.status = ToolStatus::Error;
            state.error = Some(error);
            state.time = ToolTime::ran(state.time.start.unwrap_or(now), now);
        })
    }

    /// A call that is not made: like [`fail_call`](Driver::fail_call), recorded as such, so that it is not taken for one
    /// whose doings are not known.
    pub fn refuse_call(&mut self, call: &PartId, error: impl Into<Text>) -> Result<(), SessionError> {
        let (now, error) = (self.now(), error.into());
        self.advance_call(call, |state| {
            state.status = ToolStatus::Error;
            state.error = Some(error);
            state.time = ToolTime::ran(state.time.start.unwrap_or(now), now);
            *own_field(&mut state.extra, "notRun") = Value::Bool(true);
        })
    }

    /// Record something about a running call beside its output, which the model is not shown: a host that looks at the
    /// log later needs no text to know what the call was told.
    pub fn annotate_call(&mut self, call: &PartId, key: &str, value: Value) -> Result<(), SessionError> {
        self.advance_call(call, |state| {
            let metadata = state.extra.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(fields) = metadata {
                fields.insert(key.to_owned(), value);
            }
        })
    }

    /// Record the answer of a call, which has passed layer 1.
    pub fn finish_taken(&mut self, call: &PartId, taken: Taken) -> Result<Option<Receipt>, SessionError> {
        let (now, Taken { shown, receipt, .. }) = (self.now(), taken);
        self.advance_call(call, |state| {
            state.status = ToolStatus::Completed;
            state.output = Some(shown);
            state.time = ToolTime::ran(state.time.start.unwrap_or(now), now);
        })?;
        Ok(receipt)
    }

    fn tool_of(&self, call: &PartId) -> Result<String, SessionError> {
        let part = self.log.part(call)?;
        part.as_tool().map(|tool| tool.tool.clone()).ok_or_else(|| SessionError::NotACall(call.clone()))
    }
}

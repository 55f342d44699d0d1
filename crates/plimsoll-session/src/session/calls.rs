//! Tool calls, recorded from wherever the tool runs.

use std::ops::Deref;

use plimsoll::{Receipt, Text};
use plimsoll_store::CapturedOutput;
use serde_json::Value;

use super::SessionHandle;
use crate::changes::FileChange;
use crate::driver::{self, PendingCall};
use crate::error::SessionError;
use crate::output::OutputSink;

/// A call of the model, and a recorder of what happens to it.
///
/// The call owns a handle of its session, so that tools can run on other tasks or threads, several at once. A call is
/// answered once: by its output, a failure or a refusal. Its futures need no runtime: a tool on a blocking thread waits
/// for them with the `block_on` of whatever executor it has.
///
/// A `ToolCall` dereferences to the [`PendingCall`], which has the tool and its input.
#[derive(Clone, Debug)]
pub struct ToolCall {
    call: PendingCall,
    session: SessionHandle,
}

impl Deref for ToolCall {
    type Target = PendingCall;

    fn deref(&self) -> &PendingCall {
        &self.call
    }
}

impl ToolCall {
    pub(super) fn new(session: &SessionHandle, call: PendingCall) -> ToolCall {
        ToolCall { call, session: session.clone() }
    }

    /// Returns the session that the call belongs to.
    pub fn session(&self) -> &SessionHandle {
        &self.session
    }

    async fn record<T: Send + 'static>(
        &self,
        work: impl FnOnce(driver::ToolCall<'_>) -> Result<T, SessionError> + Send + 'static,
    ) -> Result<T, SessionError> {
        let part = self.call.part.clone();
        self.session.run(move |driver| work(driver.call(&part)?)).await
    }

    /// Records that the tool has started.
    pub async fn start(&self) -> Result<(), SessionError> {
        self.record(|mut call| call.start()).await
    }

    /// Returns a sink for output of any length that is produced piece by piece. Writing to it blocks while the disk is
    /// slower than the tool.
    pub async fn output(&self) -> Result<OutputSink, SessionError> {
        self.record(|mut call| call.output()).await
    }

    /// Answers the call with what was written into its sink. Returns the receipt if the output was truncated.
    pub async fn finish(&self, sink: OutputSink) -> Result<Option<Receipt>, SessionError> {
        self.record(move |call| call.finish(sink)).await
    }

    /// Answers the call with a complete output. Returns the receipt if it was truncated.
    pub async fn finish_with(&self, output: impl Into<Vec<u8>>) -> Result<Option<Receipt>, SessionError> {
        let output = output.into();
        self.record(move |call| call.finish_with(&mut output.as_slice())).await
    }

    /// Returns what the model would see of the output in a sink, for hosts that may change it. The call is answered
    /// by [`record_output`](ToolCall::record_output), or with something else.
    pub async fn close_output(&self, sink: OutputSink) -> Result<CapturedOutput, SessionError> {
        self.session.run(move |_| sink.close()).await
    }

    /// Answers the call with an output that has passed layer 1. Returns its receipt.
    pub async fn record_output(&self, taken: CapturedOutput) -> Result<Option<Receipt>, SessionError> {
        self.record(move |call| call.record_output(taken)).await
    }

    /// Answers the call with an error: its tool ran and failed.
    pub async fn fail(&self, error: impl Into<Text>) -> Result<(), SessionError> {
        let error = error.into();
        self.record(move |call| call.fail(error)).await
    }

    /// Answers the call with an error: its tool did not run, so a revert knows that it changed nothing.
    pub async fn refuse(&self, error: impl Into<Text>) -> Result<(), SessionError> {
        let error = error.into();
        self.record(move |call| call.refuse(error)).await
    }

    /// Records metadata of a running call that the model does not see.
    pub async fn annotate(&self, key: &str, value: Value) -> Result<(), SessionError> {
        let key = key.to_owned();
        self.record(move |mut call| call.annotate(&key, value)).await
    }

    /// Stores content that the window does not show: an image, or an output in whose place something else is shown.
    /// `shown` describes it. Returns the handle by which it is recalled.
    pub async fn store_hidden(
        &self,
        shown: &str,
        content: impl Into<Vec<u8>>,
    ) -> Result<String, SessionError> {
        let (shown, content) = (shown.to_owned(), content.into());
        self.record(move |mut call| call.store_hidden(&shown, &mut content.as_slice())).await
    }

    /// Stores the content of a file and records how the call is about to change it. The file may be changed once this
    /// has returned. `content` is `None` if the file does not exist.
    pub async fn keep_file(&self, change: &FileChange, content: Option<Vec<u8>>) -> Result<(), SessionError> {
        let change = change.clone();
        self.record(move |mut call| call.keep_file(&change, content.as_deref())).await
    }

    /// Records that the call has shown the model a file whose content has this hash.
    pub async fn note_seen(&self, path: &str, hash: &str) -> Result<(), SessionError> {
        let (path, hash) = (path.to_owned(), hash.to_owned());
        self.record(move |mut call| call.note_seen(&path, &hash)).await
    }
}

//! The parts of a turn: a request, the summary it may need first, and its answer.

use std::ops::Deref;

use plimsoll::compact::{Rejection, Reply, SummaryRequest};
use plimsoll::{AnswerEvent, CachePlan, Message, MessageId, PartId, Text, Tokens, Usage};
use plimsoll_tokens::Observed;

use super::{Session, SessionHandle, ToolCall};
use crate::driver::{self, AnswerEnd, Content};
use crate::error::SessionError;

/// A request to send. It is answered or dropped; dropping it changes nothing.
///
/// A `Request` dereferences to its [`Content`].
#[derive(Debug)]
#[must_use = "a request must be answered or dropped"]
pub struct Request<'s> {
    session: &'s mut Session,
    content: Box<Content>,
}

impl<'s> Request<'s> {
    pub(super) fn new(session: &'s mut Session, content: Box<Content>) -> Request<'s> {
        Request { session, content }
    }

    /// Begins the answer to the request. `agent` is recorded as its author, if the host has several.
    pub async fn begin_answer(self, agent: Option<&str>) -> Result<AnswerWriter<'s>, SessionError> {
        let agent = agent.map(str::to_owned);
        // Created before anything is awaited: if this future is dropped, its drop ends the answer like that of any
        // other writer.
        let mut writer =
            AnswerWriter { session: self.session, message: MessageId::default(), is_over: false };
        writer.message = writer.session.run(move |driver| driver.begin_answer(agent.as_deref())).await?;
        Ok(writer)
    }

    /// Records that the provider rejected the request as too long; see [`Session::on_overflow`].
    pub async fn on_overflow(self, window: Option<Tokens>) -> Result<(), SessionError> {
        self.session.on_overflow(window).await
    }

    /// Returns the content, for hosts that do not stream the answer: [`append_recorded`](Session::append_recorded)
    /// takes it whole.
    pub fn into_content(self) -> Content {
        *self.content
    }
}

impl Deref for Request<'_> {
    type Target = Content;

    fn deref(&self) -> &Content {
        &self.content
    }
}

/// A summary that is needed before the next request. Dropping it changes nothing; preparing again returns it again.
///
/// A `SummaryCall` dereferences to the [`SummaryRequest`]: the model, the conversation and the longest answer.
#[derive(Debug)]
#[must_use = "a summary call is answered, timed out or dropped"]
pub struct SummaryCall<'s> {
    session: &'s mut Session,
    request: Box<SummaryRequest>,
}

impl<'s> SummaryCall<'s> {
    pub(super) fn new(session: &'s mut Session, request: Box<SummaryRequest>) -> SummaryCall<'s> {
        SummaryCall { session, request }
    }

    /// Submits the summariser's reply, or why there is none. Returns why the reply was rejected, if it was.
    pub async fn answer(self, reply: Result<Reply, String>) -> Result<Option<Rejection>, SessionError> {
        self.session.run(move |driver| driver.submit_summary(reply)).await
    }

    /// Stops waiting for the summariser, after the policy's `compact.maxSeconds`. The next
    /// [`prepare`](Session::prepare) continues without a model.
    pub async fn time_out(self) -> Result<(), SessionError> {
        self.session
            .run(|driver| {
                driver.time_out_summary();
                Ok(())
            })
            .await
    }

    /// Returns the summary that can be extracted without a model.
    pub async fn offline_summary(&self) -> Result<Option<Text>, SessionError> {
        self.session.run(|driver| Ok(driver.offline_summary())).await
    }

    /// Where to set cache breakpoints in a request that is appended to the session's own window; `None` for a separate
    /// one.
    pub async fn cache_plan(&self) -> Result<Option<CachePlan>, SessionError> {
        self.session.cache_plan(&self.request).await
    }
}

impl Deref for SummaryCall<'_> {
    type Target = SummaryRequest;

    fn deref(&self) -> &SummaryRequest {
        &self.request
    }
}

/// Writes an answer as it streams. Dropping it without an end records the answer as interrupted.
#[derive(Debug)]
#[must_use = "dropping the writer ends the answer as interrupted"]
pub struct AnswerWriter<'s> {
    session: &'s mut Session,
    message: MessageId,
    is_over: bool,
}

impl AnswerWriter<'_> {
    /// Returns the id of the answer.
    pub fn message(&self) -> &MessageId {
        &self.message
    }

    /// Writes an event. Text waits up to [`FLUSH_AFTER`](crate::FLUSH_AFTER) to be stored together with what follows;
    /// everything else is stored when this returns. Returns the part that the event began or ended, if any.
    pub async fn write(&mut self, event: AnswerEvent) -> Result<Option<PartId>, SessionError> {
        self.session.run(move |driver| driver.write_event(event)).await
    }

    /// Completes the answer, after [`AnswerEvent::Finished`] was written.
    pub async fn finish(mut self) -> Result<FinishedAnswer, SessionError> {
        let finished = self.session.run(|driver| driver.finish_answer()).await?;
        self.is_over = true;
        let handle = self.session.handle();
        let calls = finished.calls.iter().map(|call| ToolCall::new(handle, call.clone())).collect();
        let driver::FinishedAnswer { message, reason, usage, observed, .. } = finished;
        Ok(FinishedAnswer { message, reason, usage, calls, observed })
    }

    /// Ends the answer before it is complete. What was written stays in view, and its calls are recorded as not run.
    pub async fn abort(self, why: &str) -> Result<Message, SessionError> {
        self.end(AnswerEnd::Aborted(why.to_owned())).await
    }

    /// Ends the answer as failed, which leaves it out of the window. `name` is the kind of error, such as `APIError`;
    /// `message` must not contain secrets.
    pub async fn fail(self, name: &str, message: &str) -> Result<Message, SessionError> {
        self.end(AnswerEnd::Failed { name: name.to_owned(), message: message.to_owned() }).await
    }

    async fn end(mut self, end: AnswerEnd) -> Result<Message, SessionError> {
        let message = self.session.run(move |driver| driver.break_answer(end)).await?;
        self.is_over = true;
        Ok(message)
    }
}

impl Drop for AnswerWriter<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            let handle: &SessionHandle = self.session;
            // A closed session has no answer to settle. If the store fails, the next operation of the turn fails too.
            let _ = handle.send(|driver| drop(driver.settle_answer()));
        }
    }
}

/// An answer that is complete.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FinishedAnswer {
    /// The stored answer.
    pub message: Message,
    /// Why the model stopped, in the provider's words.
    pub reason: String,
    /// Usage of the response, if the provider reported any.
    pub usage: Option<Usage>,
    /// The calls of the answer, oldest first. Each has to be answered before the next request.
    pub calls: Vec<ToolCall>,
    /// Result of calibrating the counter with the answer's usage.
    pub observed: Option<Observed>,
}

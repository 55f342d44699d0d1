//! The async API of a session.

mod calls;
mod compaction;
mod handle;
mod revert;
mod thread;
mod turn;

use std::ops::Deref;
use std::sync::Arc;

use plimsoll::compact::{Outcome, Reply, SummaryRequest};
use plimsoll::{Message, MessageId, Receipt, Text, Tokens};
use plimsoll_store::{Archive, Lease};

use crate::builder::SessionBuilder;
use crate::climb::ClimbStep;
use crate::driver::{Driver, Prepared};
use crate::error::SessionError;
use crate::overhead::Overhead;
use crate::settings::SessionModel;
use crate::stop::StopFlag;

pub use calls::ToolCall;
pub use compaction::Compaction;
pub use handle::SessionHandle;
pub use revert::RevertRecorder;
pub use turn::{AnswerWriter, FinishedAnswer, Request, SummaryCall};

/// An open session, for async hosts: everything around a model call but the call itself.
///
/// A `Session` is the only owner of the turn: operations that must not overlap take `&mut self`. It dereferences to
/// [`SessionHandle`], whose clones do what may happen concurrently. Each session has a thread that does the blocking
/// work.
///
/// The session's lease is held until it is [closed](Session::close), or until it and all its handles are dropped.
///
/// # Order
///
/// A request must exist before its answer, an answer must end before the next request is prepared, and nothing is
/// appended in between. Hosts that get this wrong do not compile. A second request while an answer is written:
///
/// ```compile_fail,E0499
/// # async fn host(session: &mut plimsoll_session::Session) -> Result<(), plimsoll_session::SessionError> {
/// use plimsoll_session::{AnswerEvent, Prepared};
///
/// let Prepared::Ready(request) = session.prepare().await? else { return Ok(()) };
/// let mut answer = request.begin_answer(None).await?;
/// let next = session.prepare().await?;
/// answer.write(AnswerEvent::Text("Nine metres.".into())).await?;
/// # Ok(())
/// # }
/// ```
///
/// Two answers to one request:
///
/// ```compile_fail,E0382
/// # async fn host(session: &mut plimsoll_session::Session) -> Result<(), plimsoll_session::SessionError> {
/// use plimsoll_session::Prepared;
///
/// let Prepared::Ready(request) = session.prepare().await? else { return Ok(()) };
/// let first = request.begin_answer(None).await?;
/// let second = request.begin_answer(None).await?;
/// # Ok(())
/// # }
/// ```
///
/// More of an answer that was finished:
///
/// ```compile_fail,E0382
/// # async fn host(session: &mut plimsoll_session::Session) -> Result<(), plimsoll_session::SessionError> {
/// use plimsoll_session::{AnswerEvent, Prepared};
///
/// let Prepared::Ready(request) = session.prepare().await? else { return Ok(()) };
/// let mut answer = request.begin_answer(None).await?;
/// answer.finish().await?;
/// answer.write(AnswerEvent::Text("And wide.".into())).await?;
/// # Ok(())
/// # }
/// ```
///
/// A prompt while the answer to the one before is written:
///
/// ```compile_fail,E0499
/// # async fn host(session: &mut plimsoll_session::Session) -> Result<(), plimsoll_session::SessionError> {
/// use plimsoll_session::Prepared;
///
/// let Prepared::Ready(request) = session.prepare().await? else { return Ok(()) };
/// let answer = request.begin_answer(None).await?;
/// session.prompt("And how wide?").await?;
/// answer.finish().await?;
/// # Ok(())
/// # }
/// ```
///
/// In the right order the same calls compile:
///
/// ```
/// # async fn host(session: &mut plimsoll_session::Session) -> Result<(), plimsoll_session::SessionError> {
/// use plimsoll_session::{AnswerEvent, Prepared};
///
/// let Prepared::Ready(request) = session.prepare().await? else { return Ok(()) };
/// let mut answer = request.begin_answer(None).await?;
/// answer.write(AnswerEvent::Text("Nine metres.".into())).await?;
/// answer.write(AnswerEvent::Finished { reason: "stop".into(), usage: None }).await?;
/// answer.finish().await?;
/// session.prompt("And how wide?").await?;
/// let next = session.prepare().await?;
/// # drop(next);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropping a session releases it"]
pub struct Session {
    handle: SessionHandle,
    /// Stops the climb that is under way.
    climbing: StopFlag,
}

impl Deref for Session {
    type Target = SessionHandle;

    fn deref(&self) -> &SessionHandle {
        &self.handle
    }
}

impl SessionBuilder {
    /// Opens the session.
    pub async fn open(self) -> Result<Session, SessionError> {
        Session::spawn(move || self.open_blocking()).await
    }

    /// Opens the session under a lease that was taken before.
    pub async fn open_leased(self, lease: Lease) -> Result<Session, SessionError> {
        Session::spawn(move || self.open_leased_blocking(lease)).await
    }

    /// Reads the session without its lease, which another process may hold. It can be inspected and forked; writes
    /// fail. An answer that is being written is left out.
    pub async fn read(self) -> Result<SessionHandle, SessionError> {
        SessionHandle::spawn(move || self.read_blocking()).await
    }
}

impl Session {
    /// Settings of a session to open.
    pub fn builder(archive: Arc<Archive>) -> SessionBuilder {
        SessionBuilder::new(archive)
    }

    async fn spawn(
        open: impl FnOnce() -> Result<Driver, SessionError> + Send + 'static,
    ) -> Result<Session, SessionError> {
        let handle = SessionHandle::spawn(open).await?;
        Ok(Session { handle, climbing: StopFlag::default() })
    }

    /// Returns the handle, to be cloned for what happens concurrently with the turn.
    pub fn handle(&self) -> &SessionHandle {
        &self.handle
    }

    /// Appends the user's prompt.
    pub async fn prompt(&mut self, text: impl Into<Text>) -> Result<MessageId, SessionError> {
        let text = text.into();
        self.run(move |driver| driver.prompt(text)).await
    }

    /// Appends the policy's request to continue, after a turn that was interrupted. It is marked as not written by the
    /// user, and does not count as a prompt.
    pub async fn continue_turn(&mut self) -> Result<MessageId, SessionError> {
        self.run(Driver::continue_turn).await
    }

    /// Appends a complete message: a prompt with files, or a message of the host. Tool outputs in it are stored
    /// unchanged; [`append_recorded`](Session::append_recorded) truncates them.
    pub async fn append(&mut self, message: Message) -> Result<MessageId, SessionError> {
        self.run(move |driver| driver.append(message)).await
    }

    /// Appends a complete message of a recording. Its tool outputs pass layer 1; the receipts are of those that were
    /// truncated. An answer counts as the answer to the request that was prepared last.
    pub async fn append_recorded(
        &mut self,
        message: Message,
    ) -> Result<(MessageId, Vec<Receipt>), SessionError> {
        self.run(move |driver| driver.append_recorded(message)).await
    }

    /// Settles what an interrupted turn has left: its answer is ended, its compaction is cancelled, and its open calls
    /// are recorded as failed. Hosts call this before a new turn.
    pub async fn settle(&mut self, why: &str) -> Result<(), SessionError> {
        let why = why.to_owned();
        self.run(move |driver| driver.settle(&why)).await
    }

    /// Prepares the next request: weighs the window, and climbs the ladder if it is over the line.
    ///
    /// Dropping the future stops the work, and the session is unchanged.
    pub async fn prepare(&mut self) -> Result<Prepared<Request<'_>, SummaryCall<'_>>, SessionError> {
        let preparing = Preparing { climbing: &mut self.climbing, is_over: false };
        let stop = preparing.climbing.clone();
        let next = self.handle.run(move |driver| driver.prepare_next(&stop)).await;
        preparing.finish();
        let session = self;
        Ok(next?.map(session, Request::new, SummaryCall::new))
    }

    /// Records that the provider rejected the last request as too long. The next [`prepare`](Session::prepare) reduces
    /// whatever the figures say, and twice as much with every overflow in a row.
    ///
    /// `window` is the context window that the error names. If it names none and the model's limits are unknown, the
    /// size of the rejected request bounds the window.
    pub async fn on_overflow(&mut self, window: Option<Tokens>) -> Result<(), SessionError> {
        self.run(move |driver| {
            driver.on_overflow(window);
            Ok(())
        })
        .await
    }

    /// Ends the turn: prunes if the policy prunes after turns. Dropping the future leaves that to the next turn.
    pub async fn end_turn(&mut self) -> Result<Option<Receipt>, SessionError> {
        self.run_until_dropped(Driver::end_turn).await
    }

    /// Compacts on demand. `ask` sends a summary request to a model; without a summariser in the settings it is not
    /// called. `focus` is what the summary should keep above all, in the user's words.
    ///
    /// The time is bounded by `ask`: the policy's `compact.maxSeconds` is for all of its calls together, and an `ask`
    /// that returns an error without a call after that time ends the compaction without a model. A host that waits by
    /// itself begins with [`begin_compaction`](SessionHandle::begin_compaction) and calls [`Compaction::time_out`].
    pub async fn compact(
        &mut self,
        focus: Option<&str>,
        mut ask: impl AsyncFnMut(&SummaryRequest) -> Result<Reply, String>,
    ) -> Result<Outcome, SessionError> {
        let mut compaction = self.begin_compaction(focus).await?;
        let climbed = loop {
            match compaction.step().await? {
                ClimbStep::Ask(request) => drop(compaction.answer(ask(&request).await)?),
                ClimbStep::Done(climbed) => break *climbed,
            }
        };
        let mut outcome = climbed.outcome.clone();
        outcome.reduction.receipts = self.commit(climbed).await?;
        Ok(outcome)
    }

    /// Continues with another model. The next [`prepare`](Session::prepare) first makes the window fit it.
    pub async fn switch_model(&mut self, model: impl Into<SessionModel>) -> Result<(), SessionError> {
        let model = model.into();
        self.run(move |driver| {
            driver.switch_model(model);
            Ok(())
        })
        .await
    }

    /// Replaces the system prompt that the host sends.
    pub async fn set_system(&mut self, text: impl Into<Arc<str>>) -> Result<(), SessionError> {
        let text = text.into();
        self.run(move |driver| {
            driver.set_system(text);
            Ok(())
        })
        .await
    }

    /// Replaces the tools that the host declares: name, description and schema of each as one text.
    pub async fn set_tools<T: Into<String>>(
        &mut self,
        declared: impl IntoIterator<Item = T>,
    ) -> Result<(), SessionError> {
        let declared: Vec<String> = declared.into_iter().map(Into::into).collect();
        self.run(move |driver| {
            driver.set_tools(declared);
            Ok(())
        })
        .await
    }

    /// Replaces the system prompt and the tools, as texts or as tokens.
    pub async fn set_overhead(&mut self, overhead: impl Into<Overhead>) -> Result<(), SessionError> {
        let overhead = overhead.into();
        self.run(move |driver| {
            driver.set_overhead(overhead);
            Ok(())
        })
        .await
    }

    /// Begins the record of a revert of files.
    pub async fn begin_revert(&mut self) -> Result<RevertRecorder<'_>, SessionError> {
        RevertRecorder::begin(self).await
    }

    /// Releases the session's lease, and waits until that is done: a process that merely drops the session may end
    /// before its thread has. Handles of a closed session fail with [`SessionError::Closed`].
    pub async fn close(self) -> Result<(), SessionError> {
        self.handle.close().await
    }
}

/// Stops a climb if the future that waits for it is dropped. A climb obeys one flag from its beginning to its end, so
/// the flag is replaced only once it was set.
struct Preparing<'s> {
    climbing: &'s mut StopFlag,
    is_over: bool,
}

impl Preparing<'_> {
    fn finish(mut self) {
        self.is_over = true;
    }
}

impl Drop for Preparing<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            std::mem::take(self.climbing).stop();
        }
    }
}

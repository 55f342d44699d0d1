//! Operations on a session that may run concurrently with its turn.

use std::fmt;
use std::sync::Arc;

use plimsoll::compact::{HookText, SummaryForm, SummaryRequest};
use plimsoll::edit::Edit;
use plimsoll::pin::PinTarget;
use plimsoll::prune::PruneChoice;
use plimsoll::recall::{RecallAnswer, RecallQuery};
use plimsoll::{
    CachePlan, Counter, Limits, Log, Message, MessageId, PartId, Policy, Receipt, ReceiptId, SessionId,
    Window,
};
use plimsoll_store::{Archive, Lease, NewSession, Note, Session as SessionRecord};
use serde_json::{Map, Value};

use super::thread::{Jobs, StopOnDrop};
use super::{Compaction, ToolCall};
use crate::climb::ClimbOutcome;
use crate::driver::{
    Driver, ForkRequest, Forked, NextReductions, PendingCall, PlannedPrune, Pruned, SessionLoad,
};
use crate::error::SessionError;
use crate::inspect::WindowReport;

/// A handle of an open session, for everything that may happen concurrently with its turn. Clones are cheap and share
/// the session.
///
/// Operations run one after the other, in the order in which they are first polled. Dropping a future does not undo its
/// operation. Operations that compute for long are stopped, and what they have not stored by then is never stored:
/// inspecting, recalling, planning, pruning, pinning, undoing, forking, and beginning a compaction.
#[derive(Clone)]
pub struct SessionHandle {
    jobs: Jobs,
    about: Arc<About>,
}

/// Properties that do not change while a session is open.
struct About {
    id: SessionId,
    archive: Arc<Archive>,
    policy: Arc<Policy>,
}

impl fmt::Debug for SessionHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionHandle").field("session", self.id()).finish_non_exhaustive()
    }
}

impl SessionHandle {
    pub(super) async fn spawn(
        open: impl FnOnce() -> Result<Driver, SessionError> + Send + 'static,
    ) -> Result<SessionHandle, SessionError> {
        let about = |driver: &Driver| About {
            id: driver.session().clone(),
            archive: Arc::clone(driver.archive()),
            policy: Arc::clone(driver.policy()),
        };
        let (jobs, about) = Jobs::spawn(open, about).await?;
        Ok(SessionHandle { jobs, about: Arc::new(about) })
    }

    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Driver) -> Result<T, SessionError> + Send + 'static,
    ) -> Result<T, SessionError> {
        self.jobs.run(work).await
    }

    pub(super) async fn run_until_dropped<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Driver) -> Result<T, SessionError> + Send + 'static,
    ) -> Result<T, SessionError> {
        self.jobs.run_until_dropped(work).await
    }

    pub(super) fn send(&self, work: impl FnOnce(&mut Driver) + Send + 'static) -> Result<(), SessionError> {
        self.jobs.send(work)
    }

    pub(super) async fn close(self) -> Result<(), SessionError> {
        self.jobs.close().await
    }

    /// Returns the session's id.
    pub fn id(&self) -> &SessionId {
        &self.about.id
    }

    /// Returns the archive that holds the session. Its methods block; [`with_archive`](SessionHandle::with_archive)
    /// calls them off the host's threads.
    pub fn archive(&self) -> &Arc<Archive> {
        &self.about.archive
    }

    /// Returns the session's policy.
    pub fn policy(&self) -> &Arc<Policy> {
        &self.about.policy
    }

    /// Reads the messages that the window is made of.
    ///
    /// ```
    /// # async fn host(session: &plimsoll_session::SessionHandle) -> Result<(), plimsoll_session::SessionError> {
    /// let prompts = session.with_log(|log| log.iter().filter(|message| message.is_prompt()).count()).await?;
    /// # let _ = prompts;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn with_log<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Log) -> T + Send + 'static,
    ) -> Result<T, SessionError> {
        self.run(move |driver| Ok(read(driver.log()))).await
    }

    /// Calls the archive on the session's thread, after everything that was asked of the session before.
    pub async fn with_archive<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Archive) -> Result<T, SessionError> + Send + 'static,
    ) -> Result<T, SessionError> {
        self.run(move |driver| read(driver.archive())).await
    }

    /// Returns the session's record: title, totals, times.
    pub async fn record(&self) -> Result<SessionRecord, SessionError> {
        self.run(|driver| Ok(driver.archive().store().session(driver.session())?)).await
    }

    /// Builds the window.
    pub async fn window(&self) -> Result<Window, SessionError> {
        self.run(|driver| Ok(driver.window())).await
    }

    /// Returns a token counter, calibrated with the usage that the session's model has reported.
    pub async fn counter(&self) -> Result<Arc<dyn Counter>, SessionError> {
        self.run(|driver| Ok(driver.counter())).await
    }

    /// Returns the limits of the model, including a context window that was learned from an overflow error.
    pub async fn limits(&self) -> Result<Limits, SessionError> {
        self.run(|driver| Ok(driver.limits())).await
    }

    /// Returns the lease under which the session is written.
    pub async fn lease(&self) -> Result<Lease, SessionError> {
        self.run(|driver| Ok(driver.lease().clone())).await
    }

    /// Renews the lease if half of it has passed, and returns it. The session's thread does so by itself; this reports
    /// whether the session was taken over.
    pub async fn keep_lease(&self) -> Result<Lease, SessionError> {
        self.run(|driver| {
            driver.keep_lease()?;
            Ok(driver.lease().clone())
        })
        .await
    }

    /// Returns the answer that ended the newest turn: one that is complete and calls nothing. `None` if the turn is not
    /// over.
    pub async fn final_answer(&self) -> Result<Option<Message>, SessionError> {
        self.run(|driver| Ok(driver.final_answer().cloned())).await
    }

    /// Whether the newest answer was broken off in its text, so that the next request would end with half an answer.
    pub async fn is_broken_off(&self) -> Result<bool, SessionError> {
        self.run(|driver| Ok(driver.is_broken_off())).await
    }

    /// Returns the content of the window by kind, tool, file and turn. It reads the whole session.
    pub async fn inspect(&self) -> Result<WindowReport, SessionError> {
        self.run_until_dropped(|driver| driver.inspect()).await
    }

    /// Returns the size of the next request and its distance from the line. It costs as much as the window is long.
    pub async fn load(&self) -> Result<SessionLoad, SessionError> {
        self.run_until_dropped(|driver| driver.load()).await
    }

    /// Plans the next reductions, without making them.
    pub async fn plan(&self) -> Result<NextReductions, SessionError> {
        self.run_until_dropped(|driver| driver.plan()).await
    }

    /// Answers a call of the recall tool.
    pub async fn recall(&self, query: RecallQuery) -> Result<RecallAnswer, SessionError> {
        self.run_until_dropped(move |driver| driver.recall(&query)).await
    }

    /// Receipts of all reductions of the session, oldest first.
    pub async fn receipts(&self) -> Result<Vec<Receipt>, SessionError> {
        self.run(|driver| Ok(driver.archive().store().receipts(driver.session(), None, u64::MAX)?)).await
    }

    /// Undoes a reduction. Reductions can be undone in any order, each once.
    pub async fn undo(&self, receipt: &ReceiptId) -> Result<Receipt, SessionError> {
        let receipt = receipt.clone();
        self.run_until_dropped(move |driver| driver.undo(&receipt)).await
    }

    /// Finds what can be pinned under the id of a message, the id of a part, or some words.
    pub async fn find_pin(&self, what: &str) -> Result<PinTarget, SessionError> {
        let what = what.to_owned();
        self.run_until_dropped(move |driver| driver.find_pin(&what)).await
    }

    /// Pins text: it stays in view verbatim, whatever is reduced.
    pub async fn pin(&self, target: PinTarget) -> Result<Receipt, SessionError> {
        self.run_until_dropped(move |driver| driver.pin(&target)).await
    }

    /// Changes or removes text of a message. The log keeps the original, which undoing the receipt brings back.
    pub async fn edit(&self, message: &MessageId, edit: Edit) -> Result<Receipt, SessionError> {
        let message = message.clone();
        self.run(move |driver| driver.edit(&message, &edit)).await
    }

    /// Clears old tool outputs: those that are chosen, or else by the policy's rules. `reason` is recorded in the
    /// receipt.
    pub async fn prune(&self, choice: Option<PruneChoice>, reason: &str) -> Result<Pruned, SessionError> {
        let reason = reason.to_owned();
        self.run_until_dropped(move |driver| match choice {
            Some(choice) => driver.prune_choice(&choice, &reason),
            None => driver.prune(&reason),
        })
        .await
    }

    /// Plans a prune of the chosen outputs, or by the policy's rules, without making it.
    pub async fn preview_prune(&self, choice: Option<PruneChoice>) -> Result<PlannedPrune, SessionError> {
        self.run_until_dropped(move |driver| driver.preview_prune(choice.as_ref())).await
    }

    /// Plans a prune again, and applies it if `is_accepted` recognises it as the one that the user saw. `None` if it
    /// does not. Nothing can change the session in between.
    pub async fn prune_if(
        &self,
        choice: Option<PruneChoice>,
        reason: &str,
        is_accepted: impl FnOnce(&PlannedPrune) -> bool + Send + 'static,
    ) -> Result<Option<Pruned>, SessionError> {
        let reason = reason.to_owned();
        self.run_until_dropped(move |driver| driver.prune_if(choice.as_ref(), &reason, is_accepted)).await
    }

    /// Creates a child session with this session's context, and with its task as the last message. This session is not
    /// changed.
    pub async fn fork(&self, request: ForkRequest) -> Result<Forked, SessionError> {
        self.run_until_dropped(move |driver| driver.fork(request)).await
    }

    /// Creates a session that begins with all of this one, shared, and continues on its own. An empty id is replaced by
    /// a generated one.
    pub async fn branch(&self, new: NewSession) -> Result<SessionRecord, SessionError> {
        self.run(move |driver| driver.branch(new)).await
    }

    /// Returns the call that a part holds.
    pub async fn call(&self, part: &PartId) -> Result<ToolCall, SessionError> {
        let part = part.clone();
        let call = self.run(move |driver| PendingCall::of(driver.log().part(&part)?)).await?;
        Ok(ToolCall::new(self, call))
    }

    /// Returns the calls of the newest answer that are not answered, oldest first.
    pub async fn open_calls(&self) -> Result<Vec<ToolCall>, SessionError> {
        let calls = self.run(|driver| Ok(driver.open_calls())).await?;
        Ok(calls.into_iter().map(|call| ToolCall::new(self, call)).collect())
    }

    /// Changes the session's title.
    pub async fn set_title(&self, title: impl Into<String>) -> Result<(), SessionError> {
        let title = title.into();
        self.run(move |driver| driver.set_title(title)).await
    }

    /// Changes the agent that runs the session.
    pub async fn set_agent(&self, agent: impl Into<String>) -> Result<(), SessionError> {
        let agent = agent.into();
        self.run(move |driver| driver.set_agent(agent)).await
    }

    /// Changes the settings that hosts keep with the session. No other change comes in between.
    pub async fn update_settings(
        &self,
        update: impl FnOnce(&mut Map<String, Value>) + Send + 'static,
    ) -> Result<(), SessionError> {
        self.run(move |driver| driver.update_settings(update)).await
    }

    /// Returns the notes in the session's inbox, oldest first, at most `most` of them; 0 for 100.
    pub async fn notes(&self, most: u64) -> Result<Vec<Note>, SessionError> {
        self.run(move |driver| Ok(driver.archive().store().notes(driver.session(), most)?)).await
    }

    /// Removes notes from the session's inbox, once what they say is stored. Returns those that were still there.
    pub async fn take_notes(&self, ids: Vec<String>) -> Result<Vec<Note>, SessionError> {
        self.run(move |driver| driver.take_notes(&ids)).await
    }

    /// Replaces what is added to summary requests. A compaction that a request waits for is restarted. Returns whether
    /// the text changed.
    pub async fn set_summary_hook(&self, hook: HookText) -> Result<bool, SessionError> {
        self.run(move |driver| Ok(driver.set_summary_hook(hook))).await
    }

    /// Where to set cache breakpoints in a summary request that is appended to the session's own window; `None` for a
    /// separate one.
    pub async fn cache_plan(&self, request: &SummaryRequest) -> Result<Option<CachePlan>, SessionError> {
        if matches!(request.form, SummaryForm::Separate { .. }) {
            return Ok(None);
        }
        let request = request.clone();
        self.run(move |driver| Ok(driver.summary_cache_plan(&request))).await
    }

    /// Whether the next request would have to be compacted first.
    pub async fn is_over_line(&self) -> Result<bool, SessionError> {
        self.run_until_dropped(|driver| Ok(driver.is_over_line())).await
    }

    /// Begins a compaction that the user asked for. `focus` is what the summary should keep above all, in the user's
    /// words.
    pub async fn begin_compaction(&self, focus: Option<&str>) -> Result<Compaction, SessionError> {
        let (focus, stop) = (focus.map(str::to_owned), StopOnDrop::new());
        let flag = stop.flag();
        let climb =
            self.run(move |driver| driver.with_stop_flag(&flag, |driver| driver.begin_compaction(focus)));
        Ok(Compaction::new(climb.await?, stop))
    }

    /// Whether [`begin_precompaction`](SessionHandle::begin_precompaction) would return a compaction.
    pub async fn wants_precompaction(&self) -> Result<bool, SessionError> {
        self.run_until_dropped(|driver| Ok(driver.wants_precompaction())).await
    }

    /// Begins a compaction that runs concurrently with the turn, if the window is over the policy's soft line. `None`
    /// if the policy has no such line, without a summariser, or if one was begun since the window was last reduced.
    pub async fn begin_precompaction(&self) -> Result<Option<Compaction>, SessionError> {
        let stop = StopOnDrop::new();
        let flag = stop.flag();
        let climb = self.run(move |driver| driver.with_stop_flag(&flag, Driver::begin_precompaction)).await?;
        Ok(climb.map(|climb| Compaction::new(climb, stop)))
    }

    /// Keeps the outcome of a precompaction. It takes effect in the first [`prepare`](super::Session::prepare) that
    /// finds the window over the line, and what was appended since stays in view. Returns whether it is kept: an
    /// outcome without a summary, or from before the last reduction, is discarded.
    pub async fn stash_precompaction(&self, outcome: ClimbOutcome) -> Result<bool, SessionError> {
        self.run(move |driver| Ok(driver.stash_precompaction(outcome))).await
    }

    /// Commits the outcome of a compaction. Fails as stale if something else was reduced or undone since it began.
    /// Messages that were appended since then stay in view.
    pub async fn commit(&self, outcome: ClimbOutcome) -> Result<Vec<Receipt>, SessionError> {
        self.run(move |driver| driver.commit(outcome)).await
    }
}

//! Runs the calls of an answer.

use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use plimsoll::{PartId, Receipt};
use plimsoll_config::HookEvent;
use plimsoll_sandbox::{Access, Action, PermissionRequest, PermissionRule, Subject};
use plimsoll_session::{OutputSink, ToolCall as CallRecord};
use serde_json::Value;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::guard::{CallDecision, repeat_warning};
use super::hooks::{HookedInput, HookedOutput};
use super::{Conversation, Progress};
use crate::agent::{Tool, ToolCall, ToolError};
use crate::ask::{PermissionAnswer, PermissionQuestion};
use crate::error::AgentError;
use crate::event::Event;
use crate::figures::CallStatus;
use crate::hooks::HookedCall;
use crate::metrics;
use crate::permissions::{AllowHint, IN_PROJECT_FILE};
use crate::report::RunEnd;

/// Maximum number of concurrent calls. Each uses several threads.
const MAX_AT_ONCE: usize = 8;
/// Maximum number of calls in one answer. More indicate a model that is stuck.
const MAX_CALLS: usize = 128;

/// Maximum length of an input that a hook has changed, when it is shown to the model, in characters.
const SHOWN_INPUT: usize = 500;

/// A call that was not made yet.
struct PendingCall {
    part: PartId,
    tool: String,
    record: CallRecord,
    /// Input from the model or from a hook.
    input: Value,
    is_changed: bool,
}

impl PendingCall {
    fn new(record: CallRecord) -> PendingCall {
        let (part, tool, input) = (record.part.clone(), record.tool.clone(), record.input.clone());
        PendingCall { part, tool, record, input, is_changed: false }
    }

    /// Returns a note for the model if a hook changed the input.
    fn note(&self) -> Option<String> {
        let input: String = self.input.to_string().chars().take(SHOWN_INPUT).collect();
        self.is_changed.then(|| format!("\n\n[A hook changed the input of this call to: {input}]"))
    }
}

/// A call whose tool has ended.
struct FinishedCall {
    call: PendingCall,
    sink: OutputSink,
    result: Result<(), ToolError>,
    hash: u64,
    bytes: u64,
    /// Exit of a command that failed.
    ending: Option<String>,
}

/// Reason why a call was not completed.
struct CallRefusal {
    status: CallStatus,
    error: String,
    /// Whether the tool had started and may have changed something.
    was_run: bool,
}

impl Conversation {
    /// Runs the calls of the newest answer. Returns how the run ends, or `None` if the model has to be asked again.
    pub(crate) async fn run_calls(
        &mut self,
        calls: Vec<CallRecord>,
        progress: &mut Progress,
        cancel: &CancellationToken,
    ) -> Result<Option<RunEnd>, AgentError> {
        let mut pending = calls.into_iter().map(PendingCall::new).enumerate().peekable();
        let (mut end, mut failure) = (None, None);
        // If the run is dropped, its tools must not continue during the next run.
        let tools_cancel = cancel.child_token();
        let _guard = tools_cancel.clone().drop_guard();
        while pending.peek().is_some() {
            // Read-only calls run concurrently, others one at a time, in the order of the model's calls.
            let mut batch = Vec::new();
            let joins_batch = |batch: &[(usize, PendingCall)], call: &PendingCall| {
                batch.is_empty() || (batch.len() < MAX_AT_ONCE && self.is_parallel(&call.tool))
            };
            while let Some(call) = pending.next_if(|(_, call)| joins_batch(&batch, call)) {
                let is_parallel = self.is_parallel(&call.1.tool);
                batch.push(call);
                if !is_parallel {
                    break;
                }
            }
            // All calls of a batch are judged before the first is awaited, so that the user is asked while others run.
            let mut working = Vec::new();
            for (number, mut call) in batch {
                if cancel.is_cancelled() || end.is_some() || failure.is_some() {
                    let error = "Not run: the run was ended before.".into();
                    let refusal = CallRefusal { status: CallStatus::Cancelled, error, was_run: false };
                    self.refuse(call, refusal, progress).await?;
                    continue;
                }
                match self.judge(&mut call, number, cancel).await {
                    Ok((tool, subject)) => match self.start(call, tool, subject, &tools_cancel).await {
                        Ok(work) => working.push(work),
                        Err(error) => failure = failure.or(Some(error)),
                    },
                    Err(refusal) => {
                        let stop = self.refuse(call, refusal, progress).await?;
                        end = end.or(stop);
                    }
                }
            }
            for work in working {
                // Record the other results even if one could not be recorded.
                let finished = match work.await {
                    Ok(finished) => self.finish(finished, progress, cancel).await,
                    Err(error) => Err(AgentError::Internal(error.into())),
                };
                match finished {
                    Ok(stop) => end = end.or(stop),
                    Err(error) => failure = failure.or(Some(error)),
                }
            }
        }
        if let Some(error) = failure {
            return Err(error);
        }
        if cancel.is_cancelled() {
            return Ok(Some(RunEnd::Cancelled));
        }
        Ok(end)
    }

    fn is_parallel(&self, tool: &str) -> bool {
        self.agent.profile.tools.get(tool).is_none_or(|tool| tool.is_parallel())
    }

    /// Checks whether a call may be made, by the rules or by asking the user.
    async fn judge(
        &mut self,
        call: &mut PendingCall,
        number: usize,
        cancel: &CancellationToken,
    ) -> Result<(Arc<dyn Tool>, Subject), CallRefusal> {
        let (mut tool, mut subject) = self.find(call, number)?;
        if self.agent.has_hooks(HookEvent::ToolBefore, Some(&call.tool)) {
            match self.hook_input(&self.hooked(call), cancel).await {
                HookedInput::Same => {}
                // Permissions are checked against the changed input.
                HookedInput::Changed(input) => {
                    (call.input, call.is_changed) = (input, true);
                    (tool, subject) = self.find(call, number)?;
                }
                HookedInput::Refused(words) => {
                    let error = format!("Denied by a hook: {words}");
                    return Err(CallRefusal { status: CallStatus::Denied, error, was_run: false });
                }
                HookedInput::Cancelled => {
                    let error = ToolError::Cancelled.to_string();
                    return Err(CallRefusal { status: CallStatus::Cancelled, error, was_run: false });
                }
            }
        }
        let (access, directory) = (tool.access(), &self.agent.directory);
        let rules = self.agent.profile.rules(&self.granted);
        let request = PermissionRequest::new(&call.tool, access, &subject, directory);
        let mut action = rules.decide(request);
        if action == Action::Ask
            && access == Access::Read
            && (self.is_opened(&call.tool, &subject) || self.is_own_output(&call.tool, &subject).await)
        {
            action = Action::Allow;
        }
        let words = match (action, self.agent.asker.clone()) {
            (Action::Allow, _) => return Ok((tool, subject)),
            (Action::Deny, _) | (Action::Ask, None) => None,
            (Action::Ask, Some(asker)) => {
                // The content of a file is shown only if reading it needs no permission.
                let reading = PermissionRequest::new("read", Access::Read, &subject, directory);
                let may_read =
                    matches!(subject, Subject::Address(_)) || rules.decide(reading) == Action::Allow;
                if may_read && let Err(error) = tool.precheck(&call.input, &subject, directory, &self.files) {
                    let status = self.status_of(&error, &call.part, &call.tool);
                    return Err(CallRefusal { status, error: error.to_string(), was_run: false });
                }
                let question = PermissionQuestion {
                    session: self.session.id().clone(),
                    agent: self.agent.profile.name.clone(),
                    part: call.part.clone(),
                    tool: call.tool.clone(),
                    what: subject.describe().unwrap_or_else(|| format!("{:#}", call.input)),
                    preview: tool.preview(&call.input, &subject, directory),
                    why: rules.reason_to_ask(request),
                    always: PermissionRule::remembered_for(request),
                };
                // The user should know whether the command is confined before deciding.
                self.report_confinement(&call.tool, &*tool);
                self.agent.emit(&Event::Asked { part: call.part.clone(), tool: call.tool.clone() });
                let answer = tokio::select! {
                    biased;
                    () = cancel.cancelled() => {
                        let error = ToolError::Cancelled.to_string();
                        return Err(CallRefusal { status: CallStatus::Cancelled, error, was_run: false });
                    }
                    answer = asker.ask(&question, cancel) => answer,
                };
                let always = answer == PermissionAnswer::Always;
                match answer {
                    PermissionAnswer::Once | PermissionAnswer::Always => {
                        if always {
                            // Both lists: `granted` answers for the agents above a task, the profile for this agent.
                            self.granted.rules.push(question.always.clone());
                            self.agent.profile.permissions.rules.push(question.always);
                        }
                        let (part, tool_name) = (call.part.clone(), call.tool.clone());
                        self.agent.emit(&Event::Permitted { part, tool: tool_name, always });
                        return Ok((tool, subject));
                    }
                    PermissionAnswer::No { words } => Some(words),
                }
            }
        };
        let hint = AllowHint::find(&self.agent.profile, &self.granted, request, tool.also_needs(&subject));
        self.agent.emit(&Event::Denied {
            part: call.part.clone(),
            tool: call.tool.clone(),
            hint: hint.clause(),
            allow: hint.flag,
            setting: hint.setting,
            also: hint.also,
            rule: hint.rule,
            asked: words.is_some(),
        });
        let is_outside = matches!(&subject, Subject::Path { real, .. } if !real.starts_with(directory));
        let what = match access {
            Access::Read if is_outside => "reading outside the project",
            Access::Read => "reading this",
            Access::Act | Access::Session => "this call",
        };
        let error = match words {
            None => format!(
                "Denied: {what} is not allowed here. Continue without it, or tell the user why you need it."
            ),
            Some(None) => "Denied: the user declined. Continue without it.".into(),
            Some(Some(words)) => format!("Denied: the user declined: {words}"),
        };
        Err(CallRefusal { status: CallStatus::Denied, error, was_run: false })
    }

    fn hooked(&self, call: &PendingCall) -> HookedCall {
        HookedCall {
            session: self.session.id().clone(),
            agent: self.agent.profile.name.clone(),
            part: call.part.clone(),
            tool: call.tool.clone(),
            input: call.input.clone(),
        }
    }

    /// Returns whether a call reads in a directory that was opened to the model, unless a rule decides otherwise.
    fn is_opened(&self, tool: &str, subject: &Subject) -> bool {
        matches!(subject, Subject::Path { real, .. } if self.files.is_opened(real))
            && !self.is_ruled(tool, subject)
    }

    /// Returns whether a call reads the file of a spilled output of this session, unless a rule decides otherwise.
    /// Outputs of other sessions are in the same directory and stay closed.
    async fn is_own_output(&self, tool: &str, subject: &Subject) -> bool {
        let Subject::Path { real, .. } = subject else { return false };
        let (session, path) = (self.session.id().clone(), real.clone());
        let is_own = self.session.with_archive(move |archive| Ok(archive.is_spilled_file(&session, &path)));
        is_own.await.unwrap_or(false) && !self.is_ruled(tool, subject)
    }

    /// Returns whether a rule denies such a call or asks about it.
    fn is_ruled(&self, tool: &str, subject: &Subject) -> bool {
        let request = PermissionRequest::new(tool, Access::Read, subject, &self.agent.directory);
        self.agent.profile.rules(&self.granted).restrict(request)
    }

    /// Finds the tool of a call and the call's subject.
    fn find(&self, call: &PendingCall, number: usize) -> Result<(Arc<dyn Tool>, Subject), CallRefusal> {
        let failed = |error: String| CallRefusal { status: CallStatus::Failed, error, was_run: false };
        if number >= MAX_CALLS {
            return Err(failed(format!(
                "Not run: an answer can make at most {MAX_CALLS} calls. Make fewer, and read their results."
            )));
        }
        let tools = &self.agent.profile.tools;
        let Some(tool) = tools.get(&call.tool) else {
            let known = tools.names().join(", ");
            return Err(failed(format!("Unknown tool `{}` (available: {known}).", call.tool)));
        };
        if let Value::String(text) = &call.input {
            let end: String = text.chars().rev().take(40).collect::<Vec<_>>().into_iter().rev().collect();
            return Err(failed(format!(
                "The input of this call is not a JSON object and may have been cut off; it ends with `{end}`. Make the call \
                 again, with less in it if it was long."
            )));
        }
        let subject = tool.subject(&call.input, &self.agent.directory);
        Ok((Arc::clone(tool), subject.map_err(|error| failed(error.to_string()))?))
    }

    /// Reports the confinement of commands, once per conversation.
    fn report_confinement(&self, name: &str, tool: &dyn Tool) {
        if let Some(confinement) = tool.confinement()
            && !self.has_reported_confinement.swap(true, Ordering::Relaxed)
        {
            let confinement = confinement.clone();
            self.agent.emit(&Event::Confined { tool: name.to_owned(), confinement });
        }
    }

    /// Starts a tool on its own thread.
    async fn start(
        &self,
        call: PendingCall,
        tool: Arc<dyn Tool>,
        subject: Subject,
        cancel: &CancellationToken,
    ) -> Result<tokio::task::JoinHandle<FinishedCall>, AgentError> {
        call.record.start().await?;
        let sink = call.record.output().await?;
        self.report_confinement(&call.tool, &*tool);
        self.agent.emit(&Event::CallStarted {
            part: call.part.clone(),
            tool: call.tool.clone(),
            input: call.input.clone(),
        });
        let (directory, cancel) = (self.agent.directory.clone(), cancel.clone());
        let (runtime, agent, session) = (Handle::current(), self.agent.clone(), self.session.id().clone());
        let (files, events) = (Arc::clone(&self.files), Arc::clone(&self.agent.events));
        let granted = self.granted.clone();
        Ok(tokio::task::spawn_blocking(move || {
            let mut out = Counted { sink, hasher: DefaultHasher::new(), bytes: 0, tail: Vec::new() };
            let may_read = |path: &Path| {
                let subject = Subject::Path { named: path.to_owned(), real: path.to_owned() };
                // A tool that changes files suggests paths close to a missing one, and may suggest only what `glob`
                // would find.
                let seen_by = if tool.access() == Access::Read { call.tool.as_str() } else { "glob" };
                let request = PermissionRequest::new(seen_by, Access::Read, &subject, &directory);
                !agent.profile.rules(&granted).restrict(request)
            };
            let judge_address = |address: &str| {
                let subject = Subject::Address(address.to_owned());
                let request = PermissionRequest::new(&call.tool, tool.access(), &subject, &directory);
                agent.profile.rules(&granted).decide(request)
            };
            let made = ToolCall {
                judge_address: &judge_address,
                may_read: &may_read,
                agent: &agent,
                session: &session,
                part: &call.part,
                input: &call.input,
                subject: &subject,
                files: &files,
                events: &events,
                directory: &directory,
                record: &call.record,
                runtime: &runtime,
                cancel: &cancel,
            };
            let result = tool.run(&made, &mut out);
            let ending = matches!(subject, Subject::Command(_)).then(|| out.ending()).flatten();
            let (hash, bytes) = (out.hasher.finish(), out.bytes);
            FinishedCall { call, sink: out.sink, result, hash, bytes, ending }
        }))
    }

    /// Returns the status of a failed call. If the tool itself denied it, the user is shown the setting that would
    /// allow it.
    fn status_of(&self, error: &ToolError, part: &PartId, tool: &str) -> CallStatus {
        match error {
            ToolError::Cancelled => CallStatus::Cancelled,
            ToolError::Denied { setting, .. } => {
                self.agent.emit(&Event::Denied {
                    part: part.clone(),
                    tool: tool.to_owned(),
                    hint: format!("`{setting}` {IN_PROJECT_FILE} allows it"),
                    allow: None,
                    setting: Some(setting.clone()),
                    also: None,
                    rule: None,
                    asked: false,
                });
                CallStatus::Denied
            }
            _ => CallStatus::Failed,
        }
    }

    /// Records the result of a call.
    async fn finish(
        &self,
        finished: FinishedCall,
        progress: &mut Progress,
        cancel: &CancellationToken,
    ) -> Result<Option<RunEnd>, AgentError> {
        let FinishedCall { call, mut sink, result, hash, bytes, ending } = finished;
        if let (Err(ToolError::Cancelled), 1..) = (&result, bytes) {
            // Keep the output so far: it may be the reason why the user stopped the call.
            let words = format!("\n[{}]", ToolError::Cancelled);
            let _ = sink.write_all(words.as_bytes());
            let receipt = call.record.finish(sink).await?;
            self.agent.reduced(progress, receipt.as_slice());
            self.report_call_end(&call, CallStatus::Cancelled, bytes, Some(ToolError::Cancelled.to_string()));
            return Ok(None);
        }
        if let Err(error) = result {
            // A long output is stored although the call is answered with the error.
            drop(sink);
            let status = self.status_of(&error, &call.part, &call.tool);
            let mut error = error.to_string();
            if status == CallStatus::Failed && self.agent.has_hooks(HookEvent::ToolAfter, Some(&call.tool)) {
                error += &self.hook_output(&self.hooked(&call), status, &error, cancel).await.addition;
            }
            if let Some(note) = call.note() {
                error.push_str(&note);
            }
            return self.refuse(call, CallRefusal { status, error, was_run: true }, progress).await;
        }
        let verdict = progress.guard.observe(progress.steps, &call.tool, &call.input, hash);
        if let CallDecision::Warn(times) = verdict {
            // If the output cannot be stored, `finish` below reports it.
            let _ = sink.write_all(repeat_warning(times).as_bytes());
        }
        if bytes == 0 && !matches!(verdict, CallDecision::Warn(_)) {
            let _ = sink.write_all(b"[no output]");
        }
        if let Some(note) = call.note() {
            let _ = sink.write_all(note.as_bytes());
        }
        let receipts = match self.agent.has_hooks(HookEvent::ToolAfter, Some(&call.tool)) {
            false => call.record.finish(sink).await?.into_iter().collect(),
            true => self.finish_hooked(&call, sink, cancel).await?,
        };
        self.agent.reduced(progress, &receipts);
        self.report_call_end(&call, CallStatus::Completed, bytes, ending);
        Ok(self.run_end_for(&call.tool, verdict))
    }

    /// Records the result of a call after hooks have changed it.
    async fn finish_hooked(
        &self,
        call: &PendingCall,
        sink: OutputSink,
        cancel: &CancellationToken,
    ) -> Result<Vec<Receipt>, AgentError> {
        let mut taken = call.record.close_output(sink).await?;
        let status = CallStatus::Completed;
        let hooked = self.hook_output(&self.hooked(call), status, taken.shown.as_str(), cancel).await;
        let HookedOutput { replacement, addition } = hooked;
        let Some(text) = replacement else {
            if !addition.is_empty() {
                taken.shown = format!("{}{addition}", taken.shown.as_str()).into();
            }
            return Ok(call.record.record_output(taken).await?.into_iter().collect());
        };
        // Store the original first: without a copy nothing is replaced.
        let handle = match call.record.store_hidden(&text, taken.shown.as_str()).await {
            Ok(handle) => handle,
            Err(error) => {
                let note =
                    format!("\n\n[A hook tried to replace this output, which could not be stored: {error}]");
                taken.shown = format!("{}{note}", taken.shown.as_str()).into();
                return Ok(call.record.record_output(taken).await?.into_iter().collect());
            }
        };
        let note = format!("\n\n[A hook replaced this output; the original is stored as {handle}]");
        let shown = format!("{}{addition}{note}", text.trim_end());
        let second = call.record.finish_with(shown).await?;
        Ok(taken.receipt.into_iter().chain(second).collect())
    }

    /// Answers a call with an error.
    async fn refuse(
        &self,
        call: PendingCall,
        refusal: CallRefusal,
        progress: &mut Progress,
    ) -> Result<Option<RunEnd>, AgentError> {
        let CallRefusal { status, mut error, was_run } = refusal;
        let mut hasher = DefaultHasher::new();
        hasher.write(error.as_bytes());
        let verdict = match status {
            // The model did not cause a cancellation, so it is not a repetition.
            CallStatus::Cancelled => CallDecision::Continue,
            _ => progress.guard.observe(progress.steps, &call.tool, &call.input, hasher.finish()),
        };
        if let CallDecision::Warn(times) = verdict {
            error.push_str(&repeat_warning(times));
        }
        match was_run {
            true => call.record.fail(error.as_str()).await?,
            false => call.record.refuse(error.as_str()).await?,
        }
        self.report_call_end(&call, status, 0, Some(error));
        Ok(self.run_end_for(&call.tool, verdict))
    }

    fn report_call_end(&self, call: &PendingCall, status: CallStatus, bytes: u64, error: Option<String>) {
        let known = self.agent.profile.tools.get(&call.tool).map(|_| call.tool.as_str());
        metrics::called(known, status);
        tracing::info!(tool = known.unwrap_or("unknown"), ?status, bytes, "a call was answered");
        self.agent.emit(&Event::CallEnded {
            part: call.part.clone(),
            tool: call.tool.clone(),
            status,
            bytes,
            error,
        });
    }

    fn run_end_for(&self, tool: &str, verdict: CallDecision) -> Option<RunEnd> {
        let tool = tool.to_owned();
        match verdict {
            CallDecision::Continue => None,
            CallDecision::Warn(times) => {
                tracing::warn!(times, "the model repeats a call");
                self.agent.emit(&Event::Repeating { tool, times });
                None
            }
            CallDecision::Stop(_) => Some(RunEnd::Repeating { tool }),
        }
    }
}

/// Counts and hashes an output before it is truncated.
struct Counted {
    sink: OutputSink,
    hasher: DefaultHasher,
    bytes: u64,
    /// The last bytes, which contain the note about a command's exit.
    tail: Vec<u8>,
}

/// Maximum length of that note.
const TAIL: usize = 100;

impl Counted {
    /// Returns the last line if it is a note in brackets: an exit code, a signal, a timeout. A command can print such a
    /// line itself, so it is only for display.
    fn ending(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.tail);
        let note = text.trim_end().lines().last()?.strip_prefix('[')?.strip_suffix(']')?;
        Some(note.to_owned())
    }
}

impl Write for Counted {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let count = self.sink.write(piece)?;
        self.hasher.write(&piece[..count]);
        self.bytes += count as u64;
        self.tail.extend_from_slice(&piece[count.saturating_sub(TAIL)..count]);
        let old = self.tail.len().saturating_sub(TAIL);
        self.tail.drain(..old);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

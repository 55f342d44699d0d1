//! Running what the model has called.

use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Write};
use std::sync::Arc;

use plimsoll::{PartId, Receipt};
use plimsoll_config::Action;
use plimsoll_session::OutputSink;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::error::AgentError;
use crate::event::{CallStatus, Event};
use crate::guard::{Verdict, told};
use crate::metrics;
use crate::permissions::{Access, decide, flag_for};
use crate::run::{Conversation, Progress, RunEnd};
use crate::tools::{Tool, ToolCall, ToolError};

/// A call that waits to be made.
struct Waiting {
    part: PartId,
    tool: String,
    input: Value,
}

/// A call whose tool has ended.
struct Worked {
    call: Waiting,
    sink: OutputSink,
    result: Result<(), ToolError>,
    hash: u64,
    bytes: u64,
}

/// What a call is answered with instead of being made.
struct Answer {
    status: CallStatus,
    error: String,
}

impl Conversation {
    /// Make the calls of the newest answer. Gives how the run ends, if it does; none if the model has to be asked again.
    pub(crate) async fn run_calls(
        &mut self,
        progress: &mut Progress,
        cancel: &CancellationToken,
    ) -> Result<Option<RunEnd>, AgentError> {
        let mut waiting = self.waiting().await?.into_iter().peekable();
        let mut end = None;
        while waiting.peek().is_some() {
            // Calls that only look run side by side, one that acts runs alone, and all in the order of the model's calls.
            let mut batch = Vec::new();
            while let Some(call) = waiting.next_if(|call| batch.is_empty() || self.is_parallel(&call.tool)) {
                let is_parallel = self.is_parallel(&call.tool);
                batch.push(call);
                if !is_parallel {
                    break;
                }
            }
            let mut working = Vec::new();
            for call in batch {
                if cancel.is_cancelled() || end.is_some() {
                    let answer = Answer {
                        status: CallStatus::Cancelled,
                        error: "Not run: the run was ended before.".into(),
                    };
                    self.refuse(call, answer, progress).await?;
                    continue;
                }
                match self.judge(&call) {
                    Ok(tool) => working.push(self.start(call, tool, cancel).await?),
                    Err(answer) => {
                        let stop = self.refuse(call, answer, progress).await?;
                        end = end.or(stop);
                    }
                }
            }
            for work in working {
                let worked = work.await.map_err(|error| AgentError::Internal(error.to_string()))?;
                let stop = self.finish(worked, progress).await?;
                end = end.or(stop);
            }
        }
        if cancel.is_cancelled() {
            return Ok(Some(RunEnd::Cancelled));
        }
        Ok(end)
    }

    async fn waiting(&self) -> Result<Vec<Waiting>, AgentError> {
        let waiting = self.driver.run(|driver| {
            let calls = driver.open_calls().into_iter();
            Ok(calls
                .filter_map(|part| {
                    let tool = part.as_tool()?;
                    let input = tool.state.input.as_ref().map_or(Value::Null, |input| input.value().clone());
                    Some(Waiting { part: part.id.clone(), tool: tool.tool.clone(), input })
                })
                .collect())
        });
        Ok(waiting.await?)
    }

    fn is_parallel(&self, tool: &str) -> bool {
        self.agent.profile.tools.get(tool).is_none_or(|tool| tool.is_parallel())
    }

    /// Whether a call can and may be made.
    fn judge(&self, call: &Waiting) -> Result<Arc<dyn Tool>, Answer> {
        let failed = |error: String| Answer { status: CallStatus::Failed, error };
        let tools = &self.agent.profile.tools;
        let Some(tool) = tools.get(&call.tool) else {
            let known = tools.names().join(", ");
            return Err(failed(format!("There is no tool `{}`. There are: {known}.", call.tool)));
        };
        if let Value::String(text) = &call.input {
            let end: String = text.chars().rev().take(40).collect::<Vec<_>>().into_iter().rev().collect();
            return Err(failed(format!(
                "The input of this call is no JSON object and may have been cut off; it ends with `{end}`. Make the call \
                 again, with less in it if it was long."
            )));
        }
        let directory = &self.agent.directory;
        let subject = tool.subject(&call.input, directory).map_err(|error| failed(error.to_string()))?;
        let access = tool.access();
        match decide(&self.agent.profile.permissions, &call.tool, access, &subject, directory) {
            Action::Allow => Ok(Arc::clone(tool)),
            // Nobody is there to be asked.
            Action::Ask | Action::Deny => {
                let allow = flag_for(&call.tool, access, &subject);
                self.agent.tell(&Event::Denied { part: call.part.clone(), tool: call.tool.clone(), allow });
                let what = match access {
                    Access::Read => "reading outside the project",
                    Access::Act | Access::Session => "this call",
                };
                let error = format!(
                    "Denied: {what} is not allowed here. Go on without it, or tell the user what you would need it for."
                );
                Err(Answer { status: CallStatus::Denied, error })
            }
        }
    }

    /// Let a tool work on a thread of its own.
    async fn start(
        &self,
        call: Waiting,
        tool: Arc<dyn Tool>,
        cancel: &CancellationToken,
    ) -> Result<tokio::task::JoinHandle<Worked>, AgentError> {
        let part = call.part.clone();
        let sink = self
            .driver
            .run(move |driver| {
                driver.start_call(&part)?;
                driver.output(&part)
            })
            .await?;
        self.agent.tell(&Event::CallStarted {
            part: call.part.clone(),
            tool: call.tool.clone(),
            input: call.input.clone(),
        });
        let (driver, directory, cancel) = (self.driver.clone(), self.agent.directory.clone(), cancel.clone());
        let runtime = Handle::current();
        Ok(tokio::task::spawn_blocking(move || {
            let mut out = Counted { sink, hasher: DefaultHasher::new(), bytes: 0 };
            let made = ToolCall {
                input: &call.input,
                directory: &directory,
                driver: &driver,
                runtime: &runtime,
                cancel: &cancel,
            };
            let result = tool.run(&made, &mut out);
            Worked { call, sink: out.sink, result, hash: out.hasher.finish(), bytes: out.bytes }
        }))
    }

    /// Record the result of a call.
    async fn finish(&self, worked: Worked, progress: &mut Progress) -> Result<Option<RunEnd>, AgentError> {
        let Worked { call, mut sink, result, hash, bytes } = worked;
        if let Err(error) = result {
            // What was printed by then is kept if it was long; the call itself is answered with the error.
            drop(sink);
            let status = match error {
                ToolError::Cancelled => CallStatus::Cancelled,
                _ => CallStatus::Failed,
            };
            return self.refuse(call, Answer { status, error: error.to_string() }, progress).await;
        }
        let verdict = progress.guard.observe(&call.tool, &call.input, hash);
        if let Verdict::Tell(times) = verdict {
            // An output that cannot be kept any more has said so already.
            let _ = sink.write_all(told(times).as_bytes());
        }
        if bytes == 0 && !matches!(verdict, Verdict::Tell(_)) {
            let _ = sink.write_all(b"[no output]");
        }
        let receipt: Option<Receipt> = self.driver.run(move |driver| driver.finish_output(sink)).await?;
        self.reduced(progress, receipt.as_slice());
        self.ended(&call, CallStatus::Completed, bytes, None);
        Ok(self.heed(&call.tool, verdict))
    }

    /// Answer a call with an error.
    async fn refuse(
        &self,
        call: Waiting,
        answer: Answer,
        progress: &mut Progress,
    ) -> Result<Option<RunEnd>, AgentError> {
        let Answer { status, mut error } = answer;
        let mut hasher = DefaultHasher::new();
        hasher.write(error.as_bytes());
        let verdict = match status {
            CallStatus::Cancelled => Verdict::Fine,
            _ => progress.guard.observe(&call.tool, &call.input, hasher.finish()),
        };
        if let Verdict::Tell(times) = verdict {
            error.push_str(&told(times));
        }
        let (part, text) = (call.part.clone(), error.clone());
        self.driver.run(move |driver| driver.fail_call(&part, text)).await?;
        self.ended(&call, status, 0, Some(error));
        Ok(self.heed(&call.tool, verdict))
    }

    fn ended(&self, call: &Waiting, status: CallStatus, bytes: u64, error: Option<String>) {
        let known = self.agent.profile.tools.get(&call.tool).map(|_| call.tool.as_str());
        metrics::called(known, status);
        tracing::info!(tool = known.unwrap_or("unknown"), ?status, bytes, "a call was answered");
        self.agent.tell(&Event::CallEnded {
            part: call.part.clone(),
            tool: call.tool.clone(),
            status,
            bytes,
            error,
        });
    }

    fn heed(&self, tool: &str, verdict: Verdict) -> Option<RunEnd> {
        let tool = tool.to_owned();
        match verdict {
            Verdict::Fine => None,
            Verdict::Tell(times) => {
                tracing::warn!(times, "the model repeats a call");
                self.agent.tell(&Event::Repeating { tool, times });
                None
            }
            Verdict::Stop(_) => Some(RunEnd::Repeating { tool }),
        }
    }
}

/// An output on its way to layer 1, counted and hashed as the tool printed it.
struct Counted {
    sink: OutputSink,
    hasher: DefaultHasher,
    bytes: u64,
}

impl Write for Counted {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let count = self.sink.write(piece)?;
        self.hasher.write(&piece[..count]);
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

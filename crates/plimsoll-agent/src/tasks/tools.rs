//! `background_*`: tools for background tasks.
//!
//! Errors are reported as the result of a call, in words that help the model to correct itself.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plimsoll::Message;
use plimsoll_providers::ToolSpec;
use plimsoll_sandbox::{Access, Subject};
use plimsoll_store::StoreError;
use serde_json::{Value, json};

use super::board::{Caller, Launch, ResumeOutcome, TaskBoard};
use super::change::Speaker;
use crate::agent::{Tool, ToolCall, ToolError, number, optional_text, text};
use crate::task::{self, REPORTED_KEY, Task, TaskError, TaskView, TranscriptFilter};

/// Default and maximum time that a call waits for a task, in seconds.
const DEFAULT_WAIT: u64 = 120;
const LONGEST_WAIT: u64 = 600;
/// Maximum number of messages of a session in one result.
const MAX_MESSAGES: u64 = 100;

/// Returns the tools for background tasks, in the order of their declaration.
///
/// `agents` are listed in the description, with their purposes.
pub(super) fn task_tools(board: &Arc<TaskBoard>, agents: &[(String, String)]) -> Vec<Arc<dyn Tool>> {
    let tool = |kind: Kind| TaskTool { kind, spec: kind.spec(agents), board: Arc::clone(board) };
    KINDS.into_iter().map(|kind| Arc::new(tool(kind)) as Arc<dyn Tool>).collect()
}

/// Returns the names of the tools for background tasks.
#[cfg(test)]
pub(crate) fn task_tool_names() -> impl Iterator<Item = String> {
    KINDS.into_iter().map(|kind| kind.spec(&[]).name)
}

const KINDS: [Kind; 6] = [Kind::Launch, Kind::Output, Kind::List, Kind::Cancel, Kind::Clear, Kind::Steer];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Launch,
    Output,
    List,
    Cancel,
    Clear,
    Steer,
}

struct TaskTool {
    kind: Kind,
    spec: ToolSpec,
    board: Arc<TaskBoard>,
}

impl Kind {
    fn spec(self, agents: &[(String, String)]) -> ToolSpec {
        let text = |about: &str| json!({ "type": "string", "description": about });
        let flag = |about: &str| json!({ "type": "boolean", "description": about });
        let count = |about: &str| json!({ "type": "integer", "minimum": 1, "description": about });
        let known: String = agents.iter().map(|(name, about)| format!("\n- {name}: {about}")).collect();
        let known = if known.is_empty() { known } else { format!(" Available agents:{known}") };
        let id = || text("Task ID, or a unique prefix of it.");
        let (name, description, properties, required): (_, _, Value, &[&str]) = match self {
            Kind::Launch => (
                "background_task",
                "Launch a background task in its own session, and return immediately. You are notified when it ends; \
                 use background_output to get its result. With `fork`, the task receives the context of this \
                 conversation; otherwise it only receives the prompt. With `resume`, an existing task continues with \
                 another prompt.",
                json!({
                    "description": text("Short description of the task (3-5 words)."),
                    "prompt": text("Task for the agent, or the next prompt of a resumed task."),
                    "agent": text(&format!("Name of the agent that runs the task.{known}")),
                    "fork": flag("Pass the context of this session to the task. Default: false."),
                    "resume": text("ID of a task to resume instead of launching a new one."),
                    "model": text("Model, as `provider/model`. Default: the agent's model, or this session's."),
                }),
                &["description", "prompt", "agent"],
            ),
            Kind::Output => (
                "background_output",
                "Get the result of a background task, or its status if it has not ended.",
                json!({
                    "task_id": id(),
                    "block": flag("Wait until the task ends. Default: false."),
                    "timeout": count("Maximum time to wait, in seconds. Default: 120. Maximum: 600."),
                    "full_session": flag("Return the messages of the task's session instead of its result. Default: false."),
                    "since_message_id": text("Only return messages after this one. Requires full_session."),
                    "message_limit": count("Maximum number of messages, newest first. Default and maximum: 100. Requires full_session."),
                    "include_thinking": flag("Include reasoning. Default: false. Requires full_session."),
                    "include_tool_results": flag("Include tool results. Default: false. Requires full_session."),
                }),
                &["task_id"],
            ),
            Kind::List => (
                "background_list",
                "List the background tasks of this session.",
                json!({
                    "status": text(
                        "Only list tasks with this status: queued, running, completed, error, cancelled, interrupted or resumed."
                    ),
                }),
                &[],
            ),
            Kind::Cancel => (
                "background_cancel",
                "Cancel a queued or running background task, including the tasks that it launched.",
                json!({ "task_id": id() }),
                &["task_id"],
            ),
            Kind::Clear => (
                "background_clear",
                "Cancel all active background tasks of this session and clear the list. Cleared tasks can be resumed.",
                json!({}),
                &[],
            ),
            Kind::Steer => (
                "background_steer",
                "Send a message to a running background task. The task reads it before its next step.",
                json!({ "task_id": id(), "message": text("The message.") }),
                &["task_id", "message"],
            ),
        };
        let schema = json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        });
        ToolSpec { name: name.into(), description: description.into(), schema }
    }
}

impl Tool for TaskTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self) -> Access {
        // Permissions are checked for the task's own calls, bounded by its parent's.
        Access::Session
    }

    /// Rules for launching match the agent's name, as in OpenCode.
    fn subject(&self, input: &Value, _: &Path) -> Result<Subject, ToolError> {
        Ok(match (self.kind, input["agent"].as_str()) {
            (Kind::Launch, Some(agent)) => Subject::Name(agent.to_owned()),
            _ => Subject::None,
        })
    }

    fn is_parallel(&self) -> bool {
        matches!(self.kind, Kind::Output | Kind::List)
    }

    fn run(&self, call: &ToolCall<'_>, out: &mut dyn Write) -> Result<(), ToolError> {
        if call.agent.tasks.is_none() {
            return Err(ToolError::Failed("Background tasks are not available here.".into()));
        }
        let work = Invocation { call, board: Arc::clone(&self.board) };
        let text = call.runtime.block_on(async {
            match self.kind {
                Kind::Launch => work.launch().await,
                Kind::Output => work.output().await,
                Kind::List => work.list().await,
                Kind::Cancel => work.cancel().await,
                Kind::Clear => work.clear().await,
                Kind::Steer => work.steer().await,
            }
        })?;
        Ok(out.write_all(text.as_bytes())?)
    }
}

struct Invocation<'a> {
    call: &'a ToolCall<'a>,
    board: Arc<TaskBoard>,
}

impl Invocation<'_> {
    fn caller(&self) -> Caller {
        Caller {
            agent: self.call.agent.clone(),
            session: self.call.session.clone(),
            handle: self.call.record.session().clone(),
            part: Some(self.call.part.clone()),
            cancel: self.call.cancel.clone(),
        }
    }

    async fn siblings(&self) -> Result<Vec<Task>, TaskError> {
        self.board.tasks(Some(self.call.session)).await
    }

    async fn find(&self, given: &str) -> Result<Task, TaskError> {
        self.board.find(Some(self.call.session), given).await
    }

    /// Formats a text about a task among its siblings.
    async fn format_task(
        &self,
        task: &Task,
        text: impl Fn(&TaskView<'_>) -> String,
    ) -> Result<String, TaskError> {
        let siblings = self.siblings().await?;
        Ok(text(&TaskView { task, siblings: &siblings, now: self.board.now() }))
    }

    /// Records that this call reports the end of these runs, so that no note repeats it.
    async fn record_reported(&self, tasks: &[Task]) -> Result<(), ToolError> {
        let ended = tasks.iter().filter(|task| !task.status.is_active());
        let runs: Vec<Value> = ended.map(|task| json!({ "id": task.id, "run": task.run() })).collect();
        if runs.is_empty() {
            return Ok(());
        }
        let noted = self.call.record.annotate(REPORTED_KEY, runs.into());
        noted.await.map_err(|error| ToolError::Failed(error.to_string()))
    }

    /// Records the session of a task with the call, so that hosts can lead users to it. The model receives only a short
    /// id.
    async fn name_session(&self, task: &Task) {
        // The launch succeeded; a session that is not recorded can be found by its parent.
        let _ = self.call.record.annotate("sessionId", json!(task.id)).await;
    }

    async fn launch(&self) -> Result<String, ToolError> {
        let input = self.call.input;
        let fork = flag(input, "fork")?;
        let resume = optional_text(input, "resume")?;
        if fork && resume.is_some() {
            return Ok(task::FORK_AND_RESUME.to_owned());
        }
        let field = |name: &str| input.get(name).and_then(Value::as_str).unwrap_or_default();
        if let Some(id) = resume {
            return Ok(self.resume(id, field("prompt"), field("agent"), field("description")).await);
        }
        let agent = field("agent").trim();
        if agent.is_empty() {
            return Ok(task::AGENT_REQUIRED.to_owned());
        }
        let launch = Launch {
            description: field("description").to_owned(),
            prompt: field("prompt").to_owned(),
            agent: agent.to_owned(),
            model: optional_text(input, "model")?.map(|model| model.trim().to_owned()),
            fork,
            way: None,
        };
        let launched = async {
            let task = self.board.launch(&self.caller(), launch).await?;
            self.name_session(&task).await;
            self.format_task(&task, |view| view.launched()).await
        };
        match launched.await {
            Err(TaskError::Cancelled) => Err(ToolError::Cancelled),
            Err(error) => Ok(format!("Failed to launch background task: {error}")),
            Ok(text) => Ok(text),
        }
    }

    async fn resume(&self, id: &str, prompt: &str, agent: &str, description: &str) -> String {
        let prompt = prompt.trim();
        if prompt.is_empty() {
            return task::PROMPT_REQUIRED.to_owned();
        }
        let is_ignored = !agent.trim().is_empty() || !description.trim().is_empty();
        let resumed = async {
            let task = self.find(id).await?;
            self.name_session(&task).await;
            match self.board.resume(Some(&self.caller()), &task.id, prompt).await? {
                ResumeOutcome::Begun(task) => self.format_task(&task, |view| view.resumed()).await,
                ResumeOutcome::Queued(task) => self.format_task(&task, |view| view.resume_queued()).await,
            }
        };
        let text = resumed.await.unwrap_or_else(|error| match error {
            TaskError::NotFound(id) => {
                format!("Task not found: {id}. Use background_list to see available tasks.")
            }
            error => error.to_string(),
        });
        match is_ignored {
            true => format!("{}\n\n{text}", task::IGNORED_IN_RESUME),
            false => text,
        }
    }

    async fn output(&self) -> Result<String, ToolError> {
        let input = self.call.input;
        let wait = number(input, "timeout")?.unwrap_or(DEFAULT_WAIT).min(LONGEST_WAIT);
        let limit = number(input, "message_limit")?;
        let mut filter = TranscriptFilter {
            since: optional_text(input, "since_message_id")?.map(str::to_owned),
            most: Some(limit.unwrap_or(MAX_MESSAGES).min(MAX_MESSAGES) as usize),
            thinking: flag(input, "include_thinking")?,
            results: flag(input, "include_tool_results")?,
            forked_for: None,
        };
        let (block, full) = (flag(input, "block")?, flag(input, "full_session")?);
        let mut task = match self.find(id_of(input)?).await {
            Ok(task) => task,
            Err(error) => return Ok(format_error(error, "Error getting output: ")),
        };
        if block && task.status.is_active() {
            let (longest, cancel) = (Duration::from_secs(wait), self.call.cancel);
            let ended = self.board.wait(&task.id, longest, cancel);
            task = match self.board.without_slot(self.call.session, ended).await {
                Ok(task) => task,
                Err(error) => return Ok(format_error(error, "Error getting output: ")),
            };
            if self.call.cancel.is_cancelled() {
                return Err(ToolError::Cancelled);
            }
        }
        filter.forked_for = task.is_forked().then(|| task.data.prompt.clone());
        let text = match full {
            true => self.transcript(&task, &filter, limit.is_none_or(|limit| limit > MAX_MESSAGES)).await,
            false => self.format_task(&task, |view| view.output()).await,
        };
        match text {
            Ok(text) => {
                self.record_reported(&[task]).await?;
                Ok(text)
            }
            Err(error) => Ok(format_error(error, "Error getting output: ")),
        }
    }

    /// Formats the messages of a task's session after its status. If `is_capped`, more messages were requested than are
    /// shown, which the text says.
    async fn transcript(
        &self,
        task: &Task,
        filter: &TranscriptFilter,
        is_capped: bool,
    ) -> Result<String, TaskError> {
        let (archive, id) = (Arc::clone(self.board.archive()), task.id.clone());
        let wanted = filter.clone();
        let read = tokio::task::spawn_blocking(move || wanted.read(&archive, &id));
        let messages = read.await.map_err(|error| TaskError::Internal(error.into()))?;
        let messages = match messages {
            Ok(messages) => messages,
            Err(StoreError::Missing { .. }) => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        // One more message is read than is shown; the known message is among them.
        let is_known = |first: &Message| filter.since.as_deref() == Some(first.info.id.as_str());
        let has_older =
            filter.most.is_some_and(|most| messages.len() > most) && !messages.first().is_some_and(is_known);
        let text = self.format_task(task, |view| view.session(&messages, filter)).await?;
        Ok(match is_capped && has_older {
            true => format!("(Older messages are left out. These are the newest {MAX_MESSAGES}.)\n\n{text}"),
            false => text,
        })
    }

    async fn list(&self) -> Result<String, ToolError> {
        let status = optional_text(self.call.input, "status")?;
        Ok(match self.siblings().await {
            Ok(tasks) => task::list_text(&tasks, status, self.board.now()),
            Err(error) => format!("Error listing tasks: {error}"),
        })
    }

    async fn cancel(&self) -> Result<String, ToolError> {
        let cancelled = async {
            let task = self.find(id_of(self.call.input)?).await?;
            self.board.cancel(&task.id).await
        };
        match cancelled.await {
            Ok(task) => {
                self.record_reported(std::slice::from_ref(&task)).await?;
                let text = self.format_task(&task, |view| view.cancelled()).await;
                Ok(text.unwrap_or_else(|error| format_error(error, "Error cancelling task: ")))
            }
            Err(error) => Ok(format_error(error, "Error cancelling task: ")),
        }
    }

    async fn clear(&self) -> Result<String, ToolError> {
        match self.board.clear(self.call.session).await {
            Ok((_, cleared)) if cleared.is_empty() => Ok(task::NOTHING_TO_CLEAR.to_owned()),
            Ok((aborted, cleared)) => {
                self.record_reported(&cleared).await?;
                Ok(task::cleared_text(aborted.len(), cleared.len()))
            }
            Err(error) => Ok(format!("Error clearing tasks: {error}")),
        }
    }

    async fn steer(&self) -> Result<String, ToolError> {
        let message = text(self.call.input, "message")?;
        let steered = async {
            let task = self.find(id_of(self.call.input)?).await?;
            let task = self.board.steer(&task.id, message, Speaker::Parent).await?;
            self.format_task(&task, |view| view.steered()).await
        };
        Ok(steered.await.unwrap_or_else(|error| format_error(error, "Error steering task: ")))
    }
}

/// Formats an error for the model.
fn format_error(error: TaskError, before: &str) -> String {
    match error {
        TaskError::NotFound(_) | TaskError::Ambiguous { .. } => error.to_string(),
        error => format!("{before}{error}"),
    }
}

fn id_of(input: &Value) -> Result<&str, TaskError> {
    text(input, "task_id").map_err(|error| TaskError::NotFound(error.to_string()))
}

impl From<TaskError> for ToolError {
    fn from(error: TaskError) -> ToolError {
        ToolError::Failed(error.to_string())
    }
}

/// Returns an optional flag. Models sometimes write flags in quotes.
fn flag(input: &Value, field: &str) -> Result<bool, ToolError> {
    match input.get(field) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(Value::String(text)) if text.trim().is_empty() || text == "false" => Ok(false),
        Some(Value::String(text)) if text == "true" => Ok(true),
        Some(found) => Err(ToolError::Input(format!("`{field}` must be true or false, not {found}"))),
    }
}

/// A tool that has the declaration of another and rejects every call, because the provider's cache begins with the
/// declarations.
pub(super) struct RefusedTool {
    spec: ToolSpec,
}

impl RefusedTool {
    /// Creates the rejecting tool.
    pub(super) fn of(tool: &Arc<dyn Tool>) -> Arc<dyn Tool> {
        Arc::new(RefusedTool { spec: tool.spec().clone() })
    }
}

impl Tool for RefusedTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self) -> Access {
        Access::Session
    }

    fn subject(&self, _: &Value, _: &Path) -> Result<Subject, ToolError> {
        Ok(Subject::None)
    }

    fn run(&self, _: &ToolCall<'_>, _: &mut dyn Write) -> Result<(), ToolError> {
        Err(ToolError::Failed(
            "Rejected: this session is itself a background task and cannot launch or access others. Do the work \
             yourself."
                .into(),
        ))
    }
}

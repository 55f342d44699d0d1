//! `background_*`: tasks that work beside the session, for the model.
//!
//! What goes wrong is told as the result of a call, in words that let the model do better: a call that is refused has done
//! what it was asked to look at.

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
use crate::task::{self, TOLD_KEY, Task, TaskError, TaskView, TranscriptFilter};

/// How long a call waits for a task where it does not say, and at most.
const DEFAULT_WAIT: u64 = 120;
const LONGEST_WAIT: u64 = 600;
/// So many messages of a session are given at most.
const MOST_MESSAGES: u64 = 100;

/// The tools for background tasks, in the order in which they are declared.
///
/// `agents` are those that the model is told of, with what each is for.
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
        let known = if known.is_empty() { known } else { format!(" There are:{known}") };
        let id = || text("The task's ID, or as much of its beginning as tells it from others.");
        let (name, description, properties, required): (_, _, Value, &[&str]) = match self {
            Kind::Launch => (
                "background_task",
                "Launch a task that works in the background in a session of its own, and return at once. You are told \
                 when it ends; background_output gives its result. With `fork` the task knows what you know now; without, \
                 it knows nothing but the prompt. With `resume` an existing task goes on with a further prompt.",
                json!({
                    "description": text("What the task is about, in three to five words."),
                    "prompt": text("What the task is to do, or what a resumed task is asked next."),
                    "agent": text(&format!("The agent that does it.{known}")),
                    "fork": flag("Give the task the context of this session. Default: false."),
                    "resume": text("The ID of a task to take up again in place of a new one."),
                    "model": text("The model, as `provider/model`. Default: the agent's own, or this session's."),
                }),
                &["description", "prompt", "agent"],
            ),
            Kind::Output => (
                "background_output",
                "The result of a background task, or where it stands. With `block` wait until it ends.",
                json!({
                    "task_id": id(),
                    "block": flag("Wait until the task ends. Default: false."),
                    "timeout": count("How long to wait at most, in seconds. Default: 120, at most 600."),
                    "full_session": flag("Give the messages of the task's session in place of its result."),
                    "since_message_id": text("Only messages after this one. Needs full_session."),
                    "message_limit": count("Only so many of the newest messages. Default: 100, which is the most. Needs full_session."),
                    "include_thinking": flag("Thoughts too. Needs full_session."),
                    "include_tool_results": flag("What tools answered, too. Needs full_session."),
                }),
                &["task_id"],
            ),
            Kind::List => (
                "background_list",
                "The background tasks of this session.",
                json!({
                    "status": text(
                        "Only tasks in this status: queued, running, completed, error, cancelled, interrupted or resumed."
                    ),
                }),
                &[],
            ),
            Kind::Cancel => (
                "background_cancel",
                "Cancel a background task that runs or waits, with all that it has launched itself.",
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
                "Say something to a background task while it runs. It reads it before its next step.",
                json!({ "task_id": id(), "message": text("What to say.") }),
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
        // What a task does is held against its own permissions, which its parent's bound.
        Access::Session
    }

    /// Rules for launching are held against the agent, as users of OpenCode know it.
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
        let work = Work { call, board: Arc::clone(&self.board) };
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

struct Work<'a> {
    call: &'a ToolCall<'a>,
    board: Arc<TaskBoard>,
}

impl Work<'_> {
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

    /// A text about a task as it is shown among its siblings.
    async fn tell(&self, task: &Task, text: impl Fn(&TaskView<'_>) -> String) -> Result<String, TaskError> {
        let siblings = self.siblings().await?;
        Ok(text(&TaskView { task, siblings: &siblings, now: self.board.now() }))
    }

    /// Record that this call tells the model how these runs have ended, so that it is not told again.
    async fn note_told(&self, tasks: &[Task]) -> Result<(), ToolError> {
        let ended = tasks.iter().filter(|task| !task.status.is_active());
        let runs: Vec<Value> = ended.map(|task| json!({ "id": task.id, "run": task.run() })).collect();
        if runs.is_empty() {
            return Ok(());
        }
        let noted = self.call.record.annotate(TOLD_KEY, runs.into());
        noted.await.map_err(|error| ToolError::Failed(error.to_string()))
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
            self.tell(&task, |view| view.launched()).await
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
            match self.board.resume(Some(&self.caller()), &task.id, prompt).await? {
                ResumeOutcome::Begun(task) => self.tell(&task, |view| view.resumed()).await,
                ResumeOutcome::Queued(task) => self.tell(&task, |view| view.resume_queued()).await,
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
            most: Some(limit.unwrap_or(MOST_MESSAGES).min(MOST_MESSAGES) as usize),
            thinking: flag(input, "include_thinking")?,
            results: flag(input, "include_tool_results")?,
            forked_for: None,
        };
        let (block, full) = (flag(input, "block")?, flag(input, "full_session")?);
        let mut task = match self.find(id_of(input)?).await {
            Ok(task) => task,
            Err(error) => return Ok(told(error, "Error getting output: ")),
        };
        if block && task.status.is_active() {
            let (longest, cancel) = (Duration::from_secs(wait), self.call.cancel);
            let ended = self.board.wait(&task.id, longest, cancel);
            task = match self.board.without_slot(self.call.session, ended).await {
                Ok(task) => task,
                Err(error) => return Ok(told(error, "Error getting output: ")),
            };
            if self.call.cancel.is_cancelled() {
                return Err(ToolError::Cancelled);
            }
        }
        filter.forked_for = task.is_forked().then(|| task.data.prompt.clone());
        let text = match full {
            true => self.transcript(&task, &filter, limit.is_none_or(|limit| limit > MOST_MESSAGES)).await,
            false => self.tell(&task, |view| view.output()).await,
        };
        match text {
            Ok(text) => {
                self.note_told(&[task]).await?;
                Ok(text)
            }
            Err(error) => Ok(told(error, "Error getting output: ")),
        }
    }

    /// The messages of a task's session and how it stands. `is_capped` where fewer messages are shown than were asked for;
    /// that is said.
    async fn transcript(
        &self,
        task: &Task,
        filter: &TranscriptFilter,
        is_capped: bool,
    ) -> Result<String, TaskError> {
        let (archive, id) = (Arc::clone(self.board.archive()), task.id.clone());
        let wanted = filter.clone();
        let read = tokio::task::spawn_blocking(move || wanted.read(&archive, &id));
        let messages = read.await.map_err(|error| TaskError::Internal(error.to_string()))?;
        let messages = match messages {
            Ok(messages) => messages,
            Err(StoreError::Missing { .. }) => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        // More than are shown are read where there are more; the message that is known is among them.
        let is_known = |first: &Message| filter.since.as_deref() == Some(first.info.id.as_str());
        let has_older =
            filter.most.is_some_and(|most| messages.len() > most) && !messages.first().is_some_and(is_known);
        let text = self.tell(task, |view| view.session(&messages, filter)).await?;
        Ok(match is_capped && has_older {
            true => format!("(Older messages are left out. These are the newest {MOST_MESSAGES}.)\n\n{text}"),
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
                self.note_told(std::slice::from_ref(&task)).await?;
                let text = self.tell(&task, |view| view.cancelled()).await;
                Ok(text.unwrap_or_else(|error| told(error, "Error cancelling task: ")))
            }
            Err(error) => Ok(told(error, "Error cancelling task: ")),
        }
    }

    async fn clear(&self) -> Result<String, ToolError> {
        match self.board.clear(self.call.session).await {
            Ok((_, cleared)) if cleared.is_empty() => Ok(task::NOTHING_TO_CLEAR.to_owned()),
            Ok((aborted, cleared)) => {
                self.note_told(&cleared).await?;
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
            self.tell(&task, |view| view.steered()).await
        };
        Ok(steered.await.unwrap_or_else(|error| told(error, "Error steering task: ")))
    }
}

/// An error as it is told; that there is no such task is told as it is.
fn told(error: TaskError, before: &str) -> String {
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

/// A flag that may be left out. Models write flags in quotes now and then.
fn flag(input: &Value, field: &str) -> Result<bool, ToolError> {
    match input.get(field) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(Value::String(text)) if text.trim().is_empty() || text == "false" => Ok(false),
        Some(Value::String(text)) if text == "true" => Ok(true),
        Some(found) => Err(ToolError::Input(format!("`{field}` must be true or false, not {found}"))),
    }
}

/// A tool that is declared as another is, and refuses every call: the provider's cache begins with the declarations.
pub(super) struct RefusedTool {
    spec: ToolSpec,
}

impl RefusedTool {
    /// The tool in that form.
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
            "Refused: this session is a background task itself and can neither launch nor see others. Do the task \
             yourself."
                .into(),
        ))
    }
}

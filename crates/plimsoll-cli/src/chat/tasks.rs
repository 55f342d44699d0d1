//! Background tasks in the chat: the number of running ones, `/tasks`, and continuing when one has ended.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use plimsoll::SessionId;
use plimsoll_agent::tasks::{Task, TaskError, TaskStatus, find_task, short_id};
use plimsoll_agent::{Agent, Event};
use plimsoll_host::{HostError, agent_failed};
use tokio::task::JoinHandle;

use super::editor::EditorWaker;
use super::question::AskingTask;
use super::text::one_line;
use super::{Chat, messages};
use crate::output::counted;
use crate::run::TASKS_STOP;
use crate::tasks::{page, table};
use crate::when;

/// Time to wait for further tasks to end, so that they are answered together.
const GATHER: Duration = Duration::from_millis(300);
/// Interval at which the chat checks whether the user has stopped typing.
const LOOK: Duration = Duration::from_secs(1);
/// Maximum width of the status of running tasks.
const STATUS: usize = 44;
/// Prefix of the kinds of notes about tasks.
const TASK_NOTES: &str = "task.";

/// Running tasks of this chat with their descriptions.
#[derive(Default)]
pub(super) struct ActiveTasks(Mutex<BTreeMap<SessionId, String>>);

impl ActiveTasks {
    /// Updates the tasks from an event.
    pub(super) fn update(&self, event: &Event) {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::TaskLaunched { task, description, .. } => {
                tasks.insert(task.clone(), description.clone());
            }
            Event::TaskEnded { task, .. } => {
                tasks.remove(task);
            }
            _ => {}
        }
    }

    /// Returns the task whose session asks; `None` if it is not a task.
    pub(super) fn asking(&self, session: &SessionId) -> Option<AskingTask> {
        let tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let description = tasks.get(session)?.clone();
        Some(AskingTask { id: short_id(session, tasks.keys()), description })
    }

    /// Describes the running tasks in a few words; empty if there are none.
    pub(super) fn status(&self) -> String {
        let tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if tasks.is_empty() {
            return String::new();
        }
        let about: Vec<&str> = tasks.values().map(String::as_str).collect();
        one_line(&format!("{} running: {}", counted(tasks.len(), "task"), about.join(", ")), STATUS)
    }
}

impl Chat<'_> {
    /// Lists the tasks of this session, shows one, or cancels one.
    pub(super) fn tasks(&mut self, input: &str) -> Result<(), HostError> {
        let session = self.require()?.session().clone();
        let all = self.runtime.block_on(async {
            // Another process that ran one of the tasks may have died.
            self.board.reconcile(Some(&session)).await?;
            self.board.tasks(None).await
        })?;
        let own: Vec<&Task> =
            all.iter().filter(|task| task.parent == session && !task.data.cleared).rev().collect();
        let find = |id: &str| {
            find_task(&all, id.trim()).map_err(|error| match error {
                TaskError::NotFound(_) => HostError::usage(HostError::from(error).message())
                    .hint("`/tasks` lists the tasks of this session"),
                other => other.into(),
            })
        };
        match (input.split_once(char::is_whitespace), input) {
            (_, "cancel") => {
                let error = HostError::usage("`/tasks cancel` needs a task id");
                return Err(error.hint("`/tasks` lists ids; a prefix is enough"));
            }
            (_, "") if own.is_empty() => self.events.notice(messages::NO_TASKS),
            (_, "") => {
                let lines = table(&own, &all, when::now()).lines(self.screen.width().saturating_sub(1));
                self.screen.block(&lines.join("\n"));
            }
            (Some(("cancel", id)), _) => {
                let (id, was_active) = {
                    let task = find(id)?;
                    (task.id.clone(), task.status.is_active())
                };
                let task = self.runtime.block_on(self.board.cancel(&id))?;
                let what = match was_active && task.status == TaskStatus::Cancelled {
                    true => "cancelled",
                    false => "cancelled the queued resume",
                };
                self.events.notice(&format!("{what}: {}", one_line(&task.data.description, 200)));
            }
            (_, id) => self.screen.block(&page(find(id)?, &all)),
        }
        Ok(())
    }

    /// Returns the agent for a session: a task has its own, with permissions bounded by its parent.
    pub(super) fn agent_for(&self, agent: Agent, id: &SessionId) -> Result<Agent, HostError> {
        self.runtime.block_on(self.setup.agent_in(&self.board, agent, id))
    }

    /// Interrupts the read when a task of the open session has ended and the user is not typing.
    pub(super) fn wake_for_notes(&self, wake: EditorWaker) -> Option<JoinHandle<()>> {
        let open = self.conversation.as_ref()?;
        let (handle, session) = (open.handle().clone(), open.session().clone());
        let board = self.board.clone();
        Some(self.runtime.spawn(async move {
            let mut changes = board.watch();
            loop {
                changes.borrow_and_update();
                // If the session cannot be read, the next turn reports it.
                let notes = handle.notes(0).await.unwrap_or_default();
                if notes.iter().any(|note| note.kind.starts_with(TASK_NOTES)) {
                    tokio::time::sleep(GATHER).await;
                    if wake.end_read() {
                        return;
                    }
                    tokio::time::sleep(LOOK).await;
                    continue;
                }
                tokio::select! {
                    changed = changes.changed() => if changed.is_err() { return },
                    // A task whose process died does not change the board by itself.
                    () = tokio::time::sleep(board.supervise_interval()) => {
                        // A failure is retried next time.
                        let _ = board.supervise(&session).await;
                    }
                }
            }
        }))
    }

    /// Lets the model answer the results of tasks.
    pub(super) fn answer_notes(&mut self) {
        let Some(conversation) = self.conversation.as_mut() else { return };
        let cancel = self.interrupts.begin_turn();
        let done = self.runtime.block_on(conversation.answer_notes(&cancel));
        self.interrupts.end_turn();
        self.screen.end_text();
        match done {
            Ok(Some(report)) => self.after_turn(&report),
            Ok(None) => return,
            Err(error) => {
                self.has_failed = true;
                self.fail(&agent_failed(error, "/continue"));
            }
        }
        self.show_meter();
    }

    /// Stops the tasks that run in this chat; they can be resumed.
    pub(super) fn stop_tasks(&self) {
        let count = self.board.active_here();
        if count > 0 {
            self.screen.wait("stopping tasks");
            self.runtime.block_on(self.board.close(TASKS_STOP));
            self.screen.end_text();
            self.events.notice(&messages::tasks_stopped(count));
        }
    }
}

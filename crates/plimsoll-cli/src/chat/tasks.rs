//! Background tasks in the chat: how many are at work, `/tasks`, and going on when one has ended.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use plimsoll::SessionId;
use plimsoll_agent::tasks::{Task, TaskError, TaskStatus, find_task, short_id};
use plimsoll_agent::{Agent, Event};
use tokio::task::JoinHandle;

use super::editor::Wake;
use super::question::AskingTask;
use super::text::one_line;
use super::{Chat, words};
use crate::agent::{agent_in, failed};
use crate::error::CliError;
use crate::output::counted;
use crate::run::TASKS_STOP;
use crate::tasks::{page, table};
use crate::when;

/// Tasks that end together are answered together, and their ends are told before.
const GATHER: Duration = Duration::from_millis(300);
/// How often it is looked again whether a person has stopped typing.
const LOOK: Duration = Duration::from_secs(1);
/// So much of the line that says what is at work is shown.
const STATUS: usize = 44;
/// How the kinds of notes begin that a conversation takes in.
const TASK_NOTES: &str = "task.";

/// The tasks of this chat that are at work, by what they are about.
#[derive(Default)]
pub(super) struct ActiveTasks(Mutex<BTreeMap<SessionId, String>>);

impl ActiveTasks {
    /// Keep count.
    pub(super) fn take(&self, event: &Event) {
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

    /// The task whose session asks something; none if it is no task.
    pub(super) fn asking(&self, session: &SessionId) -> Option<AskingTask> {
        let tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let description = tasks.get(session)?.clone();
        Some(AskingTask { id: short_id(session, tasks.keys()), description })
    }

    /// What is at work, in a few words; nothing where nothing is.
    pub(super) fn status(&self) -> String {
        let tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if tasks.is_empty() {
            return String::new();
        }
        let about: Vec<&str> = tasks.values().map(String::as_str).collect();
        one_line(&format!("{} at work: {}", counted(tasks.len(), "task"), about.join(", ")), STATUS)
    }
}

impl Chat<'_> {
    /// List the tasks of this session, show one, or cancel one.
    pub(super) fn tasks(&mut self, input: &str) -> Result<(), CliError> {
        let session = self.require()?.session().clone();
        let all = self.runtime.block_on(async {
            // A task of another process may have lost it.
            self.board.reconcile(Some(&session)).await?;
            self.board.tasks(None).await
        })?;
        let own: Vec<&Task> =
            all.iter().filter(|task| task.parent == session && !task.data.cleared).rev().collect();
        let find = |id: &str| {
            find_task(&all, id.trim()).map_err(|error| match error {
                TaskError::NotFound(_) => CliError::from(error).hint("`/tasks` lists those of this session"),
                other => other.into(),
            })
        };
        match (input.split_once(char::is_whitespace), input) {
            (_, "cancel") => {
                let error = CliError::usage("say which task is to be cancelled");
                return Err(error.hint("`/tasks` lists their ids; the beginning of one will do"));
            }
            (_, "") if own.is_empty() => self.teller.notice(words::NO_TASKS),
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
                    false => "dropped the resume that waited",
                };
                self.teller.notice(&format!("{what}: {}", one_line(&task.data.description, 200)));
            }
            (_, id) => self.screen.block(&page(find(id)?, &all)),
        }
        Ok(())
    }

    /// The agent that talks in a session: a task has its own, with the permissions that its parent bounds.
    pub(super) fn agent_for(&self, agent: Agent, id: &SessionId) -> Result<Agent, CliError> {
        self.runtime.block_on(agent_in(self.setup, &self.board, agent, id))
    }

    /// End the read when a task of the open session has ended and nothing is being typed.
    pub(super) fn wake_for_notes(&self, wake: Wake) -> Option<JoinHandle<()>> {
        let open = self.conversation.as_ref()?;
        let (handle, session) = (open.handle().clone(), open.session().clone());
        let board = self.board.clone();
        Some(self.runtime.spawn(async move {
            let mut changes = board.watch();
            loop {
                changes.borrow_and_update();
                // A session that cannot be read is told of by the next turn.
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
                    // A task of another process may have lost it, which changes nothing by itself.
                    () = tokio::time::sleep(board.look_after_every()) => {
                        // What fails now is tried again.
                        let _ = board.look_after(&session).await;
                    }
                }
            }
        }))
    }

    /// Let the model answer what tasks have come to.
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
                self.fail(&failed(&error, "/continue"));
            }
        }
        self.show_meter();
    }

    /// Stop the tasks that this chat runs; they can be resumed.
    pub(super) fn stop_tasks(&self) {
        let count = self.board.active_here();
        if count > 0 {
            self.screen.wait("stopping tasks");
            self.runtime.block_on(self.board.close(TASKS_STOP));
            self.screen.end_text();
            self.teller.notice(&words::tasks_stopped(count));
        }
    }
}

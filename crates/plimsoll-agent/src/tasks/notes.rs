//! Notes that reach a conversation: tasks that ended, words for a task that runs.
//!
//! A note is taken in once, also if the process is killed at any moment. The message that tells it carries the note's id,
//! and is stored before the note is taken out of the inbox; a note whose id is in the log already is only taken out.

use std::collections::HashSet;
use std::time::Duration;

use plimsoll::log::TextPart;
use plimsoll::pivot::Pivot;
use plimsoll::{Message, Part, PartBody, SessionId, ToolStatus};
use plimsoll_session::{Driver, NOTES_KEY, SessionError};
use plimsoll_store::{Note, TaskFilter};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::error::TaskError;
use super::probe::TaskPoint;
use super::status::TaskStatus;
use super::task::Task;
use super::text::{EndedRun, ended_text, reminder_text};
use crate::error::AgentError;
use crate::event::Event;
use crate::run::Conversation;

/// A task has ended.
pub(super) const ENDED: &str = "task.ended";
/// Words for a task that runs.
pub(super) const STEER: &str = "task.steer";
/// Where a call says of which runs it has told the model.
pub(crate) const TOLD_KEY: &str = "tasks";
/// Where a message that names the tasks at work says behind which summary it stands.
const REMINDED_KEY: &str = "tasksAfter";
/// Tasks that end together are told together.
const GATHER: Duration = Duration::from_millis(100);

pub(super) fn note_id(task: &SessionId, run: u32) -> String {
    format!("task:{task}:{run}")
}

impl Conversation {
    /// Take in what others have to tell this session: tasks that have ended, words for a task. Says whether the model has
    /// something new to answer; then [`go_on`](Conversation::go_on) lets it. A host that is idle calls this when the
    /// board's [`watch`](crate::TaskBoard::watch) moves; a run does it before each request.
    pub async fn take_notes(&mut self) -> Result<bool, AgentError> {
        self.settle().await?;
        self.take_in_notes().await
    }

    pub(crate) async fn take_in_notes(&mut self) -> Result<bool, AgentError> {
        let board = self.agent.tasks.clone();
        let pass = move |point| {
            if let Some(board) = &board {
                board.pass(point);
            }
        };
        let messages = self.driver.run(move |driver| take_in(driver, pass)).await?;
        for message in &messages {
            self.agent.tell(&Event::Prompted { message: message.info.id.clone() });
        }
        Ok(!messages.is_empty())
    }

    /// Name the tasks that are at work, behind a summary that stands for their launches: a model that knows of none launches
    /// them again. Once for each summary; says whether something was added.
    pub(crate) async fn remind_of_tasks(&mut self) -> Result<bool, AgentError> {
        if self.agent.tasks.is_none() {
            return Ok(false);
        }
        Ok(self.driver.run(remind).await?)
    }

    /// The model has said its last word: wait for the session's tasks, where that is wanted. Says whether there is
    /// something new to answer.
    pub(crate) async fn await_tasks(&mut self, cancel: &CancellationToken) -> Result<bool, AgentError> {
        if !self.agent.profile.awaits_tasks {
            return Ok(false);
        }
        // What came during the last answer is answered too: words for a task would not be read otherwise.
        if self.take_in_notes().await? {
            return Ok(true);
        }
        let Some(board) = self.agent.tasks.clone() else { return Ok(false) };
        let session = self.session.clone();
        board.without_slot(&session, self.await_own_tasks(cancel)).await
    }

    async fn await_own_tasks(&mut self, cancel: &CancellationToken) -> Result<bool, AgentError> {
        let Some(board) = self.agent.tasks.clone() else { return Ok(false) };
        let session = self.session.clone();
        let mut changes = board.watch();
        let mut is_waiting = false;
        loop {
            changes.borrow_and_update();
            let has_notes = self.driver.run(|driver| {
                let store = driver.archive().store();
                Ok(!store.notes(driver.session(), 1)?.is_empty())
            });
            if has_notes.await? {
                if is_waiting {
                    tokio::time::sleep(GATHER).await;
                }
                if self.take_in_notes().await? {
                    return Ok(true);
                }
            }
            let tasks = board.tasks(Some(&session)).await.map_err(SessionError::from)?;
            if !tasks.iter().any(|task| task.status.is_active()) {
                // A resume may wait behind the end, and notes may have come since.
                board.look_after(&session).await.map_err(SessionError::from)?;
                if self.take_in_notes().await? {
                    return Ok(true);
                }
                let tasks = board.tasks(Some(&session)).await.map_err(SessionError::from)?;
                if !tasks.iter().any(|task| task.status.is_active()) {
                    return Ok(false);
                }
            }
            is_waiting = true;
            tokio::select! {
                biased;
                // The loop sees that it was cancelled.
                () = cancel.cancelled() => return Ok(true),
                changed = changes.changed() => if changed.is_err() { return Ok(false) },
                () = tokio::time::sleep(board.look_after_every()) => {
                    board.look_after(&session).await.map_err(SessionError::from)?;
                }
            }
        }
    }
}

/// Take notes in: messages first, then the notes are taken out of the inbox. Gives the messages.
fn take_in(driver: &mut Driver, pass: impl Fn(TaskPoint)) -> Result<Vec<Message>, SessionError> {
    let session = driver.session().clone();
    let notes: Vec<Note> = driver.archive().store().notes(&session, 0)?;
    let ours: Vec<Note> =
        notes.into_iter().filter(|note| [ENDED, STEER].contains(&note.kind.as_str())).collect();
    if ours.is_empty() {
        return Ok(Vec::new());
    }
    let known = known_notes(driver.log());
    let told = told_runs(driver.log());
    let fresh: Vec<&Note> = ours.iter().filter(|note| !known.contains(&note.id)).collect();
    let mut messages = Vec::new();
    let steers: Vec<&Note> = fresh.iter().copied().filter(|note| note.kind == STEER).collect();
    for note in steers {
        let text = note.data["text"].as_str().unwrap_or_default();
        messages.push(message_of(driver, text, None, std::slice::from_ref(&note.id)));
    }
    let ended: Vec<(&Note, String, u32)> = fresh
        .iter()
        .filter(|note| note.kind == ENDED)
        .filter_map(|note| {
            let run = u32::try_from(note.data["run"].as_u64()?).ok()?;
            Some((*note, note.data["task"].as_str()?.to_owned(), run))
        })
        .filter(|(_, task, run)| !told.contains(&(task.clone(), *run)))
        .collect();
    if !ended.is_empty() {
        let siblings = siblings_of(driver, &session)?;
        let mut runs = Vec::new();
        let mut ids = Vec::new();
        for (note, id, run) in &ended {
            // What was removed meanwhile is not told.
            if let Some(task) = siblings.iter().find(|task| task.id.as_str() == id) {
                runs.push(EndedRun { task, run: *run });
                ids.push(note.id.clone());
            }
        }
        if !runs.is_empty() {
            let (line, hint) = ended_text(&runs, &siblings, driver.settings().clock.now());
            messages.push(message_of(driver, &line, Some(hint), &ids));
        }
    }
    for message in &messages {
        driver.append(message.clone())?;
    }
    pass(TaskPoint::Told);
    let ids: Vec<String> = ours.into_iter().map(|note| note.id).collect();
    driver.take_notes(&ids)?;
    pass(TaskPoint::Taken);
    Ok(messages)
}

fn remind(driver: &mut Driver) -> Result<bool, SessionError> {
    let log = driver.log();
    let Some(pivot) = Pivot::newest(log) else { return Ok(false) };
    let summary = log[pivot.summary].info.id.to_string();
    let metadata =
        |message: &Message| message.parts.first()?.extra.get("metadata")?.get(REMINDED_KEY).cloned();
    if log.iter().any(|message| metadata(message).is_some_and(|of| of == summary.as_str())) {
        return Ok(false);
    }
    let made = log[pivot.summary].info.time.as_ref().and_then(|time| time.created);
    if !has_active(driver)? {
        return Ok(false);
    }
    let siblings = siblings_of(driver, driver.session())?;
    // The launches of those that came after it are in view. A summary without a time is one of an imported session, which
    // had no tasks of ours.
    let is_hidden = |task: &&Task| made.is_some_and(|made| task.created < made);
    let active = siblings.iter().filter(|task| task.status.is_active() && !task.data.cleared);
    let active: Vec<&Task> = active.filter(is_hidden).collect();
    if active.is_empty() {
        return Ok(false);
    }
    let (now, mut ids) = (driver.settings().clock.now(), plimsoll_store::random_ids());
    let text = reminder_text(&active, &siblings, now);
    let body = PartBody::Text(TextPart { text: text.into(), synthetic: Some(true), ignored: None });
    let mut part = Part::new(ids.part(now), body);
    part.extra.insert("metadata".into(), json!({ REMINDED_KEY: summary }));
    let mut message = Message::user(ids.message(now), ids.part(now), "").at(now);
    message.parts = vec![part].into();
    driver.append(message)?;
    Ok(true)
}

/// Whether a task of this session is at work, without reading all that ever were.
fn has_active(driver: &Driver) -> Result<bool, SessionError> {
    for status in TaskStatus::ALL.into_iter().filter(|status| status.is_active()) {
        let (parent, status) = (Some(driver.session().clone()), Some(status.name().to_owned()));
        let filter = TaskFilter { parent, status, most: 1, ..TaskFilter::default() };
        if !driver.archive().store().tasks(&filter)?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn siblings_of(driver: &Driver, session: &SessionId) -> Result<Vec<Task>, SessionError> {
    let mut filter = TaskFilter { parent: Some(session.clone()), most: 1_000, ..TaskFilter::default() };
    let mut tasks = Vec::new();
    loop {
        let page = driver.archive().store().tasks(&filter)?;
        let Some(last) = page.last() else { return Ok(tasks) };
        filter.after = Some(last.id.clone());
        tasks.extend(page.into_iter().filter_map(|record| Task::try_from(record).ok()));
    }
}

/// One message of the user's side: what a person sees, and what only the model does.
fn message_of(driver: &Driver, shown: &str, hint: Option<String>, notes: &[String]) -> Message {
    let (now, mut ids) = (driver.settings().clock.now(), plimsoll_store::random_ids());
    let mut message = Message::user(ids.message(now), ids.part(now), shown).at(now);
    if let Some(part) = message.parts.first_mut() {
        let metadata = Map::from_iter([(NOTES_KEY.to_owned(), json!(notes))]);
        part.extra.insert("metadata".into(), Value::Object(metadata));
    }
    if let Some(hint) = hint {
        let hidden = TextPart { text: hint.into(), synthetic: Some(true), ignored: None };
        message.parts.push(Part::new(ids.part(now), PartBody::Text(hidden)));
    }
    message
}

/// The notes that the log tells already.
fn known_notes(log: &[Message]) -> HashSet<String> {
    let parts = log.iter().filter(|message| message.is_user()).flat_map(|message| &message.parts);
    let ids = parts.filter_map(|part| part.extra.get("metadata")?.get(NOTES_KEY)?.as_array());
    ids.flatten().filter_map(|id| id.as_str().map(str::to_owned)).collect()
}

/// The runs whose end a call has told the model.
fn told_runs(log: &[Message]) -> HashSet<(String, u32)> {
    let calls = log.iter().flat_map(|message| &message.parts).filter_map(Part::as_tool);
    let answered = calls.filter(|tool| tool.state.status == ToolStatus::Completed);
    let told = answered.filter_map(|tool| tool.state.extra.get("metadata")?.get(TOLD_KEY)?.as_array());
    told.flatten()
        .filter_map(|run| {
            let number = u32::try_from(run.get("run")?.as_u64()?).ok()?;
            Some((run.get("id")?.as_str()?.to_owned(), number))
        })
        .collect()
}

impl From<TaskError> for AgentError {
    fn from(error: TaskError) -> AgentError {
        match error {
            TaskError::Session(error) => AgentError::Session(error),
            TaskError::Store(error) => AgentError::Session(error.into()),
            other => AgentError::Internal(other.to_string()),
        }
    }
}

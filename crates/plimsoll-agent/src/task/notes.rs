//! Notes that a conversation receives: ended tasks, and steering messages for a running task.
//!
//! A note is received exactly once, even if the process is killed at any moment. The message that reports it has the
//! note's ID and is stored before the note is removed from the inbox. A note whose ID is in the log is only removed.

use std::collections::HashSet;

use plimsoll::log::TextPart;
use plimsoll::{Log, Message, Millis, Part, PartBody, Pivot, SessionId, ToolStatus};
use plimsoll_session::{NOTES_KEY, Session, SessionError, SessionHandle};
use plimsoll_store::{Note, TaskFilter};
use serde_json::{Map, Value, json};

use super::probe::TaskPoint;
use super::record::Task;
use super::status::TaskStatus;
use super::text::{EndedRun, ended_text, reminder_text};

/// Kind of a note about an ended task.
pub(crate) const ENDED: &str = "task.ended";
/// Kind of a steering message.
pub(crate) const STEER: &str = "task.steer";
/// Kind of a prompt that arrived while the session was running.
pub const PROMPT_NOTE: &str = "prompt";
/// Metadata key under which a call lists the runs that it reported to the model.
pub(crate) const REPORTED_KEY: &str = "tasks";
/// Metadata key under which a reminder names the summary that it follows.
const REMINDED_KEY: &str = "tasksAfter";

pub(crate) fn note_id(task: &SessionId, run: u32) -> String {
    format!("task:{task}:{run}")
}

/// Stores messages for notes, then removes the notes from the inbox. Returns the messages.
pub(crate) async fn deliver_notes(
    session: &mut Session,
    now: Millis,
    pass: impl Fn(TaskPoint),
) -> Result<Vec<Message>, SessionError> {
    let notes: Vec<Note> = session.notes(0).await?;
    let ours: Vec<Note> = notes.into_iter().filter(|note| is_answered_note(&note.kind)).collect();
    if ours.is_empty() {
        return Ok(Vec::new());
    }
    let (mut known, reported) = session.with_log(|log| (known_notes(log), reported_runs(log))).await?;
    // The note of a prompt has the id of its message.
    let ids: Vec<String> =
        ours.iter().filter(|note| note.kind == PROMPT_NOTE).map(|note| note.id.clone()).collect();
    if !ids.is_empty() {
        let stored = session.with_log(move |log| {
            let is_stored = |id: &String| log.iter().any(|message| message.info.id.as_str() == id);
            ids.into_iter().filter(is_stored).collect::<Vec<_>>()
        });
        known.extend(stored.await?);
    }
    let fresh: Vec<&Note> = ours.iter().filter(|note| !known.contains(&note.id)).collect();
    let siblings = match fresh.iter().any(|note| note.kind == ENDED) {
        true => siblings_of(session).await?,
        false => Vec::new(),
    };
    let messages = messages_of(&fresh, &reported, &siblings, now);
    for message in &messages {
        // Messages first, then the inbox: a kill in between leaves a note whose id is in the log, which is only
        // removed.
        session.append(message.clone()).await?;
    }
    pass(TaskPoint::NotesStored);
    session.take_notes(ours.into_iter().map(|note| note.id).collect()).await?;
    pass(TaskPoint::NotesRemoved);
    Ok(messages)
}

/// Returns whether a run takes in notes of this kind, and lets the model answer them.
pub fn is_answered_note(kind: &str) -> bool {
    [ENDED, STEER, PROMPT_NOTE].contains(&kind)
}

/// Creates messages for notes: prompts unchanged, one for each steering message, and one for all ended tasks.
fn messages_of(
    fresh: &[&Note],
    reported: &HashSet<(String, u32)>,
    siblings: &[Task],
    now: Millis,
) -> Vec<Message> {
    let spoken = fresh.iter().filter_map(|note| match note.kind.as_str() {
        STEER => {
            let text = note.data["text"].as_str().unwrap_or_default();
            Some(message_of(now, text, None, std::slice::from_ref(&note.id)))
        }
        PROMPT_NOTE => serde_json::from_value(note.data.clone()).ok(),
        _ => None,
    });
    let mut messages: Vec<Message> = spoken.collect();
    let (mut runs, mut ids) = (Vec::new(), Vec::new());
    for note in fresh.iter().filter(|note| note.kind == ENDED) {
        let run = note.data["run"].as_u64().and_then(|run| u32::try_from(run).ok());
        let Some((id, run)) = note.data["task"].as_str().zip(run) else { continue };
        // Tasks that were removed meanwhile are not reported.
        let task = siblings.iter().find(|task| task.id.as_str() == id);
        if let Some(task) = task.filter(|_| !reported.contains(&(id.to_owned(), run))) {
            runs.push(EndedRun { task, run });
            ids.push(note.id.clone());
        }
    }
    if !runs.is_empty() {
        let (line, hint) = ended_text(&runs, siblings, now);
        messages.push(message_of(now, &line, Some(hint), &ids));
    }
    messages
}

/// Returns a message that lists the running tasks, after a summary has replaced their launches: a model that does not
/// know of them launches them again. `None` if this summary has one, or if no task runs.
pub(crate) async fn task_reminder(
    session: &SessionHandle,
    now: Millis,
) -> Result<Option<Message>, SessionError> {
    let Some((summary, made)) = session.with_log(summary_to_remind).await? else { return Ok(None) };
    if !has_active(session).await? {
        return Ok(None);
    }
    let siblings = siblings_of(session).await?;
    // Launches after the summary are in the window. A summary without a time is from an imported session, which has no
    // tasks.
    let is_hidden = |task: &&Task| made.is_some_and(|made| task.created < made);
    let active = siblings.iter().filter(|task| task.status.is_active() && !task.data.cleared);
    let active: Vec<&Task> = active.filter(is_hidden).collect();
    if active.is_empty() {
        return Ok(None);
    }
    let mut ids = plimsoll_store::random_ids();
    let text = reminder_text(&active, &siblings, now);
    let body = PartBody::Text(TextPart { text: text.into(), synthetic: Some(true), ignored: None });
    let mut part = Part::new(ids.part(now), body);
    part.extra.insert("metadata".into(), json!({ REMINDED_KEY: summary }));
    let mut message = Message::user(ids.message(now), ids.part(now), "").at(now);
    message.parts = vec![part].into();
    Ok(Some(message))
}

/// Returns the newest summary and its time, if no message reminds of the tasks that were active at that time.
fn summary_to_remind(log: &Log) -> Option<(String, Option<Millis>)> {
    let pivot = Pivot::newest(log)?;
    let summary = log[pivot.summary].info.id.to_string();
    let metadata =
        |message: &Message| message.parts.first()?.extra.get("metadata")?.get(REMINDED_KEY).cloned();
    let is_reminded = log.iter().any(|message| metadata(message).is_some_and(|of| of == summary.as_str()));
    let made = log[pivot.summary].info.time.as_ref().and_then(|time| time.created);
    (!is_reminded).then_some((summary, made))
}

/// Returns whether a task of this session is active, without reading all tasks.
async fn has_active(session: &SessionHandle) -> Result<bool, SessionError> {
    let parent = session.id().clone();
    let found = session.with_archive(move |archive| {
        for status in TaskStatus::ALL.into_iter().filter(|status| status.is_active()) {
            let (parent, status) = (Some(parent.clone()), Some(status.name().to_owned()));
            let filter = TaskFilter { parent, status, most: 1, ..TaskFilter::default() };
            if !archive.store().tasks(&filter)?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    });
    found.await
}

async fn siblings_of(session: &SessionHandle) -> Result<Vec<Task>, SessionError> {
    let mut filter = TaskFilter { parent: Some(session.id().clone()), most: 1_000, ..TaskFilter::default() };
    let found = session.with_archive(move |archive| {
        let mut tasks = Vec::new();
        loop {
            let page = archive.store().tasks(&filter)?;
            let Some(last) = page.last() else { return Ok(tasks) };
            filter.after = Some(last.id.clone());
            tasks.extend(page.into_iter().filter_map(|record| Task::try_from(record).ok()));
        }
    });
    found.await
}

/// Creates a user message: text that the user sees, and a hint for the model only.
fn message_of(now: Millis, shown: &str, hint: Option<String>, notes: &[String]) -> Message {
    let mut ids = plimsoll_store::random_ids();
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

/// Returns the IDs of notes that the log already has.
fn known_notes(log: &[Message]) -> HashSet<String> {
    let parts = log.iter().filter(|message| message.is_user()).flat_map(|message| &message.parts);
    let ids = parts.filter_map(|part| part.extra.get("metadata")?.get(NOTES_KEY)?.as_array());
    ids.flatten().filter_map(|id| id.as_str().map(str::to_owned)).collect()
}

/// Returns the runs whose end a call has reported to the model.
fn reported_runs(log: &[Message]) -> HashSet<(String, u32)> {
    let calls = log.iter().flat_map(|message| &message.parts).filter_map(Part::as_tool);
    let answered = calls.filter(|tool| tool.state.status == ToolStatus::Completed);
    let reported =
        answered.filter_map(|tool| tool.state.extra.get("metadata")?.get(REPORTED_KEY)?.as_array());
    reported
        .flatten()
        .filter_map(|run| {
            let number = u32::try_from(run.get("run")?.as_u64()?).ok()?;
            Some((run.get("id")?.as_str()?.to_owned(), number))
        })
        .collect()
}

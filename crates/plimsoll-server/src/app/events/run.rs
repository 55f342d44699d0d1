//! Events of runs that are not stored, reported when they happen.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};

use plimsoll::{PartId, SessionId};
use plimsoll_agent::{Asker, Event, PermissionAnswer, PermissionQuestion, Preview};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::app::{App, blocking};
use crate::error::ApiError;

/// Display time of a toast, in milliseconds.
const TOAST: u64 = 5_000;

/// Reports an event of a run. It must not block, because the run waits for it.
pub(crate) fn on_run_event(app: &Arc<App>, directory: &str, event: &Event) {
    let publish = |kind: &str, properties: Value| app.hub.publish(app, directory, kind, properties);
    let toast = |title: &str, message: &str, variant: &str| {
        publish(
            "tui.toast.show",
            json!({ "title": title, "message": message, "variant": variant, "duration": TOAST }),
        );
    };
    match event {
        Event::TaskLaunched { task, parent, agent, description, run, .. } => {
            app.runners.remember(parent);
            app.runners.task_began(task);
            let title = if *run > 1 { "Background task resumed" } else { "Background task running" };
            toast(title, &format!("{description} (@{agent})"), "info");
            publish("session.status", json!({ "sessionID": task, "status": { "type": "busy" } }));
        }
        Event::TaskEnded { task, parent, description, status, error, toast: all, .. } => {
            app.runners.task_ended(task);
            let variant = match status.name() {
                "completed" => "success",
                "error" => "error",
                _ => "warning",
            };
            let title = format!("Background task {}: {description}", status.name());
            toast(&title, error.as_deref().unwrap_or(all), variant);
            publish("session.status", json!({ "sessionID": task, "status": { "type": "idle" } }));
            publish("session.idle", json!({ "sessionID": task }));
            app.runners.on_note(app, parent);
        }
        _ => {}
    }
}

/// Reports an event of the run of a session that this server runs itself.
pub(crate) fn on_session_event(app: &Arc<App>, directory: &str, session: &SessionId, event: &Event) {
    let publish = |kind: &str, properties: Value| app.hub.publish(app, directory, kind, properties);
    match event {
        Event::Todos { todos, .. } => {
            let todos = crate::app::shape::todos(todos);
            publish("todo.updated", json!({ "sessionID": session, "todos": todos }));
        }
        Event::Retrying { retry, wait_ms, error } => {
            let next = app.now().0 + wait_ms;
            let status = json!({ "type": "retry", "attempt": retry, "message": error, "next": next });
            publish("session.status", json!({ "sessionID": session, "status": status }));
        }
        Event::Notice { text } => tracing::info!(text, "notice of a session's set-up"),
        other => on_run_event(app, directory, other),
    }
}

/// Passes permission questions to the clients of a directory.
pub(crate) struct QuestionAsker {
    app: Weak<App>,
    directory: String,
}

impl QuestionAsker {
    pub(crate) fn new(app: &Arc<App>, directory: &str) -> QuestionAsker {
        QuestionAsker { app: Arc::downgrade(app), directory: directory.to_owned() }
    }

    async fn answer(&self, question: &PermissionQuestion, cancel: &CancellationToken) -> PermissionAnswer {
        let Some(app) = self.app.upgrade() else { return PermissionAnswer::No { words: None } };
        let request = request(&app, &self.directory, question).await;
        let (id, answer) = app.questions.ask(&self.directory, &question.session, request.clone());
        app.hub.publish(&app, &self.directory, "permission.asked", request);
        let answer = tokio::select! {
            answer = answer => answer,
            () = cancel.cancelled() => None,
        };
        // Also after a timeout or a cancelled run, which leave the question in the list of open ones.
        app.questions.close(&id);
        if answer == Some(PermissionAnswer::Always) {
            app.runners.grant(&question.session, question.always.clone());
        }
        let reply = match &answer {
            Some(PermissionAnswer::Once) => "once",
            Some(PermissionAnswer::Always) => "always",
            Some(PermissionAnswer::No { .. }) | None => "reject",
        };
        let properties = json!({ "sessionID": question.session, "requestID": id, "reply": reply });
        app.hub.publish(&app, &self.directory, "permission.replied", properties);
        answer.unwrap_or_else(|| PermissionAnswer::No { words: Some("no answer came in time".to_owned()) })
    }
}

impl Asker for QuestionAsker {
    fn ask<'a>(
        &'a self,
        question: &'a PermissionQuestion,
        cancel: &'a CancellationToken,
    ) -> Pin<Box<dyn Future<Output = PermissionAnswer> + Send + 'a>> {
        Box::pin(self.answer(question, cancel))
    }
}

/// Converts a question to the form that clients expect.
async fn request(app: &Arc<App>, directory: &str, question: &PermissionQuestion) -> Value {
    let PermissionQuestion { session, agent, part, tool, what, preview, why, always } = question;
    // Only under this name do clients show the change that the user is asked about.
    let permission = if matches!(tool.as_str(), "write" | "edit") { "edit" } else { tool };
    let mut metadata = json!({ "agent": agent, "reason": why });
    match preview {
        Some(Preview::Change(diff)) => {
            (metadata["diff"], metadata["filepath"]) = (json!(diff), json!(what));
        }
        Some(Preview::Content(content)) => {
            let lines: String = content.lines().map(|line| format!("+{line}\n")).collect();
            let count = content.lines().count();
            let diff = format!("--- /dev/null\n+++ {what}\n@@ -0,0 +1,{count} @@\n{lines}");
            (metadata["diff"], metadata["filepath"]) = (json!(diff), json!(what));
        }
        None => {}
    }
    let mut request = json!({
        "id": app.id("per"),
        "sessionID": session,
        "permission": permission,
        "patterns": [what],
        "metadata": metadata,
        "always": [always.pattern],
    });
    if let Some(call) = call_of(app, directory, session, part).await {
        request["tool"] = call;
    }
    request
}

/// Finds the message and call of a part. Clients need them to show the question next to the call.
async fn call_of(app: &Arc<App>, directory: &str, session: &SessionId, part: &PartId) -> Option<Value> {
    let project = app.open_project(directory).await?;
    let (opened, session, part) = (project.database.opened.clone(), session.clone(), part.clone());
    let found = blocking(move || {
        const LOOK_BACK: u64 = 5;
        let request = plimsoll_store::PageRequest { from: None, oldest_first: false, most: LOOK_BACK };
        let page = opened.archive.store().page(&session, &request)?;
        let call = page.messages.iter().find_map(|message| {
            let call = message.parts.iter().find(|known| known.id == part)?.as_tool()?;
            Some(json!({ "messageID": message.info.id, "callID": call.call_id }))
        });
        Ok::<_, ApiError>(call)
    });
    found.await.ok().flatten()
}

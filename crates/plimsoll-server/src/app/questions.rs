//! Permission questions that wait for a client's answer.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plimsoll::SessionId;
use plimsoll_agent::PermissionAnswer;
use serde_json::Value;
use tokio::sync::oneshot;

struct Open {
    directory: String,
    session: SessionId,
    request: Value,
    answer: oneshot::Sender<PermissionAnswer>,
}

/// The open questions, by their ids.
pub(crate) struct Questions {
    open: Mutex<BTreeMap<String, Open>>,
    timeout: Duration,
}

impl Questions {
    pub(crate) fn new(timeout: Duration) -> Questions {
        Questions { open: Mutex::default(), timeout }
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<String, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a question. Returns its id, and the answer, which is `None` after the timeout.
    pub(crate) fn ask(
        &self,
        directory: &str,
        session: &SessionId,
        request: Value,
    ) -> (String, impl Future<Output = Option<PermissionAnswer>> + Send + use<>) {
        let (answer, answered) = oneshot::channel();
        let id = request["id"].as_str().unwrap_or_default().to_owned();
        let open = Open { directory: directory.to_owned(), session: session.clone(), request, answer };
        self.open().insert(id.clone(), open);
        let timeout = self.timeout;
        (id, async move { tokio::time::timeout(timeout, answered).await.ok()?.ok() })
    }

    /// Answers a question of a directory. Returns `false` if the directory has no such open question.
    pub(crate) fn answer(
        &self,
        directory: &str,
        session: Option<&SessionId>,
        id: &str,
        answer: PermissionAnswer,
    ) -> bool {
        let mut open = self.open();
        let is_there = open.get(id).is_some_and(|question| {
            question.directory == directory && session.is_none_or(|session| *session == question.session)
        });
        // It belongs to another directory and stays open.
        if !is_there {
            return false;
        }
        // The send fails if the run no longer waits, because it was cancelled or the timeout has passed.
        open.remove(id).is_some_and(|question| question.answer.send(answer).is_ok())
    }

    pub(crate) fn close(&self, id: &str) {
        self.open().remove(id);
    }

    /// Returns the open questions of a directory, oldest first.
    pub(crate) fn list(&self, directory: &str) -> Vec<Value> {
        let open = self.open();
        open.values().filter(|open| open.directory == directory).map(|open| open.request.clone()).collect()
    }

    /// Denies all open questions, when the server stops.
    pub(crate) fn deny_all(&self) {
        // Dropping the senders ends the waits without an answer, which counts as a no.
        self.open().clear();
    }
}

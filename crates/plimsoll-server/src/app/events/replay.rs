//! Changes from before a client found the server again.
//!
//! A client that was connected to an earlier process reconnects, and reads nothing again. So the first streams begin with the
//! recent changes of the store: those from the time without a server, and those since the start. The events are idempotent: each
//! has the whole message or part, so that a client which knows it already sees no difference.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use plimsoll::{MessageId, SessionId};
use plimsoll_store::{ChangeKind, Sequence, Session, Store, StoreError};

use super::feed::{Out, first_messages};
use super::hub::Queue;
use crate::app::App;
use crate::app::project::Database;
use crate::app::shape::{Scene, is_removed};

/// Time after the start in which clients of an earlier process reconnect.
const RECONNECT: Duration = Duration::from_secs(60);

/// Maximum number of streams that begin with recent changes, because each costs reads of the store.
const MAX_STREAMS: usize = 16;

/// Maximum number of changes from before the start that are looked at.
const LOOK_BACK: u64 = 1_000;

/// Maximum number of messages that are sent.
const MAX_MESSAGES: usize = 200;

/// Maximum size of what is sent, in bytes.
const MAX_BYTES: usize = 4 << 20;

/// Counts the streams that began with recent changes.
pub(crate) struct Replays {
    started: Instant,
    begun: AtomicUsize,
}

impl Default for Replays {
    fn default() -> Replays {
        Replays { started: Instant::now(), begun: AtomicUsize::new(0) }
    }
}

/// Sends recent changes to a new reader, if it is one of the first.
pub(super) fn begin(app: &Arc<App>, reader: &Arc<Queue>) {
    let Replays { started, begun } = &app.replayed;
    if started.elapsed() > RECONNECT || begun.fetch_add(1, Ordering::SeqCst) >= MAX_STREAMS {
        return;
    }
    let (app, reader) = (Arc::clone(app), Arc::clone(reader));
    app.clone().spawn(async move {
        let sent = tokio::task::spawn_blocking(move || {
            let databases = app.databases().clone();
            databases.iter().try_for_each(|database| replay(&app, database, &reader))
        });
        if let Ok(Err(error)) = sent.await {
            tracing::warn!(%error, "recent changes cannot be read for a new event stream");
        }
    });
}

/// Changes of a session.
#[derive(Default)]
struct Changed {
    is_new: bool,
    /// Messages in the order of their changes.
    messages: Vec<MessageId>,
}

fn replay(app: &Arc<App>, database: &Database, reader: &Queue) -> Result<(), StoreError> {
    let store = database.opened.archive.store();
    let mut since = Sequence(database.began.0.saturating_sub(LOOK_BACK));
    let (mut order, mut changed): (Vec<SessionId>, HashMap<SessionId, Changed>) = Default::default();
    loop {
        let page = store.changes(since, LOOK_BACK)?;
        for change in page.changes {
            let entry = changed.entry(change.session.clone()).or_insert_with(|| {
                order.push(change.session.clone());
                Changed::default()
            });
            entry.is_new |= change.kind == ChangeKind::Created;
            if let Some(message) = change.message {
                entry.messages.retain(|known| *known != message);
                entry.messages.push(message);
            }
        }
        if page.next == since {
            break;
        }
        since = page.next;
    }
    let mut left = MAX_MESSAGES;
    // The newest sessions first: what is beyond the limits is older.
    for id in order.iter().rev() {
        let Some(changed) = changed.remove(id) else { continue };
        match store.session(id) {
            Ok(session) => {
                left = left.saturating_sub(replay_session(app, store, &session, &changed, left, reader)?);
            }
            Err(StoreError::Missing { .. }) => {}
            Err(error) => return Err(error),
        }
        if left == 0 || reader.size().1 > MAX_BYTES {
            break;
        }
    }
    Ok(())
}

/// Sends the changes of a session, and returns the number of its messages.
fn replay_session(
    app: &Arc<App>,
    store: &dyn Store,
    session: &Session,
    changed: &Changed,
    most: usize,
    reader: &Queue,
) -> Result<usize, StoreError> {
    let directory = session.directory.clone().unwrap_or_default();
    if !app.is_served(&directory) || !reader.reach.has(&directory) {
        return Ok(0);
    }
    let out =
        Out { app, scene: Scene::of(app, &directory), session: session.id.clone(), reader: Some(reader) };
    out.session("session.updated", session);
    let mut messages = if changed.is_new { first_messages(store, session)? } else { Vec::new() };
    let known: HashSet<MessageId> = messages.iter().map(|message| message.info.id.clone()).collect();
    let first = changed.messages.len().saturating_sub(most);
    for id in changed.messages[first..].iter().filter(|id| !known.contains(*id)) {
        match store.message(&session.id, id) {
            Ok(message) => messages.push(message),
            Err(StoreError::Missing { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    // A message that is being written is reported by its own changes, which would follow a text that has them already.
    messages.retain(|message| !message.is_open() && !is_removed(message));
    messages.iter().for_each(|message| out.message(message));
    Ok(messages.len())
}

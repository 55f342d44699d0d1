//! Events from the change feed of a database, which includes the changes of other processes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Weak};
use std::time::Duration;

use plimsoll::plan::EditPlan;
use plimsoll::{Message, MessageId, Part, PartBody, PartId, Plan, Receipt, ReceiptId, SessionId};
use plimsoll_store::{Change, ChangeKind, PageRequest, Sequence, Session, Store, StoreError};
use serde_json::{Value, json};

use super::hub::Queue;
use crate::app::App;
use crate::app::project::Database;
use crate::app::shape::{Scene, is_removed};

/// Interval of polls for changes of other processes. Changes of this process wake the poller.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Minimum time between two polls, so that a streaming answer does not keep the poller busy.
const MIN_PAUSE: Duration = Duration::from_millis(5);

/// Maximum number of cached sessions and of texts that are being written. Dropping a text costs a larger event, dropping a
/// session another read.
const REMEMBERED: usize = 4_096;

/// Polls a database in the background until the server stops.
pub(crate) fn follow(app: &Arc<App>, database: &Arc<Database>) {
    let (weak, database, stop) = (Arc::downgrade(app), Arc::clone(database), app.stop.clone());
    app.spawn(async move {
        let mut feed = None;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = database.changed.notified() => {}
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
            let (weak, database, before) = (weak.clone(), Arc::clone(&database), feed.take());
            feed = tokio::task::spawn_blocking(move || poll(&weak, &database, before)).await.ok().flatten();
            tokio::time::sleep(MIN_PAUSE).await;
        }
    });
}

/// Reports the changes since the last poll. Returns the state for the next one.
fn poll(app: &Weak<App>, database: &Arc<Database>, feed: Option<Feed>) -> Option<Feed> {
    let app = app.upgrade()?;
    let store = database.opened.archive.store();
    let mut feed = feed.unwrap_or_else(|| Feed::new(Sequence(*database.since.borrow())));
    loop {
        let page = match store.changes(feed.since, 0) {
            Ok(page) => page,
            Err(error) => {
                tracing::warn!(%error, "the change feed cannot be read");
                return Some(feed);
            }
        };
        if page.gap {
            feed.report_gap(&app);
        }
        // Events carry the current content of the store, so only the last of several changes of one kind to one part or message
        // is reported. A text that is being written changes many times a second, and a finished message would be reported as
        // finished twice.
        let subject = |change: &Change| match change.kind {
            ChangeKind::Extended => change.part.as_ref().map(ToString::to_string),
            ChangeKind::Recorded => change.message.as_ref().map(ToString::to_string),
            _ => None,
        };
        let last: HashMap<String, usize> = page
            .changes
            .iter()
            .enumerate()
            .filter_map(|(place, change)| Some((subject(change)?, place)))
            .collect();
        for (place, change) in page.changes.iter().enumerate() {
            if change.kind == ChangeKind::Noted {
                app.runners.on_note(&app, &change.session);
            }
            let is_superseded = subject(change).is_some_and(|subject| last.get(&subject) != Some(&place));
            // Without readers nothing is loaded from the store. The change can be skipped, because a new reader only gets later
            // ones.
            if app.hub.has_readers() && !is_superseded {
                match feed.report(&app, store, change) {
                    Ok(()) | Err(StoreError::Missing { .. }) => {}
                    Err(error) => tracing::warn!(%error, "a change cannot be reported"),
                }
            }
        }
        if page.next == feed.since {
            return Some(feed);
        }
        feed.since = page.next;
        database.since.send_replace(page.next.0);
    }
}

/// Position in the change feed, and the state that differences are computed from.
struct Feed {
    since: Sequence,
    /// Last known state of each session. After a session is removed, its directory is only known from here.
    sessions: HashMap<SessionId, Session>,
    /// Number of reported bytes of each text that is being written.
    growing: HashMap<PartId, usize>,
    /// The newest reported compaction, by session.
    pivots: HashMap<SessionId, MessageId>,
    /// The newest receipt that was reported, by session.
    receipts: HashMap<SessionId, ReceiptId>,
}

impl Feed {
    fn new(since: Sequence) -> Feed {
        let (sessions, growing) = (HashMap::new(), HashMap::new());
        Feed { since, sessions, growing, pivots: HashMap::new(), receipts: HashMap::new() }
    }

    /// Reports that changes are missing, so that clients read everything again.
    fn report_gap(&mut self, app: &App) {
        *self = Feed::new(self.since);
        for scene in Scene::all(app) {
            let properties = json!({ "directory": scene.directory });
            app.hub.publish(app, &scene.directory, "server.instance.disposed", properties);
        }
    }

    fn report(&mut self, app: &Arc<App>, store: &dyn Store, change: &Change) -> Result<(), StoreError> {
        let id = &change.session;
        if self.sessions.len() > REMEMBERED {
            (self.sessions, self.pivots, self.receipts) = (HashMap::new(), HashMap::new(), HashMap::new());
        }
        if self.growing.len() > REMEMBERED {
            self.growing.clear();
        }
        let is_about_session =
            matches!(change.kind, ChangeKind::Created | ChangeKind::Patched | ChangeKind::Imported);
        if is_about_session || !self.sessions.contains_key(id) {
            match store.session(id) {
                Ok(session) => drop(self.sessions.insert(id.clone(), session)),
                // The session has been removed since. A later change of the feed reports that.
                Err(StoreError::Missing { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let Some(session) = self.sessions.get(id).cloned() else { return Ok(()) };
        let Some(directory) = session.directory.clone().filter(|directory| app.is_served(directory)) else {
            return Ok(());
        };
        let out = Out { app, scene: Scene::of(app, &directory), session: id.clone(), reader: None };
        match change.kind {
            ChangeKind::Created => {
                out.session("session.created", &session);
                first_messages(store, &session)?.iter().for_each(|message| out.message(message));
            }
            ChangeKind::Patched | ChangeKind::Imported | ChangeKind::Undone | ChangeKind::Purged => {
                out.session("session.updated", &store.session(id)?);
                if change.kind == ChangeKind::Undone {
                    restored(&out, store)?;
                }
            }
            ChangeKind::Removed => {
                self.sessions.remove(id);
                out.session("session.deleted", &session);
            }
            ChangeKind::Appended => {
                if let Some(message) = &change.message {
                    out.message(&store.message(id, message)?);
                }
            }
            ChangeKind::Recorded => {
                let Some(message) = &change.message else { return Ok(()) };
                let message = store.message(id, message)?;
                if message.is_finished() {
                    // Clients show a text as complete only when its part has an end time, which deltas do not carry.
                    let grown = message.parts.iter().filter(|part| self.growing.remove(&part.id).is_some());
                    grown.for_each(|part| out.part(&message, part));
                }
                out.info(&message);
                if message.is_finished() {
                    out.session("session.updated", &store.session(id)?);
                }
            }
            ChangeKind::PartAppended | ChangeKind::Advanced => {
                let (Some(message), Some(part)) = (&change.message, &change.part) else { return Ok(()) };
                let part = store.part(id, part)?;
                if let Some(text) = text_of(&part) {
                    self.growing.insert(part.id.clone(), text.len());
                }
                out.part_of(message, &part);
            }
            ChangeKind::Extended => {
                let (Some(message), Some(part)) = (&change.message, &change.part) else { return Ok(()) };
                let part = store.part(id, part)?;
                let Some(text) = text_of(&part) else { return Ok(()) };
                let known = self.growing.insert(part.id.clone(), text.len());
                match known.and_then(|known| text.get(known..)) {
                    Some("") => {}
                    Some(delta) => out.delta(message, &part.id, delta),
                    None => out.part_of(message, &part),
                }
            }
            ChangeKind::Reduced => self.report_reduction(&out, store)?,
            ChangeKind::Leased => {
                // Taking over a dead process's lease ends its unfinished answer with an error, for which the feed has no separate change.
                let request = PageRequest { from: None, oldest_first: false, most: 1 };
                let newest = store.page(id, &request)?.messages;
                newest
                    .iter()
                    .filter(|message| message.info.error.is_some())
                    .for_each(|message| out.message(message));
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the receipts since the last look, oldest first.
    fn new_receipts(&mut self, store: &dyn Store, id: &SessionId) -> Result<Vec<Receipt>, StoreError> {
        // Several reductions may have been committed between two looks.
        const LOOK_BACK: u64 = 50;
        let newest = store.newest_receipts(id, 1)?;
        let Some(receipt) = newest.first() else { return Ok(newest) };
        match self.receipts.insert(id.clone(), receipt.id.clone()) {
            None => Ok(newest),
            Some(known) if known == receipt.id => Ok(Vec::new()),
            Some(known) => {
                let newest = store.newest_receipts(id, LOOK_BACK)?.into_iter();
                let mut new: Vec<Receipt> = newest.take_while(|receipt| receipt.id != known).collect();
                new.reverse();
                Ok(new)
            }
        }
    }

    /// Reports a reduction: the two messages that a compaction adds, or the parts that others have marked.
    fn report_reduction(&mut self, out: &Out<'_>, store: &dyn Store) -> Result<(), StoreError> {
        let id = &out.session;
        let receipts = self.new_receipts(store, id)?;
        if !receipts.is_empty() {
            // Also for what changes no part for clients, such as a pin: the page shows it.
            out.session("session.updated", &store.session(id)?);
        }
        for receipt in receipts {
            if let Plan::Edit(plan) = &receipt.plan {
                out.removed(store, plan)?;
            }
            for (message, parts) in shown_changes(&receipt.plan) {
                let message = store.message(id, message)?;
                let parts = message.parts.iter().filter(|part| parts.contains(&part.id));
                parts.for_each(|part| out.part(&message, part));
            }
        }
        let Some(newest) =
            store.compactions(id, None, u64::MAX)?.into_iter().max_by_key(|pivot| pivot.created)
        else {
            return Ok(());
        };
        if self.pivots.insert(id.clone(), newest.marker.clone()).as_ref() == Some(&newest.marker) {
            return Ok(());
        }
        out.message(&store.message(id, &newest.marker)?);
        if newest.summary != newest.marker {
            out.message(&store.message(id, &newest.summary)?);
        }
        out.publish("session.compacted", json!({ "sessionID": id }));
        Ok(())
    }
}

/// Reports the messages of an edit that was undone.
fn restored(out: &Out<'_>, store: &dyn Store) -> Result<(), StoreError> {
    for receipt in store.newest_receipts(&out.session, 1)? {
        let Plan::Edit(plan) = receipt.plan else { continue };
        let messages: BTreeSet<MessageId> = plan.items.into_iter().map(|item| item.message).collect();
        for id in messages {
            out.message(&store.message(&out.session, &id)?);
        }
    }
    Ok(())
}

/// The parts that look different to clients after a reduction, by message: outputs that were cleared, which have a time, and
/// texts that the user changed.
fn shown_changes(plan: &Plan) -> BTreeMap<&MessageId, BTreeSet<&PartId>> {
    let places: Vec<(&MessageId, &PartId)> = match plan {
        Plan::Prune(plan) => plan.items.iter().map(|item| (&item.message, &item.part)).collect(),
        Plan::Shed(plan) => plan.cleared.iter().map(|item| (&item.message, &item.part)).collect(),
        Plan::Edit(plan) => plan.items.iter().map(|item| (&item.message, &item.part)).collect(),
        _ => Vec::new(),
    };
    let mut found: BTreeMap<&MessageId, BTreeSet<&PartId>> = BTreeMap::new();
    for (message, part) in places {
        found.entry(message).or_default().insert(part);
    }
    found
}

/// Returns the messages that a task or a fork was created with, oldest first. The feed has no separate changes for them.
pub(super) fn first_messages(store: &dyn Store, session: &Session) -> Result<Vec<Message>, StoreError> {
    if session.messages == 0 {
        return Ok(Vec::new());
    }
    let request = PageRequest { from: None, oldest_first: false, most: session.messages.min(50) };
    let mut messages = store.page(&session.id, &request)?.messages;
    messages.reverse();
    Ok(messages)
}

fn text_of(part: &Part) -> Option<&str> {
    match &part.body {
        PartBody::Text(text) => Some(text.text.as_str()),
        PartBody::Reasoning(thought) => Some(thought.text.as_str()),
        _ => None,
    }
}

/// Publishes events about one session.
pub(super) struct Out<'a> {
    pub(super) app: &'a Arc<App>,
    pub(super) scene: Scene,
    pub(super) session: SessionId,
    /// The only reader of the events; all readers if it is not set.
    pub(super) reader: Option<&'a Queue>,
}

impl Out<'_> {
    fn publish(&self, kind: &str, properties: Value) {
        match self.reader {
            Some(reader) => {
                self.app.hub.publish_to(reader, self.app, &self.scene.directory, kind, properties);
            }
            None => self.app.hub.publish(self.app, &self.scene.directory, kind, properties),
        }
    }

    pub(super) fn session(&self, kind: &str, session: &Session) {
        self.publish(kind, json!({ "sessionID": session.id, "info": self.scene.session(session) }));
    }

    fn info(&self, message: &Message) {
        let info = self.scene.info(&self.session, message);
        self.publish("message.updated", json!({ "sessionID": self.session, "info": info }));
    }

    pub(super) fn message(&self, message: &Message) {
        self.info(message);
        message.parts.iter().for_each(|part| self.part(message, part));
    }

    fn part(&self, message: &Message, part: &Part) {
        self.publish_part(self.scene.part(&self.session, &message.info, part));
    }

    fn part_of(&self, message: &MessageId, part: &Part) {
        self.publish_part(self.scene.part_of(&self.session, message, part));
    }

    fn publish_part(&self, part: Option<Value>) {
        if let Some(part) = part {
            let time = self.app.now();
            self.publish(
                "message.part.updated",
                json!({ "sessionID": self.session, "part": part, "time": time }),
            );
        }
    }

    /// Reports what an edit removed.
    fn removed(&self, store: &dyn Store, plan: &EditPlan) -> Result<(), StoreError> {
        let removed = plan.items.iter().filter(|item| item.is_removal());
        let messages: BTreeSet<&MessageId> = removed.clone().map(|item| &item.message).collect();
        for item in removed {
            let (message, part) = (&item.message, &item.part);
            let properties = json!({ "sessionID": self.session, "messageID": message, "partID": part });
            self.publish("message.part.removed", properties);
        }
        for id in messages {
            if is_removed(&store.message(&self.session, id)?) {
                let properties = json!({ "sessionID": self.session, "messageID": id });
                self.publish("message.removed", properties);
            }
        }
        Ok(())
    }

    fn delta(&self, message: &MessageId, part: &PartId, delta: &str) {
        self.publish(
            "message.part.delta",
            json!({
                "sessionID": self.session,
                "messageID": message,
                "partID": part,
                "field": "text",
                "delta": delta,
            }),
        );
    }
}

//! Imports a source: creates a session with those of its sub-agents, or extends an existing one.
//!
//! A source is read twice. The [`Survey`] determines what it is and whether a stored copy is its beginning; the second pass
//! writes. An unchanged file is read once. A new one is parsed a second time, which takes little compared to storing it. In
//! return, everything about the session is known before its first message is written, and only pieces of the source are in
//! memory.

use plimsoll::{Ids, LogError, Millis, SessionId};
use plimsoll_store::{ABANDONED, ImportRecord, Imported, Store, StoreError};

use crate::error::ImportError;
use crate::names::{self, UNIQUE};
use crate::report::{ImportOptions, NewSessionReason, Outcome, OutdatedCopy, Report};
use crate::source::{OnRead, Source};
use crate::state::ImportState;
use crate::survey::{Relation, Survey};
use crate::write::{Target, Writing, Written};

/// Number of times that an import is planned again after concurrent changes.
const ATTEMPTS: usize = 16;

/// How a source differs from its stored copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drift {
    /// The source has more than the copy.
    Longer {
        /// Number of messages that the copy lacks. 0 if only its last message or the session of a sub-agent has grown.
        messages: usize,
    },
    /// The copy is no longer a prefix of the source.
    Diverged,
}

/// Plan of an import.
enum Plan {
    Unchanged(Vec<ImportRecord>),
    Update(Vec<ImportRecord>),
    New { id: SessionId, keeps_ids: bool, instead_of: Option<OutdatedCopy> },
}

impl Survey {
    /// Imports the surveyed source.
    ///
    /// A new session is stored completely or not at all. Of several concurrent imports, one stores it and the others find it. A
    /// large addition to an existing session is stored in pieces, and after each of them the session is a prefix of the source.
    /// If another process runs the session, the import fails with [`StoreError::Leased`].
    pub fn import(
        &self,
        source: &mut Source<'_>,
        store: &dyn Store,
        ids: &mut Ids,
        options: &ImportOptions<'_>,
        on_read: OnRead<'_>,
    ) -> Result<Report, ImportError> {
        if self.is_empty() {
            return Err(ImportError::Empty);
        }
        let key = self.key(options);
        let mut refused: Vec<OutdatedCopy> = Vec::new();
        let mut taken_ids: Vec<SessionId> = Vec::new();
        for _ in 0..ATTEMPTS {
            let records = store.imports(&key)?;
            let known = (!options.duplicate).then(|| roots(&records));
            let plan = self.plan(store, ids, options, records, &refused)?;
            let (targets, instead_of, root) = match plan {
                Plan::Unchanged(group) => return self.unchanged(store, &group),
                Plan::Update(group) => {
                    let root = group[0].root.clone();
                    (self.targets_of(store, &group, &taken_ids, options)?, None, Some(root))
                }
                Plan::New { id, keeps_ids, instead_of } => {
                    store.sweep_stages(ABANDONED)?;
                    (self.targets_new(store, &id, keeps_ids, &taken_ids, options)?, instead_of, None)
                }
            };
            let is_new = root.is_none();
            let stage = format!("import_{}", ids.part(options.now));
            let mut writing = Writing::new(store, &key, known, stage, targets, options);
            let done = writing.run(source, on_read);
            if !matches!(done, Ok(Written::Stored(_))) {
                writing.discard()?;
            }
            match done {
                Ok(Written::Stored(mut report)) => {
                    report.instead_of = instead_of;
                    return Ok(*report);
                }
                Ok(Written::Not(Imported::Shared)) => {
                    refused.extend(
                        root.map(|session| OutdatedCopy { session, because: NewSessionReason::Shared }),
                    );
                }
                Ok(Written::Diverged) => {
                    refused.extend(
                        root.map(|session| OutdatedCopy { session, because: NewSessionReason::Diverged }),
                    );
                }
                Ok(Written::Not(_)) => {}
                Err(ImportError::Store(StoreError::Log(LogError::Duplicate { kind: "session", id }))) => {
                    let id = SessionId::new(id);
                    if is_new && writing.root() == Some(&id) && store.import_of(&id)?.is_empty() {
                        return Err(match store.session(&id) {
                            Ok(_) => ImportError::IdTaken { id },
                            Err(_) => ImportError::Removed { id },
                        });
                    }
                    taken_ids.push(id);
                }
                Err(error) => return Err(error),
            }
        }
        Err(ImportError::Unsettled)
    }

    /// Returns the key of the source in the store's records: the tool and the session's id, or, without an id, the file or a
    /// hash of the content.
    fn key(&self, options: &ImportOptions<'_>) -> String {
        let file = options.origin.and_then(|path| path.canonicalize().ok());
        match (self.own_id(), file) {
            (Some(id), _) => format!("{}:{id}", self.tool()),
            (None, Some(file)) => format!("file:{}", file.display()),
            (None, None) => format!("content:{}", self.content_id()),
        }
    }

    fn plan(
        &self,
        store: &dyn Store,
        ids: &mut Ids,
        options: &ImportOptions<'_>,
        records: Vec<ImportRecord>,
        refused: &[OutdatedCopy],
    ) -> Result<Plan, ImportError> {
        let own = self.own_id().map_or_else(|| self.content_id(), SessionId::new);
        if options.duplicate {
            return Ok(Plan::New { id: ids.session(options.now), keeps_ids: false, instead_of: None });
        }
        let mut groups = groups(records);
        if groups.iter().all(|group| group[0].root != own) {
            groups.extend(Some(store.import_of(&own)?).filter(|group| !group.is_empty()));
        }
        if groups.is_empty() {
            match store.session(&own) {
                Ok(_) => {}
                Err(StoreError::Missing { .. }) => {
                    return Ok(Plan::New { id: own, keeps_ids: true, instead_of: None });
                }
                Err(error) => return Err(error.into()),
            }
            // Another process may have stored it between the two lookups; then its import is found.
            groups.extend(Some(store.import_of(&own)?).filter(|group| !group.is_empty()));
            if groups.is_empty() {
                return Err(ImportError::IdTaken { id: own });
            }
        }
        let mut best: Option<(usize, Vec<ImportRecord>)> = None;
        let mut why: Option<OutdatedCopy> = None;
        for group in groups {
            let root = group[0].root.clone();
            let refused = refused.iter().find(|it| it.session == root);
            let because = match (refused, self.relation(&group)) {
                (None, Relation::Same) if self.has_other_window(store, &group)? => {
                    return Ok(Plan::Update(group));
                }
                (_, Relation::Same) => return Ok(Plan::Unchanged(group)),
                (Some(refused), _) => refused.because,
                (None, Relation::Other) => NewSessionReason::Diverged,
                (None, Relation::Longer) if self.is_continued(&group) => NewSessionReason::Continued,
                (None, Relation::Longer) => {
                    let count = states_of(&group).iter().map(|taken| taken.messages).sum();
                    if best.as_ref().is_none_or(|(most, _)| count > *most) {
                        best = Some((count, group));
                    }
                    continue;
                }
            };
            // Reports the reason for the newest session that is a prefix of the source, or else for the newest of all.
            if because != NewSessionReason::Diverged
                || why.as_ref().is_none_or(|it| it.because == NewSessionReason::Diverged)
            {
                why = Some(OutdatedCopy { session: root, because });
            }
        }
        if let Some((_, group)) = best {
            return Ok(Plan::Update(group));
        }
        // Content without an id gets another derived id once it has diverged.
        let is_free =
            self.own_id().is_none() && matches!(store.session(&own), Err(StoreError::Missing { .. }));
        let id = if is_free { own } else { ids.session(options.now) };
        Ok(Plan::New { id, keeps_ids: false, instead_of: why })
    }

    /// Returns how the source differs from its stored copy. `None` if it does not differ, or if the session was not imported.
    pub fn drift_from(&self, store: &dyn Store, session: &SessionId) -> Result<Option<Drift>, ImportError> {
        let group = store.import_of(session)?;
        let main = group.iter().find(|record| record.conversation.is_empty());
        let Some(taken) = main.and_then(|record| ImportState::parse(&record.state)) else { return Ok(None) };
        Ok(match self.relation(&group) {
            Relation::Same => None,
            Relation::Longer => {
                Some(Drift::Longer { messages: self.messages().saturating_sub(taken.messages) })
            }
            Relation::Other => Some(Drift::Diverged),
        })
    }

    fn relation(&self, group: &[ImportRecord]) -> Relation {
        let mut all = if self.conversations.len() > group.len() { Relation::Longer } else { Relation::Same };
        for record in group {
            let conversation = self.conversations.iter().find(|it| it.key == record.conversation);
            let taken = ImportState::parse(&record.state);
            match conversation.zip(taken).map(|(conversation, taken)| conversation.relation_to(&taken)) {
                Some(Relation::Same) => {}
                Some(Relation::Longer) => all = Relation::Longer,
                Some(Relation::Other) | None => return Relation::Other,
            }
        }
        all
    }

    /// Whether the source records another context window than the store, because an older version of Plimsoll did not store it,
    /// or because it changed without a new message. Does not apply to sessions that were continued in the store.
    fn has_other_window(&self, store: &dyn Store, group: &[ImportRecord]) -> Result<bool, ImportError> {
        if group.iter().any(|record| record.is_continued) {
            return Ok(false);
        }
        let (session, info) = (store.session(&group[0].root)?, &self.transcript.info);
        Ok(session.tool.is_none() || info.context.is_some_and(|context| session.context != Some(context)))
    }

    /// Whether any conversation to extend was continued in the store.
    fn is_continued(&self, group: &[ImportRecord]) -> bool {
        group.iter().any(|record| {
            let conversation = self.conversations.iter().find(|it| it.key == record.conversation);
            let is_same = conversation
                .zip(ImportState::parse(&record.state))
                .is_some_and(|(conversation, taken)| conversation.relation_to(&taken) == Relation::Same);
            record.is_continued && (!is_same || record.conversation.is_empty())
        })
    }

    /// Returns the target sessions of a new import.
    fn targets_new(
        &self,
        store: &dyn Store,
        id: &SessionId,
        keeps_ids: bool,
        taken_ids: &[SessionId],
        options: &ImportOptions<'_>,
    ) -> Result<Vec<Target>, ImportError> {
        let mut targets = vec![self.target(store, 0, id.clone(), options)?];
        for place in 1..self.conversations.len() {
            let own = keeps_ids.then(|| self.side_id(place, id)).flatten();
            targets.push(self.side_target(store, place, own, id, taken_ids, options)?);
        }
        Ok(targets)
    }

    /// Returns the target sessions of an update.
    fn targets_of(
        &self,
        store: &dyn Store,
        group: &[ImportRecord],
        taken_ids: &[SessionId],
        options: &ImportOptions<'_>,
    ) -> Result<Vec<Target>, ImportError> {
        let root = &group[0].root;
        let keeps_ids = self.own_id() == Some(root.as_str());
        let mut targets = Vec::new();
        for (place, conversation) in self.conversations.iter().enumerate() {
            let record = group.iter().find(|record| record.conversation == conversation.key);
            let before = record.and_then(|record| Some((record, ImportState::parse(&record.state)?)));
            targets.push(match before {
                Some((record, taken)) => Target {
                    key: conversation.key.clone(),
                    id: record.session.clone(),
                    is_renamed: taken.is_renamed,
                    base: Millis(taken.base),
                    before: Some((record.state.clone(), taken)),
                },
                None => {
                    let own = keeps_ids.then(|| self.side_id(place, root)).flatten();
                    self.side_target(store, place, own, root, taken_ids, options)?
                }
            });
        }
        Ok(targets)
    }

    /// Returns a sub-agent's id, if no other file has the same one.
    fn side_id(&self, place: usize, root: &SessionId) -> Option<SessionId> {
        let own = self.transcript.side_chains.get(place.checked_sub(1)?)?.info.id.clone();
        own.filter(|id| id.len() >= UNIQUE && *id != root.as_str()).map(SessionId::new)
    }

    fn side_target(
        &self,
        store: &dyn Store,
        place: usize,
        own: Option<SessionId>,
        root: &SessionId,
        taken_ids: &[SessionId],
        options: &ImportOptions<'_>,
    ) -> Result<Target, ImportError> {
        // The id may be taken by a separate import of the same file.
        let own = own.filter(|id| !taken_ids.contains(id) && store.session(id).is_err());
        let started = self.transcript.info.started.unwrap_or_default().min(options.now);
        let id = own.unwrap_or_else(|| names::session_of(root, &self.conversations[place].key, started));
        self.target(store, place, id, options)
    }

    fn target(
        &self,
        store: &dyn Store,
        place: usize,
        id: SessionId,
        options: &ImportOptions<'_>,
    ) -> Result<Target, ImportError> {
        let conversation = &self.conversations[place];
        // The first message decides for all: a random id is in the store only if this session is, or one that it continues.
        let first = &conversation.first;
        let is_named = first.len() >= UNIQUE && store.owner(first).is_ok();
        let base = self.transcript.info.started.unwrap_or(options.now).min(options.now);
        let (key, is_renamed) = (conversation.key.clone(), options.duplicate || is_named);
        Ok(Target { key, id, is_renamed, base, before: None })
    }

    /// Creates the report for an unchanged source.
    fn unchanged(&self, store: &dyn Store, group: &[ImportRecord]) -> Result<Report, ImportError> {
        let session = store.session(&group[0].root)?;
        Ok(Report {
            id: session.id,
            parent: session.parent,
            outcome: Outcome::Unchanged,
            instead_of: None,
            title: session.title,
            directory: session.directory,
            messages: self.messages(),
            added: 0,
            has_grown: false,
            interrupted: 0,
            is_open: false,
            tasks: Vec::new(),
        })
    }
}

fn roots(records: &[ImportRecord]) -> Vec<SessionId> {
    groups(records.to_vec()).into_iter().map(|group| group[0].root.clone()).collect()
}

/// Groups records by root session. In each group, the record of the root comes first.
fn groups(records: Vec<ImportRecord>) -> Vec<Vec<ImportRecord>> {
    let mut groups: Vec<Vec<ImportRecord>> = Vec::new();
    for record in records {
        match groups.iter_mut().find(|group| group[0].root == record.root) {
            Some(group) => group.push(record),
            None => groups.push(vec![record]),
        }
    }
    groups
}

fn states_of(group: &[ImportRecord]) -> Vec<ImportState> {
    group.iter().filter_map(|record| ImportState::parse(&record.state)).collect()
}

//! The second pass over a source: assigns ids to messages and stores them.

use plimsoll::{Message, Millis, Part, SessionId, ToolStatus, first_words};
use plimsoll_formats::Transcript;
use plimsoll_store::{
    Conversation, GrownMessage, Import, Imported, NewSession, StagedPiece, Store, StoreError,
};

use crate::error::ImportError;
use crate::names::Namer;
use crate::report::{ImportOptions, Outcome, Report};
use crate::source::{OnRead, Source};
use crate::state::{ImportState, MessageDigest};
use crate::survey::{Tally, place_of};

/// Number of bytes per transaction. A transaction of this size takes about 30 ms, during which other writers wait. A new
/// session is staged in pieces and becomes visible as a whole. An existing session is extended piece by piece: after each, it
/// is in the state that an import of a shorter file leaves, so the next import continues after a kill. Staging additions as
/// well would require moving their rows into the session at the end, in a transaction that takes about as long as writing them.
const PIECE: usize = 4 << 20;
/// Maximum length of a title from the source.
const TITLE: usize = 400;

/// Target session of a conversation.
pub(crate) struct Target {
    /// Key of the conversation in the source.
    pub(crate) key: String,
    /// Id of the session.
    pub(crate) id: SessionId,
    pub(crate) is_renamed: bool,
    pub(crate) base: Millis,
    /// The stored state, if it was imported before.
    pub(crate) before: Option<(String, ImportState)>,
}

/// Result of writing.
pub(crate) enum Written {
    Stored(Box<Report>),
    Not(Imported),
    /// The earlier import is not a prefix of the source.
    Diverged,
}

/// A running import.
pub(crate) struct Writing<'a> {
    store: &'a dyn Store,
    source: &'a str,
    known: Option<Vec<SessionId>>,
    /// Name of the staging area for pieces of new sessions.
    stage: String,
    is_staged: bool,
    options: &'a ImportOptions<'a>,
    writers: Vec<ConversationWriter>,
    /// Size of the held messages in bytes.
    held: usize,
    failed: Option<StoreError>,
    /// Error of storing a piece.
    refused: Option<Imported>,
}

/// Writes one conversation.
struct ConversationWriter {
    target: Target,
    namer: Namer,
    tally: Tally,
    /// The newest message. It is held until another one arrives, because the last message is stored as open.
    newest: Option<(Message, (String, String))>,
    /// Number of messages that were passed on to be stored.
    passed: usize,
    /// The last of these messages as in the source, and its digests.
    last: Option<(Message, (String, String))>,
    staged: u64,
    messages: Vec<Message>,
    grown: Option<GrownMessage>,
    has_grown: bool,
    added: usize,
    interrupted: u64,
    is_open: bool,
    has_diverged: bool,
}

impl<'a> Writing<'a> {
    pub(crate) fn new(
        store: &'a dyn Store,
        source: &'a str,
        known: Option<Vec<SessionId>>,
        stage: String,
        targets: Vec<Target>,
        options: &'a ImportOptions<'a>,
    ) -> Writing<'a> {
        let writers = targets.into_iter().map(ConversationWriter::new).collect();
        let (is_staged, held, failed, refused) = (false, 0, None, None);
        Writing { store, source, known, stage, is_staged, options, writers, held, failed, refused }
    }

    /// Returns the id of the stored session.
    pub(crate) fn root(&self) -> Option<&SessionId> {
        self.writers.first().map(|writer| &writer.target.id)
    }

    /// Reads the source and stores it.
    pub(crate) fn run(
        &mut self,
        source: &mut Source<'_>,
        on_read: OnRead<'_>,
    ) -> Result<Written, ImportError> {
        let transcript = source.visit(on_read, &mut |chain, message| {
            // A sub-agent that appeared after the survey has no target. The next import adds it.
            let goes_on = self.failed.is_none() && self.refused.is_none();
            if goes_on && place_of(chain) < self.writers.len() {
                self.take(place_of(chain), message);
            }
        })?;
        for writer in &mut self.writers {
            writer.end();
        }
        if let Some(error) = self.failed.take() {
            return Err(error.into());
        }
        if let Some(refused) = self.refused {
            return Ok(Written::Not(refused));
        }
        if self.writers.iter().any(|writer| writer.has_diverged) {
            return Ok(Written::Diverged);
        }
        self.commit(&transcript)
    }

    /// Deletes staged pieces.
    pub(crate) fn discard(&self) -> Result<(), StoreError> {
        if self.is_staged { self.store.unstage(&self.stage) } else { Ok(()) }
    }

    fn take(&mut self, place: usize, message: Message) {
        let writer = &mut self.writers[place];
        self.held += writer.push(message);
        if self.held >= PIECE {
            self.held = 0;
            match self.stage_new().and_then(|()| self.store_added()) {
                Ok(Imported::Stored) => {}
                Ok(refused) => self.refused = Some(refused),
                Err(error) => self.failed = Some(error),
            }
        }
    }

    /// Stages the held messages of new sessions.
    fn stage_new(&mut self) -> Result<(), StoreError> {
        // New conversations come first in the import, after the session itself.
        let mut conversation = 0;
        for (place, writer) in self.writers.iter_mut().enumerate() {
            if writer.target.before.is_some() && place > 0 {
                continue;
            }
            if writer.target.before.is_none() && !writer.messages.is_empty() {
                self.is_staged = true;
                let (after, messages) = (writer.staged, std::mem::take(&mut writer.messages));
                writer.staged += messages.len() as u64;
                let stage = self.stage.clone();
                self.store.stage(StagedPiece { stage, conversation, after, messages })?;
            }
            conversation += 1;
        }
        Ok(())
    }

    /// Stores the held messages of existing sessions.
    fn store_added(&mut self) -> Result<Imported, StoreError> {
        let is_added_to =
            |writer: &ConversationWriter| writer.target.before.is_some() && writer.holds_something();
        let has_diverged = self.writers.iter().any(|writer| writer.has_diverged);
        if has_diverged || !self.writers.iter().any(is_added_to) {
            return Ok(Imported::Stored);
        }
        let (mut conversations, mut states) = (Vec::new(), Vec::new());
        for (place, writer) in self.writers.iter_mut().enumerate() {
            // The session itself is the first conversation of every import.
            if place == 0 || is_added_to(writer) {
                let Some((piece, taken)) = writer.piece(self.options.now) else { continue };
                states.push((place, piece.state.clone(), taken));
                conversations.push(piece);
            }
        }
        let (source, known) = (self.source.to_owned(), self.known.clone());
        let stored = self.store.import(Import { source, known, stage: None, conversations })?;
        if stored == Imported::Stored {
            for (place, state, taken) in states {
                self.writers[place].target.before = Some((state, taken));
            }
        }
        Ok(stored)
    }

    fn commit(&mut self, transcript: &Transcript) -> Result<Written, ImportError> {
        let mut reports: Vec<Report> = Vec::new();
        let (mut conversations, mut added_to) = (Vec::new(), Vec::new());
        for (place, writer) in self.writers.iter_mut().enumerate() {
            let chain = match place.checked_sub(1) {
                None => Some(transcript),
                Some(side) => transcript.side_chains.get(side),
            };
            let (Some(chain), root) = (chain, reports.first()) else { return Err(ImportError::Unsettled) };
            let mut new = writer.session(chain, root, self.options);
            let mut report = writer.report(&new);
            if place > 0 && report.outcome == Outcome::Unchanged {
                continue;
            }
            if writer.target.before.is_some() {
                // Does not override metadata from the user or an earlier import.
                let known = self.store.session(&new.session.id)?;
                (report.title, report.directory) = (known.title, known.directory);
            }
            new.messages = std::mem::take(&mut writer.messages);
            let is_new = place == 0 || writer.target.before.is_none();
            if is_new {
                conversations.push(new);
            } else {
                added_to.push(new);
            }
            reports.push(report);
        }
        conversations.append(&mut added_to);
        let mut all = reports.into_iter();
        let Some(mut report) = all.next() else { return Err(ImportError::Empty) };
        report.tasks = all.collect();
        if report.outcome == Outcome::Unchanged && !report.tasks.is_empty() {
            report.outcome = Outcome::Updated;
        }
        let stage = self.is_staged.then(|| self.stage.clone());
        let (source, known) = (self.source.to_owned(), self.known.clone());
        let import = Import { source, known, stage, conversations };
        Ok(match self.store.import(import)? {
            Imported::Stored => Written::Stored(Box::new(report)),
            not => Written::Not(not),
        })
    }
}

impl ConversationWriter {
    fn new(target: Target) -> ConversationWriter {
        let namer = Namer::new(target.id.clone(), target.is_renamed, target.base);
        ConversationWriter {
            target,
            namer,
            tally: Tally::default(),
            newest: None,
            passed: 0,
            last: None,
            staged: 0,
            messages: Vec::new(),
            grown: None,
            has_grown: false,
            added: 0,
            interrupted: 0,
            is_open: false,
            has_diverged: false,
        }
    }

    /// Adds the next message. Returns its size in bytes.
    fn push(&mut self, message: Message) -> usize {
        let bytes = self.tally.push(&message);
        let digests = self.tally.digests();
        if let Some((before, its)) = self.newest.replace((message, digests)) {
            self.pass_on(before, &its, false);
        }
        bytes
    }

    /// Handles the end of the source.
    fn end(&mut self) {
        if let Some((last, digests)) = self.newest.take() {
            self.tally.end(&last);
            self.pass_on(last, &digests, true);
        }
        let before = self.target.before.as_ref().map_or(0, |(_, taken)| taken.messages);
        self.has_diverged |= self.passed < before;
    }

    /// Passes on a message, with the digests of all messages before it, and including it.
    fn pass_on(&mut self, mut message: Message, digests: &(String, String), is_last: bool) {
        let place = self.passed;
        self.passed += 1;
        if self.target.before.is_some() {
            self.last = Some((message.clone(), digests.clone()));
        }
        let (count, before) = match &self.target.before {
            Some((_, taken)) => (taken.messages, Some(taken)),
            None => (0, None),
        };
        if place + 1 < count {
            // Already stored, but its id must be assigned, because later messages may refer to it.
            self.namer.name(&mut message);
            return;
        }
        let mut grown = None;
        if let Some(taken) = before.filter(|_| place + 1 == count) {
            let changes = taken.last.as_ref().and_then(|last| last.changes_to(&message));
            let Some(changes) = changes.filter(|_| taken.closed == digests.0) else {
                self.has_diverged = true;
                return;
            };
            grown = Some((changes, taken.whole != digests.1));
        }
        let settled = if is_last { Vec::new() } else { settle(&mut message) };
        self.interrupted += settled.len() as u64;
        self.is_open = is_last && is_being_written(&message);
        self.namer.name(&mut message);
        match grown {
            None => {
                self.added += 1;
                self.messages.push(message);
            }
            Some((mut changes, has_changed)) => {
                changes.extend(
                    settled.iter().filter(|place| !changes.contains(place)).copied().collect::<Vec<_>>(),
                );
                changes.sort_unstable();
                if has_changed || !changes.is_empty() {
                    let parts =
                        changes.into_iter().map(|place| (place, message.parts[place].clone())).collect();
                    message.parts.clear();
                    self.grown = Some(GrownMessage { message, parts });
                    self.has_grown = true;
                }
            }
        }
    }

    fn holds_something(&self) -> bool {
        !self.messages.is_empty() || self.grown.is_some()
    }

    /// Returns the held messages of an existing session, and its state after them.
    fn piece(&mut self, now: Millis) -> Option<(Conversation, ImportState)> {
        let (before, known) = self.target.before.as_ref()?;
        let taken = match self.last.as_ref().filter(|_| self.holds_something()) {
            Some((last, (closed, whole))) => ImportState {
                messages: self.passed,
                closed: closed.clone(),
                whole: whole.clone(),
                last: Some(MessageDigest::of(last)),
                ..known.clone()
            },
            None => known.clone(),
        };
        let piece = Conversation {
            session: NewSession::new(self.target.id.clone()),
            conversation: self.target.key.clone(),
            state: if taken == *known { before.clone() } else { taken.render() },
            before: Some(before.clone()),
            staged: 0,
            grown: self.grown.take(),
            messages: std::mem::take(&mut self.messages),
            created: now,
            updated: self.tally.last_time.unwrap_or(now).min(now),
        };
        Some((piece, taken))
    }

    /// Returns the session to create, without its messages.
    fn session(
        &mut self,
        chain: &Transcript,
        root: Option<&Report>,
        options: &ImportOptions<'_>,
    ) -> Conversation {
        let info = &chain.info;
        // Limited to now: a source's times may be in the future, but the store's must not be.
        let started = info.started.or(self.tally.first_time).unwrap_or(options.now).min(options.now);
        let updated = info.updated.or(self.tally.last_time).unwrap_or(started).min(options.now);
        let title = info.title.as_deref().map(|title| first_words(title, TITLE)).filter(|it| !it.is_empty());
        let directory = info.directory.clone().or_else(|| match root {
            Some(root) => root.directory.clone(),
            None => options.directory.map(str::to_owned),
        });
        let session = NewSession {
            id: self.target.id.clone(),
            parent: root.map(|root| root.id.clone()),
            title: title.unwrap_or_else(|| self.tally.prompt.words()),
            agent: None,
            model: info.model.clone(),
            directory,
            tool: Some(info.tool.unwrap_or(chain.format).name().to_owned()),
            version: info.version.clone(),
            context: info.context,
            ..NewSession::default()
        };
        Conversation {
            session,
            conversation: self.target.key.clone(),
            state: self.tally.state(self.target.is_renamed, self.target.base).render(),
            before: self.target.before.as_ref().map(|(state, _)| state.clone()),
            staged: self.staged,
            grown: self.grown.take(),
            messages: Vec::new(),
            created: started,
            updated,
        }
    }

    fn report(&self, new: &Conversation) -> Report {
        let has_grown = self.has_grown;
        let outcome = match &self.target.before {
            None => Outcome::Stored,
            Some(_) if self.added == 0 && !has_grown => Outcome::Unchanged,
            Some(_) => Outcome::Updated,
        };
        Report {
            id: new.session.id.clone(),
            parent: new.session.parent.clone(),
            outcome,
            instead_of: None,
            title: new.session.title.clone(),
            directory: new.session.directory.clone(),
            messages: self.tally.count,
            added: self.added,
            has_grown,
            interrupted: self.interrupted,
            is_open: self.is_open,
            tasks: Vec::new(),
        }
    }
}

/// Marks the open calls of a message as interrupted. Returns their indexes.
fn settle(message: &mut Message) -> Vec<usize> {
    let open = message.parts.iter().enumerate().filter(|(_, part)| is_open(part));
    let open: Vec<usize> = open.map(|(place, _)| place).collect();
    let time = message.info.time.as_ref();
    let at = time.and_then(|time| time.completed.or(time.created)).unwrap_or_default();
    plimsoll_store::settle_calls(message, at);
    open
}

fn is_open(part: &Part) -> bool {
    let status = part.as_tool().map(|tool| &tool.state.status);
    matches!(status, Some(ToolStatus::Pending | ToolStatus::Running))
}

fn is_being_written(message: &Message) -> bool {
    let is_finished = message.info.finish.is_some() || message.info.error.is_some();
    message.is_assistant() && (!is_finished || message.parts.iter().any(is_open))
}

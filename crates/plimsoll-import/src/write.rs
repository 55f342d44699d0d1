//! The second reading of a source: its messages get their names and go into the store.

use plimsoll::{Message, Millis, Part, SessionId, ToolStatus};
use plimsoll_formats::Transcript;
use plimsoll_store::{
    Conversation, GrownMessage, Import, Imported, NewSession, StagedPiece, Store, StoreError,
};

use crate::error::ImportError;
use crate::names::Namer;
use crate::report::{ImportOptions, Outcome, Report};
use crate::source::{OnRead, Source};
use crate::survey::{Tally, place_of};
use crate::taken::{MessageDigest, Taken};
use crate::text::first_words;

/// A piece that is written at once: so many bytes of messages. One transaction of it takes some 30 ms, during which others
/// wait to write. What becomes a new session is staged piece by piece and shown as a whole. What is added to a session that
/// is there is stored piece by piece: after each the session is what an import of a shorter file would have left, so
/// one that is killed in the middle is gone on with by the next import. To stage these too would mean to move them into
/// the session in the end, and moving rows takes a transaction about as long as writing them.
const PIECE: usize = 4 << 20;
/// Longest title that a source gives.
const TITLE: usize = 400;

/// Where a conversation goes.
pub(crate) struct Target {
    /// Which one of the source it is.
    pub(crate) key: String,
    /// Its session.
    pub(crate) id: SessionId,
    pub(crate) is_renamed: bool,
    pub(crate) base: Millis,
    /// What its record says, if it was imported before.
    pub(crate) before: Option<(String, Taken)>,
}

/// What came of writing.
pub(crate) enum Written {
    Stored(Box<Report>),
    Not(Imported),
    /// What was imported before is not the beginning of the source.
    Diverged,
}

/// An import under way.
pub(crate) struct Writing<'a> {
    store: &'a dyn Store,
    source: &'a str,
    known: Option<Vec<SessionId>>,
    /// Where pieces of new sessions go before the import is whole.
    stage: String,
    is_staged: bool,
    options: &'a ImportOptions<'a>,
    strands: Vec<Strand>,
    /// Bytes of messages that are held.
    held: usize,
    failed: Option<StoreError>,
    /// Why a piece was not stored.
    refused: Option<Imported>,
}

/// A conversation that is being written.
struct Strand {
    target: Target,
    namer: Namer,
    tally: Tally,
    /// The newest message: until the next one comes it may be the last, which stays open.
    newest: Option<(Message, (String, String))>,
    /// How many messages were passed on.
    passed: usize,
    /// The last of them as the source has it, and its digests.
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
        let strands = targets.into_iter().map(Strand::new).collect();
        let (is_staged, held, failed, refused) = (false, 0, None, None);
        Writing { store, source, known, stage, is_staged, options, strands, held, failed, refused }
    }

    /// The session that is stored.
    pub(crate) fn root(&self) -> Option<&SessionId> {
        self.strands.first().map(|strand| &strand.target.id)
    }

    /// Read the source and store it.
    pub(crate) fn run(
        &mut self,
        source: &mut Source<'_>,
        on_read: OnRead<'_>,
    ) -> Result<Written, ImportError> {
        let transcript = source.visit(on_read, &mut |chain, message| {
            // A sub-agent that came since the survey is for the next import.
            let goes_on = self.failed.is_none() && self.refused.is_none();
            if goes_on && place_of(chain) < self.strands.len() {
                self.take(place_of(chain), message);
            }
        })?;
        for strand in &mut self.strands {
            strand.end();
        }
        if let Some(error) = self.failed.take() {
            return Err(error.into());
        }
        if let Some(refused) = self.refused {
            return Ok(Written::Not(refused));
        }
        if self.strands.iter().any(|strand| strand.has_diverged) {
            return Ok(Written::Diverged);
        }
        self.commit(&transcript)
    }

    /// Let go of what was staged.
    pub(crate) fn discard(&self) -> Result<(), StoreError> {
        if self.is_staged { self.store.unstage(&self.stage) } else { Ok(()) }
    }

    fn take(&mut self, place: usize, message: Message) {
        let strand = &mut self.strands[place];
        self.held += strand.push(message);
        if self.held >= PIECE {
            self.held = 0;
            match self.stage_new().and_then(|()| self.store_added()) {
                Ok(Imported::Stored) => {}
                Ok(refused) => self.refused = Some(refused),
                Err(error) => self.failed = Some(error),
            }
        }
    }

    /// Stage what is held of new sessions.
    fn stage_new(&mut self) -> Result<(), StoreError> {
        // Those come first in the import, behind the session itself.
        let mut conversation = 0;
        for (place, strand) in self.strands.iter_mut().enumerate() {
            if strand.target.before.is_some() && place > 0 {
                continue;
            }
            if strand.target.before.is_none() && !strand.messages.is_empty() {
                self.is_staged = true;
                let (after, messages) = (strand.staged, std::mem::take(&mut strand.messages));
                strand.staged += messages.len() as u64;
                let stage = self.stage.clone();
                self.store.stage(StagedPiece { stage, conversation, after, messages })?;
            }
            conversation += 1;
        }
        Ok(())
    }

    /// Store what is held of sessions that are there.
    fn store_added(&mut self) -> Result<Imported, StoreError> {
        let is_added_to = |strand: &Strand| strand.target.before.is_some() && strand.holds_something();
        let has_diverged = self.strands.iter().any(|strand| strand.has_diverged);
        if has_diverged || !self.strands.iter().any(is_added_to) {
            return Ok(Imported::Stored);
        }
        let (mut conversations, mut states) = (Vec::new(), Vec::new());
        for (place, strand) in self.strands.iter_mut().enumerate() {
            // The session itself leads every import.
            if place == 0 || is_added_to(strand) {
                let Some((piece, taken)) = strand.piece(self.options.now) else { continue };
                states.push((place, piece.state.clone(), taken));
                conversations.push(piece);
            }
        }
        let (source, known) = (self.source.to_owned(), self.known.clone());
        let stored = self.store.import(Import { source, known, stage: None, conversations })?;
        if stored == Imported::Stored {
            for (place, state, taken) in states {
                self.strands[place].target.before = Some((state, taken));
            }
        }
        Ok(stored)
    }

    fn commit(&mut self, transcript: &Transcript) -> Result<Written, ImportError> {
        let mut reports: Vec<Report> = Vec::new();
        let (mut conversations, mut added_to) = (Vec::new(), Vec::new());
        for (place, strand) in self.strands.iter_mut().enumerate() {
            let chain = match place.checked_sub(1) {
                None => Some(transcript),
                Some(side) => transcript.side_chains.get(side),
            };
            let (Some(chain), root) = (chain, reports.first()) else { return Err(ImportError::Unsettled) };
            let mut new = strand.session(chain, root, self.options);
            let mut report = strand.report(&new);
            if place > 0 && report.outcome == Outcome::Unchanged {
                continue;
            }
            if strand.target.before.is_some() {
                // What people or an earlier import said about it stays.
                let known = self.store.session(&new.session.id)?;
                (report.title, report.directory) = (known.title, known.directory);
            }
            new.messages = std::mem::take(&mut strand.messages);
            let is_new = place == 0 || strand.target.before.is_none();
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

impl Strand {
    fn new(target: Target) -> Strand {
        let namer = Namer::new(target.id.clone(), target.is_renamed, target.base);
        Strand {
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

    /// Take in the next message; gives its size in bytes.
    fn push(&mut self, message: Message) -> usize {
        let bytes = self.tally.push(&message);
        let digests = self.tally.digests();
        if let Some((before, its)) = self.newest.replace((message, digests)) {
            self.pass_on(before, &its, false);
        }
        bytes
    }

    /// There are no more.
    fn end(&mut self) {
        if let Some((last, digests)) = self.newest.take() {
            self.tally.end(&last);
            self.pass_on(last, &digests, true);
        }
        let before = self.target.before.as_ref().map_or(0, |(_, taken)| taken.messages);
        self.has_diverged |= self.passed < before;
    }

    /// Pass a message on to the store, with the digests of all messages before it and of those and itself.
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
            // It is stored already; only its name may be mentioned later.
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

    /// What is held for a session that is there, and what was taken of the source with it.
    fn piece(&mut self, now: Millis) -> Option<(Conversation, Taken)> {
        let (before, known) = self.target.before.as_ref()?;
        let taken = match self.last.as_ref().filter(|_| self.holds_something()) {
            Some((last, (closed, whole))) => Taken {
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

    /// The session this becomes; its messages are not in it yet.
    fn session(
        &mut self,
        chain: &Transcript,
        root: Option<&Report>,
        options: &ImportOptions<'_>,
    ) -> Conversation {
        let info = &chain.info;
        // What a file says of times to come cannot be, and a store keeps none from the end of time.
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
            messages: Vec::new(),
            task: None,
            lease: None,
        };
        Conversation {
            session,
            conversation: self.target.key.clone(),
            state: self.tally.taken(self.target.is_renamed, self.target.base).render(),
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

/// Mark the calls of a message that have no answer as interrupted; gives their places.
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

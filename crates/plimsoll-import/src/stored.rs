//! Stored sessions as transcripts.

use std::sync::Arc;

use plimsoll::{Message, SessionId};
use plimsoll_formats::{Format, Recorded, SessionInfo, Transcript};
use plimsoll_session::each_message;
use plimsoll_store::{Archive, CountWatch, Session, Store, StoreError};

/// Extent of a read of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Extent {
    /// All messages.
    Whole,
    /// The messages that the window consists of.
    InView,
}

/// Collects exact token counts of a session's texts. Dropping it stores them, so that no text is counted twice.
pub struct KeptCounts {
    archive: Arc<Archive>,
    session: SessionId,
    watch: CountWatch,
}

impl KeptCounts {
    /// Watches the messages of a stored session.
    pub fn new(archive: &Arc<Archive>, session: &SessionId, messages: &[Message]) -> KeptCounts {
        KeptCounts { archive: Arc::clone(archive), session: session.clone(), watch: CountWatch::of(messages) }
    }
}

impl Drop for KeptCounts {
    fn drop(&mut self) {
        self.watch.finish(self.archive.store(), &self.session);
    }
}

/// Reads a session as a transcript.
pub fn transcript(store: &dyn Store, session: &Session, extent: Extent) -> Result<Transcript, StoreError> {
    let mut messages = Vec::new();
    let about = match extent {
        Extent::Whole => visit(store, session, &mut |message| messages.push(message))?,
        Extent::InView => {
            messages = store.window(&session.id)?.log.messages().to_vec();
            let mut reader = MetadataReader::of(session);
            messages.iter().for_each(|message| reader.note(message));
            reader.end()
        }
    };
    Ok(Transcript { messages, ..about })
}

/// Passes the messages of a session to `sink`, oldest first. Returns the transcript without them.
pub fn visit(
    store: &dyn Store,
    session: &Session,
    sink: &mut dyn FnMut(Message),
) -> Result<Transcript, StoreError> {
    let mut reader = MetadataReader::of(session);
    each_message(store, &session.id, &mut |message| {
        reader.note(&message);
        sink(message);
    })?;
    Ok(reader.end())
}

/// Collects metadata while messages are read.
struct MetadataReader {
    about: Transcript,
    is_continued_here: bool,
}

impl MetadataReader {
    fn of(session: &Session) -> MetadataReader {
        MetadataReader { about: about(session), is_continued_here: false }
    }

    fn note(&mut self, message: &Message) {
        self.about.recorded.add_message(message);
        // Summaries are skipped: the model that wrote one may not be the model of the session.
        if message.is_assistant() && !message.info.summary {
            self.is_continued_here = message.is_asked_here();
        }
    }

    /// Returns the transcript without messages. It drops the context window that the original tool recorded if the session was
    /// continued here, because that window does not apply to this agent.
    fn end(mut self) -> Transcript {
        if self.is_continued_here {
            (self.about.info.context, self.about.info.tool) = (None, None);
        }
        self.about
    }
}

/// Converts a session to a transcript without messages.
pub fn about(session: &Session) -> Transcript {
    let info = SessionInfo {
        id: Some(session.id.to_string()),
        parent: session.parent.as_ref().map(ToString::to_string),
        title: Some(session.title.clone()).filter(|title| !title.is_empty()),
        directory: session.directory.clone(),
        model: session.model.clone(),
        version: session.version.clone(),
        started: Some(session.created),
        updated: Some(session.updated),
        context: session.context,
        // Not an error if unknown: a later version of Plimsoll may have stored it.
        tool: session.tool.as_deref().and_then(|tool| tool.parse().ok()),
    };
    Transcript {
        // The log has OpenCode's format.
        format: Format::OpencodeMessages,
        info,
        messages: Vec::new(),
        side_chains: Vec::new(),
        other_sessions: Vec::new(),
        recorded: Recorded::default(),
        skipped: Default::default(),
        notes: Default::default(),
        unused: Default::default(),
        broken: None,
        torn: false,
        restart: None,
    }
}

//! Stored sessions as transcripts.

use plimsoll::{Message, SessionId};
use plimsoll_formats::{Format, Recorded, SessionInfo, Transcript};
use plimsoll_store::{PageRequest, Session, Store, StoreError};

/// How many messages are read at a time.
const PAGE: u64 = 500;

/// How much of a session is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Everything that was said.
    Whole,
    /// What the window is made of.
    InView,
}

/// All messages of a session, oldest first, one page of them held at a time.
pub fn each(store: &dyn Store, id: &SessionId, sink: &mut dyn FnMut(Message)) -> Result<(), StoreError> {
    let mut request = PageRequest { from: None, oldest_first: true, most: PAGE };
    loop {
        let page = store.page(id, &request)?;
        page.messages.into_iter().for_each(&mut *sink);
        match page.next {
            Some(next) => request.from = Some(next),
            None => return Ok(()),
        }
    }
}

/// A session as a transcript.
pub fn transcript(store: &dyn Store, session: &Session, extent: Extent) -> Result<Transcript, StoreError> {
    let mut messages = Vec::new();
    match extent {
        Extent::Whole => each(store, &session.id, &mut |message| messages.push(message))?,
        Extent::InView => messages = store.window(&session.id)?.log.messages().to_vec(),
    }
    let mut about = about(session);
    messages.iter().for_each(|message| about.recorded.add_message(message));
    Ok(Transcript { messages, ..about })
}

/// A session as a transcript that has no messages yet.
pub fn about(session: &Session) -> Transcript {
    let info = SessionInfo {
        id: Some(session.id.to_string()),
        title: Some(session.title.clone()).filter(|title| !title.is_empty()),
        directory: session.directory.clone(),
        model: session.model.clone(),
        version: session.version.clone(),
        started: Some(session.created),
        updated: Some(session.updated),
        context: None,
    };
    Transcript {
        // The log has OpenCode's shape.
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

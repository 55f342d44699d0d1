//! A journal of events, which is compared with the store after the process has died.
//!
//! The journal is a file. Like a pipe, it keeps what a killed process has written, and no second thread is needed to
//! read it.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};

use plimsoll::{Message, MessageId, Part, PartBody, PartId, ReceiptId, SessionId};
use plimsoll_agent::Event;
use plimsoll_store::{Archive, PageRequest};
use serde::{Deserialize, Serialize};

use crate::support::name_of;

/// An event and its promise.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// Name of the event.
    pub(crate) event: String,
    promise: Option<Promise>,
    /// The newest message in the store at that moment. It can only grow.
    newest: Option<Seen>,
}

/// Content that an event promises to be stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Promise {
    /// A prompt.
    Prompt { message: MessageId, words: String },
    /// An answer, with the streamed text and reasoning.
    Answer { message: MessageId, words: String, thoughts: String },
    /// The result of a call.
    Call { part: PartId, state: String },
    /// A reduction.
    Receipt { receipt: ReceiptId },
    /// The session's title.
    Title { title: String },
}

/// A message, part by part.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Seen {
    message: MessageId,
    parts: Vec<(PartId, String)>,
}

/// Writes the journal of one process.
pub(crate) struct Journal {
    archive: Arc<Archive>,
    session: SessionId,
    state: Mutex<State>,
}

struct State {
    file: File,
    words: String,
    thoughts: String,
}

impl Journal {
    pub(crate) fn new(archive: Arc<Archive>, session: SessionId, path: &Path) -> Journal {
        let file = OpenOptions::new().create(true).append(true).open(path).unwrap();
        let state = Mutex::new(State { file, words: String::new(), thoughts: String::new() });
        Journal { archive, session, state }
    }

    /// Records the promise of an event.
    pub(crate) fn note(&self, event: &Event) {
        let mut state = self.state.lock().unwrap();
        let promise = match event {
            Event::Prompted { message } => {
                let words = self.archive.store().message(&self.session, message).unwrap().text();
                Some(Promise::Prompt { message: message.clone(), words })
            }
            Event::Requested { .. } => {
                (state.words, state.thoughts) = Default::default();
                None
            }
            Event::Text { delta } => {
                state.words.push_str(delta);
                None
            }
            Event::Thinking { delta } => {
                state.thoughts.push_str(delta);
                None
            }
            Event::Answered { message, .. } | Event::BrokenOff { message, .. } => Some(Promise::Answer {
                message: message.clone(),
                words: state.words.clone(),
                thoughts: state.thoughts.clone(),
            }),
            Event::CallEnded { part, .. } => {
                let stored = self.archive.store().part(&self.session, part).unwrap();
                assert!(
                    stored.as_tool().unwrap().state.status.is_final(),
                    "reported as ended, stored as {stored:?}"
                );
                Some(Promise::Call { part: part.clone(), state: content(&stored) })
            }
            Event::Reduced(figures) => Some(Promise::Receipt { receipt: figures.receipt.clone() }),
            Event::Titled { title } => Some(Promise::Title { title: title.clone() }),
            _ => None,
        };
        let entry = Entry {
            event: name_of(event),
            promise,
            newest: newest(&self.archive, &self.session).as_ref().map(seen),
        };
        writeln!(state.file, "{}", serde_json::to_string(&entry).unwrap()).unwrap();
    }

    /// Records a remark without a promise.
    pub(crate) fn remark(&self, words: String) {
        let entry = Entry { event: words, promise: None, newest: None };
        let mut state = self.state.lock().unwrap();
        writeln!(state.file, "{}", serde_json::to_string(&entry).unwrap()).unwrap();
    }
}

/// Reads a journal; empty if the process did not get that far. An incomplete last line promises nothing.
pub(crate) fn read(path: &Path) -> Vec<Entry> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Panics unless everything that was promised and seen is in the store.
pub(crate) fn hold(entries: &[Entry], archive: &Archive, session: &SessionId) {
    let store = archive.store();
    for entry in entries {
        match &entry.promise {
            None => {}
            Some(Promise::Prompt { message, words }) => {
                let stored = store.message(session, message).unwrap();
                assert!(stored.is_user() && !words.is_empty(), "{:?}", stored.info);
                assert_eq!(&stored.text(), words, "{message}");
            }
            Some(Promise::Answer { message, words, thoughts }) => {
                let stored = store.message(session, message).unwrap();
                assert!(stored.is_finished() || stored.info.error.is_some(), "{:?}", stored.info);
                let [said, thought] = streamed(&stored);
                assert_eq!((&said, &thought), (words, thoughts), "{message}");
            }
            Some(Promise::Call { part, state }) => {
                assert_eq!(&content(&store.part(session, part).unwrap()), state, "{part}");
            }
            Some(Promise::Receipt { receipt }) => {
                assert_eq!(&store.receipt(receipt).unwrap().0, session);
            }
            Some(Promise::Title { title }) => assert_eq!(&store.session(session).unwrap().title, title),
        }
    }
    let newest = entries.iter().filter_map(|entry| entry.newest.as_ref());
    for Seen { message, parts } in newest {
        let stored = seen(&store.message(session, message).unwrap());
        for (at, (id, was)) in parts.iter().enumerate() {
            let (found, is) = &stored.parts[at];
            assert_eq!(found, id);
            assert!(is_later(was, is), "{id} was seen as\n{was}\nand is\n{is}");
        }
    }
}

/// Returns whether a part may have changed from one state to the other.
fn is_later(was: &str, is: &str) -> bool {
    match was.strip_prefix(OPEN_CALL) {
        // Its input stays complete; its result may be new.
        Some(call) => {
            let name = call.split(' ').next().unwrap_or_default();
            is.strip_prefix(OPEN_CALL)
                .or(is.strip_prefix(ENDED_CALL))
                .is_some_and(|now| now.starts_with(name))
        }
        None => is.starts_with(was),
    }
}

const OPEN_CALL: &str = "open call ";
const ENDED_CALL: &str = "ended call ";

fn seen(message: &Message) -> Seen {
    let parts = message.parts.iter().map(|part| (part.id.clone(), content(part))).collect();
    Seen { message: message.info.id.clone(), parts }
}

/// Returns the content of a part without marks, which may change.
fn content(part: &Part) -> String {
    match &part.body {
        PartBody::Text(said) => format!("text {}", said.text),
        PartBody::Reasoning(thought) => format!("thought {}", thought.text),
        PartBody::Tool(tool) => {
            let state = &tool.state;
            let input = state.input.as_ref().map(|input| input.json().to_string());
            let kind = if state.status.is_final() { ENDED_CALL } else { OPEN_CALL };
            let answer = (&state.output, &state.error);
            format!("{kind}{} {input:?} {:?} {answer:?}", tool.call_id, state.status)
        }
        other => format!("other {other:?}"),
    }
}

/// Returns the text and the reasoning of an answer.
fn streamed(message: &Message) -> [String; 2] {
    let (mut words, mut thoughts) = (String::new(), String::new());
    for part in &message.parts {
        match &part.body {
            PartBody::Text(said) => words.push_str(&said.text),
            PartBody::Reasoning(thought) => thoughts.push_str(&thought.text),
            _ => {}
        }
    }
    [words, thoughts]
}

fn newest(archive: &Archive, session: &SessionId) -> Option<Message> {
    let request = PageRequest { from: None, oldest_first: false, most: 1 };
    archive.store().page(session, &request).unwrap().messages.pop()
}

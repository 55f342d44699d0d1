//! A store in a folder of its own, a clock that stands still, and sessions that drive themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll::compact::accept::Reply;
use plimsoll::compact::request::Summariser;
use plimsoll::{CharCounter, Fixed, Limits, Log, Millis, Policy, SessionId, Window};
use plimsoll_session::{AnswerEnd, AnswerEvent, Content, Counting, Driver, Prepared, Settings};
use plimsoll_store::{Archive, Blobs, Clock, Directory, Durability, NewSession, SqliteStore};
use serde_json::json;

/// A database, and a clock that moves only when told to.
pub(crate) struct Harbour {
    pub(crate) archive: Arc<Archive>,
    pub(crate) time: Arc<AtomicU64>,
    _folder: tempfile::TempDir,
}

fn clock_of(time: &Arc<AtomicU64>) -> Clock {
    let time = Arc::clone(time);
    Clock::new(move || Millis(time.load(Ordering::Relaxed)))
}

pub(crate) const NOW: u64 = 1_794_775_451_033;

impl Harbour {
    pub(crate) fn new() -> Harbour {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plimsoll.db");
        let time = Arc::new(AtomicU64::new(NOW));
        let store = SqliteStore::open_with_clock(path, Durability::Process, clock_of(&time)).unwrap();
        let spills: Arc<dyn Blobs> = Arc::new(Directory::new(folder.path().join("spill"), "test"));
        let archive = Arc::new(Archive::new(Box::new(store), Ok(spills)));
        Harbour { archive, time, _folder: folder }
    }

    pub(crate) fn clock(&self) -> Clock {
        clock_of(&self.time)
    }

    /// Let so many milliseconds go by.
    pub(crate) fn wait(&self, millis: u64) {
        self.time.fetch_add(millis, Ordering::Relaxed);
    }

    pub(crate) fn session(&self, id: &str) -> SessionId {
        let session = NewSession::new(SessionId::new(id));
        self.archive.store().create(session, Millis(NOW)).unwrap().id
    }

    /// Settings with characters over four and a window of 32,000, so that figures can be told by hand.
    pub(crate) fn settings(&self) -> Settings {
        Settings {
            limits: Some(Limits::new(32_000, 4_000)),
            counting: Counting::Fixed(Arc::new(CharCounter::default())),
            clock: self.clock(),
            holder: "test".into(),
            ..Settings::new("some-model")
        }
    }

    pub(crate) fn open(&self, id: &str) -> Driver {
        let session = self.session(id);
        Driver::open(Arc::clone(&self.archive), &session, self.settings()).unwrap()
    }

    /// A driver whose session's own model summarises.
    pub(crate) fn open_with_model(&self, id: &str) -> Driver {
        let session = self.session(id);
        let summariser = Some(Summariser::own(Limits::new(32_000, 4_000)));
        let settings = Settings { summariser, ..self.settings() };
        Driver::open(Arc::clone(&self.archive), &session, settings).unwrap()
    }

    /// The window's messages as the store has them now.
    pub(crate) fn stored(&self, driver: &Driver) -> Log {
        self.archive.store().window(driver.session()).unwrap().log
    }
}

/// Prepare, answering every wish for a summary with these words.
pub(crate) fn ready(driver: &mut Driver, summary: &str) -> Content {
    loop {
        match driver.prepare(Fixed::default()).unwrap() {
            Prepared::Ready(content) => return *content,
            Prepared::Summarise(_) => driver.summarised(Ok(Reply::finished(summary))).unwrap(),
            Prepared::NotSummarised { rejections, .. } => panic!("{rejections:?}"),
            Prepared::CannotFit { burden, .. } => panic!("{burden}"),
        }
    }
}

pub(crate) fn finished() -> AnswerEnd {
    AnswerEnd::Finished { reason: "stop".into(), usage: None, cost: None }
}

/// A turn: a prompt, a call of `read` with that output, and a last word.
pub(crate) fn turn(driver: &mut Driver, prompt: &str, output: &str) -> Content {
    driver.prompt(prompt).unwrap();
    let content = ready(driver, "## Goal\nGo on.");
    driver.begin_answer(None).unwrap();
    driver.write(AnswerEvent::CallBegin { call: "call_1".into(), tool: "read".into() }).unwrap();
    let call = driver.write(AnswerEvent::CallReady(json!({ "path": "a.rs" }))).unwrap().unwrap();
    driver.end_answer(AnswerEnd::Finished { reason: "tool_use".into(), usage: None, cost: None }).unwrap();
    driver.start_call(&call).unwrap();
    driver.take_output(&call, &mut output.as_bytes()).unwrap();
    say(driver, "Done.");
    driver.end_turn(Fixed::default()).unwrap();
    content
}

pub(crate) fn say(driver: &mut Driver, text: &str) {
    driver.begin_answer(None).unwrap();
    driver.write(AnswerEvent::Text(text.into())).unwrap();
    driver.end_answer(finished()).unwrap();
}

pub(crate) fn shown(driver: &Driver) -> String {
    let window = Window::of(driver.log(), &Policy::default());
    window.check().unwrap();
    serde_json::to_string(&window).unwrap()
}

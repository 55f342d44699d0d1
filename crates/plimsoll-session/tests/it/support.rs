//! A store in a temporary directory, a clock that stands still, and sessions that drive themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_session::blocking::{Driver, FinishedAnswer, Request};
use plimsoll_session::{
    AnswerEvent, Archive, CharCounter, Clock, Content, Counting, Durability, Limits, Log, Message, Millis,
    NewSession, Part, Policy, Prepared, Reply, SessionBuilder, SessionId, SessionModel, Summariser, Usage,
    Window,
};
use plimsoll_store::{Blobs, Directory, SqliteStore, random_ids};
use serde_json::json;

/// A database, and a clock that is set by the test.
pub(crate) struct Harbour {
    pub(crate) archive: Arc<Archive>,
    pub(crate) time: Arc<AtomicU64>,
    _directory: tempfile::TempDir,
}

fn clock_of(time: &Arc<AtomicU64>) -> Clock {
    let time = Arc::clone(time);
    Clock::new(move || Millis(time.load(Ordering::Relaxed)))
}

pub(crate) const NOW: u64 = 1_794_775_451_033;
pub(crate) const LIMITS: Limits =
    Limits { context: plimsoll::Tokens(32_000), input: None, output: plimsoll::Tokens(4_000) };

/// The model of the tests, with these limits.
pub(crate) fn model(limits: Limits) -> SessionModel {
    SessionModel::new("some-model").limits(limits)
}

impl Harbour {
    pub(crate) fn new() -> Harbour {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("plimsoll.db");
        let time = Arc::new(AtomicU64::new(NOW));
        let store = SqliteStore::open_with_clock(path, Durability::Process, clock_of(&time)).unwrap();
        let spills: Arc<dyn Blobs> = Arc::new(Directory::new(directory.path().join("spill"), "test"));
        let archive = Arc::new(Archive::new(Box::new(store), Ok(spills)));
        Harbour { archive, time, _directory: directory }
    }

    pub(crate) fn clock(&self) -> Clock {
        clock_of(&self.time)
    }

    /// Advances the clock by some milliseconds.
    pub(crate) fn wait(&self, millis: u64) {
        self.time.fetch_add(millis, Ordering::Relaxed);
    }

    pub(crate) fn session(&self, id: &str) -> SessionId {
        let session = NewSession::new(SessionId::new(id));
        self.archive.store().create(session, Millis(NOW)).unwrap().id
    }

    /// Characters over four and a window of 32,000, so that figures can be checked by hand.
    pub(crate) fn builder(&self) -> SessionBuilder {
        Driver::builder(Arc::clone(&self.archive))
            .model(model(LIMITS))
            .counting(Counting::Fixed(Arc::new(CharCounter::default())))
            .clock(self.clock())
            .holder("test")
    }

    pub(crate) fn open(&self, id: &str) -> Driver {
        self.builder().session(self.session(id)).open_blocking().unwrap()
    }

    /// A driver whose session's own model summarises.
    pub(crate) fn open_with_model(&self, id: &str) -> Driver {
        self.builder().summariser(Summariser::own(LIMITS)).session(self.session(id)).open_blocking().unwrap()
    }

    /// The window's messages as the store has them now.
    pub(crate) fn stored(&self, driver: &Driver) -> Log {
        self.archive.store().window(driver.session()).unwrap().log
    }
}

/// Prepare, answering every wish for a summary with these words.
pub(crate) fn ready(driver: &mut Driver, summary: &str) -> Content {
    loop {
        match driver.prepare().unwrap() {
            Prepared::Ready(request) => return request.into_content(),
            Prepared::Summarise(call) => drop(call.answer(Ok(Reply::finished(summary))).unwrap()),
            Prepared::NotSummarised { rejections, .. } => panic!("{rejections:?}"),
            Prepared::CannotFit { breakdown, .. } => panic!("{breakdown}"),
        }
    }
}

/// The next request, which needs no summary.
pub(crate) fn request(driver: &mut Driver) -> Request<'_> {
    match driver.prepare().unwrap() {
        Prepared::Ready(request) => request,
        other => panic!("{other:?}"),
    }
}

/// The end of an answer.
pub(crate) fn finished(reason: &str, usage: Option<Usage>) -> AnswerEvent {
    AnswerEvent::Finished { reason: reason.into(), usage }
}

/// Answers a request with these events.
pub(crate) fn answer(
    request: Request<'_>,
    events: impl IntoIterator<Item = AnswerEvent>,
    usage: Option<Usage>,
) -> FinishedAnswer {
    let mut answer = request.begin_answer(None).unwrap();
    events.into_iter().for_each(|event| drop(answer.write(event).unwrap()));
    answer.write(finished("stop", usage)).unwrap();
    answer.finish().unwrap()
}

/// The events of a call.
pub(crate) fn call(number: usize, tool: &str, input: serde_json::Value) -> [AnswerEvent; 2] {
    let begin = AnswerEvent::CallBegin { call: format!("call_{number}"), tool: tool.into() };
    [begin, AnswerEvent::CallReady(input)]
}

/// A turn: a prompt, a call of `read` with that output, and a last word.
pub(crate) fn turn(driver: &mut Driver, prompt: &str, output: &str) -> Content {
    driver.prompt(prompt).unwrap();
    let content = ready(driver, "## Goal\nGo on.");
    read(driver, 1, output);
    say(driver, "Done.");
    driver.end_turn().unwrap();
    content
}

/// An answer that calls `read`, with this output.
pub(crate) fn read(driver: &mut Driver, number: usize, output: &str) {
    let answer = answer(request(driver), call(number, "read", json!({ "path": "a.rs" })), None);
    let part = &answer.calls[0].part;
    driver.call(part).unwrap().start().unwrap();
    driver.call(part).unwrap().finish_with(&mut output.as_bytes()).unwrap();
}

/// An answer that is in the log whatever the window weighs: no request was made for it.
pub(crate) fn say(driver: &mut Driver, text: &str) {
    let (now, mut ids) = (driver.now(), random_ids());
    let mut message = Message::assistant(ids.message(now), vec![Part::text(ids.part(now), text)]).at(now);
    message.info.finish = Some("stop".into());
    message.info.time.get_or_insert_default().completed = Some(now);
    driver.append(message).unwrap();
}

pub(crate) fn shown(driver: &Driver) -> String {
    let window = Window::of(driver.log(), &Policy::default());
    window.check().unwrap();
    serde_json::to_string(&window).unwrap()
}

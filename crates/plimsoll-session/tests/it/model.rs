//! The driver on a database and the driver on memory do the same, whatever happens; what it holds is what is stored;
//! and its window is legal and under the line.

use std::sync::Arc;

use plimsoll_session::blocking::{Driver, Request};
use plimsoll_session::{
    AnswerEvent, Archive, Block, CharCounter, ClimbOutcome, ClimbStep, Clock, Counting, Ids, Limits, Log,
    NewSession, PendingCall, PinTarget, Policy, Prepared, ReceiptId, Reply, SessionBuilder, SessionError,
    SessionId, StoreError, Summariser, Window,
};
use proptest::prelude::*;
use serde_json::json;

use crate::support::{Harbour, call, finished, model};

/// Something a host does.
#[derive(Clone, Debug)]
enum Act {
    Prompt(usize),
    /// An answer with a number of words and calls, each with some lines of output; and how it ends.
    Answer {
        words: usize,
        calls: usize,
        lines: usize,
        end: u8,
    },
    /// Prepare, with a model that answers, fails or says nothing.
    Prepare(u8),
    Refused,
    Compact(bool),
    /// A compaction that starts before the next act and is committed after it.
    Beside,
    Prune,
    Pin(usize),
    Undo(usize),
    EndTurn,
    Reopen,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let answer = (1usize..600, 0usize..4, 0usize..3_000, 0u8..7)
        .prop_map(|(words, calls, lines, end)| Act::Answer { words, calls, lines, end });
    let act = prop_oneof![
        4 => (1usize..2_000).prop_map(Act::Prompt),
        6 => answer,
        4 => (0u8..3).prop_map(Act::Prepare),
        1 => Just(Act::Refused),
        1 => any::<bool>().prop_map(Act::Compact),
        1 => Just(Act::Beside),
        1 => Just(Act::Prune),
        1 => any::<usize>().prop_map(Act::Pin),
        2 => any::<usize>().prop_map(Act::Undo),
        1 => Just(Act::EndTurn),
        1 => Just(Act::Reopen),
    ];
    prop::collection::vec(act, 1..24)
}

struct Host {
    archive: Arc<Archive>,
    session: SessionId,
    builder: SessionBuilder,
    driver: Option<Driver>,
    receipts: Vec<ReceiptId>,
    beside: Option<Box<ClimbOutcome>>,
    opened: u64,
}

impl Host {
    fn new(archive: &Arc<Archive>, limits: Limits, clock: Clock) -> Host {
        let session = SessionId::new("ses_1");
        archive.store().create(NewSession::new(session.clone()), clock.now()).unwrap();
        let builder = Driver::builder(Arc::clone(archive))
            .session(session.clone())
            .model(model(limits))
            .summariser(Summariser::named("s", limits))
            .counting(Counting::Fixed(Arc::new(CharCounter::default())))
            .clock(clock)
            .holder("test");
        let (archive, receipts) = (Arc::clone(archive), Vec::new());
        let mut host = Host { archive, session, builder, driver: None, receipts, beside: None, opened: 0 };
        host.open();
        host
    }

    fn open(&mut self) {
        self.driver = None;
        self.opened += 1;
        let driver = self.builder.clone().open_blocking().unwrap();
        let mut seed = self.opened << 32;
        self.driver = Some(driver.with_ids(Ids::new(move || {
            seed += 1;
            seed
        })));
    }

    fn driver(&mut self) -> &mut Driver {
        self.driver.as_mut().unwrap()
    }

    fn act(&mut self, act: &Act) {
        let beside = self.beside.take();
        match act {
            Act::Prompt(words) => {
                self.driver()
                    .prompt(format!("Never touch file {words}. {}", "word ".repeat(*words)))
                    .unwrap();
            }
            Act::Answer { words, calls, lines, end } => self.answer(*words, *calls, *lines, *end),
            Act::Prepare(model) => self.prepare(*model),
            Act::Refused => {
                self.driver().on_overflow(None);
                self.prepare(0);
            }
            Act::Compact(works) => {
                let reply = |works: bool| match works {
                    true => Ok(Reply::finished("## Goal\nGo on.")),
                    false => Err("no".to_owned()),
                };
                let outcome = self.driver().compact(|_| reply(*works)).unwrap();
                self.receipts.extend(outcome.reduction.receipts.into_iter().map(|receipt| receipt.id));
            }
            Act::Beside => {
                let mut climb = self.driver().begin_compaction(None).unwrap();
                self.beside = Some(loop {
                    match climb.step().unwrap() {
                        ClimbStep::Ask(_) => {
                            climb.answer(Ok(Reply::finished("## Goal\nBeside."))).unwrap();
                        }
                        ClimbStep::Done(climbed) => break climbed,
                    }
                });
            }
            Act::Prune => {
                let pruned = self.driver().prune("a test").unwrap();
                self.receipts.extend(pruned.receipt().map(|receipt| receipt.id));
            }
            Act::Pin(which) => {
                // What is picked from must be the same for both: a store may hold messages that the window does not
                // show.
                let window = self.driver().window();
                let texts: Vec<String> = window
                    .messages
                    .iter()
                    .flat_map(|message| &message.blocks)
                    .filter_map(|block| match block {
                        Block::Text { text, part: Some(_) } => Some(text.as_str().chars().take(30).collect()),
                        _ => None,
                    })
                    .collect();
                if let Some(words) = texts.get(which % texts.len().max(1)).cloned()
                    && let Ok(receipt) = self.driver().pin(&PinTarget::Words(words))
                {
                    self.receipts.push(receipt.id);
                }
            }
            Act::Undo(which) if !self.receipts.is_empty() => {
                let receipt = self.receipts.swap_remove(which % self.receipts.len());
                self.driver().undo(&receipt).unwrap();
            }
            Act::Undo(_) => {}
            Act::EndTurn => {
                let receipt = self.driver().end_turn().unwrap();
                self.receipts.extend(receipt.map(|receipt| receipt.id));
            }
            Act::Reopen => self.open(),
        }
        if let Some(climbed) = beside {
            match self.driver().commit(*climbed) {
                Ok(receipts) => self.receipts.extend(receipts.into_iter().map(|receipt| receipt.id)),
                // Something else was reduced meanwhile: then the plan is refused, and nothing has changed.
                Err(SessionError::Store(StoreError::Stale { .. })) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn answer(&mut self, words: usize, calls: usize, lines: usize, end: u8) {
        let Some(made) = self.with_request(0, |request| write(request, words, calls, end)) else { return };
        let driver = self.driver();
        for (number, PendingCall { part, .. }) in made.iter().enumerate() {
            driver.call(part).unwrap().start().unwrap();
            // Some calls are never answered.
            match (number + usize::from(end)) % 3 {
                0 => driver.call(part).unwrap().fail("no").unwrap(),
                1 => {
                    let output = "a line of output\n".repeat(lines);
                    driver.call(part).unwrap().finish_with(&mut output.as_bytes()).map(drop).unwrap();
                }
                _ => {}
            }
        }
    }

    fn prepare(&mut self, model: u8) {
        self.with_request(model, |request| {
            request.window.check().unwrap();
            let line = request.line.unwrap();
            assert!(!line.is_over(request.load.tokens), "{} over {line:?}", request.load.tokens);
        });
    }

    /// Prepares a request with a summariser that works, fails or returns nothing. `None` if it cannot fit.
    fn with_request<T>(&mut self, model: u8, work: impl FnOnce(Request<'_>) -> T) -> Option<T> {
        let driver = self.driver.as_mut().unwrap();
        loop {
            let (receipts, done) = match driver.prepare().unwrap() {
                Prepared::Ready(request) => (request.receipts.clone(), Some(work(request))),
                Prepared::Summarise(call) => {
                    let reply = match model {
                        0 => Ok(Reply::finished("## Goal\nGo on.")),
                        1 => Err("no".to_owned()),
                        _ => Ok(Reply::finished("")),
                    };
                    call.answer(reply).unwrap();
                    continue;
                }
                Prepared::NotSummarised { rejections, .. } => panic!("{rejections:?}"),
                Prepared::CannotFit { receipts, .. } => (receipts, None),
            };
            self.receipts.extend(receipts.into_iter().map(|receipt| receipt.id));
            return done;
        }
    }
}

/// Writes an answer with a number of words and calls. Returns the calls if it is complete.
fn write(request: Request<'_>, words: usize, calls: usize, end: u8) -> Vec<PendingCall> {
    let mut answer = request.begin_answer(None).unwrap();
    answer.write(AnswerEvent::Thinking("I think ".into())).unwrap();
    answer.write(AnswerEvent::Signature(json!({ "anthropic": { "signature": "c2ln" } }))).unwrap();
    for _ in 0..words / 100 + 1 {
        answer.write(AnswerEvent::Text("word ".repeat(words % 100))).unwrap();
    }
    for number in 0..calls {
        let [begin, ready] = call(number, "bash", json!({}));
        for event in [begin, AnswerEvent::CallInput("{}".into()), ready] {
            answer.write(event).unwrap();
        }
    }
    match end {
        0 => drop(answer.abort("stop").unwrap()),
        1 => drop(answer.fail("APIError", "no").unwrap()),
        2 => drop(answer),
        _ => {
            answer.write(finished("stop", None)).unwrap();
            return answer.finish().unwrap().calls;
        }
    }
    Vec::new()
}

/// The window as a provider would be given it: places in the list of messages that are held are none of its business.
fn shown(log: &Log) -> serde_json::Value {
    let window = Window::of(log, &Policy::default());
    window.check().unwrap();
    serde_json::to_value(&window).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 5, ..ProptestConfig::default() })]

    #[test]
    fn properties_a_database_and_memory_are_driven_alike(acts in acts(), context in 8_000u64..60_000) {
        let harbour = Harbour::new();
        let limits = Limits::new(context, context / 8);
        let mut database = Host::new(&harbour.archive, limits, harbour.clock());
        let mut memory = Host::new(&Arc::new(Archive::in_memory()), limits, harbour.clock());
        for act in &acts {
            harbour.wait(1_000);
            database.act(act);
            memory.act(act);
            let stored = database.archive.store().window(&database.session).unwrap().log;
            prop_assert_eq!(shown(database.driver().log()), shown(&stored), "after {:?}", act);
            prop_assert_eq!(shown(database.driver().log()), shown(memory.driver().log()), "after {:?}", act);
        }
    }
}

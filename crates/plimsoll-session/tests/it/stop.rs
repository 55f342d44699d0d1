//! Work that is stopped ends soon, and stores nothing.

#![cfg(debug_assertions)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use plimsoll::fork::child::Child;
use plimsoll::fork::history::{Identity, Point};
use plimsoll::{Counter, Fixed, Limits, Policy, Tokens, work};
use plimsoll_session::{Counting, Driver, Identities, SessionError, Settings, StopFlag};
use plimsoll_store::{NewSession, StoreError};
use plimsoll_testkit::History;

use crate::support::Harbour;

/// Counts characters over four, and sets a flag at a certain count.
struct StoppingCounter {
    stop: StopFlag,
    at: usize,
    counted: AtomicUsize,
    /// Bytes that this thread had read when the flag was set.
    read: AtomicU64,
}

impl Counter for StoppingCounter {
    fn name(&self) -> &'static str {
        "stopping"
    }

    fn count(&self, text: &str) -> Tokens {
        if self.counted.fetch_add(1, Ordering::Relaxed) + 1 == self.at {
            self.read.store(work::bytes_read(), Ordering::Relaxed);
            self.stop.stop();
        }
        Tokens(text.len() as u64 / 4)
    }
}

/// Does `act` again and again, each time stopped at a later count, until it comes to its end. Returns the number of counts.
fn stopped_at_each_count<T>(policy: &Policy, act: impl Fn(&mut Driver) -> Result<T, SessionError>) -> usize {
    let mut whole = None;
    // Not stopped at all, then at each of the first counts, and at fewer of the later ones.
    for at in [usize::MAX].into_iter().chain(1..8).chain((1..).map(|step| 24 * step)) {
        let harbour = Harbour::new();
        let turn = |history: History, turn: usize| {
            history
                .user(format!("Read part {turn}"))
                .tool("read", format!("line_{turn} of it\n").repeat(1_000))
        };
        let history = (0..30).fold(History::new(), turn).say("All read.");
        let new = NewSession { messages: history.messages(), ..NewSession::new("ses_1".into()) };
        let session = harbour.archive.store().create(new, plimsoll::Millis(1)).unwrap().id;
        let stop = StopFlag::default();
        let (counted, read) = Default::default();
        let counter = Arc::new(StoppingCounter { stop: stop.clone(), at, counted, read });
        let settings = Settings {
            limits: Some(Limits::new(1_000_000, 4_000)),
            counting: Counting::Fixed(Arc::clone(&counter) as Arc<dyn Counter>),
            policy: Arc::new(policy.clone()),
            ..harbour.settings()
        };
        let mut driver = Driver::open(Arc::clone(&harbour.archive), &session, settings).unwrap();
        let before = driver.log().clone();
        let begun = work::bytes_read();
        let done = driver.unless(&stop, &act);
        if !stop.is_set() {
            done.unwrap();
            if at == usize::MAX {
                whole = Some(work::bytes_read() - begun);
                continue;
            }
            return at;
        }
        assert!(matches!(done, Err(SessionError::Stopped)), "stopped at count {at}: {:?}", done.err());
        let read = work::bytes_read() - counter.read.load(Ordering::Relaxed);
        let whole = whole.unwrap();
        assert!(read < whole / 8, "{read} of {whole} bytes were read after the flag was set at count {at}");
        let store = harbour.archive.store();
        assert!(
            matches!(store.session(&"ses_2".into()), Err(StoreError::Missing { .. })),
            "a child was stored"
        );
        assert_eq!(store.window(&session).unwrap().log, before, "the session was changed");
        assert_eq!(driver.log(), &before);
    }
    unreachable!()
}

fn child(task: &str) -> Child<'_> {
    Child { limits: Limits::new(8_000, 2_000), fixed: Fixed::default(), task }
}

#[test]
fn a_digest_is_stopped() {
    let counts = stopped_at_each_count(&Policy::default(), |driver| {
        driver.fork(Point::Newest, NewSession::new("ses_2".into()), &child("Look at it."), None).map(drop)
    });
    assert!(counts > 8, "there was too little to stop: {counts} counts");
}

#[test]
fn an_inherited_history_is_stopped() {
    let same = Identity { model: "m".into(), system: "s".into(), tools: "t".into() };
    let counts = stopped_at_each_count(&Policy::default(), |driver| {
        let child = Child { limits: Limits::new(2_000_000, 4_000), ..child("Look at it.") };
        let agents = Identities { parent: &same, child: &same };
        driver.fork(Point::Newest, NewSession::new("ses_2".into()), &child, Some(agents)).map(drop)
    });
    assert!(counts > 30, "there was too little to stop: {counts} counts");
}

#[test]
fn the_prune_after_a_turn_is_stopped() {
    let mut spec = Policy::default().into_spec();
    spec.prune.after_turn = true;
    let policy = Policy::new(spec).unwrap();
    let counts = stopped_at_each_count(&policy, |driver| {
        let receipt = driver.end_turn(Fixed::default())?;
        assert!(receipt.is_some(), "something is pruned");
        Ok(())
    });
    assert!(counts > 30, "there was too little to stop: {counts} counts");
}

//! Operations whose future is dropped end soon, and store nothing.

#![cfg(debug_assertions)]

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

use plimsoll::work;
use plimsoll_session::{
    Counter, Counting, ForkRequest, Identities, Identity, Limits, Millis, NewSession, Policy, Session,
    SessionError, StoreError, Tokens,
};
use plimsoll_testkit::History;
use tokio::sync::Notify;

use crate::support::{Harbour, model};

/// Counts characters over four. At the last count that is left it waits until the future is dropped.
struct PausingCounter {
    /// Zero for never.
    left: AtomicUsize,
    paused: Notify,
    dropped: Barrier,
    /// Bytes that the session's thread had read by then.
    read: AtomicU64,
}

impl PausingCounter {
    fn new() -> Arc<PausingCounter> {
        let (left, paused, read) = Default::default();
        Arc::new(PausingCounter { left, paused, dropped: Barrier::new(2), read })
    }
}

impl Counter for PausingCounter {
    fn name(&self) -> &'static str {
        "pausing"
    }

    fn count(&self, text: &str) -> Tokens {
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(left.saturating_sub(1), Ordering::Relaxed);
        if left == 1 {
            self.read.store(work::bytes_read(), Ordering::Relaxed);
            self.paused.notify_one();
            self.dropped.wait();
        }
        Tokens(text.len() as u64 / 4)
    }
}

async fn bytes_read(session: &Session) -> u64 {
    session.with_log(|_| work::bytes_read()).await.unwrap()
}

/// Repeats `act`, each time dropped at a later count, until it completes. Returns the number of counts.
async fn dropped_at_each_count<T>(
    policy: Policy,
    act: impl AsyncFn(&mut Session) -> Result<T, SessionError>,
) -> usize {
    let mut whole = None;
    // Not dropped at all, then at each of the first counts, and at fewer of the later ones.
    for at in [0].into_iter().chain(1..8).chain((1..).map(|step| 24 * step)) {
        let harbour = Harbour::new();
        let turn = |history: History, turn: usize| {
            history
                .user(format!("Read part {turn}"))
                .tool("read", format!("line_{turn} of it\n").repeat(1_000))
        };
        let history = (0..30).fold(History::new(), turn).say("All read.");
        let new = NewSession { messages: history.messages(), ..NewSession::new("ses_1".into()) };
        let id = harbour.archive.store().create(new, Millis(1)).unwrap().id;
        let counter = PausingCounter::new();
        let builder = harbour
            .builder()
            .model(model(Limits::new(1_000_000, 4_000)))
            .counting(Counting::Fixed(Arc::clone(&counter) as Arc<dyn Counter>))
            .policy(policy.clone());
        let mut session = builder.session(id.clone()).open().await.unwrap();
        let before = session.with_log(|log| log.clone()).await.unwrap();
        let begun = bytes_read(&session).await;
        counter.left.store(at, Ordering::Relaxed);
        let done = tokio::select! {
            biased;
            done = act(&mut session) => Some(done),
            () = counter.paused.notified() => None,
        };
        if let Some(done) = done {
            done.unwrap();
            if at == 0 {
                whole = Some(bytes_read(&session).await - begun);
                continue;
            }
            return at;
        }
        counter.dropped.wait();
        let read = bytes_read(&session).await - counter.read.load(Ordering::Relaxed);
        let whole = whole.unwrap();
        assert!(read < whole / 8, "{read} of {whole} bytes were read after the drop at count {at}");
        let store = harbour.archive.store();
        assert!(
            matches!(store.session(&"ses_2".into()), Err(StoreError::Missing { .. })),
            "a child was stored"
        );
        assert_eq!(store.window(&id).unwrap().log, before, "the session was changed");
        assert_eq!(session.with_log(|log| log.clone()).await.unwrap(), before);
    }
    unreachable!()
}

fn child(limits: Limits) -> ForkRequest {
    ForkRequest::new(NewSession::new("ses_2".into()), "Look at it.", limits)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_digest_is_stopped() {
    let counts = dropped_at_each_count(Policy::default(), async |session| {
        session.fork(child(Limits::new(8_000, 2_000))).await
    })
    .await;
    assert!(counts > 8, "there was too little to stop: {counts} counts");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_inherited_history_is_stopped() {
    let same = Identity { model: "m".into(), system: "s".into(), tools: "t".into() };
    let identities = Identities { parent: same.clone(), child: same };
    let counts = dropped_at_each_count(Policy::default(), async |session| {
        session.fork(child(Limits::new(2_000_000, 4_000)).identities(identities.clone())).await
    })
    .await;
    assert!(counts > 30, "there was too little to stop: {counts} counts");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_prune_after_a_turn_is_stopped() {
    let mut spec = Policy::default().into_spec();
    spec.prune.after_turn = true;
    let policy = Policy::new(spec).unwrap();
    let counts = dropped_at_each_count(policy, async |session| {
        let receipt = session.end_turn().await?;
        assert!(receipt.is_some(), "something is pruned");
        Ok(())
    })
    .await;
    assert!(counts > 30, "there was too little to stop: {counts} counts");
}

//! Many sessions at once.

use std::time::{Duration, Instant};

use crate::support::TestServer;

#[tokio::test(flavor = "multi_thread")]
async fn many_sessions_with_event_readers_are_answered() {
    const SESSIONS: usize = 40;
    let server = TestServer::start().await;
    let begun = Instant::now();
    let mut readers = Vec::new();
    for _ in 0..SESSIONS {
        readers.push(server.events("/event").await);
    }
    let turns = (0..SESSIONS).map(|number| {
        let server = &server;
        async move {
            let id = server.session().await;
            for turn in 0..2 {
                let text = format!("session {number} turn {turn}");
                assert_eq!(server.prompt(&id, &text).await, format!("echo: {text}"));
            }
        }
    });
    futures_util::future::join_all(turns).await;
    for reader in &mut readers {
        let mut idle = 0;
        while idle < SESSIONS * 2 {
            idle += usize::from(reader.next().await.expect("the stream goes on")["type"] == "session.idle");
        }
    }
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

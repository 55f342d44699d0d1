//! Many sessions at once.

use std::time::{Duration, Instant};

use crate::support::{TestServer, prompt};

const SESSIONS: usize = 200;

/// Maximum growth of memory over the last two loads. It levels off after about five, when the pools of the allocator are full.
const GROWTH: u64 = 64 << 20;

/// Memory of this process in bytes: the server, its clients and the model.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1_024
}

/// Prompts many sessions at once. Every stream must report the end of each run.
async fn load(server: &TestServer) {
    let mut readers = Vec::new();
    for _ in 0..SESSIONS {
        let mut reader = server.events("/event").await;
        readers.push(tokio::spawn(async move { reader.count("\"type\":\"session.idle\"", SESSIONS).await }));
    }
    let turns = (0..SESSIONS).map(|number| async move {
        let id = server.session().await;
        let text = format!("session {number}");
        assert_eq!(server.prompt(&id, &text).await, format!("echo: {text}"));
        id
    });
    let sessions = futures_util::future::join_all(turns).await;
    for reader in readers {
        reader.await.unwrap();
    }
    for id in sessions {
        let note = format!("/session/{id}/message");
        let mut body = prompt("a note");
        body["noReply"] = serde_json::json!(true);
        server.post(&note, body).await.ok();
        server.send("DELETE", &format!("/session/{id}"), &[], "").await.ok();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_sessions_with_event_readers_are_answered_in_flat_memory() {
    let server = TestServer::start().await;
    let begun = Instant::now();
    let mut used = Vec::new();
    for _ in 0..4 {
        load(&server).await;
        used.push(memory());
    }
    // The first loads fill pools and caches.
    let grown = used[3].saturating_sub(used[1]);
    assert!(grown < GROWTH, "grew by {grown} bytes: {used:?}");
    assert!(begun.elapsed() < Duration::from_secs(180), "{:?}", begun.elapsed());
}

//! Processes that try to outlive their call.

use std::time::{Duration, Instant};

use plimsoll_agent::Guard;
use plimsoll_testkit::server::Reply;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{Yard, can};

/// Number of processes that run `sleep` with this time. Each test has its own.
fn sleepers(time: &str) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| *line == format!("sleep\0{time}\0").into_bytes()).count()
}

/// Waits until there are none: a killed process needs a moment to end.
fn await_none(time: &str) -> bool {
    let until = Instant::now() + Duration::from_secs(5);
    while Instant::now() < until {
        if sleepers(time) == 0 {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

#[tokio::test]
async fn a_cancelled_call_ends_at_once_with_all_it_started() {
    let yard = Yard::new().await;
    let time = format!("33{}", std::process::id());
    let command = format!("setsid -f sleep {time}; sleep {time}");
    yard.dock.server.push_all([Reply::new().call("a", "bash", json!({ "command": command }))]);
    let (mut talk, cancel) = (yard.talk, CancellationToken::new());
    let token = cancel.clone();
    let run = tokio::spawn(async move { talk.run("Go", &token).await.unwrap() });
    let until = Instant::now() + Duration::from_secs(10);
    while sleepers(&time) < 2 && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    cancel.cancel();
    run.await.unwrap();
    assert!(!can(&[Guard::Processes]) || await_none(&time));
}

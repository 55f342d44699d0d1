//! The driver behind an async host.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_session::{AnswerEvent, Driver, DriverHandle, Settings};

use crate::support::{Harbour, finished};

#[tokio::test(flavor = "multi_thread")]
async fn deltas_are_stored_while_the_stream_pauses_and_the_session_is_given_back() {
    let harbour = Harbour::new();
    let session = harbour.session("ses_1");
    let settings = Settings { clock: plimsoll_store::Clock::default(), ..harbour.settings() };
    let handle = DriverHandle::open(Arc::clone(&harbour.archive), session.clone(), settings).await.unwrap();
    handle.run(|driver| driver.prompt("Tell me")).await.unwrap();
    handle.run(|driver| driver.begin_answer(None)).await.unwrap();
    for delta in ["one ", "two ", "three"] {
        handle.run(move |driver| driver.write(AnswerEvent::Text(delta.into()))).await.unwrap();
    }
    // Nothing more comes; what was said is stored all the same.
    let store = Arc::clone(&harbour.archive);
    let id = session.clone();
    let stored = tokio::task::spawn_blocking(move || {
        for _ in 0..200 {
            let text = store.store().window(&id).unwrap().last().unwrap().text();
            if text == "one two three" {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    });
    assert!(stored.await.unwrap());
    handle.run(|driver| driver.end_answer(finished())).await.unwrap();
    let clone = handle.clone();
    drop(handle);
    clone.run(|driver| driver.prompt("Still here")).await.unwrap();
    drop(clone);
    // The thread ends on its own time; then the session can be taken.
    let settings = Settings { holder: "another".into(), ..harbour.settings() };
    let mut opened = None;
    for _ in 0..200 {
        opened = Driver::open(Arc::clone(&harbour.archive), &session, settings.clone()).ok();
        if opened.is_some() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(opened.unwrap().log().len(), 3);
}

#[tokio::test]
async fn a_session_that_is_not_there_is_an_error() {
    let harbour = Harbour::new();
    let missing =
        DriverHandle::open(Arc::clone(&harbour.archive), "ses_none".into(), harbour.settings()).await;
    assert!(missing.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handle_that_is_closed_has_given_the_session_back_when_it_returns() {
    let harbour = Harbour::new();
    let session = harbour.session("ses_1");
    for _ in 0..20 {
        let archive = Arc::clone(&harbour.archive);
        let handle = DriverHandle::open(archive, session.clone(), harbour.settings()).await.unwrap();
        let clone = handle.clone();
        handle.close().await.unwrap();
        assert!(clone.run(|driver| driver.prompt("too late")).await.is_err());
        // Another holder finds it free at once.
        let settings = Settings { holder: "another".into(), ..harbour.settings() };
        Driver::open(Arc::clone(&harbour.archive), &session, settings).unwrap().close().unwrap();
    }
}

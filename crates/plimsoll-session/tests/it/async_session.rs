//! The session of an async host.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_session::{
    AnswerEvent, Clock, HookText, Plan, Prepared, RecallQuery, Reply, Session, SessionBuilder, SessionError,
    SessionHandle, Summariser, ToolCall, ToolStatus,
};
use serde_json::json;

use crate::support::{Harbour, LIMITS, call, finished};

fn builder(harbour: &Harbour, id: &str) -> SessionBuilder {
    harbour.builder().session(harbour.session(id))
}

fn text(text: &str) -> AnswerEvent {
    AnswerEvent::Text(text.into())
}

async fn open(harbour: &Harbour) -> Session {
    builder(harbour, "ses_1").open().await.unwrap()
}

/// A session whose own model summarises.
async fn open_with_model(harbour: &Harbour) -> Session {
    builder(harbour, "ses_1").summariser(Summariser::own(LIMITS)).open().await.unwrap()
}

async fn fill(session: &mut Session, exchanges: usize) {
    for number in 0..exchanges {
        session.prompt(format!("Prompt {number}: {}", "word ".repeat(800))).await.unwrap();
        let Prepared::Ready(request) = session.prepare().await.unwrap() else {
            panic!("{number} is too many")
        };
        let mut answer = request.begin_answer(None).await.unwrap();
        answer.write(text(&"answer ".repeat(1_000))).await.unwrap();
        answer.write(finished("stop", None)).await.unwrap();
        answer.finish().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deltas_are_stored_while_the_stream_pauses_and_the_lease_is_released() {
    let harbour = Harbour::new();
    let mut session = builder(&harbour, "ses_1").clock(Clock::default()).open().await.unwrap();
    session.prompt("Tell me").await.unwrap();
    let id = session.id().clone();
    let handle = session.handle().clone();
    let Prepared::Ready(request) = session.prepare().await.unwrap() else { panic!("it is short") };
    let mut answer = request.begin_answer(None).await.unwrap();
    for delta in ["one ", "two ", "three"] {
        answer.write(text(delta)).await.unwrap();
    }
    // Nothing more comes; what was said is stored all the same.
    let (store, stored) = (Arc::clone(&harbour.archive), id.clone());
    let stored = tokio::task::spawn_blocking(move || {
        for _ in 0..200 {
            let text = store.store().window(&stored).unwrap().last().unwrap().text();
            if text == "one two three" {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    });
    assert!(stored.await.unwrap());
    answer.write(finished("stop", None)).await.unwrap();
    answer.finish().await.unwrap();
    drop(session);
    assert_eq!(handle.with_log(|log| log.len()).await.unwrap(), 2, "a handle keeps it open");
    drop(handle);
    // The thread ends on its own time; then the session can be taken.
    let builder = harbour.builder().holder("another").session(id);
    let mut opened = None;
    for _ in 0..200 {
        opened = builder.clone().open_blocking().ok();
        if opened.is_some() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(opened.unwrap().log().len(), 2);
}

#[tokio::test]
async fn an_unknown_session_is_an_error() {
    let harbour = Harbour::new();
    assert!(harbour.builder().session("ses_none").open().await.is_err());
    assert!(harbour.builder().session("ses_none").read().await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_a_session_releases_its_lease_before_it_returns() {
    let harbour = Harbour::new();
    let id = harbour.session("ses_1");
    for _ in 0..20 {
        let session = harbour.builder().session(id.clone()).open().await.unwrap();
        let handle = session.handle().clone();
        session.close().await.unwrap();
        assert!(matches!(handle.set_title("too late").await, Err(SessionError::Closed)));
        // Another holder finds it free at once.
        harbour.builder().holder("another").session(id.clone()).open_blocking().unwrap().close().unwrap();
    }
}

#[tokio::test]
async fn a_session_is_created_if_none_is_named() {
    let harbour = Harbour::new();
    let session = harbour.builder().open().await.unwrap();
    assert!(session.id().as_str().starts_with("ses_"), "{}", session.id());
    assert_eq!(session.record().await.unwrap().model.as_deref(), Some("some-model"));
    session.set_title("Depths").await.unwrap();
    assert_eq!(session.record().await.unwrap().title, "Depths");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_another_runs_can_be_read_and_not_written() {
    let harbour = Harbour::new();
    let mut session = open(&harbour).await;
    session.prompt("How deep is it?").await.unwrap();
    let Prepared::Ready(request) = session.prepare().await.unwrap() else { panic!("it is short") };
    let mut answer = request.begin_answer(None).await.unwrap();
    answer.write(text("Nine")).await.unwrap();
    let reader = harbour.builder().holder("another").session("ses_1").read().await.unwrap();
    assert_eq!(reader.with_log(|log| log.len()).await.unwrap(), 1, "an answer that is written is left out");
    assert!(reader.set_title("mine").await.is_err());
    assert!(answer.abort("enough").await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_whose_writer_is_dropped_is_ended_without_a_further_call() {
    let harbour = Harbour::new();
    let mut session = open(&harbour).await;
    session.prompt("Do it").await.unwrap();
    let Prepared::Ready(request) = session.prepare().await.unwrap() else { panic!("it is short") };
    let mut answer = request.begin_answer(None).await.unwrap();
    answer.write(text("I will do")).await.unwrap();
    for event in call(1, "bash", json!({ "command": "rm" })) {
        answer.write(event).await.unwrap();
    }
    drop(answer);
    let newest = session.with_log(|log| log.last().unwrap().clone()).await.unwrap();
    assert_eq!(newest.text(), "I will do");
    assert!(newest.info.error.is_some() && !newest.is_open(), "{newest:?}");
    assert!(session.open_calls().await.unwrap().is_empty());
    // The turn continues.
    session.prompt("Stop that").await.unwrap();
    assert!(matches!(session.prepare().await.unwrap(), Prepared::Ready(_)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_was_never_returned_is_ended_too() {
    let harbour = Harbour::new();
    let mut session = open(&harbour).await;
    session.prompt("Do it").await.unwrap();
    let Prepared::Ready(request) = session.prepare().await.unwrap() else { panic!("it is short") };
    tokio::select! {
        biased;
        begun = request.begin_answer(None) => panic!("{begun:?} took no time"),
        () = std::future::ready(()) => {}
    }
    let newest = session.with_log(|log| log.last().unwrap().clone()).await.unwrap();
    assert!(newest.is_assistant() && newest.info.error.is_some() && !newest.is_open(), "{newest:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_answered_from_other_threads() {
    let harbour = Harbour::new();
    let mut session = open(&harbour).await;
    session.prompt("Run them").await.unwrap();
    let Prepared::Ready(request) = session.prepare().await.unwrap() else { panic!("it is short") };
    let mut answer = request.begin_answer(None).await.unwrap();
    for number in 0..3 {
        for event in call(number, "bash", json!({ "command": format!("make {number}") })) {
            answer.write(event).await.unwrap();
        }
    }
    answer.write(finished("tool_use", None)).await.unwrap();
    let [long, short, refused] = &answer.finish().await.unwrap().calls[..] else { panic!("three calls") };
    let (runtime, printing) = (tokio::runtime::Handle::current(), long.clone());
    let tool = std::thread::spawn(move || {
        runtime.block_on(printing.start()).unwrap();
        let mut sink = runtime.block_on(printing.output()).unwrap();
        (0..20_000).for_each(|number| writeln!(sink, "line {number}").unwrap());
        runtime.block_on(printing.finish(sink)).unwrap()
    });
    short.start().await.unwrap();
    assert_eq!(short.input, json!({ "command": "make 1" }));
    assert!(short.finish_with("done").await.unwrap().is_none());
    refused.refuse("not allowed").await.unwrap();
    let receipt = tool.join().unwrap().unwrap();
    assert!(matches!(receipt.plan, Plan::Truncate(_)));
    let query = RecallQuery::of(receipt.handles[0].to_string());
    assert!(session.recall(query).await.unwrap().text.contains("line 0"));
    assert!(session.open_calls().await.unwrap().is_empty());
    let states = session.with_log(|log| {
        let parts = log.last().unwrap().parts.iter();
        parts.map(|part| part.as_tool().unwrap().state.status.clone()).collect::<Vec<_>>()
    });
    use ToolStatus::{Completed, Error};
    assert_eq!(states.await.unwrap(), [Completed, Completed, Error]);
    assert!(long.fail("again").await.is_err(), "a call is answered once");
}

/// Prepares until the request fits. Returns the sizes of the summary requests, and what was reduced.
async fn ready(session: &mut Session) -> (Vec<u64>, Vec<(u64, u64)>) {
    let mut asked = Vec::new();
    loop {
        match session.prepare().await.unwrap() {
            Prepared::Summarise(call) => {
                asked.push(call.tokens.0);
                call.answer(Ok(Reply::finished("## Goal\nGo on."))).await.unwrap();
            }
            Prepared::Ready(request) => {
                let sizes = request.receipts.iter().map(|receipt| (receipt.before.0, receipt.after.0));
                return (asked, sizes.collect());
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preparation_that_is_dropped_stops_and_changes_nothing() {
    let harbour = Harbour::new();
    let mut sessions = Vec::new();
    for id in ["ses_1", "ses_2"] {
        let builder = builder(&harbour, id).summariser(Summariser::own(LIMITS));
        let mut session = builder.open().await.unwrap();
        fill(&mut session, 8).await;
        session.prompt("word ".repeat(8_000)).await.unwrap();
        sessions.push(session);
    }
    let mut undisturbed = sessions.remove(1);
    let mut session = sessions.remove(0);
    let before = session.with_log(|log| log.clone()).await.unwrap();
    // Dropped at some point; some of them finish.
    for wait in 0..20 {
        tokio::select! {
            biased;
            prepared = session.prepare() => drop(prepared.unwrap()),
            () = tokio::time::sleep(Duration::from_micros(wait * 300)) => {}
        }
    }
    assert_eq!(session.with_log(|log| log.clone()).await.unwrap(), before);
    let (asked, reduced) = ready(&mut session).await;
    assert!(!asked.is_empty() && !reduced.is_empty());
    assert_eq!((asked, reduced), ready(&mut undisturbed).await);
}

/// Another task may reduce the window while a summariser is asked. Its answer is then useless, but was
/// charged.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_summary_is_charged_and_requested_again() {
    let harbour = Harbour::new();
    let mut session = open_with_model(&harbour).await;
    fill(&mut session, 8).await;
    session.prompt("word ".repeat(8_000)).await.unwrap();
    let handle = session.handle().clone();
    let Prepared::Summarise(late) = session.prepare().await.unwrap() else { panic!("no summary is needed") };
    let hook = HookText { context: vec!["Name the berth.".into()], ..HookText::default() };
    assert!(handle.set_summary_hook(hook).await.unwrap());
    let reply = |text: &str| Ok(Reply { cost: Some(0.25), ..Reply::finished(text) });
    assert_eq!(late.answer(reply("## Goal\nToo late.")).await.unwrap(), None);
    let Prepared::Summarise(again) = session.prepare().await.unwrap() else {
        panic!("it is not asked again")
    };
    assert!(again.prompt().contains("Name the berth."));
    let of = again.of;
    again.answer(reply("## Goal\nIn time.")).await.unwrap();
    for _ in 1..of {
        let Prepared::Summarise(next) = session.prepare().await.unwrap() else {
            panic!("{of} are asked for")
        };
        next.answer(reply("## Goal\nIn time.")).await.unwrap();
    }
    let Prepared::Ready(_) = session.prepare().await.unwrap() else { panic!("it does not fit") };
    let cost = session.with_log(|log| {
        let summary = log.iter().find(|message| message.info.summary).unwrap();
        assert!(summary.text().contains("In time."), "{}", summary.text());
        summary.info.cost.as_ref().unwrap().as_f64().unwrap()
    });
    assert_eq!(cost.await.unwrap(), 0.25 * (of + 1) as f64);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_on_demand_can_be_undone() {
    let harbour = Harbour::new();
    let mut session = open_with_model(&harbour).await;
    fill(&mut session, 6).await;
    let before = session.window().await.unwrap();
    let mut asked = Vec::new();
    let outcome = session
        .compact(Some("the depths"), async |request| {
            asked.push(request.prompt().to_owned());
            Ok(Reply::finished("## Goal\nSounded."))
        })
        .await
        .unwrap();
    assert!(asked.iter().any(|prompt| prompt.contains("the depths")), "{asked:?}");
    let [receipt] = &outcome.reduction.receipts[..] else { panic!("{:?}", outcome.reduction.receipts) };
    assert!(format!("{:?}", session.window().await.unwrap()).contains("Sounded."));
    session.undo(&receipt.id).await.unwrap();
    assert_eq!(session.window().await.unwrap(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_whose_step_is_dropped_is_cancelled() {
    let harbour = Harbour::new();
    let mut session = open(&harbour).await;
    fill(&mut session, 6).await;
    let mut compaction = session.begin_compaction(None).await.unwrap();
    tokio::select! {
        biased;
        _ = compaction.step() => panic!("a step takes longer than nothing"),
        () = std::future::ready(()) => {}
    }
    assert!(matches!(compaction.step().await, Err(SessionError::Stopped)));
}

#[test]
fn types_and_futures_of_a_host_are_send() {
    fn sent<T: Send + 'static>() {}
    fn shared<T: Send + Sync + Clone + 'static>() {}
    fn spawned<F: Future + Send>(_: fn(&'static mut Session) -> F) {}
    sent::<Session>();
    sent::<plimsoll_session::Compaction>();
    shared::<SessionHandle>();
    shared::<ToolCall>();
    shared::<SessionBuilder>();
    spawned(|session| session.prepare());
    spawned(|session| session.prompt("How deep is it?"));
}

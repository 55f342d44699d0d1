//! Exact counts are made once for each text of a stored session.

use plimsoll::request_tokens;
use plimsoll_session::blocking::Driver;
use plimsoll_session::{
    AnswerEvent, Counting, Figures, Limits, Message, Millis, Part, PruneChoice, RequestOverhead, SessionId,
    Tokens, ToolState, Usage,
};
use plimsoll_store::PageRequest;
use plimsoll_tokens::Bpe;
use serde_json::json;

use crate::support::{Harbour, NOW, answer, model, ready, request};

const TURNS: u64 = 40;

/// A session that another tool recorded with its usage, and how many bytes of text it has.
fn recorded(harbour: &Harbour) -> (SessionId, u64) {
    let session = harbour.session("ses_1");
    let mut driver = harbour.builder().session(session.clone()).open_blocking().unwrap();
    let mut bytes = 0;
    for turn in 0..TURNS {
        let output = format!("{turn}: {}", "some words of a line\n".repeat(500));
        bytes += output.len() as u64;
        let at = Millis(NOW + turn);
        let name = |kind: &str| format!("{kind}_{turn:03}");
        let prompt =
            Message::user(name("msg_a").as_str().into(), name("prt_a").as_str().into(), "Read it.").at(at);
        let state = ToolState::completed(json!({ "path": "a.rs" }), output);
        let call = Part::tool(name("prt_b").as_str().into(), format!("call_{turn}"), "read", state);
        let mut answer = Message::assistant(name("msg_b").as_str().into(), vec![call]).at(at);
        answer.info.finish = Some("stop".into());
        answer.info.tokens = Some(Usage::new(Tokens(20_000 + turn * 2_500), Tokens(20)));
        driver.append(prompt).unwrap();
        driver.append(answer).unwrap();
    }
    driver.close().unwrap();
    (session, bytes)
}

fn open(harbour: &Harbour, session: &SessionId, figures: Figures) -> Driver {
    let builder = harbour.builder().figures(figures).counting(Counting::Calibrated);
    let builder = builder.model(model(Limits::new(400_000, 8_000))).session(session.clone());
    builder.open_blocking().unwrap()
}

/// Number of bytes that an operation counts.
fn counted<T>(work: impl FnOnce() -> T) -> (u64, T) {
    let before = Bpe::bytes_counted();
    let done = work();
    (Bpe::bytes_counted() - before, done)
}

#[test]
fn applying_a_plan_counts_each_text_once_and_an_undo_counts_none() {
    let harbour = Harbour::new();
    let (session, bytes) = recorded(&harbour);
    // Placeholders of cleared outputs, notes and the like are counted as well, and are small.
    let small = bytes / 20;
    let choice = PruneChoice::default();
    let (first, receipt) = counted(|| {
        let mut driver = open(&harbour, &session, Figures::Recorded);
        let pruned = driver.prune_choice(&choice, "test").unwrap();
        driver.close().unwrap();
        pruned.receipt().unwrap()
    });
    assert!((bytes..bytes + small).contains(&first), "{first} of {bytes}");
    let (again, ()) = counted(|| {
        let mut driver = open(&harbour, &session, Figures::Recorded);
        driver.undo(&receipt.id).unwrap();
        driver.close().unwrap();
    });
    assert!(again < small, "{again} of {bytes}");
}

#[test]
fn a_turn_on_a_long_session_counts_only_what_no_turn_before_has_counted() {
    let harbour = Harbour::new();
    let (session, bytes) = recorded(&harbour);
    let prepare = || {
        let mut driver = open(&harbour, &session, Figures::Driven);
        drop(driver.prepare().unwrap());
        driver.close().unwrap();
    };
    let (first, ()) = counted(prepare);
    let (again, ()) = counted(prepare);
    assert!(first >= bytes && again < bytes / 20, "{first}, then {again} of {bytes}");
}

#[test]
fn the_counts_that_are_stored_are_those_of_the_texts() {
    let harbour = Harbour::new();
    let (session, _) = recorded(&harbour);
    open(&harbour, &session, Figures::Recorded).close().unwrap();
    let known = |harbour: &Harbour| {
        let request = PageRequest { from: None, oldest_first: true, most: 1_000 };
        let page = harbour.archive.store().page(&session, &request).unwrap();
        let parts = page.messages.into_iter().flat_map(|message| message.parts);
        let texts = parts.filter_map(|part| Some(part.as_tool()?.state.output.clone().unwrap()));
        texts
            .map(|text| (text.count_by("o200k"), plimsoll::Counter::count(&Bpe::O200k, &text)))
            .collect::<Vec<_>>()
    };
    let all = known(&harbour);
    assert_eq!(all.len() as u64, TURNS);
    for (stored, exact) in all {
        assert_eq!(stored, Some(exact));
    }
}

/// The system prompt and the tools are part of every figure, and seldom change.
#[test]
fn the_overhead_is_counted_once_until_the_counter_or_its_texts_change() {
    let harbour = Harbour::new();
    let system = "You are the pilot of this harbour. ".repeat(1_000);
    let builder = harbour.builder().counting(Counting::Calibrated).system(system.as_str());
    let builder = builder.model(model(Limits::new(400_000, 8_000)));
    let mut driver = builder.session(harbour.session("ses_1")).open_blocking().unwrap();
    driver.prompt("How deep is it?").unwrap();
    let bytes = system.len() as u64;
    let fixed = |driver: &Driver| {
        let messages = request_tokens(&driver.window(), RequestOverhead::default(), &*driver.counter());
        driver.load().unwrap().load.estimate - messages
    };
    let (first, before) = counted(|| fixed(&driver));
    assert!(first >= bytes && before > Tokens(7_000), "{first} of {bytes}, {before}");
    let (again, ()) = counted(|| {
        ready(&mut driver, "");
        driver.end_turn().unwrap();
        assert_eq!(fixed(&driver), before);
    });
    assert!(again < bytes / 10, "{again} of {bytes}");
    // Usage shows that the model counts more than its vocabulary does.
    for turn in 1..20 {
        driver.prompt("word ".repeat(1_000)).unwrap();
        let usage = Usage::new(Tokens(7_000 + turn * 2_000), Tokens(5));
        answer(request(&mut driver), [AnswerEvent::Text("Yes.".into())], Some(usage));
    }
    assert!(fixed(&driver) > before, "{} is not more than {before}", fixed(&driver));
    driver.set_system("Short.");
    let short = fixed(&driver);
    assert!(short.0 < before.0 / 20, "{short}");
    driver.set_tools(["depth\nReturns the depth of a berth.\n{}".repeat(100)]);
    assert!(fixed(&driver).0 > short.0 * 20, "{}", fixed(&driver));
}

//! R160: a compaction that is prepared beside the running turn, from the soft line on.

use std::sync::Arc;

use plimsoll::compact::accept::Reply;
use plimsoll::compact::request::Summariser;
use plimsoll::{Fixed, Limits, Plan, Policy, Preset, Tokens};
use plimsoll_session::{AnswerEnd, AnswerEvent, Climb, ClimbStep, Climbed, Driver, Settings};
use serde_json::json;

use crate::support::{Harbour, ready, say, shown};

/// The default policy at the time of writing, with a soft line at half of the line.
fn policy() -> Arc<Policy> {
    let mut spec = Preset::Plimsoll.policy().into_spec();
    spec.overflow.soft_share = Some(0.5);
    Arc::new(Policy::new(spec).unwrap())
}

fn open(harbour: &Harbour) -> Driver {
    let session = harbour.session("ses_1");
    let summariser = Some(Summariser::own(Limits::new(32_000, 4_000)));
    let settings = Settings { policy: policy(), summariser, ..harbour.settings() };
    Driver::open(Arc::clone(&harbour.archive), &session, settings).unwrap()
}

/// A question and an answer of about 3,400 tokens together.
fn exchange(driver: &mut Driver, number: u64) {
    driver.prompt(format!("Prompt {number}: {}", "word ".repeat(800))).unwrap();
    say(driver, &format!("Answer {number}: {}", "answer ".repeat(1_350)));
}

fn climb(mut climb: Climb, reply: &Result<Reply, String>) -> (Climbed, usize) {
    let mut asked = 0;
    loop {
        match climb.step().unwrap() {
            ClimbStep::Ask(_) => {
                asked += 1;
                climb.answer(reply.clone()).unwrap();
            }
            ClimbStep::Done(climbed) => return (*climbed, asked),
        }
    }
}

fn summary() -> Result<Reply, String> {
    Ok(Reply::finished("## Goal\nWhat was prepared ahead."))
}

#[test]
fn r160_nothing_is_prepared_below_the_soft_line_or_without_one() {
    let harbour = Harbour::new();
    let mut driver = open(&harbour);
    exchange(&mut driver, 0);
    assert!(driver.begin_early(Fixed::default()).is_none(), "it is below the soft line");
    let mut plain = harbour.open_with_model("ses_2");
    (0..7).for_each(|number| exchange(&mut plain, number));
    assert!(plain.begin_early(Fixed::default()).is_none(), "the policy has no soft line");
    let session = harbour.session("ses_3");
    let settings = Settings { policy: policy(), ..harbour.settings() };
    let mut alone = Driver::open(Arc::clone(&harbour.archive), &session, settings).unwrap();
    (0..7).for_each(|number| exchange(&mut alone, number));
    assert!(alone.begin_early(Fixed::default()).is_none(), "nobody can be asked");
}

#[test]
fn r160_what_was_prepared_waits_for_the_line_and_hides_nothing_that_came_meanwhile() {
    let harbour = Harbour::new();
    let mut driver = open(&harbour);
    (0..5).for_each(|number| exchange(&mut driver, number));
    let early = driver.begin_early(Fixed::default()).expect("it is over the soft line");
    assert!(driver.begin_early(Fixed::default()).is_none(), "one at a time");
    exchange(&mut driver, 5);
    let (climbed, asked) = climb(early, &summary());
    assert_eq!(asked, 1);
    assert!(driver.hold(climbed));
    driver.prompt("Still under the line?").unwrap();
    let content = ready(&mut driver, "never asked for");
    assert_eq!(content.receipts, [], "it waits for the line");
    assert!(shown(&driver).contains("Prompt 0:"));
    say(&mut driver, "Yes.");
    (6..9).for_each(|number| exchange(&mut driver, number));
    driver.prompt("And now?").unwrap();
    let content = ready(&mut driver, "never asked for");
    assert_eq!(content.receipts.len(), 1);
    assert!(matches!(content.receipts[0].plan, Plan::Compact(_)));
    assert!(content.load.tokens <= Tokens(28_000), "{}", content.load.tokens);
    let text = shown(&driver);
    for there in
        ["What was prepared ahead.", "Prompt 5:", "Answer 5:", "Still under", "Prompt 7:", "And now?"]
    {
        assert!(text.contains(there), "{there}");
    }
    assert!(!text.contains("Prompt 0:") && !text.contains("never asked for"));
    let last = content.window.messages.last().unwrap();
    assert!(serde_json::to_string(last).unwrap().contains("And now?"), "the prompt is the last word");
    assert_eq!(driver.log(), &harbour.stored(&driver));
    let undone = driver.undo(&content.receipts[0].id, Fixed::default()).unwrap();
    assert!(undone.reason.contains("undo"));
    assert!(shown(&driver).contains("Prompt 0:"), "it can be undone like any other");
}

#[test]
fn r160_a_call_that_was_open_when_it_was_prepared_keeps_its_result() {
    let harbour = Harbour::new();
    let mut driver = open(&harbour);
    (0..6).for_each(|number| exchange(&mut driver, number));
    driver.prompt("Read it").unwrap();
    ready(&mut driver, "");
    driver.begin_answer(None).unwrap();
    driver.write(AnswerEvent::CallBegin { call: "call_1".into(), tool: "read".into() }).unwrap();
    let call = driver.write(AnswerEvent::CallReady(json!({ "path": "a.rs" }))).unwrap().unwrap();
    driver.end_answer(AnswerEnd::Finished { reason: "tool_use".into(), usage: None, cost: None }).unwrap();
    let early = driver.begin_early(Fixed::default()).unwrap();
    driver.start_call(&call).unwrap();
    driver
        .take_output(
            &call,
            &mut format!("the harbour\n{}", "it is deep, and cold too\n".repeat(1_900)).as_bytes(),
        )
        .unwrap();
    assert!(driver.hold(climb(early, &summary()).0));
    let content = ready(&mut driver, "never asked for");
    assert_eq!(content.receipts.len(), 1);
    let text = shown(&driver);
    assert!(text.contains("Read it") && text.contains("the harbour") && text.contains("prepared ahead"));
    assert!(
        !driver.log().iter().any(plimsoll::Message::is_continue),
        "the result itself is the word to go on"
    );
}

#[test]
fn r160_a_failed_preparation_leaves_everything_as_it_was_and_is_not_repeated() {
    let harbour = Harbour::new();
    let mut driver = open(&harbour);
    (0..5).for_each(|number| exchange(&mut driver, number));
    let before = driver.log().clone();
    let early = driver.begin_early(Fixed::default()).unwrap();
    let (climbed, _) = climb(early, &Err("the server is down".into()));
    assert!(climbed.outcome.reduction.receipts.is_empty(), "no summary without a model is made ahead");
    assert!(!driver.hold(climbed));
    assert_eq!(driver.log(), &before);
    assert!(driver.begin_early(Fixed::default()).is_none(), "not again at every step");
    (5..9).for_each(|number| exchange(&mut driver, number));
    driver.prompt("Go on").unwrap();
    let content = ready(&mut driver, "## Goal\nThe ordinary way.");
    assert!(shown(&driver).contains("The ordinary way."));
    assert_eq!(content.receipts.len(), 1);
}

#[test]
fn r160_what_was_prepared_before_another_reduction_is_dropped() {
    let harbour = Harbour::new();
    let mut driver = open(&harbour);
    (0..5).for_each(|number| exchange(&mut driver, number));
    let early = driver.begin_early(Fixed::default()).unwrap();
    driver.compact(Fixed::default(), |_| Ok(Reply::finished("## Goal\nA person asked."))).unwrap();
    assert!(!driver.hold(climb(early, &summary()).0));
    assert!(shown(&driver).contains("A person asked.") && !shown(&driver).contains("prepared ahead"));
}

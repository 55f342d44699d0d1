//! R160: a compaction that is prepared while a turn runs, from the soft line on.

use std::sync::Arc;

use plimsoll::policy::{RequestForm, Thrift};
use plimsoll_session::blocking::Driver;
use plimsoll_session::{
    Climb, ClimbOutcome, ClimbStep, Plan, Policy, PolicySpec, Prepared, Preset, Reply, Summariser,
    SummaryForm, SummaryRequest, Tokens,
};
use serde_json::json;

use crate::support::{Harbour, LIMITS, answer, call, ready, request, say, shown};

/// The default policy at the time of writing, with a soft line at half of the line.
fn policy() -> Arc<Policy> {
    let mut spec = Preset::Plimsoll.policy().into_spec();
    spec.overflow.soft_share = Some(0.5);
    // Whatever it costs; the default is more careful.
    spec.overflow.soft_when_free = false;
    Arc::new(Policy::new(spec).unwrap())
}

fn open(harbour: &Harbour) -> Driver {
    open_as(harbour, "ses_1", policy(), Some(own()))
}

fn open_as(harbour: &Harbour, id: &str, policy: Arc<Policy>, summariser: Option<Summariser>) -> Driver {
    let builder = harbour.builder().policy(policy).summariser(summariser);
    builder.session(harbour.session(id)).open_blocking().unwrap()
}

/// A question and an answer of about 3,400 tokens together.
fn exchange(driver: &mut Driver, number: u64) {
    driver.prompt(format!("Prompt {number}: {}", "word ".repeat(800))).unwrap();
    say(driver, &format!("Answer {number}: {}", "answer ".repeat(1_350)));
}

fn climb(mut climb: Climb, reply: &Result<Reply, String>) -> (ClimbOutcome, usize) {
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

const SUMMARY: &str = "## Goal\nWhat was prepared ahead.";

fn summary() -> Result<Reply, String> {
    Ok(Reply::finished(SUMMARY))
}

#[test]
fn r160_nothing_is_prepared_below_the_soft_line_or_without_one() {
    let harbour = Harbour::new();
    let mut driver = open(&harbour);
    exchange(&mut driver, 0);
    assert!(driver.begin_precompaction().unwrap().is_none(), "it is below the soft line");
    let mut spec = Preset::Plimsoll.policy().into_spec();
    spec.overflow.soft_share = None;
    let mut plain = open_as(&harbour, "ses_2", Arc::new(Policy::new(spec).unwrap()), Some(own()));
    (0..7).for_each(|number| exchange(&mut plain, number));
    assert!(plain.begin_precompaction().unwrap().is_none(), "the policy has no soft line");
    let mut alone = open_as(&harbour, "ses_3", policy(), None);
    (0..7).for_each(|number| exchange(&mut alone, number));
    assert!(alone.begin_precompaction().unwrap().is_none(), "no summariser is available");
}

#[test]
fn r160_a_preparation_waits_for_the_line_and_hides_no_later_message() {
    let harbour = Harbour::new();
    let mut driver = open(&harbour);
    (0..5).for_each(|number| exchange(&mut driver, number));
    let early = driver.begin_precompaction().unwrap().expect("it is over the soft line");
    assert!(driver.begin_precompaction().unwrap().is_none(), "one at a time");
    exchange(&mut driver, 5);
    let (climbed, asked) = climb(early, &summary());
    assert_eq!(asked, 1);
    assert!(driver.stash_precompaction(climbed));
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
    let undone = driver.undo(&content.receipts[0].id).unwrap();
    assert!(undone.reason.contains("undo"));
    assert!(shown(&driver).contains("Prompt 0:"), "it can be undone like any other");
}

#[test]
fn r160_a_call_that_was_open_at_preparation_keeps_its_result() {
    let harbour = Harbour::new();
    let mut driver = open(&harbour);
    (0..6).for_each(|number| exchange(&mut driver, number));
    driver.prompt("Read it").unwrap();
    let done = answer(request(&mut driver), call(1, "read", json!({ "path": "a.rs" })), None);
    let made = &done.calls[0].part;
    let early = driver.begin_precompaction().unwrap().unwrap();
    driver.call(made).unwrap().start().unwrap();
    let output = format!("the harbour\n{}", "it is deep, and cold too\n".repeat(1_900));
    driver.call(made).unwrap().finish_with(&mut output.as_bytes()).unwrap();
    assert!(driver.stash_precompaction(climb(early, &summary()).0));
    let content = ready(&mut driver, "never asked for");
    assert_eq!(content.receipts.len(), 1);
    let text = shown(&driver);
    assert!(text.contains("Read it") && text.contains("the harbour") && text.contains("prepared ahead"));
    assert!(!driver.log().iter().any(plimsoll::Message::is_continue), "the result itself continues the turn");
}

#[test]
fn r160_a_failed_preparation_changes_nothing_and_is_not_repeated() {
    let harbour = Harbour::new();
    let mut driver = open(&harbour);
    (0..5).for_each(|number| exchange(&mut driver, number));
    let before = driver.log().clone();
    let early = driver.begin_precompaction().unwrap().unwrap();
    let (climbed, _) = climb(early, &Err("the server is down".into()));
    assert!(climbed.outcome.reduction.receipts.is_empty(), "no summary without a model is made ahead");
    assert!(!driver.stash_precompaction(climbed));
    assert_eq!(driver.log(), &before);
    assert!(driver.begin_precompaction().unwrap().is_none(), "not again at every step");
    (5..9).for_each(|number| exchange(&mut driver, number));
    driver.prompt("Go on").unwrap();
    let content = ready(&mut driver, "## Goal\nThe ordinary way.");
    assert!(shown(&driver).contains("The ordinary way."));
    assert_eq!(content.receipts.len(), 1);
}

#[test]
fn r160_a_preparation_before_another_reduction_is_dropped() {
    let harbour = Harbour::new();
    let mut driver = open(&harbour);
    (0..5).for_each(|number| exchange(&mut driver, number));
    let early = driver.begin_precompaction().unwrap().unwrap();
    driver.compact(|_| Ok(Reply::finished("## Goal\nThe user asked."))).unwrap();
    assert!(!driver.stash_precompaction(climb(early, &summary()).0));
    assert!(shown(&driver).contains("The user asked.") && !shown(&driver).contains("prepared ahead"));
}

/// A call of `read` whose output has that many lines.
fn read(driver: &mut Driver, number: usize, lines: usize) {
    crate::support::read(driver, number, &"it is deep, and cold too\n".repeat(lines));
}

/// The default in a window of 32,000 tokens, whose line is at 28,000, with a tail of 7,000.
fn careful(change: impl FnOnce(&mut PolicySpec)) -> Arc<Policy> {
    let mut spec = Preset::Plimsoll.policy().into_spec();
    spec.thrift = Thrift::Off;
    (spec.compact.tail_share, spec.compact.tail_min, spec.compact.tail_max) =
        (0.25, Tokens(2_000), Tokens(15_000));
    change(&mut spec);
    Arc::new(Policy::new(spec).unwrap())
}

/// A session of `exchanges` under a policy, of which an exchange has about 3,400 tokens.
fn session(
    harbour: &Harbour,
    id: &str,
    policy: Arc<Policy>,
    summariser: Summariser,
    exchanges: u64,
) -> Driver {
    let mut driver = open_as(harbour, id, policy, Some(summariser));
    (0..exchanges).for_each(|number| exchange(&mut driver, number));
    driver
}

fn own() -> Summariser {
    Summariser::own(LIMITS)
}

#[test]
fn r160_by_default_a_compaction_is_prepared_if_it_costs_no_more() {
    let harbour = Harbour::new();
    let overflow = &Policy::default().overflow;
    assert!(overflow.soft_share.is_some() && overflow.soft_when_free);
    let begins = |id: &str, policy, summariser, exchanges| {
        let mut driver = session(&harbour, id, policy, summariser, exchanges);
        driver.begin_precompaction().unwrap().is_some()
    };
    // Eight exchanges are 27,200 tokens, seven 23,800.
    assert!(begins("ses_1", careful(|_| {}), own(), 8));
    assert!(!begins("ses_2", careful(|_| {}), own(), 7), "it is below the soft line");
    // Another model has nothing in its cache, now or at the line.
    let other = Summariser::named("other", LIMITS);
    assert!(!begins("ses_3", careful(|_| {}), other, 8));
    assert!(!begins("ses_4", careful(|spec| spec.compact.request = RequestForm::Separate), own(), 8));
    // What may still come would make the window longer than after a compaction at the line.
    let short = careful(|spec| spec.compact.tail_max = Tokens(2_400));
    assert!(!begins("ses_5", short, own(), 8));
}

#[test]
fn r160_nothing_is_prepared_if_a_prune_is_enough_at_the_line() {
    let harbour = Harbour::new();
    let policy = careful(|spec| {
        spec.prune.protect_tokens = Tokens(1_000);
        spec.prune.min_tokens = Tokens(1_000);
        spec.prune.active_turns = 0;
    });
    let mut driver = session(&harbour, "ses_1", policy, own(), 6);
    driver.prompt("Read it").unwrap();
    for number in 0..2 {
        read(&mut driver, number, 500);
    }
    assert!(driver.begin_precompaction().unwrap().is_none());
}

/// Price of a summary request in tokens of plain input: at the end of the window it is read from the cache.
fn price(request: &SummaryRequest) -> f64 {
    let share = match request.form {
        SummaryForm::Appended { .. } => Policy::default().cache.read_price,
        SummaryForm::Separate { .. } => 1.0,
    };
    request.tokens.0 as f64 * share
}

/// A prepared summary is asked for on a shorter window, and the window afterwards is no longer than after a compaction
/// at the line.
#[test]
fn r160_a_default_preparation_costs_less_and_leaves_no_more_than_a_compaction_at_the_line() {
    let harbour = Harbour::new();
    // About 25,400 tokens: just over the soft line, so that much of the tail has to be left for what is still to come.
    let begun = |id: &str, policy: Arc<Policy>| {
        let mut driver = session(&harbour, id, policy, own(), 7);
        driver.prompt(format!("More: {}", "word ".repeat(1_400))).unwrap();
        say(&mut driver, "Done.");
        driver
    };
    let mut ahead = begun("ses_1", careful(|_| {}));
    let mut climb_ahead = ahead.begin_precompaction().unwrap().expect("it costs no more");
    let ClimbStep::Ask(asked_ahead) = climb_ahead.step().unwrap() else { panic!("a summary is asked for") };
    climb_ahead.answer(summary()).unwrap();
    let ClimbStep::Done(climbed) = climb_ahead.step().unwrap() else { panic!("it is done") };
    assert!(ahead.stash_precompaction(*climbed));
    let late = careful(|spec| spec.overflow.soft_share = None);
    let mut at_line = begun("ses_2", late);
    let mut asked_late = None;
    for driver in [&mut ahead, &mut at_line] {
        driver.prompt(format!("One more: {}", "word ".repeat(2_150))).unwrap();
    }
    if let Prepared::Summarise(call) = at_line.prepare().unwrap() {
        asked_late = Some(price(&call));
        call.answer(summary()).unwrap();
    }
    // It is asked for in two pieces, because the window has no room left to append to.
    let (ahead, at_line) = (ready(&mut ahead, "never asked for"), ready(&mut at_line, SUMMARY));
    assert_eq!((ahead.receipts.len(), at_line.receipts.len()), (1, 1));
    assert!(price(&asked_ahead) < asked_late.unwrap(), "{} and {asked_late:?}", price(&asked_ahead));
    let (ahead, at_line) = (ahead.load.tokens, at_line.load.tokens);
    // The marker names its figures.
    assert!(
        ahead <= at_line + Tokens(20),
        "{ahead} after one that was prepared, {at_line} after one at the line"
    );
}

/// The summary is paid for. A prune that only saves money would make it useless.
#[test]
fn r160_a_preparation_is_not_dropped_for_a_prune_that_saves_money() {
    let harbour = Harbour::new();
    let policy = careful(|spec| {
        (spec.overflow.soft_share, spec.overflow.soft_when_free) = (Some(0.5), false);
        spec.thrift = Thrift::Frugal;
    });
    let mut driver = session(&harbour, "ses_1", policy, own(), 1);
    for number in 0..6 {
        driver.prompt(format!("Read it {number}")).unwrap();
        read(&mut driver, number, 560);
        say(&mut driver, "Read.");
    }
    let early = driver.begin_precompaction().unwrap().expect("it is over the soft line");
    assert!(driver.stash_precompaction(climb(early, &summary()).0));
    harbour.wait(3_600_000);
    driver.prompt("Go on").unwrap();
    let content = ready(&mut driver, "never asked for");
    assert_eq!(content.receipts, [], "it waits for the line");
    (7..10).for_each(|number| exchange(&mut driver, number));
    driver.prompt("And now?").unwrap();
    let content = ready(&mut driver, "never asked for");
    assert!(matches!(content.receipts[0].plan, Plan::Compact(_)), "{:?}", content.receipts);
    assert!(shown(&driver).contains("What was prepared ahead."));
}

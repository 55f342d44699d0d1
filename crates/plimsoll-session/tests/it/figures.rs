//! The inspection, receipts and an undo show the same figures for one window.

use plimsoll_session::blocking::Driver;
use plimsoll_session::{
    AnswerEvent, Limits, Message, Part, PinTarget, Policy, Receipt, RequestOverhead, SessionId, SessionLoad,
    Tokens, Usage, UsageTrust,
};

use crate::support::{Harbour, answer, model, request, turn};

const FIXED: RequestOverhead = RequestOverhead { system: Tokens(2_000), tools: Tokens(1_000) };

fn open(harbour: &Harbour, believed: UsageTrust) -> Driver {
    open_again(harbour, &harbour.session("ses_1"), believed)
}

fn open_again(harbour: &Harbour, session: &SessionId, believed: UsageTrust) -> Driver {
    // Otherwise the turns themselves would clear what is to be pruned here.
    let policy = Policy::from_json(r#"{ "thrift": "off" }"#).unwrap();
    let builder = harbour.builder().believed_usage(believed).policy(policy).overhead(FIXED);
    builder.model(model(Limits::new(400_000, 8_000))).session(session.clone()).open_blocking().unwrap()
}

fn read_much(driver: &mut Driver) {
    for number in 0..10 {
        turn(driver, &format!("Read {number}."), &"some words of a line\n".repeat(2_000));
    }
}

/// An answer with usage from the provider.
fn answer_for(driver: &mut Driver, charged: Tokens) {
    driver.prompt("And now?").unwrap();
    let usage = Some(Usage::new(charged, Tokens(4)));
    answer(request(driver), [AnswerEvent::Text("Nothing more.".into())], usage);
}

fn weigh(driver: &Driver) -> SessionLoad {
    driver.load().unwrap()
}

fn tokens(driver: &Driver) -> Tokens {
    weigh(driver).load.tokens
}

fn assert_consistent(driver: &Driver) {
    let report = driver.inspect().unwrap();
    let sum: Tokens = report.kinds().iter().map(|kind| kind.tokens).sum();
    assert_eq!(sum, report.window, "all kinds together are the window");
    assert_eq!(report.window, weigh(driver).load.tokens, "the report is of the window that is shown");
}

type Reduce = fn(&mut Driver) -> Receipt;

fn assert_agrees(driver: &mut Driver, reduce: Reduce) {
    let before = tokens(driver);
    assert_consistent(driver);
    let receipt = reduce(driver);
    assert_eq!(receipt.before, before, "what was there before is what was shown before");
    let after = tokens(driver);
    assert!(after < before);
    assert_eq!(receipt.after, after, "what is left is what is shown");
    assert_consistent(driver);
    driver.undo(&receipt.id).unwrap();
    assert_eq!(tokens(driver), before, "an undo restores it");
    assert_consistent(driver);
}

fn prune(driver: &mut Driver) -> Receipt {
    driver.prune("a test").unwrap().receipt().unwrap()
}

fn compact(driver: &mut Driver) -> Receipt {
    let outcome = driver.compact(|_| panic!("there is no model")).unwrap();
    outcome.reduction.receipts[0].clone()
}

fn pin(driver: &mut Driver) -> Receipt {
    driver.pin(&PinTarget::Words("Never touch the tests.".into())).unwrap()
}

#[test]
fn meter_receipts_and_undo_agree_for_any_usage() {
    // Far more than the estimate, a little more, less, and nothing at all.
    for charged in [290_000, 130_000, 60_000, 0] {
        let harbour = Harbour::new();
        let mut driver = open(&harbour, UsageTrust::Own);
        read_much(&mut driver);
        answer_for(&mut driver, Tokens(charged));
        let load = weigh(&driver).load;
        assert_eq!(load.usage_of.is_some(), charged > 0);
        if charged > 0 {
            assert_eq!(load.tokens, Tokens(charged + 4));
        }
        assert_agrees(&mut driver, prune);
        assert_agrees(&mut driver, compact);
        // A newer figure counts from then on.
        answer_for(&mut driver, Tokens(95_000));
        assert_eq!(tokens(&driver), Tokens(95_004));
        assert_agrees(&mut driver, compact);
        assert_agrees(&mut driver, prune);
    }
}

/// Reported of `plimsoll chat`: after a reduction and a restart the meter fell back to an estimate until the next
/// answer.
#[test]
fn a_reopened_session_keeps_its_scale() {
    for charged in [290_000, 130_000, 60_000] {
        let pairs: [[Reduce; 2]; 2] = [[prune, compact], [compact, pin]];
        for [reduce, further] in pairs {
            let harbour = Harbour::new();
            let mut driver = open(&harbour, UsageTrust::Own);
            let session = driver.session().clone();
            read_much(&mut driver);
            answer_for(&mut driver, Tokens(charged));
            let before = tokens(&driver);
            let receipt = reduce(&mut driver);
            let after = tokens(&driver);
            drop(driver);
            let mut driver = open_again(&harbour, &session, UsageTrust::Own);
            assert_near(tokens(&driver), after);
            assert_consistent(&driver);
            // What is said since weighs what it weighs.
            driver.prompt("word ".repeat(1_000)).unwrap();
            let grown = tokens(&driver) - after;
            assert!((500..4_000).contains(&grown.0), "{charged}: {grown}");
            // A further reduction begins where the figure is.
            assert_near(further(&mut driver).before, after + grown);
            drop(driver);
            let mut driver = open_again(&harbour, &session, UsageTrust::Own);
            let newest = driver.archive().store().newest_receipts(driver.session(), 1).unwrap();
            driver.undo(&newest[0].id).unwrap();
            drop(driver);
            let mut driver = open_again(&harbour, &session, UsageTrust::Own);
            assert_near(tokens(&driver), after + grown);
            driver.undo(&receipt.id).unwrap();
            assert_near(tokens(&driver), before + grown);
        }
    }
}

/// Within one percent: the counter has to learn again.
fn assert_near(shown: Tokens, expected: Tokens) {
    assert!(shown.0.abs_diff(expected.0) * 100 <= expected.0, "{shown} is not near {expected}");
}

#[test]
fn usage_that_another_tool_recorded_does_not_count_for_our_requests() {
    let harbour = Harbour::new();
    let mut driver = open(&harbour, UsageTrust::Own);
    read_much(&mut driver);
    let estimate = weigh(&driver).load.estimate;
    // As after an import: an answer to a request with a system prompt and tools of another host.
    driver.append(Message::user("u".into(), "u.1".into(), "Hello")).unwrap();
    let mut answer = Message::assistant("a".into(), vec![Part::text("a.1".into(), "Hello.")]);
    answer.info.tokens = Some(Usage::new(Tokens(250_000), Tokens(5)));
    answer.info.finish = Some("stop".into());
    driver.append(answer).unwrap();
    let load = weigh(&driver).load;
    assert_eq!((load.tokens, load.usage_of), (load.estimate, None));
    assert!(load.estimate.0 - estimate.0 < 20);
    assert_agrees(&mut driver, prune);
    assert_agrees(&mut driver, compact);
}

#[test]
fn recorded_usage_counts_if_the_session_continues_unchanged() {
    let harbour = Harbour::new();
    let mut driver = open(&harbour, UsageTrust::Any);
    driver.append(Message::user("u".into(), "u.1".into(), "Hello")).unwrap();
    let mut answer = Message::assistant("a".into(), vec![Part::text("a.1".into(), "Hello.")]);
    answer.info.tokens = Some(Usage::new(Tokens(250_000), Tokens(5)));
    answer.info.finish = Some("stop".into());
    driver.append(answer).unwrap();
    assert_eq!(tokens(&driver), Tokens(250_005));
}

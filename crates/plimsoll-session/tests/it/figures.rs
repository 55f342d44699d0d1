//! The inspection, receipts and an undo tell the same figures about one window.

use plimsoll_session::blocking::Driver;
use plimsoll_session::{
    AnswerEvent, BelievedUsage, Fixed, Inspection, Limits, Message, Part, PinTarget, Policy, Receipt,
    SessionId, Tokens, Usage,
};

use crate::support::{Harbour, answer, model, request, turn};

const FIXED: Fixed = Fixed { system: Tokens(2_000), tools: Tokens(1_000) };

fn open(harbour: &Harbour, believed: BelievedUsage) -> Driver {
    open_again(harbour, &harbour.session("ses_1"), believed)
}

fn open_again(harbour: &Harbour, session: &SessionId, believed: BelievedUsage) -> Driver {
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

/// An answer for which the provider has counted so much.
fn answer_for(driver: &mut Driver, charged: Tokens) {
    driver.prompt("And now?").unwrap();
    let usage = Some(Usage::new(charged, Tokens(4)));
    answer(request(driver), [AnswerEvent::Text("Nothing more.".into())], usage);
}

fn inspect(driver: &Driver) -> Inspection {
    driver.inspect().unwrap()
}

fn tokens(driver: &Driver) -> Tokens {
    inspect(driver).load.tokens
}

/// All kinds and what is hidden, against the whole: one token for the rounding of each piece.
fn assert_adds_up(driver: &Driver) {
    let Inspection { kinds, scale, load, .. } = inspect(driver);
    let pieces = [
        kinds.fixed,
        kinds.system,
        kinds.user,
        kinds.assistant,
        kinds.thinking,
        kinds.calls,
        kinds.results,
        kinds.files,
        kinds.framing,
        scale.hidden(),
    ];
    let sum: Tokens = pieces.into_iter().sum();
    assert!(sum.0.abs_diff(load.tokens.0) < 200, "{sum} of {}", load.tokens);
}

type Reduce = fn(&mut Driver) -> Receipt;

fn assert_agrees(driver: &mut Driver, reduce: Reduce) {
    let before = tokens(driver);
    assert_adds_up(driver);
    let receipt = reduce(driver);
    assert_eq!(receipt.before, before, "what was there before is what was shown before");
    let after = tokens(driver);
    assert!(after < before);
    assert_eq!(receipt.after, after, "what is left is what is shown");
    assert_adds_up(driver);
    driver.undo(&receipt.id).unwrap();
    assert_eq!(tokens(driver), before, "undone, it is as it was");
    assert_adds_up(driver);
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
fn meter_receipts_and_undo_agree_whatever_the_provider_counts() {
    // Far more than the estimate, a little more, less, and nothing at all.
    for charged in [290_000, 130_000, 60_000, 0] {
        let harbour = Harbour::new();
        let mut driver = open(&harbour, BelievedUsage::Own);
        read_much(&mut driver);
        answer_for(&mut driver, Tokens(charged));
        let load = inspect(&driver).load;
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

/// Reported of `plimsoll chat`: after a reduction and a restart the meter fell back to an estimate until the next answer.
#[test]
fn a_reduced_session_is_told_on_the_same_scale_after_it_was_opened_again() {
    for charged in [290_000, 130_000, 60_000] {
        let pairs: [[Reduce; 2]; 2] = [[prune, compact], [compact, pin]];
        for [reduce, further] in pairs {
            let harbour = Harbour::new();
            let mut driver = open(&harbour, BelievedUsage::Own);
            let session = driver.session().clone();
            read_much(&mut driver);
            answer_for(&mut driver, Tokens(charged));
            let before = tokens(&driver);
            let receipt = reduce(&mut driver);
            let after = tokens(&driver);
            drop(driver);
            let mut driver = open_again(&harbour, &session, BelievedUsage::Own);
            assert_near(tokens(&driver), after);
            assert_adds_up(&driver);
            // What is said since weighs what it weighs.
            driver.prompt("word ".repeat(1_000)).unwrap();
            let grown = tokens(&driver) - after;
            assert!((500..4_000).contains(&grown.0), "{charged}: {grown}");
            // A further reduction begins where the figure is.
            assert_near(further(&mut driver).before, after + grown);
            drop(driver);
            let mut driver = open_again(&harbour, &session, BelievedUsage::Own);
            let newest = driver.archive().store().newest_receipts(driver.session(), 1).unwrap();
            driver.undo(&newest[0].id).unwrap();
            drop(driver);
            let mut driver = open_again(&harbour, &session, BelievedUsage::Own);
            assert_near(tokens(&driver), after + grown);
            driver.undo(&receipt.id).unwrap();
            assert_near(tokens(&driver), before + grown);
        }
    }
}

/// Within a hundredth: the counter has to learn anew what it had learned.
fn assert_near(shown: Tokens, expected: Tokens) {
    assert!(shown.0.abs_diff(expected.0) * 100 <= expected.0, "{shown} is not near {expected}");
}

#[test]
fn usage_that_another_tool_recorded_is_not_taken_for_our_own_requests() {
    let harbour = Harbour::new();
    let mut driver = open(&harbour, BelievedUsage::Own);
    read_much(&mut driver);
    let estimate = inspect(&driver).load.estimate;
    // As an import has it: an answer to a request with a system prompt and tools that are not ours.
    driver.append(Message::user("u".into(), "u.1".into(), "Hello")).unwrap();
    let mut answer = Message::assistant("a".into(), vec![Part::text("a.1".into(), "Hello.")]);
    answer.info.tokens = Some(Usage::new(Tokens(250_000), Tokens(5)));
    answer.info.finish = Some("stop".into());
    driver.append(answer).unwrap();
    let load = inspect(&driver).load;
    assert_eq!((load.tokens, load.usage_of), (load.estimate, None));
    assert!(load.estimate.0 - estimate.0 < 20);
    assert_agrees(&mut driver, prune);
    assert_agrees(&mut driver, compact);
}

#[test]
fn recorded_usage_holds_where_the_session_goes_on_as_it_was_recorded() {
    let harbour = Harbour::new();
    let mut driver = open(&harbour, BelievedUsage::Any);
    driver.append(Message::user("u".into(), "u.1".into(), "Hello")).unwrap();
    let mut answer = Message::assistant("a".into(), vec![Part::text("a.1".into(), "Hello.")]);
    answer.info.tokens = Some(Usage::new(Tokens(250_000), Tokens(5)));
    answer.info.finish = Some("stop".into());
    driver.append(answer).unwrap();
    assert_eq!(tokens(&driver), Tokens(250_005));
}

//! How heavy the next request is.

use plimsoll::count::{request_tokens, window_message_tokens};
use plimsoll::log::Effect;
use plimsoll::prune::{PruneItem, PrunePlan};
use plimsoll::receipt::Stamp;
use plimsoll::{
    CharCounter, Fixed, Load, Log, Message, Millis, Plan, Policy, Tokens, Usage, Window, WindowMessage,
    WindowRole,
};
use plimsoll_testkit::{History, histories, ids};
use proptest::prelude::*;

fn load(messages: &[Message]) -> Load {
    Load::of(messages, &Policy::default(), Fixed::default(), &CharCounter::default())
}

fn clear(log: &mut Log, now: Millis) {
    log.mark(&"m1.0".into(), Effect::clear(), &"rcp_1".into(), now).unwrap();
}

fn used(input: u64) -> Usage {
    Usage::new(Tokens(input), Tokens(50))
}

#[test]
fn without_usage_the_load_is_the_estimate() {
    let load = load(&History::new().user("abcd").messages());
    assert_eq!((load.tokens, load.estimate, load.usage_of), (Tokens(5), Tokens(5), None));
}

#[test]
fn usage_is_taken_and_only_what_came_since_is_estimated() {
    let log = History::new().user("u").say("a").usage(used(1_000)).user("abcdefgh").messages();
    let load = load(&log);
    assert_eq!(load.tokens, Tokens(1_050 + 2 + 4));
    assert_eq!(load.usage_of, Some("m1".into()));
}

#[test]
fn results_of_the_last_response_came_after_its_usage() {
    let log = History::new().user("u").tool("read", "x".repeat(400)).usage(used(1_000)).messages();
    assert_eq!(load(&log).tokens, Tokens(1_050 + 100 + 4));
}

/// opencode#26484: kept tail messages carry the figures of a window that is gone, and caused a second compaction.
#[test]
fn figures_of_the_tail_do_not_count_after_a_pivot() {
    let history = History::new().user("u").say("a").user("b").say("c").usage(used(90_000));
    let log = history.marker_with_tail("m2").summary("s").messages();
    assert_eq!(load(&log).usage_of, None);
    assert!(load(&log).tokens < Tokens(100));
}

#[test]
fn figures_from_before_a_prune_do_not_count() {
    let history = History::new().user("u").tool("read", "x").say("a").usage(used(90_000)).user("b");
    let mut log = history.log();
    assert_eq!(load(&log).usage_of, Some("m2".into()));
    clear(&mut log, plimsoll::Millis(1_000_000));
    assert_eq!(load(&log).usage_of, None);
}

/// openclaw#119824, crush#3620: zero and failed usage must not freeze the counter.
#[test]
fn zero_usage_and_failed_answers_are_passed_over() {
    let history = History::new().user("u").say("a").usage(used(700)).user("b").say("c");
    let log = history.usage(Usage::default()).messages();
    assert_eq!(load(&log).usage_of, Some("m1".into()));
}

/// One `now` for the answer and for what is done about it is the ordinary case.
#[test]
fn a_mark_of_the_same_moment_came_after_the_usage() {
    let mut log = History::new().user("u").tool("read", "x").say("a").usage(used(90_000)).log();
    let answered = log[2].info.time.as_ref().unwrap().completed.unwrap();
    clear(&mut log, answered);
    assert_eq!(load(&log).usage_of, None);
}

#[test]
fn figures_from_before_an_undo_do_not_count() {
    let (policy, now, mut ids) = (Policy::default(), Millis(9), ids());
    let mut log = History::new().user("u").tool("read", "x".repeat(40_000)).log();
    let item = PruneItem::output("m1.0".into(), "m1".into(), "read", Tokens(1));
    let plan = Plan::Prune(PrunePlan { items: vec![item], ..PrunePlan::default() });
    let stamp = Stamp { ids: &mut ids, now, policy: &policy, reason: "test" };
    let receipt = plan.apply(&mut log, stamp, |log| load(log).estimate).unwrap().unwrap();
    log.append(History::new().user("u").user("v").say("a").usage(used(700)).messages().remove(2)).unwrap();
    assert_eq!(load(&log).usage_of, Some("m2".into()));
    receipt.undo(&mut log, &mut ids, now).unwrap();
    assert_eq!(load(&log).usage_of, None);
    assert!(load(&log).tokens > Tokens(10_000));

    let history = History::new().user("u").say("x".repeat(40_000)).marker().summary("s").user("b").say("c");
    let mut log = history.usage(used(700)).log();
    assert_eq!(load(&log).usage_of, Some("m5".into()));
    log.set_aside(&"m2".into(), plimsoll::Millis(1_000_000)).unwrap();
    assert_eq!(load(&log).usage_of, None);
}

#[test]
fn usage_of_a_message_without_times_counts_as_long_as_nothing_is_marked() {
    let mut message = History::new().user("").say("a").usage(used(700)).messages().remove(1);
    message.info.time = None;
    let log = [History::new().user("u").messages(), vec![message]].concat();
    assert_eq!(load(&log).usage_of, Some("m1".into()));
}

/// Found by the properties: a late result stands with its call, before the response whose usage is known.
#[test]
fn a_late_result_counts_though_it_stands_before_the_usage() {
    let history = History::new().user("u").call("c1", "read").user("v").say("a").usage(used(1_000));
    let log = history.result("c1", &"x".repeat(4_000)).messages();
    assert!(load(&log).tokens > Tokens(1_050 + 950), "{:?}", load(&log));
}

proptest! {
    #[test]
    fn properties_what_came_since_a_response_is_what_its_window_has_gained(
        messages in histories(30),
        place in 0usize..30,
    ) {
        let (policy, counter, fixed) = (Policy::default(), CharCounter::default(), Fixed::default());
        let load = Load::of(&messages, &policy, fixed, &counter);
        if let Some(of) = load.usage_of {
            let place = messages.iter().position(|message| message.info.id == of).unwrap();
            let then = Window::of(&messages[..=place], &policy);
            let is_own = |message: &&WindowMessage| message.place == Some(place) && message.role == WindowRole::Tool;
            let own: Tokens =
                then.messages.iter().filter(is_own).map(|message| window_message_tokens(message, &counter)).sum();
            let since = load.estimate - (request_tokens(&then, fixed, &counter) - own);
            let usage = policy.overflow.load(messages[place].info.tokens.as_ref().unwrap());
            prop_assert_eq!(load.tokens, usage + since);
        }
        // Without usage there is nothing to build on.
        let bare: Vec<Message> = messages.into_iter().map(|mut message| {
            message.info.tokens = None;
            message
        }).collect();
        let load = Load::of(&bare[..place.min(bare.len())], &policy, fixed, &counter);
        prop_assert_eq!((load.tokens, load.usage_of), (load.estimate, None));
    }
}

//! Weight of the next request.

use plimsoll::log::Effect;
use plimsoll::prune::{PruneItem, PrunePlan};
use plimsoll::receipt::Stamp;
use plimsoll::{
    CharCounter, Counter, Load, Log, Message, MessageId, Millis, Plan, Policy, RequestOverhead, Tokens,
    Usage, Window, WindowMessage, WindowRole, request_tokens, window_message_tokens,
};
use plimsoll_testkit::{History, histories, ids};
use proptest::prelude::*;

fn load(messages: &[Message]) -> Load {
    Load::of(messages, &Policy::default(), RequestOverhead::default(), &CharCounter::default())
}

fn clear(log: &mut Log, now: Millis) {
    log.mark(&"m1.0".into(), Effect::clear(), &"rcp_1".into(), now).unwrap();
}

fn used(input: u64) -> Usage {
    Usage::new(Tokens(input), Tokens(50))
}

/// Counts a word as a token, as a vocabulary of which no other needs less than six tenths.
struct Vocabulary;

impl Counter for Vocabulary {
    fn name(&self) -> &'static str {
        "words"
    }

    fn count(&self, text: &str) -> Tokens {
        Tokens(text.split_whitespace().count() as u64)
    }

    fn least_share(&self) -> Option<f64> {
        Some(0.6)
    }
}

/// The response whose usage is believed, in a session with 10,000 of that word.
fn believed(word: &str, input: u64) -> Option<MessageId> {
    let log = History::new().user(word.repeat(10_000)).say("a").usage(used(input)).user("b").messages();
    Load::of(&log, &Policy::default(), RequestOverhead::default(), &Vocabulary).usage_of
}

#[test]
fn usage_of_half_of_the_tokens_is_not_believed() {
    assert_eq!(believed("word ", 5_000), None);
    assert_eq!(believed("word ", 5_900), None);
    assert_eq!(believed("word ", 6_100), Some("m1".into()), "a thrifty vocabulary");
    assert_eq!(believed("word ", 40_000), Some("m1".into()), "a wasteful one, or a long system prompt");
}

#[test]
fn vocabularies_are_not_compared_on_rare_scripts() {
    assert_eq!(believed("\u{1780}\u{17b6}\u{179a} ", 5_100), Some("m1".into()));
}

#[test]
fn usage_near_the_largest_number_is_not_believed() {
    for input in [50_000_001, u64::MAX / 2, u64::MAX] {
        assert_eq!(believed("word ", input), None, "{input}");
    }
    let mut total = used(20_000);
    total.total = Some(Tokens(u64::MAX));
    let log = History::new().user("word ").say("a").usage(total).messages();
    assert_eq!(load(&log).usage_of, None);
}

#[test]
fn without_usage_the_load_is_the_estimate() {
    let load = load(&History::new().user("abcd").messages());
    assert_eq!((load.tokens, load.estimate, load.usage_of), (Tokens(5), Tokens(5), None));
}

#[test]
fn usage_counts_and_only_later_content_is_estimated() {
    let log = History::new().user("u").say("a").usage(used(1_000)).user("abcdefgh").messages();
    let load = load(&log);
    assert_eq!(load.tokens, Tokens(1_050 + 2 + 4));
    assert_eq!(load.usage_of, Some("m1".into()));
}

#[test]
fn results_of_the_last_response_are_not_in_its_usage() {
    let log = History::new().user("u").tool("read", "x".repeat(400)).usage(used(1_000)).messages();
    assert_eq!(load(&log).tokens, Tokens(1_050 + 100 + 4));
}

/// opencode#26484: messages in the tail have the usage of the old window, which caused a second compaction.
#[test]
fn usage_in_the_tail_does_not_count_after_a_pivot() {
    let history = History::new().user("u").say("a").user("b").say("c").usage(used(90_000));
    let log = history.marker_with_tail("m2").summary("s").messages();
    assert_eq!(load(&log).usage_of, None);
    assert!(load(&log).tokens < Tokens(100));
}

#[test]
fn usage_from_before_a_prune_does_not_count() {
    let history = History::new().user("u").tool("read", "x").say("a").usage(used(90_000)).user("b");
    let mut log = history.log();
    assert_eq!(load(&log).usage_of, Some("m2".into()));
    clear(&mut log, plimsoll::Millis(1_000_000));
    assert_eq!(load(&log).usage_of, None);
}

/// openclaw#119824, crush#3620: zero and failed usage must not freeze the counter.
#[test]
fn zero_usage_and_failed_answers_are_ignored() {
    let history = History::new().user("u").say("a").usage(used(700)).user("b").say("c");
    let log = history.usage(Usage::default()).messages();
    assert_eq!(load(&log).usage_of, Some("m1".into()));
}

/// Hosts usually use the same `now` for an answer and for the marks made after it.
#[test]
fn a_mark_with_the_time_of_the_usage_came_after_it() {
    let mut log = History::new().user("u").tool("read", "x").say("a").usage(used(90_000)).log();
    let answered = log[2].info.time.as_ref().unwrap().completed.unwrap();
    clear(&mut log, answered);
    assert_eq!(load(&log).usage_of, None);
}

#[test]
fn usage_from_before_an_undo_does_not_count() {
    let (policy, now, mut ids) = (Policy::default(), Millis(9), ids());
    let mut log = History::new().user("u").tool("read", "x".repeat(40_000)).log();
    let item = PruneItem::output("m1.0".into(), "m1".into(), "read", Tokens(1));
    let plan = Plan::Prune(PrunePlan::of(vec![item]));
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

/// Found by the properties: a late result is shown with its call, before the response whose usage is known.
#[test]
fn a_late_result_counts_although_its_call_precedes_the_usage() {
    let history = History::new().user("u").call("c1", "read").user("v").say("a").usage(used(1_000));
    let log = history.result("c1", &"x".repeat(4_000)).messages();
    assert!(load(&log).tokens > Tokens(1_050 + 950), "{:?}", load(&log));
}

proptest! {
    #[test]
    fn properties_growth_since_a_response_is_the_growth_of_the_window(
        messages in histories(30),
        place in 0usize..30,
    ) {
        let (policy, counter, fixed) = (Policy::default(), CharCounter::default(), RequestOverhead::default());
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
        // Only if there is usage.
        let bare: Vec<Message> = messages.into_iter().map(|mut message| {
            message.info.tokens = None;
            message
        }).collect();
        let load = Load::of(&bare[..place.min(bare.len())], &policy, fixed, &counter);
        prop_assert_eq!((load.tokens, load.usage_of), (load.estimate, None));
    }
}

//! Clearing old outputs under the line, where that saves money.

use plimsoll::prune::PruneReason;
use plimsoll::thrift::{self, CacheTerms};
use plimsoll::{Message, Millis, Policy, Preset, Tokens};
use plimsoll_testkit::History;
use rstest::rstest;
use serde_json::json;

const START: u64 = 1_794_775_451_033;
const MINUTE: u64 = 60_000;

/// Reads of files of that many tokens each, one a minute.
fn reads(outputs: &[usize]) -> Vec<Message> {
    let history =
        outputs.iter().enumerate().fold(History::new().user("Read"), |history, (number, tokens)| {
            let text = format!("the_name_of_number_{number:03} {}", "word ".repeat(tokens * 4 / 5));
            history.tool_with("read", json!({ "path": format!("f{number}") }), text)
        });
    let mut messages = history.messages();
    for (minute, message) in messages.iter_mut().enumerate() {
        let at = Some(Millis(START + minute as u64 * MINUTE));
        let time = message.info.time.get_or_insert_default();
        (time.created, time.completed) = (at, at);
    }
    messages
}

fn policy(change: impl FnOnce(&mut plimsoll::policy::ThriftPolicy)) -> Policy {
    let mut spec = Preset::Plimsoll.policy().into_spec();
    spec.thrift.enabled = true;
    (spec.thrift.protect_tokens, spec.thrift.min_tokens) = (Tokens(5_000), Tokens(5_000));
    (spec.thrift.recall_chance, spec.thrift.margin, spec.thrift.calls_to_come) = (0.0, 1.0, 0.5);
    change(&mut spec.thrift);
    Policy::new(spec).unwrap()
}

/// How many outputs go, and why, so many minutes after the last call.
fn plan(messages: &[Message], policy: &Policy, minutes: u64) -> (usize, PruneReason) {
    let last = messages.last().and_then(|message| message.info.time.clone()).unwrap().created.unwrap();
    let plan = thrift::plan(messages, policy, None, Tokens(50_000), Millis(last.0 + minutes * MINUTE));
    (plan.items.len(), plan.reason)
}

#[test]
fn a_cold_cache_is_pruned_and_a_warm_one_only_if_it_pays() {
    let messages = reads(&[4_000; 10]);
    // Ten calls made, five to come: 0.1 × 5 for a token that goes, against 1.15 for one that is written anew.
    assert_eq!(plan(&messages, &policy(|_| ()), 1).0, 9, "36,000 go, 4,000 are written anew");
    assert_eq!(plan(&messages, &policy(|thrift| thrift.margin = 20.0), 1).0, 0);
    assert_eq!(plan(&messages, &policy(|thrift| thrift.margin = 20.0), 6), (9, PruneReason::ColdCache));
    assert_eq!(plan(&messages, &policy(|_| ()), 1).1, PruneReason::Pays);
    assert_eq!(plan(&messages, &policy(|thrift| thrift.enabled = false), 6), (0, PruneReason::Off));
}

#[test]
fn a_break_begins_where_it_saves_most() {
    // The first output is small and stands before a long prompt, which would be written anew with it.
    let output = |tokens: usize| "word ".repeat(tokens * 4 / 5);
    let first = History::new().user("Read").tool("read", output(6_000)).user(output(40_000));
    let all =
        (0..4).fold(first, |history, _| history.tool("read", output(8_000))).tool("read", output(6_000));
    let messages: Vec<Message> =
        all.messages().into_iter().map(|message| message.at(Millis(START))).collect();
    let policy = policy(|thrift| thrift.calls_to_come = 2.0);
    assert_eq!(plan(&messages, &policy, 1), (5, PruneReason::Pays));
    assert_eq!(plan(&messages, &policy, 6), (6, PruneReason::ColdCache));
}

#[rstest]
#[case::few_calls_to_come(0.0, 0)]
#[case::many(1.0, 9)]
fn a_session_that_has_made_many_calls_is_expected_to_make_more(#[case] come: f64, #[case] cleared: usize) {
    let messages = reads(&[4_000; 10]);
    assert_eq!(plan(&messages, &policy(|thrift| thrift.calls_to_come = come), 1).0, cleared);
}

#[test]
fn what_the_newest_calls_refer_to_stays() {
    let mut history = History::new().user("Read");
    for number in 0..10 {
        let text = format!("the_name_of_number_{number:03} {}", "word ".repeat(3_200));
        history = history.tool_with("read", json!({ "path": format!("f{number}") }), text);
    }
    let used =
        history.tool_with("edit", json!({ "text": "call the_name_of_number_002" }), "x".repeat(21_000));
    let messages = used.messages().into_iter().map(|message| message.at(Millis(START))).collect::<Vec<_>>();
    let cleared = |policy: &Policy| {
        let plan = thrift::plan(&messages, policy, None, Tokens(50_000), Millis(START + 9 * MINUTE));
        plan.items.len()
    };
    assert_eq!(cleared(&policy(|thrift| thrift.used_calls = 0)), 11);
    assert_eq!(cleared(&policy(|thrift| thrift.used_calls = 1)), 10);
    // A name that is everywhere keeps nothing.
    assert_eq!(cleared(&policy(|thrift| (thrift.used_calls, thrift.used_most) = (1, 0))), 11);
}

#[test]
fn the_hosts_own_prices_and_lifetime_are_heeded() {
    let messages = reads(&[4_000; 10]);
    let last = messages.last().and_then(|message| message.info.time.clone()).unwrap().created.unwrap();
    let cleared = |terms| {
        let policy = policy(|thrift| thrift.margin = 20.0);
        thrift::plan(&messages, &policy, Some(terms), Tokens(50_000), Millis(last.0 + 6 * MINUTE)).items.len()
    };
    let usual = CacheTerms { read: 0.1, write: 1.25, lifetime: Millis(5 * MINUTE) };
    assert_eq!(cleared(usual), 9);
    assert_eq!(cleared(CacheTerms { lifetime: Millis(60 * MINUTE), ..usual }), 0);
    // Where writing costs no more than reading a break is free.
    assert_eq!(cleared(CacheTerms { write: 0.1, lifetime: Millis(60 * MINUTE), ..usual }), 9);
}

#[test]
fn an_output_that_is_not_worth_the_risk_of_a_recall_stays() {
    let messages = reads(&[4_000, 4_000, 300, 4_000, 5_100]);
    let policy = policy(|thrift| thrift.recall_chance = 0.1);
    // 0.1 × (0.1 × 50,000 + 1.25 × 300) is more than 300 tokens save.
    assert_eq!(plan(&messages, &policy, 6).0, 4);
}

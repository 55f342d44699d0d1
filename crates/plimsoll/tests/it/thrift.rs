//! Clearing old outputs under the line, where that saves money.

use plimsoll::compact::accept::Reply;
use plimsoll::compact::ladder::{Ladder, Outcome, Situation, Step, Verdict};
use plimsoll::compact::request::Summariser;
use plimsoll::log::Effect;
use plimsoll::prune::PruneReason;
use plimsoll::receipt::Made;
use plimsoll::thrift::{self, CacheTerms, Compaction};
use plimsoll::{Chars, Limits, Log, Message, Millis, Plan, Policy, Preset, Tokens};
use plimsoll_testkit::{History, ids};
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

/// A policy that clears nothing and compacts from a tenth of the line on, if that pays at all.
fn compacting(change: impl FnOnce(&mut plimsoll::policy::ThriftPolicy)) -> Policy {
    policy(|thrift| {
        (thrift.protect_tokens, thrift.compact_share, thrift.compact_margin) = (Tokens(1_000_000), 0.1, 1.0);
        change(thrift);
    })
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
    assert_eq!(plan(&messages, &policy, 1), (4, PruneReason::Pays));
    assert_eq!(plan(&messages, &policy, 6), (5, PruneReason::ColdCache));
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
    assert_eq!(cleared(&policy(|thrift| thrift.used_calls = 0)), 10);
    assert_eq!(cleared(&policy(|thrift| thrift.used_calls = 1)), 9);
    // A name that is everywhere keeps nothing.
    assert_eq!(cleared(&policy(|thrift| (thrift.used_calls, thrift.used_most) = (1, 0))), 10);
}

#[test]
fn the_hosts_own_prices_and_lifetime_are_heeded() {
    let messages = reads(&[4_000; 10]);
    let last = messages.last().and_then(|message| message.info.time.clone()).unwrap().created.unwrap();
    let cleared = |terms| {
        let policy = policy(|thrift| thrift.margin = 20.0);
        thrift::plan(&messages, &policy, Some(terms), Tokens(50_000), Millis(last.0 + 6 * MINUTE)).items.len()
    };
    let usual = CacheTerms { read: 0.1, write: 1.25, output: 5.0, lifetime: Millis(5 * MINUTE) };
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
    assert_eq!(plan(&messages, &policy, 6).0, 3);
}

/// A tool may have run for longer than the cache lives.
#[test]
fn what_the_model_has_not_been_shown_yet_stays() {
    let messages = reads(&[4_000, 4_000, 30_000]);
    assert_eq!(plan(&messages, &policy(|_| ()), 60), (2, PruneReason::ColdCache));
    assert_eq!(plan(&messages[..2], &policy(|_| ()), 60).0, 0);
}

#[test]
fn what_was_cut_or_cleared_weighs_only_what_is_left_of_it() {
    let messages = reads(&[30_000, 30_000, 4_000, 4_000, 9_000]);
    let mut log = Log::from_messages(messages);
    let by = ids().receipt(Millis(START));
    for (place, effect) in [(1, Effect::Cut(Chars(400))), (2, Effect::Clear)] {
        let part = log[place].parts[0].id.clone();
        log.mark(&part, effect, &by, Millis(START)).unwrap();
    }
    let last = log[5].info.time.clone().unwrap().created.unwrap();
    let later = Millis(last.0 + 6 * MINUTE);
    let plan = thrift::plan(&log, &policy(|_| ()), None, Tokens(50_000), later);
    assert_eq!(plan.freed_tokens, Tokens(2 * 4_006 + 100), "{:?}", plan.items);
}

/// 100,000 tokens of which 90,000 are in the head; 4,000 of them come back as the summary. At once that costs
/// 5 × 4,000 + 1.25 × 14,000 = 37,500, and each call to come saves 0.1 × 86,000.
#[rstest]
#[case::it_pays_with_the_fifth_call(8, false)]
#[case(9, true)]
fn a_compaction_pays_if_the_calls_to_come_save_more_than_it_costs(#[case] calls: usize, #[case] pays: bool) {
    let messages = reads(&vec![100; calls]);
    let compaction = Compaction {
        load: Tokens(100_000),
        fixed: Tokens::ZERO,
        head: Tokens(90_000),
        outputs: 0,
        is_appended: true,
    };
    assert_eq!(compaction.pays(&messages, &compacting(|_| ()), None), pays);
    // So many times as much, and so many recalls.
    assert!(!compaction.pays(&messages, &compacting(|thrift| thrift.compact_margin = 2.0), None));
    let recalled = Compaction { outputs: 60, ..compaction };
    assert!(!recalled.pays(&messages, &compacting(|thrift| thrift.recall_chance = 0.5), None));
    // A request of its own writes the head once more.
    assert!(!Compaction { is_appended: false, ..compaction }.pays(&messages, &compacting(|_| ()), None));
}

#[test]
fn where_tokens_cost_nothing_nothing_pays() {
    let messages = reads(&[4_000; 40]);
    let free = CacheTerms { read: 0.0, write: 0.0, output: 0.0, lifetime: Millis(5 * MINUTE) };
    let last = messages.last().and_then(|message| message.info.time.clone()).unwrap().created.unwrap();
    let later = Millis(last.0 + 6 * MINUTE);
    assert!(thrift::plan(&messages, &policy(|_| ()), Some(free), Tokens(50_000), later).items.is_empty());
    let (load, fixed, head) = (Tokens(160_000), Tokens::ZERO, Tokens(150_000));
    let compaction = Compaction { load, fixed, head, outputs: 0, is_appended: true };
    assert!(!compaction.pays(&messages, &compacting(|_| ()), Some(free)));
}

/// Where nothing is cached each call pays in full for all that it sends, so that no break costs anything.
#[test]
fn without_a_cache_outputs_go_as_soon_as_they_are_worth_a_recall() {
    let messages = reads(&[4_000; 4]);
    let last = messages.last().and_then(|message| message.info.time.clone()).unwrap().created.unwrap();
    let uncached = CacheTerms { read: 1.0, write: 1.0, output: 5.0, lifetime: Millis(5 * MINUTE) };
    let default = Preset::Plimsoll.policy();
    let cleared =
        |terms| thrift::plan(&messages, &default, terms, Tokens(16_000), Millis(last.0 + MINUTE)).items.len();
    assert_eq!((cleared(Some(uncached)), cleared(None)), (3, 0));
}

/// Climbs by itself, with a model that answers each request for a summary with `reply`.
fn climb(log: &mut Log, situation: Situation, reply: Option<&str>) -> Outcome {
    let mut ids = ids();
    // Names must not repeat from climb to climb.
    for _ in 0..log.len() {
        let _ = ids.message(situation.now);
    }
    let mut ladder = Ladder::new(log.clone(), situation);
    loop {
        match ladder.climb(&mut ids).unwrap() {
            Step::Ask(_) => {
                let reply = reply.map(Reply::finished).ok_or_else(|| "it is down".to_owned());
                ladder.answer(reply, &mut ids).unwrap();
            }
            Step::Done(outcome) => {
                outcome.reduction.commit(log).unwrap();
                return outcome;
            }
        }
    }
}

fn at_the_end(messages: &[Message], policy: &Policy, context: u64) -> Situation {
    let last = messages.last().and_then(|message| message.info.time.clone()).unwrap().created.unwrap();
    let limits = Limits::new(context, context / 8);
    let summariser = Some(Summariser::own(limits));
    Situation { summariser, ..Situation::new(policy, limits, Millis(last.0 + MINUTE)) }
}

fn compactions(outcome: &Outcome) -> Vec<&str> {
    let receipts = outcome.reduction.receipts.iter();
    receipts
        .filter(|receipt| matches!(receipt.plan, Plan::Compact(_)))
        .map(|receipt| &*receipt.reason)
        .collect()
}

const SUMMARY: &str = "## Goal\nRead the files.\n## Progress\nAll of them were read.";

#[test]
fn a_window_under_the_line_is_compacted_where_that_pays() {
    let messages = reads(&[2_000; 40]);
    let log = Log::from_messages(messages.clone());
    let outcome_of = |policy: &Policy, reply| {
        let mut log = log.clone();
        let outcome = climb(&mut log, at_the_end(&messages, policy, 200_000), reply);
        assert_eq!(outcome.verdict, Verdict::Fits);
        outcome
    };
    let outcome = outcome_of(&compacting(|_| ()), Some(SUMMARY));
    assert_eq!(compactions(&outcome), ["to send the window again would have cost more"]);
    assert!(outcome.after < Tokens(10_000), "{}", outcome.after);
    // The session is expected to end before it pays.
    let short = compacting(|thrift| thrift.calls_to_come = 0.01);
    assert!(outcome_of(&short, Some(SUMMARY)).reduction.is_empty());
    let late = compacting(|thrift| thrift.compact_share = 0.9);
    assert!(outcome_of(&late, Some(SUMMARY)).reduction.is_empty(), "80,000 of 175,000 are less than that");
    // Nothing forces it, so that a summary without a model would only be worse.
    assert!(outcome_of(&compacting(|_| ()), None).reduction.is_empty());
}

#[test]
fn over_the_line_it_is_compacted_whether_or_not_it_pays() {
    let messages = reads(&[2_000; 40]);
    let never = compacting(|thrift| (thrift.calls_to_come, thrift.compact_share) = (0.0, 1.0));
    for (reply, made) in [(Some(SUMMARY), Made::ByModel), (None, Made::WithoutModel)] {
        let mut log = Log::from_messages(messages.clone());
        let outcome = climb(&mut log, at_the_end(&messages, &never, 80_000), reply);
        assert_eq!(outcome.verdict, Verdict::Fits);
        assert!(outcome.line.is_some_and(|line| !line.is_over(outcome.after)));
        let plans = outcome.reduction.receipts.iter();
        let made_by: Vec<Made> = plans
            .filter_map(|receipt| match &receipt.plan {
                Plan::Compact(plan) => Some(plan.made),
                _ => None,
            })
            .collect();
        assert_eq!(made_by, [made]);
    }
}

/// Small windows go by the line alone: their compactions save too little to be made early.
#[rstest]
#[case(8_000)]
#[case(32_000)]
fn the_default_keeps_small_windows_under_the_line(#[case] context: u64) {
    let default = Preset::Plimsoll.policy();
    let mut log = Log::new();
    for message in reads(&[700; 120]) {
        log.append(message).unwrap();
        let messages = log.messages().to_vec();
        let situation = at_the_end(&messages, &default, context);
        let (line, before) =
            (default.overflow.line(situation.limits).unwrap(), situation.weigh(&messages).0.tokens);
        let outcome = climb(&mut log, situation, Some(SUMMARY));
        assert!(!line.is_over(outcome.after), "{} of {}", outcome.after, line.at);
        assert!(compactions(&outcome).is_empty() || line.is_over(before), "{before} of {}", line.at);
    }
}

/// Only the provider can say that a window which is not known is full; until then nothing is done to it.
#[test]
fn an_unknown_window_is_left_alone() {
    let messages = reads(&[4_000; 40]);
    let mut log = Log::from_messages(messages.clone());
    let outcome = climb(&mut log, at_the_end(&messages, &Preset::Plimsoll.policy(), 0), Some(SUMMARY));
    assert!(outcome.reduction.is_empty());
}

//! Replays of sessions with recorded usage: sizes, cache reads, models, compactions.

use plimsoll::{Message, Millis, Tokens, Usage};
use plimsoll_replay::{AgainstRecorded, Billed, Price, Recording, ReplayParams, Rules};
use plimsoll_testkit::History;

use super::{a_minute_apart, reading, replay, window};

/// A session whose provider counts 6,000 tokens of hidden prompt and, with each answer, reasoning that the file does
/// not show and later requests contain. All of the previous request is read from the cache.
fn reasoned(messages: Vec<Message>, reasoning: u64) -> Vec<Message> {
    let (mut sent, mut before) = (6_000, 0);
    let mut messages = a_minute_apart(messages);
    for message in &mut messages {
        // Characters divided by four, and a few tokens for the frame of each message.
        let shown = |text: &str| text.len() as u64 / 4 + 4;
        let results: u64 = message.parts.iter().map(|part| shown(&format!("{:?}", part.body))).sum();
        if message.is_assistant() {
            let mut usage = Usage::new(Tokens(sent - before), Tokens(40));
            (usage.cache_read, usage.reasoning) = (Tokens(before), Tokens(reasoning));
            message.info.tokens = Some(usage);
            message.info.model_id = Some("claude-sonnet-4-6".into());
            before = sent;
            sent += reasoning;
        }
        sent += results;
    }
    messages
}

fn recorded_requests(messages: &[Message]) -> Vec<u64> {
    let usage =
        |message: &Message| message.info.tokens.as_ref().map(|usage| (usage.input + usage.cache_read).0);
    messages.iter().filter_map(usage).collect()
}

#[test]
fn without_a_policy_each_request_is_as_large_as_recorded() {
    let messages = reasoned(reading(12, 900).messages(), 1_500);
    let report = replay(messages.clone(), "none", &window(1_000_000));
    let sent: Vec<u64> = report.windows.iter().map(|sent| sent.tokens).collect();
    assert_eq!(sent, recorded_requests(&messages));
    // All of the previous request was read from the cache, and the rest written.
    let last = *sent.last().unwrap();
    assert_eq!(report.billed.read + last, sent.iter().sum::<u64>());
    assert_eq!(report.billed.written, last);
}

#[test]
fn a_call_is_left_out_if_its_answer_and_the_scaled_fixed_tokens_exceed_the_window() {
    // The provider counted more for the last request than for the rebuilt one, so its system prompt and tools count
    // more as well.
    let mut messages = reasoned(reading(4, 300).messages(), 0);
    let usage = messages.last_mut().unwrap().info.tokens.as_mut().unwrap();
    (usage.input, usage.output) = (usage.input + usage.cache_read.share(0.4), Tokens(19_000));
    let params = ReplayParams { fixed: Tokens(10_000), ..window(32_000) };
    for rules in plimsoll_replay::DEFAULTS {
        let report = replay(messages.clone(), rules, &params);
        assert_eq!((report.left_out, report.deaths), (1, 0), "{rules}: {:?}", report.windows);
    }
    // With enough room for both, the call is made.
    let report = replay(messages, "plimsoll", &ReplayParams { context: Tokens(36_000), ..params });
    assert_eq!((report.left_out, report.deaths), (0, 0), "{:?}", report.windows);
}

#[test]
fn hidden_output_stays_in_the_window_until_its_answer_leaves() {
    let messages = reasoned(reading(12, 900).messages(), 1_500);
    let none = replay(messages.clone(), "none", &window(1_000_000));
    let mask = replay(messages, "mask-0", &window(1_000_000));
    let (whole, masked) = (none.windows.last().unwrap().tokens, mask.windows.last().unwrap().tokens);
    // Twelve results of about 900 tokens are removed, 24 answers with 1,500 tokens of reasoning each stay.
    assert!(whole - masked > 10_000 && masked > 23 * 1_500, "{whole} {masked}");
}

/// Replays a session whose agent compacted before the call with that index among its recorded requests, under the rules
/// of its tool in a window of 200,000 tokens. Reasoning that is not in the file filled it.
fn assert_compacts_as_recorded(rules: &str, call_of: impl Fn(&[u64]) -> usize) {
    let all = reasoned(reading(36, 1_000).messages(), 2_200);
    let sizes = recorded_requests(&all);
    let call = call_of(&sizes);
    let at = all.iter().scan(0, |calls, message| {
        *calls += usize::from(message.is_assistant());
        Some(*calls)
    });
    let place = at.take_while(|calls| *calls <= call).count();
    let rest = History::new()
        .marker()
        .summary("What was done so far, in as many words as a real summary has. ".repeat(4));
    let summary = rest.user("Go on").say("Yes.").messages();
    let recorded: Vec<Message> = all[..place].iter().cloned().chain(summary).collect();
    let recording = Recording::of(recorded.clone());
    assert_eq!(recording.compactions(), [call + 1]);
    let report = recording.replay(&rules.parse().unwrap(), &window(200_000)).unwrap();
    let fired = report.reductions.iter().find(|fired| fired.reduction.kind == "compact").unwrap();
    assert_eq!(fired.call as usize, call + 1, "{rules}");
    assert!(fired.reduction.before.abs_diff(sizes[call]) < 3_000, "{rules}: {fired:?} {}", sizes[call]);
    // Rebuilt from the file only, it would be far from the line.
    let bare: Vec<Message> = recorded
        .into_iter()
        .map(|mut message| {
            message.info.tokens = None;
            message
        })
        .collect();
    assert!(!replay(bare, rules, &window(200_000)).fired.contains_key("compact"), "{rules}");
}

#[test]
fn claude_code_compacts_at_the_recorded_call() {
    assert_compacts_as_recorded("claude-code", |sizes| {
        sizes.iter().position(|size| *size >= 167_000).unwrap()
    });
}

#[test]
fn codex_compacts_at_the_recorded_call() {
    assert_compacts_as_recorded("codex", |sizes| sizes.iter().position(|size| *size >= 180_000).unwrap());
}

#[test]
fn opencode_compacts_at_the_recorded_call() {
    // It uses the usage of the newest answer: the request, 40 tokens of text and 2,200 of reasoning.
    assert_compacts_as_recorded("opencode", |sizes| {
        sizes.iter().position(|size| *size + 2_240 > 175_000).unwrap() + 1
    });
}

#[test]
fn a_recorded_cache_miss_counts_for_every_policy() {
    let messages = reasoned(reading(6, 900).messages(), 100);
    let mut missed = messages.clone();
    let usage = missed[16].info.tokens.as_mut().unwrap();
    (usage.input, usage.cache_read) = (usage.input + usage.cache_read, Tokens::ZERO);
    let request = usage.input.0;
    for rules in ["none", "codex", "claude-code", "plimsoll"] {
        let hit = replay(messages.clone(), rules, &window(200_000)).billed;
        let miss = replay(missed.clone(), rules, &window(200_000)).billed;
        assert!(miss.written > hit.written + request / 2, "{rules}: {hit:?} {miss:?}");
        assert_eq!(hit.read + hit.written, miss.read + miss.written, "{rules}");
    }
}

#[test]
fn a_system_prompt_that_another_session_cached_is_read_with_the_first_request() {
    let mut messages = reasoned(reading(3, 400).messages(), 0);
    let usage = messages[1].info.tokens.as_mut().unwrap();
    (usage.input, usage.cache_read) = (usage.input - Tokens(5_000), Tokens(5_000));
    let first = messages[..2].to_vec();
    let report = replay(messages, "none", &window(200_000));
    let alone = replay(first, "none", &window(200_000));
    assert_eq!((alone.billed.read, report.windows[0].fits), (5_000, true));
}

#[test]
fn each_call_is_priced_as_its_own_model_and_a_switch_starts_with_an_empty_cache() {
    let mut messages = a_minute_apart(reading(4, 400).messages());
    for (number, message) in messages.iter_mut().filter(|message| message.is_assistant()).enumerate() {
        message.info.model_id = Some(if number < 4 { "cheap" } else { "dear" }.into());
    }
    let plain = Recording::of(messages.clone());
    let mut priced = Recording::of(messages);
    assert_eq!(priced.models(), [("cheap", 4), ("dear", 4)]);
    priced.price_calls(|model, _| (model == "dear").then_some(Price::of_input(10.0)));
    let report = |recording: &Recording| recording.replay(&Rules::None, &window(200_000)).unwrap();
    let (one, two) = (report(&plain), report(&priced));
    assert_eq!(one.billed, two.billed);
    let half = one.windows[3].spent;
    let (cheap, dear) = (two.windows[3].spent, two.cost - two.windows[3].spent);
    assert!((cheap - half).abs() < 1e-12 && (dear - 10.0 * (one.cost - half)).abs() < 1e-9);
    // The first call of the other model reads nothing from the first model's cache.
    let before = report(&plain).windows;
    let switched = Billed { written: before[4].tokens, ..Billed::default() };
    let paid = one.windows[4].spent - one.windows[3].spent;
    assert!(paid > Price::of_input(1.0).of(switched), "{paid}");
}

#[test]
fn a_replay_without_a_policy_costs_what_was_recorded() {
    let messages = reasoned(reading(12, 900).messages(), 1_500);
    let recording = Recording::of(messages);
    let none = recording.replay(&Rules::None, &window(1_000_000)).unwrap();
    let price = window(1).price;
    let costs = recording.recorded_costs(|model, at, usage| {
        assert!(model == "claude-sonnet-4-6" && at > Some(Millis(0)));
        let output = (usage.output + usage.reasoning).0;
        let billed = Billed { read: usage.cache_read.0, written: usage.input.0, output };
        Some(price.of(billed))
    });
    let bill = AgainstRecorded::of(&none, &costs, recording.unreduced_calls()).unwrap();
    assert_eq!(bill.calls, 24);
    assert!((bill.share() - 1.0).abs() < 1e-9, "{bill:?}");
    // Calls after a recorded reduction are not compared.
    assert_eq!(AgainstRecorded::of(&none, &costs, 10).map(|bill| bill.calls), Some(10));
    assert_eq!(AgainstRecorded::of(&none, &[None, None], 2), None);
}

#[test]
fn usage_of_another_request_is_not_used_as_this_requests_size() {
    let mut messages = reasoned(reading(6, 900).messages(), 0);
    let whole = recorded_requests(&messages);
    // A title was generated in between, or the cached part is missing.
    messages[10].info.tokens = Some(Usage::new(Tokens(300), Tokens(5)));
    let report = replay(messages, "none", &window(200_000));
    let call = report.windows.iter().zip(&whole).find(|(sent, whole)| sent.tokens != **whole);
    assert!(call.is_none_or(|(sent, whole)| sent.tokens.abs_diff(*whole) < whole / 20), "{call:?}");
    assert_eq!(report.calls as usize, whole.len());
}

#[test]
fn a_cache_miss_after_the_usage_of_another_request_is_still_a_miss() {
    let mut hit = reasoned(reading(6, 900).messages(), 0);
    let mut warm_up = Usage::new(Tokens::ZERO, Tokens(5));
    warm_up.cache_write = Tokens(2_000);
    hit[14].info.tokens = Some(warm_up);
    let mut missed = hit.clone();
    let usage = missed[16].info.tokens.as_mut().unwrap();
    (usage.input, usage.cache_read) = (usage.input + usage.cache_read - Tokens(2_000), Tokens(2_000));
    let request = usage.input.0;
    let [hit, miss] = [hit, missed].map(|messages| replay(messages, "none", &window(200_000)).billed);
    assert!(miss.written > hit.written + request / 2, "{hit:?} {miss:?}");
}

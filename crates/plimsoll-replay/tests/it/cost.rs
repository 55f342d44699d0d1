//! Tokens that are sent, their cost, and calls that do not fit.

use plimsoll::log::TextPart;
use plimsoll::{Millis, PartBody, Tokens, Usage};
use plimsoll_replay::{
    AgainstNone, Billed, Price, Recording, ReplayParams, Report, Rules, compare_with_none, totals,
};
use plimsoll_testkit::History;

use super::{a_minute_apart, lines, reading, replay, replay_without_thrift, window};

/// A question of 100 tokens, an answer of 50, and once more; each message adds four tokens.
fn two_calls() -> History {
    let (question, answer) = ("ask ".repeat(100), "tell ".repeat(40));
    History::new().user(&question).say(&answer).user(&question).say(&answer)
}

#[test]
fn the_common_beginning_is_read_from_the_cache_and_the_rest_written() {
    let report = replay(two_calls().messages(), "none", &window(200_000));
    // First 104; then 104 + 54 + 104, of which the first 104 were sent before.
    assert_eq!((report.calls, report.deaths, report.tokens_sent, report.peak), (2, 0, 104 + 262, 262));
    assert_eq!(report.billed, Billed { read: 104, written: 104 + 158, output: 100 });
    let expected = (104.0 * 0.1 + 262.0 * 1.25 + 100.0 * 5.0) / 1e6;
    assert!((report.cost - expected).abs() < 1e-12, "{} {expected}", report.cost);
    assert!((report.peak_share - 262.0 / 200_000.0).abs() < 1e-12);
    assert!((report.cost_per_call() - expected / 2.0).abs() < 1e-12);
}

#[test]
fn a_system_prompt_is_sent_with_every_call() {
    let fixed = ReplayParams { fixed: Tokens(1_000), ..window(200_000) };
    let report = replay(two_calls().messages(), "none", &fixed);
    assert_eq!(report.billed, Billed { read: 1_104, written: 1_104 + 158, output: 100 });
}

#[test]
fn a_cache_dies_five_minutes_after_it_was_used() {
    let apart = |minutes: u64| {
        let mut messages = a_minute_apart(two_calls().messages());
        let last = messages.len() - 1;
        let first = messages[1].info.time.clone().unwrap().created.unwrap();
        messages[last].info.time.as_mut().unwrap().created = Some(Millis(first.0 + minutes * 60_000));
        messages
    };
    assert_eq!(replay(apart(5), "none", &window(200_000)).billed.read, 104);
    assert_eq!(replay(apart(6), "none", &window(200_000)).billed.read, 0);
    let patient = ReplayParams { cache_lifetime: Millis(3_600_000), ..window(200_000) };
    assert_eq!(replay(apart(6), "none", &patient).billed.read, 104);
}

#[test]
fn recorded_output_has_priority_over_an_estimate() {
    let mut messages = two_calls().messages();
    messages[1].info.tokens = Some(plimsoll::Usage::new(Tokens(9), Tokens(700)));
    assert_eq!(replay(messages, "none", &window(200_000)).billed.output, 750);
}

#[test]
fn every_call_has_room_in_the_smallest_window_that_a_recording_needs() {
    let recording = Recording::of(reading(10, 4_000).messages());
    let room = recording.room(&window(20_000)).unwrap();
    let deaths = |context: Tokens| {
        let in_it = ReplayParams { context, ..window(0) };
        recording.replay(&Rules::None, &in_it).unwrap().deaths
    };
    assert_eq!((deaths(room), deaths(room - Tokens(1))), (0, 1));
    assert_eq!(recording.unreduced_calls(), recording.calls());
}

#[test]
fn a_compaction_does_not_increase_the_room_that_is_needed() {
    let before = Recording::of(reading(5, 4_000).messages());
    let summary = "What was read, and what is in it. ".repeat(9);
    let more = |history: History| (0..5).fold(history, |history, _| history.user("On").say(lines(4_000)));
    let compacted = Recording::of(more(reading(5, 4_000).marker().summary(summary)).messages());
    assert_eq!(compacted.unreduced_calls(), before.calls());
    assert_eq!(compacted.room(&window(200_000)).unwrap(), before.room(&window(200_000)).unwrap());
}

#[test]
fn text_of_the_host_in_the_models_name_is_not_a_call() {
    let mut messages = two_calls().messages();
    let said = TextPart { text: "No response requested.".into(), synthetic: Some(true), ignored: None };
    messages[1].parts[0].body = PartBody::Text(said);
    assert_eq!(Recording::of(messages).calls(), 1);
}

#[test]
fn calls_that_do_not_fit_are_deaths_and_cost_nothing() {
    let all = replay(reading(10, 4_000).messages(), "none", &window(200_000));
    let some = replay(reading(10, 4_000).messages(), "none", &window(20_000));
    assert_eq!((all.deaths, all.windows.len()), (0, 20));
    assert!(some.deaths > 5 && some.peak <= 20_000, "{some:?}");
    assert_eq!(some.windows.iter().filter(|sent| !sent.fits).count() as u64, some.deaths);
    let sent: u64 = some.windows.iter().filter(|sent| sent.fits).map(|sent| sent.tokens).sum();
    assert_eq!(sent, some.tokens_sent);
    assert!(some.cost < all.cost);
}

#[test]
fn a_compaction_is_billed_and_reported_with_its_call() {
    let report = replay(reading(12, 4_000).messages(), "plimsoll", &window(32_000));
    assert_eq!(report.deaths, 0);
    let compactions: Vec<_> =
        report.reductions.iter().filter(|fired| fired.reduction.kind == "compact").collect();
    assert_eq!(compactions.len() as u64, report.fired["compact"]);
    let first = compactions[0];
    assert!(first.reduction.asked > 1_000 && first.reduction.answered > 0, "{first:?}");
    assert!(first.reduction.after < first.reduction.before);
    let before = &report.windows[first.call as usize - 2].tokens;
    let after = &report.windows[first.call as usize - 1].tokens;
    assert!(after < before, "the window shrinks at the call of the reduction: {before} {after}");
    // A request that is appended to the session's own is mostly read from the cache.
    let asked: u64 = compactions.iter().map(|fired| fired.reduction.asked).sum();
    let cached: u64 = compactions.iter().map(|fired| fired.reduction.asked_cached).sum();
    assert_eq!((report.summaries.read, report.summaries.written), (cached, asked - cached));
    let appended = replay_without_thrift(reading(30, 2_000).messages(), &window(64_000));
    assert!(appended.summaries.read > appended.summaries.written, "{:?}", appended.summaries);
    let separate = replay(reading(12, 4_000).messages(), "opencode", &window(32_000));
    assert!(separate.summaries.read == 0 && separate.summaries.written > 1_000);
}

#[test]
fn totals_add_up_by_policy_in_their_order() {
    let one = replay(reading(3, 500).messages(), "none", &window(200_000));
    let mut two = replay(reading(12, 4_000).messages(), "plimsoll", &window(32_000));
    let three = replay(reading(5, 500).messages(), "none", &window(200_000));
    let total = totals([&one, &two, &three]);
    let names: Vec<&str> = total.iter().map(|total| total.policy.as_str()).collect();
    assert_eq!(names, ["none", "plimsoll"]);
    assert_eq!(total[0].calls, one.calls + three.calls);
    assert_eq!(total[0].billed.written, one.billed.written + three.billed.written);
    assert_eq!(total[0].peak, three.peak);
    assert!((total[0].cost - one.cost - three.cost).abs() < 1e-12);
    assert!(total[0].windows.is_empty());
    (two.windows, two.reductions, two.medians) = (Vec::new(), Vec::new(), total[1].medians);
    assert_eq!(two, total[1]);
}

#[test]
fn a_policy_is_compared_with_none_after_every_call() {
    let recording = Recording::of(reading(30, 2_000).messages());
    let replay = |rules: &str| recording.replay(&rules.parse().unwrap(), &window(200_000)).unwrap();
    let mut reports = [replay("none"), replay("mask-10")];
    compare_with_none(&mut reports);
    let [none, mask] = reports.map(|report| report.against_none.unwrap());
    let mut nothing_dearer = AgainstNone::default();
    nothing_dearer.sessions = 1;
    assert_eq!(none, nothing_dearer);
    // Masking rewrites the window with every call, which costs more from the first time on.
    assert_eq!((mask.sessions, mask.dearer_at_end, mask.dearer_at_any_moment), (1, 1, 1));
    assert!(mask.worst_excess >= mask.end_excess && mask.end_excess > 0.0, "{mask:?}");
    let small = recording.replay(&Rules::None, &window(20_000)).unwrap();
    let mut unfit = [small.clone(), small];
    compare_with_none(&mut unfit);
    assert!(unfit.iter().all(|report| report.against_none.is_none()), "it does not fit without a policy");
}

#[test]
fn a_total_has_the_medians_of_its_sessions() {
    let needle = |turns: usize| {
        let first = History::new().user("Look").tool("ls", "deep/inside/needle_file.rs and more");
        let read = (0..turns).fold(first, |history, _| history.tool("read", lines(50)));
        read.tool_with("edit", serde_json::json!({ "path": "deep/inside/needle_file.rs" }), "ok").say("done")
    };
    let reports: Vec<Report> =
        [2, 20, 30].map(|turns| replay(needle(turns).messages(), "mask-10", &window(200_000))).into();
    let total = &totals(&reports)[0];
    assert!((total.references.only_in_outputs.in_window_share - 1.0 / 3.0).abs() < 1e-12);
    assert_eq!(total.medians.unwrap().only_in_outputs, Some(0.0));
    assert_eq!(totals(&reports[..2])[0].medians.unwrap().strict, Some(0.5));
}

#[test]
fn prices_can_be_chosen() {
    let dear = ReplayParams { price: Price::of_input(15.0), ..window(200_000) };
    let (one, fifteen) = (
        replay(two_calls().messages(), "none", &window(200_000)),
        replay(two_calls().messages(), "none", &dear),
    );
    assert!((fifteen.cost / one.cost - 15.0).abs() < 1e-9);
}

#[test]
fn a_long_prompt_is_priced_as_one() {
    let price = plimsoll_replay::Prices::default().row("gpt-5.5", false).1;
    let long = ReplayParams { price, fixed: Tokens(300_000), ..window(1_000_000) };
    let short = ReplayParams { fixed: Tokens(200_000), ..long };
    let cost = |params| replay(two_calls().messages(), "none", params).cost;
    assert!(cost(&long) / cost(&short) > 2.5, "{} {}", cost(&long), cost(&short));
}

#[test]
fn a_call_whose_answer_fills_the_window_is_left_out_under_all_rules() {
    let mut messages = two_calls().messages();
    messages[1].info.tokens = Some(plimsoll::Usage::new(Tokens(9), Tokens(30_000)));
    for rules in plimsoll_replay::DEFAULTS {
        let report = replay(messages.clone(), rules, &window(30_000));
        assert_eq!((report.calls, report.left_out, report.deaths), (2, 1, 0), "{rules}");
        assert_eq!(report.windows.len(), 2);
    }
}

#[test]
fn an_answer_that_needs_half_of_the_window_gets_it() {
    // The policy reserves an eighth of the window for answers. This one needs more, and there is much that can be
    // removed.
    let mut messages = reading(12, 2_000).user("Now write all of it").say("Here it is.").messages();
    let usage = Usage::new(Tokens(20_000), Tokens(14_000));
    messages.last_mut().unwrap().info.tokens = Some(usage);
    let report = replay(messages, "plimsoll", &window(32_000));
    let last = report.windows.last().unwrap();
    assert!(last.fits && last.tokens + 14_000 <= 32_000, "{last:?}");
    assert_eq!((report.deaths, report.left_out), (0, 0));
}

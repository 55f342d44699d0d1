//! Each set of rules does what its authors publish.

use plimsoll::{Millis, Policy, Tokens};
use plimsoll_replay::{DEFAULTS, Recording, Rules};
use plimsoll_testkit::History;

use super::{a_minute_apart, lines, reading, replay, replay_without_thrift, window};

#[test]
fn every_default_has_its_name() {
    for name in DEFAULTS {
        assert_eq!(name.parse::<Rules>().unwrap().to_string(), name);
    }
    for name in ["opencode-1.18", "proxy"] {
        assert_eq!(name.parse::<Rules>().unwrap().to_string(), name);
    }
    let unknown = "nobody".parse::<Rules>().unwrap_err().to_string();
    for known in
        ["nobody", "plimsoll", "openfork", "anthropic-clear", "mask-N-by-M", "codex", "claude-code", "none"]
    {
        assert!(unknown.contains(known), "{unknown}");
    }
}

#[test]
fn every_rule_names_its_source() {
    for name in DEFAULTS {
        assert!(name.parse::<Rules>().unwrap().source().len() > 10, "{name}");
    }
}

#[test]
fn a_mask_that_polls_moves_in_batches() {
    let report = replay(reading(30, 1_000).messages(), "mask-10-by-10", &window(200_000));
    // Twenty results are reached once, thirty in the last turn.
    assert_eq!(report.fired["mask"], 2);
    let every = replay(reading(30, 1_000).messages(), "mask-10", &window(200_000));
    assert!(report.billed.written < every.billed.written, "{:?} {:?}", report.billed, every.billed);
}

#[test]
fn a_trigger_can_be_a_share_of_the_window() {
    let report = replay(reading(30, 1_000).messages(), "anthropic-clear-50", &window(32_000));
    assert_eq!(report.deaths, 0);
    assert!(report.reductions[0].reduction.before > 16_000 && report.reductions[0].reduction.before < 18_000);
}

#[test]
fn codex_cuts_outputs_and_reads_the_cached_prefix_for_its_summary() {
    let report = replay(reading(3, 12_000).messages(), "codex", &window(38_000));
    assert_eq!(report.fired["truncate"], 3);
    let compacted = replay(reading(20, 4_000).messages(), "codex", &window(40_000));
    let first = &compacted.reductions[0].reduction;
    assert!(first.kind == "compact" && first.asked_cached > first.asked / 2, "{first:?}");
}

#[test]
fn claude_code_compacts_a_little_before_the_window_is_full() {
    let report = replay(reading(45, 5_000).messages(), "claude-code", &window(200_000));
    // The window minus 20,000 for the answer minus 13,000.
    let first = &report.reductions[0].reduction;
    assert!(first.before >= 167_000 && first.before < 173_000 && first.after < 4_000, "{first:?}");
}

#[test]
fn claude_code_clears_all_but_five_results_after_an_hour() {
    let after = |minutes: u64| {
        let mut messages =
            a_minute_apart(reading(8, 1_000).user("Are you still there?").say("Yes.").messages());
        let last = messages.len() - 1;
        let before = messages[last - 2].info.time.clone().unwrap().created.unwrap();
        messages[last].info.time.as_mut().unwrap().created = Some(Millis(before.0 + minutes * 60_000));
        replay(messages, "claude-code", &window(200_000))
    };
    assert!(after(60).fired.is_empty());
    let cleared = after(61);
    assert_eq!(cleared.fired.get("clear"), Some(&1));
    let freed = cleared.reductions[0].reduction.before - cleared.reductions[0].reduction.after;
    assert!((2_900..3_100).contains(&freed), "the oldest three of eight: {freed}");
    assert!(cleared.cost < after(60).cost, "nothing of it was in the cache");
}

#[test]
fn the_rules_none_reduce_nothing() {
    let report = replay(reading(30, 3_000).messages(), "none", &window(200_000));
    assert!(report.fired.is_empty() && report.reductions.is_empty());
    assert!(report.windows.is_sorted_by_key(|sent| sent.tokens));
}

#[test]
fn mask_keeps_the_newest_observations() {
    let report = replay(reading(15, 1_000).messages(), "mask-10", &window(200_000));
    // From the eleventh turn on, each turn hides one output, before its second call.
    assert_eq!(report.fired["mask"], 5);
    let peak = report.windows.iter().map(|sent| sent.tokens).max().unwrap();
    assert!((10_000..11_500).contains(&peak), "{peak}");
    assert_eq!(report.reductions[0].call, 22, "the second call of the eleventh turn");
}

#[test]
fn anthropic_clears_all_but_three_above_its_trigger() {
    let report = replay(reading(30, 5_000).messages(), "anthropic-clear", &window(200_000));
    let first = &report.reductions[0];
    assert_eq!(first.reduction.kind, "clear");
    // 20 outputs total 100,000 tokens; the request that shows the twentieth is the first that is longer.
    assert_eq!(first.call, 40);
    assert!(first.reduction.before > 100_000 && first.reduction.after < 17_000, "{first:?}");
    // The client's history only grows, so every later result hides another one.
    assert_eq!(report.fired["clear"], 11);
    let short = replay(reading(10, 5_000).messages(), "anthropic-clear", &window(200_000));
    assert!(short.fired.is_empty());
}

#[test]
fn codex_keeps_a_summary_and_the_users_newest_words() {
    let history = (0..40).fold(History::new(), |history, turn| {
        let words = format!("Request {turn}: {}", "please ".repeat(700));
        history.user(words).tool("shell", lines(2_000)).say("ok")
    });
    let report = replay(history.messages(), "codex", &window(60_000));
    assert_eq!(report.deaths, 0);
    let first = &report.reductions[0].reduction;
    assert_eq!(first.kind, "compact");
    assert!(first.before >= 54_000, "not before 90 % of the window: {first:?}");
    // The user's messages up to a tenth of the window, which is what 20,000 tokens are of Codex' own models' windows,
    // and a summary of at most 2,000 tokens.
    assert!((6_000..9_000).contains(&first.after), "{first:?}");
    assert!(first.asked > first.before && first.answered > 0);
}

#[test]
fn opencode_prunes_after_a_turn_and_plimsoll_if_it_pays() {
    let messages = || reading(40, 2_000).messages();
    let opencode = replay(messages(), "opencode", &window(200_000));
    assert!(opencode.fired.contains_key("prune") && !opencode.fired.contains_key("compact"));
    let at_the_line = replay_without_thrift(messages(), &window(200_000));
    assert!(at_the_line.fired.is_empty(), "{:?}", at_the_line.fired);
    assert!(opencode.peak < at_the_line.peak);
    let frugal = Rules::from(Policy::from_json(r#"{ "thrift": "frugal" }"#).unwrap());
    let frugal = Recording::of(messages()).replay(&frugal, &window(200_000)).unwrap();
    assert!(frugal.fired.contains_key("prune"), "{:?}", frugal.fired);
    assert!(frugal.cost < opencode.cost.min(at_the_line.cost), "{} {}", frugal.cost, opencode.cost);
    // Without a pause, nothing is saved that could pay for a change.
    let careful = replay(messages(), "plimsoll", &window(200_000));
    assert_eq!(careful.cost, at_the_line.cost);
}

#[test]
fn a_session_recovers_from_a_refusal() {
    // OpenCode only checks the usage of the last answer, so it does not expect an output that comes after it.
    let history = reading(6, 3_000).user("And the log").tools(&[
        ("fetch", lines(10_000)),
        ("fetch", lines(10_010)),
        ("fetch", lines(10_020)),
    ]);
    let report = replay(history.say("Done.").messages(), "opencode", &window(32_000));
    assert_eq!(report.deaths, 0, "{:?}", report.fired);
    assert!(report.fired.contains_key("compact"));
}

#[test]
fn a_recorded_summary_is_used_at_the_same_call() {
    // The recorded and the replayed agent compact before the same call.
    let head = || reading(8, 4_000);
    let summary = "RECORDED_SUMMARY_TEXT of the session, with the_symbol_0003 in it, \
                   long enough to be taken for what it is: the summary of a session.";
    let next = serde_json::json!({ "symbol": "the_symbol_0003" });
    let tail =
        |history: History| history.user(lines(3_000)).tool_with("grep", next.clone(), "found").say("ok");
    let at = window(38_000);
    let recorded = replay(tail(head().marker().summary(summary)).messages(), "codex", &at);
    let plain = replay(tail(head()).messages(), "codex", &at);
    assert_eq!((recorded.fired["compact"], plain.fired["compact"]), (1, 1));
    assert!(recorded.calls == plain.calls, "a summary does not count as a call of the session");
    let answered = |report: &plimsoll_replay::Report| report.reductions[0].reduction.answered;
    assert_eq!(answered(&recorded), (summary.len() as u64).div_ceil(4));
    assert_ne!(answered(&plain), answered(&recorded));
    let engine = replay_without_thrift(tail(head().marker().summary(summary)).messages(), &at);
    assert!(engine.reductions.iter().any(|fired| fired.reduction.answered == answered(&recorded)));
}

#[test]
fn a_session_that_starts_with_a_summary_keeps_it() {
    let history = History::new().marker().summary("Earlier we found hidden/away/secret_place.rs, and looked at everything else that lies around it in the folder.");
    let input = serde_json::json!({ "path": "hidden/away/secret_place.rs" });
    let report =
        replay(history.user("Open it").tool_with("read", input, "…").messages(), "none", &window(9_000));
    // The recording lacks what the summary replaces, so it becomes a user message, and references in user messages are
    // not counted.
    assert_eq!((report.references.all.references, report.windows.len()), (0, 1));
    assert!(report.peak > 25, "it is in the window: {}", report.peak);
}

#[test]
fn marks_of_the_recorded_agent_do_not_count() {
    let marked = History::new().user("a").tool("read", lines(700)).cleared().user("b").say("ok");
    let report = replay(marked.messages(), "none", &window(9_000));
    assert!(report.peak > 600, "the output is there again: {}", report.peak);
}

#[test]
fn a_call_that_cannot_fit_is_a_death_under_all_rules() {
    let fixed = plimsoll_replay::ReplayParams { fixed: Tokens(7_990), ..window(8_000) };
    for rules in DEFAULTS {
        let report = replay(reading(2, 100).messages(), rules, &fixed);
        assert_eq!((report.deaths + report.left_out, report.calls), (4, 4), "{rules}");
    }
}

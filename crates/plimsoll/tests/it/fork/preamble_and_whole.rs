//! The preamble, and whole digests.

use super::*;

fn stats() -> ForkStats {
    serde_json::from_value(json!({
        "originalCount": 20, "finalCount": 18, "totalChars": 1, "removedMessages": 0, "leftOutMessages": 2,
        "compactionDetected": false, "compactionSliceIndex": -1, "truncatedResults": 5, "headTailApplied": 0,
        "truncatedBy": TruncatedBy { tier1: 0, tier2: 3, tier3: 2, budget: 0 },
        "tierDistribution": TierDistribution { tier1: 5, tier2: 3, tier3: 2 },
    }))
    .unwrap()
}

#[test]
fn r51_r52_r53_r54_r55_r56_golden_preamble() {
    let text = preamble(&stats(), &tiered());
    let expected = "You are working with forked context from a parent agent session.\n\
        Context processing applied:\n\
        - No compaction detected\n\
        - Tool results: 5 full, 3 truncated to 3000 chars, 2 truncated to 500 chars\n\
        - All messages preserved\n\
        If you need complete file contents or detailed results, re-read the files directly.";
    assert_eq!(text, expected);
}

#[test]
fn r53_r55_r57_the_preamble_follows_the_stats() {
    let mut stats = stats();
    (stats.compaction_detected, stats.removed_messages) = (true, 11);
    for policy in [tiered(), fitted()] {
        let text = preamble(&stats, &policy);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[2], "- Compaction summary included (messages before compaction removed)");
        assert_eq!(lines[4], "- 11 oldest messages removed to fit 200000 char budget");
    }
}

/// "Messages before compaction removed" together with "All messages preserved" was a contradiction.
#[test]
fn r53_r55_the_preamble_does_not_contradict_itself_after_a_compaction() {
    let log = History::new().user("a").say("b").marker().summary("s").user("c").messages();
    let digest = fork(&log, &fitted());
    let lines: Vec<&str> = digest.preamble.lines().collect();
    assert_eq!(lines[2], "- Compaction summary included (messages before compaction removed)");
    assert_eq!(lines[4], "- All messages after the compaction preserved");
    let ForkStats { original_count, final_count, removed_messages, left_out_messages, .. } = digest.stats;
    assert_eq!((original_count, final_count, removed_messages, left_out_messages), (5, 2, 0, 3));
}

#[test]
fn r54_a_short_result_counts_as_full_whatever_its_age() {
    let log = [read_results(2, 6_000), read_results(10, 100), read_results(5, 6_000)].concat();
    let digest = fork(&log, &fitted());
    assert_eq!(digest.stats.tier_distribution, TierDistribution { tier1: 5, tier2: 10, tier3: 2 });
    assert_eq!(digest.stats.truncated_results, 2);
    let line = "- Tool results: 15 full, 0 truncated to 3000 chars, 2 truncated to 500 chars\n";
    assert!(digest.preamble.contains(line), "{}", digest.preamble);
}

#[test]
fn r48_results_removed_with_their_messages_are_not_counted() {
    let old = (0..3).fold(History::new(), |h, _| h.tool("bash", "x".repeat(6_000)));
    let new = (0..20).fold(old, |h, _| h.tool("read", "x".repeat(49_000)));
    let log = new.user("y".repeat(199_000)).messages();
    let stats = fork(&log, &fitted()).stats;
    assert_eq!((stats.final_count, stats.removed_messages), (1, 23));
    assert_eq!((stats.tier_distribution.total(), stats.truncated_results), (0, 0));
    assert_eq!(stats.head_tail_applied, 0);
}

/// A step whose results together exceed the budget.
fn squeezed(chars: [usize; 4]) -> plimsoll::fork::Digest {
    let calls: Vec<(&str, String)> = chars.map(|chars| ("read", "x".repeat(chars))).to_vec();
    fork(&History::new().user("go").tools(&calls).messages(), &fitted())
}

#[test]
fn r48_results_squeezed_by_the_budget_are_counted_as_cut() {
    let digest = squeezed([90_000, 90_000, 90_000, 90_000]);
    assert_eq!(digest.stats.total_chars, Chars(200_000));
    // The head of 80 % has the first result and a part of the second, the tail the end of the fourth.
    assert_eq!(digest.stats.truncated_by, TruncatedBy { tier1: 0, tier2: 0, tier3: 0, budget: 3 });
    assert_eq!((digest.stats.truncated_results, digest.stats.head_tail_applied), (3, 0));
    assert_eq!((digest.stats.shortened_messages, digest.stats.removed_messages), (1, 1));
    let lines: Vec<&str> = digest.preamble.lines().collect();
    let results = "- Tool results: 1 full, 0 truncated to 3000 chars, 0 truncated to 500 chars, 3 cut to fit \
                   200000 char budget";
    assert_eq!(lines[3], results);
    let messages =
        "- 1 oldest messages removed to fit 200000 char budget, 1 shortened to fit 200000 char budget";
    assert_eq!(lines[4], messages);
}

#[test]
fn r48_a_squeezed_result_that_keeps_both_ends_counts_as_head_and_tail() {
    let stats = squeezed([100, 400_000, 100, 100]).stats;
    assert_eq!((stats.truncated_by.budget, stats.head_tail_applied), (1, 1));
}

#[test]
fn r55_a_shortened_message_is_mentioned() {
    let digest = fork(&History::new().user("x".repeat(300_000)).messages(), &fitted());
    let last = digest.preamble.lines().nth(4).unwrap();
    assert_eq!(last, "- All messages preserved, 1 shortened to fit 200000 char budget");
}

#[test]
fn r45_r46_stats_have_the_agreed_keys() {
    let json = serde_json::to_value(fork(&read_results(1, 10), &tiered()).stats).unwrap();
    let mut keys: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    let expected = [
        "compactionDetected",
        "compactionSliceIndex",
        "finalCount",
        "headTailApplied",
        "keptWords",
        "leftOutMessages",
        "originalCount",
        "removedMessages",
        "shortenedMessages",
        "tierDistribution",
        "totalChars",
        "truncatedBy",
        "truncatedResults",
    ];
    assert_eq!(keys, expected);
    assert_eq!(json["tierDistribution"], json!({ "tier1": 1, "tier2": 0, "tier3": 0 }));
}

#[test]
fn r47_removed_counts_the_budget_only() {
    let log = History::new().user("a").user("b").say("c").marker().summary("s").user("d").messages();
    let digest = fork(&log, &tiered());
    assert_eq!((digest.stats.original_count, digest.stats.final_count), (6, 2));
    assert_eq!(digest.stats.removed_messages, 0);
}

#[test]
fn r48_head_tail_counts_only_real_cuts() {
    let short = fork(&results("bash", 16, 100), &tiered()).stats;
    assert_eq!((short.truncated_results, short.head_tail_applied), (0, 0));
    let read = fork(&read_results(16, 6_000), &tiered()).stats;
    assert_eq!((read.truncated_results, read.head_tail_applied), (11, 0));
}

#[test]
fn r49_constants_of_the_tiered_preset() {
    let json = serde_json::to_value(tiered()).unwrap();
    let expected = json!({
        "charBudget": 200_000, "noRemoval": 120_000,
        "tier1Count": 5, "tier2Count": 10, "tier2Limit": 3_000, "tier3Limit": 500,
        "paramsTier1": 500, "paramsTier2": 200, "paramsTier3": 100,
        "headRatio": 0.8, "tailRatio": 0.2,
        "errorPatterns": ["error", "Error", "ERROR", "failed", "FAILED", "exception", "traceback"],
        "headTailKeywords": ["bash", "pty", "exec"],
        "uncutTools": [],
        "cutMarker": "gap", "labelHost": false, "summaryShare": 0.0,
        "newestRoom": null, "wordsRoom": null, "leastResult": 200,
        "childShare": 0.5, "newestShare": 0.5, "wordsShare": 0.25, "historyShare": 0.8,
        "rules": "document",
    });
    assert_eq!(json, expected);
}

#[test]
fn r50_old_constants_and_switches_are_unknown() {
    for old in ["forkMaxTokens", "forkToolResultLimit", "truncation"] {
        let error = Policy::from_value(json!({ "fork": { old: 1 } })).unwrap_err();
        assert!(error.to_string().contains("unknown field"), "{error}");
    }
}

#[test]
fn r3_r71_the_pipeline_needs_only_the_history() {
    // `fork` takes messages and numbers, so it cannot call a model. The digest has the original text.
    let log = History::new().user("question").tool("read", "raw output").messages();
    assert!(fork(&log, &tiered()).context.contains("raw output"));
}

#[test]
fn the_child_gets_preamble_blank_line_context() {
    let digest = fork(&read_results(1, 10), &tiered());
    assert_eq!(digest.message().unwrap(), format!("{}\n\n{}", digest.preamble, digest.context));
}

#[test]
fn r58_whole_pipeline_on_a_realistic_history() {
    let mut history = History::new().user("start").tool("read", "old".repeat(4_000)).marker().summary("SUM");
    for turn in 0..30 {
        history = history.user(format!("turn {turn}")).tool("bash", "out ".repeat(2_000)).say("ok");
    }
    let digest = fork(&history.messages(), &tiered());
    let stats = &digest.stats;
    assert!(stats.compaction_detected && stats.truncated_results == 25 && stats.head_tail_applied == 25);
    assert_eq!(stats.final_count + stats.removed_messages, 91);
    assert!(stats.total_chars <= Chars(200_000) && digest.context.contains("SUM"));
}

/// Six "User:" blocks had only three prompts: attachments, reminders and expansions of the host were labelled as the
/// user's.
#[test]
fn texts_of_a_host_are_not_labelled_as_the_users() {
    let host = |text: &str| json!({ "info": { "role": "user" }, "parts": [{ "type": "text", "text": text, "synthetic": true }] });
    let log = History::new()
        .user("<command-name>/review</command-name><command-args>only src</command-args>")
        .raw(host("Base directory for this skill: /skills/review"))
        .user("Base directory for this skill: /skills/style\n\n# Style")
        .raw(host("/w/a.rs:\n1 fn a() {}"))
        .user("<mcp-resource-update server=\"db\">changed</mcp-resource-update>")
        .user("and the tests")
        .result("call_1", "fine")
        .messages();
    let labels = |policy: &ForkPolicy| {
        let context = fork(&log, policy).context;
        let label = |line: &&str| matches!(*line, "User:" | "Host:");
        context.lines().filter(label).map(str::to_owned).collect::<Vec<_>>()
    };
    let [user, host] = ["User:", "Host:"];
    assert_eq!(labels(&Policy::default().fork), [user, host, host, host, host, user, user]);
    assert_eq!(labels(&tiered()), [user; 7], "the document knows two labels");
}

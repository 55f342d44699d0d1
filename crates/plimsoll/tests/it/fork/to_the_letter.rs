//! The fork document to the letter, which `tiered` and the `opencode` presets follow.

use plimsoll::fork::{Child, fork_for};
use plimsoll::{Counter, Limits, Preset, RequestOverhead, Tokens};

use super::*;

/// One token for each char, as for scripts other than Latin.
struct Dense;

impl Counter for Dense {
    fn name(&self) -> &'static str {
        "dense"
    }

    fn count(&self, text: &str) -> Tokens {
        Tokens(Chars::of(text).0)
    }
}

/// 187,000 chars of Japanese were cut to 110,000, because a tokenizer was used.
#[test]
fn r33_r35_opencode_counts_only_chars_whatever_the_childs_window() {
    let log = (0..187).fold(History::new(), |h, _| h.user("船".repeat(990))).messages();
    let policy = Preset::Opencode.policy();
    for context in [8_000, 32_000, 128_000] {
        let child =
            Child { limits: Limits::new(context, 0), fixed: RequestOverhead::default(), task: "go on" };
        let digest = fork_for(&log, &policy, &child, &Dense).unwrap();
        assert_eq!(digest, fork(&log, &policy.fork));
        assert_eq!((digest.stats.final_count, digest.stats.removed_messages), (187, 0));
        assert!(digest.stats.total_chars > Chars(185_000), "{}", digest.stats.total_chars);
    }
}

#[test]
fn r49_opencode_presets_follow_the_document_and_the_default_fits_the_child() {
    for preset in [Preset::Opencode, Preset::Opencode118] {
        assert_eq!(preset.policy().fork, ForkPolicy::tiered(), "{preset}");
    }
    assert_eq!(Policy::default().fork, ForkPolicy::fitted());
    let named = |name: &str| Policy::from_value(json!({ "fork": name })).unwrap().fork.clone();
    assert_eq!((named("tiered"), named("fitted")), (ForkPolicy::tiered(), ForkPolicy::fitted()));
}

#[test]
fn r23_a_result_that_contains_the_placeholder_is_unchanged() {
    let quote = format!("{}\n[Old tool result content cleared]\n{}", "a".repeat(4_000), "b".repeat(5_000));
    let log = [History::new().tool("read", quote.clone()).messages(), read_results(15, 10)].concat();
    let digest = fork(&log, &tiered());
    assert!(digest.context.contains(&quote));
    assert_eq!(digest.stats.truncated_results, 0);
}

/// 25 results of 6,000 chars and a prompt that takes nearly all of the budget.
fn crowded() -> Vec<Message> {
    let results = (0..10).fold(History::new(), |h, _| h.tool("bash", "x".repeat(6_000)));
    let results = (0..15).fold(results, |h, _| h.tool("read", "x".repeat(6_000)));
    results.user("y".repeat(199_000)).messages()
}

#[test]
fn r45_r48_figures_describe_the_second_stage_whatever_the_budget_removes() {
    let stats = fork(&crowded(), &tiered()).stats;
    assert_eq!((stats.original_count, stats.final_count, stats.removed_messages), (26, 1, 25));
    assert_eq!(stats.tier_distribution, TierDistribution { tier1: 5, tier2: 10, tier3: 10 });
    assert_eq!((stats.truncated_results, stats.head_tail_applied), (20, 10));
    assert_eq!(stats.truncated_by, TruncatedBy { tier1: 0, tier2: 10, tier3: 10, budget: 0 });
}

/// The hard limit cuts a message in the third stage, which these figures do not cover.
#[test]
fn r37_r48_a_result_that_only_the_cap_cuts_is_not_counted_as_truncated() {
    let stats = fork(&read_results(1, 300_000), &tiered()).stats;
    assert!(stats.total_chars <= Chars(200_000));
    assert_eq!((stats.truncated_results, stats.head_tail_applied), (0, 0));
    assert_eq!(stats.truncated_by.budget, 1);
}

#[test]
fn r12_r23_a_cleared_result_has_the_tier_of_its_number() {
    let cleared = History::new().tool("read", "[Old tool result content cleared]").messages();
    let stats = fork(&[cleared, read_results(15, 10)].concat(), &tiered()).stats;
    assert_eq!(stats.tier_distribution, TierDistribution { tier1: 5, tier2: 10, tier3: 1 });
    assert_eq!(stats.truncated_results, 0);
}

#[test]
fn r54_r55_the_preamble_has_the_counts_of_the_document() {
    let line =
        |digest: &plimsoll::fork::Digest, at: usize| digest.preamble.lines().nth(at).unwrap().to_owned();
    let digest = fork(&crowded(), &tiered());
    assert_eq!(
        line(&digest, 3),
        "- Tool results: 5 full, 10 truncated to 3000 chars, 10 truncated to 500 chars"
    );
    assert_eq!(line(&digest, 4), "- 25 oldest messages removed to fit 200000 char budget");
    // By tier, whether or not a result was long enough to be cut.
    let short = fork(&read_results(8, 10), &tiered());
    assert_eq!(
        line(&short, 3),
        "- Tool results: 5 full, 3 truncated to 3000 chars, 0 truncated to 500 chars"
    );
    assert_eq!(line(&short, 4), "- All messages preserved");
    let compacted = History::new().user("a").say("b").marker().summary("s").user("c").messages();
    assert_eq!(line(&fork(&compacted, &tiered()), 4), "- All messages preserved");
    let capped = fork(&History::new().user("x".repeat(300_000)).messages(), &tiered());
    assert_eq!(line(&capped, 4), "- All messages preserved");
}

#[test]
fn r49_no_tool_is_exempt_from_the_limits_of_its_tier() {
    let old = History::new().tool("mcp_ask_user_questions", "a".repeat(9_000)).messages();
    let digest = fork(&[old, read_results(16, 10)].concat(), &tiered());
    assert_eq!(digest.stats.truncated_results, 1);
}

//! The second stage: results are cut by age and tool.

use super::*;

#[test]
fn r12_r13_r14_r15_golden_sixteen_reads_of_6000() {
    let digest = fork(&read_results(16, 6_000), &tiered());
    assert_eq!(digest.stats.tier_distribution, TierDistribution { tier1: 5, tier2: 10, tier3: 1 });
    let mut expected = vec![529];
    expected.extend([3_029; 10]);
    expected.extend([6_000; 5]);
    assert_eq!(result_lengths(&digest.context), expected);
    assert_eq!((digest.stats.truncated_results, digest.stats.head_tail_applied), (11, 0));
}

#[test]
fn r17_r20_r21_golden_sixteen_bash_results_keep_both_ends() {
    let log = results("mcp_bash", 15, 6_000);
    let first = History::new().tool("mcp_bash", format!("START{}END", "x".repeat(5_992))).messages();
    let digest = fork(&[first, log].concat(), &tiered());
    let mut expected = vec![530];
    expected.extend([3_030; 10]);
    expected.extend([6_000; 5]);
    assert_eq!(result_lengths(&digest.context), expected);
    assert_eq!((digest.stats.truncated_results, digest.stats.head_tail_applied), (11, 11));
    let oldest = digest.context.split("[Tool result]\n").nth(1).unwrap();
    let (head, rest) = oldest.split_once("\n...[truncated 5500 chars]...\n").unwrap();
    assert_eq!((head.len(), &head[..5]), (400, "START"));
    assert!(rest.split("\nAgent:").next().unwrap().ends_with("END"));
}

#[test]
fn r20_second_tier_splits_2400_and_600() {
    let digest = fork(&results("pty", 6, 6_000), &tiered());
    let oldest = digest.context.split("[Tool result]\n").nth(1).unwrap();
    let (head, tail) = oldest.split_once("\n...[truncated 3000 chars]...\n").unwrap();
    assert_eq!((head.len(), tail.split("\nAgent:").next().unwrap().len()), (2_400, 600));
}

#[test]
fn r16_a_result_at_its_limit_is_untouched() {
    let log = [read_results(1, 3_000), read_results(5, 10)].concat();
    let digest = fork(&log, &tiered());
    assert_eq!(digest.stats.tier_distribution.tier2, 1);
    assert_eq!(digest.stats.truncated_results, 0);
    assert_eq!(result_lengths(&digest.context)[0], 3_000);
}

#[rstest]
#[case("read", "Error: x", true)]
#[case("read", "it failed", true)]
#[case("read", "FAILED", true)]
#[case("read", "a traceback", true)]
#[case("read", "an exception", true)]
#[case("read", "ERROR", true)]
#[case("read", "error", true)]
#[case("read", "Exception", false)]
#[case("read", "Traceback", false)]
#[case("read", "END", false)]
#[case("execute_sql", "END", true)]
#[case("Bash", "END", false)]
#[case("mcp_bash", "END", true)]
fn r18_r19_r25_r26_which_results_keep_their_end(
    #[case] tool: &str,
    #[case] ending: &str,
    #[case] keeps: bool,
) {
    let old = History::new().tool(tool, format!("{} {ending}", "x".repeat(6_000))).messages();
    let digest = fork(&[old, read_results(5, 10)].concat(), &tiered());
    assert_eq!(digest.context.contains(&format!("x {ending}")), keeps);
    assert_eq!(digest.stats.head_tail_applied, usize::from(keeps));
}

#[test]
fn r22_a_head_only_marker_is_at_the_end() {
    let digest = fork(&read_results(6, 6_000), &tiered());
    let oldest = digest.context.split("[Tool result]\n").nth(1).unwrap();
    assert!(oldest.split("\nAgent:").next().unwrap().ends_with("xxx\n...[truncated 3000 chars]..."));
}

#[test]
fn r23_a_cleared_result_is_unchanged_and_not_counted() {
    let cleared = History::new().tool("read", "[Old tool result content cleared]").messages();
    let digest = fork(&[cleared, read_results(16, 10)].concat(), &fitted());
    assert!(digest.context.contains("[Tool result]\n[Old tool result content cleared]"));
    assert_eq!(digest.stats.truncated_results, 0);
    let tiers = &digest.stats.tier_distribution;
    assert_eq!(tiers.tier1 + tiers.tier2 + tiers.tier3, 16);
}

#[test]
fn r23_a_long_result_that_only_quotes_the_placeholder_is_cut() {
    let quote = format!("[Old tool result content cleared] {}", "x".repeat(9_000));
    let log = [History::new().tool("read", quote).messages(), read_results(15, 10)].concat();
    assert_eq!(fork(&log, &fitted()).stats.truncated_results, 1);
}

#[test]
fn r24_r27_params_follow_the_tier_of_the_result() {
    let input = json!({ "text": "p".repeat(600) });
    let json = input.to_string();
    let history = (0..16).fold(History::new(), |h, _| h.tool_with("read", input.clone(), "x".repeat(6_000)));
    let digest = fork(&history.messages(), &tiered());
    let shown: Vec<&str> =
        digest.context.lines().filter_map(|line| line.strip_prefix("[Tool: read] ")).collect();
    assert_eq!(shown[0], format!("{}...", &json[..100]));
    assert_eq!(shown[1], format!("{}...", &json[..200]));
    assert_eq!(shown[15], format!("{}...", &json[..500]));
    assert_eq!(shown.len(), 16, "every call stays before its cut result");
}

#[test]
fn r24_a_call_without_result_is_in_the_first_tier() {
    let pending = ToolState::pending(json!({ "text": "p".repeat(600) }));
    let log = History::new().tool_state("read", pending).messages();
    let digest = fork(&[log, read_results(16, 10)].concat(), &tiered());
    let call = digest.context.lines().find(|line| line.starts_with("[Tool: read]")).unwrap();
    assert_eq!(call.len(), "[Tool: read] ".len() + 500 + 3);
}

#[test]
fn r28_a_flagged_result_appears_as_the_placeholder() {
    let log = History::new().tool("read", "z".repeat(50_000)).cleared().messages();
    let digest = fork(&log, &tiered());
    assert!(digest.context.contains("[Tool result]\n[Old tool result content cleared]"));
    assert!(!digest.context.contains("zzz"));
}

#[test]
fn r29_results_of_one_message_are_numbered_separately() {
    let calls: Vec<(&str, String)> = (0..16).map(|_| ("read", "x".repeat(6_000))).collect();
    let digest = fork(&History::new().tools(&calls).messages(), &tiered());
    assert_eq!(digest.stats.tier_distribution, TierDistribution { tier1: 5, tier2: 10, tier3: 1 });
}

#[test]
fn both_shapes_of_results_are_understood() {
    let mut history = History::new();
    for n in 0..16 {
        history = history.call(&format!("c{n}"), "mcp_bash").result(&format!("c{n}"), &"x".repeat(6_000));
    }
    let digest = fork(&history.messages(), &tiered());
    assert_eq!(digest.stats.tier_distribution, TierDistribution { tier1: 5, tier2: 10, tier3: 1 });
    assert_eq!(digest.stats.head_tail_applied, 11, "the tool's name comes from the call");
}

#[test]
fn empty_results_are_not_numbered_and_errors_are() {
    let failed = ToolState::failed(json!({}), format!("{}boom", "e".repeat(6_000)));
    let old = History::new().tool_state("read", failed).messages();
    let empty = read_results(3, 0);
    let digest = fork(&[old, empty, read_results(5, 10)].concat(), &tiered());
    assert_eq!(digest.stats.tier_distribution, TierDistribution { tier1: 5, tier2: 1, tier3: 0 });
    assert_eq!(digest.stats.truncated_results, 1);
}

#[test]
fn answers_of_the_user_to_questions_are_never_cut() {
    let old = History::new().tool("mcp_ask_user_questions", "a".repeat(9_000)).messages();
    let digest = fork(&[old, read_results(16, 10)].concat(), &fitted());
    assert_eq!(digest.stats.truncated_results, 0);
}

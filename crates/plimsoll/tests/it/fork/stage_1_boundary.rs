//! The first stage: the part of a history that is in a digest.

use super::*;

fn compacted() -> History {
    History::new().user("old").say("old answer").marker().summary("the summary").user("new")
}

#[test]
fn r1_results_before_the_boundary_do_not_count_in_tiers() {
    let mut history = History::new();
    for _ in 0..20 {
        history = history.tool("read", "x".repeat(6_000));
    }
    let log = history.marker().summary("sum").tool("read", "y".repeat(6_000)).messages();
    let digest = fork(&log, &tiered());
    assert_eq!(digest.stats.tier_distribution, TierDistribution { tier1: 1, tier2: 0, tier3: 0 });
    assert_eq!(digest.stats.truncated_results, 0);
}

#[test]
fn r2_r10_the_history_is_not_changed() {
    let log = compacted().tool("bash", "x".repeat(9_000)).messages();
    let before = serde_json::to_string(&log).unwrap();
    let _ = fork(&log, &tiered());
    assert_eq!(serde_json::to_string(&log).unwrap(), before);
}

#[test]
fn r4_r9_the_latest_of_several_pivots_counts() {
    let log = compacted().say("mid").marker().summary("second").user("newest").messages();
    let sliced = slice(&log);
    assert_eq!(texts(&sliced), ["second", "newest"]);
    assert!(!fork(&log, &tiered()).context.contains("the summary"));
}

#[test]
fn r5_r8_r11_slice_starts_with_the_summary_and_drops_the_marker() {
    let log = compacted().messages();
    let sliced = slice(&log);
    assert_eq!(texts(&sliced), ["the summary", "new"]);
    let digest = fork(&log, &tiered());
    assert_eq!(digest.stats.compaction_slice_index, 3);
    assert!(digest.stats.compaction_detected);
    assert!(!digest.context.contains("old"));
}

#[test]
fn r6_without_a_compaction_all_messages_stay() {
    let log = History::new().user("a").say("b").messages();
    let digest = fork(&log, &tiered());
    assert_eq!(digest.stats.final_count, 2);
    assert!(!digest.stats.compaction_detected);
    assert_eq!(digest.stats.compaction_slice_index, -1);
}

#[test]
fn r7_a_marker_without_summary_is_not_a_boundary() {
    let log = History::new().marker().user("new").messages();
    let digest = fork(&log, &tiered());
    assert_eq!(digest.stats.final_count, 2);
    assert!(!digest.stats.compaction_detected);
}

#[test]
fn a_pending_marker_falls_back_to_the_newest_completed_pivot() {
    let log = compacted().marker().unfinished_summary("half").user("last").messages();
    let sliced = slice(&log);
    assert_eq!(texts(&sliced), ["the summary", "new", "last"]);
}

/// C41: a failed summary is not part of the conversation.
#[rstest]
#[case::unfinished(History::new().user("old").say("answer").marker().unfinished_summary("half"))]
#[case::failed(
    History::new().user("old").say("answer").marker().summary("half").change(|message| {
        message.info.error = Some(json!({ "name": "UnknownError" }));
    })
)]
#[case::empty(History::new().user("old").say("answer").marker().summary("  "))]
#[case::several(
    History::new().user("old").marker().unfinished_summary("half").say("answer").marker().summary("")
)]
fn c41_a_failed_summary_is_left_out_without_an_older_pivot(#[case] history: History) {
    let log = history.user("last").messages();
    let sliced = slice(&log);
    assert_eq!((texts(&sliced), sliced.summary), (vec!["old".into(), "answer".into(), "last".into()], None));
    let digest = fork(&log, &tiered());
    assert!(!digest.stats.compaction_detected && !digest.context.contains("half"));
}

#[test]
fn c41_an_undone_compaction_is_left_out() {
    let marker = json!({ "info": { "id": "mark", "role": "user" }, "parts": [
        { "type": "compaction", "setAside": 5 } ] });
    let undone = History::new().user("old").say("answer").raw(marker);
    let log = undone.summary("undone summary").user("last").messages();
    assert_eq!(texts(&slice(&log)), ["old", "answer", "last"]);
}

#[test]
fn a_summary_without_marker_is_not_detected() {
    let log = History::new().user("a").summary("s").user("b").messages();
    assert_eq!(slice(&log).summary, None);
}

#[test]
fn the_tail_after_a_summary_is_part_of_the_digest() {
    let log = History::new()
        .user("old")
        .say("old answer")
        .user("tail question")
        .say("tail answer")
        .marker_with_tail("m2")
        .summary("sum")
        .messages();
    assert_eq!(texts(&slice(&log)), ["sum", "tail question", "tail answer"]);
}

#[test]
fn a_summary_inside_its_marker_is_in_the_digest() {
    let marker =
        json!({ "info": { "role": "user" }, "parts": [{ "type": "compaction", "summary": "INSIDE" }] });
    let log = History::new().user("old").raw(marker).user("new").messages();
    let digest = fork(&log, &tiered());
    assert!(digest.stats.compaction_detected && !digest.context.contains("old"));
    assert!(digest.context.contains("INSIDE") && digest.context.contains("new"), "{}", digest.context);
}

#[test]
fn a_marker_with_summary_and_text_is_listed_once() {
    let marker = json!({ "info": { "role": "user" }, "parts": [
        { "type": "compaction", "summary": "INSIDE" }, { "type": "text", "text": "WORDS" } ] });
    let digest = fork(&History::new().raw(marker).messages(), &tiered());
    assert_eq!((digest.stats.original_count, digest.stats.final_count), (1, 1));
    assert_eq!(digest.context, "<inherited_context>\nUser:\nINSIDE\nWORDS\n</inherited_context>");
}

#[test]
fn hand_made_messages_without_times_and_parents_make_a_pivot() {
    let log: Vec<Message> = serde_json::from_value(json!([
        { "info": { "role": "user" }, "parts": [{ "type": "text", "text": "old" }] },
        { "info": { "role": "user" }, "parts": [{ "type": "compaction" }] },
        { "info": { "role": "assistant", "summary": true }, "parts": [{ "type": "text", "text": "sum" }] },
    ]))
    .unwrap();
    assert_eq!(slice(&log).summary, Some(2));
}

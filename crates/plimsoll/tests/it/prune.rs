//! Layer 2.

use plimsoll::log::{ToolStatus, ToolTime};
use plimsoll::prune::{self, Pressure, PruneChoice, PrunePlan, PruneReason};
use plimsoll::receipt::Stamp;
use plimsoll::{Limits, Log, Message, Millis, PartBody, Plan, Policy, Preset, Tokens, ToolState, Window};
use plimsoll_testkit::History;
use rstest::rstest;
use serde_json::json;

use crate::yardstick::is_faster_than_json;

fn tokens(count: usize) -> String {
    "abcd".repeat(count)
}

/// Adds two turns after the history, so that all of it can be pruned.
fn later(history: History) -> Vec<Message> {
    history.user("next").say("ok").user("last").say("ok").messages()
}

fn plan(messages: &[Message]) -> PrunePlan {
    let plan = prune::plan(messages, &Preset::Opencode.policy(), None);
    assert_eq!(plan, prune::plan(messages, &Policy::default(), None), "plimsoll prunes as opencode does");
    plan
}

fn parts(plan: &PrunePlan) -> Vec<&str> {
    plan.items.iter().map(|item| item.part.as_str()).collect()
}

fn apply(messages: Vec<Message>, now: u64) -> Log {
    let mut log = Log::from_messages(messages);
    let plan = plan(&log);
    Plan::Prune(plan).mark(&mut log, &"rcp_1".into(), Millis(now)).unwrap();
    log
}

#[test]
fn r81_switched_off_nothing_changes() {
    let log = later(History::new().user("u").tool("read", tokens(200_000)));
    let policy = Policy::from_value(json!({ "prune": { "enabled": false } })).unwrap();
    let plan = prune::plan(&log, &policy, None);
    assert_eq!((plan.items.len(), plan.reason), (0, PruneReason::Off));
}

#[test]
fn r82_of_three_outputs_of_30000_the_two_older_are_cleared() {
    let history = History::new().user("u").tool("read", tokens(30_000)).tool("read", tokens(30_000));
    let log = later(history.tool("read", tokens(30_000)));
    assert_eq!(parts(&plan(&log)), ["m2.0", "m1.0"]);
}

#[test]
fn r82_parts_of_one_message_are_walked_in_reverse() {
    let calls: Vec<(&str, String)> = (0..3).map(|_| ("read", tokens(30_000))).collect();
    let log = later(History::new().user("u").tools(&calls));
    assert_eq!(parts(&plan(&log)), ["m1.1", "m1.0"]);
}

#[test]
fn r83_the_last_two_turns_are_untouched() {
    let log = History::new().user("a").say("x").user("b").tool("read", tokens(200_000));
    assert!(plan(&log.clone().messages()).items.is_empty());
    let log = log.user("c").tool("read", tokens(200_000)).messages();
    assert!(plan(&log).items.is_empty());
}

#[test]
fn r84_a_single_turn_is_never_pruned() {
    let log =
        History::new().user("u").tool("read", "x".repeat(200_000)).tool("read", tokens(90_000)).messages();
    assert!(plan(&log).items.is_empty());
}

#[test]
fn r85_a_summary_ends_the_scan() {
    let before = History::new().user("u").tool("read", tokens(100_000)).marker().summary("s");
    let log = later(before.tool("read", tokens(30_000)));
    assert!(plan(&log).items.is_empty());
}

/// The pruning specification only requires `summary == true`. The default knows that an unfinished or undone summary
/// replaces nothing, so messages before it are in the window.
#[test]
fn r85_opencode_stops_at_any_message_that_is_marked_as_a_summary() {
    let before = || History::new().user("u").tool("read", tokens(100_000)).marker();
    let unfinished = before().unfinished_summary("s");
    let failed = before().summary("s").change(|message| {
        message.info.error = Some(serde_json::json!({ "name": "APIError" }));
    });
    let unasked = History::new().user("u").tool("read", tokens(100_000)).say("s").change(|message| {
        message.info.summary = true;
    });
    for history in [unfinished, failed, unasked] {
        let log = later(history.tool("read", tokens(30_000)));
        assert!(prune::plan(&log, &Preset::Opencode.policy(), None).items.is_empty());
        let plan = prune::plan(&log, &Policy::default(), None);
        assert_eq!(plan.items.len(), 1, "what is in the window can be cleared");
    }
}

#[test]
fn r86_only_tool_parts_are_pruned() {
    let log = later(History::new().user(tokens(100_000)).say(tokens(100_000)).tool("read", tokens(50_000)));
    assert_eq!(parts(&plan(&log)), ["m2.0"]);
}

#[rstest]
#[case(ToolStatus::Running)]
#[case(ToolStatus::Error)]
#[case(ToolStatus::Pending)]
fn r87_only_completed_calls_are_pruned(#[case] status: ToolStatus) {
    let state = ToolState { status, ..ToolState::completed(json!({}), tokens(100_000)) };
    let log = later(History::new().user("u").tool_state("read", state).tool("read", tokens(50_000)));
    assert_eq!(parts(&plan(&log)), ["m2.0"]);
}

#[rstest]
#[case("skill")]
#[case("Skill")]
#[case("SKILL")]
fn r88_r89_protected_tools_are_skipped_and_not_counted(#[case] tool: &str) {
    let log = later(History::new().user("u").tool("read", tokens(30_000)).tool(tool, "x".repeat(400_000)));
    assert!(plan(&log).items.is_empty());
}

#[test]
fn r90_the_first_cleared_part_ends_the_scan() {
    let history =
        History::new().user("u").tool("read", tokens(90_000)).tool("read", tokens(30_000)).cleared();
    let log = later(history.tool("read", tokens(30_000)));
    assert!(plan(&log).items.is_empty());
}

#[test]
fn r91_r92_exactly_40000_is_protected() {
    let log = |chars: usize| later(History::new().user("u").tool("read", "x".repeat(chars)));
    assert!(plan(&log(160_000)).items.is_empty());
    assert_eq!(plan(&log(160_000)).kept_tokens, Tokens(40_000));
    let crossed = plan(&log(160_004));
    assert_eq!((crossed.items.len(), crossed.freed_tokens), (1, Tokens(40_001)));
}

#[test]
fn r93_the_part_that_crosses_the_amount_is_cleared_with_all_older() {
    let log = later(History::new().user("u").tool("a", tokens(30_000)).tool("b", tokens(30_000)));
    assert_eq!(parts(&plan(&log)), ["m1.0"]);
    let log = later(
        History::new()
            .user("u")
            .tool("o", "four".repeat(30))
            .tool("a", tokens(30_000))
            .tool("b", tokens(30_000)),
    );
    assert_eq!(plan(&log).items.len(), 2);
}

#[rstest]
#[case(20_000, false, 0)]
#[case(20_001, false, 1)]
#[case(20_000, true, 1)]
#[case(19_999, true, 0)]
fn r94_only_above_the_minimum(#[case] older: usize, #[case] inclusive: bool, #[case] pruned: usize) {
    let log = later(History::new().user("u").tool("a", tokens(older)).tool("b", tokens(40_000)));
    let policy =
        Policy::from_value(json!({ "preset": "opencode", "prune": { "minInclusive": inclusive } })).unwrap();
    let plan = prune::plan(&log, &policy, None);
    assert_eq!(plan.items.len(), pruned);
    assert_eq!(plan.freed_tokens, if pruned == 1 { Tokens(older as u64) } else { Tokens(0) });
}

#[test]
fn r95_r96_a_prune_sets_a_time_and_nothing_else() {
    let messages = later(History::new().user("u").tool("read", tokens(90_000)));
    let before = serde_json::to_value(&messages).unwrap();
    let log = apply(messages, 1_705_512_345_678);
    let mut after = serde_json::to_value(log.messages()).unwrap();
    let time = after[1]["parts"][0]["state"]["time"].as_object_mut().unwrap();
    assert_eq!(time.shift_remove("compacted"), Some(json!(1_705_512_345_678u64)));
    let marks = after[1]["parts"][0].as_object_mut().unwrap().shift_remove("plimsoll").unwrap();
    assert_eq!(marks["marks"][0]["receipt"], "rcp_1", "the mark knows its receipt");
    assert_eq!(after, before, "output, start and end are unchanged");
}

#[test]
fn r97_r98_r99_the_window_shows_the_call_and_the_placeholder() {
    let mut state = ToolState::completed(json!({ "path": "a.rs" }), tokens(90_000));
    state.attachments = vec![json!({ "mime": "image/png" })].into();
    let log = apply(later(History::new().user("u").tool_state("read", state)), 5);
    let window = serde_json::to_value(Window::of(&log, &Preset::Opencode.policy())).unwrap();
    let call = &window["messages"][1]["blocks"][0];
    assert_eq!((&call["tool"], &call["input"]), (&json!("read"), &json!({ "path": "a.rs" })));
    let result = &window["messages"][2]["blocks"][0];
    assert_eq!(result["text"], "[Old tool result content cleared]");
    assert_eq!(result.get("files"), None);
    let window = serde_json::to_value(Window::of(&log, &Policy::default())).unwrap();
    let named = "[Old tool result content cleared; recall m1.0]";
    assert_eq!(window["messages"][2]["blocks"][0]["text"], named, "plimsoll names the handle");
}

#[rstest]
#[case(History::new())]
#[case(History::new().user("a").say("b").user("c").say("d").user("e"))]
#[case(History::new().user("a").tool("skill", tokens(90_000)).user("c").say("d").user("e"))]
fn r100_empty_no_tools_all_protected(#[case] history: History) {
    let plan = plan(&history.messages());
    assert_eq!((plan.items.len(), plan.freed_tokens), (0, Tokens(0)));
}

#[test]
fn r101_pruning_twice_changes_nothing_more() {
    let log = apply(later(History::new().user("u").tool("a", tokens(50_000)).tool("b", tokens(30_000))), 5);
    assert!(plan(&log).items.is_empty());
}

#[test]
fn r102_new_outputs_can_be_pruned_later() {
    let mut log = apply(later(History::new().user("u").tool("a", tokens(50_000))), 5);
    let more = later(History::new().user("u").tool("b", tokens(50_000)).tool("c", tokens(30_000)));
    let messages: Vec<Message> = log.messages().iter().cloned().chain(more).collect();
    log = Log::from_messages(messages);
    let tools: Vec<String> = plan(&log).items.into_iter().map(|item| item.tool).collect();
    assert_eq!(tools, ["b"], "only what is newer than the boundary");
}

#[test]
fn r104_a_plan_over_100000_parts_takes_one_pass() {
    let history = (0..100_000).fold(History::new().user("u"), |h, _| h.tool("read", "x".repeat(120)));
    let log = later(history);
    assert_eq!(plan(&log).items.len(), 100_000 - 40_000 / 30);
    for preset in Preset::ALL {
        let policy = preset.policy();
        let pressure = Some(Pressure { load: Tokens(3_000_000), limits: Limits::new(3_000_000, 32_000) });
        let times = if policy.names.enabled { 20 } else { 1 };
        is_faster_than_json(&log, times, || drop(prune::plan(&log, &policy, pressure)));
    }
}

#[test]
fn r105_constants() {
    let prune = serde_json::to_value(&Policy::default().prune).unwrap();
    assert_eq!((&prune["protectTokens"], &prune["minTokens"]), (&json!(40_000), &json!(20_000)));
    assert_eq!(prune["protectedTools"], json!(["skill"]));
    assert_eq!(Policy::default().count.chars_per_token, 4);
}

/// FACTS: 8 outputs of 49,489 chars in the first turn; after the third the five oldest are marked.
#[test]
fn opencode_live_prune_marks_the_five_oldest_of_eight() {
    let history = (0..8).fold(History::new().user("u"), |h, _| h.tool("bash", "x".repeat(49_489)));
    assert!(plan(&history.clone().user("two").say("ok").messages()).items.is_empty());
    let plan = prune::plan(&later(history), &Preset::Opencode.policy(), None);
    assert_eq!(parts(&plan), ["m5.0", "m4.0", "m3.0", "m2.0", "m1.0"]);
    assert_eq!(plan.kept_tokens, Tokens(3 * 12_372));
}

mod openfork {
    use super::*;

    fn policy() -> Policy {
        Preset::Openfork.policy()
    }

    fn pressure(load: u64) -> Option<Pressure> {
        Some(Pressure { load: Tokens(load), limits: Limits::new(128_000, 16_384) })
    }

    fn full() -> Vec<Message> {
        let history = (0..12).fold(History::new().user("u"), |h, _| h.tool("read", tokens(10_000)));
        history.messages()
    }

    #[rstest]
    #[case(111_615, 0)]
    #[case(111_616, 3)]
    fn r143_the_guide_prunes_only_near_the_limit(#[case] load: u64, #[case] pruned: usize) {
        assert_eq!(prune::plan(&full(), &policy(), pressure(load)).items.len(), pruned);
    }

    #[test]
    fn r143_without_a_known_load_nothing_is_pruned() {
        assert_eq!(prune::plan(&full(), &policy(), None).reason, PruneReason::NotNeeded);
    }

    #[test]
    fn r144_the_oldest_are_cleared_first_and_only_as_many_as_needed() {
        let plan = prune::plan(&full(), &policy(), pressure(120_000));
        // Each frees 10,000 minus the 500 tokens that stay visible.
        assert_eq!(parts(&plan), ["m1.0", "m2.0", "m3.0"]);
        assert_eq!(plan.freed_tokens, Tokens(3 * 9_500));
    }

    #[test]
    fn r144_r145_the_window_keeps_the_first_2000_chars_and_is_shorter() {
        let mut log = Log::from_messages(full());
        let before = Window::of(&log, &policy());
        let plan = prune::plan(&log, &policy(), pressure(120_000));
        Plan::Prune(plan).mark(&mut log, &"rcp_1".into(), Millis(7)).unwrap();
        let after = Window::of(&log, &policy());
        let size = |window: &Window| serde_json::to_string(window).unwrap().len();
        assert!(size(&after) + 100_000 < size(&before));
        let json = serde_json::to_value(&after).unwrap();
        let text = json["messages"][2]["blocks"][0]["text"].as_str().unwrap();
        assert_eq!(text, format!("{}\n\n[Output pruned: kept first 2000 chars]", &tokens(500)));
        assert_eq!(json["messages"][1]["blocks"][0]["input"], json!({ "arg": "x" }), "invocation data stay");
    }

    #[test]
    fn c5_outputs_under_40000_are_all_protected() {
        let log = (0..3).fold(History::new().user("u"), |h, _| h.tool("read", tokens(10_000))).messages();
        assert!(prune::plan(&log, &policy(), pressure(120_000)).items.is_empty());
    }

    #[test]
    fn c5_all_parts_count_towards_protection() {
        let history = History::new().user("u").tool("read", tokens(30_000)).user(tokens(39_000));
        let plan = prune::plan(&history.messages(), &policy(), pressure(120_000));
        assert_eq!(parts(&plan), ["m1.0"]);
    }

    #[test]
    fn c35_cleared_parts_are_skipped_not_a_stop() {
        let history = History::new().user("u").tool("a", tokens(20_000)).tool("b", tokens(20_000)).cleared();
        let plan = prune::plan(&history.tool("c", tokens(45_000)).messages(), &policy(), pressure(120_000));
        let tools: Vec<&str> = plan.items.iter().map(|item| item.tool.as_str()).collect();
        assert_eq!(tools, ["a", "c"]);
    }
}

#[test]
fn separate_results_are_pruned_too() {
    let log = later(History::new().user("u").call("c1", "read").result("c1", &tokens(90_000)));
    let plan = prune::plan(&log, &Policy::default(), None);
    assert_eq!(parts(&plan), ["m2.0"]);
    let log = apply(log, 3);
    assert!(
        matches!(&log[2].parts[0].body, PartBody::ToolResult(result) if result.compacted == Some(Millis(3)))
    );
    let times = ToolTime::ran(Millis(1), Millis(2));
    assert_eq!(times.compacted, None);
}

/// Clearing an output that is shorter than the placeholder makes the window larger.
#[test]
fn tiny_outputs_are_not_cleared() {
    let tiny =
        (0..5_000).fold(History::new().user("u").tool("read", tokens(90_000)), |h, _| h.tool("bash", "ok"));
    let messages = later(tiny.tool("read", tokens(41_000)));
    let plan = prune::plan(&messages, &Policy::default(), None);
    assert_eq!(parts(&plan), ["m5002.0", "m1.0"]);
}

#[test]
fn after_an_undone_compaction_old_outputs_can_be_pruned() {
    let history = History::new().user("u").tool("read", tokens(90_000)).marker().summary("s");
    let mut log = Log::from_messages(later(history));
    assert!(plan(&log).items.is_empty());
    log.set_aside(&"m2".into(), Millis(9)).unwrap();
    assert_eq!(parts(&prune::plan(&log, &Policy::default(), None)), ["m1.0"]);
}

#[test]
fn a_prune_can_be_applied_without_a_ladder() {
    let mut log = Log::from_messages(later(History::new().user("u").tool("read", tokens(90_000))));
    let policy = Policy::default();
    let weigh = |log: &Log| {
        plimsoll::request_tokens(
            &Window::of(log, &policy),
            plimsoll::RequestOverhead::default(),
            &policy.count,
        )
    };
    let mut ids = plimsoll_testkit::ids();
    let reason = "after the answer";
    let plan = Plan::Prune(prune::plan(&log, &policy, None));
    let stamp = Stamp { ids: &mut ids, now: Millis(7), policy: &policy, reason };
    let receipt = plan.clone().apply(&mut log, stamp, weigh).unwrap().unwrap();
    assert_eq!((receipt.before, receipt.after), (Tokens(90_000) + weigh(&log) - Tokens(12), weigh(&log)));
    let stamp = Stamp { ids: &mut ids, now: Millis(8), policy: &policy, reason };
    assert_eq!(plan.apply(&mut log, stamp, weigh).unwrap(), None, "it would not shrink a second time");
    assert_eq!(log[1].parts[0].cleared(), Some(Millis(7)), "and what was marked before stays marked");
}

/// Outputs of two tools about two files, 10,000 tokens each.
fn mixed() -> Vec<Message> {
    let mut history = History::new().user("u");
    for n in 0..3 {
        history = history
            .tool_with("read", json!({ "path": format!("/home/me/project/src/file{n}.rs") }), tokens(10_000))
            .tool_with("bash", json!({ "command": "ls" }), tokens(10_000));
    }
    history.messages()
}

fn chosen(choice: PruneChoice) -> PrunePlan {
    let pressure = Pressure { load: Tokens(60_000), limits: Limits::new(100_000, 0) };
    prune::plan_choice(&mixed(), &Policy::default(), &choice, Some(pressure))
}

#[rstest]
#[case::tool(PruneChoice { tools: vec!["BASH".into()], ..PruneChoice::default() }, 30_000)]
#[case::file(PruneChoice { files: vec!["src/file1.rs".into()], ..PruneChoice::default() }, 10_000)]
#[case::absolute(PruneChoice { files: vec!["/home/me/project/src/file1.rs".into()], ..PruneChoice::default() }, 10_000)]
#[case::name_alone(PruneChoice { files: vec!["./file2.rs".into()], ..PruneChoice::default() }, 10_000)]
#[case::end_of_a_name(PruneChoice { files: vec!["1.rs".into()], ..PruneChoice::default() }, 0)]
#[case::keep(PruneChoice { keep: Some(2), ..PruneChoice::default() }, 40_000)]
#[case::keep_more_than_there_are(PruneChoice { keep: Some(u64::MAX), ..PruneChoice::default() }, 0)]
#[case::until(PruneChoice { to: Some(45), ..PruneChoice::default() }, 20_000)]
#[case::both(PruneChoice { tools: vec!["bash".into()], keep: Some(2), ..PruneChoice::default() }, 10_000)]
#[case::no_such_tool(PruneChoice { tools: vec!["write".into()], ..PruneChoice::default() }, 0)]
fn a_prune_by_choice_clears_the_chosen_outputs(#[case] choice: PruneChoice, #[case] freed: u64) {
    let plan = chosen(choice.clone());
    assert_eq!(plan.freed_tokens, Tokens(freed), "{choice}: {:?}", plan.items);
    let reason = if freed > 0 { PruneReason::Chosen } else { PruneReason::NoneChosen };
    assert_eq!((plan.reason, plan.choice.as_ref()), (reason, Some(&choice)));
    let through_json: PrunePlan = serde_json::from_value(serde_json::to_value(&plan).unwrap()).unwrap();
    assert_eq!(through_json, plan);
}

#[test]
fn a_prune_by_choice_clears_the_oldest_first_and_reports_a_shortfall() {
    let plan = chosen(PruneChoice { to: Some(45), ..PruneChoice::default() });
    assert_eq!(parts(&plan), ["m1.0", "m2.0"]);
    let short = chosen(PruneChoice { tools: vec!["bash".into()], to: Some(10), ..PruneChoice::default() });
    assert_eq!(short.freed_tokens, Tokens(30_000));
    assert!(
        short.explain().contains("30,000 tokens would be left, more than the target of 10,000"),
        "{}",
        short.explain()
    );
    let enough = chosen(PruneChoice { to: Some(60), ..PruneChoice::default() });
    assert_eq!((enough.items.len(), enough.reason), (0, PruneReason::SmallEnough));
    assert_eq!(
        Plan::Prune(enough).to_string(),
        "prune nothing: the window is small enough: 60,000 tokens, the target is 60,000"
    );
}

#[test]
fn a_prune_by_choice_counts_outputs_that_are_too_short() {
    let long = || json!({ "path": "a.rs" });
    let history = History::new().user("u").tool_with("edit", long(), "The file was updated.".to_owned());
    let only_short = history.clone().messages();
    let history = history.tool_with("edit", long(), tokens(10_000)).tool_with("bash", long(), tokens(10_000));
    let messages = history.tool_with("edit", long(), "The file was updated.".to_owned()).messages();
    let choice = PruneChoice { tools: vec!["edit".into()], ..PruneChoice::default() };
    let plan = |messages: &[Message], choice: &PruneChoice| {
        prune::plan_choice(messages, &Policy::default(), choice, None)
    };
    let both = plan(&messages, &choice);
    assert_eq!((both.items.len(), both.too_short), (1, 2));
    let detail = Plan::Prune(both.clone()).detail();
    assert!(detail.contains("  stay  2 tool outputs, too short to be worth clearing\n"), "{detail}");
    assert_eq!(serde_json::to_value(&both).unwrap()["tooShort"], 2);
    // Outputs that `keep` protects are not counted.
    let kept = plan(&messages, &PruneChoice { keep: Some(1), ..choice.clone() });
    assert_eq!((kept.items.len(), kept.too_short), (1, 1));
    let nothing = plan(&only_short, &choice);
    assert_eq!(
        Plan::Prune(nothing).to_string(),
        "prune nothing: the chosen outputs are too short to be worth clearing: 1 tool output"
    );
    let other = plan(&only_short, &PruneChoice { tools: vec!["bash".into()], ..choice });
    assert_eq!(Plan::Prune(other).to_string(), "prune nothing: no tool output matches the choice");
}

#[test]
fn a_protected_tool_is_cleared_only_by_name() {
    let policy = Policy::from_value(json!({ "prune": { "protectedTools": ["bash"] } })).unwrap();
    let freed = |choice: PruneChoice| prune::plan_choice(&mixed(), &policy, &choice, None).freed_tokens;
    assert_eq!(freed(PruneChoice { keep: Some(0), ..PruneChoice::default() }), Tokens(30_000));
    assert_eq!(freed(PruneChoice { tools: vec!["bash".into()], ..PruneChoice::default() }), Tokens(30_000));
}

/// `m1` to `m3` read a whole file, `m4` edits it, `m5` reads another file.
fn read_thrice_and_edited() -> Vec<Message> {
    let read = |h: History, path: &str| h.tool_with("read", json!({ "path": path }), tokens(500));
    let history = (0..3).fold(History::new().user("u"), |h, _| read(h, "src/a.rs"));
    let history = history.tool_with("edit", json!({ "filePath": "/srv/src/a.rs" }), tokens(40));
    read(history, "src/b.rs").say("done").messages()
}

/// The result of the edit was the newest output about the file, so all three reads were cleared.
#[rstest]
#[case(1, &["m1.0", "m2.0"])]
#[case(2, &["m1.0"])]
#[case(3, &[])]
#[case(0, &["m1.0", "m2.0", "m3.0", "m4.0"])]
fn keep_counts_the_newest_reads_of_a_file(#[case] keep: u64, #[case] cleared: &[&str]) {
    let choice = PruneChoice { files: vec!["a.rs".into()], keep: Some(keep), ..PruneChoice::default() };
    let plan = prune::plan_choice(&read_thrice_and_edited(), &Policy::default(), &choice, None);
    assert_eq!(parts(&plan), cleared);
}

#[test]
fn keep_counts_for_each_of_several_files() {
    let files = vec!["a.rs".into(), "b.rs".into()];
    let choice = PruneChoice { files, keep: Some(1), ..PruneChoice::default() };
    let plan = prune::plan_choice(&read_thrice_and_edited(), &Policy::default(), &choice, None);
    assert_eq!(parts(&plan), ["m1.0", "m2.0"], "the newest read of each file stays");
    assert_eq!(choice.to_string(), "about `a.rs`, `b.rs`, all but the newest read");
}

/// Codex has no tool for reading files: it uses a shell.
#[test]
fn a_command_that_prints_a_file_is_about_that_file() {
    let show = |h: History, command: &str| h.tool_with("bash", json!({ "command": command }), tokens(500));
    let history = show(show(History::new().user("u"), "cat src/a.rs"), "sed -n '1,40p' src/a.rs");
    let log = show(history, "cargo test").say("done").messages();
    let choice = |keep| PruneChoice { files: vec!["src/a.rs".into()], keep, ..PruneChoice::default() };
    let plan = |keep| prune::plan_choice(&log, &Policy::default(), &choice(keep), None);
    assert_eq!(parts(&plan(None)), ["m1.0", "m2.0"]);
    assert_eq!(parts(&plan(Some(1))), ["m1.0"]);
}

#[test]
fn only_reads_that_a_later_one_repeats_are_cleared() {
    let read = |h: History, input: serde_json::Value| h.tool_with("read", input, tokens(500));
    let lines = |offset: u64| json!({ "path": "a.rs", "offset": offset, "limit": 50 });
    let history = [lines(1), lines(51), lines(1), json!({ "path": "b.rs" }), json!({ "path": "./b.rs" })]
        .into_iter()
        .fold(History::new().user("u"), read);
    let history = history.tool_with("bash", json!({ "command": "cat b.rs && cargo test" }), tokens(500));
    let log = history.tool_with("edit", json!({ "filePath": "a.rs" }), tokens(500)).say("done").messages();
    let choice = PruneChoice { repeated: true, ..PruneChoice::default() };
    let plan = prune::plan_choice(&log, &Policy::default(), &choice, None);
    assert_eq!(parts(&plan), ["m1.0", "m4.0", "m5.0"], "the lines from 51 on are shown once");
    assert_eq!(choice.to_string(), "reads that a later one shows again");
}

#[test]
fn a_choice_is_in_the_receipt_and_can_be_undone() {
    let mut log = Log::from_messages(mixed());
    let before = Window::of(&log, &Policy::default());
    let plan = chosen(PruneChoice { tools: vec!["bash".into()], ..PruneChoice::default() });
    let (mut ids, policy) = (plimsoll::Ids::new(|| 7), Policy::default());
    let stamp = Stamp { ids: &mut ids, now: Millis(9), policy: &policy, reason: "chosen by the user" };
    let weigh = |log: &Log| {
        plimsoll::Load::of(log, &policy, plimsoll::RequestOverhead::default(), &policy.count).tokens
    };
    let receipt = Plan::Prune(plan).apply(&mut log, stamp, weigh).unwrap().unwrap();
    assert!(receipt.detail().contains("chosen  outputs of `bash`"), "{}", receipt.detail());
    receipt.undo(&mut log, &mut ids, Millis(10)).unwrap();
    assert_eq!(Window::of(&log, &Policy::default()), before);
    let again =
        prune::plan_choice(&log, &policy, &PruneChoice { keep: Some(0), ..PruneChoice::default() }, None);
    assert_eq!(again.items.len(), 6);
}

#[test]
fn reasons_contain_their_numbers() {
    let reason = |messages: &[Message], policy: serde_json::Value, load| {
        let policy = Policy::from_value(policy).unwrap();
        let pressure = Pressure { load: Tokens(load), limits: Limits::new(100_000, 0) };
        prune::plan(messages, &policy, Some(pressure)).explain()
    };
    let history = later(History::new().user("u").tool("read", tokens(12_300)).tool("read", tokens(40_000)));
    assert_eq!(
        reason(&history, json!({}), 60_000),
        "too little would be freed: 12,300 of at least 20,000 tokens"
    );
    let few = later(History::new().user("u").tool("read", tokens(1_000)));
    assert_eq!(
        reason(&few, json!({}), 1_000),
        "old tool outputs have 1,000 tokens, and 40,000 are protected"
    );
    let gated = json!({ "prune": { "gateShare": 0.5, "protectTokens": 0 } });
    assert_eq!(
        reason(&history, gated, 40_000),
        "the window is not full enough: 40,000 tokens, and pruning starts at 50,001"
    );
}

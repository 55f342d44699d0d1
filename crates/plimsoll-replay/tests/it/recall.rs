//! What is still there when a call needs it.

use plimsoll::{Policy, Preset};
use plimsoll_replay::{Recording, Report, Rules};
use plimsoll_testkit::History;
use serde_json::json;

use super::{lines, reading, replay, window};

/// A file is listed, much else is read, and then the file is opened by the name that was listed.
fn long_after() -> History {
    let listed = History::new().user("Look around").tool("ls", "deep/inside/needle_file.rs\n");
    let read = (0..12).fold(listed, |history, turn| {
        history.tool_with("read", json!({ "what": "more" }), format!("{turn} {}", lines(2_500)))
    });
    read.tool_with("edit", json!({ "path": "deep/inside/needle_file.rs" }), "done").say("Changed.")
}

#[test]
fn a_reference_in_the_window_is_visible() {
    let report = replay(long_after().messages(), "none", &window(200_000));
    assert_eq!((report.recall.calls, report.recall.references, report.recall.visible), (1, 1, 1));
    assert!((report.recall.visible_share - 1.0).abs() < 1e-12);
}

#[test]
fn what_a_mask_hides_is_lost() {
    let report = replay(long_after().messages(), "mask-10", &window(200_000));
    assert_eq!((report.recall.references, report.recall.visible, report.recall.recalled), (1, 0, 0));
    assert_eq!((report.recall.requests, report.parts.recalls), (0, 0.0));
}

#[test]
fn rules_that_show_no_result_have_nothing_and_rules_that_show_all_have_everything() {
    let used = (0..12).rev().fold(reading(12, 100), |history, turn| {
        history.tool_with("grep", json!({ "symbol": format!("the_symbol_{turn:04}") }), "found")
    });
    let share = |rules| replay(used.clone().messages(), rules, &window(200_000)).recall.share();
    assert_eq!((share("mask-0"), share("none")), (0.0, 1.0));
    assert!(share("mask-10") > 0.0 && share("mask-10") < 1.0);
}

#[test]
fn what_the_engine_lets_go_is_brought_back_and_paid_for() {
    let report = replay(long_after().messages(), "plimsoll", &window(16_000));
    assert!(report.fired.contains_key("compact"), "{:?}", report.fired);
    assert_eq!((report.recall.visible, report.recall.recalled, report.recall.requests), (0, 1, 1));
    assert_eq!((report.deaths, report.recall.share()), (0, 1.0));
    // The window is sent once more, with the call and what it brought back.
    let Report { recalls, parts, .. } = &report;
    assert!(recalls.read > 0 && recalls.written > 10 && recalls.output > 5, "{recalls:?}");
    let price = window(16_000).price;
    assert!((parts.recalls - price.of(*recalls)).abs() < 1e-12);
    assert!((parts.total() - report.cost).abs() < 1e-12);
}

#[test]
fn what_was_brought_back_stays_in_sight() {
    let twice = long_after()
        .tool_with("read", json!({ "what": "a little" }), "nothing")
        .tool_with("edit", json!({ "path": "deep/inside/needle_file.rs" }), "done again")
        .say("Changed.");
    let report = replay(twice.messages(), "plimsoll", &window(16_000));
    assert_eq!(report.recall.requests, 1);
}

#[test]
fn systems_without_a_recall_tool_get_none() {
    for rules in ["opencode", "openfork", "codex", "claude-code"] {
        let report = replay(long_after().messages(), rules, &window(16_000));
        assert_eq!((report.recall.recalled, report.recall.requests), (0, 0), "{rules}");
    }
}

#[test]
fn in_a_call_that_does_not_fit_everything_is_lost() {
    let report = replay(long_after().messages(), "none", &window(16_000));
    assert!(report.deaths > 0);
    assert_eq!((report.recall.references, report.recall.visible, report.recall.recalled), (1, 0, 0));
}

#[test]
fn what_is_repeated_outside_of_results_says_nothing() {
    let listed =
        |history: History| history.user("Look").tool("ls", "some/deep/needle_file.rs some_other_name\n");
    let used =
        |history: History, input: &str| history.tool_with("edit", json!({ "path": input }), "ok").say("done");
    let references = |history: History| {
        let report = replay(history.messages(), "none", &window(200_000));
        (report.recall.calls, report.recall.references)
    };
    assert_eq!(references(used(listed(History::new()), "some/deep/needle_file.rs")), (1, 1));
    // A prompt names it, an answer, or the model's own input.
    let asked = History::new().user("Mind some/deep/needle_file.rs").say("Yes.");
    assert_eq!(references(used(listed(asked), "some/deep/needle_file.rs")), (0, 0));
    let told = listed(History::new()).say("There is some/deep/needle_file.rs.").user("Edit it");
    assert_eq!(references(used(told, "some/deep/needle_file.rs")), (0, 0));
    let again = used(listed(History::new()), "some_other_name").user("Once more");
    assert_eq!(references(used(again, "some_other_name")), (1, 1), "the second use repeats the first");
    // The model made it up.
    assert_eq!(references(used(listed(History::new()), "made/up/by_the_model.rs")), (0, 0));
}

#[test]
fn what_a_compaction_loses_counts_although_an_input_repeated_it() {
    // The path is in a result and in an input; both leave the window, and no summary has room for it.
    let first =
        History::new().user("Look around").tool("ls", "deep/inside/needle_file.rs and/its/neighbour.rs\n");
    let first = first.tool_with("stat", json!({ "path": "deep/inside/needle_file.rs" }), "-rw-r--r--");
    let read = (0..12).fold(first, |history, turn| {
        history.tool_with("read", json!({ "what": "more" }), format!("{turn} {}", lines(2_500)))
    });
    let all = read.tool_with("edit", json!({ "path": "deep/inside/needle_file.rs" }), "done").say("Changed.");
    let none = replay(all.clone().messages(), "none", &window(200_000)).recall;
    assert_eq!((none.references, none.visible), (1, 1), "only the first use is of a result alone");
    let codex = replay(all.messages(), "codex", &window(16_000)).recall;
    assert!(codex.references >= codex.visible, "{codex:?}");
}

#[test]
fn a_call_counts_as_one_however_much_it_refers_to() {
    let names: Vec<String> = (0..50).map(|n| format!("some_name_{n:04}")).collect();
    let listed = names.join(" ");
    let history = History::new()
        .user("go")
        .tool("list", &listed)
        .tool_with("write", json!({ "content": listed }), "ok, see other/place.rs")
        .tool_with("read", json!({ "path": "no/such/path" }), "")
        .tool_with("read", json!({ "path": "other/place.rs" }), "")
        .say("done");
    let report = replay(history.messages(), "none", &window(200_000));
    assert_eq!((report.recall.calls, report.recall.references), (2, 51));
}

#[test]
fn without_spills_what_is_cut_on_arrival_is_lost() {
    let output = format!("{}\nburied/in/the/middle.rs\n{}", "x\n".repeat(30_000), "y\n".repeat(30_000));
    let history = || {
        History::new()
            .user("go")
            .tool("read", output.clone())
            .tool_with("read", json!({ "path": "buried/in/the/middle.rs" }), "ok")
            .say("done")
    };
    let seen = |rules: &Rules| {
        let report = Recording::of(history().messages()).replay(rules, &window(200_000)).unwrap();
        (report.fired["truncate"], report.recall.visible, report.recall.recalled)
    };
    let mut spec = Preset::Plimsoll.policy().into_spec();
    assert_eq!(seen(&Preset::Plimsoll.policy().into()), (1, 1, 0), "the name stays in the notice");
    // Systems that spill can read the whole again while the notice is in the window, and pay for it.
    spec.names.enabled = false;
    for policy in [Policy::new(spec.clone()).unwrap(), Preset::Opencode.policy()] {
        assert_eq!(seen(&policy.into()), (1, 0, 1));
    }
    spec.truncate.spill = false;
    assert_eq!(seen(&Policy::new(spec).unwrap().into()), (1, 0, 0));
}

#[test]
fn a_replay_says_the_same_twice() {
    for rules in plimsoll_replay::DEFAULTS {
        let one = replay(reading(20, 3_000).messages(), rules, &window(40_000));
        let two = replay(reading(20, 3_000).messages(), rules, &window(40_000));
        assert_eq!(one, two, "{rules}");
    }
}

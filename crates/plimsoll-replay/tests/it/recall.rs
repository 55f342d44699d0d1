//! What is still there when a call needs it.

use plimsoll::{Policy, Preset};
use plimsoll_replay::{Recording, Rules};
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
    assert_eq!((report.recall.visible, report.recall.handles), (0, 0));
}

#[test]
fn what_the_engine_lets_go_has_a_handle() {
    let report = replay(long_after().messages(), "plimsoll", &window(16_000));
    assert!(report.fired.contains_key("compact"), "{:?}", report.fired);
    assert_eq!(report.recall.visible + report.recall.handles, 1);
    assert_eq!(report.deaths, 0);
}

#[test]
fn in_a_call_that_does_not_fit_everything_is_lost() {
    let report = replay(long_after().messages(), "none", &window(16_000));
    assert!(report.deaths > 0);
    assert_eq!((report.recall.references, report.recall.visible, report.recall.handles), (1, 0, 0));
}

#[test]
fn only_what_others_said_before_counts() {
    let own = History::new()
        .user("Make something up")
        .tool_with("write", json!({ "path": "made/up/by_the_model.rs" }), "written")
        .tool_with("read", json!({ "path": "made/up/by_the_model.rs" }), "made/up/by_the_model.rs")
        .tool_with("read", json!({ "path": "made/up/by_the_model.rs" }), "again")
        .say("done");
    let report = replay(own.messages(), "none", &window(200_000));
    // Of three uses only the last comes after a tool named it.
    assert_eq!((report.recall.calls, report.recall.references), (1, 1));
}

#[test]
fn a_call_counts_as_one_however_much_it_refers_to() {
    let names: Vec<String> = (0..50).map(|n| format!("some_name_{n:04}")).collect();
    let listed = names.join(" ");
    let history = History::new()
        .user(&listed)
        .tool_with("write", json!({ "content": listed }), "ok")
        .tool_with("read", json!({ "path": "no/such/path" }), "")
        .user("also look at other/place.rs")
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
    let kept = replay(history().messages(), "plimsoll", &window(200_000));
    assert_eq!((kept.fired["truncate"], kept.recall.visible, kept.recall.handles), (1, 0, 1));
    let mut spec = Preset::Plimsoll.policy().into_spec();
    spec.truncate.spill = false;
    let off = Rules::from(Policy::new(spec).unwrap());
    let lost = Recording::of(history().messages()).replay(&off, &window(200_000)).unwrap();
    assert_eq!((lost.fired["truncate"], lost.recall.visible, lost.recall.handles), (1, 0, 0));
}

#[test]
fn a_replay_says_the_same_twice() {
    for rules in plimsoll_replay::DEFAULTS {
        let one = replay(reading(20, 3_000).messages(), rules, &window(40_000));
        let two = replay(reading(20, 3_000).messages(), rules, &window(40_000));
        assert_eq!(one, two, "{rules}");
    }
}

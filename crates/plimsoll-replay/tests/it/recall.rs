//! References that calls need: in the window, recalled, or lost.

use plimsoll::{Millis, Policy, Preset};
use plimsoll_replay::{DEFAULTS, Recording, Report, Rules, Share};
use plimsoll_testkit::History;
use serde_json::json;

use super::{a_minute_apart, lines, reading, replay, window};

/// A file is listed, much else is read, and then the file is opened by the listed name.
fn long_after() -> History {
    let listed = History::new().user("Look around").tool("ls", "deep/inside/needle_file.rs\n");
    let read = (0..12).fold(listed, |history, turn| {
        history.tool_with("read", json!({ "what": "more" }), format!("{turn} {}", lines(2_500)))
    });
    read.tool_with("edit", json!({ "path": "deep/inside/needle_file.rs" }), "done").say("Changed.")
}

/// References that only outputs had mentioned.
fn only(report: &Report) -> Share {
    report.references.only_in_outputs
}

/// Returns needed, in the window, in it with surroundings, recalled.
fn counts(share: Share) -> (u64, u64, u64, u64) {
    (share.references, share.in_window, share.strict, share.recalled)
}

#[test]
fn a_reference_in_the_window_is_visible() {
    let report = replay(long_after().messages(), "none", &window(200_000));
    assert_eq!((only(&report).calls, counts(only(&report))), (1, (1, 1, 1, 0)));
    assert!((only(&report).in_window_share - 1.0).abs() < 1e-12);
}

#[test]
fn the_counted_references_are_the_same_under_every_policy() {
    let history = (0..24).fold(reading(12, 1_500), |history, use_| {
        history.tool_with("grep", json!({ "symbol": format!("the_symbol_{:04}", use_ % 12) }), "found")
    });
    let needed = |rules: &str, context| {
        let references = replay(history.clone().messages(), rules, &window(context)).references;
        [references.only_in_outputs, references.all].map(|share| (share.calls, share.references))
    };
    for context in [200_000, 16_000, 6_000] {
        let none = needed("none", context);
        assert!(none[0].1 >= 12 && none[1].1 > none[0].1, "{none:?}");
        for rules in DEFAULTS {
            assert_eq!(needed(rules, context), none, "{rules} in {context}");
        }
    }
}

#[test]
fn a_reference_that_an_input_repeats_counts_among_all() {
    let again =
        long_after().tool_with("edit", json!({ "path": "deep/inside/needle_file.rs" }), "ok").say("Done.");
    let references = replay(again.messages(), "mask-10", &window(200_000)).references;
    // At the first use only the output had mentioned it, and that is masked by then; the second use finds the first.
    assert_eq!(counts(references.only_in_outputs), (1, 0, 0, 0));
    assert_eq!(counts(references.all), (2, 1, 1, 0));
}

/// Replays a line of an output, its compaction with a recorded summary, and a call that needs a name of the line.
fn summarised_as(summary: &str) -> Share {
    let line = "the listing: deep/inside/needle_file.rs has 48213 lines of text";
    let listed = History::new().user("Look around").tool("stat", line);
    let read = (0..8).fold(listed, |history, turn| history.tool("read", format!("{turn} {}", lines(4_000))));
    let history = read
        .marker()
        .summary(summary)
        .user(lines(3_000))
        .tool_with("edit", json!({ "path": "deep/inside/needle_file.rs" }), "done")
        .say("Changed.");
    let report = replay(history.messages(), "codex", &window(38_000));
    assert_eq!(report.fired["compact"], 1);
    only(&report)
}

#[test]
fn a_name_without_its_surroundings_is_in_the_window_but_not_strictly() {
    let filler =
        "A summary of the session that is long enough to be taken for one, with nothing else in it. ";
    assert_eq!(counts(summarised_as(filler)), (1, 0, 0, 0));
    let named = format!("{filler}\nNames: needle_file, deep/inside/needle_file.rs, 48213");
    assert_eq!(counts(summarised_as(&named)), (1, 1, 0, 0));
    let shortened = format!("{filler}\n- deep/inside/needle_file.rs has 48213 lines of text");
    assert_eq!(counts(summarised_as(&shortened)), (1, 1, 0, 0), "the line begins in another way");
    let quoted = format!("{filler}\n- the listing: deep/inside/needle_file.rs has 48213 lines of text\n");
    assert_eq!(counts(summarised_as(&quoted)), (1, 1, 1, 0));
}

#[test]
fn the_rest_of_a_cut_output_has_its_surroundings() {
    let needle = "fn needle_of_the_head(value: u64) -> u64\n";
    let output = format!("{needle}{}", lines(20_000));
    let history = History::new()
        .user("go")
        .tool("read", output)
        .tool_with("grep", json!({ "name": "needle_of_the_head" }), "found")
        .say("done");
    let report = replay(history.messages(), "codex", &window(200_000));
    assert_eq!((report.fired["truncate"], counts(only(&report))), (1, (1, 1, 1, 0)));
}

#[test]
fn masked_references_are_lost() {
    let report = replay(long_after().messages(), "mask-10", &window(200_000));
    assert_eq!(counts(only(&report)), (1, 0, 0, 0));
    assert_eq!((report.references.recall_requests, report.parts.recalls), (0, 0.0));
}

#[test]
fn rules_that_show_no_result_have_nothing_and_rules_that_show_all_have_everything() {
    let used = (0..12).rev().fold(reading(12, 100), |history, turn| {
        history.tool_with("grep", json!({ "symbol": format!("the_symbol_{turn:04}") }), "found")
    });
    let share = |rules| only(&replay(used.clone().messages(), rules, &window(200_000))).in_window_share;
    assert_eq!((share("mask-0"), share("none")), (0.0, 1.0));
    assert!(share("mask-10") > 0.0 && share("mask-10") < 1.0);
}

#[test]
fn removed_references_are_recalled_and_billed() {
    let report = replay(long_after().messages(), "plimsoll", &window(16_000));
    assert!(report.fired.contains_key("compact"), "{:?}", report.fired);
    assert_eq!((counts(only(&report)), report.references.recall_requests), ((1, 0, 0, 1), 1));
    assert_eq!((report.deaths, only(&report).with_recall()), (0, 1.0));
    // The window is sent once more, with the call and the recalled text.
    let Report { recalls, parts, .. } = &report;
    assert!(recalls.read > 0 && recalls.written > 10 && recalls.output > 5, "{recalls:?}");
    let price = window(16_000).price;
    assert!((parts.recalls - price.of(*recalls)).abs() < 1e-12);
    assert!((parts.total() - report.cost).abs() < 1e-12);
}

#[test]
fn results_cleared_by_the_rule_of_the_proxy_are_recalled_and_billed() {
    let mut messages = a_minute_apart(reading_and_using().messages());
    // After a pause, all of the window has to be written again, so clearing costs nothing.
    for message in messages.iter_mut().skip(90) {
        let time = message.info.time.as_mut().unwrap();
        let later = |at: Millis| Millis(at.0 + 3 * 60 * 60 * 1_000);
        (time.created, time.completed) = (time.created.map(later), time.completed.map(later));
    }
    let report = replay(messages, "proxy", &window(400_000));
    assert!(report.fired["clear"] > 0, "{:?}", report.fired);
    assert_eq!((report.references.recall_requests, only(&report).recalled), (1, 1));
    assert!(report.recalls.written > 10 && report.recalls.output > 5, "{:?}", report.recalls);
    assert!((report.parts.total() - report.cost).abs() < 1e-12);
}

/// Forty large reads, of which the first is needed again at the end.
fn reading_and_using() -> History {
    reading(40, 6_000)
        .user("Use it")
        .tool_with("grep", json!({ "symbol": "the_symbol_0000" }), "found")
        .say("Done.")
}

#[test]
fn recalled_text_stays_and_still_counts_as_recalled() {
    let twice = long_after()
        .tool_with("read", json!({ "what": "a little" }), "nothing")
        .tool_with("edit", json!({ "path": "deep/inside/needle_file.rs" }), "done again")
        .say("Changed.");
    let report = replay(twice.messages(), "plimsoll", &window(16_000));
    // The second use needs no recall, but the model has it only because of the first recall.
    assert_eq!((report.references.recall_requests, counts(only(&report))), (1, (1, 0, 0, 1)));
    assert_eq!(counts(report.references.all), (2, 1, 1, 1));
}

#[test]
fn systems_without_a_recall_tool_get_none() {
    for rules in ["opencode", "openfork", "codex", "claude-code"] {
        let report = replay(long_after().messages(), rules, &window(16_000));
        assert_eq!((only(&report).recalled, report.references.recall_requests), (0, 0), "{rules}");
    }
}

#[test]
fn in_a_call_that_does_not_fit_everything_is_lost() {
    let report = replay(long_after().messages(), "none", &window(16_000));
    assert!(report.deaths > 0);
    assert_eq!(counts(only(&report)), (1, 0, 0, 0));
}

#[test]
fn references_that_are_repeated_elsewhere_are_not_only_in_results() {
    let listed =
        |history: History| history.user("Look").tool("ls", "some/deep/needle_file.rs some_other_name\n");
    let used =
        |history: History, input: &str| history.tool_with("edit", json!({ "path": input }), "ok").say("done");
    let references = |history: History| {
        let report = replay(history.messages(), "none", &window(200_000));
        (only(&report).calls, only(&report).references)
    };
    assert_eq!(references(used(listed(History::new()), "some/deep/needle_file.rs")), (1, 1));
    // A prompt mentions it, an answer, or the model's own input.
    let asked = History::new().user("Mind some/deep/needle_file.rs").say("Yes.");
    assert_eq!(references(used(listed(asked), "some/deep/needle_file.rs")), (0, 0));
    let message = listed(History::new()).say("There is some/deep/needle_file.rs.").user("Edit it");
    assert_eq!(references(used(message, "some/deep/needle_file.rs")), (0, 0));
    let again = used(listed(History::new()), "some_other_name").user("Once more");
    assert_eq!(references(used(again, "some_other_name")), (1, 1), "the second use repeats the first");
    // The model invented it.
    assert_eq!(references(used(listed(History::new()), "made/up/by_the_model.rs")), (0, 0));
}

#[test]
fn a_compaction_also_loses_references_that_an_input_repeated() {
    // The path is in a result and in an input; both leave the window, and the summary does not mention it.
    let first =
        History::new().user("Look around").tool("ls", "deep/inside/needle_file.rs and/its/neighbour.rs\n");
    let first = first.tool_with("stat", json!({ "path": "deep/inside/needle_file.rs" }), "-rw-r--r--");
    let read = (0..12).fold(first, |history, turn| {
        history.tool_with("read", json!({ "what": "more" }), format!("{turn} {}", lines(2_500)))
    });
    let summary =
        "A summary of the session that is long enough to be taken for one, with nothing else in it. ";
    let compacted = read.marker().summary(summary).user(lines(6_000));
    let all =
        compacted.tool_with("edit", json!({ "path": "deep/inside/needle_file.rs" }), "ok").say("Changed.");
    let none = replay(all.clone().messages(), "none", &window(200_000)).references;
    assert_eq!((counts(none.only_in_outputs), counts(none.all)), ((1, 1, 1, 0), (2, 2, 2, 0)));
    let codex = replay(all.messages(), "codex", &window(40_000)).references;
    assert_eq!((counts(codex.only_in_outputs), counts(codex.all)), ((1, 1, 1, 0), (2, 1, 1, 0)));
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
    assert_eq!((only(&report).calls, only(&report).references), (2, 51));
}

#[test]
fn without_spills_text_cut_on_arrival_is_lost() {
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
        (report.fired["truncate"], counts(only(&report)))
    };
    let mut spec = Preset::Plimsoll.policy().into_spec();
    assert_eq!(seen(&Preset::Plimsoll.policy().into()), (1, (1, 1, 0, 0)), "the name stays in the notice");
    // Systems that spill can read the full output while the notice is in the window, and pay for it.
    spec.names.enabled = false;
    for policy in [Policy::new(spec.clone()).unwrap(), Preset::Opencode.policy()] {
        assert_eq!(seen(&policy.into()), (1, (1, 0, 0, 1)));
    }
    spec.truncate.spill = false;
    assert_eq!(seen(&Policy::new(spec).unwrap().into()), (1, (1, 0, 0, 0)));
}

#[test]
fn a_replay_is_deterministic() {
    for rules in plimsoll_replay::DEFAULTS {
        let one = replay(reading(20, 3_000).messages(), rules, &window(40_000));
        let two = replay(reading(20, 3_000).messages(), rules, &window(40_000));
        assert_eq!(one, two, "{rules}");
    }
}

//! The window, as the model receives it.

use plimsoll::log::Effect;
use plimsoll::window::{INTERRUPTED, OPENING};
use plimsoll::{Block, Log, Message, Millis, Policy, Preset, ToolState, Window, WindowRole};
use plimsoll_testkit::History;
use rstest::rstest;
use serde_json::json;

fn cut(log: &mut Log, part: &str, keep: u64) {
    let effect = Effect::Cut(plimsoll::Chars(keep));
    log.mark(&part.into(), effect, &"rcp_1".into(), Millis(1)).unwrap();
}

fn window(messages: &[Message]) -> Window {
    let window = Window::of(messages, &Policy::default());
    window.check().unwrap();
    window
}

/// The window in short form, one line per message.
fn shape(window: &Window) -> Vec<String> {
    let block = |block: &Block| match block {
        Block::Text { text, .. } => text.to_string(),
        Block::Reasoning { text, .. } => format!("({text})"),
        Block::Call { id, tool, .. } => format!("{tool}#{id}"),
        Block::Result { id, text, is_error, .. } => {
            format!("{id}{}{text}", if *is_error { "!" } else { "=" })
        }
        Block::Provider { value, .. } => format!("block {}", value.json()),
        Block::File { filename, .. } => format!("file {}", filename.as_deref().unwrap_or_default()),
    };
    let line = |message: &plimsoll::WindowMessage| {
        let blocks: Vec<String> = message.blocks.iter().map(block).collect();
        let role = match message.role {
            WindowRole::System => "S",
            WindowRole::User => "U",
            WindowRole::Assistant => "A",
            WindowRole::Tool => "T",
        };
        format!("{role} {}", blocks.join(" | "))
    };
    window.messages.iter().map(line).collect()
}

fn seen(history: History) -> Vec<String> {
    shape(&window(&history.messages()))
}

#[test]
fn r116_r118_marker_summary_and_what_follows() {
    let history = History::new().user("old").say("old answer").marker().summary("SUM").user("new");
    assert_eq!(seen(history), ["U What did we do so far?", "A SUM", "U new"]);
}

#[test]
fn r116_the_newest_completed_pivot_counts() {
    let history =
        History::new().user("a").marker().summary("ONE").user("b").marker().summary("TWO").user("c");
    assert_eq!(seen(history), ["U What did we do so far?", "A TWO", "U c"]);
}

#[test]
fn r117_an_unfinished_summary_leaves_the_full_history() {
    let history = History::new().user("old").say("answer").marker().unfinished_summary("half").user("new");
    assert_eq!(seen(history), ["U old", "A answer", "U new"]);
}

/// OpenCode loses the history before the tail when a summary fails (anomalyco/opencode#42282).
#[rstest]
#[case::failed(|m: &mut Message| m.info.error = Some(json!({ "name": "APIError" })))]
#[case::finish_error(|m: &mut Message| m.info.finish = Some("error".into()))]
#[case::empty(|m: &mut Message| m.parts.clear())]
#[case::no_finish(|m: &mut Message| m.info.finish = None)]
fn r128_a_failed_or_empty_summary_changes_nothing(#[case] spoil: fn(&mut Message)) {
    let history =
        History::new().user("a").say("b").user("c").marker_with_tail("m2").summary("x").change(spoil);
    assert_eq!(seen(history.user("d")), ["U a", "A b", "U c", "U d"]);
    let earlier = History::new().user("z").marker().summary("GOOD").user("y");
    let history = earlier.marker().summary("x").change(spoil).user("d");
    assert_eq!(seen(history), ["U What did we do so far?", "A GOOD", "U y", "U d"]);
}

#[test]
fn an_undone_pivot_shows_the_history_again() {
    let mut log = History::new().user("a").say("b").marker().summary("SUM").user("c").log();
    log.set_aside(&"m2".into(), Millis(1)).unwrap();
    assert_eq!(shape(&window(&log)), ["U a", "A b", "U c"]);
}

#[test]
fn c13_the_tail_is_between_summary_and_later_messages() {
    let history = History::new().user("old").say("x").user("tail").say("tail answer");
    let history = history.marker_with_tail("m2").summary("SUM").user("new");
    assert_eq!(seen(history), ["U What did we do so far?", "A SUM", "U tail", "A tail answer", "U new"]);
}

/// A tail that spans an earlier pivot must not bring its summary back (FACTS 1.12, defect 4).
#[test]
fn old_summaries_never_come_back_inside_a_tail() {
    let history = History::new().user("a").say("b").marker().summary("OLD SUM").user("c").say("d");
    let history = history.marker_with_tail("m1").summary("NEW SUM").user("e");
    assert_eq!(seen(history), ["U What did we do so far?", "A NEW SUM", "U a", "A b", "U c", "A d", "U e"]);
}

/// Two assistant messages in a row, the second an answer without its question (FACTS 1.12, defect 6).
#[test]
fn a_tail_that_starts_inside_a_turn_begins_with_the_users_words() {
    let history = History::new().user("the question").tool("read", "1").tool("read", "2");
    let history = history.marker_with_tail("m2").summary("SUM");
    let expected = ["U What did we do so far?", "A SUM", "U the question", "A read#call_2", "T call_2=2"];
    assert_eq!(seen(history), expected);
}

#[test]
fn r160_messages_appended_during_a_summary_are_in_the_window() {
    let mut messages = History::new().user("old").say("x").marker().user("meanwhile").say("y").messages();
    let summary = History::new().user("").user("").marker().summary("SUM").messages().remove(3);
    messages.push(Message {
        info: plimsoll::Info { id: "late".into(), ..summary.info.clone().into_inner() }.into(),
        ..summary
    });
    let window = window(&messages);
    assert_eq!(shape(&window), ["U What did we do so far?", "A SUM", "U meanwhile", "A y"]);
}

#[test]
fn r148_c12_c30_the_guides_view_is_a_system_text_and_every_kept_message() {
    let mut history =
        History::new().user("a").say("b").user("kept").say("kept answer").marker_with_tail("m2");
    history = history.change(|message| {
        let plimsoll::PartBody::Compaction(marker) = &mut message.parts[0].body else { panic!() };
        (marker.messages, marker.tokens) = (Some(2), Some(77));
    });
    let messages = history.summary("SUM").messages();
    let window = Window::of(&messages, &Preset::Openfork.policy());
    window.check().unwrap();
    let system =
        "S [Previous conversation compacted]\n\nSUM\n\n[End of compacted summary - 2 messages, 77 tokens]";
    assert_eq!(shape(&window), [system, "U kept", "A kept answer"]);
}

#[rstest]
#[case(ToolState::pending(json!({})))]
#[case(ToolState { status: plimsoll::ToolStatus::Running, ..ToolState::pending(json!({})) })]
fn interrupted_calls_are_closed_with_an_error(#[case] state: ToolState) {
    let history = History::new().user("u").tool_state("bash", state);
    assert_eq!(seen(history), ["U u", "A bash#call_1", &format!("T call_1!{INTERRUPTED}")]);
}

#[test]
fn failed_calls_show_their_error_and_empty_results_a_notice() {
    let history =
        History::new().user("u").tool_state("bash", ToolState::failed(json!({}), "boom")).tool("x", "");
    assert_eq!(seen(history)[2..], ["T call_1!boom", "A x#call_2", "T call_2=(no output)"]);
}

#[test]
fn parallel_calls_have_their_results_right_after_them() {
    let history = History::new().user("u").tools(&[("a", "1".into()), ("b", "2".into())]).say("done");
    let expected = ["U u", "A a#call_1_0 | b#call_1_1", "T call_1_0=1 | call_1_1=2", "A done"];
    assert_eq!(seen(history), expected);
}

#[test]
fn an_answer_stays_one_message_and_a_marked_step_begins_another() {
    let tool = |id: &str| json!({ "type": "tool", "callID": id, "tool": "t", "state": { "status": "completed", "output": "o" } });
    let parts = json!([{ "type": "text", "text": "one" }, tool("c1"), { "type": "text", "text": "two" }, tool("c2"),
        { "type": "step-start" }, tool("c3")]);
    let history = History::new().user("u").raw(json!({ "info": { "role": "assistant" }, "parts": parts }));
    let expected = ["U u", "A one | t#c1 | two | t#c2", "T c1=o | c2=o", "A t#c3", "T c3=o"];
    assert_eq!(seen(history), expected);
}

#[test]
fn separate_results_follow_their_calls_and_open_calls_are_closed() {
    let history = History::new().user("u").call("c1", "a").call("c2", "b").result("c1", "one").user("next");
    let expected = ["U u", "A a#c1", "T c1=one", "A b#c2", &format!("T c2!{INTERRUPTED}"), "U next"];
    assert_eq!(seen(history), expected);
}

/// opencode#27594: an orphaned tool result made a session permanently unusable.
#[test]
fn orphaned_and_duplicate_results_become_text() {
    let history = History::new()
        .user("u")
        .result("nobody", "lost")
        .call("c1", "a")
        .result("c1", "one")
        .result("c1", "two");
    let expected = ["U u", "U [Tool result]\nlost", "A a#c1", "T c1=one", "U [Tool result]\ntwo"];
    assert_eq!(seen(history), expected);
}

#[test]
fn repeated_call_ids_are_made_unique() {
    let history = History::new().user("u").call("c", "a").result("c", "1").call("c", "a").result("c", "2");
    assert_eq!(seen(history)[1..], ["A a#c", "T c=1", "A a#c_2", "T c_2=2"]);
}

#[test]
fn a_conversation_that_starts_with_the_model_gets_an_opening() {
    assert_eq!(seen(History::new().say("hi").user("u")), [&format!("U {OPENING}"), "A hi", "U u"]);
}

#[test]
fn empty_and_ignored_parts_are_not_shown() {
    let history = History::new()
        .user("u")
        .user("  \n")
        .raw(json!({ "info": { "role": "user" }, "parts": [{ "type": "text", "text": "x", "ignored": true }] }))
        .raw(json!({ "info": { "role": "assistant" }, "parts": [{ "type": "reasoning", "text": "only thoughts" }] }))
        .raw(json!({ "info": { "role": "assistant" }, "parts": [{ "type": "step-start" }] }))
        .think("hm", "said");
    assert_eq!(seen(history), ["U u", "A (hm) | said"]);
}

#[test]
fn failed_answers_are_shown_only_if_they_called_tools() {
    let failed = |name: &str, part: serde_json::Value| json!({ "info": { "role": "assistant", "error": { "name": name } }, "parts": [part] });
    let text = json!({ "type": "text", "text": "half" });
    let history = History::new()
        .user("u")
        .raw(failed("APIError", text.clone()))
        .raw(failed("MessageAbortedError", json!({ "type": "reasoning", "text": "t" })))
        .raw(failed("MessageAbortedError", text));
    assert_eq!(seen(history), ["U u", "A half"]);
}

#[test]
fn signed_thoughts_keep_their_signature_untouched() {
    let metadata = json!({ "anthropic": { "signature": "abc" } });
    let part = json!({ "type": "reasoning", "text": "t", "metadata": metadata });
    let answer = json!({ "info": { "role": "assistant" }, "parts": [part, { "type": "text", "text": "x" }] });
    let window = window(&History::new().user("u").raw(answer).messages());
    assert!(
        matches!(&window.messages[1].blocks[0], Block::Reasoning { metadata: Some(kept), .. } if *kept == metadata)
    );
}

#[test]
fn files_are_shown_and_inlined_ones_are_not() {
    let file = |mime: &str| json!({ "type": "file", "mime": mime, "filename": "f.png", "url": "u" });
    let parts = json!([{ "type": "text", "text": "look" }, file("image/png"), file("text/plain")]);
    let history = History::new().raw(json!({ "info": { "role": "user" }, "parts": parts }));
    assert_eq!(seen(history), ["U look | file f.png"]);
}

#[test]
fn a_cut_part_shows_both_ends_and_a_cut_input_stays_json() {
    let input = json!({ "path": "a.rs", "content": "c".repeat(5_000) });
    let mut log = History::new().user("u".repeat(5_000)).tool_with("write", input, "o".repeat(5_000)).log();
    cut(&mut log, "m0.0", 400);
    cut(&mut log, "m1.0", 400);
    let window = window(&log);
    let json = serde_json::to_value(&window).unwrap();
    assert!(json["messages"][0]["blocks"][0]["text"].as_str().unwrap().contains("...[truncated 46"));
    assert_eq!(json["messages"][1]["blocks"][0]["input"]["path"], "a.rs");
    assert!(json["messages"][1]["blocks"][0]["input"]["content"].as_str().unwrap().len() <= 400);
    assert!(json["messages"][2]["blocks"][0]["text"].as_str().unwrap().len() <= 400);
    assert_eq!(log[0].text().len(), 5_000, "the log keeps everything");
}

#[test]
fn an_input_of_many_small_strings_is_cut_as_text() {
    let input = json!({ "list": vec!["abc"; 5_000] });
    let mut log = History::new().user("u").tool_with("write", input, "o").log();
    cut(&mut log, "m1.0", 400);
    let json = serde_json::to_value(window(&log)).unwrap();
    assert!(json["messages"][1]["blocks"][0]["input"]["cut"].as_str().unwrap().len() <= 400);
}

#[test]
fn the_check_finds_illegal_windows() {
    let good = window(&History::new().user("u").tool("a", "1").messages());
    let broken = |change: fn(&mut Window)| {
        let mut window = good.clone();
        change(&mut window);
        window.check().unwrap_err().rule
    };
    assert_eq!(
        broken(|w| {
            w.messages.remove(0);
        }),
        "a conversation starts with a user's message"
    );
    assert_eq!(
        broken(|w| {
            w.messages.remove(2);
        }),
        "the last call has no result"
    );
    assert_eq!(broken(|w| w.messages[0].blocks.clear()), "a message must not be empty");
    assert_eq!(broken(|w| w.messages.swap(1, 2)), "each call needs exactly one result, right after it");
    assert_eq!(
        broken(|w| w.messages[2].blocks.extend_from_within(..1)),
        "each call needs exactly one result, right after it"
    );
    assert_eq!(broken(|w| w.messages.extend(w.messages.clone())), "call ids must be unique");
}

#[test]
fn building_a_window_does_not_change_the_log() {
    let log: Log = History::new().user("a").tool("read", "x").cleared().marker().summary("s").log();
    let before = log.clone();
    let _ = Window::of(&log, &Policy::default());
    assert_eq!(log, before);
}

/// Found by fuzzing: a foreign mark that keeps nothing left an empty message.
#[test]
fn a_cut_to_zero_chars_still_shows_a_marker() {
    let mut log = History::new().user("word ".repeat(100)).marker().summary("s".repeat(500)).log();
    for part in ["m0.0", "m2.0"] {
        cut(&mut log, part, 0);
    }
    window(&log);
    window(&log[..1]);
}

#[test]
fn a_provider_block_is_shown_at_its_position() {
    let block =
        |id: &str| json!({ "id": id, "type": "provider-block", "block": { "anthropic": { "type": "new" } } });
    let mut log = History::new()
        .user("go")
        .raw(json!({ "info": { "id": "m1", "role": "assistant", "finish": "stop" }, "parts": [
            { "id": "p1", "type": "text", "text": "one" }, block("p2"),
            { "id": "p3", "type": "text", "text": "two" }, block("p4"),
        ] }))
        .log();
    let shown = r#"block {"anthropic":{"type":"new"}}"#;
    assert_eq!(shape(&window(&log))[1], format!("A one | {shown} | two | {shown}"));
    // The provider would reject half of it.
    cut(&mut log, "p2", 10);
    assert_eq!(shape(&window(&log))[1], format!("A one | two | {shown}"));
}

//! Text in any script, at every place where a summary, a digest or a redaction cuts.

use plimsoll::compact::{ContractTerms, complete_summary, extract};
use plimsoll::fork::fork;
use plimsoll::redact::redact;
use plimsoll::{CharCounter, Chars, Message, Policy, Text, Tokens, ToolState};
use plimsoll_testkit::History;
use proptest::prelude::*;
use serde_json::json;

/// Characters of one to four bytes, combining marks, joiners and marks of direction.
const SIGNS: &str = "aZ7./\\\"'`{},:;<>=-#*&$()[]@?!\n \t。？：éßñıİﬀ漢字说明🚢👧…→’“\u{301}\u{200d}\u{202e}\u{feff}\u{2028}\u{0}";
/// Texts at which code splits a text, separated by bars.
const SEAMS: &str = "](|--|👩\u{200d}👧|🇩🇪|token|password|error|Error: |never |must |## |- |1. |```|<<EOF\n|+++ b/|sed -i |git commit -m | > |\
    cd |C:|~/|\"=\"|*** Begin Patch\n*** Update File: ";

fn ugly() -> impl Strategy<Value = String> {
    let signs: Vec<String> = SIGNS.chars().map(String::from).collect();
    let seams: Vec<String> = SEAMS.split('|').map(str::to_owned).collect();
    let sign = prop_oneof![2 => prop::sample::select(signs), 1 => prop::sample::select(seams)];
    prop::collection::vec(sign, 0..24).prop_map(|signs| signs.concat())
}

/// A session with such a text in every field from which facts are collected.
fn session(texts: &[String]) -> Vec<Message> {
    let text = |place: usize| texts[place % texts.len()].clone();
    let failed = |command: String, output: String| {
        let mut state = ToolState::completed(json!({ "command": command }), output);
        state.extra.insert("metadata".into(), json!({ "exit": 1 }));
        state
    };
    History::new()
        .user(text(0))
        .tool_with("write", json!({ "filePath": text(1), "content": text(2) }), text(3))
        .tool_with(
            "edit",
            json!({ "file_path": format!("/srv/{}", text(2)), "old_string": text(3) }),
            text(4),
        )
        .tool_with(
            "apply_patch",
            json!({ "input": format!("*** Begin Patch\n*** Add File: {}\n+x", text(4)) }),
            "ok",
        )
        .tool_state("bash", failed(text(5), text(6)))
        .tool_with(
            "bash",
            json!({ "command": format!("npm test {} && git commit -m '{}'", text(6), text(7)) }),
            text(0),
        )
        .tool_with("todowrite", json!({ "todos": [{ "content": text(7), "status": "pending" }] }), "ok")
        .tool_with(
            "question",
            json!({ "questions": [{ "question": text(1) }] }),
            format!("\"{}\"=\"{}\"", text(2), text(3)),
        )
        .say(text(4))
        .user(format!("No, {} must never {}", text(5), text(6)))
        .say(text(7))
        .messages()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn properties_no_cut_splits_a_character(texts in prop::collection::vec(ugly(), 8..9), most in 0u64..700) {
        let (policy, counter) = (Policy::default(), CharCounter::default());
        let messages = session(&texts);
        let history: Vec<&Message> = messages.iter().collect();
        let summary = extract(&history, None, Tokens(most), &policy.summary, &counter);
        prop_assert!(summary.chars() <= Chars(4 * most));
        // Once more with the first summary, and with the texts themselves as a summary.
        for prior in [summary.clone(), Text::from(texts.join("\n"))] {
            extract(&history, Some(&prior), Tokens(most), &policy.summary, &counter);
        }
        let terms =
            ContractTerms { messages: &messages, replaced: &history, in_view: &[], carried: &[], budget: Tokens(most) };
        let (completed, _) = complete_summary(&summary, &terms, &policy, &counter);
        complete_summary(&completed, &terms, &policy, &counter);
        for budget in [1_000, 1_000 + most * 3] {
            fork(&messages, &policy.fork.sized_to(Chars(budget)));
        }
        for text in &texts {
            redact(text);
        }
    }
}

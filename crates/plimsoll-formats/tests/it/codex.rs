use plimsoll::{Pivot, Tokens};
use plimsoll_formats::Format;
use serde_json::json;

use crate::support::{read_ok, shape};

const ROLLOUT: &str = r##"{"timestamp":"2026-01-01T00:00:00.000Z","type":"session_meta","payload":{"id":"s1","cwd":"/w","cli_version":"0.1","base_instructions":{"text":"Be brief."}}}
{"timestamp":"2026-01-01T00:00:00.000Z","type":"response_item","payload":{"type":"message","role":"developer","content":[{"type":"input_text","text":"Sandboxed."}]}}
{"timestamp":"2026-01-01T00:00:00.000Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"<environment_context>x"}]}}
{"timestamp":"2026-01-01T00:00:00.000Z","type":"turn_context","payload":{"model":"gpt-x"}}
{"timestamp":"2026-01-01T00:00:01.000Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"List files"},{"type":"input_image","image_url":"data:image/png;base64,QUJD"}]}}
{"timestamp":"2026-01-01T00:00:01.000Z","type":"event_msg","payload":{"type":"user_message","message":"List files"}}
{"timestamp":"2026-01-01T00:00:02.000Z","type":"response_item","payload":{"type":"reasoning","id":"rs","summary":[{"type":"summary_text","text":"plan"}],"encrypted_content":"ENC"}}
{"timestamp":"2026-01-01T00:00:03.000Z","type":"response_item","payload":{"type":"function_call","name":"shell","arguments":"{\"cmd\":\"ls\"}","call_id":"c1"}}
{"timestamp":"2026-01-01T00:00:03.000Z","type":"response_item","payload":{"type":"custom_tool_call","name":"apply_patch","input":"*** Begin","call_id":"c2"}}
{"timestamp":"2026-01-01T00:00:04.000Z","type":"response_item","payload":{"type":"function_call_output","call_id":"c1","output":"a.txt"}}
{"timestamp":"2026-01-01T00:00:04.000Z","type":"response_item","payload":{"type":"custom_tool_call_output","call_id":"c2","output":{"content":"no","success":false}}}
{"timestamp":"2026-01-01T00:00:04.000Z","type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"total_tokens":120},"last_token_usage":{"input_tokens":100,"cached_input_tokens":60,"output_tokens":20,"reasoning_output_tokens":5,"total_tokens":120}}}}
{"timestamp":"2026-01-01T00:00:05.000Z","type":"response_item","payload":{"type":"web_search_call","status":"completed","action":{"query":"q"}}}
{"timestamp":"2026-01-01T00:00:05.000Z","type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"One file."}]}}
{"timestamp":"2026-01-01T00:00:05.000Z","type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"total_tokens":120},"last_token_usage":{"input_tokens":1}}}}
{"timestamp":"2026-01-01T00:00:05.000Z","type":"response_item","payload":{"type":"telepathy"}}
"##;

#[test]
fn items_become_responses_with_their_tools_and_tokens() {
    let read = read_ok(ROLLOUT);
    assert_eq!(read.format, Format::Codex);
    assert_eq!(
        shape(&read.messages),
        [
            "system text:Be brief.",
            "system text:Sandboxed.",
            "user host:<environment_context>x",
            "user text:List files file:data:image/png;base64,QUJD",
            "assistant [tool-calls] thought:plan shell{\"cmd\":\"ls\"}=a.txt apply_patch{\"input\":\"*** Begin\"}!no",
            "assistant [tool-calls] web_search{\"query\":\"q\"}= text:One file.",
        ]
    );
    let usage = read.messages[4].info.tokens.as_ref().unwrap();
    assert_eq!(
        (usage.input, usage.cache_read, usage.output, usage.reasoning, usage.total),
        (Tokens(40), Tokens(60), Tokens(15), Tokens(5), Some(Tokens(120)))
    );
    assert!(read.messages[5].info.tokens.is_none(), "a repeated count is none");
    assert_eq!(read.messages[4].info.model_id.as_deref(), Some("gpt-x"));
    let sealed = &read.messages[4].parts[0].extra["metadata"]["openai"]["reasoningEncryptedContent"];
    assert_eq!(sealed, "ENC");
    assert_eq!(read.skipped["response_item/telepathy"], 1);
    assert_eq!(read.info.id.as_deref(), Some("s1"));
}

#[test]
fn compacted_is_a_pivot() {
    let read = read_ok(
        r#"{"type":"session_meta","payload":{"id":"s"}}
{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"long"}]}}
{"type":"compacted","payload":{"message":"Short."}}
{"type":"compacted","payload":{"message":"","replacement_history":[{"type":"message","role":"user","content":[{"type":"input_text","text":"Shorter."}]}]}}
{"type":"compacted","payload":{"message":"","replacement_history":[{"type":"compaction","encrypted_content":"E"}]}}
"#,
    );
    assert_eq!(
        shape(&read.messages),
        [
            "user text:long",
            "user marker",
            "assistant (summary) [stop] text:Short.",
            "user marker",
            "assistant (summary) [stop] text:Shorter.",
            "user marker",
            "assistant (summary) [stop] text:[The provider keeps this summary encrypted]",
        ]
    );
    assert_eq!(Pivot::newest(&read.messages).unwrap().marker, 5);
}

#[test]
fn the_older_form_has_bare_items() {
    let read = read_ok(
        r#"{"id":"s0","timestamp":"2025-05-01T00:00:00.000Z","instructions":"Be kind.","git":{}}
{"record_type":"state"}
{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}
{"type":"local_shell_call","call_id":"c","status":"completed","action":{"command":["ls"]}}
{"type":"function_call_output","call_id":"c","output":"x"}
{"type":"message","role":"assistant","content":[{"type":"output_text","text":"hello"}]}
"#,
    );
    assert_eq!(read.format, Format::Codex);
    assert_eq!(
        shape(&read.messages),
        [
            "system text:Be kind.",
            "user text:hi",
            "assistant [tool-calls] local_shell{\"command\":[\"ls\"]}=x",
            "assistant text:hello",
        ]
    );
    assert_eq!(read.info.id.as_deref(), Some("s0"));
}

#[test]
fn a_user_message_is_not_the_summary() {
    let compacted = |history: &str| {
        let read = read_ok(&format!(
            r#"{{"type":"session_meta","payload":{{"id":"s"}}}}
{{"type":"response_item","payload":{{"type":"message","role":"user","content":[{{"type":"input_text","text":"Do it"}}]}}}}
{{"type":"compacted","payload":{{"message":"","replacement_history":[{history}]}}}}
"#
        ));
        read.messages[2].text()
    };
    let item = |role: &str, text: &str| {
        format!(r#"{{"type":"message","role":"{role}","content":[{{"type":"input_text","text":"{text}"}}]}}"#)
    };
    let sealed = "[The provider keeps this summary encrypted]";
    let (said, summary) = (item("user", "Do it"), item("user", "Half is done"));
    assert_eq!(compacted(&said), sealed);
    assert_eq!(compacted(&format!("{said},{summary}")), "Half is done");
    assert_eq!(compacted(&format!("{summary},{said}")), "Half is done");
    assert_eq!(compacted(&item("developer", "Rules")), sealed);
    assert_eq!(compacted(&item("user", "<environment_context>x")), sealed);
    assert_eq!(compacted(&format!(r#"{summary},{{"type":"compaction","encrypted_content":"E"}}"#)), sealed);
}

#[test]
fn unknown_events_are_counted_as_not_understood() {
    let read = read_ok(
        r#"{"type":"session_meta","payload":{"id":"s"}}
{"type":"event_msg","payload":{"type":"task_started"}}
{"type":"event_msg","payload":{"type":"telepathy"}}
{"payload":{"type":"telepathy"},"type":"event_msg"}
{"type":"event_msg","payload":{"type":"thread_rolled_back"}}
"#,
    );
    assert_eq!(read.unused["event_msg/task_started"], 1);
    assert_eq!(read.skipped["event_msg/telepathy"], 2);
    assert_eq!(read.skipped["event_msg/thread_rolled_back"], 1, "the number of turns is unknown");
}

/// Creates a session: a number rolls back that many turns, anything else is a user message with an answer.
fn rolled_back(said: &[&str]) -> (Vec<String>, u64) {
    let mut lines = vec![
        r#"{"type":"session_meta","payload":{"id":"s"}}"#.to_owned(),
        r#"{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"<environment_context>x"}]}}"#.to_owned(),
    ];
    for said in said {
        if let Ok(turns) = said.parse::<u64>() {
            lines.push(format!(
                r#"{{"type":"event_msg","payload":{{"type":"thread_rolled_back","num_turns":{turns}}}}}"#
            ));
            continue;
        }
        for (role, kind) in [("user", "input_text"), ("assistant", "output_text")] {
            lines.push(format!(
                r#"{{"type":"response_item","payload":{{"type":"message","role":"{role}","content":[{{"type":"{kind}","text":"{said}"}}]}}}}"#
            ));
        }
    }
    let read = read_ok(&lines.join("\n"));
    assert!(read.skipped.is_empty(), "{:?}", read.skipped);
    let turns = read.messages.iter().filter(|message| message.is_assistant()).map(|message| message.text());
    let asked: Vec<String> = read.messages[1..].iter().filter(|m| m.is_user()).map(|m| m.text()).collect();
    let turns: Vec<String> = turns.collect();
    assert_eq!(turns, asked, "each turn goes with its answer");
    (turns, read.unused.get("rolled back").copied().unwrap_or(0))
}

#[test]
fn turns_that_were_rolled_back_are_not_in_the_session() {
    let check = |said: &[&str], left: &[&str], lines: u64| {
        let (turns, counted) = rolled_back(said);
        assert_eq!((turns.iter().map(String::as_str).collect::<Vec<_>>(), counted), (left.to_vec(), lines));
    };
    check(&["a", "b", "0", "c"], &["a", "b", "c"], 0);
    check(&["a", "b", "1", "c"], &["a", "c"], 2);
    check(&["a", "b", "c", "2", "d"], &["a", "d"], 4);
    check(&["a", "b", "1", "c", "1", "d"], &["a", "d"], 4);
    check(&["a", "b", "1", "c", "2", "d"], &["d"], 7);
    check(&["a", "b", "9"], &[], 4);
    check(&["2", "a"], &["a"], 0);
}

/// Older versions write a command's output as JSON in a string.
#[test]
fn the_output_of_a_command_is_read_line_by_line() {
    let output = |text: &str| {
        let line =
            |payload: serde_json::Value| json!({ "type": "response_item", "payload": payload }).to_string();
        let call = json!({ "type": "function_call", "call_id": "c", "name": "shell", "arguments": "{}" });
        let answer = json!({ "type": "function_call_output", "call_id": "c", "output": text });
        let transcript =
            plimsoll_formats::read(format!("{}\n{}\n", line(call), line(answer)).as_bytes()).unwrap();
        let part =
            transcript.messages.iter().flat_map(|message| &message.parts).find_map(|part| part.as_tool());
        part.and_then(|tool| tool.state.output.clone()).unwrap().to_string()
    };
    let wrapped = r#"{"output":"one\ntwo\n","metadata":{"exit_code":1,"duration_seconds":0.2}}"#;
    assert_eq!(output(wrapped), "Exit code: 1\nWall time: 0.2 seconds\nOutput:\none\ntwo\n");
    assert_eq!(output(r#"{"output":"one\ntwo"}"#), "one\ntwo");
    // Other JSON is what a tool printed.
    for other in [r#"{"output":"x","more":1}"#, r#"{"answers":{}}"#, r#"{"output":7}"#, r#"{"output":"cut"#] {
        assert_eq!(output(other), other);
    }
}

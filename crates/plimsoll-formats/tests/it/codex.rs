use plimsoll::Tokens;
use plimsoll::pivot::Pivot;
use plimsoll_formats::Format;

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

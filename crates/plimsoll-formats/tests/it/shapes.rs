//! Shape of the window for each format: roles, blocks, and sizes.

use plimsoll::{Block, Log, Policy, Window, WindowRole, block_tokens, window_message_tokens};
use plimsoll_formats::{Transcript, read};

const CLAUDE_CODE: &str = r#"{"type":"user","uuid":"u1","parentUuid":null,"sessionId":"s","message":{"content":"Old question"}}
{"type":"assistant","uuid":"a1","parentUuid":"u1","message":{"id":"r0","content":[{"type":"text","text":"Old answer"}]}}
{"type":"user","uuid":"u2","parentUuid":"a1","message":{"content":"Kept question"}}
{"type":"assistant","uuid":"a2","parentUuid":"u2","message":{"id":"r1","content":[{"type":"text","text":"Kept answer"}]}}
{"type":"system","subtype":"compact_boundary","uuid":"b","parentUuid":null,"logicalParentUuid":"a2","compactMetadata":{"trigger":"manual","preTokens":900,"preservedSegment":{"headUuid":"u2","tailUuid":"a2"}}}
{"type":"user","uuid":"s","parentUuid":"b","isCompactSummary":true,"message":{"content":"We talked."}}
{"type":"user","uuid":"u3","parentUuid":"s","message":{"content":[{"type":"text","text":"Look at this"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"QUJD"}}]}}
{"type":"assistant","uuid":"a3","parentUuid":"u3","message":{"id":"r2","content":[{"type":"thinking","thinking":"Hm.","signature":"S"}]}}
{"type":"assistant","uuid":"a4","parentUuid":"a3","message":{"id":"r2","content":[{"type":"tool_use","id":"c1","name":"Read","input":{"file_path":"/w/a"}}]}}
{"type":"user","uuid":"t1","parentUuid":"a4","toolUseResult":{"ok":true},"message":{"content":[{"type":"tool_result","tool_use_id":"c1","content":"the contents of a"}]}}
{"type":"assistant","uuid":"a5","parentUuid":"a4","message":{"id":"r2","content":[{"type":"tool_use","id":"c2","name":"Bash","input":{"command":"ls"}}]}}
{"type":"user","uuid":"t2","parentUuid":"a5","message":{"content":[{"type":"tool_result","tool_use_id":"c2","is_error":true,"content":"no such file"}]}}
{"type":"user","uuid":"x1","parentUuid":null,"isSidechain":true,"agentId":"A","message":{"content":"a sub-agent's task"}}
{"type":"assistant","uuid":"a6","parentUuid":"t2","message":{"id":"r3","content":[{"type":"text","text":"Done."}],"stop_reason":"end_turn","usage":{"input_tokens":5,"output_tokens":3}}}
"#;

const CODEX: &str = r#"{"timestamp":"2026-01-01T00:00:00Z","type":"session_meta","payload":{"id":"s","cwd":"/w","base_instructions":{"text":"Be brief."}}}
{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"Old question"}]}}
{"type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Old answer"}]}}
{"type":"compacted","payload":{"message":"We talked."}}
{"type":"turn_context","payload":{"model":"gpt-x"}}
{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"List files"}]}}
{"type":"response_item","payload":{"type":"reasoning","summary":[{"type":"summary_text","text":"plan"}],"encrypted_content":"E"}}
{"type":"response_item","payload":{"type":"function_call","name":"shell","arguments":"{\"cmd\":\"ls\"}","call_id":"c1"}}
{"type":"response_item","payload":{"type":"custom_tool_call","name":"apply_patch","input":"*** Begin Patch","call_id":"c2"}}
{"type":"response_item","payload":{"type":"function_call_output","call_id":"c1","output":"a.txt"}}
{"type":"response_item","payload":{"type":"custom_tool_call_output","call_id":"c2","output":"ok"}}
{"type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"total_tokens":9},"last_token_usage":{"input_tokens":7,"output_tokens":2,"total_tokens":9}}}}
{"type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Done."}]}}
"#;

const CODEX_BARE: &str = r#"{"id":"s","timestamp":"2025-05-01T00:00:00Z","instructions":"Be kind."}
{"record_type":"state"}
{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}
{"type":"local_shell_call","call_id":"c","status":"completed","action":{"command":["ls"]}}
{"type":"function_call_output","call_id":"c","output":"a"}
{"type":"message","role":"assistant","content":[{"type":"output_text","text":"One file."}]}
"#;

const PI: &str = r#"{"type":"session","version":3,"id":"s","cwd":"/w"}
{"type":"message","id":"e1","parentId":null,"message":{"role":"user","content":"Old question"}}
{"type":"message","id":"e2","parentId":"e1","message":{"role":"assistant","content":[{"type":"text","text":"Old answer"}],"stopReason":"stop"}}
{"type":"message","id":"e3","parentId":"e2","message":{"role":"user","content":"left behind"}}
{"type":"message","id":"e4","parentId":"e2","message":{"role":"user","content":"Kept question"}}
{"type":"compaction","id":"e5","parentId":"e4","summary":"We talked.","firstKeptEntryId":"e4","tokensBefore":50}
{"type":"message","id":"e6","parentId":"e5","message":{"role":"assistant","content":[{"type":"thinking","thinking":"Hm."},{"type":"toolCall","id":"c","name":"read","arguments":{"path":"a"}}],"stopReason":"toolUse"}}
{"type":"message","id":"e7","parentId":"e6","message":{"role":"toolResult","toolCallId":"c","content":[{"type":"text","text":"the contents"}],"isError":false}}
{"type":"message","id":"e8","parentId":"e7","message":{"role":"bashExecution","command":"ls","output":"a"}}
"#;

const SWE_AGENT: &str = r#"{"environment":"e","trajectory":[{"action":"ls"}],"history":[
{"role":"system","content":"Fix it."},{"role":"user","content":"The issue"},
{"role":"assistant","content":"I look.\n```\nls -F\n```","thought":"I look.","action":"ls -F"},
{"role":"user","content":"src/ tests/"},
{"role":"assistant","content":"","tool_calls":[{"id":"c","type":"function","function":{"name":"submit","arguments":"{}"}}]},
{"role":"tool","content":"diff --git","tool_call_ids":["c"]}]}"#;

const OPENAI: &str = r#"{"model":"gpt-x","messages":[{"role":"system","content":"Be brief."},
{"role":"user","content":[{"type":"text","text":"See"},{"type":"image_url","image_url":{"url":"data:image/png;base64,QUJD"}}]},
{"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[
 {"id":"c1","type":"function","function":{"name":"ls","arguments":"{\"p\":1}"}},
 {"id":"c2","type":"function","function":{"name":"cat","arguments":"not json"}}]},
{"role":"tool","tool_call_id":"c2","content":"two"},{"role":"tool","tool_call_id":"c1","content":"one"},
{"role":"assistant","content":"Done."}]}"#;

const ANTHROPIC: &str = r#"{"model":"claude-x","system":[{"type":"text","text":"Be brief."}],"messages":[
{"role":"user","content":"Look"},
{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"S"},{"type":"tool_use","id":"c","name":"ls","input":{}}]},
{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[{"type":"text","text":"a.txt"}]},{"type":"text","text":"And?"}]},
{"role":"assistant","content":[{"type":"text","text":"Done."}]}]}"#;

const OPENCODE: &str = r#"{"info":{"id":"ses","title":"T"},"messages":[
{"info":{"id":"m1","role":"user"},"parts":[{"id":"p1","type":"text","text":"Old question"}]},
{"info":{"id":"m2","role":"user"},"parts":[{"id":"p2","type":"compaction","auto":true}]},
{"info":{"id":"m3","role":"assistant","parentID":"m2","summary":true,"finish":"stop"},"parts":[{"id":"p3","type":"text","text":"We talked."}]},
{"info":{"id":"m4","role":"user"},"parts":[{"id":"p4","type":"text","text":"Go on"},{"id":"p5","type":"file","mime":"image/png","url":"data:image/png;base64,QUJD"}]},
{"info":{"id":"m5","role":"assistant","parentID":"m4","finish":"tool-calls"},"parts":[{"id":"p6","type":"step-start"},
 {"id":"p7","type":"reasoning","text":"Hm."},
 {"id":"p8","type":"tool","tool":"bash","callID":"c","state":{"status":"completed","input":{"command":"ls"},"output":"a.txt","title":"ls","metadata":{},"time":{"start":1,"end":2}}},
 {"id":"p9","type":"tool","tool":"read","callID":"d","state":{"status":"running","input":{}}}]}]}"#;

fn shape(transcript: Transcript) -> String {
    let policy = Policy::default();
    let log = Log::from_messages(transcript.messages);
    let window = Window::of(&log, &policy);
    window.check().unwrap();
    let mut lines = vec![format!("{}: {} messages in the log", transcript.format, log.len())];
    for message in &window.messages {
        let role = match message.role {
            WindowRole::System => "system",
            WindowRole::User => "user",
            WindowRole::Assistant => "assistant",
            WindowRole::Tool => "tool",
        };
        let blocks = message.blocks.iter().map(|block| {
            let kind = match block {
                Block::Text { .. } => "text".to_owned(),
                Block::Reasoning { metadata, .. } => {
                    format!("reasoning{}", if metadata.is_some() { " signed" } else { "" })
                }
                Block::Call { tool, .. } => format!("call {tool}"),
                Block::Result { tool, is_error, .. } => {
                    format!("{} {tool}", if *is_error { "error" } else { "result" })
                }
                Block::Provider { .. } => "block".to_owned(),
                Block::File { mime, .. } => format!("file {}", mime.as_deref().unwrap_or("?")),
            };
            format!("{kind} {}", block_tokens(block, &policy.count))
        });
        let tokens = window_message_tokens(message, &policy.count);
        lines.push(format!("{role:<9} {tokens:>5}  {}", blocks.collect::<Vec<_>>().join(", ")));
    }
    for chain in transcript.side_chains {
        lines.push(format!("side chain of {} messages", chain.messages.len()));
    }
    lines.join("\n")
}

#[test]
fn the_window_of_each_format_has_its_shape() {
    let samples = [
        ("claude_code", CLAUDE_CODE),
        ("codex", CODEX),
        ("codex_bare", CODEX_BARE),
        ("pi", PI),
        ("swe_agent", SWE_AGENT),
        ("openai_chat", OPENAI),
        ("anthropic_messages", ANTHROPIC),
        ("opencode_export", OPENCODE),
    ];
    for (name, text) in samples {
        insta::assert_snapshot!(name, shape(read(text.as_bytes()).unwrap()));
    }
    let list = &OPENCODE[OPENCODE.find('[').unwrap()..OPENCODE.len() - 1];
    insta::assert_snapshot!("opencode_messages", shape(read(list.as_bytes()).unwrap()));
    let (_folder, database) = crate::opencode_db::of_export(OPENCODE);
    insta::assert_snapshot!("opencode_db", shape(database.read(None).unwrap()));
}

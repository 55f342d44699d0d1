use plimsoll::{Millis, Pivot, Tokens};
use plimsoll_formats::{Format, read};

use crate::support::{read_ok, shape};

/// Two parallel calls: the first result is on a separate branch, as Claude Code writes it.
const SESSION: &str = r#"{"type":"file-history-snapshot","messageId":"m","snapshot":{}}
{"type":"user","uuid":"u1","parentUuid":null,"isSidechain":false,"sessionId":"s1","cwd":"/w","version":"2.1","timestamp":"2026-01-01T00:00:00.000Z","message":{"role":"user","content":"Look around"}}
{"type":"assistant","uuid":"a1","parentUuid":"u1","timestamp":"2026-01-01T00:00:01.000Z","message":{"id":"r1","model":"claude-x","role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"SIG"}],"stop_reason":null,"usage":{"input_tokens":1,"output_tokens":1}}}
{"type":"assistant","uuid":"a2","parentUuid":"a1","timestamp":"2026-01-01T00:00:02.000Z","message":{"id":"r1","model":"claude-x","role":"assistant","content":[{"type":"tool_use","id":"c1","name":"Read","input":{"f":1}}],"stop_reason":"tool_use","usage":{"input_tokens":3,"cache_read_input_tokens":5,"cache_creation_input_tokens":7,"output_tokens":9}}}
{"type":"user","uuid":"t1","parentUuid":"a2","timestamp":"2026-01-01T00:00:04.000Z","toolUseResult":{"ok":true},"message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"one"},{"type":"text","text":"two"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"QUJD"}}]}]}}
{"type":"assistant","uuid":"a3","parentUuid":"a2","timestamp":"2026-01-01T00:00:03.000Z","message":{"id":"r1","model":"claude-x","role":"assistant","content":[{"type":"tool_use","id":"c2","name":"Bash","input":{"f":2}}],"stop_reason":"tool_use","usage":{"input_tokens":3,"cache_read_input_tokens":5,"cache_creation_input_tokens":7,"output_tokens":11}}}
{"type":"progress","uuid":"p1","parentUuid":"a3","data":{}}
{"type":"user","uuid":"t2","parentUuid":"p1","timestamp":"2026-01-01T00:00:05.000Z","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"c2","content":"boom","is_error":true},{"type":"text","text":"go on"}]}}
{"type":"assistant","uuid":"a4","parentUuid":"t2","message":{"id":"r2","model":"claude-x","role":"assistant","content":[{"type":"text","text":"Done"}],"stop_reason":"end_turn"}}
{"type":"ai-title","aiTitle":"A look","sessionId":"s1"}
"#;

#[test]
fn a_response_is_one_message_and_parallel_results_find_their_calls() {
    let read = read_ok(SESSION);
    assert_eq!(read.format, Format::ClaudeCode);
    assert_eq!(
        shape(&read.messages),
        [
            "user text:Look around",
            "assistant [tool-calls] thought:hm Read{\"f\":1}=one\ntwo+file Bash{\"f\":2}!boom",
            "user text:go on",
            "assistant [stop] text:Done",
        ]
    );
    let response = &read.messages[1];
    let usage = response.info.tokens.as_ref().unwrap();
    assert_eq!(
        (usage.input, usage.cache_read, usage.cache_write, usage.output),
        (Tokens(3), Tokens(5), Tokens(7), Tokens(11)),
        "the usage of the last record counts"
    );
    assert_eq!(response.info.id.as_str(), "a1");
    assert_eq!(response.info.time.as_ref().unwrap().created, Some(Millis(1_767_225_601_000)));
    assert_eq!(response.parts[0].extra["metadata"]["anthropic"]["signature"], "SIG");
    let call = response.parts[1].as_tool().unwrap();
    assert_eq!(call.state.extra["toolUseResult"]["ok"], true);
    assert_eq!(call.state.attachments[0]["url"], "data:image/png;base64,QUJD");
    assert_eq!(read.info.title.as_deref(), Some("A look"));
    assert_eq!(read.info.directory.as_deref(), Some("/w"));
    assert_eq!(read.info.model.as_deref(), Some("claude-x"));
    assert!(read.skipped.is_empty(), "{:?}", read.skipped);
    assert_eq!((read.unused["progress"], read.unused["file-history-snapshot"]), (1, 1));
}

#[test]
fn the_newest_leaf_is_the_session_and_other_branches_are_counted() {
    let read = read_ok(
        r#"{"type":"user","uuid":"1","parentUuid":null,"message":{"content":"start"}}
{"type":"user","uuid":"2","parentUuid":"1","message":{"content":"old try"}}
{"type":"user","uuid":"3","parentUuid":"1","message":{"content":"new try"}}
"#,
    );
    assert_eq!(shape(&read.messages), ["user text:start", "user text:new try"]);
    assert_eq!(read.unused["record of another branch"], 1);
}

#[test]
fn a_result_written_before_its_call_still_answers_it() {
    let read = read_ok(
        r#"{"type":"user","uuid":"1","parentUuid":null,"message":{"content":"start"}}
{"type":"user","uuid":"3","parentUuid":"2","message":{"content":[{"type":"tool_result","tool_use_id":"c","content":"x"}]}}
{"type":"assistant","uuid":"2","parentUuid":"1","message":{"id":"r","content":[{"type":"tool_use","id":"c","name":"f","input":{}}]}}
{"type":"user","uuid":"4","parentUuid":"3","message":{"content":"next"}}
"#,
    );
    assert_eq!(shape(&read.messages), ["user text:start", "assistant [tool-calls] f{}=x", "user text:next"]);
}

#[test]
fn a_boundary_and_its_summary_are_a_pivot() {
    let read = read_ok(
        r#"{"type":"user","uuid":"1","parentUuid":null,"message":{"content":"start"}}
{"type":"assistant","uuid":"2","parentUuid":"1","message":{"id":"r","content":[{"type":"text","text":"ok"}]}}
{"type":"system","subtype":"compact_boundary","uuid":"3","parentUuid":null,"logicalParentUuid":"2","compactMetadata":{"trigger":"auto","preTokens":9000}}
{"type":"user","uuid":"4","parentUuid":"3","isCompactSummary":true,"message":{"content":"We said ok."}}
{"type":"user","uuid":"5","parentUuid":"4","isMeta":true,"message":{"content":"reminder"}}
{"type":"user","uuid":"6","parentUuid":"5","message":{"content":"next"}}
"#,
    );
    assert_eq!(
        shape(&read.messages),
        [
            "user text:start",
            "assistant [stop] text:ok",
            "user marker",
            "assistant (summary) [stop] text:We said ok.",
            "user host:reminder",
            "user text:next",
        ]
    );
    let pivot = Pivot::newest(&read.messages).unwrap();
    assert_eq!((pivot.marker, pivot.summary), (2, 3));
    let marker = read.messages[2].marker().unwrap();
    assert_eq!((marker.auto, marker.tokens), (Some(true), Some(9000)));
    assert_eq!(read.messages[2].info.id.as_str(), "3");
}

#[test]
fn text_of_the_host_under_another_role_is_the_hosts() {
    let read = read_ok(
        r#"{"type":"user","uuid":"1","parentUuid":null,"message":{"content":"start"}}
{"type":"assistant","uuid":"2","parentUuid":"1","message":{"id":"r","model":"claude-x","content":[{"type":"text","text":"ok"}],"stop_reason":"end_turn"}}
{"type":"user","uuid":"3","parentUuid":"2","origin":{"kind":"task-notification"},"message":{"content":"<task-notification>done</task-notification>"}}
{"type":"assistant","uuid":"4","parentUuid":"3","message":{"id":"p","model":"<synthetic>","content":[{"type":"text","text":"No response requested."}],"stop_reason":"stop_sequence","usage":{"input_tokens":0,"output_tokens":0}}}
{"type":"user","uuid":"5","parentUuid":"4","origin":{"kind":"human"},"message":{"content":"next"}}
{"type":"assistant","uuid":"6","parentUuid":"5","message":{"id":"q","model":"<synthetic>","content":[{"type":"text","text":"a copy"}],"stop_reason":"end_turn","usage":{"input_tokens":0,"output_tokens":0}}}
"#,
    );
    assert_eq!(
        shape(&read.messages),
        [
            "user text:start",
            "assistant [stop] text:ok",
            "user host:<task-notification>done</task-notification>",
            "assistant [stop] host:No response requested.",
            "user text:next",
            // An export of a session with an unknown model uses this name for answers and includes their finish
            // reasons.
            "assistant [stop] text:a copy",
        ]
    );
    assert_eq!((read.messages[3].info.tokens.as_ref(), read.recorded.len()), (None, 0));
}

#[test]
fn side_chains_are_sub_agents() {
    let read = read_ok(
        r#"{"type":"user","uuid":"1","parentUuid":null,"isSidechain":false,"sessionId":"s","message":{"content":"start"}}
{"type":"user","uuid":"x1","parentUuid":null,"isSidechain":true,"agentId":"A","message":{"content":"sub task"}}
{"type":"assistant","uuid":"2","parentUuid":"1","isSidechain":false,"message":{"id":"r","content":[{"type":"text","text":"ok"}]}}
{"type":"user","uuid":"y1","parentUuid":null,"isSidechain":true,"agentId":"B","message":{"content":"other task"}}
{"type":"assistant","uuid":"x2","parentUuid":"x1","isSidechain":true,"agentId":"A","message":{"id":"q","content":[{"type":"text","text":"done"}]}}
"#,
    );
    assert_eq!(shape(&read.messages), ["user text:start", "assistant text:ok"]);
    let chains: Vec<_> = read.side_chains.iter().map(|chain| shape(&chain.messages)).collect();
    assert_eq!(chains, [vec!["user text:sub task", "assistant text:done"], vec!["user text:other task"]]);
    assert_eq!(read.side_chains[0].info.id.as_deref(), Some("A"));
}

#[test]
fn a_cycle_ends_the_walk_and_is_counted() {
    let read = read_ok(
        r#"{"type":"user","uuid":"1","parentUuid":"2","message":{"content":"a"}}
{"type":"user","uuid":"2","parentUuid":"1","message":{"content":"b"}}
{"type":"user","uuid":"x","parentUuid":"y","isSidechain":true,"message":{"content":"c"}}
{"type":"user","uuid":"y","parentUuid":"x","isSidechain":true,"message":{"content":"d"}}
"#,
    );
    assert_eq!(shape(&read.messages).len(), 2, "either of the two may be the older");
    assert_eq!(read.skipped["cycle in the parent tree"], 1);
    let in_chains: usize = read.side_chains.iter().map(|chain| chain.messages.len()).sum();
    assert_eq!(in_chains, 2);
}

#[test]
fn a_missing_parent_does_not_lose_earlier_records() {
    let read = read_ok(
        r#"{"type":"user","uuid":"1","parentUuid":null,"message":{"content":"a"}}
{"type":"user","uuid":"3","parentUuid":"2","message":{"content":"c"}}
"#,
    );
    assert_eq!(shape(&read.messages), ["user text:a", "user text:c"]);
    assert_eq!(read.skipped["missing parent"], 1);
}

#[test]
fn unknown_kinds_are_counted_and_unknown_results_kept() {
    let read = read_ok(
        r#"{"type":"user","uuid":"1","parentUuid":null,"message":{"content":[{"type":"tool_result","tool_use_id":"gone","content":"late"}]}}
{"type":"from-the-future","sessionId":"s"}
{"type":"assistant","uuid":"2","parentUuid":"1","message":{"id":"r","content":[{"type":"hologram"},{"type":"text","text":"ok"}]}}
"#,
    );
    assert_eq!(shape(&read.messages), ["user result(gone):late", "assistant text:ok"]);
    assert_eq!((read.skipped["from-the-future"], read.skipped["assistant block hologram"]), (1, 1));
}

#[test]
fn a_field_of_the_wrong_type_does_not_affect_others() {
    let input = r#"{"type":"user","uuid":"1","parentUuid":null,"message":{"content":"a"}}
{"type":"user","uuid":"2","parentUuid":"1","message":{"content":42}}
{"type":"user","uuid":7,"parentUuid":"2","timestamp":"noon","message":{"content":"c"}}
{"type":"assistant","uuid":"4","parentUuid":[],"message":{"id":"r","content":[{"type":"text","text":"d"},8],"usage":{"input_tokens":-3,"output_tokens":2.0}}}
{"type":null,"uuid":"5","parentUuid":"4","message":{"role":"user","content":"e"}}
"#;
    let read = read(input.as_bytes()).unwrap();
    assert_eq!(
        shape(&read.messages),
        ["user text:a", "user text:42", "user text:c", "assistant [stop] text:d text:8", "user text:e"]
    );
    assert!(read.broken.is_none() && read.skipped.is_empty());
    let rendered: Vec<String> = read.notes.first().iter().map(ToString::to_string).collect();
    assert_eq!(
        rendered,
        [
            "line 3: uuid: expected a name, found 7; taken for the next in the file",
            "line 4: parentUuid: expected a name, found an array of 0; taken for the next in the file",
            "line 5: type: expected a string, found null; read by its shape",
            "line 2: message.content: expected a string or a list, found 42; kept as text",
            "line 3: timestamp: expected a time, found a string of 4 bytes; kept under `unread`",
            "line 4: message.content[1]: expected an object, found 8; kept as text",
            "line 4: message.usage.input_tokens: expected a whole number of zero or more, found -3; kept under `unread`",
            "line 4: message.usage.output_tokens: expected a whole number of zero or more, found 2.0; kept under `unread`",
        ]
    );
    let answer = &read.messages[3].info;
    assert_eq!(answer.tokens.as_ref().unwrap().output, plimsoll::Tokens(2));
    assert_eq!(answer.extra["unread"]["line 4: message.usage.input_tokens"], -3);
}

#[test]
fn system_records_of_an_unknown_kind_are_counted_as_not_understood() {
    let read = read_ok(
        r#"{"type":"user","uuid":"1","parentUuid":null,"message":{"content":"start"}}
{"type":"system","subtype":"turn_duration","uuid":"2","parentUuid":"1"}
{"type":"system","subtype":"telepathy","uuid":"3","parentUuid":"2"}
{"type":"user","uuid":"4","parentUuid":"3","message":{"content":"next"}}
"#,
    );
    assert_eq!(shape(&read.messages), ["user text:start", "user text:next"]);
    assert_eq!((read.unused["system/turn_duration"], read.skipped["system/telepathy"]), (1, 1));
}

/// Returns what an attachment after a user message becomes, and its counts as skipped and unused.
fn attached(attachment: &str) -> (Option<String>, u64, u64) {
    let read = read_ok(&format!(
        r#"{{"type":"user","uuid":"1","parentUuid":null,"message":{{"content":"start"}}}}
{{"type":"attachment","uuid":"2","parentUuid":"1","attachment":{attachment}}}
{{"type":"assistant","uuid":"3","parentUuid":"2","message":{{"id":"r","content":[{{"type":"text","text":"ok"}}]}}}}
"#
    ));
    let mut shape = shape(&read.messages);
    assert_eq!((shape.remove(0), shape.pop()), ("user text:start".into(), Some("assistant text:ok".into())));
    assert!(shape.len() < 2, "{shape:?}");
    let count = |counts: &std::collections::BTreeMap<String, u64>| counts.values().sum();
    (shape.pop(), count(&read.unused), count(&read.skipped))
}

#[test]
fn attachments_that_the_model_saw_are_read() {
    let shown = |attachment: &str, line: &str| {
        assert_eq!(attached(attachment), (Some(line.to_owned()), 0, 0), "{attachment}");
    };
    shown(
        r#"{"type":"file","filename":"/w/a.rs","content":{"type":"text","file":{"filePath":"/w/a.rs","content":"fn a() {}","numLines":1}}}"#,
        "user host:/w/a.rs:\nfn a() {}",
    );
    shown(
        r#"{"type":"file","filename":"a.png","content":{"type":"image","file":{"base64":"QUJD","type":"image/png"}}}"#,
        "user file:data:image/png;base64,QUJD",
    );
    shown(r#"{"type":"hook_additional_context","content":["be","brief"]}"#, "user host:be\nbrief");
    shown(r#"{"type":"hook_success","hookEvent":"SessionStart","content":"hello"}"#, "user host:hello");
    shown(
        r#"{"type":"todo_reminder","content":[{"content":"test","status":"pending","activeForm":"testing"}],"itemCount":1}"#,
        "user host:test",
    );
    shown(r#"{"type":"skill_listing","content":"- loop: again","skillCount":1}"#, "user host:- loop: again");
    shown(
        r###"{"type":"mcp_instructions_delta","addedNames":["pay"],"addedBlocks":["## pay"],"removedNames":[]}"###,
        "user host:## pay",
    );
    shown(r#"{"type":"deferred_tools_delta","addedNames":["A","B"]}"#, "user host:A\nB");
    shown(r#"{"type":"queued_command","prompt":"and this"}"#, "user host:and this");
    shown(
        r#"{"type":"queued_command","prompt":[{"type":"text","text":"see"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"QUJD"}}]}"#,
        "user host:see file:data:image/png;base64,QUJD",
    );
    shown(
        r#"{"type":"queued_command","prompt":"<task-notification>done</task-notification>","commandMode":"task-notification"}"#,
        "user host:<task-notification>done</task-notification>",
    );
    shown(
        r#"{"type":"nested_memory","path":"/w/N.md","content":{"path":"/w/N.md","type":"Project","content":"Rules"}}"#,
        "user host:/w/N.md:\nRules",
    );
    shown(r#"{"type":"edited_text_file","filename":"/w/a","snippet":"1 x"}"#, "user host:/w/a:\n1 x");
}

#[test]
fn a_message_that_was_queued_while_the_agent_worked_is_the_users() {
    for attachment in [
        r#"{"type":"queued_command","prompt":"use port 8080","commandMode":"prompt","origin":{"kind":"human"}}"#,
        r#"{"type":"queued_command","prompt":"use port 8080","origin":{"kind":"human"}}"#,
        r#"{"type":"queued_command","prompt":"use port 8080","commandMode":"prompt"}"#,
    ] {
        assert_eq!(attached(attachment).0.as_deref(), Some("user text:use port 8080"), "{attachment}");
    }
    let other =
        r#"{"type":"queued_command","prompt":"ping","commandMode":"prompt","origin":{"kind":"channel"}}"#;
    assert_eq!(attached(other).0.as_deref(), Some("user host:ping"));
}

/// In versions that do not mark the expansion, a command looked like two messages of the user.
#[test]
fn the_expansion_of_a_slash_command_is_the_hosts() {
    let read = read_ok(
        r##"{"type":"user","uuid":"1","parentUuid":null,"message":{"content":"<command-message>review</command-message>\n<command-name>/review</command-name>\n<command-args>only src</command-args>"}}
{"type":"user","uuid":"2","parentUuid":"1","message":{"content":[{"type":"text","text":"# Review\n\nRead every file and never skip one."}]}}
{"type":"assistant","uuid":"3","parentUuid":"2","message":{"id":"r","content":[{"type":"tool_use","id":"c","name":"Read","input":{}}]}}
{"type":"user","uuid":"4","parentUuid":"3","message":{"content":[{"type":"tool_result","tool_use_id":"c","content":"x"}]}}
{"type":"user","uuid":"5","parentUuid":"4","message":{"content":"<command-name>/model</command-name>\n<command-message>model</command-message>"}}
{"type":"user","uuid":"6","parentUuid":"5","message":{"content":[{"type":"text","text":"and the tests"}]}}
"##,
    );
    let shape = shape(&read.messages);
    assert_eq!(shape[1], "user host:# Review\n\nRead every file and never skip one.");
    assert_eq!(shape.last().map(String::as_str), Some("user text:and the tests"));
}

#[test]
fn attachments_that_the_model_did_not_see_are_counted() {
    for attachment in [
        r#"{"type":"todo_reminder","content":[],"itemCount":0}"#,
        r#"{"type":"command_permissions","allowedTools":["Bash"]}"#,
        r#"{"type":"hook_success","hookEvent":"PostToolUse","content":"formatted"}"#,
        r#"{"type":"telepathy","volume":11}"#,
        "7",
    ] {
        assert_eq!(attached(attachment), (None, 1, 0), "{attachment}");
    }
    assert_eq!(
        attached(r#"{"type":"telepathy","content":"hm"}"#),
        (None, 0, 1),
        "it is unknown whether the model saw it"
    );
}

#[test]
fn an_attachment_may_end_the_session_but_not_choose_its_branch() {
    let read = read_ok(
        r#"{"type":"user","uuid":"1","parentUuid":null,"message":{"content":"start"}}
{"type":"user","uuid":"2","parentUuid":"1","message":{"content":"old try"}}
{"type":"user","uuid":"3","parentUuid":"1","message":{"content":"new try"}}
{"type":"progress","uuid":"4","parentUuid":"3"}
{"type":"attachment","uuid":"5","parentUuid":"4","attachment":{"type":"queued_command","prompt":"more"}}
{"type":"attachment","uuid":"6","parentUuid":"2","attachment":{"type":"queued_command","prompt":"late"}}
"#,
    );
    assert_eq!(shape(&read.messages), ["user text:start", "user text:new try", "user host:more"]);
    assert_eq!(read.unused["record of another branch"], 2);
}

use plimsoll::{Pivot, Tokens};
use plimsoll_formats::Format;

use crate::support::{read_ok, shape};

#[test]
fn the_first_version_is_a_list_and_compaction_keeps_a_tail() {
    let read = read_ok(
        r#"{"type":"session","id":"s","timestamp":"2026-01-01T00:00:00Z","cwd":"/w","modelId":"m"}
{"type":"message","message":{"role":"user","content":[{"type":"text","text":"one"}]}}
{"type":"message","message":{"role":"assistant","content":[{"type":"thinking","thinking":"hm","thinkingSignature":"SIG"},{"type":"toolCall","id":"c","name":"read","arguments":{"p":1}}],"model":"m","usage":{"input":1,"output":2,"cacheRead":3,"cacheWrite":4,"totalTokens":10,"cost":{"total":0.5}},"stopReason":"toolUse"}}
{"type":"message","message":{"role":"toolResult","toolCallId":"c","toolName":"read","content":[{"type":"text","text":"body"}],"isError":false}}
{"type":"message","message":{"role":"user","content":"two"}}
{"type":"compaction","summary":"We read.","firstKeptEntryIndex":4,"tokensBefore":99}
{"type":"message","message":{"role":"bashExecution","command":"ls","output":"a"}}
{"type":"message","message":{"role":"assistant","content":[],"stopReason":"aborted","errorMessage":"stopped"}}
{"type":"odd"}
"#,
    );
    assert_eq!(read.format, Format::Pi);
    assert_eq!(
        shape(&read.messages),
        [
            "user text:one",
            "assistant [tool-calls] thought:hm read{\"p\":1}=body",
            "user text:two",
            "user marker tail msg_000003",
            "assistant (summary) [stop] text:We read.",
            "user text:Ran `ls`\n```\na\n```",
            "assistant [aborted]",
        ]
    );
    let pivot = Pivot::newest(&read.messages).unwrap();
    assert_eq!((pivot.marker, pivot.tail), (3, Some(2)));
    let usage = read.messages[1].info.tokens.as_ref().unwrap();
    assert_eq!((usage.cache_read, usage.cache_write), (Tokens(3), Tokens(4)));
    assert_eq!(read.messages[6].info.error.as_ref().unwrap()["name"], "MessageAbortedError");
    assert_eq!(read.skipped["odd"], 1);
}

/// An answer that was stopped, or that the provider broke off, has content, which is kept.
#[test]
fn the_content_of_an_aborted_answer_is_kept() {
    for (reason, name) in [("aborted", "MessageAbortedError"), ("error", "APIError")] {
        let answer = r#"{"type":"message","message":{"role":"assistant","content":[{"type":"text","text":"Half of"},{"type":"toolCall","id":"c","name":"ls","arguments":{"a":1}}],"usage":{"input":7,"output":2},"stopReason":"REASON","errorMessage":"stopped"}}"#;
        let file = format!(
            "{}\n{}\n{}\n",
            r#"{"type":"session","id":"s","cwd":"/w"}"#,
            r#"{"type":"message","message":{"role":"user","content":"one"}}"#,
            answer.replace("REASON", reason),
        );
        let read = read_ok(&file);
        assert_eq!(read.messages.len(), 2, "{reason}");
        let message = &read.messages[1];
        assert_eq!(message.text(), "Half of");
        assert_eq!(message.info.error.as_ref().unwrap()["name"], name);
        assert_eq!(message.info.error.as_ref().unwrap()["data"]["message"], "stopped");
        assert!(message.parts[1].as_tool().is_some());
        assert_eq!(read.recorded.responses().len(), 1, "what it took was taken");
        assert!(read.skipped.is_empty() && read.notes.is_empty());
    }
}

#[test]
fn later_versions_are_a_tree() {
    let read = read_ok(
        r#"{"type":"session","version":3,"id":"s","cwd":"/w"}
{"type":"message","id":"e1","parentId":null,"message":{"role":"user","content":"one"}}
{"type":"message","id":"e2","parentId":"e1","message":{"role":"user","content":"left"}}
{"type":"branch_summary","id":"e3","parentId":"e1","summary":"Tried left."}
{"type":"compaction","id":"e4","parentId":"e3","summary":"Sum","firstKeptEntryId":"e3"}
{"type":"session_info","id":"e5","parentId":"e4","name":"Title"}
"#,
    );
    assert_eq!(
        shape(&read.messages),
        [
            "user text:one",
            "user host:Tried left.",
            "user marker tail e3",
            "assistant (summary) [stop] text:Sum"
        ]
    );
    assert_eq!(read.unused["entry of another branch"], 1);
    assert_eq!(read.info.title.as_deref(), Some("Title"));
}

#[test]
fn a_cycle_ends_the_walk_and_is_counted() {
    let read = read_ok(
        r#"{"type":"session","id":"s","cwd":"/w"}
{"type":"message","id":"a","parentId":"b","message":{"role":"user","content":"one"}}
{"type":"message","id":"b","parentId":"a","message":{"role":"user","content":"two"}}
"#,
    );
    assert_eq!(read.skipped["cycle in the parent tree"], 1);
    assert_eq!(read.messages.len(), 2);
}

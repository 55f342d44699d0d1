//! Growing sessions: reading from a restart has the same result as reading the whole file.

// Records are nested in calls, where borrows would only add noise.
#![allow(clippy::needless_pass_by_value)]

use std::io::Cursor;

use plimsoll::Message;
use plimsoll_formats::{Chain, Restart, Transcript, visit, visit_from};
use serde_json::{Value, json};

fn main_of(text: &str) -> (Transcript, Vec<Message>) {
    let mut messages = Vec::new();
    let transcript = visit(Cursor::new(text), &mut |chain, message| {
        if chain == Chain::Main {
            messages.push(message);
        }
    });
    (transcript.unwrap(), messages)
}

fn rest_of(restart: &Restart, text: &str) -> Option<(Transcript, Vec<Message>)> {
    let mut messages = Vec::new();
    let transcript = visit_from(restart, Cursor::new(text), &mut |chain, message| {
        if chain == Chain::Main {
            messages.push(message);
        }
    });
    Some((transcript.unwrap()?, messages))
}

/// Reads the file up to every line end, continues from there to each later one, and compares with reading the whole.
/// Returns the number of pairs that were resumed.
fn check(name: &str, records: &[Value]) -> usize {
    let lines: Vec<String> = records.iter().map(|record| format!("{record}\n")).collect();
    let text = |count: usize| lines[..count].concat();
    let mut taken_up = 0;
    for before in 2..lines.len() {
        let (first, messages) = main_of(&text(before));
        let Some(restart) = first.restart else { continue };
        let kept = messages.iter().position(|message| message.info.id == *restart.message());
        let Some(kept) = kept else { continue };
        for after in before..=lines.len() {
            let Some((rest, later)) = rest_of(&restart, &text(after)) else { continue };
            let (whole, all) = main_of(&text(after));
            let both: Vec<Message> = messages[..kept].iter().cloned().chain(later).collect();
            assert_eq!(both, all, "{name}: {before} lines, then {after}");
            // The next restart is that of reading the whole, or an earlier one that reading the whole also found.
            if let (Some(next), Some(known)) = (&rest.restart, &whole.restart) {
                assert_eq!(next, known, "{name}: {before} lines, then {after}");
            }
            taken_up += 1;
        }
    }
    taken_up
}

fn claude(uuid: u32, parent: Option<u32>, body: Value) -> Value {
    let parent = parent.map(|parent| format!("r{parent}"));
    let mut record = json!({ "uuid": format!("r{uuid}"), "parentUuid": parent, "sessionId": "s1", "cwd": "/srv/app",
        "timestamp": format!("2026-05-01T10:00:{:02}Z", uuid % 60), "isSidechain": false });
    record.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
    record
}

fn said(text: &str) -> Value {
    json!({ "type": "user", "message": { "role": "user", "content": text } })
}

fn answered(call: &str) -> Value {
    json!({ "type": "user", "message": { "role": "user",
        "content": [{ "type": "tool_result", "tool_use_id": call, "content": "found" }] } })
}

fn response(id: &str, block: Value) -> Value {
    json!({ "type": "assistant", "requestId": id, "message": { "id": id, "role": "assistant", "model": "claude-sonnet-4-5",
        "content": [block], "usage": { "input_tokens": 10, "cache_read_input_tokens": 1_000, "output_tokens": 5 } } })
}

fn call(id: &str) -> Value {
    json!({ "type": "tool_use", "id": id, "name": "Read", "input": { "file_path": "/srv/app/a.rs" } })
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

#[test]
fn a_session_of_claude_code_is_resumed_at_its_end() {
    // A response in two records, two parallel calls with results on different branches, a sub-agent in between.
    let mut side = claude(90, None, said("Look for it"));
    side["isSidechain"] = true.into();
    let records = [
        claude(1, None, said("First")),
        claude(2, Some(1), response("m1", text("I look"))),
        claude(3, Some(2), response("m1", call("c1"))),
        claude(4, Some(3), answered("c1")),
        claude(5, Some(4), response("m2", call("c2"))),
        claude(6, Some(5), response("m2", call("c3"))),
        claude(7, Some(5), answered("c2")),
        claude(8, Some(6), answered("c3")),
        side,
        claude(9, Some(8), response("m3", text("Here it is"))),
        claude(10, Some(9), said("Second")),
        claude(11, Some(10), response("m4", text("Yes"))),
        claude(12, Some(11), said("Third")),
        claude(13, Some(12), response("m5", call("c4"))),
        claude(14, Some(13), answered("c4")),
        claude(15, Some(14), response("m6", text("Done"))),
    ];
    assert!(check("claude", &records) > 60);
}

#[test]
fn records_that_refer_back_require_reading_from_the_beginning() {
    let begun = [
        claude(1, None, said("First")),
        claude(2, Some(1), response("m1", text("Yes"))),
        claude(3, Some(2), said("Second")),
        claude(4, Some(3), response("m2", text("No"))),
    ];
    let lines =
        |records: &[Value]| -> String { records.iter().map(|record| format!("{record}\n")).collect() };
    let restart = main_of(&lines(&begun)).0.restart.unwrap();
    let boundary =
        json!({ "type": "system", "subtype": "compact_boundary", "compactMetadata": { "trigger": "auto" } });
    let mut summary = said("So far");
    summary["isCompactSummary"] = true.into();
    for (name, added) in [
        ("another branch", vec![claude(5, Some(2), said("Instead"))]),
        ("a compaction", vec![claude(5, Some(4), boundary), claude(6, Some(5), summary)]),
        ("an earlier call", vec![claude(5, Some(4), answered("c0"))]),
    ] {
        let file = lines(&[&begun[..], &added].concat());
        assert!(rest_of(&restart, &file).is_none(), "{name}");
    }
    check("claude that goes back", &[&begun[..], &[claude(5, Some(2), said("Instead"))]].concat());
    // A file that was replaced has different content there.
    let other = lines(&[claude(21, None, said("Else")), claude(22, Some(21), response("m9", text("Yes")))]);
    let long = format!("{other}{}", lines(&begun));
    assert!(rest_of(&restart, &long).is_none());
}

fn codex(kind: &str, payload: Value) -> Value {
    json!({ "timestamp": "2026-05-01T10:00:00Z", "type": kind, "payload": payload })
}

fn counted(total: u64) -> Value {
    let usage = json!({ "input_tokens": total, "cached_input_tokens": 0, "output_tokens": 5, "total_tokens": total + 5 });
    codex(
        "event_msg",
        json!({ "type": "token_count", "info": { "total_token_usage": { "total_tokens": total },
            "last_token_usage": usage, "model_context_window": 200_000 } }),
    )
}

#[test]
fn a_session_of_codex_is_resumed_at_its_end() {
    let message = |role: &str, text: &str| {
        codex(
            "response_item",
            json!({ "type": "message", "role": role, "content": [{ "type": "input_text", "text": text }] }),
        )
    };
    let call = |id: &str| {
        codex(
            "response_item",
            json!({ "type": "function_call", "name": "shell", "arguments": "{}", "call_id": id }),
        )
    };
    let output = |id: &str| {
        codex("response_item", json!({ "type": "function_call_output", "call_id": id, "output": "found" }))
    };
    let records = [
        codex(
            "session_meta",
            json!({ "id": "s1", "cwd": "/srv/app", "cli_version": "1", "instructions": "Be brief." }),
        ),
        codex("turn_context", json!({ "model": "gpt-5.2-codex", "cwd": "/srv/app" })),
        message("user", "First"),
        call("c1"),
        output("c1"),
        counted(1_000),
        // The same count again, as after a change of the account's limits.
        counted(1_000),
        message("assistant", "Here it is"),
        counted(1_100),
        message("user", "Second"),
        counted(1_100),
        call("c2"),
        call("c3"),
        counted(1_300),
        output("c3"),
        output("c2"),
        message("assistant", "Done"),
        counted(1_400),
        message("user", "Third"),
    ];
    assert!(check("codex", &records) > 60);
    let back = codex("event_msg", json!({ "type": "thread_rolled_back", "num_turns": 1 }));
    check("codex that goes back", &[&records[..], &[back, message("user", "Instead")]].concat());
}

#[test]
fn a_session_of_pi_is_resumed_at_its_end() {
    let entry = |id: u32, parent: Option<u32>, message: Value| {
        let parent = parent.map(|parent| format!("e{parent}"));
        json!({ "type": "message", "id": format!("e{id}"), "parentId": parent, "timestamp": "2026-05-01T10:00:00Z",
            "message": message })
    };
    let usage = json!({ "input": 900, "output": 20, "cacheRead": 0, "cacheWrite": 0 });
    let answer = |block: Value, stop: &str| json!({ "role": "assistant", "model": "claude-sonnet-4-5", "stopReason": stop, "content": [block], "usage": usage });
    let records = [
        json!({ "type": "session", "id": "p1", "timestamp": "2026-05-01T10:00:00Z", "cwd": "/srv/app" }),
        entry(1, None, json!({ "role": "user", "content": "First" })),
        entry(
            2,
            Some(1),
            answer(json!({ "type": "toolCall", "id": "a", "name": "ls", "arguments": {} }), "toolUse"),
        ),
        entry(3, Some(2), json!({ "role": "toolResult", "toolCallId": "a", "content": "a.rs" })),
        entry(4, Some(3), answer(text("One file"), "stop")),
        entry(5, Some(4), json!({ "role": "user", "content": "Second" })),
        entry(6, Some(5), answer(text("Yes"), "stop")),
        entry(7, Some(4), json!({ "role": "user", "content": "Instead" })),
        entry(8, Some(7), answer(text("Well"), "stop")),
    ];
    assert!(check("pi", &records) > 20);
}

//! Figures of transcripts that grow between two readings.

// Records are nested in calls, which borrows would only clutter.
#![allow(clippy::needless_pass_by_value)]

use std::fs;
use std::path::{Path, PathBuf};

use plimsoll::Policy;
use plimsoll_import::{Found, SessionStorage, Tool, Weighed, WeighedCache, weigh_all};
use serde_json::{Value, json};
use tempfile::TempDir;

struct Transcripts {
    dir: TempDir,
    cache: WeighedCache,
    policy: Policy,
}

impl Transcripts {
    fn new() -> Transcripts {
        let dir = TempDir::new().unwrap();
        let policy = Policy::default();
        let cache = WeighedCache::new(dir.path().join("cache"), &policy);
        Transcripts { dir, cache, policy }
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn weigh(&self, path: &Path, cache: Option<&WeighedCache>) -> Weighed {
        let found = Found {
            tool: Tool::ClaudeCode,
            id: "s1".into(),
            path: path.to_owned(),
            directory: None,
            changed: 0,
            origin: None,
            kept: SessionStorage::File,
        };
        weigh_all(&[found], None, &self.policy, cache, &|| ()).remove(0).unwrap()
    }

    fn cached(&self, path: &Path) -> Weighed {
        self.weigh(path, Some(&self.cache))
    }
}

/// Whatever a session had when it was weighed before, its figures must be those of reading it from the start.
fn check(name: &str, records: &[Value]) {
    let transcripts = Transcripts::new();
    let lines: Vec<String> = records.iter().map(|record| format!("{record}\n")).collect();
    for before in 1..lines.len() {
        for after in before + 1..=lines.len() {
            let path =
                transcripts.write(&format!("{name}-{before}-{after}.jsonl"), &lines[..before].concat());
            transcripts.cached(&path);
            transcripts.write(&format!("{name}-{before}-{after}.jsonl"), &lines[..after].concat());
            let grown = transcripts.cached(&path);
            assert_eq!(grown, transcripts.weigh(&path, None), "{name}: {before} lines, then {after}");
            // And once more, from where that reading ended.
            transcripts.write(&format!("{name}-{before}-{after}.jsonl"), &lines.concat());
            assert_eq!(
                transcripts.cached(&path),
                transcripts.weigh(&path, None),
                "{name}: {before}, {after}, all"
            );
        }
    }
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
        "content": [{ "type": "tool_result", "tool_use_id": call, "content": "found in many files" }] } })
}

fn response(id: &str, read: u64, block: Value) -> Value {
    json!({ "type": "assistant", "requestId": id, "message": { "id": id, "role": "assistant", "model": "claude-sonnet-4-5",
        "content": [block], "usage": { "input_tokens": 10, "cache_read_input_tokens": read, "output_tokens": 5 } } })
}

fn call(id: &str) -> Value {
    json!({ "type": "tool_use", "id": id, "name": "Read", "input": { "file_path": "/srv/app/a.rs" } })
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// Two responses in several records, a sub-agent, a title, another model, a compaction, and an abandoned branch.
fn session() -> Vec<Value> {
    let mut side = claude(90, None, said("Look for it"));
    side["isSidechain"] = true.into();
    let mut side_answer = claude(91, Some(90), response("side", 300, text("It is there")));
    side_answer["isSidechain"] = true.into();
    let boundary =
        json!({ "type": "system", "subtype": "compact_boundary", "compactMetadata": { "trigger": "auto" } });
    let mut summary = said("So far");
    summary["isCompactSummary"] = true.into();
    let mut other_model = response("m4", 1_400, text("Yes"));
    other_model["message"]["model"] = "claude-opus-4-7".into();
    vec![
        claude(1, None, said("First of all")),
        claude(2, Some(1), response("m1", 1_000, text("I look"))),
        claude(3, Some(2), response("m1", 1_000, call("c1"))),
        claude(4, Some(3), answered("c1")),
        claude(5, Some(4), response("m2", 1_100, call("c2"))),
        claude(6, Some(5), response("m2", 1_100, call("c3"))),
        claude(7, Some(5), answered("c2")),
        claude(8, Some(6), answered("c3")),
        side,
        side_answer,
        claude(9, Some(8), response("m3", 1_200, text("Here it is"))),
        json!({ "type": "custom-title", "customTitle": "What it is called", "sessionId": "s1" }),
        claude(10, Some(9), said("Second")),
        claude(11, Some(10), other_model),
        claude(12, Some(11), boundary),
        claude(13, Some(12), summary),
        claude(14, Some(13), said("Third")),
        claude(15, Some(14), response("m5", 700, text("Done"))),
        claude(16, Some(14), said("Instead")),
        claude(17, Some(16), response("m6", 800, text("Well"))),
    ]
}

#[test]
fn an_extended_session_of_claude_code_is_weighed_like_a_new_one() {
    check("claude", &session());
}

#[test]
fn an_extended_session_of_codex_is_weighed_like_a_new_one() {
    let codex = |kind: &str, payload: Value| json!({ "timestamp": "2026-05-01T10:00:00Z", "type": kind, "payload": payload });
    let message = |role: &str, text: &str| {
        let content = json!([{ "type": "input_text", "text": text }]);
        codex("response_item", json!({ "type": "message", "role": role, "content": content }))
    };
    let call = |id: &str| {
        let call = json!({ "type": "function_call", "name": "shell", "arguments": "{}", "call_id": id });
        codex("response_item", call)
    };
    let output = |id: &str| {
        codex("response_item", json!({ "type": "function_call_output", "call_id": id, "output": "found" }))
    };
    let counted = |total: u64| {
        let usage = json!({ "input_tokens": total, "cached_input_tokens": 0, "output_tokens": 5, "total_tokens": total + 5 });
        codex(
            "event_msg",
            json!({ "type": "token_count", "info": { "total_token_usage": { "total_tokens": total },
                "last_token_usage": usage, "model_context_window": 200_000 } }),
        )
    };
    let records = [
        codex("session_meta", json!({ "id": "s1", "cwd": "/srv/app", "cli_version": "1" })),
        codex("turn_context", json!({ "model": "gpt-5.2-codex", "cwd": "/srv/app" })),
        message("user", "First"),
        call("c1"),
        output("c1"),
        counted(1_000),
        counted(1_000),
        message("assistant", "Here it is"),
        counted(1_100),
        message("user", "Second"),
        call("c2"),
        call("c3"),
        counted(1_300),
        output("c3"),
        output("c2"),
        message("assistant", "Done"),
        counted(1_400),
        codex("event_msg", json!({ "type": "thread_rolled_back", "num_turns": 1 })),
        message("user", "Instead"),
        message("assistant", "Well"),
        counted(1_350),
    ];
    check("codex", &records);
}

#[test]
fn an_extended_session_of_pi_is_weighed_like_a_new_one() {
    let entry = |id: u32, parent: Option<u32>, message: Value| {
        let parent = parent.map(|parent| format!("e{parent}"));
        json!({ "type": "message", "id": format!("e{id}"), "parentId": parent, "timestamp": "2026-05-01T10:00:00Z",
            "message": message })
    };
    let answer = |input: u64, block: Value, stop: &str| {
        let usage = json!({ "input": input, "output": 20, "cacheRead": 0, "cacheWrite": 0 });
        json!({ "role": "assistant", "model": "claude-sonnet-4-5", "stopReason": stop, "content": [block], "usage": usage })
    };
    let call = json!({ "type": "toolCall", "id": "a", "name": "ls", "arguments": {} });
    let records = [
        json!({ "type": "session", "id": "p1", "timestamp": "2026-05-01T10:00:00Z", "cwd": "/srv/app" }),
        entry(1, None, json!({ "role": "user", "content": "First" })),
        entry(2, Some(1), answer(900, call, "toolUse")),
        entry(3, Some(2), json!({ "role": "toolResult", "toolCallId": "a", "content": "a.rs" })),
        entry(4, Some(3), answer(950, text("One file"), "stop")),
        entry(5, Some(4), json!({ "role": "user", "content": "Second" })),
        entry(6, Some(5), answer(1_000, text("Yes"), "stop")),
        entry(7, Some(4), json!({ "role": "user", "content": "Instead" })),
        entry(8, Some(7), answer(1_010, text("Well"), "stop")),
    ];
    check("pi", &records);
}

/// The start is changed without the cache noticing, so that reading it again would give another title.
#[test]
fn only_the_new_part_of_a_transcript_is_read() {
    let transcripts = Transcripts::new();
    let turn = |number: u32| {
        [
            claude(
                2 * number,
                (number > 0).then(|| 2 * number - 1),
                said(&format!("Prompt {number} {}", "x".repeat(500))),
            ),
            claude(2 * number + 1, Some(2 * number), response(&format!("m{number}"), 1_000, text("Yes"))),
        ]
    };
    let lines =
        |turns: u32| -> String { (0..turns).flat_map(turn).map(|record| format!("{record}\n")).collect() };
    let path = transcripts.write("grows.jsonl", &lines(20));
    assert!(transcripts.cached(&path).title.starts_with("Prompt 0"));
    transcripts.write("grows.jsonl", &lines(30).replace("Prompt 0 x", "Another! x"));
    let grown = transcripts.cached(&path);
    assert!(grown.title.starts_with("Prompt 0"), "{}", grown.title);
    assert_eq!((grown.messages, grown.recorded.len()), (60, 30));
    // The end that it had is no longer there, so it is another file.
    transcripts.write(
        "grows.jsonl",
        &lines(40).replace("Prompt 29 x", "Prompt 29 y").replace("Prompt 0 x", "Another! x"),
    );
    assert!(transcripts.cached(&path).title.starts_with("Another"));
}

//! How fast transcripts are read, beside `serde_json` making a `Value` of the same bytes.
//!
//! `cargo bench -p plimsoll-formats` writes a session of each format and reads it; with `PLIMSOLL_CORPUS` set it
//! reads the transcripts of that folder as well. Both start from a file. The yardstick parses each line of a line
//! format and drops it, and a document as a whole. Each figure is the best of several runs, taken in turns.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::fs::{self, File};
use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use plimsoll_formats::database::Database;
use plimsoll_formats::{Format, detect, read, visit};
use serde_json::{Value, json};

const SIZE: usize = 24 << 20;
const RUNS: usize = 25;

fn main() {
    println!("{:<34} {:>8} {:>10} {:>10} {:>10} {:>7}", "", "MB", "Value", "visit", "read", "ratio");
    let only = std::env::args().nth(1).filter(|name| !name.starts_with('-'));
    for format in
        Format::ALL.into_iter().filter(|format| only.as_deref().is_none_or(|name| name == format.name()))
    {
        match format {
            Format::OpencodeDatabase => database(),
            _ => compare(format.name(), &written(format)),
        }
    }
    if let Some(folder) = std::env::var_os("PLIMSOLL_CORPUS") {
        files(Path::new(&folder));
    }
}

fn files(folder: &Path) {
    let mut entries: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            files(&path);
            continue;
        }
        let bytes = fs::read(&path).unwrap();
        if detect(&bytes[..bytes.len().min(1 << 16)]).is_some() {
            compare(&path.file_name().unwrap().to_string_lossy(), &bytes);
        }
    }
}

/// The shortest time of each, taken in turns so that the machine treats them alike.
fn best<const N: usize>(mut timed: [&mut dyn FnMut(); N]) -> [Duration; N] {
    let mut best = [Duration::MAX; N];
    for _ in 0..RUNS {
        for (best, run) in best.iter_mut().zip(&mut timed) {
            let start = Instant::now();
            run();
            *best = start.elapsed().min(*best);
        }
    }
    best
}

fn compare(name: &str, bytes: &[u8]) {
    let format = detect(&bytes[..bytes.len().min(1 << 16)]).unwrap();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    let open = || BufReader::with_capacity(1 << 16, File::open(file.path()).unwrap());
    let times = best([
        &mut || {
            if format.is_lines() {
                let (mut input, mut line) = (open(), Vec::new());
                while input.read_until(b'\n', &mut line).unwrap() > 0 {
                    let _ = black_box(serde_json::from_slice::<Value>(&line));
                    line.clear();
                }
            } else {
                let text = fs::read(file.path()).unwrap();
                let _ = black_box(serde_json::from_slice::<Value>(&text));
            }
        },
        &mut || {
            black_box(visit(open(), &mut |_, message| drop(black_box(message))).unwrap());
        },
        &mut || drop(black_box(read(open()).unwrap())),
    ]);
    report(name, bytes.len(), times);
}

fn report(name: &str, bytes: usize, times: [Duration; 3]) {
    let speed = times.map(|time| bytes as f64 / 1e6 / time.as_secs_f64());
    println!(
        "{name:<34} {:>8.1} {:>10.0} {:>10.0} {:>10.0} {:>6.2}×",
        bytes as f64 / 1e6,
        speed[0],
        speed[1],
        speed[2],
        speed[1] / speed[0]
    );
}

/// The database beside its rows as values.
fn database() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("opencode.db");
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection
        .execute_batch(
            "CREATE TABLE session (id text PRIMARY KEY, time_updated integer);
            CREATE TABLE message (id text PRIMARY KEY, session_id text, time_created integer, data text);
            CREATE TABLE part (id text PRIMARY KEY, message_id text, data text);
            CREATE INDEX by_time ON message (session_id, time_created, id);
            CREATE INDEX by_message ON part (message_id, id);
            INSERT INTO session VALUES ('s', 1); BEGIN",
        )
        .unwrap();
    let export: Value = serde_json::from_slice(&written(Format::OpencodeExport)).unwrap();
    let mut rows = Vec::new();
    for (number, message) in export["messages"].as_array().unwrap().iter().enumerate() {
        let (id, info) = (message["info"]["id"].as_str().unwrap(), message["info"].to_string());
        let sql = "INSERT INTO message VALUES (?1, 's', ?2, ?3)";
        connection.execute(sql, (id, number as i64, &info)).unwrap();
        rows.push(info);
        for part in message["parts"].as_array().unwrap() {
            let data = part.to_string();
            let sql = "INSERT INTO part VALUES (?1, ?2, ?3)";
            connection.execute(sql, (part["id"].as_str().unwrap(), id, &data)).unwrap();
            rows.push(data);
        }
    }
    connection.execute_batch("COMMIT").unwrap();
    let database = Database::open(&path).unwrap();
    let times = best([
        &mut || rows.iter().for_each(|row| drop(black_box(serde_json::from_str::<Value>(row)))),
        &mut || {
            black_box(database.visit(None, &mut |_, message| drop(black_box(message))).unwrap());
        },
        &mut || drop(black_box(database.read(None).unwrap())),
    ]);
    report("opencode-db", rows.iter().map(String::len).sum(), times);
}

/// Words as they stand in sessions: prose, code, logs, some of it quoted, some not English.
struct Words(u64);

impl Words {
    fn number(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below
    }

    fn text(&mut self, bytes: usize) -> String {
        const PIECES: [&str; 16] = [
            "the build fails because of a missing import ",
            "let mut total = 0;\n",
            "    for item in &items {\n",
            "        total += item.price;\n    }\n",
            "error[E0308]: mismatched types\n",
            "  --> src/main.rs:42:17\n",
            "expected `&str`, found `String`\n\n",
            "{\"name\": \"example\", \"version\": \"1.0\"}\n",
            "I will look at the file first, then run the tests. ",
            "drwxr-xr-x 2 user user 4096 Jan  1 00:00 target\n",
            "12:04:55.120 INFO  server listening on 127.0.0.1:8080\n",
            "Größe und Gewicht, 日本語のテキスト, ",
            "#[derive(Clone, Debug, PartialEq)]\npub struct Thing {\n\tname: String,\n}\n",
            "test result: ok. 71 passed; 0 failed; 2 ignored\n",
            "https://example.org/some/path?query=value ",
            "C:\\Users\\somebody\\project\\file.txt\n",
        ];
        let mut text = String::with_capacity(bytes + 80);
        while text.len() < bytes {
            text.push_str(PIECES[self.number(PIECES.len())]);
        }
        text
    }

    /// Most outputs are short, some long, a few very long.
    fn output(&mut self) -> String {
        let bytes = match self.number(10) {
            0 => 20_000 + self.number(30_000),
            1..=3 => 3_000 + self.number(5_000),
            _ => 100 + self.number(900),
        };
        self.text(bytes)
    }
}

/// One step of a session: what is said, asked of a tool, and answered.
struct Step {
    number: usize,
    prompt: Option<String>,
    thought: String,
    said: String,
    command: String,
    output: String,
}

/// So many steps that what `write` makes of them has the size wanted.
fn steps(mut write: impl FnMut(Step) -> usize) {
    let mut words = Words(7);
    let mut size = 0;
    for number in 0.. {
        let prompt = number % 8 == 0;
        let step = Step {
            number,
            prompt: prompt.then(|| words.text(300)),
            thought: words.text(400),
            said: words.text(200),
            command: words.text(80),
            output: words.output(),
        };
        size += write(step);
        if size > SIZE {
            return;
        }
    }
}

fn written(format: Format) -> Vec<u8> {
    let mut records: Vec<String> = Vec::new();
    steps(|step| {
        let before = records.len();
        let values = match format {
            Format::ClaudeCode => claude_code(&step),
            Format::Codex => codex(&step),
            Format::Pi => pi(&step),
            Format::OpencodeExport | Format::OpencodeMessages => opencode(&step),
            Format::AnthropicMessages => anthropic(&step),
            _ => openai(&step),
        };
        records.extend(values.iter().map(Value::to_string));
        records[before..].iter().map(String::len).sum()
    });
    let list = || records.join(",");
    match format {
        Format::OpencodeExport => format!("{{\"info\":{{\"id\":\"s\"}},\"messages\":[{}]}}", list()),
        Format::OpencodeMessages => format!("[{}]", list()),
        Format::SweAgent => format!("{{\"environment\":\"e\",\"history\":[{}],\"trajectory\":[]}}", list()),
        Format::AnthropicMessages => {
            format!("{{\"model\":\"claude-x\",\"system\":\"Be brief.\",\"messages\":[{}]}}", list())
        }
        Format::OpenaiChat => format!("{{\"model\":\"gpt-x\",\"messages\":[{}]}}", list()),
        _ => records.join("\n") + "\n",
    }
    .into_bytes()
}

const TIME: &str = "2026-01-01T00:00:00.000Z";

fn claude_code(step: &Step) -> Vec<Value> {
    let n = step.number;
    let record = |kind: &str, name: &str, parent: Option<String>, message: Value| {
        json!({ "parentUuid": parent, "isSidechain": false, "userType": "external", "cwd": "/home/user/project",
            "sessionId": "5f0c6f1e-0000-4000-8000-000000000000", "version": "2.1.0", "gitBranch": "main",
            "type": kind, "message": message, "uuid": format!("{name}-{n:08}-4000-8000-000000000000"),
            "timestamp": TIME })
    };
    let name = |name: &str, n: usize| format!("{name}-{n:08}-4000-8000-000000000000");
    let mut parent = n.checked_sub(1).map(|before| name("tool", before));
    let mut records = Vec::new();
    if let Some(prompt) = &step.prompt {
        records.push(record("user", "user", parent, json!({ "role": "user", "content": prompt })));
        parent = Some(name("user", n));
    }
    let usage = json!({ "input_tokens": 4, "cache_creation_input_tokens": 800, "cache_read_input_tokens": 40_000,
        "output_tokens": 120, "service_tier": "standard" });
    let blocks = [
        json!({ "type": "thinking", "thinking": step.thought, "signature": "c2lnbmF0dXJl" }),
        json!({ "type": "text", "text": step.said }),
        json!({ "type": "tool_use", "id": format!("toolu_{n}"), "name": "Bash", "input": { "command": step.command } }),
    ];
    for (at, block) in blocks.into_iter().enumerate() {
        let message = json!({ "id": format!("msg_{n}"), "type": "message", "role": "assistant", "model": "claude-x",
            "content": [block], "stop_reason": null, "stop_sequence": null, "usage": usage });
        let piece = format!("piece{at}");
        records.push(record("assistant", &piece, parent, message));
        parent = Some(name(&piece, n));
    }
    let content =
        json!([{ "tool_use_id": format!("toolu_{n}"), "type": "tool_result", "content": step.output }]);
    let mut result = record("user", "tool", parent, json!({ "role": "user", "content": content }));
    result["toolUseResult"] =
        json!({ "stdout": step.output, "stderr": "", "interrupted": false, "isImage": false });
    records.push(result);
    records
}

fn codex(step: &Step) -> Vec<Value> {
    let n = step.number;
    let record = |kind: &str, payload: Value| json!({ "timestamp": TIME, "type": kind, "payload": payload });
    let mut records = Vec::new();
    if n == 0 {
        records.push(record("session_meta", json!({ "id": "s", "cwd": "/w", "cli_version": "0.1" })));
    }
    if let Some(prompt) = &step.prompt {
        let content = json!([{ "type": "input_text", "text": prompt }]);
        records
            .push(record("response_item", json!({ "type": "message", "role": "user", "content": content })));
        records.push(record("event_msg", json!({ "type": "user_message", "message": prompt })));
    }
    let summary = json!([{ "type": "summary_text", "text": step.thought }]);
    records.push(record(
        "response_item",
        json!({ "type": "reasoning", "id": format!("rs_{n}"), "summary": summary }),
    ));
    records.push(record("event_msg", json!({ "type": "agent_reasoning", "text": step.thought })));
    let content = json!([{ "type": "output_text", "text": step.said }]);
    records
        .push(record("response_item", json!({ "type": "message", "role": "assistant", "content": content })));
    records.push(record("event_msg", json!({ "type": "agent_message", "message": step.said })));
    let (call, arguments) =
        (format!("call_{n}"), json!({ "command": ["bash", "-lc", step.command] }).to_string());
    let made = json!({ "type": "function_call", "name": "shell", "arguments": arguments, "call_id": call });
    records.push(record("response_item", made));
    let output = json!({ "type": "function_call_output", "call_id": call, "output": step.output });
    records.push(record("response_item", output));
    let usage = json!({ "input_tokens": 40_000, "cached_input_tokens": 39_000, "output_tokens": 200,
        "reasoning_output_tokens": 90, "total_tokens": 40_200 + n });
    let info =
        json!({ "total_token_usage": usage, "last_token_usage": usage, "model_context_window": 272_000 });
    records.push(record("event_msg", json!({ "type": "token_count", "info": info, "rate_limits": {} })));
    records
}

fn pi(step: &Step) -> Vec<Value> {
    let n = step.number;
    let mut records = Vec::new();
    if n == 0 {
        records.push(json!({ "type": "session", "version": 3, "id": "s", "timestamp": TIME, "cwd": "/w" }));
    }
    let mut parent = n.checked_sub(1).map(|before| format!("r{before:07}"));
    let mut add = |name: String, message: Value| {
        records.push(json!({ "type": "message", "id": name, "parentId": parent, "timestamp": TIME, "message": message }));
        parent = Some(name);
    };
    if let Some(prompt) = &step.prompt {
        let content = json!([{ "type": "text", "text": prompt }]);
        add(
            format!("u{n:07}"),
            json!({ "role": "user", "content": content, "timestamp": 1_767_225_600_000u64 }),
        );
    }
    let call = format!("toolu_{n}");
    let content = json!([
        { "type": "thinking", "thinking": step.thought, "thinkingSignature": "c2lnbmF0dXJl" },
        { "type": "text", "text": step.said },
        { "type": "toolCall", "id": call, "name": "bash", "arguments": { "command": step.command } },
    ]);
    let cost =
        json!({ "input": 0.001, "output": 0.002, "cacheRead": 0.01, "cacheWrite": 0.0, "total": 0.013 });
    let usage = json!({ "input": 4, "output": 120, "cacheRead": 40_000, "cacheWrite": 800, "totalTokens": 40_924, "cost": cost });
    add(
        format!("a{n:07}"),
        json!({ "role": "assistant", "content": content, "api": "anthropic-messages", "provider": "anthropic",
            "model": "claude-x", "usage": usage, "stopReason": "toolUse", "timestamp": 1_767_225_600_000u64 }),
    );
    let content = json!([{ "type": "text", "text": step.output }]);
    add(
        format!("r{n:07}"),
        json!({ "role": "toolResult", "toolCallId": call, "toolName": "bash", "content": content, "isError": false,
            "timestamp": 1_767_225_600_000u64 }),
    );
    records
}

fn opencode(step: &Step) -> Vec<Value> {
    let n = step.number;
    let mut messages = Vec::new();
    let part = |message: &str, at: usize, mut part: Value| {
        part["id"] = json!(format!("prt_{n:08}{at}"));
        (part["sessionID"], part["messageID"]) = (json!("ses_1"), json!(message));
        part
    };
    if let Some(prompt) = &step.prompt {
        let id = format!("msg_{n:08}0");
        let info = json!({ "id": id, "sessionID": "ses_1", "role": "user", "time": { "created": 1_767_225_600_000u64 },
            "agent": "build", "model": { "providerID": "p", "modelID": "m" } });
        messages.push(
            json!({ "info": info, "parts": [part(&id, 0, json!({ "type": "text", "text": prompt }))] }),
        );
    }
    let id = format!("msg_{n:08}1");
    let time = json!({ "created": 1_767_225_600_000u64, "completed": 1_767_225_601_000u64 });
    let tokens = json!({ "total": 40_924, "input": 4, "output": 120, "reasoning": 0, "cache": { "read": 40_000, "write": 800 } });
    let info = json!({ "id": id, "sessionID": "ses_1", "role": "assistant", "time": time, "parentID": "msg_1",
        "modelID": "m", "providerID": "p", "mode": "build", "agent": "build", "path": { "cwd": "/w", "root": "/w" },
        "cost": 0.01, "tokens": tokens, "finish": "tool-calls" });
    let shown: String = step.output.chars().take(2_000).collect();
    let state = json!({ "status": "completed", "input": { "command": step.command, "description": "Runs it" },
        "output": step.output, "title": "Runs it", "metadata": { "output": shown, "exit": 0, "truncated": false },
        "time": { "start": 1_767_225_600_000u64, "end": 1_767_225_601_000u64 } });
    let parts = json!([
        part(&id, 1, json!({ "type": "step-start", "snapshot": "802899285e37c507154f43c11e8f6d602d05eef6" })),
        part(&id, 2, json!({ "type": "reasoning", "text": step.thought, "time": time })),
        part(&id, 3, json!({ "type": "text", "text": step.said, "time": time })),
        part(
            &id,
            4,
            json!({ "type": "tool", "tool": "bash", "callID": format!("call_{n}"), "state": state })
        ),
        part(
            &id,
            5,
            json!({ "type": "step-finish", "reason": "tool-calls", "cost": 0.01, "tokens": tokens })
        ),
    ]);
    messages.push(json!({ "info": info, "parts": parts }));
    messages
}

fn openai(step: &Step) -> Vec<Value> {
    let mut messages = Vec::new();
    if step.number == 0 {
        messages.push(json!({ "role": "system", "content": "Be brief." }));
    }
    if let Some(prompt) = &step.prompt {
        messages.push(json!({ "role": "user", "content": prompt }));
    }
    let id = format!("call_{}", step.number);
    let function = json!({ "name": "bash", "arguments": json!({ "command": step.command }).to_string() });
    messages.push(json!({ "role": "assistant", "content": step.said, "reasoning_content": step.thought,
        "tool_calls": [{ "id": id, "type": "function", "function": function }] }));
    messages.push(json!({ "role": "tool", "tool_call_id": id, "content": step.output }));
    messages
}

fn anthropic(step: &Step) -> Vec<Value> {
    let mut messages = Vec::new();
    if let Some(prompt) = &step.prompt {
        messages.push(json!({ "role": "user", "content": [{ "type": "text", "text": prompt }] }));
    }
    let id = format!("toolu_{}", step.number);
    messages.push(json!({ "role": "assistant", "content": [
        { "type": "thinking", "thinking": step.thought, "signature": "c2lnbmF0dXJl" },
        { "type": "text", "text": step.said },
        { "type": "tool_use", "id": id, "name": "bash", "input": { "command": step.command } },
    ] }));
    let result = json!({ "type": "tool_result", "tool_use_id": id, "content": [{ "type": "text", "text": step.output }] });
    messages.push(json!({ "role": "user", "content": [result] }));
    messages
}

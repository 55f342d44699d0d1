//! Sessions of each format, as its tool would have written them.

#[path = "more.rs"]
mod more;

use plimsoll_formats::Format;
use serde_json::{Value, json};

use crate::steps::{Step, steps};

pub(crate) fn written(format: Format) -> Vec<u8> {
    let mut records: Vec<String> = Vec::new();
    steps(|step| {
        let before = records.len();
        let values = match format {
            Format::ClaudeCode => claude_code(&step),
            Format::Codex => codex(&step),
            Format::Pi => pi(&step),
            Format::OpencodeExport | Format::OpencodeMessages => opencode(&step),
            Format::AnthropicMessages => anthropic(&step),
            Format::GeminiCli => more::gemini(&step),
            Format::Goose => more::goose(&step),
            Format::Cline => more::cline(&step),
            Format::Openhands => more::openhands(&step),
            Format::Kimi => more::kimi(&step),
            Format::ManagedAgents => more::managed_agents(&step),
            Format::Trae => more::trae(&step),
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
        Format::Cline => format!("{{\"version\":1,\"agent\":\"lead\",\"sessionId\":\"s1\",\"messages\":[{}]}}", list()),
        Format::Trae => format!(
            "{{\"task\":\"Mend it\",\"start_time\":\"2026-01-01T00:00:00.000000\",\"provider\":\"anthropic\",\"model\":\"claude-x\",\
            \"max_steps\":9,\"llm_interactions\":[{}],\"agent_steps\":[]}}",
            list()
        ),
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

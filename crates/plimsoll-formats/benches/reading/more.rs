//! Records of the formats that read several layouts.

use serde_json::{Value, json};

use crate::steps::Step;

const TIME: &str = "2026-01-01T00:00:00Z";

pub(crate) fn gemini(step: &Step) -> Vec<Value> {
    let n = step.number;
    let mut records = Vec::new();
    if n == 0 {
        records.push(
            json!({ "sessionId": "g1", "projectHash": "h", "startTime": TIME, "lastUpdated": TIME, "kind": "main" }),
        );
    }
    if let Some(prompt) = &step.prompt {
        records.push(json!({ "id": format!("u{n}"), "timestamp": TIME, "type": "user", "content": prompt }));
    }
    let call = format!("c{n}");
    let response =
        json!({ "functionResponse": { "id": call, "name": "sh", "response": { "output": step.output } } });
    let tool = json!({ "id": call, "name": "sh", "args": { "command": step.command }, "result": [response],
        "status": "success", "timestamp": TIME });
    records.push(json!({ "id": format!("a{n}"), "timestamp": TIME, "type": "gemini", "content": step.said,
        "thoughts": [{ "subject": "Plan", "description": step.thought, "timestamp": TIME }],
        "tokens": { "input": 90, "output": 7, "cached": 40, "thoughts": 3, "tool": 0, "total": 100 },
        "model": "gemini-x", "toolCalls": [tool] }));
    records
}

pub(crate) fn goose(step: &Step) -> Vec<Value> {
    let n = step.number;
    let message = |name: &str, role: &str, content: Value| {
        json!({ "id": format!("{name}{n}"), "role": role, "created": 1_767_225_600 + n, "content": content,
            "metadata": { "userVisible": true, "agentVisible": true } })
    };
    let mut records = Vec::new();
    if n == 0 {
        records.push(
            json!({ "id": "20260101_1", "working_dir": "/w", "description": "Files", "message_count": 6,
            "total_tokens": 12, "created_at": TIME, "updated_at": TIME }),
        );
    }
    if let Some(prompt) = &step.prompt {
        records.push(message("u", "user", json!([{ "type": "text", "text": prompt }])));
    }
    let call =
        json!({ "status": "success", "value": { "name": "sh", "arguments": { "command": step.command } } });
    let said = json!([
        { "type": "thinking", "thinking": step.thought, "signature": "S" },
        { "type": "text", "text": step.said },
        { "type": "toolRequest", "id": format!("c{n}"), "toolCall": call },
    ]);
    records.push(message("a", "assistant", said));
    let content = json!([{ "type": "text", "text": step.output }]);
    let result = json!({ "status": "success", "value": { "content": content, "isError": false } });
    records.push(message(
        "r",
        "user",
        json!([{ "type": "toolResponse", "id": format!("c{n}"), "toolResult": result }]),
    ));
    records
}

pub(crate) fn cline(step: &Step) -> Vec<Value> {
    let n = step.number;
    let at = 1_767_225_600_000u64;
    let mut messages = Vec::new();
    if let Some(prompt) = &step.prompt {
        let content = json!([{ "type": "text", "text": prompt }]);
        messages.push(json!({ "id": format!("u{n}"), "role": "user", "content": content, "ts": at }));
    }
    let call = format!("c{n}");
    let content = json!([
        { "type": "thinking", "thinking": step.thought, "signature": "S" },
        { "type": "text", "text": step.said },
        { "type": "tool_use", "id": call, "name": "sh", "input": { "command": step.command } },
    ]);
    let metrics = json!({ "inputTokens": 100, "outputTokens": 7, "cacheReadTokens": 60, "cacheWriteTokens": 10, "cost": 0.5 });
    messages.push(json!({ "id": format!("a{n}"), "role": "assistant", "content": content, "ts": at,
        "modelInfo": { "id": "claude-x", "provider": "cline" }, "metrics": metrics }));
    let result = json!({ "type": "tool_result", "tool_use_id": call, "name": "sh",
        "content": [{ "type": "text", "text": step.output }], "is_error": false });
    messages.push(json!({ "id": format!("r{n}"), "role": "user", "content": [result], "ts": at }));
    messages
}

pub(crate) fn openhands(step: &Step) -> Vec<Value> {
    let n = step.number;
    let time = "2026-01-01T00:00:00.000000";
    let mut events = Vec::new();
    if n == 0 {
        events.push(json!({ "id": 0, "timestamp": time, "source": "agent", "action": "system",
            "args": { "content": "Be brief", "openhands_version": "0.50" } }));
    }
    if let Some(prompt) = &step.prompt {
        events.push(json!({ "id": 3 * n + 1, "timestamp": time, "source": "user", "action": "message",
            "args": { "content": prompt, "image_urls": [] } }));
    }
    let (call, arguments) = (format!("c{n}"), json!({ "command": step.command }).to_string());
    let function = json!({ "name": "execute_bash", "arguments": arguments });
    let response = json!({ "id": format!("r{n}"), "model": "m",
        "choices": [{ "message": { "tool_calls": [{ "id": call, "function": function }] } }],
        "usage": { "prompt_tokens": 50, "completion_tokens": 5, "prompt_tokens_details": { "cached_tokens": 20 } } });
    let metadata = json!({ "function_name": "execute_bash", "tool_call_id": call });
    let mut of_call = metadata.clone();
    of_call["model_response"] = response;
    events.push(json!({ "id": 3 * n + 2, "timestamp": time, "source": "agent", "action": "run",
        "args": { "command": step.command, "thought": step.said }, "tool_call_metadata": of_call }));
    events.push(json!({ "id": 3 * n + 3, "timestamp": time, "source": "agent", "observation": "run",
        "cause": 3 * n + 2, "content": step.output, "extras": { "metadata": { "prefix": "", "suffix": "" } },
        "tool_call_metadata": metadata }));
    events
}

pub(crate) fn kimi(step: &Step) -> Vec<Value> {
    let n = step.number;
    let record = |kind: &str, payload: Value| json!({ "timestamp": 1_767_225_600.5, "message": { "type": kind, "payload": payload } });
    let mut records = Vec::new();
    if n == 0 {
        records.push(json!({ "type": "metadata", "protocol_version": "1.4" }));
    }
    if let Some(prompt) = &step.prompt {
        let input = json!([{ "type": "text", "text": prompt }]);
        records.push(record("TurnBegin", json!({ "user_input": input })));
    }
    let call = format!("c{n}");
    let arguments = json!({ "command": step.command }).to_string();
    let usage = json!({ "input_other": 10, "output": 5, "input_cache_read": 20, "input_cache_creation": 3 });
    records.extend([
        record("StepBegin", json!({ "n": 1 })),
        record("ContentPart", json!({ "type": "think", "think": step.thought, "encrypted": null })),
        record("ContentPart", json!({ "type": "text", "text": step.said })),
        record(
            "ToolCall",
            json!({ "type": "function", "id": call, "function": { "name": "sh", "arguments": arguments } }),
        ),
        record("StatusUpdate", json!({ "max_context_tokens": 262_144, "token_usage": usage })),
        record(
            "ToolResult",
            json!({ "tool_call_id": call, "return_value": { "is_error": false, "output": step.output, "message": "" } }),
        ),
    ]);
    records
}

pub(crate) fn managed_agents(step: &Step) -> Vec<Value> {
    let n = step.number;
    let event = |place: usize, kind: &str, mut fields: Value| {
        fields["id"] = json!(format!("sevt_{}", 8 * n + place));
        (fields["type"], fields["processed_at"]) = (json!(kind), json!(TIME));
        fields
    };
    let text = |text: &str| json!([{ "type": "text", "text": text }]);
    let mut events = Vec::new();
    if let Some(prompt) = &step.prompt {
        events.push(event(0, "user.message", json!({ "content": text(prompt) })));
    }
    let usage = json!({ "input_tokens": 2, "output_tokens": 5, "cache_read_input_tokens": 20,
        "cache_creation_input_tokens": 3 });
    events.extend([
        event(1, "span.model_request_start", json!({})),
        event(2, "agent.message", json!({ "content": text(&step.said) })),
        event(3, "agent.tool_use", json!({ "name": "sh", "input": { "command": step.command } })),
        event(
            4,
            "span.model_request_end",
            json!({ "model_request_start_id": format!("sevt_{}", 8 * n + 1), "is_error": false, "model_usage": usage }),
        ),
        event(
            5,
            "agent.tool_result",
            json!({ "tool_use_id": format!("sevt_{}", 8 * n + 3), "content": text(&step.output), "is_error": false }),
        ),
    ]);
    events
}

/// Returns an interaction, with its new messages.
pub(crate) fn trae(step: &Step) -> Vec<Value> {
    let n = step.number;
    let time = "2026-01-01T00:00:00.000000";
    let mut input = Vec::new();
    if n == 0 {
        input.push(json!({ "role": "system", "content": "Be brief" }));
    }
    if let Some(before) = n.checked_sub(1) {
        let result =
            json!({ "call_id": format!("c{before}"), "success": true, "result": step.output, "error": null });
        input.push(json!({ "role": "user", "content": null, "tool_result": result }));
    }
    if let Some(prompt) = &step.prompt {
        input.push(json!({ "role": "user", "content": prompt }));
    }
    let usage = json!({ "input_tokens": 10, "output_tokens": 5, "cache_creation_input_tokens": 3,
        "cache_read_input_tokens": 20, "reasoning_tokens": 2 });
    let call = json!({ "call_id": format!("c{n}"), "name": "bash", "arguments": { "command": step.command }, "id": null });
    let response = json!({ "content": step.said, "model": "claude-x", "finish_reason": "tool_use", "usage": usage,
        "tool_calls": [call] });
    vec![json!({ "timestamp": time, "provider": "anthropic", "model": "claude-x", "input_messages": input,
        "response": response })]
}

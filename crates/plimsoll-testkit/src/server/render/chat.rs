//! Answers of Chat Completions.

use plimsoll_providers::Extra;
use plimsoll_providers::chat::wire::{
    Choice, Chunk, Content, Delta, FunctionDelta, InputDetails, OutputDetails, ToolCallDelta, Usage,
};
use serde_json::{Value, json};

use super::{CREATED, Counts, Envelope, WireEvent, extra};
use crate::server::reply::{Finish, Reply, ReplyPart, pieces};

pub(super) fn stream(reply: &Reply, envelope: &Envelope) -> Vec<WireEvent> {
    let begin = Delta {
        role: Some("assistant".into()),
        content: Some(Content::Text(String::new())),
        ..Delta::default()
    };
    let mut chunks = vec![chunk(envelope, begin, None)];
    let mut calls = 0;
    for part in &reply.parts {
        let deltas = deltas(part, calls, reply.piece_size);
        calls += u64::from(matches!(part, ReplyPart::Call { .. }));
        chunks.extend(deltas.into_iter().map(|delta| chunk(envelope, delta, None)));
    }
    chunks.push(chunk(envelope, Delta::default(), Some(finish_reason(reply))));
    if let Some(counts) = envelope.counts.filter(|_| envelope.usage_chunk) {
        let mut last = chunk(envelope, Delta::default(), None);
        last.choices.clear();
        last.usage = Some(usage(&counts));
        chunks.push(last);
    }
    let mut events: Vec<WireEvent> = chunks.iter().map(|chunk| WireEvent::unnamed(&json!(chunk))).collect();
    events.push(WireEvent { name: None, data: "[DONE]".into() });
    events
}

pub(super) fn whole(reply: &Reply, envelope: &Envelope) -> Value {
    let (mut text, mut thoughts, mut calls) = (String::new(), String::new(), Vec::new());
    for part in &reply.parts {
        match part {
            ReplyPart::Text(more) => text.push_str(more),
            ReplyPart::Thinking(more) => thoughts.push_str(more),
            ReplyPart::Call { id, tool, arguments } => calls.push(
                json!({ "id": id, "type": "function", "function": { "name": tool, "arguments": arguments } }),
            ),
            ReplyPart::HiddenThinking | ReplyPart::Block(_) => {}
        }
    }
    let content = if text.is_empty() { Value::Null } else { text.into() };
    let mut message = json!({ "role": "assistant", "content": content, "refusal": null });
    if !thoughts.is_empty() {
        message["reasoning_content"] = thoughts.into();
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    let mut body = json!({
        "id": id(envelope),
        "object": "chat.completion",
        "created": CREATED,
        "model": envelope.model,
        "choices": [{
            "index": 0, "message": message, "logprobs": null, "finish_reason": finish_reason(reply),
        }],
    });
    if let Some(counts) = &envelope.counts {
        body["usage"] = json!(usage(counts));
    }
    body
}

fn id(envelope: &Envelope) -> String {
    format!("chatcmpl-{:06}", envelope.number)
}

fn chunk(envelope: &Envelope, delta: Delta, finish_reason: Option<String>) -> Chunk {
    Chunk {
        id: Some(id(envelope)),
        model: Some(envelope.model.clone()),
        choices: vec![Choice { index: 0, delta, finish_reason, extra: extra(json!({ "logprobs": null })) }],
        usage: None,
        error: None,
        extra: extra(json!({ "object": "chat.completion.chunk", "created": CREATED })),
    }
}

fn deltas(part: &ReplyPart, index: u64, size: usize) -> Vec<Delta> {
    match part {
        ReplyPart::Thinking(thought) => {
            let delta = |piece| Delta { reasoning_content: Some(piece), ..Delta::default() };
            pieces(thought, size).into_iter().map(delta).collect()
        }
        ReplyPart::Text(text) => {
            let delta = |piece| Delta { content: Some(Content::Text(piece)), ..Delta::default() };
            pieces(text, size).into_iter().map(delta).collect()
        }
        ReplyPart::Call { id, tool, arguments } => {
            let begin = ToolCallDelta {
                index: Some(index),
                id: Some(id.clone()),
                function: FunctionDelta { name: Some(tool.clone()), arguments: Some(String::new()) },
                extra: extra(json!({ "type": "function" })),
            };
            let more = pieces(arguments, size).into_iter().map(|piece| ToolCallDelta {
                index: Some(index),
                id: None,
                function: FunctionDelta { name: None, arguments: Some(piece) },
                extra: Extra::new(),
            });
            let delta = |call| Delta { tool_calls: Some(vec![call]), ..Delta::default() };
            std::iter::once(begin).chain(more).map(delta).collect()
        }
        ReplyPart::HiddenThinking | ReplyPart::Block(_) => Vec::new(),
    }
}

fn finish_reason(reply: &Reply) -> String {
    match reply.finish_reason() {
        Finish::Stop => "stop".into(),
        Finish::Calls => "tool_calls".into(),
        Finish::Length => "length".into(),
        Finish::Filter => "content_filter".into(),
        Finish::Other(reason) => reason,
    }
}

fn usage(counts: &Counts) -> Usage {
    Usage {
        prompt_tokens: Some(counts.all_input()),
        completion_tokens: Some(counts.all_output()),
        total_tokens: Some(counts.all_input().saturating_add(counts.all_output())),
        prompt_tokens_details: Some(input_details(counts)),
        completion_tokens_details: Some(output_details(counts)),
        extra: Extra::new(),
    }
}

pub(super) fn input_details(counts: &Counts) -> InputDetails {
    InputDetails {
        cached_tokens: Some(counts.read),
        cache_write_tokens: Some(counts.write),
        extra: Extra::new(),
    }
}

pub(super) fn output_details(counts: &Counts) -> OutputDetails {
    OutputDetails { reasoning_tokens: Some(counts.reasoning), extra: Extra::new() }
}

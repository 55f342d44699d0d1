//! Answers of the Messages API.

use plimsoll_providers::Extra;
use plimsoll_providers::Wire;
use plimsoll_providers::anthropic::wire::{
    CacheCreation, ContentBlock, Delta, Event, MessageDelta, MessageStart, Usage,
};
use serde_json::{Value, json};

use super::{Counts, Envelope, WireEvent, extra, input};
use crate::server::reply::{Finish, Reply, ReplyPart, pieces};

pub(super) fn stream(reply: &Reply, envelope: &Envelope) -> Vec<WireEvent> {
    let mut events = vec![Event::MessageStart { message: start(envelope) }, Event::Ping {}];
    for (index, part) in (0..).zip(&reply.parts) {
        let block = block(part, envelope);
        let (empty, deltas) = take_apart(part, block, reply.piece_size);
        events.push(Event::ContentBlockStart { index, content_block: empty });
        events.extend(deltas.into_iter().map(|delta| Event::ContentBlockDelta { index, delta }));
        events.push(Event::ContentBlockStop { index });
    }
    let stop = extra(json!({ "stop_sequence": null }));
    events.push(Event::MessageDelta {
        delta: MessageDelta { stop_reason: Some(stop_reason(reply)), extra: stop },
        // Official clients require the field even if nothing was counted.
        usage: Some(
            envelope.counts.map_or_else(Usage::default, |counts| usage(&counts, counts.all_output())),
        ),
    });
    events.push(Event::MessageStop {});
    events.iter().map(|event| WireEvent::named(&json!(event))).collect()
}

pub(super) fn whole(reply: &Reply, envelope: &Envelope) -> Value {
    let mut message = json!(start(envelope));
    let blocks: Vec<ContentBlock> = reply.parts.iter().map(|part| block(part, envelope)).collect();
    message["content"] = json!(blocks);
    message["stop_reason"] = stop_reason(reply).into();
    message["usage"] =
        json!(envelope.counts.map_or_else(Usage::default, |counts| usage(&counts, counts.all_output())));
    message
}

fn start(envelope: &Envelope) -> MessageStart {
    MessageStart {
        id: format!("msg_{:06}", envelope.number),
        model: envelope.model.clone(),
        usage: Some(envelope.counts.map_or_else(Usage::default, |counts| usage(&counts, 1))),
        extra: extra(json!({
            "type": "message", "role": "assistant", "content": [], "stop_reason": null, "stop_sequence": null,
        })),
    }
}

fn usage(counts: &Counts, output: u64) -> Usage {
    let (short, long) = if counts.for_an_hour { (0, counts.write) } else { (counts.write, 0) };
    Usage {
        input_tokens: Some(counts.input),
        output_tokens: Some(output),
        cache_creation_input_tokens: Some(counts.write),
        cache_read_input_tokens: Some(counts.read),
        cache_creation: Some(CacheCreation {
            ephemeral_5m_input_tokens: short,
            ephemeral_1h_input_tokens: long,
        }),
        extra: Extra::new(),
    }
}

fn stop_reason(reply: &Reply) -> String {
    match reply.finish_reason() {
        Finish::Stop => "end_turn".into(),
        Finish::Calls => "tool_use".into(),
        Finish::Length => "max_tokens".into(),
        Finish::Filter => "refusal".into(),
        Finish::Other(reason) => reason,
    }
}

fn block(part: &ReplyPart, envelope: &Envelope) -> ContentBlock {
    match part {
        ReplyPart::Thinking(thought) => ContentBlock::Thinking {
            thinking: thought.clone(),
            signature: envelope.signer.sign(Wire::Anthropic, thought),
            extra: Extra::new(),
        },
        ReplyPart::HiddenThinking => ContentBlock::RedactedThinking {
            data: envelope.signer.sign(Wire::Anthropic, ""),
            extra: Extra::new(),
        },
        ReplyPart::Text(text) => {
            ContentBlock::Text { text: text.clone(), cache_control: None, extra: Extra::new() }
        }
        ReplyPart::Call { id, tool, arguments } => ContentBlock::ToolUse {
            id: id.clone(),
            name: tool.clone(),
            input: input(arguments),
            cache_control: None,
            extra: Extra::new(),
        },
        ReplyPart::Block(block) => ContentBlock::Other(block.clone()),
    }
}

/// Splits a block into its start and its deltas.
fn take_apart(part: &ReplyPart, mut block: ContentBlock, size: usize) -> (ContentBlock, Vec<Delta>) {
    let mut deltas = Vec::new();
    match &mut block {
        ContentBlock::Thinking { thinking, signature, .. } => {
            let all = pieces(&std::mem::take(thinking), size);
            deltas.extend(all.into_iter().map(|thinking| Delta::ThinkingDelta { thinking }));
            deltas.push(Delta::SignatureDelta { signature: std::mem::take(signature) });
        }
        ContentBlock::Text { text, .. } => {
            let all = pieces(&std::mem::take(text), size);
            deltas.extend(all.into_iter().map(|text| Delta::TextDelta { text }));
        }
        ContentBlock::ToolUse { input, .. } => {
            *input = json!({});
            if let ReplyPart::Call { arguments, .. } = part {
                // The API starts with an empty piece.
                deltas.push(Delta::InputJsonDelta { partial_json: String::new() });
                let all = pieces(arguments, size).into_iter();
                deltas.extend(all.map(|partial_json| Delta::InputJsonDelta { partial_json }));
            }
        }
        _ => {}
    }
    (block, deltas)
}

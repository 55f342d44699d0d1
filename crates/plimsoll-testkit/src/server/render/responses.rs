//! Answers of the Responses API.
//!
//! The events that a decoder needs are typed; those that only repeat what was streamed (`*.done`) and the bookkeeping
//! around them are written as values, because official clients insist on all of them.

use plimsoll_providers::responses::wire::{
    Content, ContentPart, Event, IncompleteDetails, Item, Response, SummaryPart, Usage,
};
use plimsoll_providers::{Extra, Wire};
use serde_json::{Value, json};

use super::chat::{input_details, output_details};
use super::{CREATED, Counts, Envelope, WireEvent, extra};
use crate::server::reply::{Finish, Reply, ReplyPart, pieces};

pub(super) fn stream(reply: &Reply, envelope: &Envelope) -> Vec<WireEvent> {
    let mut writer = Writer { events: Vec::new() };
    let begun = response(reply, envelope, "in_progress");
    writer.push(json!({ "type": "response.created", "response": begun }));
    writer.push(json!({ "type": "response.in_progress", "response": begun }));
    for (index, part) in (0..).zip(&reply.parts) {
        writer.part(index, part, reply.piece_size, envelope);
    }
    let (status, _) = status(reply);
    let response = response(reply, envelope, status);
    let last = match status {
        "incomplete" => Event::Incomplete { response },
        _ => Event::Completed { response },
    };
    writer.push(json!(last));
    writer.events.iter().map(WireEvent::named).collect()
}

pub(super) fn whole(reply: &Reply, envelope: &Envelope) -> Value {
    json!(response(reply, envelope, status(reply).0))
}

struct Writer {
    events: Vec<Value>,
}

impl Writer {
    fn push(&mut self, mut event: Value) {
        event["sequence_number"] = self.events.len().into();
        self.events.push(event);
    }

    /// An event of an item, with the fields that name the item.
    fn push_for(&mut self, event: &Event, item: &str, fields: Value) {
        let mut event = json!(event);
        event["item_id"] = item.into();
        for (key, value) in extra(fields) {
            event[key] = value;
        }
        self.push(event);
    }

    fn part(&mut self, index: u64, part: &ReplyPart, size: usize, envelope: &Envelope) {
        let whole = item(index, part, envelope, true);
        let empty = item(index, part, envelope, false);
        self.push(json!(Event::ItemAdded { output_index: index, item: empty }));
        let id = item_id(index, part, envelope);
        match part {
            ReplyPart::Thinking(thought) => self.summary(index, &id, thought, size),
            ReplyPart::Text(text) => self.text(index, &id, text, size),
            ReplyPart::Call { tool, arguments, .. } => {
                for delta in pieces(arguments, size) {
                    self.push_for(&Event::ArgumentsDelta { output_index: index, delta }, &id, json!({}));
                }
                self.push(json!({
                    "type": "response.function_call_arguments.done",
                    "output_index": index, "item_id": id, "name": tool, "arguments": arguments,
                }));
            }
            ReplyPart::HiddenThinking | ReplyPart::Block(_) => {}
        }
        self.push(json!(Event::ItemDone { output_index: index, item: whole }));
    }

    fn summary(&mut self, index: u64, id: &str, thought: &str, size: usize) {
        let place = json!({ "output_index": index, "item_id": id, "summary_index": 0 });
        let with = |fields: Value| {
            let mut event = place.clone();
            extra(fields).into_iter().for_each(|(key, value)| event[key] = value);
            event
        };
        let part = |text: &str| json!({ "type": "summary_text", "text": text });
        self.push(with(json!({ "type": "response.reasoning_summary_part.added", "part": part("") })));
        for delta in pieces(thought, size) {
            let event = Event::SummaryDelta { output_index: index, summary_index: 0, delta };
            self.push_for(&event, id, json!({}));
        }
        self.push(with(json!({ "type": "response.reasoning_summary_text.done", "text": thought })));
        self.push(with(json!({ "type": "response.reasoning_summary_part.done", "part": part(thought) })));
    }

    fn text(&mut self, index: u64, id: &str, text: &str, size: usize) {
        let place = json!({ "output_index": index, "item_id": id, "content_index": 0 });
        let with = |fields: Value| {
            let mut event = place.clone();
            extra(fields).into_iter().for_each(|(key, value)| event[key] = value);
            event
        };
        self.push(with(json!({ "type": "response.content_part.added", "part": output_text("") })));
        for delta in pieces(text, size) {
            let event = Event::TextDelta { output_index: index, delta };
            self.push_for(&event, id, json!({ "content_index": 0, "logprobs": [] }));
        }
        self.push(with(json!({ "type": "response.output_text.done", "text": text, "logprobs": [] })));
        self.push(with(json!({ "type": "response.content_part.done", "part": output_text(text) })));
    }
}

fn output_text(text: &str) -> ContentPart {
    let extra = extra(json!({ "annotations": [], "logprobs": [] }));
    ContentPart::OutputText { text: text.to_owned(), extra }
}

fn item_id(index: u64, part: &ReplyPart, envelope: &Envelope) -> String {
    let kind = match part {
        ReplyPart::Thinking(_) | ReplyPart::HiddenThinking => "rs",
        ReplyPart::Call { .. } => "fc",
        ReplyPart::Text(_) | ReplyPart::Block(_) => "msg",
    };
    format!("{kind}_{:06}_{index}", envelope.number)
}

/// An item, complete or as at its start.
fn item(index: u64, part: &ReplyPart, envelope: &Envelope, is_whole: bool) -> Item {
    let id = Some(item_id(index, part, envelope));
    let status = extra(json!({ "status": if is_whole { "completed" } else { "in_progress" } }));
    match part {
        ReplyPart::Thinking(_) | ReplyPart::HiddenThinking => {
            let thought = match part {
                ReplyPart::Thinking(thought) => thought.as_str(),
                _ => "",
            };
            let shown = SummaryPart { kind: "summary_text".into(), text: thought.to_owned() };
            let encrypted = envelope.signer.sign(Wire::Responses, thought);
            Item::Reasoning {
                id,
                summary: if is_whole && !thought.is_empty() { vec![shown] } else { Vec::new() },
                encrypted_content: (is_whole && envelope.encrypted).then_some(encrypted),
                extra: Extra::new(),
            }
        }
        ReplyPart::Text(text) => Item::Message {
            role: "assistant".into(),
            content: Content::Parts(if is_whole { vec![output_text(text)] } else { Vec::new() }),
            id,
            extra: status,
        },
        ReplyPart::Call { id: call, tool, arguments } => Item::FunctionCall {
            call_id: call.clone(),
            name: tool.clone(),
            arguments: if is_whole { arguments.clone() } else { String::new() },
            id,
            extra: status,
        },
        ReplyPart::Block(block) => Item::Other(block.clone()),
    }
}

fn status(reply: &Reply) -> (&'static str, Option<String>) {
    match reply.finish_reason() {
        Finish::Stop | Finish::Calls => ("completed", None),
        Finish::Length => ("incomplete", Some("max_output_tokens".into())),
        Finish::Filter => ("incomplete", Some("content_filter".into())),
        Finish::Other(reason) => ("incomplete", Some(reason)),
    }
}

fn response(reply: &Reply, envelope: &Envelope, status: &str) -> Response {
    let is_whole = status != "in_progress";
    let items = (0..).zip(&reply.parts).map(|(index, part)| item(index, part, envelope, true));
    let output: Vec<Item> = if is_whole { items.collect() } else { Vec::new() };
    let reason = self::status(reply).1.filter(|_| is_whole);
    Response {
        id: format!("resp_{:06}", envelope.number),
        status: Some(status.to_owned()),
        usage: envelope.counts.filter(|_| is_whole).map(|counts| usage(&counts)),
        error: None,
        incomplete_details: reason.map(|reason| IncompleteDetails { reason: Some(reason) }),
        extra: extra(json!({
            "object": "response",
            "created_at": CREATED,
            "model": envelope.model,
            "output": output,
            "instructions": null,
            "metadata": {},
            "parallel_tool_calls": true,
            "temperature": 1.0,
            "tool_choice": "auto",
            "tools": [],
            "top_p": 1.0,
        })),
    }
}

fn usage(counts: &Counts) -> Usage {
    Usage {
        input_tokens: Some(counts.all_input()),
        output_tokens: Some(counts.all_output()),
        total_tokens: Some(counts.all_input().saturating_add(counts.all_output())),
        input_tokens_details: Some(input_details(counts)),
        output_tokens_details: Some(output_details(counts)),
        extra: Extra::new(),
    }
}

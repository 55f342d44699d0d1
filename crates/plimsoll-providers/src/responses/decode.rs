//! Decodes events of the Responses API, item by item.

use std::collections::BTreeMap;

use plimsoll::AnswerEvent;
use serde_json::{Value, json};

use super::wire::{Content, ContentPart, Event, Item, KNOWN_EVENTS, Response};
use crate::decoding::{DecodeContext, DecodeError, check_unknown, parse};
use crate::error::{Failure, ProviderError};
use crate::lanes::{AnswerBytes, Lanes, named, parse_input};

#[derive(Debug)]
pub(crate) struct ResponsesDecoder {
    context: DecodeContext,
    lanes: Lanes,
    open: BTreeMap<u64, OpenItem>,
    /// Number of items so far. If it is zero, the items are read from the closing event.
    items: u64,
}

/// An open item.
#[derive(Debug, Default)]
struct OpenItem {
    kind: Kind,
    /// Whether any of its content was streamed.
    is_written: bool,
    summary: u64,
    input: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Text,
    Thinking,
    Call,
    Other,
}

impl ResponsesDecoder {
    pub(crate) fn new(context: DecodeContext) -> ResponsesDecoder {
        ResponsesDecoder { context, lanes: Lanes::default(), open: BTreeMap::new(), items: 0 }
    }

    pub(crate) fn bytes_so_far(&self) -> AnswerBytes {
        self.lanes.bytes_so_far()
    }

    pub(crate) fn event(&mut self, data: &str, out: &mut Vec<AnswerEvent>) -> Result<(), DecodeError> {
        match parse::<Event>(data)? {
            Event::ItemAdded { output_index, item } => self.begin(output_index, &item, out),
            Event::ItemDone { output_index, item } => {
                // Repeats what was streamed and adds what was not: encrypted reasoning, items of other kinds.
                if !self.open.get(&output_index).is_some_and(|open| open.is_written) {
                    self.lanes.note_kept(data.len());
                }
                self.end(output_index, item, out);
            }
            Event::TextDelta { output_index, delta } | Event::RefusalDelta { output_index, delta } => {
                self.write(output_index, Kind::Text, delta, out)?;
            }
            Event::SummaryDelta { output_index, summary_index, delta } => {
                let open = self.open.entry(output_index).or_insert_with(|| {
                    self.lanes.open(output_index);
                    OpenItem { kind: Kind::Thinking, ..OpenItem::default() }
                });
                // Parts of a summary are paragraphs.
                let apart = open.is_written && open.summary != summary_index;
                open.summary = summary_index;
                let delta = if apart { format!("\n\n{delta}") } else { delta };
                self.write(output_index, Kind::Thinking, delta, out)?;
            }
            Event::ReasoningDelta { output_index, delta } => {
                self.write(output_index, Kind::Thinking, delta, out)?;
            }
            Event::ArgumentsDelta { output_index, delta } => {
                self.write(output_index, Kind::Call, delta, out)?;
            }
            Event::Completed { response } => self.finish("completed", &response, out),
            Event::Incomplete { response } => {
                let details = response.incomplete_details.clone().unwrap_or_default();
                let reason = details.reason.unwrap_or_else(|| "incomplete".into());
                self.finish(&reason, &response, out);
            }
            Event::Failed { response } => {
                let error = response.error.unwrap_or_else(|| json!({ "message": "the answer failed" }));
                return Err(failed(&error));
            }
            Event::Error { error: Some(error), .. } => return Err(failed(&error)),
            Event::Error { code, message, error: None } => {
                return Err(failed(&json!({ "code": code, "message": message })));
            }
            Event::Other(value) => check_unknown(&value, &KNOWN_EVENTS)?,
        }
        Ok(())
    }

    fn begin(&mut self, index: u64, item: &Item, out: &mut Vec<AnswerEvent>) {
        if self.open.contains_key(&index) {
            return;
        }
        self.items += 1;
        self.lanes.open(index);
        let kind = match item {
            Item::Message { .. } => Kind::Text,
            Item::Reasoning { .. } => Kind::Thinking,
            Item::FunctionCall { call_id, name, id, .. } => {
                let call = if call_id.is_empty() { id.clone().unwrap_or_default() } else { call_id.clone() };
                let begin = AnswerEvent::CallBegin { call, tool: self.context.tools.own(name) };
                self.lanes.write(index, begin, out);
                Kind::Call
            }
            Item::FunctionCallOutput { .. } | Item::Other(_) => Kind::Other,
        };
        self.open.insert(index, OpenItem { kind, ..OpenItem::default() });
    }

    fn write(
        &mut self,
        index: u64,
        kind: Kind,
        delta: String,
        out: &mut Vec<AnswerEvent>,
    ) -> Result<(), DecodeError> {
        if !self.open.contains_key(&index) {
            if kind == Kind::Call {
                return Err(DecodeError::Malformed(format!("input of item {index}, which is not open")));
            }
            // Some servers omit the beginning of an item.
            self.lanes.open(index);
            self.items += 1;
        }
        let open = self.open.entry(index).or_insert_with(|| OpenItem { kind, ..OpenItem::default() });
        if open.kind == Kind::Other {
            // The complete item arrives at its end.
            return Ok(());
        }
        if open.kind != kind {
            return Err(DecodeError::Malformed(format!("a delta that does not fit item {index}")));
        }
        if delta.is_empty() {
            return Ok(());
        }
        open.is_written = true;
        let event = match kind {
            Kind::Text | Kind::Other => AnswerEvent::Text(delta),
            Kind::Thinking => AnswerEvent::Thinking(delta),
            Kind::Call => {
                open.input.push_str(&delta);
                AnswerEvent::CallInput(delta)
            }
        };
        self.lanes.write(index, event, out);
        Ok(())
    }

    fn end(&mut self, index: u64, item: Item, out: &mut Vec<AnswerEvent>) {
        self.begin(index, &item, out);
        let open = self.open.remove(&index).unwrap_or_default();
        let mut write = |event| self.lanes.write(index, event, out);
        match item {
            Item::Message { content, .. } => {
                let text: String = match content {
                    Content::Text(text) => text,
                    Content::Parts(parts) => parts.iter().filter_map(words).collect(),
                };
                if !open.is_written && !text.is_empty() {
                    write(AnswerEvent::Text(text));
                }
                write(AnswerEvent::PartEnd);
            }
            Item::Reasoning { id, summary, encrypted_content, .. } => {
                let shown: Vec<String> = summary.into_iter().map(|part| part.text).collect();
                if !open.is_written && !shown.is_empty() {
                    write(AnswerEvent::Thinking(shown.join("\n\n")));
                }
                // Without it the reasoning cannot be sent back, and needs no signature.
                if let Some(encrypted) = encrypted_content {
                    let mut own = json!({ "reasoningEncryptedContent": encrypted });
                    if let Some(id) = id {
                        own["itemId"] = id.into();
                    }
                    write(self.context.sign(own));
                }
                write(AnswerEvent::PartEnd);
            }
            Item::FunctionCall { arguments, .. } => {
                let input = if arguments.is_empty() { open.input } else { arguments };
                write(AnswerEvent::CallReady(parse_input(&input)));
            }
            other @ Item::FunctionCallOutput { .. } => {
                write(AnswerEvent::Block(named(&self.context.provider, &json!(other))));
            }
            Item::Other(value) => write(AnswerEvent::Block(named(&self.context.provider, &value))),
        }
        self.lanes.close(index, out);
    }

    fn finish(&mut self, reason: &str, response: &Response, out: &mut Vec<AnswerEvent>) {
        if self.items == 0 {
            // Some servers stream only the complete answer.
            let items = response.extra.get("output").cloned().unwrap_or_default();
            let items: Vec<Item> = serde_json::from_value(items).unwrap_or_default();
            for (index, item) in items.into_iter().enumerate() {
                self.end(index as u64, item, out);
            }
        }
        let open: Vec<u64> = self.open.keys().copied().collect();
        for index in open {
            let Some(open) = self.open.remove(&index) else { continue };
            let event = match open.kind {
                Kind::Call => AnswerEvent::CallReady(parse_input(&open.input)),
                Kind::Text | Kind::Thinking | Kind::Other => AnswerEvent::PartEnd,
            };
            self.lanes.write(index, event, out);
            self.lanes.close(index, out);
        }
        let usage = response.usage.as_ref().and_then(super::wire::Usage::normalise);
        out.extend(usage.clone().map(AnswerEvent::Usage));
        out.push(AnswerEvent::Finished { reason: reason.to_owned(), usage });
    }
}

fn words(part: &ContentPart) -> Option<&str> {
    match part {
        ContentPart::OutputText { text, .. } | ContentPart::InputText { text } => Some(text),
        ContentPart::Refusal { refusal } => Some(refusal),
        _ => None,
    }
}

fn failed(error: &Value) -> DecodeError {
    DecodeError::Provider(ProviderError::from(Failure::of_value(None, &json!({ "error": error }))))
}

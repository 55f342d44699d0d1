//! Decodes events of the Messages API, block by block.

use std::collections::BTreeMap;

use plimsoll::AnswerEvent;
use serde_json::{Value, json};

use super::wire::{ContentBlock, Delta, Event, KNOWN_EVENTS, Usage};
use crate::decoding::{DecodeContext, DecodeError, check_unknown, parse};
use crate::error::{Failure, ProviderError};
use crate::lanes::{AnswerBytes, Lanes, named, parse_input};

#[derive(Debug)]
pub(crate) struct AnthropicDecoder {
    context: DecodeContext,
    lanes: Lanes,
    open: BTreeMap<u64, OpenBlock>,
    usage: Usage,
    reason: Option<String>,
}

/// An open block.
#[derive(Debug)]
enum OpenBlock {
    Text,
    Thinking { signature: String },
    Call { input: String },
    Other { block: Value, input: String },
}

impl AnthropicDecoder {
    pub(crate) fn new(context: DecodeContext) -> AnthropicDecoder {
        AnthropicDecoder {
            context,
            lanes: Lanes::default(),
            open: BTreeMap::new(),
            usage: Usage::default(),
            reason: None,
        }
    }

    pub(crate) fn bytes_so_far(&self) -> AnswerBytes {
        self.lanes.bytes_so_far()
    }

    pub(crate) fn event(&mut self, data: &str, out: &mut Vec<AnswerEvent>) -> Result<(), DecodeError> {
        match parse::<Event>(data)? {
            Event::MessageStart { message } => {
                self.usage.update(message.usage.unwrap_or_default());
                out.extend(self.usage.normalise().map(AnswerEvent::Usage));
            }
            Event::ContentBlockStart { index, content_block } => {
                // Other kinds of blocks arrive complete. For known kinds this is the beginning of the content, which is
                // small.
                self.lanes.note_kept(data.len());
                self.begin(index, content_block, out);
            }
            Event::ContentBlockDelta { index, delta } => return self.delta(index, delta, out),
            Event::ContentBlockStop { index } => self.stop(index, out),
            Event::MessageDelta { delta, usage } => {
                self.reason = delta.stop_reason.or(self.reason.take());
                if let Some(usage) = usage {
                    self.usage.update(usage);
                    out.extend(self.usage.normalise().map(AnswerEvent::Usage));
                }
            }
            Event::MessageStop {} => {
                let open: Vec<u64> = self.open.keys().copied().collect();
                open.into_iter().for_each(|index| self.stop(index, out));
                let reason = self.reason.take().unwrap_or_else(|| "unknown".into());
                out.push(AnswerEvent::Finished { reason, usage: self.usage.normalise() });
            }
            Event::Ping {} => {}
            Event::Error { error } => {
                let failure = Failure::of_stream(vec![error.kind], error.message);
                return Err(DecodeError::Provider(ProviderError::from(failure)));
            }
            Event::Other(value) => check_unknown(&value, &KNOWN_EVENTS)?,
        }
        Ok(())
    }

    fn begin(&mut self, index: u64, block: ContentBlock, out: &mut Vec<AnswerEvent>) {
        // A server that does not close its blocks begins the next one at the same index or a later one.
        if self.open.contains_key(&index) {
            self.stop(index, out);
        }
        self.lanes.open(index);
        let mut write = |event| self.lanes.write(index, event, out);
        let open = match block {
            ContentBlock::Text { text, .. } => {
                if !text.is_empty() {
                    write(AnswerEvent::Text(text));
                }
                OpenBlock::Text
            }
            ContentBlock::Thinking { thinking, signature, .. } => {
                if !thinking.is_empty() {
                    write(AnswerEvent::Thinking(thinking));
                }
                OpenBlock::Thinking { signature }
            }
            ContentBlock::RedactedThinking { data, .. } => {
                write(self.context.sign(json!({ "redactedData": data })));
                OpenBlock::Thinking { signature: String::new() }
            }
            ContentBlock::ToolUse { id, name, input, .. } => {
                write(AnswerEvent::CallBegin { call: id, tool: self.context.tools.own(&name) });
                // Empty here and streamed later; servers that do not stream inputs send the input complete.
                let whole = input.as_object().is_some_and(|input| !input.is_empty());
                let input = if whole { input.to_string() } else { String::new() };
                if whole {
                    write(AnswerEvent::CallInput(input.clone()));
                }
                OpenBlock::Call { input }
            }
            ContentBlock::Other(block) => OpenBlock::Other { block, input: String::new() },
            known => OpenBlock::Other { block: json!(known), input: String::new() },
        };
        self.open.insert(index, open);
    }

    fn delta(&mut self, index: u64, delta: Delta, out: &mut Vec<AnswerEvent>) -> Result<(), DecodeError> {
        let Some(open) = self.open.get_mut(&index) else {
            return Err(DecodeError::Malformed(format!("a delta of block {index}, which is not open")));
        };
        match (open, delta) {
            (OpenBlock::Text, Delta::TextDelta { text }) => {
                self.lanes.write(index, AnswerEvent::Text(text), out);
            }
            (OpenBlock::Thinking { .. }, Delta::ThinkingDelta { thinking }) => {
                self.lanes.write(index, AnswerEvent::Thinking(thinking), out);
            }
            (OpenBlock::Thinking { signature }, Delta::SignatureDelta { signature: more }) => {
                self.lanes.note_kept(more.len());
                signature.push_str(&more);
            }
            (OpenBlock::Call { input }, Delta::InputJsonDelta { partial_json }) => {
                input.push_str(&partial_json);
                if !partial_json.is_empty() {
                    self.lanes.write(index, AnswerEvent::CallInput(partial_json), out);
                }
            }
            (OpenBlock::Other { input, .. }, Delta::InputJsonDelta { partial_json }) => {
                self.lanes.note_kept(partial_json.len());
                input.push_str(&partial_json);
            }
            (OpenBlock::Other { block, .. }, delta) => {
                let delta = json!(delta);
                self.lanes.note_kept(delta.to_string().len());
                merge(block, &delta);
            }
            // The log has no field for citations and other additions to known blocks.
            (_, Delta::Other(_)) => {}
            _ => return Err(DecodeError::Malformed(format!("a delta that does not fit block {index}"))),
        }
        Ok(())
    }

    fn stop(&mut self, index: u64, out: &mut Vec<AnswerEvent>) {
        let Some(open) = self.open.remove(&index) else { return };
        let provider = &self.context.provider;
        let mut write = |event| self.lanes.write(index, event, out);
        match open {
            OpenBlock::Text => write(AnswerEvent::PartEnd),
            OpenBlock::Thinking { signature } => {
                if !signature.is_empty() {
                    write(self.context.sign(json!({ "signature": signature })));
                }
                write(AnswerEvent::PartEnd);
            }
            OpenBlock::Call { input } => write(AnswerEvent::CallReady(parse_input(&input))),
            OpenBlock::Other { mut block, input } => {
                if !input.is_empty() {
                    block["input"] = parse_input(&input);
                }
                write(AnswerEvent::Block(named(provider, &block)));
            }
        }
        self.lanes.close(index, out);
    }
}

/// Merges a delta of an unknown kind into its block: strings are appended, everything else is replaced.
fn merge(block: &mut Value, delta: &Value) {
    let (Some(block), Some(delta)) = (block.as_object_mut(), delta.as_object()) else { return };
    for (key, more) in delta.iter().filter(|(key, _)| *key != "type") {
        match (block.get_mut(key), more) {
            (Some(Value::String(text)), Value::String(more)) => text.push_str(more),
            _ => {
                block.insert(key.clone(), more.clone());
            }
        }
    }
}

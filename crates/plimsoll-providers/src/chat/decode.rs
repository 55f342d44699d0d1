//! Decodes chunks of Chat Completions, block by block.
//!
//! The format has no blocks: a change from one field to another begins one. Calls are distinguished by their index, and
//! by their id if a server (Gemini's compatible one) sends the same index for all of them.

use plimsoll::AnswerEvent;
use serde_json::{Value, json};

use super::wire::{Chunk, Content, ContentPart, Delta, ToolCallDelta, Usage};
use crate::decoding::{DecodeContext, DecodeError, parse};
use crate::error::{Failure, ProviderError};
use crate::lanes::{AnswerBytes, Lanes, parse_input};

/// Data of the last event of a stream.
const DONE: &str = "[DONE]";

#[derive(Debug)]
pub(crate) struct ChatDecoder {
    context: DecodeContext,
    lanes: Lanes,
    next_key: u64,
    /// The open text or reasoning.
    prose: Option<OpenText>,
    calls: Vec<OpenCall>,
    details: Vec<Value>,
    usage: Option<Usage>,
    reason: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
}

#[derive(Clone, Copy, Debug)]
struct OpenText {
    kind: Kind,
    key: u64,
}

#[derive(Debug)]
struct OpenCall {
    index: u64,
    id: Option<String>,
    key: u64,
    input: String,
    is_open: bool,
}

impl ChatDecoder {
    pub(crate) fn new(context: DecodeContext) -> ChatDecoder {
        ChatDecoder {
            context,
            lanes: Lanes::default(),
            next_key: 0,
            prose: None,
            calls: Vec::new(),
            details: Vec::new(),
            usage: None,
            reason: None,
        }
    }

    pub(crate) fn bytes_so_far(&self) -> AnswerBytes {
        self.lanes.bytes_so_far()
    }

    pub(crate) fn event(&mut self, data: &str, out: &mut Vec<AnswerEvent>) -> Result<(), DecodeError> {
        if data.trim() == DONE {
            self.finish(out);
            return Ok(());
        }
        let mut chunk: Chunk = parse(data)?;
        // Some servers send the error itself in place of a chunk.
        let as_error = chunk.extra.get("object").and_then(Value::as_str) == Some("error");
        if let Some(error) = chunk.error.take().or_else(|| as_error.then(|| json!(chunk.extra))) {
            let failure = Failure::of_value(None, &json!({ "error": error }));
            return Err(DecodeError::Provider(ProviderError::from(failure)));
        }
        for choice in chunk.choices.into_iter().filter(|choice| choice.index == 0) {
            self.delta(choice.delta, out)?;
            if choice.finish_reason.is_some() {
                self.reason = choice.finish_reason;
                self.close_all(out);
            }
        }
        if let Some(usage) = chunk.usage {
            // A report without input must not replace an earlier one; see `usage`.
            let normalised = usage.normalise();
            if normalised.is_some() {
                self.usage = Some(usage);
            }
            out.extend(normalised.map(AnswerEvent::Usage));
        }
        Ok(())
    }

    /// Handles a stream that ended without `[DONE]` and returns whether the answer is complete. The finish reason ends
    /// an answer; some servers omit the marker after it.
    pub(crate) fn end(&mut self, out: &mut Vec<AnswerEvent>) -> bool {
        let is_whole = self.reason.is_some();
        if is_whole {
            self.finish(out);
        }
        is_whole
    }

    fn finish(&mut self, out: &mut Vec<AnswerEvent>) {
        self.close_all(out);
        let reason = self.reason.take().unwrap_or_else(|| "unknown".into());
        let usage = self.usage.as_ref().and_then(Usage::normalise);
        out.push(AnswerEvent::Finished { reason, usage });
    }

    fn delta(&mut self, delta: Delta, out: &mut Vec<AnswerEvent>) -> Result<(), DecodeError> {
        // Servers that send both fields send the same text in both.
        if let Some(thought) = delta.reasoning_content.or(delta.reasoning).filter(|text| !text.is_empty()) {
            self.write(Kind::Thinking, thought, out);
        }
        if let Some(details) = delta.reasoning_details.filter(|details| !details.is_empty()) {
            self.prose(Kind::Thinking, out);
            for detail in details {
                self.lanes.note_kept(detail.to_string().len());
                add_detail(&mut self.details, detail);
            }
        }
        match delta.content {
            Some(Content::Text(text)) => self.write(Kind::Text, text, out),
            Some(Content::Parts(parts)) => {
                for part in parts {
                    match part {
                        ContentPart::Text { text } => self.write(Kind::Text, text, out),
                        ContentPart::Other(part) => self.write(Kind::Thinking, thinking_part(&part), out),
                        ContentPart::ImageUrl { .. } => {}
                    }
                }
            }
            None => {}
        }
        if let Some(refusal) = delta.refusal {
            self.write(Kind::Text, refusal, out);
        }
        for call in delta.tool_calls.unwrap_or_default() {
            self.call(call, out)?;
        }
        Ok(())
    }

    fn write(&mut self, kind: Kind, text: String, out: &mut Vec<AnswerEvent>) {
        if text.is_empty() {
            return;
        }
        let key = self.prose(kind, out);
        let event = match kind {
            Kind::Text => AnswerEvent::Text(text),
            Kind::Thinking => AnswerEvent::Thinking(text),
        };
        self.lanes.write(key, event, out);
    }

    /// Returns the key of the open text or reasoning, or a new one if the open block is of the other kind.
    fn prose(&mut self, kind: Kind, out: &mut Vec<AnswerEvent>) -> u64 {
        if let Some(prose) = self.prose.filter(|prose| prose.kind == kind) {
            return prose.key;
        }
        self.end_prose(out);
        // Complete calls are closed here. While they are open, the text after them would be held back.
        self.settle_calls(out);
        let key = self.open();
        self.prose = Some(OpenText { kind, key });
        key
    }

    fn open(&mut self) -> u64 {
        self.next_key += 1;
        self.lanes.open(self.next_key);
        self.next_key
    }

    fn end_prose(&mut self, out: &mut Vec<AnswerEvent>) {
        let Some(OpenText { kind, key }) = self.prose.take() else { return };
        if kind == Kind::Thinking && !self.details.is_empty() {
            let details = std::mem::take(&mut self.details);
            let signature = self.context.sign(json!({ "reasoning_details": details }));
            self.lanes.write(key, signature, out);
        }
        self.lanes.write(key, AnswerEvent::PartEnd, out);
        self.lanes.close(key, out);
    }

    fn call(&mut self, delta: ToolCallDelta, out: &mut Vec<AnswerEvent>) -> Result<(), DecodeError> {
        self.end_prose(out);
        let id = delta.id.filter(|id| !id.is_empty());
        let name = delta.function.name.filter(|name| !name.is_empty());
        // Servers that send no index send the name only in the first delta of a call, so a name begins the next call.
        let newest = self.calls.last().map_or(0, |call| call.index);
        let index =
            delta.index.unwrap_or(if name.is_some() && !self.calls.is_empty() { newest + 1 } else { newest });
        let known = self.calls.iter().rposition(|call| call.index == index);
        // A different id at the same index is a different call; servers repeat the id of the same one.
        let known =
            known.filter(|at| id.is_none() || self.calls[*at].id.is_none() || self.calls[*at].id == id);
        let at = match (known, name) {
            (Some(at), _) => at,
            (None, None) => {
                return Err(DecodeError::Malformed(format!("input of call {index}, which has no name")));
            }
            (None, Some(name)) => {
                self.settle_calls(out);
                let key = self.open();
                let call = id.clone().unwrap_or_else(|| format!("call_{index}"));
                let tool = self.context.tools.own(&name);
                self.lanes.write(key, AnswerEvent::CallBegin { call, tool }, out);
                self.calls.push(OpenCall { index, id, key, input: String::new(), is_open: true });
                self.calls.len() - 1
            }
        };
        let Some(more) = delta.function.arguments.filter(|more| !more.is_empty()) else { return Ok(()) };
        let call = &mut self.calls[at];
        if !call.is_open {
            // White space may follow a complete input.
            return match more.trim().is_empty() {
                true => Ok(()),
                false => Err(DecodeError::Malformed(format!("input for call {index} after it was complete"))),
            };
        }
        call.input.push_str(&more);
        self.lanes.write(call.key, AnswerEvent::CallInput(more), out);
        Ok(())
    }

    /// Closes the calls whose inputs are complete. The others stay open: a server may interleave parallel calls.
    fn settle_calls(&mut self, out: &mut Vec<AnswerEvent>) {
        for call in self.calls.iter_mut().filter(|call| call.is_open) {
            if let Ok(input) = serde_json::from_str::<Value>(&call.input) {
                call.is_open = false;
                self.lanes.write(call.key, AnswerEvent::CallReady(input), out);
                self.lanes.close(call.key, out);
            }
        }
    }

    fn close_all(&mut self, out: &mut Vec<AnswerEvent>) {
        self.end_prose(out);
        for call in self.calls.iter_mut().filter(|call| call.is_open) {
            call.is_open = false;
            self.lanes.write(call.key, AnswerEvent::CallReady(parse_input(&call.input)), out);
            self.lanes.close(call.key, out);
        }
    }
}

/// Returns the text of Mistral's reasoning: `{"type": "thinking", "thinking": [{"type": "text", "text": "…"}]}`.
fn thinking_part(part: &Value) -> String {
    let pieces = part.get("thinking").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    pieces.iter().filter_map(|piece| piece.get("text")?.as_str()).collect()
}

/// Adds a piece of signed reasoning. Consecutive pieces of the same reasoning are merged by appending their strings.
fn add_detail(details: &mut Vec<Value>, piece: Value) {
    let same = |key: &str, last: &Value| last.get(key) == piece.get(key);
    let last =
        details.last_mut().filter(|last| same("type", last) && same("index", last) && same("id", last));
    let (Some(Value::Object(last)), Value::Object(more)) = (last, &piece) else {
        details.push(piece);
        return;
    };
    for (key, value) in more {
        let continues = matches!(key.as_str(), "text" | "summary" | "data");
        match (last.get_mut(key), value) {
            (Some(Value::String(text)), Value::String(more)) if continues => text.push_str(more),
            (_, Value::Null) => {}
            _ => {
                last.insert(key.clone(), value.clone());
            }
        }
    }
}

//! Events of OpenHands since version 1, identified by their kind.

use plimsoll::log::{At, FilePart};
use plimsoll::{Millis, Role};
use serde_json::json;

use super::OpenhandsReader;
use crate::assembly::{Answer, Assembly};
use crate::blocks::{arguments, blocks, flatten};
use crate::json::Json;
use crate::transcript::Transcript;

/// Events that the model does not see. A summary repeats what the condensation contains.
const UNUSED: [&str; 8] = [
    "CondensationRequest",
    "CondensationSummaryEvent",
    "ConversationErrorEvent",
    "ConversationStateUpdateEvent",
    "LLMCompletionLogEvent",
    "PauseEvent",
    "StreamingDeltaEvent",
    "TokenEvent",
];

impl OpenhandsReader<'_> {
    pub(super) fn named_event(
        &mut self,
        mut event: Json,
        time: Option<Millis>,
        at: &At,
        transcript: &mut Transcript,
    ) {
        let field_errors = &mut self.log.field_errors;
        let shapes = [
            ("llm_message", "MessageEvent"),
            ("tool_call", "ActionEvent"),
            ("observation", "ObservationEvent"),
            ("system_prompt", "SystemPromptEvent"),
        ];
        let kind = field_errors.kind(&event, at, "kind", &shapes).map(str::to_owned);
        match kind.as_deref() {
            Some("SystemPromptEvent") => {
                let keys = ["system_prompt", "dynamic_context"];
                let prompt = keys.map(|key| flatten(event.take(key)).0);
                let place = self.log.begin(Role::System, None, time);
                prompt.into_iter().for_each(|text| self.log.text(place, text));
            }
            Some("MessageEvent") => self.message(event, time, at, transcript),
            Some("ActionEvent") => {
                let id = field_errors.string(&event, at, "llm_response_id");
                let name = field_errors.string(&event, at, "tool_name").unwrap_or_default();
                let call = field_errors.string(&event, at, "tool_call_id");
                field_errors.object(&event, at, "tool_call");
                let input = arguments(event.take("tool_call").take("arguments"));
                let place = self.response(id, time);
                reasoning(&mut self.log, place, &mut event, at);
                let thought = flatten(event.take("thought")).0;
                self.log.text(place, thought);
                self.log.call(place, call.as_deref(), &name, input);
            }
            Some("ObservationEvent" | "AgentErrorEvent" | "UserRejectObservation") => {
                let call = field_errors.string(&event, at, "tool_call_id").unwrap_or_default();
                let failed =
                    ["error", "rejection_reason"].map(|key| field_errors.take_words(&mut event, at, key));
                let failed = failed.concat();
                let answer = if failed.is_empty() {
                    field_errors.object(&event, at, "observation");
                    let mut observation = event.take("observation");
                    let is_error = field_errors.is(&observation, &At::Key(at, "observation"), "is_error");
                    let content = ["content", "output"].map(|key| observation.take(key));
                    let (text, attachments) = flatten(Json::List(content.into()));
                    let text = [text, flatten(event.take("extended_content")).0];
                    let text =
                        text.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n");
                    Answer { text, attachments, is_error, at: time, ..Answer::default() }
                } else {
                    Answer { text: failed, is_error: true, at: time, ..Answer::default() }
                };
                self.log.answer_or_keep(&call, answer, |log| log.begin(Role::User, None, time));
            }
            Some("Condensation") => {
                let ids = field_errors.take_list(&mut event, at, "forgotten_event_ids");
                let list = At::Key(at, "forgotten_event_ids");
                let last = ids.len().checked_sub(1);
                let last = last.and_then(|last| field_errors.item_text(&ids[last], &At::Index(&list, last)));
                let summary = field_errors.take_words(&mut event, at, "summary");
                self.condense(last, summary, time);
            }
            Some(kind) if UNUSED.contains(&kind) => transcript.pass(kind),
            kind => transcript.skip(kind.unwrap_or("event without kind")),
        }
    }

    fn message(&mut self, mut event: Json, time: Option<Millis>, at: &At, transcript: &mut Transcript) {
        let field_errors = &mut self.log.field_errors;
        let response = field_errors.string(&event, at, "llm_response_id");
        field_errors.object(&event, at, "llm_message");
        let mut message = event.take("llm_message");
        let inside = At::Key(at, "llm_message");
        let role = field_errors.kind(&message, &inside, "role", &[]).map(str::to_owned);
        let place = match role.as_deref() {
            Some("assistant") => {
                let place = self.response(response, time);
                reasoning(&mut self.log, place, &mut message, &inside);
                place
            }
            Some("system") => self.log.begin(Role::System, None, time),
            Some("user") => self.user_said(String::new(), false, time),
            None => self.log.begin(None, None, time),
            Some(other) => return transcript.skip(format!("message of role {other}")),
        };
        let list = At::Key(&inside, "content");
        let content = blocks(message.take("content"), &mut self.log.field_errors, &list);
        for (index, mut block) in content.into_iter().enumerate() {
            let at = &At::Index(&list, index);
            match self.log.field_errors.kind(&block, at, "type", &[("text", "text"), ("image_urls", "image")])
            {
                Some("text") => {
                    let text = self.log.field_errors.take_words(&mut block, at, "text");
                    self.log.text(place, text);
                }
                Some("image") => {
                    let urls = At::Key(at, "image_urls");
                    let images = self.log.field_errors.take_list(&mut block, at, "image_urls");
                    for (index, image) in images.iter().enumerate() {
                        if let Some(url) = self.log.field_errors.item_text(image, &At::Index(&urls, index)) {
                            let (mime, url) = (Some("image/*".to_owned()), Some(url.into()));
                            self.log.file(place, FilePart { mime, filename: None, url });
                        }
                    }
                }
                kind => transcript.skip(format!("content block {}", kind.unwrap_or("without type"))),
            }
        }
        let extended = flatten(event.take("extended_content")).0;
        self.log.user_text(place, extended, true);
    }
}

/// Adds the model's reasoning before its text or action.
fn reasoning(log: &mut Assembly, place: usize, holder: &mut Json, at: &At) {
    let inside = At::Key(at, "thinking_blocks");
    let thoughts = log.field_errors.take_list(holder, at, "thinking_blocks");
    let has_blocks = !thoughts.is_empty();
    for (index, mut thought) in thoughts.into_iter().enumerate() {
        let at = &At::Index(&inside, index);
        if log.field_errors.is_object(&thought, at) {
            let signature = log.field_errors.string(&thought, at, "signature");
            let metadata = signature.map(|signature| json!({ "anthropic": { "signature": signature } }));
            let words = log.field_errors.take_words(&mut thought, at, "thinking");
            log.reasoning(place, words, metadata);
        }
    }
    let words = log.field_errors.take_words(holder, at, "reasoning_content");
    // The blocks contain the same text with its signature.
    if !has_blocks {
        log.reasoning(place, words, None);
    }
}

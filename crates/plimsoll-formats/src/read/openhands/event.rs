//! Events of OpenHands before version 1: actions and observations, identified by what they do.

use plimsoll::log::{At, FilePart};
use plimsoll::{Millis, Role};
use serde_json::{Map, Value};

use super::OpenhandsReader;
use crate::assembly::Answer;
use crate::blocks::arguments;
use crate::field_errors::FieldErrors;
use crate::json::Json;
use crate::read::openai;
use crate::transcript::Transcript;

/// Actions and observations that the model does not see.
const UNUSED: [&str; 9] = [
    "agent_state_changed",
    "change_agent_state",
    "condensation_request",
    "loop_recovery",
    "null",
    "pause",
    "recall",
    "resume",
    "server_ready",
];
/// Fields of an action that are not part of the tool's input.
const NOT_GIVEN: [&str; 6] =
    ["thought", "confirmation_state", "security_risk", "hidden", "is_static", "blocking"];

impl OpenhandsReader<'_> {
    pub(super) fn plain_event(
        &mut self,
        event: Json,
        time: Option<Millis>,
        at: &At,
        transcript: &mut Transcript,
    ) {
        let has = |key: &str| !matches!(event.get(key), None | Some(Json::Null));
        if has("action") {
            self.action(event, time, at, transcript);
        } else if has("observation") {
            self.observation(event, time, at, transcript);
        } else {
            transcript.skip("event without action or observation");
        }
    }

    fn action(&mut self, mut event: Json, time: Option<Millis>, at: &At, transcript: &mut Transcript) {
        let field_errors = &mut self.log.field_errors;
        let kind = field_errors.string(&event, at, "action").unwrap_or_default();
        let source = field_errors.string(&event, at, "source");
        let inside = At::Key(at, "args");
        field_errors.object(&event, at, "args");
        let mut args = event.take("args");
        match (kind.as_str(), source.as_deref()) {
            ("system", _) => {
                let prompt = field_errors.take_words(&mut args, &inside, "content");
                transcript.info.version = field_errors
                    .string(&args, &inside, "openhands_version")
                    .or(transcript.info.version.take());
                let place = self.log.begin(Role::System, None, time);
                self.log.text(place, prompt);
            }
            ("message", Some("agent")) => {
                let text = field_errors.take_words(&mut args, &inside, "content");
                let place = self.answer_of_model(&event, time, at, transcript);
                self.log.text(place, text);
            }
            ("message", _) => {
                let text = field_errors.take_words(&mut args, &inside, "content");
                let images = field_errors.take_list(&mut args, &inside, "image_urls");
                let place = self.user_said(text, false, time);
                let list = At::Key(&inside, "image_urls");
                for (index, image) in images.iter().enumerate() {
                    if let Some(url) = self.log.field_errors.item_text(image, &At::Index(&list, index)) {
                        let (mime, url) = (Some("image/*".to_owned()), Some(url.into()));
                        self.log.file(place, FilePart { mime, filename: None, url });
                    }
                }
            }
            ("condensation", _) => {
                let ids = field_errors.take_list(&mut args, &inside, "forgotten_event_ids");
                let last = field_errors.number(&args, &inside, "forgotten_events_end_id");
                let last = last.or_else(|| ids.iter().filter_map(id_number).max());
                let summary = field_errors.take_words(&mut args, &inside, "summary");
                self.condense(last.map(|id| id.to_string()), summary, time);
            }
            // The end of a task is the agent's last message and has no result.
            ("finish" | "reject", _) => {
                let words = ["thought", "final_thought"]
                    .map(|key| field_errors.take_words(&mut args, &inside, key))
                    .into_iter()
                    .filter(|words| !words.is_empty());
                let words: Vec<String> = words.collect();
                let place = self.answer_of_model(&event, time, at, transcript);
                self.log.text(place, words.join("\n"));
            }
            (kind, _) if UNUSED.contains(&kind) => transcript.pass(kind),
            (_, Some("user")) => {
                let text = field_errors.take_words(&mut event, at, "message");
                self.user_said(text, true, time);
            }
            (kind, _) => self.call(kind, &event, args, time, at, transcript),
        }
    }

    /// Adds an action of the agent: a call with the model's reasoning.
    fn call(
        &mut self,
        kind: &str,
        event: &Json,
        mut args: Json,
        time: Option<Millis>,
        at: &At,
        transcript: &mut Transcript,
    ) {
        let place = self.answer_of_model(event, time, at, transcript);
        let inside = At::Key(at, "args");
        let field_errors = &mut self.log.field_errors;
        let thought = if kind == "think" {
            String::new()
        } else {
            field_errors.take_words(&mut args, &inside, "thought")
        };
        let about = At::Key(at, "tool_call_metadata");
        let metadata = field_errors.object(event, at, "tool_call_metadata");
        let name = metadata.and_then(|metadata| field_errors.string(metadata, &about, "function_name"));
        let id = metadata.and_then(|metadata| field_errors.string(metadata, &about, "tool_call_id"));
        let input = id.as_deref().and_then(|id| model_input(metadata?, id));
        let input = input.map_or_else(|| tool_input(args), |input| arguments(input.clone()));
        let id = id.or_else(|| super::event_name(event).map(|event| format!("event_{event}")));
        self.log.text(place, thought);
        self.log.call(place, id.as_deref(), &name.unwrap_or_else(|| kind.to_owned()), input);
    }

    /// Returns the response of an action and its usage, which every action of a response repeats.
    fn answer_of_model(
        &mut self,
        event: &Json,
        time: Option<Millis>,
        at: &At,
        transcript: &mut Transcript,
    ) -> usize {
        let field_errors = &mut self.log.field_errors;
        let about = At::Key(at, "tool_call_metadata");
        let metadata = field_errors.object(event, at, "tool_call_metadata");
        let response = metadata.and_then(|metadata| field_errors.object(metadata, &about, "model_response"));
        let about = At::Key(&about, "model_response");
        let id = response.and_then(|response| field_errors.string(response, &about, "id"));
        let model = response.and_then(|response| field_errors.string(response, &about, "model"));
        let usage = response.and_then(|response| field_errors.object(response, &about, "usage"));
        let usage = usage.map(|usage| openai::usage_of(usage, field_errors, &At::Key(&about, "usage")));
        let place = self.response(id, time);
        transcript.info.model = model.clone().or(transcript.info.model.take());
        let info = self.log.info(place);
        info.model_id = model.or(info.model_id.take()).or_else(|| transcript.info.model.clone());
        info.tokens = usage.or(info.tokens.take());
        place
    }

    fn observation(&mut self, mut event: Json, time: Option<Millis>, at: &At, transcript: &mut Transcript) {
        let field_errors = &mut self.log.field_errors;
        let kind = field_errors.string(&event, at, "observation").unwrap_or_default();
        field_errors.object(&event, at, "extras");
        let mut extras = event.take("extras");
        let inside = At::Key(at, "extras");
        if kind == "recall" {
            let text = recalled(&mut extras, &inside, field_errors);
            if text.is_empty() {
                return transcript.pass("recall");
            }
            self.user_said(text, true, time);
            return;
        }
        if UNUSED.contains(&kind.as_str()) {
            return transcript.pass(kind);
        }
        let about = At::Key(at, "tool_call_metadata");
        let metadata = field_errors.object(&event, at, "tool_call_metadata");
        let call = metadata.and_then(|metadata| field_errors.string(metadata, &about, "tool_call_id"));
        let cause = field_errors.number(&event, at, "cause");
        let call = call.or_else(|| cause.map(|cause| format!("event_{cause}")));
        let text = field_errors.take_words(&mut event, at, "content");
        let text = surrounded(text, &extras, &inside, field_errors);
        let is_error = kind == "error";
        let Some(call) = call else {
            // The agent could not parse the model's call and replied with an error.
            self.user_said(text, true, time);
            return;
        };
        let answer = Answer { text, is_error, at: time, ..Answer::default() };
        self.log.answer_or_keep(&call, answer, |log| log.begin(Role::User, None, time));
    }
}

fn id_number(id: &Json) -> Option<u64> {
    match id {
        Json::Number(number) => number.as_u64(),
        _ => None,
    }
}

/// Returns the model's own input of a call.
fn model_input<'j, 'a>(metadata: &'j Json<'a>, id: &str) -> Option<&'j Json<'a>> {
    let choice = metadata.get("model_response")?.get("choices")?.as_list()?.first()?;
    let calls = choice.get("message")?.get("tool_calls")?.as_list()?;
    calls.iter().find(|call| call.text("id") == Some(id))?.get("function")?.get("arguments")
}

/// Returns the input of a tool, if the model's own text is not stored.
fn tool_input(args: Json) -> Value {
    match args.into_value() {
        Value::Object(fields) => {
            let given = fields
                .into_iter()
                .filter(|(key, value)| !NOT_GIVEN.contains(&key.as_str()) && !value.is_null());
            Value::Object(given.collect::<Map<_, _>>())
        }
        other => other,
    }
}

/// Returns the output of a command with the text that surrounds it for the model.
fn surrounded(text: String, extras: &Json, at: &At, field_errors: &mut FieldErrors) -> String {
    let Some(metadata) = field_errors.object(extras, at, "metadata") else { return text };
    let at = &At::Key(at, "metadata");
    let [before, after] =
        ["prefix", "suffix"].map(|key| field_errors.string(metadata, at, key).unwrap_or_default());
    format!("{before}{text}{after}")
}

/// Returns what the workspace and its knowledge base contributed.
fn recalled(extras: &mut Json, at: &At, field_errors: &mut FieldErrors) -> String {
    let mut texts: Vec<String> =
        ["repo_instructions", "additional_agent_instructions", "conversation_instructions"]
            .map(|key| field_errors.take_words(extras, at, key))
            .into();
    let list = At::Key(at, "microagent_knowledge");
    for (index, mut entry) in
        field_errors.take_list(extras, at, "microagent_knowledge").into_iter().enumerate()
    {
        let at = &At::Index(&list, index);
        if field_errors.is_object(&entry, at) {
            texts.push(field_errors.take_words(&mut entry, at, "content"));
        }
    }
    texts.retain(|text| !text.is_empty());
    texts.join("\n\n")
}

//! Trae agent's trajectories.
//!
//! ByteDance's agent records each request with its new messages and the response (`llm_interactions`), and separately
//! the results of its tools (`agent_steps`). The agent in TypeScript records steps, each with all messages of its
//! request (`steps`); a step whose messages start over begins another session.

use plimsoll::log::At;
use plimsoll::{Millis, Role};

use super::{Sink, choose, openai};
use crate::assembly::{Answer, Assembly};
use crate::blocks::{anthropic_usage, arguments, finish, flatten};
use crate::document::Document;
use crate::error::FormatError;
use crate::json::{Json, Take};
use crate::transcript::{Chain, SessionInfo, Transcript};

pub(super) fn read(
    document: &Document,
    transcript: &mut Transcript,
    wanted: Option<&str>,
    sink: Sink,
) -> Result<(), FormatError> {
    let header = document.header(|_, depth, key| match key {
        "steps" | "agent_steps" | "llm_interactions" if depth == 0 => Take::Raw,
        _ => Take::Whole,
    })?;
    let mut sink = |message| sink(Chain::Main, message);
    let mut log = Assembly::new(&mut sink, usize::MAX);
    let info = &mut transcript.info;
    info.model = log.field_errors.string(&header, &At::Root, "model");
    info.title = log.field_errors.string(&header, &At::Root, "task").map(|task| first_line(&task));
    for key in ["start_time", "end_time"] {
        // An unfinished trajectory has an empty time here.
        let is_given = header.get(key).is_some_and(|time| time.as_str() != Some(""));
        let time = if is_given { log.field_errors.time(&header, &At::Root, key) } else { None };
        info.note_time(time);
    }
    log.settle(&mut transcript.notes);
    if header.get("steps").is_some() {
        steps(document, log, transcript, wanted)
    } else {
        interactions(document, log, transcript, &header)
    }
}

fn first_line(task: &str) -> String {
    task.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim().chars().take(80).collect()
}

/// Reads a trajectory of requests and results.
fn interactions(
    document: &Document,
    mut log: Assembly,
    transcript: &mut Transcript,
    header: &Json,
) -> Result<(), FormatError> {
    let mut position = 0;
    let mut is_first = true;
    if header.get("llm_interactions").is_some() {
        let list = document.list("llm_interactions");
        document.each(transcript.format, "llm_interactions", |index, mut interaction| {
            log.record(position, 0, position, None);
            position += 1;
            let at = &At::Index(&list, index);
            if log.field_errors.is_object(&interaction, at) {
                let time = log.field_errors.time(&interaction, at, "timestamp");
                transcript.info.note_time(time);
                let inside = At::Key(at, "input_messages");
                for (index, message) in
                    log.field_errors.take_list(&mut interaction, at, "input_messages").into_iter().enumerate()
                {
                    // Some providers receive the system prompt with every request.
                    let is_repeated = !is_first && message.text("role") == Some("system");
                    if is_repeated {
                        transcript.pass("system prompt again");
                    } else {
                        input(&mut log, message, time, &At::Index(&inside, index), transcript);
                    }
                }
                is_first = false;
                log.field_errors.object(&interaction, at, "response");
                let response = interaction.take("response");
                respond(&mut log, response, time, &At::Key(at, "response"), transcript);
            }
            log.settle(&mut transcript.notes);
            Ok(())
        })?;
    }
    // No request contains the results of the last calls; the steps do.
    if header.get("agent_steps").is_some() {
        let list = document.list("agent_steps");
        let has_requests = !is_first;
        document.each(transcript.format, "agent_steps", |index, mut step| {
            log.record(position, 0, position, None);
            position += 1;
            let at = &At::Index(&list, index);
            if log.field_errors.is_object(&step, at) {
                let time = log.field_errors.time(&step, at, "timestamp");
                transcript.info.note_time(time);
                if has_requests {
                    transcript.pass("step");
                } else {
                    let inside = At::Key(at, "llm_messages");
                    for (index, message) in
                        log.field_errors.take_list(&mut step, at, "llm_messages").into_iter().enumerate()
                    {
                        input(&mut log, message, time, &At::Index(&inside, index), transcript);
                    }
                    let response = step.take("llm_response");
                    respond(&mut log, response, time, &At::Key(at, "llm_response"), transcript);
                }
                let inside = At::Key(at, "tool_results");
                let results = log.field_errors.take_list(&mut step, at, "tool_results");
                for (index, result) in results.into_iter().enumerate() {
                    let (call, answer) = answer_of(&mut log, result, time, &At::Index(&inside, index));
                    // Results that a request contained have already been added.
                    let _ = log.answer(&call, answer);
                }
            }
            log.settle(&mut transcript.notes);
            Ok(())
        })?;
    }
    log.finish();
    Ok(())
}

/// Reads a new message of a request.
fn input(log: &mut Assembly, mut message: Json, time: Option<Millis>, at: &At, transcript: &mut Transcript) {
    if !log.field_errors.is_object(&message, at) {
        return;
    }
    let role = log.field_errors.kind(&message, at, "role", &[]).map(str::to_owned);
    if log.field_errors.object(&message, at, "tool_result").is_some() {
        let result = message.take("tool_result");
        let (call, answer) = answer_of(log, result, time, &At::Key(at, "tool_result"));
        log.answer_or_keep(&call, answer, |log| log.begin(Role::User, None, time));
    }
    let content = flatten(message.take("content")).0;
    if content.is_empty() {
        return;
    }
    let role = match role.as_deref() {
        Some("system") => Some(Role::System),
        Some("assistant") => Some(Role::Assistant),
        Some("user") => Some(Role::User),
        None => None,
        Some(other) => return transcript.skip(format!("message of role {other}")),
    };
    let place = log.begin(role, None, time);
    log.text(place, content);
}

fn respond(
    log: &mut Assembly,
    mut response: Json,
    time: Option<Millis>,
    at: &At,
    transcript: &mut Transcript,
) {
    if !response.is_object() {
        return;
    }
    let place = log.begin(Role::Assistant, None, time);
    let model = log.field_errors.string(&response, at, "model").or_else(|| transcript.info.model.clone());
    let reason = log.field_errors.string(&response, at, "finish_reason");
    let usage = log.field_errors.object(&response, at, "usage");
    let usage = usage.map(|usage| {
        let at = &At::Key(at, "usage");
        let mut tokens = anthropic_usage(usage, &mut log.field_errors, at);
        let reasoning = log.field_errors.number(usage, at, "reasoning_tokens").unwrap_or(0);
        tokens.reasoning = plimsoll::Tokens(reasoning);
        tokens.output = tokens.output - tokens.reasoning;
        tokens
    });
    let info = log.info(place);
    (info.model_id, info.tokens) = (model, usage);
    info.finish = reason.map(|reason| finish(&reason).to_owned());
    let text = log.field_errors.take_words(&mut response, at, "content");
    log.text(place, text);
    let inside = At::Key(at, "tool_calls");
    for (index, mut call) in
        log.field_errors.take_list(&mut response, at, "tool_calls").into_iter().enumerate()
    {
        let at = &At::Index(&inside, index);
        if log.field_errors.is_object(&call, at) {
            let id = log.field_errors.string(&call, at, "call_id");
            let name = log.field_errors.string(&call, at, "name").unwrap_or_default();
            log.call(place, id.as_deref(), &name, arguments(call.take("arguments")));
        }
    }
}

/// Reads the result of a tool and the id of its call.
fn answer_of(log: &mut Assembly, mut result: Json, time: Option<Millis>, at: &At) -> (String, Answer) {
    if !log.field_errors.is_object(&result, at) {
        return (String::new(), Answer::default());
    }
    let field_errors = &mut log.field_errors;
    let call = field_errors.string(&result, at, "call_id");
    let call = call.or_else(|| field_errors.string(&result, at, "tool_call_id")).unwrap_or_default();
    let has_failed = result.get("success").is_some() && !field_errors.is(&result, at, "success");
    let error = field_errors.take_words(&mut result, at, "error");
    let output = match result.take("result") {
        Json::Text(text) => text.into_owned(),
        Json::Null => String::new(),
        other => other.into_value().to_string(),
    };
    let text = [output, error].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n");
    (call, Answer { text, is_error: has_failed, at: time, ..Answer::default() })
}

/// Data of a session in a file of steps before it is read.
#[derive(Default)]
struct StepsSession {
    info: SessionInfo,
    steps: usize,
    /// Minimum number of messages in the next request of the same session.
    messages: usize,
}

/// Reads a trajectory of steps with all messages of their requests.
fn steps(
    document: &Document,
    mut log: Assembly,
    transcript: &mut Transcript,
    wanted: Option<&str>,
) -> Result<(), FormatError> {
    let format = transcript.format;
    let mut runs: Vec<StepsSession> = Vec::new();
    document.each(format, "steps", |_, step| {
        let length = |key: &str| step.get(key).and_then(Json::as_list).map_or(0, <[Json]>::len);
        let goes_on = runs.last().is_some_and(|run| length("messages") >= run.messages);
        // A value that is not a step does not begin a session.
        if !goes_on && (step.is_object() || runs.is_empty()) {
            let id = step.string("step_id");
            let title = step.text("task").map(first_line);
            let info = SessionInfo { id, title, ..SessionInfo::default() };
            runs.push(StepsSession { info, ..StepsSession::default() });
        }
        if let Some(run) = runs.last_mut() {
            run.steps += 1;
            run.messages = length("messages").max(run.messages) + usize::from(step.is_object());
        }
        Ok(())
    })?;
    let infos: Vec<SessionInfo> = runs.iter().map(|run| run.info.clone()).collect();
    let chosen = choose(wanted, &infos).or(runs.len().checked_sub(1));
    let others = infos.iter().enumerate().filter(|(number, _)| Some(*number) != chosen);
    transcript.other_sessions.extend(others.map(|(_, info)| info.clone()));
    let first = chosen.map_or(0, |chosen| runs[..chosen].iter().map(|run| run.steps).sum());
    let until = first + chosen.map_or(0, |chosen| runs[chosen].steps);
    if let Some(chosen) = chosen {
        transcript.info.id.clone_from(&infos[chosen].id);
        transcript.info.title = infos[chosen].title.clone().or(transcript.info.title.take());
    }
    log.session(transcript.info.id.as_deref());
    let list = document.list("steps");
    let mut known = 0;
    document.each(format, "steps", |position, mut step| {
        let at = &At::Index(&list, position);
        if !(first..until).contains(&position) {
            transcript.pass("step of another session");
            return Ok(());
        }
        log.record(position, 0, position, None);
        if log.field_errors.is_object(&step, at) {
            let time = log.field_errors.time(&step, at, "timestamp");
            transcript.info.note_time(time);
            log.field_errors.text(&step, at, "step_id");
            let inside = At::Key(at, "messages");
            let messages = log.field_errors.take_list(&mut step, at, "messages");
            let length = messages.len();
            for (index, message) in messages.into_iter().enumerate().skip(known) {
                let at = &At::Index(&inside, index);
                openai::message(&mut log, message, at, transcript, &mut openai::Joins::default());
            }
            known = length.max(known) + step_of(&mut log, &mut step, time, at, transcript);
        }
        log.settle(&mut transcript.notes);
        Ok(())
    })?;
    log.finish();
    Ok(())
}

/// Reads the model's content and the results in a step. Returns the number of messages that these are in the next
/// request: one for the response, and one per result.
fn step_of(
    log: &mut Assembly,
    step: &mut Json,
    time: Option<Millis>,
    at: &At,
    transcript: &Transcript,
) -> usize {
    let place = log.begin(Role::Assistant, None, time);
    log.info(place).model_id.clone_from(&transcript.info.model);
    let said = log.field_errors.take_words(step, at, "llm_response_content");
    log.text(place, said);
    let inside = At::Key(at, "tool_calls");
    for (index, mut call) in log.field_errors.take_list(step, at, "tool_calls").into_iter().enumerate() {
        let at = &At::Index(&inside, index);
        if !log.field_errors.is_object(&call, at) {
            continue;
        }
        let id = log.field_errors.string(&call, at, "id");
        log.field_errors.object(&call, at, "function");
        let mut function = call.take("function");
        let name = log.field_errors.string(&function, &At::Key(at, "function"), "name").unwrap_or_default();
        log.call(place, id.as_deref(), &name, arguments(function.take("arguments")));
    }
    let inside = At::Key(at, "tool_results");
    let results = log.field_errors.take_list(step, at, "tool_results");
    let count = results.len();
    for (index, result) in results.into_iter().enumerate() {
        let (call, answer) = answer_of(log, result, time, &At::Index(&inside, index));
        log.answer_or_keep(&call, answer, |log| log.begin(Role::User, None, time));
    }
    1 + count
}

//! Generated histories with all content that is known to have broken an agent.
//!
//! Parallel calls, errors, interrupted calls, reasoning, separate calls and results, orphans, several pivots,
//! unfinished and failed ones, cleared outputs, emoji, giant and empty parts, repeated ids, files, missing roles,
//! hundreds of parallel calls or system messages, turns of many steps, signed thoughts.

use plimsoll::log::{
    CompactionPart, FilePart, ReasoningPart, Time, ToolCallPart, ToolResultPart, ToolTime, Usage,
};
use plimsoll::window::PROVIDER_BLOCK;
use plimsoll::{
    CharCounter, Info, Log, Message, MessageId, Millis, Part, PartBody, PartId, Policy, RequestOverhead,
    Role, Tokens, ToolState, Window, request_tokens,
};
use proptest::prelude::*;
use serde_json::json;

/// An event in a history.
#[derive(Clone, Debug)]
pub enum HistoryStep {
    /// A prompt of the user.
    User(String),
    /// An answer of the model: thought (signed or not), text, and calls with tool, output, outcome, and whether the
    /// output was cleared.
    Step(Option<(String, bool)>, String, Vec<(u8, String, u8, bool)>),
    /// A number of short calls in one answer.
    Parallel(usize),
    /// A number of system messages.
    Laws(usize),
    /// A turn with a number of steps and of words per output.
    LongTurn(usize, usize),
    /// A number of pasted words.
    Giant(usize),
    /// Separate calls with results in the next message, some missing, some duplicated.
    Separate(Vec<(u8, String, u8)>),
    /// A compaction: outcome, distance of the tail's start in messages, summary.
    Pivot(u8, usize, String),
    /// A file from the user.
    File,
    /// A system message.
    System(String),
    /// A separate call without an id, and its result with a reminder in the same message.
    Reminded(String, bool),
    /// A message with neither role nor id.
    Bare(String),
    /// A message that failed or was aborted.
    Failed(bool, String),
}

/// Text with characters that can be cut incorrectly.
pub fn odd_text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-zA-Z0-9 .,]{0,80}",
        1 => Just(String::new()),
        1 => Just("   \n".to_owned()),
        2 => "[🚢🌊é漢字a\n]{1,60}",
        1 => (100usize..6_000).prop_map(|n| "word ".repeat(n)),
        1 => (1usize..9_000).prop_map(|n| "🚢".repeat(n)),
        1 => (1usize..400).prop_map(|n| "Error: it failed\n".repeat(n)),
        1 => Just("</inherited_context></conversation><conversation>".to_owned()),
        1 => Just("[Old tool result content cleared]".to_owned()),
    ]
}

fn step() -> impl Strategy<Value = HistoryStep> {
    let call = (0u8..6, odd_text(), 0u8..5, prop::bool::weighted(0.1));
    prop_oneof![
        5 => odd_text().prop_map(HistoryStep::User),
        8 => (prop::option::of((odd_text(), any::<bool>())), odd_text(), prop::collection::vec(call, 0..4))
            .prop_map(|(thought, text, calls)| HistoryStep::Step(thought, text, calls)),
        2 => prop::collection::vec((0u8..3, odd_text(), 0u8..4), 1..4).prop_map(HistoryStep::Separate),
        2 => (0u8..6, 0usize..8, odd_text()).prop_map(|(end, back, text)| HistoryStep::Pivot(end, back, text)),
        1 => prop_oneof![3 => 5usize..40, 1 => 40usize..300].prop_map(HistoryStep::Parallel),
        1 => prop_oneof![3 => 2usize..20, 1 => 20usize..200].prop_map(HistoryStep::Laws),
        1 => (2usize..25, 1usize..2_000).prop_map(|(steps, words)| HistoryStep::LongTurn(steps, words)),
        1 => (100usize..12_000).prop_map(HistoryStep::Giant),
        1 => Just(HistoryStep::File),
        1 => odd_text().prop_map(HistoryStep::System),
        1 => (odd_text(), any::<bool>()).prop_map(|(text, named)| HistoryStep::Reminded(text, named)),
        1 => odd_text().prop_map(HistoryStep::Bare),
        1 => (any::<bool>(), odd_text()).prop_map(|(aborted, text)| HistoryStep::Failed(aborted, text)),
    ]
}

/// Histories of up to `most` steps.
pub fn histories(most: usize) -> impl Strategy<Value = Vec<Message>> {
    (prop::collection::vec(step(), 0..most), prop::bool::weighted(0.1))
        .prop_map(|(steps, repeat_ids)| Builder { messages: Vec::new(), repeat_ids }.build(steps))
}

/// Returns the history with other ids, so that several can be in one log.
pub fn renamed(messages: Vec<Message>, prefix: &str) -> Vec<Message> {
    let name =
        |id: &MessageId| if id.is_empty() { id.clone() } else { MessageId::new(format!("{prefix}{id}")) };
    // Missing and repeated ids are replaced as in a log.
    let mut messages = Log::from_messages(messages).messages().to_vec();
    for message in &mut messages {
        message.info.id = name(&message.info.id);
        message.info.parent_id = message.info.parent_id.as_ref().map(name);
        // The usage belongs to the history's own window.
        message.info.tokens = None;
        for part in &mut message.parts {
            part.id = PartId::new(format!("{prefix}{}", part.id));
            let call_id = match &mut part.body {
                PartBody::Compaction(marker) => {
                    marker.tail_start = marker.tail_start.as_ref().map(name);
                    continue;
                }
                PartBody::Tool(tool) => &mut tool.call_id,
                PartBody::ToolCall(call) => &mut call.call_id,
                PartBody::ToolResult(result) => &mut result.call_id,
                _ => continue,
            };
            if !call_id.is_empty() {
                *call_id = format!("{prefix}{call_id}");
            }
        }
    }
    messages
}

struct Builder {
    messages: Vec<Message>,
    repeat_ids: bool,
}

impl Builder {
    fn build(mut self, steps: Vec<HistoryStep>) -> Vec<Message> {
        for step in steps {
            self.add(step);
        }
        self.messages
    }

    fn push(&mut self, role: Option<Role>, bodies: Vec<PartBody>) -> &mut Message {
        let at = self.messages.len();
        let number = if self.repeat_ids { at / 3 } else { at };
        let id = MessageId::new(format!("msg_{number:06}"));
        let parts = bodies
            .into_iter()
            .enumerate()
            .map(|(index, body)| Part::new(PartId::new(format!("prt_{number:06}_{index}")), body));
        let created = Millis(1_000 + at as u64 * 10);
        let time = Time { created: Some(created), completed: Some(Millis(created.0 + 5)), ..Time::default() };
        let finish = (role == Some(Role::Assistant)).then(|| "stop".to_owned());
        let info = Info { id, role, finish, time: Some(time), ..Info::default() };
        self.messages.push(Message { info: info.into(), parts: parts.collect(), ..Message::default() });
        &mut self.messages[at]
    }

    fn add(&mut self, step: HistoryStep) {
        let at = self.messages.len();
        match step {
            HistoryStep::User(text) => {
                self.push(Some(Role::User), vec![said(&text)]);
            }
            HistoryStep::Step(thought, text, calls) => {
                let mut bodies = Vec::new();
                let signed = thought.as_ref().is_some_and(|(_, signed)| *signed);
                if let Some((thought, _)) = thought {
                    bodies.push(PartBody::Reasoning(ReasoningPart { text: thought.into() }));
                }
                bodies.push(said(&text));
                for (index, (tool, output, end, cleared)) in calls.into_iter().enumerate() {
                    bodies.push(called(at, index, tool, output, end, cleared));
                }
                let message = self.push(Some(Role::Assistant), bodies);
                if signed {
                    let signature = json!({ "anthropic": { "signature": format!("sig_{at}") } });
                    message.parts[0].extra.insert("metadata".into(), signature);
                }
                if at % 4 == 1 {
                    // A provider-specific block.
                    let id = PartId::new(format!("{}_block", message.parts[0].id));
                    let mut part = Part::new(id, PartBody::Other(PROVIDER_BLOCK.into()));
                    part.extra.insert("type".into(), PROVIDER_BLOCK.into());
                    let block = json!({ "anthropic": { "type": "of_tomorrow", "data": text } });
                    part.extra.insert("block".into(), block);
                    message.parts.insert(1, part);
                }
                if at.is_multiple_of(3) {
                    // A provider that counts a third more than the estimate of four chars per token.
                    let log = Log::from_messages(self.messages.clone());
                    let window = Window::of(&log, &Policy::default());
                    let estimate =
                        request_tokens(&window, RequestOverhead::default(), &CharCounter::default());
                    let used = Tokens(estimate.0 * 4 / 3);
                    self.messages[at].info.tokens = Some(Usage::new(used, Tokens(50)));
                }
            }
            HistoryStep::Separate(calls) => {
                let id = |index: usize| format!("sep_{}_{index}", at / 2);
                let made = calls.iter().enumerate().map(|(index, (tool, ..))| {
                    PartBody::ToolCall(ToolCallPart::new(
                        id(index),
                        TOOLS[*tool as usize % 6],
                        json!({ "i": index }),
                    ))
                });
                let made = made.collect();
                self.push(Some(Role::Assistant), made);
                let mut answers = Vec::new();
                for (index, (_, output, fate)) in calls.into_iter().enumerate() {
                    let answer = PartBody::ToolResult(ToolResultPart::new(id(index), output));
                    match fate {
                        0 => {}
                        1 => answers.extend([answer.clone(), answer]),
                        _ => answers.push(answer),
                    }
                }
                self.push(Some(Role::User), answers);
            }
            HistoryStep::Pivot(end, back, text) => {
                let tail_start = self.messages.len().checked_sub(back).filter(|_| back > 0);
                let tail_start = tail_start.and_then(|at| Some(self.messages.get(at)?.info.id.clone()));
                let marker = CompactionPart { auto: Some(true), tail_start, ..CompactionPart::default() };
                let parent = self.push(Some(Role::User), vec![PartBody::Compaction(marker)]).info.id.clone();
                if end == 0 {
                    return;
                }
                let message = self.push(Some(Role::Assistant), vec![said(&text)]);
                message.info.summary = true;
                message.info.parent_id = Some(parent);
                match end {
                    1 => message.info.finish = None,
                    2 => message.info.error = Some(json!({ "name": "UnknownError" })),
                    _ => {}
                }
            }
            HistoryStep::Parallel(calls) => {
                let made = (0..calls)
                    .map(|index| called(at, index, index as u8, format!("answer {index}"), 2, false));
                let made = made.collect();
                self.push(Some(Role::Assistant), made);
            }
            HistoryStep::Laws(laws) => {
                for law in 0..laws {
                    self.push(
                        Some(Role::System),
                        vec![said(&format!("law {law} {}", "must ".repeat(law % 90)))],
                    );
                }
            }
            HistoryStep::LongTurn(steps, words) => {
                self.push(Some(Role::User), vec![said("work on it for long")]);
                for step in 0..steps {
                    let output = format!("{step} {}", "word ".repeat(words));
                    self.push(Some(Role::Assistant), vec![called(at + step, 0, 0, output, 2, false)]);
                }
            }
            HistoryStep::Giant(words) => {
                self.push(Some(Role::User), vec![said(&format!("START {} END", "word ".repeat(words)))]);
            }
            HistoryStep::File => {
                let file = FilePart {
                    mime: Some("image/png".into()),
                    filename: Some("a.png".into()),
                    url: Some("data:image/png;base64,AAAA".into()),
                };
                self.push(Some(Role::User), vec![PartBody::File(file)]);
            }
            HistoryStep::System(text) => {
                self.push(Some(Role::System), vec![said(&text)]);
            }
            HistoryStep::Reminded(text, named) => {
                let id = if named { format!("rem_{at}") } else { String::new() };
                let call = PartBody::ToolCall(ToolCallPart::new(id.as_str(), "read", json!({ "n": at })));
                self.push(Some(Role::Assistant), vec![call]);
                let result = PartBody::ToolResult(ToolResultPart::new(id, text));
                self.push(Some(Role::User), vec![result, said("<reminder>be brief</reminder>")]);
            }
            HistoryStep::Bare(text) => {
                let message = self.push(None, vec![said(&text)]);
                message.info.id = MessageId::default();
                message.parts[0].id = PartId::default();
            }
            HistoryStep::Failed(aborted, text) => {
                let message = self
                    .push(Some(Role::Assistant), vec![said(&text), called(at, 0, 1, text.clone(), 3, false)]);
                let name = if aborted { "MessageAbortedError" } else { "APIError" };
                message.info.error = Some(json!({ "name": name }));
            }
        }
    }
}

const TOOLS: [&str; 6] = ["read", "bash", "grep", "skill", "edit", "mcp_exec"];

fn said(text: &str) -> PartBody {
    Part::text(PartId::default(), text).body
}

fn called(at: usize, index: usize, tool: u8, output: String, end: u8, cleared: bool) -> PartBody {
    let input = json!({ "path": format!("src/file_{index}.rs"), "note": output.chars().take(50).collect::<String>() });
    let mut state = match end {
        0 => ToolState::failed(input, output),
        1 => ToolState::pending(input),
        _ => ToolState::completed(input, output),
    };
    state.time = ToolTime::ran(Millis(1), Millis(2));
    if cleared && end > 1 {
        state.time.compacted = Some(Millis(3));
    }
    // Every fourth id is used twice.
    let call_id = format!("call_{}_{}", at / 4, index);
    Part::tool(PartId::default(), call_id, TOOLS[tool as usize % 6], state).body
}

//! The parent's window as the beginning of a child's conversation.
//!
//! A digest is new to the provider, so it costs its full size. The parent's window was sent a moment ago and is in the
//! provider's cache. A child that begins with the same bytes reads it at a tenth of the price, and knows everything
//! that its parent knew. This requires the same model, system prompt and tools, because they are part of the cached
//! prefix. All other children get a digest. [`inherit`] decides.
//!
//! The step in which the parent launches the child has open calls, and a conversation with open calls is not legal.
//! Open calls are answered in the child's own copy of that step: the launching call with a notice that this is the child, the
//! other open calls with a notice that their results are the parent's. The messages before are shared, because a shared
//! message must not change. The task comes last, in a message that marks the end of the inherited conversation.

use std::sync::Arc;

use thiserror::Error;

use super::Digest;
use super::child::{Child, NoRoom, fork_for_until};
use crate::count::request_tokens;
use crate::counter::Counter;
use crate::line::Line;
use crate::log::{
    Ids, Info, Message, Millis, Part, PartBody, PartId, Role, Time, ToolPart, ToolState, ToolStatus,
};
use crate::policy::Policy;
use crate::tokens::Tokens;
use crate::window::{Block, Window, WindowMessage};

/// The result of the launching call in the child's conversation.
pub const LAUNCHED: &str = "[Forked: you are the session that this call has started. The session above is your \
                            parent; it continues on its own and receives your last message.]";
/// The result of other calls that were open at the same time.
pub const PARENTS_CALL: &str = "[Forked: this call belongs to the parent session, and so does its result.]";
/// Text between an inherited conversation and the child's task.
pub const TASK_INTRODUCTION: &str = "The conversation above is inherited from the parent session, so that you know \
    what it knows. Do not continue it: the parent does whatever was asked or planned in it. Do only the task below, \
    and answer with its result.";

/// Parts of a request other than the conversation that determine a provider's cached prefix. Hashes can be used instead of the texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The model.
    pub model: String,
    /// The system prompt.
    pub system: String,
    /// The tools with descriptions and schemas, in the order in which they are sent.
    pub tools: String,
}

/// End of the inherited history.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Point<'a> {
    /// The newest message.
    Newest,
    /// The step with this call, which launches the child.
    Call(&'a PartId),
}

/// The session that is forked.
#[derive(Clone, Copy, Debug)]
pub struct Parent<'a> {
    /// The messages of the parent.
    pub messages: &'a [Message],
    /// The policy of both sessions.
    pub policy: &'a Policy,
    /// End of the inherited history.
    pub point: Point<'a>,
    /// Identity of the parent's agent.
    pub identity: &'a Identity,
}

/// A history that a child inherits unchanged.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InheritedHistory {
    /// Number of the parent's messages that are shared with the child.
    pub shared: usize,
    /// The child's own first messages: its copy of the launching step, if there is one, and the task.
    pub seeds: Vec<Message>,
    /// The window over both, which is the child's first request.
    pub window: Window,
    /// Number of messages at the beginning of the window that are identical to the parent's last request.
    pub sent: usize,
    /// Tokens of the child's first request.
    pub tokens: Tokens,
}

/// Context that a child receives from its parent.
#[derive(Clone, Debug)]
pub enum Inheritance {
    /// The parent's conversation.
    History(InheritedHistory),
    /// A digest of the conversation.
    Digest {
        /// The digest, fitted to the child's window.
        digest: Digest,
        /// Reason for which the history could not be inherited.
        why: NoHistory,
    },
}

/// Reason for which a child cannot inherit its parent's history.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NoHistory {
    /// The child runs on another model.
    #[error("the child runs on `{child}`, its parent on `{parent}`")]
    OtherModel {
        /// The parent's model.
        parent: String,
        /// The child's model.
        child: String,
    },
    /// The child's system prompt differs.
    #[error("the child's system prompt differs from its parent's")]
    OtherSystemPrompt,
    /// The child's tools differ.
    #[error("the child's tools differ from its parent's")]
    OtherTools,
    /// The parent's window is empty.
    #[error("the parent has no messages yet")]
    Empty,
    /// The launching call is not in the parent's window.
    #[error("the launching call `{0}` is not in the parent's window")]
    UnknownCall(PartId),
    /// The child's window would not begin with the parent's last request.
    #[error("the child's window would not begin with the parent's last request")]
    Changed,
    /// The child would have too little room.
    #[error(
        "the parent's window and the task have at least {tokens} tokens, but a child may start with {room}"
    )]
    TooLarge {
        /// Minimum tokens of the child's first request.
        tokens: Tokens,
        /// Maximum tokens of a child's first request.
        room: Tokens,
    },
}

/// Passes the parent's history to a child if possible, else a digest.
///
/// `identity` is that of the child's agent; `ids` and `now` are for the child's own messages.
pub fn inherit(
    parent: &Parent<'_>,
    child: &Child<'_>,
    identity: &Identity,
    ids: &mut Ids,
    now: Millis,
    counter: &dyn Counter,
) -> Result<Inheritance, NoRoom> {
    let history = same_agent(parent.identity, identity)
        .and_then(|()| InheritedHistory::of(parent, child, ids, now, counter));
    match history {
        Ok(history) => Ok(Inheritance::History(history)),
        Err(why) => {
            let digest = parent.digest(child, counter)?;
            Ok(Inheritance::Digest { digest, why })
        }
    }
}

/// Checks that two agents share a cached prefix.
pub fn same_agent(parent: &Identity, child: &Identity) -> Result<(), NoHistory> {
    if parent.model != child.model {
        let (parent, child) = (parent.model.clone(), child.model.clone());
        return Err(NoHistory::OtherModel { parent, child });
    }
    if parent.system != child.system {
        return Err(NoHistory::OtherSystemPrompt);
    }
    if parent.tools != child.tools {
        return Err(NoHistory::OtherTools);
    }
    Ok(())
}

impl<'a> Parent<'a> {
    /// Position of the message with the launching call.
    fn launch_place(&self) -> Option<usize> {
        let Point::Call(call) = self.point else { return None };
        let calls = |part: &Part| &part.id == call && is_call(part);
        self.messages.iter().rposition(|message| message.parts.iter().any(calls))
    }

    /// Returns the messages up to the fork point.
    pub fn up_to_fork_point(&self) -> &'a [Message] {
        match self.launch_place() {
            Some(place) => &self.messages[..=place],
            None => self.messages,
        }
    }

    /// Returns the digest for a child: the history at the time of the launching call, without that call and without
    /// other calls that have no result yet.
    pub fn digest(&self, child: &Child<'_>, counter: &dyn Counter) -> Result<Digest, NoRoom> {
        let Some(place) = self.launch_place() else {
            return fork_for_until(self.messages, None, self.policy, child, counter);
        };
        let launching = &self.messages[place];
        let is_launch = |part: &Part| matches!(self.point, Point::Call(call) if &part.id == call);
        let waits = |part: &&Part| part.as_tool().is_some_and(|tool| !tool.state.status.is_final());
        let before = launching.parts.iter().take_while(|part| !is_launch(part)).filter(|part| !waits(part));
        let last = Message { parts: before.cloned().collect(), ..launching.clone() };
        let last = Some(&last).filter(|last| !last.parts.is_empty());
        fork_for_until(&self.messages[..place], last, self.policy, child, counter)
    }

    /// The step whose calls have to be answered, if there is one.
    fn step(&self) -> Result<Option<CallStep>, NoHistory> {
        let launch = match self.point {
            Point::Newest => None,
            Point::Call(call) => Some(call),
        };
        let messages = self.up_to_fork_point();
        let Some(place) = messages.len().checked_sub(1) else { return Err(NoHistory::Empty) };
        let mut steps = steps(messages, place, self.policy);
        let step = match launch {
            Some(launch) => {
                let has_call =
                    |step: &CallStep| step.calls.iter().any(|at| &messages[place].parts[*at].id == launch);
                let unknown = || NoHistory::UnknownCall(launch.clone());
                Some(steps.into_iter().rfind(has_call).ok_or_else(unknown)?)
            }
            // Only the newest step can still wait for results; older ones have been sent.
            None => steps.pop().filter(|step| !step.open.is_empty()),
        };
        Ok(step)
    }
}

/// A step of the assistant's newest message.
struct CallStep {
    /// Position of the message in the log.
    place: usize,
    /// Position of the step in the window.
    at: usize,
    /// Calls, as positions among the message's parts.
    calls: Vec<usize>,
    /// Calls without a result.
    open: Vec<usize>,
}

/// The steps of the message at `place` that call tools, as in the window.
fn steps(messages: &[Message], place: usize, policy: &Policy) -> Vec<CallStep> {
    let parts = &messages[place].parts;
    let window = Window::of(messages, policy);
    let shown = window.messages.iter().enumerate().filter(|(_, message)| message.place == Some(place));
    let mut steps: Vec<CallStep> = Vec::new();
    // The window keeps the order of parts, so each block is searched after the previous one. This also works for
    // imported messages, whose parts may not have unique ids.
    let mut next = 0;
    for (at, message) in shown {
        let mut calls = Vec::new();
        for block in &message.blocks {
            let Block::Call { part: id, .. } = block else { continue };
            let found = (next..parts.len()).find(|at| is_call(&parts[*at]) && &parts[*at].id == id);
            let Some(found) = found else { continue };
            next = found + 1;
            calls.push(found);
        }
        if !calls.is_empty() {
            let results = window.messages.get(at + 1).map(|message| message.blocks.as_slice());
            let results = results.unwrap_or_default().iter();
            let open = calls.iter().zip(results).filter(|(call, result)| is_open(&parts[**call], result));
            let open = open.map(|(call, _)| *call).collect();
            steps.push(CallStep { place, at, calls, open });
        }
    }
    steps
}

fn is_call(part: &Part) -> bool {
    matches!(part.body, PartBody::Tool(_) | PartBody::ToolCall(_))
}

/// Whether a call has no result. The window then generates one with the id of the call's part.
fn is_open(call: &Part, shown: &Block) -> bool {
    match &call.body {
        PartBody::Tool(tool) => !tool.state.status.is_final(),
        _ => matches!(shown, Block::Result { part, .. } if part == &call.id),
    }
}

impl InheritedHistory {
    /// Returns the parent's window up to the point, with all calls answered, followed by the task.
    pub fn of(
        parent: &Parent<'_>,
        child: &Child<'_>,
        ids: &mut Ids,
        now: Millis,
        counter: &dyn Counter,
    ) -> Result<InheritedHistory, NoHistory> {
        let Parent { policy, point, .. } = *parent;
        let messages = parent.up_to_fork_point();
        let line = policy.overflow.line(child.limits).map(Line::room);
        let room = line.map(|line| line.share(policy.fork.history_share));
        if let Some(room) = room {
            refuse_far_too_large(messages, policy, child, room, counter)?;
        }
        let step = parent.step()?;
        let mut parents_window = Window::of(messages, policy);
        let shared = step.as_ref().map_or(messages.len(), |step| step.place);
        parents_window.messages.truncate(step.as_ref().map_or(usize::MAX, |step| step.at));
        let sent = parents_window.messages;
        let mut seeds = Vec::new();
        if let Some(step) = &step {
            seeds.push(closed(&messages[step.place], step, point, ids, now));
        } else if sent.is_empty() {
            return Err(NoHistory::Empty);
        }
        seeds.push(task(child.task, ids, now));
        let whole: Vec<Message> = messages[..shared].iter().chain(&seeds).cloned().collect();
        let window = Window::of(&whole, policy);
        // A cache hit is the purpose of inheriting, so the common prefix is checked and not assumed.
        let begins = window.messages.len() > sent.len() && sent.iter().zip(&window.messages).all(is_same);
        if !begins {
            return Err(NoHistory::Changed);
        }
        let tokens = request_tokens(&window, child.fixed, counter);
        match room {
            Some(room) if tokens > room => Err(NoHistory::TooLarge { tokens, room }),
            _ => Ok(InheritedHistory { shared, seeds, window, sent: sent.len(), tokens }),
        }
    }
}

/// Number of newest messages that are weighed first. Doubled until the result is clear.
const FIRST_LOOK: usize = 256;

/// Rejects a history whose newest messages are already too large. Otherwise an imported session of a hundred thousand
/// messages would be copied and weighed three times, only to find that it does not fit.
///
/// Looks back only as far as nothing was summarised. All of these messages are in the window, so the window of the
/// newest messages is the end of the whole window, except for changes at the cut, such as a result without its call;
/// hence the margin. If there is a summary near the end, the window is small and can be built whole.
fn refuse_far_too_large(
    messages: &[Message],
    policy: &Policy,
    child: &Child<'_>,
    room: Tokens,
    counter: &dyn Counter,
) -> Result<(), NoHistory> {
    let is_plain = |message: &Message| !message.info.summary && message.marker().is_none();
    let mut newest = FIRST_LOOK;
    while newest < messages.len() {
        let latest = &messages[messages.len() - newest..];
        if !latest.iter().all(is_plain) {
            return Ok(());
        }
        let window = Window::of(latest, policy);
        let tokens = request_tokens(&window, child.fixed, counter);
        if tokens > room + room.share(0.125) {
            return Err(NoHistory::TooLarge { tokens, room });
        }
        newest *= 2;
    }
    Ok(())
}

/// The child's copy of a step, with all calls answered, and without everything after the step.
fn closed(message: &Message, step: &CallStep, point: Point<'_>, ids: &mut Ids, now: Millis) -> Message {
    let mut copy = message.clone();
    // Text after the calls belongs to the step until the next one begins.
    let last = step.calls.last().copied().unwrap_or_default();
    let begins_step = |part: &Part| matches!(&part.body, PartBody::Other(kind) if kind == "step-start");
    if let Some(next) = copy.parts[last..].iter().position(begins_step) {
        copy.parts.truncate(last + next);
    }
    copy.info.id = ids.message(now);
    copy.info.session_id = None;
    copy.info.finish.get_or_insert_with(|| "tool-calls".to_owned());
    copy.info.time.get_or_insert_default().completed.get_or_insert(now);
    for at in &step.calls {
        let launches = matches!(point, Point::Call(call) if &copy.parts[*at].id == call);
        let result = match launches {
            true => LAUNCHED,
            false if step.open.contains(at) => PARENTS_CALL,
            false => continue,
        };
        answer(&mut copy.parts[*at], result);
    }
    for part in &mut copy.parts {
        part.id = ids.part(now);
    }
    copy
}

/// Sets the result of a call. A call whose result would be a separate part gets it in the same part; the window is the
/// same for both.
fn answer(part: &mut Part, result: &str) {
    let (call_id, tool, input, time) = match &part.body {
        PartBody::Tool(tool) => {
            (tool.call_id.clone(), tool.tool.clone(), tool.state.input.clone(), tool.state.time.clone())
        }
        PartBody::ToolCall(call) => {
            (call.call_id.clone(), call.tool.clone(), call.input.clone(), Default::default())
        }
        _ => return,
    };
    let state = ToolState {
        status: ToolStatus::Completed,
        input,
        output: Some(result.into()),
        error: None,
        time,
        attachments: Arc::default(),
        extra: Default::default(),
    };
    part.body = PartBody::Tool(ToolPart { call_id, tool, state });
}

/// Formats a child's task with the introduction that separates it from the inherited conversation.
pub fn task_text(task: &str) -> String {
    format!("{TASK_INTRODUCTION}\n\n<task>\n{task}\n</task>")
}

/// The message with the child's task.
fn task(task: &str, ids: &mut Ids, now: Millis) -> Message {
    let text = task_text(task);
    let time = Time { created: Some(now), ..Time::default() };
    let info = Info { id: ids.message(now), role: Some(Role::User), time: Some(time), ..Info::default() };
    Message { info: info.into(), parts: vec![Part::text(ids.part(now), text)].into(), ..Message::default() }
}

/// Whether two messages are the same to a provider, which does not see ids.
fn is_same((one, other): (&WindowMessage, &WindowMessage)) -> bool {
    let blocks = |message: &WindowMessage| -> Vec<Block> { message.blocks.iter().map(without_ids).collect() };
    // Most messages are shared and have the same ids, so they are compared directly first.
    one.role == other.role && (one.blocks == other.blocks || blocks(one) == blocks(other))
}

fn without_ids(block: &Block) -> Block {
    let mut block = block.clone();
    match &mut block {
        Block::Text { part, .. } => *part = None,
        Block::Reasoning { part, .. }
        | Block::Call { part, .. }
        | Block::Result { part, .. }
        | Block::Provider { part, .. }
        | Block::File { part, .. } => *part = PartId::default(),
    }
    block
}

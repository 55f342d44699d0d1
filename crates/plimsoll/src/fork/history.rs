//! A parent's window itself, as the beginning of a child's conversation.
//!
//! A digest costs what it weighs: the provider has never seen it. The parent's window was sent a moment ago and is
//! in the provider's cache, so a child that begins with the very same bytes reads it for a tenth of the price, and
//! knows all that its parent knew. That needs the same model, system prompt and tools, because a cache is looked up
//! by all that comes before; for any other agent there is the digest. [`inherit`] decides.
//!
//! The step in which the parent launches the child has open calls, and a conversation with open calls is not legal.
//! They are closed in the child's own copy of that step: the launching call is told that this is the child, and its
//! siblings that their results are the parent's. What lies before that step is shared and stays as it is. The task
//! comes last, in a message that says where the inherited conversation ends.

use std::sync::Arc;

use thiserror::Error;

use super::Digest;
use super::child::{Child, NoRoom, fork_for_until};
use crate::count::{Counter, Tokens, request_tokens};
use crate::limits::Line;
use crate::log::{
    Ids, Info, Message, Millis, Part, PartBody, PartId, Role, Time, ToolPart, ToolState, ToolStatus,
};
use crate::policy::Policy;
use crate::window::{Block, Window, WindowMessage};

/// The result of the call that launches a child, in the child's own conversation.
pub const LAUNCHED: &str = "[Forked: you are the session that this call has started. The session above is your \
                            parent; it goes on by itself and is given your last message.]";
/// The result of a call that was open beside the launching one.
pub const PARENTS_CALL: &str = "[Forked: this call belongs to the parent session, and so does its result.]";
/// Stands between an inherited conversation and the child's task.
pub const TASK_INTRODUCTION: &str = "The conversation above is inherited from the parent session, so that you know \
    what it knows. It is not yours to continue: whatever was asked or planned in it is done by the parent. Do only \
    the task below, and answer with its result.";

/// What a provider's cache is looked up by, besides the conversation. Hashes will do in place of the texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The model.
    pub model: String,
    /// The system prompt.
    pub system: String,
    /// The tools with their descriptions and schemas, in the order they are sent.
    pub tools: String,
}

/// Up to where a parent's history is inherited.
#[derive(Clone, Copy, Debug)]
pub enum Point<'a> {
    /// All of it.
    Newest,
    /// The step with this call, which launches the child.
    Call(&'a PartId),
}

/// The session that is forked.
#[derive(Clone, Copy, Debug)]
pub struct Parent<'a> {
    /// Its messages.
    pub messages: &'a [Message],
    /// The policy of both sessions.
    pub policy: &'a Policy,
    /// Up to where they are inherited.
    pub point: Point<'a>,
    /// Who its agent is to a provider.
    pub identity: &'a Identity,
}

/// A history that a child inherits as it is.
#[derive(Clone, Debug)]
pub struct InheritedHistory {
    /// So many of the parent's messages are the child's too, unchanged.
    pub shared: usize,
    /// The child's own first messages: its copy of the launching step where there is one, and the task.
    pub seeds: Vec<Message>,
    /// The window over both; the child's first request.
    pub window: Window,
    /// So many messages of the window are those of the parent's last request, byte for byte.
    pub sent: usize,
    /// What the first request weighs.
    pub tokens: Tokens,
}

/// What a child is given of its parent.
#[derive(Clone, Debug)]
pub enum Inheritance {
    /// The parent's conversation itself.
    History(InheritedHistory),
    /// A digest of it.
    Digest {
        /// The digest, sized to the child.
        digest: Digest,
        /// Why not the conversation itself.
        why: NoHistory,
    },
}

/// Why a child cannot inherit its parent's history as it is.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NoHistory {
    /// The child runs on another model.
    #[error("the child runs on `{child}`, its parent on `{parent}`")]
    OtherModel {
        /// The parent's model.
        parent: String,
        /// The child's.
        child: String,
    },
    /// Its system prompt is another.
    #[error("the child has another system prompt than its parent")]
    OtherSystemPrompt,
    /// Its tools are others.
    #[error("the child has other tools than its parent")]
    OtherTools,
    /// The parent's window is empty.
    #[error("the parent has said nothing yet")]
    Empty,
    /// The launching call is not in the parent's window.
    #[error("the launching call `{0}` is not in the parent's window")]
    UnknownCall(PartId),
    /// With the child's own messages the window no longer begins with what the parent has sent.
    #[error("the child's window would not begin with the parent's last request")]
    Changed,
    /// It would leave the child too little room.
    #[error(
        "the parent's window and the task take {tokens} tokens or more, and a child may start with {room}"
    )]
    TooLarge {
        /// What the child's first request would weigh at least.
        tokens: Tokens,
        /// What it may weigh.
        room: Tokens,
    },
}

/// Give a child the parent's history where that is possible, and a digest where it is not.
///
/// `identity` says who the child's agent is to a provider; `ids` and `now` are for the child's own messages.
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

/// Whether two agents are the same to a provider's cache.
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
    /// Where the message with the launching call stands.
    fn launch_place(&self) -> Option<usize> {
        let Point::Call(call) = self.point else { return None };
        let calls = |part: &Part| &part.id == call && is_call(part);
        self.messages.iter().rposition(|message| message.parts.iter().any(calls))
    }

    /// The messages up to the point.
    pub fn until_point(&self) -> &'a [Message] {
        match self.launch_place() {
            Some(place) => &self.messages[..=place],
            None => self.messages,
        }
    }

    /// The digest for a child: the history as it was when the launching call was made, without the call itself and
    /// without calls beside it that have no result.
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

    /// The step whose calls have to be closed, if there is one.
    fn step(&self) -> Result<Option<Step>, NoHistory> {
        let launch = match self.point {
            Point::Newest => None,
            Point::Call(call) => Some(call),
        };
        let messages = self.until_point();
        let Some(place) = messages.len().checked_sub(1) else { return Err(NoHistory::Empty) };
        let mut steps = steps(messages, place, self.policy);
        let step = match launch {
            Some(launch) => {
                let has_call =
                    |step: &Step| step.calls.iter().any(|at| &messages[place].parts[*at].id == launch);
                let unknown = || NoHistory::UnknownCall(launch.clone());
                Some(steps.into_iter().rfind(has_call).ok_or_else(unknown)?)
            }
            // Only the newest step can still be waiting for its results; older ones were sent as they are.
            None => steps.pop().filter(|step| !step.open.is_empty()),
        };
        Ok(step)
    }
}

/// A step of the assistant's newest message.
struct Step {
    /// Where the message stands in the log.
    place: usize,
    /// Where the step stands in the window.
    at: usize,
    /// Its calls, as places among the message's parts.
    calls: Vec<usize>,
    /// Those of them that have no result.
    open: Vec<usize>,
}

/// The steps of the message at `place` that call tools, as the window shows them.
fn steps(messages: &[Message], place: usize, policy: &Policy) -> Vec<Step> {
    let parts = &messages[place].parts;
    let window = Window::of(messages, policy);
    let shown = window.messages.iter().enumerate().filter(|(_, message)| message.place == Some(place));
    let mut steps: Vec<Step> = Vec::new();
    // The window keeps the order of parts, so each block is looked for behind the one before. Parts of imported
    // messages may have no ids of their own.
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
            steps.push(Step { place, at, calls, open });
        }
    }
    steps
}

fn is_call(part: &Part) -> bool {
    matches!(part.body, PartBody::Tool(_) | PartBody::ToolCall(_))
}

/// Whether a call has no result; the window answers such a call itself, in the name of the call's own part.
fn is_open(call: &Part, shown: &Block) -> bool {
    match &call.body {
        PartBody::Tool(tool) => !tool.state.status.is_final(),
        _ => matches!(shown, Block::Result { part, .. } if part == &call.id),
    }
}

impl InheritedHistory {
    /// The parent's window up to the point, closed, and the task behind it.
    pub fn of(
        parent: &Parent<'_>,
        child: &Child<'_>,
        ids: &mut Ids,
        now: Millis,
        counter: &dyn Counter,
    ) -> Result<InheritedHistory, NoHistory> {
        let Parent { policy, point, .. } = *parent;
        let messages = parent.until_point();
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
        // The cache is the reason for all this, so it is looked at and not only argued.
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

/// So many of the newest messages are weighed first, and twice as many each time that they do not decide.
const FIRST_LOOK: usize = 256;

/// Refuse a history whose newest messages alone are too large. An imported session of a hundred thousand messages would
/// otherwise be copied and weighed whole, three times, to learn that it does not fit.
///
/// Only as far back as nothing was summarised: all of that is in the window, and the window of the newest messages is the
/// end of the whole one but for what the cut itself changes there, such as a result whose call is cut off. The margin is for
/// that. What a summary stands for is not in the window; where it comes near the end, the window is small and made whole.
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

/// The child's copy of a step, with all its calls answered. Whatever came behind the step is left out.
fn closed(message: &Message, step: &Step, point: Point<'_>, ids: &mut Ids, now: Millis) -> Message {
    let mut copy = message.clone();
    // What the model says behind its calls belongs to them until the next step begins.
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

/// Give a call this result and no other. A call whose result would be a part of its own gets it in the same part:
/// to the window both are the same.
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

/// A child's task as it stands behind what the child inherits, set apart from it.
pub fn task_text(task: &str) -> String {
    format!("{TASK_INTRODUCTION}\n\n<task>\n{task}\n</task>")
}

/// The child's task, set apart from what it inherits.
fn task(task: &str, ids: &mut Ids, now: Millis) -> Message {
    let text = task_text(task);
    let time = Time { created: Some(now), ..Time::default() };
    let info = Info { id: ids.message(now), role: Some(Role::User), time: Some(time), ..Info::default() };
    Message { info: info.into(), parts: vec![Part::text(ids.part(now), text)].into(), ..Message::default() }
}

/// Whether two messages are the same to a provider, which knows nothing of our ids.
fn is_same((one, other): (&WindowMessage, &WindowMessage)) -> bool {
    let blocks = |message: &WindowMessage| -> Vec<Block> { message.blocks.iter().map(without_ids).collect() };
    // Most are shared and have the same ids too.
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

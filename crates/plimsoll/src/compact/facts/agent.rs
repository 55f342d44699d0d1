//! What the agent said: a report at the end of each turn, and notes on the way.

use std::collections::VecDeque;

use crate::chars::Text;
use crate::log::{Message, MessageId, PartBody};
use crate::redact::redact;

/// A turn as the agent told it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// What it said on the way, oldest first.
    pub notes: Vec<Said>,
    /// The last it said.
    pub report: Option<Said>,
    /// Whether a call was made after the report, so that it is none and the turn has not ended.
    pub unfinished: bool,
    /// Whether the user's next words contradict it, so that what it decided does not hold any more.
    pub corrected: bool,
    /// The newest thoughts since anything was said, newest last, for turns in which little is said.
    pub thoughts: Vec<Said>,
}

/// Something the agent said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// The words, secrets replaced.
    pub text: String,
    /// The message they stand in.
    pub source: MessageId,
}

/// So many thoughts are kept; what was thought before them has been done.
const THOUGHTS: usize = 3;

/// Turns as they are gathered.
#[derive(Default)]
pub(super) struct Turns {
    done: Vec<Turn>,
    open: Turn,
    /// The thoughts since anything was said; they are redacted only if they are needed.
    thoughts: VecDeque<(Text, MessageId)>,
}

impl Turns {
    /// A person speaks: what was said so far is a turn. `corrected` says whether they contradict it.
    pub(super) fn begin(&mut self, corrected: bool) {
        let mut turn = std::mem::take(&mut self.open);
        turn.corrected = corrected;
        self.thoughts.clear();
        if turn.report.is_some() {
            self.done.push(turn);
        }
    }

    /// Take note of a message of the model.
    pub(super) fn message(&mut self, message: &Message) {
        if message.info.error.is_some() {
            return;
        }
        let id = &message.info.id;
        for part in &message.parts {
            match &part.body {
                PartBody::Text(text) if text.ignored != Some(true) => self.say(&text.text, id),
                PartBody::Reasoning(thought) if !thought.text.trim().is_empty() => {
                    self.thoughts.push_back((thought.text.clone(), id.clone()));
                    if self.thoughts.len() > THOUGHTS {
                        self.thoughts.pop_front();
                    }
                }
                PartBody::Tool(tool) => {
                    self.open.unfinished = true;
                    self.plan(&tool.tool, tool.state.input.as_ref().map(|input| input.value()), id);
                }
                PartBody::ToolCall(call) => {
                    self.open.unfinished = true;
                    self.plan(&call.tool, call.input.as_ref().map(|input| input.value()), id);
                }
                _ => {}
            }
        }
    }

    /// A plan handed to a tool for the user to see is something said.
    fn plan(&mut self, tool: &str, input: Option<&serde_json::Value>, id: &MessageId) {
        let is_plan = tool.to_lowercase().contains("plan");
        if let Some(plan) = input.and_then(|input| input.get("plan")?.as_str()).filter(|_| is_plan) {
            self.say(plan, id);
        }
    }

    fn say(&mut self, text: &str, source: &MessageId) {
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        self.thoughts.clear();
        let said = Said { text: redact(text).text, source: source.clone() };
        self.open.notes.extend(self.open.report.replace(said));
        self.open.unfinished = false;
    }

    /// All turns, the newest last.
    pub(super) fn finish(mut self) -> Vec<Turn> {
        let thoughts = std::mem::take(&mut self.thoughts).into_iter();
        self.open.thoughts =
            thoughts.map(|(text, source)| Said { text: redact(text.trim()).text, source }).collect();
        if self.open.report.is_some() || !self.open.thoughts.is_empty() {
            self.done.push(self.open);
        }
        self.done
    }
}

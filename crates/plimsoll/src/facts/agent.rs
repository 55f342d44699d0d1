//! Texts of the agent: a report at the end of each turn, and notes before it.

use std::collections::VecDeque;

use crate::chars::Text;
use crate::log::{Message, MessageId, PartBody};
use crate::redact::redact;

/// Texts of the agent in one turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Texts before the last one, oldest first.
    pub notes: Vec<Statement>,
    /// The last text.
    pub report: Option<Statement>,
    /// Whether a call followed the last text, so that it is not a report and the turn has not ended.
    pub unfinished: bool,
    /// Whether the user's next words contradict the turn, so that its decisions no longer apply.
    pub corrected: bool,
    /// The newest thoughts since the last text, newest last, for turns with little text.
    pub thoughts: Vec<Statement>,
}

/// A text of the agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statement {
    /// The text, redacted.
    pub text: String,
    /// The message that has it.
    pub source: MessageId,
}

/// Maximum number of thoughts that are kept. Older thoughts have already been acted on.
const THOUGHTS: usize = 3;

/// Collects turns.
#[derive(Default)]
pub(super) struct Turns {
    done: Vec<Turn>,
    open: Turn,
    /// Thoughts since the last text. They are redacted only if they are needed.
    thoughts: VecDeque<(Text, MessageId)>,
}

impl Turns {
    /// Ends the turn, because the user sent a message. `corrected` is whether that message contradicts the turn.
    pub(super) fn begin(&mut self, corrected: bool) {
        let mut turn = std::mem::take(&mut self.open);
        turn.corrected = corrected;
        self.thoughts.clear();
        if turn.report.is_some() {
            self.done.push(turn);
        }
    }

    /// Records a message of the model.
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

    /// Records a plan that was passed to a tool, because the user sees it like a text.
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
        let said = Statement { text: redact(text).text, source: source.clone() };
        self.open.notes.extend(self.open.report.replace(said));
        self.open.unfinished = false;
    }

    /// Returns all turns, the newest last.
    pub(super) fn finish(mut self) -> Vec<Turn> {
        let thoughts = std::mem::take(&mut self.thoughts).into_iter();
        self.open.thoughts =
            thoughts.map(|(text, source)| Statement { text: redact(text.trim()).text, source }).collect();
        if self.open.report.is_some() || !self.open.thoughts.is_empty() {
            self.done.push(self.open);
        }
        self.done
    }
}

//! Codex and Claude Code: when the window is nearly full, a summary takes the place of everything, and of the user's
//! newest words as many stay as the rule says.

use plimsoll::chars::{cut_middle, tail};
use plimsoll::compact::extract::extract;
use plimsoll::{
    CharCounter, Chars, Counter, Limits, Message, MessageId, PartBody, PartId, Policy, Role, Text, Tokens,
    Usage, Window,
};
use plimsoll_session::SessionError;

use super::{Asked, Noted, Reduction, Sight};
use crate::pieces::{Piece, Pieces};
use crate::recording::{Call, Step};

/// Leads the summary, which is told to the model as a message of the user.
const LEAD: &str = "A summary of the work so far; go on from it:";
/// Length of the summaries of these systems, about what they were recorded to write.
const STAND_IN: Tokens = Tokens(2_000);
/// What the summariser is told costs about so much.
const INSTRUCTION: u64 = 200;

/// When a system compacts, and what it keeps.
pub(super) struct Rule {
    /// From so many tokens on.
    pub(super) line: u64,
    /// So much of the user's newest messages stays.
    pub(super) user_tokens: Tokens,
    /// The longest result of a tool; longer ones are cut in their middle.
    pub(super) output_tokens: Option<Tokens>,
}

pub(super) struct Summarised {
    rule: Rule,
    limits: Limits,
    fixed: u64,
    policy: Policy,
    history: Vec<Message>,
    /// How many messages at the beginning of the history are left over from a compaction.
    carried: usize,
    summary: Option<Text>,
    compactions: usize,
    /// By how much the provider counted the last request higher than these rules did. They know its usage and estimate
    /// what came since.
    undercount: i64,
    /// What the last request weighed to these rules.
    weighed: u64,
    /// The request, if it was built and nothing has changed since.
    ready: Option<Vec<Piece>>,
    fired: Vec<Noted>,
}

impl Summarised {
    pub(super) fn new(rule: Rule, limits: Limits, fixed: u64) -> Summarised {
        Summarised {
            rule,
            limits,
            fixed,
            policy: Policy::default(),
            history: Vec::new(),
            carried: 0,
            summary: None,
            compactions: 0,
            undercount: 0,
            weighed: 0,
            ready: None,
            fired: Vec::new(),
        }
    }

    fn weigh(&self, request: &[Piece], pieces: &Pieces<'_>) -> u64 {
        pieces.tokens(request).saturating_add(self.fixed)
    }

    /// Put the summary in place of the history.
    fn compact(&mut self, summary: &Text) -> Text {
        self.compactions += 1;
        let host = self.history.iter().filter(|message| message.info.role == Some(Role::System));
        let mut kept: Vec<Message> = host.cloned().collect();
        kept.extend(self.users());
        let id = format!("summary-{}", self.compactions);
        let part = PartId::new(format!("{id}.1"));
        let told = Text::from(format!("{LEAD}\n{summary}"));
        kept.push(Message::user(MessageId::new(id), part, told.clone()));
        self.carried = kept.len();
        self.history = kept;
        self.summary = Some(summary.clone());
        told
    }

    fn stand_in(&self) -> Text {
        let since: Vec<&Message> = self.history[self.carried..].iter().collect();
        extract(&since, self.summary.as_ref(), STAND_IN, &self.policy.summary, &CharCounter::default())
    }

    /// The newest messages of the user, the oldest of them cut to what is left of the budget.
    fn users(&self) -> Vec<Message> {
        let counter = CharCounter::default();
        let mut left = self.rule.user_tokens;
        let mut users = Vec::new();
        let own =
            |message: &&Message| message.starts_turn() && !message.info.id.as_str().starts_with("summary-");
        for message in self.history.iter().rev().filter(own) {
            let text = message.text();
            let tokens = counter.count(&text);
            if tokens <= left {
                left = left - tokens;
                users.push(message.clone());
                continue;
            }
            let most = Chars(left.0.saturating_mul(counter.chars_per_token));
            let part = PartId::new(format!("{}.cut", message.info.id));
            users.push(Message::user(message.info.id.clone(), part, tail(&text, most)));
            break;
        }
        users.retain(|message| !message.text().is_empty());
        users.reverse();
        users
    }

    /// A message with its results cut in their middle.
    fn cut(&mut self, mut message: Message) -> Message {
        let Some(most) = self.rule.output_tokens else { return message };
        let counter = CharCounter::default();
        for part in &mut message.parts {
            let text = match &mut part.body {
                PartBody::Tool(tool) => tool.state.output.as_mut(),
                PartBody::ToolResult(result) => Some(&mut result.text),
                _ => None,
            };
            let Some(text) = text.filter(|text| counter.count_text(text) > most) else { continue };
            let before = counter.count_text(text).0;
            *text = cut_middle(text, Chars(most.0.saturating_mul(counter.chars_per_token)), 0.5);
            let after = counter.count_text(text).0;
            let reduction = Reduction { kind: "truncate".into(), before, after, ..Reduction::default() };
            self.fired.push(reduction.into());
        }
        message
    }
}

impl Sight for Summarised {
    fn append(&mut self, step: &Step, usage: Option<Usage>) -> Result<(), SessionError> {
        self.ready = None;
        if let Some(usage) = usage {
            let counted = usage.input + usage.cache_read + usage.cache_write;
            let known = |tokens: u64| i64::try_from(tokens).unwrap_or(i64::MAX);
            self.undercount = known(counted.0).saturating_sub(known(self.weighed));
        }
        let message = self.cut(step.message.clone());
        self.history.push(message);
        Ok(())
    }

    fn prepare(&mut self, call: &Call, refused: bool, pieces: &mut Pieces<'_>) -> Result<(), SessionError> {
        // A request that is refused ends the turn there; the next one finds the window full.
        if refused || self.history.len() <= self.carried {
            return Ok(());
        }
        let request = self.request(pieces);
        let before = self.weigh(&request, pieces).saturating_add_signed(self.undercount);
        if before < self.rule.line {
            self.weighed = self.weigh(&request, pieces);
            self.ready = Some(request);
            return Ok(());
        }
        let summary = call.summary.clone().unwrap_or_else(|| self.stand_in());
        let told = self.compact(&summary);
        if call.summary.is_none() {
            let sent = pieces.references_in(&request);
            pieces.note_summary(&told, &sent);
        }
        let answer = pieces.charge(&summary);
        // What does not fit into the summary request is left out of it, the oldest first, and then nothing is cached.
        let room = self.limits.context.0.saturating_sub(answer).saturating_sub(INSTRUCTION);
        let fits = pieces.charged(&request).saturating_add(self.fixed) <= room;
        let asked = match fits {
            true => Asked { prefix: Some(request), more: INSTRUCTION, answer },
            false => Asked { prefix: None, more: room.saturating_add(INSTRUCTION), answer },
        };
        let request = self.request(pieces);
        self.weighed = self.weigh(&request, pieces);
        // What is known of the old window says nothing about the new one.
        self.undercount = 0;
        let reduction =
            Reduction { kind: "compact".into(), before, after: self.weighed, ..Reduction::default() };
        self.ready = Some(request);
        self.fired.push(Noted { reduction, asked: vec![asked] });
        Ok(())
    }

    fn request(&mut self, pieces: &mut Pieces<'_>) -> Vec<Piece> {
        if let Some(request) = self.ready.take() {
            return request;
        }
        let window = Window::of(&self.history, &self.policy);
        let mut request = Vec::new();
        window.messages.iter().for_each(|message| pieces.message(message, &mut request));
        request
    }

    fn fired(&mut self) -> Vec<Noted> {
        std::mem::take(&mut self.fired)
    }
}

//! Codex: when the window is nearly full, a summary and the user's newest words take the place of everything.

use plimsoll::chars::tail;
use plimsoll::compact::extract::extract;
use plimsoll::{
    CharCounter, Chars, Counter, Limits, Message, MessageId, PartId, Policy, Role, Text, Tokens, Usage,
    Window,
};

use plimsoll_session::SessionError;

use super::{Reduction, Sight};
use crate::pieces::{Piece, Pieces};
use crate::recording::{Call, Step};

/// The share of the window from which on it is compacted.
const LIMIT: f64 = 0.9;
/// Leads the summary, which is told to the model as a message of the user.
const LEAD: &str = "A summary of the work so far; go on from it:";
/// What the summariser is told costs about so much.
const INSTRUCTION: u64 = 200;

pub(super) struct Codex {
    user_tokens: Tokens,
    limits: Limits,
    fixed: u64,
    policy: Policy,
    history: Vec<Message>,
    /// How many messages at the beginning of the history are left over from a compaction.
    carried: usize,
    summary: Option<Text>,
    compactions: usize,
    /// The request, if it was built and nothing has changed since.
    ready: Option<Vec<Piece>>,
    fired: Vec<Reduction>,
}

impl Codex {
    pub(super) fn new(user_tokens: Tokens, limits: Limits, fixed: u64) -> Codex {
        Codex {
            user_tokens,
            limits,
            fixed,
            policy: Policy::default(),
            history: Vec::new(),
            carried: 0,
            summary: None,
            compactions: 0,
            ready: None,
            fired: Vec::new(),
        }
    }

    fn tokens(&mut self, pieces: &mut Pieces<'_>) -> u64 {
        let request = self.request(pieces);
        pieces.tokens(&request).saturating_add(self.fixed)
    }

    fn compact(&mut self, call: &Call) -> Text {
        let summary = call.summary.clone().unwrap_or_else(|| {
            let since: Vec<&Message> = self.history[self.carried..].iter().collect();
            extract(
                &since,
                self.summary.as_ref(),
                self.policy.compact.extractive_tokens,
                &self.policy.summary,
                &CharCounter::default(),
            )
        });
        self.compactions += 1;
        let host = self.history.iter().filter(|message| message.info.role == Some(Role::System));
        let mut kept: Vec<Message> = host.cloned().collect();
        kept.extend(self.users());
        let id = format!("codex-summary-{}", self.compactions);
        let part = PartId::new(format!("{id}.1"));
        kept.push(Message::user(MessageId::new(id), part, format!("{LEAD}\n{summary}")));
        self.carried = kept.len();
        self.history = kept;
        self.summary = Some(summary.clone());
        summary
    }

    /// The newest messages of the user, the oldest of them cut to what is left of the budget.
    fn users(&self) -> Vec<Message> {
        let counter = CharCounter::default();
        let mut left = self.user_tokens;
        let mut users = Vec::new();
        let own = |message: &&Message| {
            message.starts_turn() && !message.info.id.as_str().starts_with("codex-summary-")
        };
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
}

impl Sight for Codex {
    fn append(&mut self, step: &Step, _: Option<Usage>) -> Result<(), SessionError> {
        self.ready = None;
        self.history.push(step.message.clone());
        Ok(())
    }

    fn prepare(&mut self, call: &Call, refused: bool, pieces: &mut Pieces<'_>) -> Result<(), SessionError> {
        // A request that is refused ends the turn there; the next one finds the window full.
        if refused || self.history.len() <= self.carried {
            return Ok(());
        }
        let request = self.request(pieces);
        let before = pieces.tokens(&request).saturating_add(self.fixed);
        if before < self.limits.context.share(LIMIT).0 {
            self.ready = Some(request);
            return Ok(());
        }
        let summary = self.compact(call);
        let after = self.tokens(pieces);
        let answered = CharCounter::default().count_text(&summary).0;
        // What does not fit into the summary request is left out of it, the oldest first.
        let asked = before.saturating_add(INSTRUCTION).min(self.limits.context.0.saturating_sub(answered));
        self.fired.push(Reduction { kind: "compact".into(), before, after, asked, answered });
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

    fn fired(&mut self) -> Vec<Reduction> {
        std::mem::take(&mut self.fired)
    }
}

//! Codex and Claude Code: when the window is nearly full, a summary replaces everything except the newest user
//! messages.

use std::borrow::Cow;
use std::ops::Range;

use plimsoll::compact::extract;
use plimsoll::{
    CharCounter, Chars, Counter, Message, MessageId, Millis, Part, PartBody, PartId, Policy, Role, Text,
    Tokens, Usage, Window, cut_middle, tail,
};
use plimsoll_session::SessionError;

use super::{CostedReduction, PolicySimulator, SummaryTokens};
use crate::billing::Billing;
use crate::recording::{Layout, ModelCall, Pieces, RecordedMessage, Recording};
use crate::report::Reduction;
use crate::request::Request;

/// Precedes the summary, which is sent as a user message.
const LEAD: &str = "A summary of the work so far; continue from it:";
/// Length of these systems' summaries, about that of recorded ones of Claude Code.
const STAND_IN: Tokens = Tokens(3_000);
/// Approximate tokens of the summariser's instruction.
const INSTRUCTION: u64 = 200;

/// Placeholder of a result that was cleared while nothing was in the cache.
const CLEARED: &str = "[Old tool result content cleared]";

/// When a system compacts, and what it keeps.
pub(super) struct Rule {
    /// Tokens from which on it compacts.
    pub(super) line: u64,
    /// Tokens of the newest user messages that stay.
    pub(super) user_tokens: Tokens,
    /// Maximum tokens of a tool result; longer ones are cut in the middle.
    pub(super) output_tokens: Option<Tokens>,
    /// Whether old results are cleared after a pause.
    pub(super) clears_when_idle: Option<Idle>,
}

/// Clearing of old results when the cache has expired.
#[derive(Clone, Copy)]
pub(super) struct Idle {
    /// Minimum pause since the last call.
    pub(super) after: Millis,
    /// Number of the newest results that stay.
    pub(super) keep: usize,
}

pub(super) struct SummarySimulator<'a> {
    rule: Rule,
    billing: Billing<'a>,
    layout: &'a Layout,
    policy: Policy,
    history: Vec<Cow<'a, Message>>,
    recording: &'a Recording,
    /// Number of messages at the beginning of the history that come from a compaction.
    carried: usize,
    /// Number of recorded messages so far, and how many of them the request or a summary covers.
    appended: usize,
    covered: usize,
    /// Indices in the request of results that can be cleared.
    results: Vec<usize>,
    /// Time of the last call.
    called: Option<Millis>,
    summary: Option<Text>,
    compactions: usize,
    /// Usage of the last answer, request and output, until the answer is part of the request.
    usage: Option<u64>,
    /// By how much the provider's count of the last request and its answer exceeded the rules' count. The rules know
    /// its usage and estimate what came since.
    undercount: i64,
    /// Tokens of the last request by the rules' count.
    weighed: u64,
    fired: Vec<CostedReduction>,
}

impl<'a> SummarySimulator<'a> {
    pub(super) fn new(rule: Rule, recording: &'a Recording, billing: Billing<'a>) -> SummarySimulator<'a> {
        SummarySimulator {
            rule,
            billing,
            layout: recording.layout(),
            policy: Policy::default(),
            history: Vec::new(),
            recording,
            carried: 0,
            appended: 0,
            covered: 0,
            results: Vec::new(),
            called: None,
            summary: None,
            compactions: 0,
            usage: None,
            undercount: 0,
            weighed: 0,
            fired: Vec::new(),
        }
    }

    fn weigh(&self, request: &Request) -> u64 {
        request.counted().saturating_add(self.billing.fixed)
    }

    /// Extends the request to all messages so far, with long results cut.
    fn cover(&mut self, request: &mut Request, pieces: &mut Pieces<'_>) {
        let Layout { pieces: all, results, ends, .. } = self.layout;
        let (mut at, end) = (ends[self.covered], ends[self.appended]);
        let mut result = results.partition_point(|result| result.start < at);
        if let Some(usage) = self.usage.take() {
            // The newest answer is the first message that is not covered. Its results came after its usage.
            let until = ends[self.covered + 1];
            let weight =
                |places: Range<usize>| all[places].iter().map(|piece| pieces.tokens(*piece)).sum::<u64>();
            let brought = results[result..].iter().take_while(|result| result.start < until);
            let brought: u64 = brought.map(|result| weight(result.clone())).sum();
            let said = weight(at..until).saturating_sub(brought);
            let known = |tokens: u64| i64::try_from(tokens).unwrap_or(i64::MAX);
            self.undercount = known(usage).saturating_sub(known(self.weighed.saturating_add(said)));
        }
        while at < end {
            let next = results.get(result).filter(|result| result.start < end);
            let until = next.map_or(end, |result| result.start);
            request.extend(&all[at..until], pieces);
            at = until;
            if let Some(range) = next {
                self.results.push(request.len());
                let text = pieces.text(all[range.start]).clone();
                let cut = self.rule.output_tokens.and_then(|most| cut(&text, most));
                let shown = cut.map_or(all[range.start], |text| pieces.result(&text));
                request.push(shown, pieces);
                request.extend(&all[range.start + 1..range.end], pieces);
                (at, result) = (range.end, result + 1);
            }
        }
        self.covered = self.appended;
    }

    /// Clears old results if the cache has expired since the last call.
    fn clear_if_idle(&mut self, call: &ModelCall, request: &mut Request, pieces: &mut Pieces<'_>) {
        let (Some(idle), Some(called), Some(now)) = (self.rule.clears_when_idle, self.called, call.at) else {
            return;
        };
        if now.0.saturating_sub(called.0) <= idle.after.0 || self.results.len() <= idle.keep {
            return;
        }
        let placeholder = pieces.result(&Text::from(CLEARED));
        let kept = self.results.split_off(self.results.len() - idle.keep);
        let cleared = std::mem::replace(&mut self.results, kept);
        let (before, weighed) = (self.billing.tokens(request.charged(), call), self.weigh(request));
        let first = cleared[0];
        let mut rest = request.from(first).to_vec();
        cleared.iter().for_each(|place| rest[place - first] = placeholder);
        request.keep(first, pieces);
        request.extend(&rest, pieces);
        let after = self.billing.tokens(request.charged(), call);
        // The usage of the last answer included what was removed.
        let known = |before: u64, after: u64| i64::try_from(before.saturating_sub(after)).unwrap_or(i64::MAX);
        let freed = known(before, after).saturating_sub(known(weighed, self.weigh(request)));
        self.undercount = self.undercount.saturating_sub(freed);
        self.fired.push(Reduction { kind: "clear".into(), before, after, ..Reduction::default() }.into());
    }

    /// Replaces the history by the summary.
    fn compact(&mut self, summary: &Text) -> Text {
        self.compactions += 1;
        let host = self.history.iter().filter(|message| message.info.role == Some(Role::System));
        let mut kept: Vec<Cow<'a, Message>> = host.cloned().collect();
        kept.extend(self.users().into_iter().map(Cow::Owned));
        let id = format!("summary-{}", self.compactions);
        let part = PartId::new(format!("{id}.1"));
        let rendered = Text::from(format!("{LEAD}\n{summary}"));
        kept.push(Cow::Owned(Message::user(MessageId::new(id), part, rendered.clone())));
        self.carried = kept.len();
        self.history = kept;
        self.summary = Some(summary.clone());
        self.results.clear();
        rendered
    }

    fn stand_in(&self) -> Text {
        let since: Vec<&Message> = self.history[self.carried..].iter().map(|message| &**message).collect();
        extract(&since, self.summary.as_ref(), STAND_IN, &self.policy.summary, &CharCounter::default())
    }

    /// Returns the cost of the summary request. If messages do not fit, the oldest are left out, and then nothing is
    /// cached.
    fn ask(&self, call: &ModelCall, answer: u64, request: &Request, pieces: &Pieces<'_>) -> SummaryTokens {
        let context = self.billing.params.context.0;
        let room = context.saturating_sub(answer).saturating_sub(INSTRUCTION);
        let own = self.billing.tokens(request.charged(), call);
        if own > room {
            return SummaryTokens {
                more: room.saturating_add(INSTRUCTION),
                answer,
                ..SummaryTokens::default()
            };
        }
        SummaryTokens { own, read: self.billing.read(request, call, pieces), more: INSTRUCTION, answer }
    }

    /// Returns the newest user messages; the oldest of them is cut to the rest of the budget.
    fn users(&self) -> Vec<Message> {
        let counter = CharCounter::default();
        let mut left = self.rule.user_tokens;
        let mut users = Vec::new();
        let own = |message: &&Cow<'_, Message>| {
            // Earlier summaries are user messages too, with ids from `compact`.
            message.starts_turn() && !message.info.id.as_str().starts_with("summary-")
        };
        for message in self.history.iter().rev().filter(own) {
            let text = message.text();
            let tokens = counter.count(&text);
            if tokens <= left {
                left = left - tokens;
                users.push(message.clone().into_owned());
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

    /// Returns a message with its results cut in the middle.
    fn with_cut_results(&mut self, message: &'a Message) -> Cow<'a, Message> {
        let Some(most) = self.rule.output_tokens else { return Cow::Borrowed(message) };
        let mut shown = Cow::Borrowed(message);
        for (at, part) in message.parts.iter().enumerate() {
            let Some(cut) = result_of(part).and_then(|text| cut(text, most)) else { continue };
            let counter = CharCounter::default();
            let before = result_of(part).map(|text| counter.count_text(text).0).unwrap_or_default();
            let after = counter.count_text(&cut).0;
            match &mut shown.to_mut().parts[at].body {
                PartBody::Tool(tool) => tool.state.output = Some(cut),
                PartBody::ToolResult(result) => result.text = cut,
                _ => {}
            }
            let reduction = Reduction { kind: "truncate".into(), before, after, ..Reduction::default() };
            self.fired.push(reduction.into());
        }
        shown
    }
}

fn result_of(part: &Part) -> Option<&Text> {
    match &part.body {
        PartBody::Tool(tool) => tool.state.output.as_ref(),
        PartBody::ToolResult(result) => Some(&result.text),
        _ => None,
    }
}

/// Cuts a text in the middle if it is longer than `most`.
fn cut(text: &Text, most: Tokens) -> Option<Text> {
    let counter = CharCounter::default();
    let is_long = counter.count_text(text) > most;
    is_long.then(|| cut_middle(text, Chars(most.0.saturating_mul(counter.chars_per_token)), 0.5))
}

impl PolicySimulator for SummarySimulator<'_> {
    fn append(&mut self, step: &RecordedMessage, usage: Option<Usage>) -> Result<(), SessionError> {
        if let Some(usage) = usage {
            let counted = usage.input + usage.cache_read + usage.cache_write + usage.output;
            self.usage = Some(counted.0);
        }
        if let Some(call) = &step.call {
            self.called = call.at;
        }
        let message = self.with_cut_results(&self.recording.steps[self.appended].message);
        self.history.push(message);
        self.appended += 1;
        Ok(())
    }

    fn prepare(
        &mut self,
        call: &ModelCall,
        refused: bool,
        request: &mut Request,
        pieces: &mut Pieces<'_>,
    ) -> Result<(), SessionError> {
        self.cover(request, pieces);
        // A rejected request ends the turn; the next one finds the window full.
        if refused || self.history.len() <= self.carried {
            return Ok(());
        }
        self.clear_if_idle(call, request, pieces);
        self.weighed = self.weigh(request);
        if self.weighed.saturating_add_signed(self.undercount) < self.rule.line {
            return Ok(());
        }
        let before = self.billing.tokens(request.charged(), call);
        let summary = call.summary.clone().unwrap_or_else(|| self.stand_in());
        let rendered = self.compact(&summary);
        if call.summary.is_none() {
            let sent = request.references().collect();
            pieces.note_summary(&rendered, &sent);
        }
        let asked = self.ask(call, pieces.charge(&summary), request, pieces);
        let kept: Vec<Message> = self.history.iter().map(|message| message.clone().into_owned()).collect();
        let mut list = Vec::new();
        let window = Window::of(&kept, &self.policy);
        window.messages.iter().for_each(|message| pieces.message(message, &mut list));
        request.become_list(&list, pieces);
        self.weighed = self.weigh(request);
        // What is known of the old window does not apply to the new one.
        self.undercount = 0;
        let after = self.billing.tokens(request.charged(), call);
        let reduction = Reduction { kind: "compact".into(), before, after, ..Reduction::default() };
        self.fired.push(CostedReduction { reduction, asked: vec![asked] });
        Ok(())
    }

    fn fired(&mut self) -> Vec<CostedReduction> {
        std::mem::take(&mut self.fired)
    }
}

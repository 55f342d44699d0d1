//! What the usage that a session records says about its windows.
//!
//! A recorded session shows what was said, and beside some of its answers what the provider counted for the request.
//! [`WindowMeter`] follows such a session message by message, keeps of each message what it measures, and holds every
//! recorded request against the window as it can be rebuilt at that moment. [`Measured`] is what follows: the factor
//! by which this model counts, the hidden part that no transcript shows (system prompt, schemas of tools), and the
//! weight of the window now.
//!
//! ## What is fitted, and what is checked
//!
//! The factor is fitted to all increments of the session. The hidden part is taken from the first responses alone, so
//! that every later request checks the reading of the file: where messages are lost or read twice, the rebuilt windows
//! leave the recorded ones, and [`Measured::gap`] grows.

use std::collections::VecDeque;

use plimsoll::log::{CompactionPart, ToolPart};
use plimsoll::{
    Counter, Fixed, Load, Memo, Message, MessageId, Millis, PartBody, Policy, Role, Text, Tokens, Usage,
};

use crate::bpe::Bpe;
use crate::calibrate::{Calibration, Estimate, Measure};
use crate::counter::Calibrated;

/// So many responses tell how much is hidden; the later ones check it.
pub const FIRST_RESPONSES: usize = 4;
/// A reply that was billed with less than this share of what its text comes to was not counted to its end: some
/// writers keep the count from when its stream began.
const LEAST_BILLED: f64 = 0.8;

/// So many messages are known by name. Tails of compactions are shorter.
const MOST_NEWEST: usize = 4_096;
/// So many requests are kept.
const MOST_REQUESTS: usize = 20_000;

/// Follows a recorded session, message by message. It keeps numbers and no text, and no more of them for a session that
/// is very long.
///
/// Nothing records whether an answer's hidden reasoning is sent again with the next request: some providers take it
/// back for a while, some drop it. So the session is followed in both ways, and the one that explains its usage better
/// is believed.
#[derive(Clone)]
pub struct WindowMeter {
    base: Memo<Bpe>,
    tracks: [Track; 2],
    /// The marker of a compaction whose summary is still to come.
    marker: Option<CompactionPart>,
    /// Results that were cleared later: when, in which message, and what each of them measures.
    cleared: Vec<(Millis, MessageId, Measure)>,
}

/// The session as it is followed in one of the ways.
#[derive(Clone, Default)]
struct Track {
    /// The newest messages in the window, oldest first: the tail of a compaction begins with one of them.
    newest: VecDeque<(MessageId, Role, Measure)>,
    /// System messages among the older ones, which stay in view, and everything that is in the window.
    system: Measure,
    sent: Measure,
    requests: Vec<Request>,
    calibration: Option<Calibration>,
}

/// A request whose usage was recorded.
#[derive(Clone, Copy, Debug)]
struct Request {
    measure: Measure,
    recorded: Tokens,
}

impl Default for WindowMeter {
    fn default() -> WindowMeter {
        WindowMeter {
            base: Memo::new(Bpe::O200k),
            tracks: Default::default(),
            marker: None,
            cleared: Vec::new(),
        }
    }
}

impl WindowMeter {
    /// Follow a whole session. Nothing is counted if it records no usage.
    pub fn of(messages: &[Message]) -> WindowMeter {
        let mut meter = WindowMeter::default();
        if messages.iter().any(records_usage) {
            messages.iter().for_each(|message| meter.add(message));
        }
        meter
    }

    /// The next message of the session.
    pub fn add(&mut self, message: &Message) {
        if let Some(marker) = message.marker() {
            self.marker = marker.set_aside.is_none().then(|| marker.clone());
            return;
        }
        if message.info.summary {
            if let Some(marker) = self.marker.take().filter(|_| message.is_finished_summary()) {
                let [measure, _] = self.measure(message, None);
                self.tracks.iter_mut().for_each(|track| track.compact(&marker, message, measure));
            }
            return;
        }
        let usage = message.info.tokens.as_ref().filter(|_| message.is_assistant());
        if let Some(usage) = usage.filter(|_| message.info.error.is_none()) {
            let model = message.info.model_id.as_deref();
            self.clear_until(message);
            self.tracks.iter_mut().for_each(|track| track.observe(model, usage));
        }
        // A request does not repeat an answer that failed, unless it was broken off.
        let failed = message.info.error.as_ref().is_some_and(|error| error["name"] != "MessageAbortedError");
        if failed {
            return;
        }
        for part in &message.parts {
            let result = part.as_tool().and_then(|tool| tool.state.result());
            if let (Some(at), Some(result)) = (part.cleared(), result) {
                let measure = Measure::new(self.base.count_text(result), 0);
                self.cleared.push((at, message.info.id.clone(), measure));
            }
        }
        let measures = self.measure(message, usage);
        self.tracks.iter_mut().zip(measures).for_each(|(track, measure)| track.push(message, measure));
    }

    /// Take results out of the window that were cleared before this answer was asked for.
    fn clear_until(&mut self, answer: &Message) {
        let Some(asked) = answer.info.time.as_ref().and_then(|time| time.created) else { return };
        for (at, message, measure) in std::mem::take(&mut self.cleared) {
            if at <= asked {
                self.tracks.iter_mut().for_each(|track| track.clear(&message, measure));
            } else {
                self.cleared.push((at, message, measure));
            }
        }
    }

    /// What a message adds to the window: with its reasoning, at the price it was billed with; and without.
    fn measure(&self, message: &Message, usage: Option<&Usage>) -> [Measure; 2] {
        let count = |text: &Text| Measure::new(self.base.count_text(text), 1);
        let file = Measure::default().with_exact(self.base.file_tokens());
        let [mut said, mut thought, mut given] = [Measure::default(); 3];
        for part in &message.parts {
            match &part.body {
                PartBody::Text(text) if text.ignored != Some(true) && !text.text.is_empty() => {
                    said = said + count(&text.text);
                }
                PartBody::Reasoning(part) if !part.text.is_empty() => thought = thought + count(&part.text),
                PartBody::Tool(tool) => {
                    said = said + self.call(tool);
                    if let Some(result) = tool.state.result() {
                        given = given + count(result);
                    }
                    given = tool.state.attachments.iter().fold(given, |given, _| given + file);
                }
                PartBody::ToolResult(result) => given = given + count(&result.text),
                PartBody::File(_) => given = given + file,
                _ => {}
            }
        }
        let whole = said + thought;
        let Some(usage) = usage else { return [whole + given, said + given] };
        let billed = |tokens: Tokens, counted: Measure| {
            let is_whole = tokens.0 as f64 > LEAST_BILLED * counted.base.0 as f64;
            is_whole.then(|| Measure::default().with_exact(tokens))
        };
        let with = billed(usage.output + usage.reasoning, whole).unwrap_or(whole);
        // Where reasoning is not counted by itself, the text is all there is to go by.
        let is_apart = usage.reasoning > Tokens::ZERO;
        let without = billed(usage.output, said).filter(|_| is_apart).unwrap_or(said);
        [with + given, without + given]
    }

    fn call(&self, tool: &ToolPart) -> Measure {
        let input = tool.state.input.as_ref().map(|input| self.base.count_text(input.json()));
        Measure::new(self.base.count(&tool.tool) + input.unwrap_or_default(), 1)
    }

    /// What the recorded usage says, if there is any.
    pub fn read(self) -> Option<Measured> {
        let WindowMeter { base, tracks: [with, without], .. } = self;
        let (with, without) = (with.read()?, without.read()?);
        let better = if without.error() < with.error() { without } else { with };
        Some(Measured { base, ..better })
    }
}

/// Whether a message records what its request was counted with. A session without any can only be estimated, and need
/// not be counted by a vocabulary, which takes longer than reading it.
pub fn records_usage(message: &Message) -> bool {
    let request = |usage: &Usage| usage.input + usage.cache_read + usage.cache_write;
    message.is_assistant() && message.info.tokens.as_ref().is_some_and(|usage| request(usage) > Tokens::ZERO)
}

impl Track {
    fn push(&mut self, message: &Message, measure: Measure) {
        let role = message.info.role.clone().unwrap_or(Role::User);
        self.add((message.info.id.clone(), role, measure));
    }

    fn add(&mut self, shown: (MessageId, Role, Measure)) {
        self.sent = self.sent + shown.2;
        self.newest.push_back(shown);
        if self.newest.len() > MOST_NEWEST
            && let Some((_, Role::System, measure)) = self.newest.pop_front()
        {
            self.system = self.system + measure;
        }
    }

    /// A result of a message is no longer shown.
    fn clear(&mut self, message: &MessageId, result: Measure) {
        let shown = self.newest.iter_mut().find(|(id, ..)| id == message);
        if let Some((.., measure)) = shown {
            measure.base = measure.base - result.base;
            self.sent.base = self.sent.base - result.base;
        }
    }

    /// A summary stands for all but system messages and the tail.
    fn compact(&mut self, marker: &CompactionPart, summary: &Message, measure: Measure) {
        let tail = marker.tail_start.as_ref();
        let tail = tail.and_then(|start| self.newest.iter().position(|(id, ..)| id == start));
        let tail = self.newest.split_off(tail.unwrap_or(self.newest.len()));
        let mut older = std::mem::take(&mut self.newest);
        older.retain(|(_, role, _)| *role == Role::System);
        self.sent = self.system;
        older.into_iter().for_each(|shown| self.add(shown));
        self.push(summary, measure);
        tail.into_iter().for_each(|shown| self.add(shown));
    }

    fn observe(&mut self, model: Option<&str>, usage: &Usage) {
        let recorded = usage.input + usage.cache_read + usage.cache_write;
        if recorded == Tokens::ZERO {
            return;
        }
        let calibration = &mut self.calibration;
        let calibration = calibration.get_or_insert_with(|| Calibration::new(model.unwrap_or_default()));
        calibration.observe(self.sent, recorded);
        // Of a very long session every other request is as good a check as all of them. The last is always there.
        if self.requests.len() >= MOST_REQUESTS {
            let mut number = 0;
            self.requests.retain(|_| {
                number += 1;
                number <= FIRST_RESPONSES || number % 2 == 0
            });
        }
        self.requests.push(Request { measure: self.sent, recorded });
    }

    fn read(self) -> Option<Measured> {
        let Track { sent, requests, calibration, .. } = self;
        let calibration = calibration.filter(|_| !requests.is_empty())?;
        let mut measured =
            Measured { base: Memo::new(Bpe::O200k), calibration, hidden: 0.0, requests, next: sent };
        let first = measured.requests.iter().take(FIRST_RESPONSES);
        let mut hidden: Vec<f64> =
            first.map(|request| request.recorded.0 as f64 - measured.content(request.measure)).collect();
        hidden.sort_by(f64::total_cmp);
        // The lower of two in the middle: what comes with a later request only is not part of every request.
        measured.hidden = hidden.get((hidden.len().max(1) - 1) / 2).copied().unwrap_or(0.0);
        Some(measured)
    }
}

/// What the usage of a session says about how its requests were counted.
///
/// This is the one place where recorded usage becomes weights: what shows a session and what replays it under other
/// rules ask the same value.
///
/// ```
/// use plimsoll::{Message, Tokens, Usage};
/// use plimsoll_tokens::WindowMeter;
///
/// let mut answer = Message::assistant("a1".into(), vec![plimsoll::Part::text("a1.1".into(), "A README.")]);
/// answer.info.tokens = Some(Usage::new(Tokens(18_000), Tokens(40)));
/// let session = [Message::user("u1".into(), "u1.1".into(), "What is in the folder?"), answer];
///
/// let measured = WindowMeter::of(&session).read().unwrap();
/// assert!(measured.hidden() > Tokens(17_900)); // the system prompt, which the session does not show
/// assert_eq!(measured.window().tokens, Tokens(18_040)); // the last request and its answer
/// ```
pub struct Measured {
    base: Memo<Bpe>,
    calibration: Calibration,
    hidden: f64,
    requests: Vec<Request>,
    next: Measure,
}

impl Measured {
    /// Tokens of the session's model for one of o200k.
    pub fn factor(&self) -> f64 {
        self.calibration.factor()
    }

    /// What every request carries that the session does not show: the system prompt, the schemas of tools.
    pub fn hidden(&self) -> Tokens {
        Tokens(self.hidden.max(0.0).round() as u64)
    }

    /// A counter with the session's factor. It does not know of the hidden part.
    pub fn counter(&self) -> Calibrated<&Memo<Bpe>> {
        self.calibration.counter(&self.base)
    }

    /// What a request weighs: its window as the base counter measures it, the factor applied, and the hidden part.
    pub fn weigh(&self, window: Measure) -> Tokens {
        Tokens((self.content(window) + self.hidden).max(0.0).round() as u64)
    }

    fn content(&self, window: Measure) -> f64 {
        let counted = self.factor() * window.base.0 as f64;
        counted + self.calibration.per_block() * window.blocks as f64 + window.exact.0 as f64
    }

    /// The mean distance of rebuilt requests from recorded ones, as a share of them.
    fn error(&self) -> f64 {
        let misses = self.requests().map(|(recorded, rebuilt)| {
            (rebuilt.0.abs_diff(recorded.0) as f64 / recorded.0.max(1) as f64).min(1.0)
        });
        misses.sum::<f64>() / self.requests.len().max(1) as f64
    }

    /// What a window measures by the base counter, to be [weighed](Measured::weigh).
    pub fn measure(&self, window: &plimsoll::Window) -> Measure {
        Measure::of_window(window, &self.base)
    }

    /// The window now: the last recorded request, and an estimate of what came since. It holds as long as nothing was
    /// reduced after that request; see [`Measured::window_of`].
    pub fn window(&self) -> Estimate {
        self.calibration.next(self.next)
    }

    /// The window now, of a session with these messages whose window comes to `visible` by [`Measured::counter`]. What
    /// was recorded no longer holds once anything was reduced: then what is shown and what is hidden are added up.
    pub fn window_of(&self, messages: &[Message], policy: &Policy, visible: Tokens) -> Tokens {
        let load = Load::of(messages, policy, Fixed::default(), &policy.count);
        if load.usage_of.is_some() { self.window().tokens } else { visible + self.hidden() }
    }

    /// Each request whose usage was recorded, with its weight as rebuilt from what the session shows.
    pub fn requests(&self) -> impl ExactSizeIterator<Item = (Tokens, Tokens)> + DoubleEndedIterator {
        self.requests.iter().map(|request| (request.recorded, self.weigh(request.measure)))
    }

    /// The newest request whose usage was recorded.
    pub fn last_request(&self) -> Tokens {
        self.requests.last().map(|request| request.recorded).unwrap_or_default()
    }

    /// By how much the last recorded request is larger than the rebuilt one, as a share of it; below zero if it is
    /// smaller. Responses that the hidden part was taken from say nothing: then there is none.
    pub fn gap(&self) -> Option<f64> {
        let (recorded, rebuilt) = self.requests().nth(self.requests.len().checked_sub(1)?)?;
        let is_checked = self.requests.len() > FIRST_RESPONSES;
        is_checked.then(|| (recorded.0 as f64 - rebuilt.0 as f64) / recorded.0.max(1) as f64)
    }
}

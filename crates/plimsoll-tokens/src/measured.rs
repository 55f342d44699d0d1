//! Window sizes from the usage that a session records.
//!
//! A recorded session contains its messages, and with some answers what the provider counted for the request.
//! [`WindowMeter`] follows such a session message by message, measures each message, and compares every recorded
//! request with the window as it can be rebuilt at that moment. [`Measured`] is the result: the factor by which this
//! model counts, the hidden part that no transcript contains (system prompt, tool schemas), and the current size of the
//! window.
//!
//! ## What is fitted, and what is checked
//!
//! The factor is fitted to all increments of the session. The hidden part is taken from the first responses only, so
//! that every later request checks the reading of the file: if messages are lost or read twice, the rebuilt windows
//! deviate from the recorded ones, and [`Measured::gap`] grows. A session that another host continues is measured by
//! that host's requests only.
//!
//! ## After a reduction
//!
//! No response contains the size of a reduced window before the next request. Rebuilding it from scratch would move the
//! figure by the whole gap between rebuilt and recorded windows, in either direction: a window could look larger than
//! before although messages had left it. So the last figure stays the reference, and is reduced by the share of the
//! rebuilt content that left the window.

mod checkpoint;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use plimsoll::log::{CompactionPart, LogPosition};
use plimsoll::{Memo, Message, MessageId, Role, Tokens, Usage, floor};
use serde::{Deserialize, Serialize};

use crate::bpe::Bpe;
use crate::calibrate::{Calibration, Estimate};
use crate::counter::Calibrated;
use crate::fit::{FACTOR, least_factor};
use crate::measure::Measure;
use crate::shown::{ShownMeasure, reductions};

pub use checkpoint::MeterCheckpoint;

/// Number of responses that determine the hidden part; later ones check it.
pub const FIRST_RESPONSES: usize = 4;
/// Number of messages whose ids are kept. Tails of compactions are shorter.
const MAX_NEWEST: usize = 4_096;
/// Maximum number of requests that are kept.
const MAX_REQUESTS: usize = 20_000;

/// Follows a recorded session, message by message. It stores numbers and no text, and its size is bounded.
///
/// Nothing records whether an answer's hidden reasoning is sent again with the next request: some providers keep it for
/// a while, some drop it. So the session is followed in both ways, and the one that explains its usage better is used.
#[derive(Clone)]
pub struct WindowMeter {
    base: Memo<Bpe>,
    tracks: [Track; 2],
    /// The marker of a compaction whose summary has not arrived yet.
    marker: Option<CompactionPart>,
    /// Position of the newest undo of a compaction, until the session reaches it.
    undo: Option<LogPosition>,
    /// Whether the last request was sent by this host, and not by the tool that the session came from.
    is_own: Option<bool>,
    /// Number of messages so far.
    count: u64,
    /// Reductions and undos of known messages that the session has not reached yet: by the message after which they
    /// were made, and those of which only the time is known.
    later: BTreeMap<MessageId, Vec<Change>>,
    timed: Vec<Change>,
    /// Changes that were reached, for the next request.
    due: Vec<Change>,
}

/// Change of a message's measure by a reduction or an undo.
#[derive(Clone)]
struct Change {
    at: LogPosition,
    /// Number of the message. Thousands of changes look up their messages, and numbers are compared faster than ids.
    number: u64,
    /// Measure of the message before and after, for each track.
    from: [Measure; 2],
    to: [Measure; 2],
}

/// A message in the window.
#[derive(Clone)]
struct Entry {
    number: u64,
    id: MessageId,
    role: Role,
    measure: Measure,
}

/// The session, followed in one of the two ways.
#[derive(Clone, Default)]
struct Track {
    /// The newest messages in the window, oldest first: the tail of a compaction starts with one of them.
    newest: VecDeque<Entry>,
    /// Number of the first message that no summary replaces. Messages older than `newest` may be in the window too.
    first: u64,
    /// System messages among the older ones, which stay visible, and everything that is in the window.
    system: Measure,
    sent: Measure,
    /// The window as it would be if nothing had been reduced since the last request.
    unreduced: Measure,
    requests: Vec<Request>,
    calibration: Option<Calibration>,
    /// Whether the last request had a summary that was undone later.
    is_undone: bool,
    /// Whether a summary has replaced the window since the last request.
    is_compacted: bool,
}

/// A request with recorded usage.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "[u64; 4]", into = "[u64; 4]")]
struct Request {
    measure: Measure,
    recorded: Tokens,
}

// As a list: there are thousands, and field names would take most of the space.
impl From<[u64; 4]> for Request {
    fn from([base, blocks, exact, recorded]: [u64; 4]) -> Request {
        let measure = Measure { exact: Tokens(exact), ..Measure::new(Tokens(base), blocks) };
        Request { measure, recorded: Tokens(recorded) }
    }
}

impl From<Request> for [u64; 4] {
    fn from(Request { measure, recorded }: Request) -> [u64; 4] {
        [measure.base.0, measure.blocks, measure.exact.0, recorded.0]
    }
}

impl Default for WindowMeter {
    fn default() -> WindowMeter {
        WindowMeter {
            base: Memo::new(Bpe::O200k),
            tracks: Default::default(),
            marker: None,
            undo: None,
            is_own: None,
            count: 0,
            later: BTreeMap::new(),
            timed: Vec::new(),
            due: Vec::new(),
        }
    }
}

impl WindowMeter {
    /// Follows a whole session. Nothing is counted if it records no usage.
    pub fn of(messages: &[Message]) -> WindowMeter {
        let mut meter = WindowMeter::default();
        if messages.iter().any(records_usage) {
            messages.iter().for_each(|message| meter.add(message));
        }
        meter
    }

    /// Adds the next message of the session.
    pub fn add(&mut self, message: &Message) {
        self.count += 1;
        self.follow(message);
        // What was done after this message applies to the next request.
        let id = &message.info.id;
        self.due.extend(self.later.remove(id).into_iter().flatten());
        if self.undo.as_ref().is_some_and(|undo| undo.after.as_ref() == Some(id)) {
            self.undo = None;
        }
    }

    fn follow(&mut self, message: &Message) {
        if let Some(marker) = message.marker() {
            self.marker = Some(marker.clone());
            return;
        }
        if message.info.summary {
            let Some(marker) = self.marker.take().filter(|_| message.is_finished_summary()) else { return };
            if let Some(undone) = marker.set_aside {
                // The window is followed as if it had not been compacted, so requests until the undo say nothing about
                // it.
                self.undo = Some(undone);
                return;
            }
            let ([measure, _], number) = (self.measure(message, None), self.count);
            let tracks = self.tracks.iter_mut();
            tracks.for_each(|track| track.compact(&marker, message, measure, number));
            return;
        }
        let usage = message.info.tokens.as_ref().filter(|_| message.is_assistant());
        // A failed answer is not sent again. An aborted one is.
        let failed = message.info.error.as_ref().is_some_and(|error| error["name"] != "MessageAbortedError");
        if let Some(usage) = usage.filter(|_| !failed) {
            let model = message.info.model_id.as_deref();
            self.take_due(message);
            let (is_undone, is_own) = (self.undo.is_some(), message.is_asked_here());
            // Other tools drop content without recording it, so the bound holds only for requests of this host.
            let least = || self.tracks[0].sent.least.tokens(least_factor(model.unwrap_or_default()));
            let is_credible = !is_own || floor::is_credible(usage, least());
            if records_usage(message) && is_credible {
                if self.is_own.replace(is_own).is_some_and(|before| before != is_own) {
                    self.tracks.iter_mut().for_each(Track::forget_requests);
                }
                self.tracks.iter_mut().for_each(|track| track.observe(model, usage, is_undone));
            }
        }
        if failed {
            return;
        }
        let (states, number) = (reductions(message), self.count);
        let bare = states.first().map_or(message, |(bare, _)| bare);
        let full = ShownMeasure::of(bare, &self.base);
        let mut from = full.billed(&full, usage);
        self.tracks.iter_mut().zip(from).for_each(|(track, measure)| track.push(message, measure, number));
        for (reduced, at) in states.iter().filter_map(|(reduced, at)| Some((reduced, at.as_ref()?))) {
            let to = ShownMeasure::of(reduced, &self.base).billed(&full, usage);
            let change = Change { at: at.clone(), number, from, to };
            match &at.after {
                Some(after) => self.later.entry(after.clone()).or_default().push(change),
                None => self.timed.push(change),
            }
            from = to;
        }
    }

    /// Applies what was reduced or undone before this answer was requested.
    fn take_due(&mut self, answer: &Message) {
        if let Some(asked) = answer.info.time.as_ref().and_then(|time| time.created) {
            let is_due = |change: &mut Change| change.at.at <= asked;
            self.due.extend(self.timed.extract_if(.., is_due));
            self.undo.take_if(|undo| undo.after.is_none() && undo.at <= asked);
        }
        for change in std::mem::take(&mut self.due) {
            self.tracks.iter_mut().enumerate().for_each(|(way, track)| track.change(&change, way));
        }
    }

    /// The measures of a message: with its reasoning, as billed; and without.
    fn measure(&self, message: &Message, usage: Option<&Usage>) -> [Measure; 2] {
        let full = ShownMeasure::of(message, &self.base);
        full.billed(&full, usage)
    }

    /// Returns the result, if the session records usage.
    pub fn read(self) -> Option<Measured> {
        let WindowMeter { base, tracks: [mut with, mut without], later, timed, due, .. } = self;
        // Everything that was done since the last request applies now.
        for change in due.iter().chain(&timed).chain(later.values().flatten()) {
            with.change(change, 0);
            without.change(change, 1);
        }
        let (with, without) = (with.read()?, without.read()?);
        let resends_reasoning = with.error() <= without.error();
        let better = if resends_reasoning { with } else { without };
        Some(Measured { base, resends_reasoning, ..better })
    }
}

/// Whether a message records the usage of its request. A session without usage can only be estimated, and counting it
/// with a vocabulary would take longer than reading it.
pub fn records_usage(message: &Message) -> bool {
    let request = |usage: &Usage| usage.input + usage.cache_read + usage.cache_write;
    message.is_assistant() && message.info.tokens.as_ref().is_some_and(|usage| request(usage) > Tokens::ZERO)
}

impl Track {
    fn push(&mut self, message: &Message, measure: Measure, number: u64) {
        self.unreduced = self.unreduced + measure;
        self.show(Entry::of(message, measure, number));
    }

    fn show(&mut self, entry: Entry) {
        self.sent = self.sent + entry.measure;
        self.newest.push_back(entry);
        if self.newest.len() > MAX_NEWEST
            && let Some(Entry { role: Role::System, measure, .. }) = self.newest.pop_front()
        {
            self.system = self.system + measure;
        }
    }

    /// Changes the measure of a message.
    fn change(&mut self, change: &Change, way: usize) {
        if change.number < self.first {
            return;
        }
        // Added first: tokens do not go below zero.
        let apply = |measure: Measure| measure + change.to[way] - change.from[way];
        self.sent = apply(self.sent);
        if let Some(entry) = self.newest.iter_mut().find(|entry| entry.number == change.number) {
            entry.measure = apply(entry.measure);
        }
    }

    /// Replaces everything but system messages and the tail by a summary.
    fn compact(&mut self, marker: &CompactionPart, summary: &Message, measure: Measure, number: u64) {
        let tail = marker.tail_start.as_ref();
        let tail = tail.and_then(|start| self.newest.iter().position(|entry| entry.id == *start));
        let tail = self.newest.split_off(tail.unwrap_or(self.newest.len()));
        self.is_compacted = true;
        self.first = tail.front().map_or(number, |entry| entry.number);
        let mut older = std::mem::take(&mut self.newest);
        older.retain(|entry| entry.role == Role::System);
        self.sent = self.system;
        older.into_iter().for_each(|entry| self.show(entry));
        self.show(Entry::of(summary, measure, number));
        tail.into_iter().for_each(|entry| self.show(entry));
    }

    /// Another host continues the session: its system prompt and tools differ from those of the requests so far.
    fn forget_requests(&mut self) {
        self.requests.clear();
        self.calibration = None;
    }

    fn observe(&mut self, model: Option<&str>, usage: &Usage, is_undone: bool) {
        let recorded = usage.input + usage.cache_read + usage.cache_write;
        (self.unreduced, self.is_undone) = (self.sent, is_undone);
        let calibration = &mut self.calibration;
        let calibration = calibration.get_or_insert_with(|| Calibration::new(model.unwrap_or_default()));
        // A request after a summary is not predicted from the one before it: every earlier rebuilding error would count
        // against it, and it would be rejected.
        if std::mem::take(&mut self.is_compacted) {
            calibration.begin_session();
        }
        calibration.observe(self.sent, recorded);
        // In a very long session, every other request is as good a check as all of them. The last one is always kept.
        if self.requests.len() >= MAX_REQUESTS {
            let mut number = 0;
            self.requests.retain(|_| {
                number += 1;
                number <= FIRST_RESPONSES || number % 2 == 0
            });
        }
        self.requests.push(Request { measure: self.sent, recorded });
    }

    fn read(self) -> Option<Measured> {
        let Track { sent, unreduced, requests, calibration, is_undone, .. } = self;
        let calibration = calibration.filter(|_| !requests.is_empty())?;
        let (base, next) = (Memo::new(Bpe::O200k), sent);
        let resends_reasoning = true;
        let mut measured = Measured {
            base,
            calibration,
            hidden: 0.0,
            requests,
            unreduced,
            next,
            is_undone,
            resends_reasoning,
        };
        let first = measured.requests.iter().take(FIRST_RESPONSES);
        let mut hidden: Vec<f64> =
            first.map(|request| request.recorded.0 as f64 - measured.content(request.measure)).collect();
        hidden.sort_by(f64::total_cmp);
        // The lower one of two medians: what only later requests contain is not part of every request.
        measured.hidden = hidden.get((hidden.len().max(1) - 1) / 2).copied().unwrap_or(0.0);
        Some(measured)
    }
}

impl Entry {
    fn of(message: &Message, measure: Measure, number: u64) -> Entry {
        let role = message.info.role.clone().unwrap_or(Role::User);
        Entry { number, id: message.info.id.clone(), role, measure }
    }
}

/// The size of a session's requests and window, from its recorded usage.
///
/// This is the only place where recorded usage becomes sizes: views and replays use the same value.
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
    /// The current window, and as it would be if nothing had been reduced since the last request.
    next: Measure,
    unreduced: Measure,
    is_undone: bool,
    /// Which of the two ways of following the session explains its usage better.
    resends_reasoning: bool,
}

impl Measured {
    /// Tokens of the session's model per token of o200k.
    pub fn factor(&self) -> f64 {
        self.calibration.factor()
    }

    /// Tokens of every request that the session does not contain: system prompt and tool schemas.
    pub fn hidden(&self) -> Tokens {
        Tokens(self.hidden.max(0.0).round() as u64)
    }

    /// Whether requests carry the reasoning of earlier answers, judged by the usage.
    pub fn resends_reasoning(&self) -> bool {
        self.resends_reasoning
    }

    /// Tokens of an answer in later requests, without the results of its calls: the billed output, or a count of the
    /// text if the billed output is too small for it. `None` if the message is not an answer with usage.
    pub fn reply(&self, message: &Message) -> Option<Tokens> {
        let usage = message.info.tokens.as_ref().filter(|_| message.is_assistant())?;
        let shown = ShownMeasure::of(message, &self.base);
        let [with, without] = shown.reply(&shown, Some(usage));
        let measure = if self.resends_reasoning { with } else { without };
        Some(Tokens(self.content(measure).round() as u64))
    }

    /// A counter with the session's factor. It does not include the hidden part.
    pub fn counter(&self) -> Calibrated<&Memo<Bpe>> {
        self.calibration.counter(&self.base)
    }

    /// A counter of pieces on the scale of [`Measured::window`]: removing what it counts makes the window smaller by
    /// that amount. It differs from [`Measured::counter`] by the gap between rebuilt and recorded windows, and does not
    /// include the hidden part either.
    pub fn window_counter(&self) -> Calibrated<Arc<Memo<Bpe>>> {
        // No framing of messages: replies were billed with theirs, and all pieces together would exceed the window.
        Calibrated::new(Arc::new(Memo::new(Bpe::O200k)), self.worth() * self.factor(), 0.0, *FACTOR.start())
    }

    /// Tokens of the window per token of rebuilt content.
    fn worth(&self) -> f64 {
        let content = self.content(self.unreduced);
        if self.is_undone || content < 1.0 {
            return 1.0;
        }
        let window = self.calibration.next(self.unreduced).tokens.0 as f64;
        (window - self.hidden.clamp(0.0, window)) / content
    }

    /// Size of a request: its window by the base counter, times the factor, plus the hidden part.
    pub fn weigh(&self, window: Measure) -> Tokens {
        Tokens((self.content(window) + self.hidden).max(0.0).round() as u64)
    }

    fn content(&self, window: Measure) -> f64 {
        let counted = self.factor() * window.base.0 as f64;
        counted + self.calibration.per_block() * window.blocks as f64 + window.exact.0 as f64
    }

    /// Mean distance of rebuilt requests from recorded ones, as a share of these.
    fn error(&self) -> f64 {
        let misses = self.requests().map(|(recorded, rebuilt)| {
            (rebuilt.0.abs_diff(recorded.0) as f64 / recorded.0.max(1) as f64).min(1.0)
        });
        misses.sum::<f64>() / self.requests.len().max(1) as f64
    }

    /// Measures a window with the base counter, to be [weighed](Measured::weigh).
    pub fn measure(&self, window: &plimsoll::Window) -> Measure {
        Measure::of_window(window, &self.base)
    }

    /// The current window: the last recorded request, an estimate of what was added since, and of that the share that
    /// was not reduced since. Does not apply if the last request had a summary that was undone since; see
    /// [`Measured::window_of`].
    pub fn window(&self) -> Estimate {
        let Estimate { tokens, low, high } = self.calibration.next(self.unreduced);
        if self.next == self.unreduced {
            return Estimate { tokens, low, high };
        }
        let share = self.content(self.next) / self.content(self.unreduced).max(1.0);
        let left = |tokens: Tokens| {
            let hidden = self.hidden.clamp(0.0, tokens.0 as f64);
            Tokens((hidden + (tokens.0 as f64 - hidden) * share).round() as u64)
        };
        Estimate { tokens: left(tokens), low: left(low), high: left(high) }
    }

    /// The current window, if its recorded content has `visible` tokens by [`Measured::counter`]. `visible` and the
    /// hidden part are only added if the last request was of another window, so most windows need not be built.
    pub fn window_of(&self, visible: impl FnOnce() -> Tokens) -> Tokens {
        if self.is_undone { visible() + self.hidden() } else { self.window().tokens }
    }

    /// Each request with recorded usage, and its rebuilt size.
    pub fn requests(&self) -> impl ExactSizeIterator<Item = (Tokens, Tokens)> + DoubleEndedIterator {
        self.requests.iter().map(|request| (request.recorded, self.weigh(request.measure)))
    }

    /// The newest request with recorded usage.
    pub fn last_request(&self) -> Tokens {
        self.requests.last().map(|request| request.recorded).unwrap_or_default()
    }

    /// Difference between the last recorded request and the rebuilt one, as a share of it; negative if the recorded one
    /// is smaller. `None` for the responses that the hidden part was taken from.
    pub fn gap(&self) -> Option<f64> {
        let (recorded, rebuilt) = self.requests().nth(self.requests.len().checked_sub(1)?)?;
        let is_checked = self.requests.len() > FIRST_RESPONSES;
        is_checked.then(|| (recorded.0 as f64 - rebuilt.0 as f64) / recorded.0.max(1) as f64)
    }
}

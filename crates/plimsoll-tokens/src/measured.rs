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
//! leave the recorded ones, and [`Measured::gap`] grows. A session that another host goes on with is measured by that host's
//! requests alone.
//!
//! ## After a reduction
//!
//! No response tells what a reduced window weighs until the next one is there. Rebuilding it from nothing would move the
//! figure by the whole gap between rebuilt and recorded windows, in either direction: a window could be told as larger
//! than before although messages had left it. So the last figure stays the reference, and it is reduced by the share of
//! the rebuilt content that left the window.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use plimsoll::log::{CompactionPart, Moment};
use plimsoll::{Memo, Message, MessageId, Role, Tokens, Usage};

use crate::bpe::Bpe;
use crate::calibrate::{Calibration, Estimate};
use crate::counter::Calibrated;
use crate::measure::Measure;
use crate::shown::{ShownMeasure, reductions};

/// So many responses tell how much is hidden; the later ones check it.
pub const FIRST_RESPONSES: usize = 4;
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
    /// When the newest compaction that was undone was undone, as long as the session has not come there.
    undo: Option<Moment>,
    /// Whether the last request was asked by this host, and not by the tool that the session was taken over from.
    is_own: Option<bool>,
    /// How many messages were followed.
    count: u64,
    /// Reductions of messages that were followed, and undone ones, which the session has not come to: by the message
    /// after which they were made, and those of which only the time is known.
    later: BTreeMap<MessageId, Vec<Change>>,
    timed: Vec<Change>,
    /// Those it has come to, for the next request.
    due: Vec<Change>,
}

/// What a reduction, or an undo, does to the measure of a message.
#[derive(Clone)]
struct Change {
    at: Moment,
    /// The number of the message. Thousands of changes look for their messages, and numbers are compared faster than ids.
    number: u64,
    /// What the message measures before and after, for each track.
    from: [Measure; 2],
    to: [Measure; 2],
}

/// A message as it is in the window.
#[derive(Clone)]
struct Entry {
    number: u64,
    id: MessageId,
    role: Role,
    measure: Measure,
}

/// The session as it is followed in one of the ways.
#[derive(Clone, Default)]
struct Track {
    /// The newest messages in the window, oldest first: the tail of a compaction begins with one of them.
    newest: VecDeque<Entry>,
    /// The number of the first message that no summary stands for. Older ones than `newest` may be in the window too.
    first: u64,
    /// System messages among the older ones, which stay in view, and everything that is in the window.
    system: Measure,
    sent: Measure,
    /// What would be in the window if nothing had been reduced since the last request.
    unreduced: Measure,
    requests: Vec<Request>,
    calibration: Option<Calibration>,
    /// Whether the last request was of a window behind a summary that was undone later.
    is_undone: bool,
    /// Whether a summary has replaced the window since the last request.
    is_compacted: bool,
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
        self.count += 1;
        self.follow(message);
        // What was done after this message is in force for the next request.
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
                // The window is followed as if it had not been compacted, so requests until the undo tell nothing about it.
                self.undo = Some(undone);
                return;
            }
            let ([measure, _], number) = (self.measure(message, None), self.count);
            let tracks = self.tracks.iter_mut();
            tracks.for_each(|track| track.compact(&marker, message, measure, number));
            return;
        }
        let usage = message.info.tokens.as_ref().filter(|_| message.is_assistant());
        // A request does not repeat an answer that failed, unless it was broken off: then it tells what was sent as well.
        let failed = message.info.error.as_ref().is_some_and(|error| error["name"] != "MessageAbortedError");
        if let Some(usage) = usage.filter(|_| !failed) {
            let model = message.info.model_id.as_deref();
            self.take_due(message);
            let (is_undone, is_own) = (self.undo.is_some(), message.is_asked_here());
            if records_usage(message) && self.is_own.replace(is_own).is_some_and(|before| before != is_own) {
                self.tracks.iter_mut().for_each(Track::forget_requests);
            }
            self.tracks.iter_mut().for_each(|track| track.observe(model, usage, is_undone));
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

    /// Apply what was reduced or undone before this answer was asked for.
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

    /// What a message adds to the window: with its reasoning, at the price it was billed with; and without.
    fn measure(&self, message: &Message, usage: Option<&Usage>) -> [Measure; 2] {
        let full = ShownMeasure::of(message, &self.base);
        full.billed(&full, usage)
    }

    /// What the recorded usage says, if there is any.
    pub fn read(self) -> Option<Measured> {
        let WindowMeter { base, tracks: [mut with, mut without], later, timed, due, .. } = self;
        // Whatever was done since the last request is in force now.
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

/// Whether a message records what its request was counted with. A session without any can only be estimated, and need
/// not be counted by a vocabulary, which takes longer than reading it.
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
        if self.newest.len() > MOST_NEWEST
            && let Some(Entry { role: Role::System, measure, .. }) = self.newest.pop_front()
        {
            self.system = self.system + measure;
        }
    }

    /// More or less of a message is shown.
    fn change(&mut self, change: &Change, way: usize) {
        if change.number < self.first {
            return;
        }
        let apply = |measure: Measure| {
            let Measure { base, blocks, exact } = change.from[way];
            let more = measure + change.to[way];
            Measure {
                base: more.base - base,
                blocks: more.blocks.saturating_sub(blocks),
                exact: more.exact - exact,
            }
        };
        self.sent = apply(self.sent);
        if let Some(entry) = self.newest.iter_mut().find(|entry| entry.number == change.number) {
            entry.measure = apply(entry.measure);
        }
    }

    /// A summary stands for all but system messages and the tail.
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

    /// Another host goes on with the session: its system prompt and tools are not those of the requests so far.
    fn forget_requests(&mut self) {
        self.requests.clear();
        self.calibration = None;
    }

    fn observe(&mut self, model: Option<&str>, usage: &Usage, is_undone: bool) {
        let recorded = usage.input + usage.cache_read + usage.cache_write;
        if recorded == Tokens::ZERO {
            return;
        }
        (self.unreduced, self.is_undone) = (self.sent, is_undone);
        let calibration = &mut self.calibration;
        let calibration = calibration.get_or_insert_with(|| Calibration::new(model.unwrap_or_default()));
        // A request after a summary is not predicted from the one before it: every earlier error of rebuilding would count
        // against it, and it would not be believed.
        if std::mem::take(&mut self.is_compacted) {
            calibration.begin_session();
        }
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
        // The lower of two in the middle: what comes with a later request only is not part of every request.
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
    /// The window now, and as it would be if nothing had been reduced since the last request.
    next: Measure,
    unreduced: Measure,
    is_undone: bool,
    /// Which of the two ways of following the session explains its usage better.
    resends_reasoning: bool,
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

    /// Whether requests carry the reasoning of earlier answers, judged by the usage.
    pub fn resends_reasoning(&self) -> bool {
        self.resends_reasoning
    }

    /// Tokens of an answer in the requests after it, without the results of its calls: the billed output, or a count of the
    /// text if the billed output is too small for it. `None` if the message is not an answer with usage.
    pub fn reply(&self, message: &Message) -> Option<Tokens> {
        let usage = message.info.tokens.as_ref().filter(|_| message.is_assistant())?;
        let shown = ShownMeasure::of(message, &self.base);
        let [with, without] = shown.reply(&shown, Some(usage));
        let measure = if self.resends_reasoning { with } else { without };
        Some(Tokens(self.content(measure).round() as u64))
    }

    /// A counter with the session's factor. It does not know of the hidden part.
    pub fn counter(&self) -> Calibrated<&Memo<Bpe>> {
        self.calibration.counter(&self.base)
    }

    /// A counter of pieces as [`Measured::window`] weighs them: what it counts less of is what the window has less. It
    /// differs from [`Measured::counter`] by the gap between rebuilt and recorded windows, and does not know of the hidden
    /// part either.
    pub fn window_counter(&self) -> Calibrated<Arc<Memo<Bpe>>> {
        // Nothing for the wrapping of messages: replies were billed with theirs, and all pieces together would come to more
        // than the window.
        Calibrated::new(Arc::new(Memo::new(Bpe::O200k)), self.worth() * self.factor(), 0.0)
    }

    /// How many tokens of the window one of rebuilt content is.
    fn worth(&self) -> f64 {
        let content = self.content(self.unreduced);
        if self.is_undone || content < 1.0 {
            return 1.0;
        }
        let window = self.calibration.next(self.unreduced).tokens.0 as f64;
        (window - self.hidden.clamp(0.0, window)) / content
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

    /// The window now: the last recorded request, an estimate of what came since, and of that the share that was not
    /// reduced since. It does not hold if the last request was behind a summary that was undone since; see
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

    /// The window now, of a session whose window comes to `visible` by [`Measured::counter`]. Where the last request was
    /// of another window altogether, what is shown and what is hidden are added up.
    pub fn window_of(&self, visible: Tokens) -> Tokens {
        if self.is_undone { visible + self.hidden() } else { self.window().tokens }
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

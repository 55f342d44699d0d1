//! A session being weighed, message by message.

use plimsoll::MessageId;
use plimsoll::compact::extract::paths;
use plimsoll::compact::facts::shell_reads;
use plimsoll::count::{message_tokens, part_tokens, request_tokens, window_message_tokens};
use plimsoll::pivot::Visible;
use plimsoll::{
    Counter, Fixed, Limits, Memo, Message, Part, PartBody, PartId, Policy, Role, Tokens, Window, WindowRole,
};
use plimsoll_tokens::{Bpe, Measured, WindowMeter, records_usage};
use serde::Serialize;

use super::ranking::{Ranking, Share, Weight};
use super::window::{Weigher, WindowReport, kind_of_model_part, kind_of_user_part};
use crate::about::Describer;
use crate::output::printable;

/// How many rows of a ranking are worth looking at.
const ROWS: usize = 10;
/// How many turns the growth is told in.
const MOST_TURNS: usize = 10_000;
/// How many bytes of messages wait for one that records usage.
const MOST_WAITING: usize = 8 << 20;
/// How many bytes of messages are kept for the window.
const MOST_KEPT: usize = 32 << 20;

/// A session, weighed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Inspection {
    /// Messages in the log.
    pub(crate) messages: usize,
    /// Tokens of all of them.
    pub(crate) tokens: Tokens,
    /// Tokens of the window as it is now: the last recorded request and what came since, or an estimate.
    pub(crate) window: Tokens,
    /// How that is known.
    pub(crate) measured: MeasuredBy,
    /// What every request carries that the session does not show: the system prompt and the schemas of tools.
    pub(crate) hidden: Option<Tokens>,
    /// What else the session does not show: hidden reasoning that is sent again, and what the host adds in between.
    pub(crate) unseen: Option<Tokens>,
    /// Tokens of this model for one of o200k, where usage tells it.
    pub(crate) factor: Option<f64>,
    /// What the session shows of its last recorded request, rebuilt and weighed, where that can be checked.
    pub(crate) rebuilt: Option<Rebuilt>,
    /// Where the line is.
    pub(crate) line: Option<Tokens>,
    /// Compactions in the log.
    pub(crate) pivots: usize,
    /// What is in the window.
    #[serde(flatten)]
    pub(crate) report: WindowReport,
    /// The log beside the window.
    pub(crate) log: LogReport,
    /// The log's size after each turn of the user.
    pub(crate) growth: Vec<Turn>,
}

/// How the weight of a window is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum MeasuredBy {
    /// By the usage that the session records.
    Usage,
    /// By characters over four, because it records none.
    Characters,
}

/// The last recorded request, and what it comes to when it is rebuilt from the session.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Rebuilt {
    /// What was recorded.
    pub(crate) recorded: Tokens,
    /// What was rebuilt.
    pub(crate) tokens: Tokens,
    /// The difference as a share of what was recorded; below zero if more was rebuilt.
    pub(crate) gap: f64,
}

/// What is in the log, also behind summaries.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LogReport {
    /// By who or what it came from.
    pub(crate) by_kind: Vec<Share>,
    /// By tool: inputs and outputs together.
    pub(crate) by_tool: Vec<Share>,
    /// By file, as far as tools named one.
    pub(crate) by_file: Vec<Share>,
    /// The largest single outputs.
    pub(crate) largest: Vec<Largest>,
}

/// A large output.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Largest {
    /// The part.
    pub(crate) part: PartId,
    /// The tool.
    pub(crate) tool: String,
    /// What it weighs.
    pub(crate) tokens: Tokens,
}

/// The state of the log when a turn ends.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Turn {
    /// Which one, from 1.
    pub(crate) turn: usize,
    /// Tokens of the log so far.
    pub(crate) tokens: Tokens,
    /// The first words of the prompt.
    pub(crate) prompt: String,
    #[serde(skip)]
    weight: Weight,
}

/// A session being weighed, message by message, in memory that does not grow with it.
#[derive(Clone)]
pub(crate) struct Scale<'a> {
    policy: &'a Policy,
    base: Memo<Bpe>,
    /// Messages from before it is known whether the session records usage. Without any a vocabulary is of no use.
    waiting: Option<Vec<Message>>,
    waiting_bytes: usize,
    counts_base: bool,
    meter: WindowMeter,
    messages: usize,
    total: Weight,
    pivots: usize,
    /// The newest marker, if its compaction was undone.
    undone: Option<MessageId>,
    kinds: Ranking,
    tools: Ranking,
    files: Ranking,
    largest: Vec<(PartId, String, Weight)>,
    growth: Growth,
    view: View<'a>,
}

impl<'a> Scale<'a> {
    /// Nothing yet.
    pub(crate) fn new(policy: &'a Policy) -> Scale<'a> {
        Scale {
            policy,
            base: Memo::new(Bpe::O200k),
            waiting: Some(Vec::new()),
            waiting_bytes: 0,
            counts_base: true,
            meter: WindowMeter::default(),
            messages: 0,
            total: Weight::default(),
            pivots: 0,
            undone: None,
            kinds: Ranking::default(),
            tools: Ranking::default(),
            files: Ranking::default(),
            largest: Vec::new(),
            growth: Growth::default(),
            view: View::new(policy),
        }
    }

    fn weight(&self, count: impl Fn(&dyn Counter) -> Tokens) -> Weight {
        let base = if self.counts_base { count(&self.base) } else { Tokens::ZERO };
        Weight { chars: count(&self.policy.count), base, ..Weight::default() }
    }

    /// What the images and other files of a part weigh that a window shows.
    fn attached(&self, message: &Message, part: &Part) -> Weight {
        let count = match &part.body {
            PartBody::Tool(tool) => tool.state.attachments.len(),
            // Of these a window shows the text that a host put beside them.
            PartBody::File(file) => {
                let is_text = matches!(file.mime.as_deref(), Some("text/plain" | "application/x-directory"));
                usize::from(message.is_user() && !is_text)
            }
            _ => 0,
        };
        let each = if self.counts_base { self.base.file_tokens() } else { self.policy.count.file_tokens() };
        Weight { files: Tokens(each.0.saturating_mul(count as u64)), ..Weight::default() }
    }

    /// The next message of the session.
    pub(crate) fn add(&mut self, message: Message) {
        let Some(waiting) = &mut self.waiting else { return self.take(message) };
        self.waiting_bytes += size(&message);
        let is_known = records_usage(&message) || self.waiting_bytes > MOST_WAITING;
        waiting.push(message);
        if is_known {
            self.take_waiting();
        }
    }

    fn take_waiting(&mut self) {
        self.waiting.take().into_iter().flatten().for_each(|message| self.take(message));
    }

    fn take(&mut self, message: Message) {
        for part in &message.parts {
            self.part(&message, part);
            self.total += self.attached(&message, part);
        }
        let weight = self.weight(|counter| message_tokens(&message, counter));
        self.messages += 1;
        self.total += weight;
        if let Some(marker) = message.marker() {
            self.undone = marker.set_aside.is_some().then(|| message.info.id.clone());
        }
        let answers_undone = match (&message.info.parent_id, &self.undone) {
            (Some(parent), Some(undone)) => parent == undone,
            (None, undone) => undone.is_some(),
            (Some(_), None) => false,
        };
        self.pivots += usize::from(message.is_finished_summary() && !answers_undone);
        if self.counts_base {
            self.meter.add(&message);
        }
        self.growth.add(&message, self.total);
        let turn = self.growth.current.as_ref().map_or(0, |turn| turn.turn);
        self.view.add(message, u32::try_from(turn).unwrap_or(u32::MAX));
    }

    fn part(&mut self, message: &Message, part: &Part) {
        let mut weight = self.weight(|counter| part_tokens(part, counter));
        let mut output = self.weight(|counter| output_tokens(part, counter));
        let attached = self.attached(message, part);
        weight += attached;
        if part.as_tool().is_some() {
            output += attached;
        }
        self.kinds.add(kind(message, part), weight - output);
        let Some(tool) = part.as_tool() else { return };
        self.kinds.add("tool outputs", output);
        self.tools.add(&tool.tool, weight);
        let place = self.largest.partition_point(|row| row.2.tokens(None) >= output.tokens(None));
        if place < ROWS {
            self.largest.insert(place, (part.id.clone(), tool.tool.clone(), output));
            self.largest.truncate(ROWS);
        }
        let Some(input) = tool.state.input.as_ref().map(|input| input.value()) else { return };
        let named = paths(input);
        // What each of several files takes of one output is not known.
        if named.is_empty() {
            let read = shell_reads(&tool.tool, input).files;
            let each = output.divided(read.len() as u64);
            for file in &read {
                self.files.add(&file.path, each);
            }
        }
        for path in &named {
            self.files.add(path, output.divided(named.len() as u64));
        }
    }

    /// What all of it comes to. Paths are told from `directory`, where the session has one.
    pub(crate) fn read(mut self, limits: Limits, directory: Option<&str>) -> Inspection {
        if self.waiting.is_some() {
            self.counts_base = false;
            self.take_waiting();
        }
        let Scale { policy, meter, view, .. } = self;
        let measured = meter.read();
        let factor = measured.as_ref().map(Measured::factor);
        let calibrated = measured.as_ref().map(Measured::counter);
        let counter: &dyn Counter = calibrated.as_ref().map_or(&policy.count, |counter| counter);
        let weigher = Weigher { policy, counter, words: Describer { directory } };
        let report = view.report(&weigher, factor);
        let window = measured.as_ref();
        let window = window.map_or(report.visible, |measured| measured.window_of(|| report.visible));
        // The weights of what is shown are estimates, and all rows together are what was counted.
        let hidden = measured.as_ref().map(|measured| measured.hidden().min(window - report.visible));
        let largest = self.largest.into_iter();
        let largest =
            largest.map(|(part, tool, output)| Largest { part, tool, tokens: output.tokens(factor) });
        Inspection {
            messages: self.messages,
            tokens: self.total.tokens(factor),
            window,
            measured: if measured.is_some() { MeasuredBy::Usage } else { MeasuredBy::Characters },
            hidden,
            unseen: hidden.map(|hidden| window - report.visible - hidden),
            factor: factor.map(|factor| (factor * 1_000.0).round() / 1_000.0),
            rebuilt: measured.as_ref().and_then(rebuilt),
            line: policy.overflow.line(limits).map(|line| line.at),
            pivots: self.pivots,
            report,
            log: LogReport {
                by_kind: self.kinds.rows_by(ROWS, factor),
                by_tool: self.tools.rows_by(ROWS, factor),
                by_file: relative_rows(self.files.rows_by(ROWS, factor), &weigher),
                largest: largest.filter(|row| row.tokens > Tokens::ZERO).collect(),
            },
            growth: self.growth.turns(factor),
        }
    }
}

/// The rows with their paths as they are from the session's directory.
fn relative_rows(mut rows: Vec<Share>, weigher: &Weigher) -> Vec<Share> {
    rows.iter_mut().for_each(|row| row.name = weigher.words.relative(&row.name));
    rows
}

fn rebuilt(measured: &Measured) -> Option<Rebuilt> {
    let (recorded, tokens) = measured.requests().next_back()?;
    Some(Rebuilt { recorded, tokens, gap: (measured.gap()? * 1_000.0).round() / 1_000.0 })
}

/// What of the session is in the window. Up to a size all messages are kept, and the window is the engine's to the
/// letter. Beyond it those that a summary stands for are dropped; and if that is not enough, the older half is
/// weighed as it is and dropped too, which is right unless a later compaction keeps a tail from so far back.
#[derive(Clone)]
struct View<'a> {
    policy: &'a Policy,
    kept: Vec<Message>,
    /// The turn of each message that is kept.
    turns: Vec<u32>,
    bytes: usize,
    most: usize,
    /// What was weighed and dropped, and the share of system messages in it, which stay in view.
    weighed: Weight,
    system: Weight,
}

impl<'a> View<'a> {
    fn new(policy: &'a Policy) -> View<'a> {
        let (kept, turns, bytes, weighed, system) = Default::default();
        View { policy, kept, turns, bytes, most: MOST_KEPT, weighed, system }
    }

    fn add(&mut self, message: Message, turn: u32) {
        self.bytes += size(&message);
        self.kept.push(message);
        self.turns.push(turn);
        if self.bytes > self.most {
            self.drop_hidden();
            if self.bytes > self.most / 2 {
                self.drop_older();
            }
        }
    }

    /// Drop what no window will show again.
    fn drop_hidden(&mut self) {
        let visible = Visible::of(&self.kept);
        if visible.pivot.is_none() {
            return;
        }
        // What was weighed came before this pivot.
        self.weighed = self.system;
        let mut shown = vec![false; self.kept.len()];
        visible.needed(&self.kept).into_iter().for_each(|place| shown[place] = true);
        let mut each = shown.iter();
        self.kept.retain(|_| *each.next().unwrap_or(&false));
        let mut each = shown.iter();
        self.turns.retain(|_| *each.next().unwrap_or(&false));
        self.bytes = self.kept.iter().map(size).sum();
    }

    /// Weigh the older half and drop it, up to where a turn starts.
    fn drop_older(&mut self) {
        let mut left = self.bytes / 2;
        let half = self.kept.iter().position(|message| {
            left = left.saturating_sub(size(message));
            left == 0
        });
        let half = half.unwrap_or(self.kept.len());
        let turn = self.kept[half..].iter().position(Message::starts_turn).map(|turn| half + turn);
        let cut = turn.filter(|turn| *turn > 0).unwrap_or(half.max(1)).min(self.kept.len());
        let rest = self.kept.split_off(cut);
        let older = std::mem::replace(&mut self.kept, rest);
        self.turns.drain(..cut.min(self.turns.len()));
        let window = Window::of(&older, self.policy);
        let base = Memo::new(Bpe::O200k);
        let weigh = |count: &dyn Fn(&dyn Counter) -> Tokens| Weight {
            chars: count(&self.policy.count),
            base: count(&base),
            ..Weight::default()
        };
        self.weighed += weigh(&|counter| request_tokens(&window, Fixed::default(), counter));
        let system = || window.messages.iter().filter(|message| message.role == WindowRole::System);
        self.system +=
            weigh(&|counter| system().map(|message| window_message_tokens(message, counter)).sum());
        self.bytes = self.kept.iter().map(size).sum();
    }

    /// What is in view.
    fn report(mut self, weigher: &Weigher, factor: Option<f64>) -> WindowReport {
        if self.weighed != Weight::default() {
            self.drop_hidden();
        }
        weigher.weigh(&self.kept, &self.turns, self.weighed.tokens(factor))
    }
}

/// Roughly the memory a message takes.
fn size(message: &Message) -> usize {
    let parts = message.parts.iter().map(|part| {
        let text = match &part.body {
            PartBody::Text(text) => text.text.len(),
            PartBody::Reasoning(thought) => thought.text.len(),
            PartBody::Tool(tool) => {
                let input = tool.state.input.as_ref().map_or(0, |input| 2 * input.json().len());
                let files = tool.state.attachments.iter().map(|file| file.to_string().len());
                input + tool.state.result().map_or(0, |text| text.len()) + files.sum::<usize>()
            }
            PartBody::ToolResult(result) => result.text.len(),
            PartBody::File(file) => file.url.as_ref().map_or(0, |url| url.len()),
            _ => 0,
        };
        // A struct, and its strings each with a place of its own.
        text + size_of::<Part>() + 200
    });
    parts.sum::<usize>() + size_of::<Message>() + 300
}

/// The log's size over the turns, of which no more are kept than can be told apart.
#[derive(Clone, Default)]
struct Growth {
    turns: Vec<Turn>,
    current: Option<Turn>,
    /// Every so many turns one is kept, as a power of two.
    every: u32,
}

impl Growth {
    fn add(&mut self, message: &Message, total: Weight) {
        if is_prompt(message) {
            let turn = self.current.as_ref().map_or(1, |turn| turn.turn + 1);
            self.keep();
            let text = message.text();
            // More than is shown need not be looked at.
            let words = text.split_whitespace().take(40).collect::<Vec<_>>().join(" ");
            let prompt = printable(&words).chars().take(200).collect();
            self.current = Some(Turn { turn, tokens: Tokens::ZERO, prompt, weight: total });
        }
        if let Some(turn) = &mut self.current {
            turn.weight = total;
        }
    }

    fn keep(&mut self) {
        let Some(turn) = self.current.take() else { return };
        if turn.turn.is_multiple_of(1 << self.every) {
            self.turns.push(turn);
        }
        if self.turns.len() >= MOST_TURNS {
            self.every += 1;
            self.turns.retain(|turn| turn.turn.is_multiple_of(1 << self.every));
        }
    }

    fn turns(mut self, factor: Option<f64>) -> Vec<Turn> {
        self.turns.extend(self.current.take());
        self.turns.iter_mut().for_each(|turn| turn.tokens = turn.weight.tokens(factor));
        self.turns
    }
}

fn kind(message: &Message, part: &Part) -> &'static str {
    match (&part.body, &message.info.role) {
        (PartBody::Tool(_) | PartBody::ToolCall(_), _) => "tool inputs",
        (PartBody::ToolResult(_), _) => "tool outputs",
        (PartBody::Reasoning(_), _) => "reasoning",
        (PartBody::File(_), _) => "files",
        _ if message.info.summary => "summaries",
        (_, Some(Role::User)) => kind_of_user_part(part),
        (_, Some(Role::Assistant)) => kind_of_model_part(part),
        _ => "system messages",
    }
}

/// Whether a person speaks. What a host puts in between, such as a file that it attaches, begins no turn, and neither
/// does a command that the user runs beside the conversation.
pub(crate) fn is_prompt(message: &Message) -> bool {
    message.starts_turn() && !message.parts.iter().all(|part| kind_of_user_part(part) != "the user")
}

/// What a part with call and result weighs by its result alone.
fn output_tokens(part: &Part, counter: &dyn Counter) -> Tokens {
    part.as_tool()
        .and_then(|tool| tool.state.result())
        .map(|text| counter.count_text(text))
        .unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use plimsoll::count::request_tokens;
    use plimsoll::{Fixed, Limits, Message, Policy, Tokens, Window};
    use serde_json::json;

    use super::super::ranking::{MOST_NAMES, Ranking, Weight};
    use super::super::window::Weigher;
    use super::{Describer, Growth, MOST_TURNS, Scale, View};

    fn message(value: serde_json::Value) -> Message {
        serde_json::from_value(value).unwrap()
    }

    /// A session of many turns that is compacted every so often, with a tail of one turn.
    fn session(turns: usize, compacted_every: usize) -> Vec<Message> {
        let mut messages = vec![message(json!({ "info": { "id": "sys", "role": "system" },
            "parts": [{ "id": "sys.1", "type": "text", "text": "Be brief." }] }))];
        for turn in 1..=turns {
            let (user, answer) = (format!("u{turn}"), format!("a{turn}"));
            let words = "word ".repeat(turn % 50 + 1);
            messages.push(message(json!({ "info": { "id": user, "role": "user" },
                "parts": [{ "id": format!("{user}.1"), "type": "text", "text": words }] })));
            let state =
                json!({ "status": "completed", "input": { "path": format!("f{turn}") }, "output": words });
            messages.push(message(json!({
                "info": { "id": answer, "role": "assistant", "parentID": user, "finish": "stop" },
                "parts": [{ "id": format!("{answer}.1"), "type": "tool", "tool": "read", "callID": answer, "state": state },
                    { "id": format!("{answer}.2"), "type": "text", "text": "done" }] })));
            if turn.is_multiple_of(compacted_every) {
                let (marker, summary) = (format!("m{turn}"), format!("s{turn}"));
                messages.push(message(json!({ "info": { "id": marker, "role": "user" },
                    "parts": [{ "id": format!("{marker}.1"), "type": "compaction", "tail_start_id": answer }] })));
                messages.push(message(json!({
                    "info": { "id": summary, "role": "assistant", "parentID": marker, "summary": true, "finish": "stop" },
                    "parts": [{ "id": format!("{summary}.1"), "type": "text", "text": "So far so good." }] })));
            }
        }
        messages
    }

    fn check(messages: &[Message], most: usize) {
        let policy = Policy::default();
        let mut view = View { most, ..View::new(&policy) };
        messages.iter().cloned().for_each(|message| view.add(message, 1));
        assert!(view.kept.len() < messages.len(), "something was dropped");
        let whole = request_tokens(&Window::of(messages, &policy), Fixed::default(), &policy.count);
        let weigher = Weigher { policy: &policy, counter: &policy.count, words: Describer::default() };
        assert_eq!(view.report(&weigher, None).visible, whole);
    }

    #[test]
    fn a_window_weighed_in_pieces_weighs_the_same() {
        check(&session(500, usize::MAX), 60_000);
    }

    #[test]
    fn what_a_summary_stands_for_is_dropped_and_the_tail_with_its_question_kept() {
        check(&session(500, 40), 60_000);
        check(&session(500, 123), 60_000);
        check(&session(499, 499), 200_000);
    }

    #[test]
    fn turns_are_thinned_and_the_last_is_kept() {
        let mut growth = Growth::default();
        let turns = 5 * MOST_TURNS + 1;
        for turn in 1..=turns {
            let user = Message::user("m".into(), "p".into(), "words");
            growth.add(&user, Weight::from(Tokens(turn as u64)));
        }
        let told = growth.turns(None);
        assert!((MOST_TURNS / 2..=MOST_TURNS).contains(&told.len()), "{}", told.len());
        assert_eq!(told.last().map(|turn| turn.turn), Some(turns));
        assert!(told.iter().all(|turn| turn.tokens == Tokens(turn.turn as u64)));
    }

    #[test]
    fn a_ranking_of_very_many_names_keeps_the_heavy_ones() {
        let mut ranking = Ranking::default();
        ranking.add("heavy", Tokens(1_000));
        for number in 0..3 * MOST_NAMES {
            ranking.add(&number.to_string(), Tokens(1));
        }
        assert!(ranking.len() <= MOST_NAMES);
        assert_eq!(ranking.rows(1)[0].name, "heavy");
    }

    #[test]
    fn of_equal_outputs_the_first_is_told() {
        let policy = Policy::default();
        let mut scale = Scale::new(&policy);
        session(60, usize::MAX).into_iter().for_each(|message| scale.add(message));
        let log = scale.read(Limits::new(200_000, 0), None).log;
        assert_eq!(log.largest.len(), 10);
        assert_eq!(log.largest[0].part.as_str(), "a49.1");
        assert!(log.largest.is_sorted_by(|a, b| a.tokens >= b.tokens));
    }
}

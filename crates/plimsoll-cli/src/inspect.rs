//! Where a session's tokens go.

use std::collections::BTreeMap;

use plimsoll::MessageId;
use plimsoll::compact::extract::paths;
use plimsoll::count::{message_tokens, part_tokens, request_tokens, window_message_tokens};
use plimsoll::log::Note;
use plimsoll::pivot::Visible;
use plimsoll::{
    Counter, Fixed, Limits, Message, Part, PartBody, PartId, Policy, Role, Tokens, Window, WindowRole,
};
use serde::Serialize;

use plimsoll_formats::Transcript;

use crate::output::printable;

/// How many rows of a ranking are worth looking at.
const ROWS: usize = 10;
/// How many names a ranking holds before it forgets the lightest.
const MOST_NAMES: usize = 50_000;
/// How many turns the growth is told in.
const MOST_TURNS: usize = 10_000;
/// How many bytes of messages are kept for the window.
const MOST_KEPT: usize = 32 << 20;

/// A session, weighed, and what it was read from.
#[derive(Debug, Serialize)]
pub(crate) struct Inspected {
    /// What it was read from.
    #[serde(flatten)]
    pub(crate) source: About,
    /// What was found.
    #[serde(flatten)]
    pub(crate) inspection: Inspection,
}

/// What a transcript is, and what of it was not shown to a model or not understood.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct About {
    format: String,
    session: Option<String>,
    title: Option<String>,
    model: Option<String>,
    /// Sub-agents in the same file.
    side_chains: usize,
    /// The last line is cut off.
    torn: bool,
    /// What was not understood, by kind.
    skipped: BTreeMap<String, u64>,
    /// Known records that hold nothing a model was shown, by kind.
    unused: BTreeMap<String, u64>,
    /// Values that are not what they should be: the first of them, and how many there are.
    notes: Vec<Note>,
    wrong_values: u64,
}

impl About {
    /// What a transcript says about itself.
    pub(crate) fn of(transcript: &Transcript) -> About {
        let Transcript { format, info, side_chains, skipped, unused, notes, torn, .. } = transcript;
        About {
            format: format.to_string(),
            session: info.id.clone(),
            title: info.title.clone(),
            model: info.model.clone(),
            side_chains: side_chains.len(),
            torn: *torn,
            skipped: skipped.clone(),
            unused: unused.clone(),
            notes: notes.first().to_vec(),
            wrong_values: notes.count(),
        }
    }

    /// One line.
    pub(crate) fn render(&self) -> String {
        let said = [Some(&self.format), self.model.as_ref(), self.session.as_ref(), self.title.as_ref()];
        let said: Vec<String> = said.into_iter().flatten().map(|text| printable(text)).collect();
        format!("{}\n", said.join(" · "))
    }
}

/// A session, weighed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Inspection {
    /// Messages in the log.
    pub(crate) messages: usize,
    /// Tokens of all of them.
    pub(crate) tokens: Tokens,
    /// Tokens of the window as it is now.
    pub(crate) window: Tokens,
    /// Where the line is.
    pub(crate) line: Option<Tokens>,
    /// Compactions in the log.
    pub(crate) pivots: usize,
    /// By who or what they came from.
    pub(crate) by_kind: Vec<Share>,
    /// By tool: inputs and outputs together.
    pub(crate) by_tool: Vec<Share>,
    /// By file, as far as tools named one.
    pub(crate) by_file: Vec<Share>,
    /// The largest single outputs.
    pub(crate) largest: Vec<Largest>,
    /// Files whose contents came back more than once, and what the repetitions weigh.
    pub(crate) repeated: Vec<Share>,
    /// The log's size after each turn of the user.
    pub(crate) growth: Vec<Turn>,
}

/// One row of a ranking.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Share {
    /// What it is.
    pub(crate) name: String,
    /// How often it occurs.
    pub(crate) count: u64,
    /// What it weighs.
    pub(crate) tokens: Tokens,
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
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Turn {
    /// Which one, from 1.
    pub(crate) turn: usize,
    /// Tokens of the log so far.
    pub(crate) tokens: Tokens,
    /// The first words of the prompt.
    pub(crate) prompt: String,
}

/// Names and what they weigh.
#[derive(Default)]
struct Ranking(BTreeMap<String, (u64, Tokens)>);

impl Ranking {
    /// Add to a name; returns how often it has occurred.
    fn add(&mut self, name: &str, tokens: Tokens) -> u64 {
        if !self.0.contains_key(name) && self.0.len() >= MOST_NAMES {
            self.thin();
        }
        let row = self.0.entry(name.to_owned()).or_default();
        row.0 += 1;
        row.1 += tokens;
        row.0
    }

    /// Forget the lighter half: what is in it will hardly come to be among the heaviest.
    fn thin(&mut self) {
        let mut weights: Vec<Tokens> = self.0.values().map(|(_, tokens)| *tokens).collect();
        let (_, median, _) = weights.select_nth_unstable(MOST_NAMES / 2);
        let median = *median;
        self.0.retain(|_, (_, tokens)| *tokens > median);
    }

    fn rows(self, most: usize) -> Vec<Share> {
        let rows = self.0.into_iter().map(|(name, (count, tokens))| Share { name, count, tokens });
        let mut rows: Vec<Share> = rows.filter(|row| row.tokens > Tokens::ZERO).collect();
        rows.sort_by(|a, b| b.tokens.cmp(&a.tokens).then_with(|| a.name.cmp(&b.name)));
        rows.truncate(most);
        rows
    }
}

/// A session being weighed, message by message, in memory that does not grow with it.
pub(crate) struct Scale<'a> {
    policy: &'a Policy,
    messages: usize,
    tokens: Tokens,
    pivots: usize,
    /// The newest marker, if its compaction was undone.
    undone: Option<MessageId>,
    kinds: Ranking,
    tools: Ranking,
    files: Ranking,
    repeats: Ranking,
    largest: Vec<Largest>,
    growth: Growth,
    view: View<'a>,
}

impl<'a> Scale<'a> {
    /// Nothing yet.
    pub(crate) fn new(policy: &'a Policy) -> Scale<'a> {
        Scale {
            policy,
            messages: 0,
            tokens: Tokens::ZERO,
            pivots: 0,
            undone: None,
            kinds: Ranking::default(),
            tools: Ranking::default(),
            files: Ranking::default(),
            repeats: Ranking::default(),
            largest: Vec::new(),
            growth: Growth::default(),
            view: View::new(policy),
        }
    }

    /// The next message of the session.
    pub(crate) fn add(&mut self, message: Message) {
        let counter = &self.policy.count;
        for part in &message.parts {
            self.part(&message, part);
        }
        let tokens = message_tokens(&message, counter);
        self.messages += 1;
        self.tokens += tokens;
        if let Some(marker) = message.marker() {
            self.undone = marker.set_aside.is_some().then(|| message.info.id.clone());
        }
        let answers_undone = match (&message.info.parent_id, &self.undone) {
            (Some(parent), Some(undone)) => parent == undone,
            (None, undone) => undone.is_some(),
            (Some(_), None) => false,
        };
        self.pivots += usize::from(message.is_finished_summary() && !answers_undone);
        self.growth.add(&message, self.tokens);
        self.view.add(message);
    }

    fn part(&mut self, message: &Message, part: &Part) {
        let counter = &self.policy.count;
        let (tokens, output) = (part_tokens(part, counter), output_tokens(part, counter));
        self.kinds.add(kind(message, part), tokens - output);
        let Some(tool) = part.as_tool() else { return };
        self.kinds.add("tool outputs", output);
        self.tools.add(&tool.tool, tokens);
        let place = self.largest.partition_point(|row| row.tokens >= output);
        if place < ROWS {
            let row = Largest { part: part.id.clone(), tool: tool.tool.clone(), tokens: output };
            self.largest.insert(place, row);
            self.largest.truncate(ROWS);
        }
        for path in tool.state.input.iter().flat_map(|input| paths(input.value())) {
            if self.files.add(&path, output) > 1 {
                self.repeats.add(&path, output);
            }
        }
    }

    /// What all of it comes to.
    pub(crate) fn read(self, limits: Limits) -> Inspection {
        Inspection {
            messages: self.messages,
            tokens: self.tokens,
            window: self.view.tokens(),
            line: self.policy.overflow.line(limits).map(|line| line.at),
            pivots: self.pivots,
            by_kind: self.kinds.rows(ROWS),
            by_tool: self.tools.rows(ROWS),
            by_file: self.files.rows(ROWS),
            largest: self.largest.into_iter().filter(|row| row.tokens > Tokens::ZERO).collect(),
            repeated: self.repeats.rows(ROWS),
            growth: self.growth.turns(),
        }
    }
}

/// What of the session is in the window. Up to a size all messages are kept, and the window is the engine's to the
/// letter. Beyond it those that a summary stands for are dropped; and if that is not enough, the older half is
/// weighed as it is and dropped too, which is right unless a later compaction keeps a tail from so far back.
struct View<'a> {
    policy: &'a Policy,
    kept: Vec<Message>,
    bytes: usize,
    most: usize,
    /// What was weighed and dropped, and the share of system messages in it, which stay in view.
    weighed: Tokens,
    system: Tokens,
}

impl<'a> View<'a> {
    fn new(policy: &'a Policy) -> View<'a> {
        let (kept, bytes, weighed, system) = Default::default();
        View { policy, kept, bytes, most: MOST_KEPT, weighed, system }
    }

    fn add(&mut self, message: Message) {
        self.bytes += size(&message);
        self.kept.push(message);
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
        let mut shown = shown.into_iter();
        self.kept.retain(|_| shown.next().unwrap_or(false));
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
        let counter = &self.policy.count;
        let window = Window::of(&older, self.policy);
        self.weighed += request_tokens(&window, Fixed::default(), counter);
        let system = window.messages.iter().filter(|message| message.role == WindowRole::System);
        self.system += system.map(|message| window_message_tokens(message, counter)).sum();
        self.bytes = self.kept.iter().map(size).sum();
    }

    fn tokens(mut self) -> Tokens {
        if self.weighed > Tokens::ZERO {
            self.drop_hidden();
        }
        let window = Window::of(&self.kept, self.policy);
        self.weighed + request_tokens(&window, Fixed::default(), &self.policy.count)
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
#[derive(Default)]
struct Growth {
    turns: Vec<Turn>,
    current: Option<Turn>,
    /// Every so many turns one is kept, as a power of two.
    every: u32,
}

impl Growth {
    fn add(&mut self, message: &Message, total: Tokens) {
        if message.starts_turn() {
            let turn = self.current.as_ref().map_or(1, |turn| turn.turn + 1);
            self.keep();
            let text = message.text();
            // More than is shown need not be looked at.
            let words = text.split_whitespace().take(40).collect::<Vec<_>>().join(" ");
            let prompt = printable(&words).chars().take(40).collect();
            self.current = Some(Turn { turn, tokens: total, prompt });
        }
        if let Some(turn) = &mut self.current {
            turn.tokens = total;
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

    fn turns(mut self) -> Vec<Turn> {
        self.turns.extend(self.current.take());
        self.turns
    }
}

impl Inspection {
    /// Tables and bars for people.
    pub(crate) fn render(&self) -> String {
        let mut out = format!(
            "{}, {} tokens in the log; {} in the window",
            crate::output::counted(self.messages, "message"),
            self.tokens,
            self.window
        );
        match self.line {
            Some(line) => {
                let percent = self.window.0.saturating_mul(100) / line.0.max(1);
                out.push_str(&format!(", {percent} % of the line at {line}\n"));
            }
            None => out.push('\n'),
        }
        if self.pivots > 0 {
            out.push_str(&format!("compacted {} before\n", times(self.pivots as u64)));
        }
        ranking(&mut out, "Where the tokens go", &self.by_kind, self.tokens);
        ranking(&mut out, "By tool", &self.by_tool, self.tokens);
        ranking(&mut out, "By file", &self.by_file, self.tokens);
        ranking(&mut out, "Came back more than once", &self.repeated, self.tokens);
        if !self.largest.is_empty() {
            out.push_str("\nLargest outputs\n");
            for row in &self.largest {
                out.push_str(&format!("  {:>9}  {:<12} {}\n", row.tokens.to_string(), row.tool, row.part));
            }
        }
        if !self.growth.is_empty() {
            out.push_str("\nGrowth over the turns\n");
            let most = self.growth.last().map(|turn| turn.tokens.0).unwrap_or(1).max(1);
            for turn in sampled(&self.growth, 24) {
                let bar = "█".repeat((turn.tokens.0.saturating_mul(40) / most) as usize);
                out.push_str(&format!(
                    "  {:>4}  {:<40} {:>9}  {}\n",
                    turn.turn,
                    bar,
                    turn.tokens.to_string(),
                    turn.prompt
                ));
            }
        }
        out
    }
}

/// A name that fits its column: of a long path both ends tell most.
fn short(name: &str) -> String {
    let letters: Vec<char> = printable(name).chars().collect();
    if letters.len() <= 60 {
        return letters.into_iter().collect();
    }
    letters[..20].iter().chain(&['…']).chain(&letters[letters.len() - 39..]).collect()
}

fn times(count: u64) -> String {
    match count {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        more => format!("{more} times"),
    }
}

fn ranking(out: &mut String, title: &str, rows: &[Share], all: Tokens) {
    if rows.is_empty() {
        return;
    }
    out.push_str(&format!("\n{title}\n"));
    for row in rows {
        let percent = row.tokens.0.saturating_mul(100) / all.0.max(1);
        let bar = "█".repeat((percent / 5) as usize);
        let (tokens, count) = (row.tokens.to_string(), row.count);
        out.push_str(&format!(
            "  {tokens:>9}  {percent:>3} %  {bar:<20} {count:>5} × {}\n",
            short(&row.name)
        ));
    }
}

/// At most so many turns, evenly spread, the last among them.
fn sampled(turns: &[Turn], most: usize) -> impl Iterator<Item = &Turn> {
    let step = turns.len().div_ceil(most).max(1);
    turns
        .iter()
        .enumerate()
        .filter(move |(at, _)| (turns.len() - 1 - at).is_multiple_of(step))
        .map(|(_, turn)| turn)
}

fn kind(message: &Message, part: &Part) -> &'static str {
    match (&part.body, &message.info.role) {
        (PartBody::Tool(_) | PartBody::ToolCall(_), _) => "tool inputs",
        (PartBody::ToolResult(_), _) => "tool outputs",
        (PartBody::Reasoning(_), _) => "reasoning",
        _ if message.info.summary => "summaries",
        (_, Some(Role::User)) => "the user",
        (_, Some(Role::Assistant)) => "the model",
        _ => "the system",
    }
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

    use super::{Growth, MOST_NAMES, MOST_TURNS, Ranking, Scale, View};

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
        messages.iter().cloned().for_each(|message| view.add(message));
        assert!(view.kept.len() < messages.len(), "something was dropped");
        let whole = request_tokens(&Window::of(messages, &policy), Fixed::default(), &policy.count);
        assert_eq!(view.tokens(), whole);
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
            growth.add(&user, Tokens(turn as u64));
        }
        let told = growth.turns();
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
        assert!(ranking.0.len() <= MOST_NAMES);
        assert_eq!(ranking.rows(1)[0].name, "heavy");
    }

    #[test]
    fn of_equal_outputs_the_first_is_told() {
        let policy = Policy::default();
        let mut scale = Scale::new(&policy);
        session(60, usize::MAX).into_iter().for_each(|message| scale.add(message));
        let inspection = scale.read(Limits::new(200_000, 0));
        assert_eq!(inspection.largest.len(), 10);
        assert_eq!(inspection.largest[0].part.as_str(), "a49.1");
        assert!(inspection.largest.is_sorted_by(|a, b| a.tokens >= b.tokens));
    }
}

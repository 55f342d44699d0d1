//! Where a session's tokens go.

use std::collections::BTreeMap;

use plimsoll::compact::extract::paths;
use plimsoll::count::{message_tokens, part_tokens, request_tokens};
use plimsoll::{Counter, Fixed, Limits, Message, Part, PartBody, PartId, Policy, Role, Tokens, Window};
use serde::Serialize;

use crate::output::printable;

/// How many rows of a ranking are worth looking at.
const ROWS: usize = 10;

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

#[derive(Default)]
struct Ranking(BTreeMap<String, (u64, Tokens)>);

impl Ranking {
    fn add(&mut self, name: &str, tokens: Tokens) {
        let row = self.0.entry(name.to_owned()).or_default();
        row.0 += 1;
        row.1 += tokens;
    }

    fn rows(self, most: usize) -> Vec<Share> {
        let rows = self.0.into_iter().map(|(name, (count, tokens))| Share { name, count, tokens });
        let mut rows: Vec<Share> = rows.filter(|row| row.tokens > Tokens::ZERO).collect();
        rows.sort_by(|a, b| b.tokens.cmp(&a.tokens).then_with(|| a.name.cmp(&b.name)));
        rows.truncate(most);
        rows
    }
}

impl Inspection {
    /// Weigh a session.
    pub(crate) fn of(messages: &[Message], policy: &Policy, limits: Limits) -> Inspection {
        let counter = &policy.count;
        let (mut kinds, mut tools, mut files, mut repeats) =
            <(Ranking, Ranking, Ranking, Ranking)>::default();
        let mut seen: BTreeMap<String, u64> = BTreeMap::new();
        let mut largest = Vec::new();
        for message in messages {
            for part in &message.parts {
                kinds.add(kind(message, part), part_tokens(part, counter) - output_tokens(part, counter));
                let Some(tool) = part.as_tool() else { continue };
                let output = output_tokens(part, counter);
                kinds.add("tool outputs", output);
                tools.add(&tool.tool, part_tokens(part, counter));
                largest.push(Largest { part: part.id.clone(), tool: tool.tool.clone(), tokens: output });
                for path in tool.state.input.iter().flat_map(|input| paths(input.value())) {
                    files.add(&path, output);
                    let times = seen.entry(path.clone()).or_default();
                    *times += 1;
                    if *times > 1 {
                        repeats.add(&path, output);
                    }
                }
            }
        }
        largest.sort_by_key(|row| std::cmp::Reverse(row.tokens));
        largest.truncate(ROWS);
        let window = Window::of(messages, policy);
        Inspection {
            messages: messages.len(),
            tokens: messages.iter().map(|message| message_tokens(message, counter)).sum(),
            window: request_tokens(&window, Fixed::default(), counter),
            line: policy.overflow.line(limits).map(|line| line.at),
            pivots: messages.iter().filter(|message| message.is_finished_summary()).count(),
            by_kind: kinds.rows(ROWS),
            by_tool: tools.rows(ROWS),
            by_file: files.rows(ROWS),
            largest: largest.into_iter().filter(|row| row.tokens > Tokens::ZERO).collect(),
            repeated: repeats.rows(ROWS),
            growth: growth(messages, counter),
        }
    }

    /// Tables and bars for people.
    pub(crate) fn render(&self) -> String {
        let mut out = format!(
            "{} messages, {} tokens in the log; {} in the window",
            self.messages, self.tokens, self.window
        );
        match self.line {
            Some(line) => {
                let percent = self.window.0 * 100 / line.0.max(1);
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
                let bar = "█".repeat((turn.tokens.0 * 40 / most) as usize);
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
        let percent = row.tokens.0 * 100 / all.0.max(1);
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

fn growth(messages: &[Message], counter: &dyn Counter) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    let mut total = Tokens::ZERO;
    for message in messages {
        if message.starts_turn() {
            let text = message.text();
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let prompt = printable(&words).chars().take(40).collect();
            turns.push(Turn { turn: turns.len() + 1, tokens: total, prompt });
        }
        total += message_tokens(message, counter);
        if let Some(turn) = turns.last_mut() {
            turn.tokens = total;
        }
    }
    turns
}

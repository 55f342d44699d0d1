//! The whole log, weighed part by part.

use plimsoll::facts::{paths, shell_reads};
use plimsoll::{
    CharCounter, Counter, Memo, Message, Part, PartBody, PartId, Tokens, message_tokens, part_tokens,
};
use plimsoll_tokens::Bpe;

use super::describe::Describer;
use super::kind::ContentKind;
use super::ranking::{Ranking, Weight};
use super::report::{LargeOutput, LogReport};

/// Maximum number of rows in a list.
const MAX_ROWS: usize = 10;

/// Sums over a log, in memory that does not grow with it.
#[derive(Clone)]
pub(super) struct LogTally {
    chars: CharCounter,
    /// The vocabulary; not used if the session records no usage.
    base: Option<Memo<Bpe>>,
    /// Weight of all messages so far.
    pub(super) total: Weight,
    kinds: Ranking,
    tools: Ranking,
    files: Ranking,
    largest: Vec<(PartId, String, Weight)>,
}

impl LogTally {
    pub(super) fn new(chars: CharCounter) -> LogTally {
        LogTally {
            chars,
            base: Some(Memo::new(Bpe::O200k)),
            total: Weight::default(),
            kinds: Ranking::default(),
            tools: Ranking::default(),
            files: Ranking::default(),
            largest: Vec::new(),
        }
    }

    /// Stops counting with the vocabulary.
    pub(super) fn drop_base(&mut self) {
        self.base = None;
    }

    pub(super) fn add(&mut self, message: &Message) {
        for part in &message.parts {
            self.part(message, part);
            self.total += self.attached(message, part);
        }
        self.total += self.weight(|counter| message_tokens(message, counter));
    }

    fn weight(&self, count: impl Fn(&dyn Counter) -> Tokens) -> Weight {
        let base = self.base.as_ref().map_or(Tokens::ZERO, |base| count(base));
        Weight { chars: count(&self.chars), base, ..Weight::default() }
    }

    /// Returns the weight of a part's images and other files that a window shows.
    fn attached(&self, message: &Message, part: &Part) -> Weight {
        let count = match &part.body {
            PartBody::Tool(tool) => tool.state.attachments.len(),
            // A window shows these as text.
            PartBody::File(file) => {
                let is_text = matches!(file.mime.as_deref(), Some("text/plain" | "application/x-directory"));
                usize::from(message.is_user() && !is_text)
            }
            _ => 0,
        };
        let each = self.base.as_ref().map_or(self.chars.file_tokens(), Counter::file_tokens);
        Weight { files: Tokens(each.0.saturating_mul(count as u64)), ..Weight::default() }
    }

    fn part(&mut self, message: &Message, part: &Part) {
        let mut weight = self.weight(|counter| part_tokens(part, counter));
        let mut output = self.weight(|counter| output_tokens(part, counter));
        let attached = self.attached(message, part);
        weight += attached;
        if part.as_tool().is_some() {
            output += attached;
        }
        self.kinds.add(ContentKind::of_part(message, part).label(), weight - output);
        let Some(tool) = part.as_tool() else { return };
        self.kinds.add(ContentKind::ToolOutputs.label(), output);
        self.tools.add(&tool.tool, weight);
        let place = self.largest.partition_point(|row| row.2.tokens(None) >= output.tokens(None));
        if place < MAX_ROWS {
            self.largest.insert(place, (part.id.clone(), tool.tool.clone(), output));
            self.largest.truncate(MAX_ROWS);
        }
        let Some(input) = tool.state.input.as_ref().map(|input| input.value()) else { return };
        let named = paths(input);
        // The share of each file in one output is unknown, so it is divided evenly.
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

    /// Returns the sums, with the session's factor if it has one.
    pub(super) fn report(self, describer: Describer<'_>, factor: Option<f64>) -> LogReport {
        let mut by_file = self.files.rows_by(MAX_ROWS, factor);
        by_file.iter_mut().for_each(|row| row.name = describer.relative(&row.name));
        let largest = self.largest.into_iter();
        let largest =
            largest.map(|(part, tool, output)| LargeOutput { part, tool, tokens: output.tokens(factor) });
        LogReport {
            by_kind: self.kinds.rows_by(MAX_ROWS, factor),
            by_tool: self.tools.rows_by(MAX_ROWS, factor),
            by_file,
            largest: largest.filter(|row| row.tokens > Tokens::ZERO).collect(),
        }
    }
}

/// Tokens of the result of a part that has both a call and its result.
fn output_tokens(part: &Part, counter: &dyn Counter) -> Tokens {
    part.as_tool()
        .and_then(|tool| tool.state.result())
        .map(|text| counter.count_text(text))
        .unwrap_or_default()
}

//! The measure of the visible part of a message, and its changes by reductions.

use plimsoll::floor::Floor;
use plimsoll::log::{LogPosition, Mark};
use plimsoll::{Counter, Memo, Message, Part, PartBody, Text, Tokens, Usage};

use crate::bpe::Bpe;
use crate::measure::Measure;

/// Share of a text's own count below which a billed reply was not counted to its end: some writers record the usage
/// from the start of the stream.
const MIN_BILLED_SHARE: f64 = 0.8;

/// The measure of a message, by origin.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ShownMeasure {
    /// The model's own text and calls.
    said: Measure,
    /// The model's reasoning.
    thought: Measure,
    /// Results of tools, files, and summaries in place of a part.
    given: Measure,
}

impl ShownMeasure {
    /// Measures a message with its marks.
    pub(crate) fn of(message: &Message, base: &Memo<Bpe>) -> ShownMeasure {
        let mut shown = ShownMeasure::default();
        message.parts.iter().for_each(|part| shown.add(part, base));
        shown
    }

    fn add(&mut self, part: &Part, base: &Memo<Bpe>) {
        if part.is_hidden() {
            return;
        }
        if let Some(text) = part.replaced() {
            self.given = self.given + Measure::of_text(text, base);
            return;
        }
        let keep = part.cut().map(|cut| cut.keep.0);
        let count = |text: &Text| {
            let chars = text.chars().0;
            match keep {
                // The bound of a whole text says nothing about its beginning.
                Some(keep) if keep < chars => {
                    Measure::new(base.count_text(text).share(keep as f64 / chars as f64), 1)
                }
                _ => Measure::of_text(text, base),
            }
        };
        // The block remains, with a placeholder of a few words and the names that were kept.
        let names = |names: &Text| Measure::of_text(names, base);
        let result =
            |text: &Text| if part.cleared().is_some() { names(&part.names_of_result()) } else { count(text) };
        let file = Measure::default().with_exact(base.file_tokens());
        match &part.body {
            PartBody::Text(text) if text.ignored != Some(true) && !text.text.is_empty() => {
                self.said = self.said + count(&text.text);
            }
            PartBody::Reasoning(part) if !part.text.is_empty() => {
                self.thought = self.thought + count(&part.text);
            }
            PartBody::Tool(tool) => {
                let input = part.names_of_input().or(tool.state.input.as_ref().map(|input| input.json()));
                // Name and input are one block.
                let input = input.map(|input| Measure { blocks: 0, ..Measure::of_text(input, base) });
                let name = Measure::new(base.count(&tool.tool), 1);
                self.said = self.said + name + input.unwrap_or_default();
                if let Some(text) = tool.state.result() {
                    self.given = self.given + result(text);
                }
                self.given = tool.state.attachments.iter().fold(self.given, |given, _| given + file);
            }
            PartBody::ToolResult(part) => self.given = self.given + result(&part.text),
            PartBody::File(_) => self.given = self.given + file,
            _ => {}
        }
    }

    /// Returns the message's share of the window: with its reasoning, as billed; and without. If the reply measures `full` without
    /// reductions, the price is that of the visible share.
    pub(crate) fn billed(&self, full: &ShownMeasure, usage: Option<&Usage>) -> [Measure; 2] {
        self.reply(full, usage).map(|reply| reply + self.given)
    }

    /// Like [`billed`](ShownMeasure::billed), without results of tools and files.
    pub(crate) fn reply(&self, full: &ShownMeasure, usage: Option<&Usage>) -> [Measure; 2] {
        // Providers drop reasoning from later requests, so it bounds nothing.
        let thought = Measure { least: Floor::default(), ..self.thought };
        let (said, whole) = (self.said, self.said + thought);
        let Some(usage) = usage else { return [whole, said] };
        let billed = |tokens: Tokens, shown: Measure, full: Measure| {
            let is_whole = tokens.0 as f64 > MIN_BILLED_SHARE * full.base.0 as f64;
            let share =
                if full.base == Tokens::ZERO { 1.0 } else { shown.base.0 as f64 / full.base.0 as f64 };
            let price = Tokens((tokens.0 as f64 * share).round() as u64);
            is_whole.then(|| Measure { least: said.least, ..Measure::default().with_exact(price) })
        };
        let with = billed(usage.output + usage.reasoning, whole, full.said + full.thought).unwrap_or(whole);
        // If reasoning is not counted separately, only the text is known.
        let is_apart = usage.reasoning > Tokens::ZERO;
        let without = billed(usage.output, said, full.said).filter(|_| is_apart).unwrap_or(said);
        [with, without]
    }
}

/// The states that a message was visible in, oldest first: without any reduction, which has no position, and after each
/// reduction or undo. Empty if there were none.
///
/// States are ordered by the clock, which may have been changed. Then a state in between is wrong; the last one has all
/// marks and is right.
pub(crate) fn reductions(message: &Message) -> Vec<(Message, Option<LogPosition>)> {
    let is_untouched = |part: &Part| part.marks.is_empty() && part.cleared().is_none();
    if message.parts.iter().all(is_untouched) {
        return Vec::new();
    }
    let marks: Vec<Vec<Mark>> = message.parts.iter().map(Part::all_marks).collect();
    let lifted = |mark: &Mark| mark.lifted.as_ref().map(|(at, _)| at.clone());
    let mut moments: Vec<LogPosition> =
        marks.iter().flatten().flat_map(|mark| [Some(mark.set.clone()), lifted(mark)]).flatten().collect();
    moments.sort_by_key(|moment| moment.at);
    moments.dedup();
    let state = |past: &[LogPosition]| {
        let mut shown = message.clone();
        for (part, marks) in shown.parts.iter_mut().zip(&marks) {
            let is_past = |mark: &&Mark| past.contains(&mark.set);
            let in_force =
                marks.iter().filter(is_past).filter(|mark| lifted(mark).is_none_or(|at| !past.contains(&at)));
            let in_force = in_force.map(|mark| Mark { lifted: None, ..mark.clone() }).collect();
            *part = part.clone().without_marks().with_marks(in_force);
        }
        shown
    };
    let bare = std::iter::once((state(&[]), None));
    bare.chain((0..moments.len()).map(|last| (state(&moments[..=last]), Some(moments[last].clone()))))
        .collect()
}

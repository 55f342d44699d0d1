//! A recorded session, taken apart into what was said to the model and what it called.

use std::collections::{BTreeMap, BTreeSet};

use aho_corasick::AhoCorasick;
use plimsoll::count::part_tokens;
use plimsoll::{CharCounter, Log, Message, Millis, Part, PartBody, Role, Text, Tokens};
use plimsoll_tokens::{Measured, WindowMeter};

use crate::references;

/// A recorded session, made ready to be replayed under any rules.
///
/// Marks and summaries of the recorded agent are taken out, so that each replay starts from what really
/// happened; its summaries are kept aside for compactions that fall due at the same point.
pub struct Recording {
    pub(crate) steps: Vec<Step>,
    /// Everything that some call refers to.
    references: Vec<String>,
    finder: Option<AhoCorasick>,
    /// What the usage that the session records says about its requests, if it records any.
    measured: Option<Measured>,
    /// Tokens that were written to the cache, and what of them for an hour.
    written: (Tokens, Tokens),
}

/// A message, and what is known about it if it is the answer to a call of the model.
pub(crate) struct Step {
    pub(crate) message: Message,
    pub(crate) call: Option<Call>,
}

/// A recorded call of the model.
pub(crate) struct Call {
    /// When it was made.
    pub(crate) at: Option<Millis>,
    /// The tokens of its answer.
    pub(crate) output: u64,
    /// The references its tool inputs use that somebody had mentioned before, by number.
    pub(crate) wanted: Vec<u32>,
    /// The summary that the recorded agent made just before.
    pub(crate) summary: Option<Text>,
}

impl Recording {
    /// Take a session apart.
    pub fn of(messages: Vec<Message>) -> Recording {
        let measured = WindowMeter::of(&messages).read();
        let mut written = (Tokens::ZERO, Tokens::ZERO);
        for usage in messages.iter().filter_map(|message| message.info.tokens.as_ref()) {
            written.0 += usage.cache_write;
            written.1 += usage.cache_write_hour;
        }
        let log = Log::from_messages(messages);
        let mut steps: Vec<Step> = Vec::new();
        let mut summary = None;
        for message in log.messages() {
            if message.info.summary || message.marker().is_some() {
                let text = summary_of(message);
                let begins = steps.iter().all(|step| step.message.info.role == Some(Role::System));
                match text {
                    // What it stands for is not in the recording, so it is all there is.
                    Some(text) if begins => steps.push(Step { message: told(message, &text), call: None }),
                    Some(text) => summary = Some(text),
                    None => {}
                }
                continue;
            }
            let message = unmarked(message.clone());
            let call = is_call(&message).then(|| Call {
                at: message.info.time.as_ref().and_then(|time| time.created),
                output: output_of(&message),
                wanted: Vec::new(),
                summary: summary.take(),
            });
            steps.push(Step { message, call });
        }
        let mut recording = Recording { steps, references: Vec::new(), finder: None, measured, written };
        recording.refer();
        recording
    }

    /// What the usage that the session records says about its requests. All rules are weighed with it: their windows
    /// by its factor, and its hidden part with every request. Without recorded usage there is none, and tokens are
    /// characters over four.
    pub fn measured(&self) -> Option<&Measured> {
        self.measured.as_ref()
    }

    /// How long the session's prompt cache lived, as its usage tells; none if it does not.
    pub fn cache_lifetime(&self) -> Option<Millis> {
        let (all, hour) = self.written;
        let lived = if hour.0 > all.0 / 2 { Millis(3_600_000) } else { Millis(300_000) };
        (all > Tokens::ZERO).then_some(lived)
    }

    /// How many calls of the model there are.
    pub fn calls(&self) -> usize {
        self.steps.iter().filter(|step| step.call.is_some()).count()
    }

    /// How many different references there are.
    pub(crate) fn references(&self) -> usize {
        self.references.len()
    }

    /// Find out which references each call uses, and which of them had been mentioned before.
    fn refer(&mut self) {
        let used: Vec<BTreeSet<String>> = self.steps.iter().map(used).collect();
        let all: BTreeSet<&String> = used.iter().flatten().collect();
        self.references = all.into_iter().cloned().collect();
        // A table too large to be built would only cost the recall figures, and real sessions are far from it.
        self.finder = AhoCorasick::new(&self.references).ok().filter(|_| !self.references.is_empty());
        let numbers: BTreeMap<&str, u32> = self.references.iter().map(String::as_str).zip(0..).collect();
        let mut seen = vec![false; self.references.len()];
        let mut wanted = Vec::new();
        for (step, used) in self.steps.iter().zip(&used) {
            let known = used.iter().filter_map(|reference| numbers.get(reference.as_str()).copied());
            wanted.push(known.filter(|number| seen[*number as usize]).collect::<Vec<u32>>());
            for text in mentions(&step.message) {
                self.found_in(text).into_iter().for_each(|number| seen[number as usize] = true);
            }
        }
        for (step, wanted) in self.steps.iter_mut().zip(wanted) {
            if let Some(call) = &mut step.call {
                call.wanted = wanted;
            }
        }
    }

    /// The references that a text contains, by number, each once.
    pub(crate) fn found_in(&self, text: &str) -> BTreeSet<u32> {
        let Some(finder) = &self.finder else { return BTreeSet::new() };
        let matches = finder.find_overlapping_iter(text);
        let alone = matches.filter(|found| references::stands_alone(text, found.start(), found.end()));
        alone.map(|found| found.pattern().as_u32()).collect()
    }
}

fn used(step: &Step) -> BTreeSet<String> {
    if step.call.is_none() {
        return BTreeSet::new();
    }
    let inputs = step.message.parts.iter().filter_map(|part| match &part.body {
        PartBody::Tool(tool) => tool.state.input.as_ref(),
        PartBody::ToolCall(call) => call.input.as_ref(),
        _ => None,
    });
    inputs.flat_map(|input| references::of_input(input.value())).collect()
}

/// What a message says that a model can copy from: the words of the user, and what tools answered.
fn mentions(message: &Message) -> impl Iterator<Item = &Text> {
    let told = message.is_user();
    message.parts.iter().filter_map(move |part| match &part.body {
        PartBody::Text(text) if told => Some(&text.text),
        PartBody::Tool(tool) => tool.state.result(),
        PartBody::ToolResult(result) => Some(&result.text),
        _ => None,
    })
}

/// Whether the model answered here, rather than the host in its name.
fn is_call(message: &Message) -> bool {
    let spoke = |part: &Part| {
        matches!(
            part.body,
            PartBody::Text(_) | PartBody::Reasoning(_) | PartBody::Tool(_) | PartBody::ToolCall(_)
        )
    };
    message.is_assistant() && message.info.error.is_none() && message.parts.iter().any(spoke)
}

/// A shorter summary says nothing: some are only a note that the provider keeps the real one to itself.
const LEAST: usize = 80;

/// What the provider counted for the answer, or an estimate of it.
fn output_of(message: &Message) -> u64 {
    let counted = message.info.tokens.as_ref().map(|usage| usage.output + usage.reasoning);
    if let Some(counted) = counted.filter(|counted| *counted > Tokens::ZERO) {
        return counted.0;
    }
    let counter = CharCounter::default();
    let said = message.parts.iter().map(|part| match &part.body {
        PartBody::Tool(tool) => {
            tool.state.input.as_ref().map(|input| counter.of_chars(input.json().chars())).unwrap_or_default()
        }
        _ => part_tokens(part, &counter),
    });
    said.sum::<Tokens>().0
}

fn summary_of(message: &Message) -> Option<Text> {
    let inside = message.marker().and_then(|marker| marker.summary.clone());
    let said = message.is_finished_summary().then(|| Text::from(message.text()));
    inside.or(said).filter(|text| text.trim().chars().count() >= LEAST)
}

/// A summary as something the user was told.
fn told(message: &Message, text: &Text) -> Message {
    let part = plimsoll::PartId::new(format!("{}.summary", message.info.id));
    Message::user(message.info.id.clone(), part, text.clone())
}

/// The message without the marks that the recorded agent set.
fn unmarked(mut message: Message) -> Message {
    for part in &mut message.parts {
        *part = part.clone().without_marks();
    }
    message
}

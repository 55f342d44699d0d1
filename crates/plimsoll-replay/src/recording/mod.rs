//! A recorded session, taken apart into what was said to the model and what it called.

mod layout;
mod lifetime;
mod pieces;
mod recorded;
mod references;
mod surroundings;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::OnceLock;

use aho_corasick::AhoCorasick;
use plimsoll::count::part_tokens;
use plimsoll::{
    CharCounter, Counter, Log, Message, Millis, Part, PartBody, PartId, Role, Text, Tokens, Usage,
};
use plimsoll_tokens::{Measured, WindowMeter};

use crate::price::Price;
pub(crate) use layout::Layout;
pub(crate) use lifetime::HOUR;
use pieces::Held;
pub(crate) use pieces::{Piece, Pieces, RECALL_PART};
pub(crate) use recorded::CacheRead;

/// A recorded session, made ready to be replayed under any rules.
///
/// Marks and summaries of the recorded agent are taken out, so that each replay starts from what really
/// happened; its summaries are kept aside for compactions that fall due at the same point.
pub struct Recording {
    pub(crate) steps: Vec<Step>,
    /// Everything that some call refers to.
    references: Vec<String>,
    /// The results of tools that some call refers to.
    pub(crate) results: Vec<PartId>,
    finder: Option<AhoCorasick>,
    /// What the usage that the session records says about its requests, if it records any.
    measured: Option<Measured>,
    /// How long its prompt cache lived, as far as its usage tells.
    cache_lifetime: Option<Millis>,
    /// How many calls were made before the recorded agent reduced anything.
    pub(crate) unreduced_calls: usize,
    /// The calls before which it compacted, from 1.
    compactions: Vec<usize>,
    /// The whole session as a list of pieces, made when the first rules need it.
    layout: OnceLock<Layout>,
    /// Fingerprints of the surroundings of each reference wherever the recording mentions it.
    surroundings: OnceLock<HashSet<u64>>,
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
    /// The references its tool inputs use that a tool had mentioned before.
    pub(crate) wanted: Vec<Wanted>,
    /// What the provider recorded for its request.
    pub(crate) recorded: Option<u64>,
    /// The summary that the recorded agent made just before.
    pub(crate) summary: Option<Text>,
    /// The model that answered; empty if that is not recorded.
    pub(crate) model: String,
    /// Tokens of its answer that later requests carry although the recording does not show them.
    pub(crate) hidden: u64,
    /// Tokens of its recorded request for one of the rebuilt request.
    pub(crate) scale: f64,
    /// How much of its recorded request was read from the cache.
    pub(crate) read: CacheRead,
    /// The price of its model, if it has another than the rest of the session.
    pub(crate) price: Option<Price>,
}

/// A reference that a call uses and that a tool had mentioned before.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    /// Its number.
    pub(crate) reference: u32,
    /// The newest result that mentions it, by its place in the recording's results.
    pub(crate) result: u32,
    /// Whether only results of tools mention it: no prompt, no answer and no input has repeated it since. A window that
    /// shows no result does not show it.
    pub(crate) only_in_results: bool,
}

impl Recording {
    /// Take a session apart.
    pub fn of(messages: Vec<Message>) -> Recording {
        let measured = WindowMeter::of(&messages).read();
        let cache_lifetime = lifetime::of_usage(&messages);
        let log = Log::from_messages(messages);
        let mut steps: Vec<Step> = Vec::new();
        let mut summary = None;
        let (mut calls, mut unreduced_calls, mut compactions) = (0, None, Vec::new());
        for message in log.messages() {
            if message.info.summary || message.marker().is_some() {
                let text = summary_of(message);
                let begins = steps.iter().all(|step| step.message.info.role == Some(Role::System));
                if !begins {
                    unreduced_calls.get_or_insert(calls);
                    compactions.push(calls + 1);
                }
                match text {
                    // What it stands for is not in the recording, so it is all there is.
                    Some(text) if begins => steps.push(Step { message: told(message, &text), call: None }),
                    Some(text) => summary = Some(text),
                    None => {}
                }
                continue;
            }
            let marked = message;
            let message = unmarked(marked.clone());
            if message != *marked {
                // What is marked was in the window at first, and no mark says how long.
                unreduced_calls = Some(0);
            }
            calls += usize::from(is_call(&message));
            let call = is_call(&message).then(|| Call {
                at: message.info.time.as_ref().and_then(|time| time.created),
                output: output_of(&message),
                wanted: Vec::new(),
                recorded: request_of(&message),
                summary: summary.take(),
                model: message.info.model_id.clone().unwrap_or_default(),
                hidden: 0,
                scale: 1.0,
                read: CacheRead::Unknown,
                price: None,
            });
            steps.push(Step { message, call });
        }
        let (references, results) = (Vec::new(), Vec::new());
        let unreduced_calls = unreduced_calls.unwrap_or(calls);
        compactions.dedup();
        let mut recording = Recording {
            steps,
            references,
            results,
            finder: None,
            measured,
            cache_lifetime,
            unreduced_calls,
            compactions,
            layout: OnceLock::new(),
            surroundings: OnceLock::new(),
        };
        recording.refer();
        recording.weigh();
        recording
    }

    /// Takes weights and cache reads from the recorded usage.
    fn weigh(&mut self) {
        let hidden: Vec<u64> = self.steps.iter().map(|step| self.hidden_in(&step.message)).collect();
        for (step, hidden) in self.steps.iter_mut().zip(hidden) {
            if let Some(call) = &mut step.call {
                call.hidden = hidden;
            }
        }
        recorded::set_reads(&mut self.steps);
        let layout = Layout::of(self);
        let fixed = self.measured().map(Measured::hidden).unwrap_or_default().0;
        recorded::set_scales(&mut self.steps, &layout, fixed, self.unreduced_calls);
        self.layout = OnceLock::from(layout);
    }

    /// Tokens of an answer that were billed beyond what the recording shows of it: reasoning that the provider keeps to
    /// itself, and that later requests carry.
    fn hidden_in(&self, message: &Message) -> u64 {
        // Only a later request shows whether it is carried.
        let Some(measured) = self.measured().filter(|measured| measured.requests().len() > 1) else {
            return 0;
        };
        let Some(reply) = measured.reply(message) else { return 0 };
        let counter = measured.counter();
        let mut shown = counter.message_overhead();
        for part in &message.parts {
            match &part.body {
                PartBody::Text(text) if text.ignored != Some(true) => shown += counter.count_text(&text.text),
                PartBody::Reasoning(thought) if measured.resends_reasoning() => {
                    shown += counter.count_text(&thought.text);
                }
                PartBody::Tool(tool) => {
                    let input = tool.state.input.as_ref().map(|input| counter.count_text(input.json()));
                    shown += counter.count(&tool.tool) + input.unwrap_or_default();
                }
                PartBody::ToolCall(call) => {
                    let input = call.input.as_ref().map(|input| counter.count_text(input.json()));
                    shown += counter.count(&call.tool) + input.unwrap_or_default();
                }
                _ => {}
            }
        }
        reply.0.saturating_sub(shown.0)
    }

    /// The recorded cost of each call, in dollars: what its tool says, or `price` for its model, time and usage.
    pub fn recorded_costs(
        &self,
        price: impl Fn(&str, Option<Millis>, &Usage) -> Option<f64>,
    ) -> Vec<Option<f64>> {
        let calls = self.steps.iter().filter_map(|step| Some((&step.message.info, step.call.as_ref()?)));
        let costs = calls.map(|(info, call)| {
            let usage = info.tokens.as_ref().filter(|_| call.recorded.is_some())?;
            // A subscription is recorded as zero.
            let told = info.cost.as_ref().and_then(serde_json::Number::as_f64).filter(|cost| *cost > 0.0);
            told.or_else(|| price(&call.model, call.at, usage))
        });
        costs.collect()
    }

    /// Prices calls by the models that answered them, each by its name and the time of the call. Calls of a model without a
    /// price have the price of the replay.
    pub fn price_calls(&mut self, price: impl Fn(&str, Option<Millis>) -> Option<Price>) {
        for call in self.steps.iter_mut().filter_map(|step| step.call.as_mut()) {
            call.price = price(&call.model, call.at);
        }
    }

    /// The models that answered, with the number of their answers.
    pub fn models(&self) -> Vec<(&str, usize)> {
        let mut models: BTreeMap<&str, usize> = BTreeMap::new();
        let calls = self.steps.iter().filter_map(|step| step.call.as_ref());
        for call in calls.filter(|call| !call.model.is_empty()) {
            *models.entry(&call.model).or_default() += 1;
        }
        models.into_iter().collect()
    }

    /// What the usage that the session records says about its requests. All rules are weighed with it: their windows
    /// by its factor, and its hidden part with every request. Without recorded usage there is none, and tokens are
    /// characters over four.
    pub fn measured(&self) -> Option<&Measured> {
        self.measured.as_ref()
    }

    /// How long the session's prompt cache lived, as its usage tells; none if it does not.
    pub fn cache_lifetime(&self) -> Option<Millis> {
        self.cache_lifetime
    }

    /// What the provider recorded for the request of each call, where it did.
    pub fn recorded_requests(&self) -> Vec<Option<u64>> {
        self.steps.iter().filter_map(|step| step.call.as_ref()).map(|call| call.recorded).collect()
    }

    /// How many calls of the model there are.
    pub fn calls(&self) -> usize {
        self.steps.iter().filter(|step| step.call.is_some()).count()
    }

    /// How many calls were made before the recorded agent summarised or cleared anything. Their requests were sent as
    /// the recording has them; later ones were smaller than what is rebuilt of them.
    pub fn unreduced_calls(&self) -> usize {
        self.unreduced_calls
    }

    /// The median share of its recorded tokens that a request is rebuilt with from what the file shows; `None` if no size is
    /// recorded. A replay scales requests by it, each by its own.
    pub fn rebuilt_share(&self) -> Option<f64> {
        let calls = self.steps.iter().filter_map(|step| step.call.as_ref()).take(self.unreduced_calls);
        let mut shares: Vec<f64> =
            calls.filter(|call| call.recorded.is_some()).map(|call| 1.0 / call.scale).collect();
        shares.sort_by(f64::total_cmp);
        shares.get(shares.len() / 2).copied()
    }

    /// The calls before which the recorded agent compacted, from 1. After a compaction at the very end there is none.
    pub fn compactions(&self) -> Vec<usize> {
        let calls = self.calls();
        self.compactions.iter().copied().filter(|call| *call <= calls).collect()
    }

    /// How many different references there are.
    pub(crate) fn references(&self) -> usize {
        self.references.len()
    }

    /// A reference as it is written.
    pub(crate) fn words(&self, reference: u32) -> &str {
        &self.references[reference as usize]
    }

    /// Find out which references each call uses, and which of them had been mentioned before.
    fn refer(&mut self) {
        let used: Vec<BTreeSet<String>> = self.steps.iter().map(used).collect();
        let all: BTreeSet<&String> = used.iter().flatten().collect();
        self.references = all.into_iter().cloned().collect();
        // A table too large to be built would only cost the recall figures, and real sessions are far from it.
        self.finder = AhoCorasick::new(&self.references).ok().filter(|_| !self.references.is_empty());
        let numbers: BTreeMap<&str, u32> = self.references.iter().map(String::as_str).zip(0..).collect();
        let count = self.references.len();
        // For each reference the newest result that mentions it, and whether anything else has.
        let (mut newest, mut elsewhere) = (vec![None; count], vec![false; count]);
        let (mut wanted, mut results) = (Vec::new(), Vec::new());
        for (step, used) in self.steps.iter().zip(&used) {
            let known = used.iter().filter_map(|reference| numbers.get(reference.as_str()).copied());
            let of_result = known.filter_map(|reference| {
                let result = newest[reference as usize]?;
                Some(Wanted { reference, result, only_in_results: !elsewhere[reference as usize] })
            });
            wanted.push(of_result.collect::<Vec<Wanted>>());
            for (part, text, is_result) in texts(&step.message) {
                let found = self.found_in(text);
                if is_result && !found.is_empty() {
                    let number = results.len() as u32;
                    results.push(part.clone());
                    found.into_iter().for_each(|reference| newest[reference as usize] = Some(number));
                } else {
                    found.into_iter().for_each(|reference| elsewhere[reference as usize] = true);
                }
            }
        }
        self.results = results;
        for (step, wanted) in self.steps.iter_mut().zip(wanted) {
            if let Some(call) = &mut step.call {
                call.wanted = wanted;
            }
        }
    }

    /// The references that a text contains, by number, each once.
    pub(crate) fn found_in(&self, text: &str) -> BTreeSet<u32> {
        self.mentions(text).map(|mention| mention.reference).collect()
    }

    /// How often a text contains each reference.
    pub(crate) fn counts_in(&self, text: &str) -> BTreeMap<u32, usize> {
        let mut counts = BTreeMap::new();
        self.mentions(text).for_each(|mention| *counts.entry(mention.reference).or_default() += 1);
        counts
    }

    /// The references that a text shows, each once. In a recorded text all have their surroundings; in one that a reduction
    /// wrote, those whose surroundings are the same as in a recorded text.
    pub(crate) fn held_by(&self, text: &str, is_recorded: bool) -> Box<[Held]> {
        let mut held: BTreeMap<u32, bool> = BTreeMap::new();
        for mention in self.mentions(text) {
            let is_surrounded = held.entry(mention.reference).or_insert(is_recorded);
            *is_surrounded = *is_surrounded || self.surroundings().contains(&mention.fingerprint(text));
        }
        held.into_iter().map(|(reference, is_surrounded)| Held { reference, is_surrounded }).collect()
    }

    /// The whole session as a list of pieces.
    pub(crate) fn layout(&self) -> &Layout {
        self.layout.get_or_init(|| Layout::of(self))
    }

    fn surroundings(&self) -> &HashSet<u64> {
        self.surroundings.get_or_init(|| {
            let texts = self.layout().table.texts();
            texts.flat_map(|text| self.mentions(text).map(|mention| mention.fingerprint(text))).collect()
        })
    }

    /// Every place where a text contains a reference.
    fn mentions<'a>(&'a self, text: &'a str) -> impl Iterator<Item = Mention> + 'a {
        let matches = self.finder.iter().flat_map(move |finder| finder.find_overlapping_iter(text));
        let alone = matches.filter(move |found| references::stands_alone(text, found.start(), found.end()));
        alone.map(|found| Mention {
            reference: found.pattern().as_u32(),
            start: found.start(),
            end: found.end(),
        })
    }
}

/// A place where a text contains a reference.
struct Mention {
    reference: u32,
    start: usize,
    end: usize,
}

impl Mention {
    fn fingerprint(&self, text: &str) -> u64 {
        surroundings::fingerprint(text, self.start, self.end, self.reference)
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

/// What a message says that a model can copy from, part by part: whether it is the result of a tool, or anything else
/// that a window shows.
fn texts(message: &Message) -> Vec<(&PartId, &Text, bool)> {
    let mut texts = Vec::new();
    for part in &message.parts {
        let mut push = |text, is_result| texts.push((&part.id, text, is_result));
        match &part.body {
            PartBody::Text(text) if text.ignored != Some(true) => push(&text.text, false),
            PartBody::Reasoning(thought) => push(&thought.text, false),
            PartBody::Tool(tool) => {
                tool.state.input.iter().for_each(|input| push(input.json(), false));
                tool.state.result().into_iter().for_each(|text| push(text, true));
            }
            PartBody::ToolCall(call) => call.input.iter().for_each(|input| push(input.json(), false)),
            PartBody::ToolResult(result) => push(&result.text, true),
            _ => {}
        }
    }
    texts
}

/// What the provider counted for the request of an answer.
fn request_of(message: &Message) -> Option<u64> {
    let request = recorded::request(message.info.tokens.as_ref()?);
    (request > Tokens::ZERO).then_some(request.0)
}

/// Whether the model answered here, rather than the host in its name.
fn is_call(message: &Message) -> bool {
    let spoke = |part: &Part| match &part.body {
        PartBody::Text(text) => text.synthetic != Some(true),
        PartBody::Reasoning(_) | PartBody::Tool(_) | PartBody::ToolCall(_) => true,
        _ => false,
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

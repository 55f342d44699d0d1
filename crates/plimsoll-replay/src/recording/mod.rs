//! A recorded session, split into messages and model calls.

mod fingerprint;
mod layout;
mod lifetime;
mod pieces;
mod recorded;
mod references;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::OnceLock;

use aho_corasick::AhoCorasick;
use plimsoll::{
    CharCounter, Counter, Log, Message, Millis, Part, PartBody, PartId, Role, Text, Tokens, Usage,
    part_tokens,
};
use plimsoll_tokens::{Measured, WindowMeter};

use crate::price::Price;
pub(crate) use layout::Layout;
pub(crate) use lifetime::HOUR;
use pieces::ShownReference;
pub(crate) use pieces::{Piece, Pieces, RECALL_PART};
pub(crate) use recorded::CacheRead;

/// A recorded session that can be replayed under any rules.
///
/// Marks and summaries of the recorded agent are removed, so that each replay starts from what was really said. The
/// summaries are kept for compactions that happen at the same call.
pub struct Recording {
    pub(crate) steps: Vec<RecordedMessage>,
    /// All references that calls use.
    references: Vec<String>,
    /// Results of tools that calls refer to.
    pub(crate) results: Vec<PartId>,
    finder: Option<AhoCorasick>,
    /// Facts about the session's requests from recorded usage, if there is any.
    measured: Option<Measured>,
    /// Lifetime of the prompt cache, if the usage shows it.
    cache_lifetime: Option<Millis>,
    /// Number of calls before the recorded agent reduced anything.
    pub(crate) unreduced_calls: usize,
    /// Numbers, from 1, of the calls before which the recorded agent compacted.
    compactions: Vec<usize>,
    /// The whole session as a list of pieces, created when the first rules need it.
    layout: OnceLock<Layout>,
    /// Fingerprints of the text around every occurrence of a reference in the recording.
    surroundings: OnceLock<HashSet<u64>>,
}

/// A message, and what is known about it if it is a model's answer.
pub(crate) struct RecordedMessage {
    pub(crate) message: Message,
    pub(crate) call: Option<ModelCall>,
}

/// A recorded call of the model.
pub(crate) struct ModelCall {
    /// Time of the call.
    pub(crate) at: Option<Millis>,
    /// Tokens of its answer.
    pub(crate) output: u64,
    /// References in its tool inputs that a tool had mentioned before.
    pub(crate) wanted: Vec<CallReference>,
    /// Tokens of its request as the provider recorded them.
    pub(crate) recorded: Option<u64>,
    /// The summary that the recorded agent created just before.
    pub(crate) summary: Option<Text>,
    /// The model that answered; empty if it is not recorded.
    pub(crate) model: String,
    /// Tokens of its answer that later requests include but the recording does not contain.
    pub(crate) hidden: u64,
    /// Recorded tokens of its request per token of the rebuilt request.
    pub(crate) scale: f64,
    /// How much of its recorded request was read from the cache.
    pub(crate) read: CacheRead,
    /// Price of its model, if it differs from that of the session.
    pub(crate) price: Option<Price>,
}

/// A reference in a call that a tool had mentioned before.
#[derive(Clone, Copy)]
pub(crate) struct CallReference {
    /// Number of the reference.
    pub(crate) reference: u32,
    /// Index of the newest result that mentions it, in the recording's results.
    pub(crate) result: u32,
    /// Whether only tool results mention it: since then no prompt, answer or input repeated it. A window without
    /// results does not show it.
    pub(crate) only_in_results: bool,
}

impl Recording {
    /// Splits a session into messages and calls.
    pub fn of(messages: Vec<Message>) -> Recording {
        let measured = WindowMeter::of(&messages).read();
        let cache_lifetime = lifetime::of_usage(&messages);
        let log = Log::from_messages(messages);
        let mut steps: Vec<RecordedMessage> = Vec::new();
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
                    // The recording lacks what this summary replaces, so the summary is all there is.
                    Some(text) if begins => {
                        steps.push(RecordedMessage { message: as_user_message(message, &text), call: None });
                    }
                    Some(text) => summary = Some(text),
                    None => {}
                }
                continue;
            }
            let marked = message;
            let message = unmarked(marked.clone());
            if message != *marked {
                // Marked content was in the window at first, and marks do not show how long.
                unreduced_calls = Some(0);
            }
            calls += usize::from(is_call(&message));
            let call = is_call(&message).then(|| ModelCall {
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
            steps.push(RecordedMessage { message, call });
        }
        let (references, results) = (Vec::new(), Vec::new());
        let unreduced_calls = unreduced_calls.unwrap_or(calls);
        // A marker and its summary are two messages of one compaction.
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

    /// Sets scales and cache reads from the recorded usage.
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

    /// Returns the tokens that an answer was billed for beyond what the recording shows: reasoning that the provider
    /// keeps, and that later requests contain.
    fn hidden_in(&self, message: &Message) -> u64 {
        // Only a later request shows whether it contains the hidden output.
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

    /// Returns the recorded cost of each call in dollars: the tool's own figure, or `price` for its model, time and
    /// usage.
    pub fn recorded_costs(
        &self,
        price: impl Fn(&str, Option<Millis>, &Usage) -> Option<f64>,
    ) -> Vec<Option<f64>> {
        let calls = self.steps.iter().filter_map(|step| Some((&step.message.info, step.call.as_ref()?)));
        let costs = calls.map(|(info, call)| {
            let usage = info.tokens.as_ref().filter(|_| call.recorded.is_some())?;
            // Subscriptions are recorded as zero.
            let recorded = info.cost.as_ref().and_then(serde_json::Number::as_f64).filter(|cost| *cost > 0.0);
            recorded.or_else(|| price(&call.model, call.at, usage))
        });
        costs.collect()
    }

    /// Sets the price of each call by the model that answered it and its time. Calls of a model without a price have
    /// the price of the replay.
    pub fn price_calls(&mut self, price: impl Fn(&str, Option<Millis>) -> Option<Price>) {
        for call in self.steps.iter_mut().filter_map(|step| step.call.as_mut()) {
            call.price = price(&call.model, call.at);
        }
    }

    /// Returns the models that answered, with the number of their answers.
    pub fn models(&self) -> Vec<(&str, usize)> {
        let mut models: BTreeMap<&str, usize> = BTreeMap::new();
        let calls = self.steps.iter().filter_map(|step| step.call.as_ref());
        for call in calls.filter(|call| !call.model.is_empty()) {
            *models.entry(&call.model).or_default() += 1;
        }
        models.into_iter().collect()
    }

    /// Returns facts about the session's requests from recorded usage. They apply to all rules: their windows are scaled by
    /// its factor, and its hidden part is added to every request. `None` without recorded usage; tokens are then
    /// characters divided by four.
    pub fn measured(&self) -> Option<&Measured> {
        self.measured.as_ref()
    }

    /// Lifetime of the session's prompt cache; `None` if its usage does not show it.
    pub fn cache_lifetime(&self) -> Option<Millis> {
        self.cache_lifetime
    }

    /// Returns the recorded request tokens of each call.
    pub fn recorded_requests(&self) -> Vec<Option<u64>> {
        self.steps.iter().filter_map(|step| step.call.as_ref()).map(|call| call.recorded).collect()
    }

    /// Returns the number of model calls.
    pub fn calls(&self) -> usize {
        self.steps.iter().filter(|step| step.call.is_some()).count()
    }

    /// Returns the number of calls before the recorded agent summarised or cleared anything. Their requests were sent
    /// as the recording has them; later ones were smaller than the rebuilt ones.
    pub fn unreduced_calls(&self) -> usize {
        self.unreduced_calls
    }

    /// Returns the median of rebuilt tokens divided by recorded tokens of a request; `None` if no size is recorded. A
    /// replay scales each request by its own ratio.
    pub fn rebuilt_share(&self) -> Option<f64> {
        let calls = self.steps.iter().filter_map(|step| step.call.as_ref()).take(self.unreduced_calls);
        let mut shares: Vec<f64> =
            calls.filter(|call| call.recorded.is_some()).map(|call| 1.0 / call.scale).collect();
        shares.sort_by(f64::total_cmp);
        shares.get(shares.len() / 2).copied()
    }

    /// Numbers, from 1, of the calls before which the recorded agent compacted. A compaction at the end of the session
    /// has no call.
    pub fn compactions(&self) -> Vec<usize> {
        let calls = self.calls();
        self.compactions.iter().copied().filter(|call| *call <= calls).collect()
    }

    /// Returns the number of distinct references.
    pub(crate) fn references(&self) -> usize {
        self.references.len()
    }

    /// Returns the text of a reference.
    pub(crate) fn words(&self, reference: u32) -> &str {
        &self.references[reference as usize]
    }

    /// Finds the references that each call uses, and which of them were mentioned before.
    fn refer(&mut self) {
        let used: Vec<BTreeSet<String>> = self.steps.iter().map(used).collect();
        let all: BTreeSet<&String> = used.iter().flatten().collect();
        self.references = all.into_iter().cloned().collect();
        // A table that is too large to build costs only the recall figures, and real sessions are far from that size.
        self.finder = AhoCorasick::new(&self.references).ok().filter(|_| !self.references.is_empty());
        let numbers: BTreeMap<&str, u32> = self.references.iter().map(String::as_str).zip(0..).collect();
        let count = self.references.len();
        // For each reference the newest result that mentions it, and whether anything else does.
        let (mut newest, mut elsewhere) = (vec![None; count], vec![false; count]);
        let (mut wanted, mut results) = (Vec::new(), Vec::new());
        for (step, used) in self.steps.iter().zip(&used) {
            let known = used.iter().filter_map(|reference| numbers.get(reference.as_str()).copied());
            let of_result = known.filter_map(|reference| {
                let result = newest[reference as usize]?;
                Some(CallReference { reference, result, only_in_results: !elsewhere[reference as usize] })
            });
            wanted.push(of_result.collect::<Vec<CallReference>>());
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

    /// Returns the distinct references in a text by number.
    pub(crate) fn found_in(&self, text: &str) -> BTreeSet<u32> {
        self.mentions(text).map(|mention| mention.reference).collect()
    }

    /// Counts the occurrences of each reference in a text.
    pub(crate) fn counts_in(&self, text: &str) -> BTreeMap<u32, usize> {
        let mut counts = BTreeMap::new();
        self.mentions(text).for_each(|mention| *counts.entry(mention.reference).or_default() += 1);
        counts
    }

    /// Returns the references that a text shows, each once. In a recorded text all have their surroundings. In a text
    /// that a reduction wrote, only those with the same surroundings as in a recorded text do.
    pub(crate) fn shown_by(&self, text: &str, is_recorded: bool) -> Box<[ShownReference]> {
        let mut held: BTreeMap<u32, bool> = BTreeMap::new();
        for mention in self.mentions(text) {
            let is_surrounded = held.entry(mention.reference).or_insert(is_recorded);
            *is_surrounded = *is_surrounded || self.surroundings().contains(&mention.fingerprint(text));
        }
        held.into_iter()
            .map(|(reference, is_surrounded)| ShownReference { reference, is_surrounded })
            .collect()
    }

    /// Returns the whole session as a list of pieces.
    pub(crate) fn layout(&self) -> &Layout {
        self.layout.get_or_init(|| Layout::of(self))
    }

    fn surroundings(&self) -> &HashSet<u64> {
        self.surroundings.get_or_init(|| {
            let texts = self.layout().table.texts();
            texts.flat_map(|text| self.mentions(text).map(|mention| mention.fingerprint(text))).collect()
        })
    }

    /// Returns all places where a text contains a reference.
    fn mentions<'a>(&'a self, text: &'a str) -> impl Iterator<Item = Mention> + 'a {
        let matches = self.finder.iter().flat_map(move |finder| finder.find_overlapping_iter(text));
        let whole = matches.filter(move |found| references::is_whole_name(text, found.start(), found.end()));
        whole.map(|found| Mention {
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
        fingerprint::fingerprint(text, self.start, self.end, self.reference)
    }
}

fn used(step: &RecordedMessage) -> BTreeSet<String> {
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

/// Returns the texts of a message that a model can copy from, by part, and whether each is a tool result.
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

/// Returns the recorded request tokens of an answer.
fn request_of(message: &Message) -> Option<u64> {
    let request = recorded::request(message.info.tokens.as_ref()?);
    (request > Tokens::ZERO).then_some(request.0)
}

/// Whether this is a model's answer and not text of the host in the model's name.
fn is_call(message: &Message) -> bool {
    let spoke = |part: &Part| match &part.body {
        PartBody::Text(text) => text.synthetic != Some(true),
        PartBody::Reasoning(_) | PartBody::Tool(_) | PartBody::ToolCall(_) => true,
        _ => false,
    };
    message.is_assistant() && message.info.error.is_none() && message.parts.iter().any(spoke)
}

/// Minimum characters of a usable summary: some shorter ones only note that the provider keeps the real one.
const LEAST: usize = 80;

/// Returns the recorded output tokens of an answer, or an estimate.
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

/// Converts a summary into a message of the user.
fn as_user_message(message: &Message, text: &Text) -> Message {
    let part = plimsoll::PartId::new(format!("{}.summary", message.info.id));
    Message::user(message.info.id.clone(), part, text.clone())
}

/// Removes the marks that the recorded agent set.
fn unmarked(mut message: Message) -> Message {
    for part in &mut message.parts {
        *part = part.clone().without_marks();
    }
    message
}

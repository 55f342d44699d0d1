//! The engine under one of its policies. It is run by the same `Driver` as in a running agent, on a store in memory, so
//! that a replay cannot differ from what really runs.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll::compact::{Growth, Reply, Summariser, SummaryForm, SummaryRequest, Watch};
use plimsoll::log::ToolState;
use plimsoll::recall::{NAME, RecallQuery};
use plimsoll::{
    Block, CacheTerms, CharCounter, Counter, Ids, Load, Message, MessageId, Millis, Part, PartBody, PartId,
    Plan, Policy, Receipt, RequestOverhead, SessionId, Text, Tokens, Usage, Window, WindowMessage,
    WindowRole,
};
use plimsoll_session::blocking::Driver;
use plimsoll_session::{Content, Counting, Prepared, SessionError, SessionModel};
use plimsoll_store::{Archive, Clock, NewSession};
use serde_json::json;

use super::{CostedReduction, NeededText, PolicySimulator, SummaryTokens};
use crate::billing::Billing;
use crate::recording::{ModelCall, Piece, Pieces, RECALL_PART, RecordedMessage, Recording};
use crate::report::Reduction;
use crate::request::Request;
use crate::rules::Handles;

pub(super) struct EngineSimulator<'a> {
    driver: Driver,
    recording: &'a Recording,
    billing: Billing<'a>,
    handles: Handles,
    /// Current time: the recorded one if it is known and later, otherwise one millisecond per step. Marks must have a
    /// later time than what precedes them.
    clock: Arc<AtomicU64>,
    /// Whether the turn has an answer, so that the next prompt ends it.
    answered: bool,
    /// State of the last prepared window, if it has only grown since.
    watch: Option<Watch>,
    /// Results in the window whose full output can be recalled.
    shown: HashSet<PartId>,
    /// Outputs that were cut on arrival.
    cut: BTreeSet<PartId>,
    /// Summaries that replace a model's, each with the references that its summariser was sent.
    stand_ins: BTreeMap<MessageId, BTreeSet<u32>>,
    recalls: usize,
    /// Messages of windows that were read.
    visited: u64,
    /// Tokens of the last request as the provider counts them, divided by the engine's count.
    scale: f64,
    fired: Vec<CostedReduction>,
}

impl<'a> EngineSimulator<'a> {
    pub(super) fn new(
        policy: &Policy,
        handles: Handles,
        recording: &'a Recording,
        billing: Billing<'a>,
    ) -> Result<EngineSimulator<'a>, SessionError> {
        let Billing { params, fixed } = billing;
        let limits = params.limits();
        let clock = Arc::new(AtomicU64::new(1));
        let time = Arc::clone(&clock);
        let terms = CacheTerms {
            read: params.price.cache_read,
            write: params.price.cache_write,
            output: params.price.output,
            lifetime: params.cache_lifetime,
        };
        // Ids are the same in every replay.
        let mut seed = 0u64;
        let ids = Ids::new(move || {
            seed += 1;
            seed
        });
        let driver = Driver::builder(Arc::new(Archive::in_memory()))
            .new_session(NewSession::new(SessionId::new("ses_replay")))
            .model(SessionModel::default().limits(limits))
            .policy(policy.clone())
            .summariser(Summariser::own(limits))
            .overhead(RequestOverhead { system: Tokens(fixed), tools: Tokens::ZERO })
            .counting(Counting::Fixed(Arc::new(policy.count)))
            .cache_terms(terms)
            .clock(Clock::new(move || Millis(time.load(Ordering::Relaxed))))
            .open_blocking()?
            .with_ids(ids);
        Ok(EngineSimulator {
            driver,
            recording,
            billing,
            handles,
            clock,
            answered: false,
            watch: None,
            shown: HashSet::new(),
            cut: BTreeSet::new(),
            stand_ins: BTreeMap::new(),
            recalls: 0,
            visited: 0,
            scale: 1.0,
            fired: Vec::new(),
        })
    }

    /// Advances the clock by a step, or to the recorded time if that is later. Implausible times are ignored.
    fn tick(&self, recorded: Option<Millis>) -> Millis {
        /// The year 10,000.
        const LATEST: u64 = 253_402_300_800_000;
        let next = self.clock.load(Ordering::Relaxed) + 1;
        let now = recorded.filter(|at| at.0 < LATEST).map_or(next, |at| at.0.max(next));
        self.clock.store(now, Ordering::Relaxed);
        Millis(now)
    }

    /// Records reductions with the cost of their summary requests.
    fn note(&mut self, receipts: &[Receipt], mut asked: Vec<SummaryTokens>) {
        for receipt in receipts {
            let kind = match &receipt.plan {
                Plan::Truncate(_) => "truncate",
                Plan::Prune(_) => "prune",
                Plan::Compact(_) | Plan::Range(_) => "compact",
                Plan::Shed(_) => "shed",
                Plan::Fork(_) => "fork",
                Plan::Purge(_) => "purge",
                Plan::Pin(_) => "pin",
                Plan::Edit(_) => "edit",
                _ => "other",
            };
            let asked = if kind == "compact" { std::mem::take(&mut asked) } else { Vec::new() };
            // A truncated output is counted by the policy and was never part of a request.
            let scale = if kind == "truncate" { 1.0 } else { self.scale };
            let [before, after] =
                [receipt.before, receipt.after].map(|tokens| (tokens.0 as f64 * scale).round() as u64);
            let reduction = Reduction { kind: kind.into(), before, after, ..Reduction::default() };
            self.fired.push(CostedReduction { reduction, asked });
        }
        if !asked.is_empty() {
            // A summary that was paid for and not used.
            let reduction = Reduction { kind: "compact".into(), ..Reduction::default() };
            self.fired.push(CostedReduction { reduction, asked });
        }
    }

    /// Returns the cost of a summary request, and the references in it.
    fn ask(
        &self,
        summary: &SummaryRequest,
        call: &ModelCall,
        request: &Request,
        pieces: &mut Pieces<'_>,
    ) -> (SummaryTokens, BTreeSet<u32>) {
        match &summary.form {
            SummaryForm::Separate { system, prompt } => {
                let charge = |text: &str| pieces.charge(&Text::from(text));
                let more = charge(system).saturating_add(charge(prompt));
                let mut sent = self.recording.found_in(prompt);
                // The previous summary is part of the prompt, and may list references that no summariser was sent.
                if let Some((before, counted)) = self.newest_summary() {
                    let listed = self.recording.found_in(&before);
                    sent.retain(|reference| !listed.contains(reference) || counted.contains(reference));
                }
                (SummaryTokens { more, ..SummaryTokens::default() }, sent)
            }
            SummaryForm::Appended { window, prompt } => {
                let list = self.pieces_of(&window.messages, pieces);
                let own = self.billing.tokens(pieces.charged_for(&list), call);
                let read = self.billing.read_list(&list, request, call, pieces);
                let more = pieces.charge(&Text::from(prompt.as_str()));
                (SummaryTokens { own, read, more, answer: 0 }, pieces.references_in(&list))
            }
        }
    }

    fn newest_summary(&self) -> Option<(String, &BTreeSet<u32>)> {
        let message = self.driver.log().iter().rev().find(|message| message.info.summary)?;
        Some((message.text(), self.stand_ins.get(&message.info.id)?))
    }

    /// Records which references count for a new summary: those that its summariser was `sent`. References that the
    /// engine added to the `reply` all count, because no model was needed for them.
    fn note_stand_in(&mut self, sent: &BTreeSet<u32>, reply: Option<&Text>) {
        let newest = self.driver.log().iter().rev().find(|message| message.info.summary);
        let Some(summary) = newest.filter(|summary| !self.stand_ins.contains_key(&summary.info.id)) else {
            return;
        };
        let replied = reply.map(|reply| self.recording.counts_in(reply)).unwrap_or_default();
        let (id, counts) = (summary.info.id.clone(), self.recording.counts_in(&summary.text()));
        let is_added =
            |(reference, count): &(u32, usize)| *count > replied.get(reference).copied().unwrap_or_default();
        let added = counts.into_iter().filter(is_added).map(|(reference, _)| reference);
        self.stand_ins.insert(id, sent.iter().copied().chain(added).collect());
    }

    fn pieces_of(&self, messages: &[WindowMessage], pieces: &mut Pieces<'_>) -> Vec<Piece> {
        let (mut list, layout) = (Vec::new(), self.recording.layout());
        let mut with_hidden: Option<&MessageId> = None;
        for message in messages {
            let id = message.message.as_ref();
            if let Some(counts_for) = id.and_then(|id| self.stand_ins.get(id)) {
                for block in &message.blocks {
                    if let Block::Text { text, .. } = block {
                        pieces.note_summary(text, counts_for);
                    }
                }
            }
            list.push(pieces.role(message.role));
            if message.role == WindowRole::Assistant
                && let Some(id) = id.filter(|id| with_hidden != Some(*id))
                && let Some(hidden) = layout.hidden(id)
            {
                list.push(hidden);
                with_hidden = Some(id);
            }
            message.blocks.iter().for_each(|block| pieces.block(block, &mut list));
        }
        list
    }

    /// Rebuilds the request of a call from a window.
    fn take(
        &mut self,
        window: &Window,
        load: Option<Load>,
        call: &ModelCall,
        request: &mut Request,
        pieces: &mut Pieces<'_>,
    ) {
        let list = self.pieces_of(&window.messages, pieces);
        request.become_list(&list, pieces);
        self.shown.clear();
        self.note_shown(&window.messages);
        self.note_load(load.as_ref(), call, request);
        self.watch = load.and_then(|load| self.driver.watch(window, &load));
    }

    /// Adds the growth of the window since the last call to the request. Returns `false` if the whole window must be
    /// prepared.
    fn grow(&mut self, call: &ModelCall, request: &mut Request, pieces: &mut Pieces<'_>) -> bool {
        let grown = self.watch.take().and_then(|watch| self.driver.growth(watch));
        let Some((Growth { messages, load }, watch)) = grown else { return false };
        let list = self.pieces_of(&messages, pieces);
        request.extend(&list, pieces);
        self.note_shown(&messages);
        self.note_load(Some(&load), call, request);
        self.watch = Some(watch);
        true
    }

    fn note_shown(&mut self, messages: &[WindowMessage]) {
        self.visited += messages.len() as u64;
        if self.handles != Handles::Spilled {
            return;
        }
        let blocks = messages.iter().flat_map(|message| &message.blocks);
        self.shown.extend(blocks.filter_map(|block| match block {
            Block::Result { part, .. } => Some(part.clone()),
            _ => None,
        }));
    }

    fn note_load(&mut self, load: Option<&Load>, call: &ModelCall, request: &Request) {
        let tokens = self.billing.tokens(request.charged(), call);
        if let Some(load) = load.filter(|load| load.tokens > Tokens::ZERO) {
            self.scale = tokens as f64 / load.tokens.0 as f64;
        }
    }

    /// Whether the full output of a result can be recalled.
    fn can_recall(&self, result: &PartId) -> bool {
        match self.handles {
            Handles::None => false,
            Handles::All => true,
            Handles::Spilled => {
                let is_cleared = self.driver.log().part(result).is_ok_and(|part| part.cleared().is_some());
                self.cut.contains(result) && self.shown.contains(result) && !is_cleared
            }
        }
    }

    /// Calls the recall tool for a result by its handle. If the answer does not contain the needed text, because it is
    /// shorter than the whole output, searches for the text in that result and then in all.
    fn answer(
        &self,
        result: &PartId,
        words: &[&str],
    ) -> Result<Option<(serde_json::Value, Text)>, SessionError> {
        let whole = json!({ "handle": result.as_str() });
        let pattern: Vec<String> = words.iter().map(|words| escape(words)).collect();
        let pattern = pattern.join("|");
        let in_it = json!({ "handle": result.as_str(), "search": pattern });
        for input in [whole, in_it, json!({ "search": pattern })] {
            let Ok(query) = RecallQuery::parse(&input) else { continue };
            let answer = self.driver.recall(&query)?;
            if words.iter().any(|words| answer.text.contains(words)) {
                return Ok(Some((input, Text::from(answer.text))));
            }
        }
        Ok(None)
    }
}

/// Returns the result of a tool part.
fn result(part: &Part) -> Option<&Text> {
    match &part.body {
        PartBody::Tool(tool) => tool.state.result(),
        PartBody::ToolResult(result) => Some(&result.text),
        _ => None,
    }
}

/// Escapes text for a regular expression.
fn escape(words: &str) -> String {
    let special = |c: char| !c.is_alphanumeric() && !matches!(c, '_' | '/' | '~' | '@');
    words.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect()
}

fn tokens(text: &Text) -> u64 {
    CharCounter::default().count_text(text).0
}

impl PolicySimulator for EngineSimulator<'_> {
    fn append(&mut self, step: &RecordedMessage, usage: Option<Usage>) -> Result<(), SessionError> {
        let at = step.message.info.time.as_ref().and_then(|time| time.created);
        if self.answered && step.message.starts_turn() {
            self.answered = false;
            self.tick(None);
            let receipt = self.driver.end_turn()?;
            // A prune at the end of the turn changes the window, which then has to be read as a whole.
            self.watch = self.watch.take().filter(|_| receipt.is_none());
            self.note(receipt.as_slice(), Vec::new());
        }
        self.answered |= step.call.is_some();
        let mut message = step.message.clone();
        // The replay's clock replaces recorded times, which may be missing or go backwards, because marks are ordered
        // by it.
        let now = self.tick(at);
        let time = message.info.time.get_or_insert_default();
        (time.created, time.completed) = (Some(now), Some(now));
        message.info.tokens = usage;
        let (_, receipts) = self.driver.append_recorded(message)?;
        if !receipts.is_empty() {
            let is_cut = |part: &&Part| {
                self.driver.log().part(&part.id).is_ok_and(|kept| result(kept) != result(part))
            };
            let cut: Vec<PartId> =
                step.message.parts.iter().filter(is_cut).map(|part| part.id.clone()).collect();
            self.cut.extend(cut);
        }
        self.note(&receipts, Vec::new());
        Ok(())
    }

    fn prepare(
        &mut self,
        call: &ModelCall,
        refused: bool,
        request: &mut Request,
        pieces: &mut Pieces<'_>,
    ) -> Result<(), SessionError> {
        if refused {
            self.driver.on_overflow(None);
        }
        self.tick(call.at);
        if !refused && self.grow(call, request, pieces) {
            return Ok(());
        }
        let (mut asked, mut sent, mut stand_in) = (Vec::new(), BTreeSet::new(), None);
        loop {
            let (window, load, receipts) = match self.driver.prepare()? {
                Prepared::Ready(request) => {
                    let Content { window, load, receipts, .. } = request.into_content();
                    (window, Some(load), receipts)
                }
                Prepared::CannotFit { receipts, .. } | Prepared::NotSummarised { receipts, .. } => {
                    (self.driver.window(), None, receipts)
                }
                Prepared::Summarise(summary) => {
                    // The recorded summary covers all messages, so it can only answer the request for the last chunk.
                    let recorded = call.summary.clone().filter(|_| summary.chunk == summary.of);
                    let is_recorded = recorded.is_some();
                    let reply = recorded.or_else(|| summary.offline_summary());
                    let wanted = (*summary).clone();
                    let given = reply.as_ref().map(|text| Reply::finished(text.as_str()));
                    summary.answer(given.ok_or_else(|| "there is too little to summarise".to_owned()))?;
                    let (mut ask, found) = self.ask(&wanted, call, request, pieces);
                    sent.extend(found);
                    ask.answer = reply.as_ref().map(|reply| pieces.charge(reply)).unwrap_or_default();
                    asked.push(ask);
                    stand_in = if is_recorded { stand_in } else { Some(reply) };
                    continue;
                }
            };
            if let Some(reply) = stand_in {
                self.note_stand_in(&sent, reply.as_ref());
            }
            self.take(&window, load, call, request, pieces);
            self.note(&receipts, asked);
            return Ok(());
        }
    }

    fn fired(&mut self) -> Vec<CostedReduction> {
        std::mem::take(&mut self.fired)
    }

    fn visited(&self) -> u64 {
        self.visited
    }

    fn recall(
        &mut self,
        needed: &[NeededText<'_>],
        mut usage: Usage,
        pieces: &mut Pieces<'_>,
    ) -> Result<Option<u64>, SessionError> {
        let mut by_result: BTreeMap<&PartId, Vec<&str>> = BTreeMap::new();
        for needed in needed.iter().filter(|needed| self.can_recall(needed.result)) {
            by_result.entry(needed.result).or_default().push(needed.words);
        }
        let mut parts = Vec::new();
        let mut asked = 0u64;
        for (result, words) in by_result {
            let Some((input, text)) = self.answer(result, &words)? else { continue };
            self.recalls += 1;
            let id = PartId::new(format!("{RECALL_PART}{}", self.recalls));
            let call = Text::from(input.to_string());
            // The frame of a call costs about as much as its name.
            asked = asked.saturating_add(pieces.charge(&call) + 2 * tokens(&Text::from(NAME)));
            let state = ToolState::completed(input, text);
            parts.push(Part::tool(id.clone(), id.to_string(), NAME, state));
        }
        if parts.is_empty() {
            return Ok(None);
        }
        let now = self.tick(None);
        let mut message = Message::assistant(MessageId::new(format!("msg_recall_{}", self.recalls)), parts);
        let time = message.info.time.get_or_insert_default();
        (time.created, time.completed) = (Some(now), Some(now));
        message.info.finish = Some("tool-calls".into());
        usage.output = Tokens(asked);
        message.info.tokens = Some(usage);
        self.driver.append_recorded(message)?;
        Ok(Some(asked))
    }
}

//! The engine under one of its policies, driven as a running agent would drive it: by the driver of a turn, on a store in
//! memory. A replay cannot differ from what really runs, because it is the same code.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll::compact::accept::Reply;
use plimsoll::compact::contract::HEADING;
use plimsoll::compact::request::{Summariser, SummaryForm, SummaryRequest};
use plimsoll::log::ToolState;
use plimsoll::recall::{NAME, RecallQuery};
use plimsoll::thrift::CacheTerms;
use plimsoll::{
    Block, CharCounter, Counter, Fixed, Ids, Message, MessageId, Millis, Part, PartBody, PartId, Plan,
    Policy, Receipt, SessionId, Text, Tokens, Usage, Window,
};
use plimsoll_session::{Counting, Driver, Prepared, SessionError, Settings};
use plimsoll_store::{Archive, Clock, NewSession};
use serde_json::json;

use super::{Asked, Needed, Noted, Reduction, Sight};
use crate::pieces::{Piece, Pieces};
use crate::recording::{Call, Recording, Step};
use crate::rules::Handles;
use crate::run::Circumstances;

pub(super) struct Engine<'a> {
    driver: Driver,
    recording: &'a Recording,
    handles: Handles,
    fixed: Fixed,
    /// The recorded times, as far as they are known and go forward; otherwise a millisecond a step, because marks must be
    /// told from what was before them.
    clock: Arc<AtomicU64>,
    /// Whether the turn has an answer, so that the next prompt ends it.
    answered: bool,
    /// The window that was prepared, if nothing has changed since.
    prepared: Option<Window>,
    /// Outputs that were cut as they arrived.
    cut: BTreeSet<PartId>,
    /// Summaries that stand in for a model's, each with the references that its summariser was sent.
    stand_ins: BTreeMap<MessageId, BTreeSet<u32>>,
    recalls: usize,
    fired: Vec<Noted>,
}

impl<'a> Engine<'a> {
    pub(super) fn new(
        policy: &Policy,
        handles: Handles,
        recording: &'a Recording,
        circumstances: &Circumstances,
        fixed: u64,
    ) -> Result<Engine<'a>, SessionError> {
        let limits = circumstances.limits();
        let clock = Arc::new(AtomicU64::new(1));
        let time = Arc::clone(&clock);
        let settings = Settings {
            policy: Arc::new(policy.clone()),
            limits: Some(limits),
            summariser: Some(Summariser::own(limits)),
            counting: Counting::Fixed(Arc::new(policy.count)),
            cache: Some(CacheTerms {
                read: circumstances.price.cache_read,
                write: circumstances.price.cache_write,
                output: circumstances.price.output,
                lifetime: circumstances.cache_lifetime,
            }),
            clock: Clock::new(move || Millis(time.load(Ordering::Relaxed))),
            ..Settings::new("")
        };
        let archive = Arc::new(Archive::in_memory());
        let session = SessionId::new("ses_replay");
        archive.store().create(NewSession::new(session.clone()), Millis(1))?;
        // The same replay names the same things.
        let mut seed = 0u64;
        let ids = Ids::new(move || {
            seed += 1;
            seed
        });
        let driver = Driver::open(archive, &session, settings)?.with_ids(ids);
        let fixed = Fixed { system: Tokens(fixed), tools: Tokens::ZERO };
        Ok(Engine {
            driver,
            recording,
            handles,
            fixed,
            clock,
            answered: false,
            prepared: None,
            cut: BTreeSet::new(),
            stand_ins: BTreeMap::new(),
            recalls: 0,
            fired: Vec::new(),
        })
    }

    /// A step further, to when it was recorded if that is later. A time that cannot be one is not believed.
    fn tick(&self, recorded: Option<Millis>) -> Millis {
        /// The year 10,000.
        const LATEST: u64 = 253_402_300_800_000;
        let next = self.clock.load(Ordering::Relaxed) + 1;
        let now = recorded.filter(|at| at.0 < LATEST).map_or(next, |at| at.0.max(next));
        self.clock.store(now, Ordering::Relaxed);
        Millis(now)
    }

    /// Note what was done, and what a summariser was asked for it.
    fn note(&mut self, receipts: &[Receipt], mut asked: Vec<Asked>) {
        for receipt in receipts {
            let kind = match &receipt.plan {
                Plan::Truncate(_) => "truncate",
                Plan::Prune(_) => "prune",
                Plan::Compact(_) | Plan::Range(_) => "compact",
                Plan::Shed(_) => "shed",
                Plan::Fork(_) => "fork",
                Plan::Purge(_) => "purge",
                Plan::Pin(_) => "pin",
            };
            let asked = if kind == "compact" { std::mem::take(&mut asked) } else { Vec::new() };
            let (before, after) = (receipt.before.0, receipt.after.0);
            let reduction = Reduction { kind: kind.into(), before, after, ..Reduction::default() };
            self.fired.push(Noted { reduction, asked });
        }
        if !asked.is_empty() {
            // A summary that was paid for and not taken.
            let reduction = Reduction { kind: "compact".into(), ..Reduction::default() };
            self.fired.push(Noted { reduction, asked });
        }
    }

    /// What a summariser is sent: what of it is the session's own request, and the references in it.
    fn ask(&self, request: &SummaryRequest, pieces: &mut Pieces<'_>) -> (Asked, BTreeSet<u32>) {
        match &request.form {
            SummaryForm::Separate { system, prompt } => {
                let charge = |text: &str| pieces.charge(&Text::from(text));
                let more = charge(system).saturating_add(charge(prompt));
                let mut sent = self.recording.found_in(prompt);
                // The summary before is part of the prompt, and may itself list what no summariser was sent.
                if let Some((before, counted)) = self.newest_stand_in() {
                    let listed = self.recording.found_in(&before);
                    sent.retain(|reference| !listed.contains(reference) || counted.contains(reference));
                }
                (Asked { prefix: None, more, answer: 0 }, sent)
            }
            SummaryForm::Appended { window, prompt } => {
                let prefix = self.pieces_of(window, pieces);
                let sent = pieces.references_in(&prefix);
                let more = pieces.charge(&Text::from(prompt.as_str()));
                (Asked { prefix: Some(prefix), more, answer: 0 }, sent)
            }
        }
    }

    fn newest_stand_in(&self) -> Option<(String, &BTreeSet<u32>)> {
        let message = self.driver.log().iter().rev().find(|message| message.info.summary)?;
        Some((message.text(), self.stand_ins.get(&message.info.id)?))
    }

    /// Remember which references a summary that was just made counts for. What the engine itself has completed it with
    /// counts in full.
    fn note_stand_in(&mut self, sent: &BTreeSet<u32>) {
        let newest = self.driver.log().iter().rev().find(|message| message.info.summary);
        let Some(summary) = newest.filter(|summary| !self.stand_ins.contains_key(&summary.info.id)) else {
            return;
        };
        let (id, text) = (summary.info.id.clone(), summary.text());
        let completed = text.find(HEADING).map(|at| self.recording.found_in(&text[at..]));
        let counts_for = sent.iter().copied().chain(completed.unwrap_or_default()).collect();
        self.stand_ins.insert(id, counts_for);
    }

    fn pieces_of(&self, window: &Window, pieces: &mut Pieces<'_>) -> Vec<Piece> {
        let mut request = Vec::new();
        for message in &window.messages {
            let logged = message.place.and_then(|place| self.driver.log().get(place));
            let stand_in = logged.and_then(|logged| self.stand_ins.get(&logged.info.id));
            if let Some(counts_for) = stand_in {
                for block in &message.blocks {
                    if let Block::Text { text, .. } = block {
                        pieces.note_summary(text, counts_for);
                    }
                }
            }
            pieces.message(message, &mut request);
        }
        request
    }

    /// Whether what is missing from a result can be brought back.
    fn can_recall(&self, result: &PartId) -> bool {
        match self.handles {
            Handles::None => false,
            Handles::All => true,
            Handles::Spilled => {
                let is_shown = |block: &Block| matches!(block, Block::Result { part, .. } if part == result);
                let window = self.prepared.as_ref();
                let shown = window.is_some_and(|window| {
                    window.messages.iter().flat_map(|message| &message.blocks).any(is_shown)
                });
                let is_cleared = self.driver.log().part(result).is_ok_and(|part| part.cleared().is_some());
                self.cut.contains(result) && shown && !is_cleared
            }
        }
    }

    /// What the recall tool answers, asked for a result by its handle. Where that does not bring back all that is needed,
    /// because the answer is too short for the whole, it is asked for the words.
    fn answer(
        &self,
        result: &PartId,
        words: &[&str],
    ) -> Result<Option<(serde_json::Value, Text)>, SessionError> {
        let whole = json!({ "handle": result.as_str() });
        let pattern: Vec<String> = words.iter().map(|words| escape(words)).collect();
        for input in [whole, json!({ "search": pattern.join("|") })] {
            let Ok(query) = RecallQuery::parse(&input) else { continue };
            let answer = self.driver.recall(&query)?;
            if words.iter().any(|words| answer.text.contains(words)) {
                return Ok(Some((input, Text::from(answer.text))));
            }
        }
        Ok(None)
    }
}

/// What a tool answered.
fn result(part: &Part) -> Option<&Text> {
    match &part.body {
        PartBody::Tool(tool) => tool.state.result(),
        PartBody::ToolResult(result) => Some(&result.text),
        _ => None,
    }
}

/// Words as a regular expression for themselves.
fn escape(words: &str) -> String {
    let special = |c: char| !c.is_alphanumeric() && !matches!(c, '_' | '/' | '~' | '@');
    words.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect()
}

fn tokens(text: &Text) -> u64 {
    CharCounter::default().count_text(text).0
}

impl Sight for Engine<'_> {
    fn append(&mut self, step: &Step, usage: Option<Usage>) -> Result<(), SessionError> {
        let at = step.message.info.time.as_ref().and_then(|time| time.created);
        if self.answered && step.message.starts_turn() {
            self.answered = false;
            self.tick(None);
            let receipt = self.driver.end_turn(self.fixed)?;
            self.note(receipt.as_slice(), Vec::new());
        }
        self.answered |= step.call.is_some();
        self.prepared = None;
        let mut message = step.message.clone();
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

    fn prepare(&mut self, call: &Call, refused: bool, pieces: &mut Pieces<'_>) -> Result<(), SessionError> {
        if refused {
            self.driver.refused(None, self.fixed);
        }
        self.tick(call.at);
        let (mut asked, mut sent, mut is_stand_in) = (Vec::new(), BTreeSet::new(), false);
        loop {
            match self.driver.prepare(self.fixed)? {
                Prepared::Ready(content) => {
                    if is_stand_in {
                        self.note_stand_in(&sent);
                    }
                    self.note(&content.receipts, asked);
                    self.prepared = Some(content.window);
                    return Ok(());
                }
                Prepared::Summarise(request) => {
                    let (mut ask, found) = self.ask(&request, pieces);
                    sent.extend(found);
                    let recorded = call.summary.clone().filter(|_| request.chunk == request.of);
                    is_stand_in |= recorded.is_none();
                    let reply = recorded.or_else(|| self.driver.offline_summary());
                    ask.answer = reply.as_ref().map(|reply| pieces.charge(reply)).unwrap_or_default();
                    asked.push(ask);
                    let reply = reply.map(|text| Reply::finished(text.as_str()));
                    self.driver
                        .summarised(reply.ok_or_else(|| "there is too little to summarise".to_owned()))?;
                }
                Prepared::CannotFit { receipts, .. } | Prepared::NotSummarised { receipts, .. } => {
                    if is_stand_in {
                        self.note_stand_in(&sent);
                    }
                    self.note(&receipts, asked);
                    self.prepared = Some(self.driver.window());
                    return Ok(());
                }
            }
        }
    }

    fn request(&mut self, pieces: &mut Pieces<'_>) -> Vec<Piece> {
        let window = self.prepared.take().unwrap_or_else(|| self.driver.window());
        let request = self.pieces_of(&window, pieces);
        self.prepared = Some(window);
        request
    }

    fn fired(&mut self) -> Vec<Noted> {
        std::mem::take(&mut self.fired)
    }

    fn recall(
        &mut self,
        needed: &[Needed<'_>],
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
            let id = PartId::new(format!("prt_recall_{}", self.recalls));
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
        self.prepared = None;
        Ok(Some(asked))
    }
}

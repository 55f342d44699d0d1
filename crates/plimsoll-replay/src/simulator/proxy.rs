//! The rule of Plimsoll's proxy: the client's whole history, in which old results are replaced by placeholders if that is
//! paid out of savings already made.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll::lane::{
    BlockKind, CacheKind, ClearedBlock, InFlight, Lane, LaneBlock, LaneChoice, LanePrices, LaneRequest,
    LaneRules, LongPrompt, Room,
};
use plimsoll::{Fnv, Millis, Policy, Text, Tokens, Usage};
use plimsoll_session::SessionError;

use super::{CostedReduction, NeededText, PolicySimulator};
use crate::billing::Billing;
use crate::price::Price;
use crate::recording::{Layout, ModelCall, Piece, Pieces, RecordedMessage, Recording};
use crate::report::Reduction;
use crate::request::Request;

/// Tokens of a call that recalls a result.
const RECALL_CALL: u64 = 60;

/// A conversation with one model.
struct ModelLane {
    room: Room,
    lane: Lane,
    /// Results that are cleared, as indices in the layout.
    cleared: BTreeSet<usize>,
}

/// A request whose answer has not been appended yet.
struct Pending {
    model: String,
    flight: InFlight,
    usage: Usage,
    at: Millis,
}

/// A call of recall and its result, which the conversation has from then on.
struct Recalled {
    /// Number of pieces of the layout before it.
    after: usize,
    pieces: [Piece; 2],
}

pub(super) struct ProxySimulator<'a> {
    billing: Billing<'a>,
    layout: &'a Layout,
    policy: Policy,
    rules: LaneRules,
    /// Number of messages so far.
    appended: usize,
    lanes: BTreeMap<String, ModelLane>,
    /// The model of the newest request.
    model: Option<String>,
    recalls: Vec<Recalled>,
    /// Whether the next request is sent only because of a recall.
    is_recall: bool,
    /// The newest known time.
    now: Millis,
    pending: Option<Pending>,
    fired: Vec<CostedReduction>,
}

impl<'a> ProxySimulator<'a> {
    pub(super) fn new(recording: &'a Recording, billing: Billing<'a>) -> ProxySimulator<'a> {
        let policy = Policy::default();
        ProxySimulator {
            billing,
            layout: recording.layout(),
            rules: LaneRules::of(&policy, billing.params.context),
            policy,
            appended: 0,
            lanes: BTreeMap::new(),
            model: None,
            recalls: Vec::new(),
            is_recall: false,
            now: Millis(0),
            pending: None,
            fired: Vec::new(),
        }
    }

    /// Selects the lane of a call's model. A new one begins with what is cleared in the lane before.
    fn open_lane(&mut self, call: &ModelCall) {
        let price = lane_prices(call.price.unwrap_or(self.billing.params.price));
        if let Some(lane) = self.lanes.get_mut(&call.model) {
            lane.room.set_prices(price);
        } else {
            // The lane takes the cache to live twice as long.
            let lifetime = Millis(self.billing.params.cache_lifetime.0 / 2);
            let room = Room::new(CacheKind::Prefixes { min_tokens: 0, lifetime }, price, Millis(0));
            let before = self.model.as_ref().and_then(|model| self.lanes.get(model));
            let cleared = before.map(|before| before.cleared.clone()).unwrap_or_default();
            self.lanes.insert(call.model.clone(), ModelLane { room, lane: Lane::default(), cleared });
        }
        self.model = Some(call.model.clone());
    }

    /// Returns the client's request, and for each block the pieces of the layout, or the recall, that it consists of.
    fn request(&self, lane: &ModelLane, pieces: &mut Pieces<'_>) -> (LaneRequest, Vec<BlockSource>) {
        let end = self.layout.ends[self.appended];
        let (mut blocks, mut sources) = (Vec::new(), Vec::new());
        // The system prompt and the tools.
        blocks.push(block(0, self.billing.fixed, BlockKind::Fixed));
        sources.push(BlockSource::Hidden);
        let user = pieces.role(plimsoll::WindowRole::User);
        let mut recalls = self.recalls.iter().enumerate().peekable();
        let (mut at, mut number) = (0, 0);
        while at < end {
            while let Some((place, recalled)) = recalls.next_if(|(_, recalled)| recalled.after <= at) {
                let tokens = pieces.charged_for(&recalled.pieces);
                blocks.push(block(place as u64, tokens, BlockKind::Recall));
                sources.push(BlockSource::Recall(place));
            }
            let result = self.layout.results.get(number).filter(|result| result.start == at);
            let until = result.map_or(at + 1, |result| result.end);
            let own = &self.layout.pieces[at..until];
            let kind = if result.is_some() {
                let placeholder = self.placeholder(number, pieces);
                let cleared =
                    ClearedBlock { hash: hash(&[placeholder]), tokens: pieces.charged(placeholder) };
                let is_cleared = lane.cleared.contains(&number);
                sources.push(BlockSource::Result(number));
                number += 1;
                BlockKind::Result { cleared, is_cleared, is_in_use: false }
            } else {
                sources.push(BlockSource::Piece(at));
                if own == [user] { BlockKind::Prompt } else { BlockKind::Fixed }
            };
            blocks.push(block(hash(own), pieces.charged_for(own), kind));
            at = until;
        }
        for (place, recalled) in recalls {
            let tokens = pieces.charged_for(&recalled.pieces);
            blocks.push(block(place as u64, tokens, BlockKind::Recall));
            sources.push(BlockSource::Recall(place));
        }
        (LaneRequest { blocks, at: self.now, is_recall: self.is_recall }, sources)
    }

    /// Adds the answer of the pending request to the bills of its lane.
    fn answered(&mut self) {
        if let Some(pending) = self.pending.take()
            && let Some(lane) = self.lanes.get_mut(&pending.model)
        {
            lane.room.answered(&mut lane.lane, &pending.flight, &pending.usage, pending.at);
        }
    }

    /// Returns the placeholder of a result.
    fn placeholder(&self, number: usize, pieces: &mut Pieces<'_>) -> Piece {
        let part = &self.layout.result_parts[number];
        pieces.result(&Text::from(format!("[cleared tool output; to read it: plimsoll recall {part}]")))
    }

    /// Returns the text that a recall of a result brings back, if it has one of these words.
    fn recalled_text(&self, number: usize, words: &[&str], pieces: &Pieces<'_>) -> Option<Text> {
        let first = self.layout.results[number].start;
        let text = pieces.text(self.layout.pieces[first]);
        let bounds = self.policy.recall.for_context(self.billing.params.context, &self.policy.count);
        let at = words.iter().find_map(|words| text.find(words))?;
        // The whole output if it is short, else what surrounds the words, as a search in it would show.
        if text.chars() <= bounds.max_chars {
            return Some(text.clone());
        }
        let half = (bounds.max_chars.0 / 2) as usize;
        let start = text.floor_char_boundary(at.saturating_sub(half));
        let end = text.floor_char_boundary((at + half).min(text.len()));
        Some(Text::from(&text[start..end]))
    }
}

/// Source of a block of a request.
#[derive(Clone, Copy)]
enum BlockSource {
    /// The system prompt and the tools, for which a recording has no pieces.
    Hidden,
    Piece(usize),
    Result(usize),
    Recall(usize),
}

fn block(hash: u64, tokens: u64, kind: BlockKind) -> LaneBlock {
    LaneBlock { hash, tokens, breakpoint: None, kind }
}

fn hash(pieces: &[Piece]) -> u64 {
    pieces.iter().fold(Fnv::new(), |hash, piece| hash.number(u64::from(*piece))).finish()
}

/// A replay bills everything that is not read from the cache as written to it.
fn lane_prices(price: Price) -> LanePrices {
    LanePrices {
        input: price.cache_write,
        cache_read: price.cache_read,
        cache_write: price.cache_write,
        cache_write_hour: price.cache_write,
        output: price.output,
        long_prompt: price.long_prompt.map(|long| LongPrompt {
            above: long.above,
            input: long.input,
            output: long.output,
        }),
    }
}

impl PolicySimulator for ProxySimulator<'_> {
    fn append(&mut self, step: &RecordedMessage, usage: Option<Usage>) -> Result<(), SessionError> {
        self.appended += 1;
        if step.call.is_none() {
            return Ok(());
        }
        self.is_recall = false;
        match usage {
            Some(_) => self.answered(),
            // The request did not fit, so no provider has seen it.
            None => self.pending = None,
        }
        Ok(())
    }

    fn prepare(
        &mut self,
        call: &ModelCall,
        refused: bool,
        request: &mut Request,
        pieces: &mut Pieces<'_>,
    ) -> Result<(), SessionError> {
        self.now = self.now.max(call.at.unwrap_or_default());
        self.open_lane(call);
        let Some(mut lane) = self.lanes.remove(&call.model) else { return Ok(()) };
        let (client, sources) = self.request(&lane, pieces);
        let before = self.billing.tokens(request.charged(), call);
        let choice = match refused {
            // A request that does not fit has to become smaller, whatever that costs.
            true => LaneChoice::of_oldest(&client, self.rules.protect_tokens),
            false => lane.room.choose(&lane.lane, &client, &self.rules),
        };
        for place in &choice.clear {
            if let BlockSource::Result(number) = sources[*place] {
                lane.cleared.insert(number);
            }
        }
        let mut list = Vec::with_capacity(client.blocks.len());
        for source in &sources {
            match *source {
                BlockSource::Hidden => {}
                BlockSource::Piece(at) => list.push(self.layout.pieces[at]),
                BlockSource::Result(number) if lane.cleared.contains(&number) => {
                    list.push(self.placeholder(number, pieces));
                }
                BlockSource::Result(number) => {
                    list.extend_from_slice(&self.layout.pieces[self.layout.results[number].clone()]);
                }
                BlockSource::Recall(place) => list.extend_from_slice(&self.recalls[place].pieces),
            }
        }
        request.become_list(&list, pieces);
        let after = self.billing.tokens(request.charged(), call);
        if !choice.clear.is_empty() {
            let reduction = Reduction { kind: "clear".to_owned(), before, after, ..Reduction::default() };
            self.fired.push(reduction.into());
        }
        let flight = lane.room.send(&mut lane.lane, &client, &choice);
        let read = self.billing.read(request, call, pieces).min(after);
        let mut usage = Usage::new(Tokens::ZERO, Tokens(call.output));
        (usage.cache_read, usage.cache_write) = (Tokens(read), Tokens(after - read));
        self.lanes.insert(call.model.clone(), lane);
        self.pending = Some(Pending { model: call.model.clone(), flight, usage, at: self.now });
        Ok(())
    }

    fn fired(&mut self) -> Vec<CostedReduction> {
        std::mem::take(&mut self.fired)
    }

    fn recall(
        &mut self,
        needed: &[NeededText<'_>],
        _: Usage,
        pieces: &mut Pieces<'_>,
    ) -> Result<Option<u64>, SessionError> {
        let Some(lane) = self.model.as_ref().and_then(|model| self.lanes.get(model)) else { return Ok(None) };
        let mut by_result: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
        for needed in needed {
            let number = self.layout.result_parts.iter().position(|part| part == needed.result);
            if let Some(number) = number.filter(|number| lane.cleared.contains(number)) {
                by_result.entry(number).or_default().push(needed.words);
            }
        }
        let after = self.layout.ends[self.appended];
        let mut asked = 0;
        for (number, words) in by_result {
            let Some(text) = self.recalled_text(number, &words, pieces) else { continue };
            let call = Text::from(format!("plimsoll recall {}", self.layout.result_parts[number]));
            self.recalls.push(Recalled { after, pieces: pieces.recall(&call, &text) });
            asked += RECALL_CALL;
        }
        if asked == 0 {
            return Ok(None);
        }
        // The request in which the model recalled was sent. The next one has the result, and would not exist without it.
        self.answered();
        self.is_recall = true;
        Ok(Some(asked))
    }
}

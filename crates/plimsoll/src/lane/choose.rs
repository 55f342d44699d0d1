//! Chooses what to clear in a request.

use crate::thrift::{RECALL_CALL, RECALL_CHANCE, calls_to_come};

use super::cache::Sequence;
use super::{
    BlockKind, CacheKind, Lane, LaneChoice, LaneRequest, LaneRules, Room, original_sequence, sent_sequence,
};

/// A result that may be cleared.
struct Candidate {
    place: usize,
    /// Estimated tokens that clearing it frees.
    freed: f64,
}

/// Chooses among clearing the newest candidate, the two newest, and so on: what follows the oldest change has to be
/// written again, so of two choices with the same oldest change, the one that clears more is cheaper.
pub(super) fn choose(room: &Room, lane: &Lane, request: &LaneRequest, rules: &LaneRules) -> LaneChoice {
    let nothing = LaneChoice::default();
    if lane.last.is_empty() || lane.factor.is_none() || room.prices.is_free() {
        return nothing;
    }
    let original = original_sequence(&request.blocks);
    let candidates = candidates(lane, request, &original, rules);
    let all: f64 = candidates.iter().map(|candidate| candidate.freed).sum();
    if candidates.is_empty() || all < rules.min_tokens as f64 {
        return nothing;
    }
    let scales = Scales::new(room, lane, request, rules, &original);
    let mut best: Option<(f64, usize)> = None;
    let (mut freed, mut risk) = (0.0, 0.0);
    for (number, candidate) in candidates.iter().enumerate() {
        freed += candidate.freed;
        risk += RECALL_CHANCE * scales.recall;
        if freed < rules.min_tokens as f64 {
            continue;
        }
        let price = scales.price_with(candidate.place, freed);
        let gain = scales.later(freed) - risk - (price - scales.price_now);
        let is_best = best.is_none_or(|(most, _)| gain > most);
        if gain > 0.0 && scales.is_paid(price) && is_best {
            best = Some((gain, number + 1));
        }
    }
    let Some((_, count)) = best else { return nothing };
    let mut clear: Vec<usize> = candidates[..count].iter().map(|candidate| candidate.place).collect();
    clear.sort_unstable();
    let anchor = clear.first().and_then(|first| scales.anchor(*first));
    let freed = candidates[..count].iter().map(|candidate| candidate.freed as u64).sum();
    let choice = LaneChoice { clear, anchor, freed };
    // The estimate above prices all writes alike. The exact price decides.
    if scales.is_paid(scales.exact_price(&choice)) { choice } else { nothing }
}

/// Returns the results that may be cleared, newest first.
fn candidates(lane: &Lane, request: &LaneRequest, original: &Sequence, rules: &LaneRules) -> Vec<Candidate> {
    let blocks = &request.blocks;
    // Blocks of recalls are not part of the client's own sequence.
    let recalls = blocks.iter().filter(|block| block.kind == BlockKind::Recall).count();
    let was_sent = |own: usize| lane.last.get(own) == original.prefixes.get(own);
    let mut found = Vec::new();
    let (mut turns, mut seen) = (0, 0.0);
    let mut own = blocks.len() - recalls;
    for (place, block) in blocks.iter().enumerate().rev() {
        if block.kind == BlockKind::Recall {
            continue;
        }
        own -= 1;
        match block.kind {
            BlockKind::Prompt => turns += 1,
            BlockKind::Result { cleared, is_cleared: false, is_in_use } if turns >= rules.active_turns => {
                let freed = block.tokens as f64 - cleared.tokens as f64;
                seen += block.tokens as f64;
                let is_old = seen > rules.protect_tokens as f64;
                if is_old && !is_in_use && freed > 0.0 && was_sent(own) {
                    found.push(Candidate { place, freed });
                }
            }
            _ => {}
        }
    }
    found
}

/// Compares the cost of a change with its savings.
struct Scales<'a> {
    room: &'a Room,
    request: &'a LaneRequest,
    factor: f64,
    /// The request with what is cleared already.
    now: Sequence,
    /// Price of `now`.
    price_now: f64,
    /// Price of the client's own request.
    price_without: f64,
    purse: f64,
    /// Price of a recall.
    recall: f64,
    calls: f64,
    /// For each block, the last block up to it that ends a living cache entry.
    living: Vec<Option<usize>>,
    /// Whether the request has room for one more breakpoint.
    has_slot: bool,
    last_breakpoint: usize,
}

impl<'a> Scales<'a> {
    fn new(
        room: &'a Room,
        lane: &Lane,
        request: &'a LaneRequest,
        rules: &LaneRules,
        original: &Sequence,
    ) -> Scales<'a> {
        let (kind, prices, at) = (room.kind, &room.prices, request.at);
        let factor = lane.factor();
        let now = sent_sequence(&request.blocks, |_| false);
        let read = room.sent.read(&now, kind, factor, at);
        let price_now = now.price(read, kind, prices, factor);
        let price_without = match request.is_recall {
            true => 0.0,
            false => {
                let read = match room.is_uncertain(request) {
                    true => original.tokens(),
                    false => room.original.read(original, kind, factor, at),
                };
                original.price(read, kind, prices, factor)
            }
        };
        let long = prices.for_prompt(now.tokens() * factor);
        let load = now.tokens() * factor;
        let recall = long.cache_read * load
            + long.output * RECALL_CALL
            + long.cache_write.max(long.input) * rules.recall_tokens as f64;
        let mut last = None;
        let living = (0..now.prefixes.len()).map(|block| {
            if room.sent.lives(now.prefixes[block], at) {
                last = Some(block);
            }
            last
        });
        let living = living.collect();
        let has_slot = match kind {
            CacheKind::Breakpoints { most, .. } => now.breakpoints() < most,
            CacheKind::Prefixes { .. } => false,
        };
        let last_breakpoint = request.blocks.iter().rposition(|block| block.breakpoint.is_some());
        Scales {
            room,
            request,
            factor,
            price_now,
            price_without,
            purse: lane.bills.purse(),
            recall,
            calls: calls_to_come(lane.answers),
            living,
            has_slot,
            last_breakpoint: last_breakpoint.map_or(0, |block| block + 1),
            now,
        }
    }

    /// Returns the expected savings of the calls after this one if `freed` estimated tokens are gone.
    fn later(&self, freed: f64) -> f64 {
        self.room.prices.cache_read * self.calls * freed * self.factor
    }

    /// Whether the purse still holds the price of a recall after a request at this price.
    fn is_paid(&self, price: f64) -> bool {
        self.purse + self.price_without - price >= self.recall
    }

    /// Returns the block after which a breakpoint still finds the prefix before a change.
    fn anchor(&self, first: usize) -> Option<usize> {
        let before = first.checked_sub(1).filter(|_| self.has_slot)?;
        let anchor = self.living.get(before).copied().flatten()?;
        self.request.blocks[anchor].breakpoint.is_none().then_some(anchor)
    }

    /// Returns the approximate price of the request if block `first` is the oldest that changes and all changes free `freed` tokens.
    fn price_with(&self, first: usize, freed: f64) -> f64 {
        let before = first.checked_sub(1);
        let found = match self.room.kind {
            CacheKind::Prefixes { .. } => before.and_then(|before| self.living[before]),
            CacheKind::Breakpoints { .. } => self.anchor(first).or_else(|| self.nearest_breakpoint(first)),
        };
        let read = found.map_or(0.0, |block| self.now.tokens_to(block + 1));
        let total = self.now.tokens() - freed;
        let prices = self.room.prices.for_prompt(total * self.factor);
        let written = match self.room.kind {
            CacheKind::Prefixes { .. } => total,
            CacheKind::Breakpoints { .. } => (self.now.tokens_to(self.last_breakpoint) - freed).max(read),
        };
        let lifetime = self.request.blocks.iter().filter_map(|block| block.breakpoint).max();
        let write = lifetime.map_or(prices.cache_write, |lifetime| prices.write(lifetime));
        (prices.cache_read * read + write * (written - read) + prices.input * (total - written)) * self.factor
    }

    /// Returns the client's last breakpoint before a block whose entry is still cached.
    fn nearest_breakpoint(&self, first: usize) -> Option<usize> {
        let is_breakpoint = |block: &usize| self.request.blocks[*block].breakpoint.is_some();
        let lives = |block: &usize| self.living[*block] == Some(*block);
        (0..first).rev().find(|block| is_breakpoint(block) && lives(block))
    }

    /// Returns the price of the request with a choice, by the model of the cache.
    fn exact_price(&self, choice: &LaneChoice) -> f64 {
        let is_cleared = |place: usize| choice.clear.binary_search(&place).is_ok();
        let changed = sent_sequence(&self.request.blocks, is_cleared);
        let changed = match choice.anchor {
            Some(anchor) => changed.with_breakpoint(anchor),
            None => changed,
        };
        let (kind, prices) = (self.room.kind, &self.room.prices);
        let read = self.room.sent.read(&changed, kind, self.factor, self.request.at);
        changed.price(read, kind, prices, self.factor)
    }
}

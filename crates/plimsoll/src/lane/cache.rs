//! A model of a provider's prompt cache, for the requests of a room.

use std::collections::BTreeMap;

use crate::fnv::Fnv;
use crate::log::Millis;

use super::{CacheKind, LanePrices};

/// Factor of documented lifetimes.
///
/// Providers keep entries longer than documented. An assumed lifetime that is too short makes a change look free that is
/// not: over recorded sessions it cost up to 5 % at some moment. Twice the documented one cost nothing.
const ASSUMED_LIFETIMES: u64 = 2;

/// Returns when an entry that was used at `used` is taken to expire.
pub(super) fn expiry(used: Millis, lifetime: Millis) -> Millis {
    Millis(used.0.saturating_add(lifetime.0.saturating_mul(ASSUMED_LIFETIMES)))
}

/// A block of a request that is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct SentBlock {
    pub(super) hash: u64,
    pub(super) tokens: f64,
    /// Lifetime of the cache entry that ends with this block, if the request sets a breakpoint on it.
    pub(super) breakpoint: Option<Millis>,
}

/// A breakpoint of a sequence.
#[derive(Clone, Copy, Debug)]
struct Mark {
    block: usize,
    lifetime: Millis,
}

/// The blocks of one request, with the hash and the size of every prefix.
#[derive(Clone, Debug, Default)]
pub(super) struct Sequence {
    /// Hash of the prefix that ends with each block.
    pub(super) prefixes: Vec<u64>,
    /// Tokens of the prefix that ends with each block.
    sums: Vec<f64>,
    marks: Vec<Mark>,
}

impl Sequence {
    pub(super) fn of(blocks: impl Iterator<Item = SentBlock>) -> Sequence {
        let mut sequence = Sequence::default();
        let (mut chain, mut sum) = (Fnv::new(), 0.0);
        for (block, sent) in blocks.enumerate() {
            chain = chain.number(sent.hash);
            sum += sent.tokens;
            sequence.prefixes.push(chain.finish());
            sequence.sums.push(sum);
            if let Some(lifetime) = sent.breakpoint {
                sequence.marks.push(Mark { block, lifetime });
            }
        }
        sequence
    }

    /// Tokens of the first `blocks` blocks.
    pub(super) fn tokens_to(&self, blocks: usize) -> f64 {
        blocks.checked_sub(1).and_then(|last| self.sums.get(last)).copied().unwrap_or_default()
    }

    pub(super) fn tokens(&self) -> f64 {
        self.tokens_to(self.sums.len())
    }

    pub(super) fn breakpoints(&self) -> usize {
        self.marks.len()
    }

    /// Adds a breakpoint after a block.
    pub(super) fn with_breakpoint(mut self, block: usize) -> Sequence {
        let lifetime = self.marks.iter().map(|mark| mark.lifetime).max().unwrap_or(Millis(0));
        let at = self.marks.partition_point(|mark| mark.block < block);
        if self.marks.get(at).is_none_or(|mark| mark.block != block) {
            self.marks.insert(at, Mark { block, lifetime });
        }
        self
    }

    /// Price of the request if this many tokens of its beginning are read from the cache. `factor` converts estimated
    /// tokens to the provider's.
    pub(super) fn price(&self, read: f64, kind: CacheKind, prices: &LanePrices, factor: f64) -> f64 {
        let total = self.tokens();
        let read = read.clamp(0.0, total);
        let prices = prices.for_prompt(total * factor);
        let mut price = prices.cache_read * read;
        let mut at = read;
        match kind {
            CacheKind::Breakpoints { .. } => {
                for mark in &self.marks {
                    let end = self.tokens_to(mark.block + 1);
                    if end > at {
                        price += prices.write(mark.lifetime) * (end - at);
                        at = end;
                    }
                }
                price += prices.input * (total - at);
            }
            CacheKind::Prefixes { .. } => price += prices.cache_write * (total - at),
        }
        price * factor
    }
}

/// The cache entries of a room, each with its expiry.
#[derive(Clone, Debug, Default)]
pub(super) struct LaneCache {
    entries: BTreeMap<u64, Millis>,
    /// Number of entries at which expired ones are dropped.
    crowded: usize,
}

/// Number of entries below which expired ones are kept: looking for them costs more than they do.
const FEW: usize = 1_024;

impl LaneCache {
    /// Tokens of a request that would be read from the cache.
    pub(super) fn read(&self, sequence: &Sequence, kind: CacheKind, factor: f64, now: Millis) -> f64 {
        let lives = |block: &usize| self.lives(sequence.prefixes[*block], now);
        let found = match kind {
            CacheKind::Breakpoints { look_back, .. } => {
                let from_mark = |mark: &Mark| {
                    let first = (mark.block + 1).saturating_sub(look_back);
                    (first..=mark.block).rev().find(lives)
                };
                sequence.marks.iter().filter_map(from_mark).max()
            }
            // A longer prefix is in the cache only if the shorter one is.
            CacheKind::Prefixes { .. } => (0..sequence.prefixes.len()).take_while(lives).last(),
        };
        let tokens = found.map_or(0.0, |block| sequence.tokens_to(block + 1));
        if tokens * factor < kind.min_tokens() { 0.0 } else { tokens }
    }

    /// Whether there is an entry for the prefix that ends with a block.
    pub(super) fn lives(&self, prefix: u64, now: Millis) -> bool {
        self.entries.get(&prefix).is_some_and(|expiry| *expiry >= now)
    }

    /// Records what a provider stores for a request.
    pub(super) fn store(&mut self, sequence: &Sequence, kind: CacheKind, now: Millis) {
        let expiry =
            |lifetime: Millis| Millis(now.0.saturating_add(lifetime.0.saturating_mul(ASSUMED_LIFETIMES)));
        match kind {
            CacheKind::Breakpoints { .. } => {
                for mark in &sequence.marks {
                    self.set(sequence.prefixes[mark.block], expiry(mark.lifetime));
                }
            }
            CacheKind::Prefixes { lifetime, .. } => {
                for prefix in &sequence.prefixes {
                    self.set(*prefix, expiry(lifetime));
                }
            }
        }
        if self.entries.len() > self.crowded.max(FEW) {
            self.entries.retain(|_, expiry| *expiry >= now);
            self.crowded = self.entries.len().saturating_mul(2);
        }
    }

    /// Drops the entries of a request's prefixes with more tokens than this.
    pub(super) fn forget(&mut self, sequence: &Sequence, tokens: f64) {
        let first = sequence.sums.partition_point(|sum| *sum <= tokens);
        for prefix in &sequence.prefixes[first..] {
            self.entries.remove(prefix);
        }
    }

    /// A short lifetime does not shorten a longer one that an earlier request asked for.
    fn set(&mut self, prefix: u64, expiry: Millis) {
        let entry = self.entries.entry(prefix).or_insert(expiry);
        *entry = (*entry).max(expiry);
    }
}

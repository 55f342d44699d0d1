//! Lanes: what it costs to change the requests of an agent that Plimsoll does not run.
//!
//! A proxy sees an agent's requests, but does not decide what is in them. It can only replace old tool results by
//! placeholders, and each change may break the provider's prompt cache. A [`Lane`] is the sequence of requests of one
//! conversation. It keeps two bills: what was paid (`with`), and what the client's own requests would have cost (`without`).
//! The lane's *purse* is their difference.
//!
//! A change is made only if the purse is not below the price of one recall after the request that contains it, and if it is
//! expected to pay. So if the session ends with that request, it has not cost more than without the proxy. A rule that
//! bets on the calls to come does not have this property, and over recorded sessions it was not cheaper.
//!
//! The bill `without` is the real bill plus the difference between two predictions, for the client's own request and for the
//! request that was sent. Both use one model of the cache, corrected by the reported cache reads, so an error of the model
//! cancels out unless it affects the difference itself. If nothing is changed, both requests are equal, and so is the purse
//! before and after.
//!
//! Lanes with the same provider, credential and model share its cache: they are in one [`Room`].
//!
//! **Invariants.** Pure: no clock, no I/O. A lane's first request is never changed beyond known marks, because nothing is known
//! about the cache. Blocks that were not sent before, protected blocks and blocks in use are never cleared.

mod cache;
mod choose;

use crate::log::{Millis, Usage};
use crate::policy::Policy;
use crate::tokens::Tokens;

use cache::{LaneCache, SentBlock, Sequence};

/// How a provider caches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CacheKind {
    /// Anthropic: prefixes that end at a breakpoint of the request.
    Breakpoints {
        /// Number of blocks that are looked up backwards from each breakpoint, its own included.
        look_back: usize,
        /// Maximum number of breakpoints of a request.
        most: usize,
        /// Minimum length of an entry in tokens.
        min_tokens: u64,
    },
    /// OpenAI and others: every prefix. Modelled by whole blocks, which is a little less than what is cached.
    Prefixes {
        /// Minimum length of an entry in tokens.
        min_tokens: u64,
        /// Documented lifetime of an entry after its last use.
        lifetime: Millis,
    },
}

impl CacheKind {
    fn min_tokens(self) -> f64 {
        match self {
            CacheKind::Breakpoints { min_tokens, .. } | CacheKind::Prefixes { min_tokens, .. } => {
                min_tokens as f64
            }
        }
    }
}

/// Prices of a model per token, in any unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LanePrices {
    /// Input that is neither read from nor written to the cache.
    pub input: f64,
    /// Input read from the cache.
    pub cache_read: f64,
    /// Input written to the cache.
    pub cache_write: f64,
    /// Input written to the cache for an hour.
    pub cache_write_hour: f64,
    /// Output.
    pub output: f64,
    /// Other prices for long prompts.
    pub long_prompt: Option<LongPrompt>,
}

/// Factors of a model's prices for prompts above a length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LongPrompt {
    /// Number of tokens above which a prompt is long.
    pub above: u64,
    /// Factor for all input.
    pub input: f64,
    /// Factor for output.
    pub output: f64,
}

/// Lifetimes from this one on have the price of an hour.
const HOUR: Millis = Millis(60 * 60 * 1_000);

impl LanePrices {
    fn for_prompt(&self, tokens: f64) -> LanePrices {
        let Some(long) = self.long_prompt.filter(|long| tokens > long.above as f64) else { return *self };
        LanePrices {
            input: self.input * long.input,
            cache_read: self.cache_read * long.input,
            cache_write: self.cache_write * long.input,
            cache_write_hour: self.cache_write_hour * long.input,
            output: self.output * long.output,
            long_prompt: None,
        }
    }

    fn write(&self, lifetime: Millis) -> f64 {
        if lifetime >= HOUR { self.cache_write_hour } else { self.cache_write }
    }

    /// Returns the price of a request and its answer.
    pub fn of(&self, usage: &Usage) -> f64 {
        let prices = self.for_prompt(input_of(usage));
        let hour = usage.cache_write_hour.min(usage.cache_write);
        prices.input * usage.input.0 as f64
            + prices.cache_read * usage.cache_read.0 as f64
            + prices.cache_write * (usage.cache_write - hour).0 as f64
            + prices.cache_write_hour * hour.0 as f64
            + prices.output * (usage.output + usage.reasoning).0 as f64
    }

    /// Whether nothing costs anything, so that there is nothing to save.
    pub fn is_free(&self) -> bool {
        self.input <= 0.0 && self.cache_write <= 0.0
    }
}

/// Share of the predicted reads below which entries count as lost. Estimates of single blocks are a few percent off.
const LOST_SHARE: f64 = 0.9;

fn input_of(usage: &Usage) -> f64 {
    (usage.input + usage.cache_read + usage.cache_write).0 as f64
}

/// A block of a client's request, in the order in which the provider caches blocks: tools, system prompt, messages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LaneBlock {
    /// Hash of the content, without cache breakpoints.
    pub hash: u64,
    /// Estimated tokens.
    pub tokens: u64,
    /// Documented lifetime of the cache entry that the client's breakpoint on this block asks for.
    pub breakpoint: Option<Millis>,
    /// Role of the block for clearing.
    pub kind: BlockKind,
}

/// Kind of a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BlockKind {
    /// Content that is never changed.
    Fixed,
    /// The first block of a prompt of the user.
    Prompt,
    /// A tool result that could be replaced by its placeholder, or is.
    Result {
        /// The block with its placeholder.
        cleared: ClearedBlock,
        /// Whether it is cleared in this conversation already.
        is_cleared: bool,
        /// Whether newer content refers to it, or its tool is protected.
        is_in_use: bool,
    },
    /// A call of `recall`, or its result. The client would not have sent it without the proxy.
    Recall,
}

/// A block whose content is replaced by a placeholder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClearedBlock {
    /// Hash of the content.
    pub hash: u64,
    /// Estimated tokens.
    pub tokens: u64,
}

/// A client's request.
#[derive(Clone, Debug)]
pub struct LaneRequest {
    /// Blocks in the order in which the provider caches them.
    pub blocks: Vec<LaneBlock>,
    /// Time at which it arrived.
    pub at: Millis,
    /// Whether its newest step only recalled. Without the proxy this request would not exist.
    pub is_recall: bool,
}

/// Limits of what may be cleared.
#[derive(Clone, Copy, Debug)]
pub struct LaneRules {
    /// Tokens of the newest results that stay, on top of those of the newest turns.
    pub protect_tokens: u64,
    /// Number of the newest user turns whose results stay.
    pub active_turns: u64,
    /// Nothing is cleared unless this many tokens are freed.
    pub min_tokens: u64,
    /// Tokens that a recall brings back at most.
    pub recall_tokens: u64,
}

impl LaneRules {
    /// Returns the rules of a policy for a model with this window.
    pub fn of(policy: &Policy, context: Tokens) -> LaneRules {
        let bounds = policy.recall.for_context(context, &policy.count);
        LaneRules {
            protect_tokens: policy.prune.protect_tokens.0,
            active_turns: policy.prune.active_turns,
            min_tokens: policy.prune.min_tokens.0,
            recall_tokens: policy.count.of_chars(bounds.max_chars).0,
        }
    }
}

/// A decision about a request.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct LaneChoice {
    /// Blocks to clear in addition to those that are cleared already, ascending.
    pub clear: Vec<usize>,
    /// The block after which to add a breakpoint, so that what precedes the change is still read from the cache.
    pub anchor: Option<usize>,
    /// Estimated tokens that `clear` frees.
    pub freed: u64,
}

impl LaneChoice {
    /// Clears all results that were not cleared yet, except the newest ones with `protect` tokens together, whatever that
    /// costs: for a request that does not fit.
    pub fn of_oldest(request: &LaneRequest, protect: u64) -> LaneChoice {
        let (mut clear, mut freed, mut seen) = (Vec::new(), 0, 0u64);
        for (place, block) in request.blocks.iter().enumerate().rev() {
            let BlockKind::Result { cleared, is_cleared: false, .. } = block.kind else { continue };
            seen = seen.saturating_add(block.tokens);
            if seen > protect && block.tokens > cleared.tokens {
                clear.push(place);
                freed += block.tokens - cleared.tokens;
            }
        }
        clear.reverse();
        LaneChoice { clear, anchor: None, freed }
    }
}

/// The two bills of a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Bills {
    /// Cost of the requests that were sent.
    pub with: f64,
    /// Cost that the client's own requests would have had.
    pub without: f64,
}

impl Bills {
    /// Returns the savings. Negative if the lane is more expensive.
    pub fn purse(&self) -> f64 {
        self.without - self.with
    }
}

/// The requests of one conversation.
#[derive(Clone, Debug, Default)]
pub struct Lane {
    bills: Bills,
    /// Provider's tokens per estimated token. `None` before the first usage.
    factor: Option<f64>,
    answers: u64,
    /// Prefixes of the client's last request, by which blocks count as sent.
    last: Vec<u64>,
}

impl Lane {
    /// Returns its bills.
    pub fn bills(&self) -> Bills {
        self.bills
    }

    /// Provider's tokens per estimated token.
    pub fn factor(&self) -> f64 {
        self.factor.unwrap_or(1.0)
    }
}

/// A request that was sent, until its answer is known.
#[derive(Clone, Debug)]
pub struct InFlight {
    sent: Sequence,
    original: Sequence,
    /// Predicted reads, in estimated tokens.
    sent_read: f64,
    original_read: f64,
    is_recall: bool,
    /// Whether the cache may contain what the room does not know of.
    is_uncertain: bool,
    /// Whether something is cleared that the lane's last request still had.
    is_new_change: bool,
}

/// A provider's cache and prices, shared by the lanes of one credential and model.
#[derive(Clone, Debug)]
pub struct Room {
    kind: CacheKind,
    prices: LanePrices,
    /// The provider's cache.
    sent: LaneCache,
    /// The cache as it would be without the proxy.
    original: LaneCache,
    /// Time from which on all requests are known. The cache may have entries of earlier ones until they expire.
    since: Millis,
}

impl Room {
    /// Creates a room that knows of no request before `since`.
    pub fn new(kind: CacheKind, prices: LanePrices, since: Millis) -> Room {
        Room { kind, prices, sent: LaneCache::default(), original: LaneCache::default(), since }
    }

    /// Whether entries of requests from before the room existed may still be in the cache. Then a prefix that the room does
    /// not know may be cached all the same, for example if the user goes back to an earlier message.
    fn is_uncertain(&self, request: &LaneRequest) -> bool {
        let lifetime = match self.kind {
            CacheKind::Prefixes { lifetime, .. } => Some(lifetime),
            CacheKind::Breakpoints { .. } => request.blocks.iter().filter_map(|block| block.breakpoint).max(),
        };
        request.at < cache::expiry(self.since, lifetime.unwrap_or(HOUR))
    }

    /// Sets the prices, which may change with a model's speed.
    pub fn set_prices(&mut self, prices: LanePrices) {
        self.prices = prices;
    }

    /// Decides what to clear in a request.
    pub fn choose(&self, lane: &Lane, request: &LaneRequest, rules: &LaneRules) -> LaneChoice {
        choose::choose(self, lane, request, rules)
    }

    /// Records that a request is sent with the results that were cleared already and those of `choice`.
    pub fn send(&self, lane: &mut Lane, request: &LaneRequest, choice: &LaneChoice) -> InFlight {
        let is_cleared = |place: usize| choice.clear.binary_search(&place).is_ok();
        let sent = sent_sequence(&request.blocks, is_cleared);
        let sent = match choice.anchor {
            Some(anchor) => sent.with_breakpoint(anchor),
            None => sent,
        };
        let original = original_sequence(&request.blocks);
        let factor = lane.factor();
        let sent_read = self.sent.read(&sent, self.kind, factor, request.at);
        let original_read = self.original.read(&original, self.kind, factor, request.at);
        let is_uncertain = self.is_uncertain(request);
        lane.last.clone_from(&original.prefixes);
        InFlight {
            sent,
            original,
            sent_read,
            original_read,
            is_recall: request.is_recall,
            is_uncertain,
            is_new_change: !choice.clear.is_empty(),
        }
    }

    /// Adds the answer of a request to the bills of its lane. `now` is the time at which the answer began.
    pub fn answered(&mut self, lane: &mut Lane, request: &InFlight, usage: &Usage, now: Millis) {
        self.forget_lost(request, usage);
        self.sent.store(&request.sent, self.kind, now);
        if !request.is_recall {
            self.original.store(&request.original, self.kind, now);
        }
        lane.answers += 1;
        let paid = self.prices.of(usage);
        lane.bills.with += paid;
        let (input, estimated) = (input_of(usage), request.sent.tokens());
        if input <= 0.0 || estimated <= 0.0 {
            // Without input counts nothing is known about the size, and a difference would be invented.
            lane.bills.without += if request.is_recall { 0.0 } else { paid };
            return;
        }
        let factor = input / estimated;
        lane.factor = Some(factor);
        if request.is_recall {
            return;
        }
        let read = (usage.cache_read.0 as f64 / factor).min(estimated);
        let original_read = request.original_read(read);
        let price = |sequence: &Sequence, read: f64| sequence.price(read, self.kind, &self.prices, factor);
        // What was not sent is not part of the answer's price, so output costs the same in both.
        lane.bills.without += paid + price(&request.original, original_read) - price(&request.sent, read);
    }

    /// Drops entries that the provider turned out to have lost, so that no later change counts on them.
    fn forget_lost(&mut self, request: &InFlight, usage: &Usage) {
        let (input, estimated) = (input_of(usage), request.sent.tokens());
        if input <= 0.0 || estimated <= 0.0 {
            return;
        }
        let read = usage.cache_read.0 as f64 * estimated / input;
        if read < request.sent_read * LOST_SHARE {
            self.sent.forget(&request.sent, read);
            self.original.forget(&request.original, read);
        }
    }
}

impl InFlight {
    /// Reads of the client's own request, given the real reads of the one that was sent, in estimated tokens.
    fn original_read(&self, read: f64) -> f64 {
        let (sent, original) = (self.sent.tokens(), self.original.tokens());
        let corrected = match read < self.sent_read {
            // An older entry before a new change was lost. The client's request would have read a newer one.
            true if self.is_new_change => self.original_read,
            // The provider lost the newest entry. It would have lost the client's as well.
            true => self.original_read * read / self.sent_read,
            false => self.original_read + (read - self.sent_read),
        };
        // What known marks have removed may have been cached like the rest, by requests that the room does not know.
        let corrected = if self.is_uncertain { corrected.max(original * read / sent) } else { corrected };
        corrected.clamp(0.0, original)
    }
}

fn sent_sequence(blocks: &[LaneBlock], also: impl Fn(usize) -> bool) -> Sequence {
    Sequence::of(blocks.iter().enumerate().map(|(place, block)| {
        let (hash, tokens) = match block.kind {
            BlockKind::Result { cleared, is_cleared, .. } if is_cleared || also(place) => {
                (cleared.hash, cleared.tokens)
            }
            _ => (block.hash, block.tokens),
        };
        SentBlock { hash, tokens: tokens as f64, breakpoint: block.breakpoint }
    }))
}

fn original_sequence(blocks: &[LaneBlock]) -> Sequence {
    // A breakpoint on a recall would have been on the block before it.
    let mut kept: Vec<SentBlock> = Vec::with_capacity(blocks.len());
    for block in blocks {
        if block.kind == BlockKind::Recall {
            if let Some(last) = kept.last_mut() {
                last.breakpoint = last.breakpoint.max(block.breakpoint);
            }
            continue;
        }
        kept.push(SentBlock { hash: block.hash, tokens: block.tokens as f64, breakpoint: block.breakpoint });
    }
    Sequence::of(kept.into_iter())
}

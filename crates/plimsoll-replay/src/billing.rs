//! Circumstances of a replay, and what its requests weigh under them.

use plimsoll::{Limits, Millis, Tokens};

use crate::price::Price;
use crate::recording::{CacheRead, Call, Piece, Pieces};
use crate::request::{CachedPart, Request};

/// Sizes that models' windows have. A guess is rounded up to one of them.
const USUAL_SIZES: [u64; 11] =
    [8_000, 16_000, 32_000, 64_000, 128_000, 200_000, 256_000, 400_000, 1_000_000, 1_048_576, 2_000_000];
/// What is rebuilt of a request may be larger than what was counted for it, in most recordings by less than one part in
/// so many. A replay adds what its own requests need.
const REBUILT_MARGIN: u64 = 20;

/// What a request that took so much, with its answer, comes to at most when it is rebuilt.
pub fn rebuilt_at_most(taken: Tokens) -> Tokens {
    Tokens(taken.0.saturating_add(taken.0 / REBUILT_MARGIN))
}

/// A window that a session of which nothing else is known may have had: a size that models have, with room for the largest
/// request that it took.
///
/// ```
/// use plimsoll::Tokens;
/// assert_eq!(plimsoll_replay::guess_window(Tokens(297_027)), Tokens(400_000));
/// ```
pub fn guess_window(taken: Tokens) -> Tokens {
    const MILLION: u64 = 1_000_000;
    let rebuilt = rebuilt_at_most(taken).0;
    let usual = USUAL_SIZES.into_iter().find(|size| *size >= rebuilt);
    Tokens(usual.unwrap_or_else(|| rebuilt.div_ceil(MILLION).saturating_mul(MILLION)))
}

/// Under what circumstances a session is replayed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Circumstances {
    /// The model's context window.
    pub context: Tokens,
    /// The model's longest answer, for which room is kept. By default an eighth of the window, at most 32,000.
    pub output: Option<Tokens>,
    /// What every request carries besides the conversation: a system prompt, schemas of tools. At zero, what the
    /// session's usage tells of it.
    pub fixed: Tokens,
    /// What tokens cost.
    pub price: Price,
    /// How long a prompt cache lives after it was last used.
    pub cache_lifetime: Millis,
}

impl Default for Circumstances {
    fn default() -> Circumstances {
        Circumstances {
            context: Tokens(200_000),
            output: None,
            fixed: Tokens::ZERO,
            price: Price::of_input(1.0),
            cache_lifetime: Millis(5 * 60 * 1_000),
        }
    }
}

impl Circumstances {
    /// What the model can take and give.
    pub fn limits(&self) -> Limits {
        let usual = Tokens(self.context.0 / 8).min(Tokens(32_000));
        Limits { context: self.context, input: None, output: self.output.unwrap_or(usual) }
    }
}

/// Weights of requests, and how much of them is in the cache.
#[derive(Clone, Copy)]
pub(crate) struct Billing<'a> {
    pub(crate) circumstances: &'a Circumstances,
    /// Tokens that every request carries besides the conversation.
    pub(crate) fixed: u64,
}

impl Billing<'_> {
    /// Tokens of a request for a call whose pieces are charged with `charged`.
    pub(crate) fn tokens(&self, charged: u64, call: &Call) -> u64 {
        scaled(charged.saturating_add(self.fixed), call.scale)
    }

    /// How much of a request for a call is read from the cache.
    pub(crate) fn read(&self, request: &Request, call: &Call, pieces: &Pieces<'_>) -> u64 {
        self.read_of(request.cached(&call.model, pieces), self.tokens(request.charged(), call), call)
    }

    /// Like [`read`](Billing::read), for another request with those pieces.
    pub(crate) fn read_list(
        &self,
        list: &[Piece],
        request: &Request,
        call: &Call,
        pieces: &Pieces<'_>,
    ) -> u64 {
        let tokens = self.tokens(pieces.charged_for(list), call);
        self.read_of(request.cached_of(list, &call.model, pieces), tokens, call)
    }

    fn read_of(&self, cached: Option<CachedPart>, tokens: u64, call: &Call) -> u64 {
        let Some(cached) = cached else {
            // Another session may have left its system prompt and tools in the cache.
            return if let CacheRead::First(read) = call.read { read.min(tokens) } else { 0 };
        };
        let same = scaled(cached.charged.saturating_add(self.fixed), cached.scale).min(tokens);
        match call.read {
            CacheRead::Share(share) => scaled(same, share),
            _ if self.cache_lives(cached.at, call.at) => same,
            _ => 0,
        }
    }

    /// If a time is not known, the cache is taken to be alive.
    fn cache_lives(&self, used: Option<Millis>, now: Option<Millis>) -> bool {
        match (used, now) {
            (Some(used), Some(now)) => now.0.saturating_sub(used.0) <= self.circumstances.cache_lifetime.0,
            _ => true,
        }
    }

    /// The price of a request of that many tokens.
    pub(crate) fn price(&self, tokens: u64, call: &Call) -> Price {
        call.price.unwrap_or(self.circumstances.price).for_prompt(tokens)
    }
}

/// Tokens times a factor. Without one they stay exact, however many they are.
fn scaled(tokens: u64, factor: f64) -> u64 {
    if factor == 1.0 { tokens } else { (tokens as f64 * factor).round() as u64 }
}

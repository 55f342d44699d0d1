//! Parameters of a replay, and the size of its requests under them.

use plimsoll::{Limits, Millis, Tokens};

use crate::price::Price;
use crate::recording::{CacheRead, ModelCall, Piece, Pieces};
use crate::request::{CachedPart, Request};

/// Common sizes of context windows. A guess is rounded up to one of them.
const USUAL_SIZES: [u64; 11] =
    [8_000, 16_000, 32_000, 64_000, 128_000, 200_000, 256_000, 400_000, 1_000_000, 1_048_576, 2_000_000];
/// Inverse of the margin for rebuilt requests. A rebuilt request may be larger than its recorded size, in most
/// recordings by less than 1/20. A replay adds what its own requests need.
///
/// Without the margin, a window guessed from the largest recorded request would make recorded calls look like deaths.
const REBUILT_MARGIN: u64 = 20;

/// Returns the maximum size of a recorded request with its answer after it is rebuilt.
pub fn rebuilt_at_most(taken: Tokens) -> Tokens {
    Tokens(taken.0.saturating_add(taken.0 / REBUILT_MARGIN))
}

/// Guesses the window of a session of which nothing else is known: a common size with room for its largest recorded
/// request.
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

/// Parameters of a replay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReplayParams {
    /// Context window of the model.
    pub context: Tokens,
    /// Maximum output of the model, for which room is reserved. Default: an eighth of the window, at most 32,000.
    pub output: Option<Tokens>,
    /// Tokens of the system prompt and tool schemas, which every request contains. If zero, they are estimated from the
    /// session's usage.
    pub fixed: Tokens,
    /// Prices of tokens.
    pub price: Price,
    /// Lifetime of a prompt cache after its last use.
    pub cache_lifetime: Millis,
}

impl Default for ReplayParams {
    fn default() -> ReplayParams {
        ReplayParams {
            context: Tokens(200_000),
            output: None,
            fixed: Tokens::ZERO,
            price: Price::of_input(1.0),
            cache_lifetime: Millis(5 * 60 * 1_000),
        }
    }
}

impl ReplayParams {
    /// Returns the limits of the model.
    pub fn limits(&self) -> Limits {
        let usual = Tokens(self.context.0 / 8).min(Tokens(32_000));
        Limits { context: self.context, input: None, output: self.output.unwrap_or(usual) }
    }
}

/// Sizes of requests, and how much of them is cached.
#[derive(Clone, Copy)]
pub(crate) struct Billing<'a> {
    pub(crate) params: &'a ReplayParams,
    /// Tokens that every request contains in addition to the conversation.
    pub(crate) fixed: u64,
}

impl Billing<'_> {
    /// Returns the tokens of a request for a call whose pieces amount to `charged`.
    pub(crate) fn tokens(&self, charged: u64, call: &ModelCall) -> u64 {
        scaled(charged.saturating_add(self.fixed), call.scale)
    }

    /// Returns the tokens of a request that are read from the cache.
    pub(crate) fn read(&self, request: &Request, call: &ModelCall, pieces: &Pieces<'_>) -> u64 {
        self.read_of(request.cached(&call.model, pieces), self.tokens(request.charged(), call), call)
    }

    /// Like [`read`](Billing::read), for another request with these pieces.
    pub(crate) fn read_list(
        &self,
        list: &[Piece],
        request: &Request,
        call: &ModelCall,
        pieces: &Pieces<'_>,
    ) -> u64 {
        let tokens = self.tokens(pieces.charged_for(list), call);
        self.read_of(request.cached_of(list, &call.model, pieces), tokens, call)
    }

    fn read_of(&self, cached: Option<CachedPart>, tokens: u64, call: &ModelCall) -> u64 {
        let Some(cached) = cached else {
            // An earlier session may have left its system prompt and tools in the cache.
            return if let CacheRead::First(read) = call.read { read.min(tokens) } else { 0 };
        };
        let same = scaled(cached.charged.saturating_add(self.fixed), cached.scale).min(tokens);
        match call.read {
            CacheRead::Share(share) => scaled(same, share),
            _ if self.cache_lives(cached.at, call.at) => same,
            _ => 0,
        }
    }

    /// An unknown time counts as within the cache's lifetime.
    fn cache_lives(&self, used: Option<Millis>, now: Option<Millis>) -> bool {
        match (used, now) {
            (Some(used), Some(now)) => now.0.saturating_sub(used.0) <= self.params.cache_lifetime.0,
            _ => true,
        }
    }

    /// Returns the price of a request of `tokens` tokens.
    pub(crate) fn price(&self, tokens: u64, call: &ModelCall) -> Price {
        call.price.unwrap_or(self.params.price).for_prompt(tokens)
    }
}

/// Multiplies tokens by a factor. With a factor of 1, large numbers stay exact.
fn scaled(tokens: u64, factor: f64) -> u64 {
    if factor == 1.0 { tokens } else { (tokens as f64 * factor).round() as u64 }
}

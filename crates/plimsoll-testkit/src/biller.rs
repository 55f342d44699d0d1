//! A provider's bill on a virtual clock: an exact model of its prompt cache, made independently of the engine's.
//!
//! | | Anthropic | OpenAI |
//! |---|---|---|
//! | written | the prefix up to each of at most four breakpoints | every prefix, in steps of 128 tokens |
//! | found | an exact prefix, at most 20 blocks before a breakpoint | the longest exact prefix |
//! | minimum length | 1,024 tokens | 1,024 tokens |
//! | expires | after its lifetime, from its last use | after an hour |

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use plimsoll::{Tokens, Usage};

/// A block of a request, as the provider sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BilledBlock {
    /// Identity of the content.
    pub content: u64,
    /// Exact tokens.
    pub tokens: u64,
    /// Lifetime in milliseconds of the cache entry that a breakpoint on this block asks for.
    pub breakpoint: Option<u64>,
}

/// Rules of a provider's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BillingRule {
    /// Breakpoints, looked back from.
    Anthropic,
    /// Every prefix.
    OpenAi,
}

/// A provider's cache for one credential and model.
#[derive(Clone, Debug)]
pub struct Biller {
    rule: BillingRule,
    /// Expiry and lifetime of each prefix that was written, by its hash.
    entries: HashMap<u64, (u64, u64)>,
}

const MINIMUM: u64 = 1_024;
const STEP: u64 = 128;
const LOOK_BACK: usize = 20;
const MAX_BREAKPOINTS: usize = 4;
const HOUR: u64 = 3_600_000;

impl Biller {
    /// Creates a provider with an empty cache.
    pub fn new(rule: BillingRule) -> Biller {
        Biller { rule, entries: HashMap::new() }
    }

    /// Loses the cache.
    pub fn forget(&mut self) {
        self.entries.clear();
    }

    /// Bills a request. `is_lost` means that the provider has lost its cache.
    ///
    /// # Panics
    ///
    /// If the request has too many breakpoints, which a provider rejects.
    pub fn bill(&mut self, blocks: &[BilledBlock], output: u64, now: u64, is_lost: bool) -> Usage {
        if is_lost {
            self.forget();
        }
        let ends: Vec<usize> = (1..=blocks.len()).collect();
        let (mut prefixes, mut sums) = (vec![0], vec![0]);
        let mut hasher = DefaultHasher::new();
        for block in blocks {
            block.content.hash(&mut hasher);
            prefixes.push(hasher.finish());
            sums.push(sums.last().copied().unwrap_or_default() + block.tokens);
        }
        let tokens_to = |end: usize| sums[end];
        let total = tokens_to(blocks.len());
        let mut usage = Usage::new(Tokens::ZERO, Tokens(output));
        let (read, written) = match self.rule {
            BillingRule::Anthropic => {
                let marks: Vec<usize> =
                    ends.iter().copied().filter(|end| blocks[end - 1].breakpoint.is_some()).collect();
                assert!(marks.len() <= MAX_BREAKPOINTS, "{} breakpoints", marks.len());
                let mut found = 0;
                for mark in &marks {
                    for end in (mark.saturating_sub(LOOK_BACK - 1).max(1)..=*mark).rev() {
                        if self.lives(prefixes[end], now) {
                            self.refresh(prefixes[end], now);
                            found = found.max(end);
                            break;
                        }
                    }
                }
                let mut at = found;
                for mark in &marks {
                    if tokens_to(*mark) < MINIMUM {
                        continue;
                    }
                    let lifetime = blocks[mark - 1].breakpoint.unwrap_or_default();
                    self.write(prefixes[*mark], lifetime, now);
                    if *mark > at {
                        let more = tokens_to(*mark) - tokens_to(at);
                        usage.cache_write += Tokens(more);
                        if lifetime >= HOUR {
                            usage.cache_write_hour += Tokens(more);
                        }
                        at = *mark;
                    }
                }
                (tokens_to(found), tokens_to(at) - tokens_to(found))
            }
            BillingRule::OpenAi => {
                let found = ends.iter().copied().rev().find(|end| self.lives(prefixes[*end], now));
                let read = found.map_or(0, tokens_to);
                let read = if read < MINIMUM { 0 } else { read - read % STEP };
                for end in &ends {
                    self.write(prefixes[*end], HOUR, now);
                }
                (read, 0)
            }
        };
        usage.cache_read = Tokens(read);
        usage.input = Tokens(total - read - written);
        usage
    }

    fn lives(&self, prefix: u64, now: u64) -> bool {
        self.entries.get(&prefix).is_some_and(|(expiry, _)| *expiry >= now)
    }

    fn refresh(&mut self, prefix: u64, now: u64) {
        if let Some((expiry, lifetime)) = self.entries.get_mut(&prefix) {
            *expiry = (*expiry).max(now + *lifetime);
        }
    }

    fn write(&mut self, prefix: u64, lifetime: u64, now: u64) {
        let entry = self.entries.entry(prefix).or_insert((0, lifetime));
        *entry = (entry.0.max(now + lifetime), entry.1.max(lifetime));
    }
}

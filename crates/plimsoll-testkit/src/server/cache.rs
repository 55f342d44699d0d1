//! A model of each provider's prompt cache.
//!
//! | | Anthropic | OpenAI |
//! |---|---|---|
//! | written | the prefix up to each breakpoint | every prefix, in steps of 128 tokens |
//! | found | an exact prefix, at a breakpoint or up to 20 blocks before it | the longest exact prefix |
//! | minimum length | 1,024 tokens, configurable | 1,024 tokens |
//! | shared by | requests for the same model | requests for the same model with the same `prompt_cache_key` |
//!
//! Nothing expires automatically; [`ModelServer::forget_cache`](super::ModelServer::forget_cache) clears the cache.

use std::collections::{HashMap, HashSet, VecDeque};

use plimsoll_providers::Wire;
use serde_json::Value;

use super::segments::Segment;
use super::sign::hash;

/// Effect of the cache on one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheReport {
    /// Tokens read from the cache.
    pub read: u64,
    /// Tokens written to the cache.
    pub write: u64,
    /// The first block that differs from the most similar earlier request, such as `messages[3].content[0]`. `None` if
    /// this request only extends it, or if there is no such request.
    pub missed_at: Option<String>,
    /// Whether written tokens are kept for an hour (Anthropic).
    pub for_an_hour: bool,
}

#[derive(Debug, Default)]
pub(crate) struct CacheModel {
    rooms: HashMap<Room, Entries>,
}

/// Key of a shared cache.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Room {
    wire: Wire,
    model: String,
    key: Option<String>,
}

#[derive(Debug, Default)]
struct Entries {
    /// Hashes of prefixes that can be read.
    prefixes: HashSet<u64>,
    /// The newest requests, by the hashes of their segments.
    earlier: VecDeque<Vec<u64>>,
}

/// Number of earlier requests to compare with, enough for several sessions that alternate.
const EARLIER: usize = 64;
const LOOKBACK: usize = 20;
const MAX_MARKS: usize = 4;
const OPENAI_MINIMUM: usize = 1_024;
const OPENAI_STEP: usize = 128;
const BYTES_PER_TOKEN: usize = 4;

impl CacheModel {
    pub(crate) fn clear(&mut self) {
        self.rooms.clear();
    }

    /// Looks up a request, and stores what its provider would store.
    pub(crate) fn request(
        &mut self,
        wire: Wire,
        body: &Value,
        segments: &[Segment],
        minimum: u64,
    ) -> CacheReport {
        let string = |key: &str| body.get(key).and_then(Value::as_str).map(str::to_owned);
        let key = if wire == Wire::Anthropic { None } else { string("prompt_cache_key") };
        let room = Room { wire, model: string("model").unwrap_or_default(), key };
        let entries = self.rooms.entry(room).or_default();
        let missed_at = entries.compare(segments);
        let report = match wire {
            Wire::Anthropic => entries.anthropic(segments, minimum),
            Wire::Chat | Wire::Responses => entries.openai(segments),
        };
        CacheReport { missed_at, ..report }
    }
}

impl Entries {
    fn compare(&mut self, segments: &[Segment]) -> Option<String> {
        let own: Vec<u64> = segments.iter().map(|segment| hash(&[&segment.text])).collect();
        let common = |other: &Vec<u64>| own.iter().zip(other).take_while(|(a, b)| a == b).count();
        let nearest =
            self.earlier.iter().map(|other| (common(other), other.len())).max_by_key(|(same, length)| {
                // Of two with the same common prefix, prefer the shorter one, which this request may only extend.
                (*same, std::cmp::Reverse(*length))
            });
        self.earlier.push_back(own);
        if self.earlier.len() > EARLIER {
            self.earlier.pop_front();
        }
        let (same, length) = nearest.filter(|(same, _)| *same > 0)?;
        let differs = same < length && same < segments.len();
        differs.then(|| segments[same].path.clone())
    }

    fn anthropic(&mut self, segments: &[Segment], minimum: u64) -> CacheReport {
        // The hash of the prefix that ends with each block, and its length in tokens.
        let mut prefixes: Vec<(u64, u64)> = Vec::new();
        let mut marks: Vec<usize> = Vec::new();
        let (mut chain, mut weight) = (0, 0);
        for segment in segments {
            chain = hash(&[&chain.to_string(), &segment.text]);
            weight += segment.weight() as u64;
            if segment.is_block {
                if segment.mark.is_some() {
                    marks.push(prefixes.len());
                }
                prefixes.push((chain, weight.div_ceil(4)));
            }
        }
        marks.truncate(MAX_MARKS);
        let found = marks.iter().filter_map(|mark| {
            let window = &prefixes[(mark + 1).saturating_sub(LOOKBACK)..=*mark];
            window.iter().rev().find(|(hash, _)| self.prefixes.contains(hash)).map(|(_, tokens)| *tokens)
        });
        let read = found.max().unwrap_or(0);
        let kept: Vec<(u64, u64)> =
            marks.iter().map(|mark| prefixes[*mark]).filter(|(_, tokens)| *tokens >= minimum).collect();
        let reach = kept.last().map_or(0, |(_, tokens)| *tokens);
        self.prefixes.extend(kept.iter().map(|(hash, _)| *hash));
        let for_an_hour = segments.iter().filter_map(|segment| segment.mark).any(|mark| mark.for_an_hour);
        CacheReport { read, write: reach.saturating_sub(read), missed_at: None, for_an_hour }
    }

    fn openai(&mut self, segments: &[Segment]) -> CacheReport {
        let text: String = segments.iter().map(|segment| segment.text.as_str()).collect();
        let (step, first) = (OPENAI_STEP * BYTES_PER_TOKEN, OPENAI_MINIMUM * BYTES_PER_TOKEN);
        let (mut read, mut reach, mut chain) = (0, 0, 0xcbf2_9ce4_8422_2325u64);
        let mut is_found = true;
        for (at, chunk) in text.as_bytes().chunks_exact(step).enumerate() {
            for byte in chunk {
                chain = (chain ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
            }
            let end = (at + 1) * step;
            if end < first {
                continue;
            }
            reach = (end / BYTES_PER_TOKEN) as u64;
            // A longer prefix can only exist if the shorter one does.
            is_found = is_found && self.prefixes.contains(&chain);
            if is_found {
                read = reach;
            }
            self.prefixes.insert(chain);
        }
        CacheReport { read, write: reach - read, missed_at: None, for_an_hour: false }
    }
}

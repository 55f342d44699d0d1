//! Provider caches: how much of a window is unchanged since it was last sent, and where cache breakpoints belong.
//!
//! Input that a provider reads from its cache costs a tenth. Some providers find the common prefix of two requests
//! themselves. Anthropic caches prefixes at breakpoints that the request sets, at most four. From each breakpoint of a later
//! request it looks back over at most twenty blocks, including the breakpoint's own, for a prefix that is cached. A
//! breakpoint further away is a cache miss, even if the prefix is unchanged. So the plan sets:
//!
//! - the last breakpoint on the newest message that will not change before the next request,
//! - older ones at most one lookback apart, so that the lookbacks leave no gap, and at positions that stay the same from
//!   request to request, because a moved breakpoint finds nothing,
//! - and if a step added more than the lookbacks cover, the oldest one on a breakpoint of the last request, where the
//!   prefix is found exactly.
//!
//! A host asks for a [`CachePlan`] before it sends a window, sets the breakpoints, and keeps the plan's
//! [`Fingerprint`] for the next time:
//!
//! ```
//! use plimsoll::cache::{Breakpoint, CachePlan};
//! use plimsoll::{Message, Policy, Window};
//! let policy = Policy::default();
//! let mut log = vec![Message::user("msg_1".into(), "prt_1".into(), "hello")];
//! // Two of the four breakpoints are on the system prompt and the tools.
//! let first = CachePlan::new(&Window::of(&log, &policy), &log, None, 2, &policy.cache);
//! assert_eq!(first.breakpoints, [Breakpoint { message: 0, block: 0 }]);
//!
//! log.push(Message::user("msg_2".into(), "prt_2".into(), "are you there?"));
//! let window = Window::of(&log, &policy);
//! let second = CachePlan::new(&window, &log, Some(&first.fingerprint), 2, &policy.cache);
//! assert_eq!((second.unchanged.messages, second.unchanged.blocks), (1, 1));
//! ```

mod fingerprint;

use serde::{Deserialize, Serialize};

use crate::count::block_tokens;
use crate::counter::Counter;
use crate::log::{Message, Part, PartBody};
use crate::policy::CachePolicy;
use crate::tokens::Tokens;
use crate::window::{Block, INTERRUPTED, Window, WindowMessage, WindowRole};

pub use fingerprint::Fingerprint;

/// The beginning of a window, in the order in which it is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Prefix {
    /// Number of complete messages.
    pub messages: usize,
    /// Number of blocks, including those of a message that is only partly in the prefix.
    pub blocks: usize,
}

/// A block of a window after which the provider stores a cache entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Breakpoint {
    /// Index of the message in the window.
    pub message: usize,
    /// Index of the block in the message.
    pub block: usize,
}

/// State of a provider's cache for a window that is about to be sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CachePlan {
    /// Prefix that is unchanged since the last request.
    pub unchanged: Prefix,
    /// Prefix that is expected to be the same in the next request: everything except an answer that is still being
    /// written and calls that wait for their results.
    pub stable: Prefix,
    /// Positions of the breakpoints, in the order in which the window is sent.
    pub breakpoints: Vec<Breakpoint>,
    /// Fingerprint of the window. Store it after the request was sent, and pass it to the next plan.
    pub fingerprint: Fingerprint,
}

impl CachePlan {
    /// Plans the cache of a window over `log`. `sent` is the fingerprint of the window that was last sent to the same
    /// model with the same system prompt and tools. `reserved` is the number of breakpoints that the caller sets
    /// elsewhere, such as on system prompt and tools.
    pub fn new(
        window: &Window,
        log: &[Message],
        sent: Option<&Fingerprint>,
        reserved: u64,
        policy: &CachePolicy,
    ) -> CachePlan {
        let mut fingerprint = Fingerprint::of(window, policy);
        let unchanged = sent.map(|sent| fingerprint.shared_with(sent)).unwrap_or_default();
        let unstable = first_unstable(window, log);
        let stable: Vec<usize> =
            sent_order(window, policy).take_while(|message| Some(*message) != unstable).collect();
        let blocks: Vec<Breakpoint> = stable.iter().flat_map(|message| blocks_of(window, *message)).collect();
        let placing = Placing {
            can_mark: blocks.iter().map(|at| can_mark(window, *at)).collect(),
            look_back: usize::try_from(policy.look_back).unwrap_or(usize::MAX).max(1),
        };
        let slots = usize::try_from(policy.max_breakpoints.saturating_sub(reserved)).unwrap_or(usize::MAX);
        let known = sent.map(|sent| (unchanged.blocks, sent.kept.as_slice()));
        fingerprint.kept = placing.choose(slots, known);
        CachePlan {
            unchanged,
            stable: Prefix { messages: stable.len(), blocks: blocks.len() },
            breakpoints: fingerprint.kept.iter().map(|after| blocks[after - 1]).collect(),
            fingerprint,
        }
    }
}

impl Window {
    /// Returns the prefix that is unchanged since another window was sent.
    pub fn unchanged_since(&self, sent: &Fingerprint, policy: &CachePolicy) -> Prefix {
        Fingerprint::of(self, policy).shared_with(sent)
    }

    /// Returns the tokens of a prefix of the window.
    pub fn prefix_tokens(&self, prefix: Prefix, policy: &CachePolicy, counter: &dyn Counter) -> Tokens {
        let places: Vec<Breakpoint> = sent_order(self, policy)
            .flat_map(|message| blocks_of(self, message))
            .take(prefix.blocks)
            .collect();
        let weigh = |at: &Breakpoint| {
            let overhead = if at.block == 0 { counter.message_overhead() } else { Tokens::ZERO };
            block_tokens(&self.messages[at.message].blocks[at.block], counter) + overhead
        };
        places.iter().map(weigh).sum()
    }
}

/// Returns the indices of a window's messages in the order in which they are sent.
fn sent_order(window: &Window, policy: &CachePolicy) -> impl Iterator<Item = usize> {
    let goes_first = |message: &WindowMessage| policy.system_first && message.role == WindowRole::System;
    let (first, rest): (Vec<usize>, Vec<usize>) =
        (0..window.messages.len()).partition(|at| goes_first(&window.messages[*at]));
    first.into_iter().chain(rest)
}

fn blocks_of(window: &Window, message: usize) -> impl Iterator<Item = Breakpoint> {
    (0..window.messages[message].blocks.len()).map(move |block| Breakpoint { message, block })
}

/// Whether a block can have a breakpoint. Anthropic rejects one on a thought, which is cached with the block after
/// it. An unknown block may not accept one either, or may not be sent at all.
fn can_mark(window: &Window, at: Breakpoint) -> bool {
    !matches!(window.messages[at.message].blocks[at.block], Block::Reasoning { .. } | Block::Provider { .. })
}

/// Returns the index of the first message of the window that may change before the next request.
///
/// Only the newest answer can change: it grows while it is written, and its open calls are shown as interrupted until
/// their results arrive. A call of an older answer that never got a result counts as settled, because the model has
/// continued without it. Otherwise an interrupted session could never be cached beyond that point.
fn first_unstable(window: &Window, log: &[Message]) -> Option<usize> {
    let newest = window.messages.iter().rposition(|message| message.role == WindowRole::Assistant)?;
    let place = window.messages[newest].place;
    let message = log.get(place?)?;
    let waits = |message: &WindowMessage, said: &Message| {
        message.place == place && message.blocks.iter().any(|block| is_open(block, &said.parts))
    };
    // Results directly follow the calls they answer.
    let open = window.messages.iter().position(|shown| waits(shown, message)).map(|at| at.saturating_sub(1));
    let growing = is_being_written(message).then_some(newest);
    open.into_iter().chain(growing).min()
}

/// Whether an answer is still being written. Messages that were imported without times count as finished.
fn is_being_written(message: &Message) -> bool {
    !message.is_finished() && message.info.time.as_ref().is_some_and(|time| time.completed.is_none())
}

/// Returns whether a block is the placeholder of a missing result.
fn is_open(block: &Block, parts: &[Part]) -> bool {
    let Block::Result { text, part, .. } = block else { return false };
    let waits = |part: &Part| match &part.body {
        PartBody::Tool(tool) => !tool.state.status.is_final(),
        PartBody::ToolCall(_) => true,
        _ => false,
    };
    // Imported logs may have missing or repeated ids, so the text has to match as well.
    text.as_str() == INTERRUPTED && parts.iter().any(|other| other.id == *part && waits(other))
}

/// Chooses positions for breakpoints among the stable blocks. A position is the number of blocks up to and including
/// the marked one, which is also the length of the cached prefix.
struct Placing {
    /// Whether each block can be marked.
    can_mark: Vec<bool>,
    /// Number of blocks that a provider searches back from a breakpoint, including the marked one.
    look_back: usize,
}

impl Placing {
    /// Returns at most `slots` positions, ascending. `sent` is the number of blocks that are unchanged since the last
    /// request, and the positions that it marked.
    fn choose(&self, slots: usize, sent: Option<(usize, &[usize])>) -> Vec<usize> {
        let Some(end) = self.last_within(self.can_mark.len()).filter(|_| slots > 0) else {
            return Vec::new();
        };
        let (mut places, mut oldest) = (vec![end], end);
        while places.len() < slots
            && let Some(older) = self.before(oldest)
        {
            places.push(older);
            oldest = older;
        }
        let anchor = sent.and_then(|(unchanged, kept)| self.anchor(unchanged.min(end), kept));
        // A position within the lookback needs no separate breakpoint.
        if let Some(anchor) = anchor.filter(|anchor| anchor.saturating_add(self.look_back) <= oldest)
            && slots > 1
        {
            places.truncate(slots - 1);
            places.push(anchor);
        }
        places.reverse();
        places
    }

    /// Returns the position of the breakpoint before another: as far away as the provider looks back, rounded so that
    /// it does not move while the conversation grows. `None` if the lookback of the other reaches the beginning.
    fn before(&self, newer: usize) -> Option<usize> {
        if newer <= self.look_back {
            return None;
        }
        let furthest = newer - self.look_back;
        let in_reach = |place: &usize| (furthest..newer).contains(place);
        let mut grid = furthest - furthest % self.step();
        while grid < newer {
            if let Some(place) = self.first_from(grid).filter(in_reach) {
                return Some(place);
            }
            grid += self.step();
        }
        self.first_from(furthest).filter(in_reach)
    }

    /// Returns a position up to which the prefix is probably cached: a breakpoint of the last request, or else one
    /// that an earlier request is likely to have set.
    fn anchor(&self, unchanged: usize, kept: &[usize]) -> Option<usize> {
        let known = kept.iter().copied().filter(|place| *place <= unchanged).max();
        known.or_else(|| {
            let grid = (1..=unchanged / self.step()).rev().map(|n| n * self.step());
            grid.filter_map(|grid| self.first_from(grid)).find(|place| *place <= unchanged)
        })
    }

    /// Distance between rounded positions: half of the lookback. One of them is then always within reach, even if its
    /// block cannot be marked and the next one is used instead.
    fn step(&self) -> usize {
        (self.look_back / 2).max(1)
    }

    /// Returns the first position from `place` on that can be marked.
    fn first_from(&self, place: usize) -> Option<usize> {
        let from = place.max(1);
        let found = self.can_mark.get(from - 1..)?.iter().position(|can_mark| *can_mark)?;
        Some(from + found)
    }

    /// Returns the last position up to `place` that can be marked.
    fn last_within(&self, place: usize) -> Option<usize> {
        Some(self.can_mark.get(..place)?.iter().rposition(|can_mark| *can_mark)? + 1)
    }
}

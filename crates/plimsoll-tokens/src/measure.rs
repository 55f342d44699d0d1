//! The content of a request, as far as one can know it before it is sent.

use std::ops::Add;

use plimsoll::count::block_tokens;
use plimsoll::{Counter, Tokens, Window};
use serde::{Deserialize, Serialize};

/// Nothing was ever charged more than this for one request.
pub(crate) const ABSURD: u64 = 50_000_000;

/// A request, or a difference between two, as far as one can know it before it is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Measure {
    /// What the base counter ([`crate::Bpe::O200k`]) says of all content that is not in `exact`.
    pub base: Tokens,
    /// Over how many content blocks that is spread.
    pub blocks: u64,
    /// Replies, at the output tokens they were billed with. Where that is not known, count them into `base`.
    #[serde(default)]
    pub exact: Tokens,
}

impl Measure {
    /// Content of which nothing is known but its count.
    pub fn new(base: Tokens, blocks: u64) -> Measure {
        Measure { base, blocks, exact: Tokens::ZERO }
    }

    /// A window as the engine made it, counted by `base`.
    pub fn of_window(window: &Window, base: &dyn Counter) -> Measure {
        let blocks = window.messages.iter().flat_map(|message| &message.blocks);
        let counted = blocks.map(|block| Measure::new(block_tokens(block, base), 1));
        counted.fold(Measure::default(), Measure::add)
    }

    /// The same with a reply of known price.
    pub fn with_exact(self, reply: Tokens) -> Measure {
        Measure { exact: self.exact + reply, ..self }
    }
}

impl Add for Measure {
    type Output = Measure;
    fn add(self, more: Measure) -> Measure {
        let blocks = self.blocks.saturating_add(more.blocks);
        Measure { base: self.base + more.base, blocks, exact: self.exact + more.exact }
    }
}

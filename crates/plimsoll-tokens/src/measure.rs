//! The content of a request, as far as it is known before it is sent.

use std::ops::Add;

use plimsoll::count::block_tokens;
use plimsoll::{Counter, Tokens, Window};
use serde::{Deserialize, Serialize};

/// No request was ever charged more than this.
pub(crate) const ABSURD: u64 = 50_000_000;

/// A request, or a difference between two, as far as it is known before it is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Measure {
    /// Tokens by the base counter ([`crate::Bpe::O200k`]), of all content that is not in `exact`.
    pub base: Tokens,
    /// Number of content blocks.
    pub blocks: u64,
    /// Billed output tokens of replies. If they are unknown, count replies into `base`.
    #[serde(default)]
    pub exact: Tokens,
}

impl Measure {
    /// Content without exact parts.
    pub fn new(base: Tokens, blocks: u64) -> Measure {
        Measure { base, blocks, exact: Tokens::ZERO }
    }

    /// Measures a window of the engine, counted by `base`.
    pub fn of_window(window: &Window, base: &dyn Counter) -> Measure {
        let blocks = window.messages.iter().flat_map(|message| &message.blocks);
        let counted = blocks.map(|block| Measure::new(block_tokens(block, base), 1));
        counted.fold(Measure::default(), Measure::add)
    }

    /// Adds a reply with a known price.
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

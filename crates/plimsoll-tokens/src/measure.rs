//! Content of a request that is known before it is sent.

use std::ops::{Add, Sub};

use plimsoll::floor::Floor;
use plimsoll::{Counter, Text, Tokens, Window, block_tokens};
use serde::{Deserialize, Serialize};

/// Maximum usage that is believed. No request was ever charged more.
pub(crate) const ABSURD: u64 = 50_000_000;

/// Known content of an unsent request, or a difference between two.
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
    /// Lower bound of all content. Usage below it is not believed. Zero if it is not known.
    #[serde(default, skip_serializing_if = "is_unknown")]
    pub least: Floor,
}

fn is_unknown(floor: &Floor) -> bool {
    *floor == Floor::default()
}

impl Measure {
    /// Content without exact parts.
    pub fn new(base: Tokens, blocks: u64) -> Measure {
        Measure { base, blocks, ..Measure::default() }
    }

    /// Measures a text as a separate block.
    pub(crate) fn of_text(text: &Text, base: &dyn Counter) -> Measure {
        Measure { least: Floor::of_text(text, base), ..Measure::new(base.count_text(text), 1) }
    }

    /// Measures a window of the engine, counted by `base`.
    pub fn of_window(window: &Window, base: &dyn Counter) -> Measure {
        let blocks = window.messages.iter().flat_map(|message| &message.blocks);
        let counted = blocks.map(|block| Measure::new(block_tokens(block, base), 1));
        let counted = counted.fold(Measure::default(), Measure::add);
        Measure { least: Floor::of_window(window, base), ..counted }
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
        let (base, exact) = (self.base + more.base, self.exact + more.exact);
        Measure { base, blocks, exact, least: self.least + more.least }
    }
}

impl Sub for Measure {
    type Output = Measure;
    fn sub(self, less: Measure) -> Measure {
        let blocks = self.blocks.saturating_sub(less.blocks);
        let (base, exact) = (self.base - less.base, self.exact - less.exact);
        Measure { base, blocks, exact, least: self.least - less.least }
    }
}

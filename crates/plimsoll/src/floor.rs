//! Lower bound for token counts: no provider can have counted fewer tokens for a window.
//!
//! Usage is the best figure for a request, but some of it is wrong: gateways report the uncached part or half of it,
//! servers report the last message. A session whose window is believed to be almost empty is never reduced. Usage
//! below this bound is not believed.
//!
//! The bound has two parts. The first holds for any text and any vocabulary, and is far below every real count (see `least.rs`). The
//! second needs a counter that knows a real vocabulary: on text that is nearly all ASCII, no other vocabulary counts fewer than
//! [a certain share](Counter::least_share) of its tokens. Other scripts are excluded, because vocabularies differ by a factor of
//! ten on rare ones, and so are estimates by length, because text with long runs of spaces has far fewer tokens than its length
//! suggests.

use std::iter::Sum;
use std::ops::{Add, Sub};

use serde::{Deserialize, Serialize};

use crate::chars::Text;
use crate::counter::Counter;
use crate::log::Usage;
use crate::tokens::Tokens;
use crate::window::{Block, Window, WindowMessage};

/// Lower bound of some content, before it is known which model counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Floor {
    /// Fewest tokens of texts in other scripts, by any vocabulary.
    any: Tokens,
    /// Tokens of texts that are nearly all ASCII, by a counter with a real vocabulary.
    ascii: Tokens,
}

impl Floor {
    /// Returns the lower bound of a text in a request.
    pub fn of_text(text: &Text, counter: &dyn Counter) -> Floor {
        if counter.is_stopped() {
            return Floor::default();
        }
        let least = text.least();
        match counter.least_share() {
            Some(_) if least.is_ascii => Floor { ascii: counter.count_text(text), ..Floor::default() },
            _ => Floor { any: least.tokens, ..Floor::default() },
        }
    }

    /// Returns the lower bound of a request with this window. Reasoning, files and blocks of the provider are left
    /// out: providers drop them, or count them by their own rules.
    pub fn of_window(window: &Window, counter: &dyn Counter) -> Floor {
        window.messages.iter().map(|message| Floor::of_message(message, counter)).sum()
    }

    fn of_message(message: &WindowMessage, counter: &dyn Counter) -> Floor {
        let texts = message.blocks.iter().filter_map(|block| match block {
            Block::Text { text, .. } | Block::Result { text, .. } => Some(text),
            Block::Call { input, .. } => Some(input.json()),
            Block::Reasoning { .. } | Block::Provider { .. } | Block::File { .. } => None,
        });
        texts.map(|text| Floor::of_text(text, counter)).sum()
    }

    /// Returns the fewest tokens for a vocabulary that needs at least `share` of the counter's tokens for ASCII text.
    pub fn tokens(self, share: f64) -> Tokens {
        self.any + self.ascii.share(share)
    }
}

impl Add for Floor {
    type Output = Floor;
    fn add(self, more: Floor) -> Floor {
        Floor { any: self.any + more.any, ascii: self.ascii + more.ascii }
    }
}

impl Sub for Floor {
    type Output = Floor;
    fn sub(self, less: Floor) -> Floor {
        Floor { any: self.any - less.any, ascii: self.ascii - less.ascii }
    }
}

impl Sum for Floor {
    fn sum<I: Iterator<Item = Floor>>(floors: I) -> Floor {
        floors.fold(Floor::default(), Floor::add)
    }
}

/// Returns the fewest tokens that a request with this window can have, by a counter of its model.
pub fn of_window(window: &Window, counter: &dyn Counter) -> Tokens {
    Floor::of_window(window, counter).tokens(counter.least_share().unwrap_or_default())
}

pub(crate) fn of_message(message: &WindowMessage, counter: &dyn Counter) -> Tokens {
    Floor::of_message(message, counter).tokens(counter.least_share().unwrap_or_default())
}

/// Maximum usage of a request that is believed, several times the largest window of any model. A figure near the
/// largest integer would make every later request look too long for its model.
const MOST: Tokens = Tokens(50_000_000);

/// Returns whether usage can be that of a request with at least `least` tokens. Tokens read from the cache count.
pub fn is_credible(usage: &Usage, least: Tokens) -> bool {
    let request = usage.input + usage.cache_read + usage.cache_write;
    let total = usage.total.unwrap_or_default();
    request.max(total) >= least && (request + usage.output).max(total) <= MOST
}

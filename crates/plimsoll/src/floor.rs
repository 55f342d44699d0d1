//! Lower bound for token counts: fewer tokens no provider can have counted for a window.
//!
//! Usage is the best figure for a request, and some of it is wrong: gateways report the uncached part or half of it, servers report
//! the last message. A session whose window is believed to be almost empty is never reduced. Usage below this bound is not believed.
//!
//! The bound has two parts. The first holds for any text and any vocabulary, and is far below every real count (see `least.rs`). The
//! second needs a counter that knows a real vocabulary: on text that is nearly all ASCII, no other vocabulary counts fewer than
//! [a certain share](Counter::least_share) of its tokens. Other scripts are excluded, because vocabularies differ by a factor of
//! ten on rare ones, and so are estimates by length, because text with long runs of spaces has far fewer tokens than its length
//! suggests.

use crate::chars::Text;
use crate::counter::Counter;
use crate::log::Usage;
use crate::tokens::Tokens;
use crate::window::{Block, Window, WindowMessage};

/// Returns the fewest tokens that a request with this window can have. Reasoning, files and blocks of the provider are left out:
/// providers drop them or count them in ways of their own.
pub fn of_window(window: &Window, counter: &dyn Counter) -> Tokens {
    window.messages.iter().map(|message| of_message(message, counter)).sum()
}

pub(crate) fn of_message(message: &WindowMessage, counter: &dyn Counter) -> Tokens {
    let texts = message.blocks.iter().filter_map(|block| match block {
        Block::Text { text, .. } | Block::Result { text, .. } => Some(text),
        Block::Call { input, .. } => Some(input.json()),
        Block::Reasoning { .. } | Block::Provider { .. } | Block::File { .. } => None,
    });
    texts.map(|text| of_text(text, counter)).sum()
}

fn of_text(text: &Text, counter: &dyn Counter) -> Tokens {
    if counter.is_stopped() {
        return Tokens::ZERO;
    }
    let least = text.least();
    match counter.least_share().filter(|_| least.is_ascii) {
        Some(share) => least.tokens.max(counter.count_text(text).share(share)),
        None => least.tokens,
    }
}

/// Largest usage of a request that is believed, several times the largest window of any model. A figure near the largest integer
/// would make every later request look too long for its model.
const MOST: Tokens = Tokens(50_000_000);

/// Returns whether usage can be that of a request with at least `least` tokens. Tokens read from the cache count.
pub fn is_credible(usage: &Usage, least: Tokens) -> bool {
    let request = usage.input + usage.cache_read + usage.cache_write;
    let total = usage.total.unwrap_or_default();
    request.max(total) >= least && (request + usage.output).max(total) <= MOST
}

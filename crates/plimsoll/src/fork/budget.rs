//! Stage 3: the digest stays within its budget.
//!
//! The oldest messages go first, but not a summary while anything else can go, and never the newest message.
//! If what must stay is still too long, it is cut in its middle: the budget is a hard cap.

use super::format::{CLOSE, Lines, OPEN, format};
use crate::chars::{Chars, Text, cut_middle, level};
use crate::policy::ForkPolicy;

/// A digest within its budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fitted {
    /// The text with its tags; empty for an empty history.
    pub text: String,
    /// Its length.
    pub chars: Chars,
    /// Messages in it.
    pub count: usize,
    /// Messages removed.
    pub removed: usize,
}

/// Remove the oldest messages until the rest fits. The first `pinned` go last.
pub fn fit(messages: &[Lines<'_>], pinned: usize, policy: &ForkPolicy) -> Fitted {
    let tags = Chars((OPEN.len() + 1 + CLOSE.len()) as u64);
    let sizes: Vec<Chars> = messages.iter().map(Lines::chars).collect();
    let mut total: Chars = tags + sizes.iter().copied().sum::<Chars>();
    let mut start = pinned;
    if total > policy.no_removal {
        // The newest message stays whatever it weighs.
        while total > policy.char_budget && start + 1 < messages.len() {
            total = total - sizes[start];
            start += 1;
        }
    }
    let kept: Vec<&Lines<'_>> = messages[..pinned.min(messages.len())]
        .iter()
        .chain(messages.get(start..).unwrap_or_default())
        .collect();
    let (count, removed) = (kept.len(), start.saturating_sub(pinned).min(messages.len()));
    let (text, chars) = if kept.is_empty() {
        (String::new(), Chars::ZERO)
    } else if total > policy.char_budget {
        let text = squeeze(&kept, policy.char_budget - tags, policy);
        let chars = Chars::of(&text);
        (text, chars)
    } else {
        (format(&kept), total)
    };
    Fitted { text, chars, count, removed }
}

/// Cut messages so that together they fit `room`: all of them to one length, so that short ones stay whole.
fn squeeze(messages: &[&Lines<'_>], room: Chars, policy: &ForkPolicy) -> String {
    let level = level(messages.iter().map(|message| message.chars()), room);
    let mut out = OPEN.to_owned();
    for message in messages {
        let mut text = String::new();
        message.write(&mut text);
        out.push_str(&cut_middle(&Text::from(text), level, policy.head_ratio));
    }
    out.push('\n');
    out.push_str(CLOSE);
    out
}

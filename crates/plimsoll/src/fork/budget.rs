//! Stage 3: the digest stays within its budget.
//!
//! The oldest messages go first, but not a summary while anything else can go, and never the newest message.
//! If what must stay is still too long, it is cut in its middle: the budget is a hard cap.

use super::format::{CLOSE, Lines, OPEN, Results};
use crate::chars::{Chars, Split, Text, cut_middle, level, split_middle};
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
    /// Messages whose text was cut to fit.
    pub shortened: usize,
    /// What became of the tool results of the messages in it.
    pub results: Results,
}

/// Remove the oldest messages until the rest fits. The first `pinned` go last.
pub fn fit(messages: &[Lines<'_>], pinned: usize, policy: &ForkPolicy) -> Fitted {
    let tags = Chars((OPEN.len() + 1 + CLOSE.len()) as u64);
    let mut total: Chars = tags + messages.iter().map(Lines::chars).sum::<Chars>();
    let pinned = pinned.min(messages.len());
    let mut start = pinned;
    if total > policy.no_removal {
        // The newest message stays whatever it weighs.
        while total > policy.char_budget && start + 1 < messages.len() {
            total = total - messages[start].chars();
            start += 1;
        }
    }
    let kept: Vec<&Lines<'_>> = messages[..pinned].iter().chain(&messages[start..]).collect();
    if kept.is_empty() {
        let (chars, results) = Default::default();
        return Fitted { text: String::new(), chars, count: 0, removed: 0, shortened: 0, results };
    }
    let level = level(kept.iter().map(|message| message.chars()), policy.char_budget - tags);
    let mut writer = Writer::new(total.min(policy.char_budget));
    for message in &kept {
        writer.message(message, level, policy.head_ratio);
    }
    let Writer { mut text, shortened, results } = writer;
    text.push('\n');
    text.push_str(CLOSE);
    let chars = if shortened == 0 { total } else { Chars::of(&text) };
    Fitted { text, chars, count: kept.len(), removed: start - pinned, shortened, results }
}

/// Writes messages and keeps account of what is lost on the way.
struct Writer {
    text: String,
    shortened: usize,
    results: Results,
}

impl Writer {
    fn new(chars: Chars) -> Writer {
        let mut text = String::with_capacity(chars.0 as usize);
        text.push_str(OPEN);
        Writer { text, shortened: 0, results: Results::default() }
    }

    /// Write a message, cut in its middle where it is longer than `level`. All are cut to one length, so that short
    /// ones stay whole.
    fn message(&mut self, message: &Lines<'_>, level: Chars, head_ratio: f64) {
        if message.chars() <= level {
            message.write(&mut self.text);
            message.count(&mut self.results);
            return;
        }
        let mut text = String::new();
        message.write(&mut text);
        let text = Text::from(text);
        let hidden = match split_middle(&text, level, head_ratio) {
            Split::Whole => 0..0,
            Split::Head(head) => head.len()..text.len(),
            Split::Ends(head, tail) => head.len()..text.len() - tail.len(),
        };
        message.count_without(&hidden, &mut self.results);
        self.text.push_str(&cut_middle(&text, level, head_ratio));
        self.shortened += 1;
    }
}

//! Stage 3: keeps the digest within its budget.
//!
//! The oldest messages are removed first. A summary is removed last, and the newest message never. A policy may keep
//! some of the user's own words among the removed messages. If the rest is still too long, it is cut in its middle,
//! because the budget is a hard limit.

use super::format::{CLOSE, Lines, OPEN, Results};
use crate::chars::{Chars, Split, Text, cut_middle, level, split_middle};
use crate::policy::ForkPolicy;

/// A digest within its budget.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fitted {
    /// The text with its tags. Empty for an empty history.
    pub text: String,
    /// Length of the text.
    pub chars: Chars,
    /// Number of messages in it.
    pub count: usize,
    /// Number of removed messages.
    pub removed: usize,
    /// Number of the user's messages that stay although newer messages were removed.
    pub words: usize,
    /// Number of messages whose text was cut to fit.
    pub shortened: usize,
    /// Figures about the tool results in it.
    pub results: Results,
}

/// Removes the oldest messages until the rest fits. The first `pinned` messages are removed last.
pub fn fit(messages: &[Lines<'_>], pinned: usize, policy: &ForkPolicy) -> Fitted {
    let pinned = pinned.min(messages.len());
    let tags = Chars((OPEN.len() + 1 + CLOSE.len()) as u64);
    let room = policy.char_budget - tags;
    let history = History { messages, pinned, policy };
    let all: Chars = messages.iter().map(Lines::chars).sum();
    let (start, words) =
        if tags + all > policy.no_removal { history.choose(room) } else { (pinned, OlderWords::default()) };
    let whole = |message| (message, Chars(u64::MAX));
    let first = messages[..pinned].iter().map(whole);
    let older = words.places.iter().map(|place| (&messages[*place], words.limit));
    let kept: Vec<(&Lines<'_>, Chars)> =
        first.chain(older).chain(messages[start..].iter().map(whole)).collect();
    if kept.is_empty() {
        return Fitted::default();
    }
    let lengths = || kept.iter().map(|(message, limit)| message.chars().min(*limit));
    let total = tags + lengths().sum();
    // All messages are cut to one length, so that short ones stay whole.
    let level = level(lengths(), room);
    let mut writer = Writer::new(policy, total.min(policy.char_budget));
    for (message, limit) in &kept {
        writer.message(message, level.min(*limit));
    }
    let Writer { mut text, shortened, results, .. } = writer;
    text.push('\n');
    text.push_str(CLOSE);
    // The lengths are known unless a cut has changed them.
    let chars = if shortened == 0 { total } else { Chars::of(&text) };
    let (count, words) = (kept.len(), words.places.len());
    Fitted { text, chars, count, removed: messages.len() - count, words, shortened, results }
}

/// Messages to be divided into those that stay and those that are removed.
struct History<'h, 'a> {
    messages: &'h [Lines<'a>],
    pinned: usize,
    policy: &'h ForkPolicy,
}

/// The user's words from before the first message that stays.
#[derive(Default)]
struct OlderWords {
    places: Vec<usize>,
    /// Length to which longer ones are cut.
    limit: Chars,
    chars: Chars,
}

impl History<'_, '_> {
    /// Returns the first message that stays, and the older words that stay.
    fn choose(&self, room: Chars) -> (usize, OlderWords) {
        let start = self.start(room);
        let Some(words_room) = self.policy.words_room.filter(|_| start > self.pinned) else {
            return (start, OlderWords::default());
        };
        let reserved = self.start(room - words_room);
        let words = self.words(reserved, words_room);
        // Room that the words do not need goes to the messages.
        let start = self.start(room - words.chars);
        let fewer = self.words(start, words_room);
        // Fewer messages share the same room, so each may become longer and the sum too large. Then the first
        // division stays.
        if self.chars_from(start) + fewer.chars <= room { (start, fewer) } else { (reserved, words) }
    }

    /// Returns the first message that stays within `room`. The newest message stays, whatever its length.
    fn start(&self, room: Chars) -> usize {
        let mut chars = self.chars_from(self.pinned);
        let mut start = self.pinned;
        while chars > room && start + 1 < self.messages.len() {
            chars = chars - self.messages[start].chars();
            start += 1;
        }
        start
    }

    /// Length of the pinned messages and everything from `start` on.
    fn chars_from(&self, start: usize) -> Chars {
        self.messages[..self.pinned].iter().chain(&self.messages[start..]).map(Lines::chars).sum()
    }

    /// Returns the user's words before `start`: as many of the newest as fit `room` with a minimum length each.
    fn words(&self, start: usize, room: Chars) -> OlderWords {
        let least = self.policy.least_result;
        let mut places = Vec::new();
        let mut left = room;
        for place in (self.pinned..start).rev().filter(|place| self.messages[*place].are_words()) {
            let chars = self.messages[place].chars().min(least);
            if chars > left {
                break;
            }
            left = left - chars;
            places.push(place);
        }
        places.reverse();
        let lengths = || places.iter().map(|place| self.messages[*place].chars());
        let limit = level(lengths(), room);
        let chars = lengths().map(|chars| chars.min(limit)).sum();
        OlderWords { places, limit, chars }
    }
}

/// Writes messages and counts what is cut.
struct Writer<'p> {
    policy: &'p ForkPolicy,
    text: String,
    shortened: usize,
    results: Results,
}

impl<'p> Writer<'p> {
    fn new(policy: &'p ForkPolicy, chars: Chars) -> Writer<'p> {
        let mut text = String::with_capacity(chars.0 as usize);
        text.push_str(OPEN);
        Writer { policy, text, shortened: 0, results: Results::default() }
    }

    /// Writes a message, cut in its middle if it is longer than `limit`.
    fn message(&mut self, message: &Lines<'_>, limit: Chars) {
        if message.chars() <= limit {
            message.write(&mut self.text);
            message.count(&mut self.results);
            return;
        }
        let mut text = String::new();
        message.write(&mut text);
        let text = Text::from(text);
        let head_ratio = self.policy.head_ratio;
        let hidden = match split_middle(&text, limit, head_ratio) {
            Split::Whole => 0..0,
            Split::Head(head) => head.len()..text.len(),
            Split::Ends(head, tail) => head.len()..text.len() - tail.len(),
        };
        message.count_without(&hidden, &mut self.results);
        self.text.push_str(&cut_middle(&text, limit, head_ratio));
        self.shortened += 1;
    }
}

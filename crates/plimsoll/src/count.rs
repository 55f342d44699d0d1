//! Tokens, and how they are counted.
//!
//! The engine plans with an estimate that needs only lengths ([`CharCounter`]: characters over four, as all
//! source systems do). A caller who wants better hands in another [`Counter`]; `plimsoll-tokens` has exact BPE
//! and one that learns from real usage.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::chars::{Chars, Text, share_of, thousands};
use crate::log::{Message, Part, PartBody};
use crate::window::{Block, PROVIDER_BLOCK, Window, WindowMessage};

/// A number of model tokens, exact or estimated.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Tokens(pub u64);

impl Tokens {
    /// No tokens at all.
    pub const ZERO: Tokens = Tokens(0);

    /// The difference, or zero where `other` is larger.
    pub fn saturating_sub(self, other: Tokens) -> Tokens {
        Tokens(self.0.saturating_sub(other.0))
    }

    /// This share of the number, rounded down; never more than the number.
    pub fn share(self, share: f64) -> Tokens {
        Tokens(share_of(self.0, share))
    }
}

impl fmt::Display for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&thousands(self.0))
    }
}

/// A text that is not a number of tokens.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a number of tokens, such as 128000, 128k or 1m")]
pub struct InvalidTokens;

impl FromStr for Tokens {
    type Err = InvalidTokens;

    /// A whole number, or one of thousands (`128k`) or millions (`1m`, `1.5m`). Thousands are of 1,000: that is how sizes
    /// of windows are written. Separators, as in the numbers that are shown, may stay.
    fn from_str(text: &str) -> Result<Tokens, InvalidTokens> {
        let text = text.trim();
        let (number, zeros) = match text.char_indices().next_back() {
            Some((at, 'k' | 'K')) => (&text[..at], 3),
            Some((at, 'm' | 'M')) => (&text[..at], 6),
            _ => (text, 0),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let is_digit = |digit: char| digit.is_ascii_digit();
        // `1.` and `.5` are more likely slips than numbers, and more decimals than zeros are no whole number. A comma
        // before other than three digits may be meant as a decimal point.
        let mut groups = whole.split([',', '_']);
        let is_number = groups.next().is_some_and(|first| !first.is_empty() && first.chars().all(is_digit))
            && groups.all(|group| group.len() == 3 && group.chars().all(is_digit))
            && fraction.chars().all(is_digit)
            && fraction.len() <= zeros
            && number.contains('.') != fraction.is_empty();
        let digits: String = whole.chars().filter(|c| is_digit(*c)).collect();
        let digits = format!("{digits}{fraction:0<zeros$}");
        digits.parse().ok().filter(|_| is_number).map(Tokens).ok_or(InvalidTokens)
    }
}

impl Add for Tokens {
    type Output = Tokens;
    fn add(self, other: Tokens) -> Tokens {
        Tokens(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Tokens {
    fn add_assign(&mut self, other: Tokens) {
        *self = *self + other;
    }
}

impl Sub for Tokens {
    type Output = Tokens;
    fn sub(self, other: Tokens) -> Tokens {
        self.saturating_sub(other)
    }
}

impl std::iter::Sum for Tokens {
    fn sum<I: Iterator<Item = Tokens>>(iter: I) -> Tokens {
        iter.fold(Tokens::ZERO, Tokens::add)
    }
}

/// Anything that can say how many tokens a text takes.
///
/// A counter may be asked from several threads, and while a model is asked its owner may have moved to another.
pub trait Counter: Send + Sync {
    /// The counter's name; two counters of one name must give the same counts.
    fn name(&self) -> &'static str;

    /// Tokens of a plain string.
    fn count(&self, text: &str) -> Tokens;

    /// Tokens of a [`Text`]. Counters that need only its length override this.
    fn count_text(&self, text: &Text) -> Tokens {
        self.count(text)
    }

    /// What a message costs beyond its content: role, separators.
    fn message_overhead(&self) -> Tokens {
        Tokens(4)
    }

    /// Overhead of each tool result after the first of a message, for counters that count every result as a separate
    /// message.
    fn result_overhead(&self) -> Tokens {
        Tokens::ZERO
    }

    /// What an image or document is taken for where nobody knows better.
    fn file_tokens(&self) -> Tokens {
        FILE_TOKENS
    }

    /// Whether the caller no longer wants a result. Long work asks now and then, and ends early with anything; the caller
    /// discards it.
    fn is_stopped(&self) -> bool {
        false
    }
}

/// Providers charge 1,000 to 1,600 for a full-size image.
const FILE_TOKENS: Tokens = Tokens(1_600);

/// How a fraction of a token is rounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Rounding {
    /// Up: a sum of estimates is then never too small.
    #[default]
    Ceil,
    /// Half up, as OpenCode does.
    Round,
    /// Down.
    Floor,
}

/// Characters over a constant, four by tradition. Knows lengths only, so it costs nothing on a [`Text`].
///
/// ```
/// use plimsoll::{CharCounter, Counter, Tokens};
/// assert_eq!(CharCounter::default().count("abcde"), Tokens(2));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CharCounter {
    /// How many chars are taken for one token.
    pub chars_per_token: u64,
    /// What becomes of the fraction.
    pub rounding: Rounding,
    /// What an image or document is taken for.
    pub file_tokens: Tokens,
    /// Overhead of each parallel tool result after the first. The token management guide sends every result as a separate
    /// message, at 4 tokens each; elsewhere results of one step share the overhead of one message.
    pub result_overhead: Tokens,
}

impl Default for CharCounter {
    fn default() -> CharCounter {
        CharCounter {
            chars_per_token: 4,
            rounding: Rounding::Ceil,
            file_tokens: FILE_TOKENS,
            result_overhead: Tokens::ZERO,
        }
    }
}

impl CharCounter {
    /// The estimate for a length.
    pub fn of_chars(&self, chars: Chars) -> Tokens {
        let per = self.chars_per_token.max(1);
        Tokens(match self.rounding {
            Rounding::Ceil => chars.0.div_ceil(per),
            // The sum need not fit, so the fraction is looked at on its own.
            Rounding::Round => chars.0 / per + u64::from(chars.0 % per >= per.div_ceil(2)),
            Rounding::Floor => chars.0 / per,
        })
    }
}

impl Counter for CharCounter {
    fn name(&self) -> &'static str {
        match self.rounding {
            Rounding::Ceil => "chars/ceil",
            Rounding::Round => "chars/round",
            Rounding::Floor => "chars/floor",
        }
    }

    fn count(&self, text: &str) -> Tokens {
        self.of_chars(Chars::of(text))
    }

    fn count_text(&self, text: &Text) -> Tokens {
        self.of_chars(text.chars())
    }

    fn result_overhead(&self) -> Tokens {
        self.result_overhead
    }

    fn file_tokens(&self) -> Tokens {
        self.file_tokens
    }
}

/// A counter that asks the inner one only once for each text.
///
/// The answer is kept with the text itself, so it lives as long as the text does and is shared by all clones.
#[derive(Debug, Default)]
pub struct Memo<C> {
    inner: C,
    computed: AtomicU64,
}

impl<C: Clone> Clone for Memo<C> {
    fn clone(&self) -> Memo<C> {
        let computed = self.computed.load(Ordering::Relaxed);
        Memo { inner: self.inner.clone(), computed: AtomicU64::new(computed) }
    }
}

impl<C: Counter> Memo<C> {
    /// Remember what `inner` says.
    pub fn new(inner: C) -> Memo<C> {
        Memo { inner, computed: AtomicU64::new(0) }
    }

    /// How often the inner counter was really asked.
    pub fn computed(&self) -> u64 {
        self.computed.load(Ordering::Relaxed)
    }
}

impl<C: Counter> Counter for Memo<C> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn count(&self, text: &str) -> Tokens {
        self.computed.fetch_add(1, Ordering::Relaxed);
        self.inner.count(text)
    }

    fn count_text(&self, text: &Text) -> Tokens {
        text.tokens_by(self.inner.name(), || {
            self.computed.fetch_add(1, Ordering::Relaxed);
            self.inner.count_text(text)
        })
    }

    fn message_overhead(&self) -> Tokens {
        self.inner.message_overhead()
    }

    fn result_overhead(&self) -> Tokens {
        self.inner.result_overhead()
    }

    fn file_tokens(&self) -> Tokens {
        self.inner.file_tokens()
    }
}

/// Tokens of a part as it stands in the log: text, reasoning, a tool's input and output; others are free.
pub fn part_tokens(part: &Part, counter: &dyn Counter) -> Tokens {
    match &part.body {
        PartBody::Text(text) => counter.count_text(&text.text),
        PartBody::Reasoning(reasoning) => counter.count_text(&reasoning.text),
        PartBody::Tool(tool) => {
            let input = tool.state.input.as_ref().map(|input| counter.count_text(input.json()));
            let result = tool.state.result().map(|text| counter.count_text(text));
            input.unwrap_or_default() + result.unwrap_or_default()
        }
        PartBody::ToolCall(call) => {
            call.input.as_ref().map(|input| counter.count_text(input.json())).unwrap_or_default()
        }
        PartBody::ToolResult(result) => counter.count_text(&result.text),
        PartBody::Compaction(marker) => {
            marker.summary.as_ref().map(|text| counter.count_text(text)).unwrap_or_default()
        }
        PartBody::Other(kind) if kind == PROVIDER_BLOCK => {
            part.extra.get("block").map(|block| counter.count(&block.to_string())).unwrap_or_default()
        }
        PartBody::File(_) | PartBody::Other(_) | PartBody::Bare(_) => Tokens::ZERO,
    }
}

/// Tokens of a message as it stands in the log: its parts and the overhead of a message.
pub fn message_tokens(message: &Message, counter: &dyn Counter) -> Tokens {
    let parts: Tokens = message.parts.iter().map(|part| part_tokens(part, counter)).sum();
    parts + counter.message_overhead()
}

/// Tokens of one block of the window.
pub fn block_tokens(block: &Block, counter: &dyn Counter) -> Tokens {
    match block {
        Block::Text { text, .. } | Block::Reasoning { text, .. } => counter.count_text(text),
        Block::Call { tool, input, .. } => counter.count(tool) + counter.count_text(input.json()),
        Block::Result { text, files, .. } => {
            counter.count_text(text) + files.iter().map(|_| counter.file_tokens()).sum()
        }
        Block::Provider { value, .. } => counter.count_text(value.json()),
        Block::File { .. } => counter.file_tokens(),
    }
}

/// Tokens of one message of the window.
pub fn window_message_tokens(message: &WindowMessage, counter: &dyn Counter) -> Tokens {
    let blocks: Tokens = message.blocks.iter().map(|block| block_tokens(block, counter)).sum();
    let results = message.blocks.iter().filter(|block| matches!(block, Block::Result { .. })).skip(1);
    blocks + counter.message_overhead() + results.map(|_| counter.result_overhead()).sum()
}

/// What every request carries besides the window, counted once each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fixed {
    /// The system prompt.
    pub system: Tokens,
    /// The schemas of the tools.
    pub tools: Tokens,
}

impl Fixed {
    /// Count a system prompt and the tools' names, descriptions and schemas.
    pub fn count<'a>(system: &str, tools: impl IntoIterator<Item = &'a str>, counter: &dyn Counter) -> Fixed {
        Fixed { system: counter.count(system), tools: tools.into_iter().map(|t| counter.count(t)).sum() }
    }

    /// Both together.
    pub fn total(self) -> Tokens {
        self.system + self.tools
    }
}

/// Tokens of a whole request: the window and what goes with it.
pub fn request_tokens(window: &Window, fixed: Fixed, counter: &dyn Counter) -> Tokens {
    let messages: Tokens = window.messages.iter().map(|m| window_message_tokens(m, counter)).sum();
    fixed.total() + messages
}

//! [`Chars`], and [`Text`], a string with its length.
//!
//! The systems Plimsoll must agree with count UTF-16 code units, so [`Chars`] does too: an emoji outside the
//! basic plane is two. A cut never splits a character; if a limit falls into the middle of one, the
//! cut moves back and keeps one unit less.
//!
//! [`Text`] is a shared string with its length. Planners read lengths, never text, so planning over a
//! hundred megabytes costs as much as over a hundred bytes. A text grows only at its end, and clones
//! do not change.

use std::fmt;
use std::ops::{Add, AddAssign, Deref, Sub};
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::fnv::Fnv;
use crate::least::{self, LowerBound};
use crate::names;
use crate::numbers::share_of;
use crate::tokens::Tokens;
use crate::work;

pub use crate::numbers::thousands;

/// A number of UTF-16 code units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Chars(pub u64);

impl Chars {
    /// No chars.
    pub const ZERO: Chars = Chars(0);

    /// Returns the number of UTF-16 code units of `text`.
    pub fn of(text: &str) -> Chars {
        // Every byte that starts a character is one unit, and a four-byte character is a surrogate pair.
        // Sums of 255 fit a byte, which lets the compiler keep the inner loop in byte-wide vector lanes.
        let mut units = 0u64;
        for block in work::read(text).as_bytes().chunks(127) {
            let mut in_block = 0u8;
            for &byte in block {
                in_block += u8::from(byte as i8 >= -0x40) + u8::from(byte >= 0xf0);
            }
            units += u64::from(in_block);
        }
        Chars(units)
    }

    /// Returns the difference, or zero if `other` is larger.
    pub fn saturating_sub(self, other: Chars) -> Chars {
        Chars(self.0.saturating_sub(other.0))
    }

    /// Returns this share of the number, rounded down; never more than the number.
    pub fn share(self, share: f64) -> Chars {
        Chars(share_of(self.0, share))
    }
}

impl fmt::Display for Chars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&thousands(self.0))
    }
}

impl Add for Chars {
    type Output = Chars;
    fn add(self, other: Chars) -> Chars {
        Chars(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Chars {
    fn add_assign(&mut self, other: Chars) {
        *self = *self + other;
    }
}

impl Sub for Chars {
    type Output = Chars;
    fn sub(self, other: Chars) -> Chars {
        self.saturating_sub(other)
    }
}

impl std::iter::Sum for Chars {
    fn sum<I: Iterator<Item = Chars>>(iter: I) -> Chars {
        iter.fold(Chars::ZERO, Chars::add)
    }
}

/// Returns the longest beginning of `text` with at most `limit` chars. Reads no more of the text than it returns.
pub fn head(text: &str, limit: Chars) -> &str {
    // As long as there are no more bytes than units allowed, everything fits.
    if text.len() as u64 <= limit.0 {
        return text;
    }
    let mut left = limit.0;
    for (at, character) in text.char_indices() {
        let units = character.len_utf16() as u64;
        if units > left {
            return work::read(&text[..at]);
        }
        left -= units;
    }
    text
}

/// Returns the longest end of `text` with at most `limit` chars. Reads no more of the text than it returns.
pub fn tail(text: &str, limit: Chars) -> &str {
    if text.len() as u64 <= limit.0 {
        return text;
    }
    let mut left = limit.0;
    for (at, character) in text.char_indices().rev() {
        let units = character.len_utf16() as u64;
        if units > left {
            return work::read(&text[at + character.len_utf8()..]);
        }
        left -= units;
    }
    text
}

/// Cuts `text` in the middle so that the result, marker included, has at most `limit` chars.
///
/// Head and tail share the room that the marker leaves, `head_share` of it for the head. If not even the marker fits,
/// the beginning is returned without it, because the limit always holds.
pub fn cut_middle(text: &Text, limit: Chars, head_share: f64) -> Text {
    match split_middle(text, limit, head_share) {
        Split::Whole => text.clone(),
        Split::Head(first) => Text::from(first),
        Split::Ends(first, last) => {
            let hidden = text.chars() - Chars::of(first) - Chars::of(last);
            Text::from([first, &gap_marker(hidden), last].concat())
        }
    }
}

/// The parts of a text that [`cut_middle`] keeps.
pub(crate) enum Split<'a> {
    /// All of it.
    Whole,
    /// The beginning, without a marker.
    Head(&'a str),
    /// The beginning and the end, with a marker in between.
    Ends(&'a str, &'a str),
}

pub(crate) fn split_middle(text: &Text, limit: Chars, head_share: f64) -> Split<'_> {
    if text.chars() <= limit {
        return Split::Whole;
    }
    let widest = gap_marker(text.chars());
    let room = limit.saturating_sub(Chars::of(&widest));
    if room == Chars::ZERO {
        return Split::Head(head(text, limit));
    }
    let head_chars = room.share(head_share);
    Split::Ends(head(text, head_chars), tail(text, room - head_chars))
}

/// Returns the length to which all texts must be cut so that together they fit into `room`. Short texts stay whole, and
/// long ones share the rest equally.
pub(crate) fn level(lengths: impl Iterator<Item = Chars>, room: Chars) -> Chars {
    let mut lengths: Vec<u64> = lengths.map(|length| length.0).collect();
    lengths.sort_unstable();
    let mut left = room.0;
    for (at, length) in lengths.iter().enumerate() {
        let fair = left / (lengths.len() - at) as u64;
        if *length > fair {
            return Chars(fair);
        }
        left -= length;
    }
    Chars(u64::MAX)
}

fn gap_marker(hidden: Chars) -> String {
    format!("\n...[truncated {} chars]...\n", hidden.0)
}

/// A cheaply cloned string with its length in [`Chars`]. Clones never change.
///
/// ```
/// use plimsoll::{Chars, Text};
/// let text = Text::from("né 🚢");
/// assert_eq!(text.chars(), Chars(5)); // the ship is a surrogate pair
/// assert_eq!(&*text, "né 🚢");
/// ```
#[derive(Clone)]
pub struct Text(Arc<Counted>);

struct Counted {
    string: String,
    chars: Chars,
    /// The count of the first counter, with the counter's name. Valid until the text grows.
    tokens: OnceLock<(&'static str, Tokens)>,
    /// The hash of the string, computed on first use. Valid until the text grows.
    hash: OnceLock<u64>,
    /// Hashes of the names in the string, computed on first use. Valid until the text grows.
    names: OnceLock<Box<[u64]>>,
    /// Lower bound of the string's tokens, computed on first use. Valid until the text grows.
    least: OnceLock<LowerBound>,
}

impl Counted {
    fn new(string: String, chars: Chars) -> Counted {
        Counted {
            string,
            chars,
            tokens: OnceLock::new(),
            hash: OnceLock::new(),
            names: OnceLock::new(),
            least: OnceLock::new(),
        }
    }
}

impl Text {
    /// Creates a stand-in with the length of a text but not its content, for plans that need lengths only. It
    /// reads as an ellipsis, or as a space if the text is blank.
    ///
    /// ```
    /// use plimsoll::{CharCounter, Chars, Counter, Text, Tokens};
    /// let outline = Text::outline(Chars(4_000), false);
    /// assert_eq!(CharCounter::default().count_text(&outline), Tokens(1_000));
    /// assert_eq!(outline.as_str(), "…");
    /// ```
    pub fn outline(chars: Chars, blank: bool) -> Text {
        let string = match (blank, chars) {
            (_, Chars::ZERO) => "",
            (true, _) => " ",
            (false, _) => "…",
        };
        Text(Arc::new(Counted::new(string.to_owned(), chars)))
    }

    /// Returns the text as a string slice.
    pub fn as_str(&self) -> &str {
        work::read(self.0.string.as_str())
    }

    /// Returns the length in UTF-16 code units. O(1).
    pub fn chars(&self) -> Chars {
        self.0.chars
    }

    /// Appends `more`. O(`more`) if the text is not shared; otherwise it is
    /// copied once, and the clones stay unchanged.
    ///
    /// ```
    /// use plimsoll::{Chars, Text};
    /// let mut text = Text::from("né ");
    /// let seen = text.clone();
    /// text.push_str("🚢");
    /// assert_eq!((&*text, text.chars()), ("né 🚢", Chars(5)));
    /// assert_eq!(&*seen, "né ");
    /// ```
    pub fn push_str(&mut self, more: &str) {
        // Pieces of UTF-8 are whole characters, so the lengths of pieces add up to the length of the whole.
        let added = Chars::of(more);
        match Arc::get_mut(&mut self.0) {
            Some(own) => {
                own.string.push_str(more);
                own.chars += added;
                (own.tokens, own.hash, own.names, own.least) = Default::default();
            }
            None => {
                // Capacity for as much again, as a growing string would have: an exact copy would be copied
                // again for the next piece.
                let length = self.0.string.len() + more.len();
                let mut string = String::with_capacity(length.saturating_mul(2));
                string.push_str(&self.0.string);
                string.push_str(more);
                self.0 = Arc::new(Counted::new(string, self.0.chars + added));
            }
        }
    }

    /// Frees spare capacity if the text is not shared.
    pub(crate) fn shrink(&mut self) {
        if let Some(own) = Arc::get_mut(&mut self.0) {
            own.string.shrink_to_fit();
        }
    }

    /// Returns a hash of the text, computed once and the same in every build.
    pub(crate) fn hash(&self) -> u64 {
        *self.0.hash.get_or_init(|| Fnv::of(self.0.string.as_bytes()))
    }

    /// Returns hashes of the names in the text, computed once; see [`crate::names`].
    pub(crate) fn name_hashes(&self) -> &[u64] {
        self.0.names.get_or_init(|| names::hashes(&self.0.string).into())
    }

    /// Returns the lower bound of the text's tokens, computed once.
    pub(crate) fn least(&self) -> LowerBound {
        *self.0.least.get_or_init(|| least::of_text(&self.0.string))
    }

    /// Returns the token count by a counter of this name, if it was the first to count this text.
    ///
    /// ```
    /// use plimsoll::{Text, Tokens};
    /// let text = Text::from("hello world");
    /// assert_eq!(text.count_by("o200k"), None);
    /// text.remember_count("o200k", Tokens(2));
    /// assert_eq!(text.count_by("o200k"), Some(Tokens(2)));
    /// ```
    pub fn count_by(&self, counter: &str) -> Option<Tokens> {
        self.0.tokens.get().filter(|(by, _)| *by == counter).map(|(_, tokens)| *tokens)
    }

    /// Remembers a token count by a counter of this name, as a store keeps it with the text. The first count that
    /// is remembered stands until the text grows.
    pub fn remember_count(&self, counter: &'static str, tokens: Tokens) {
        let _ = self.0.tokens.set((counter, tokens));
    }

    /// Returns the remembered count of `counter`, or calls `count` and remembers the result.
    pub(crate) fn tokens_by(&self, counter: &'static str, count: impl FnOnce() -> Tokens) -> Tokens {
        match self.0.tokens.get() {
            Some((by, tokens)) if *by == counter => *tokens,
            Some(_) => count(),
            None => {
                let tokens = count();
                let _ = self.0.tokens.set((counter, tokens));
                tokens
            }
        }
    }
}

impl From<String> for Text {
    fn from(string: String) -> Text {
        let chars = Chars::of(&string);
        Text(Arc::new(Counted::new(string, chars)))
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Text {
        Text::from(text.to_owned())
    }
}

impl Default for Text {
    fn default() -> Text {
        Text::from(String::new())
    }
}

impl Deref for Text {
    type Target = str;
    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Text) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || (self.0.chars == other.0.chars && self.0.string == other.0.string)
    }
}

impl Eq for Text {}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text, D::Error> {
        String::deserialize(deserializer).map(Text::from)
    }
}

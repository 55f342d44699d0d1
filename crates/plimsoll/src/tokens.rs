//! [`Tokens`], and how a number of tokens is read and written.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::numbers::{share_of, thousands};

/// A number of model tokens, exact or estimated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Tokens(pub u64);

impl Tokens {
    /// No tokens.
    pub const ZERO: Tokens = Tokens(0);

    /// Returns the difference, or zero if `other` is larger.
    pub fn saturating_sub(self, other: Tokens) -> Tokens {
        Tokens(self.0.saturating_sub(other.0))
    }

    /// Returns this share of the number, rounded down; never more than the number.
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

    /// Reads a whole number, or one of thousands (`128k`) or millions (`1m`, `1.5m`). Thousands are of 1,000, as in sizes
    /// of context windows. Thousands separators are accepted.
    fn from_str(text: &str) -> Result<Tokens, InvalidTokens> {
        let text = text.trim();
        let (number, zeros) = match text.char_indices().next_back() {
            Some((at, 'k' | 'K')) => (&text[..at], 3),
            Some((at, 'm' | 'M')) => (&text[..at], 6),
            _ => (text, 0),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let is_digit = |digit: char| digit.is_ascii_digit();
        // `1.` and `.5` are more likely typos than numbers, and a number with more decimals than its unit has zeros
        // is not whole. A comma that is not followed by three digits may be meant as a decimal point.
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

//! Names and what they weigh.

use std::collections::BTreeMap;

use plimsoll::Tokens;
use serde::Serialize;

/// How many names a ranking holds before it forgets the lightest.
pub(super) const MOST_NAMES: usize = 50_000;

/// One row of a ranking.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Share {
    /// What it is.
    pub(crate) name: String,
    /// How often it occurs.
    pub(crate) count: u64,
    /// What it weighs.
    pub(crate) tokens: Tokens,
}

/// What something weighs by two counters. Which of them is right is known when all of a session was read: tokens of
/// o200k times the session's factor where usage is recorded, characters over four where nothing is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Weight {
    pub(crate) chars: Tokens,
    pub(crate) base: Tokens,
    /// Images and other files: a guess for each, which no factor makes better.
    pub(crate) files: Tokens,
}

impl Weight {
    /// The tokens, with the session's factor if it has one.
    pub(crate) fn tokens(self, factor: Option<f64>) -> Tokens {
        let text = factor.map_or(self.chars, |factor| Tokens((self.base.0 as f64 * factor).round() as u64));
        text + self.files
    }

    /// An even share of it among so many.
    pub(crate) fn divided(self, among: u64) -> Weight {
        let among = among.max(1);
        let share = |tokens: Tokens| Tokens(tokens.0 / among);
        Weight { chars: share(self.chars), base: share(self.base), files: share(self.files) }
    }
}

impl From<Tokens> for Weight {
    fn from(tokens: Tokens) -> Weight {
        Weight { chars: tokens, base: tokens, files: Tokens::ZERO }
    }
}

impl std::ops::AddAssign for Weight {
    fn add_assign(&mut self, more: Weight) {
        self.chars += more.chars;
        self.base += more.base;
        self.files += more.files;
    }
}

impl std::ops::Sub for Weight {
    type Output = Weight;
    fn sub(self, less: Weight) -> Weight {
        let (chars, base) = (self.chars - less.chars, self.base - less.base);
        Weight { chars, base, files: self.files - less.files }
    }
}

/// Names, how often each occurs, and what it weighs.
#[derive(Clone, Default)]
pub(super) struct Ranking(BTreeMap<String, (u64, Weight)>);

impl Ranking {
    /// Add to a name; returns how often it has occurred.
    pub(super) fn add(&mut self, name: &str, weight: impl Into<Weight>) -> u64 {
        if !self.0.contains_key(name) && self.0.len() >= MOST_NAMES {
            self.thin();
        }
        let row = self.0.entry(name.to_owned()).or_default();
        row.0 += 1;
        row.1 += weight.into();
        row.0
    }

    /// Add to what a name weighs, without counting it once more.
    pub(super) fn add_to(&mut self, name: &str, weight: impl Into<Weight>) {
        match self.0.get_mut(name) {
            Some(row) => row.1 += weight.into(),
            None => {
                self.add(name, weight);
            }
        }
    }

    /// Forget the lighter half: what is in it will hardly come to be among the heaviest.
    fn thin(&mut self) {
        let mut weights: Vec<Tokens> = self.0.values().map(|(_, weight)| weight.tokens(None)).collect();
        let (_, median, _) = weights.select_nth_unstable(MOST_NAMES / 2);
        let median = *median;
        self.0.retain(|_, (_, weight)| weight.tokens(None) > median);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The heaviest.
    pub(super) fn rows(self, most: usize) -> Vec<Share> {
        self.rows_by(most, None)
    }

    /// The heaviest, with the session's factor if it has one.
    pub(super) fn rows_by(self, most: usize, factor: Option<f64>) -> Vec<Share> {
        let rows = self.0.into_iter();
        let rows = rows.map(|(name, (count, weight))| Share { name, count, tokens: weight.tokens(factor) });
        let mut rows: Vec<Share> = rows.filter(|row| row.tokens > Tokens::ZERO).collect();
        rows.sort_by(|a, b| b.tokens.cmp(&a.tokens).then_with(|| a.name.cmp(&b.name)));
        rows.truncate(most);
        rows
    }
}

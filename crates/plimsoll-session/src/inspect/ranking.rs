//! Names ranked by weight.

use std::collections::BTreeMap;

use plimsoll::Tokens;
use serde::Serialize;

/// Maximum number of names in a ranking; the lightest are dropped.
const MAX_NAMES: usize = 50_000;

/// A row of a ranking.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Share {
    /// Name: a kind, a tool, a file or a turn.
    pub name: String,
    /// How often it occurs.
    pub count: u64,
    /// Tokens of all its occurrences.
    pub tokens: Tokens,
}

/// Weight by two counters. Only after all of a session was read is it known which applies: tokens of o200k times the
/// session's factor if usage is recorded, otherwise characters over four.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Weight {
    pub(super) chars: Tokens,
    pub(super) base: Tokens,
    /// Images and other files: a fixed guess for each, which is not scaled by the factor.
    pub(super) files: Tokens,
}

impl Weight {
    /// Returns the tokens, with the session's factor if it has one.
    pub(super) fn tokens(self, factor: Option<f64>) -> Tokens {
        let text = factor.map_or(self.chars, |factor| Tokens((self.base.0 as f64 * factor).round() as u64));
        text + self.files
    }

    /// Returns an even share.
    pub(super) fn divided(self, among: u64) -> Weight {
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

/// Names with their number of occurrences and weight.
#[derive(Clone, Default)]
pub(super) struct Ranking(BTreeMap<String, (u64, Weight)>);

impl Ranking {
    /// Adds one occurrence of a name.
    pub(super) fn add(&mut self, name: &str, weight: impl Into<Weight>) {
        if !self.0.contains_key(name) && self.0.len() >= MAX_NAMES {
            self.thin();
        }
        let row = self.0.entry(name.to_owned()).or_default();
        row.0 += 1;
        row.1 += weight.into();
    }

    /// Adds to the weight of a name, without another occurrence.
    pub(super) fn add_to(&mut self, name: &str, weight: impl Into<Weight>) {
        match self.0.get_mut(name) {
            Some(row) => row.1 += weight.into(),
            None => self.add(name, weight),
        }
    }

    /// Drops the lighter half: a name in it is unlikely to become one of the heaviest.
    fn thin(&mut self) {
        let mut weights: Vec<Tokens> = self.0.values().map(|(_, weight)| weight.tokens(None)).collect();
        let (_, median, _) = weights.select_nth_unstable(MAX_NAMES / 2);
        let median = *median;
        self.0.retain(|_, (_, weight)| weight.tokens(None) > median);
    }

    /// Returns the heaviest names.
    pub(super) fn rows(self, most: usize) -> Vec<Share> {
        self.rows_by(most, None)
    }

    /// Returns the heaviest names, with the session's factor if it has one.
    pub(super) fn rows_by(self, most: usize, factor: Option<f64>) -> Vec<Share> {
        let rows = self.0.into_iter();
        let rows = rows.map(|(name, (count, weight))| Share { name, count, tokens: weight.tokens(factor) });
        let mut rows: Vec<Share> = rows.filter(|row| row.tokens > Tokens::ZERO).collect();
        rows.sort_by(|a, b| b.tokens.cmp(&a.tokens).then_with(|| a.name.cmp(&b.name)));
        rows.truncate(most);
        rows
    }
}

#[cfg(test)]
mod tests {
    use plimsoll::Tokens;

    use super::{MAX_NAMES, Ranking};

    #[test]
    fn a_ranking_of_very_many_names_keeps_the_heavy_ones() {
        let mut ranking = Ranking::default();
        ranking.add("heavy", Tokens(1_000));
        for number in 0..3 * MAX_NAMES {
            ranking.add(&number.to_string(), Tokens(1));
        }
        assert!(ranking.0.len() <= MAX_NAMES);
        assert_eq!(ranking.rows(1)[0].name, "heavy");
    }
}

//! Prices of calls with a prompt cache.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll::Millis;
use plimsoll_tokens::{CacheRule, LongPromptPrice, ModelTable};
use serde::{Deserialize, Serialize};

/// Prices in dollars per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Price {
    /// Cached input.
    pub cache_read: f64,
    /// Input that is written to the cache.
    pub cache_write: f64,
    /// Output, including reasoning.
    pub output: f64,
    /// Other prices for long prompts, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub long_prompt: Option<LongPromptPrice>,
}

/// Billed tokens of a request and its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Billed {
    /// Tokens read from the cache.
    pub read: u64,
    /// Tokens written to the cache.
    pub written: u64,
    /// Output tokens.
    pub output: u64,
}

impl Price {
    /// Creates prices from that of input with the ratios of Anthropic's models: cache reads cost a tenth, cache writes
    /// five quarters, output five times as much.
    pub const fn of_input(input: f64) -> Price {
        Price::new(input * 0.1, input * 1.25, input * 5.0)
    }

    const fn new(cache_read: f64, cache_write: f64, output: f64) -> Price {
        Price { cache_read, cache_write, output, long_prompt: None }
    }

    /// Returns the prices for a request of `tokens` tokens.
    pub(crate) fn for_prompt(&self, tokens: u64) -> Price {
        let Some(long) = self.long_prompt.filter(|long| tokens > long.above) else { return *self };
        Price {
            cache_read: self.cache_read * long.input,
            cache_write: self.cache_write * long.input,
            output: self.output * long.output,
            ..*self
        }
    }

    /// Returns the cost in dollars.
    pub fn of(&self, billed: Billed) -> f64 {
        let million = |tokens: u64, price: f64| tokens as f64 * price / 1e6;
        let all = million(billed.read, self.cache_read)
            + million(billed.written, self.cache_write)
            + million(billed.output, self.output);
        // JSON has no infinity.
        all.min(f64::MAX)
    }
}

impl std::ops::AddAssign for Billed {
    fn add_assign(&mut self, other: Billed) {
        self.read = self.read.saturating_add(other.read);
        self.written = self.written.saturating_add(other.written);
        self.output = self.output.saturating_add(other.output);
    }
}

/// Prices by prefixes of model names. Models of the table in `plimsoll-tokens` have their prices there. Rows that the
/// user added come before that table, and the rows here are for models that it does not contain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Prices {
    rows: BTreeMap<String, Price>,
    /// Names of the rows that were added.
    #[serde(skip)]
    own: BTreeSet<String>,
}

/// A row of the table of prices, for users who want to check it. Dollars per million tokens.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PriceRow {
    /// Name of the row, as in [`Prices::row_name`].
    #[serde(skip)]
    pub name: String,
    /// The model, or a prefix of several names with an ellipsis after it.
    pub model: String,
    /// Input that is not cached, if it has a separate price.
    pub input: Option<f64>,
    /// Cached input.
    pub cache_read: f64,
    /// Cache writes for the default lifetime.
    pub cache_write: f64,
    /// Cache writes for an hour, if the provider offers them.
    pub cache_write_hour: Option<f64>,
    /// Output, including reasoning.
    pub output: f64,
    /// Other prices for long prompts, if there are any.
    pub long_prompt: Option<LongPromptPrice>,
    /// The provider's cache rules, if they are known.
    pub cache: Option<CacheRule>,
}

/// Name of the row for unknown models: a million tokens of input cost one dollar.
pub const DEFAULT_ROW: &str = "default";

/// Maximum price: a dollar per token. A higher one has the wrong unit.
const DEAREST: f64 = 1e6;

/// List prices of the vendors. If cache writes have no surcharge, they cost as much as input.
const LIST: [(&str, Price); 24] = [
    ("claude-3-5-haiku", Price::of_input(0.8)),
    ("claude-3-haiku", Price::of_input(0.25)),
    ("claude-3-opus", Price::of_input(15.0)),
    ("claude-haiku", Price::of_input(1.0)),
    ("claude-opus", Price::of_input(5.0)),
    ("claude-opus-4-0", Price::of_input(15.0)),
    ("claude-opus-4-1", Price::of_input(15.0)),
    ("claude-opus-4-2", Price::of_input(15.0)),
    ("claude-sonnet", Price::of_input(3.0)),
    ("claude-3-5-sonnet", Price::of_input(3.0)),
    ("claude-3-7-sonnet", Price::of_input(3.0)),
    ("gemini-2.5-flash", Price::new(0.03, 0.3, 2.5)),
    ("gemini-2.5-pro", Price::new(0.125, 1.25, 10.0)),
    ("gpt-4.1", Price::new(0.5, 2.0, 8.0)),
    ("gpt-4.1-mini", Price::new(0.1, 0.4, 1.6)),
    ("gpt-4.1-nano", Price::new(0.025, 0.1, 0.4)),
    ("gpt-4o", Price::new(1.25, 2.5, 10.0)),
    ("gpt-4o-mini", Price::new(0.075, 0.15, 0.6)),
    ("gpt-5", Price::new(0.125, 1.25, 10.0)),
    ("gpt-5-mini", Price::new(0.025, 0.25, 2.0)),
    ("gpt-5-nano", Price::new(0.005, 0.05, 0.4)),
    ("o3", Price::new(0.5, 2.0, 8.0)),
    ("o3-mini", Price::new(0.55, 1.1, 4.4)),
    ("o4-mini", Price::new(0.275, 1.1, 4.4)),
];

/// Returns the name of the row of a single model, which differs from that of a prefix.
fn model_row(name: &str) -> String {
    format!("{name}=")
}

impl Default for Prices {
    fn default() -> Prices {
        let list = LIST.iter().map(|(name, price)| ((*name).to_owned(), *price));
        let rows = list.chain([(DEFAULT_ROW.to_owned(), Price::of_input(1.0))]).collect();
        Prices { rows, own: BTreeSet::new() }
    }
}

impl Prices {
    /// Adds the rows of another table, which override the existing ones.
    pub fn with(mut self, other: Prices) -> Prices {
        self.own.extend(other.rows.keys().cloned());
        self.rows.extend(other.rows);
        self
    }

    /// Returns an error for a price that is negative or above a dollar per token.
    pub fn check(&self) -> Result<(), String> {
        for (model, price) in &self.rows {
            let Price { cache_read, cache_write, output, .. } = *price;
            for (name, dollars) in
                [("cacheRead", cache_read), ("cacheWrite", cache_write), ("output", output)]
            {
                if !(0.0..=DEAREST).contains(&dollars) {
                    return Err(format!("`{model}.{name}`: {dollars} is not between 0 and {DEAREST}"));
                }
            }
        }
        Ok(())
    }

    /// Whether a model has its own price, or is the name of the default row.
    pub fn knows(&self, model: &str) -> bool {
        model.eq_ignore_ascii_case(DEFAULT_ROW) || self.row(model, false).0 != DEFAULT_ROW
    }

    /// Returns the names with a price: models of `plimsoll-tokens`, and prefixes of this table.
    pub fn names(&self) -> Vec<String> {
        let table = ModelTable::default();
        let known = table.rows().map(|(name, _)| name.to_owned());
        let mut names: Vec<String> = known.chain(self.rows.keys().cloned()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Returns all rows.
    pub fn table(&self) -> Vec<PriceRow> {
        let known = ModelTable::default();
        let models = known.rows().map(|(name, facts)| PriceRow {
            name: model_row(name),
            model: name.to_owned(),
            input: Some(facts.price.input),
            cache_read: facts.price.cache_read,
            cache_write: facts.price.cache_write,
            cache_write_hour: facts.price.cache_write_hour,
            output: facts.price.output,
            long_prompt: facts.price.long_prompt,
            cache: Some(facts.cache),
        });
        let beginnings = self.rows.iter().map(|(name, price)| PriceRow {
            name: name.clone(),
            model: if name == DEFAULT_ROW { name.clone() } else { format!("{name}…") },
            input: None,
            cache_read: price.cache_read,
            cache_write: price.cache_write,
            cache_write_hour: None,
            output: price.output,
            long_prompt: price.long_prompt,
            cache: None,
        });
        models.chain(beginnings).collect()
    }

    /// Returns the name of the row of [`table`](Prices::table) that a model is priced with.
    pub fn row_name(&self, model: &str) -> String {
        let (row, _) = self.row(model, false);
        if self.rows.contains_key(&row)
            && (self.own.contains(&row) || ModelTable::default().find(&row).is_none())
        {
            return row;
        }
        ModelTable::default().row_name(&row).map_or(row, model_row)
    }

    /// Returns the price of a model and its row: the longest prefix of the name, regardless of a provider before it.
    /// `hour` selects the price of writing to a cache that lives for an hour.
    pub fn row(&self, model: &str, hour: bool) -> (String, Price) {
        self.row_at(model, hour, None)
    }

    /// Like [`row`](Prices::row), with the model's price at that time.
    pub fn row_at(&self, model: &str, hour: bool, at: Option<Millis>) -> (String, Price) {
        let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
        let fits = self.rows.iter().filter(|(row, _)| name.starts_with(row.as_str()));
        let fit = fits.max_by_key(|(row, _)| row.len());
        let known = ModelTable::default().price_at(&name, at);
        match (fit, known) {
            (Some((row, price)), _) if self.own.contains(row) => (row.clone(), *price),
            (_, Some(known)) => {
                let cache_write = known.cache_write_hour.filter(|_| hour).unwrap_or(known.cache_write);
                let long_prompt = known.long_prompt;
                (name, Price { long_prompt, ..Price::new(known.cache_read, cache_write, known.output) })
            }
            (Some((row, price)), None) => (row.clone(), *price),
            (None, None) => {
                let price = self.rows.get(DEFAULT_ROW).copied().unwrap_or(Price::of_input(1.0));
                (DEFAULT_ROW.to_owned(), price)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Billed, Price, Prices};

    #[test]
    fn the_longest_matching_prefix_has_priority() {
        let prices = Prices::default();
        let sonnet = prices.row("anthropic/claude-sonnet-4-5-20250929", false);
        assert_eq!((sonnet.0.as_str(), sonnet.1.cache_write), ("claude-sonnet-4-5-20250929", 3.75));
        assert_eq!(prices.row("claude-sonnet-4-6", true).1.cache_write, 6.0);
        let newer = prices.row("gpt-5.5", false).1;
        assert_eq!(Price { long_prompt: None, ..newer }, Price::new(0.5, 5.0, 30.0), "not that of gpt-5");
        assert_eq!(newer.for_prompt(272_000), newer);
        assert_eq!((newer.for_prompt(272_001).cache_read, newer.for_prompt(272_001).output), (1.0, 45.0));
        assert_eq!(prices.row("claude-opus-99", false).0, "claude-opus");
        assert_eq!(prices.row("unknown-model", false).0, "default");
        let own: Prices =
            serde_json::from_str(r#"{"unknown": {"cacheRead": 1, "cacheWrite": 2, "output": 3}}"#)
                .unwrap_or_default();
        assert_eq!(prices.with(own).row("unknown-model", false).1, Price::new(1.0, 2.0, 3.0));
        let own: Prices = serde_json::from_str(r#"{"gpt": {"cacheRead": 1, "cacheWrite": 2, "output": 3}}"#)
            .unwrap_or_default();
        assert_eq!(Prices::default().with(own).row("gpt-5.5", false).0, "gpt-5.5", "a longer row is closer");
    }

    #[test]
    fn the_table_has_the_row_of_every_model() {
        let prices = Prices::default();
        let table = prices.table();
        for (model, shown) in [
            ("anthropic/claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
            ("gpt-5.6-sol", "gpt-5-6-sol"),
            ("gpt-5", "gpt-5"),
            ("claude-opus-99", "claude-opus…"),
            ("unknown-model", "default"),
        ] {
            let name = prices.row_name(model);
            let rows: Vec<&str> =
                table.iter().filter(|row| row.name == name).map(|row| row.model.as_str()).collect();
            assert_eq!(rows, [shown], "{model}: {name}");
        }
        let own: Prices =
            serde_json::from_str(r#"{"gpt-5": {"cacheRead": 1, "cacheWrite": 2, "output": 3}}"#)
                .unwrap_or_default();
        assert_eq!(Prices::default().with(own).row_name("gpt-5"), "gpt-5", "what was laid over comes first");
    }

    #[test]
    fn invalid_prices_are_errors_with_the_row() {
        assert_eq!(Prices::default().check(), Ok(()));
        for (price, message) in [("-1", "-1"), ("1000001", "1000001"), ("1e308", "1e308")] {
            let own = format!(r#"{{"m": {{"cacheRead": 1, "cacheWrite": {price}, "output": 3}}}}"#);
            let own: Prices = serde_json::from_str(&own).unwrap_or_default();
            let problem = own.check().err().unwrap_or_default();
            assert!(
                problem.starts_with("`m.cacheWrite`: ") && problem.ends_with("0 and 1000000"),
                "{message}: {problem}"
            );
        }
    }

    #[test]
    fn reads_cost_a_tenth_writes_five_quarters_output_five_times_the_input() {
        let billed = Billed { read: 1_000_000, written: 100_000, output: 10_000 };
        assert!((Price::of_input(1.0).of(billed) - (0.1 + 0.125 + 0.05)).abs() < 1e-9);
    }
}

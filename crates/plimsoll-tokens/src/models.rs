//! The table of models: limits, prices, cache rules.
//!
//! The table contains what the providers publish. Unknown models have no entry: guessing a window that is too large breaks
//! sessions, and one that is too small wastes tokens. Both are worse than the engine's defaults and a window that is
//! learned from the provider's first rejection.

use std::collections::BTreeMap;

use plimsoll::{Limits, Millis, Usage};
use serde::{Deserialize, Serialize};

/// Facts about a model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[non_exhaustive]
pub struct ModelFacts {
    /// Limits.
    pub limits: Limits,
    /// Price.
    pub price: ModelPrice,
    /// Cache rule.
    pub cache: CacheRule,
}

/// Prices in dollars per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ModelPrice {
    /// Input that is neither read from nor written to the cache.
    pub input: f64,
    /// Output, including reasoning.
    pub output: f64,
    /// Input read from the cache.
    pub cache_read: f64,
    /// Input written to the cache, for the default time.
    pub cache_write: f64,
    /// Input written to the cache for an hour, if that is offered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_hour: Option<f64>,
    /// Surcharge for long prompts, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub long_prompt: Option<LongPromptPrice>,
}

/// Surcharge for a request whose prompt is longer than a limit. It applies to the whole request, not only to the
/// excess.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct LongPromptPrice {
    /// Number of tokens above which a prompt is long.
    pub above: u64,
    /// Factor for all input, cached or not.
    pub input: f64,
    /// Factor for output.
    pub output: f64,
}

/// Prompt caching of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CacheRule {
    /// Whether requests set breakpoints; otherwise the provider decides.
    pub breakpoints: bool,
    /// Minimum length of a cached prefix, in tokens.
    pub min_tokens: u64,
}

/// Some facts of a model, from configuration. Fields that are `None` keep the table's value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ModelOverride {
    /// Limits.
    #[serde(default)]
    pub limits: Option<Limits>,
    /// Price.
    #[serde(default)]
    pub price: Option<ModelPrice>,
    /// Cache rule.
    #[serde(default)]
    pub cache: Option<CacheRule>,
}

/// Known facts about a model that was looked up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct KnownFacts {
    /// Limits.
    pub limits: Option<Limits>,
    /// Price.
    pub price: Option<ModelPrice>,
    /// Cache rule.
    pub cache: Option<CacheRule>,
}

/// The table of models, by name without provider or version date.
///
/// ```
/// use plimsoll_tokens::{ModelOverride, ModelTable};
/// let mut table = ModelTable::default();
/// let facts = table.find("anthropic/claude-sonnet-4-5-20250929").and_then(|facts| facts.limits);
/// assert_eq!(facts.map(|limits| limits.context.0), Some(200_000));
/// assert!(table.find("gpt-99").is_none());
///
/// table.set("my-model", ModelOverride { limits: Some(plimsoll::Limits::new(8_192, 0)), ..Default::default() });
/// assert!(table.find("local/my-model").is_some());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ModelTable {
    rows: BTreeMap<String, ModelFacts>,
    own: BTreeMap<String, ModelOverride>,
}

/// Anthropic's prices, all derived from that of input. Only the price of cache reads differs since generation 5.1.
const fn anthropic(input: f64, min_tokens: u64) -> (ModelPrice, CacheRule) {
    anthropic_read(input, 0.1, min_tokens)
}

const fn anthropic_read(input: f64, read: f64, min_tokens: u64) -> (ModelPrice, CacheRule) {
    let price = ModelPrice {
        input,
        output: input * 5.0,
        cache_read: input * read,
        cache_write: input * 1.25,
        cache_write_hour: Some(input * 2.0),
        long_prompt: None,
    };
    (price, CacheRule { breakpoints: true, min_tokens })
}

/// Prices of models whose cache is written without a surcharge, at the price of input.
const fn automatic(input: f64, cache_read: f64, output: f64) -> (ModelPrice, CacheRule) {
    let price = ModelPrice {
        input,
        output,
        cache_read,
        cache_write: input,
        cache_write_hour: None,
        long_prompt: None,
    };
    (price, CacheRule { breakpoints: false, min_tokens: 1_024 })
}

/// Adds a surcharge for prompts above a length: twice the input and 1.5 times the output.
const fn long_above(above: u64, priced: (ModelPrice, CacheRule)) -> (ModelPrice, CacheRule) {
    times_above(above, 2.0, 1.5, priced)
}

const fn times_above(
    above: u64,
    input: f64,
    output: f64,
    (price, cache): (ModelPrice, CacheRule),
) -> (ModelPrice, CacheRule) {
    (ModelPrice { long_prompt: Some(LongPromptPrice { above, input, output }), ..price }, cache)
}

/// Anthropic's fast mode: the same model, at a multiple of all of its prices.
const fn fast(factor: f64, (price, cache): (ModelPrice, CacheRule)) -> (ModelPrice, CacheRule) {
    let price = ModelPrice {
        input: price.input * factor,
        output: price.output * factor,
        cache_read: price.cache_read * factor,
        cache_write: price.cache_write * factor,
        cache_write_hour: match price.cache_write_hour {
            Some(hour) => Some(hour * factor),
            None => None,
        },
        long_prompt: price.long_prompt,
    };
    (price, cache)
}

/// Name, context, input limit (0: none), output limit, prices and cache rule.
type Row = (&'static str, u64, u64, u64, (ModelPrice, CacheRule));

const ROWS: [Row; 61] = [
    ("claude-3-haiku", 200_000, 0, 4_096, anthropic(0.25, 2_048)),
    ("claude-3-opus", 200_000, 0, 4_096, anthropic(15.0, 1_024)),
    ("claude-3-5-haiku", 200_000, 0, 8_192, anthropic(0.8, 2_048)),
    ("claude-3-5-sonnet", 200_000, 0, 8_192, anthropic(3.0, 1_024)),
    ("claude-3-7-sonnet", 200_000, 0, 64_000, anthropic(3.0, 1_024)),
    ("claude-haiku-4-5", 200_000, 0, 64_000, anthropic(1.0, 4_096)),
    ("claude-opus-4", 200_000, 0, 32_000, anthropic(15.0, 1_024)),
    ("claude-opus-4-0", 200_000, 0, 32_000, anthropic(15.0, 1_024)),
    ("claude-opus-4-1", 200_000, 0, 32_000, anthropic(15.0, 1_024)),
    ("claude-opus-4-5", 200_000, 0, 64_000, anthropic(5.0, 4_096)),
    ("claude-fable-5", 1_000_000, 0, 128_000, anthropic(10.0, 4_096)),
    ("claude-fable-5-1", 1_000_000, 0, 128_000, anthropic_read(10.0, 0.025, 4_096)),
    ("claude-haiku-5-5", 1_000_000, 0, 128_000, times_above(100_000, 5.0, 5.0, anthropic(0.1, 4_096))),
    ("claude-opus-4-6", 1_000_000, 0, 128_000, anthropic(5.0, 4_096)),
    ("claude-opus-4-7", 1_000_000, 0, 128_000, anthropic(5.0, 4_096)),
    ("claude-opus-4-8", 1_000_000, 0, 128_000, anthropic(5.0, 4_096)),
    ("claude-opus-5", 1_000_000, 0, 128_000, anthropic(5.0, 4_096)),
    ("claude-opus-5-5", 1_000_000, 0, 128_000, anthropic_read(4.0, 0.05, 4_096)),
    ("claude-opus-4-6-fast", 1_000_000, 0, 128_000, fast(6.0, anthropic(5.0, 4_096))),
    ("claude-opus-4-7-fast", 1_000_000, 0, 128_000, fast(6.0, anthropic(5.0, 4_096))),
    ("claude-opus-4-8-fast", 1_000_000, 0, 128_000, fast(2.0, anthropic(5.0, 4_096))),
    ("claude-opus-5-fast", 1_000_000, 0, 128_000, fast(2.0, anthropic(5.0, 4_096))),
    ("claude-opus-5-5-fast", 1_000_000, 0, 128_000, fast(2.0, anthropic_read(4.0, 0.05, 4_096))),
    ("claude-sonnet-4", 200_000, 0, 64_000, long_above(200_000, anthropic(3.0, 1_024))),
    ("claude-sonnet-4-0", 200_000, 0, 64_000, long_above(200_000, anthropic(3.0, 1_024))),
    ("claude-sonnet-4-5", 200_000, 0, 64_000, long_above(200_000, anthropic(3.0, 1_024))),
    ("claude-sonnet-4-6", 1_000_000, 0, 128_000, anthropic(3.0, 4_096)),
    ("claude-sonnet-5", 1_000_000, 0, 128_000, anthropic(2.0, 4_096)),
    ("claude-sonnet-5-5", 1_000_000, 0, 128_000, anthropic_read(2.0, 0.05, 4_096)),
    ("gemini-2-5-flash", 1_048_576, 0, 65_536, automatic(0.3, 0.03, 2.5)),
    ("gemini-2-5-pro", 1_048_576, 0, 65_536, long_above(200_000, automatic(1.25, 0.125, 10.0))),
    ("gemini-3-flash", 1_048_576, 0, 65_536, automatic(0.5, 0.05, 3.0)),
    ("gemini-3-pro", 1_048_576, 0, 65_536, long_above(200_000, automatic(2.0, 0.2, 12.0))),
    ("gemini-3-1-pro", 1_048_576, 0, 65_536, long_above(200_000, automatic(2.0, 0.2, 12.0))),
    ("glm-4-6", 200_000, 0, 128_000, automatic(0.6, 0.11, 2.2)),
    ("glm-4-7", 200_000, 0, 128_000, automatic(0.6, 0.11, 2.2)),
    ("gpt-4-1", 1_047_576, 0, 32_768, automatic(2.0, 0.5, 8.0)),
    ("gpt-4-1-mini", 1_047_576, 0, 32_768, automatic(0.4, 0.1, 1.6)),
    ("gpt-4-1-nano", 1_047_576, 0, 32_768, automatic(0.1, 0.025, 0.4)),
    ("gpt-4o", 128_000, 0, 16_384, automatic(2.5, 1.25, 10.0)),
    ("gpt-4o-mini", 128_000, 0, 16_384, automatic(0.15, 0.075, 0.6)),
    ("gpt-5", 400_000, 272_000, 128_000, automatic(1.25, 0.125, 10.0)),
    ("gpt-5-codex", 400_000, 272_000, 128_000, automatic(1.25, 0.125, 10.0)),
    ("gpt-5-mini", 400_000, 272_000, 128_000, automatic(0.25, 0.025, 2.0)),
    ("gpt-5-nano", 400_000, 272_000, 128_000, automatic(0.05, 0.005, 0.4)),
    ("gpt-5-1", 400_000, 272_000, 128_000, automatic(1.25, 0.125, 10.0)),
    ("gpt-5-1-codex", 400_000, 272_000, 128_000, automatic(1.25, 0.125, 10.0)),
    ("gpt-5-1-codex-max", 400_000, 272_000, 128_000, automatic(1.25, 0.125, 10.0)),
    ("gpt-5-1-codex-mini", 400_000, 272_000, 128_000, automatic(0.25, 0.025, 2.0)),
    ("gpt-5-2", 400_000, 272_000, 128_000, automatic(1.75, 0.175, 14.0)),
    ("gpt-5-2-codex", 400_000, 272_000, 128_000, automatic(1.75, 0.175, 14.0)),
    ("gpt-5-3-codex", 400_000, 272_000, 128_000, automatic(1.75, 0.175, 14.0)),
    ("gpt-5-4", 1_050_000, 922_000, 128_000, long_above(272_000, automatic(2.5, 0.25, 15.0))),
    ("gpt-5-5", 1_050_000, 922_000, 128_000, long_above(272_000, automatic(5.0, 0.5, 30.0))),
    // The price of `sol` is published for three months. Earlier prices are below.
    ("gpt-5-6-sol", 1_000_000, 0, 128_000, long_above(272_000, automatic(4.0, 0.4, 20.0))),
    ("gpt-5-6-terra", 1_000_000, 0, 128_000, long_above(272_000, automatic(2.0, 0.2, 12.0))),
    ("gpt-5-6-luna", 1_000_000, 0, 128_000, long_above(272_000, automatic(0.2, 0.02, 1.2))),
    ("o1", 200_000, 0, 100_000, automatic(15.0, 7.5, 60.0)),
    ("o3", 200_000, 0, 100_000, automatic(2.0, 0.5, 8.0)),
    ("o3-mini", 200_000, 0, 100_000, automatic(1.1, 0.55, 4.4)),
    ("o4-mini", 200_000, 0, 100_000, automatic(1.1, 0.275, 4.4)),
];

/// Name, first moment at which the price no longer applied, and the price.
type EarlierPrice = (&'static str, Millis, (ModelPrice, CacheRule));

/// Former prices. An earlier session is priced as its provider billed it.
const EARLIER: [EarlierPrice; 3] = [
    // 21 August and 30 July 2026.
    ("gpt-5-6-sol", Millis(1_787_270_400_000), long_above(272_000, automatic(5.0, 0.5, 30.0))),
    ("gpt-5-6-terra", Millis(1_785_369_600_000), long_above(272_000, automatic(2.5, 0.25, 15.0))),
    ("gpt-5-6-luna", Millis(1_785_369_600_000), long_above(272_000, automatic(1.0, 0.1, 6.0))),
];

impl Default for ModelTable {
    fn default() -> ModelTable {
        let facts = |&(name, context, input, output, (price, cache)): &Row| {
            let limits = Limits::new(context, output);
            let limits = if input > 0 { limits.with_input(input) } else { limits };
            (name.to_owned(), ModelFacts { limits, price, cache })
        };
        ModelTable { rows: ROWS.iter().map(facts).collect(), own: BTreeMap::new() }
    }
}

impl ModelTable {
    /// Overrides facts of the table, for a model by its exact name, with or without provider.
    pub fn set(&mut self, model: &str, facts: ModelOverride) {
        self.own.insert(model.to_ascii_lowercase(), facts);
    }

    /// The rows of the table, without overrides.
    pub fn rows(&self) -> impl Iterator<Item = (&str, &ModelFacts)> {
        self.rows.iter().map(|(name, facts)| (name.as_str(), facts))
    }

    /// The models of the table by their providers' names, except those that can only be requested with a version date.
    pub fn names(&self) -> impl Iterator<Item = String> {
        let dated = |name: &str| {
            name.starts_with("claude-3-") || ["claude-opus-4", "claude-sonnet-4"].contains(&name)
        };
        self.rows.keys().filter(move |name| !dated(name)).map(|name| {
            let digits = |piece: &str| !piece.is_empty() && piece.bytes().all(|byte| byte.is_ascii_digit());
            let mut pieces = name.splitn(4, '-');
            match (pieces.next(), pieces.next(), pieces.next(), pieces.next()) {
                // Rows have hyphens only, like Anthropic's names; the others write `gpt-4.1`.
                (Some(maker @ ("gpt" | "gemini" | "glm")), Some(major), Some(minor), rest)
                    if digits(major) && digits(minor) =>
                {
                    let rest = rest.map(|rest| format!("-{rest}")).unwrap_or_default();
                    format!("{maker}-{major}.{minor}{rest}")
                }
                _ => name.clone(),
            }
        })
    }

    /// Facts about a model, by its name with or without provider; `None` if nothing is known.
    pub fn find(&self, model: &str) -> Option<KnownFacts> {
        let model = model.to_ascii_lowercase();
        let bare = model.rsplit('/').next().unwrap_or(&model);
        let after_provider = model.split_once('/').map_or(model.as_str(), |(_, rest)| rest);
        let own = [model.as_str(), after_provider, bare].iter().find_map(|name| self.own.get(*name));
        let row = self.row(bare);
        if own.is_none() && row.is_none() {
            return None;
        }
        let own = own.copied().unwrap_or_default();
        Some(KnownFacts {
            limits: own.limits.or(row.map(|row| row.limits)),
            price: own.price.or(row.map(|row| row.price)),
            cache: own.cache.or(row.map(|row| row.cache)),
        })
    }

    /// The price of a model at a time, which may differ from today's; today's if the time is not known.
    ///
    /// ```
    /// use plimsoll::Millis;
    /// use plimsoll_tokens::ModelTable;
    /// let input = |at| ModelTable::default().price_at("gpt-5.6-sol", at).map(|price| price.input);
    /// assert_eq!((input(Some(Millis(1_783_700_000_000))), input(None)), (Some(5.0), Some(4.0)));
    /// ```
    pub fn price_at(&self, model: &str, at: Option<Millis>) -> Option<ModelPrice> {
        let price = self.find(model)?.price?;
        let row =
            self.row_name(model).filter(|row| self.rows.get(*row).is_some_and(|row| row.price == price));
        let was = |(name, until, _): &&EarlierPrice| row == Some(*name) && at.is_some_and(|at| at < *until);
        Some(EARLIER.iter().find(was).map_or(price, |(_, _, (earlier, _))| *earlier))
    }

    /// Name of the row of a model, by its name with or without provider.
    pub fn row_name(&self, model: &str) -> Option<&str> {
        let model = model.to_ascii_lowercase();
        let bare = model.rsplit('/').next().unwrap_or(&model);
        // Bedrock writes `us.anthropic.claude-…`; gateways write `claude-sonnet-4.5`.
        let name = bare.rsplit("anthropic.").next().unwrap_or(bare).replace('.', "-");
        let fits = |row: &&String| name.strip_prefix(row.as_str()).is_some_and(is_version);
        self.rows.keys().filter(fits).max_by_key(|row| row.len()).map(String::as_str)
    }

    fn row(&self, bare: &str) -> Option<ModelFacts> {
        self.rows.get(self.row_name(bare)?).copied()
    }
}

/// Whether the rest of a model's name is a version or a mode of the same model: a date, `latest`, `preview`,
/// `thinking`, `high` or the like. A number of one or two digits is another model.
fn is_version(rest: &str) -> bool {
    let Some(version) = rest.strip_prefix(['-', '@', ':']) else { return rest.is_empty() };
    let digits = version.bytes().take_while(u8::is_ascii_digit).count();
    let is_revision =
        version.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    digits >= 4 || is_revision || VERSIONS.iter().any(|word| version.starts_with(word))
}

const VERSIONS: [&str; 10] =
    ["latest", "preview", "exp", "free", "thinking", "minimal", "low", "medium", "high", "xhigh"];

impl ModelPrice {
    /// Cost of a request and its answer, in dollars. Tokens that were written to the cache for an hour cost more if the
    /// usage distinguishes them. A long prompt costs more if its model has a surcharge.
    pub fn cost(&self, usage: &Usage) -> f64 {
        let million = |tokens: u64, price: f64| tokens as f64 * price / 1e6;
        let hour = usage.cache_write_hour.min(usage.cache_write);
        let minutes = usage.cache_write - hour;
        let input = million(usage.input.0, self.input)
            + million(usage.cache_read.0, self.cache_read)
            + million(minutes.0, self.cache_write)
            + million(hour.0, self.cache_write_hour.unwrap_or(self.cache_write));
        let output = million(usage.output.0.saturating_add(usage.reasoning.0), self.output);
        let prompt = usage.input + usage.cache_read + usage.cache_write;
        let long = self.long_prompt.filter(|long| prompt.0 > long.above);
        let all = long.map_or(input + output, |long| input * long.input + output * long.output);
        // Infinity cannot be serialised.
        all.min(f64::MAX)
    }
}

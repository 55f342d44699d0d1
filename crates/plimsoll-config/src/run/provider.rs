//! Providers of the configuration, and those that are known without one.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use plimsoll::{Limits, Policy, Tokens};
use plimsoll_providers::{ClientOptions, Secret, Wire};
use plimsoll_sandbox::Origin;
use plimsoll_tokens::{KnownFacts, ModelPrice};
use serde_json::Value;

use super::layer::RunLayer;
use super::spec::{ApiSpec, ModelSpec, ProviderSpec, TimeSpec};
use super::tree::Tree;
use crate::error::ConfigError;
use crate::surroundings::Surroundings;

/// Variables about a run, and the settings they make.
pub(crate) const RUN_VARIABLES: [(&str, &str); 5] = [
    ("PLIMSOLL_MODEL", "model"),
    ("PLIMSOLL_SMALL_MODEL", "small_model"),
    ("PLIMSOLL_MAX_STEPS", "max_steps"),
    ("PLIMSOLL_MAX_COST", "max_cost"),
    ("PLIMSOLL_MAX_TOKENS", "max_tokens"),
];

/// Providers that are known without configuration: name, `api`, the variables of key and address.
pub(crate) const BUILT_IN: [(&str, &str, &str, &str); 3] = [
    ("anthropic", "anthropic", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
    ("openai", "openai", "OPENAI_API_KEY", "OPENAI_BASE_URL"),
    ("openai-chat", "openai-chat", "OPENAI_API_KEY", "OPENAI_BASE_URL"),
];

/// A provider. `Debug` shows no keys.
#[derive(Clone, PartialEq)]
pub struct ProviderConfig {
    /// What it speaks; nothing where no layer says it.
    pub wire: Option<Wire>,
    /// Its address; that of the wire format's own provider where no layer names one.
    pub base_url: Option<String>,
    /// Its key.
    pub key: Option<Secret>,
    /// Further headers of every request.
    pub headers: Vec<(String, Secret)>,
    /// How long to wait.
    pub client: ClientOptions,
    /// Its models, where they differ from the table.
    pub models: BTreeMap<String, ModelConfig>,
    /// What is wrong with a reference of it; it cannot be used before that is mended.
    pub problem: Option<String>,
}

impl fmt::Debug for ProviderConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        formatter
            .debug_struct("ProviderConfig")
            .field("wire", &self.wire)
            .field("base_url", &self.base_url.as_deref().map(|url| plimsoll::redact::redact(url).text))
            .field("key", &self.key)
            .field("headers", &names)
            .field("client", &self.client)
            .field("models", &self.models)
            .field("problem", &self.problem)
            .finish()
    }
}

/// A model, where it differs from the table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelConfig {
    /// The name that its provider knows it by, if that is another.
    pub id: Option<String>,
    /// A name for people.
    pub name: Option<String>,
    /// Its context window, in tokens.
    pub context: Option<u64>,
    /// A limit on the input alone, in tokens.
    pub input: Option<u64>,
    /// The longest answer, in tokens.
    pub output: Option<u64>,
    /// Prices in dollars for a million tokens: input, output, cache read, cache written.
    pub price: [Option<f64>; 4],
}

impl ModelConfig {
    /// The facts of the table with what is set here laid over them.
    pub(crate) fn over(&self, known: KnownFacts) -> KnownFacts {
        let mut limits = known.limits;
        if self.context.is_some() || self.input.is_some() || self.output.is_some() {
            // A window of 0 would never be full, so a model of which only the answer is known gets the usual one.
            let usual = || Limits::new(Policy::default().overflow.default_context.0, 0);
            let table = known.limits.unwrap_or_else(usual);
            limits = Some(Limits {
                context: self.context.map_or(table.context, Tokens),
                // A window of one's own has no input limit of the table's beside it.
                input: self.input.map(Tokens).or(table.input.filter(|_| self.context.is_none())),
                output: self.output.map_or(table.output, Tokens),
            });
        }
        let [input, output, cache_read, cache_write] = self.price;
        let mut price = known.price;
        if self.price.iter().any(Option::is_some) {
            // Where a cache has no price of its own, what goes through it costs what input costs.
            let input = input.or(known.price.map(|price| price.input)).unwrap_or_default();
            price = Some(ModelPrice {
                input,
                output: output.or(known.price.map(|price| price.output)).unwrap_or_default(),
                cache_read: cache_read.or(known.price.map(|price| price.cache_read)).unwrap_or(input),
                cache_write: cache_write.or(known.price.map(|price| price.cache_write)).unwrap_or(input),
                cache_write_hour: known.price.and_then(|price| price.cache_write_hour),
                long_prompt: known.price.and_then(|price| price.long_prompt),
            });
        }
        KnownFacts { limits, price, cache: known.cache }
    }
}

/// What is set for the providers that are known without configuration.
pub(crate) fn built_in_layer() -> RunLayer {
    let mut layer = RunLayer::default();
    for (name, api, ..) in BUILT_IN {
        layer.values.set(&["providers", name, "api"], api.into());
        layer.origins.insert(format!("providers.{name}.api"), Origin::BuiltIn);
    }
    layer
}

/// What variables say: those of the official SDKs, and ours.
pub(crate) fn environment_layer(around: &Surroundings) -> Result<RunLayer, ConfigError> {
    let mut values = Tree::default();
    let mut origins = BTreeMap::new();
    let mut set = |path: &[&str], value: Value, variable: &str| {
        values.set(path, value);
        origins.insert(path.join("."), Origin::Variable(variable.to_owned()));
    };
    // Empty ones count as unset, as in the SDKs.
    let variable = |name: &str| around.variable(name).filter(|value| !value.trim().is_empty());
    for (provider, _, key, base_url) in BUILT_IN {
        for (field, name) in [("key", key), ("base_url", base_url)] {
            if let Some(value) = variable(name) {
                set(&["providers", provider, field], value.into(), name);
            }
        }
    }
    if let (None, Some(token)) = (variable("ANTHROPIC_API_KEY"), variable("ANTHROPIC_AUTH_TOKEN")) {
        let path = ["providers", "anthropic", "headers", "authorization"];
        set(&path, format!("Bearer {}", token.trim()).into(), "ANTHROPIC_AUTH_TOKEN");
        // A key of a lighter layer would be sent beside it.
        set(&["providers", "anthropic", "key"], Value::Null, "ANTHROPIC_AUTH_TOKEN");
    }
    for (name, header) in [("OPENAI_ORG_ID", "openai-organization"), ("OPENAI_PROJECT_ID", "openai-project")]
    {
        let Some(value) = variable(name) else { continue };
        for provider in ["openai", "openai-chat"] {
            set(&["providers", provider, "headers", header], value.trim().into(), name);
        }
    }
    for (name, field) in RUN_VARIABLES {
        let Some(text) = variable(name) else { continue };
        let is_text = field.ends_with("model");
        let value = if is_text { text.trim().into() } else { number(name, text)? };
        set(&[field], value, name);
    }
    Ok(RunLayer { values, origins, is_environment: true, ..RunLayer::default() })
}

fn number(name: &str, text: &str) -> Result<Value, ConfigError> {
    let number = serde_json::from_str::<Value>(text.trim()).ok().filter(Value::is_number);
    number.ok_or_else(|| {
        let problem = format!("expected a number, found `{text}`");
        ConfigError::Value { origin: Origin::Variable(name.to_owned()), problem }
    })
}

impl ProviderConfig {
    /// A provider out of what all layers say; the second of an error is the field it is about.
    pub(crate) fn new(
        spec: ProviderSpec,
        problem: Option<String>,
    ) -> Result<ProviderConfig, (String, String)> {
        let mut client = ClientOptions::default();
        for (time, name, into) in [
            (&spec.timeout, "timeout", &mut client.total),
            (&spec.idle_timeout, "idle_timeout", &mut client.idle),
            (&spec.connect_timeout, "connect_timeout", &mut client.connect),
        ] {
            if let Some(time) = time {
                *into = duration(time).map_err(|problem| (name.to_owned(), problem))?;
            }
        }
        let mut models = BTreeMap::new();
        for (name, model) in spec.models {
            let checked = ModelConfig::new(model);
            let checked = checked.map_err(|(field, problem)| (format!("models.{name}.{field}"), problem))?;
            models.insert(name, checked);
        }
        Ok(ProviderConfig {
            wire: spec.api.map(wire),
            base_url: spec.base_url.filter(|url| !url.is_empty()),
            key: spec.key.filter(|key| !key.is_empty()).map(Secret::new),
            headers: secrets(spec.headers),
            client,
            models,
            problem,
        })
    }
}

impl ModelConfig {
    fn new(spec: ModelSpec) -> Result<ModelConfig, (String, String)> {
        let prices = spec.price;
        let price = [prices.input, prices.output, prices.cache_read, prices.cache_write];
        for (price, name) in price.iter().zip(["input", "output", "cache_read", "cache_write"]) {
            if price.is_some_and(|price| !price.is_finite() || price < 0.0) {
                return Err((format!("price.{name}"), "a price is not below 0".to_owned()));
            }
        }
        let ModelSpec { id, name, context, input, output, .. } = spec;
        Ok(ModelConfig { id, name, context, input, output, price })
    }
}

/// Whether servers look for a key in a header of this name.
pub(crate) fn carries_key(header: &str) -> bool {
    ["authorization", "x-api-key", "api-key"].iter().any(|name| header.eq_ignore_ascii_case(name))
}

pub(crate) fn secrets(pairs: BTreeMap<String, String>) -> Vec<(String, Secret)> {
    pairs.into_iter().map(|(name, value)| (name, Secret::new(value))).collect()
}

pub(crate) fn wire(api: ApiSpec) -> Wire {
    match api {
        ApiSpec::Anthropic => Wire::Anthropic,
        ApiSpec::OpenAi => Wire::Responses,
        ApiSpec::OpenAiChat => Wire::Chat,
    }
}

/// No limit, in a length that clocks can be set to.
const NO_LIMIT: Duration = Duration::from_secs(30 * 86_400);

/// A time as it is written: `250ms`, `90s`, `10m`, `2h`, or `false` for no limit.
pub(crate) fn duration(time: &TimeSpec) -> Result<Duration, String> {
    let text = match time {
        TimeSpec::Switch(false) => return Ok(NO_LIMIT),
        TimeSpec::Switch(true) => return Err("expected a time as \"90s\", or false for none".to_owned()),
        TimeSpec::Number(number) => {
            return Err(format!("expected a time with its unit, such as \"{number}s\" or \"{number}ms\""));
        }
        TimeSpec::Text(text) => text.trim(),
    };
    let wrong = || format!("expected a time as \"500ms\", \"90s\", \"10m\" or \"2h\", found {text:?}");
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let millis: u64 = match unit.trim_start() {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let all = number.checked_mul(millis).filter(|millis| *millis > 0).ok_or_else(wrong)?;
    Ok(Duration::from_millis(all).min(NO_LIMIT))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{TimeSpec, duration};

    #[test]
    fn times_have_a_number_and_a_unit() {
        let time = |text: &str| duration(&TimeSpec::Text(text.to_owned()));
        assert_eq!(time("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(time("90 s"), Ok(Duration::from_secs(90)));
        assert_eq!(time("2h"), Ok(Duration::from_secs(7_200)));
        assert_eq!(time("999999999999h"), Ok(Duration::from_secs(30 * 86_400)));
        for wrong in ["", "s", "0s", "-1s", "5", "5 minutes", "99999999999999999999s"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
        assert!(duration(&TimeSpec::Switch(true)).is_err());
        let bare = duration(&TimeSpec::Number(3.0)).unwrap_err();
        assert_eq!(bare, "expected a time with its unit, such as \"3s\" or \"3ms\"");
    }
}

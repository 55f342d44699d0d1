//! Providers of the configuration, and built-in ones.

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
use crate::environment::Environment;
use crate::error::ConfigError;

/// Variables for runs, and the settings that they set.
pub(crate) const RUN_VARIABLES: [(&str, &str); 5] = [
    ("PLIMSOLL_MODEL", "model"),
    ("PLIMSOLL_SMALL_MODEL", "small_model"),
    ("PLIMSOLL_MAX_STEPS", "max_steps"),
    ("PLIMSOLL_MAX_COST", "max_cost"),
    ("PLIMSOLL_MAX_TOKENS", "max_tokens"),
];

/// Built-in providers: name, `api`, the variables of key and base URL.
pub(crate) const BUILT_IN: [(&str, &str, &str, &str); 3] = [
    ("anthropic", "anthropic", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
    ("openai", "openai", "OPENAI_API_KEY", "OPENAI_BASE_URL"),
    ("openai-chat", "openai-chat", "OPENAI_API_KEY", "OPENAI_BASE_URL"),
];

/// A provider. `Debug` shows no keys.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct ProviderConfig {
    /// Wire format; `None` if no layer sets it.
    pub wire: Option<Wire>,
    /// Base URL. Defaults to the one of the wire format's vendor.
    pub base_url: Option<String>,
    /// API key.
    pub key: Option<Secret>,
    /// Additional headers of every request.
    pub headers: Vec<(String, Secret)>,
    /// Timeouts and retries.
    pub client: ClientOptions,
    /// Models of this provider, if they differ from the built-in table.
    pub models: BTreeMap<String, ModelConfig>,
    /// Problem with a reference in its settings; the provider cannot be used until it is fixed.
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

/// Settings of a model that differ from the built-in table.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ModelConfig {
    /// The provider's name of the model, if it differs.
    pub id: Option<String>,
    /// Display name.
    pub name: Option<String>,
    /// Context window in tokens.
    pub context: Option<u64>,
    /// Maximum input tokens.
    pub input: Option<u64>,
    /// Maximum output tokens.
    pub output: Option<u64>,
    /// Prices in dollars per million tokens: input, output, cache reads, cache writes.
    pub price: [Option<f64>; 4],
}

impl ModelConfig {
    /// Overrides the facts of the built-in table with these settings.
    pub(crate) fn over(&self, known: KnownFacts) -> KnownFacts {
        let mut limits = known.limits;
        if self.context.is_some() || self.input.is_some() || self.output.is_some() {
            // A window of 0 would never be full. A model with only a maximum output gets the default window.
            let usual = || Limits::new(Policy::default().overflow.default_context.0, 0);
            let table = known.limits.unwrap_or_else(usual);
            limits = Some(Limits {
                context: self.context.map_or(table.context, Tokens),
                // If the window is configured, the input limit of the table does not apply.
                input: self.input.map(Tokens).or(table.input.filter(|_| self.context.is_none())),
                output: self.output.map_or(table.output, Tokens),
            });
        }
        let [input, output, cache_read, cache_write] = self.price;
        let mut price = known.price;
        if self.price.iter().any(Option::is_some) {
            // If cache reads or writes have no price, they cost as much as input.
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

/// Returns the settings of the built-in providers.
pub(crate) fn built_in_layer() -> RunLayer {
    let mut layer = RunLayer::default();
    for (name, api, ..) in BUILT_IN {
        layer.values.set(&["providers", name, "api"], api.into());
        layer.origins.insert(format!("providers.{name}.api"), Origin::BuiltIn);
    }
    layer
}

/// Returns the settings of variables: those of the official SDKs, and ours.
pub(crate) fn environment_layer(env: &Environment) -> Result<RunLayer, ConfigError> {
    let mut values = Tree::default();
    let mut origins = BTreeMap::new();
    let mut set = |path: &[&str], value: Value, variable: &str| {
        values.set(path, value);
        origins.insert(path.join("."), Origin::Variable(variable.to_owned()));
    };
    // Empty variables count as unset, as in the SDKs.
    let variable = |name: &str| env.variable(name).filter(|value| !value.trim().is_empty());
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
        // Otherwise a key of a lower layer would be sent in addition.
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
    /// Creates a provider from the merged settings. The second part of the error is the field that it is about.
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
                return Err((format!("price.{name}"), "a price cannot be negative".to_owned()));
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

/// No limit, as a duration that can be added to clocks.
const NO_LIMIT: Duration = Duration::from_secs(30 * 86_400);

/// Parses a time: `250ms`, `90s`, `10m`, `2h`, or `false` for no limit.
pub(crate) fn duration(time: &TimeSpec) -> Result<Duration, String> {
    let text = match time {
        TimeSpec::Switch(false) => return Ok(NO_LIMIT),
        TimeSpec::Switch(true) => return Err("expected a time such as \"90s\", or false for none".to_owned()),
        TimeSpec::Number(number) => {
            return Err(format!("expected a time with its unit, such as \"{number}s\" or \"{number}ms\""));
        }
        TimeSpec::Text(text) => text.trim(),
    };
    let wrong = || format!("expected a time such as \"500ms\", \"90s\", \"10m\" or \"2h\", found {text:?}");
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

//! Resolves `provider/model` to everything that a request needs.

use std::fmt;

use plimsoll::Limits;
use plimsoll_providers::{ClientOptions, Endpoint, EndpointError, ModelRef};
use plimsoll_sandbox::Origin;
use plimsoll_tokens::{CacheRule, KnownFacts, ModelPrice, ModelTable};
use thiserror::Error;

use super::RunConfig;
use super::provider::{BUILT_IN, ModelConfig, ProviderConfig, carries_key};
use crate::nearest::nearest;

/// A model with everything that is known about it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ResolvedModel {
    /// The provider, and its name of the model.
    pub model: ModelRef,
    /// Where requests are sent.
    pub endpoint: Endpoint,
    /// Timeouts and retries.
    pub client: ClientOptions,
    /// Limits, if they are known.
    pub limits: Option<Limits>,
    /// Prices, if they are known.
    pub price: Option<ModelPrice>,
    /// The provider's cache rules, if they are known.
    pub cache: Option<CacheRule>,
    /// Display name.
    pub name: Option<String>,
    /// Which setting selected the model.
    pub origin: Origin,
}

/// Why no model can be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SetupError {
    /// No model is configured.
    #[error("no model is set")]
    NoModel {
        /// Built-in providers whose key or base URL is set.
        ready: Vec<&'static str>,
    },
    /// The name is invalid.
    #[error("{}{source}", before(origin))]
    BadName {
        /// Location of the name.
        origin: Origin,
        /// The problem.
        source: EndpointError,
    },
    /// The provider is unknown.
    #[error("{}unknown provider `{provider}` (available: {})", before(origin), listed(known))]
    UnknownProvider {
        /// Location of the name.
        origin: Origin,
        /// The provider.
        provider: String,
        /// Known providers.
        known: Vec<String>,
        /// The most similar known provider.
        nearest: Option<String>,
    },
    /// A provider has no wire format.
    #[error("provider `{provider}` has no `api`")]
    NoApi {
        /// The provider.
        provider: String,
    },
    /// A provider has no key, and its base URL requires one.
    #[error("no key for provider `{provider}`")]
    NoKey {
        /// The provider.
        provider: String,
        /// The variable that the key is read from, if there is one.
        variable: Option<&'static str>,
    },
    /// The base URL of a provider is invalid.
    #[error("{origin}: {source}")]
    BadAddress {
        /// Location of the URL.
        origin: Origin,
        /// The problem.
        source: EndpointError,
    },
    /// A reference of a provider cannot be resolved.
    #[error("{problem}")]
    BadReference {
        /// The setting, its location, and the problem.
        problem: String,
    },
}

/// The model that messages use as an example.
const MODEL: &str = "anthropic/claude-sonnet-4-6";

impl SetupError {
    /// Returns what the user can do about it, in one or more lines.
    pub fn hint(&self) -> String {
        match self {
            SetupError::NoModel { ready } => ways(ready),
            SetupError::BadName { .. } => {
                "a provider, a slash, and the name that the provider has for it".to_owned()
            }
            SetupError::UnknownProvider { provider, nearest, .. } => match nearest {
                Some(name) => format!("did you mean `{name}`?"),
                None => format!(
                    "describe it under `[providers.{provider}]` with `api` and `base_url`, \
                     or in `opencode.json` under `provider`"
                ),
            },
            SetupError::NoApi { provider } => format!(
                "set `api` under `[providers.{provider}]` to \"anthropic\", \"openai\" or \"openai-chat\""
            ),
            SetupError::NoKey { provider, variable } => {
                let file = format!("set `key = \"{{env:NAME}}\"` under `[providers.{provider}]`");
                match variable {
                    Some(name) => format!("set `{name}`, or {file}"),
                    None => file,
                }
            }
            SetupError::BadAddress { .. } => "such as \"http://localhost:11434/v1\"".to_owned(),
            SetupError::BadReference { .. } => {
                "set the variable or write the file, or change the setting".to_owned()
            }
        }
    }
}

/// Lists the ways to set up a model, and the commands that work without one.
fn ways(ready: &[&str]) -> String {
    let mut lines = Vec::new();
    if !ready.is_empty() {
        let names = ready.iter().map(|name| format!("`--model {name}/NAME`")).collect::<Vec<_>>();
        lines.push(format!("a key or base URL is already set: add {}", names.join(" or ")));
    }
    let ways = [
        ("Anthropic", format!("set `ANTHROPIC_API_KEY` and `--model {MODEL}`")),
        ("OpenAI", "set `OPENAI_API_KEY` and `--model openai/gpt-5`".to_owned()),
        (
            "Ollama",
            "set `OPENAI_BASE_URL=http://localhost:11434/v1` and `--model openai-chat/NAME`".to_owned(),
        ),
        (
            "llama.cpp",
            "set `OPENAI_BASE_URL=http://localhost:8080/v1` and `--model openai-chat/NAME`".to_owned(),
        ),
        ("permanently", format!("`model = \"{MODEL}\"` in your `config.toml` or in `plimsoll.toml`")),
        ("OpenCode", "an `opencode.json` with `model` and `provider` is used unchanged".to_owned()),
    ];
    lines.extend(ways.map(|(name, way)| format!("{name}: {way}")));
    lines.push(
        "no model is needed for `inspect`, `window`, `truncate`, `prune`, `compact`, `fork`, `replay`, `sessions`, \
         `recall` and `undo`"
            .to_owned(),
    );
    lines.join("\n")
}

/// Returns the facts about a model: the built-in table, overridden by its configuration.
fn facts(name: &str, own: Option<&ModelConfig>) -> KnownFacts {
    let table = ModelTable::default();
    let id = own.and_then(|own| own.id.as_deref());
    let known = id.and_then(|id| table.find(id)).or_else(|| table.find(name)).unwrap_or_default();
    own.map_or(known, |own| own.over(known))
}

impl RunConfig {
    /// Resolves the model with that name, or the configured one.
    ///
    /// The name is what the user typed. Its provider must be built in or configured. The model itself may be unknown,
    /// and then has no limits and no price.
    pub fn resolve_model(&self, name: Option<&str>) -> Result<ResolvedModel, SetupError> {
        let (model, origin) = match (name, &self.model) {
            (Some(name), _) => {
                let origin = Origin::Flag("--model");
                let parsed = name.parse::<ModelRef>();
                (parsed.map_err(|source| SetupError::BadName { origin: origin.clone(), source })?, origin)
            }
            (None, Some(model)) => (model.clone(), self.origin("model")),
            (None, None) => return Err(SetupError::NoModel { ready: self.ready() }),
        };
        self.resolve(&model, origin)
    }

    /// Resolves the smaller model for titles and similar tasks, if one is configured.
    pub fn resolve_small_model(&self) -> Option<Result<ResolvedModel, SetupError>> {
        let model = self.small_model.as_ref()?;
        Some(self.resolve(model, self.origin("small_model")))
    }

    /// Resolves the model of an agent, if one is configured.
    pub fn resolve_agent_model(&self, agent: &str) -> Option<Result<ResolvedModel, SetupError>> {
        let model = self.agents.get(agent)?.model.as_ref()?;
        Some(self.resolve(model, self.origin(&format!("agents.{agent}.model"))))
    }

    /// Resolves a model.
    pub fn resolve(&self, model: &ModelRef, origin: Origin) -> Result<ResolvedModel, SetupError> {
        let Some(provider) = self.providers.get(&model.provider) else {
            let known: Vec<String> = self.providers.keys().cloned().collect();
            let nearest = nearest(&model.provider, known.iter().map(String::as_str)).map(str::to_owned);
            let provider = model.provider.clone();
            return Err(SetupError::UnknownProvider { origin, provider, known, nearest });
        };
        let endpoint = self.endpoint(&model.provider, provider)?;
        let own = provider.models.get(&model.model);
        let id = own.and_then(|own| own.id.clone()).unwrap_or_else(|| model.model.clone());
        let KnownFacts { limits, price, cache } = facts(&model.model, own);
        Ok(ResolvedModel {
            model: ModelRef { provider: model.provider.clone(), model: id },
            endpoint,
            client: provider.client,
            limits,
            price,
            cache,
            name: own.and_then(|own| own.name.clone()),
            origin,
        })
    }

    /// Returns the limits of all models whose context window is configured, under the name and the id of each, as
    /// [`RunConfig::resolve`] returns them.
    pub fn model_limits(&self) -> Vec<(String, Limits)> {
        let models = self.providers.values().flat_map(|provider| &provider.models);
        let models = models.filter(|(_, model)| model.context.is_some()).flat_map(|(name, model)| {
            let limits = facts(name, Some(model)).limits;
            let names = std::iter::once(name).chain(&model.id);
            names.filter_map(move |name| Some((name.clone(), limits?)))
        });
        models.collect()
    }

    fn endpoint(&self, name: &str, provider: &ProviderConfig) -> Result<Endpoint, SetupError> {
        if let Some(problem) = &provider.problem {
            return Err(SetupError::BadReference { problem: problem.clone() });
        }
        let wire = provider.wire.ok_or_else(|| SetupError::NoApi { provider: name.to_owned() })?;
        let has_key = provider.key.is_some() || provider.headers.iter().any(|(name, _)| carries_key(name));
        // Servers on the user's own machine need no key, and other servers report a missing key themselves.
        if provider.base_url.is_none() && !has_key {
            let variable = BUILT_IN.iter().find(|(known, ..)| *known == name).map(|(_, _, key, _)| *key);
            return Err(SetupError::NoKey { provider: name.to_owned(), variable });
        }
        let url = provider.base_url.as_deref().unwrap_or(wire.default_url());
        let endpoint = Endpoint::new(wire, url, provider.key.clone()).map_err(|source| {
            SetupError::BadAddress { origin: self.origin(&format!("providers.{name}.base_url")), source }
        })?;
        let hidden = self.keys.in_path_of(url);
        Ok(Endpoint { headers: provider.headers.clone(), hidden, ..endpoint })
    }

    /// Returns the built-in providers that would work if a model were named.
    fn ready(&self) -> Vec<&'static str> {
        let names = BUILT_IN.iter().map(|(name, ..)| *name);
        let is_ready = |name: &&str| {
            let provider = self.providers.get(*name);
            provider.is_some_and(|provider| self.endpoint(name, provider).is_ok())
        };
        names.filter(is_ready).collect()
    }
}

/// Omits a flag as the origin: the user has just typed it.
fn before(origin: &Origin) -> String {
    if matches!(origin, Origin::Flag(_)) { String::new() } else { format!("{origin}: ") }
}

fn listed(names: &[String]) -> impl fmt::Display {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

//! From `provider/model` to everything that a request needs.

use std::fmt;

use plimsoll::Limits;
use plimsoll_providers::{ClientOptions, Endpoint, EndpointError, ModelRef};
use plimsoll_sandbox::Origin;
use plimsoll_tokens::{CacheRule, KnownFacts, ModelPrice, ModelTable};
use thiserror::Error;

use super::RunConfig;
use super::provider::{BUILT_IN, ModelConfig, ProviderConfig, carries_key};
use crate::nearest::nearest;

/// A model, and all that is known of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedModel {
    /// The provider, and the model as the provider names it.
    pub model: ModelRef,
    /// Where requests are sent.
    pub endpoint: Endpoint,
    /// How long to wait.
    pub client: ClientOptions,
    /// What it can take and give, if that is known.
    pub limits: Option<Limits>,
    /// What it costs, if that is known.
    pub price: Option<ModelPrice>,
    /// How its provider caches prompts, if that is known.
    pub cache: Option<CacheRule>,
    /// A name for people.
    pub name: Option<String>,
    /// Who chose it.
    pub origin: Origin,
}

/// Why there is no model to talk to.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SetupError {
    /// Nothing names one.
    #[error("no model is set")]
    NoModel {
        /// Built-in providers whose key or address is set.
        ready: Vec<&'static str>,
    },
    /// The name is none.
    #[error("{}{source}", before(origin))]
    BadName {
        /// Where it stands.
        origin: Origin,
        /// What is wrong with it.
        source: EndpointError,
    },
    /// There is no such provider.
    #[error("{}there is no provider `{provider}`: there are {}", before(origin), listed(known))]
    UnknownProvider {
        /// Who named it.
        origin: Origin,
        /// The provider.
        provider: String,
        /// Those that there are.
        known: Vec<String>,
        /// The one that may have been meant.
        nearest: Option<String>,
    },
    /// A provider has no wire format.
    #[error("provider `{provider}` has no `api`")]
    NoApi {
        /// The provider.
        provider: String,
    },
    /// A provider has no key, and its address needs one.
    #[error("no key for provider `{provider}`")]
    NoKey {
        /// The provider.
        provider: String,
        /// The variable that would hold it, if it has one.
        variable: Option<&'static str>,
    },
    /// A provider's address is none.
    #[error("{origin}: {source}")]
    BadAddress {
        /// Where it stands.
        origin: Origin,
        /// What is wrong with it.
        source: EndpointError,
    },
    /// A reference of a provider leads nowhere.
    #[error("{problem}")]
    BadReference {
        /// The setting, its place, and what is wrong.
        problem: String,
    },
}

/// The example of all messages.
const MODEL: &str = "anthropic/claude-sonnet-4-6";

impl SetupError {
    /// What to do about it, in one or more lines.
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

/// The ways to set up a model, and what works without one.
fn ways(ready: &[&str]) -> String {
    let mut lines = Vec::new();
    if !ready.is_empty() {
        let names = ready.iter().map(|name| format!("`--model {name}/NAME`")).collect::<Vec<_>>();
        lines.push(format!("a key or an address is set already: add {}", names.join(" or ")));
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
        ("for good", format!("`model = \"{MODEL}\"` in your `config.toml` or in `plimsoll.toml`")),
        ("OpenCode", "an `opencode.json` with `model` and `provider` is read as it is".to_owned()),
    ];
    lines.extend(ways.map(|(name, way)| format!("{name}: {way}")));
    lines.push(
        "no model is needed for `inspect`, `window`, `truncate`, `prune`, `compact`, `fork`, `replay`, `sessions`, \
         `recall` and `undo`"
            .to_owned(),
    );
    lines.join("\n")
}

impl RunConfig {
    /// The model of that name, or the one that the configuration names.
    ///
    /// The name is what a person typed. Its provider is a built-in one or one of the configuration; the model itself
    /// need not be known, and then has no limits and no price.
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

    /// The smaller model for titles and the like, if the configuration names one.
    pub fn resolve_small_model(&self) -> Option<Result<ResolvedModel, SetupError>> {
        let model = self.small_model.as_ref()?;
        Some(self.resolve(model, self.origin("small_model")))
    }

    /// The model that the configuration has for an agent, if it has one.
    pub fn resolve_agent_model(&self, agent: &str) -> Option<Result<ResolvedModel, SetupError>> {
        let model = self.agents.get(agent)?.model.as_ref()?;
        Some(self.resolve(model, self.origin(&format!("agents.{agent}.model"))))
    }

    /// Everything about a model.
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
        let table = ModelTable::default();
        let known = table.find(&id).or_else(|| table.find(&model.model)).unwrap_or_default();
        let KnownFacts { limits, price, cache } = own.unwrap_or(&ModelConfig::default()).over(known);
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

    fn endpoint(&self, name: &str, provider: &ProviderConfig) -> Result<Endpoint, SetupError> {
        if let Some(problem) = &provider.problem {
            return Err(SetupError::BadReference { problem: problem.clone() });
        }
        let wire = provider.wire.ok_or_else(|| SetupError::NoApi { provider: name.to_owned() })?;
        let has_key = provider.key.is_some() || provider.headers.iter().any(|(name, _)| carries_key(name));
        // Servers on one's own machine need none; which others do is for them to say.
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

    /// Built-in providers that could be used if a model were named.
    fn ready(&self) -> Vec<&'static str> {
        let names = BUILT_IN.iter().map(|(name, ..)| *name);
        let is_ready = |name: &&str| {
            let provider = self.providers.get(*name);
            provider.is_some_and(|provider| self.endpoint(name, provider).is_ok())
        };
        names.filter(is_ready).collect()
    }
}

/// A flag was typed a moment ago and need not be named.
fn before(origin: &Origin) -> String {
    if matches!(origin, Origin::Flag(_)) { String::new() } else { format!("{origin}: ") }
}

fn listed(names: &[String]) -> impl fmt::Display {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

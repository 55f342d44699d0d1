//! Which provider and model a request goes to, and at which URL.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use thiserror::Error;

use crate::prompt::{MaxTokensField, RequestOptions, WordlessContent};
use crate::secret::Secret;

/// A wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wire {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Chat Completions.
    Chat,
    /// OpenAI Responses.
    Responses,
}

impl Wire {
    /// The base URL of the vendor that defined the wire format.
    pub fn default_url(self) -> &'static str {
        match self {
            Wire::Anthropic => ANTHROPIC_URL,
            Wire::Chat | Wire::Responses => OPENAI_URL,
        }
    }
}

/// A model of a provider: `provider/model`. The model's own name may contain more slashes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ModelRef {
    /// The provider: `anthropic`, `openai`, `openai-chat`, or one of the configuration.
    pub provider: String,
    /// The provider's name of the model.
    pub model: String,
}

/// An invalid model name or URL, or a missing key.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// The name is not of the form `provider/model`.
    #[error("`{0}` does not name a model: write `provider/model`, such as `anthropic/claude-sonnet-4-6`")]
    NotAModel(String),
    /// The provider is neither built in nor configured.
    #[error("unknown provider `{0}` (available: `anthropic`, `openai`, `openai-chat`)")]
    UnknownProvider(String),
    /// The key is missing.
    #[error("no key for `{provider}`: set `{variable}`")]
    NoKey {
        /// The provider.
        provider: String,
        /// The variable that the key is read from.
        variable: &'static str,
    },
    /// The base URL is invalid.
    #[error("`{0}` is not a base URL: it must start with `http://` or `https://`")]
    NotAUrl(String),
}

impl FromStr for ModelRef {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<ModelRef, EndpointError> {
        match text.trim().split_once('/') {
            Some((provider, model)) if !provider.is_empty() && !model.is_empty() => {
                Ok(ModelRef { provider: provider.to_owned(), model: model.to_owned() })
            }
            _ => Err(EndpointError::NotAModel(text.to_owned())),
        }
    }
}

impl fmt::Display for ModelRef {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.provider, self.model)
    }
}

/// URL and key for requests. `Debug` shows no secrets, including those in the URL.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The wire format.
    pub wire: Wire,
    /// Base URL that the paths of the API are appended to, without a trailing slash or query.
    pub base_url: String,
    /// Query of every request, without the question mark. It is a secret because gateways accept keys in it.
    pub query: Option<Secret>,
    /// The key; local servers need none.
    pub key: Option<Secret>,
    /// Additional headers. Values are secrets because gateways receive keys in them.
    pub headers: Vec<(String, Secret)>,
    /// Secrets in the URL's path, which are removed from errors and logs.
    pub hidden: Vec<Secret>,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        formatter
            .debug_struct("Endpoint")
            .field("wire", &self.wire)
            .field("base_url", &self.strip_keys(&self.base_url))
            .field("query", &self.query)
            .field("key", &self.key)
            .field("headers", &headers)
            .finish()
    }
}

const ANTHROPIC_URL: &str = "https://api.anthropic.com";
const OPENAI_URL: &str = "https://api.openai.com/v1";
/// Version of the Messages API.
pub(crate) const ANTHROPIC_VERSION: &str = "2023-06-01";

impl Endpoint {
    /// Creates an endpoint. A query in the URL is appended to each request after the API's path. A fragment is dropped,
    /// because it is never sent.
    pub fn new(wire: Wire, base_url: &str, key: Option<Secret>) -> Result<Endpoint, EndpointError> {
        let address = base_url.trim().split('#').next().unwrap_or_default();
        let (address, query) = address.split_once('?').unwrap_or((address, ""));
        let base_url = address.trim_end_matches('/').to_owned();
        let lower = base_url.to_ascii_lowercase();
        if !(lower.starts_with("http://") || lower.starts_with("https://")) {
            // The invalid URL may be a key that was entered in the wrong place.
            return Err(EndpointError::NotAUrl(plimsoll::redact::redact(&base_url).text));
        }
        let query = (!query.is_empty()).then(|| Secret::new(query));
        Ok(Endpoint { wire, base_url, query, key, headers: Vec::new(), hidden: Vec::new() })
    }

    /// Creates the endpoint of a built-in provider from the variables of its official SDK: `ANTHROPIC_API_KEY`,
    /// `ANTHROPIC_AUTH_TOKEN`, `ANTHROPIC_BASE_URL`, `OPENAI_API_KEY`, `OPENAI_BASE_URL`.
    ///
    /// `lookup` returns the value of a variable. Empty ones count as unset, as in the SDKs. A missing key is an error
    /// only if requests go to the provider itself.
    pub fn from_variables(
        provider: &str,
        lookup: impl Fn(&str) -> Option<String>,
    ) -> Result<Endpoint, EndpointError> {
        let set = |name: &str| lookup(name).filter(|value| !value.trim().is_empty());
        let (wire, key_variable, url_variable, default_url) = match provider {
            "anthropic" => (Wire::Anthropic, "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", ANTHROPIC_URL),
            "openai" => (Wire::Responses, "OPENAI_API_KEY", "OPENAI_BASE_URL", OPENAI_URL),
            "openai-chat" => (Wire::Chat, "OPENAI_API_KEY", "OPENAI_BASE_URL", OPENAI_URL),
            other => return Err(EndpointError::UnknownProvider(other.to_owned())),
        };
        let key = set(key_variable).map(Secret::new);
        let own_url = set(url_variable);
        let url = own_url.as_deref().unwrap_or(default_url);
        let mut endpoint = Endpoint::new(wire, url, key)?;
        if wire == Wire::Anthropic
            && endpoint.key.is_none()
            && let Some(token) = set("ANTHROPIC_AUTH_TOKEN")
        {
            let bearer = Secret::new(format!("Bearer {}", token.trim()));
            endpoint.headers.push(("authorization".into(), bearer));
        }
        if endpoint.key.is_none() && endpoint.headers.is_empty() && own_url.is_none() {
            return Err(EndpointError::NoKey { provider: provider.to_owned(), variable: key_variable });
        }
        Ok(endpoint)
    }

    /// Returns the URL that requests are posted to, with the query. Use [`Endpoint::shown_url`] for messages.
    pub fn url(&self) -> String {
        match &self.query {
            Some(query) => format!("{}?{}", self.path(), query.expose()),
            None => self.path(),
        }
    }

    /// Returns the URL that requests are posted to without its query and other secrets, for errors and logs.
    pub fn shown_url(&self) -> String {
        self.strip_keys(&self.path())
    }

    /// Returns the API's path, built as in the official SDKs: Anthropic's base URL excludes `/v1`, OpenAI's includes
    /// it. A trailing `/v1` of an Anthropic base URL, which other tools require, is tolerated.
    fn path(&self) -> String {
        let base = self.base_url.trim_end_matches('/');
        match self.wire {
            Wire::Anthropic if base.ends_with("/v1") => format!("{base}/messages"),
            Wire::Anthropic => format!("{base}/v1/messages"),
            Wire::Chat => format!("{base}/chat/completions"),
            Wire::Responses => format!("{base}/responses"),
        }
    }

    fn host(&self) -> String {
        let host = self.base_url.split("://").nth(1).unwrap_or_default();
        host.split('/').next().unwrap_or_default().to_ascii_lowercase()
    }

    /// Whether the server is on this machine or in its network, where users run their own models.
    pub(crate) fn is_near(&self) -> bool {
        is_near(&self.host())
    }

    /// Returns options that fit the server. Servers other than OpenAI's know only the old name of the output limit. A
    /// local server usually runs an open model with its own chat template.
    pub fn request_options(&self) -> RequestOptions {
        let host = self.host();
        let is_openai = ["openai.com", "openai.azure.com"].iter().any(|own| {
            host.strip_suffix(own).is_some_and(|before| before.is_empty() || before.ends_with('.'))
        });
        let max_tokens_field =
            if is_openai { MaxTokensField::MaxCompletionTokens } else { MaxTokensField::MaxTokens };
        let wordless_content =
            if self.is_near() { WordlessContent::EmptyText } else { WordlessContent::Null };
        RequestOptions { max_tokens_field, wordless_content, ..RequestOptions::default() }
    }

    /// Returns the headers of a request, in lower case.
    pub(crate) fn all_headers(&self) -> Vec<(String, Secret)> {
        let mut headers = vec![
            ("content-type".to_owned(), Secret::new("application/json")),
            ("accept".to_owned(), Secret::new("text/event-stream")),
        ];
        if self.wire == Wire::Anthropic {
            headers.push(("anthropic-version".to_owned(), Secret::new(ANTHROPIC_VERSION)));
        }
        if let Some(key) = &self.key {
            headers.push(match self.wire {
                Wire::Anthropic => ("x-api-key".to_owned(), key.clone()),
                Wire::Chat | Wire::Responses => {
                    ("authorization".to_owned(), Secret::new(format!("Bearer {}", key.expose())))
                }
            });
        }
        for (name, value) in &self.headers {
            let name = name.to_ascii_lowercase();
            headers.retain(|(other, _)| *other != name);
            headers.push((name, value.clone()));
        }
        headers
    }

    /// Removes the keys of this endpoint from a text. Servers echo URLs in their errors, so the query is removed too,
    /// as a whole and value by value.
    pub(crate) fn strip_keys(&self, text: &str) -> String {
        let mut text = text.to_owned();
        if let Some(query) = &self.query {
            text = query.strip_from(&text);
            for value in query.expose().split('&').filter_map(|pair| pair.split_once('=')) {
                text = Secret::new(value.1).strip_from(&text);
            }
        }
        for secret in self.headers.iter().map(|(_, value)| value).chain(&self.key) {
            // Servers may quote the key without its scheme.
            let bare = secret.expose().trim_start_matches("Bearer ");
            text = Secret::new(bare).strip_from(&text);
        }
        for secret in &self.hidden {
            text = secret.strip_from(&text);
        }
        plimsoll::redact::redact(&text).text
    }
}

/// Whether a host, with or without a port, is this machine or in its network.
fn is_near(host: &str) -> bool {
    let host = match host.strip_prefix('[') {
        Some(six) => six.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(four)) => four.is_loopback() || four.is_private() || four.is_link_local(),
        Ok(IpAddr::V6(six)) => six.is_loopback() || six.is_unique_local() || six.is_unicast_link_local(),
        // A name without a dot belongs to the local network, such as the service of a container.
        Err(_) => !host.contains('.') || [".local", ".localhost"].iter().any(|end| host.ends_with(end)),
    }
}

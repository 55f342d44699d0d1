//! What can go wrong between here and a provider, told apart by what can be done about it.

mod overflow;
mod thoughts;

use std::time::Duration;

use plimsoll::Tokens;
use serde_json::Value;
use thiserror::Error;

/// Why there is no answer. The words are plain and hold no keys.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ProviderError {
    /// The request is larger than the model's window. Only a smaller request helps.
    #[error("the request does not fit the model's context window: {message}")]
    Overflow {
        /// The window, where the provider says it.
        window: Option<Tokens>,
        /// What was asked for, where the provider says it.
        asked: Option<Tokens>,
        /// The provider's words.
        message: String,
    },
    /// Too many requests or tokens in too short a time.
    #[error("rate limited: {message}")]
    RateLimited {
        /// When to try again, where the provider says it.
        retry_after: Option<Duration>,
        /// This one request is above the limit: waiting does not help, a smaller one does.
        request_too_large: bool,
        /// The provider's words.
        message: String,
    },
    /// The provider has more to do than it can.
    #[error("the provider is overloaded: {message}")]
    Overloaded {
        /// When to try again, where the provider says it.
        retry_after: Option<Duration>,
        /// The provider's words.
        message: String,
    },
    /// The account is out of credit or over its quota.
    #[error("no credit or quota left: {message}")]
    Quota {
        /// The provider's words.
        message: String,
    },
    /// The key is missing, wrong, or not allowed to do this.
    #[error("not authorised: {message}")]
    Auth {
        /// The provider's words.
        message: String,
    },
    /// The provider refuses the request as it is.
    #[error("the provider refused the request{}: {message}", told_status(*status))]
    BadRequest {
        /// The HTTP status, if there was one.
        status: Option<u16>,
        /// The provider's words.
        message: String,
    },
    /// The provider refuses thoughts that were given back to it: it did not sign them, or no longer knows its signature.
    /// The same request without them helps.
    #[error("the provider refused thoughts that were given back to it: {message}")]
    Thoughts {
        /// The provider's words.
        message: String,
    },
    /// The provider failed.
    #[error("the provider failed{}: {message}", told_status(*status))]
    Server {
        /// The HTTP status, if there was one.
        status: Option<u16>,
        /// When to try again, where the provider says it.
        retry_after: Option<Duration>,
        /// The provider's words.
        message: String,
    },
    /// The provider could not be reached, or the connection broke.
    #[error("network error: {message}")]
    Network {
        /// What happened.
        message: String,
    },
    /// No secure connection could be made. The same request fails again until the server, its certificate or the base
    /// URL is changed.
    #[error("no secure connection: {message}")]
    Tls {
        /// The problem, and what to do about it.
        message: String,
    },
    /// It took too long.
    #[error("{kind} after {} seconds", after.as_secs_f64())]
    Timeout {
        /// What was waited for.
        kind: TimeoutKind,
        /// For how long.
        after: Duration,
    },
    /// The stream is not what it should be.
    #[error("broken stream: {0}")]
    Stream(#[from] StreamFault),
}

/// What was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TimeoutKind {
    /// The next bytes.
    #[error("no bytes from the provider: gave up")]
    Idle,
    /// The end of the answer.
    #[error("the answer did not end: gave up")]
    Total,
}

/// What is wrong with a stream.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StreamFault {
    /// It ended without its closing event, so the answer may be cut.
    #[error("it ended after {events} events without the closing one")]
    Unfinished {
        /// How many events had come.
        events: u64,
    },
    /// An event is larger than allowed.
    #[error("an event is larger than {limit} bytes")]
    EventTooLarge {
        /// The cap, in bytes.
        limit: usize,
    },
    /// The answer is longer than its request allows. What was written until then stays.
    #[error("the answer was cut off at {limit} bytes, far beyond the output tokens that were requested")]
    TooLong {
        /// The limit, in bytes.
        limit: usize,
    },
    /// An event is not what the wire format allows.
    #[error("event {event} is malformed: {problem}")]
    Malformed {
        /// Which event of the stream, counted from one.
        event: u64,
        /// What is wrong with it, and where.
        problem: String,
    },
    /// The answer is no event stream.
    #[error("expected an event stream, got `{content_type}`")]
    NotAStream {
        /// What it says it is.
        content_type: String,
    },
}

fn told_status(status: Option<u16>) -> String {
    status.map(|status| format!(" (status {status})")).unwrap_or_default()
}

impl ProviderError {
    /// A short name for the kind of error, such as a log records.
    pub fn name(&self) -> &'static str {
        match self {
            ProviderError::Overflow { .. } => "ContextOverflowError",
            ProviderError::RateLimited { .. } => "RateLimitError",
            ProviderError::Overloaded { .. } => "OverloadedError",
            ProviderError::Quota { .. } => "QuotaError",
            ProviderError::Auth { .. } => "ProviderAuthError",
            ProviderError::BadRequest { .. } | ProviderError::Thoughts { .. } => "BadRequestError",
            ProviderError::Server { .. } => "APIError",
            ProviderError::Network { .. } => "NetworkError",
            ProviderError::Tls { .. } => "TlsError",
            ProviderError::Timeout { .. } => "TimeoutError",
            ProviderError::Stream(_) => "StreamError",
        }
    }

    /// Whether the same request may succeed if it is sent again. Whether it may be sent again at all is another
    /// question: not once something was streamed.
    pub fn is_transient(&self) -> bool {
        match self {
            ProviderError::RateLimited { request_too_large, .. } => !request_too_large,
            ProviderError::Overloaded { .. }
            | ProviderError::Server { .. }
            | ProviderError::Network { .. }
            | ProviderError::Stream(StreamFault::Unfinished { .. } | StreamFault::Malformed { .. }) => true,
            // A total that has passed once would pass again.
            ProviderError::Timeout { kind, .. } => *kind == TimeoutKind::Idle,
            _ => false,
        }
    }

    /// When to try again, where the provider says it.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            ProviderError::RateLimited { retry_after, .. }
            | ProviderError::Overloaded { retry_after, .. }
            | ProviderError::Server { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// The same error with every text in it changed.
    pub(crate) fn map_text(self, change: impl Fn(&str) -> String) -> ProviderError {
        use ProviderError::{
            Auth, BadRequest, Network, Overflow, Overloaded, Quota, RateLimited, Server, Stream, Thoughts,
            Timeout, Tls,
        };
        match self {
            Overflow { window, asked, message } => Overflow { window, asked, message: change(&message) },
            RateLimited { retry_after, request_too_large, message } => {
                RateLimited { retry_after, request_too_large, message: change(&message) }
            }
            Overloaded { retry_after, message } => Overloaded { retry_after, message: change(&message) },
            Quota { message } => Quota { message: change(&message) },
            Auth { message } => Auth { message: change(&message) },
            BadRequest { status, message } => BadRequest { status, message: change(&message) },
            Thoughts { message } => Thoughts { message: change(&message) },
            Server { status, retry_after, message } => {
                Server { status, retry_after, message: change(&message) }
            }
            Network { message } => Network { message: change(&message) },
            Tls { message } => Tls { message: change(&message) },
            Timeout { kind, after } => Timeout { kind, after },
            Stream(StreamFault::NotAStream { content_type }) => {
                Stream(StreamFault::NotAStream { content_type: change(&content_type) })
            }
            Stream(fault) => Stream(fault),
        }
    }
}

/// What a provider reports of an error, before it is judged.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Failure {
    pub(crate) status: Option<u16>,
    /// Codes and kinds, wherever the body has them.
    pub(crate) codes: Vec<String>,
    pub(crate) message: String,
    pub(crate) retry_after: Option<Duration>,
    /// The window and the request's size in fields of their own, as llama.cpp sends them.
    pub(crate) window: Option<u64>,
    pub(crate) asked: Option<u64>,
}

/// The longest message that is passed on.
const MESSAGE_LIMIT: usize = 1_000;

impl Failure {
    /// An error event in a stream.
    pub(crate) fn of_stream(codes: Vec<String>, message: String) -> Failure {
        Failure { codes, message, ..Failure::default() }
    }

    /// The body of an error answer, whatever it is.
    pub(crate) fn of_body(status: u16, body: &[u8], retry_after: Option<Duration>) -> Failure {
        let failure = match serde_json::from_slice::<Value>(body) {
            Ok(value) => Failure::of_value(Some(status), &value),
            Err(_) => {
                let text = String::from_utf8_lossy(body);
                // The page of a proxy says nothing that helps.
                let is_page = text.trim_start().starts_with('<');
                let message = if is_page { String::new() } else { text.trim().to_owned() };
                Failure { status: Some(status), message, ..Failure::default() }
            }
        };
        Failure { retry_after, ..failure }
    }

    /// The JSON of an error: `{"error": {…}}`, `{"error": "…"}`, `{"message": "…"}`, `{"detail": …}`, or the first of
    /// a list.
    pub(crate) fn of_value(status: Option<u16>, value: &Value) -> Failure {
        let value = value.as_array().and_then(|list| list.first()).unwrap_or(value);
        let error = value.get("error").filter(|error| !error.is_null()).unwrap_or(value);
        let mut failure = Failure { status, ..Failure::default() };
        for source in [error, value] {
            for key in ["code", "type", "status", "__type"] {
                match source.get(key) {
                    Some(Value::String(code)) => failure.codes.push(code.clone()),
                    Some(Value::Number(code)) => failure.codes.push(code.to_string()),
                    _ => {}
                }
            }
        }
        let text = |value: &Value| match value {
            Value::String(text) => Some(text.clone()),
            Value::Null => None,
            other => Some(other.to_string()),
        };
        let said =
            ["message", "detail", "msg", "Message"].iter().find_map(|key| error.get(*key).and_then(text));
        failure.message = said.or_else(|| error.as_str().map(str::to_owned)).unwrap_or_default();
        // OpenRouter wraps the provider's own words.
        if let Some(raw) = error.pointer("/metadata/raw").and_then(text) {
            failure.message = format!("{}: {raw}", failure.message);
        }
        failure.window = error.get("n_ctx").and_then(Value::as_u64);
        failure.asked = error.get("n_prompt_tokens").and_then(Value::as_u64);
        failure
    }

    fn has(&self, code: &str) -> bool {
        self.codes.iter().any(|own| own == code)
    }
}

impl From<Failure> for ProviderError {
    fn from(failure: Failure) -> ProviderError {
        let message = if failure.message.trim().is_empty() {
            failure.codes.first().cloned().unwrap_or_else(|| "no explanation given".into())
        } else {
            failure.message.chars().take(MESSAGE_LIMIT).collect()
        };
        let Failure { status, retry_after, .. } = failure;
        if let Some((window, asked)) = overflow::recognise(&failure) {
            return ProviderError::Overflow { window, asked, message };
        }
        let has = |codes: &[&str]| codes.iter().any(|code| failure.has(code));
        let words = failure.message.to_ascii_lowercase();
        let says = |patterns: &[&str]| patterns.iter().any(|pattern| words.contains(pattern));
        // A key that is out of credit is reported as 429 by some, and waiting does not help.
        if has(&["insufficient_quota", "billing_error", "billing_not_active", "insufficient_balance"])
            || status == Some(402)
            || says(&["credit balance is too low", "insufficient balance", "exceeded your current quota"])
        {
            return ProviderError::Quota { message };
        }
        if matches!(status, Some(401 | 403))
            || has(&["authentication_error", "permission_error", "invalid_api_key"])
            || says(&["api key not valid", "invalid api key", "incorrect api key"])
        {
            return ProviderError::Auth { message };
        }
        if status == Some(429)
            || has(&["rate_limit_error", "rate_limit_exceeded", "RESOURCE_EXHAUSTED", "ThrottlingException"])
            || (status.is_none_or(|status| status >= 400) && overflow::is_rate_limit(&words))
        {
            let request_too_large = words.contains("request too large");
            return ProviderError::RateLimited { retry_after, request_too_large, message };
        }
        if matches!(status, Some(503 | 529)) || has(&["overloaded_error", "overloaded", "UNAVAILABLE"]) {
            return ProviderError::Overloaded { retry_after, message };
        }
        if thoughts::are_refused(&failure) {
            return ProviderError::Thoughts { message };
        }
        match status {
            Some(408 | 409 | 425) => ProviderError::Server { status, retry_after, message },
            Some(status @ 400..500) => ProviderError::BadRequest { status: Some(status), message },
            Some(_) => ProviderError::Server { status, retry_after, message },
            None if has(&["invalid_request_error", "not_found_error", "invalid_prompt", "400", "404"]) => {
                ProviderError::BadRequest { status, message }
            }
            None => ProviderError::Server { status, retry_after, message },
        }
    }
}

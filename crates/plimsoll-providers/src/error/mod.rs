//! Errors of providers, classified by what can be done about them.

mod overflow;
mod thoughts;

use std::time::Duration;

use plimsoll::Tokens;
use serde_json::Value;
use thiserror::Error;

/// Reason why a request has no answer. Messages are plain text without keys.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ProviderError {
    /// The request is larger than the model's window. Only a smaller request can succeed.
    #[error("the request does not fit the model's context window: {message}")]
    Overflow {
        /// The window, if the provider reports it.
        window: Option<Tokens>,
        /// Tokens of the request, if the provider reports them.
        asked: Option<Tokens>,
        /// The provider's message.
        message: String,
    },
    /// Too many requests or tokens in a period.
    #[error("rate limited: {message}")]
    RateLimited {
        /// When to retry, if the provider says so.
        retry_after: Option<Duration>,
        /// The request by itself exceeds the limit: only a smaller one can succeed.
        request_too_large: bool,
        /// The provider's message.
        message: String,
    },
    /// The provider is overloaded.
    #[error("the provider is overloaded: {message}")]
    Overloaded {
        /// When to retry, if the provider says so.
        retry_after: Option<Duration>,
        /// The provider's message.
        message: String,
    },
    /// The account is out of credit or over its quota.
    #[error("no credit or quota left: {message}")]
    Quota {
        /// The provider's message.
        message: String,
    },
    /// The key is missing, invalid, or lacks the permission.
    #[error("not authorised: {message}")]
    Auth {
        /// The provider's message.
        message: String,
    },
    /// The provider rejects the request.
    #[error("the provider rejected the request{}: {message}", format_status(*status))]
    BadRequest {
        /// The HTTP status, if there was one.
        status: Option<u16>,
        /// The provider's message.
        message: String,
    },
    /// The provider rejects replayed reasoning: it did not sign it, or no longer accepts its signature. The same
    /// request without it can succeed.
    #[error("the provider rejected replayed reasoning: {message}")]
    Thoughts {
        /// The provider's message.
        message: String,
    },
    /// The provider failed.
    #[error("the provider failed{}: {message}", format_status(*status))]
    Server {
        /// The HTTP status, if there was one.
        status: Option<u16>,
        /// When to retry, if the provider says so.
        retry_after: Option<Duration>,
        /// The provider's message.
        message: String,
    },
    /// The provider could not be reached, or the connection broke.
    #[error("network error: {message}")]
    Network {
        /// The error with its causes as text. It has no `source`, because the texts of those errors contain the URL, whose
        /// query may be a key.
        message: String,
    },
    /// No secure connection could be made. A retry fails until the server, its certificate or the base URL is changed.
    #[error("no secure connection: {message}")]
    Tls {
        /// The problem and how to fix it.
        message: String,
    },
    /// A timeout elapsed.
    #[error("{kind} after {} seconds", after.as_secs_f64())]
    Timeout {
        /// Which timeout.
        kind: TimeoutKind,
        /// Duration of the timeout.
        after: Duration,
    },
    /// The stream is invalid.
    #[error("broken stream: {0}")]
    Stream(#[from] StreamFault),
}

/// Which timeout elapsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TimeoutKind {
    /// Waiting for the next bytes.
    #[error("no bytes from the provider: gave up")]
    Idle,
    /// Waiting for the end of the answer.
    #[error("the answer did not end: gave up")]
    Total,
}

/// Faults of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StreamFault {
    /// The stream ended without its closing event, so the answer may be truncated.
    #[error("ended after {events} events without the closing event")]
    Unfinished {
        /// Number of events before the end.
        events: u64,
    },
    /// An event is too large.
    #[error("an event is larger than {limit} bytes")]
    EventTooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The answer is longer than its request allows. The content up to then is kept.
    #[error("the answer was cut off at {limit} bytes, far beyond the output tokens that were requested")]
    TooLong {
        /// The limit in bytes.
        limit: usize,
    },
    /// An event violates the wire format.
    #[error("event {event} is malformed: {problem}")]
    Malformed {
        /// Number of the event in the stream, counted from one.
        event: u64,
        /// The problem and its location.
        problem: String,
    },
    /// The answer is not an event stream.
    #[error("expected an event stream, got `{content_type}`")]
    NotAStream {
        /// Content type of the answer.
        content_type: String,
    },
}

fn format_status(status: Option<u16>) -> String {
    status.map(|status| format!(" (status {status})")).unwrap_or_default()
}

impl ProviderError {
    /// A short name of the kind of error, for logs.
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

    /// Whether the same request may succeed if it is retried. Callers must also check that nothing was streamed yet, because
    /// the user would see the answer twice.
    ///
    /// Rate limits, overload, server errors, and broken or stalled connections pass. For an overflow, a quota, a key or
    /// rejected content, the same request would fail again: the request or the account must change first.
    pub fn is_transient(&self) -> bool {
        match self {
            ProviderError::RateLimited { request_too_large, .. } => !request_too_large,
            ProviderError::Overloaded { .. }
            | ProviderError::Server { .. }
            | ProviderError::Network { .. }
            | ProviderError::Stream(StreamFault::Unfinished { .. } | StreamFault::Malformed { .. }) => true,
            // A total timeout would elapse again: the answer takes that long.
            ProviderError::Timeout { kind, .. } => *kind == TimeoutKind::Idle,
            _ => false,
        }
    }

    /// When to retry, if the provider says so.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            ProviderError::RateLimited { retry_after, .. }
            | ProviderError::Overloaded { retry_after, .. }
            | ProviderError::Server { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Returns the error with `change` applied to every text in it.
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

/// An error as a provider reports it, before it is classified.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Failure {
    pub(crate) status: Option<u16>,
    /// Codes and kinds from all places of the body.
    pub(crate) codes: Vec<String>,
    pub(crate) message: String,
    pub(crate) retry_after: Option<Duration>,
    /// The window and the request's size if they have their own fields, as in llama.cpp.
    pub(crate) window: Option<u64>,
    pub(crate) asked: Option<u64>,
}

/// Maximum characters of a message that is passed on.
const MESSAGE_LIMIT: usize = 1_000;

impl Failure {
    /// Reads an error event of a stream.
    pub(crate) fn of_stream(codes: Vec<String>, message: String) -> Failure {
        Failure { codes, message, ..Failure::default() }
    }

    /// Reads the body of an error response of any format.
    pub(crate) fn of_body(status: u16, body: &[u8], retry_after: Option<Duration>) -> Failure {
        let failure = match serde_json::from_slice::<Value>(body) {
            Ok(value) => Failure::of_value(Some(status), &value),
            Err(_) => {
                let text = String::from_utf8_lossy(body);
                // A proxy's HTML page contains nothing useful.
                let is_page = text.trim_start().starts_with('<');
                let message = if is_page { String::new() } else { text.trim().to_owned() };
                Failure { status: Some(status), message, ..Failure::default() }
            }
        };
        Failure { retry_after, ..failure }
    }

    /// Reads the JSON of an error: `{"error": {…}}`, `{"error": "…"}`, `{"message": "…"}`, `{"detail": …}`, or the
    /// first of a list.
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
        // OpenRouter wraps the provider's own message.
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
        // Overflows come with the status and codes of many other errors, so they are recognised first. `recognise`
        // itself rules out authentication and rate-limit errors.
        if let Some((window, asked)) = overflow::recognise(&failure) {
            return ProviderError::Overflow { window, asked, message };
        }
        let has = |codes: &[&str]| codes.iter().any(|code| failure.has(code));
        let words = failure.message.to_ascii_lowercase();
        let says = |patterns: &[&str]| patterns.iter().any(|pattern| words.contains(pattern));
        // Some providers report an account out of credit as 429, where waiting does not help.
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
            // Timeout, conflict and "too early" pass, unlike the other errors of this range, so they are retried.
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

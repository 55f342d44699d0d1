//! Sends requests and streams their answers.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use plimsoll::AnswerEvent;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect;
use tokio::time::{Instant, sleep, timeout_at};

use crate::decode::{DEFAULT_ANSWER_LIMIT, DEFAULT_EVENT_LIMIT, Decoder};
use crate::endpoint::{Endpoint, Wire};
use crate::error::{Failure, ProviderError, StreamFault, TimeoutKind};
use crate::request::Request;
use crate::retry::{RetryPolicy, asked_wait, chance};
use crate::tls;

/// Timeouts, limits and retries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClientOptions {
    /// Timeout of the connection.
    pub connect: Duration,
    /// Maximum time without a byte, from the request on. A model on this machine may read a long prompt for minutes
    /// before it answers.
    pub idle: Duration,
    /// Maximum time of one attempt, from the request to the end of the answer.
    pub total: Duration,
    /// Maximum size of an event in bytes.
    pub event_limit: usize,
    /// Maximum size of an answer in bytes. An answer that far exceeds the requested tokens is cut off earlier.
    pub answer_limit: usize,
    /// When to retry.
    pub retry: RetryPolicy,
}

impl Default for ClientOptions {
    fn default() -> ClientOptions {
        ClientOptions {
            connect: Duration::from_secs(30),
            idle: Duration::from_secs(300),
            total: Duration::from_secs(3_600),
            event_limit: DEFAULT_EVENT_LIMIT,
            answer_limit: DEFAULT_ANSWER_LIMIT,
            retry: RetryPolicy::default(),
        }
    }
}

/// Notice that a request is about to be retried.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RetryNotice {
    /// Number of the retry, counted from one.
    pub retry: u32,
    /// Wait before the retry.
    pub wait: Duration,
    /// Error of the previous attempt.
    pub error: ProviderError,
}

/// Sends requests to one endpoint. Clones share its connections.
#[derive(Clone, Debug)]
pub struct Client {
    /// Created for the first request: most models of a session are never called.
    http: Arc<OnceLock<reqwest::Client>>,
    endpoint: Endpoint,
    headers: HeaderMap,
    options: ClientOptions,
}

/// Maximum bytes of an error's body that are read.
const ERROR_BODY_LIMIT: usize = 64 << 10;

impl Client {
    /// Creates a client for an endpoint.
    pub fn new(endpoint: Endpoint, options: ClientOptions) -> Result<Client, ProviderError> {
        let mut headers = HeaderMap::new();
        for (name, value) in endpoint.all_headers() {
            let bad = || ProviderError::BadRequest {
                status: None,
                message: format!("the value of header `{name}` contains characters that cannot be sent"),
            };
            let mut value = HeaderValue::from_str(value.expose()).map_err(|_| bad())?;
            value.set_sensitive(true);
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
            headers.insert(name, value);
        }
        Ok(Client { http: Arc::default(), endpoint, headers, options })
    }

    fn http(&self) -> Result<&reqwest::Client, ProviderError> {
        if let Some(http) = self.http.get() {
            return Ok(http);
        }
        // If the process has already installed a cryptography provider, that one is used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = reqwest::Client::builder();
        // Without usable certificates, reqwest builds its own configuration and reports the error.
        let builder = match tls::shared() {
            Some(config) => builder.tls_backend_preconfigured(config.clone()),
            None => builder,
        };
        let made = builder
            .connect_timeout(self.options.connect)
            // A redirect would send the conversation and a key to another host.
            .redirect(redirect::Policy::none())
            .user_agent(concat!("plimsoll/", env!("CARGO_PKG_VERSION")))
            .build();
        let failed = |error| ProviderError::Network { message: self.endpoint.strip_keys(&causes(&error)) };
        let made = made.map_err(failed)?;
        // Built outside of `get_or_init`, because building can fail. If two calls build at once, one client is
        // dropped.
        Ok(self.http.get_or_init(|| made))
    }

    /// The endpoint that receives the requests.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Sends a request. Returns when the model's first content arrives, or with the error if none does.
    ///
    /// A request that fails before that is retried according to the [`RetryPolicy`], and `on_retry` is called. Later
    /// failures come from [`AnswerStream::next`]: content that was already passed on cannot be withdrawn, so they are
    /// never retried. Dropping the future or the answer cancels the request.
    pub async fn stream(
        &self,
        request: &Request,
        on_retry: impl FnMut(&RetryNotice),
    ) -> Result<AnswerStream, ProviderError> {
        self.stream_bytes(request, request.to_bytes(), on_retry).await
    }

    /// Like [`stream`](Client::stream), for a caller that has the body as bytes already. They must be those of the request.
    pub async fn stream_bytes(
        &self,
        request: &Request,
        body: Vec<u8>,
        mut on_retry: impl FnMut(&RetryNotice),
    ) -> Result<AnswerStream, ProviderError> {
        let (mut retry, mut silent) = (0, 0);
        loop {
            let mut error = match self.begin(request, body.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let is_silent = matches!(
                error,
                ProviderError::Stream(StreamFault::Unfinished { events: 0 }) | ProviderError::Network { .. }
            );
            if is_silent {
                silent += 1;
                // The first silent failure may be transient. After the second, the cause is checked once: the check
                // costs a request, and only local servers need it.
                if silent == 2 && request.wire() == Wire::Chat && self.endpoint.is_near() {
                    error = self.hidden_overflow(request).await.unwrap_or(error);
                }
            }
            let error = error.map_text(|text| self.endpoint.strip_keys(text));
            let Some(wait) = self.options.retry.wait(&error, retry, chance()) else { return Err(error) };
            retry += 1;
            on_retry(&RetryNotice { retry, wait, error });
            sleep(wait).await;
        }
    }

    /// Makes one attempt, up to the first content.
    async fn begin(&self, request: &Request, body: Vec<u8>) -> Result<AnswerStream, ProviderError> {
        let started = Instant::now();
        let clock = Deadlines { started, last_byte: started, options: self.options };
        let post = self.http()?.post(self.endpoint.url());
        let sending = post.headers(self.headers.clone()).body(body).send();
        let response = clock.limit(sending).await?.map_err(|error| network(&self.endpoint, error))?;
        let status = response.status().as_u16();
        if !response.status().is_success() {
            return Err(self.refusal(status, response, &clock).await);
        }
        let kind = header(response.headers(), "content-type").unwrap_or_default();
        // A proxy's page or a complete JSON answer. A server that sends no content type is assumed to stream.
        if ["text/html", "application/json"].iter().any(|other| kind.starts_with(other)) {
            return Err(self.no_stream(kind, response, &clock).await);
        }
        let ClientOptions { event_limit, answer_limit, .. } = self.options;
        let decoder = Decoder::with_limits(request, event_limit, answer_limit);
        let endpoint = self.endpoint.clone();
        let clock = Deadlines { last_byte: Instant::now(), ..clock };
        let mut answer =
            AnswerStream { response, decoder, endpoint, clock, ready: VecDeque::new(), ended: false };
        while !answer.ready.iter().any(|event| !matches!(event, Ok(event) if !event.is_content())) {
            answer.fill().await;
        }
        // An error is reported here, and can be retried, only if no content came before it.
        let is_content = |event: &Result<AnswerEvent, _>| matches!(event, Ok(event) if event.is_content());
        match answer.ready.iter().find(|event| is_content(event) || event.is_err()) {
            Some(Err(error)) => Err(error.clone()),
            _ => Ok(answer),
        }
    }

    /// Finds out whether streams end before their first event because the request is too long.
    ///
    /// llama-cpp-python begins to stream with status 200 before it checks the length of the prompt. An overflow then
    /// looks like a transient failure: a stream without events, or a broken connection. Asked for a complete answer,
    /// the server reports the overflow. The answer is limited to one token because it is not used. If there is no
    /// overflow, the stream is retried as before.
    async fn hidden_overflow(&self, request: &Request) -> Option<ProviderError> {
        let mut body = request.to_json();
        let fields = body.as_object_mut()?;
        // Only allowed in a request that is streamed.
        fields.remove("stream_options");
        fields.insert("stream".into(), false.into());
        let limit =
            if fields.contains_key("max_completion_tokens") { "max_completion_tokens" } else { "max_tokens" };
        fields.insert(limit.into(), 1.into());
        let started = Instant::now();
        let clock = Deadlines { started, last_byte: started, options: self.options };
        let mut sent = None;
        // The server closes the stream's connection, and the first attempt may be sent on it.
        for _ in 0..2 {
            let sending = self.http().ok()?.post(self.endpoint.url()).headers(self.headers.clone());
            sent = clock.limit(sending.body(body.to_string()).send()).await.ok()?.ok();
            if sent.is_some() {
                break;
            }
        }
        let response = sent?;
        let status = response.status().as_u16();
        if response.status().is_success() {
            return None;
        }
        let error = self.refusal(status, response, &clock).await;
        matches!(error, ProviderError::Overflow { .. }).then_some(error)
    }

    async fn refusal(&self, status: u16, response: reqwest::Response, clock: &Deadlines) -> ProviderError {
        let wait = asked_wait(|name| header(response.headers(), name), SystemTime::now());
        let body = read_some(response, clock).await;
        let error = ProviderError::from(Failure::of_body(status, &body, wait));
        match (status, error) {
            (300..400, _) => ProviderError::BadRequest {
                status: Some(status),
                message: "the server redirects to another address, which is not followed; check the base URL"
                    .into(),
            },
            (_, error) => error,
        }
    }

    /// Handles an answer that is not a stream: gateways answer with a success status and an error in the body.
    async fn no_stream(&self, kind: String, response: reqwest::Response, clock: &Deadlines) -> ProviderError {
        let body = read_some(response, clock).await;
        match serde_json::from_slice::<serde_json::Value>(&body) {
            Ok(value) if value.get("error").is_some_and(|error| !error.is_null()) => {
                Failure::of_value(None, &value).into()
            }
            _ => StreamFault::NotAStream { content_type: kind }.into(),
        }
    }
}

/// A streaming answer.
///
/// [`next`](AnswerStream::next) is cancellation-safe, so it can be used in `select!`. Dropping the stream cancels the
/// request.
#[derive(Debug)]
pub struct AnswerStream {
    response: reqwest::Response,
    decoder: Decoder,
    endpoint: Endpoint,
    clock: Deadlines,
    ready: VecDeque<Result<AnswerEvent, ProviderError>>,
    ended: bool,
}

impl AnswerStream {
    /// Returns the next event of the answer, or `None` after its end. The last event is [`AnswerEvent::Finished`] or an
    /// error.
    pub async fn next(&mut self) -> Option<Result<AnswerEvent, ProviderError>> {
        while self.ready.is_empty() && !self.ended {
            self.fill().await;
        }
        let event = self.ready.pop_front()?;
        Some(event.map_err(|error| error.map_text(|text| self.endpoint.strip_keys(text))))
    }

    /// Waits for more bytes and decodes them.
    async fn fill(&mut self) {
        let chunk = self.clock.limit(self.response.chunk()).await;
        match chunk {
            Ok(Ok(Some(bytes))) => {
                self.clock.last_byte = Instant::now();
                let decoded = self.decoder.push(&bytes);
                self.enqueue(decoded);
                self.ended = self.decoder.is_over();
            }
            Ok(Ok(None)) => {
                let decoded = self.decoder.finish();
                self.enqueue(decoded);
                self.ended = true;
            }
            Ok(Err(error)) => {
                self.ready.push_back(Err(network(&self.endpoint, error)));
                self.ended = true;
            }
            Err(timeout) => {
                self.ready.push_back(Err(timeout));
                self.ended = true;
            }
        }
    }

    /// Queues decoded events. A usage report replaces the one before it. A request only counts as answered once there is
    /// content, so a server that streams nothing but usage would otherwise grow the queue without bound.
    fn enqueue(&mut self, decoded: Vec<Result<AnswerEvent, ProviderError>>) {
        for event in decoded {
            if let (Some(Ok(newest @ AnswerEvent::Usage(_))), Ok(AnswerEvent::Usage(_))) =
                (self.ready.back_mut(), &event)
                && let Ok(event) = event
            {
                *newest = event;
                continue;
            }
            self.ready.push_back(event);
        }
    }
}

/// Deadlines of one attempt. They are points in time, not durations, so that waiting again does not extend them.
#[derive(Clone, Copy, Debug)]
struct Deadlines {
    started: Instant,
    last_byte: Instant,
    options: ClientOptions,
}

impl Deadlines {
    async fn limit<F: IntoFuture>(&self, work: F) -> Result<F::Output, ProviderError> {
        let ClientOptions { idle, total, .. } = self.options;
        let (idle_at, total_at) = (moment(self.last_byte, idle), moment(self.started, total));
        let (kind, after) =
            if idle_at <= total_at { (TimeoutKind::Idle, idle) } else { (TimeoutKind::Total, total) };
        timeout_at(idle_at.min(total_at), work).await.map_err(|_| ProviderError::Timeout { kind, after })
    }
}

/// Returns a point in time. A duration that cannot be added to a clock is treated as a century.
fn moment(from: Instant, length: Duration) -> Instant {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3_600);
    from + length.min(CENTURY)
}

/// Reads the beginning of a body, as far as it arrives.
async fn read_some(mut response: reqwest::Response, clock: &Deadlines) -> Vec<u8> {
    let mut body = Vec::new();
    while body.len() < ERROR_BODY_LIMIT
        && let Ok(Ok(Some(bytes))) = clock.limit(response.chunk()).await
    {
        let room = ERROR_BODY_LIMIT - body.len();
        body.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
    body
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

fn network(endpoint: &Endpoint, error: reqwest::Error) -> ProviderError {
    let (is_builder, url) = (error.is_builder(), endpoint.shown_url());
    // The error's URL is the one that was sent, with a query that may contain a key.
    let error = error.without_url();
    if let Some(message) = tls::problem(&error) {
        return ProviderError::Tls { message: endpoint.strip_keys(&format!("{message} ({url})")) };
    }
    let output = causes(&error);
    let outer = error.to_string();
    let inner = output.strip_prefix(outer.as_str()).unwrap_or_default();
    let message = endpoint.strip_keys(&format!("{outer} for url ({url}){inner}"));
    // Retrying does not help if the URL is invalid.
    match is_builder {
        true => ProviderError::BadRequest { status: None, message },
        false => ProviderError::Network { message },
    }
}

/// Formats an error with its causes; the outermost one only says that something failed.
fn causes(error: &dyn std::error::Error) -> String {
    let mut output = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let text = inner.to_string();
        if !output.contains(&text) {
            output.push_str(": ");
            output.push_str(&text);
        }
        cause = inner.source();
    }
    output
}

#[cfg(test)]
mod tests {
    use super::{Client, ClientOptions};
    use crate::endpoint::{Endpoint, Wire};

    #[test]
    fn certificates_are_read_for_the_first_request_and_not_before() {
        let client = Client::new(
            Endpoint::new(Wire::Chat, "https://localhost:1/v1", None).unwrap(),
            ClientOptions::default(),
        )
        .unwrap();
        assert!(client.http.get().is_none());
        let clone = client.clone();
        clone.http().unwrap();
        assert!(client.http.get().is_some(), "a clone reads them for both");
    }
}

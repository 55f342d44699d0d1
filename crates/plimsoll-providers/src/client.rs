//! Sending a request and following its answer.

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

/// How long to wait and how often to try.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClientOptions {
    /// The longest time to connect.
    pub connect: Duration,
    /// The longest time without a byte, from the request on. A model on this machine may read a long prompt for
    /// minutes before it answers.
    pub idle: Duration,
    /// The longest time of one try, from the request to the end of the answer.
    pub total: Duration,
    /// The largest event, in bytes.
    pub event_limit: usize,
    /// Maximum size of an answer in bytes. An answer that is far longer than its request allows is cut off earlier.
    pub answer_limit: usize,
    /// When to send a request again.
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

/// A request is about to be sent again.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryNotice {
    /// Which retry, counted from one.
    pub retry: u32,
    /// How long until then.
    pub wait: Duration,
    /// Why.
    pub error: ProviderError,
}

/// Sends requests to one endpoint. Cloning it shares its connections.
#[derive(Clone, Debug)]
pub struct Client {
    /// Made for the first request: the certificates of the system are read for it, some 150 files. Of the models of a session
    /// most are never asked.
    http: Arc<OnceLock<reqwest::Client>>,
    endpoint: Endpoint,
    headers: HeaderMap,
    options: ClientOptions,
}

/// The body of an error that is read; the rest says no more.
const ERROR_BODY_LIMIT: usize = 64 << 10;

impl Client {
    /// A client of an endpoint.
    pub fn new(endpoint: Endpoint, options: ClientOptions) -> Result<Client, ProviderError> {
        let mut headers = HeaderMap::new();
        for (name, value) in endpoint.all_headers() {
            let bad = || ProviderError::BadRequest {
                status: None,
                message: format!("the value of header `{name}` holds characters that cannot be sent"),
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
        // The process may have chosen a provider of cryptography already; then that one is used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let made = reqwest::Client::builder()
            .connect_timeout(self.options.connect)
            // A redirect would send the conversation and a key to another host.
            .redirect(redirect::Policy::none())
            .user_agent(concat!("plimsoll/", env!("CARGO_PKG_VERSION")))
            .build();
        let failed = |error| ProviderError::Network { message: self.endpoint.strip_keys(&causes(&error)) };
        let made = made.map_err(failed)?;
        Ok(self.http.get_or_init(|| made))
    }

    /// Where the requests go.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Send a request; gives its answer as soon as the model has begun to say something, or why it has not.
    ///
    /// A request that fails before that is sent again as the [`RetryPolicy`] has it, and `on_retry` is told. Later
    /// failures come from [`AnswerStream::next`]: what was said already cannot be taken back. Dropping the future or
    /// the answer ends the request.
    pub async fn stream(
        &self,
        request: &Request,
        mut on_retry: impl FnMut(&RetryNotice),
    ) -> Result<AnswerStream, ProviderError> {
        let body = request.to_bytes();
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
                // Once may be a passing failure, and a third time would say no more. The question has its price, and the
                // servers that need it are run by people themselves.
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

    /// One try, up to the first content.
    async fn begin(&self, request: &Request, body: Vec<u8>) -> Result<AnswerStream, ProviderError> {
        let started = Instant::now();
        let clock = Clock { started, last_byte: started, options: self.options };
        let post = self.http()?.post(self.endpoint.url());
        let sending = post.headers(self.headers.clone()).body(body).send();
        let response = clock.limit(sending).await?.map_err(|error| network(&self.endpoint, error))?;
        let status = response.status().as_u16();
        if !response.status().is_success() {
            return Err(self.refusal(status, response, &clock).await);
        }
        let kind = header(response.headers(), "content-type").unwrap_or_default();
        // A page of a proxy or a whole JSON answer; a server that names no type is believed.
        if ["text/html", "application/json"].iter().any(|other| kind.starts_with(other)) {
            return Err(self.no_stream(kind, response, &clock).await);
        }
        let ClientOptions { event_limit, answer_limit, .. } = self.options;
        let decoder = Decoder::with_limits(request, event_limit, answer_limit);
        let endpoint = self.endpoint.clone();
        let clock = Clock { last_byte: Instant::now(), ..clock };
        let mut answer =
            AnswerStream { response, decoder, endpoint, clock, ready: VecDeque::new(), ended: false };
        while !answer.ready.iter().any(|event| !matches!(event, Ok(event) if !event.is_content())) {
            answer.fill().await;
        }
        // An error is reported here, so that it can be retried, only if nothing was said before it.
        let is_content = |event: &Result<AnswerEvent, _>| matches!(event, Ok(event) if event.is_content());
        match answer.ready.iter().find(|event| is_content(event) || event.is_err()) {
            Some(Err(error)) => Err(error.clone()),
            _ => Ok(answer),
        }
    }

    /// Why streams end before their first event, if it is because the request is too long.
    ///
    /// llama-cpp-python begins to stream, with status 200, before it looks at the length of the prompt: its overflow is a
    /// stream without events, or a connection that breaks off, as a passing failure is. Asked for a whole answer, the
    /// server tells. The answer is limited to one token, because it is not used; if it is no overflow, the stream is tried
    /// again as before.
    async fn hidden_overflow(&self, request: &Request) -> Option<ProviderError> {
        let mut body = request.to_json();
        let fields = body.as_object_mut()?;
        fields.remove("stream_options");
        fields.insert("stream".into(), false.into());
        let limit =
            if fields.contains_key("max_completion_tokens") { "max_completion_tokens" } else { "max_tokens" };
        fields.insert(limit.into(), 1.into());
        let started = Instant::now();
        let clock = Clock { started, last_byte: started, options: self.options };
        let mut sent = None;
        // The server closes the connection of the stream, which may be the one that the first try is sent on.
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

    async fn refusal(&self, status: u16, response: reqwest::Response, clock: &Clock) -> ProviderError {
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

    /// Gateways answer with a success and an error in its body.
    async fn no_stream(&self, kind: String, response: reqwest::Response, clock: &Clock) -> ProviderError {
        let body = read_some(response, clock).await;
        match serde_json::from_slice::<serde_json::Value>(&body) {
            Ok(value) if value.get("error").is_some_and(|error| !error.is_null()) => {
                Failure::of_value(None, &value).into()
            }
            _ => StreamFault::NotAStream { content_type: kind }.into(),
        }
    }
}

/// An answer as it streams.
///
/// Waiting in [`next`](AnswerStream::next) can be broken off and taken up again, as in `select!`, without losing
/// anything. Dropping it ends the request.
#[derive(Debug)]
pub struct AnswerStream {
    response: reqwest::Response,
    decoder: Decoder,
    endpoint: Endpoint,
    clock: Clock,
    ready: VecDeque<Result<AnswerEvent, ProviderError>>,
    ended: bool,
}

impl AnswerStream {
    /// The next event of the answer; `None` after its end. The last is [`AnswerEvent::Finished`] or an error.
    pub async fn next(&mut self) -> Option<Result<AnswerEvent, ProviderError>> {
        while self.ready.is_empty() && !self.ended {
            self.fill().await;
        }
        let event = self.ready.pop_front()?;
        Some(event.map_err(|error| error.map_text(|text| self.endpoint.strip_keys(text))))
    }

    /// Wait for more bytes and decode them.
    async fn fill(&mut self) {
        let chunk = self.clock.limit(self.response.chunk()).await;
        match chunk {
            Ok(Ok(Some(bytes))) => {
                self.clock.last_byte = Instant::now();
                self.ready.extend(self.decoder.push(&bytes));
                self.ended = self.decoder.is_over();
            }
            Ok(Ok(None)) => {
                self.ready.extend(self.decoder.finish());
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
}

/// The time-outs of one try. They are moments rather than lengths, so that waiting again does not prolong them.
#[derive(Clone, Copy, Debug)]
struct Clock {
    started: Instant,
    last_byte: Instant,
    options: ClientOptions,
}

impl Clock {
    async fn limit<F: IntoFuture>(&self, work: F) -> Result<F::Output, ProviderError> {
        let ClientOptions { idle, total, .. } = self.options;
        let (idle_at, total_at) = (moment(self.last_byte, idle), moment(self.started, total));
        let (kind, after) =
            if idle_at <= total_at { (TimeoutKind::Idle, idle) } else { (TimeoutKind::Total, total) };
        timeout_at(idle_at.min(total_at), work).await.map_err(|_| ProviderError::Timeout { kind, after })
    }
}

/// A moment; a length that no clock can show means never, which a century is.
fn moment(from: Instant, length: Duration) -> Instant {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3_600);
    from + length.min(CENTURY)
}

/// The beginning of a body, as far as it comes.
async fn read_some(mut response: reqwest::Response, clock: &Clock) -> Vec<u8> {
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
    // The address in the error is the one that was sent, with a query that may be a key.
    let error = error.without_url();
    if let Some(message) = tls::problem(&error) {
        return ProviderError::Tls { message: endpoint.strip_keys(&format!("{message} ({url})")) };
    }
    let told = causes(&error);
    let outer = error.to_string();
    let inner = told.strip_prefix(outer.as_str()).unwrap_or_default();
    let message = endpoint.strip_keys(&format!("{outer} for url ({url}){inner}"));
    // An address that is none does not become one by trying again.
    match is_builder {
        true => ProviderError::BadRequest { status: None, message },
        false => ProviderError::Network { message },
    }
}

/// An error with its causes; the outermost alone says only that something failed.
fn causes(error: &dyn std::error::Error) -> String {
    let mut told = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let text = inner.to_string();
        if !told.contains(&text) {
            told.push_str(": ");
            told.push_str(&text);
        }
        cause = inner.source();
    }
    told
}

//! HTTP transport of a remote server.
//!
//! The client of `rmcp` reads a JSON response into memory whatever its size. This one reads at most the maximum size of
//! a message, follows no redirect to another origin, and shows neither addresses nor keys in errors.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, BoxStream};
use futures_util::{Stream, StreamExt};
use plimsoll_providers::Secret;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Client, RequestBuilder, Response, StatusCode, redirect};
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::common::http_header::{
    EVENT_STREAM_MIME_TYPE, HEADER_LAST_EVENT_ID, HEADER_SESSION_ID, JSON_MIME_TYPE,
};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};

use super::stdio::LARGEST_MESSAGE;

/// Timeout for connecting.
const CONNECT: Duration = Duration::from_secs(10);
/// Maximum number of redirects, within one origin.
const MAX_REDIRECTS: usize = 5;
/// Maximum number of bytes read from an error's body.
const ERROR_BODY: usize = 64 << 10;

/// Sends messages to a remote server.
#[derive(Clone)]
pub(super) struct BoundedHttp(Client);

type HttpError = StreamableHttpError<reqwest::Error>;

impl BoundedHttp {
    pub(super) fn new() -> Result<BoundedHttp, String> {
        // The process may have installed a crypto provider already, which is then used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let same_origin = redirect::Policy::custom(|attempt| {
            let from = attempt.previous().first().map(|url| url.origin());
            // Other redirects would drop the message's body; another origin would receive the headers.
            let keeps_message =
                [StatusCode::TEMPORARY_REDIRECT, StatusCode::PERMANENT_REDIRECT].contains(&attempt.status());
            let is_same = from == Some(attempt.url().origin());
            match keeps_message && is_same && attempt.previous().len() <= MAX_REDIRECTS {
                true => attempt.follow(),
                false => attempt.stop(),
            }
        });
        let client = Client::builder()
            .connect_timeout(CONNECT)
            .redirect(same_origin)
            .user_agent(concat!("plimsoll/", env!("CARGO_PKG_VERSION")))
            .build();
        client.map(BoundedHttp).map_err(|error| error.without_url().to_string())
    }

    async fn send(
        &self,
        request: RequestBuilder,
        session: Option<&str>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<Response, HttpError> {
        let mut request = request;
        for (name, value) in headers {
            request = request.header(name, value);
        }
        if let Some(session) = session {
            request = request.header(HEADER_SESSION_ID, session);
        }
        request.send().await.map_err(failed)
    }
}

/// Returns the configured headers.
pub(super) fn headers_of(headers: &[(String, Secret)]) -> Result<HashMap<HeaderName, HeaderValue>, String> {
    let mut all = HashMap::new();
    for (name, value) in headers {
        let bad = || format!("its header `{name}` cannot be sent");
        let reserved = [ACCEPT.as_str(), "mcp-session-id", "last-event-id"];
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
        let mut value = HeaderValue::from_str(value.expose()).map_err(|_| bad())?;
        value.set_sensitive(true);
        if reserved.contains(&key.as_str()) {
            return Err(format!("its header `{name}` is one that the protocol sets itself"));
        }
        all.insert(key, value);
    }
    Ok(all)
}

impl StreamableHttpClient for BoundedHttp {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let accepted = [EVENT_STREAM_MIME_TYPE, JSON_MIME_TYPE].join(", ");
        let request = self.0.post(uri.as_ref()).header(ACCEPT, accepted).json(&message);
        let response = self.send(request, session.as_deref(), headers).await?;
        let status = response.status();
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && session.is_some() {
            return Err(StreamableHttpError::SessionExpired);
        }
        let kind = content_type(&response);
        let given = response.headers().get(HEADER_SESSION_ID);
        let given = given.and_then(|id| id.to_str().ok()).map(str::to_owned);
        let awaits_answer = matches!(message, JsonRpcMessage::Request(_));
        if !status.is_success() {
            let body = read(response, ERROR_BODY).await.unwrap_or_default();
            // A protocol error is more specific than the status. Errors of a gateway before the server are not protocol
            // errors.
            let is_gate = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
            return match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
                Ok(error @ JsonRpcMessage::Error(_)) if !is_gate => {
                    Ok(StreamableHttpPostResponse::Json(error, given))
                }
                _ => Err(refused(status)),
            };
        }
        if kind.starts_with(EVENT_STREAM_MIME_TYPE) {
            return Ok(StreamableHttpPostResponse::Sse(events(response), given));
        }
        if !awaits_answer {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if !kind.starts_with(JSON_MIME_TYPE) {
            return Err(StreamableHttpError::UnexpectedContentType(Some(kind)));
        }
        let body = read(response, LARGEST_MESSAGE).await?;
        let message = serde_json::from_slice(&body).map_err(|error| {
            StreamableHttpError::UnexpectedServerResponse(Cow::Owned(format!("no message: {error}")))
        })?;
        Ok(StreamableHttpPostResponse::Json(message, given))
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), HttpError> {
        let response = self.send(self.0.delete(uri.as_ref()), Some(&session), headers).await?;
        match response.status() {
            StatusCode::METHOD_NOT_ALLOWED => Ok(()),
            status if status.is_success() => Ok(()),
            status => Err(refused(status)),
        }
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, HttpError> {
        let mut request = self.0.get(uri.as_ref()).header(ACCEPT, EVENT_STREAM_MIME_TYPE);
        if let Some(last_event) = last_event {
            request = request.header(HEADER_LAST_EVENT_ID, last_event);
        }
        let response = self.send(request, session.as_deref(), headers).await?;
        match response.status() {
            StatusCode::METHOD_NOT_ALLOWED => return Err(StreamableHttpError::ServerDoesNotSupportSse),
            status if !status.is_success() => return Err(refused(status)),
            _ => {}
        }
        let kind = content_type(&response);
        if !kind.starts_with(EVENT_STREAM_MIME_TYPE) {
            return Err(StreamableHttpError::UnexpectedContentType(Some(kind)));
        }
        Ok(events(response))
    }
}

/// Converts an error. Its address is left out, because it may contain a key.
fn failed(error: reqwest::Error) -> HttpError {
    StreamableHttpError::Client(error.without_url())
}

fn refused(status: StatusCode) -> HttpError {
    StreamableHttpError::UnexpectedServerResponse(Cow::Owned(format!("HTTP {status}")))
}

fn too_large() -> std::io::Error {
    std::io::Error::other(format!("it sent a message of more than {} MB", LARGEST_MESSAGE >> 20))
}

fn content_type(response: &Response) -> String {
    let kind = response.headers().get(CONTENT_TYPE);
    kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default().to_ascii_lowercase()
}

/// Reads a body of at most this many bytes.
async fn read(mut response: Response, most: usize) -> Result<Vec<u8>, HttpError> {
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(failed)? {
        if body.len() + piece.len() > most {
            return Err(too_large().into());
        }
        body.extend_from_slice(&piece);
    }
    Ok(body)
}

/// Returns the events of a body, each at most as large as a message.
fn events(response: Response) -> BoxStream<'static, Result<Sse, SseError>> {
    let pieces = response
        .bytes_stream()
        .map(|piece| piece.map_err(|error| std::io::Error::other(error.without_url())));
    SseStream::from_bytes_stream(bounded(pieces)).boxed()
}

/// Returns the chunks of an event stream, up to an event that is too large.
fn bounded<B>(
    pieces: impl Stream<Item = std::io::Result<B>> + Send + 'static,
) -> impl Stream<Item = std::io::Result<B>> + Send + 'static
where
    B: AsRef<[u8]> + Send + 'static,
{
    let start = (pieces.boxed(), Some(EventSize::default()));
    stream::unfold(start, |(mut pieces, size)| async move {
        let mut size = size?;
        let piece = match pieces.next().await? {
            Ok(piece) => piece,
            Err(error) => return Some((Err(error), (pieces, None))),
        };
        match size.add(piece.as_ref()) <= LARGEST_MESSAGE {
            true => Some((Ok(piece), (pieces, Some(size)))),
            false => Some((Err(too_large()), (pieces, None))),
        }
    })
}

/// Counts the bytes since the last empty line, which ends an event.
#[derive(Default)]
struct EventSize {
    bytes: usize,
    line: usize,
    after_return: bool,
}

impl EventSize {
    /// Returns the largest size that the event has within the chunk.
    fn add(&mut self, piece: &[u8]) -> usize {
        let mut largest = self.bytes;
        for byte in piece {
            let is_second_half = *byte == b'\n' && self.after_return;
            self.after_return = *byte == b'\r';
            if is_second_half {
                continue;
            }
            self.bytes += 1;
            largest = largest.max(self.bytes);
            if !matches!(byte, b'\n' | b'\r') {
                self.line += 1;
            } else {
                if self.line == 0 {
                    self.bytes = 0;
                }
                self.line = 0;
            }
        }
        largest
    }
}

#[cfg(test)]
mod tests {
    use super::EventSize;

    #[test]
    fn an_event_is_counted_until_its_empty_line_whatever_ends_its_lines() {
        for end in ["\n", "\r", "\r\n"] {
            let mut size = EventSize::default();
            let event = format!("data: abc{end}data: d{end}{end}");
            assert_eq!(size.add(event.as_bytes()), 19, "{end:?}");
            assert_eq!(size.bytes, 0, "{end:?}");
            // The result must not depend on the chunks.
            let largest = event.as_bytes().chunks(1).map(|byte| size.add(byte)).max();
            assert_eq!((largest, size.bytes), (Some(19), 0), "{end:?}");
        }
        let mut endless = EventSize::default();
        let sizes: Vec<usize> = (0..100).map(|_| endless.add(b"data: abc\r\n")).collect();
        assert!(sizes.windows(2).all(|pair| pair[0] < pair[1]), "{sizes:?}");
    }
}

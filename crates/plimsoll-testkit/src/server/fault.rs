//! Faults that can be injected.

use plimsoll_providers::Wire;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::overflow::OverflowShape;
use super::render::CREATED;

/// A fault of an answer. Events are counted from zero. A fault after the last event happens before it, so that the
/// closing event is never sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// An HTTP status instead of a stream.
    Status {
        /// The status.
        status: u16,
        /// Additional headers, such as `retry-after`.
        #[serde(default)]
        headers: Vec<(String, String)>,
        /// The body. Defaults to the provider's own for this status.
        #[serde(default)]
        body: Option<Value>,
    },
    /// A provider's context overflow error, instead of a stream.
    Overflow {
        /// The provider. Defaults to that of the wire format.
        #[serde(default)]
        shape: Option<OverflowShape>,
        /// The window in the error.
        window: u64,
    },
    /// The connection is closed without an answer.
    HangUp,
    /// No answer is ever sent, and the connection stays open.
    NoAnswer,
    /// An HTML page of a proxy with status 200, instead of a stream.
    NotAStream,
    /// An error event in the stream, which ends it.
    ErrorEvent {
        /// Number of events that are sent before the connection breaks.
        after: usize,
        /// The reported error.
        error: StreamError,
    },
    /// The connection is broken in the middle of the stream.
    Cut {
        /// Number of events before it.
        after: usize,
    },
    /// The stream ends normally, but without its closing event.
    EndEarly {
        /// Number of events before it.
        after: usize,
    },
    /// No more bytes are sent, and the connection stays open.
    Silence {
        /// Number of events before it.
        after: usize,
    },
    /// The stream is sent in small pieces.
    SlowBytes {
        /// Number of bytes in a piece.
        bytes: usize,
        /// Wait before each piece.
        pause_ms: u64,
    },
    /// An event is cut in its middle, so that it is not valid JSON.
    BrokenJson {
        /// The event.
        at: usize,
    },
    /// An additional event of a given size.
    HugeEvent {
        /// Position of the event.
        at: usize,
        /// Size of the event.
        bytes: usize,
    },
}

/// Error reported by an error event in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamError {
    /// The provider is overloaded.
    Overloaded,
    /// Internal error of the provider.
    Server,
    /// Rate limit exceeded.
    RateLimit,
    /// The request is larger than the window.
    Overflow,
}

impl Fault {
    /// Creates an HTTP status with the provider's own body for it.
    pub fn status(status: u16) -> Fault {
        Fault::Status { status, headers: Vec::new(), body: None }
    }

    /// Creates status 429 with a `retry-after` header.
    pub fn rate_limited(retry_after_seconds: u64) -> Fault {
        let headers = vec![("retry-after".to_owned(), retry_after_seconds.to_string())];
        Fault::Status { status: 429, headers, body: None }
    }

    /// Creates the context overflow error of the wire format's own provider.
    pub fn overflow(window: u64) -> Fault {
        Fault::Overflow { shape: None, window }
    }
}

/// The body with which a provider reports an error.
pub(crate) fn error_body(wire: Wire, status: u16, message: Option<&str>) -> Value {
    let (anthropic, openai, code, words) = match status {
        400 | 422 => ("invalid_request_error", "invalid_request_error", None, "The request is not valid."),
        401 => {
            ("authentication_error", "invalid_request_error", Some("invalid_api_key"), "Incorrect API key.")
        }
        402 => ("billing_error", "insufficient_quota", Some("insufficient_quota"), "No credit is left."),
        403 => ("permission_error", "invalid_request_error", None, "Not allowed."),
        404 => {
            ("not_found_error", "invalid_request_error", Some("model_not_found"), "The model does not exist.")
        }
        413 => {
            ("request_too_large", "invalid_request_error", None, "Request exceeds the maximum allowed size.")
        }
        429 => (
            "rate_limit_error",
            "requests",
            Some("rate_limit_exceeded"),
            "Rate limit reached. Please try again later.",
        ),
        503 | 529 => ("overloaded_error", "server_error", None, "Overloaded"),
        _ => ("api_error", "server_error", None, "Internal server error"),
    };
    let message = message.unwrap_or(words);
    match wire {
        Wire::Anthropic => {
            json!({ "type": "error", "error": { "type": anthropic, "message": message }, "request_id": "req_test" })
        }
        Wire::Chat | Wire::Responses => {
            json!({ "error": { "message": message, "type": openai, "param": null, "code": code } })
        }
    }
}

/// The data of an error event; `sequence` is its number in a stream of the Responses API.
pub(crate) fn error_event(wire: Wire, error: StreamError, model: &str, sequence: usize) -> Value {
    let (anthropic, code, message) = match error {
        StreamError::Overloaded => ("overloaded_error", "overloaded", "Overloaded"),
        StreamError::Server => ("api_error", "server_error", "The server had an error."),
        StreamError::RateLimit => ("rate_limit_error", "rate_limit_exceeded", "Rate limit reached."),
        StreamError::Overflow => (
            "invalid_request_error",
            "context_length_exceeded",
            "Your input exceeds the context window of this model. Please adjust your input and try again.",
        ),
    };
    match wire {
        Wire::Anthropic => json!({ "type": "error", "error": { "type": anthropic, "message": message } }),
        Wire::Chat => {
            json!({ "error": { "message": message, "type": "server_error", "param": null, "code": code } })
        }
        Wire::Responses => {
            let mut response = bare_response(model, "failed");
            response["error"] = json!({ "code": code, "message": message });
            json!({ "type": "response.failed", "sequence_number": sequence, "response": response })
        }
    }
}

/// The events with which the Responses API rejects a request after starting the stream.
pub(crate) fn refusal_in_stream(model: &str, error: StreamError) -> [Value; 2] {
    let begun = bare_response(model, "in_progress");
    [
        json!({ "type": "response.created", "sequence_number": 0, "response": begun }),
        error_event(Wire::Responses, error, model, 1),
    ]
}

fn bare_response(model: &str, status: &str) -> Value {
    json!({
        "id": "resp_failed",
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "model": model,
        "output": [],
        "error": null,
        "incomplete_details": null,
        "instructions": null,
        "metadata": {},
        "parallel_tool_calls": true,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": null,
    })
}

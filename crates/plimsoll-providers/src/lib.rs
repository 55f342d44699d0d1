//! # Model providers for Plimsoll
//!
//! The wire formats of Anthropic Messages, OpenAI Chat Completions and OpenAI Responses, typed both ways: a client
//! builds requests and decodes streams with them, and a test server or a proxy does the reverse.
//!
//! | to … | go to |
//! |---|---|
//! | read or write a provider's JSON | [`anthropic::wire`], [`chat::wire`], [`responses::wire`] |
//! | turn a [`plimsoll::Window`] into a request | [`Prompt`], [`Request`] |
//! | turn the bytes of a stream into events | [`Decoder`], [`AnswerEvent`] |
//! | classify an error | [`ProviderError`] |
//! | send a request and follow its answer | [`Client`], [`AnswerStream`] |
//! | choose the endpoint | [`ModelRef`], [`Endpoint`] |
//!
//! The crate knows nothing about sessions, agents or configuration files. It reads no environment variables, except that the
//! HTTP library reads the proxy variables.
//!
//! ```
//! use plimsoll::{Message, Policy, Window};
//! use plimsoll_providers::{Decoder, Prompt, Request, RequestOptions, AnswerEvent, Wire};
//!
//! let log = [Message::user("msg_1".into(), "prt_1".into(), "hello")];
//! let window = Window::of(&log, &Policy::default());
//! let options = RequestOptions::default();
//! let prompt = Prompt::new("anthropic", "claude-sonnet-4-6", &window, &options);
//! let request = Request::build(Wire::Anthropic, &prompt)?;
//! assert_eq!(request.to_json()["messages"][0]["content"][0]["text"], "hello");
//!
//! // The answer, in whatever pieces it comes.
//! let mut decoder = Decoder::new(&request);
//! let mut events = decoder.push(
//!     br#"data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}
//!
//! data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}
//!
//! data: {"type":"content_block_stop","index":0}
//!
//! data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}}
//!
//! data: {"type":"message_stop"}
//!
//! "#,
//! );
//! assert_eq!(events.remove(0)?, AnswerEvent::Text("Hi".into()));
//! assert!(decoder.finish().is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod anthropic;
pub mod chat;
mod client;
mod decode;
mod decoding;
mod endpoint;
mod error;
mod lanes;
mod lenient;
mod names;
mod prompt;
mod request;
pub mod responses;
mod retry;
mod secret;
pub mod sse;
mod tls;
mod usage;

pub use client::{AnswerStream, Client, ClientOptions, RetryNotice};
pub use decode::Decoder;
pub use endpoint::{Endpoint, EndpointError, ModelRef, Wire};
pub use error::{ProviderError, StreamFault, TimeoutKind};
pub use names::ToolNames;
pub use plimsoll::AnswerEvent;
pub use prompt::{
    BuildError, CacheTtl, CallIds, MaxTokensField, Prompt, RequestOptions, Thinking, ToolChoice, ToolSpec,
    WordlessContent,
};
pub use request::{Body, Request};
pub use retry::RetryPolicy;
pub use secret::Secret;

/// Unknown fields, kept unchanged.
pub type Extra = serde_json::Map<String, serde_json::Value>;

#![doc = include_str!("../README.md")]

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

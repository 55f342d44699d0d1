//! OpenAI's Responses API.

mod build;
mod decode;
pub mod wire;

pub(crate) use build::build;
pub(crate) use decode::ResponsesDecoder;

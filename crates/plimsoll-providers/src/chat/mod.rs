//! OpenAI's Chat Completions, and what the many servers that speak it add.

mod build;
mod decode;
pub mod wire;

pub(crate) use build::build;
pub(crate) use decode::ChatDecoder;

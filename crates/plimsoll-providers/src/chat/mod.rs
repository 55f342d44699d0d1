//! OpenAI's Chat Completions, and the extensions of the many servers that speak it.

mod build;
mod decode;
pub mod wire;

pub(crate) use build::build;
pub(crate) use decode::ChatDecoder;

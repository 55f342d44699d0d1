#![doc = include_str!("../README.md")]

mod accept;
mod access;
mod app;
mod body;
mod error;
mod extract;
mod metrics;
mod options;
mod page;
mod routes;
mod scope;
mod server;
mod stall;

pub use metrics::Metrics;
pub use options::{DEFAULT_PORT, ServerError, ServerOptions, USER};
pub use server::Server;

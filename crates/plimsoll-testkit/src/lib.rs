#![doc = include_str!("../README.md")]

mod biller;
mod generate;
mod history;
#[cfg(feature = "server")]
pub mod server;
#[cfg(unix)]
mod user;

pub use biller::{BilledBlock, Biller, BillingRule};
pub use generate::{HistoryStep, histories, odd_text, renamed};
pub use history::{History, ids};
#[cfg(unix)]
pub use user::also_as_user;

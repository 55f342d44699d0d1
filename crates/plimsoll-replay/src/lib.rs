#![doc = include_str!("../README.md")]

mod billing;
mod price;
mod recording;
mod report;
mod request;
mod rules;
mod run;
mod simulator;

pub use billing::{ReplayParams, guess_window, rebuilt_at_most};
pub use price::{Billed, DEFAULT_ROW, Price, PriceRow, Prices};
pub use recording::Recording;
pub use report::{
    AgainstNone, AgainstRecorded, CostParts, Fired, Medians, Reduction, References, Report, Sent, Share,
    compare_with_none,
};
pub use rules::{ClearTrigger, DEFAULTS, Rules};
pub use run::totals;

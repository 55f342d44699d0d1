//! Results of runs and reverts, as events and callers get them.

mod revert;
mod run;

pub use revert::{RevertAction, RevertReport, RevertedFile, RevertedTask, UncoveredCall};
pub use run::{RunEnd, RunReport, Stop};

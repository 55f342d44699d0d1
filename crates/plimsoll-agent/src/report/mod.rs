//! Results of runs and reverts.

mod revert;
mod run;

pub use revert::{RevertAction, RevertReport, RevertedFile, RevertedTask, UncoveredCall};
pub use run::{RunEnd, RunReport, StopReason};

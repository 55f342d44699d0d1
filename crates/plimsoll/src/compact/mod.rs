//! Layer 3: a summary replaces older messages.
//!
//! - `select` divides the window into the messages to summarise and the tail that stays.
//! - `request` builds summary requests that fit the summariser's window, in chunks if necessary.
//! - `accept` decides whether an answer may become a pivot.
//! - `extract` makes a summary of the [`facts`](crate::facts) of a history, without a model.
//! - `contract` checks each summary for required content and appends what is missing.
//! - `range` replaces messages anywhere in the window with a summary.
//! - `watch` detects that a growing window needs no reduction yet, without reading all of it again.
//! - `ladder` runs all of them, and pruning and shedding, until the window is under the line.

mod accept;
mod context;
mod contract;
mod extract;
mod index;
mod invented;
mod ladder;
mod outcome;
mod prompt;
mod range;
mod request;
mod select;
mod shed;
mod watch;

pub use crate::log::{ContractFate, ContractItem, ContractKind};
pub use crate::plan::Rejection;
pub use accept::{Bounds, Reply, accept};
pub use context::{Breaker, CompactionContext, Trigger};
pub use contract::{CONTRACT_HEADING, ContractTerms, complete_summary};
pub use extract::{extract, extract_before};
pub use ladder::{Ladder, Step};
pub use outcome::{FitResult, Outcome, OverflowBreakdown};
pub use range::{RangeError, RangeSelection, select_range};
pub use request::{
    HookText, Measured, Summariser, SummaryForm, SummaryJob, SummaryRequest, TooSmall, appended_request,
};
pub use select::{Room, Selection, select};
pub use watch::{Growth, Watch};

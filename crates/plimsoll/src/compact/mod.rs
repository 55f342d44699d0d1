//! Layer 3: a summary takes the place of older messages.
//!
//! - [`select`] decides what is summarised and what stays as tail.
//! - [`request`] builds what the summariser is asked, budgeted to its own window, in chunks where needed.
//! - [`accept`] decides whether an answer may become a pivot.
//! - [`extract`] makes a summary without a model.
//! - [`ladder`] drives all of it, and pruning and shedding, until the window is under the line.

pub mod accept;
pub mod extract;
pub mod ladder;
mod outcome;
mod prompt;
pub mod request;
pub mod select;
mod shed;
mod situation;

//! Layer 3: a summary takes the place of older messages.
//!
//! - [`select`] decides what is summarised and what stays as tail.
//! - [`request`] builds what the summariser is asked, budgeted to its own window, in chunks where needed.
//! - [`accept`] decides whether an answer may become a pivot.
//! - [`facts`] gathers what a history says, and [`extract`] makes a summary of it without a model.
//! - [`contract`] checks what a summary must carry, and completes it.
//! - [`range`] puts a summary in the place of messages anywhere in the window.
//! - [`watch`] tells that a window which only grows needs none of this yet, without reading it again.
//! - [`ladder`] drives all of it, and pruning and shedding, until the window is under the line.

pub mod accept;
pub mod contract;
pub mod extract;
pub mod facts;
pub mod index;
mod invented;
pub mod ladder;
mod outcome;
mod prompt;
mod prose;
pub mod range;
pub mod request;
pub mod select;
mod shed;
mod situation;
pub mod watch;

//! # Token counters for Plimsoll
//!
//! The engine plans with any [`plimsoll::Counter`]. This crate has three, from the cheapest to the truest:
//!
//! | counter | knows | costs |
//! |---|---|---|
//! | [`CharCounter`] | lengths: characters over four | nothing |
//! | [`Bpe`] | OpenAI's vocabularies, exactly | reading the text once |
//! | [`Calibrated`] | what this model's provider really charged so far | the same, and a multiplication |
//!
//! The last is made from a [`Calibration`], which learns from the usage that comes with every response and says
//! how sure it is:
//!
//! ```
//! use plimsoll::{Counter, Memo, Tokens};
//! use plimsoll_tokens::{Bpe, Calibration, Measure};
//!
//! let base = Memo::new(Bpe::O200k);
//! let mut calibration = Calibration::new("claude-sonnet-4-6");
//!
//! // Ten requests, each 1,000 tokens of o200k longer than the one before. The model has its own vocabulary and
//! // charges 1,300 for them, and the tool sends 18,000 tokens of instructions that nobody sees.
//! let mut sent = Measure::new(Tokens(200), 1);
//! for turn in 0..10 {
//!     calibration.observe(sent, Tokens(18_000 + 260 + 1_300 * turn));
//!     sent = sent + Measure::new(Tokens(1_000), 1);
//! }
//! assert!((17_000.0..19_000.0).contains(&calibration.constant()));
//!
//! // What will the next one cost, if it is longer by a file of 10,000?
//! let next = calibration.since(Measure::new(Tokens(10_000), 1));
//! let last = 18_000 + 260 + 1_300 * 9;
//! assert!(next.low < Tokens(last + 13_000) && Tokens(last + 13_000) < next.high);
//!
//! // The engine takes what was learned as a counter.
//! let counter = calibration.counter(&base);
//! assert!(counter.count("one two three four five six seven eight nine ten") > Tokens(11));
//! ```
//!
//! What is known of models before the first request (limits, prices, cache rules) is in [`ModelTable`].
//!
//! Nothing here does I/O or asks a provider. A [`Calibration`] is a value; its owner stores it (it is
//! [`serde::Serialize`]), one for each model.

mod bpe;
mod calibrate;
mod counter;
mod fit;
mod measure;
mod measured;
mod models;
mod shown;

pub use bpe::Bpe;
pub use calibrate::{Calibration, Estimate, Observed};
pub use counter::Calibrated;
pub use measure::Measure;
pub use measured::{FIRST_RESPONSES, Measured, WindowMeter, records_usage};
pub use models::{CacheRule, KnownFacts, LongPromptPrice, ModelFacts, ModelOverride, ModelPrice, ModelTable};
pub use plimsoll::{CharCounter, Rounding};

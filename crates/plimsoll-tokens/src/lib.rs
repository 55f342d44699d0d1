#![doc = include_str!("../README.md")]

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
pub use measured::{FIRST_RESPONSES, Measured, MeterCheckpoint, WindowMeter, records_usage};
pub use models::{CacheRule, KnownFacts, LongPromptPrice, ModelFacts, ModelOverride, ModelPrice, ModelTable};
pub use plimsoll::{CharCounter, Rounding};

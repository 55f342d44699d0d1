//! The weight of a session, with what a list shows of it.

use plimsoll::Tokens;
use plimsoll_formats::Recorded;
use serde::{Deserialize, Serialize};

/// A session, weighed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Weighed {
    /// How many messages it has.
    pub messages: usize,
    /// What is in the window now.
    pub window: Tokens,
    /// Whether recorded usage tells so, rather than characters.
    pub is_measured: bool,
    /// What people call it, or the first words of it.
    pub title: String,
    /// The model, the last one if it changed.
    pub model: Option<String>,
    /// When it began, in milliseconds since 1970.
    pub started: Option<u64>,
    /// What its providers counted.
    pub recorded: Recorded,
}

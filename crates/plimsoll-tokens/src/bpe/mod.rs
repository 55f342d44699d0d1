//! Exact byte-pair counts.
//!
//! OpenAI's two current vocabularies, with the counts of `tiktoken` and of the crate `bpe-openai` (the tests compare)
//! for ordinary text. Special tokens such as `<|endoftext|>` are counted as the characters they are written with: what
//! an agent sends is text, and the API does not let text become a control token either.
//!
//! A text is cut into pieces ([`split`]). A piece that is a token counts as one; in any other, pairs of bytes are
//! merged ([`merge`]). Both only need tables that are used in place ([`vocabulary`], [`classes`]), so the first count
//! of a process costs as much as any other.
//!
//! This module never approximates. Tool output is often hostile by accident (a megabyte of spaces, a minified file in
//! one line), and none of it makes counting quadratic. The bench `counting` has such inputs.

mod classes;
mod hash;
mod merge;
mod split;
#[cfg(test)]
mod tests;
mod vocabulary;

use std::cell::Cell;

use merge::Merger;
use plimsoll::{Counter, Tokens};
use serde::{Deserialize, Serialize};
use split::{Pattern, Pieces};

use crate::fit::FACTOR;

/// A counter that encodes the text and counts the tokens.
///
/// Counting reads the whole text, so wrap it in [`plimsoll::Memo`] if texts are counted repeatedly.
///
/// ```
/// use plimsoll::{Counter, Tokens};
/// use plimsoll_tokens::Bpe;
/// assert_eq!(Bpe::O200k.count("hello world"), Tokens(2));
/// assert_eq!(Bpe::Cl100k.count(&" ".repeat(1_000_000)), Tokens(7_813));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Bpe {
    /// Vocabulary of GPT-4o, GPT-4.1, GPT-5 and the o-series: the base that [`crate::Calibration`] scales.
    #[default]
    O200k,
    /// Vocabulary of GPT-4, GPT-4 Turbo and GPT-3.5.
    Cl100k,
}

thread_local! {
    static COUNTED: Cell<u64> = const { Cell::new(0) };
}

impl Bpe {
    /// Number of bytes that this thread has counted, for tests that nothing is counted twice.
    pub fn bytes_counted() -> u64 {
        COUNTED.with(Cell::get)
    }

    /// The vocabulary of an OpenAI model. An unknown model gets the current one, which the calibration starts from.
    ///
    /// ```
    /// use plimsoll_tokens::Bpe;
    /// assert_eq!(Bpe::for_model("openai/gpt-4-turbo"), Bpe::Cl100k);
    /// assert_eq!(Bpe::for_model("gpt-4o-mini"), Bpe::O200k);
    /// ```
    pub fn for_model(model: &str) -> Bpe {
        let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
        let older = name == "gpt-4" || name.starts_with("gpt-4-") || name.starts_with("gpt-3.5");
        if older { Bpe::Cl100k } else { Bpe::O200k }
    }
}

impl Counter for Bpe {
    fn name(&self) -> &'static str {
        match self {
            Bpe::O200k => "o200k",
            Bpe::Cl100k => "cl100k",
        }
    }

    fn count(&self, text: &str) -> Tokens {
        let (pattern, vocabulary) = match self {
            Bpe::O200k => (Pattern::O200k, &vocabulary::O200K),
            Bpe::Cl100k => (Pattern::Cl100k, &vocabulary::CL100K),
        };
        COUNTED.with(|counted| counted.set(counted.get() + text.len() as u64));
        let mut merger = Merger::new(vocabulary);
        let tokens: usize = Pieces::new(pattern, text).map(|piece| merger.count(piece.as_bytes())).sum();
        Tokens(tokens as u64)
    }

    fn least_share(&self) -> Option<f64> {
        Some(*FACTOR.start())
    }
}

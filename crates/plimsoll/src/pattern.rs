//! Searches whose work is counted, see [`crate::work`]. What the libraries do inside cannot be counted, so their worst case is.
//! `clippy.toml` keeps the libraries out of the rest of the engine.

#![allow(clippy::disallowed_types)]

use aho_corasick::{AhoCorasick, packed};
use regex::{Captures, Match};

use crate::work;

/// A regular expression.
///
/// A search for one match reads a text at most once. A search for all matches restarts after each, and in the worst
/// case each reads to the end of the text to find out where the match ends: `a+b|a` does so on a row of `a`. Whether a
/// pattern is such a case is hard to see. All matches are therefore searched in texts of bounded length only, such as a
/// sentence or the beginning of an output, or their number is limited.
#[derive(Clone, Debug)]
pub(crate) struct Regex(regex::Regex);

impl Regex {
    pub(crate) fn new(pattern: &str) -> Result<Regex, regex::Error> {
        regex::Regex::new(pattern).map(Regex)
    }

    pub(crate) fn is_match(&self, text: &str) -> bool {
        self.0.is_match(work::read(text))
    }

    pub(crate) fn find<'t>(&self, text: &'t str) -> Option<Match<'t>> {
        self.0.find(work::read(text))
    }

    pub(crate) fn captures<'t>(&self, text: &'t str) -> Option<Captures<'t>> {
        self.0.captures(work::read(text))
    }

    pub(crate) fn find_iter<'t>(&self, text: &'t str) -> impl Iterator<Item = Match<'t>> {
        self.0.find_iter(work::read(text)).inspect(|found| _ = work::read(&text[found.end()..]))
    }

    pub(crate) fn captures_iter<'t>(&self, text: &'t str) -> impl Iterator<Item = Captures<'t>> {
        let end = |found: &Captures<'t>| found.get(0).map_or(0, |all| all.end());
        self.0.captures_iter(work::read(text)).inspect(move |found| _ = work::read(&text[end(found)..]))
    }
}

/// Looks for any of a few words. The vectorised search is some twenty times as fast as the automaton, but takes
/// only a few words and not every machine has it.
pub(crate) enum Words {
    Packed(packed::Searcher),
    Automaton(AhoCorasick),
    None,
}

impl Words {
    /// Words should be short: an automaton over one of 20,000 zeros takes minutes to build.
    pub(crate) fn new<W: AsRef<str>>(words: &[W]) -> Words {
        let longest = words.iter().map(|word| word.as_ref().len()).max().unwrap_or_default();
        words.iter().for_each(|word| work::count(word.as_ref().len() * longest));
        let words = || words.iter().map(AsRef::as_ref);
        if let Some(packed) = packed::Searcher::new(words()) {
            return Words::Packed(packed);
        }
        AhoCorasick::new(words()).map_or(Words::None, Words::Automaton)
    }

    pub(crate) fn any_in(&self, text: &str) -> bool {
        match self {
            Words::Packed(packed) => packed.find(work::read(text)).is_some(),
            Words::Automaton(automaton) => automaton.is_match(work::read(text)),
            Words::None => false,
        }
    }
}

//! Byte-pair merging: the number of tokens of one piece.
//!
//! The pair of neighbours with the lowest rank is merged first, the leftmost of equals, until no pair is a token. A
//! heap of candidates makes that O(n log n). Candidates are not removed when a neighbour changes; they are recognised
//! as stale when they come up.
//!
//! A piece can be very long: a megabyte of spaces is one. It is merged a window at a time, so that memory does not
//! follow its length. That is exact because of a property of byte-pair encodings: a sequence of tokens is the encoding
//! of its bytes if and only if each two neighbours are the encoding of theirs. So the encoding of a prefix is continued
//! by encoding its last tokens again together with the next window, and the result is right if the tokens on both sides
//! of the seam are the encoding of their bytes. If they are not, more of the prefix is encoded again.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::vocabulary::{Token, Vocabulary};

/// Number of bytes that are merged at a time.
const WINDOW: usize = 16 * 1024;

/// Number of tokens before a window that are encoded again with it at first.
const OVERLAP: usize = 8;

/// Merges pieces with a vocabulary. Its buffers are reused.
pub(super) struct Merger {
    vocabulary: &'static Vocabulary,
    /// For each byte, the length of the token that starts there, or zero inside of a token.
    lengths: Vec<u8>,
    /// For the first byte of each token, the length of the previous token.
    before: Vec<u8>,
    candidates: BinaryHeap<Reverse<Candidate>>,
}

/// Two neighbours that form a token: the token, and where the first one starts. In the order of merging.
type Candidate = (Token, u32);

impl Merger {
    pub(super) fn new(vocabulary: &'static Vocabulary) -> Merger {
        Merger { vocabulary, lengths: Vec::new(), before: Vec::new(), candidates: BinaryHeap::new() }
    }

    /// Returns the number of tokens of a piece.
    pub(super) fn count(&mut self, piece: &[u8]) -> usize {
        if piece.len() < 2 || self.vocabulary.find(piece).is_some() {
            return piece.len().min(1);
        }
        if piece.len() <= WINDOW { self.merge(piece) } else { self.count_long(piece) }
    }

    /// Merges the pairs of at most 4 GB. Returns the number of tokens; `lengths` has their lengths.
    fn merge(&mut self, bytes: &[u8]) -> usize {
        self.lengths.clear();
        self.lengths.resize(bytes.len(), 1);
        self.before.clear();
        self.before.resize(bytes.len(), 1);
        self.candidates.clear();
        for at in 0..bytes.len().saturating_sub(1) {
            self.consider(bytes, at, at + 2);
        }
        let mut tokens = bytes.len();
        while let Some(Reverse((token, at))) = self.candidates.pop() {
            tokens -= usize::from(self.apply(bytes, token, at as usize));
        }
        tokens
    }

    /// Adds the pair between two positions to the candidates, if it is a token.
    fn consider(&mut self, bytes: &[u8], from: usize, to: usize) {
        if let Some(token) = bytes.get(from..to).and_then(|pair| self.vocabulary.find(pair)) {
            self.candidates.push(Reverse((token, from as u32)));
        }
    }

    fn length(&self, at: usize) -> usize {
        self.lengths.get(at).copied().map_or(0, usize::from)
    }

    /// Merges a candidate unless it is stale: its bytes are no longer those of two whole tokens.
    fn apply(&mut self, bytes: &[u8], token: Token, at: usize) -> bool {
        let (first, merged) = (self.length(at), self.vocabulary.length(token));
        let second = self.length(at + first);
        if first == 0 || second == 0 || first + second != merged {
            return false;
        }
        let end = at + merged;
        for (at, length) in [(at, merged), (at + first, 0)] {
            if let Some(kept) = self.lengths.get_mut(at) {
                *kept = length as u8;
            }
        }
        if let Some(before) = self.before.get_mut(end) {
            *before = merged as u8;
            self.consider(bytes, at, end + self.length(end));
        }
        if at > 0 {
            let before = self.before.get(at).copied().map_or(0, usize::from);
            self.consider(bytes, at - before, end);
        }
        true
    }

    fn count_long(&mut self, piece: &[u8]) -> usize {
        let mut seam = Merger::new(self.vocabulary);
        // Lengths of the tokens before `done`.
        let mut tokens: Vec<u8> = Vec::new();
        let mut done = 0;
        while done < piece.len() {
            let end = piece.len().min(done + WINDOW);
            let mut again = OVERLAP;
            loop {
                let keep = tokens.len().saturating_sub(again);
                let overlap: usize = tokens.iter().skip(keep).copied().map(usize::from).sum();
                let start = done - overlap;
                self.merge(piece.get(start..end).unwrap_or_default());
                let left = keep.checked_sub(1).and_then(|last| tokens.get(last)).copied().map(usize::from);
                let holds = left.is_none_or(|left| {
                    let pair = piece.get(start - left..start + self.length(0)).unwrap_or_default();
                    seam.merge(pair) == 2 && seam.length(0) == left
                });
                if holds {
                    tokens.truncate(keep);
                    tokens.extend(self.lengths.iter().filter(|length| **length > 0));
                    break;
                }
                // Grows geometrically, so that the worst piece is encoded again only a logarithmic number of times.
                again *= 4;
            }
            done = end;
        }
        tokens.len()
    }
}

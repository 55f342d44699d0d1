//! The current request: what changed since the last one, its tokens, the part in the provider's cache, and the
//! references it shows.
//!
//! Most requests only grow at their end. The request is kept as one list that rules truncate and extend, so that a call
//! is O(changed content), not O(session).

use std::collections::BTreeMap;

use plimsoll::Millis;

use crate::recording::{Piece, Pieces};

/// How a request shows a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visibility {
    /// With its surroundings, or in text that no reduction wrote.
    WithSurroundings,
    /// Only by its name: in a list, an index or a summary.
    ByName,
    /// Only in the result of a recall.
    Recalled,
    /// Not at all.
    Missing,
}

/// Number of pieces of a request that show a reference.
#[derive(Clone, Copy, Default)]
struct ShownCount {
    surrounded: u32,
    named: u32,
    recalled: u32,
}

/// The newest request in the cache of a model, compared with the current one.
struct SentRequest {
    /// Number of pieces in the common prefix.
    same: usize,
    /// The next piece of the sent request, if it differs now.
    next: Option<Piece>,
    at: Option<Millis>,
    scale: f64,
}

/// The common prefix with the previous request to the same model.
pub(crate) struct CachedPart {
    /// Time of the previous request.
    pub(crate) at: Option<Millis>,
    /// Scale of its tokens.
    pub(crate) scale: f64,
    /// Tokens of the common prefix as a provider charges them, unscaled.
    pub(crate) charged: u64,
}

/// The current request, and what is cached of previous ones.
pub(crate) struct Request {
    pieces: Vec<Piece>,
    /// For each piece, the tokens up to its end as a provider charges them and as rules count them.
    charged: Vec<u64>,
    counted: Vec<u64>,
    shown: Vec<ShownCount>,
    caches: BTreeMap<String, SentRequest>,
}

impl Request {
    pub(crate) fn new(references: usize) -> Request {
        Request {
            pieces: Vec::new(),
            charged: Vec::new(),
            counted: Vec::new(),
            shown: vec![ShownCount::default(); references],
            caches: BTreeMap::new(),
        }
    }

    /// Returns the number of pieces.
    pub(crate) fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Returns the pieces from an index on.
    pub(crate) fn from(&self, place: usize) -> &[Piece] {
        &self.pieces[place.min(self.pieces.len())..]
    }

    /// Returns the tokens that a provider charges for the request.
    pub(crate) fn charged(&self) -> u64 {
        self.charged.last().copied().unwrap_or_default()
    }

    /// Returns the tokens of the request as rules count them.
    pub(crate) fn counted(&self) -> u64 {
        self.counted.last().copied().unwrap_or_default()
    }

    /// Truncates the request to its first `count` pieces.
    pub(crate) fn keep(&mut self, count: usize, pieces: &Pieces<'_>) {
        let Some(first) = self.pieces.get(count).copied() else { return };
        for cached in self.caches.values_mut().filter(|cached| count < cached.same) {
            (cached.same, cached.next) = (count, Some(first));
        }
        for piece in self.pieces.drain(count..) {
            count_references(&mut self.shown, piece, pieces, |shown| *shown = shown.saturating_sub(1));
        }
        self.charged.truncate(count);
        self.counted.truncate(count);
    }

    /// Adds a piece at the end.
    pub(crate) fn push(&mut self, piece: Piece, pieces: &Pieces<'_>) {
        count_references(&mut self.shown, piece, pieces, |shown| *shown += 1);
        self.charged.push(self.charged().saturating_add(pieces.charged(piece)));
        self.counted.push(self.counted().saturating_add(pieces.tokens(piece)));
        self.pieces.push(piece);
    }

    /// Adds pieces at the end.
    pub(crate) fn extend(&mut self, more: &[Piece], pieces: &Pieces<'_>) {
        more.iter().for_each(|piece| self.push(*piece, pieces));
    }

    /// Replaces the pieces. The common prefix costs nothing.
    pub(crate) fn become_list(&mut self, now: &[Piece], pieces: &Pieces<'_>) {
        let same = common(&self.pieces, now);
        self.keep(same, pieces);
        self.extend(&now[same..], pieces);
    }

    /// Returns how the request shows a reference.
    pub(crate) fn visibility(&self, reference: u32) -> Visibility {
        match self.shown[reference as usize] {
            ShownCount { surrounded: 1.., .. } => Visibility::WithSurroundings,
            ShownCount { named: 1.., .. } => Visibility::ByName,
            ShownCount { recalled: 1.., .. } => Visibility::Recalled,
            _ => Visibility::Missing,
        }
    }

    /// Returns all references that the request shows.
    pub(crate) fn references(&self) -> impl Iterator<Item = u32> {
        (0..self.shown.len() as u32).filter(|reference| self.visibility(*reference) != Visibility::Missing)
    }

    /// Records that the request was sent to a model, whose cache contains it from now on.
    pub(crate) fn sent(&mut self, model: &str, at: Option<Millis>, scale: f64) {
        let cached = SentRequest { same: self.pieces.len(), next: None, at, scale };
        match self.caches.get_mut(model) {
            Some(newest) => *newest = cached,
            None => drop(self.caches.insert(model.to_owned(), cached)),
        }
    }

    /// Returns the common prefix with the previous request to a model.
    pub(crate) fn cached(&self, model: &str, pieces: &Pieces<'_>) -> Option<CachedPart> {
        let SentRequest { same, next, at, scale } = self.caches.get(model)?;
        let same = (*same).min(self.pieces.len());
        let partly = partly(*next, self.pieces.get(same).copied(), pieces);
        Some(CachedPart { at: *at, scale: *scale, charged: self.charged_to(same).saturating_add(partly) })
    }

    /// Like [`cached`](Request::cached), for another request with these pieces.
    pub(crate) fn cached_of(&self, list: &[Piece], model: &str, pieces: &Pieces<'_>) -> Option<CachedPart> {
        let SentRequest { same, next, at, scale } = self.caches.get(model)?;
        let sent = &self.pieces[..(*same).min(self.pieces.len())];
        let same = common(sent, list);
        let next = if same < sent.len() { Some(sent[same]) } else { *next };
        let partly = partly(next, list.get(same).copied(), pieces);
        Some(CachedPart { at: *at, scale: *scale, charged: self.charged_to(same).saturating_add(partly) })
    }

    fn charged_to(&self, count: usize) -> u64 {
        count.checked_sub(1).and_then(|last| self.charged.get(last)).copied().unwrap_or_default()
    }
}

/// Returns the length of the common prefix of two lists.
fn common(one: &[Piece], other: &[Piece]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

/// Returns the tokens of the common prefix of two different pieces.
fn partly(before: Option<Piece>, now: Option<Piece>, pieces: &Pieces<'_>) -> u64 {
    match (before, now) {
        (Some(before), Some(now)) => pieces.common(before, now),
        _ => 0,
    }
}

fn count_references(shown: &mut [ShownCount], piece: Piece, pieces: &Pieces<'_>, change: impl Fn(&mut u32)) {
    let is_recalled = pieces.is_recalled(piece);
    for held in pieces.held(piece) {
        let shown = &mut shown[held.reference as usize];
        change(match held.is_surrounded {
            _ if is_recalled => &mut shown.recalled,
            true => &mut shown.surrounded,
            false => &mut shown.named,
        });
    }
}

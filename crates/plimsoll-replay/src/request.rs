//! The request as it is built, call by call: what changed since the last one, what it weighs, what the provider's cache holds
//! of it, and which references it shows.
//!
//! A request mostly grows at its end. It is kept as one list that rules cut and extend, so that a call costs what changed and
//! not what the session is long.

use std::collections::BTreeMap;

use plimsoll::Millis;

use crate::recording::{Piece, Pieces};

/// How a request shows a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Together with what stood around it, or in words that no reduction wrote.
    WithSurroundings,
    /// Only by its name: in a list, an index or a summary.
    ByName,
    /// Only in what a recall has brought back.
    Recalled,
    /// Not at all.
    Missing,
}

/// How many pieces of a request show a reference.
#[derive(Clone, Copy, Default)]
struct Shown {
    surrounded: u32,
    named: u32,
    recalled: u32,
}

/// What the cache of one model holds of the newest request that was sent to it.
struct Cached {
    /// Pieces from the beginning that are still the same.
    same: usize,
    /// The piece that came next in the request that was sent, if it is another one now.
    next: Option<Piece>,
    at: Option<Millis>,
    scale: f64,
}

/// What of a request is the same as in the one that was sent to its model before.
pub(crate) struct CachedPart {
    /// When that was sent.
    pub(crate) at: Option<Millis>,
    /// The scale of its tokens.
    pub(crate) scale: f64,
    /// Tokens of the part that is the same, as a provider counts them, unscaled.
    pub(crate) charged: u64,
}

/// The newest request, and what is known of the one before it.
pub(crate) struct Request {
    pieces: Vec<Piece>,
    /// For each piece, what a provider charges and what rules count up to its end.
    charged: Vec<u64>,
    counted: Vec<u64>,
    shown: Vec<Shown>,
    caches: BTreeMap<String, Cached>,
}

impl Request {
    pub(crate) fn new(references: usize) -> Request {
        Request {
            pieces: Vec::new(),
            charged: Vec::new(),
            counted: Vec::new(),
            shown: vec![Shown::default(); references],
            caches: BTreeMap::new(),
        }
    }

    /// The number of pieces.
    pub(crate) fn len(&self) -> usize {
        self.pieces.len()
    }

    /// The pieces from that place on.
    pub(crate) fn from(&self, place: usize) -> &[Piece] {
        &self.pieces[place.min(self.pieces.len())..]
    }

    /// What a provider charges for all pieces.
    pub(crate) fn charged(&self) -> u64 {
        self.charged.last().copied().unwrap_or_default()
    }

    /// What all pieces weigh to rules.
    pub(crate) fn counted(&self) -> u64 {
        self.counted.last().copied().unwrap_or_default()
    }

    /// Cuts the request to its first `count` pieces.
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

    /// Makes this the request of those pieces; costs nothing for what stays the same at its beginning.
    pub(crate) fn become_list(&mut self, now: &[Piece], pieces: &Pieces<'_>) {
        let same = common(&self.pieces, now);
        self.keep(same, pieces);
        self.extend(&now[same..], pieces);
    }

    /// How the request shows a reference.
    pub(crate) fn found(&self, reference: u32) -> Found {
        match self.shown[reference as usize] {
            Shown { surrounded: 1.., .. } => Found::WithSurroundings,
            Shown { named: 1.., .. } => Found::ByName,
            Shown { recalled: 1.., .. } => Found::Recalled,
            _ => Found::Missing,
        }
    }

    /// The references that the request shows, in whatever way.
    pub(crate) fn references(&self) -> impl Iterator<Item = u32> {
        (0..self.shown.len() as u32).filter(|reference| self.found(*reference) != Found::Missing)
    }

    /// Notes that the request was sent to a model, whose cache holds it from now on.
    pub(crate) fn sent(&mut self, model: &str, at: Option<Millis>, scale: f64) {
        let cached = Cached { same: self.pieces.len(), next: None, at, scale };
        match self.caches.get_mut(model) {
            Some(newest) => *newest = cached,
            None => drop(self.caches.insert(model.to_owned(), cached)),
        }
    }

    /// What of the request is the same as in the one that was sent to a model before.
    pub(crate) fn cached(&self, model: &str, pieces: &Pieces<'_>) -> Option<CachedPart> {
        let Cached { same, next, at, scale } = self.caches.get(model)?;
        let same = (*same).min(self.pieces.len());
        let partly = partly(*next, self.pieces.get(same).copied(), pieces);
        Some(CachedPart { at: *at, scale: *scale, charged: self.charged_to(same).saturating_add(partly) })
    }

    /// Like [`cached`](Request::cached), for another request with those pieces.
    pub(crate) fn cached_of(&self, list: &[Piece], model: &str, pieces: &Pieces<'_>) -> Option<CachedPart> {
        let Cached { same, next, at, scale } = self.caches.get(model)?;
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

/// How many pieces two lists have in common from their beginning on.
fn common(one: &[Piece], other: &[Piece]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

/// What the beginnings of two different pieces have in common.
fn partly(before: Option<Piece>, now: Option<Piece>, pieces: &Pieces<'_>) -> u64 {
    match (before, now) {
        (Some(before), Some(now)) => pieces.common(before, now),
        _ => 0,
    }
}

fn count_references(shown: &mut [Shown], piece: Piece, pieces: &Pieces<'_>, change: impl Fn(&mut u32)) {
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

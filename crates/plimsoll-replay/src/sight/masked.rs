//! The whole history, with old results replaced by a placeholder.

use plimsoll::{Text, Usage};
use plimsoll_session::SessionError;

use super::{Noted, Sight};
use crate::billing::Billing;
use crate::recording::{Call, Layout, Piece, Pieces, Recording, Step};
use crate::report::Reduction;
use crate::request::Request;

/// Stands for a result that is no longer shown.
const PLACEHOLDER: &str = "[earlier tool result removed]";

/// Which results are replaced.
#[derive(Clone, Copy)]
pub(super) struct Mask {
    /// Only in requests of more tokens than this, as the provider counts them.
    pub(super) trigger: Option<u64>,
    /// All but so many of the newest,
    pub(super) keep: usize,
    /// decided anew whenever so many have come.
    pub(super) polling: usize,
}

pub(super) struct Masked<'a> {
    mask: Option<Mask>,
    billing: Billing<'a>,
    layout: &'a Layout,
    /// How many messages there are by now.
    appended: usize,
    /// How many pieces of the layout the request covers.
    covered: usize,
    /// Where in the request each result begins that it covers.
    placed: Vec<usize>,
    placeholder: Piece,
    /// How many of the oldest results are replaced.
    replaced: usize,
    fired: Vec<Noted>,
}

impl<'a> Masked<'a> {
    pub(super) fn new(
        recording: &'a Recording,
        mask: Option<Mask>,
        billing: Billing<'a>,
        pieces: &mut Pieces<'_>,
    ) -> Masked<'a> {
        Masked {
            mask,
            billing,
            layout: recording.layout(),
            appended: 0,
            covered: 0,
            placed: Vec::new(),
            placeholder: pieces.result(&Text::from(PLACEHOLDER)),
            replaced: 0,
            fired: Vec::new(),
        }
    }

    /// How many of the oldest results are to be replaced.
    fn decide(&self, call: &Call) -> usize {
        let Some(Mask { trigger, keep, polling }) = self.mask else { return 0 };
        let end = self.layout.ends[self.appended];
        // The provider itself decides, and it counts what it charges for.
        let is_over = |trigger| self.billing.tokens(self.layout.charged_to(end), call) > trigger;
        let results = self.layout.results.partition_point(|result| result.start < end);
        let decided = results - results % polling.max(1);
        let replaced = if trigger.is_none_or(is_over) { decided.saturating_sub(keep) } else { 0 };
        replaced.max(self.replaced)
    }

    /// Make the request cover all messages that there are.
    fn cover(&mut self, request: &mut Request, pieces: &Pieces<'_>) {
        let Layout { pieces: all, results, ends, .. } = self.layout;
        let end = ends[self.appended];
        while self.covered < end {
            let next = results.get(self.placed.len()).filter(|result| result.start < end);
            let until = next.map_or(end, |result| result.start);
            request.extend(&all[self.covered..until], pieces);
            self.covered = until;
            if let Some(result) = next {
                let is_replaced = self.placed.len() < self.replaced;
                self.placed.push(request.len());
                match is_replaced {
                    true => request.push(self.placeholder, pieces),
                    false => request.extend(&all[result.clone()], pieces),
                }
                self.covered = result.end;
            }
        }
    }
}

impl Sight for Masked<'_> {
    fn append(&mut self, _: &Step, _: Option<Usage>) -> Result<(), SessionError> {
        self.appended += 1;
        Ok(())
    }

    fn prepare(
        &mut self,
        call: &Call,
        _: bool,
        request: &mut Request,
        pieces: &mut Pieces<'_>,
    ) -> Result<(), SessionError> {
        self.cover(request, pieces);
        let replaced = self.decide(call);
        if replaced <= self.replaced {
            return Ok(());
        }
        let before = self.billing.tokens(request.charged(), call);
        let first = std::mem::replace(&mut self.replaced, replaced);
        request.keep(self.placed[first], pieces);
        self.covered = self.layout.results[first].start;
        self.placed.truncate(first);
        self.cover(request, pieces);
        let after = self.billing.tokens(request.charged(), call);
        let kind = if self.mask.is_some_and(|mask| mask.trigger.is_some()) { "clear" } else { "mask" };
        self.fired.push(Reduction { kind: kind.to_owned(), before, after, ..Reduction::default() }.into());
        Ok(())
    }

    fn fired(&mut self) -> Vec<Noted> {
        std::mem::take(&mut self.fired)
    }
}

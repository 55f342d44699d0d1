//! The whole history, with old results replaced by a placeholder.

use plimsoll::{Text, Usage};
use plimsoll_session::SessionError;

use super::{CostedReduction, PolicySimulator};
use crate::billing::Billing;
use crate::recording::{Layout, ModelCall, Piece, Pieces, RecordedMessage, Recording};
use crate::report::Reduction;
use crate::request::Request;

/// Replaces a result that is no longer shown.
const PLACEHOLDER: &str = "[earlier tool result removed]";

/// Which results are replaced.
#[derive(Clone, Copy)]
pub(super) struct Mask {
    /// Tokens of a request, as the provider counts them, above which results are replaced; `None` for always.
    pub(super) trigger: Option<u64>,
    /// Number of the newest results that stay.
    pub(super) keep: usize,
    /// Number of results after which the mask moves.
    pub(super) polling: usize,
}

pub(super) struct MaskSimulator<'a> {
    mask: Option<Mask>,
    billing: Billing<'a>,
    layout: &'a Layout,
    /// Number of messages so far.
    appended: usize,
    /// Number of pieces of the layout in the request.
    covered: usize,
    /// Index in the request where each of its results begins.
    placed: Vec<usize>,
    placeholder: Piece,
    /// Number of the oldest results that are replaced.
    replaced: usize,
    fired: Vec<CostedReduction>,
}

impl<'a> MaskSimulator<'a> {
    pub(super) fn new(
        recording: &'a Recording,
        mask: Option<Mask>,
        billing: Billing<'a>,
        pieces: &mut Pieces<'_>,
    ) -> MaskSimulator<'a> {
        MaskSimulator {
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

    /// Returns how many of the oldest results to replace.
    fn decide(&self, call: &ModelCall) -> usize {
        let Some(Mask { trigger, keep, polling }) = self.mask else { return 0 };
        let end = self.layout.ends[self.appended];
        // The provider decides by the tokens that it charges.
        let is_over = |trigger| self.billing.tokens(self.layout.charged_to(end), call) > trigger;
        let results = self.layout.results.partition_point(|result| result.start < end);
        let decided = results - results % polling.max(1);
        let replaced = if trigger.is_none_or(is_over) { decided.saturating_sub(keep) } else { 0 };
        // A replaced result stays replaced: showing it again would change the beginning of the request.
        replaced.max(self.replaced)
    }

    /// Extends the request to all messages so far.
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

impl PolicySimulator for MaskSimulator<'_> {
    fn append(&mut self, _: &RecordedMessage, _: Option<Usage>) -> Result<(), SessionError> {
        self.appended += 1;
        Ok(())
    }

    fn prepare(
        &mut self,
        call: &ModelCall,
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

    fn fired(&mut self) -> Vec<CostedReduction> {
        std::mem::take(&mut self.fired)
    }
}

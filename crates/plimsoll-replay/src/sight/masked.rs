//! The whole history, with old results replaced by a placeholder.
//!
//! Appending never changes what a window showed before, so the window of the whole recording is made once, and
//! each request is its beginning.

use std::ops::Range;

use plimsoll::{Block, Message, Policy, Text, Usage, Window};

use plimsoll_session::SessionError;

use super::{Noted, Reduction, Sight};
use crate::pieces::{Piece, Pieces};
use crate::recording::{Call, Recording, Step};

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

pub(super) struct Masked {
    mask: Option<Mask>,
    fixed: u64,
    /// The pieces of the whole session; `results` and `ends` point into it.
    all: Vec<Piece>,
    /// Where results of tools stand, with the files that came with them.
    results: Vec<Range<usize>>,
    /// How many pieces there are before each message of the session.
    ends: Vec<usize>,
    appended: usize,
    placeholder: Piece,
    replaced: usize,
    fired: Vec<Noted>,
}

impl Masked {
    pub(super) fn new(
        recording: &Recording,
        mask: Option<Mask>,
        fixed: u64,
        pieces: &mut Pieces<'_>,
    ) -> Masked {
        let messages: Vec<Message> = recording.steps.iter().map(|step| step.message.clone()).collect();
        let window = Window::of(&messages, &Policy::default());
        let mut masked = Masked {
            mask,
            fixed,
            all: Vec::new(),
            results: Vec::new(),
            ends: vec![0; messages.len() + 1],
            appended: 0,
            placeholder: pieces.result(&Text::from(PLACEHOLDER)),
            replaced: 0,
            fired: Vec::new(),
        };
        for message in &window.messages {
            masked.all.push(pieces.role(message.role));
            for block in &message.blocks {
                let start = masked.all.len();
                pieces.block(block, &mut masked.all);
                if matches!(block, Block::Result { .. }) {
                    masked.results.push(start..masked.all.len());
                }
            }
            // What the window itself supplies comes before the message it leads.
            if let Some(place) = message.place {
                masked.ends[place + 1] = masked.all.len();
            }
        }
        for place in 1..masked.ends.len() {
            masked.ends[place] = masked.ends[place].max(masked.ends[place - 1]);
        }
        masked
    }

    fn shown(&self) -> Vec<Piece> {
        let end = self.ends[self.appended];
        let mut request = Vec::with_capacity(end);
        let mut from = 0;
        for result in &self.results[..self.replaced] {
            request.extend_from_slice(&self.all[from..result.start]);
            request.push(self.placeholder);
            from = result.end;
        }
        request.extend_from_slice(&self.all[from..end]);
        request
    }
}

impl Sight for Masked {
    fn append(&mut self, _: &Step, _: Option<Usage>) -> Result<(), SessionError> {
        self.appended += 1;
        Ok(())
    }

    fn prepare(&mut self, _: &Call, _: bool, pieces: &mut Pieces<'_>) -> Result<(), SessionError> {
        let Some(Mask { trigger, keep, polling }) = self.mask else { return Ok(()) };
        let end = self.ends[self.appended];
        // The provider itself decides, and it counts what it charges for.
        let is_over = |trigger| pieces.charged(&self.all[..end]).saturating_add(self.fixed) > trigger;
        let results = self.results.partition_point(|result| result.start < end);
        let decided = results - results % polling.max(1);
        let replaced = if trigger.is_none_or(is_over) { decided.saturating_sub(keep) } else { 0 };
        if replaced > self.replaced {
            let before = pieces.tokens(&self.shown()).saturating_add(self.fixed);
            self.replaced = replaced;
            let after = pieces.tokens(&self.shown()).saturating_add(self.fixed);
            let kind = if trigger.is_some() { "clear" } else { "mask" }.to_owned();
            self.fired.push(Reduction { kind, before, after, ..Reduction::default() }.into());
        }
        Ok(())
    }

    fn request(&mut self, _: &mut Pieces<'_>) -> Vec<Piece> {
        self.shown()
    }

    fn fired(&mut self) -> Vec<Noted> {
        std::mem::take(&mut self.fired)
    }
}
